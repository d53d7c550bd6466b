"""Numbers: min and max, rounding, and the functions of Python's `math`, on both devices by NVIDIA's libdevice."""

from __future__ import annotations

import builtins
import inspect
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kaio.dsl import literals, primitives, rules
from kaio.dsl.casts import number
from kaio.dsl.intrinsic import STANDARD, Intrinsic, Resolved, intrinsic
from kaio.dsl.rule_error import RuleError
from kaio.dsl.values import Scalar, Type, Weak, show
from kaio.dtypes import DType, bool_, f32

if TYPE_CHECKING:
    from kaio.dsl.compiler.emit import Emitter
    from kaio.dsl.compiler.ir import TypedCall

__all__ = ["fma", "maximum", "minimum", "rsqrt"]


# ---------------------------------------------------------------------- typing
def common_type(name: str, values: tuple[Type, ...]) -> DType:
    """The one type of several numbers."""
    merged: Scalar = number(values[0], f"an argument of `{name}`")
    for value in values[1:]:
        merged = rules.common(merged, number(value, f"an argument of `{name}`"), f"in {name} with")
    rules.check_computes(name, merged)
    return literals.default(merged)


def _same(name: str, floats: bool = False, narrow: bool = False) -> Callable[..., Resolved]:
    """All arguments have one type, and so has the result; `floats`: integers become f32.

    Functions of floats compute f16 and bf16 in f32, and round the result; `narrow`: not this one, nor those of all
    numbers, whose rules know these types.
    """

    def typing(*values: Type) -> Resolved:
        dtype = common_type(name, values)
        if dtype is bool_:
            raise RuleError(f"`{name}` of a bool", "cast it, for example `kaio.i32(...)`")
        if floats and not dtype.is_float:
            dtype = f32
        if floats and not narrow and dtype.bits < 32:
            return Resolved((f32,) * len(values), f32, rounded=dtype)
        return Resolved((dtype,) * len(values), dtype)

    return typing


def _predicate(name: str) -> Callable[..., Resolved]:
    def typing(value: Type) -> Resolved:
        resolved = _same(name, floats=True)(value)
        return Resolved(resolved.operands, bool_)  # type: ignore[arg-type]

    return typing


# ---------------------------------------------------------------------- min, max, abs, round
def _extreme(primitive: Intrinsic, sign: str) -> Any:
    def emit(e: Emitter, call: TypedCall, *values: Any) -> Any:
        dtype = call.result
        assert isinstance(dtype, DType)
        result = values[0]
        for value in values[1:]:
            if dtype.is_float:
                result = e.use(primitive, result, value, dtype)
            else:
                compare = e.b.icmp_signed if dtype.kind == "i" else e.b.icmp_unsigned
                result = e.b.select(compare(sign, value, result), value, result)
        return result

    return emit


def _several(name: str) -> Callable[..., Resolved]:
    typing = _same(name)

    def checked(*values: Type) -> Resolved:
        if len(values) < 2:
            raise RuleError(f"`{name}` takes two numbers or more", "a buffer is reduced in a loop")
        return typing(*values)

    return checked


def _numbers(*values: Any) -> None: ...
def _value(value: Any, /) -> None: ...
def _two(x: Any, y: Any, /) -> None: ...


def _standard(python: Any, typing: Callable[..., Resolved], emit: Any, like: Any, doc: str) -> None:
    STANDARD[python] = Intrinsic(python.__name__, typing, emit, doc=doc, signature=inspect.signature(like))


_standard(
    builtins.min,
    _several("min"),
    _extreme(primitives.minnum, "<"),
    _numbers,
    "The smallest; ignores NaN, and -0.0 is below 0.0.",
)
_standard(
    builtins.max,
    _several("max"),
    _extreme(primitives.maxnum, ">"),
    _numbers,
    "The largest; ignores NaN, and 0.0 is above -0.0.",
)


def _propagating(primitive: Intrinsic, sign: str) -> Any:
    plain = _extreme(primitive, sign)

    def emit(e: Emitter, call: TypedCall, x: Any, y: Any) -> Any:
        from kaio.dsl.compiler import comparisons

        result = plain(e, call, x, y)
        if isinstance(call.result, DType) and call.result.is_float:
            is_nan = comparisons.compare_same(e, "uno", x, y, call.result)
            result = e.b.select(is_nan, e.const(call.result, math.nan), result)
        return result

    return emit


@intrinsic(_same("minimum"), emit=_propagating(primitives.minnum, "<"))
def minimum(x: Any, y: Any) -> Any:
    """The smaller of two; NaN where one of them is NaN, as NumPy's."""


@intrinsic(_same("maximum"), emit=_propagating(primitives.maxnum, ">"))
def maximum(x: Any, y: Any) -> Any:
    """The larger of two; NaN where one of them is NaN, as NumPy's."""


