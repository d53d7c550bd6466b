"""Error functions, the gamma function and Bessel functions, by NVIDIA's libdevice."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kaio.dsl import primitives
from kaio.dsl.casts import integer, number
from kaio.dsl.intrinsic import Resolved, intrinsic, standard
from kaio.dsl.numeric.operands import floats, from_library, library, one, result_type
from kaio.dsl.rule_error import RuleError
from kaio.dsl.values import Type, show
from kaio.dtypes import DType, i32

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter
    from kaio.dsl.compiler.ir import TypedCall

__all__ = [
    "cyl_bessel_i0", "cyl_bessel_i1", "erfcinv", "erfcx", "erfinv", "j0", "j1", "jn", "normcdf", "normcdfinv", "y0",
    "y1", "yn",
]  # fmt: skip

_STANDARD = (
    (math.erf, "erf", "The error function.", "fma.rn.f32"),
    (math.erfc, "erfc", "`1 - erf(x)`, exact where erf is near 1.", "0f3A69A091"),
    (math.lgamma, "lgamma", "The logarithm of the absolute value of the gamma function.", "0f385007FA"),
    (
        math.gamma,
        "tgamma",
        "The gamma function: `gamma(n + 1)` is n!; NaN at negative whole numbers.",
        "0f3A820ABE",
    ),
)
for _python, _called, _doc, _ptx in _STANDARD:
    _name = _python.__name__
    standard(
        _python, floats(_name), library(_called), one, _doc,
        example=f"out[i] = math.{_name}(x[i])", ptx=_ptx, same_bits=False,
    )  # fmt: skip


@from_library("0f3F55D9B9")
def erfinv(x: Any) -> Any:
    """The inverse of `erf`; an infinity at -1 and 1, NaN beyond."""


@from_library("0f3B5ED289")
def erfcinv(x: Any) -> Any:
    """The inverse of `erfc`; an infinity at 0 and 2, NaN beyond."""


@from_library("0f3F106EBB")
def erfcx(x: Any) -> Any:
    """`exp(x * x) * erfc(x)`, where erfc alone would be too small to hold."""


@from_library("0f3A69A091")
def normcdf(x: Any) -> Any:
    """How probable it is that a number of the standard normal distribution is below x."""


@from_library("0f3B5ED289")
def normcdfinv(x: Any) -> Any:
    """The inverse of `normcdf`; an infinity at 0 and 1, NaN beyond."""


@from_library("0f3020305B")
def j0(x: Any) -> Any:
    """The Bessel function of the first kind, of order 0."""


@from_library("0f29AF3463")
def j1(x: Any) -> Any:
    """The Bessel function of the first kind, of order 1."""


@from_library("0f32657D03", example="out[i] = kaio.y0(x[i] + 0.5)")
def y0(x: Any) -> Any:
    """The Bessel function of the second kind, of order 0; -inf of zero, NaN below."""


@from_library("0f321462CC", example="out[i] = kaio.y1(x[i] + 0.5)")
def y1(x: Any) -> Any:
    """The Bessel function of the second kind, of order 1; -inf of zero, NaN below."""


@from_library("0f2385AB76")
def cyl_bessel_i0(x: Any) -> Any:
    """The modified Bessel function of the first kind, of order 0."""


@from_library("0f25C54AC1")
def cyl_bessel_i1(x: Any) -> Any:
    """The modified Bessel function of the first kind, of order 1."""


# ---------------------------------------------------------------------- of any order
def _with_order(name: str) -> Any:
    def typing(n: Type, x: Type) -> Resolved:
        what = f"the order of `{name}`"
        order = integer(number(n, what), what, "cast it: `kaio.i32(...)`")
        if isinstance(order, DType) and (order.bits > 32 or (order.bits == 32 and order.kind == "u")):
            raise RuleError(f"{what} is an i32, not {show(order)}", "cast it: `kaio.i32(...)`")
        resolved = floats(name)(x)
        return replace(resolved, operands=(i32, *resolved.operands))

    return typing


def _jn(e: Emitter, call: TypedCall, n: Any, x: Any) -> Any:
    """libdevice's, but near 0, where its recurrence overflows to NaN, the first term of the series: (x/2)**n / n!."""
    dtype, b = result_type(call), e.b
    count = e.convert(n, i32, dtype)
    power = e.use(primitives.libdevice, "pow", [b.fmul(x, e.const(dtype, 0.5)), count], dtype)
    factorial = e.use(primitives.libdevice, "tgamma", [b.fadd(count, e.const(dtype, 1.0))], dtype)
    size = e.use(primitives.fabs, x, dtype)
    is_small = b.fcmp_ordered("<", size, e.const(dtype, 2.0**-14 if dtype.bits == 32 else 2.0**-28))
    is_small = b.and_(is_small, b.icmp_signed(">=", n, e.const(i32, 0)))
    return b.select(is_small, b.fdiv(power, factorial), e.use(primitives.libdevice, "jn", [n, x], dtype))


@intrinsic(
    _with_order("jn"),
    emit=_jn,
    example="out[i] = kaio.jn(n[i] % 4, x[i])",
    ptx="0f26901D7D",
    same_bits=False,
)
def jn(n: int, x: Any) -> Any:
    """The Bessel function of the first kind, of order n (an i32); NaN for a negative order."""


@intrinsic(
    _with_order("yn"),
    emit=library("yn"),
    example="out[i] = kaio.yn(n[i] % 4, x[i] + 0.5)",
    ptx="0fCE6E6B28",
    same_bits=False,
)
def yn(n: int, x: Any) -> Any:
    """The Bessel function of the second kind, of order n (an i32); NaN for a negative order or x."""
