"""The functions of numbers with what they should give, by mpmath, and the inputs that try them hard.

`FUNCTIONS` is the list that `ulp.py` measures and that the tests of accuracy sample.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from mpmath import mp

__all__ = ["FUNCTIONS", "Function", "error_in_ulp", "exact", "inputs", "special_inputs"]

Number = Any  # mpmath has no types


@dataclass(frozen=True)
class Function:
    """One function: how a kernel calls it, what it should give, and where it is tried.

    call: an expression of a[i], b[i], c[i] and d[i], as many as it has arguments
    low, high: the ends of the range in which most numbers are drawn; others come from all binades, unless `inside`
    points: where it has a zero, a pole or an end of its range: neighbours of these are tried
    inside: it is promised in the range only
    single: it is a function of f32 only
    digits: the binary digits that its reference is computed with
    smallest: errors of smaller values are counted in the units of this one: near its zeros it is not exact relatively
    """

    call: str
    reference: Callable[..., Number]
    low: float = -10.0
    high: float = 10.0
    points: tuple[float, ...] = ()
    inside: bool = False
    single: bool = False
    digits: int = 140
    smallest: float = 0.0

    @property
    def arity(self) -> int:
        """How many arguments it has."""
        return sum(f"{name}[i]" in self.call for name in "abcd")


def _lgamma(x: Number) -> Number:
    if x <= 0 and x == mp.floor(x):
        return mp.inf
    return mp.log(abs(mp.gamma(x))) if x < 200 else mp.loggamma(x)


def _power(x: Number, y: Number) -> Number:
    if x == 0:
        return mp.mpf(y == 0) if y >= 0 else mp.inf
    if y == mp.floor(y) and abs(y) < 2**60:
        sign = -1 if x < 0 and int(y) % 2 else 1
        return sign * mp.power(abs(x), y)
    return mp.power(x, y)


def _fmod(x: Number, y: Number) -> Number:
    size = mp.mpf(_remainder_of_fractions(abs(x), abs(y)))
    return -size if x < 0 else size


def _remainder_of_fractions(x: Number, y: Number) -> Number:
    with mp.workprec(2400):
        return x - y * mp.floor(x / y)


def _remainder(x: Number, y: Number) -> Number:
    with mp.workprec(2400):
        whole = mp.nint(x / y)  # halves to even
        return x - y * whole


def _norm(*coordinates: Number) -> Number:
    return mp.sqrt(mp.fsum(c * c for c in coordinates))


def _erfcinv(x: Number) -> Number:
    return mp.nan if not 0 <= x <= 2 else mp.inf if x == 0 else -mp.inf if x == 2 else _inverse_erfc(x)


def _inverse_erfc(x: Number) -> Number:
    """By Newton's method on the logarithm, from a first guess in f64; mpmath's own loses small x."""
    if x > 1:
        return -_inverse_erfc(2 - x)
    if x > mp.mpf("0.5"):
        return mp.erfinv(1 - x)
    guess = mp.sqrt(-mp.log(x * mp.sqrt(mp.pi)))
    for _ in range(3):
        guess = mp.sqrt(-mp.log(x * mp.sqrt(mp.pi) * max(guess, mp.mpf("0.3"))))
    wanted = mp.log(x)
    for _ in range(12):
        value = mp.erfc(guess)
        slope = -2 / mp.sqrt(mp.pi) * mp.exp(-guess * guess) / value
        step = (mp.log(value) - wanted) / slope
        guess -= step
        if abs(step) < abs(guess) * mp.mpf(2) ** -(mp.prec - 20):
            break
    return guess


def _erfinv(x: Number) -> Number:
    if abs(x) >= 1:
        return mp.sign(x) * mp.inf if abs(x) == 1 else mp.nan
    return mp.erfinv(x) if abs(x) < mp.mpf("0.5") else mp.sign(x) * _inverse_erfc(1 - abs(x))


def _normcdfinv(x: Number) -> Number:
    return -mp.sqrt(2) * _erfcinv(2 * x) if 0 <= x <= 1 else mp.nan


def _erfcx(x: Number) -> Number:
    if x > 1000:  # the asymptotic series: mpmath's erfc would underflow long after, but its cost grows
        return sum((-1) ** k * mp.fac2(2 * k - 1) / (2 * x * x) ** k for k in range(8)) / (x * mp.sqrt(mp.pi))
    return mp.exp(x * x) * mp.erfc(x)


def _bessel_y(order: int) -> Callable[[Number], Number]:
    return lambda x: mp.bessely(order, x) if x > 0 else mp.nan if x < 0 else -mp.inf


def _turns(function: Callable[[Number], Number]) -> Callable[[Number], Number]:
    """A circular function of x times pi, reduced exactly."""
    return lambda x: function(x if abs(x) < 2 else mp.fmod(x, 2))


_QUARTERS = tuple(k * math.pi / 2 for k in (1, 2, 3, 4, 5, 6, 7, 8, 50, 355, 1000, 1e5, 1e8))
_HUGE = (1e5, 1e10, 1e22, 1e30, 1e38)
_ONE = (1.0, -1.0)

FUNCTIONS: dict[str, Function] = {
    "math.sqrt": Function("math.sqrt(a[i])", mp.sqrt, 0, 1e3),
    "rsqrt": Function("kaio.rsqrt(a[i])", lambda x: 1 / mp.sqrt(x) if x else mp.inf, 0, 1e3),
    "rcp": Function("kaio.rcp(a[i])", lambda x: 1 / x if x else mp.inf),
    "math.cbrt": Function("math.cbrt(a[i])", lambda x: mp.sign(x) * mp.cbrt(abs(x))),
    "rcbrt": Function("kaio.rcbrt(a[i])", lambda x: mp.sign(x) / mp.cbrt(abs(x)) if x else mp.inf),
    "math.sin": Function("math.sin(a[i])", mp.sin, -100, 100, _QUARTERS + _HUGE, digits=200),
    "math.cos": Function("math.cos(a[i])", mp.cos, -100, 100, _QUARTERS + _HUGE, digits=200),
    "math.tan": Function("math.tan(a[i])", mp.tan, -100, 100, _QUARTERS + _HUGE, digits=200),
    "sinpi": Function("kaio.sinpi(a[i])", _turns(mp.sinpi), points=(0.5, 1.0, 1.5, 2.0, 100.5)),
    "cospi": Function("kaio.cospi(a[i])", _turns(mp.cospi), points=(0.5, 1.0, 1.5, 2.0, 100.5)),
    "sincos, sine": Function("kaio.sincos(a[i])[0]", mp.sin, -100, 100, _QUARTERS + _HUGE, digits=200),
    "sincos, cosine": Function("kaio.sincos(a[i])[1]", mp.cos, -100, 100, _QUARTERS + _HUGE, digits=200),
    "math.asin": Function("math.asin(a[i])", mp.asin, -1, 1, (*_ONE, 0.5, -0.5)),
    "math.acos": Function("math.acos(a[i])", mp.acos, -1, 1, (*_ONE, 0.5, -0.5)),
    "math.atan": Function("math.atan(a[i])", mp.atan, points=_ONE),
    "math.atan2": Function("math.atan2(a[i], b[i])", mp.atan2),
    "math.sinh": Function("math.sinh(a[i])", mp.sinh, -20, 20, (89.4, 710.4, 1.0)),
    "math.cosh": Function("math.cosh(a[i])", mp.cosh, -20, 20, (89.4, 710.4, 1.0)),
    "math.tanh": Function("math.tanh(a[i])", mp.tanh, -5, 5, (0.55, 9.01, 19.0)),
    "math.asinh": Function("math.asinh(a[i])", mp.asinh),
    "math.acosh": Function("math.acosh(a[i])", mp.acosh, 1, 10, (1.0,)),
    "math.atanh": Function("math.atanh(a[i])", mp.atanh, -1, 1, (*_ONE, 0.5)),
    "math.exp": Function("math.exp(a[i])", mp.exp, -80, 80, (88.72, -87.3, -103.9, 709.78, -708.4, -745.1)),
    "math.exp2": Function("math.exp2(a[i])", lambda x: mp.power(2, x), -120, 120, (128.0, -126.0, 1024.0, -1022.0)),
    "exp10": Function("kaio.exp10(a[i])", lambda x: mp.power(10, x), -37, 37, (38.5, -37.9, 308.2, -307.6)),
    "math.expm1": Function("math.expm1(a[i])", mp.expm1, -5, 5, (88.72, 709.78, 0.35, -0.35)),
    "math.log": Function("math.log(a[i])", mp.log, 0, 100, (1.0,)),
    "math.log2": Function("math.log2(a[i])", lambda x: mp.log(x) / mp.log(2), 0, 100, (1.0, 2.0, 8.0)),
    "math.log10": Function("math.log10(a[i])", mp.log10, 0, 1e3, (1.0, 10.0, 1000.0)),
    "math.log1p": Function("math.log1p(a[i])", mp.log1p, -1, 10, (-1.0, 1.0, -0.25)),
    "math.log(x, base)": Function(
        "math.log(a[i], 1 + b[i])", lambda x, b: mp.log(x) / mp.log(1 + b), 1.5, 100, inside=True
    ),
    "math.pow": Function("math.pow(a[i], b[i])", _power, -20, 20),
    "math.hypot": Function("math.hypot(a[i], b[i])", _norm),
    "math.hypot of 5": Function("math.hypot(a[i], b[i], c[i], d[i], 1.0)", lambda *x: _norm(*x, mp.mpf(1))),
    "norm3d": Function("kaio.norm3d(a[i], b[i], c[i])", _norm),
    "norm4d": Function("kaio.norm4d(a[i], b[i], c[i], d[i])", _norm),
    "rhypot": Function("kaio.rhypot(a[i], b[i])", lambda *x: 1 / _norm(*x) if any(x) else mp.inf),
    "rnorm3d": Function("kaio.rnorm3d(a[i], b[i], c[i])", lambda *x: 1 / _norm(*x) if any(x) else mp.inf),
    "rnorm4d": Function("kaio.rnorm4d(a[i], b[i], c[i], d[i])", lambda *x: 1 / _norm(*x) if any(x) else mp.inf),
    "math.fmod": Function("math.fmod(a[i], b[i])", _fmod, -99, 99),
    "math.remainder": Function("math.remainder(a[i], b[i])", _remainder, -99, 99),
    "math.radians": Function("math.radians(a[i])", lambda x: x * mp.pi / 180, -720, 720),
    "math.degrees": Function("math.degrees(a[i])", lambda x: x * 180 / mp.pi),
    "math.erf": Function("math.erf(a[i])", mp.erf, -4, 4, (1.0, 3.9, 5.9)),
    "math.erfc": Function("math.erfc(a[i])", lambda x: mp.erfc(min(x, 1000)), -5, 10, (10.05, 9.19, 26.5, 27.2)),
    "erfcx": Function("kaio.erfcx(a[i])", _erfcx, -5, 10, (-9.38, -26.6, 10.0), digits=200),
    "erfinv": Function("kaio.erfinv(a[i])", _erfinv, -1, 1, _ONE),
    "erfcinv": Function("kaio.erfcinv(a[i])", _erfcinv, 0, 2, (2.0, 1.0)),
    "normcdf": Function("kaio.normcdf(a[i])", lambda x: mp.ncdf(max(x, -1000)), -8, 8, (-13.0, -14.1, -37.5, -38.4)),
    "normcdfinv": Function("kaio.normcdfinv(a[i])", _normcdfinv, 0, 1, (1.0, 0.5)),
    "math.gamma": Function("math.gamma(a[i])", mp.gamma, -5, 30, (1.0, 2.0, 35.04, 171.62, -1.5, -34.5)),
    "math.lgamma": Function(
        "math.lgamma(a[i])", _lgamma, -10, 50, (1.0, 2.0, -2.457, -2.747, -3.14), digits=260, smallest=1.0
    ),
    "j0": Function(
        "kaio.j0(a[i])",
        lambda x: mp.besselj(0, x),
        -8,
        8,
        (2.404825557695773, 5.520078110286311),
        inside=True,
        smallest=1.0,
    ),
    "j1": Function(
        "kaio.j1(a[i])",
        lambda x: mp.besselj(1, x),
        -8,
        8,
        (3.8317059702075125, 7.015586669815619),
        inside=True,
        smallest=1.0,
    ),
    "jn(3, x)": Function(
        "kaio.jn(3, a[i])", lambda x: mp.besselj(3, x), -8, 8, (6.380161895923984,), inside=True, smallest=1.0
    ),
    "y0": Function(
        "kaio.y0(a[i])", _bessel_y(0), 0, 8, (0.893576966279167, 3.957678419314858), inside=True, smallest=1.0
    ),
    "y1": Function(
        "kaio.y1(a[i])", _bessel_y(1), 0, 8, (2.197141326031017, 5.429681040794135), inside=True, smallest=1.0
    ),
    "yn(3, x)": Function("kaio.yn(3, a[i])", _bessel_y(3), 0, 8, (4.527024661186146,), inside=True, smallest=1.0),
    "cyl_bessel_i0": Function("kaio.cyl_bessel_i0(a[i])", lambda x: mp.besseli(0, x), -10, 10, (91.9, 713.9)),
    "cyl_bessel_i1": Function("kaio.cyl_bessel_i1(a[i])", lambda x: mp.besseli(1, x), -10, 10, (91.9, 713.9)),
    "fast_sin": Function("kaio.fast_sin(a[i])", mp.sin, -math.pi, math.pi, inside=True, single=True),
    "fast_cos": Function("kaio.fast_cos(a[i])", mp.cos, -math.pi, math.pi, inside=True, single=True),
    "fast_tan": Function("kaio.fast_tan(a[i])", mp.tan, -1.5, 1.5, inside=True, single=True),
    "fast_tanh": Function("kaio.fast_tanh(a[i])", mp.tanh, single=True),
    "fast_exp": Function("kaio.fast_exp(a[i])", mp.exp, -80, 80, inside=True, single=True),
    "fast_exp2": Function("kaio.fast_exp2(a[i])", lambda x: mp.power(2, x), -120, 120, inside=True, single=True),
    "fast_exp10": Function("kaio.fast_exp10(a[i])", lambda x: mp.power(10, x), -37, 37, inside=True, single=True),
    "fast_log": Function("kaio.fast_log(a[i])", mp.log, 2, 1e6, inside=True, single=True),
    "fast_log2": Function("kaio.fast_log2(a[i])", lambda x: mp.log(x) / mp.log(2), 2, 1e6, inside=True, single=True),
    "fast_log10": Function("kaio.fast_log10(a[i])", mp.log10, 2, 1e6, inside=True, single=True),
    "fast_pow": Function("kaio.fast_pow(a[i], b[i])", _power, 0.5, 8, inside=True, single=True),
    "fast_div": Function("kaio.fast_div(a[i], b[i])", lambda x, y: x / y, 1e-3, 1e3, inside=True, single=True),
    "fast_sqrt": Function("kaio.fast_sqrt(a[i])", mp.sqrt, 0, 1e3, inside=True, single=True),
    "fast_rsqrt": Function("kaio.fast_rsqrt(a[i])", lambda x: 1 / mp.sqrt(x), 1e-3, 1e3, inside=True, single=True),
    "fast_rcp": Function("kaio.fast_rcp(a[i])", lambda x: 1 / x, 1e-3, 1e3, inside=True, single=True),
}


# ---------------------------------------------------------------------- inputs
def inputs(function: Function, dtype: Any, count: int, seed: int = 0) -> list[np.ndarray]:
    """Finite arguments, one array for each: `count` random rows, and all edges."""
    rng = np.random.default_rng(seed)
    arity = function.arity
    drawn = rng.uniform(function.low, function.high, (count, arity))
    near = (
        [np.array([_beside(point, dtype, rng) for point in function.points]).reshape(-1, 1)] if function.points else []
    )
    if function.inside:
        return _columns(np.concatenate([drawn, *near]), dtype)
    info = np.finfo(dtype)
    low, high = int(info.minexp) - int(info.nmant), int(info.maxexp)
    binades = np.arange(low, high)
    exponents = rng.integers(low, high, (count // 4 + binades.size, arity))
    exponents[: binades.size, 0] = binades
    signs = rng.choice([-1.0, 1.0], exponents.shape)
    wild = signs * np.ldexp(rng.uniform(0.5, 1, exponents.shape), exponents + 1)
    rows = [drawn, np.where(np.isfinite(wild.astype(dtype)), wild, 1.0)]
    # mpmath has one zero: what signed ones give to functions of two numbers is in the special values
    values = _edges(dtype) if arity == 1 else [value for value in _edges(dtype) if value or np.signbit(value)][1:]
    edges = np.array([*product(values, repeat=min(arity, 2))])
    rows.append(edges[:, [0, 1, 0, 1][:arity]])
    rows += near
    return _columns(np.concatenate(rows), dtype)


def _columns(rows: np.ndarray, dtype: Any) -> list[np.ndarray]:
    with np.errstate(all="ignore"):
        return [np.ascontiguousarray(column) for column in rows.T.astype(dtype)]


def _edges(dtype: Any) -> list[float]:
    info = np.finfo(dtype)
    least, tiny = float(info.smallest_subnormal), float(info.tiny)
    sizes = [0.0, least, 3 * least, tiny - least, tiny, float(info.eps), 0.5, 1.0, 1.5, 2.0, 3.0, 10.0, float(info.max)]
    return [value for size in sizes for value in (size, -size)]


def _beside(point: float, dtype: Any, rng: Any) -> np.ndarray:
    """The floats at a point, its neighbours, and some that come nearer and nearer."""
    with np.errstate(all="ignore"):
        centre = np.array(point, dtype)
        steps = [np.nextafter(centre, dtype(side)) for side in (-np.inf, np.inf)]
        near = point * (1 + rng.choice([-1, 1], 40) * np.exp2(rng.uniform(-float(np.finfo(dtype).nmant), -2, 40)))
        return np.array([centre, *steps, *near], dtype).astype(np.float64)


def special_inputs(arity: int) -> list[tuple[float, ...]]:
    """Zeros, infinities, NaN and one, in all combinations."""
    values = (0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan)
    return [*product(values, repeat=arity)] if arity < 3 else []


# ---------------------------------------------------------------------- errors
def exact(function: Function, args: Sequence[float]) -> Number | None:
    """The real value of a function at finite arguments; None where it has none."""
    with mp.workprec(function.digits):
        try:
            value = function.reference(*map(mp.mpf, args))
        except (ValueError, ZeroDivisionError, OverflowError, mp.NoConvergence):
            return None
        if isinstance(value, mp.mpc):
            if value.imag != 0:
                return None
            value = value.real
        return None if mp.isnan(value) else value


def error_in_ulp(got: float, value: Number | None, dtype: Any, smallest: float = 0.0) -> float:
    """How far a result is from the exact value, in units in the last place of that value; infinite where not at all.

    An infinity stands for the first number beyond the range. `smallest`: of what value, where the exact one is smaller.
    """
    if value is None:
        return 0.0 if math.isnan(got) else math.inf
    if math.isnan(got):
        return math.inf
    info = np.finfo(dtype)
    beyond = mp.mpf(2) ** int(info.maxexp)
    if mp.isinf(value):
        return 0.0 if math.isinf(got) else math.inf
    given, value = (max(min(number, beyond), -beyond) for number in (mp.mpf(got), value))
    with mp.workprec(200):
        lowest = int(info.minexp) - int(info.nmant)
        size = max(abs(value), mp.mpf(smallest))
        exponent = int(mp.frexp(size)[1]) - 1 if size else lowest
        unit = mp.mpf(2) ** max(min(exponent, int(info.maxexp) - 1) - int(info.nmant), lowest)
        return float(abs(given - value) / unit)
