"""A kernel's arguments in LLVM: a buffer is a pointer and its sizes, a bool a byte, a constant nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from llvmlite import ir as llvm

from kaio.dsl.compiler.scalars import from_memory, llvm_type, memory_type
from kaio.dsl.compiler.target import BufferValue
from kaio.dsl.values import BufferType, Type
from kaio.dtypes import DType

if TYPE_CHECKING:
    from kaio.dsl.compiler.emit import Emitter

__all__ = ["argument_types", "argument_values"]


def argument_types(types: Iterable[Type | None], space: int = 0) -> list[llvm.Type]:
    """The LLVM types of the arguments, in order; the buffers are in that address space."""
    flat: list[llvm.Type] = []
    for type_ in types:
        if isinstance(type_, BufferType):
            flat += [memory_type(type_.dtype).as_pointer(space), *[llvm_type(type_.index)] * type_.ndim]
        elif isinstance(type_, DType):
            flat.append(memory_type(type_))
    return flat


def argument_values(e: Emitter, types: Iterable[Type | None], flat: Iterable[llvm.Value]) -> tuple[Any, ...]:
    """The emitter's values of the arguments, from the flat ones."""
    rest = iter(flat)
    values: list[Any] = []
    for type_ in types:
        if isinstance(type_, BufferType):
            values.append(BufferValue(next(rest), tuple(next(rest) for _ in range(type_.ndim))))
        elif isinstance(type_, DType):
            values.append(from_memory(e, next(rest), type_))
        else:
            values.append(None)
    return tuple(values)
