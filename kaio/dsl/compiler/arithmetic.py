"""What operators and conversions are in LLVM, for both targets. The types come from `rules`; here are the instructions.

Where LLVM has poison and PTX a value (shifts by the width, conversions out of range, division by zero), it is PTX's.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from llvmlite import ir as llvm

from kaio.dsl import primitives, rules
from kaio.dsl.values import INDEX64, Type, Weak
from kaio.dtypes import DType, bool_, f32, f64, i32, i64, u32, u64
from kaio.errors import InternalError

if TYPE_CHECKING:
    from kaio.dsl.compiler.emit import Emitter

__all__ = [
    "INDEX_32", "INDEX_64", "binary", "compare_literals", "constant", "convert", "copysign", "extreme", "fma",
    "from_memory", "index", "less", "literal_index", "llvm_type", "magnitude_bits", "memory_type", "negate", "product",
    "saturate_i32", "to_memory", "unary",
]  # fmt: skip

Value = Any  # an llvmlite value; llvmlite has no types of its own

BOOL: DType = bool_  # type: ignore[assignment]
INDEX_32, INDEX_64 = i32, INDEX64
_SWAPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}


def llvm_type(type_: Type) -> llvm.Type:
    """The LLVM type of a scalar in a register."""
    if type_ is bool_:
        return llvm.IntType(1)
    if isinstance(type_, Weak):  # which of several values: their position
        return llvm.IntType(32)
    if isinstance(type_, DType):
        if type_.is_float:
            return llvm.FloatType() if type_.bits == 32 else llvm.DoubleType()
        return llvm.IntType(type_.bits)
    raise InternalError(f"{type_!r} has no value at run time")


def constant(dtype: DType, value: int | float | bool) -> llvm.Constant:
    """A number of that type."""
    if dtype is BOOL:
        return llvm.Constant(llvm.IntType(1), int(bool(value)))
    return llvm.Constant(llvm_type(dtype), float(value) if dtype.is_float else int(value))


def from_memory(e: Emitter, value: Value, dtype: DType) -> Value:
    """A loaded element as a value: bools are bytes in memory."""
    return e.b.icmp_unsigned("!=", value, llvm.IntType(8)(0)) if dtype is BOOL else value


def to_memory(e: Emitter, value: Value, dtype: DType) -> Value:
    """A value as it is stored."""
    return e.b.zext(value, llvm.IntType(8)) if dtype is BOOL else value


def memory_type(dtype: DType) -> llvm.Type:
    """The LLVM type of an element in memory."""
    return llvm.IntType(8) if dtype is BOOL else llvm_type(dtype)


# ---------------------------------------------------------------------- conversions
def convert(e: Emitter, value: Value, source: Type, target: Type) -> Value:
    """A scalar of one type as another: floats to ints truncate and saturate, ints to narrower ints wrap."""
    if not isinstance(target, DType):
        return value
    if isinstance(source, Weak):
        return _literal(e, value, source, target)
    if source is target or not isinstance(source, DType):
        return value
    if target is BOOL:
        zero = constant(source, 0)
        return e.b.fcmp_unordered("!=", value, zero) if source.is_float else e.b.icmp_unsigned("!=", value, zero)
    if source is BOOL:
        return e.b.select(value, constant(target, 1), constant(target, 0))
    if source.is_float:
        if target.is_float:
            return _resize(e.b.fpext, e.b.fptrunc, value, source, target)
        return _float_to_int(e, value, source, target)
    if target.is_float:
        return (e.b.sitofp if source.kind == "i" else e.b.uitofp)(value, llvm_type(target))
    return _resize(e.b.sext if source.kind == "i" else e.b.zext, e.b.trunc, value, source, target)


def _resize(widen: Any, narrow: Any, value: Value, source: DType, target: DType) -> Value:
    if source.bits == target.bits:
        return value
    return (widen if source.bits < target.bits else narrow)(value, llvm_type(target))


def _literal(e: Emitter, position: Value, weak: Weak, target: DType) -> Value:
    numbers = [constant(target, _as(target, v)) for v in weak.values]
    result = numbers[0]
    for k, number in enumerate(numbers[1:], 1):
        result = e.b.select(e.b.icmp_unsigned("==", position, llvm.IntType(32)(k)), number, result)
    return result


def _as(target: DType, value: int | float) -> int | float | bool:
    if target is BOOL:
        return value != 0
    if not target.is_int or isinstance(value, int):
        return value
    low, high = target.range
    return 0 if math.isnan(value) else high if value >= high else low if value <= low else int(value)


def literal_index(e: Emitter, value: Value, source: Type, target: Weak) -> Value:
    """Which of the target's values a literal, or one of several, is; nothing at run time where there is only one."""
    if not isinstance(source, Weak) or len(target.values) == 1:
        return value
    wanted = [repr(v) for v in target.values]
    places = [wanted.index(repr(float(v) if target.kind == "f" else v)) for v in source.values]
    if len(places) > 1 and places == list(range(len(places))):
        return value
    i32_type = llvm.IntType(32)
    result: Value = i32_type(places[0])
    for k, place in enumerate(places[1:], 1):
        result = e.b.select(e.b.icmp_unsigned("==", value, i32_type(k)), i32_type(place), result)
    return result


