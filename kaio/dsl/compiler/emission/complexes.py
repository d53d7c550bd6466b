"""Complex numbers in LLVM: a value is a pair of floats.

Products and quotients fuse where floats do (`contract`), in the same places on both machines. Division is Smith's
(Algorithm 116, Communications of the ACM, 1962), as NumPy's: it overflows only where the quotient is near to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kaio.dsl import primitives
from kaio.dsl.compiler.emission import arithmetic as reals
from kaio.dsl.compiler.emission import comparisons
from kaio.dsl.compiler.emission.scalars import Value, constant
from kaio.dsl.complexes import ComplexType
from kaio.dsl.values import Type, Weak
from kaio.dtypes import DType

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter
    from kaio.dsl.compiler.ir import TypedCall

__all__ = ["Pair", "absolute", "arithmetic", "compare", "divide", "fma", "multiply", "negate", "negated", "part_of"]

Pair = tuple[Value, Value]
_MOST_STEPS = 64


def part_of(type_: Type) -> DType:
    """The dtype of the parts."""
    assert isinstance(type_, ComplexType)
    assert isinstance(type_.items[0], DType)
    return type_.items[0]


def arithmetic(e: Emitter, call: TypedCall, left: Any, right: Any) -> Any:
    """``+ - * / **``; of two, one may be real."""
    op = call.static[0]
    if op == "literal":
        return None, None
    part = part_of(call.result)
    if op == "**":
        return _power(e, left, right, call.static[1], part)
    rule = {"+": _sum, "-": _sum, "*": _product, "/": _quotient}[op]
    return rule(e, op, left, right, part)


def _sum(e: Emitter, op: str, x: Any, y: Any, part: DType) -> Pair:
    combine = e.b.fadd if op == "+" else e.b.fsub
    if not isinstance(y, tuple):
        return combine(x[0], y), x[1]
    if not isinstance(x, tuple):
        return combine(x, y[0]), y[1] if op == "+" else reals.negate(e, y[1], part)
    return combine(x[0], y[0]), combine(x[1], y[1])


def _product(e: Emitter, op: str, x: Any, y: Any, part: DType) -> Pair:
    if not isinstance(y, tuple):
        return e.b.fmul(x[0], y), e.b.fmul(x[1], y)
    if not isinstance(x, tuple):
        return e.b.fmul(x, y[0]), e.b.fmul(x, y[1])
    return multiply(e, x, y, part)


def multiply(e: Emitter, x: Pair, y: Pair, part: DType) -> Pair:
    """x * y."""
    return (
        _sum_of_products(e, "-", (x[0], y[0]), (x[1], y[1]), part),
        _sum_of_products(e, "+", (x[0], y[1]), (x[1], y[0]), part),
    )


def _sum_of_products(e: Emitter, op: str, one: Pair, two: Pair, part: DType) -> Value:
    """one[0] * one[1] ± two[0] * two[1]; the left product is the one that fuses."""
    second = e.b.fmul(*two)
    if e.target.contract:
        return reals.fma(e, *one, second if op == "+" else reals.negate(e, second, part), part)
    return (e.b.fadd if op == "+" else e.b.fsub)(e.b.fmul(*one), second)


def fma(e: Emitter, x: Any, y: Any, z: Pair, part: DType) -> Pair:
    """x * y + z, four fused operations of two complex numbers; one of x and y may be real."""
    if not isinstance(y, tuple):
        x, y = y, x
    if not isinstance(x, tuple):
        return reals.fma(e, x, y[0], z[0], part), reals.fma(e, x, y[1], z[1], part)
    inner = reals.fma(e, reals.negate(e, x[1], part), y[1], z[0], part), reals.fma(e, x[1], y[0], z[1], part)
    return reals.fma(e, x[0], y[0], inner[0], part), reals.fma(e, x[0], y[1], inner[1], part)


def _times_plus(e: Emitter, x: Value, y: Value, z: Value, part: DType) -> Value:
    """x * y + z as an expression."""
    return reals.fma(e, x, y, z, part) if e.target.contract else e.b.fadd(e.b.fmul(x, y), z)


def _quotient(e: Emitter, op: str, x: Any, y: Any, part: DType) -> Pair:
    if not isinstance(y, tuple):
        return e.b.fdiv(x[0], y), e.b.fdiv(x[1], y)
    return divide(e, x, y, part)


def divide(e: Emitter, x: Pair, y: Pair, part: DType) -> Pair:
    """Smith's: the smaller part of the divisor is divided by the larger one."""
    b = e.b
    magnitudes = [e.use(primitives.fabs, value, part) for value in y]
    real_is_larger = b.fcmp_ordered(">=", *magnitudes)
    larger, smaller = b.select(real_is_larger, *y), b.select(real_is_larger, y[1], y[0])
    ratio = b.fdiv(smaller, larger)
    scale = b.fdiv(constant(part, 1.0), _times_plus(e, smaller, ratio, larger, part))
    first, second = b.select(real_is_larger, *x), b.select(real_is_larger, x[1], x[0])
    real = b.fmul(_times_plus(e, second, ratio, first, part), scale)
    # i*r - s where the real part is larger, s*r - i where it is not: one product, one of the signs
    plain, negative = reals.negate(e, first, part), b.fmul(first, ratio)
    if e.target.contract:
        straight = reals.fma(e, plain, ratio, second, part)
        crossed = reals.fma(e, first, ratio, reals.negate(e, second, part), part)
    else:
        straight, crossed = b.fsub(second, negative), b.fsub(negative, second)
    imag = b.fmul(b.select(real_is_larger, straight, crossed), scale)
    by_zero = b.and_(*(b.fcmp_ordered("==", value, constant(part, 0.0)) for value in y))
    return tuple(
        b.select(by_zero, b.fdiv(whole, magnitudes[0]), found) for whole, found in zip(x, (real, imag), strict=True)
    )


