"""What the lanes of a warp do together: where they are, waiting for each other, shuffles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from kaio.dsl import literals
from kaio.dsl.casts import integer
from kaio.dsl.complexes import ComplexType
from kaio.dsl.intrinsic import Resolved, intrinsic
from kaio.dsl.records import RecordType
from kaio.dsl.rule_error import RuleError
from kaio.dsl.values import NONE, ArrayType, BufferType, EnumType, TupleType, Type, Weak, show
from kaio.dsl.vectors import VectorType
from kaio.dtypes import DType, i32, u32

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter
    from kaio.dsl.compiler.ir import TypedCall

__all__ = [
    "cuda_mask", "exchanged_type", "host_mask", "lane_id", "mask_operand", "shfl_sync_bfly", "shfl_sync_down",
    "shfl_sync_idx", "shfl_sync_up", "shuffled", "syncwarp", "warp_id",
]  # fmt: skip

T = TypeVar("T")
_EVERY = 0xFFFFFFFF


# ---------------------------------------------------------------------- places
def _lane_cuda(e: Emitter, call: TypedCall) -> Any:
    lane = e.call("llvm.nvvm.read.ptx.sreg.laneid", e.llvm(i32), [])
    lane.set_metadata("range", e.b.module.add_metadata([e.const(i32, 0), e.const(i32, 32)]))
    return lane


def _lane_host(e: Emitter, call: TypedCall) -> Any:
    return e.b.and_(e.target.linear_thread(e), e.const(i32, 31))


@intrinsic(lambda: Resolved((), i32), cuda=_lane_cuda, host=_lane_host, example="counts[i] = kaio.lane_id()",
           ptx="%laneid")  # fmt: skip
def lane_id() -> int:
    """This thread's place in its warp, 0 to 31; i32. Threads of a block are numbered x first, 32 in a row a warp."""
    raise AssertionError


def _warp(e: Emitter, call: TypedCall) -> Any:
    return e.b.lshr(e.target.linear_thread(e), e.const(i32, 5))


@intrinsic(lambda: Resolved((), i32), emit=_warp, example="counts[i] = kaio.warp_id() + 1", ptx="%tid.x")
def warp_id() -> int:
    """The number of this thread's warp in its block; i32. (The hardware's `%warpid` may change; this does not.)"""
    raise AssertionError


# ---------------------------------------------------------------------- masks
def mask_operand(name: str, mask: Type | None) -> tuple[Type, ...]:
    """The operand that a mask of lanes is: a u32, NONE where it is None, and none at all where it is not given."""
    if mask is None:
        return ()
    if mask == NONE:
        return (NONE,)
    if isinstance(mask, Weak) and mask.kind == "i" and all(0 <= int(v) <= _EVERY for v in mask.values):
        if any(v == 0 for v in mask.values):
            raise RuleError(f"the mask of `{name}` is 0: no lane takes part", "set the bit of each lane that does")
        return (u32,)
    if mask in (u32, i32):
        return (u32,)
    raise RuleError(
        f"the mask of `{name}` is a u32, one bit a lane, not {show(mask)}",
        "cast it with `kaio.u32(...)`, or leave it out: all lanes of the warp",
    )


def cuda_mask(e: Emitter, call: TypedCall, values: Sequence[Any]) -> Any:
    """The mask as CUDA's instructions take it; the last of the `values` of a call, if it is given.

    Without one it is every lane: those that the block does not have count as exited.
    """
    mask = host_mask(call, values)
    return e.const(u32, _EVERY) if mask is None else mask


def host_mask(call: TypedCall, values: Sequence[Any]) -> Any:
    """The mask as `Target.exchange` takes it; the last of the `values` of a call, if it is given."""
    return values[-1] if values and call.operands[-1] is u32 else None


def exchanged_type(name: str, value: Type) -> Type:
    """The type in which lanes exchange a value, if it is a number or made of numbers; a literal is an i32 or f32."""
    if isinstance(value, DType | Weak):
        return literals.default(value)
    if isinstance(value, EnumType):
        return EnumType(value.of)
    if isinstance(value, ComplexType | RecordType | TupleType | VectorType):
        return value.with_items(tuple(exchanged_type(name, item) for item in value.items))
    raise RuleError(
        f"`{name}` takes a number, or a value made of numbers, not {show(value)}",
        "index it: lanes exchange elements" if isinstance(value, ArrayType | BufferType) else None,
    )


