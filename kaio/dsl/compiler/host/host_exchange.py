"""How the lanes of a warp exchange words on the host.

Each leaves its words in its own place and suspends. The scheduler, once all who take part are there, keeps their words
where they can all read them and resumes them. What an operation means (which lane is read, how votes are counted) is
then said by the host rule of its record over `Peers`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from llvmlite import ir as llvm

from kaio import host_abi as abi
from kaio.dsl.compiler.host.host_context import I32, I64, field_of

__all__ = ["ROW", "ROW_NBYTES", "Peers", "own_word", "splat"]

ROW = llvm.VectorType(I32, 32)
ROW_NBYTES = 4 * 32


@dataclass(frozen=True)
class Peers:
    """What the lanes of one warp operation have given. Read it before the thread waits again.

    members: the lanes that take part, an i32 with one bit each
    lane: this thread's own, an i32 from 0 to 31
    """

    b: llvm.IRBuilder
    context: llvm.Value
    members: llvm.Value
    lane: llvm.Value

    def word(self, k: int, lane: llvm.Value) -> llvm.Value:
        """The i32 that lane `lane` (an i32 from 0 to 31) has given as word `k`; undefined of one that is no member."""
        row = self.b.bitcast(self._row(k), I32.as_pointer())
        return self.b.load(self.b.gep(row, [self.b.zext(lane, I64)], inbounds=True))

    def all(self, k: int) -> llvm.Value:
        """Word `k` of every lane, one <32 x i32>; undefined where a lane is no member."""
        return self.b.load(self.b.bitcast(self._row(k), ROW.as_pointer()), align=64)

    def splat(self, value: llvm.Value) -> llvm.Value:
        """An i32 in each of 32 lanes, to compare with `all`."""
        return splat(self.b, value)

    def has(self, lane: llvm.Value) -> llvm.Value:
        """i1: whether lane `lane` takes part."""
        bit = self.b.lshr(self.members, lane)
        return self.b.trunc(bit, llvm.IntType(1))

    def _row(self, k: int) -> llvm.Value:
        return field_of(self.b, self.context, abi.TAKEN + ROW_NBYTES * k, llvm.IntType(8))


def splat(b: llvm.IRBuilder, value: llvm.Value) -> llvm.Value:
    """An i32 in each of 32 lanes."""
    undefined, zeros = llvm.Constant(ROW, llvm.Undefined), llvm.Constant(ROW, [0] * 32)
    return b.shuffle_vector(b.insert_element(undefined, value, I32(0)), undefined, zeros)


def own_word(b: llvm.IRBuilder, words: llvm.Value, word: int) -> Any:
    """Where a thread leaves one of its words; `words` is the address of its first."""
    return b.bitcast(b.gep(words, [I64(4 * word * abi.WORD_STRIDE)]), I32.as_pointer())
