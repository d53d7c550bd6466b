"""Loops on the host: how a thread finds that it has gone round long enough, and has to look up.

Each thread counts down, in a register, the turns that it may take before it looks up. Then it sees whether it is to
stop, because the launch is over or has made no progress for too long, and how much fuel is left. A loop that may wait
for what another thread writes lets the others go on after a few turns.

Looking up costs a clock's reading, some 50 ns; counting costs a loop that does next to nothing about a cycle a turn.
Of a loop whose number of turns is known when it begins all are counted there, so that it may become vectors.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from llvmlite import ir as llvm

from kaio import host_abi as abi
from kaio.dsl.compiler.emission.declared import call, own_function
from kaio.dsl.compiler.host.host_context import I1, I32, I64, POINTER, field_of
from kaio.program import Site

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter
    from kaio.dsl.compiler.host.host_threads import Thread

__all__ = ["Turns", "note_progress"]

_FEW = 4  # turns of a loop that waits: as long as another worker may take for the update that it waits for
_PAUSES = 64  # pauses of a block between two readings of the clock
_MONOTONIC = 6 if sys.platform == "darwin" else 1
_SELDOM = "noinline", "cold"
_OFTEN = 1 << 20  # the weight of the way that goes on


class Turns:
    """The turns that the thread being built may take before it looks up.

    In registers: `count` until it does, `rest` of its fuel beyond, and `patience`, turns of loops that wait.
    """

    def __init__(self, thread: Thread) -> None:
        self._thread = thread
        self._registers: dict[str, llvm.Value] = {}

    def go_round(self, e: Emitter, site: Site, spins: bool) -> None:
        """A loop goes back to its head; one that `spins` pauses, so that the others come to do what it waits for."""
        self.count_one(e, site)
        if spins:
            self.pause(e, site)

    def count_one(self, e: Emitter, site: Site) -> None:
        """One turn less is left."""
        b, count = e.b, self._register("count", I32, abi.SLICE)
        left = b.sub(b.load(count), I32(1))
        b.store(left, count)
        with _seldom(e, b.icmp_unsigned("==", left, I32(0))):
            self._look_up(e, site, b.load(self._rest))

    def strip_goes_round(self, b: llvm.IRBuilder, context: llvm.Value, number: llvm.Value, site: Site) -> llvm.Value:
        """Whether threads that go round side by side, of which this is the first, may do so."""
        look_up = _look_up(self._thread)
        turns = b.call(look_up, [context, number, I32(self._thread.sites.number(site)), I64(abi.MOST_TURNS)])
        return b.icmp_unsigned("!=", turns, I32(0))

    def take(self, e: Emitter, site: Site, turns: llvm.Value) -> None:
        """A loop begins that has so many turns (i32 or i64, unsigned)."""
        b, count = e.b, self._register("count", I32, abi.SLICE)
        have = b.load(count)
        wide = turns if turns.type == I64 else b.zext(turns, I64)
        fits = b.icmp_unsigned("<", turns, have) if turns.type == I32 else b.icmp_unsigned("<", wide, b.zext(have, I64))
        with b.if_else(fits, likely=True) as (enough, dry):
            with enough:
                b.store(b.sub(have, b.trunc(wide, I32)), count)
            with dry:
                self._look_up(e, site, b.sub(b.add(b.load(self._rest), b.zext(have, I64)), wide))

    @property
    def _rest(self) -> llvm.Value:
        return self._register("rest", I64, abi.FUEL)

    def _register(self, name: str, kind: llvm.Type, start: int | llvm.Constant) -> llvm.Value:
        """A variable that LLVM keeps in a register, set in the function's entry."""
        if name not in self._registers:
            b = self._thread.b
            with b.goto_entry_block():
                register = self._registers[name] = b.alloca(kind, name=f"turns.{name}")
                first = b.load(field_of(b, self._thread.context, start, kind)) if isinstance(start, int) else start
                b.store(first, register)
        return self._registers[name]

    def _look_up(self, e: Emitter, site: Site, rest: llvm.Value) -> None:
        """Leave, or go on with new turns out of the rest."""
        b, thread = e.b, self._thread
        number = I32(thread.sites.number(site))
        turns = b.call(_look_up(thread), [thread.context, thread.thread, number, rest])
        with thread.unless(e, b.icmp_unsigned("!=", turns, I32(0))):
            thread.abandon(e)
        b.store(turns, self._registers["count"])
        b.store(b.sub(rest, b.zext(turns, I64)), self._rest)

    def pause(self, e: Emitter, site: Site) -> None:
        """Let the others go on, after a few turns."""
        b, thread, patience = e.b, self._thread, self._register("patience", I32, I32(_FEW))
        left = b.sub(b.load(patience), I32(1))
        b.store(left, patience)
        with _seldom(e, b.icmp_unsigned("==", left, I32(0))):
            b.store(I32(_FEW), patience)
            number = I32(thread.sites.number(site))
            goes_on = b.call(_look_round(thread), [thread.context, thread.thread, number])
            with thread.unless(e, goes_on):
                thread.abandon(e)
            thread.wait_at(e, site)