# ---------------------------------------------------------------------- syncwarp
def _syncwarp_typing(mask: Type | None = None) -> Resolved:
    return Resolved(mask_operand("syncwarp", mask), NONE)


def _syncwarp_cuda(e: Emitter, call: TypedCall, *mask: Any) -> None:
    e.call("llvm.nvvm.bar.warp.sync", e.void, [cuda_mask(e, call, mask)])


def _syncwarp_host(e: Emitter, call: TypedCall, *mask: Any) -> None:
    e.target.exchange(e, [], host_mask(call, mask), "syncwarp", kind="warp_sync")


@intrinsic(
    _syncwarp_typing,
    cuda=_syncwarp_cuda,
    host=_syncwarp_host,
    suspends=True,
    example="""\
s = kaio.shared_mem(64, f32)
s[i] = x[i]
kaio.syncwarp()
out[i] = s[i ^ 1]""",
    ptx="bar.warp.sync",
)
def syncwarp(mask: int | None = None) -> None:
    """Wait until all lanes of `mask` are here; what they wrote to memory before is then seen by all of them.

    The mask is a u32 with a bit for each lane; without one, all lanes of the warp. A lane that returned is not waited
    for. A lane that waits elsewhere, or names another mask, is an error that the CPU device reports.
    """


# ---------------------------------------------------------------------- shuffles
_MODES = {"up": 1, "down": 2, "bfly": 3, "idx": 0}  # of llvm.nvvm.shfl.sync


def _check_width(name: str, width: Type) -> int:
    value = width.value if isinstance(width, Weak) else None
    if value is None:
        raise RuleError(
            f"the width of `{name}` is known when compiling, and {show(width)} is not",
            "use an int literal, a captured int or a `Const[int]` parameter",
        )
    if value not in (1, 2, 4, 8, 16, 32):
        raise RuleError(f"the width of `{name}` is 1, 2, 4, 8, 16 or 32, not {value!r}")
    return int(value)


def _check_lane(name: str, what: str, lane: Type) -> None:
    given = integer(lane, f"the {what} of `{name}`")
    if isinstance(given, Weak):
        for value in given.values:
            if not 0 <= value <= 31:
                raise RuleError(f"the {what} of `{name}` is 0 to 31, not {value}")


def _shuffle_typing(name: str, what: str) -> Callable[..., Resolved]:
    def typing(value: Type, lane: Type, width: Type | None = None, mask: Type | None = None) -> Resolved:
        exchanged = exchanged_type(name, value)
        _check_lane(name, what, lane)
        size = 32 if width is None else _check_width(name, width)
        given = () if width is None else (width,)
        return Resolved((exchanged, i32, *given, *mask_operand(name, mask)), exchanged, (size,))

    return typing


def shuffled(e: Emitter, mode: str, mask: Any, word: Any, lane: Any, control: Any) -> Any:
    """One `shfl.sync` of CUDA: a pair of the i32 of another lane, and an i1 that tells whether there was that lane.

    control: bits 8-12 are the segment mask, bits 0-4 the clamp (PTX ISA, shfl.sync)
    """
    from llvmlite import ir as llvm

    given = llvm.LiteralStructType([llvm.IntType(32), llvm.IntType(1)])
    return e.call("llvm.nvvm.shfl.sync.i32", given, [mask, e.const(i32, _MODES[mode]), word, lane, control])


def _shuffle_cuda(mode: str) -> Callable[..., Any]:
    def rule(e: Emitter, call: TypedCall, value: Any, lane: Any, *rest: Any) -> Any:
        from kaio.dsl.compiler.emission.parts import value_from, words_of

        mask = cuda_mask(e, call, rest)
        control = e.const(i32, (32 - call.static[0]) << 8 | (0 if mode == "up" else 31))
        moved = (shuffled(e, mode, mask, word, lane, control) for word in words_of(e, value, call.result))
        return value_from(e, [e.b.extract_value(pair, 0) for pair in moved], call.result)

    return rule


