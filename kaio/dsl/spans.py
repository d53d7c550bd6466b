"""Elements that lie side by side, used as one: whether they are there, and begin at a multiple of their bytes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from kaio.dsl.rule_error import RuleError
from kaio.dsl.values import ArrayType, BufferType, TupleType, Type, Weak

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter

__all__ = ["check_alignment", "check_span"]


def check_span(array: BufferType | ArrayType, index: Type, count: int, name: str) -> None:
    """What is known when compiling of `count` elements from an index on along the last axis; RuleError if wrong."""
    if isinstance(array, BufferType) and array.strided:
        raise RuleError(
            f"elements that lie side by side are taken, and those of `{name}` may not: it is {array!r}",
            "annotate it without `Strided`",
        )
    if array.ndim == 0:
        raise RuleError(f"`{name}` has one element, not {count}")
    items = index.items if isinstance(index, TupleType) else (index,)
    known = [item.value for item in items if isinstance(item, Weak) and isinstance(item.value, int)]
    if not isinstance(array, ArrayType) or len(known) < len(items):
        return
    numbers = [k + size if k < 0 else k for k, size in zip(known, array.shape, strict=True)]
    if numbers[-1] + count > array.shape[-1]:
        raise RuleError(
            f"{count} elements from index {numbers[-1]} on do not fit axis {array.ndim - 1} of `{name}` "
            f"(size {array.shape[-1]})"
        )
    nbytes = count * array.dtype.itemsize
    place = sum(k * math.prod(array.shape[axis + 1 :]) for axis, k in enumerate(numbers)) * array.dtype.itemsize
    if place % nbytes:
        raise RuleError(f"{nbytes} bytes at a time begin at a multiple of them, and this is byte {place} of `{name}`")


def check_alignment(e: Emitter, pointer: Any, nbytes: int, what: str) -> None:
    """A fault, where the target checks, unless an address is a multiple of that power of two."""
    wide = e.integer(64)
    rest = e.b.and_(e.b.ptrtoint(pointer, wide), wide(nbytes - 1))
    e.target.check(e, e.b.icmp_unsigned("==", rest, wide(0)), f"{what} an address that is no multiple of {nbytes}")