@contextmanager
def _seldom(e: Emitter, condition: llvm.Value) -> Iterator[None]:
    """What is emitted within runs where a condition holds, which it seldom does."""
    then, after = e.block("seldom"), e.block("usual")
    e.b.cbranch(condition, then, after).set_weights([1, _OFTEN])
    e.b.position_at_end(then)
    yield
    e.b.branch(after)
    e.b.position_at_end(after)


# ------------------------------------------------------------------ what the functions of a thread call
def _look_up(thread: Thread) -> llvm.Function:
    """`look_up(context, thread, site, rest)`: the turns that the thread gets, 0 where it has to leave."""

    def fill(b: llvm.IRBuilder, context: llvm.Value, number: llvm.Value, site: llvm.Value, rest: llvm.Value) -> None:
        with b.if_then(b.icmp_signed("<=", rest, I64(0))):
            _record(b, context, number, site, I32(abi.DRY))
            b.ret(I32(0))
        goes_on = b.call(_poll(thread), [context, number, site])
        turns = b.trunc(call(b, "llvm.umin.i64", I64, [rest, I64(abi.MOST_TURNS)]), I32)
        b.ret(b.select(goes_on, turns, I32(0)))

    return own_function(thread.module, "look_up", I32, [POINTER, I32, I32, I64], fill, *_SELDOM)


def _look_round(thread: Thread) -> llvm.Function:
    """`look_round(context, thread, site)`: whether a thread that pauses goes on; now and then it asks."""

    def fill(b: llvm.IRBuilder, context: llvm.Value, number: llvm.Value, site: llvm.Value) -> None:
        place = field_of(b, context, abi.PAUSES, I32)
        count = b.add(b.load(place), I32(1))
        b.store(count, place)
        with b.if_then(b.icmp_unsigned("!=", b.and_(count, I32(_PAUSES - 1)), I32(0)), likely=True):
            b.ret(I1(1))
        b.ret(b.call(_poll(thread), [context, number, site]))

    return own_function(thread.module, "look_round", I1, [POINTER, I32, I32], fill, *_SELDOM)


def _poll(thread: Thread) -> llvm.Function:
    """`poll(context, thread, site)`: false where the thread has to leave, and then why is recorded.

    It has to where the launch is to stop, and where no worker has made progress for too long.
    """
    fill = partial(_emit_poll, notes_threads=not thread.spins)
    return own_function(thread.module, "poll", I1, [POINTER, I32, I32], fill, *_SELDOM)


