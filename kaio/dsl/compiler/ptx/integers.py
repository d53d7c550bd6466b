"""Integer arithmetic: what wraps, what divides, and sums over several words by a carry."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from llvmlite import ir as llvm

from kaio.dsl.compiler.ptx.kinds import bits_of, double, is_signed, llvm_of
from kaio.dsl.compiler.ptx.opcodes import INTEGERS, Step, opcode

if TYPE_CHECKING:
    from kaio.dsl.compiler.ptx.emitter import PtxEmitter

_I1 = llvm.IntType(1)


def _wide(e: PtxEmitter, i: Step, value: Any) -> Any:
    """A value of the instruction's type in twice its bits."""
    kind = i["type"]
    return (e.b.sext if is_signed(kind) else e.b.zext)(value, llvm_of(double(kind)))


@opcode("add{.sat}.type", "sub{.sat}.type", takes="type type", gives="type", type=INTEGERS)
def _sum(e: PtxEmitter, i: Step, x: Any, y: Any) -> Any:
    name = i.instruction.opcode[:3]
    if not i["sat"]:
        return (e.b.add if name == "add" else e.b.sub)(x, y)
    return e.call(f"llvm.s{name}.sat.i{x.type.width}", x.type, [x, y])


@opcode("mul.mode.type", takes="type type", gives="type", mode="lo hi", type=INTEGERS)
def _product(e: PtxEmitter, i: Step, x: Any, y: Any) -> Any:
    if i["mode"] == "lo":
        return e.b.mul(x, y)
    product = e.b.mul(_wide(e, i, x), _wide(e, i, y))
    return e.b.trunc(e.b.lshr(product, product.type(x.type.width)), x.type)


@opcode("mul.wide.type", takes="type type", gives="wide", type="s16 u16 s32 u32")
def _wide_product(e: PtxEmitter, i: Step, x: Any, y: Any) -> Any:
    return e.b.mul(_wide(e, i, x), _wide(e, i, y))


@opcode("mad.mode.type", takes="type type type", gives="type", mode="lo hi", type=INTEGERS)
def _product_and_sum(e: PtxEmitter, i: Step, x: Any, y: Any, z: Any) -> Any:
    return e.b.add(_product(e, i, x, y), z)


@opcode("mad.wide.type", takes="type type wide", gives="wide", type="s16 u16 s32 u32")
def _wide_product_and_sum(e: PtxEmitter, i: Step, x: Any, y: Any, z: Any) -> Any:
    return e.b.add(_wide_product(e, i, x, y), z)


def _product_24(e: PtxEmitter, i: Step, x: Any, y: Any) -> Any:
    """The lowest 24 bits of each; 48 bits, of which ``lo`` and ``hi`` name 32."""
    shift = x.type(8)
    shifts = e.b.ashr if is_signed(i["type"]) else e.b.lshr
    narrow = [shifts(e.b.shl(value, shift), shift) for value in (x, y)]
    product = e.b.mul(*(_wide(e, i, value) for value in narrow))
    return e.b.trunc(e.b.lshr(product, product.type(16 if i["mode"] == "hi" else 0)), x.type)


@opcode("mul24.mode.type", takes="type type", gives="type", mode="lo hi", type="s32 u32")
def _mul24(e: PtxEmitter, i: Step, x: Any, y: Any) -> Any:
    return _product_24(e, i, x, y)


@opcode("mad24.mode.type", takes="type type type", gives="type", mode="lo hi", type="s32 u32")
def _mad24(e: PtxEmitter, i: Step, x: Any, y: Any, z: Any) -> Any:
    return e.b.add(_product_24(e, i, x, y), z)


@opcode("sad.type", takes="type type type", gives="type", type=INTEGERS)
def _sum_of_difference(e: PtxEmitter, i: Step, x: Any, y: Any, z: Any) -> Any:
    return e.b.add(e.b.select(_less(e, i, x, y), e.b.sub(y, x), e.b.sub(x, y)), z)


def _less(e: PtxEmitter, i: Step, x: Any, y: Any) -> Any:
    return (e.b.icmp_signed if is_signed(i["type"]) else e.b.icmp_unsigned)("<", x, y)


@opcode("min.type", "max.type", takes="type type", gives="type", type=INTEGERS)
def _extreme(e: PtxEmitter, i: Step, x: Any, y: Any) -> Any:
    is_less = _less(e, i, x, y)
    return e.b.select(is_less, x, y) if i.instruction.opcode.startswith("min") else e.b.select(is_less, y, x)


@opcode("abs.type", takes="type", gives="type", type="s16 s32 s64")
def _magnitude(e: PtxEmitter, i: Step, x: Any) -> Any:
    return e.b.select(e.b.icmp_signed("<", x, x.type(0)), e.b.neg(x), x)


