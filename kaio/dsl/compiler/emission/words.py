"""Values as the 32-bit words that warps exchange and that `print` sends, and back."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir as llvm

from kaio.errors import InternalError

__all__ = ["from_words", "to_words", "word_count"]

_I32 = llvm.IntType(32)


def _bits(type_: llvm.Type) -> int:
    """How many bits a value of this type has in a register."""
    if isinstance(type_, llvm.IntType):
        return int(type_.width)
    if isinstance(type_, llvm.VectorType):
        return int(type_.count) * _bits(type_.element)
    for kind, bits in ((llvm.HalfType, 16), (llvm.FloatType, 32), (llvm.DoubleType, 64)):
        if isinstance(type_, kind):
            return bits
    raise InternalError(f"a value of type {type_} is not exchanged")


def word_count(type_: llvm.Type) -> int:
    """How many words a value of this type is."""
    return -(-_bits(type_) // 32)


def to_words(b: llvm.IRBuilder, value: llvm.Value) -> list[llvm.Value]:
    """The i32 words of a number, the lowest first; one of less than 32 bits is the low part of one word."""
    bits = _bits(value.type)
    number = llvm.IntType(bits)
    if value.type != number:
        value = b.bitcast(value, number)
    if bits <= 32:
        return [value if bits == 32 else b.zext(value, _I32)]
    return [b.trunc(b.lshr(value, number(at)) if at else value, _I32) for at in range(0, bits, 32)]


def from_words(b: llvm.IRBuilder, words: Sequence[llvm.Value], type_: llvm.Type) -> llvm.Value:
    """The number of that type that these are the words of."""
    bits = _bits(type_)
    number = llvm.IntType(bits)
    if bits <= 32:
        value = words[0] if bits == 32 else b.trunc(words[0], number)
    else:
        value = b.zext(words[0], number)
        for k, word in enumerate(words[1:], 1):
            value = b.or_(value, b.shl(b.zext(word, number), number(32 * k)))
    return value if type_ == number else b.bitcast(value, type_)