def _shuffle_host(mode: str, name: str) -> Callable[..., Any]:
    def rule(e: Emitter, call: TypedCall, value: Any, lane: Any, *rest: Any) -> Any:
        from kaio.dsl.compiler.emission.parts import value_from, words_of

        given: Sequence[Any] = words_of(e, value, call.result)
        peers = e.target.exchange(e, given, host_mask(call, rest), name)
        source = _source_lane(e, mode, peers.lane, lane, call.static[0])
        e.target.check_lane(e, peers.has(source), source, peers, name)
        return value_from(e, [peers.word(k, source) for k in range(len(given))], call.result)

    return rule


def _source_lane(e: Emitter, mode: str, own: Any, given: Any, width: int) -> Any:
    """The lane that is read: the pseudocode of `shfl.sync` in the PTX ISA, with the width known."""
    b: Any = e.b

    def const(value: int) -> Any:
        return e.const(i32, value)

    within = b.and_(given, const(31))
    inside = width - 1  # the bits of a lane that are its place in its segment
    if mode == "idx":
        segment = b.and_(own, const(31 & ~inside))
        return b.or_(segment, b.and_(within, const(inside)))
    if mode == "up":
        source, least = b.sub(own, within), b.and_(own, const(31 & ~inside))
        return b.select(b.icmp_signed(">=", source, least), source, own)
    source = b.add(own, within) if mode == "down" else b.xor(own, within)
    return b.select(b.icmp_signed("<=", source, b.or_(own, const(inside))), source, own)


def _shuffle(mode: str, what: str, example: str) -> Callable[[Any], Any]:
    name = f"shfl_sync_{mode}"
    return intrinsic(
        _shuffle_typing(name, what),
        cuda=_shuffle_cuda(mode),
        host=_shuffle_host(mode, name),
        suspends=True,
        example=example,
        ptx=f"shfl.sync.{mode}.b32",
    )


@_shuffle("idx", "lane", "out[i] = kaio.shfl_sync_idx(x[i], 31 - kaio.lane_id())")
def shfl_sync_idx(value: T, lane: int, width: int = 32, mask: int | None = None) -> T:
    """`value` of lane `lane` of this thread's segment; a segment is `width` lanes, 1, 2, 4, 8, 16 or 32.

    Any number, complex number, vector, member of an enum, or tuple or record of these; each 32 bits are one shuffle. A
    lane of `width` or more counts from the start again.
    All lanes of `mask` (a u32; without one, all of the warp that have not returned) have to be here. Reading a lane
    that takes no part is an error that the CPU device reports; a GPU gives anything.
    """
    raise AssertionError


@_shuffle("up", "delta", "out[i] = kaio.shfl_sync_up(x[i], 1)")
def shfl_sync_up(value: T, delta: int, width: int = 32, mask: int | None = None) -> T:
    """`value` of the lane `delta` below; the first `delta` lanes of a segment of `width` get their own.

    Else as `shfl_sync_idx`. Of `delta` the lowest five bits count.
    """
    raise AssertionError


@_shuffle("down", "delta", "out[i] = kaio.shfl_sync_down(x[i], 16)")
def shfl_sync_down(value: T, delta: int, width: int = 32, mask: int | None = None) -> T:
    """`value` of the lane `delta` above; the last `delta` lanes of a segment of `width` get their own.

    Else as `shfl_sync_idx`. Of `delta` the lowest five bits count.
    """
    raise AssertionError


@_shuffle("bfly", "lane mask", "out[i] = kaio.shfl_sync_bfly(x[i], 16)")
def shfl_sync_bfly(value: T, lane_mask: int, width: int = 32, mask: int | None = None) -> T:
    """`value` of the lane whose number differs from this one's in the bits of `lane_mask`.

    A lane of a later segment of `width` is not read: the thread gets its own value; one of an earlier segment is. Else
    as `shfl_sync_idx`. Of `lane_mask` the lowest five bits count.
    """
    raise AssertionError
