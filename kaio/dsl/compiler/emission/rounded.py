"""Arithmetic of floats in any rounding mode on the host, exactly, in integers.

An operation gives an exact number: a sign, a whole `magnitude` of 128 or 256 bits and the exponent of its lowest bit,
which also stands for everything below it. That number is then rounded once. Operands that are no numbers, and
results that are exactly zero, are those of the plain operation. Directed modes of the processor would need its control
register changed around each instruction, which LLVM's optimiser does not respect.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from llvmlite import ir as llvm

from kaio.dsl.compiler.emission.declared import call

__all__ = ["rounded"]

I1, I32 = llvm.IntType(1), llvm.IntType(32)


@dataclass(frozen=True)
class _Format:
    """A type of IEEE 754: its precision, the exponent of the lowest bit of subnormals, wide integers to compute in."""

    kind: llvm.Type
    bits: llvm.IntType
    wide: llvm.IntType
    precision: int
    lowest: int
    suffix: str

    @property
    def infinity(self) -> int:
        """The bits of infinity."""
        return int((1 << self.bits.width - self.precision) - 1 << self.precision - 1)


_F32 = _Format(llvm.FloatType(), llvm.IntType(32), llvm.IntType(128), 24, -149, "f32")
_F64 = _Format(llvm.DoubleType(), llvm.IntType(64), llvm.IntType(256), 53, -1074, "f64")


@dataclass(frozen=True)
class _Exact:
    """(-1)**negative * magnitude * 2**exponent; where `magnitude` is 0, the sign that the mode gives a zero is open."""

    negative: Any
    magnitude: Any
    exponent: Any


def rounded(b: Any, operation: str, mode: str, args: list[Any]) -> Any:
    """The value of ``add sub mul div fma rcp sqrt`` of floats, rounded ``rn rz ru rd``."""
    of = _F32 if args[0].type == llvm.FloatType() else _F64
    if operation == "rcp":
        operation, args = "div", [of.kind(1.0), *args]
    if operation == "sub":
        operation, args = "add", [args[0], b.fneg(args[1])]
    plain = _plain(b, operation, of, args)
    if mode == "rn":
        return plain
    exact = {"add": _sum, "mul": _product, "div": _quotient, "fma": _fused, "sqrt": _root}[operation](b, of, args)
    value = _round(b, of, exact, mode)
    special = b.icmp_unsigned("==", exact.magnitude, exact.magnitude.type(0))
    for arg in args:
        special = b.or_(special, b.icmp_unsigned(">=", _magnitude(b, of, arg), of.bits(of.infinity)))
    if operation in ("div", "sqrt"):  # by zero, and of a negative number
        special = b.or_(special, b.or_(_is_infinite(b, of, plain), b.fcmp_unordered("uno", plain, plain)))
        # an infinite quotient of numbers that overflowed is rounded like the others
        if operation == "div":
            by_zero = b.icmp_unsigned("==", _magnitude(b, of, args[1]), of.bits(0))
            overflowed = b.and_(_is_infinite(b, of, plain), b.not_(by_zero))
            special = b.and_(special, b.not_(b.and_(overflowed, _all_finite(b, of, args))))
    if mode == "rd" and operation in ("add", "fma"):
        plain = _zero_downward(b, of, exact, plain, args)
    return b.select(special, plain, value)


def _plain(b: Any, operation: str, of: _Format, args: list[Any]) -> Any:
    match operation:
        case "add":
            return b.fadd(*args)
        case "mul":
            return b.fmul(*args)
        case "div":
            return b.fdiv(*args)
        case _:
            return call(b, f"llvm.{operation}.{of.suffix}", of.kind, args)


def _zero_downward(b: Any, of: _Format, exact: _Exact, plain: Any, args: list[Any]) -> Any:
    """A sum that is exactly zero of terms of different signs is -0.0 when rounded down."""
    *factors, addend = args
    negative = _sign(b, of, factors[0])
    for factor in factors[1:]:
        negative = b.xor(negative, _sign(b, of, factor))
    differ = b.xor(negative, _sign(b, of, addend))
    is_zero = b.and_(b.icmp_unsigned("==", exact.magnitude, exact.magnitude.type(0)), _all_finite(b, of, args))
    return b.select(b.and_(is_zero, differ), of.kind(-0.0), plain)


# ---------------------------------------------------------------------- floats as integers
def _magnitude(b: Any, of: _Format, x: Any) -> Any:
    return b.and_(b.bitcast(x, of.bits), of.bits((1 << of.bits.width - 1) - 1))


def _sign(b: Any, of: _Format, x: Any) -> Any:
    return b.icmp_signed("<", b.bitcast(x, of.bits), of.bits(0))


def _is_infinite(b: Any, of: _Format, x: Any) -> Any:
    return b.icmp_unsigned("==", _magnitude(b, of, x), of.bits(of.infinity))


def _all_finite(b: Any, of: _Format, args: list[Any]) -> Any:
    finite = I1(1)
    for arg in args:
        finite = b.and_(finite, b.icmp_unsigned("<", _magnitude(b, of, arg), of.bits(of.infinity)))
    return finite


def _exact(b: Any, of: _Format, x: Any) -> _Exact:
    """A finite float; its magnitude has at most `precision` bits."""
    magnitude = _magnitude(b, of, x)
    stored = of.precision - 1
    field = b.lshr(magnitude, of.bits(stored))
    is_normal = b.icmp_unsigned("!=", field, of.bits(0))
    significand = b.and_(magnitude, of.bits((1 << stored) - 1))
    significand = b.or_(significand, b.select(is_normal, of.bits(1 << stored), of.bits(0)))
    above = b.select(is_normal, b.sub(field, of.bits(1)), of.bits(0))
    above = above if of.bits.width == 32 else b.trunc(above, I32)
    return _Exact(_sign(b, of, x), b.zext(significand, of.wide), b.add(above, I32(of.lowest)))


def _shifted(b: Any, shift: Any, value: Any, by: Any) -> Any:
    return shift(value, b.zext(by, value.type))


def _at_most(b: Any, value: Any, most: int) -> Any:
    return b.select(b.icmp_signed(">", value, I32(most)), I32(most), value)


def _shift_right(b: Any, value: Any, by: Any) -> Any:
    """Shift out `by` bits, of which the lowest that stays keeps that any was set."""
    kept = _shifted(b, b.lshr, value, by)
    lost = b.icmp_unsigned("!=", _shifted(b, b.shl, kept, by), value)
    return b.or_(kept, b.zext(lost, value.type))


# ---------------------------------------------------------------------- operations
def _total(b: Any, of: _Format, x: _Exact, y: _Exact) -> _Exact:
    """x + y, for magnitudes of at most twice the precision."""
    x, y = _beside(b, x, y), _beside(b, y, x)
    swap = b.icmp_signed("<", x.exponent, y.exponent)
    high = _Exact(*(b.select(swap, q, p) for p, q in _fields(x, y)))
    low = _Exact(*(b.select(swap, p, q) for p, q in _fields(x, y)))
    distance = b.sub(high.exponent, low.exponent)
    room = of.wide.width - 2 * of.precision - 4
    left = _at_most(b, distance, room)
    right = _at_most(b, b.sub(distance, left), 2 * of.precision + 2)
    first = _shifted(b, b.shl, high.magnitude, left)
    second = _shift_right(b, low.magnitude, right)
    first_signed, second_signed = (
        b.select(of_.negative, b.sub(of.wide(0), m), m) for of_, m in ((high, first), (low, second))
    )
    total = b.add(first_signed, second_signed)
    negative = b.icmp_signed("<", total, of.wide(0))
    return _Exact(negative, b.select(negative, b.sub(of.wide(0), total), total), b.sub(high.exponent, left))


def _beside(b: Any, x: _Exact, y: _Exact) -> _Exact:
    """x, where it is zero with the exponent of y, beside which it would push out the bits of y."""
    is_zero = b.icmp_unsigned("==", x.magnitude, x.magnitude.type(0))
    return _Exact(x.negative, x.magnitude, b.select(is_zero, y.exponent, x.exponent))


def _fields(x: _Exact, y: _Exact) -> list[tuple[Any, Any]]:
    return [(x.negative, y.negative), (x.magnitude, y.magnitude), (x.exponent, y.exponent)]


def _sum(b: Any, of: _Format, args: list[Any]) -> _Exact:
    return _total(b, of, _exact(b, of, args[0]), _exact(b, of, args[1]))


def _product(b: Any, of: _Format, args: list[Any]) -> _Exact:
    x, y = (_exact(b, of, arg) for arg in args)
    return _Exact(b.xor(x.negative, y.negative), b.mul(x.magnitude, y.magnitude), b.add(x.exponent, y.exponent))


def _fused(b: Any, of: _Format, args: list[Any]) -> _Exact:
    return _total(b, of, _product(b, of, args[:2]), _exact(b, of, args[2]))


def _unit(b: Any, of: _Format, x: Any) -> tuple[Any, Any]:
    """`m, k` with |x| = m * 2**k and 1 <= m < 2, for a finite x that is not 0."""
    exact = _exact(b, of, x)
    significand = b.trunc(exact.magnitude, of.bits)
    zeros = call(b, f"llvm.ctlz.i{of.bits.width}", of.bits, [significand, I1(0)])
    shift = b.sub(zeros, of.bits(of.bits.width - of.precision))
    significand = b.shl(significand, b.and_(shift, of.bits(of.bits.width - 1)))
    one = ((1 << of.bits.width - of.precision - 1) - 1) << of.precision - 1
    m = b.bitcast(b.or_(b.and_(significand, of.bits((1 << of.precision - 1) - 1)), of.bits(one)), of.kind)
    shift = shift if of.bits.width == 32 else b.trunc(shift, I32)
    return m, b.add(b.sub(exact.exponent, shift), I32(of.precision - 1))


def _corrected(b: Any, of: _Format, value: Any, error: Any) -> tuple[Any, Any]:
    """The exact number that is `value` (1/2 to 2) plus a little of the sign of `error`: magnitude and exponent."""
    exact = _exact(b, of, value)
    magnitude = b.shl(exact.magnitude, of.wide(2))
    zero = of.kind(0.0)
    below = b.zext(b.fcmp_ordered("<", error, zero), of.wide)
    inexact = b.zext(b.fcmp_unordered("!=", error, zero), of.wide)
    return b.or_(b.sub(magnitude, b.shl(below, of.wide(1))), inexact), b.sub(exact.exponent, I32(2))


def _quotient(b: Any, of: _Format, args: list[Any]) -> _Exact:
    """By the quotient of the significands, whose remainder is exact."""
    (m, k), (n, j) = (_unit(b, of, arg) for arg in args)
    q = b.fdiv(m, n)
    remainder = call(b, f"llvm.fma.{of.suffix}", of.kind, [b.fneg(q), n, m])
    magnitude, exponent = _corrected(b, of, q, remainder)
    is_zero = b.icmp_unsigned("==", _magnitude(b, of, args[0]), of.bits(0))
    magnitude = b.select(is_zero, of.wide(0), magnitude)
    negative = b.xor(*(_sign(b, of, arg) for arg in args))
    return _Exact(negative, magnitude, b.add(exponent, b.sub(k, j)))


def _root(b: Any, of: _Format, args: list[Any]) -> _Exact:
    """By the root of the significand, times 2 where the exponent is odd, whose remainder is exact."""
    m, k = _unit(b, of, args[0])
    odd = b.and_(k, I32(1))
    m = b.select(b.icmp_unsigned("==", odd, I32(1)), b.fmul(m, of.kind(2.0)), m)
    root = call(b, f"llvm.sqrt.{of.suffix}", of.kind, [m])
    remainder = call(b, f"llvm.fma.{of.suffix}", of.kind, [b.fneg(root), root, m])
    magnitude, exponent = _corrected(b, of, root, remainder)
    is_zero = b.icmp_unsigned("==", _magnitude(b, of, args[0]), of.bits(0))
    half = b.ashr(b.sub(k, odd), I32(1))
    return _Exact(I1(0), b.select(is_zero, of.wide(0), magnitude), b.add(exponent, half))


# ---------------------------------------------------------------------- rounding
def _round(b: Any, of: _Format, exact: _Exact, mode: str) -> Any:
    """The float next to an exact number that is not zero, by a directed mode."""
    wide, width = of.wide, of.wide.width
    zeros = b.trunc(call(b, f"llvm.ctlz.i{width}", wide, [exact.magnitude, I1(0)]), I32)
    top = b.add(b.sub(I32(width), zeros), exact.exponent)  # one above the exponent of the highest bit
    unit = b.sub(top, I32(of.precision))
    unit = b.select(b.icmp_signed("<", unit, I32(of.lowest)), I32(of.lowest), unit)
    shift = b.sub(unit, exact.exponent)
    is_left = b.icmp_signed("<", shift, I32(0))
    left = b.select(is_left, b.sub(I32(0), shift), I32(0))
    right = _at_most(b, b.select(is_left, I32(0), shift), width - 1)
    kept = _shifted(b, b.lshr, exact.magnitude, right)
    inexact = b.icmp_unsigned("!=", _shifted(b, b.shl, kept, right), exact.magnitude)
    kept = _shifted(b, b.shl, kept, _at_most(b, left, width - 1))
    away = {"rz": I1(0), "ru": b.not_(exact.negative), "rd": exact.negative}[mode]
    kept = b.add(b.trunc(kept, of.bits), b.zext(b.and_(inexact, away), of.bits))
    # An exponent field is the unit's above the lowest; a significand of `precision` bits adds one to it.
    above = b.sub(unit, I32(of.lowest))
    is_over = b.icmp_signed(">=", above, I32((1 << of.bits.width - of.precision) - 2))
    above = b.select(is_over, I32(0), above)
    above = above if of.bits.width == 32 else b.zext(above, of.bits)
    bits = b.add(b.shl(above, of.bits(of.precision - 1)), kept)
    is_over = b.or_(is_over, b.icmp_unsigned(">=", bits, of.bits(of.infinity)))
    bits = b.select(is_over, b.select(away, of.bits(of.infinity), of.bits(of.infinity - 1)), bits)
    sign = b.shl(b.zext(exact.negative, of.bits), of.bits(of.bits.width - 1))
    return b.bitcast(b.or_(bits, sign), of.kind)