def _float_to_int(e: Emitter, value: Value, source: DType, target: DType) -> Value:
    """PTX cvt.rzi: saturates. Narrow targets are clamped in 32 bits, never by fptosi, which is poison out of range."""
    if target.bits >= 32:
        return e.use(primitives.float_to_int, value, source, target, "trunc")
    wide: DType = i32 if target.kind == "i" else u32
    result = e.use(primitives.float_to_int, value, source, wide, "trunc")
    low, high = (constant(wide, bound) for bound in target.range)
    compare = e.b.icmp_signed if target.kind == "i" else e.b.icmp_unsigned
    result = e.b.select(compare("<", result, high), result, high)
    if target.kind == "i":
        result = e.b.select(compare(">", result, low), result, low)
    result = e.b.trunc(result, llvm_type(target))
    if source is f64 and target.kind == "u":  # a NaN gives the top bit of the target's own width
        nan = e.b.fcmp_unordered("uno", value, value)
        result = e.b.select(nan, constant(target, 1 << target.bits - 1), result)
    return result


def saturate_i32(e: Emitter, value: Value, source: DType) -> Value:
    """`int(x)`: an i32, clamped."""
    if source.is_float or source is BOOL or source.bits < 32 or source is i32:
        return convert(e, value, source, i32)
    low, high = (constant(source, max(b, source.range[0])) for b in i32.range)
    compare = e.b.icmp_signed if source.kind == "i" else e.b.icmp_unsigned
    value = e.b.select(compare("<", value, high), value, high)
    if source.kind == "i":
        value = e.b.select(compare(">", value, low), value, low)
    return convert(e, value, source, i32)


def index(e: Emitter, value: Value, source: Type, size: Value, position: DType) -> Value:
    """An index of one axis; a negative literal counts from the end, also as a branch of a conditional."""
    if not isinstance(source, Weak) or min(source.values) >= 0:
        return e.convert(value, source, position)
    places = [constant(position, v) if v >= 0 else e.b.add(size, constant(position, v), flags=("nsw",))
              for v in source.values]  # fmt: skip
    result: Value = places[0]
    for k, place in enumerate(places[1:], 1):
        result = e.b.select(e.b.icmp_unsigned("==", value, llvm.IntType(32)(k)), place, result)
    return result


def product(e: Emitter, values: list[Value], dtype: DType) -> Value:
    """The product of sizes; 1 where there are none."""
    if not values:
        return constant(dtype, 1)
    result = values[0]
    for value in values[1:]:
        result = e.b.mul(result, value, flags=("nsw",))
    return result


# ---------------------------------------------------------------------- operators
def fma(e: Emitter, x: Value, y: Value, z: Value) -> Value:
    """x * y + z, rounded once."""
    return e.use(primitives.fma, x, y, z, f32 if isinstance(x.type, llvm.FloatType) else f64)


def unary(e: Emitter, op: str, value: Value, dtype: Type) -> Value:
    """``- + ~``."""
    assert isinstance(dtype, DType)
    if op == "+":
        return value
    if op == "~":
        return e.b.not_(value)
    return negate(e, value) if dtype.is_float else e.b.sub(constant(dtype, 0), value)


def negate(e: Emitter, value: Value) -> Value:
    """-value of a float; libNVVM's dialect has no `fneg`, and subtracting from -0.0 is the same."""
    return e.b.fsub(llvm.Constant(value.type, -0.0), value)


