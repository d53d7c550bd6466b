"""Floats of 16 and 8 bits to and from wider types. In registers and in memory they are integers: their bits.

A conversion rounds once, to the nearest, ties to even. Where it goes by way of f32 and that would round first, f32 is
rounded to odd, after which a second rounding gives what one would have (Boldo and Melquiond, Emulation of a FMA and
correctly rounded sums, IEEE Transactions on Computers, 2008).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from llvmlite import ir as llvm

from kaio.dsl.compiler.cuda.assembly import instruction
from kaio.dsl.compiler.emission.packing import unpack
from kaio.dsl.compiler.emission.scalars import Value, constant
from kaio.dsl.compiler.host import native
from kaio.dsl.intrinsic import primitive
from kaio.dtypes import DType, bf16, f8e4m3, f8e5m2, f16, f32, f64
from kaio.rounding import bits_of

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter

__all__ = ["is_narrow", "narrow", "odd", "truth", "widen"]

I8, I16, I32, I64 = (llvm.IntType(bits) for bits in (8, 16, 32, 64))
HALF, FLOAT, DOUBLE = llvm.HalfType(), llvm.FloatType(), llvm.DoubleType()
_BEYOND = 1 << 17  # no integer from here on is one of f16 or of 8 bits, and it is exact in f32


def is_narrow(type_: object) -> bool:
    """Whether a type is a float that is in registers as its bits."""
    return isinstance(type_, DType) and type_.is_float and type_.bits < 32


def truth(e: Emitter, value: Value, dtype: DType) -> Value:
    """Whether it is not zero; a NaN is true."""
    magnitude = e.b.and_(value, value.type((1 << dtype.bits - 1) - 1))
    return e.b.icmp_unsigned("!=", magnitude, value.type(0))


# ---------------------------------------------------------------------- wider
def widen(e: Emitter, value: Value, dtype: DType) -> Value:
    """As f32, exactly."""
    b = e.b
    if isinstance(value, llvm.Constant) and isinstance(value.constant, int):  # LLVM folds no inline assembly
        bits = np.array(value.constant & (1 << dtype.bits) - 1, f"u{dtype.itemsize}")
        return constant(f32, float(bits.view(dtype.numpy)))
    if dtype is bf16:  # the upper half of an f32
        return b.bitcast(b.shl(b.zext(value, I32), I32(16)), FLOAT)
    if dtype is f16:
        return e.use(_widen_half, value)
    wide = b.zext(value, I16)
    if dtype is f8e5m2:  # the upper half of an f16
        return e.use(_widen_half, b.shl(wide, I16(8)))
    return e.use(_widen_e4m3, wide)


def _widen_e4m3_cuda(e: Emitter, wide: Value) -> Value:
    if not e.target.has("sm_89"):
        return _decoded_e4m3(e, wide)
    both = instruction(e, "cvt.rn.f16x2.e4m3x2", I32, [wide])
    return e.use(_widen_half, e.b.trunc(both, I16))


def _decoded_e4m3(e: Emitter, wide: Value) -> Value:
    """As an f16 of the same fields it is 2**-8 of what it is, and its NaN a number."""
    b = e.b
    magnitude = b.shl(b.and_(wide, I16(0x7F)), I16(7))
    as_half = b.or_(magnitude, b.shl(b.and_(wide, I16(0x80)), I16(8)))
    scaled = b.fmul(e.use(_widen_half, as_half), constant(f32, 256.0))
    return b.select(b.icmp_unsigned("==", magnitude, I16(0x7F << 7)), constant(f32, math.nan), scaled)


def _widen_half_host(e: Emitter, value: Value) -> Value:
    b = e.b
    if native.converts_halves():
        return b.fpext(b.bitcast(value, HALF), FLOAT)
    magnitude = b.shl(b.and_(b.zext(value, I32), I32(0x7FFF)), I32(13))
    scaled = b.bitcast(b.fmul(b.bitcast(magnitude, FLOAT), constant(f32, 2.0**112)), I32)
    special = b.icmp_unsigned(">=", magnitude, I32(0x7C00 << 13))
    scaled = b.select(special, b.or_(magnitude, I32(0x7F800000)), scaled)
    return b.bitcast(b.or_(scaled, b.shl(b.zext(b.and_(value, I16(0x8000)), I32), I32(16))), FLOAT)


_widen_e4m3 = primitive("widen_e4m3", cuda=_widen_e4m3_cuda, host=_decoded_e4m3)
_widen_half = primitive(
    "widen_half", cuda=lambda e, value: instruction(e, "cvt.f32.f16", FLOAT, [value]), host=_widen_half_host
)


# ---------------------------------------------------------------------- narrower
def narrow_lanes(e: Emitter, values: Sequence[Value], lane: DType) -> tuple[Value, ...]:
    """An even number of f32 as f16 or bf16, each rounded once: two by one instruction where the GPU has it."""
    if e.target.name != "cuda" or not e.target.has("sm_80"):
        return tuple(narrow(e, value, f32, lane) for value in values)
    pairs = zip(values[::2], values[1::2], strict=True)
    words = [instruction(e, f"cvt.rn.{lane.ptx}x2.f32", I32, [high, low]) for low, high in pairs]
    return tuple(half for word in words for half in unpack(e.b, word, 16))


def narrow(e: Emitter, value: Value, source: DType, target: DType) -> Value:
    """An f32, f64 or integer as a narrow float: beyond its range an infinity, or the largest of 8 bits."""
    if source is f32:
        return e.use(_narrow_single, value, target)
    if source is f64:
        return e.use(_narrow_double, value, target)
    if source.bits < 32:
        return e.use(_narrow_single, e.convert(value, source, f32), target)
    return e.use(_narrow_int, value, source, target)


def _narrow_single_cuda(e: Emitter, value: Value, target: DType) -> Value:
    if target is f16:
        return instruction(e, "cvt.rn.f16.f32", I16, [value])
    if target is bf16:
        return instruction(e, "cvt.rn.bf16.f32", I16, [value]) if e.target.has("sm_80") else _upper_half(e, value)
    if e.target.has("sm_89"):
        both = instruction(e, f"cvt.rn.satfinite.{target.ptx}x2.f32", I16, [constant(f32, 0.0), value])
        return e.b.trunc(both, I8)
    return _encoded(e, value, target)


def _narrow_single_host(e: Emitter, value: Value, target: DType) -> Value:
    return _from_single(e, value, target, _is_whole(value))


def _from_single(e: Emitter, value: Value, target: DType, is_whole: bool) -> Value:
    if target is bf16:
        return _upper_half(e, value)
    if target is f16 and native.converts_halves() and not is_whole:
        return e.b.bitcast(e.b.fptrunc(value, HALF), I16)
    return _encoded(e, value, target)


def _is_whole(value: Value) -> bool:
    """Whether LLVM may see that a float was an integer.

    It takes an integer of few digits for exact in `half`, however large it is (InstCombine's
    `isKnownExactCastIntToFP`), and makes `fpext(fptrunc(131072.0))` of it 131072.0, which is infinity in f16.
    """
    if isinstance(value, llvm.Constant):
        return True
    operands = getattr(value, "operands", ())
    match getattr(value, "opname", ""):
        case "sitofp" | "uitofp" | "phi":  # what comes into a phi is not known yet
            return True
        case "load":  # LLVM knows what was stored there before, unless nobody writes it
            return "invariant.load" not in value.metadata
        case "fadd" | "fsub" | "fmul" | "fdiv" | "frem":
            return all(map(_is_whole, operands))
        case "fneg" | "fptrunc" | "fpext" | "call":
            return any(map(_is_whole, operands))
        case "select":
            return any(map(_is_whole, operands[1:]))
    return False


_narrow_single = primitive("narrow_single", cuda=_narrow_single_cuda, host=_narrow_single_host)


def _upper_half(e: Emitter, value: Value) -> Value:
    """An f32 as bf16, on the bits."""
    b = e.b
    bits = b.bitcast(value, I32)
    even = b.and_(b.lshr(bits, I32(16)), I32(1))
    rounded = b.add(bits, b.add(even, I32(0x7FFF)))
    is_nan = b.fcmp_unordered("uno", value, value)
    rounded = b.select(is_nan, I32(0x7FC00000), rounded)
    return b.trunc(b.lshr(rounded, I32(16)), I16)


def _encoded(e: Emitter, value: Value, target: DType) -> Value:
    """An f32 as a narrower float, on the bits."""
    b, stored = e.b, target.digits - 1
    lowest = -6 if target is f8e4m3 else -14  # the exponent of the smallest normal number
    bits = b.bitcast(value, I32)
    magnitude = b.and_(bits, I32(0x7FFFFFFF))
    dropped = 23 - stored
    even = b.and_(b.lshr(magnitude, I32(dropped)), I32(1))
    normal = b.lshr(b.add(magnitude, b.add(even, I32((1 << dropped - 1) - 1))), I32(dropped))
    normal = b.sub(normal, I32((lowest - 1 + 127) << stored))
    # Added to this, an f32 has its last bit where the subnormal numbers have theirs.
    anchor = constant(f32, 2.0 ** (lowest - stored + 23))
    sum_ = b.bitcast(b.fadd(b.bitcast(magnitude, FLOAT), anchor), I32)
    subnormal = b.sub(sum_, b.bitcast(anchor, I32))
    is_small = b.icmp_unsigned("<", magnitude, I32((lowest + 127) << 23))
    code = b.select(is_small, subnormal, normal)
    last = I32(bits_of(target, math.inf))
    code = b.select(b.icmp_unsigned(">", code, last), last, code)
    nan = bits_of(target, math.nan) & ((1 << target.bits - 1) - 1)
    code = b.select(b.icmp_unsigned(">", magnitude, I32(0x7F800000)), I32(nan), code)
    sign = b.shl(b.lshr(bits, I32(31)), I32(target.bits - 1))
    return b.trunc(b.or_(code, sign), llvm.IntType(target.bits))


def _narrow_double_cuda(e: Emitter, value: Value, target: DType) -> Value:
    if target is f16:
        return instruction(e, "cvt.rn.f16.f64", I16, [value])
    single = instruction(e, "cvt.rz.f32.f64", FLOAT, [value])
    inexact = e.b.fcmp_ordered("!=", e.b.fpext(single, DOUBLE), value)
    return e.use(_narrow_single, _with_last_bit(e, single, inexact), target)


def _narrow_double_host(e: Emitter, value: Value, target: DType) -> Value:
    single = e.b.fptrunc(value, FLOAT)
    back = e.b.fpext(single, DOUBLE)
    return _from_single(e, odd(e, single, e.b.fsub(value, back), f32), target, _is_whole(value))


_narrow_double = primitive("narrow_double", cuda=_narrow_double_cuda, host=_narrow_double_host)


def odd(e: Emitter, value: Value, error: Value, dtype: DType) -> Value:
    """What was rounded to the nearest, rounded to odd instead; the exact number is `value + error`.

    An error that is NaN, as of infinities, counts as none.
    """
    b, bits_type = e.b, llvm.IntType(dtype.bits)
    zero = llvm.Constant(error.type, 0.0)
    bits = b.bitcast(value, bits_type)
    is_even = b.icmp_unsigned("==", b.and_(bits, bits_type(1)), bits_type(0))
    wrong = b.and_(is_even, b.fcmp_ordered("!=", error, zero))
    outward = b.icmp_signed("==", b.icmp_signed("<", bits, bits_type(0)), b.fcmp_ordered("<", error, zero))
    step = b.select(outward, bits_type(1), bits_type(-1))
    return b.bitcast(b.add(bits, b.select(wrong, step, bits_type(0))), value.type)


def _with_last_bit(e: Emitter, single: Value, inexact: Value) -> Value:
    """What was rounded towards zero, rounded to odd instead."""
    return e.b.bitcast(e.b.or_(e.b.bitcast(single, I32), e.b.zext(inexact, I32)), FLOAT)


def _narrow_int_cuda(e: Emitter, value: Value, source: DType, target: DType) -> Value:
    if target is f16:
        return instruction(e, f"cvt.rn.f16.{source.ptx}", I16, [value])
    if target is bf16:
        single = instruction(e, f"cvt.rz.f32.{source.ptx}", FLOAT, [value])
        back = instruction(e, f"cvt.rzi.{source.ptx}.f32", value.type, [single])
        return e.use(_narrow_single, _with_last_bit(e, single, e.b.icmp_unsigned("!=", back, value)), target)
    return _narrow_clamped(e, value, source, target)


def _narrow_int_host(e: Emitter, value: Value, source: DType, target: DType) -> Value:
    if target is not bf16:
        return _narrow_clamped(e, value, source, target)
    b = e.b
    if source.bits == 64:  # f64 holds 53 bits: the lowest 11 become one
        shift = b.ashr if source.kind == "i" else b.lshr
        rest = b.icmp_unsigned("!=", b.and_(value, I64(2047)), I64(0))
        sticky = b.shl(b.or_(shift(value, I64(11)), b.zext(rest, I64)), I64(11))
        top = shift(value, I64(52))  # 0, or -1 of a negative number, where 53 bits hold it
        fits = b.icmp_unsigned("<=", b.add(top, I64(1)) if source.kind == "i" else top, I64(1))
        value = b.select(fits, value, sticky)
    return narrow(e, (b.sitofp if source.kind == "i" else b.uitofp)(value, DOUBLE), f64, target)


_narrow_int = primitive("narrow_int", cuda=_narrow_int_cuda, host=_narrow_int_host)


def _narrow_clamped(e: Emitter, value: Value, source: DType, target: DType) -> Value:
    """Beyond the range of the target one integer is as good as another, and one that f32 holds is rounded once."""
    b, high = e.b, value.type(_BEYOND)
    compare = b.icmp_signed if source.kind == "i" else b.icmp_unsigned
    value = b.select(compare("<", value, high), value, high)
    if source.kind == "i":
        low = value.type(-_BEYOND)
        value = b.select(compare(">", value, low), value, low)
    if source.bits == 64:
        value = b.trunc(value, I32)
    return e.use(_narrow_single, b.sitofp(value, FLOAT), target)
