"""Values of any number of parts as the 32-bit words that lanes exchange and warps leave in shared memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from llvmlite import ir as llvm

from kaio.dsl.compiler.emission import packing
from kaio.dsl.compiler.emission.leaves import leaf_types, leaves, rebuild
from kaio.dsl.compiler.emission.words import from_words, to_words, word_count
from kaio.dsl.values import Compound, Type
from kaio.dsl.vectors import VectorType

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter

__all__ = ["value_from", "words_of"]


def words_of(e: Emitter, value: Any, type_: Type) -> list[llvm.Value]:
    """The i32 words of a value, part after part; the narrow lanes of a vector share theirs."""
    if _is_packed(type_):
        return packing.words_of(e, packing.packed(e, value, type_.dtype))  # type: ignore[union-attr]
    if isinstance(type_, Compound):
        return [word for part, item in zip(value, type_.items, strict=True) for word in words_of(e, part, item)]
    return [word for leaf in leaves(value, type_) for word in to_words(e.b, leaf)]


def value_from(e: Emitter, words: list[llvm.Value], type_: Type) -> Any:
    """The value that these are the words of."""
    return _next(e, iter(words), type_)


def _next(e: Emitter, words: Iterator[llvm.Value], type_: Type) -> Any:
    """The value of the next words."""
    if _is_packed(type_):
        dtype: Any = type_.dtype  # type: ignore[union-attr]
        return packing.unpacked(e, packing.element_of(e, [next(words) for _ in range(dtype.itemsize // 4)]), dtype)
    if isinstance(type_, Compound):
        return tuple(_next(e, words, item) for item in type_.items)
    made = [from_words(e.b, [next(words) for _ in range(word_count(kind))], kind) for kind in leaf_types(e, type_)]
    return rebuild(iter(made), type_)


def _is_packed(type_: Type) -> bool:
    """Whether several parts lie in one word."""
    return isinstance(type_, VectorType) and type_.lane.bits < 32 and type_.dtype is not None