def binary(e: Emitter, op: str, left: tuple[Value, Type], right: tuple[Value, Type], result: Type) -> Value:
    """An operator whose operands have the types that `rules.binary` gave."""
    x, (y, y_type) = left[0], right
    if op in rules.COMPARISONS:
        return compare(e, op, left, right)
    assert isinstance(result, DType)
    if op in rules.SHIFTS:
        return shift(e, op, x, y, y_type, result)
    if op == "**":
        return power(e, x, y, y_type, result)
    if op in rules.BITWISE:
        return {"&": e.b.and_, "|": e.b.or_, "^": e.b.xor}[op](x, y)
    if op in "+-*":
        names = {"+": "add", "-": "sub", "*": "mul"}
        return getattr(e.b, ("f" if result.is_float else "") + names[op])(x, y)
    if op == "/":
        return e.b.fdiv(x, y)
    if result.is_float:
        return _float_divmod(e, op, x, y, result)
    return _divmod(e, op, x, y, result)


def less(e: Emitter, dtype: DType, x: Value, y: Value) -> Value:
    """x < y."""
    return (e.b.icmp_signed if dtype.kind == "i" else e.b.icmp_unsigned)("<", x, y)


def _float_divmod(e: Emitter, op: str, x: Value, y: Value, dtype: DType) -> Value:
    """npy_divmod of NumPy: fmod, then floored towards the divisor's sign."""
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
    exponent = 0x7F800000 if dtype.bits == 32 else 0x7FF0000000000000
    return e.b.and_(e.b.bitcast(value, bits), bits((1 << dtype.bits - 1) - 1)), bits(exponent)


def _divmod(e: Emitter, op: str, x: Value, y: Value, dtype: DType) -> Value:
    """Python's signs; by zero 0, and MIN // -1 wraps (hardware would trap on the host)."""
    b, number = e.b, getattr(y, "constant", None)
    if isinstance(number, int) and number > 0:
        return _divmod_literal(e, op, x, y, dtype, number)
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


def _divmod_literal(e: Emitter, op: str, x: Value, y: Value, dtype: DType, number: int) -> Value:
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


def shift(e: Emitter, op: str, x: Value, amount: Value, amount_type: Type, dtype: DType) -> Value:
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
        return b.ashr(x, _resize(b.zext, b.trunc, by, wide, dtype))
    narrow = _resize(b.zext, b.trunc, b.select(over, constant(wide, 0), by), wide, dtype)
    return b.select(over, constant(dtype, 0), b.shl(x, narrow) if op == "<<" else b.lshr(x, narrow))


def power(e: Emitter, base: Value, exponent: Value, exponent_type: Type, dtype: DType) -> Value:
    """Integers exactly, wrapping; a float to a small literal int by multiplication, otherwise by libdevice's pow."""
    if isinstance(exponent_type, Weak) and len(exponent_type.values) == 1 and isinstance(exponent_type.values[0], int):
        number = exponent_type.values[0]
        if dtype.is_int or abs(number) <= 16:
            result = _repeated(e, base, abs(number), dtype)
            return e.b.fdiv(constant(dtype, 1.0), result) if number < 0 else result
    if dtype.is_float:
        return e.use(primitives.libdevice, "pow", [base, e.convert(exponent, exponent_type, dtype)], dtype)
    return _integer_power(e, base, e.convert(exponent, exponent_type, dtype), dtype)


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
    starts = b_select_start(e, before, negative, zero, exponent), base, one
    for phi, start, update in zip((left, square, result), starts, updates, strict=True):
        phi.add_incoming(start, before)
        phi.add_incoming(update, body)
    b.position_at_end(done)
    return b.select(negative, zero, result)


def b_select_start(e: Emitter, before: llvm.Block, negative: Value, zero: Value, exponent: Value) -> Value:
    """A negative exponent takes no step."""
    e.b.position_before(before.terminator)
    return e.b.select(negative, zero, exponent)


# ---------------------------------------------------------------------- comparisons
def compare(e: Emitter, op: str, left: tuple[Value, Type], right: tuple[Value, Type]) -> Value:
    """Exact, also across signedness and between ints and floats."""
    (x, x_type), (y, y_type) = left, right
    if isinstance(x_type, Weak):
        return compare(e, _SWAPPED[op], right, left)
    assert isinstance(x_type, DType)
    if isinstance(y_type, Weak):
        return _compare_with_float_literal(e, op, x, x_type, y, y_type)
    assert isinstance(y_type, DType)
    if x_type is y_type:
        return _compare_same(e, op, x, y, x_type)
    if x_type.is_float and y_type.is_float:
        return _compare_same(e, op, convert(e, x, x_type, f64), convert(e, y, y_type, f64), f64)
    if x_type.is_float:
        return _compare_int_float(e, _SWAPPED[op], y, y_type, x, x_type)
    if y_type.is_float:
        return _compare_int_float(e, op, x, x_type, y, y_type)
    return _compare_ints(e, op, x, x_type, y, y_type)


