"""Elements of several parts in memory: complex numbers are one access of two floats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from llvmlite import ir as llvm

from kaio.dsl.compiler.scalars import Value, llvm_type
from kaio.dtypes import DType

if TYPE_CHECKING:
    from kaio.dsl.compiler.emit import Emitter

__all__ = ["element_type", "packed", "unpacked"]


def element_type(dtype: DType) -> llvm.Type:
    """The LLVM type in which an element is loaded and stored."""
    parts = [part for _, part in dtype.parts]
    return llvm.VectorType(llvm_type(parts[0]), len(parts))


def unpacked(e: Emitter, value: Value, dtype: DType) -> tuple[Value, ...]:
    """The parts of a loaded element."""
    return tuple(e.b.extract_element(value, llvm.IntType(32)(k)) for k in range(len(dtype.parts)))


def packed(e: Emitter, parts: Sequence[Any], dtype: DType) -> Value:
    """An element of these parts, as it is stored."""
    value: Value = llvm.Constant(element_type(dtype), llvm.Undefined)
    for k, part in enumerate(parts):
        value = e.b.insert_element(value, part, llvm.IntType(32)(k))
    return value
