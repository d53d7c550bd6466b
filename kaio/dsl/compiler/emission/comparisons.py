"""Comparisons in LLVM: exact, also across signedness and between ints and floats."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from kaio.dsl import literals, primitives
from kaio.dsl.compiler.emission import halves
from kaio.dsl.compiler.emission.conversions import convert, literal
from kaio.dsl.compiler.emission.narrow_floats import is_narrow, widen
from kaio.dsl.compiler.emission.scalars import Value, choose, constant
from kaio.dsl.values import BOOL, Type, Weak
from kaio.dtypes import DType, f32, f64, i32, i64, u32, u64

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter

__all__ = ["compare", "compare_literals", "compare_same", "less"]

_SWAPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}


def less(e: Emitter, dtype: DType, x: Value, y: Value) -> Value:
    """x < y."""
    return (e.b.icmp_signed if dtype.kind == "i" else e.b.icmp_unsigned)("<", x, y)


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
        return compare_same(e, op, x, y, x_type)
    if is_narrow(x_type) or is_narrow(y_type):  # f32 has all their values
        (x, x_type), (y, y_type) = (
            (widen(e, value, type_), f32) if is_narrow(type_) else (value, type_)
            for value, type_ in ((x, x_type), (y, y_type))
        )
        return compare(e, op, (x, x_type), (y, y_type))
    if x_type.is_float and y_type.is_float:
        return compare_same(e, op, convert(e, x, x_type, f64), convert(e, y, y_type, f64), f64)
    if x_type.is_float:
        return _compare_int_float(e, _SWAPPED[op], y, y_type, x, x_type)
    if y_type.is_float:
        return _compare_int_float(e, op, x, x_type, y, y_type)
    return _compare_ints(e, op, x, x_type, y, y_type)


def compare_same(e: Emitter, op: str, x: Value, y: Value, dtype: DType) -> Value:
    """Two values of one type; of floats also ``uno``, whether one is NaN."""
    if is_narrow(dtype):
        return halves.compare(e, op, x, y, dtype)
    if dtype.is_float:
        return e.b.fcmp_unordered(op, x, y) if op in ("!=", "uno") else e.b.fcmp_ordered(op, x, y)
    return (e.b.icmp_signed if dtype.kind == "i" else e.b.icmp_unsigned)(op, x, y)


def _compare_ints(e: Emitter, op: str, x: Value, x_type: DType, y: Value, y_type: DType) -> Value:
    if x_type.kind == y_type.kind or max(x_type.bits, y_type.bits) < 64 or u64 not in (x_type, y_type):
        wide: DType = u64 if x_type.kind == y_type.kind == "u" else i64
        if max(x_type.bits, y_type.bits) < 32:
            wide = i32
        return compare_same(e, op, convert(e, x, x_type, wide), convert(e, y, y_type, wide), wide)
    if x_type is u64:
        return _compare_ints(e, _SWAPPED[op], y, y_type, x, x_type)
    negative = e.b.icmp_signed("<", x, constant(x_type, 0))  # a signed with a u64
    same = compare_same(e, op, convert(e, x, x_type, u64), y, u64)
    return e.b.select(negative, constant(BOOL, op in ("<", "<=", "!=")), same)


def _compare_int_float(e: Emitter, op: str, integer: Value, i_type: DType, number: Value, f_type: DType) -> Value:
    """I < F is I < ceil(F) and I <= F is I <= floor(F); the conversion saturates, so the ends are patched."""
    b = e.b
    mantissa = 24 if f_type.bits == 32 else 53
    if i_type.bits - (i_type.kind == "i") <= mantissa:
        return compare_same(e, op, convert(e, integer, i_type, f_type), number, f_type)
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
    result = compare_same(e, op, integer, e.use(primitives.float_to_int, number, f_type, wide, rounding), wide)
    upward = constant(BOOL, op in ("<", "<="))
    result = b.select(b.fcmp_ordered(">=", number, over), upward, result)
    result = b.select(b.fcmp_ordered("<", number, under), b.not_(upward), result)
    return b.and_(result, b.fcmp_ordered("ord", number, number))


def _compare_with_float_literal(e: Emitter, op: str, x: Value, dtype: DType, position: Value, weak: Weak) -> Value:
    """An int with float literals: the literals become the ints that decide the same.

    I <= F is I < floor(F) + 1, which is in range where floor(F) is not: no u64 is -0.5 or less.
    """
    if op in ("<=", ">"):
        op, whole = ("<" if op == "<=" else ">="), tuple(math.floor(v) + 1 for v in weak.values)
    else:
        whole = tuple(map(math.ceil, weak.values))
    wide: DType = i64 if dtype is not u64 else u64
    literals = Weak("i", whole)
    return compare_same(e, op, convert(e, x, dtype, wide), literal(e, position, literals, wide), wide)


def compare_literals(e: Emitter, op: str, left: tuple[Value, Weak], right: tuple[Value, Weak]) -> Value:
    """Two literals, at most one of which depends on a condition."""
    (x, x_weak), (y, y_weak) = left, right
    results = [bool(literals.fold_values(op, p, q)) for p in x_weak.values for q in y_weak.values]
    position = x if len(x_weak.values) > 1 else y
    return choose(e, position, [constant(BOOL, result) for result in results])
