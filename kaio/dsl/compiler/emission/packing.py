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

__all__ = ["element_of", "element_type", "packed", "unpacked", "words_of"]

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
    words = words_of(e, value)
    each = 32 // part.bits
    return tuple(
        e.b.trunc(_shifted(e.b.lshr, words[k // each], k % each * part.bits), llvm_type(part)) for k in range(count)
    )


def packed(e: Emitter, parts: Sequence[Any], dtype: DType) -> Value:
    """An element of these parts, as it is stored."""
    part = dtype.parts[0][1]
    if part.bits >= 32:
        return _vector(e, parts, element_type(dtype))
    each = 32 // part.bits
    words = []
    for first in range(0, len(parts), each):
        word = e.b.zext(parts[first], _I32)
        for k in range(1, each):
            word = e.b.or_(word, e.b.shl(e.b.zext(parts[first + k], _I32), _I32(k * part.bits)))
        words.append(word)
    return element_of(e, words, dtype)


def element_of(e: Emitter, words: Sequence[Value], dtype: DType) -> Value:
    """The element of narrow parts that these are the words of."""
    return words[0] if len(words) == 1 else _vector(e, words, element_type(dtype))


def words_of(e: Emitter, value: Value) -> list[Value]:
    """The words of an element of narrow parts."""
    if isinstance(value.type, llvm.IntType):
        return [value]
    return [e.b.extract_element(value, _I32(k)) for k in range(value.type.count)]


def _shifted(shift: Any, word: Value, bits: int) -> Value:
    return shift(word, _I32(bits)) if bits else word


def _vector(e: Emitter, parts: Sequence[Value], kind: llvm.Type) -> Value:
    value: Value = llvm.Constant(kind, llvm.Undefined)
    for k, part in enumerate(parts):
        value = e.b.insert_element(value, part, _I32(k))
    return value