@opcode("neg.type", takes="type", gives="type", type="s16 s32 s64")
def _negative(e: PtxEmitter, i: Step, x: Any) -> Any:
    return e.b.neg(x)


@opcode("div.type", takes="type type", gives="type", type=INTEGERS)
def _quotient(e: PtxEmitter, i: Step, x: Any, y: Any) -> Any:
    """By zero it is not specified, and all bits are set here; the least number by -1 wraps."""
    b, one, every = e.b, y.type(1), y.type(-1)
    by_zero = b.icmp_unsigned("==", y, y.type(0))
    if not is_signed(i["type"]):
        return b.select(by_zero, every, b.udiv(x, b.select(by_zero, one, y)))
    special = b.icmp_unsigned("<=", b.add(y, one), one)  # y is 0 or -1
    quotient = b.sdiv(x, b.select(special, one, y))
    return b.select(special, b.select(by_zero, every, b.neg(x)), quotient)


@opcode("rem.type", takes="type type", gives="type", type=INTEGERS)
def _remainder(e: PtxEmitter, i: Step, x: Any, y: Any) -> Any:
    b, one, zero = e.b, y.type(1), y.type(0)
    by_zero = b.icmp_unsigned("==", y, zero)
    if not is_signed(i["type"]):
        return b.select(by_zero, x, b.urem(x, b.select(by_zero, one, y)))
    special = b.icmp_unsigned("<=", b.add(y, one), one)
    remainder = b.srem(x, b.select(special, one, y))
    return b.select(special, b.select(by_zero, x, zero), remainder)


# ---------------------------------------------------------------------- by a carry
@opcode("add.cc.type", "addc{.cc}.type", takes="type type", gives="type", type="s32 u32 s64 u64")
def _sum_with_carry(e: PtxEmitter, i: Step, x: Any, y: Any) -> Any:
    return _chained(e, i, e.b.add, x, y)


@opcode("sub.cc.type", "subc{.cc}.type", takes="type type", gives="type", type="s32 u32 s64 u64")
def _difference_with_borrow(e: PtxEmitter, i: Step, x: Any, y: Any) -> Any:
    return _chained(e, i, e.b.sub, x, y)


@opcode("mad.mode.cc.type", "madc.mode{.cc}.type", takes="type type type", gives="type", mode="lo hi",
        type="s32 u32 s64 u64")  # fmt: skip
def _product_and_sum_with_carry(e: PtxEmitter, i: Step, x: Any, y: Any, z: Any) -> Any:
    return _chained(e, i, e.b.add, _product(e, i, x, y), z)


def _chained(e: PtxEmitter, i: Step, step: Callable[..., Any], x: Any, y: Any) -> Any:
    """The low word of a sum or difference, in which `addc` and its like have the carry; ``.cc`` keeps the bit above."""
    bits = bits_of(i["type"])
    wide = llvm_of(f"u{2 * bits}")
    total = step(e.b.zext(x, wide), e.b.zext(y, wide))
    takes_carry = i.instruction.opcode.partition(".")[0].endswith("c")
    if takes_carry:
        total = step(total, e.b.zext(e.target.carry(e), wide))
    low = e.b.trunc(total, llvm.IntType(bits))
    if i["cc"] or not takes_carry:  # where it is not a choice, it is no word of the form
        e.target.set_carry(e, e.b.trunc(e.b.lshr(total, wide(bits)), _I1))
    return low


# ---------------------------------------------------------------------- products of parts
def _part(e: PtxEmitter, word: Any, kind: str, start: int, width: int) -> Any:
    up = e.b.shl(word, word.type(32 - start - width))
    return (e.b.ashr if is_signed(kind) else e.b.lshr)(up, word.type(32 - width))


@opcode("dp4a.left.right", takes="b32 b32 b32", gives="b32", left="s32 u32", right="s32 u32")
def _dot_of_bytes(e: PtxEmitter, i: Step, x: Any, y: Any, total: Any) -> Any:
    for at in range(0, 32, 8):
        product = e.b.mul(_part(e, x, i["left"], at, 8), _part(e, y, i["right"], at, 8))
        total = e.b.add(total, product)
    return total


@opcode("dp2a.mode.left.right", takes="b32 b32 b32", gives="b32", mode="lo hi", left="s32 u32", right="s32 u32")
def _dot_of_halves(e: PtxEmitter, i: Step, x: Any, y: Any, total: Any) -> Any:
    first = 16 if i["mode"] == "hi" else 0
    for k in range(2):
        product = e.b.mul(_part(e, x, i["left"], 16 * k, 16), _part(e, y, i["right"], first + 8 * k, 8))
        total = e.b.add(total, product)
    return total
