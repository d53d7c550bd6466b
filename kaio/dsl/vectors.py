"""Packed vectors in a kernel: lane by lane they follow the rules of numbers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from kaio.dsl import operators, rules, stores
from kaio.dsl.intrinsic import Intrinsic, Resolved
from kaio.dsl.overloads import OVERLOADS
from kaio.dsl.rule_error import RuleError
from kaio.dsl.values import BOOL, Compound, TupleType, Type, Weak, show
from kaio.dtypes import DType, f32
from kaio.vectors import VectorDType, vector_of

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter
    from kaio.dsl.compiler.ir import TypedCall

__all__ = ["VectorType", "cast_to", "overload", "vector_type"]


@dataclass(frozen=True)
class VectorType(Compound):
    """A vector of so many lanes."""

    lane: DType
    count: int
    is_sequence = True

    @property
    def dtype(self) -> VectorDType | None:
        """The element type, None where there is none of so many lanes."""
        return vector_of(self.lane, self.count)

    @property
    def items(self) -> tuple[Type, ...]:  # type: ignore[override]
        """The types of the lanes."""
        return (self.lane,) * self.count

    @property
    def fields(self) -> Mapping[str, int]:
        """See `Compound`."""
        return {name: k for k, (name, _) in enumerate(self.dtype.parts)} if self.dtype is not None else {}

    def with_items(self, items: tuple[Type, ...]) -> VectorType:
        """See `Compound`."""
        return VectorType(items[0], self.count)  # type: ignore[arg-type]

    def is_like(self, other: Type) -> bool:
        """See `Compound`."""
        return isinstance(other, VectorType) and other == self

    def split(self, value: Any) -> tuple[Any, ...]:
        """See `Compound`."""
        return tuple(value[name] for name in self.fields)

    def spread(self, value: Any, source: Type) -> list[tuple[Any, Type]]:
        """A number is every lane."""
        return [(value, source)] * self.count

    def __repr__(self) -> str:
        return f"{self.lane.name}x{self.count}"


def vector_type(dtype: DType) -> VectorType:
    """The type of values of a vector type."""
    return VectorType(dtype.parts[0][1], len(dtype.parts))


def _lanes(type_: Type) -> Type:
    return type_.lane if isinstance(type_, VectorType) else type_


def _existing(lane: DType, count: int, shown: str) -> VectorType:
    """The vector type of that lane, or RuleError where there is none of so many."""
    found = VectorType(lane, count)
    if found.dtype is None:
        raise RuleError(f"{shown} would be {found!r}, which there is not", "cast the number to the type of the lanes")
    return found


# ---------------------------------------------------------------------- operators
def _rule(name: str) -> Any:
    def emit(e: Any, call: Any, *values: Any) -> Any:
        from kaio.dsl.compiler.emission import vectors

        return getattr(vectors, name)(e, call, *values)

    return emit


_ARITHMETIC = Intrinsic("arithmetic of vectors", emit=_rule("arithmetic"))
_UNARY = Intrinsic("sign of a vector", emit=_rule("unary"))


def _binary(op: str, left: Type, right: Type) -> operators.Found | None:
    vectors = [t for t in (left, right) if isinstance(t, VectorType)]
    if not vectors or not all(isinstance(t, VectorType | DType | Weak) for t in (left, right)):
        return None
    shown, count = f"`{show(left)} {op} {show(right)}`", vectors[0].count
    if any(t.count != count for t in vectors):
        raise RuleError(f"{shown}: vectors have the same number of lanes", "take them apart: `v.x`, `v[0]`")
    if op in rules.COMPARISONS:
        raise RuleError(f"{shown}: vectors are not compared as a whole", "compare lanes: `v.x == w.x`")
    rule = rules.binary(op, _lanes(left), _lanes(right))  # type: ignore[arg-type]
    assert isinstance(rule.result, DType)
    result = _existing(rule.result, count, shown)
    operands = tuple(VectorType(t, count) if isinstance(t, DType) else t for t in (rule.left, rule.right))
    return _ARITHMETIC, Resolved(operands, result, (op,))


def _unary(op: str, operand: Type) -> operators.Found | None:
    if not isinstance(operand, VectorType):
        return None
    if op == "not":
        raise RuleError(f"{show(operand)} is neither true nor false", "compare its lanes: `v.x == 0`")
    rules.unary(op, operand.lane)
    return _UNARY, Resolved((operand,), operand, (op,))


operators.BINARY.append(_binary)
operators.UNARY.append(_unary)


# ---------------------------------------------------------------------- casts and functions
def _cast(e: Emitter, call: TypedCall, *values: Any) -> Any:
    return values[0] if len(values) == 1 else e.convert(values, TupleType(call.operands), call.result)


def _casted(*lanes: Any) -> None: ...


@cache
def cast_to(dtype: VectorDType) -> Intrinsic:
    """The record of a vector type called in a kernel: with its lanes, one number for all, or another vector."""
    made = vector_type(dtype)

    def typing(*lanes: Type) -> Resolved:
        if len(lanes) == 1 and isinstance(lanes[0], VectorType):
            if lanes[0].count != made.count:
                raise RuleError(f"`{dtype!r}` of {show(lanes[0])}: vectors have the same number of lanes")
            return Resolved((made,), made)
        if len(lanes) not in (1, made.count):
            raise RuleError(
                f"`{dtype!r}` takes {made.count} numbers, or one for all lanes (got {len(lanes)})",
                f"for example `kaio.{dtype!r}(0)`",
            )
        for lane in lanes:
            if not isinstance(lane, DType | Weak):
                raise RuleError(f"a lane of `{dtype!r}` is a number, not {show(lane)}")
            stores.cast(lane, made.lane)
        if len(lanes) > 1 and all(lane is f32 for lane in lanes):
            return Resolved(lanes, made)  # they are converted together
        return Resolved((made,) if len(lanes) == 1 else made.items, made)

    return Intrinsic(repr(dtype), typing, _cast, doc=dtype.__doc__ or "", signature=inspect.signature(_casted))


def overload(record: Intrinsic) -> None:
    """Let a function of numbers take vectors, lane by lane; a number beside them is every lane."""
    assert record.typing is not None
    typing: Callable[..., Resolved] = record.typing

    def lanewise(*values: Type) -> Resolved:
        vectors = [t for t in values if isinstance(t, VectorType)]
        shown = f"`{record.name}` of {' and '.join(map(show, values))}"
        if any(t.count != vectors[0].count for t in vectors):
            raise RuleError(f"{shown}: vectors have the same number of lanes")
        resolved = typing(*map(_lanes, values))
        assert isinstance(resolved.result, DType)
        if resolved.result is BOOL:
            raise RuleError(f"{shown}: there are no vectors of bool", "ask for each lane: `v.x`")
        result = _existing(resolved.result, vectors[0].count, shown)
        operands = tuple(VectorType(t, result.count) for t in resolved.operands)  # type: ignore[arg-type]
        return Resolved(operands, result, (record, resolved))

    OVERLOADS[record, VectorType] = Intrinsic(
        record.name, lanewise, _rule("function"), doc=record.doc, signature=record.signature
    )
