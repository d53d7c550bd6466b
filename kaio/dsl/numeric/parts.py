"""The parts of a float: significand and exponent, whole and fraction, its neighbours."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kaio.dsl import primitives
from kaio.dsl.casts import integer, number
from kaio.dsl.intrinsic import Resolved, intrinsic, standard
from kaio.dsl.numeric.operands import floats, from_library, one, operand_type, result_type, two
from kaio.dsl.numeric.operands import split as split_typing
from kaio.dsl.values import Type, Weak
from kaio.dtypes import i32

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter
    from kaio.dsl.compiler.ir import TypedCall

__all__ = ["ilogb", "logb"]


def _nextafter(e: Emitter, call: TypedCall, x: Any, y: Any) -> Any:
    from kaio.dsl.compiler.emission.float_parts import next_after

    return next_after(e, x, y, result_type(call))


standard(
    math.nextafter,
    floats("nextafter", narrow=True),
    _nextafter,
    two,
    "The next number of its type from x towards y.",
    example="out[i] = math.nextafter(x[i], 2.0)",
    ptx="add.s32",
)


def _ulp(e: Emitter, call: TypedCall, x: Any) -> Any:
    from kaio.dsl.compiler.emission.float_parts import unit_in_the_last_place

    return unit_in_the_last_place(e, x, result_type(call))


standard(
    math.ulp,
    floats("ulp", narrow=True),
    _ulp,
    one,
    "The value of the last bit of x in its type; the smallest subnormal for 0, inf for an infinity, NaN for NaN.",
    example="out[i] = math.ulp(x[i])",
    ptx="shr.u32",
)


# ---------------------------------------------------------------------- significand and exponent
def _frexp(e: Emitter, call: TypedCall, x: Any) -> Any:
    from kaio.dsl.compiler.emission.float_parts import split

    dtype = operand_type(call)
    return split(e, x, dtype)


standard(
    math.frexp,
    split_typing("frexp", None, i32),
    _frexp,
    one,
    "Significand and exponent: x is `m * 2**e` with |m| from 0.5 to 1, e an i32; 0, infinities and NaN have e = 0.",
    example="m, e = math.frexp(x[i])\nout[i], counts[i] = m, e",
    ptx="clz.b32",
)


def _ldexp_typing(x: Type, exponent: Type) -> Resolved:
    what = "the exponent of `ldexp`"
    given = integer(number(exponent, what), what, "cast it: `kaio.i32(...)`")
    resolved = floats("ldexp")(x)
    return replace(resolved, operands=(*resolved.operands, i32 if isinstance(given, Weak) else given))


def _ldexp(e: Emitter, call: TypedCall, x: Any, exponent: Any) -> Any:
    from kaio.dsl.compiler.emission.conversions import saturate_i32

    source = operand_type(call, 1)
    power = saturate_i32(e, exponent, source)
    return e.use(primitives.libdevice, "ldexp", [x, power], result_type(call))


standard(
    math.ldexp,
    _ldexp_typing,
    _ldexp,
    two,
    "`x * 2**y` of an integer y, rounded once.",
    example="out[i] = math.ldexp(x[i], n[i] - 20)",
    ptx="mul.rn.f32",
)


@from_library("clz.b64", example="wide[i] = kaio.logb(d[i])", same_bits=True)
def logb(x: Any) -> Any:
    """The exponent of x as a float: `floor(log2(abs(x)))`, exactly; -inf for 0, inf for an infinity."""


def _ilogb(e: Emitter, call: TypedCall, x: Any) -> Any:
    dtype = operand_type(call)
    return e.use(primitives.libdevice, "ilogb", [x], dtype, e.llvm(i32))


@intrinsic(floats("ilogb", result=i32), emit=_ilogb, example="counts[i] = kaio.ilogb(x[i])", ptx="clz.b32")
def ilogb(x: Any) -> int:
    """The exponent of x as an i32: -2**31 for 0 and NaN, 2**31 - 1 for infinities."""
    raise NotImplementedError


# ---------------------------------------------------------------------- whole and fraction
def _modf(e: Emitter, call: TypedCall, x: Any) -> Any:
    from kaio.dsl.compiler.emission.float_bits import copysign, magnitude_bits

    dtype = operand_type(call)
    whole = e.use(primitives.trunc, x, dtype)
    magnitude, infinity = magnitude_bits(e, x, dtype)
    is_infinite = e.b.icmp_unsigned("==", magnitude, infinity)
    fraction = e.b.select(is_infinite, e.const(dtype, 0.0), e.b.fsub(x, whole))
    return copysign(e, fraction, x, dtype), whole


standard(
    math.modf,
    split_typing("modf", None, None),
    _modf,
    one,
    "Fraction and whole part, both floats with the sign of x.",
    example="fraction, whole = math.modf(x[i] * 9)\nout[i] = fraction - whole",
    ptx="cvt.rzi.f32.f32",
)
