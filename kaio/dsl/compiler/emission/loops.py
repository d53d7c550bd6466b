"""`for` over a range: one compare and one add per turn, without a wrap at the end of the type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from llvmlite import ir as llvm

from kaio.dsl.compiler.emission.comparisons import less
from kaio.dsl.compiler.emission.leaves import leaves, rebuild
from kaio.dsl.compiler.emission.scalars import choose, constant, llvm_type
from kaio.dsl.values import Compound, IteratorType, RangeType, StepType, Type
from kaio.dtypes import DType

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter

__all__ = ["RangeValue", "Turn", "make_range", "only_turn", "positions", "turn", "turns", "value"]


@dataclass(frozen=True)
class RangeValue:
    """A range whose bounds are computed; `first`: whether there is a first number, where a step could wrap.

    left, size: where a step could wrap, how far it is from start to stop, and how far a step goes; both unsigned
    items: the leaves of each item, where the loop goes over a tuple
    """

    start: Any
    stop: Any
    step: Any
    first: Any
    left: Any = None
    size: Any = None
    items: tuple[tuple[Any, ...], ...] = ()


@dataclass(frozen=True)
class Turn:
    """One turn of a loop: the number, whether there is one, and phis with their values from before and from inside."""

    value: Any
    more: Any
    phis: list[tuple[Any, Any, Any]]
    items: tuple[tuple[Any, ...], ...] = ()


def make_range(e: Emitter, type_: RangeType, bounds: list[Any]) -> RangeValue:
    """`range(stop)`, `range(start, stop)` or `range(start, stop, step)`."""
    dtype = type_.dtype
    if len(bounds) == 1:
        bounds = [constant(dtype, 0), *bounds]
    start, stop, step = bounds if len(bounds) == 3 else [*bounds, constant(dtype, 1)]
    if _is_plain(type_, start, stop):
        return RangeValue(start, stop, step, None)
    first = _towards(e, type_, step, lambda up: _before(e, dtype, start, stop, up))
    return RangeValue(start, stop, step, first, *_distances(e, type_, start, stop, step))


def positions(e: Emitter, type_: Type, source: Type, value: Any) -> RangeValue:
    """What a loop counts through: a range, or the positions of a tuple, whose items are computed before."""
    assert isinstance(type_, IteratorType)
    if type_.item is None:
        assert isinstance(value, RangeValue)
        return value
    assert isinstance(source, Compound)
    pairs = zip(value, source.items, strict=True)
    items = tuple(tuple(leaves(e.convert(item, given, type_.item), type_.item)) for item, given in pairs)
    start, stop, step = (constant(type_.range.dtype, n) for n in (0, len(items), 1))
    return RangeValue(start, stop, step, None, items=items)


def value(e: Emitter, type_: Type, at: Turn) -> Any:
    """The number or the item that a loop is at."""
    assert isinstance(type_, StepType)
    if type_.item is None:
        return at.value
    columns = zip(*at.items, strict=True)
    return rebuild(iter([choose(e, at.value, list(column)) for column in columns]), type_.item)


def turn(e: Emitter, type_: RangeType, span: RangeValue) -> Turn:
    """The head of the loop; the builder stands at the start of its block."""
    dtype, b = type_.dtype, e.b
    here = b.phi(llvm_type(dtype))
    if span.first is None:
        later = b.add(here, span.step, flags=("nsw",) if dtype.kind == "i" else ())
        more = _before(e, dtype, here, span.stop, (type_.step or 1) > 0)
        return Turn(here, more, [(here, span.start, later)], span.items)
    # A step other than 1 could wrap: go on while more than a step is left.
    more, left = b.phi(llvm.IntType(1)), b.phi(llvm_type(dtype))
    later, less_left = b.add(here, span.step), b.sub(left, span.size)
    again = b.icmp_unsigned(">", left, span.size)
    return Turn(here, more, [(here, span.start, later), (more, span.first, again), (left, span.left, less_left)])


def only_turn(e: Emitter, type_: RangeType, span: RangeValue) -> Turn:
    """The head of a loop that nothing goes back to: its body always leaves."""
    up = (type_.step or 1) > 0
    more = _before(e, type_.dtype, span.start, span.stop, up) if span.first is None else span.first
    return Turn(span.start, more, [], span.items)


def turns(e: Emitter, type_: RangeType, span: RangeValue) -> Any:
    """How many turns a loop over a range by a literal step has: an int where that is known, else an unsigned value."""
    assert type_.step is not None
    start, stop = (getattr(v, "constant", None) for v in (span.start, span.stop))
    if isinstance(start, int) and isinstance(stop, int):
        return len(range(start, stop, type_.step))
    none = constant(type_.dtype, 0)
    if span.first is None:
        up = type_.step > 0
        many = e.b.sub(span.stop, span.start) if up else e.b.sub(span.start, span.stop)
        return e.b.select(_before(e, type_.dtype, span.start, span.stop, up), many, none)
    one = constant(type_.dtype, 1)
    return e.b.select(span.first, e.b.add(e.b.udiv(e.b.sub(span.left, one), span.size), one), none)


def _is_plain(type_: RangeType, start: Any, stop: Any) -> bool:
    if type_.step in (1, -1):
        return True
    ends = [getattr(v, "constant", None) for v in (start, stop)]
    low, high = type_.dtype.range
    return type_.step is not None and all(isinstance(v, int) and low <= v + type_.step <= high for v in ends)


def _before(e: Emitter, dtype: DType, here: Any, stop: Any, up: bool) -> Any:
    return less(e, dtype, here, stop) if up else less(e, dtype, stop, here)


def _distances(e: Emitter, type_: RangeType, start: Any, stop: Any, step: Any) -> tuple[Any, Any]:
    """How far it is from start to stop, and how far a step goes, so that a turn need not ask for the direction."""
    b = e.b
    up = type_.step > 0 if type_.step is not None else type_.dtype.kind == "u" or None
    if up is None:
        is_up = b.icmp_signed(">", step, constant(type_.dtype, 0))
        low, high = b.select(is_up, start, stop), b.select(is_up, stop, start)
        return b.sub(high, low), b.select(is_up, step, b.neg(step))
    return (b.sub(stop, start), step) if up else (b.sub(start, stop), b.neg(step))


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
