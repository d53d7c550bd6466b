"""The approximate instructions of PTX for f32, and the functions that CUDA builds of them (`__expf` and its kin).

The same formulas run on both devices; where an instruction of the hardware is off by an ulp or two, the host's is
rounded correctly.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kaio.dsl.intrinsic import primitive
from kaio.dtypes import DType, bf16, f16, f32

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter

__all__ = ["FUNCTIONS", "UNDER_FASTMATH", "approximate", "narrow"]

_FLUSHES = ("sin", "cos", "ex2", "lg2", "rcp", "rsqrt", "sqrt", "div")  # those with an `.ftz` form


def _cuda(e: Emitter, name: str, *args: Any) -> Any:
    from kaio.dsl.compiler.cuda.assembly import instruction

    flush = ".ftz" if name in _FLUSHES and e.target.options.fastmath else ""  # type: ignore[attr-defined]
    return instruction(e, f"{name}.approx{flush}.f32", e.llvm(f32), args)


def _host(e: Emitter, name: str, *args: Any) -> Any:
    from kaio.dsl.compiler.host.ptx_arithmetic import emit_instruction

    if name == "tanh":
        return e.call("__nv_tanhf", e.llvm(f32), list(args))
    return emit_instruction(e.b, [name, "approx", "f"], args, e.llvm(f32))


approximate = primitive("approximate", cuda=_cuda, host=_host)
"""`approximate(name, *args)`: ``name.approx.f32``."""


def _plain(name: str) -> Callable[..., Any]:
    return lambda e, *args: e.use(approximate, name, *args)


# The instructions that take narrow floats, by name and type, with the first architecture of each.
_NARROW: dict[tuple[str, DType], tuple[str, str]] = {
    ("ex2", f16): ("ex2.approx.f16", "sm_75"),
    ("tanh", f16): ("tanh.approx.f16", "sm_75"),
    ("ex2", bf16): ("ex2.approx.ftz.bf16", "sm_90"),
    ("tanh", bf16): ("tanh.approx.bf16", "sm_90"),
}


def _narrow_cuda(e: Emitter, name: str, x: Any, dtype: DType) -> Any:
    from kaio.dsl.compiler.cuda.assembly import instruction

    mnemonic, since = _NARROW[name, dtype]
    return instruction(e, mnemonic, x.type, [x]) if e.target.has(since) else _narrow_host(e, name, x, dtype)


def _narrow_host(e: Emitter, name: str, x: Any, dtype: DType) -> Any:
    return e.convert(e.use(approximate, name, e.convert(x, dtype, f32)), f32, dtype)


narrow = primitive("approximate_narrow", cuda=_narrow_cuda, host=_narrow_host)
"""`narrow(name, x, dtype)`: ``ex2`` or ``tanh`` of an f16 or bf16, where the GPU has an instruction for it."""


def _times(e: Emitter, x: Any, factor: float) -> Any:
    return e.b.fmul(x, e.const(f32, factor))


def _exponential(base_2: float) -> Callable[..., Any]:
    return lambda e, x: e.use(approximate, "ex2", _times(e, x, base_2))


def _logarithm(of_2: float) -> Callable[..., Any]:
    return lambda e, x: _times(e, e.use(approximate, "lg2", x), of_2)


def _tan(e: Emitter, x: Any) -> Any:
    return e.use(approximate, "div", e.use(approximate, "sin", x), e.use(approximate, "cos", x))


def _pow(e: Emitter, x: Any, y: Any) -> Any:
    return e.use(approximate, "ex2", e.b.fmul(y, e.use(approximate, "lg2", x)))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "sin": _plain("sin"),
    "cos": _plain("cos"),
    "tan": _tan,
    "exp": _exponential(math.log2(math.e)),
    "exp2": _plain("ex2"),
    "exp10": _exponential(math.log2(10)),
    "log": _logarithm(math.log(2)),
    "log2": _plain("lg2"),
    "log10": _logarithm(math.log10(2)),
    "pow": _pow,
    "div": _plain("div"),
    "rsqrt": _plain("rsqrt"),
    "sqrt": _plain("sqrt"),
    "rcp": _plain("rcp"),
    "tanh": _plain("tanh"),
}
"""``rule(e, *args)`` of each function that has an approximate form, all of f32."""

UNDER_FASTMATH = ("sin", "cos", "tan", "exp", "exp2", "exp10", "log", "log2", "log10")
"""Functions of f32 that `fastmath` makes approximate on a GPU; `pow` is not one, which would be NaN of a negative x."""
