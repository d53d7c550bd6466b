"""Powers, exponentials, logarithms and the circular and hyperbolic functions, by NVIDIA's libdevice."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kaio.dsl import primitives
from kaio.dsl.intrinsic import Resolved, intrinsic, standard
from kaio.dsl.numeric.operands import (
    floats,
    from_library,
    library,
    one,
    operand_type,
    result_type,
    split,
    step,
    two,
)
from kaio.dsl.values import ArrayType, Type, Weak

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter
    from kaio.dsl.compiler.ir import TypedCall

__all__ = ["cospi", "exp10", "rcbrt", "rcp", "rsqrt", "sincos", "sincospi", "sinpi"]

standard(
    math.sqrt,
    floats("sqrt"),
    step(primitives.sqrt),
    one,
    "The square root, correctly rounded.",
    example="out[i] = math.sqrt(x[i])",
    ptx="sqrt.rn.f32",
)

# name: (what it gives, an instruction of its PTX, whether both devices give the same bits)
_ONE = {
    "sin": ("The sine of radians.", "0f3F22F983", True),
    "cos": ("The cosine of radians.", "0f3F22F983", True),
    "tan": ("The tangent of radians.", "0f3A00B43C", False),
    "asin": ("The angle in radians whose sine this is; NaN outside [-1, 1].", "0f3D4DD2F7", False),
    "acos": ("The angle in radians whose cosine this is; NaN outside [-1, 1].", "0f3D10ECEF", False),
    "atan": ("The angle in radians whose tangent this is.", "0f3B2090AA", False),
    "sinh": ("The hyperbolic sine.", "0f363D0ADA", False),
    "cosh": ("The hyperbolic cosine.", "ex2.approx.ftz.f32", False),
    "tanh": ("The hyperbolic tangent.", "0f3C80F082", False),
    "asinh": ("The inverse of `sinh`.", "0f3DD80012", False),
    "acosh": ("The inverse of `cosh`; NaN below 1.", "0f3DD80012", False),
    "atanh": ("The inverse of `tanh`; an infinity at -1 and 1, NaN beyond.", "0f3DD80012", False),
    "exp": ("e to the power of x.", "ex2.approx.ftz.f32", False),
    "exp2": ("2 to the power of x.", "ex2.approx.f32", False),
    "expm1": ("`exp(x) - 1`, exact for small x.", "fma.rn.f32", True),
    "log2": ("The logarithm to base 2; -inf of zero, NaN below.", "0f3DC6B27F", True),
    "log10": ("The logarithm to base 10; -inf of zero, NaN below.", "0f3EDE5BD9", True),
    "log1p": ("`log(1 + x)`, exact for small x.", "0f3DD80012", False),
    "cbrt": ("The cube root.", "lg2.approx.f32", False),
}
for _name, (_doc, _ptx, _same_bits) in _ONE.items():
    _example = f"out[i] = math.{_name}({'1 + x[i]' if _name == 'acosh' else 'x[i]'})"
    standard(
        getattr(math, _name), floats(_name), library(_name), one, _doc,
        example=_example, ptx=_ptx, same_bits=_same_bits,
    )  # fmt: skip

_TWO = {
    "pow": ("x to the power of y, as C's; integers are computed in f32, where `**` is exact.", "0f391FCB8E", False),
    "atan2": ("The angle of the point (x, y) given as `atan2(y, x)`, from -pi to pi.", "0f3B33710B", False),
    "fmod": ("What truncating division leaves, exact; it has the sign of x.", "fma.rz.f32", True),
    "remainder": ("What division rounded to the nearest leaves, exact.", "fma.rz.f32", True),
}


def _power(e: Emitter, call: TypedCall, x: Any, y: Any) -> Any:
    from kaio.dsl.compiler.emission.power import real_power

    return real_power(e, x, y, result_type(call))


for _name, (_doc, _ptx, _same_bits) in _TWO.items():
    standard(
        getattr(math, _name), floats(_name), _power if _name == "pow" else library(_name), two, _doc,
        example=f"out[i] = math.{_name}(x[i], y[i])", ptx=_ptx, same_bits=_same_bits,
    )  # fmt: skip


# ---------------------------------------------------------------------- log with a base
def _log_typing(x: Type, base: Type | None = None) -> Resolved:
    if base is None:
        return floats("log")(x)
    if isinstance(base, Weak) and base.value in (2, 10):  # the function of that base is more accurate
        resolved = floats("log")(x)
        return replace(resolved, operands=resolved.operands * 2, static=(f"log{int(base.value)}",))
    return floats("log")(x, base)


def _log(e: Emitter, call: TypedCall, x: Any, base: Any = None) -> Any:
    dtype = result_type(call)
    name = call.static[0] if call.static else "log"
    value = e.use(primitives.libdevice, name, [x], dtype)
    return value if base is None or call.static else e.b.fdiv(value, e.use(primitives.libdevice, "log", [base], dtype))


def _to_base(x: Any, base: Any = math.e, /) -> None: ...


standard(
    math.log,
    _log_typing,
    _log,
    _to_base,
    "The natural logarithm, or that to a base, a quotient of two (of the literals 2 and 10, `log2` and `log10`); "
    "-inf of zero, NaN below.",
    example="out[i] = math.log(x[i]) + math.log(x[i], y[i] + 2)",
    ptx="div.rn.f32",
)


# ---------------------------------------------------------------------- degrees
def _scale(factor: float) -> Any:
    return lambda e, call, value: e.b.fmul(value, e.const(call.result, factor))


standard(
    math.radians,
    floats("radians"),
    _scale(math.pi / 180),
    one,
    "Degrees as radians.",
    example="out[i] = math.radians(x[i])",
    ptx="mul.rn.f32",
)
standard(
    math.degrees,
    floats("degrees"),
    _scale(180 / math.pi),
    one,
    "Radians as degrees.",
    example="out[i] = math.degrees(x[i])",
    ptx="mul.rn.f32",
)


# ---------------------------------------------------------------------- what Python's math does not have
def _pair(name: str) -> Any:
    """A function that gives two numbers through pointers."""

    def emit(e: Emitter, call: TypedCall, x: Any) -> Any:
        dtype = operand_type(call)
        if name == "sincos" and dtype.bits == 32 and e.target.name == "cuda" and e.target.options.fastmath:  # type: ignore[attr-defined]
            return tuple(e.use(primitives.libdevice, part, [x], dtype) for part in ("sin", "cos"))
        places = [e.target.local(e, ArrayType("local", dtype, (1,)), f"{name}.{k}") for k in range(2)]
        e.use(primitives.libdevice, name, [x, *places], dtype, e.void)
        return tuple(e.b.load(place) for place in places)

    return emit


@intrinsic(
    split("sincos", None, None),
    emit=_pair("sincos"),
    example="s, c = kaio.sincos(x[i])\nout[i] = s + 2 * c",
    ptx="0f3F22F983",
)
def sincos(x: Any) -> Any:
    """The sine and the cosine of radians, as two numbers: `s, c = kaio.sincos(x)`."""


@intrinsic(
    split("sincospi", None, None),
    emit=_pair("sincospi"),
    example="s, c = kaio.sincospi(x[i])\nout[i] = s + 2 * c",
    ptx="0f40233590",
    same_bits=True,
)
def sincospi(x: Any) -> Any:
    """The sine and the cosine of x times pi, as two numbers: `s, c = kaio.sincospi(x)`."""


@from_library("0f40233590", same_bits=True)
def sinpi(x: Any) -> Any:
    """The sine of x times pi, exact where x is a multiple of a half."""


@from_library("0f40233590", same_bits=True)
def cospi(x: Any) -> Any:
    """The cosine of x times pi, exact where x is a multiple of a half."""


@from_library("ex2.approx.ftz.f32")
def exp10(x: Any) -> Any:
    """10 to the power of x."""


@from_library("rsqrt.approx.f32")
def rsqrt(x: Any) -> Any:
    """1 / sqrt(x)."""


@from_library("lg2.approx.f32")
def rcbrt(x: Any) -> Any:
    """1 / cbrt(x)."""


@intrinsic(
    floats("rcp"),
    emit=lambda e, call, x: e.b.fdiv(e.const(call.result, 1.0), x),
    example="out[i] = kaio.rcp(x[i])",
    ptx="rcp.rn.f32",
)
def rcp(x: Any) -> Any:
    """1 / x, correctly rounded."""
