"""`value.name`: of buffers and arrays, of positions, and of Python objects, which are captured."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from kaio.dsl import enums
from kaio.dsl.compiler.advice import instead_of_function
from kaio.dsl.compiler.captures import Capture
from kaio.dsl.compiler.infer.constants import constant_type
from kaio.dsl.intrinsic import Namespace
from kaio.dsl.overloads import METHODS
from kaio.dsl.records import RecordType, field_of
from kaio.dsl.rule_error import RuleError
from kaio.dsl.values import (
    INDEX64,
    ArrayType,
    BufferType,
    Compound,
    EnumType,
    MethodType,
    ObjectType,
    TupleType,
    Type,
    Weak,
    show,
)
from kaio.dtypes import DType, dtype_of
from kaio.errors import did_you_mean
from kaio.structs import StructDType

if TYPE_CHECKING:
    from kaio.dsl.compiler.infer.inference import Inference

__all__ = ["attribute"]


def attribute(inference: Inference, value: Type, name: str) -> Type:
    """The type of an attribute; what is read of an object is captured."""
    if isinstance(value, ObjectType):
        return _of_object(inference, value.value, name)
    if isinstance(value, BufferType | ArrayType):
        return _of_array(value, name)
    if isinstance(value, EnumType):
        return enums.value_of(value, name)
    if isinstance(value, RecordType) and name == "_replace" and _replaces(value):
        return MethodType(name, value)
    if (type(value), name) in METHODS:
        return MethodType(name, value)
    if isinstance(value, Compound) and value.fields:
        return field_of(value, name)
    raise RuleError(f"{show(value)} has no attribute `{name}`", _instead(value, name))


def _instead(value: Type, name: str) -> str | None:
    """What a kernel writes for what is a method elsewhere, `x[i].sqrt()`."""
    if isinstance(value, DType | Weak) and name == "astype":
        return "cast it, for example `kaio.f32(...)`"
    found = instead_of_function(name)
    return f"it is a function: `{found}(...)`" if found else None


def _replaces(value: RecordType) -> bool:
    """NamedTuples have `_replace`, and so have elements of structured dtypes, which have no class."""
    return value.is_sequence or isinstance(value.of, StructDType)


def _of_array(value: BufferType | ArrayType, name: str) -> Type:
    known: dict[str, Type] = {"ndim": Weak("i", (value.ndim,)), "dtype": ObjectType(value.dtype)}
    if isinstance(value, ArrayType):
        known["size"] = Weak("i", (math.prod(value.shape),))
        known["shape"] = TupleType(tuple(Weak("i", (n,)) for n in value.shape))
        known["strides"] = TupleType(tuple(Weak("i", (n,)) for n in _strides(value)))
    else:
        known |= {"size": value.index, "shape": TupleType((value.index,) * value.ndim)}
        known["strides"] = TupleType((INDEX64,) * value.ndim)  # bytes may not fit i32 where elements do
    if name in known:
        return known[name]
    way_out = did_you_mean(name, known) or f"it has {', '.join(sorted(known))}"
    raise RuleError(f"{show(value)} has no attribute `{name}`", way_out)


def _strides(array: ArrayType) -> list[int]:
    return [math.prod(array.shape[axis + 1 :]) * array.dtype.itemsize for axis in range(array.ndim)]


def _of_object(inference: Inference, value: Any, name: str) -> Type:
    if isinstance(value, Namespace):
        if name in ("x", "y", "z"):
            return dtype_of("int32")
        raise RuleError(f"`{value.name}` has no attribute `{name}`", "it has x, y and z")
    try:
        found = inference.attributes.setdefault((id(value), name), getattr(value, name))  # a method is new each time
    except Exception:
        what = f"{ObjectType(value)!r} has no attribute `{name}`"
        raise RuleError(what, did_you_mean(name, dir(value))) from None
    space = getattr(value, "__dict__", None)
    if isinstance(space, dict) and name in space:
        inference.captures[id(space), name] = Capture(space, name, found)
    return constant_type(found)
