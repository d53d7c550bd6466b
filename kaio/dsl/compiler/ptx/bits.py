"""Words as bits: logic, shifts, fields, counts, bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir as llvm

from kaio.dsl.compiler.ptx.kinds import is_signed
from kaio.dsl.compiler.ptx.opcodes import Step, opcode

if TYPE_CHECKING:
    from kaio.dsl.compiler.ptx.emitter import PtxEmitter

_I1, _I8, _I32, _I64 = (llvm.IntType(bits) for bits in (1, 8, 32, 64))
_LOGIC = "pred b16 b32 b64"


@opcode("and.type", takes="type type", gives="type", type=_LOGIC)
def _and(e: PtxEmitter, i: Step, x: Any, y: Any) -> Any:
    return e.b.and_(x, y)


@opcode("or.type", takes="type type", gives="type", type=_LOGIC)
def _or(e: PtxEmitter, i: Step, x: Any, y: Any) -> Any:
    return e.b.or_(x, y)


@opcode("xor.type", takes="type type", gives="type", type=_LOGIC)
def _xor(e: PtxEmitter, i: Step, x: Any, y: Any) -> Any:
    return e.b.xor(x, y)


@opcode("not.type", takes="type", gives="type", type=_LOGIC)
def _not(e: PtxEmitter, i: Step, x: Any) -> Any:
    return e.b.not_(x)


@opcode("cnot.type", takes="type", gives="type", type="b16 b32 b64")
def _is_zero(e: PtxEmitter, i: Step, x: Any) -> Any:
    return e.b.zext(e.b.icmp_unsigned("==", x, x.type(0)), x.type)


@opcode("lop3.b32", takes="b32 b32 b32 u32", gives="b32")
def _logic_of_three(e: PtxEmitter, i: Step, x: Any, y: Any, z: Any, table: Any) -> Any:
    """Bit `4 x + 2 y + z` of the table, in each place."""
    b, result = e.b, _I32(0)
    for row in range(8):
        if int(table.constant) >> row & 1:
            term = b.and_(b.and_(x if row & 4 else b.not_(x), y if row & 2 else b.not_(y)), z if row & 1 else b.not_(z))
            result = b.or_(result, term)
    return result


# ---------------------------------------------------------------------- shifts
@opcode("shl.type", takes="type u32", gives="type", type="b16 b32 b64")
def _left(e: PtxEmitter, i: Step, x: Any, by: Any) -> Any:
    return e.b.select(_is_over(e, x, by), x.type(0), e.b.shl(x, _within(e, x, by)))


@opcode("shr.type", takes="type u32", gives="type", type="b16 u16 s16 b32 u32 s32 b64 u64 s64")
def _right(e: PtxEmitter, i: Step, x: Any, by: Any) -> Any:
    if not is_signed(i["type"]):
        return e.b.select(_is_over(e, x, by), x.type(0), e.b.lshr(x, _within(e, x, by)))
    last = _I32(x.type.width - 1)
    return e.b.ashr(x, _resized(e, e.b.select(_is_over(e, x, by), last, by), x.type))


def _is_over(e: PtxEmitter, x: Any, by: Any) -> Any:
    return e.b.icmp_unsigned(">=", by, _I32(x.type.width))


def _within(e: PtxEmitter, x: Any, by: Any) -> Any:
    return _resized(e, e.b.and_(by, _I32(x.type.width - 1)), x.type)


def _resized(e: PtxEmitter, value: Any, kind: Any) -> Any:
    if kind.width == 32:
        return value
    return e.b.zext(value, kind) if kind.width > 32 else e.b.trunc(value, kind)


@opcode("shf.side.mode.b32", takes="b32 b32 u32", gives="b32", side="l r", mode="clamp wrap")
def _funnel(e: PtxEmitter, i: Step, low: Any, high: Any, by: Any) -> Any:
    b, last = e.b, _I32(31)
    is_over = b.icmp_unsigned(">", by, last)
    by = b.and_(by, last)
    rest = b.sub(last, by)  # the other word moves by `32 - by`, in two steps that are each in range
    if i["side"] == "l":
        moved = b.or_(b.shl(high, by), b.lshr(b.lshr(low, _I32(1)), rest))
    else:
        moved = b.or_(b.lshr(low, by), b.shl(b.shl(high, _I32(1)), rest))
    return b.select(is_over, low if i["side"] == "l" else high, moved) if i["mode"] == "clamp" else moved


# ---------------------------------------------------------------------- fields
def _low_byte(e: PtxEmitter, value: Any) -> Any:
    return e.b.and_(value, _I32(255))


def _ones(e: PtxEmitter, kind: Any, count: Any) -> Any:
    """So many ones at the low end; `count` is an i32 of any size."""
    every = e.b.icmp_unsigned(">=", count, _I32(kind.width))
    one = e.b.shl(kind(1), _resized(e, e.b.and_(count, _I32(kind.width - 1)), kind))
    return e.b.select(every, kind(-1), e.b.sub(one, kind(1)))


@opcode("bfe.type", takes="type u32 u32", gives="type", type="u32 s32 u64 s64")
def _extract(e: PtxEmitter, i: Step, x: Any, start: Any, count: Any) -> Any:
    b, kind = e.b, x.type
    start, count = _low_byte(e, start), _low_byte(e, count)
    is_over = _is_over(e, x, start)
    within = _within(e, x, start)
    mask = _ones(e, kind, count)
    if not is_signed(i["type"]):
        return b.select(is_over, kind(0), b.and_(b.lshr(x, within), mask))
    last = _I32(kind.width - 1)
    top = b.sub(b.add(start, count), _I32(1))
    top = b.select(b.icmp_unsigned(">", top, last), last, top)
    sign = b.trunc(b.lshr(x, _resized(e, top, kind)), _I1)
    nothing = b.icmp_unsigned("==", count, _I32(0))
    field = b.select(is_over, kind(0), b.and_(b.lshr(x, within), mask))
    # Bits of the field that lie beyond the word are copies of the sign, as are those above the field.
    there = b.select(is_over, kind(0), b.lshr(kind(-1), within))
    filled = b.select(sign, b.or_(field, b.not_(b.and_(mask, there))), field)
    return b.select(nothing, kind(0), filled)


@opcode("bfi.type", takes="type type u32 u32", gives="type", type="b32 b64")
def _insert(e: PtxEmitter, i: Step, field: Any, x: Any, start: Any, count: Any) -> Any:
    b = e.b
    start, count = _low_byte(e, start), _low_byte(e, count)
    within = _within(e, x, start)
    mask = b.shl(_ones(e, x.type, count), within)
    joined = b.or_(b.and_(b.shl(field, within), mask), b.and_(x, b.not_(mask)))
    return b.select(_is_over(e, x, start), x, joined)


@opcode("szext.mode.type", takes="type u32", gives="type", mode="wrap clamp", type="u32 s32")
def _extend(e: PtxEmitter, i: Step, x: Any, count: Any) -> Any:
    if i["mode"] == "wrap":
        count = e.b.and_(count, _I32(31))
    mask = _ones(e, x.type, count)
    low = e.b.and_(x, mask)
    if not is_signed(i["type"]):
        return low
    is_negative = e.b.icmp_unsigned("!=", e.b.and_(x, e.b.xor(mask, e.b.lshr(mask, _I32(1)))), _I32(0))
    return e.b.select(is_negative, e.b.or_(x, e.b.not_(mask)), low)


# ---------------------------------------------------------------------- counts
@opcode("popc.type", takes="type", gives="u32", type="b32 b64")
def _population(e: PtxEmitter, i: Step, x: Any) -> Any:
    return _resized_count(e, e.call(f"llvm.ctpop.i{x.type.width}", x.type, [x]))


@opcode("clz.type", takes="type", gives="u32", type="b32 b64")
def _leading_zeros(e: PtxEmitter, i: Step, x: Any) -> Any:
    return _resized_count(e, e.call(f"llvm.ctlz.i{x.type.width}", x.type, [x, _I1(0)]))


def _resized_count(e: PtxEmitter, count: Any) -> Any:
    return count if count.type == _I32 else e.b.trunc(count, _I32)


@opcode("bfind{.shiftamt}.type", takes="type", gives="u32", type="u32 s32 u64 s64")
def _leading_bit(e: PtxEmitter, i: Step, x: Any) -> Any:
    b, last = e.b, x.type.width - 1
    if is_signed(i["type"]):
        x = b.xor(x, b.ashr(x, x.type(last)))
    zeros = _resized_count(e, e.call(f"llvm.ctlz.i{x.type.width}", x.type, [x, _I1(0)]))
    found = zeros if i["shiftamt"] else b.sub(_I32(last), zeros)
    return b.select(b.icmp_unsigned("==", x, x.type(0)), _I32(-1), found)


@opcode("brev.type", takes="type", gives="type", type="b32 b64")
def _reversed(e: PtxEmitter, i: Step, x: Any) -> Any:
    return e.call(f"llvm.bitreverse.i{x.type.width}", x.type, [x])


# ---------------------------------------------------------------------- bytes
@opcode("prmt.b32", takes="b32 b32 b32", gives="b32")
def _permute(e: PtxEmitter, i: Step, x: Any, y: Any, selector: Any) -> Any:
    """Each nibble of the selector names a byte of y:x; its top bit asks for copies of that byte's sign."""
    b, result = e.b, _I32(0)
    both = b.or_(b.zext(x, _I64), b.shl(b.zext(y, _I64), _I64(32)))
    for k in range(4):
        nibble = b.lshr(selector, _I32(4 * k))
        place = b.zext(b.shl(b.and_(nibble, _I32(7)), _I32(3)), _I64)
        byte = b.trunc(b.lshr(both, place), _I8)
        wants_sign = b.icmp_unsigned("!=", b.and_(nibble, _I32(8)), _I32(0))
        chosen = b.zext(b.select(wants_sign, b.ashr(byte, _I8(7)), byte), _I32)
        result = b.or_(result, b.shl(chosen, _I32(8 * k)))
    return result
