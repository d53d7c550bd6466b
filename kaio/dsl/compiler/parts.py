"""Values of any number of parts as the 32-bit words that lanes exchange and warps leave in shared memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir as llvm

from kaio.dsl.compiler.leaves import leaf_types, leaves, rebuild
from kaio.dsl.compiler.words import from_words, to_words, word_count
from kaio.dsl.values import Type

if TYPE_CHECKING:
    from kaio.dsl.compiler.emit import Emitter

__all__ = ["value_from", "words_of"]


def words_of(e: Emitter, value: Any, type_: Type) -> list[llvm.Value]:
    """The i32 words of a value, part after part."""
    return [word for leaf in leaves(value, type_) for word in to_words(e.b, leaf)]


def value_from(e: Emitter, words: list[llvm.Value], type_: Type) -> Any:
    """The value that these are the words of."""
    rest = iter(words)
    made = [from_words(e.b, [next(rest) for _ in range(word_count(kind))], kind) for kind in leaf_types(e, type_)]
    return rebuild(iter(made), type_)
