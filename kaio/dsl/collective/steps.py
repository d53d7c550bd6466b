"""The steps of folds and scans that the kernel language has no words for, on values of any number of parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from kaio.dsl import literals
from kaio.dsl.intrinsic import Resolved, intrinsic
from kaio.dsl.rule_error import RuleError
from kaio.dsl.values import BOOL, NONE, Compound, EnumType, TupleType, Type, Weak, show
from kaio.dsl.warp import shuffled
from kaio.dtypes import DType, i32

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.access import Access
    from kaio.dsl.compiler.emission.emit import Emitter
    from kaio.dsl.compiler.ir import TypedCall

__all__ = [
    "arrive", "exchangeable", "farthest", "from_above", "from_below", "from_lane", "get", "put", "require",
]  # fmt: skip

SLOTS = 64
"""One for each warp that a block can have, and one for what each is told."""


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
        from kaio.dsl.compiler.emission.parts import value_from, words_of

        control = limit if mode == "down" else e.const(i32, 0 if mode == "up" else 31)
        words, is_there = [], e.const(BOOL, True)
        for word in words_of(e, value, call.operands[0]):
            moved = shuffled(e, mode, e.const(i32, -1), word, lane, control)
            words.append(e.b.extract_value(moved, 0))
            is_there = e.b.extract_value(moved, 1)
        found = value_from(e, words, call.operands[0])
        return found if mode == "idx" else (found, is_there)

    def host(e: Emitter, call: TypedCall, value: Any, lane: Any, limit: Any = None) -> Any:
        from kaio.dsl.compiler.emission.parts import value_from, words_of

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
    """How far apart lanes of a warp are that still exchange something, where `last` is the last one.

    For a GPU it is a constant, so that the loop is written out; its shuffles tell who is there. The CPU device stops
    early, and LLVM keeps the loop: each exchange is a suspension, and many take long to compile.
    """
    raise AssertionError


# ---------------------------------------------------------------------- from warp to warp
def _places(e: Emitter, count: int, slot: Any) -> list[Any]:
    """Where the words of a value lie in the slot of shared memory that all collective operations of a kernel share."""
    return [e.b.gep(e.target.scratch(e, part, SLOTS), [slot], inbounds=True) for part in range(count)]


def _access(e: Emitter, kind: Literal["read", "write"]) -> Access:
    from kaio.dsl.compiler.emission.access import Access

    return Access(kind, "shared", f"shared memory of {e.operation}", i32)


def _put(e: Emitter, call: TypedCall, value: Any, slot: Any) -> None:
    from kaio.dsl.compiler.emission.parts import words_of

    words = words_of(e, value, call.operands[0])
    for word, place in zip(words, _places(e, len(words), slot), strict=True):
        e.target.store(e, word, place, _access(e, "write"))


@intrinsic(lambda value, slot: Resolved((exchangeable(value, "it"), i32), NONE), emit=_put)
def put(value: Any, slot: int) -> None:
    """Leave a value for other warps."""


def _get(e: Emitter, call: TypedCall, value: Any, slot: Any) -> Any:
    from kaio.dsl.compiler.emission.parts import value_from, words_of

    count = len(words_of(e, value, call.operands[0]))
    return value_from(
        e, [e.target.load(e, place, _access(e, "read")) for place in _places(e, count, slot)], call.operands[0]
    )


def _get_typing(value: Type, slot: Type) -> Resolved:
    given = exchangeable(value, "it")
    return Resolved((given, i32), given)


@intrinsic(_get_typing, emit=_get)
def get(value: Any, slot: int) -> Any:
    """What was left in a slot, a value like this one."""


def _arrive_cuda(e: Emitter, call: TypedCall) -> None:
    e.call("llvm.nvvm.barrier0", e.void, [])
    e.target.passed(e)


def _arrive_host(e: Emitter, call: TypedCall) -> None:
    e.target.suspend(e, "whole", e.operation)


@intrinsic(lambda: Resolved((), NONE), cuda=_arrive_cuda, host=_arrive_host, suspends=True)
def arrive() -> None:
    """Wait for the whole block, of which no thread may have returned: another could need what it would have left."""


def _require(e: Emitter, call: TypedCall, holds: Any) -> None:
    e.target.check(e, holds, f"`{e.operation}` of a thread that the block does not have")


@intrinsic(lambda holds: Resolved((BOOL,), NONE), emit=_require)
def require(holds: bool) -> None:
    """Leave with a fault unless the thread is one of the block."""
