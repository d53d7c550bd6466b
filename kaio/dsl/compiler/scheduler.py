"""The block scheduler of the CPU device, written in kaio's own language and compiled once for this machine.

A worker takes chunks of blocks from a counter that all workers share. In a block whose threads may wait, it starts them
all, then resumes those that wait at a barrier once every thread that has not returned is there.
"""

# mypy: disable-error-code="arg-type, assignment, no-untyped-call, no-untyped-def"
# (Kernel functions: an int literal becomes an i32, and device functions take their arguments' types.)

from __future__ import annotations

import functools
import hashlib
import threading
from pathlib import Path
from typing import Any

from llvmlite import ir as llvm

from kaio import host_abi as abi
from kaio.dsl.atomic import atomic_add
from kaio.dsl.intrinsic import Resolved, intrinsic
from kaio.dsl.types import D2, In, InOut
from kaio.dsl.values import NONE
from kaio.dtypes import i32, i64

__all__ = ["scheduler_object"]

# Positions in the block context, counted in i32 and in i64.
_BLOCK, _THREADS, _BLOCK_IDX, _GRID_DIM = abi.BLOCK // 8, abi.THREADS // 4, abi.BLOCK_IDX // 4, abi.GRID_DIM // 4
_FAULT, _FAULT_THREAD, _FAULT_OTHER = abi.FAULT // 4, abi.FAULT_THREAD // 4, abi.FAULT_OTHER // 4
_STATE, _DIVERGED, _WENT_ROUND = abi.STATE, abi.DIVERGED, abi.WENT_ROUND
_LOCK = threading.Lock()


def _call_native(e: Any, call: Any, address: Any, context: Any, first: Any, stop: Any, state: Any) -> None:
    pointer, integer = llvm.IntType(8).as_pointer(), llvm.IntType(32)
    kind = llvm.FunctionType(llvm.VoidType(), [pointer, integer, integer, integer])
    e.b.call(e.b.inttoptr(address, kind.as_pointer()), [e.b.inttoptr(context, pointer), first, stop, state])


@intrinsic(lambda *_: Resolved((i64, i64, i32, i32, i32), NONE), host=_call_native)
def native(address: i64, context: i64, first: i32, stop: i32, state: i32) -> None:
    """Call `k_plain`, `k_start` or `k_run` of a kernel."""


def worker(
    context: i64,
    c: InOut[i32],
    q: InOut[i64],
    words: InOut[i32, D2],
    kinds: In[i32],
    reach: In[i64],
    start: i64,
    run: i64,
    waits: i32,
    blocks: i64,
    chunk: i64,
    counter: InOut[i64],
) -> None:
    """Run blocks until there are none left, or one faulted. `counter` is the next block, and whether to stop.

    Blocks are handed out in order and a chunk that was taken is run to its first fault, so the lowest block that faults
    is always reached, by whichever worker.
    """
    while counter[1] == 0:
        block = atomic_add(counter, 0, chunk)
        if block >= blocks:
            return
        stop = min(block + chunk, blocks)
        x = i32(block % c[_GRID_DIM])
        y = i32(block // c[_GRID_DIM] % c[_GRID_DIM + 1])
        z = i32(block // c[_GRID_DIM] // c[_GRID_DIM + 1])
        while block < stop:
            q[_BLOCK] = block
            c[_BLOCK_IDX] = x
            c[_BLOCK_IDX + 1] = y
            c[_BLOCK_IDX + 2] = z
            if waits == 0:
                native(run, context, 0, 0, 0)
            else:
                run_block(context, c, words, reach, start, run)
            if c[_FAULT] != 0:
                counter[1] = 1
                return
            block += 1
            x += 1
            if x == c[_GRID_DIM]:
                x = 0
                y += 1
                if y == c[_GRID_DIM + 1]:
                    y = 0
                    z += 1


def run_block(context, c, words, reach, start, run):
    """Run one block whose threads wait for each other, until all have returned or something is wrong."""
    threads = c[_THREADS]
    native(start, context, 0, threads, 0)
    while c[_FAULT] == 0:
        state = words[_STATE, 0]
        same = 0
        for thread in range(threads):
            same += i32(words[_STATE, thread] == state)
        if same != threads:
            state = meeting_point(c, words, reach, threads)
        if state <= 0:
            return
        native(run, context, 0, threads, state)


def meeting_point(c, words, reach, threads):
    """The barrier that the threads wait at while some have returned; 0 where none waits, or they cannot go on."""
    leader = -1
    for thread in range(threads):
        state = words[_STATE, thread]
        if state > 0:
            if leader < 0:
                leader = thread
            if state != words[_STATE, leader]:
                return report(c, _DIVERGED, leader, thread)
    if leader < 0:
        return 0
    state = words[_STATE, leader]
    for thread in range(threads):
        other = words[_STATE, thread]
        # An early return is fine. A thread that left where everyone passes who was at the barrier has gone round it.
        if other < 0 and reach[state] == i64(1) << (-1 - other):
            return report(c, _WENT_ROUND, leader, thread)
    return state


def report(c, kind, thread, other):
    """Record what is wrong, and between whom."""
    c[_FAULT] = kind
    c[_FAULT_THREAD] = thread
    c[_FAULT_OTHER] = other
    return 0


def scheduler_object() -> bytes:
    """Object code that exports ``kaio_worker``; made once per machine and version of the compiler."""
    with _LOCK:
        return _scheduler_object()


@functools.cache
def _scheduler_object() -> bytes:
    from kaio.dsl.compiler import native as machine
    from kaio.dsl.compiler.store import kept

    return kept("scheduler", f"{machine.host_key()}|{_compiler_digest()}", _compile)


def _compile() -> bytes:
    from kaio.dsl.compiler import native as machine
    from kaio.dsl.compiler.emit_host import emit_plain

    module = emit_plain(_typed(worker), "kaio_worker")
    return machine.compile_object(module.text, exported=module.exported)


def _typed(function: Any) -> Any:
    """Type a function of this file by its annotations, and those that it calls by their arguments."""
    from kaio.dsl import index as _ranges  # noqa: F401  (the records of `range` and `min`)
    from kaio.dsl import numeric  # noqa: F401
    from kaio.dsl.compiler.infer import infer
    from kaio.dsl.compiler.parse import parse
    from kaio.dsl.compiler.signature import signature
    from kaio.dsl.compiler.translate import translate
    from kaio.dsl.values import BufferType, index_type

    index = index_type(32)

    def type_callee(callee: Any, types: Any, place: Any) -> Any:
        return infer(translate(callee, parse(callee), {}).function, types, index, type_callee, {})

    source = parse(function)
    arguments = signature(function, source).specialise().arguments
    types = {a.name: a.dtype if a.ndim is None else BufferType(a.dtype, a.ndim, a.access, index) for a in arguments}
    return infer(translate(function, source, {}).function, types, index, type_callee, {})


def _compiler_digest() -> str:
    """What the object depends on beside the machine: all of kaio's compiler."""
    digest = hashlib.sha256()
    for path in (Path(abi.__file__), *sorted(Path(__file__).parents[1].rglob("*.py"))):
        digest.update(path.read_bytes())
    return digest.hexdigest()
