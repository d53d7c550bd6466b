"""What the threads of a block wait for: all of them, all with a count, or some warps at a numbered barrier."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kaio import host_abi as abi
from kaio.dsl.casts import check_bool, is_integer
from kaio.dsl.intrinsic import Resolved, intrinsic
from kaio.dsl.rule_error import RuleError
from kaio.dsl.values import BOOL, NONE, Type, Weak, show
from kaio.dtypes import DType, i32

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter
    from kaio.dsl.compiler.ir import TypedCall

__all__ = ["bar_sync", "bar_sync_and", "bar_sync_count", "bar_sync_or", "named_bar_arrive", "named_bar_sync"]


def _barrier_cuda(e: Emitter, call: TypedCall) -> Any:
    e.call("llvm.nvvm.barrier0", e.void, [])
    e.target.passed(e)


def _barrier_host(e: Emitter, call: TypedCall) -> Any:
    e.target.suspend(e, "barrier", "bar_sync")


@intrinsic(
    lambda: Resolved((), NONE),
    cuda=_barrier_cuda,
    host=_barrier_host,
    suspends=True,
    example="""\
s = kaio.shared_mem(64, f32)
s[i] = x[i]
kaio.bar_sync()
out[i] = s[63 - i]""",
    ptx="bar.sync",
)
def bar_sync() -> None:
    """Wait until every thread of the block is here; what they wrote to memory before is then seen by all of them.

    A thread that returned counts as arrived. One that goes round the barrier, or waits at another, is an error that the
    CPU device reports.
    """


# ---------------------------------------------------------------------- with a predicate
def _predicate_typing(name: str, result: DType) -> Callable[[Type], Resolved]:
    def typing(predicate: Type) -> Resolved:
        check_bool(predicate, name)
        return Resolved((BOOL,), result)

    return typing


def _with_predicate(name: str, result: DType, nvvm: str) -> Callable[[Any], Any]:
    def cuda(e: Emitter, call: TypedCall, predicate: Any) -> Any:
        found = e.call(f"llvm.nvvm.barrier0.{nvvm}", e.llvm(i32), [e.b.zext(predicate, e.llvm(i32))])
        e.target.passed(e)
        return found if result is i32 else e.b.icmp_unsigned("!=", found, e.const(i32, 0))

    def host(e: Emitter, call: TypedCall, predicate: Any) -> Any:
        e.target.give(e, [e.b.zext(predicate, e.llvm(i32))])
        e.target.suspend(e, "barrier", name, 1)
        true = e.target.field(e, abi.COUNT)
        if nvvm == "and":
            return e.b.icmp_unsigned("==", true, e.target.field(e, abi.ARRIVED))
        return true if nvvm == "popc" else e.b.icmp_unsigned("!=", true, e.const(i32, 0))

    value = f"kaio.{name}(x[i] > 0.5)"
    example = f"counts[i] = {value}" if result is i32 else f"counts[i] = 2 - kaio.i32({value})"
    return intrinsic(
        _predicate_typing(name, result), cuda=cuda, host=host, suspends=True, example=example,
        ptx=f"red.{nvvm}",
    )  # fmt: skip


@_with_predicate("bar_sync_count", i32, "popc")
def bar_sync_count(predicate: bool) -> int:
    """Wait as `bar_sync` does, and count the threads whose predicate is true; i32, the same for all."""
    raise AssertionError


@_with_predicate("bar_sync_and", BOOL, "and")
def bar_sync_and(predicate: bool) -> bool:
    """Wait as `bar_sync` does, and tell whether the predicate is true for all threads."""
    raise AssertionError


@_with_predicate("bar_sync_or", BOOL, "or")
def bar_sync_or(predicate: bool) -> bool:
    """Wait as `bar_sync` does, and tell whether the predicate is true for a thread."""
    raise AssertionError


# ---------------------------------------------------------------------- some of a block
def _named_typing(name: str) -> Callable[[Type, Type], Resolved]:
    def typing(number: Type, threads: Type) -> Resolved:
        _check_integer(name, "number", number)
        _check_integer(name, "threads", threads)
        for value in number.values if isinstance(number, Weak) else ():
            if not 1 <= value <= 15:
                raise RuleError(f"the number of `{name}` is 1 to 15, not {value}", "0 is that of `bar_sync`")
        for value in threads.values if isinstance(threads, Weak) else ():
            if value % 32 or not 32 <= value <= 1024:
                raise RuleError(
                    f"the threads of `{name}` are a multiple of 32 up to 1024, not {value}", "whole warps come to it"
                )
        return Resolved((i32, i32), NONE)

    return typing


def _check_integer(name: str, what: str, value: Type) -> None:
    if not is_integer(value):
        raise RuleError(f"`{name}` takes an integer as its {what}, not {show(value)}", "cast it with `kaio.i32(...)`")


def _named_cuda(instruction: str) -> Callable[..., None]:
    def rule(e: Emitter, call: TypedCall, number: Any, threads: Any) -> None:
        from kaio.dsl.compiler.cuda.assembly import assemble

        assemble(e, f"{instruction} $0, $1;", [], [number, threads], memory=True)

    return rule


def _named_host(name: str, waits: bool) -> Callable[..., None]:
    def rule(e: Emitter, call: TypedCall, number: Any, threads: Any) -> None:
        b, const = e.b, _const_of(e)
        inside = b.and_(b.icmp_signed(">=", number, const(1)), b.icmp_signed("<=", number, const(15)))
        e.target.check(e, inside, f"the number of `{name}` is not 1 to 15")
        whole = b.icmp_signed("==", b.and_(threads, const(31)), const(0))
        e.target.check(e, b.and_(whole, b.icmp_signed(">", threads, const(0))), f"`{name}` of a part of a warp")
        number = b.and_(number, const(15))
        turn = e.target.field(e, abi.NAMED_TURN, number)
        e.target.orders.arrive(e)
        # The hardware counts whole warps, and wants their lanes to be together.
        peers = e.target.exchange(e, [number, threads], None, name)
        first = e.call("llvm.cttz.i32", e.llvm(i32), [peers.members, e.const(BOOL, False)])
        same = [b.icmp_unsigned("==", peers.word(k, first), own) for k, own in enumerate((number, threads))]
        e.target.check(e, b.and_(*same), f"lanes of one warp are at different barriers of `{name}`")
        is_last = b.icmp_unsigned("==", b.lshr(peers.members, peers.lane), const(1))
        with b.if_then(is_last):
            _arrive(e, name, number, threads, peers.members)
        if waits:
            e.target.give(e, [number, turn])
            e.target.suspend(e, "named", name, 2)
            e.target.orders.leave(e, number)

    return rule


def _const_of(e: Emitter) -> Callable[[int], Any]:
    return lambda value: e.const(i32, value)


def _arrive(e: Emitter, name: str, number: Any, threads: Any, members: Any) -> None:
    """One more warp has come to a named barrier; the last one completes it."""
    b, const = e.b, _const_of(e)
    before = e.target.field(e, abi.NAMED_COUNT, number)
    is_first = b.icmp_unsigned("==", before, const(0))
    wanted = b.select(is_first, threads, e.target.field(e, abi.NAMED_THREADS, number))
    agrees = b.icmp_unsigned("==", wanted, threads)
    e.target.check(e, agrees, f"`{name}` for another number of threads than those who came before")
    e.target.set_field(e, abi.NAMED_THREADS, number, threads)
    count = b.add(before, const(32))
    is_complete = b.icmp_unsigned(">=", count, threads)
    e.target.set_field(e, abi.NAMED_COUNT, number, b.select(is_complete, const(0), count))
    turn = e.target.field(e, abi.NAMED_TURN, number)
    e.target.set_field(e, abi.NAMED_TURN, number, b.add(turn, b.zext(is_complete, e.llvm(i32))))
    e.target.orders.arrived(e, number, members, is_complete)


_NAMED_EXAMPLE = """\
s = kaio.shared_mem(32, f32)
if i < 32:
    s[i] = x[i]
    kaio.named_bar_arrive(1, 64)
else:
    kaio.named_bar_sync(1, 64)
    out[i] = s[i - 32]"""


@intrinsic(
    _named_typing("named_bar_sync"),
    cuda=_named_cuda("bar.sync"),
    host=_named_host("named_bar_sync", waits=True),
    suspends=True,
    example=_NAMED_EXAMPLE,
    ptx="bar.sync",
)
def named_bar_sync(number: int, threads: int) -> None:
    """Wait at barrier `number` (1 to 15) until `threads` threads of the block have come, waiting or not.

    Whole warps come, and count 32 each; `threads` is a multiple of 32, the same for all. Then it is as new. What those
    who came wrote to memory before is seen by those who waited. Not enough threads, or lanes of a warp that do not come
    together, are errors that the CPU device reports.
    """


@intrinsic(
    _named_typing("named_bar_arrive"),
    cuda=_named_cuda("bar.arrive"),
    host=_named_host("named_bar_arrive", waits=False),
    suspends=True,
    example=_NAMED_EXAMPLE,
    ptx="bar.arrive",
)
def named_bar_arrive(number: int, threads: int) -> None:
    """Come to barrier `number` and go on: the others wait in `named_bar_sync` until `threads` threads have come."""
