"""What the lanes of a warp ask of each other: votes, ballots, who has the same value, who is there."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kaio.dsl.casts import check_bool
from kaio.dsl.intrinsic import Resolved, intrinsic
from kaio.dsl.rule_error import RuleError
from kaio.dsl.values import BOOL, Compound, EnumType, TupleType, Type, show
from kaio.dsl.vectors import VectorType
from kaio.dsl.warp import cuda_mask, exchanged_type, host_mask, mask_operand
from kaio.dtypes import DType, u32

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter
    from kaio.dsl.compiler.ir import TypedCall

__all__ = [
    "activemask", "ballot", "lanemask_eq", "lanemask_ge", "lanemask_gt", "lanemask_le", "lanemask_lt", "match_all",
    "match_any", "vote_all", "vote_any", "vote_uni",
]  # fmt: skip

_MODES = {"vote_all": 0, "vote_any": 1, "vote_uni": 2, "ballot": 3}  # of llvm.nvvm.vote.sync


def _bits(e: Emitter, flags: Any) -> Any:
    """A <32 x i1> as the i32 with a bit for each lane."""
    from llvmlite import ir as llvm

    return e.b.bitcast(flags, llvm.IntType(32))


def _row_of(value: Any) -> Any:
    """An i32 in each of 32 lanes, as a constant."""
    from llvmlite import ir as llvm

    return llvm.Constant(llvm.VectorType(llvm.IntType(32), 32), [value] * 32)


# ---------------------------------------------------------------------- votes
def _vote_typing(name: str, result: DType) -> Callable[..., Resolved]:
    def typing(predicate: Type, mask: Type | None = None) -> Resolved:
        check_bool(predicate, name)
        return Resolved((BOOL, *mask_operand(name, mask)), result)

    return typing


def _vote_cuda(name: str) -> Callable[..., Any]:
    def rule(e: Emitter, call: TypedCall, predicate: Any, *mask: Any) -> Any:
        from llvmlite import ir as llvm

        given = llvm.LiteralStructType([llvm.IntType(32), llvm.IntType(1)])
        operands = [cuda_mask(e, call, mask), e.const(u32, _MODES[name]), predicate]
        voted = e.call("llvm.nvvm.vote.sync", given, operands)
        return e.b.extract_value(voted, 0 if name == "ballot" else 1)

    return rule


def _vote_host(name: str) -> Callable[..., Any]:
    def rule(e: Emitter, call: TypedCall, predicate: Any, *mask: Any) -> Any:
        b, zero = e.b, e.const(u32, 0)
        peers = e.target.exchange(e, [b.zext(predicate, e.llvm(u32))], host_mask(call, mask), name)
        true = b.and_(_bits(e, b.icmp_unsigned("!=", peers.all(0), _row_of(0))), peers.members)
        if name == "ballot":
            return true
        is_all, is_any = b.icmp_unsigned("==", true, peers.members), b.icmp_unsigned("!=", true, zero)
        return is_all if name == "vote_all" else is_any if name == "vote_any" else b.or_(is_all, b.not_(is_any))

    return rule


def _vote(name: str, result: DType, example: str, ptx: str) -> Callable[[Any], Any]:
    return intrinsic(
        _vote_typing(name, result), cuda=_vote_cuda(name), host=_vote_host(name), suspends=True, example=example,
        ptx=ptx,
    )  # fmt: skip


@_vote("vote_all", BOOL, "counts[i] = kaio.i32(kaio.vote_all(x[i] > 0.0))", "vote.sync.all.pred")
def vote_all(predicate: bool, mask: int | None = None) -> bool:
    """Whether the predicate is true in all lanes of `mask` (a u32; without one, all that have not returned).

    All these lanes have to be here, with the same mask.
    """
    raise AssertionError


@_vote("vote_any", BOOL, "counts[i] = kaio.i32(kaio.vote_any(x[i] > 0.9))", "vote.sync.any.pred")
def vote_any(predicate: bool, mask: int | None = None) -> bool:
    """Whether the predicate is true in a lane of `mask`; else as `vote_all`."""
    raise AssertionError


@_vote("vote_uni", BOOL, "counts[i] = 1 + kaio.i32(kaio.vote_uni(x[i] > 0.5))", "vote.sync.uni.pred")
def vote_uni(predicate: bool, mask: int | None = None) -> bool:
    """Whether the predicate is the same in all lanes of `mask`; else as `vote_all`."""
    raise AssertionError


@_vote("ballot", u32, "counts[i] = kaio.i32(kaio.ballot(x[i] > 0.5))", "vote.sync.ballot.b32")
def ballot(predicate: bool, mask: int | None = None) -> int:
    """The lanes of `mask` in which the predicate is true: a u32 with the bit of each set; else as `vote_all`."""
    raise AssertionError


# ---------------------------------------------------------------------- match
def _match_typing(name: str, result: Type) -> Callable[..., Resolved]:
    def typing(value: Type, mask: Type | None = None) -> Resolved:
        exchanged = exchanged_type(name, value)
        if _bits_of(exchanged) > 64:
            raise RuleError(f"`{name}` compares up to 64 bits, and {show(exchanged)} has more", "match its parts")
        return Resolved((exchanged, *mask_operand(name, mask)), result)

    return typing


def _bits_of(type_: Type) -> int:
    """The bits in which a value is exchanged."""
    if isinstance(type_, VectorType):
        return max(32, type_.lane.bits * type_.count)
    if isinstance(type_, Compound):
        return sum(map(_bits_of, type_.items))
    dtype = type_.dtype if isinstance(type_, EnumType) else type_
    return max(32, dtype.bits) if isinstance(dtype, DType) else 0


def _as_integer(e: Emitter, value: Any, type_: Type) -> Any:
    """The bits of a value as an i32 or i64."""
    from llvmlite import ir as llvm

    from kaio.dsl.compiler.emission.parts import words_of
    from kaio.dsl.compiler.emission.words import from_words

    words = words_of(e, value, type_)
    return from_words(e.b, words, llvm.IntType(32 * len(words)))


def _match_cuda(name: str) -> Callable[..., Any]:
    def rule(e: Emitter, call: TypedCall, value: Any, *mask: Any) -> Any:
        from llvmlite import ir as llvm

        bits = _as_integer(e, value, call.operands[0])
        operands = [cuda_mask(e, call, mask), bits]
        callee = f"llvm.nvvm.{name.replace('_', '.')}.sync.i{bits.type.width}"
        if name == "match_any":
            return e.call(callee, e.llvm(u32), operands)
        given = e.call(callee, llvm.LiteralStructType([llvm.IntType(32), llvm.IntType(1)]), operands)
        return e.b.extract_value(given, 0), e.b.extract_value(given, 1)

    return rule


def _match_host(name: str) -> Callable[..., Any]:
    def rule(e: Emitter, call: TypedCall, value: Any, *mask: Any) -> Any:
        from kaio.dsl.compiler.emission.parts import words_of

        b, own = e.b, words_of(e, value, call.operands[0])
        peers = e.target.exchange(e, own, host_mask(call, mask), name)
        same = peers.members
        for k, word in enumerate(own):
            same = b.and_(same, _bits(e, b.icmp_unsigned("==", peers.all(k), peers.splat(word))))
        if name == "match_any":
            return same
        is_all = b.icmp_unsigned("==", same, peers.members)
        return b.select(is_all, peers.members, e.const(u32, 0)), is_all

    return rule


def _match(name: str, result: Type, example: str, ptx: str) -> Callable[[Any], Any]:
    return intrinsic(
        _match_typing(name, result), cuda=_match_cuda(name), host=_match_host(name), suspends=True, example=example,
        ptx=ptx,
    )  # fmt: skip


@_match("match_any", u32, "counts[i] = kaio.i32(kaio.match_any(n[i] // 5))", "match.any.sync.b32")
def match_any(value: Any, mask: int | None = None) -> int:
    """The lanes of `mask` whose value has the same bits as this one's: a u32 with the bit of each set.

    Any value of up to 64 bits that lanes can exchange. As bits are compared, 0.0 is not -0.0. All lanes of `mask` (a
    u32; without one, all of the warp that have not returned) have to be here, with the same mask.
    """
    raise AssertionError


@_match("match_all", TupleType((u32, BOOL)),
        "lanes, is_same = kaio.match_all(n[i] // 32)\ncounts[i] = kaio.i32(lanes) if is_same else 1",
        "match.all.sync.b32")  # fmt: skip
def match_all(value: Any, mask: int | None = None) -> tuple[int, bool]:
    """The lanes of `mask` and True if they all have a value of the same bits, else 0 and False; as `match_any`."""
    raise AssertionError


# ---------------------------------------------------------------------- lanes
def _active_cuda(e: Emitter, call: TypedCall) -> Any:
    from kaio.dsl.compiler.cuda.assembly import assemble

    return assemble(e, "activemask.b32 $0;", [e.llvm(u32)], [], volatile=True)[0]


def _active_host(e: Emitter, call: TypedCall) -> Any:
    return e.target.exchange(e, [], None, "activemask", kind="warp_any").members


@intrinsic(lambda: Resolved((), u32), cuda=_active_cuda, host=_active_host, suspends=True,
           example="counts[i] = kaio.i32(kaio.activemask())", ptx="activemask.b32", same_bits=False)  # fmt: skip
def activemask() -> int:
    """The lanes of the warp that run this together with this one: a u32 with the bit of each set.

    A GPU promises no more than this lane: it may run lanes of one branch apart. The CPU device lets all lanes that can
    come here come first. To let lanes that took a branch work together, compute who did: `ballot(condition)` before it.
    """
    raise AssertionError


def _lanemask(name: str, bits: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    """Lanes in a relation to this one's number; `bits` computes them of its bit and the bits below."""

    def cuda(e: Emitter, call: TypedCall) -> Any:
        return e.call(f"llvm.nvvm.read.ptx.sreg.lanemask.{name}", e.llvm(u32), [])

    def host(e: Emitter, call: TypedCall) -> Any:
        lane = e.b.and_(e.target.linear_thread(e), e.const(u32, 31))
        bit = e.b.shl(e.const(u32, 1), lane)
        return bits(e.b, (bit, e.b.sub(bit, e.const(u32, 1))))

    example = f"counts[i] = kaio.i32(kaio.lanemask_{name}())"
    return intrinsic(lambda: Resolved((), u32), cuda=cuda, host=host, example=example, ptx=f"%lanemask_{name}")


@_lanemask("eq", lambda b, own: own[0])
def lanemask_eq() -> int:
    """The bit of this lane; u32."""
    raise AssertionError


@_lanemask("lt", lambda b, own: own[1])
def lanemask_lt() -> int:
    """The bits of the lanes below this one; u32. `popcount(ballot(p) & lanemask_lt())` counts who comes before."""
    raise AssertionError


@_lanemask("le", lambda b, own: b.or_(*own))
def lanemask_le() -> int:
    """The bits of this lane and those below; u32."""
    raise AssertionError


@_lanemask("ge", lambda b, own: b.not_(own[1]))
def lanemask_ge() -> int:
    """The bits of this lane and those above; u32."""
    raise AssertionError


@_lanemask("gt", lambda b, own: b.not_(b.or_(*own)))
def lanemask_gt() -> int:
    """The bits of the lanes above this one; u32."""
    raise AssertionError
