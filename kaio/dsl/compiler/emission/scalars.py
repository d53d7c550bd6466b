"""How a scalar is in a register, and how in memory: LLVM's types and numbers of kaio's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from llvmlite import ir as llvm

from kaio.dsl.values import BOOL, ArrayType, EnumType, Type, Weak
from kaio.dtypes import DType
from kaio.errors import InternalError
from kaio.rounding import bits_of, nearest

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter

__all__ = [
    "Value",
    "alignment",
    "choose",
    "constant",
    "extent",
    "from_memory",
    "llvm_type",
    "memory_type",
    "nbytes",
    "to_memory",
]

Value = Any  # an llvmlite value; llvmlite has no types of its own


def llvm_type(type_: Type) -> llvm.Type:
    """The LLVM type of a scalar in a register; floats of 16 and 8 bits are their bits."""
    if type_ is BOOL:
        return llvm.IntType(1)
    if isinstance(type_, Weak):  # which of several values: their position
        return llvm.IntType(32)
    if isinstance(type_, EnumType):
        type_ = type_.dtype
    if isinstance(type_, DType):
        if type_.is_float and type_.bits >= 32:
            return llvm.FloatType() if type_.bits == 32 else llvm.DoubleType()
        return llvm.IntType(type_.bits)
    raise InternalError(f"{type_!r} has no value at run time")


def constant(dtype: DType, value: int | float | bool) -> llvm.Constant:
    """A number of that type."""
    if dtype is BOOL:
        return llvm.Constant(llvm.IntType(1), int(bool(value)))
    if dtype.is_float and dtype.bits < 32:
        return llvm.Constant(llvm_type(dtype), bits_of(dtype, value if isinstance(value, int) else float(value)))
    return llvm.Constant(llvm_type(dtype), nearest(dtype, value) if dtype.is_float else int(value))


def memory_type(dtype: DType) -> llvm.Type:
    """The LLVM type of an element in memory."""
    if dtype.parts:
        return packing.element_type(dtype)
    return llvm.IntType(8) if dtype is BOOL else llvm_type(dtype)


def nbytes(element: llvm.Type) -> int:
    """The size of an element in memory."""
    if isinstance(element, llvm.IntType):
        return int(element.width + 7) // 8
    if isinstance(element, llvm.VectorType | llvm.ArrayType):
        return int(element.count) * nbytes(element.element)
    return 4 if isinstance(element, llvm.FloatType) else 8


def alignment(e: Emitter, element: llvm.Type) -> int | None:
    """The alignment of an access: on the host that of a part, as NumPy has it; None is LLVM's own."""
    is_wide = isinstance(element, llvm.VectorType) and e.target.name == "host"
    return nbytes(element.element) if is_wide else None


def extent(array: ArrayType) -> tuple[llvm.Type, int]:
    """The LLVM type of the elements of an array in memory, and how many there are."""
    return memory_type(array.dtype), math.prod(array.shape)


def from_memory(e: Emitter, value: Value, dtype: DType) -> Value:
    """A loaded element as a value: bools are bytes in memory, what has parts is a tuple of them."""
    if dtype.parts:
        return packing.unpacked(e, value, dtype)
    return e.b.icmp_unsigned("!=", value, llvm.IntType(8)(0)) if dtype is BOOL else value


def to_memory(e: Emitter, value: Value, dtype: DType) -> Value:
    """A value as it is stored."""
    if dtype.parts:
        return packing.packed(e, value, dtype)
    return e.b.zext(value, llvm.IntType(8)) if dtype is BOOL else value


def choose(e: Emitter, position: Value, values: Sequence[Value]) -> Value:
    """The value at that position (an i32): how one of several literals is found at run time."""
    chosen = values[0]
    for k, value in enumerate(values[1:], 1):
        chosen = e.b.select(e.b.icmp_unsigned("==", position, llvm.IntType(32)(k)), value, chosen)
    return chosen


from kaio.dsl.compiler.emission import packing  # noqa: E402 - which is written with the types of scalars
