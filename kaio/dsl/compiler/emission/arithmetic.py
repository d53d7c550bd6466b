"""What operators are in LLVM, for both targets. The types come from `rules`; here are the instructions.

Where LLVM has poison and PTX a value (shifts by the width), it is PTX's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from llvmlite import ir as llvm

from kaio.dsl import primitives, rules
from kaio.dsl.compiler.emission import halves
from kaio.dsl.compiler.emission.comparisons import compare
from kaio.dsl.compiler.emission.conversions import convert, resize
from kaio.dsl.compiler.emission.division import divide_floats, divide_ints
from kaio.dsl.compiler.emission.narrow_floats import is_narrow
from kaio.dsl.compiler.emission.power import power
from kaio.dsl.compiler.emission.scalars import Value, constant
from kaio.dsl.values import Type, Weak
from kaio.dtypes import DType, i32, u32, u64

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter

__all__ = ["binary", "fma", "negate", "product", "unary"]


def unary(e: Emitter, op: str, value: Value, dtype: Type) -> Value:
    """``- + ~``."""
    assert isinstance(dtype, DType)
    if op == "+":
        return value
    if op == "~":
        return e.b.not_(value)
    return negate(e, value, dtype) if dtype.is_float else e.b.sub(constant(dtype, 0), value)


def negate(e: Emitter, value: Value, dtype: DType) -> Value:
    """-value of a float; libNVVM's dialect has no `fneg`, and subtracting from -0.0 is the same."""
    if is_narrow(dtype):
        return halves.negate(e, value, dtype)
    return e.b.fsub(llvm.Constant(value.type, -0.0), value)


def binary(e: Emitter, op: str, left: tuple[Value, Type], right: tuple[Value, Type], result: Type) -> Value:
    """An operator whose operands have the types that `rules.binary` gave."""
    x, (y, y_type) = left[0], right
    if op in rules.COMPARISONS:
        return compare(e, op, left, right)
    assert isinstance(result, DType)
    if op in rules.SHIFTS:
        return _shift(e, op, x, y, y_type, result)
    if op == "**":
        return power(e, x, y, y_type, result)
    if op in rules.BITWISE:
        return {"&": e.b.and_, "|": e.b.or_, "^": e.b.xor}[op](x, y)
    if op in "+-*/" and is_narrow(result):
        return halves.arithmetic(e, op, x, y, result)
    if op in "+-*":
        names = {"+": "add", "-": "sub", "*": "mul"}
        return getattr(e.b, ("f" if result.is_float else "") + names[op])(x, y)
    if op == "/":
        return e.b.fdiv(x, y)
    if result.is_float:
        return divide_floats(e, op, x, y, result)
    return divide_ints(e, op, x, y, result)


def _shift(e: Emitter, op: str, x: Value, amount: Value, amount_type: Type, dtype: DType) -> Value:
    """By the width or more (or a negative amount): 0, or the sign."""
    b = e.b
    if isinstance(amount_type, Weak) and len(amount_type.values) == 1:
        bits = min(int(amount_type.values[0]), dtype.bits)
        if bits == dtype.bits and (op == "<<" or dtype.kind == "u"):
            return constant(dtype, 0)
        by = constant(dtype, min(bits, dtype.bits - 1))
        return b.shl(x, by) if op == "<<" else (b.ashr if dtype.kind == "i" else b.lshr)(x, by)
    source = i32 if isinstance(amount_type, Weak) else amount_type
    assert isinstance(source, DType)
    amount = e.convert(amount, amount_type, source)
    wide = {8: u32, 16: u32, 32: u32, 64: u64}[max(dtype.bits, source.bits)]
    by = convert(e, amount, source, wide)
    over = b.icmp_unsigned(">=", by, constant(wide, dtype.bits))
    if op == ">>" and dtype.kind == "i":
        by = b.select(over, constant(wide, dtype.bits - 1), by)
        return b.ashr(x, resize(b.zext, b.trunc, by, wide, dtype))
    narrow = resize(b.zext, b.trunc, b.select(over, constant(wide, 0), by), wide, dtype)
    return b.select(over, constant(dtype, 0), b.shl(x, narrow) if op == "<<" else b.lshr(x, narrow))


def fma(e: Emitter, x: Value, y: Value, z: Value, dtype: DType) -> Value:
    """x * y + z, rounded once."""
    return e.use(primitives.fma, x, y, z, dtype)


def product(e: Emitter, values: list[Value], dtype: DType) -> Value:
    """The product of sizes; 1 where there are none."""
    if not values:
        return constant(dtype, 1)
    result = values[0]
    for value in values[1:]:
        result = e.b.mul(result, value, flags=("nsw",))
    return result
