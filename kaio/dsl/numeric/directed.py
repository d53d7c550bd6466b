"""Arithmetic of f32 and f64 rounded as its name says, for intervals and error bounds.

`_rn` to the nearest (halves to even), `_rz` towards zero, `_ru` up, `_rd` down, as CUDA's `__fadd_rd` and its kin. None
of them is ever fused with another operation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from kaio.dsl import primitives
from kaio.dsl.intrinsic import Resolved, intrinsic
from kaio.dsl.numeric.operands import example_of, floats, result_type
from kaio.dsl.rule_error import RuleError
from kaio.dsl.values import Type, show

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter
    from kaio.dsl.compiler.ir import TypedCall

__all__ = [
    "add_rd",
    "add_rn",
    "add_ru",
    "add_rz",
    "div_rd",
    "div_rn",
    "div_ru",
    "div_rz",
    "fma_rd",
    "fma_rn",
    "fma_ru",
    "fma_rz",
    "mul_rd",
    "mul_rn",
    "mul_ru",
    "mul_rz",
    "rcp_rd",
    "rcp_rn",
    "rcp_ru",
    "rcp_rz",
    "sqrt_rd",
    "sqrt_rn",
    "sqrt_ru",
    "sqrt_rz",
    "sub_rd",
    "sub_rn",
    "sub_ru",
    "sub_rz",
]  # fmt: skip

F = TypeVar("F", bound=Callable[..., Any])


def _typing(name: str) -> Callable[..., Resolved]:
    def typing(*values: Type) -> Resolved:
        resolved = floats(name)(*values)
        if resolved.rounded is not None:
            raise RuleError(f"`{name}` of {show(resolved.rounded)}; it is of f32 and f64", "cast with `kaio.f32(...)`")
        return resolved

    return typing


def _cuda(operation: str, mode: str) -> Any:
    def emit(e: Emitter, call: TypedCall, *values: Any) -> Any:
        from kaio.dsl.compiler.emission.arithmetic import negate

        dtype = result_type(call)
        name, operands = operation, list(values)
        if operation == "sub":
            name, operands[1] = "add", negate(e, operands[1], dtype)
        return e.call(f"llvm.nvvm.{name}.{_PTX_MODE[mode]}{primitives.flush(e, dtype)}", e.llvm(dtype), operands)

    return emit


def _host(operation: str, mode: str) -> Any:
    def emit(e: Emitter, call: TypedCall, *values: Any) -> Any:
        from kaio.dsl.compiler.emission.rounded import rounded

        return rounded(e.b, operation, mode, list(values))

    return emit


_PTX_MODE = {"rn": "rn", "rz": "rz", "ru": "rp", "rd": "rm"}


def _rounded(function: F) -> F:
    """The record of a function by its name: the operation and the rounding."""
    name = function.__name__
    operation, _, mode = name.partition("_")
    instruction = "add" if operation == "sub" else operation
    made = intrinsic(
        _typing(name),
        cuda=_cuda(operation, mode),
        host=_host(operation, mode),
        example=example_of(function, "x[i]", "y[i]", "0.1"),
        ptx=f"{instruction}.{_PTX_MODE[mode]}.f32",
    )
    return made(function)


@_rounded
def add_rn(x: Any, y: Any) -> Any:
    """x + y, rounded to the nearest, halves to even."""


@_rounded
def add_rz(x: Any, y: Any) -> Any:
    """x + y, rounded towards zero."""


@_rounded
def add_ru(x: Any, y: Any) -> Any:
    """x + y, rounded up."""


@_rounded
def add_rd(x: Any, y: Any) -> Any:
    """x + y, rounded down."""


@_rounded
def sub_rn(x: Any, y: Any) -> Any:
    """x - y, rounded to the nearest, halves to even."""


@_rounded
def sub_rz(x: Any, y: Any) -> Any:
    """x - y, rounded towards zero."""


@_rounded
def sub_ru(x: Any, y: Any) -> Any:
    """x - y, rounded up."""


@_rounded
def sub_rd(x: Any, y: Any) -> Any:
    """x - y, rounded down."""


@_rounded
def mul_rn(x: Any, y: Any) -> Any:
    """x * y, rounded to the nearest, halves to even."""


@_rounded
def mul_rz(x: Any, y: Any) -> Any:
    """x * y, rounded towards zero."""


@_rounded
def mul_ru(x: Any, y: Any) -> Any:
    """x * y, rounded up."""


@_rounded
def mul_rd(x: Any, y: Any) -> Any:
    """x * y, rounded down."""


@_rounded
def div_rn(x: Any, y: Any) -> Any:
    """x / y, rounded to the nearest, halves to even."""


@_rounded
def div_rz(x: Any, y: Any) -> Any:
    """x / y, rounded towards zero."""


@_rounded
def div_ru(x: Any, y: Any) -> Any:
    """x / y, rounded up."""


@_rounded
def div_rd(x: Any, y: Any) -> Any:
    """x / y, rounded down."""


@_rounded
def fma_rn(x: Any, y: Any, z: Any) -> Any:
    """x * y + z, rounded to the nearest, halves to even."""


@_rounded
def fma_rz(x: Any, y: Any, z: Any) -> Any:
    """x * y + z, rounded towards zero."""


@_rounded
def fma_ru(x: Any, y: Any, z: Any) -> Any:
    """x * y + z, rounded up."""


@_rounded
def fma_rd(x: Any, y: Any, z: Any) -> Any:
    """x * y + z, rounded down."""


@_rounded
def rcp_rn(x: Any) -> Any:
    """1 / x, rounded to the nearest, halves to even."""


@_rounded
def rcp_rz(x: Any) -> Any:
    """1 / x, rounded towards zero."""


@_rounded
def rcp_ru(x: Any) -> Any:
    """1 / x, rounded up."""


@_rounded
def rcp_rd(x: Any) -> Any:
    """1 / x, rounded down."""


@_rounded
def sqrt_rn(x: Any) -> Any:
    """The square root of x, rounded to the nearest, halves to even."""


@_rounded
def sqrt_rz(x: Any) -> Any:
    """The square root of x, rounded towards zero."""


@_rounded
def sqrt_ru(x: Any) -> Any:
    """The square root of x, rounded up."""


@_rounded
def sqrt_rd(x: Any) -> Any:
    """The square root of x, rounded down."""
