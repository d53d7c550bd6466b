"""NamedTuples and frozen dataclasses in a kernel: their fields, their types, and how one is made there.

A field annotated with a dtype has that type, and what is put there converts as in a store; one annotated with `int`,
`float` or `bool` takes the type of what it is given, as an item of a tuple does.
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from kaio.dsl.rule_error import RuleError
from kaio.dsl.values import Compound, EnumType, TupleType, Type, enum_dtype, show
from kaio.dtypes import DType
from kaio.errors import did_you_mean
from kaio.record_classes import hints_of, is_named_tuple, is_record, names_of, tuple_items
from kaio.structs import StructDType

__all__ = [
    "Field", "RecordType", "annotated_type", "enum_type", "field_of", "fields_of", "parameter_type", "scalars_of",
    "signature_of",
]  # fmt: skip


@dataclass(frozen=True)
class Field:
    """One field of a class: `type` is what its annotation pins, None where it takes the type of what it is given."""

    name: str
    type: Type | None


@dataclass(frozen=True)
class RecordType(Compound):
    """A value with named fields: of a NamedTuple or a dataclass, or an element of a structured dtype."""

    of: Any
    names: tuple[str, ...]
    items: tuple[Type, ...]

    @property
    def is_sequence(self) -> bool:  # type: ignore[override]
        """A NamedTuple is a tuple; a dataclass is not."""
        return isinstance(self.of, type) and issubclass(self.of, tuple)

    @property
    def fields(self) -> Mapping[str, int]:
        """See `Compound`."""
        return {name: position for position, name in enumerate(self.names)}

    def with_items(self, items: tuple[Type, ...]) -> RecordType:
        """The same with parts of these types."""
        return RecordType(self.of, self.names, items)

    def is_like(self, other: Type) -> bool:
        """See `Compound`."""
        if not isinstance(other, RecordType):
            return False
        is_struct = isinstance(self.of, StructDType) or isinstance(other.of, StructDType)
        return other.of is self.of or (is_struct and other.names == self.names)

    def split(self, value: Any) -> tuple[Any, ...]:
        """See `Compound`."""
        if isinstance(self.of, StructDType):
            return tuple(value[name] for name in self.names)
        return tuple(getattr(value, name) for name in self.names)

    def __repr__(self) -> str:
        return str(getattr(self.of, "__name__", self.of))


@cache
def fields_of(of: Any) -> tuple[Field, ...]:
    """The fields of a class (or structured dtype) in order, or RuleError where a kernel cannot have its values."""
    if isinstance(of, StructDType):
        from kaio.dsl.structs import field_type  # which are records

        return tuple(Field(field.name, field_type(field)) for field in of.fields)
    if not is_named_tuple(of) and not of.__dataclass_params__.frozen:
        raise RuleError(
            f"dataclass `{of.__name__}` is not frozen, and a kernel's values do not change",
            "write `@dataclass(frozen=True)`",
        )
    hints = hints_of(of)
    return tuple(Field(name, annotated_type(hints.get(name))) for name in names_of(of))


def annotated_type(hint: Any) -> Type | None:
    """The type of values that an annotation pins: a dtype, an enum or a record; None for any other."""
    if isinstance(hint, DType):
        from kaio.dsl.element_types import element_type  # of which structs are records

        return element_type(hint)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return enum_type(hint)
    if (items := tuple_items(hint)) is not None:
        found = [annotated_type(item) for item in items]
        return None if None in found else TupleType(tuple(found))  # type: ignore[arg-type]
    return parameter_type(hint) if is_record(hint) else None


def enum_type(of: type[enum.Enum]) -> Type:
    """The type of a member that is known at run time only; RuleError where its values are no ints."""
    members = of.__members__.values()
    odd = next((m for m in members if not isinstance(m.value, int)), None)
    if not members or odd is not None:
        what = f"enum `{of.__name__}` has no members" if odd is None else f"`{odd}` is {odd.value!r}, not an int"
        raise RuleError(what, f"give the members of `{of.__name__}` int values")
    low, high = -(1 << 63), (1 << 63) - 1
    for member in members:
        if not low <= member.value <= high:
            raise RuleError(f"`{member}` is {member.value}, which does not fit i64", "give it a smaller value")
    return enum_dtype(of) if issubclass(of, int) else EnumType(of)


def parameter_type(of: type) -> RecordType:
    """The type of a record whose fields are all pinned, as of a kernel's parameter; RuleError where one is not."""
    fields = fields_of(of)
    free = next((field for field in fields if field.type is None), None)
    if free is not None:
        hint = hints_of(of).get(free.name)
        written = getattr(hint, "__name__", None) or str(hint)
        dtype = {int: "i32", float: "f32", bool: "bool_"}.get(hint, "f32") if isinstance(hint, type) else "f32"
        raise RuleError(
            f"field `{free.name}: {written}` of `{of.__name__}` does not say its dtype",
            f"annotate it with one, for example `{free.name}: {dtype}`",
        )
    return RecordType(of, tuple(f.name for f in fields), tuple(f.type for f in fields))  # type: ignore[misc]


def scalars_of(type_: Type, name: str) -> Iterator[tuple[str, DType]]:
    """The scalars that a parameter's value is made of, each under its own name: ``params.gain``.

    >>> from kaio import f32
    >>> list(scalars_of(f32, "a"))
    [('a', f32)]
    """
    if isinstance(type_, Compound):
        names = {position: field for field, position in type_.fields.items()}
        for position, item in enumerate(type_.items):
            yield from scalars_of(item, f"{name}.{names.get(position, position)}")
    else:
        yield name, type_.dtype if isinstance(type_, EnumType) else type_  # type: ignore[misc]


def field_of(type_: Compound, name: str) -> Type:
    """The type of a part that is read as an attribute, or RuleError with the name that was probably meant."""
    if name in type_.fields:
        return type_.items[type_.fields[name]]
    if callable(getattr(getattr(type_, "of", None), name, None)):
        way_out = "a kernel calls functions, not methods: write it as a function that takes the value"
    else:
        way_out = did_you_mean(name, type_.fields) or f"it has {', '.join(type_.fields)}"
    raise RuleError(f"{show(type_)} has no attribute `{name}` in a kernel", way_out)


def signature_of(of: type) -> inspect.Signature:
    """How a record is made: its fields by position, by keyword and by default."""
    if dataclasses.is_dataclass(of):
        wrong = next((f for f in dataclasses.fields(of) if not f.init), None)
        made = next((f for f in dataclasses.fields(of) if f.default_factory is not dataclasses.MISSING), None)
        if wrong is not None or hasattr(of, "__post_init__"):
            what = f"field `{wrong.name}` of `{of.__name__}` is" if wrong else f"`{of.__name__}` has fields that are"
            raise RuleError(f"{what} set by its own code", "pass such a value to the kernel, or make a tuple")
        if made is not None:
            raise RuleError(
                f"field `{made.name}` of `{of.__name__}` has a `default_factory`, which runs on the host only",
                f"give the value: `{of.__name__}({made.name}=...)`",
            )
    return inspect.signature(of)
