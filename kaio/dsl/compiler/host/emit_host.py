"""Typed IR to LLVM for this machine: one function per kernel, in which a barrier is a suspension and a fault a branch.

A kernel in which a thread may wait becomes a coroutine, one frame per thread, that `k_start` and `k_run` start and
resume. Every other kernel is inlined into loops over the threads of a block (`k_plain`), which LLVM vectorises; there a
second, unguarded copy of the body runs in the blocks for which `prove` shows, at run time, that no check can fail.
The layout that this code shares with the scheduler and the runtime is in `kaio/host_abi.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from llvmlite import ir as llvm

from kaio.dsl.compiler import ir
from kaio.dsl.compiler.emission.arguments import argument_values
from kaio.dsl.compiler.emission.emit import Emitter
from kaio.dsl.compiler.emission.target import BufferValue
from kaio.dsl.compiler.host.host_body import Body, Sites
from kaio.dsl.compiler.host.host_context import POINTER, VOID, load_arguments
from kaio.dsl.compiler.host.host_drivers import emit_k_plain, emit_k_start_and_run
from kaio.dsl.compiler.host.host_exchange import Peers
from kaio.dsl.compiler.host.prove import Prover
from kaio.dsl.values import ArrayType
from kaio.errors import InternalError
from kaio.print_abi import Line
from kaio.program import DynamicArray, Site

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

    def __str__(self) -> str:
        return self.text


def emit_host(typed: ir.Typed, *, check: bool, contract: bool = True) -> HostModule:
    """Emit a kernel; `check` compiles index checks, assertions and the like."""
    module = llvm.Module(typed.function.name)
    sites = Sites()
    body = Body(module, typed, "body", sites, check=check, contract=contract)
    if body.waits:
        body.emit()
        emit_k_start_and_run(body)
        return _finish(body, ("k_start", "k_run"))
    proved = (0, 0)
    fast = Body(
        module, typed, "body.fast", sites, check=check, contract=contract, prover=Prover(), constants=body.constants
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
    target = _PlainTarget()
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
    return HostModule(
        str(module), exported, sites, body.shared_nbytes, _libdevice(module), body.waits, dynamic, prints=prints
    )


def _libdevice(module: llvm.Module) -> tuple[str, ...]:
    return tuple(sorted(name for name in module.globals if name.startswith(_LIBDEVICE)))


class _PlainTarget:
    """The target of a function without threads: nothing is checked, nothing waits."""

    name: Literal["host"] = "host"
    contract = False
    checks_asserts = False

    def has(self, architecture: str) -> bool:
        return True

    def locate(self, e: Emitter) -> None:
        return None

    def special_register(self, e: Emitter, register: str, axis: str) -> llvm.Value:
        raise InternalError("a function without threads has no index registers")

    def check_index(self, e: Emitter, index: llvm.Value, size: llvm.Value, axis: int, array: str, written: str) -> None:
        return None

    def check(self, e: Emitter, holds: llvm.Value, text: str) -> None:
        return None

    def fail(self, e: Emitter, text: str) -> None:
        e.b.unreachable()

    def shared(self, e: Emitter, element: llvm.Type, count: int, name: str) -> llvm.Value:
        raise InternalError("a function without threads has no shared memory")

    def constant(self, e: Emitter, array: ArrayType, name: str) -> llvm.Value:
        raise InternalError("a function without threads has no constant memory")

    def dynamic_shared(self, e: Emitter, name: str, element: llvm.Type) -> BufferValue:
        raise InternalError("a function without threads has no shared memory")

    def scratch(self, e: Emitter, part: int, count: int) -> llvm.Value:
        raise InternalError("a function without threads has no shared memory")

    def local(self, e: Emitter, element: llvm.Type, count: int, name: str) -> llvm.Value:
        with e.b.goto_entry_block():
            return e.b.bitcast(e.b.alloca(llvm.ArrayType(element, count), name=name), element.as_pointer())

    def load(self, e: Emitter, pointer: llvm.Value, read_only: bool) -> llvm.Value:
        loaded = e.b.load(pointer)
        if read_only:  # nobody writes it while the kernel runs: a launch checks that
            loaded.set_metadata("invariant.load", e.b.module.add_metadata([]))
        return loaded

    def alone(self, e: Emitter) -> llvm.Value | None:
        return None

    def load_as(self, e: Emitter, pointer: llvm.Value, how: str, space: str) -> llvm.Value:
        return e.b.load(pointer)

    def store_as(self, e: Emitter, value: llvm.Value, pointer: llvm.Value, how: str, space: str) -> None:
        e.b.store(value, pointer)

    def decide(self, e: Emitter, condition: llvm.Value) -> bool | None:
        return None

    def note_range(
        self,
        e: Emitter,
        value: llvm.Value,
        start: llvm.Value,
        stop: llvm.Value,
        step: llvm.Value,
        is_signed: bool,
    ) -> None:
        return None

    def unroll(self, e: Emitter, branch: llvm.Instruction, count: int) -> None:
        return None

    def suspend(self, e: Emitter, kind: str, text: str = "", words: int = 0) -> None:
        raise InternalError("a function without threads does not wait")

    def exchange(
        self,
        e: Emitter,
        words: Sequence[llvm.Value],
        mask: llvm.Value | None = None,
        what: str = "",
        kind: str = "",
    ) -> Peers:
        raise InternalError("a function without threads has no warps")

    def check_lane(self, e: Emitter, holds: llvm.Value, lane: llvm.Value, peers: Peers, what: str) -> None:
        raise InternalError("a function without threads has no warps")

    def give(self, e: Emitter, words: Sequence[llvm.Value]) -> None:
        raise InternalError("a function without threads has no block")

    def field(self, e: Emitter, offset: int, index: llvm.Value | None = None) -> llvm.Value:
        raise InternalError("a function without threads has no block")

    def set_field(self, e: Emitter, offset: int, index: llvm.Value, value: llvm.Value) -> None:
        raise InternalError("a function without threads has no block")

    def linear_thread(self, e: Emitter) -> llvm.Value:
        raise InternalError("a function without threads has no number")

    def number_line(self, e: Emitter, line: Line) -> None:
        return None

    def leave(self, e: Emitter) -> None:
        e.b.ret_void()
