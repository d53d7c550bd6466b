"""Elements of structured dtypes in a kernel: records whose fields have places in memory."""

from __future__ import annotations

import math

from kaio.dsl.complexes import complex_type
from kaio.dsl.records import RecordType
from kaio.dsl.values import TupleType, Type
from kaio.dsl.vectors import vector_type
from kaio.dtypes import DType
from kaio.structs import StructDType, StructField
from kaio.vectors import VectorDType

__all__ = ["field_type", "part_offset", "struct_type"]


def struct_type(dtype: DType) -> RecordType:
    """The type of values of a structured dtype."""
    assert isinstance(dtype, StructDType)
    names = tuple(field.name for field in dtype.fields)
    return RecordType(dtype, names, tuple(field_type(field) for field in dtype.fields))


def field_type(field: StructField) -> Type:
    """The type of a field: a sub-array is a tuple, of tuples where it has several axes."""
    return _nested(_one(field.dtype), field.shape)


def _one(dtype: DType) -> Type:
    if isinstance(dtype, StructDType):
        return struct_type(dtype)
    if isinstance(dtype, VectorDType):
        return vector_type(dtype)
    return complex_type(dtype) if dtype.kind == "c" else dtype


def _nested(type_: Type, shape: tuple[int, ...]) -> Type:
    for size in reversed(shape):
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
