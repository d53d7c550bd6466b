"""Atomic updates: what is to be done to an element, and how a compare-and-swap does what no instruction does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from llvmlite import ir as llvm

from kaio.dsl import primitives
from kaio.dsl.compiler.emission import arithmetic
from kaio.dsl.compiler.emission.access import Access
from kaio.dsl.compiler.emission.comparisons import compare_same
from kaio.dsl.compiler.emission.scalars import Value, llvm_type
from kaio.dsl.values import BOOL
from kaio.dtypes import DType

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter

__all__ = ["Change", "Update", "bits_of", "new_value", "swap", "value_of"]


Change = Callable[[Value], tuple[Value, Value]]
"""The value that a word of memory holds, and the word that it becomes."""


@dataclass(frozen=True)
class Update:
    """One update of one element.

    operation: ``add sub min max and or xor exch cas inc dec``
    operands: values of the element type; for ``cas`` what is expected and what is desired
    is_read: whether anything uses the value from before
    """

    operation: str
    dtype: DType
    pointer: Any
    operands: tuple[Any, ...]
    access: Access
    is_read: bool


def bits_of(e: Emitter, value: Value, dtype: DType) -> Value:
    """A value as the integer that it is in memory."""
    if dtype is BOOL:
        return e.b.zext(value, llvm.IntType(8))
    return e.b.bitcast(value, llvm.IntType(dtype.bits)) if dtype.is_float else value


def value_of(e: Emitter, bits: Value, dtype: DType) -> Value:
    """The value that an integer is in memory."""
    if dtype is BOOL:
        return e.b.icmp_unsigned("!=", bits, llvm.IntType(8)(0))
    return e.b.bitcast(bits, llvm_type(dtype)) if dtype.is_float else bits


def new_value(e: Emitter, update: Update, old: Value) -> Value:
    """What an element becomes that was `old`."""
    dtype, value = update.dtype, update.operands[-1]
    match update.operation:
        case "add" | "sub":
            sign = "+" if update.operation == "add" else "-"
            return arithmetic.binary(e, sign, (old, dtype), (value, dtype), dtype)
        case "and" | "or" | "xor":
            sign = {"and": "&", "or": "|", "xor": "^"}[update.operation]
            return arithmetic.binary(e, sign, (old, dtype), (value, dtype), dtype)
        case "min" | "max" if dtype.is_float:
            return e.use(primitives.minnum if update.operation == "min" else primitives.maxnum, old, value, dtype)
        case "min" | "max":
            return e.b.select(compare_same(e, "<" if update.operation == "min" else ">", value, old, dtype), value, old)
        case "exch":
            return value
        case "cas":
            expected = bits_of(e, update.operands[0], dtype)
            return e.b.select(e.b.icmp_unsigned("==", bits_of(e, old, dtype), expected), value, old)
        case "inc":
            wraps = compare_same(e, ">=", old, value, dtype)
            return e.b.select(wraps, e.const(dtype, 0), e.b.add(old, e.const(dtype, 1)))
    is_zero = e.b.icmp_unsigned("==", old, e.const(dtype, 0))
    wraps = e.b.or_(is_zero, compare_same(e, ">", old, value, dtype))
    return e.b.select(wraps, value, e.b.sub(old, e.const(dtype, 1)))


def swap(e: Emitter, first: Value, exchange: Callable[[Value, Value], Value], change: Change) -> Value:
    """Compare and swap until nothing came between; gives the value from before.

    first: a guess of what the word in memory is
    exchange: `exchange(expected, desired)` gives the word that was there
    change: see `Change`
    """
    before, again, done = e.b.block, e.block("again"), e.block("swapped")
    e.b.branch(again)
    e.b.position_at_end(again)
    word = e.b.phi(first.type)
    word.add_incoming(first, before)
    old, desired = change(word)
    found = exchange(word, desired)
    word.add_incoming(found, e.b.block)
    e.b.cbranch(e.b.icmp_unsigned("==", found, word), done, again)
    e.b.position_at_end(done)
    return old
