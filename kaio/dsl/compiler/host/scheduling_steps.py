"""The steps of the block scheduler that kaio's language cannot say: calls of native code, and whole warps at once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

from llvmlite import ir as llvm

from kaio import host_abi as abi
from kaio.dsl.compiler.host.host_exchange import ROW, splat
from kaio.dsl.intrinsic import Resolved, intrinsic
from kaio.dsl.types import D2, InOut
from kaio.dsl.values import NONE
from kaio.dtypes import i32, i64, u32

__all__ = ["lanes_at", "native", "of_slot", "take_row"]

B = TypeVar("B")
_I8, _I32 = llvm.IntType(8), llvm.IntType(32)
_ALIGNMENT = 64  # of the context, of the words, and of the strides of both


def _call_native(e: Any, call: Any, address: Any, context: Any, first: Any, stop: Any, state: Any) -> None:
    pointer = _I8.as_pointer()
    kind = llvm.FunctionType(llvm.VoidType(), [pointer, _I32, _I32, _I32])
    e.b.call(e.b.inttoptr(address, kind.as_pointer()), [e.b.inttoptr(context, pointer), first, stop, state])


@intrinsic(lambda *_: Resolved((i64, i64, i32, i32, i32), NONE), host=_call_native)
def native(address: i64, context: i64, first: i32, stop: i32, state: i32) -> None:
    """Call `k_plain`, `k_start` or `k_run` of a kernel."""


def _of_slot(e: Any, call: Any, buffer: Any, slot: Any, size: Any) -> Any:
    at = e.b.mul(e.b.sext(slot, llvm.IntType(64)), e.b.sext(size, llvm.IntType(64)))
    return replace(buffer, pointer=e.b.gep(buffer.pointer, [at]))


@intrinsic(lambda buffer, *_: Resolved((buffer, i32, i32), buffer), host=_of_slot)
def of_slot(buffer: B, slot: i32, size: i32) -> B:
    """A buffer of one of several blocks: they lie behind each other, each of `size` elements."""
    raise AssertionError


def _row(e: Any, words: Any, word: Any, first: Any) -> Any:
    """The words of a whole warp, as the address of one vector."""
    at = e.b.add(e.b.mul(word, _I32(abi.WORD_STRIDE)), first)
    return e.b.bitcast(e.b.gep(words.pointer, [at]), ROW.as_pointer())


def _lanes_at(e: Any, call: Any, words: Any, word: Any, first: Any, value: Any) -> Any:
    lanes = e.b.load(_row(e, words, word, first), align=_ALIGNMENT)
    return e.b.bitcast(e.b.icmp_signed("==", lanes, splat(e.b, value)), _I32)


@intrinsic(lambda words, *_: Resolved((words, i32, i32, i32), u32), host=_lanes_at)
def lanes_at(words: InOut[i32, D2], word: i32, first: i32, value: i32) -> u32:
    """The lanes of the warp from thread `first` on whose word has this value, those beyond the block included."""
    raise AssertionError


def _take_row(e: Any, call: Any, context: Any, words: Any, word: Any, first: Any) -> None:
    row = e.b.load(_row(e, words, e.b.add(word, _I32(abi.GIVEN)), first), align=_ALIGNMENT)
    to = e.b.gep(context.pointer, [e.b.add(_I32(abi.TAKEN // 4), e.b.mul(word, _I32(32)))])
    e.b.store(row, e.b.bitcast(to, ROW.as_pointer()), align=_ALIGNMENT)


@intrinsic(lambda context, words, *_: Resolved((context, words, i32, i32), NONE), host=_take_row)
def take_row(context: InOut[i32], words: InOut[i32, D2], word: i32, first: i32) -> None:
    """Copy one of the words that the lanes of a warp have given to the context."""
