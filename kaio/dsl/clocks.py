"""Clocks, and a pause."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kaio.dsl.casts import is_integer
from kaio.dsl.intrinsic import Resolved, intrinsic
from kaio.dsl.rule_error import RuleError
from kaio.dsl.values import NONE, Type, Weak, show
from kaio.dtypes import i32, i64, u32

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter
    from kaio.dsl.compiler.ir import TypedCall

__all__ = ["clock", "globaltimer", "nanosleep"]

_MOST_NS = 1_000_000  # PTX ISA, nanosleep


def _read(register: str) -> Callable[..., Any]:
    """A register that has another value each time: the reading stays where it is."""

    def rule(e: Emitter, call: TypedCall) -> Any:
        from llvmlite import ir as llvm

        kind = llvm.FunctionType(e.llvm(i64), [])
        return e.b.call(llvm.InlineAsm(kind, f"mov.u64 $0, %{register};", "=l,~{memory}", side_effect=True), [])

    return rule


def _cycles(e: Emitter, call: TypedCall) -> Any:
    return e.call("llvm.readcyclecounter", e.llvm(i64), [])


@intrinsic(
    lambda: Resolved((), i64), cuda=_read("clock64"), host=_cycles, ptx="%clock64", same_bits=False,
    example="start = kaio.clock()\nout[i] = math.sqrt(x[i])\nwide[i] = f32(kaio.clock() - start > 0)",
)  # fmt: skip
def clock() -> int:
    """A counter of the processor's cycles, i64: the difference of two is the time between them, in this thread's place.

    On the CPU device it is the processor's own, and what other threads did between is in it.
    """
    raise AssertionError


def _time(e: Emitter, call: TypedCall) -> Any:
    """The system's clock, in nanoseconds since 1970."""
    from llvmlite import ir as llvm

    if sys.platform == "win32":
        return _cycles(e, call)
    wide, b = llvm.IntType(64), e.b
    with b.goto_entry_block():
        now = b.alloca(llvm.ArrayType(wide, 2))  # a `struct timespec`: seconds and nanoseconds
    e.call("clock_gettime", e.llvm(i32), [e.const(i32, 0), now])
    seconds, rest = (b.load(b.gep(now, [e.const(i32, 0), e.const(i32, k)])) for k in range(2))
    return b.add(b.mul(seconds, wide(1_000_000_000)), rest)


@intrinsic(
    lambda: Resolved((), i64), cuda=_read("globaltimer"), host=_time, ptx="%globaltimer", same_bits=False,
    example="wide[i] = f32(kaio.globaltimer() != 0)",
)  # fmt: skip
def globaltimer() -> int:
    """A clock that all threads of the device share, in nanoseconds, i64; it may go in steps of a microsecond.

    On the CPU device it is the system's clock (on Windows a count of the processor's cycles).
    """
    raise AssertionError


def _sleep_typing(duration_ns: Type) -> Resolved:
    if not is_integer(duration_ns):
        raise RuleError(f"`nanosleep` takes an integer, not {show(duration_ns)}", "cast it with `kaio.u32(...)`")
    if isinstance(duration_ns, Weak):
        for value in duration_ns.values:
            if not 0 <= value <= _MOST_NS:
                raise RuleError(f"`nanosleep` takes 0 to {_MOST_NS} ns, not {value}", "sleep several times in a loop")
    return Resolved((u32,), NONE)


def _sleep_cuda(e: Emitter, call: TypedCall, duration_ns: Any) -> None:
    from llvmlite import ir as llvm

    kind = llvm.FunctionType(e.void, [e.llvm(u32)])
    e.b.call(llvm.InlineAsm(kind, "nanosleep.u32 $0;", "r,~{memory}", side_effect=True), [duration_ns])


def _sleep_host(e: Emitter, call: TypedCall, duration_ns: Any) -> None:
    e.target.suspend(e, "pause", "nanosleep")


@intrinsic(
    _sleep_typing, cuda=_sleep_cuda, host=_sleep_host, suspends=True, ptx="nanosleep.u32",
    observes=lambda call: True,
    example="kaio.nanosleep(100)\nout[i] = x[i]",
)  # fmt: skip
def nanosleep(duration_ns: int) -> None:
    """Pause this thread for about `duration_ns`, at most twice as long; up to a millisecond.

    On the CPU device it takes no time, and all other threads of the block go on before this one does, and so do other
    blocks that wait.
    """
