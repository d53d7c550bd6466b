"""What the lanes of a warp do together: shuffles, votes, matches, reductions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir as llvm

from kaio.dsl import vote
from kaio.dsl.compiler.ir import TypedCall
from kaio.dsl.compiler.ptx.emitter import host_rule
from kaio.dsl.compiler.ptx.opcodes import Step, opcode
from kaio.dsl.compiler.ptx.syntax import Pair
from kaio.dsl.values import BOOL
from kaio.dtypes import u32, u64

if TYPE_CHECKING:
    from kaio.dsl.compiler.ptx.emitter import PtxEmitter

_I32, _ROW = llvm.IntType(32), llvm.VectorType(llvm.IntType(32), 32)
_VOTES = {"all": vote.vote_all, "any": vote.vote_any, "uni": vote.vote_uni, "ballot": vote.ballot}


def _call(record: Any, value: Any) -> TypedCall:
    """A call of a record with a value and a mask, as its rule on the host gets it."""
    return TypedCall(record, (), (value, u32), None)  # type: ignore[arg-type]


@opcode("bar.warp.sync", "barrier.warp.sync", suspends=True)
def _wait(e: PtxEmitter, i: Step) -> None:
    e.target.exchange(e, [], e.target.read(e, i.operands[0], "b32"), "syncwarp", kind="warp_sync")


@opcode("shfl.sync.mode.b32", mode="up down bfly idx", suspends=True)
def _shuffle(e: PtxEmitter, i: Step) -> None:
    """The pseudocode of `shfl.sync` in the PTX ISA: bits 8 to 12 of `control` are the segment mask, 0 to 4 clamp."""
    b, target, mode = e.b, e.target, i["mode"]
    to, *rest = i.operands
    word, given, control, mask = (target.read(e, operand, "b32") for operand in rest)
    name = f"shfl_sync_{mode}"
    peers = target.exchange(e, [word], mask, name)
    own, given = peers.lane, b.and_(given, _I32(31))
    segment = b.and_(b.lshr(control, _I32(8)), _I32(31))
    first = b.and_(own, segment)
    last = b.or_(first, b.and_(control, b.xor(segment, _I32(31))))
    last = b.and_(last, _I32(31))
    if mode == "up":
        lane = b.sub(own, given)
        inside = b.icmp_signed(">=", lane, last)
    else:
        lane = {"down": lambda: b.add(own, given), "bfly": lambda: b.xor(own, given),
                "idx": lambda: b.or_(first, b.and_(given, b.xor(segment, _I32(31))))}[mode]()  # fmt: skip
        inside = b.icmp_signed("<=", lane, last)
    source = b.select(inside, lane, own)
    target.check_lane(e, peers.has(source), source, peers, name)
    found = peers.word(0, source)
    if isinstance(to, Pair):
        target.write(e, to.second, inside, "pred")
        to = to.first
    target.write(e, to, found, "b32")


@opcode("vote.sync.mode.pred", mode="all any uni", suspends=True)
@opcode("vote.sync.mode.b32", mode="ballot", suspends=True)
def _vote(e: PtxEmitter, i: Step) -> None:
    to, predicate, mask = i.operands
    record: Any = _VOTES[i["mode"]]
    values = e.target.read(e, predicate, "pred"), e.target.read(e, mask, "b32")
    found = host_rule(record)(e, _call(record, BOOL), *values)
    e.target.write(e, to, found, "b32" if i["mode"] == "ballot" else "pred")


@opcode("match.any.sync.type", "match.all.sync.type", type="b32 b64", suspends=True)
def _match(e: PtxEmitter, i: Step) -> None:
    to, value, mask = i.operands
    is_any = i.instruction.opcode.startswith("match.any")
    record: Any = vote.match_any if is_any else vote.match_all
    call = _call(record, u32 if i["type"] == "b32" else u64)
    found = host_rule(record)(e, call, e.target.read(e, value, i["type"]), e.target.read(e, mask, "b32"))
    if is_any:
        e.target.write(e, to, found, "b32")
        return
    if isinstance(to, Pair):
        e.target.write(e, to.second, found[1], "pred")
        to = to.first
    e.target.write(e, to, found[0], "b32")


@opcode("activemask.b32", suspends=True)
def _active(e: PtxEmitter, i: Step) -> None:
    record: Any = vote.activemask
    e.target.write(e, i.operands[0], host_rule(record)(e, None), "b32")


# ---------------------------------------------------------------------- reductions
_NAMES = {("min", "s32"): "smin", ("max", "s32"): "smax", ("min", "u32"): "umin", ("max", "u32"): "umax"}
_NEUTRAL = {"smin": 2**31 - 1, "smax": -(2**31), "umin": -1, "and": -1}


@opcode("redux.sync.operation.type", operation="add min max", type="u32 s32", suspends=True)
@opcode("redux.sync.operation.type", operation="and or xor", type="b32", suspends=True)
def _reduce(e: PtxEmitter, i: Step) -> None:
    b, target = e.b, e.target
    to, value, mask = i.operands
    word = target.read(e, value, "b32")
    peers = target.exchange(e, [word], target.read(e, mask, "b32"), f"redux_{i['operation']}")
    name = _NAMES.get((i["operation"], i["type"]), i["operation"])
    neutral = llvm.Constant(_ROW, [_NEUTRAL.get(name, 0)] * 32)
    there = b.bitcast(peers.members, llvm.VectorType(llvm.IntType(1), 32))
    row = b.select(there, peers.all(0), neutral)
    target.write(e, to, e.call(f"llvm.vector.reduce.{name}.v32i32", _I32, [row]), "b32")


@opcode("elect.sync", suspends=True)
def _elect(e: PtxEmitter, i: Step) -> None:
    """The lowest lane of the mask."""
    to, mask = i.operands
    peers = e.target.exchange(e, [], e.target.read(e, mask, "b32"), "elect")
    leader = e.call("llvm.cttz.i32", _I32, [peers.members, llvm.IntType(1)(0)])
    assert isinstance(to, Pair)
    e.target.write(e, to.first, leader, "b32")
    e.target.write(e, to.second, e.b.icmp_unsigned("==", leader, peers.lane), "pred")
