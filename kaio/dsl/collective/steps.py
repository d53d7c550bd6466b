"""The steps of folds and scans that the kernel language has no words for, on values of any number of parts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kaio.dsl import literals, stores
from kaio.dsl.intrinsic import Resolved, intrinsic
from kaio.dsl.rule_error import RuleError
from kaio.dsl.values import BOOL, NONE, Compound, EnumType, ObjectType, TupleType, Type, Weak, show
from kaio.dtypes import DTYPES, DType, i32

if TYPE_CHECKING:
    from kaio.dsl.compiler.emit import Emitter
    from kaio.dsl.compiler.ir import TypedCall

__all__ = [
    "arrive", "by_redux", "exchangeable", "farthest", "from_above", "from_below", "from_lane", "get", "identity",
    "of_type", "put", "rank", "redux", "require",
]  # fmt: skip

SLOTS = 33
"""One for each warp that a block can have, and one for the result."""


def exchangeable(value: Type, what: str) -> Type:
    """The type in which lanes exchange a value: literals take the type they have alone."""
    if isinstance(value, DType | Weak):
        return literals.default(value)
    if isinstance(value, Compound):
        return value.with_items(tuple(exchangeable(item, what) for item in value.items))
    if isinstance(value, EnumType):
        return EnumType(value.of)
    raise RuleError(f"{what} is a number or a tuple of numbers, not {show(value)}")


# ---------------------------------------------------------------------- from lane to lane
def _moving(mode: str) -> dict[str, Any]:
    """The rules of a record that gives a value of another lane; `mode` is that of the shuffle.

    ``idx``: of the lane given. ``down`` and ``up``: of the one that many lanes above or below, with whether there is
    one; `limit` is the last lane. One shuffle tells both: PTX's takes the limit and gives a predicate.
    """

    def typing(value: Type, lane: Type, limit: Type | None = None) -> Resolved:
        given = exchangeable(value, "what lanes exchange")
        operands = (given, i32) if limit is None else (given, i32, i32)
        return Resolved(operands, given if mode == "idx" else TupleType((given, BOOL)))

    def cuda(e: Emitter, call: TypedCall, value: Any, lane: Any, limit: Any = None) -> Any:
        from llvmlite import ir as llvm

        from kaio.dsl.compiler.parts import value_from, words_of

        number = {"idx": 0, "up": 1, "down": 2}[mode]
        given = llvm.LiteralStructType([llvm.IntType(32), llvm.IntType(1)])
        control = limit if mode == "down" else e.const(i32, 0 if mode == "up" else 31)
        words, is_there = [], e.const(BOOL, True)
        for word in words_of(e, value, call.operands[0]):
            operands = [e.const(i32, -1), e.const(i32, number), word, lane, control]
            moved = e.call("llvm.nvvm.shfl.sync.i32", given, operands)
            words.append(e.b.extract_value(moved, 0))
            is_there = e.b.extract_value(moved, 1)
        found = value_from(e, words, call.operands[0])
        return found if mode == "idx" else (found, is_there)

    def host(e: Emitter, call: TypedCall, value: Any, lane: Any, limit: Any = None) -> Any:
        from kaio.dsl.compiler.parts import value_from, words_of

        given = words_of(e, value, call.operands[0])
        peers = e.target.exchange(e, given, None, e.operation)
        source, is_there = e.b.and_(lane, e.const(i32, 31)), None  # PTX takes five bits, too
        if mode != "idx":
            source = (e.b.add if mode == "down" else e.b.sub)(peers.lane, lane)
            is_there = e.b.icmp_signed(*("<=", source, limit) if mode == "down" else (">=", source, e.const(i32, 0)))
            source = e.b.select(is_there, source, peers.lane)
        e.target.check_lane(e, peers.has(source), source, peers, e.operation)
        found = value_from(e, [peers.word(k, source) for k in range(len(given))], call.operands[0])
        return found if mode == "idx" else (found, is_there)

    return {"typing": typing, "cuda": cuda, "host": host, "suspends": True}


@intrinsic(**_moving("idx"))
def from_lane(value: Any, lane: int) -> Any:
    """The value of that lane, which exists."""


@intrinsic(**_moving("down"))
def from_above(value: Any, delta: int, last: int) -> Any:
    """The value of the lane `delta` above, and whether there is one: `last` is the last lane."""


@intrinsic(**_moving("up"))
def from_below(value: Any, delta: int) -> Any:
    """The value of the lane `delta` below, and whether there is one."""


@intrinsic(
    lambda last: Resolved((i32,), i32),
    cuda=lambda e, call, last: e.const(i32, 31),
    host=lambda e, call, last: last,
)
def farthest(last: int) -> int:
    """How far apart lanes are that still exchange something, where `last` is the last one.

    A GPU has the loop written out, and its shuffles tell who is there. The CPU device stops early, and LLVM keeps the
    loop: each exchange is a suspension, which costs a tenth of a second to compile when it is written out many times.
    """
    raise AssertionError


# ---------------------------------------------------------------------- from warp to warp
def _places(e: Emitter, count: int, slot: Any) -> list[Any]:
    """Where the words of a value lie in the slot of shared memory that all collective operations of a kernel share."""
    return [e.b.gep(e.target.scratch(e, part, SLOTS), [slot], inbounds=True) for part in range(count)]


def _put(e: Emitter, call: TypedCall, value: Any, slot: Any) -> None:
    from kaio.dsl.compiler.parts import words_of

    words = words_of(e, value, call.operands[0])
    for word, place in zip(words, _places(e, len(words), slot), strict=True):
        e.b.store(word, place)


@intrinsic(lambda value, slot: Resolved((exchangeable(value, "it"), i32), NONE), emit=_put)
def put(value: Any, slot: int) -> None:
    """Leave a value for other warps."""


def _get(e: Emitter, call: TypedCall, value: Any, slot: Any) -> Any:
    from kaio.dsl.compiler.parts import value_from, words_of

    if not call.static[0]:
        e.target.check_present(e, slot, e.operation)
    count = len(words_of(e, value, call.operands[0]))
    return value_from(e, [e.b.load(place) for place in _places(e, count, slot)], call.operands[0])


def _get_typing(value: Type, slot: Type) -> Resolved:
    given = exchangeable(value, "it")
    return Resolved((given, i32), given, (isinstance(slot, Weak),))


@intrinsic(_get_typing, emit=_get)
def get(value: Any, slot: int) -> Any:
    """What warp `slot` has left, a value like this one; a literal slot is not that of a warp."""


def _arrive_cuda(e: Emitter, call: TypedCall) -> None:
    e.call("llvm.nvvm.barrier0", e.void, [])


def _arrive_host(e: Emitter, call: TypedCall) -> None:
    e.target.suspend(e, "barrier", e.operation)


@intrinsic(lambda: Resolved((), NONE), cuda=_arrive_cuda, host=_arrive_host, suspends=True)
def arrive() -> None:
    """Wait for the whole block."""


def _require(e: Emitter, call: TypedCall, holds: Any) -> None:
    e.target.check(e, holds, f"`{e.operation}` of a thread that the block does not have")


@intrinsic(lambda holds: Resolved((BOOL,), NONE), emit=_require)
def require(holds: bool) -> None:
    """Leave with a fault unless the thread is one of the block."""


# ---------------------------------------------------------------------- numbers
def _of_type(value: Type, like: Type) -> Resolved:
    wanted, pairs = exchangeable(like, "it"), [(value, like)]
    if isinstance(like, Compound):
        if not (isinstance(value, Compound) and value.is_like(like)):
            raise _wrong_result(value, like)
        pairs = list(zip(value.items, like.items, strict=True))
    for given, type_ in pairs:
        if not isinstance(given, DType | Weak) or not isinstance(type_, DType | Weak):
            if given != type_:
                raise _wrong_result(value, like)
            continue
        try:
            stores.store(given, literals.default(type_))
        except RuleError:
            raise _wrong_result(value, like) from None
    return Resolved((wanted, wanted), wanted)


def _wrong_result(value: Type, like: Type) -> RuleError:
    return RuleError(
        f"the function of two {show(like)} gives {show(value)}, which is no {show(like)}", "cast what it returns"
    )


@intrinsic(_of_type, emit=lambda e, call, value, like: value)
def of_type(value: Any, like: Any) -> Any:
    """A value converted to the type of another, as in a store."""


_IDENTITIES: dict[str, Callable[[DType], int | float]] = {
    "sum": lambda dtype: 0,
    "prod": lambda dtype: 1,
    "min": lambda dtype: math.inf if dtype.is_float else dtype.range[1],
    "max": lambda dtype: -math.inf if dtype.is_float else dtype.range[0],
    "and": lambda dtype: -1 if dtype.kind == "i" else dtype.range[1],
    "or": lambda dtype: 0,
    "xor": lambda dtype: 0,
}


def _identity_typing(value: Type, name: Type) -> Resolved:
    assert isinstance(name, ObjectType)
    return Resolved((value, name), value, (name.value,))


def _identity(e: Emitter, call: TypedCall, *_: Any) -> Any:
    find = _IDENTITIES[call.static[0]]
    if isinstance(call.result, Compound):  # a complex number
        parts = [item for item in call.result.items if isinstance(item, DType)]
        return e.const(parts[0], find(parts[0])), e.const(parts[1], 0)
    assert isinstance(call.result, DType)
    return e.const(call.result, find(call.result))


@intrinsic(_identity_typing, emit=_identity)
def identity(value: Any, name: str) -> Any:
    """The number of that type which changes no other in `sum`, `prod`, `min`, `max`, `and`, `or` and `xor`."""


_SIGNED = {dtype.bits: dtype for dtype in DTYPES if dtype.kind == "i"}


def _rank_typing(value: Type, name: Type) -> Resolved:
    assert isinstance(value, DType)
    assert isinstance(name, ObjectType)
    return Resolved((value, name), _SIGNED[value.bits] if value.is_float else value, (name.value,))


def _rank(e: Emitter, call: TypedCall, value: Any, _: Any) -> Any:
    from kaio.dsl.compiler.atomics import bits_of
    from kaio.dsl.compiler.float_bits import magnitude_bits

    dtype, result = call.operands[0], call.result
    assert isinstance(dtype, DType)
    assert isinstance(result, DType)
    if not dtype.is_float:
        return value
    low, high = result.range
    bits = bits_of(e, value, dtype)
    # from -0.0 down, the bits of floats are in reverse
    ordered = e.b.xor(bits, e.b.and_(e.b.ashr(bits, e.const(result, dtype.bits - 1)), e.const(result, high)))
    last = e.const(result, high if call.static[0] == "min" else low)
    size, infinity = magnitude_bits(e, value, dtype)
    return e.b.select(e.b.icmp_unsigned(">", size, infinity), last, ordered)


@intrinsic(_rank_typing, emit=_rank)
def rank(value: Any, name: str) -> Any:
    """An integer that is ordered as the numbers are: -0.0 below 0.0, NaN behind all that `min` or `max` may choose."""


# ---------------------------------------------------------------------- one instruction for a warp
_REDUX = {"sum": "add", "min": "min", "max": "max", "and": "and", "or": "or", "xor": "xor"}


def _has_redux(dtype: Type, name: str) -> bool:
    return isinstance(dtype, DType) and not dtype.is_float and dtype.bits <= 32 and name in _REDUX


def _redux_typing(value: Type, name: Type) -> Resolved:
    assert isinstance(name, ObjectType)
    return Resolved((value, name), value, (name.value,))


def _by_redux_cuda(e: Emitter, call: TypedCall, *_: Any) -> Any:
    return e.const(BOOL, e.target.has("sm_80") and _has_redux(call.operands[0], call.static[0]))


@intrinsic(
    lambda value, name: Resolved((value, name), BOOL, (name.value,)),
    cuda=_by_redux_cuda,
    host=lambda e, call, *_: e.const(BOOL, False),
)
def by_redux(value: Any, name: str) -> bool:
    """Whether `redux` does that to such a value here; known while emitting."""
    raise AssertionError


def _redux_cuda(e: Emitter, call: TypedCall, value: Any, _: Any) -> Any:
    """`redux.sync` of PTX (sm_80) on 32 bits; a narrower integer is widened, which changes no result of its width."""
    from llvmlite import ir as llvm

    dtype, word = call.operands[0], llvm.IntType(32)
    assert isinstance(dtype, DType)
    if value.type != word:
        value = (e.b.sext if dtype.kind == "i" else e.b.zext)(value, word)
    name = _REDUX[call.static[0]]
    suffix = "b32" if name in ("and", "or", "xor") else "s32" if dtype.kind == "i" else "u32"
    code = llvm.InlineAsm(
        llvm.FunctionType(word, [word, word]), f"redux.sync.{name}.{suffix} $0, $1, $2;", "=r,r,r", side_effect=True
    )
    # An ordinary call of inline assembly may be duplicated into both sides of a branch; this one may not.
    found = e.b.call(code, [value, e.const(i32, -1)], attrs=("convergent",))
    return e.b.trunc(found, e.llvm(dtype)) if e.llvm(dtype) != word else found


def _no_redux(e: Emitter, call: TypedCall, *_: Any) -> Any:
    raise NotImplementedError("`by_redux` is false on the host")


@intrinsic(_redux_typing, cuda=_redux_cuda, host=_no_redux)
def redux(value: Any, name: str) -> Any:
    """A fold of all lanes of the warp by one instruction."""
