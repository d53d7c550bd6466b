"""Typed IR to LLVM for this machine: one function per kernel, in which a barrier is a suspension and a fault a branch.

A kernel in which a thread may wait becomes a coroutine, one frame per thread, that `k_start` and `k_run` start and
resume; or it is split at its barriers (`fission`) where all threads come to each of them. Every other kernel is inlined
into loops over the threads of a block (`k_plain`), which LLVM vectorises; there a second, unguarded copy of the body
runs in the blocks for which `prove` shows, at run time, that no check can fail.
The layout that this code shares with the scheduler and the runtime is in `kaio/host_abi.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

from llvmlite import ir as llvm

from kaio.dsl.compiler import ir
from kaio.dsl.compiler.emission.access import Access
from kaio.dsl.compiler.emission.arguments import argument_values
from kaio.dsl.compiler.emission.checks import Sites
from kaio.dsl.compiler.emission.emit import Emitter
from kaio.dsl.compiler.emission.notes import Notes
from kaio.dsl.compiler.emission.orders import Orders
from kaio.dsl.compiler.host.host_body import Body
from kaio.dsl.compiler.host.host_context import POINTER, VOID, load_arguments
from kaio.dsl.compiler.host.host_drivers import emit_k_plain, emit_k_start_and_run
from kaio.dsl.compiler.host.host_threads import Thread
from kaio.dsl.compiler.host.ordering import Ordering
from kaio.dsl.compiler.host.prove import Prover
from kaio.dsl.compiler.host.shadow_alike import find_alike
from kaio.dsl.compiler.host.split_body import SplitBody
from kaio.dsl.compiler.straight import straight
from kaio.print_abi import Line
from kaio.program import Alike, Build, DynamicArray, PlacedArray, Site
from kaio.trace_abi import Watched

__all__ = ["HostModule", "emit_host", "emit_plain", "finished"]

_LIBDEVICE = "__nv_"


@dataclass(frozen=True)
class HostModule:
    """The LLVM text of one kernel, the functions it exports, its sites, and what it needs.

    libdevice: the functions of libdevice that it calls
    waits: whether a thread may wait for others, and the kernel is a coroutine
    proved: how many checks and how many guards the proof takes over
    watched: what it calls back with, of a kernel that is watched
    shared, local: the arrays of known shape
    granule, apart, orders, in_part, alike: see `kaio.program.Shadow`
    """

    text: str = field(repr=False)
    exported: tuple[str, ...]
    sites: tuple[Site, ...]
    shared_nbytes: int
    libdevice: tuple[str, ...]
    waits: bool
    dynamic: tuple[DynamicArray, ...] = ()
    proved: tuple[int, int] = (0, 0)
    prints: tuple[Line, ...] = ()
    watched: Watched | None = None
    shared: tuple[PlacedArray, ...] = ()
    local: tuple[PlacedArray, ...] = ()
    granule: int = 0
    apart: tuple[tuple[str, ...] | None, ...] = ()
    orders: bool = False
    in_part: bool = False
    alike: Alike | None = None

    def __str__(self) -> str:
        return self.text


def emit_host(typed: ir.Typed, *, build: Build, contract: bool = True) -> HostModule:
    """Emit a kernel; `build` says what is found while it runs."""
    module = llvm.Module(typed.function.name)
    body = Body(module, typed, "body", Sites(), build=build, contract=contract)
    if body.waits:
        return _emit_waiting(body)
    if body.watching is not None:
        body.emit()
        emit_k_plain(body, None)
        return _finish(body, ("k_plain",))
    if not straight(typed) and not build.counted:
        split = _split(body, Prover())
        if split is not None:
            body.emit()
            emit_k_plain(body, split)
            return _finish(body, ("k_plain",), split)
    fast = Body(
        module, typed, "body.fast", body.sites, build=build, contract=contract, prover=Prover(),
        constants=body.constants,
    )  # fmt: skip
    fast.emit()
    assert fast.prover is not None
    if not fast.prover.is_useful:  # nothing can be proved, or there is nothing to prove: it keeps what checks it has
        emit_k_plain(fast, None)
        return _finish(fast, ("k_plain",))
    body.emit()
    emit_k_plain(body, fast)
    return _finish(body, ("k_plain",), fast)


def _emit_waiting(body: Body) -> HostModule:
    """A kernel in which threads wait for others."""
    build = body.build
    can_split = (
        build.check != "full" and not (build.stepped or build.counted) and body.watching is None and not body.spins
    )
    if can_split:
        fast = _split(body, Prover())
        if fast is not None:
            return _emit_split(fast, body)
    body.emit()
    emit_k_start_and_run(body)
    return _finish(body, ("k_start", "k_run"))


def _split(body: Body, prover: Prover | None) -> SplitBody | None:
    """The same kernel split at its barriers; None where that is not possible."""
    made = SplitBody(
        body.module, body.typed, "split.slow" if prover is None else "split.fast", body.sites, build=body.build,
        contract=body.contract, prover=prover, constants=body.constants,
    )  # fmt: skip
    return made if made.split(in_strips=prover is not None) else None


def _emit_split(fast: SplitBody, body: Body) -> HostModule:
    """A kernel that can be split at its barriers, at least where its guards go as they mostly do.

    Where they do not, or a strip would have threads left over, its threads run one by one: in a second version that is
    split, too, or as coroutines, which also say what is wrong where not all threads come to a barrier.
    """
    slow = None if fast.pauses else _split(body, None)
    if slow is not None:
        emit_k_plain(slow, fast)
        return _finish(slow, ("k_plain",), fast)
    body.emit()
    emit_k_start_and_run(body, fast)
    return _finish(body, ("k_start", "k_run"), fast)


def emit_plain(typed: ir.Typed, name: str) -> HostModule:
    """Emit a function as a C function ``void name(argument block)``, without threads: the scheduler."""
    module = llvm.Module(name)
    function = llvm.Function(module, llvm.FunctionType(VOID, [POINTER]), name)
    b = llvm.IRBuilder(function.append_basic_block("entry"))
    target: Any = _PlainTarget()
    e = Emitter(b, target)
    e.function(
        typed,
        argument_values(e, typed.arguments, load_arguments(b, typed.arguments, function.args[0])),
        lambda _: b.ret_void(),
    )
    return HostModule(str(module), (name,), (), 0, _libdevice(module), waits=False)


def _finish(body: Body, exported: tuple[str, ...], fast: Body | None = None) -> HostModule:
    watched = None if body.watching is None else body.watching.finish()  # before the module is printed
    granule = 0
    apart: tuple[tuple[str, ...] | None, ...] = ()
    for shadow in (body.shadow, None if fast is None else fast.shadow):
        if shadow is not None:
            granule, axes = shadow.finish_code(), shadow.axes_apart
            apart = tuple(a if a == b else None for a, b in zip(apart or axes, axes, strict=True))
    made = replace(
        finished(body, exported),
        watched=watched,
        shared=tuple(body.shared_arrays),
        local=() if body.shadow is None else body.shadow.local_arrays,
        granule=granule,
        apart=apart,
        orders=isinstance(body.orders, Ordering) and body.orders.tells,
        in_part=body.shadow is not None and body.shadow.in_part,
        alike=_alike(body, apart),
    )
    if fast is None or fast.prover is None:
        return made
    return replace(made, shared_nbytes=max(made.shared_nbytes, fast.shared_nbytes), proved=fast.prover.counts)


def _alike(body: Body, apart: tuple[tuple[str, ...] | None, ...]) -> Alike | None:
    """What lets one block stand for all, where threads are ordered by barriers of all alone."""
    is_plain = body.build == Build("full") and body.watching is None and not body.spins
    if not is_plain or body.shadow is None or body.shadow.in_part:  # as it is where threads tell what they know
        return None
    return find_alike(body.typed, apart, contract=body.contract)


def finished(thread: Thread, exported: tuple[str, ...]) -> HostModule:
    """The module of a thread's function and of the loops around it."""
    module, dynamic = thread.module, thread.inputs.dynamic
    sites, prints = tuple(thread.sites.found), thread.sites.prints.found
    return HostModule(
        str(module), exported, sites, thread.shared_nbytes, _libdevice(module), thread.waits, dynamic, prints=prints
    )


def _libdevice(module: llvm.Module) -> tuple[str, ...]:
    return tuple(sorted(name for name in module.globals if name.startswith(_LIBDEVICE)))


class _PlainTarget:
    """As much of a `Target` as a function without threads asks for: nothing is checked, and nothing else is there."""

    name: Literal["host"] = "host"
    contract = checks_asserts = False
    notes, orders = Notes(), Orders()

    def _nothing(self, *_: Any) -> None:
        """Unchecked, unproved, unplaced."""

    locate = check_index = check = decide = note_range = alone = touch = go_round = begin_loop = begin_turn = _nothing

    def store(self, e: Emitter, value: llvm.Value, pointer: llvm.Value, access: Access) -> None:
        """A plain store."""
        e.b.store(value, pointer)

    def load(self, e: Emitter, pointer: llvm.Value, access: Access) -> llvm.Value:
        """One that LLVM may move where nobody writes."""
        loaded = e.b.load(pointer)
        if access.read_only:
            loaded.set_metadata("invariant.load", e.b.module.add_metadata([]))
        return loaded
