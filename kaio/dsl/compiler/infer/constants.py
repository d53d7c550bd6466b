"""The types of literals and of what a kernel captures."""

from __future__ import annotations

import enum
from typing import Any

import numpy as np

from kaio.dsl import complexes, literals, stores
from kaio.dsl.element_types import element_type
from kaio.dsl.records import RecordType, fields_of
from kaio.dsl.rule_error import RuleError
from kaio.dsl.values import MOST_CONSTANT_NBYTES, ArrayType, EnumType, Member, ObjectType, TupleType, Type
from kaio.dtypes import DType, dtype_of
from kaio.errors import KaioError
from kaio.record_classes import is_record, names_of

__all__ = ["constant_array", "constant_type", "numpy_dtype"]

_MOST_DIMENSIONS = 4


def constant_type(value: Any) -> Type:
    """The type of a literal or of a captured object."""
    if isinstance(value, np.generic):
        return element_type(dtype_of(value.dtype))  # np.float64(0.1) has a width of its own
    if isinstance(value, enum.Enum):
        return _member_type(value)
    if isinstance(value, complex):
        return complexes.literal(value)
    if is_record(type(value)) and (record := _record_type(value)) is not None:
        return record
    if isinstance(value, bool | int | float):
        return literals.literal(value)
    if isinstance(value, tuple):
        return TupleType(tuple(map(constant_type, value)))
    if isinstance(value, np.ndarray):
        return constant_array(value)
    return ObjectType(value)


def constant_array(array: np.ndarray[Any, Any]) -> ArrayType:
    """A NumPy array as it is now, copied; RuleError for one that constant memory does not hold."""
    if isinstance(array, np.ma.MaskedArray):
        raise RuleError("a masked array has elements that are none", "fill in what is masked: `array.filled(…)`")
    if array.nbytes > MOST_CONSTANT_NBYTES:
        raise RuleError(
            f"a captured array is constant memory, which holds {MOST_CONSTANT_NBYTES} bytes; this one takes "
            f"{array.nbytes} ({array.dtype}[{', '.join(map(str, array.shape))}])",
            "pass it to the kernel as a buffer",
        )
    if array.ndim > _MOST_DIMENSIONS:
        raise RuleError(f"an array in a kernel has at most 4 dimensions, not {array.ndim}", "reshape it before")
    return ArrayType("constant", numpy_dtype(array.dtype), array.shape, contents=array.tobytes())


def _member_type(value: enum.Enum) -> Type:
    if isinstance(value, int):
        return Member("i", (int(value),))
    return EnumType(type(value), value) if isinstance(value.value, int) else ObjectType(value)


def _record_type(value: Any) -> RecordType | None:
    """The type of a captured record; None where it is an object whose attributes are captured one by one."""
    of: Any = type(value)
    is_fixed = isinstance(value, tuple) or of.__dataclass_params__.frozen
    if not is_fixed or any(isinstance(constant_type(getattr(value, name)), ObjectType) for name in names_of(of)):
        return None
    items = tuple(_pinned(field.type, constant_type(getattr(value, field.name))) for field in fields_of(of))
    return RecordType(of, names_of(of), items)


def _pinned(annotated: Type | None, found: Type) -> Type:
    """What a field of a captured record is: its annotation's dtype, which must hold the value; else as by itself."""
    if not isinstance(annotated, DType):
        return found
    stores.store(found, annotated)  # type: ignore[arg-type]
    return annotated


def numpy_dtype(scalar: type[np.generic] | np.dtype[Any]) -> DType:
    """The dtype of a NumPy scalar type called in a kernel, or of an array that is captured."""
    try:
        return dtype_of(scalar)
    except KaioError as problem:
        raise RuleError(problem.mistakes[0].what, problem.mistakes[0].help) from None