def _abs(e: Emitter, call: TypedCall, value: Any) -> Any:
    dtype = call.result
    assert isinstance(dtype, DType)
    if dtype.is_float:
        return e.use(primitives.fabs, value, dtype)
    if dtype.kind == "u":
        return value
    zero = e.const(dtype, 0)
    return e.b.select(e.b.icmp_signed("<", value, zero), e.b.sub(zero, value), value)


_standard(
    builtins.abs, _same("abs"), _abs, _value, "The absolute value; of the smallest integer of a type it is itself."
)


def _rounding(primitive: Intrinsic) -> Any:
    return lambda e, call, value: e.use(primitive, value, call.result)


for _python, _primitive, _doc in (
    (math.floor, primitives.floor, "The largest whole number that is not above; a float, cast it to index with it."),
    (math.ceil, primitives.ceil, "The smallest whole number that is not below; a float."),
    (math.trunc, primitives.trunc, "The whole part; a float."),
    (builtins.round, primitives.rint, "The nearest whole number, halves to even; a float."),
):
    _standard(_python, _same(_python.__name__, floats=True), _rounding(_primitive), _value, _doc)


# ---------------------------------------------------------------------- fma, sqrt
def _fma(e: Emitter, call: TypedCall, x: Any, y: Any, z: Any) -> Any:
    return e.use(primitives.fma, x, y, z, call.result)


@intrinsic(_same("fma", floats=True, narrow=True), emit=_fma)
def fma(x: Any, y: Any, z: Any) -> Any:
    """x * y + z, rounded once; always fused, whatever `contract` says."""


_standard(
    math.sqrt,
    _same("sqrt", floats=True),
    lambda e, call, value: e.use(primitives.sqrt, value, call.result),
    _value,
    "The square root, correctly rounded.",
)
_standard(
    math.fabs,
    _same("fabs", floats=True, narrow=True),
    lambda e, call, value: e.use(primitives.fabs, value, call.result),
    _value,
    "The absolute value as a float.",
)


@intrinsic(
    _same("rsqrt", floats=True), emit=lambda e, call, value: e.use(primitives.libdevice, "rsqrt", [value], call.result)
)
def rsqrt(value: Any) -> Any:
    """1 / sqrt(value), by libdevice."""


# ---------------------------------------------------------------------- on the bits, so that fastmath changes nothing
def _is(compare: str, pattern: float) -> Any:
    """Compare the bits without the sign with those of infinity."""

    def emit(e: Emitter, call: TypedCall, value: Any) -> Any:
        from kaio.dsl.compiler.float_bits import magnitude_bits

        dtype = call.operands[0]
        assert isinstance(dtype, DType)
        bits, infinity = magnitude_bits(e, value, dtype)
        return e.b.icmp_unsigned(compare, bits, infinity)

    return emit


_standard(math.isnan, _predicate("isnan"), _is(">", math.inf), _value, "Whether it is NaN; also under fastmath.")
_standard(
    math.isinf, _predicate("isinf"), _is("==", math.inf), _value, "Whether it is an infinity; also under fastmath."
)
_standard(
    math.isfinite, _predicate("isfinite"), _is("<", math.inf), _value, "Whether it is neither NaN nor an infinity."
)


def _copysign(e: Emitter, call: TypedCall, x: Any, y: Any) -> Any:
    from kaio.dsl.compiler.float_bits import copysign

    assert isinstance(call.result, DType)
    return copysign(e, x, y, call.result)


_standard(
    math.copysign,
    _same("copysign", floats=True, narrow=True),
    _copysign,
    _two,
    "The magnitude of x with the sign of y.",
)


# ---------------------------------------------------------------------- the functions of `math`, by libdevice
def _library(name: str) -> Any:
    return lambda e, call, *values: e.use(primitives.libdevice, name, list(values), call.result)


_ONE = (
    "sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh",
    "exp exp2 expm1 log log2 log10 log1p erf erfc lgamma cbrt",
)
for _name in " ".join(_ONE).split():
    _python = getattr(math, _name)
    _standard(_python, _same(_name, floats=True), _library(_name), _value, f"`math.{_name}`, by libdevice.")
_standard(math.gamma, _same("gamma", floats=True), _library("tgamma"), _value, "`math.gamma`, by libdevice.")
for _name in ("pow", "atan2", "hypot", "fmod", "remainder", "nextafter"):
    _standard(getattr(math, _name), _same(_name, floats=True), _library(_name), _two, f"`math.{_name}`, by libdevice.")


def _scale(factor: float) -> Any:
    return lambda e, call, value: e.b.fmul(value, e.const(call.result, factor))


_standard(math.radians, _same("radians", floats=True), _scale(math.pi / 180), _value, "Degrees as radians.")
_standard(math.degrees, _same("degrees", floats=True), _scale(180 / math.pi), _value, "Radians as degrees.")

__all__ += ["Weak", "show"]
