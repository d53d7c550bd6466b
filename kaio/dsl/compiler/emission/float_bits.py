"""What is done to floats on their bits, where an instruction would not give the same on both machines."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from llvmlite import ir as llvm

from kaio.dsl.compiler.emission.scalars import Value, llvm_type
from kaio.dtypes import DType
from kaio.rounding import bits_of

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter

__all__ = ["copysign", "extreme", "magnitude_bits", "sign_bit"]


def copysign(e: Emitter, magnitude: Value, sign: Value, dtype: DType) -> Value:
    """`magnitude` with the sign of `sign`, on the bits."""
    bits = llvm.IntType(dtype.bits)
    top = bits(1 << dtype.bits - 1)
    kept = e.b.and_(e.b.bitcast(magnitude, bits), bits((1 << dtype.bits - 1) - 1))
    return e.b.bitcast(e.b.or_(kept, e.b.and_(e.b.bitcast(sign, bits), top)), llvm_type(dtype))


def extreme(b: llvm.IRBuilder, name: str, x: Value, y: Value) -> Value:
    """`minnum` or `maxnum` of two floats: the number where one is NaN, and -0.0 is below 0.0.

    Not `llvm.minimumnum`: for x86 LLVM 22 gives a NaN where it knows that the other operand is none.
    """
    bits = llvm.IntType(32 if isinstance(x.type, llvm.FloatType) else 64)
    combine, sign = (b.or_, "<") if name == "minnum" else (b.and_, ">")
    equal = b.bitcast(combine(b.bitcast(x, bits), b.bitcast(y, bits)), x.type)  # zeros differ in the sign alone
    chosen = b.select(b.fcmp_ordered(sign, x, y), x, y)
    chosen = b.select(b.fcmp_ordered("==", x, y), equal, chosen)
    return b.select(b.fcmp_unordered("uno", y, y), x, chosen)


def magnitude_bits(e: Emitter, value: Value, dtype: DType) -> tuple[Value, Value]:
    """The bits of a float without its sign, and those of infinity."""
    bits = llvm.IntType(dtype.bits)
    return e.b.and_(e.b.bitcast(value, bits), bits((1 << dtype.bits - 1) - 1)), bits(bits_of(dtype, math.inf))


def sign_bit(e: Emitter, value: Value, dtype: DType) -> Value:
    """Whether the sign is negative, also that of a zero or a NaN."""
    bits = llvm.IntType(dtype.bits)
    return e.b.icmp_signed("<", e.b.bitcast(value, bits), bits(0))
