"""What a value is made of at run time: the scalars and pointers that a phi joins, and the value made of them again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from llvmlite import ir as llvm

from kaio.dsl.compiler.emission.scalars import llvm_type, memory_type
from kaio.dsl.compiler.emission.target import ArrayValue, BufferValue
from kaio.dsl.values import ArrayType, BufferType, Compound, EnumType, Type, Weak
from kaio.dtypes import DType

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter

__all__ = ["buffer_value", "leaf_types", "leaves", "rebuild", "undefined"]


def leaf_types(e: Emitter, type_: Type) -> list[llvm.Type]:
    """The LLVM types of what a value is made of at run time."""
    match type_:
        case Compound(items=items):
            return [leaf for item in items for leaf in leaf_types(e, item)]
        case BufferType(dtype=dtype, ndim=ndim, index=index, space=space, strided=strided):
            numbers = [llvm_type(index)] * ndim * (1 + strided)
            return [_pointer(e, dtype, 3 if space == "shared" else 1), *numbers]
        case ArrayType(space="constant"):
            return []
        case ArrayType(space=space, dtype=dtype):
            return [_pointer(e, dtype, 3 if space == "shared" else 0)]
    if _is_scalar(type_):
        return [llvm_type(type_)]
    return []


def leaves(value: Any, type_: Type) -> list[llvm.Value]:
    """What a value is made of at run time."""
    match type_:
        case Compound(items=items):
            return [leaf for v, item in zip(value, items, strict=True) for leaf in leaves(v, item)]
        case BufferType():
            return [value.pointer, *value.sizes, *value.strides]
        case ArrayType():
            return [] if type_.space == "constant" else [value.pointer]
    if _is_scalar(type_):
        return [value]
    return []


def rebuild(leaves: Iterator[llvm.Value], type_: Type) -> Any:
    """The value that is made of these."""
    match type_:
        case Compound(items=items):
            return tuple(rebuild(leaves, item) for item in items)
        case BufferType():
            return buffer_value(leaves, type_)
        case ArrayType():
            return None if type_.space == "constant" else ArrayValue(next(leaves))
    if _is_scalar(type_):
        return next(leaves)
    return None


def buffer_value(leaves: Iterator[llvm.Value], type_: BufferType) -> BufferValue:
    """A buffer from its address, its sizes and, where it is strided, its strides."""
    pointer, sizes = next(leaves), tuple(next(leaves) for _ in range(type_.ndim))
    return BufferValue(pointer, sizes, tuple(next(leaves) for _ in sizes) if type_.strided else ())


def _pointer(e: Emitter, dtype: DType, space: int) -> llvm.Type:
    return memory_type(dtype).as_pointer(space if e.target.name == "cuda" else 0)


def _is_scalar(type_: Type) -> bool:
    """Whether there is one number at run time; a literal of one value is in its type alone."""
    if isinstance(type_, EnumType):
        return type_.member is None
    return isinstance(type_, DType) or (isinstance(type_, Weak) and len(type_.values) > 1)


def undefined(e: Emitter, type_: Type) -> list[llvm.Value]:
    """The leaves of a value that is never read."""
    return [llvm.Constant(leaf, llvm.Undefined) for leaf in leaf_types(e, type_)]
