"""`//` and `%` in LLVM: Python's signs for ints, NumPy's answers for floats.

Where LLVM has poison and hardware a trap (division by zero, MIN // -1), it is a value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaio.dsl import primitives
from kaio.dsl.compiler.emission import halves
from kaio.dsl.compiler.emission.float_bits import copysign
from kaio.dsl.compiler.emission.narrow_floats import is_narrow
from kaio.dsl.compiler.emission.scalars import Value, constant
from kaio.dtypes import DType, f32

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter

__all__ = ["divide_floats", "divide_ints"]


def divide_floats(e: Emitter, op: str, x: Value, y: Value, dtype: DType) -> Value:
    """npy_divmod of NumPy: fmod, then floored towards the divisor's sign; narrow floats through f32, as there."""
    if is_narrow(dtype):
        return halves.through_f32(e, dtype, lambda x, y: divide_floats(e, op, x, y, f32), x, y)
    b, zero = e.b, constant(dtype, 0.0)
    remainder = b.frem(x, y) if e.target.name == "host" else e.use(primitives.libdevice, "fmod", [x, y], dtype)
    nonzero = b.fcmp_unordered("!=", remainder, zero)
    differ = b.xor(b.fcmp_ordered("<", y, zero), b.fcmp_ordered("<", remainder, zero))
    fix = b.and_(nonzero, differ)
    if op == "%":
        return b.select(fix, b.fadd(remainder, y), b.select(nonzero, remainder, copysign(e, zero, y, dtype)))
    quotient = b.fdiv(b.fsub(x, remainder), y)
    quotient = b.select(fix, b.fsub(quotient, constant(dtype, 1.0)), quotient)
    floored = e.use(primitives.floor, quotient, dtype)
    up = b.fcmp_ordered(">", b.fsub(quotient, floored), constant(dtype, 0.5))
    floored = b.select(up, b.fadd(floored, constant(dtype, 1.0)), floored)
    plain = b.fdiv(x, y)
    floored = b.select(b.fcmp_unordered("!=", quotient, zero), floored, copysign(e, zero, plain, dtype))
    return b.select(b.fcmp_ordered("==", y, zero), plain, floored)


def divide_ints(e: Emitter, op: str, x: Value, y: Value, dtype: DType) -> Value:
    """Python's signs; by zero 0, and MIN // -1 wraps (hardware would trap on the host)."""
    b, number = e.b, getattr(y, "constant", None)
    if isinstance(number, int) and number > 0:
        return _divide_by_literal(e, op, x, y, dtype, number)
    zero, one = constant(dtype, 0), constant(dtype, 1)
    by_zero = b.icmp_unsigned("==", y, zero)
    e.target.check(e, b.not_(by_zero), "integer division by zero")
    if dtype.kind == "u":
        safe = b.select(by_zero, one, y)
        return b.select(by_zero, zero, b.udiv(x, safe) if op == "//" else b.urem(x, safe))
    special = b.icmp_unsigned("<=", b.add(y, one), one)  # y is 0 or -1
    safe = b.select(special, one, y)
    quotient, remainder = b.sdiv(x, safe), b.srem(x, safe)
    fix = b.and_(b.icmp_unsigned("!=", remainder, zero), b.icmp_signed("<", b.xor(remainder, safe), zero))
    if op == "%":
        return b.select(fix, b.add(remainder, safe), remainder)
    quotient = b.sub(quotient, b.zext(fix, quotient.type))
    return b.select(special, b.select(by_zero, zero, b.sub(zero, x)), quotient)


def _divide_by_literal(e: Emitter, op: str, x: Value, y: Value, dtype: DType, number: int) -> Value:
    b = e.b
    if dtype.kind == "u":
        return b.udiv(x, y) if op == "//" else b.urem(x, y)
    if number & (number - 1) == 0:  # floor by a power of two is one shift, which LLVM does not find
        return (
            b.ashr(x, constant(dtype, number.bit_length() - 1))
            if op == "//"
            else b.and_(x, constant(dtype, number - 1))
        )
    zero = constant(dtype, 0)
    quotient, remainder = b.sdiv(x, y), b.srem(x, y)
    fix = b.icmp_signed("<", remainder, zero)
    return b.sub(quotient, b.zext(fix, quotient.type)) if op == "//" else b.select(fix, b.add(remainder, y), remainder)
