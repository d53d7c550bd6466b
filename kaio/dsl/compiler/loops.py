"""`for` over a range: one compare and one add per turn, without a wrap at the end of the type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from llvmlite import ir as llvm

from kaio.dsl.compiler.comparisons import less
from kaio.dsl.compiler.scalars import constant, llvm_type
from kaio.dsl.values import RangeType
from kaio.dtypes import DType

if TYPE_CHECKING:
    from kaio.dsl.compiler.emit import Emitter

__all__ = ["RangeValue", "Turn", "make_range", "turn"]


@dataclass(frozen=True)
class RangeValue:
    """A range whose bounds are computed; `first`: whether there is a first number, where a step could wrap."""

    start: Any
    stop: Any
    step: Any
    first: Any


@dataclass(frozen=True)
class Turn:
    """One turn of a loop: the number, whether there is one, and phis with their values from before and from inside."""

    value: Any
    more: Any
    phis: list[tuple[Any, Any, Any]]


def make_range(e: Emitter, type_: RangeType, bounds: list[Any]) -> RangeValue:
    """`range(stop)`, `range(start, stop)` or `range(start, stop, step)`."""
    dtype = type_.dtype
    if len(bounds) == 1:
        bounds = [constant(dtype, 0), *bounds]
    start, stop, step = bounds if len(bounds) == 3 else [*bounds, constant(dtype, 1)]
    first = (
        None
        if _is_plain(type_, start, stop)
        else _towards(e, type_, step, lambda up: _before(e, dtype, start, stop, up))
    )
    return RangeValue(start, stop, step, first)


def turn(e: Emitter, type_: RangeType, span: RangeValue) -> Turn:
    """The head of the loop; the builder stands at the start of its block."""
    dtype, b = type_.dtype, e.b
    here = b.phi(llvm_type(dtype))
    if span.first is None:
        later = b.add(here, span.step, flags=("nsw",) if dtype.kind == "i" else ())
        return Turn(here, _before(e, dtype, here, span.stop, (type_.step or 1) > 0), [(here, span.start, later)])
    more = b.phi(llvm.IntType(1))  # a step other than 1 could wrap: go on while more than a step is left
    later = b.add(here, span.step)
    again = _towards(e, type_, span.step, lambda up: _is_more_than_a_step_left(e, dtype, here, span, up))
    return Turn(here, more, [(here, span.start, later), (more, span.first, again)])


def _is_plain(type_: RangeType, start: Any, stop: Any) -> bool:
    if type_.step in (1, -1):
        return True
    ends = [getattr(v, "constant", None) for v in (start, stop)]
    low, high = type_.dtype.range
    return type_.step is not None and all(isinstance(v, int) and low <= v + type_.step <= high for v in ends)


def _before(e: Emitter, dtype: DType, here: Any, stop: Any, up: bool) -> Any:
    return less(e, dtype, here, stop) if up else less(e, dtype, stop, here)


def _is_more_than_a_step_left(e: Emitter, dtype: DType, here: Any, span: RangeValue, up: bool) -> Any:
    left = e.b.sub(span.stop, here) if up else e.b.sub(here, span.stop)
    size = span.step if up else e.b.sub(constant(dtype, 0), span.step)
    return e.b.icmp_unsigned(">", left, size)


def _towards(e: Emitter, type_: RangeType, step: Any, condition: Any) -> Any:
    """The condition for the direction of the step, which is known or found at run time; step 0 has no turns."""
    if type_.step is not None:
        return condition(type_.step > 0)
    zero = constant(type_.dtype, 0)
    e.target.check(e, e.b.icmp_unsigned("!=", step, zero), "range() with step 0")
    if type_.dtype.kind == "u":
        return e.b.and_(condition(True), e.b.icmp_unsigned("!=", step, zero))
    up, down = e.b.icmp_signed(">", step, zero), e.b.icmp_signed("<", step, zero)
    return e.b.or_(e.b.and_(up, condition(True)), e.b.and_(down, condition(False)))
