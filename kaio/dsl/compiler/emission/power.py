"""`**` in LLVM."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llvmlite import ir as llvm

from kaio.dsl import primitives
from kaio.dsl.compiler.emission.narrow_floats import is_narrow, narrow, widen
from kaio.dsl.compiler.emission.scalars import Value, constant
from kaio.dsl.values import Type, Weak
from kaio.dtypes import DType, f32

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter

__all__ = ["power", "real_power"]


def power(e: Emitter, base: Value, exponent: Value, exponent_type: Type, dtype: DType) -> Value:
    """Integers exactly, wrapping; a float to a small literal int by multiplication, otherwise by libdevice's pow.

    Narrow floats are raised as f32.
    """
    if is_narrow(dtype):
        wide = widen(e, base, dtype)
        if not isinstance(exponent_type, Weak):
            exponent, exponent_type = e.convert(exponent, exponent_type, f32), f32
        return narrow(e, power(e, wide, exponent, exponent_type, f32), f32, dtype)
    if isinstance(exponent_type, Weak) and len(exponent_type.values) == 1 and isinstance(exponent_type.values[0], int):
        number = exponent_type.values[0]
        if dtype.is_int or abs(number) <= 16:
            result = _repeated(e, base, abs(number), dtype)
            return e.b.fdiv(constant(dtype, 1.0), result) if number < 0 else result
    if dtype.is_float:
        return real_power(e, base, e.convert(exponent, exponent_type, dtype), dtype)
    return _integer_power(e, base, e.convert(exponent, exponent_type, dtype), dtype)


def real_power(e: Emitter, base: Value, exponent: Value, dtype: DType) -> Value:
    """libdevice's pow of f32 or f64, made whole where base and exponent are.

    libdevice is off by an ulp or two, and by one below a whole number is another one once it is truncated: its
    3.0 ** 1.0 is 2.9999999999999996. Up to a quarter of the significand's range that is less than a half.
    """
    b = e.b
    result = e.use(primitives.libdevice, "pow", [base, exponent], dtype)
    wholes = [b.fcmp_ordered("==", e.use(primitives.trunc, value, dtype), value) for value in (base, exponent)]
    is_small = b.fcmp_ordered("<", e.use(primitives.fabs, result, dtype), constant(dtype, 2.0 ** (dtype.digits - 2)))
    is_whole = b.and_(b.and_(*wholes), b.and_(is_small, b.fcmp_ordered(">=", exponent, constant(dtype, 0.0))))
    return b.select(is_whole, e.use(primitives.rint, result, dtype), result)


def _repeated(e: Emitter, base: Value, number: int, dtype: DType) -> Value:
    multiply = e.b.fmul if dtype.is_float else e.b.mul
    result = None
    while number:
        if number & 1:
            result = base if result is None else multiply(result, base)
        number >>= 1
        if number:
            base = multiply(base, base)
    return constant(dtype, 1) if result is None else result


def _integer_power(e: Emitter, base: Value, exponent: Value, dtype: DType) -> Value:
    """Square and multiply at run time; a negative exponent gives 0."""
    b, one, zero = e.b, constant(dtype, 1), constant(dtype, 0)
    negative = b.icmp_signed("<", exponent, zero) if dtype.kind == "i" else llvm.IntType(1)(0)
    if dtype.kind == "i":
        e.target.check(e, b.not_(negative), "negative exponent of an integer power")
    before, head, body, done = b.block, e.block("power"), e.block("power.step"), e.block("power.done")
    b.branch(head)
    b.position_at_end(head)
    left, square, result = b.phi(exponent.type), b.phi(base.type), b.phi(base.type)
    b.cbranch(b.icmp_unsigned("!=", left, zero), body, done)
    b.position_at_end(body)
    odd = b.trunc(left, llvm.IntType(1))
    updates = b.lshr(left, one), b.mul(square, square), b.select(odd, b.mul(result, square), result)
    b.branch(head)
    starts = _steps(e, before, negative, zero, exponent), base, one
    for phi, start, update in zip((left, square, result), starts, updates, strict=True):
        phi.add_incoming(start, before)
        phi.add_incoming(update, body)
    b.position_at_end(done)
    return b.select(negative, zero, result)


def _steps(e: Emitter, before: llvm.Block, negative: Value, zero: Value, exponent: Value) -> Value:
    """A negative exponent takes no step."""
    e.b.position_before(before.terminator)
    return e.b.select(negative, zero, exponent)
