"""Casts: a dtype called in a kernel, and `int`, `float` and `bool` of Python."""

from __future__ import annotations

import builtins
import inspect
from functools import cache
from typing import TYPE_CHECKING, Any

from kaio.dsl import complex_calls, stores, tuples, vectors  # noqa: F401 - tuples adds operators
from kaio.dsl.complexes import ComplexType
from kaio.dsl.intrinsic import Intrinsic, Resolved, standard
from kaio.dsl.rule_error import RuleError
from kaio.dsl.values import INDEX64, ArrayType, BufferType, Type, Weak, show
from kaio.dtypes import DType, bool_, f32, i32, i64
from kaio.vectors import VectorDType

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter
    from kaio.dsl.compiler.ir import TypedCall

__all__ = ["cast_to", "check_bool", "integer", "is_integer", "number"]


def number(value: Type, what: str) -> DType | Weak:
    """The argument as a number, or RuleError."""
    if not isinstance(value, DType | Weak):
        raise RuleError(f"{what} is a number, not {show(value)}")
    return value


def is_integer(value: Type) -> bool:
    """Whether the argument is an integer: a literal, or a value of an integer type; a bool is none."""
    return isinstance(value, DType | Weak) and value.kind in ("i", "u")


def integer(value: Type, what: str, way_out: str | None = "cast it with `kaio.i32(...)`") -> DType | Weak:
    """The argument as an integer, or RuleError."""
    if not is_integer(value):
        raise RuleError(f"{what} is an integer, not {show(value)}", way_out)
    return value  # type: ignore[return-value]


def check_bool(value: Type, taker: str) -> None:
    """RuleError unless the argument of the function of that name is a bool."""
    if value is not bool_:
        raise RuleError(f"`{taker}` takes a bool, not {show(value)}", "compare it, for example with `!= 0`")


@cache
def cast_to(dtype: DType) -> Intrinsic:
    """The record of a dtype called in a kernel."""
    if dtype.kind == "c":
        return complex_calls.cast_to(dtype)
    if isinstance(dtype, VectorDType):
        return vectors.cast_to(dtype)

    def typing(value: Type) -> Resolved:
        stores.cast(number(value, f"what `{dtype!r}` casts"), dtype)
        return Resolved((i64 if value is INDEX64 else dtype,), dtype)  # a position that is stored has to fit

    def signature(value: Any, /) -> None: ...

    doc = f"Convert a number to {dtype.name}: floats truncate and saturate, integers wrap."
    return Intrinsic(repr(dtype), typing, _given, doc=doc, signature=inspect.signature(signature))


def _given(e: Emitter, call: TypedCall, value: Any) -> Any:
    return e.convert(value, call.operands[0], call.result)


def _one(value: Any, /) -> None: ...


def _python_cast(python: type, dtype: DType, example: str, ptx: str) -> None:
    """`int`, `float` and `bool` of Python: a literal stays weak."""
    name = python.__name__

    def typing(value: Type) -> Resolved:
        if dtype is bool_ and not isinstance(value, DType | Weak):
            way_out = "compare an element: `value[0] > 0`" if isinstance(value, ArrayType | BufferType) else None
            if isinstance(value, ComplexType):
                way_out = "compare it: `z != 0`"
            raise RuleError(f"{show(value)} is neither true nor false", way_out)
        given = number(value, f"what `{name}` converts")
        if isinstance(given, Weak) and dtype is not bool_:
            convert = int if dtype is i32 else float
            try:
                return Resolved(
                    (given,), Weak("i" if dtype is i32 else "f", tuple(convert(v) for v in given.values), given.named)
                )
            except (OverflowError, ValueError) as problem:
                raise RuleError(f"`{name}` of {show(given)}: {problem}") from None
        return Resolved((given,), dtype)

    def emit(e: Emitter, call: TypedCall, value: Any) -> Any:
        from kaio.dsl.compiler.emission.conversions import saturate_i32

        if isinstance(call.result, Weak):
            return value
        source = call.operands[0]
        if dtype is i32 and isinstance(source, DType):
            return saturate_i32(e, value, source)
        return e.convert(value, source, dtype)

    doc = f"Python's `{name}`: {dtype.name}."
    standard(python, typing, emit, _one, doc, example=example, ptx=ptx)


_python_cast(builtins.int, i32, "counts[i] = int(x[i] * 9)", "cvt.rzi.s32.f32")
_python_cast(builtins.float, f32, "out[i] = float(n[i])", "cvt.rn.f32.s32")
_python_cast(builtins.bool, bool_, "counts[i] = 1 if bool(n[i]) else 2", "setp")  # type: ignore[arg-type]
