"""A kernel's arguments in LLVM: a buffer is a pointer, sizes and perhaps strides, a bool a byte, a constant nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from llvmlite import ir as llvm

from kaio.dsl.compiler.emission.leaves import buffer_value
from kaio.dsl.compiler.emission.scalars import from_memory, llvm_type, memory_type
from kaio.dsl.records import scalars_of
from kaio.dsl.values import BufferType, Compound, EnumType, Type
from kaio.dtypes import DType

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter

__all__ = ["argument_types", "argument_values"]


def argument_types(types: Iterable[Type | None], space: int = 0) -> list[llvm.Type]:
    """The LLVM types of the arguments, in order; the buffers are in that address space."""
    flat: list[llvm.Type] = []
    for type_ in types:
        if isinstance(type_, BufferType):
            numbers = [llvm_type(type_.index)] * type_.ndim * (1 + type_.strided)
            flat += [memory_type(type_.dtype).as_pointer(space), *numbers]
        elif type_ is not None:
            flat += [memory_type(dtype) for _, dtype in scalars_of(type_, "")]
    return flat


def argument_values(e: Emitter, types: Iterable[Type | None], flat: Iterable[llvm.Value]) -> tuple[Any, ...]:
    """The emitter's values of the arguments, from the flat ones."""
    rest = iter(flat)
    return tuple(_value(e, type_, rest) for type_ in types)


def _value(e: Emitter, type_: Type | None, rest: Iterator[llvm.Value]) -> Any:
    match type_:
        case BufferType():
            return buffer_value(rest, type_)
        case Compound(items=items):
            return tuple(_value(e, item, rest) for item in items)
        case DType():
            return from_memory(e, next(rest), type_)
        case EnumType():
            return next(rest)
    return None