def _compare_same(e: Emitter, op: str, x: Value, y: Value, dtype: DType) -> Value:
    if dtype.is_float:
        return e.b.fcmp_unordered(op, x, y) if op == "!=" else e.b.fcmp_ordered(op, x, y)
    return (e.b.icmp_signed if dtype.kind == "i" else e.b.icmp_unsigned)(op, x, y)


def _compare_ints(e: Emitter, op: str, x: Value, x_type: DType, y: Value, y_type: DType) -> Value:
    if x_type.kind == y_type.kind or max(x_type.bits, y_type.bits) < 64 or u64 not in (x_type, y_type):
        wide: DType = u64 if x_type.kind == y_type.kind == "u" else i64
        if max(x_type.bits, y_type.bits) < 32:
            wide = i32
        return _compare_same(e, op, convert(e, x, x_type, wide), convert(e, y, y_type, wide), wide)
    if x_type is u64:
        return _compare_ints(e, _SWAPPED[op], y, y_type, x, x_type)
    negative = e.b.icmp_signed("<", x, constant(x_type, 0))  # a signed with a u64
    same = _compare_same(e, op, convert(e, x, x_type, u64), y, u64)
    return e.b.select(negative, constant(BOOL, op in ("<", "<=", "!=")), same)


def _compare_int_float(e: Emitter, op: str, integer: Value, i_type: DType, number: Value, f_type: DType) -> Value:
    """I < F is I < ceil(F) and I <= F is I <= floor(F); the conversion saturates, so the ends are patched."""
    b = e.b
    mantissa = 24 if f_type.bits == 32 else 53
    if i_type.bits - (i_type.kind == "i") <= mantissa:
        return _compare_same(e, op, convert(e, integer, i_type, f_type), number, f_type)
    wide: DType = {("i", 32): i32, ("i", 64): i64, ("u", 32): u32, ("u", 64): u64}[i_type.kind, max(i_type.bits, 32)]
    integer = convert(e, integer, i_type, wide)
    over = constant(f_type, float(wide.range[1] + 1))
    under = constant(f_type, float(wide.range[0]))
    if op in ("==", "!="):
        whole = e.use(primitives.trunc, number, f_type)
        equal = b.icmp_unsigned("==", integer, e.use(primitives.float_to_int, number, f_type, wide, "trunc"))
        equal = b.and_(equal, b.fcmp_ordered("==", whole, number))
        equal = b.and_(equal, b.and_(b.fcmp_ordered("<", number, over), b.fcmp_ordered(">=", number, under)))
        return equal if op == "==" else b.not_(equal)
    rounding = "ceil" if op in ("<", ">=") else "floor"
    result = _compare_same(e, op, integer, e.use(primitives.float_to_int, number, f_type, wide, rounding), wide)
    upward = constant(BOOL, op in ("<", "<="))
    result = b.select(b.fcmp_ordered(">=", number, over), upward, result)
    result = b.select(b.fcmp_ordered("<", number, under), b.not_(upward), result)
    return b.and_(result, b.fcmp_ordered("ord", number, number))


def _compare_with_float_literal(e: Emitter, op: str, x: Value, dtype: DType, position: Value, weak: Weak) -> Value:
    """An int with float literals: the literals become the ints that decide the same."""
    rounding = math.ceil if op in ("<", ">=") else math.floor
    whole = tuple(rounding(v) for v in weak.values)
    wide: DType = i64 if dtype is not u64 else u64
    literals = Weak("i", tuple(min(max(v, wide.range[0]), wide.range[1]) for v in whole))
    return _compare_same(e, op, convert(e, x, dtype, wide), _literal(e, position, literals, wide), wide)


def compare_literals(e: Emitter, op: str, left: tuple[Value, Weak], right: tuple[Value, Weak]) -> Value:
    """Two literals, at most one of which depends on a condition."""
    (x, x_weak), (y, y_weak) = left, right
    results = [bool(rules.fold_values(op, p, q)) for p in x_weak.values for q in y_weak.values]
    position = x if len(x_weak.values) > 1 else y
    chosen: Value = constant(BOOL, results[0])
    for k, result in enumerate(results[1:], 1):
        chosen = e.b.select(e.b.icmp_unsigned("==", position, llvm.IntType(32)(k)), constant(BOOL, result), chosen)
    return chosen