# ---------------------------------------------------------------------- powers
def _power(e: Emitter, base: Pair, exponent: Any, number: int | None, part: DType) -> Pair:
    """To a literal int of at most 64 by squaring; any other by exp(exponent * log(base))."""
    if number is None or abs(number) > _MOST_STEPS:
        from kaio.dsl.compiler.emission import complex_functions

        if number is not None:
            exponent = constant(part, float(number)), constant(part, 0.0)
        return complex_functions.power(e, base, exponent, part)
    result: Pair | None = None
    square, left = base, abs(number)
    while left:
        if left & 1:
            result = square if result is None else multiply(e, result, square, part)
        left >>= 1
        if left:
            square = multiply(e, square, square, part)
    one = constant(part, 1.0), constant(part, 0.0)
    if result is None:
        return one
    return divide(e, one, result, part) if number < 0 else result


# ---------------------------------------------------------------------- signs and comparisons
def negate(e: Emitter, value: Pair, part: DType) -> Pair:
    """-value."""
    return reals.negate(e, value[0], part), reals.negate(e, value[1], part)


def negated(e: Emitter, call: TypedCall, value: Pair) -> Any:
    """``- +``."""
    if call.static[0] == "literal":
        return None, None
    return negate(e, value, part_of(call.result)) if call.static[0] == "-" else value


def absolute(e: Emitter, value: Pair, part: DType) -> Value:
    """The magnitude, without overflow on the way."""
    return e.use(primitives.libdevice, "hypot", list(value), part)


def compare(e: Emitter, call: TypedCall, left: Any, right: Any) -> Value:
    """``== !=``: exact, part by part."""
    op, rules = call.static
    sides = [_parts(value, type_) for value, type_ in zip((left, right), call.operands, strict=True)]
    found = []
    for (x, x_type), (y, y_type), rule in zip(*sides, rules, strict=True):
        one, two = (e.convert(x, x_type, rule.left), rule.left), (e.convert(y, y_type, rule.right), rule.right)
        if isinstance(rule.left, Weak) and isinstance(rule.right, Weak):
            found.append(comparisons.compare_literals(e, op, one, two))
        else:
            found.append(comparisons.compare(e, op, one, two))
    return (e.b.and_ if op == "==" else e.b.or_)(*found)


def _parts(value: Any, type_: Type) -> list[tuple[Any, Type]]:
    if isinstance(type_, ComplexType):
        return list(zip(value, type_.items, strict=True))
    return [(value, type_), (None, Weak("f", (0.0,)))]
