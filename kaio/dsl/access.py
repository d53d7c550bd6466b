"""Loads and stores that say how: past which caches, and for other threads to see."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any, Literal

from kaio.dsl.elements import check_index, check_store, check_writable
from kaio.dsl.intrinsic import Resolved, intrinsic
from kaio.dsl.rule_error import RuleError
from kaio.dsl.types import In, InOut, Out
from kaio.dsl.values import NONE, ArrayType, BufferType, ObjectType, Type

if TYPE_CHECKING:
    from kaio.dsl.compiler.emit import Emitter
    from kaio.dsl.compiler.ir import TypedCall

__all__ = ["load", "store"]

# PTX ISA, "Cache operators" and "Cache eviction priority hints": the qualifier that each is.
_EVICTION = {name: f"L1::{name}" for name in ("evict_first", "evict_last", "evict_unchanged", "no_allocate")}
_LOADS = {"ca": "ca", "cg": "cg", "cs": "cs", "lu": "lu", "cv": "cv", "nc": "nc", **_EVICTION}
_STORES = {"wb": "wb", "cg": "cg", "cs": "cs", "wt": "wt", **_EVICTION}


def _how(name: str, array: BufferType | ArrayType, hints: tuple[Type, ...], known: dict[str, str]) -> str:
    """The qualifier of the instruction, from `cache` and `volatile` as given, or RuleError."""
    given = [hint.value for hint in hints if isinstance(hint, ObjectType)]
    cache: Any = given[0] if given else None
    volatile: Any = given[1] if len(given) > 1 else False
    if cache is not None and cache not in known:
        near = difflib.get_close_matches(str(cache), known, 1)
        way_out = f'did you mean "{near[0]}"?' if near else f"it is one of {', '.join(map(repr, known))}"
        raise RuleError(f"{cache!r} is no hint to the caches that `{name}` knows", way_out)
    if not isinstance(volatile, bool):
        raise RuleError(f"whether `{name}` is volatile is True or False, not {volatile!r}")
    if volatile and cache is not None:
        raise RuleError("a volatile access goes past all caches", "leave out the hint to them, or `volatile=True`")
    space = array.space
    if cache is not None and space != "global":
        raise RuleError(f"there is no cache between a thread and {space} memory, as `buffer` is", "leave the hint out")
    if volatile and space not in ("global", "shared"):
        raise RuleError(f"`buffer` is {space} memory, which no other thread writes", "leave `volatile=True` out")
    return "volatile" if volatile else known.get(cache, "")


def _load_typing(buffer: Type, index: Type, *hints: Type) -> Resolved:
    array = check_index(buffer, index, "buffer")
    how = _how("load", array, hints, _LOADS)
    if how == "nc" and not (isinstance(array, BufferType) and array.access == "In"):
        raise RuleError('"nc" reads memory that nobody writes, and `buffer` is no `In`', 'take "ca", or leave it out')
    if how == "volatile" and isinstance(array, BufferType) and array.access == "In":
        raise RuleError("`buffer` is an `In` buffer, which nobody writes while the kernel runs", "annotate it `InOut`")
    return Resolved((buffer, index, *hints), array.dtype, (how,))


def _load(e: Emitter, call: TypedCall, array: Any, index: Any, *_: Any) -> Any:
    from kaio.dsl.compiler import elements, scalars

    type_, (how,) = call.operands[0], call.static
    assert isinstance(type_, BufferType | ArrayType)
    pointer = e.address(array, type_, index, call.operands[1], e.assigning)
    if not how:
        return elements.load(e, pointer, type_)
    return scalars.from_memory(e, e.target.load_as(e, pointer, how, type_.space), type_.dtype)


@intrinsic(
    _load_typing,
    emit=_load,
    constants=("cache", "volatile"),
    example='out[i] = kaio.load(x, i, cache="cg") + kaio.load(out, i, volatile=True)',
    ptx="ld.global.cg",
)
def load(
    buffer: In[Any, Any] | Out[Any, Any] | InOut[Any, Any],
    index: int | tuple[int, ...],
    cache: Literal["ca", "cg", "cs", "lu", "cv", "nc", "evict_first", "evict_last", "evict_unchanged", "no_allocate"]
    | None = None,
    volatile: bool = False,
) -> Any:
    """`buffer[index]`, with a hint to the caches or past them.

    `cache` is the operator of PTX: `"ca"` all levels, `"cg"` the L2 only, `"cs"` read once, `"lu"` last use, `"cv"` not
    from a cache, `"nc"` the read-only path (for `In`, where it is taken anyway), or an eviction priority of the L1. It
    changes the speed and nothing else, and on the CPU device not even that. `volatile=True` reads what other threads
    write meanwhile, each time anew; in shared memory, too.
    """


def _store_typing(buffer: Type, index: Type, value: Type, *hints: Type) -> Resolved:
    array = check_index(buffer, index, "buffer")
    check_writable(array, "buffer")
    check_store(array, value, "buffer", "value")
    how = _how("store", array, hints, _STORES)
    return Resolved((buffer, index, value, *hints), NONE, (how,))


def _store(e: Emitter, call: TypedCall, array: Any, index: Any, value: Any, *_: Any) -> None:
    from kaio.dsl.compiler import elements

    type_, (how,) = call.operands[0], call.static
    assert isinstance(type_, BufferType | ArrayType)
    pointer = e.address(array, type_, index, call.operands[1], e.assigning)
    put = None
    if how:

        def put(element: Any) -> None:
            e.target.store_as(e, element, pointer, how, type_.space)

    elements.store(e, pointer, type_.dtype, value, call.operands[2], put)


@intrinsic(
    _store_typing,
    emit=_store,
    constants=("cache", "volatile"),
    example='kaio.store(out, i, x[i] + 1, cache="cs")',
    ptx="st.global.cs",
)
def store(
    buffer: Out[Any, Any] | InOut[Any, Any],
    index: int | tuple[int, ...],
    value: Any,
    cache: Literal["wb", "cg", "cs", "wt", "evict_first", "evict_last", "evict_unchanged", "no_allocate"] | None = None,
    volatile: bool = False,
) -> None:
    """`buffer[index] = value`, with a hint to the caches or past them.

    `cache` is the operator of PTX: `"wb"` all levels, `"cg"` the L2 only, `"cs"` not read again soon, `"wt"` through to
    memory, or an eviction priority of the L1. `volatile=True` writes now, for other threads to see; they see it in
    order with other writes only after a `fence`.
    """
