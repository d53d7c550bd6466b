"""What may be put where a type is fixed: an element, a field, an annotated parameter."""

from __future__ import annotations

from kaio.dsl import complexes, stores
from kaio.dsl.complexes import ComplexType
from kaio.dsl.records import RecordType
from kaio.dsl.rule_error import RuleError
from kaio.dsl.values import Compound, EnumType, TupleType, Type, Weak, show
from kaio.dsl.vectors import VectorType
from kaio.dtypes import DType

__all__ = ["check_value"]


def check_value(place: Type, value: Type) -> Type:
    """The type of what is there after a value was put into a place of that type; RuleError where it may not be.

    Numbers go by the rule of stores; the parts of a record or tuple one by one.
    """
    if isinstance(place, DType):
        if not isinstance(value, DType | Weak):
            way_out = "take a part of it, `.real` or `.imag`" if isinstance(value, ComplexType) else None
            raise RuleError(f"{show(value)} cannot be stored in {show(place)}", way_out)
        try:
            stores.store(value, place)
        except RuleError as problem:
            way_out = f"cast it, for example `kaio.{place!r}(...)`" if problem.help == stores.CAST_IT else problem.help
            raise RuleError(problem.what, way_out) from None
        return place
    if isinstance(place, ComplexType) and isinstance(value, DType | Weak):
        complexes.check_part(value, place.items[0])  # type: ignore[arg-type]
        return place
    if isinstance(place, VectorType) and isinstance(value, VectorType | TupleType | DType | Weak):
        return _check_lanes(place, value)
    if isinstance(place, EnumType):
        if not isinstance(value, EnumType) or value.of is not place.of:
            raise RuleError(
                f"{show(value)} is no member of `{place.of.__name__}`", f"give one of `{place.of.__name__}`"
            )
        return place
    if isinstance(place, Compound) and isinstance(value, Compound) and place.is_like(value):
        return place.with_items(tuple(check_value(p, v) for p, v in zip(place.items, value.items, strict=True)))
    if isinstance(place, RecordType) and isinstance(value, TupleType) and len(value.items) == len(place.items):
        return place.with_items(tuple(check_value(p, v) for p, v in zip(place.items, value.items, strict=True)))
    raise RuleError(f"{show(value)} cannot be stored in {show(place)}")


def _check_lanes(place: VectorType, value: VectorType | TupleType | DType | Weak) -> VectorType:
    """Lane by lane, out of a vector or a tuple; a number for all lanes is written out."""
    if isinstance(value, DType | Weak):
        raise RuleError(f"{show(value)} cannot be stored in {place!r}", f"make it every lane: `kaio.{place!r}(...)`")
    if len(value.items) != place.count:
        raise RuleError(f"{show(value)} cannot be stored in {place!r}, which has {place.count} lanes")
    for lane in value.items:
        check_value(place.lane, lane)
    return place
