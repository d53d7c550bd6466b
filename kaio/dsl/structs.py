"""Elements of structured dtypes in a kernel: records whose fields have places in memory."""

from __future__ import annotations

import math

from kaio.dsl.element_types import element_type
from kaio.dsl.values import TupleType, Type
from kaio.dtypes import DType
from kaio.structs import StructDType, StructField

__all__ = ["field_type", "part_offset"]


def field_type(field: StructField) -> Type:
    """The type of a field: a sub-array is a tuple, of tuples where it has several axes."""
    type_ = element_type(field.dtype)
    for size in reversed(field.shape):
        type_ = TupleType((type_,) * size)
    return type_


def part_offset(place: tuple[DType, tuple[int, ...]], position: int) -> tuple[int, tuple[DType, tuple[int, ...]]]:
    """Where a part lies in a place (a dtype and a shape), in bytes, and what place it is.

    A part is an item along the first axis of a sub-array, a field of a struct, or a part of a complex number or vector.
    """
    dtype, shape = place
    if shape:
        return position * math.prod(shape[1:]) * dtype.itemsize, (dtype, shape[1:])
    if isinstance(dtype, StructDType):
        field = dtype.fields[position]
        return field.offset, (field.dtype, field.shape)
    part = dtype.parts[position][1]
    return position * part.itemsize, (part, ())