def _emit_poll(
    b: llvm.IRBuilder, context: llvm.Value, number: llvm.Value, site: llvm.Value, *, notes_threads: bool
) -> None:
    control = b.load(field_of(b, context, abi.CONTROL, POINTER))
    stop = b.load_atomic(field_of(b, control, abi.STOP, I64), "monotonic", 8)
    if notes_threads:
        _note_thread(b, context, number)
    progress, now = _sum_of_progress(b, control), _time_ns(b)
    seen, since = (field_of(b, context, offset, I64) for offset in (abi.SEEN, abi.SINCE))
    with b.if_then(b.icmp_unsigned("!=", progress, b.load(seen))):
        b.store(progress, seen)
        b.store(now, since)
    limit = b.load(field_of(b, control, abi.TIMEOUT_NS, I64))
    # Of a launch that fails elsewhere, what is waited for may never come.
    soon = call(b, "llvm.smin.i64", I64, [limit, I64(abi.SOON_NS)])
    is_running = b.icmp_signed("==", stop, I64(abi.RUNNING))
    is_late = b.icmp_signed(">", b.sub(now, b.load(since)), b.select(is_running, limit, soon))
    leaves = b.or_(is_late, b.icmp_signed(">=", stop, I64(abi.ENDING)))
    with b.if_then(leaves, likely=False):
        _record(b, context, number, site, b.select(is_running, I32(abi.ENDLESS), I32(abi.STOPPED)))
        b.store_atomic(I64(abi.ENDING), field_of(b, control, abi.STOP, I64), "monotonic", 8)
    b.ret(b.not_(leaves))


def _note_thread(b: llvm.IRBuilder, context: llvm.Value, thread: llvm.Value) -> None:
    """Threads run one after the other: another one than before means that the last has returned or waits."""
    last = field_of(b, context, abi.LAST_THREAD, I32)
    with b.if_then(b.icmp_unsigned("!=", b.load(last), thread)):
        b.store(thread, last)
        note_progress(b, context)


def note_progress(b: llvm.IRBuilder, context: llvm.Value) -> None:
    """A thread has returned, or has come to where it waits for others."""
    progress = b.load(field_of(b, context, abi.PROGRESS, I64.as_pointer()))
    b.store(b.add(b.load(progress), I64(1)), progress)


def _sum_of_progress(b: llvm.IRBuilder, control: llvm.Value) -> llvm.Value:
    """What all workers of the launch have noted: another sum than before is progress."""
    before = b.block
    workers = b.load(field_of(b, control, abi.WORKERS, I64))
    head, done = b.append_basic_block("worker"), b.append_basic_block("summed")
    b.branch(head)
    b.position_at_end(head)
    worker, total = b.phi(I64, "worker"), b.phi(I64, "total")
    own = b.gep(control, [b.add(I64(abi.FIRST_PROGRESS), b.mul(worker, I64(abi.PROGRESS_STRIDE)))])
    later = b.add(total, b.load_atomic(b.bitcast(own, I64.as_pointer()), "monotonic", 8))
    following = b.add(worker, I64(1))
    for phi, step in ((worker, following), (total, later)):
        phi.add_incoming(I64(0), before)
        phi.add_incoming(step, head)
    b.cbranch(b.icmp_unsigned("<", following, workers), head, done)
    b.position_at_end(done)
    return later


def _time_ns(b: llvm.IRBuilder) -> llvm.Value:
    """A clock that only goes forward, in nanoseconds (on Windows in cycles of the processor)."""
    if sys.platform == "win32":
        return call(b, "llvm.readcyclecounter", I64, [])
    now = b.alloca(llvm.ArrayType(I64, 2))  # a `struct timespec`: seconds and nanoseconds
    call(b, "clock_gettime", I32, [I32(_MONOTONIC), now])
    seconds, rest = (b.load(b.gep(now, [I32(0), I32(k)])) for k in range(2))
    return b.add(b.mul(seconds, I64(1_000_000_000)), rest)


def _record(b: llvm.IRBuilder, context: llvm.Value, thread: llvm.Value, site: llvm.Value, kind: llvm.Value) -> None:
    """Keep the first fault of the block."""
    flag = field_of(b, context, abi.FAULT, I32)
    with b.if_then(b.icmp_unsigned("==", b.load(flag), I32(0))):
        for value, offset in ((kind, abi.FAULT), (thread, abi.FAULT_THREAD), (site, abi.FAULT_SITE)):
            b.store(value, field_of(b, context, offset, I32))
