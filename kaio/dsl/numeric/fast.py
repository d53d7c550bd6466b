"""Approximate functions of f32, a few instructions each: CUDA's `__sinf`, `__expf` and their kin.

They are what `@kaio.kernel(fastmath=True)` makes of a whole kernel, for one call. Errors are in docs/math.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from kaio.dsl import approximate
from kaio.dsl.intrinsic import Resolved, intrinsic
from kaio.dsl.numeric.operands import example_of, floats, result_type
from kaio.dsl.rule_error import RuleError
from kaio.dsl.values import Type

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter
    from kaio.dsl.compiler.ir import TypedCall

__all__ = [
    "fast_cos", "fast_div", "fast_exp", "fast_exp2", "fast_exp10", "fast_log", "fast_log2", "fast_log10", "fast_pow",
    "fast_rcp", "fast_rsqrt", "fast_sin", "fast_sqrt", "fast_tan", "fast_tanh",
]  # fmt: skip

F = TypeVar("F", bound=Callable[..., Any])

# How the exact function is written.
_EXACT = {"div": "x / y", "pow": "x ** y", "exp10": "kaio.exp10(x)", "rsqrt": "kaio.rsqrt(x)", "rcp": "1 / x"}


_NATIVE = {"exp2": "ex2", "tanh": "tanh"}  # with instructions for f16 and bf16


def _typing(name: str) -> Callable[..., Resolved]:
    def typing(*values: Type) -> Resolved:
        resolved = floats(f"fast_{name}", narrow=name in _NATIVE)(*values)
        if any(getattr(dtype, "bits", 0) > 32 for dtype in resolved.operands):
            exact = _EXACT.get(name, f"math.{name}(x)")
            raise RuleError(f"`fast_{name}` of f64; it is of f32", f"write `{exact}`, or cast with `kaio.f32(...)`")
        return resolved

    return typing


def _fast(ptx: str, since: str = "", example: str = "") -> Callable[[F], F]:
    def record(function: F) -> F:
        name = function.__name__.removeprefix("fast_")
        rule = approximate.FUNCTIONS[name]

        def emit(e: Emitter, call: TypedCall, *values: Any) -> Any:
            dtype = result_type(call)
            if dtype.bits < 32:
                return e.use(approximate.narrow, _NATIVE[name], *values, dtype)
            return rule(e, *values)

        made = intrinsic(
            _typing(name),
            emit=emit,
            example=example or example_of(function, "x[i]", "y[i]"),
            ptx=ptx,
            since=since,
            same_bits=False,
        )
        return made(function)

    return record


@_fast("sin.approx.f32")
def fast_sin(x: Any) -> Any:
    """The sine in one instruction; within 2**-20.5 for x from -pi to pi, worse beyond."""


@_fast("cos.approx.f32")
def fast_cos(x: Any) -> Any:
    """The cosine in one instruction; within 2**-20.5 for x from -pi to pi, worse beyond."""


@_fast("div.approx.f32")
def fast_tan(x: Any) -> Any:
    """`fast_sin(x) / fast_cos(x)`, divided approximately."""


@_fast("ex2.approx.f32")
def fast_exp(x: Any) -> Any:
    """e to the power of x; the relative error grows with x, to 2 + floor(1.2 * abs(x)) ulp."""


@_fast("ex2.approx.f32")
def fast_exp2(x: Any) -> Any:
    """2 to the power of x in one instruction, within 2 ulp; of f16 and bf16 too, natively from sm_75 and sm_90 on."""


@_fast("ex2.approx.f32")
def fast_exp10(x: Any) -> Any:
    """10 to the power of x; the relative error grows with x, to 2 + floor(3 * abs(x)) ulp."""


@_fast("lg2.approx.f32", example="out[i] = kaio.fast_log(x[i] + 1.5)")
def fast_log(x: Any) -> Any:
    """The natural logarithm; within 2**-21.4 for x from 0.5 to 2, elsewhere 3 ulp."""


@_fast("lg2.approx.f32", example="out[i] = kaio.fast_log2(x[i] + 1.5)")
def fast_log2(x: Any) -> Any:
    """The logarithm to base 2 in one instruction; within 2**-22 for x from 0.5 to 2, elsewhere 2 ulp."""


@_fast("lg2.approx.f32", example="out[i] = kaio.fast_log10(x[i] + 1.5)")
def fast_log10(x: Any) -> Any:
    """The logarithm to base 10; within 2**-22 for x from 0.5 to 2, elsewhere 3 ulp."""


@_fast("lg2.approx.f32")
def fast_pow(x: Any, y: Any) -> Any:
    """`fast_exp2(y * fast_log2(x))`: x to the power of y, of x from 0 on; NaN of a negative x."""


@_fast("div.approx.f32")
def fast_div(x: Any, y: Any) -> Any:
    """x / y within 2 ulp, for y from 2**-126 to 2**126 in size."""


@_fast("rsqrt.approx.f32")
def fast_rsqrt(x: Any) -> Any:
    """1 / sqrt(x) in one instruction, within 2 ulp."""


@_fast("sqrt.approx.f32")
def fast_sqrt(x: Any) -> Any:
    """The square root in one instruction, within 3 ulp."""


@_fast("rcp.approx.f32")
def fast_rcp(x: Any) -> Any:
    """1 / x in one instruction, within 1 ulp."""


@_fast("tanh.approx.f32", since="sm_75", example="out[i] = 1 + 0.01 * kaio.fast_tanh(x[i])")
def fast_tanh(x: Any) -> Any:
    """The hyperbolic tangent in one instruction, relative error up to 2**-11; of f16 and bf16 as `fast_exp2`."""
