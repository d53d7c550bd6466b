"""Functions of complex numbers, out of libdevice's functions of floats: both machines give the same where those do.

The methods are those of CPython's `cmath` (Modules/cmathmodule.c), which keep digits near 1 and do not overflow early.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from kaio.dsl import primitives
from kaio.dsl.compiler.emission import arithmetic as reals
from kaio.dsl.compiler.emission.complexes import Pair, absolute, multiply
from kaio.dsl.compiler.emission.float_bits import copysign
from kaio.dsl.compiler.emission.scalars import Value, constant
from kaio.dtypes import DType, f32

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter

__all__ = ["cos", "cosh", "exp", "log", "log10", "phase", "power", "rect", "sin", "sinh", "sqrt", "tan", "tanh"]


def _real(e: Emitter, name: str, *values: Value, part: DType) -> Value:
    return e.use(primitives.libdevice, name, list(values), part)


def _fabs(e: Emitter, value: Value, part: DType) -> Value:
    return e.use(primitives.fabs, value, part)


def _is(e: Emitter, op: str, value: Value, number: float, part: DType) -> Value:
    return e.b.fcmp_ordered(op, value, constant(part, number))


def phase(e: Emitter, z: Pair, part: DType) -> Value:
    """The angle from the real axis, -pi to pi."""
    return _real(e, "atan2", z[1], z[0], part=part)


def rect(e: Emitter, radius: Value, angle: Value, part: DType) -> Pair:
    """The number of that magnitude and angle; a real one where the angle is 0, also of an infinite magnitude."""
    sine = _real(e, "sin", angle, part=part)
    imag = e.b.select(_is(e, "==", angle, 0.0, part), angle, e.b.fmul(radius, sine))
    return e.b.fmul(radius, _real(e, "cos", angle, part=part)), imag


def exp(e: Emitter, z: Pair, part: DType) -> Pair:
    """e**z; where e**real overflows it is done in two halves, as the product with a sine may not."""
    b = e.b
    is_large = _is(e, ">", z[0], 88.0 if part is f32 else 709.0, part)
    half = b.fmul(z[0], constant(part, 0.5))
    scale = _real(e, "exp", b.select(is_large, half, z[0]), part=part)
    once = rect(e, scale, z[1], part)
    twice = b.fmul(once[0], scale), b.select(_is(e, "==", z[1], 0.0, part), z[1], b.fmul(once[1], scale))
    return b.select(is_large, twice[0], once[0]), b.select(is_large, twice[1], once[1])


def log(e: Emitter, z: Pair, part: DType) -> Pair:
    """The natural logarithm: of the magnitude, and the phase."""
    b = e.b
    ax, ay = (_fabs(e, value, part) for value in z)
    larger, smaller = (e.use(p, ax, ay, part) for p in (primitives.maxnum, primitives.minnum))
    limit = float(part.largest)
    tiny = 2.0**-126 if part is f32 else 2.0**-1022
    is_huge, is_tiny = _is(e, ">", larger, limit / 4, part), _is(e, "<", larger, tiny, part)
    factor = b.select(is_huge, constant(part, 0.5), constant(part, 1.0))
    factor = b.select(is_tiny, constant(part, 2.0**part.digits), factor)
    shift = b.select(is_huge, constant(part, math.log(2)), constant(part, 0.0))
    shift = b.select(is_tiny, constant(part, -part.digits * math.log(2)), shift)
    magnitude = absolute(e, (b.fmul(ax, factor), b.fmul(ay, factor)), part)
    plain = b.fadd(_real(e, "log", magnitude, part=part), shift)
    one = constant(part, 1.0)
    above = b.fmul(b.fsub(larger, one), b.fadd(larger, one))
    near = b.fmul(_real(e, "log1p", b.fadd(above, b.fmul(smaller, smaller)), part=part), constant(part, 0.5))
    is_near = b.and_(_is(e, ">=", magnitude, 0.71, part), _is(e, "<=", magnitude, 1.73, part))
    return b.select(b.and_(is_near, b.not_(b.or_(is_huge, is_tiny))), near, plain), phase(e, z, part)


def log10(e: Emitter, z: Pair, part: DType) -> Pair:
    """The logarithm to the base 10."""
    real, imag = log(e, z, part)
    scale = constant(part, 1 / math.log(10))
    return e.b.fmul(real, scale), e.b.fmul(imag, scale)


def sqrt(e: Emitter, z: Pair, part: DType) -> Pair:
    """The square root with a real part of 0 or more; scaled by a power of 4, so that nothing overflows or is lost."""
    b, zero = e.b, constant(part, 0.0)
    ax, ay = (_fabs(e, value, part) for value in z)
    larger = e.use(primitives.maxnum, ax, ay, part)
    is_tiny = _is(e, "<", larger, 2.0**-60 if part is f32 else 2.0**-900, part)
    up, back = (2.0**80, 2.0**-40) if part is f32 else (2.0**1000, 2.0**-500)
    factor = b.select(is_tiny, constant(part, up), constant(part, 1 / 8))
    undo = b.select(is_tiny, constant(part, back), constant(part, math.sqrt(8)))
    sx, sy = b.fmul(ax, factor), b.fmul(ay, factor)
    half = b.fmul(b.fadd(sx, absolute(e, (sx, sy), part)), constant(part, 0.5))
    root = b.fmul(e.use(primitives.sqrt, half, part), undo)
    other = b.fdiv(ay, b.fadd(root, root))
    is_zero = _is(e, "==", larger, 0.0, part)
    root, other = b.select(is_zero, zero, root), b.select(is_zero, zero, other)
    infinite = _is(e, "==", ay, math.inf, part)
    is_right = b.fcmp_ordered(">=", z[0], zero)
    real, imag = b.select(is_right, root, other), b.select(is_right, other, root)
    real, imag = b.select(infinite, ay, real), b.select(infinite, ay, imag)
    return real, copysign(e, imag, z[1], part)


def sin(e: Emitter, z: Pair, part: DType) -> Pair:
    """The sine."""
    s, c = (_real(e, name, z[0], part=part) for name in ("sin", "cos"))
    sh, ch = (_real(e, name, z[1], part=part) for name in ("sinh", "cosh"))
    return e.b.fmul(s, ch), e.b.fmul(c, sh)


def cos(e: Emitter, z: Pair, part: DType) -> Pair:
    """The cosine."""
    s, c = (_real(e, name, z[0], part=part) for name in ("sin", "cos"))
    sh, ch = (_real(e, name, z[1], part=part) for name in ("sinh", "cosh"))
    return e.b.fmul(c, ch), reals.negate(e, e.b.fmul(s, sh), part)


def sinh(e: Emitter, z: Pair, part: DType) -> Pair:
    """The hyperbolic sine."""
    imag, real = sin(e, (z[1], z[0]), part)
    return real, imag


def cosh(e: Emitter, z: Pair, part: DType) -> Pair:
    """The hyperbolic cosine."""
    s, c = (_real(e, name, z[1], part=part) for name in ("sin", "cos"))
    sh, ch = (_real(e, name, z[0], part=part) for name in ("sinh", "cosh"))
    return e.b.fmul(c, ch), e.b.fmul(s, sh)


def tanh(e: Emitter, z: Pair, part: DType) -> Pair:
    """The hyperbolic tangent, which does not overflow where sinh and cosh do."""
    b, one = e.b, constant(part, 1.0)
    tx, ty = _real(e, "tanh", z[0], part=part), _real(e, "tan", z[1], part=part)
    cx = b.fdiv(one, _real(e, "cosh", z[0], part=part))
    both = b.fmul(tx, ty)
    below = b.fadd(one, b.fmul(both, both))
    real = b.fdiv(b.fmul(tx, b.fadd(one, b.fmul(ty, ty))), below)
    return real, b.fmul(b.fmul(b.fdiv(ty, below), cx), cx)


def tan(e: Emitter, z: Pair, part: DType) -> Pair:
    """The tangent: tan(x + iy) is tanh(y + ix) with the parts exchanged."""
    imag, real = tanh(e, (z[1], z[0]), part)
    return real, imag


def power(e: Emitter, base: Pair, exponent: Pair, part: DType) -> Pair:
    """exp(exponent * log(base)); of 0 it is 0, and 1 to the power 0."""
    b, zero, one = e.b, constant(part, 0.0), constant(part, 1.0)
    found = exp(e, multiply(e, exponent, log(e, base, part), part), part)
    is_zero = b.and_(*(_is(e, "==", value, 0.0, part) for value in base))
    to_zero = b.and_(*(_is(e, "==", value, 0.0, part) for value in exponent))
    is_positive = b.fcmp_ordered(">", exponent[0], zero)
    of_zero = b.select(is_positive, zero, constant(part, math.nan))
    real, imag = b.select(is_zero, of_zero, found[0]), b.select(is_zero, of_zero, found[1])
    return b.select(to_zero, one, real), b.select(to_zero, zero, imag)
