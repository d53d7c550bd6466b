"""Functions that choose: min and max, the absolute value, the sign, a value between bounds."""

from __future__ import annotations

import builtins
import math
from typing import TYPE_CHECKING, Any

from kaio.dsl import primitives
from kaio.dsl.intrinsic import Intrinsic, intrinsic, standard
from kaio.dsl.numeric.operands import Typing, absolute, at_least, floats, library, numbers, one, result_type
from kaio.dtypes import DType

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter
    from kaio.dsl.compiler.ir import TypedCall

__all__ = ["clamp", "fdim", "maximum", "minimum", "saturate", "sign"]


# ---------------------------------------------------------------------- min, max
def choose(e: Emitter, primitive: Intrinsic, x: Any, y: Any, dtype: DType) -> Any:
    """The smaller or the larger of two, as `primitive` says for floats."""
    from kaio.dsl.compiler.emission.comparisons import compare_same

    if dtype.is_float:
        return e.use(primitive, x, y, dtype)
    return e.b.select(compare_same(e, "<" if primitive is primitives.minnum else ">", y, x, dtype), y, x)


def _extreme(primitive: Intrinsic) -> Any:
    def emit(e: Emitter, call: TypedCall, *values: Any) -> Any:
        result = values[0]
        for value in values[1:]:
            result = choose(e, primitive, result, value, result_type(call))
        return result

    return emit


def _several(name: str) -> Typing:
    return at_least(2, numbers(name), f"`{name}` takes two numbers or more", "a buffer is reduced in a loop")


def _numbers(*values: Any) -> None: ...


standard(
    builtins.min,
    _several("min"),
    _extreme(primitives.minnum),
    _numbers,
    "The smallest; ignores NaN, and -0.0 is below 0.0.",
    example="out[i] = min(x[i], y[i], 0.5)",
    ptx="min.f32",
)
standard(
    builtins.max,
    _several("max"),
    _extreme(primitives.maxnum),
    _numbers,
    "The largest; ignores NaN, and 0.0 is above -0.0.",
    example="out[i] = max(x[i], y[i], 0.5)",
    ptx="max.f32",
)


def _propagating(primitive: Intrinsic) -> Any:
    def emit(e: Emitter, call: TypedCall, x: Any, y: Any) -> Any:
        from kaio.dsl.compiler.emission import comparisons

        dtype = result_type(call)
        result = choose(e, primitive, x, y, dtype)
        if dtype.is_float:
            is_nan = comparisons.compare_same(e, "uno", x, y, dtype)
            result = e.b.select(is_nan, e.const(dtype, math.nan), result)
        return result

    return emit


@intrinsic(
    numbers("minimum"),
    emit=_propagating(primitives.minnum),
    example="out[i] = kaio.minimum(x[i], y[i])",
    ptx="min.f32",
)
def minimum(x: Any, y: Any) -> Any:
    """The smaller of two; NaN where one of them is NaN, as NumPy's."""


@intrinsic(
    numbers("maximum"),
    emit=_propagating(primitives.maxnum),
    example="out[i] = kaio.maximum(x[i], y[i])",
    ptx="max.f32",
)
def maximum(x: Any, y: Any) -> Any:
    """The larger of two; NaN where one of them is NaN, as NumPy's."""


# ---------------------------------------------------------------------- between bounds
def _clamp(e: Emitter, call: TypedCall, x: Any, low: Any, high: Any) -> Any:
    dtype = result_type(call)
    return choose(e, primitives.minnum, choose(e, primitives.maxnum, x, low, dtype), high, dtype)


@intrinsic(numbers("clamp"), emit=_clamp, example="out[i] = kaio.clamp(x[i], 0.25, 0.75)", ptx="min.f32")
def clamp(x: Any, low: Any, high: Any) -> Any:
    """`min(max(x, low), high)`: x between two bounds; a NaN gives `low`."""


def _saturate(e: Emitter, call: TypedCall, x: Any) -> Any:
    dtype = result_type(call)
    return _clamp(e, call, x, e.const(dtype, 0.0), e.const(dtype, 1.0))


def _saturate_cuda(e: Emitter, call: TypedCall, x: Any) -> Any:
    dtype = result_type(call)
    return e.call("llvm.nvvm.saturate.f", e.llvm(dtype), [x]) if dtype.bits == 32 else _saturate(e, call, x)


@intrinsic(
    floats("saturate"),
    cuda=_saturate_cuda,
    host=_saturate,
    example="out[i] = kaio.saturate(x[i] * 4 - 2)",
    ptx="cvt.sat.f32.f32",
)
def saturate(x: Any) -> Any:
    """x between 0 and 1; a NaN gives 0."""


@intrinsic(floats("fdim"), emit=library("fdim"), example="out[i] = kaio.fdim(x[i], y[i])", ptx="sub.rn.f32")
def fdim(x: Any, y: Any) -> Any:
    """x - y where x is larger, else 0; NaN where one of them is NaN."""


# ---------------------------------------------------------------------- magnitude and sign
def _abs(e: Emitter, call: TypedCall, value: Any) -> Any:
    return absolute(e, value, result_type(call))


standard(
    builtins.abs,
    numbers("abs"),
    _abs,
    one,
    "The absolute value; of the smallest integer of a type it is itself.",
    example="out[i] = abs(x[i] - 0.5)",
    ptx="abs.f32",
)
standard(
    math.fabs,
    floats("fabs", narrow=True),
    _abs,
    one,
    "The absolute value as a float.",
    example="wide[i] = math.fabs(d[i] - 0.5)",
    ptx="abs.f64",
)


def _sign(e: Emitter, call: TypedCall, x: Any) -> Any:
    from kaio.dsl.compiler.emission.comparisons import compare_same

    dtype = result_type(call)
    zero, plus = e.const(dtype, 0), e.const(dtype, 1)
    if dtype.kind == "u":
        return e.b.select(e.b.icmp_unsigned("==", x, zero), zero, plus)
    result = e.b.select(compare_same(e, "<", x, zero, dtype), e.const(dtype, -1), zero)
    result = e.b.select(compare_same(e, ">", x, zero, dtype), plus, result)
    return e.b.select(compare_same(e, "uno", x, x, dtype), x, result) if dtype.is_float else result


@intrinsic(numbers("sign"), emit=_sign, example="out[i] = kaio.sign(x[i] - 0.5)", ptx="setp.lt.f32")
def sign(x: Any) -> Any:
    """-1, 0 or 1 in the type of x, as NumPy's: 0 for both zeros, NaN for a NaN."""
