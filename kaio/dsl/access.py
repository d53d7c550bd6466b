"""Loads and stores that say how: several elements at once, past which caches, and for other threads to see."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from kaio.dsl.element_types import element_type
from kaio.dsl.elements import check_index, check_store, check_writable
from kaio.dsl.intrinsic import Resolved, intrinsic
from kaio.dsl.rule_error import RuleError, known_word
from kaio.dsl.spans import check_alignment, check_span
from kaio.dsl.types import In, InOut, Out
from kaio.dsl.values import NONE, ArrayType, BufferType, Compound, ObjectType, Type, show
from kaio.dtypes import DType
from kaio.vectors import VECTORS

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter
    from kaio.dsl.compiler.ir import TypedCall

__all__ = ["load", "store"]

# PTX ISA, "Cache operators" and "Cache eviction priority hints": the qualifier that each is.
_EVICTION = {name: f"L1::{name}" for name in ("evict_first", "evict_last", "evict_unchanged", "no_allocate")}
_LOADS = {"ca": "ca", "cg": "cg", "cs": "cs", "lu": "lu", "cv": "cv", "nc": "nc", **_EVICTION}
_STORES = {"wb": "wb", "cg": "cg", "cs": "cs", "wt": "wt", **_EVICTION}


def _how(name: str, array: BufferType | ArrayType, dtype: DType, hints: tuple[Type, ...], known: dict[str, str]) -> str:
    """The qualifier of the instruction, from `cache` and `volatile` as given, or RuleError."""
    given = [hint.value for hint in hints if isinstance(hint, ObjectType)]
    cache: Any = given[0] if given else None
    volatile: Any = given[1] if len(given) > 1 else False
    if cache is not None and cache not in known:
        raise RuleError(f"{cache!r} is no hint to the caches that `{name}` knows", known_word(cache, known))
    if not isinstance(volatile, bool):
        raise RuleError(f"whether `{name}` is volatile is True or False, not {volatile!r}")
    if volatile and cache is not None:
        raise RuleError("a volatile access goes past all caches", "leave out the hint to them, or `volatile=True`")
    if dtype.kind == "s":
        raise RuleError(
            f"`{name}` of {show(dtype)}, whose fields are read and written one by one", "write `buffer[index]`"
        )
    if volatile and dtype.parts:
        raise RuleError(f"{show(dtype)} is not read or written in one step that others see whole", "use its parts")
    space = array.space
    if cache is not None and space != "global":
        raise RuleError(f"there is no cache between a thread and {space} memory, as `buffer` is", "leave the hint out")
    if volatile and space not in ("global", "shared"):
        raise RuleError(f"`buffer` is {space} memory, which no other thread writes", "leave `volatile=True` out")
    return "volatile" if volatile else known.get(cache, "")


def _is_made_of(dtype: DType, part: DType) -> bool:
    return dtype.kind in "cv" and all(kind is part for _, kind in dtype.parts)


def _wider(dtype: DType) -> str:
    """How several elements of a dtype are read at once."""
    made = max((of for of in VECTORS if _is_made_of(of, dtype)), key=lambda of: of.itemsize, default=None)
    return f"for example `load(x, {len(made.parts)} * i, kaio.{made!r})`" if made else "leave the dtype out"


def _at_once(array: BufferType | ArrayType, wanted: Any) -> DType:
    """The dtype that is read: that of the elements, or one that is made of several of them."""
    if wanted is None or wanted is array.dtype:
        return array.dtype
    if not isinstance(wanted, DType) or not _is_made_of(wanted, array.dtype):
        shown = show(wanted) if isinstance(wanted, DType) else repr(wanted)
        raise RuleError(
            f"`load` gives an element of `buffer`, or a type that is made of several; {shown} is not made of "
            f"{show(array.dtype)}",
            _wider(array.dtype),
        )
    return wanted


def _load_typing(buffer: Type, index: Type, *given: Type) -> Resolved:
    array = check_index(buffer, index, "buffer")
    dtype = _at_once(array, given[0].value if given and isinstance(given[0], ObjectType) else None)
    if dtype is not array.dtype:
        check_span(array, index, len(dtype.parts), "buffer")
    how = _how("load", array, dtype, given[1:], _LOADS)
    if how == "nc" and not (isinstance(array, BufferType) and array.access == "In"):
        raise RuleError('"nc" reads memory that nobody writes, and `buffer` is no `In`', 'take "ca", or leave it out')
    if how == "volatile" and isinstance(array, BufferType) and array.access == "In":
        raise RuleError("`buffer` is an `In` buffer, which nobody writes while the kernel runs", "annotate it `InOut`")
    return Resolved((buffer, index, *given), element_type(dtype), (how, dtype))


def _place(e: Emitter, call: TypedCall, array: Any, index: Any, what: str) -> Any:
    """The address of the element, or of several that are one of another dtype."""
    from kaio.dsl.compiler.emission.scalars import memory_type

    type_, dtype = call.operands[0], call.static[1]
    assert isinstance(type_, BufferType | ArrayType)
    if dtype is type_.dtype:
        return e.address(array, type_, index, call.operands[1], e.assigning)
    pointer = e.address(array, type_, index, call.operands[1], e.assigning, len(dtype.parts))
    check_alignment(e, pointer, dtype.itemsize, f"`{what}` of {show(dtype)} at")
    return e.b.bitcast(pointer, memory_type(dtype).as_pointer(pointer.type.addrspace))


def _load(e: Emitter, call: TypedCall, array: Any, index: Any, *_: Any) -> Any:
    from kaio.dsl.compiler.emission import elements
    from kaio.dsl.compiler.emission.access import access_to

    type_, (how, dtype) = call.operands[0], call.static
    assert isinstance(type_, BufferType | ArrayType)
    pointer = _place(e, call, array, index, "load")
    return elements.load(e, pointer, dtype, access_to("read", type_, e.assigning, how))


@intrinsic(
    _load_typing,
    emit=_load,
    constants=("dtype", "cache", "volatile"),
    example='out[i] = kaio.load(x, i, cache="cg") + kaio.load(out, i, volatile=True)',
    ptx="ld.global.cg",
    observes=lambda call: call.static[0] in ("volatile", "cv"),
)
def load(
    buffer: In[Any, Any] | Out[Any, Any] | InOut[Any, Any],
    index: int | tuple[int, ...],
    dtype: type[Any] | None = None,
    *,
    cache: Literal["ca", "cg", "cs", "lu", "cv", "nc", "evict_first", "evict_last", "evict_unchanged", "no_allocate"]
    | None = None,
    volatile: bool = False,
) -> Any:
    """`buffer[index]`, several elements at once, or with a hint to the caches or past them.

    With a `dtype` that is made of elements of the buffer's, those from `index` on along the last axis are read in one
    access; the first lies at a multiple of their bytes. `cache` is the operator of PTX: `"ca"` all levels, `"cg"` the
    L2 only, `"cs"` read once, `"lu"` last use, `"cv"` not from a cache, `"nc"` the read-only path (for `In`, where it
    is taken anyway), or an eviction priority of the L1. It changes the speed and nothing else, and on the CPU device
    not even that. `volatile=True` reads what other threads write meanwhile, each time anew; in shared memory, too.
    """


def _store_typing(buffer: Type, index: Type, value: Type, *hints: Type) -> Resolved:
    array = check_index(buffer, index, "buffer")
    check_writable(array, "buffer")
    dtype = array.dtype
    found = getattr(value, "dtype", None) if isinstance(value, Compound) else None
    if isinstance(found, DType) and _is_made_of(found, array.dtype):
        dtype = found
        check_span(array, index, len(dtype.parts), "buffer")
    else:
        check_store(array, value, "buffer", "value")
    return Resolved((buffer, index, value, *hints), NONE, (_how("store", array, dtype, hints, _STORES), dtype))


def _store(e: Emitter, call: TypedCall, array: Any, index: Any, value: Any, *_: Any) -> None:
    from kaio.dsl.compiler.emission import elements
    from kaio.dsl.compiler.emission.access import access_to

    type_, (how, dtype) = call.operands[0], call.static
    assert isinstance(type_, BufferType | ArrayType)
    pointer = _place(e, call, array, index, "store")
    elements.store(e, pointer, dtype, value, call.operands[2], access_to("write", type_, e.assigning, how))


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
    *,
    cache: Literal["wb", "cg", "cs", "wt", "evict_first", "evict_last", "evict_unchanged", "no_allocate"] | None = None,
    volatile: bool = False,
) -> None:
    """`buffer[index] = value`, several elements at once, or with a hint to the caches or past them.

    A value that is made of elements of the buffer's (a complex number in a buffer of floats) is written in one access,
    from `index` on along the last axis, to a multiple of its bytes. `cache` is the operator of PTX: `"wb"` all levels,
    `"cg"` the L2 only, `"cs"` not read again soon, `"wt"` through to memory, or an eviction priority of the L1.
    `volatile=True` writes now, for other threads to see; they see it in order with other writes only after a `fence`.
    """
