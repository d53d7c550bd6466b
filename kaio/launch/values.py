"""Arguments of several scalars: members of enums, NamedTuples and frozen dataclasses, field by field."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

from kaio.dsl.records import enum_type, parameter_type
from kaio.dsl.types import EnumAnnotation, RecordAnnotation
from kaio.dsl.values import Compound, TupleType, Type
from kaio.dtypes import DType
from kaio.errors import LaunchError, is_message
from kaio.launch.call import Call
from kaio.launch.scalars import convert, packable, parts
from kaio.record_classes import hints_of, tuple_items
from kaio.runtime.scalars import describe

__all__ = ["parts_check", "value_check"]

__tracebackhide__ = is_message

Reader = Callable[[Any, list[Any]], None]
"""Appends the scalars of a value to what is packed, or raises LaunchError."""


def value_check(kernel: str, name: str, annotation: EnumAnnotation | RecordAnnotation) -> Callable[[Any, Call], None]:
    """A closure that checks one such argument and notes its scalars in the call."""
    type_ = enum_type(annotation.of) if isinstance(annotation, EnumAnnotation) else parameter_type(annotation.of)
    return _checked(_reader(kernel, name, type_, annotation.of))


def _reader(kernel: str, name: str, type_: Type, of: Any) -> Reader:
    if isinstance(of, type) and issubclass(of, enum.Enum):
        return _member_reader(kernel, name, of)
    if isinstance(of, DType) and of.parts:
        return _parts_reader(kernel, name, of)
    if isinstance(type_, TupleType):
        return _tuple_reader(kernel, name, type_, tuple_items(of) or ())
    if isinstance(type_, Compound):
        return _record_reader(kernel, name, type_)
    return lambda value, packed: packed.append(packable(type_, convert(kernel, name, type_, value)))  # type: ignore[arg-type]


def parts_check(kernel: str, name: str, dtype: DType) -> Callable[[Any, Call], None]:
    """A closure that checks a scalar of several parts, a complex number, and notes them in the call."""
    return _checked(_parts_reader(kernel, name, dtype))


def _checked(read: Reader) -> Callable[[Any, Call], None]:
    def check_value(value: Any, call: Call) -> None:
        __tracebackhide__ = is_message
        read(value, call.packed)

    return check_value


def _parts_reader(kernel: str, name: str, dtype: DType) -> Reader:
    def read(value: Any, packed: list[Any]) -> None:
        __tracebackhide__ = is_message
        found = parts(kernel, name, dtype, value)
        packed += [packable(part, number) for (_, part), number in zip(dtype.parts, found, strict=True)]

    return read


def _tuple_reader(kernel: str, name: str, type_: TupleType, of: tuple[Any, ...]) -> Reader:
    readers = [
        _reader(kernel, f"{name}.{k}", item, hint) for k, (item, hint) in enumerate(zip(type_.items, of, strict=True))
    ]

    def read(value: Any, packed: list[Any]) -> None:
        if not isinstance(value, tuple | list) or len(value) != len(readers):
            raise LaunchError(
                f"argument `{name}` of kernel `{kernel}` must be a tuple of {len(readers)} (got {describe(value)})"
            )
        for part, item in zip(readers, value, strict=True):
            part(item, packed)

    return read


def _member_reader(kernel: str, name: str, of: type[enum.Enum]) -> Reader:
    def read(value: Any, packed: list[Any]) -> None:
        if not isinstance(value, of):
            raise LaunchError(
                f"argument `{name}` of kernel `{kernel}` must be a member of {of.__name__} (got {describe(value)})",
                help=_member_of(of, value),
            )
        packed.append(int(value.value))

    return read


def _member_of(of: type[enum.Enum], value: Any) -> str:
    try:
        return f"write `{of(value)}`"
    except ValueError:
        return f"for example `{next(iter(of))}`"


def _record_reader(kernel: str, name: str, type_: Any) -> Reader:
    of, hints = type_.of, hints_of(type_.of)
    readers = [
        (field, _reader(kernel, f"{name}.{field}", item, hints[field]))
        for field, item in zip(type_.names, type_.items, strict=True)
    ]

    def read(value: Any, packed: list[Any]) -> None:
        if not isinstance(value, of):
            fields = ", ".join(type_.names)
            raise LaunchError(
                f"argument `{name}` of kernel `{kernel}` must be a {of.__name__} (got {describe(value)})",
                help=f"make one: `{of.__name__}({fields})`",
            )
        for field, part in readers:
            part(getattr(value, field), packed)

    return read
