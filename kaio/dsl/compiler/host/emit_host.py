"""Typed IR to LLVM for this machine: one function per kernel, in which a barrier is a suspension and a fault a branch.

A kernel in which a thread may wait becomes a coroutine, one frame per thread, that `k_start` and `k_run` start and
resume. Every other kernel is inlined into loops over the threads of a block (`k_plain`), which LLVM vectorises; there a
second, unguarded copy of the body runs in the blocks for which `prove` shows, at run time, that no check can fail.
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
from kaio.dsl.compiler.host.host_body import Body
from kaio.dsl.compiler.host.host_context import POINTER, VOID, load_arguments
from kaio.dsl.compiler.host.host_drivers import emit_k_plain, emit_k_start_and_run
from kaio.dsl.compiler.host.prove import Prover
from kaio.print_abi import Line
from kaio.program import Build, DynamicArray, Site
from kaio.trace_abi import Watched

__all__ = ["HostModule", "emit_host", "emit_plain"]

_LIBDEVICE = "__nv_"


@dataclass(frozen=True)
class HostModule:
    """The LLVM text of one kernel, the functions it exports, its sites, and what it needs."""

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

    def __str__(self) -> str:
        return self.text


def emit_host(typed: ir.Typed, *, build: Build, contract: bool = True) -> HostModule:
    """Emit a kernel; `build` says what is found while it runs."""
    module = llvm.Module(typed.function.name)
    sites = Sites()
    body = Body(module, typed, "body", sites, build=build, contract=contract)
    if body.waits:
        body.emit()
        emit_k_start_and_run(body)
        return _finish(body, ("k_start", "k_run"))
    if body.watching is not None:
        body.emit()
        emit_k_plain(body, None)
        return _finish(body, ("k_plain",))
    proved = (0, 0)
    fast = Body(
        module, typed, "body.fast", sites, build=build, contract=contract, prover=Prover(), constants=body.constants
    )
    fast.emit()
    assert fast.prover is not None
    if fast.prover.is_useful:
        body.emit()
        proved = fast.prover.counts
        emit_k_plain(body, fast)
    else:  # nothing can be proved, or there is nothing to prove: the one body keeps what checks it has
        emit_k_plain(fast, None)
    return replace(
        _finish(body, ("k_plain",)), proved=proved, shared_nbytes=max(body.shared_nbytes, fast.shared_nbytes)
    )


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


def _finish(body: Body, exported: tuple[str, ...]) -> HostModule:
    module = body.module
    sites = tuple(body.sites.found)
    dynamic = body.inputs.dynamic
    prints = body.sites.prints.found
    watched = None if body.watching is None else body.watching.finish()
    return HostModule(
        str(module),
        exported,
        sites,
        body.shared_nbytes,
        _libdevice(module),
        body.waits,
        dynamic,
        prints=prints,
        watched=watched,
    )


def _libdevice(module: llvm.Module) -> tuple[str, ...]:
    return tuple(sorted(name for name in module.globals if name.startswith(_LIBDEVICE)))


class _PlainTarget:
    """As much of a `Target` as a function without threads asks for: nothing is checked, and nothing else is there."""

    name: Literal["host"] = "host"
    contract = checks_asserts = False
    notes = Notes()

    def _nothing(self, *_: Any) -> None:
        """Unchecked, unproved, unplaced."""

    locate = check_index = check = decide = note_range = alone = touch = _nothing

    def store(self, e: Emitter, value: llvm.Value, pointer: llvm.Value, access: Access) -> None:
        """A plain store."""
        e.b.store(value, pointer)

    def load(self, e: Emitter, pointer: llvm.Value, access: Access) -> llvm.Value:
        """One that LLVM may move where nobody writes."""
        loaded = e.b.load(pointer)
        if access.read_only:
            loaded.set_metadata("invariant.load", e.b.module.add_metadata([]))
        return loaded
