"""Tuples that are joined and repeated: `a + (b,)` and `(a, b) * 2`, as Python's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kaio.dsl import operators
from kaio.dsl.intrinsic import Intrinsic, Resolved
from kaio.dsl.rule_error import RuleError
from kaio.dsl.values import TupleType, Type, Weak

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter
    from kaio.dsl.compiler.ir import TypedCall

__all__: list[str] = []

_MOST_ITEMS = 1024  # of one tuple: each item is a register


def _join(e: Emitter, call: TypedCall, left: Any, right: Any) -> Any:
    return (*left, *right)


def _repeat(e: Emitter, call: TypedCall, *values: Any) -> Any:
    of = next(k for k, type_ in enumerate(call.operands) if isinstance(type_, TupleType))
    return tuple(values[of]) * call.static[0]


_JOINED = Intrinsic("join of tuples", emit=_join)
_REPEATED = Intrinsic("repetition of a tuple", emit=_repeat)


def _binary(op: str, left: Type, right: Type) -> operators.Found | None:
    if op == "+" and isinstance(left, TupleType) and isinstance(right, TupleType):
        return _JOINED, Resolved((left, right), _of(left.items + right.items))
    if op == "*" and isinstance(left, TupleType) != isinstance(right, TupleType):
        return _repeated(left, right)
    return None


def _repeated(left: Type, right: Type) -> operators.Found | None:
    value, times = (left, right) if isinstance(left, TupleType) else (right, left)
    if not isinstance(value, TupleType) or not isinstance(times, Weak) or not isinstance(times.value, int):
        return None
    return _REPEATED, Resolved((left, right), _of(value.items * times.value), (times.value,))


def _of(items: tuple[Type, ...]) -> TupleType:
    if len(items) > _MOST_ITEMS:
        raise RuleError(f"a tuple of {len(items)} items; one has at most {_MOST_ITEMS}", "many numbers are a buffer")
    return TupleType(items)


operators.BINARY.append(_binary)
