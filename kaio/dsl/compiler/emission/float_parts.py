"""Significand, exponent and neighbours of a float, by integer arithmetic on its bits: exact, and alike everywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llvmlite import ir as llvm

from kaio.dsl.compiler.emission.comparisons import compare_same
from kaio.dsl.compiler.emission.float_bits import magnitude_bits
from kaio.dsl.compiler.emission.scalars import Value, llvm_type
from kaio.dtypes import DType

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter

__all__ = ["next_after", "split", "unit_in_the_last_place"]


def _stored_bits(infinity: Value) -> int:
    """How many bits of the significand a type keeps: below the lowest bit of the exponent."""
    pattern = int(infinity.constant)
    return (pattern & -pattern).bit_length() - 1


def next_after(e: Emitter, x: Value, y: Value, dtype: DType) -> Value:
    """One step from x towards y; y where they are equal, NaN where one is."""
    b, bits = e.b, llvm.IntType(dtype.bits)
    pattern = b.bitcast(x, bits)
    magnitude, infinity = magnitude_bits(e, x, dtype)
    other, _ = magnitude_bits(e, y, dtype)
    sign = b.and_(b.bitcast(y, bits), bits(1 << dtype.bits - 1))
    is_zero = b.icmp_unsigned("==", magnitude, bits(0))
    outward = b.icmp_unsigned("==", compare_same(e, "<", x, y, dtype), b.icmp_signed(">=", pattern, bits(0)))
    stepped = b.select(outward, b.add(pattern, bits(1)), b.sub(pattern, bits(1)))
    stepped = b.select(is_zero, b.or_(sign, bits(1)), stepped)
    stepped = b.select(compare_same(e, "==", x, y, dtype), b.bitcast(y, bits), stepped)
    lost = b.or_(b.icmp_unsigned(">", magnitude, infinity), b.icmp_unsigned(">", other, infinity))
    return b.bitcast(b.select(lost, b.or_(infinity, bits(1 << _stored_bits(infinity) - 1)), stepped), llvm_type(dtype))


def unit_in_the_last_place(e: Emitter, x: Value, dtype: DType) -> Value:
    """The distance between numbers of x's exponent; infinities and NaN are their own."""
    b, bits = e.b, llvm.IntType(dtype.bits)
    magnitude, infinity = magnitude_bits(e, x, dtype)
    stored = bits(_stored_bits(infinity))
    field = b.lshr(magnitude, stored)
    normal = b.shl(b.sub(field, stored), stored)
    above_one = b.select(b.icmp_unsigned("==", field, bits(0)), bits(0), b.sub(field, bits(1)))
    is_normal = b.icmp_unsigned(">", field, stored)
    small = b.shl(bits(1), b.select(is_normal, bits(0), above_one))
    unit = b.select(is_normal, normal, small)
    return b.bitcast(b.select(b.icmp_unsigned(">=", magnitude, infinity), magnitude, unit), llvm_type(dtype))


def split(e: Emitter, x: Value, dtype: DType) -> tuple[Value, Value]:
    """`m, k` with x = m * 2**k and 0.5 <= |m| < 1, k as i32; 0, infinities and NaN keep their value and have k = 0."""
    b, bits = e.b, llvm.IntType(dtype.bits)
    magnitude, infinity = magnitude_bits(e, x, dtype)
    count = _stored_bits(infinity)
    half = (int(infinity.constant) >> count + 1) - 1  # the exponent field of 0.5
    zeros = e.call(f"llvm.ctlz.i{dtype.bits}", bits, [magnitude, llvm.IntType(1)(0)])
    shift = b.sub(zeros, bits(dtype.bits - 1 - count))  # what brings a subnormal's leading bit to its place
    is_subnormal = b.icmp_unsigned("<", magnitude, bits(1 << count))
    shift = b.select(is_subnormal, shift, bits(0))
    field = b.select(is_subnormal, b.sub(bits(1), shift), b.lshr(magnitude, bits(count)))
    stored = b.and_(b.shl(magnitude, b.and_(shift, bits(dtype.bits - 1))), bits((1 << count) - 1))
    sign = b.and_(b.bitcast(x, bits), bits(1 << dtype.bits - 1))
    significand = b.or_(b.or_(sign, bits(half << count)), stored)
    special = b.or_(b.icmp_unsigned("==", magnitude, bits(0)), b.icmp_unsigned(">=", magnitude, infinity))
    exponent = b.sub(field, bits(half))
    exponent = b.select(special, bits(0), exponent)
    i32 = llvm.IntType(32)
    number = b.select(special, x, b.bitcast(significand, llvm_type(dtype)))
    return number, exponent if dtype.bits == 32 else b.trunc(exponent, i32)
