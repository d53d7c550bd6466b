"""`unrolled(range(…))`: a loop written out turn by turn, or several turns at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kaio.dsl.intrinsic import Resolved, intrinsic
from kaio.dsl.rule_error import RuleError
from kaio.dsl.values import RangeType, Type, Weak, show

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter
    from kaio.dsl.compiler.ir import TypedCall

__all__ = ["NOT_KNOWN", "unrolled"]

_MOST_TURNS_AT_A_TIME = 1024

NOT_KNOWN = (
    "the bounds of an `unrolled` loop are known when compiling, and stand in the `for` statement",
    (
        "use literals, captured ints or `Const[int]` parameters; "
        "or write several turns at a time: `unrolled(range(n), count=4)`"
    ),
)
"""What is wrong with a loop that cannot be written out, and the ways out."""


def _typing(turns: Type, count: Type | None = None) -> Resolved:
    if not isinstance(turns, RangeType):
        raise RuleError(f"`unrolled` takes a range, not {show(turns)}", "for example `for k in unrolled(range(4)):`")
    if count is None:  # one whose bounds are known stands in no function any more: see compiler/unroll.py
        raise RuleError(*NOT_KNOWN)
    value = count.value if isinstance(count, Weak) else None
    if not isinstance(value, int) or not 1 <= value <= _MOST_TURNS_AT_A_TIME:
        raise RuleError(
            f"the count of `unrolled` is an int literal from 1 to {_MOST_TURNS_AT_A_TIME}, not {show(count)}",
            "for example `unrolled(range(n), count=4)`",
        )
    return Resolved((turns, count), replace(turns, unroll=value))


def _emit(e: Emitter, call: TypedCall, turns: Any, count: Any = None) -> Any:
    return turns


@intrinsic(
    _typing,
    emit=_emit,
    example="""\
taps = kaio.local_mem(4, kaio.f32)
for k in kaio.unrolled(range(4)):
    taps[k] = x[i] * (k + 1)
for k in kaio.unrolled(range(4)):
    out[i] += taps[3 - k]""",
    ptx="mul.rn.f32",
)
def unrolled(turns: range, count: int | None = None) -> range:
    """A range for a loop that is written out: `for k in unrolled(range(4)):` is its body four times, `k` a literal.

    So tuples are indexed with `k`, branches on it are decided when compiling, and arrays of the thread stay in
    registers. The bounds are known when compiling. With a `count` they need not be: then the loop stays, `k` is a
    number, and that many turns are done at a time (1: it is not unrolled).
    """
    raise AssertionError
