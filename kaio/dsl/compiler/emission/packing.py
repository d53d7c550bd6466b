"""Elements of several parts in memory: complex numbers and vectors, each one access.

Parts of 32 and 64 bits are LLVM vectors (``ld.global.v4.f32``); narrower ones lie in words of 32 bits, out of which
they are shifted, since LLVM for PTX takes vectors of bytes through local memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from llvmlite import ir as llvm

from kaio.dsl.compiler.emission.scalars import Value, llvm_type
from kaio.dtypes import DType

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter

__all__ = ["element_of", "element_type", "pack", "packed", "unpack", "unpacked", "vector", "words_of"]

_I32 = llvm.IntType(32)


def element_type(dtype: DType) -> llvm.Type:
    """The LLVM type in which an element is loaded and stored."""
    if dtype.kind == "s":
        return llvm.ArrayType(llvm.IntType(8), dtype.itemsize)
    part = dtype.parts[0][1]
    if part.bits >= 32:
        return llvm.VectorType(llvm_type(part), len(dtype.parts))
    words = dtype.itemsize // 4
    return _I32 if words == 1 else llvm.VectorType(_I32, words)


def unpacked(e: Emitter, value: Value, dtype: DType) -> tuple[Value, ...]:
    """The parts of a loaded element."""
    part, count = dtype.parts[0][1], len(dtype.parts)
    if part.bits >= 32:
        return tuple(e.b.extract_element(value, _I32(k)) for k in range(count))
    return tuple(lane for word in words_of(e, value) for lane in unpack(e.b, word, part.bits))


def packed(e: Emitter, parts: Sequence[Any], dtype: DType) -> Value:
    """An element of these parts, as it is stored."""
    part = dtype.parts[0][1]
    if part.bits >= 32:
        return vector(e.b, parts)
    each = 32 // part.bits
    return element_of(e, [pack(e.b, parts[k : k + each]) for k in range(0, len(parts), each)])


def element_of(e: Emitter, words: Sequence[Value]) -> Value:
    """The element of narrow parts that these are the words of."""
    return words[0] if len(words) == 1 else vector(e.b, words)


def words_of(e: Emitter, value: Value) -> list[Value]:
    """The words of an element of narrow parts."""
    if isinstance(value.type, llvm.IntType):
        return [value]
    return [e.b.extract_element(value, _I32(k)) for k in range(value.type.count)]


def pack(b: llvm.IRBuilder, parts: Sequence[Value]) -> Value:
    """Integers of 8 or 16 bits side by side in an i32, the first lowest."""
    word = b.zext(parts[0], _I32)
    for k, part in enumerate(parts[1:], 1):
        word = b.or_(word, b.shl(b.zext(part, _I32), _I32(k * part.type.width)))
    return word


def unpack(b: llvm.IRBuilder, word: Value, bits: int) -> list[Value]:
    """The integers of that width in an i32, the lowest first."""
    return [b.trunc(b.lshr(word, _I32(at)) if at else word, llvm.IntType(bits)) for at in range(0, 32, bits)]


def vector(b: llvm.IRBuilder, parts: Sequence[Value]) -> Value:
    """An LLVM vector of these."""
    value: Value = llvm.Constant(llvm.VectorType(parts[0].type, len(parts)), llvm.Undefined)
    for k, part in enumerate(parts):
        value = b.insert_element(value, part, _I32(k))
    return value
