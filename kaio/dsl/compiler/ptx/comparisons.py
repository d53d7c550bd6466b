"""Comparisons, and choices by them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir as llvm

from kaio.dsl.compiler.emission import halves
from kaio.dsl.compiler.emission.packing import unpack
from kaio.dsl.compiler.host.ptx_arithmetic import flushed
from kaio.dsl.compiler.ptx.kinds import dtype_of, is_signed, llvm_of
from kaio.dsl.compiler.ptx.opcodes import Step, opcode
from kaio.dsl.compiler.ptx.syntax import Pair

if TYPE_CHECKING:
    from kaio.dsl.compiler.ptx.emitter import PtxEmitter

_SIGNS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
          "lo": "<", "ls": "<=", "hi": ">", "hs": ">="}  # fmt: skip
_COMPARE = "eq ne lt le gt ge lo ls hi hs equ neu ltu leu gtu geu num nan"
_TYPES = "b16 b32 b64 u16 u32 u64 s16 s32 s64 f32 f64 f16 bf16"
_ANY = "b16 b32 b64 u16 u32 u64 s16 s32 s64 f32 f64"


def _compared(e: PtxEmitter, i: Step, x: Any, y: Any, kind: str) -> Any:
    how = i["compare"]
    if "f" not in kind:
        return (e.b.icmp_signed if is_signed(kind) and how not in ("lo", "ls", "hi", "hs") else e.b.icmp_unsigned)(
            _SIGNS[how], x, y
        )
    if kind in ("f16", "bf16"):
        return _compared_halves(e, how, x, y, kind)
    if i["ftz"]:
        x, y = flushed(e.b, x), flushed(e.b, y)
    if how in ("num", "nan"):
        return e.b.fcmp_ordered("ord", x, y) if how == "num" else e.b.fcmp_unordered("uno", x, y)
    compare = e.b.fcmp_unordered if len(how) == 3 else e.b.fcmp_ordered
    return compare(_SIGNS[how[:2]], x, y)


def _compared_halves(e: PtxEmitter, how: str, x: Any, y: Any, kind: str) -> Any:
    dtype = dtype_of(kind)
    lost = halves.compare(e, "uno", x, y, dtype)
    if how in ("num", "nan"):
        return lost if how == "nan" else e.b.not_(lost)
    found = halves.compare(e, _SIGNS[how[:2]], x, y, dtype)
    if len(how) == 3:
        return e.b.or_(found, lost)
    return e.b.and_(found, e.b.not_(lost)) if how == "ne" else found


@opcode("setp.compare{.ftz}.type", compare=_COMPARE, type=_TYPES)
@opcode("setp.compare.combine{.ftz}.type", compare=_COMPARE, combine="and or xor", type=_TYPES)
@opcode("setp.compare{.ftz}.type", compare=_COMPARE, type="f16x2 bf16x2")
def _set_predicate(e: PtxEmitter, i: Step) -> None:
    """``setp d|q, x, y, {!}p``: the comparison, combined with `p`, and in `q` its opposite."""
    target, kind = e.target, i["type"]
    to, left, right, *more = i.operands
    x, y = target.read(e, left, kind), target.read(e, right, kind)
    if kind.endswith("x2"):
        pairs = zip(unpack(e.b, x, 16), unpack(e.b, y, 16), strict=True)
        found, other = (_compared(e, i, a, b, kind.removesuffix("x2")) for a, b in pairs)
    else:
        found = _compared(e, i, x, y, kind)
        other = e.b.not_(found)
        if i["combine"]:
            combine = {"and": e.b.and_, "or": e.b.or_, "xor": e.b.xor}[i["combine"]]
            with_ = target.read(e, more[0], "pred")
            found, other = combine(found, with_), combine(other, with_)
    if isinstance(to, Pair):
        target.write(e, to.second, other, "pred")
        to = to.first
    target.write(e, to, found, "pred")


@opcode("set.compare{.ftz}.to.type", takes="type type", gives="to", compare=_COMPARE, to="u32 s32 f32", type=_ANY)
def _set(e: PtxEmitter, i: Step, x: Any, y: Any) -> Any:
    found, kind = _compared(e, i, x, y, i["type"]), llvm_of(i["to"])
    yes = llvm.Constant(kind, 1.0 if i["to"] == "f32" else -1)
    return e.b.select(found, yes, llvm.Constant(kind, 0.0 if i["to"] == "f32" else 0))


@opcode("selp.type", takes="type type pred", gives="type", type=_ANY)
def _select(e: PtxEmitter, i: Step, x: Any, y: Any, condition: Any) -> Any:
    return e.b.select(condition, x, y)


@opcode("slct{.ftz}.type.s32", takes="type type s32", gives="type", type=_ANY)
def _select_by_sign(e: PtxEmitter, i: Step, x: Any, y: Any, number: Any) -> Any:
    return e.b.select(e.b.icmp_signed(">=", number, number.type(0)), x, y)


@opcode("slct{.ftz}.type.f32", takes="type type f32", gives="type", type=_ANY)
def _select_by_float(e: PtxEmitter, i: Step, x: Any, y: Any, number: Any) -> Any:
    number = flushed(e.b, number) if i["ftz"] else number
    return e.b.select(e.b.fcmp_ordered(">=", number, llvm.Constant(number.type, 0.0)), x, y)
