"""What all functions of numbers share: their typing, the type they compute in, and how a record is made of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from kaio.dsl import literals, primitives, rules
from kaio.dsl.casts import number
from kaio.dsl.intrinsic import Intrinsic, Resolved, Rule, intrinsic
from kaio.dsl.rule_error import RuleError
from kaio.dsl.values import Scalar, TupleType, Type, Weak, show
from kaio.dtypes import DType, bool_, f32

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter
    from kaio.dsl.compiler.ir import TypedCall

__all__ = [
    "Typing",
    "absolute",
    "at_least",
    "example_of",
    "floats",
    "from_library",
    "integers",
    "library",
    "numbers",
    "one",
    "operand_type",
    "result_type",
    "split",
    "step",
    "two",
]

Typing = Callable[..., Resolved]


# ---------------------------------------------------------------------- typing
def _common_type(name: str, values: tuple[Type, ...]) -> DType:
    """The one type of several numbers; literals take that of the others, wherever they stand."""
    found: list[Scalar] = [number(value, f"an argument of `{name}`") for value in values]
    found.sort(key=lambda value: isinstance(value, Weak))
    merged = found[0]
    if isinstance(merged, Weak):
        merged = literals.join([value for value in found if isinstance(value, Weak)])
    for value in found[1:]:
        merged = rules.common(merged, value, f"in {name} with")
    rules.check_computes(name, merged)
    dtype = literals.default(merged)
    if dtype is bool_:
        raise RuleError(f"`{name}` of a bool", "cast it, for example `kaio.i32(...)`")
    return dtype


def numbers(name: str) -> Typing:
    """All arguments have one type, and so has the result."""

    def typing(*values: Type) -> Resolved:
        dtype = _common_type(name, values)
        return Resolved((dtype,) * len(values), dtype)

    return typing


def floats(name: str, narrow: bool = False, result: DType | None = None) -> Typing:
    """As `numbers`, and integers become f32; f16 and bf16 are computed in f32, unless `narrow` says not.

    The result is rounded to the floats' type, where none is given.
    """

    def typing(*values: Type) -> Resolved:
        dtype = _common_type(name, values)
        if not dtype.is_float:
            dtype = f32
        computed: DType = f32 if dtype.bits < 32 and not narrow else dtype
        operands = (computed,) * len(values)
        if result is not None:
            return Resolved(operands, result)
        return Resolved(operands, computed, rounded=None if computed is dtype else dtype)

    return typing


def split(name: str, *parts: DType | None) -> Typing:
    """A float in, as for `floats`, and a tuple out; a part that is None has the float's type."""

    def typing(value: Type) -> Resolved:
        resolved = floats(name)(value)

        def of(dtype: Type) -> TupleType:
            return TupleType(tuple(part or dtype for part in parts))

        (dtype,) = resolved.operands
        assert isinstance(dtype, DType)
        return Resolved((dtype,), of(dtype), rounded=None if resolved.rounded is None else of(resolved.rounded))

    return typing


def integers(name: str, bits: tuple[int, ...] = (8, 16, 32, 64), result: DType | None = None) -> Typing:
    """All arguments have one integer type of these widths; so has the result, where none is given."""

    def typing(*values: Type) -> Resolved:
        dtype = _common_type(name, values)
        if not dtype.is_int:
            raise RuleError(f"`{name}` of {show(dtype)}; it takes integers", "cast it, for example `kaio.i32(...)`")
        if dtype.bits not in bits:
            only = " or ".join(f"i{b} and u{b}" for b in bits)
            raise RuleError(
                f"`{name}` of {show(dtype)}; it takes {only}", f"cast it, for example `kaio.u{bits[-1]}(...)`"
            )
        return Resolved((dtype,) * len(values), dtype if result is None else result)

    return typing


def at_least(count: int, typing: Typing, what: str, way_out: str) -> Typing:
    """The typing of a function of any number of arguments, which says `what` is wrong with fewer than so many."""

    def checked(*values: Type) -> Resolved:
        if len(values) < count:
            raise RuleError(what, way_out)
        return typing(*values)

    return checked


# ---------------------------------------------------------------------- rules
def result_type(call: TypedCall) -> DType:
    """The result of a call that gives a number."""
    assert isinstance(call.result, DType)
    return call.result


def operand_type(call: TypedCall, position: int = 0) -> DType:
    """The type of an argument that is a number."""
    found = call.operands[position]
    assert isinstance(found, DType)
    return found


def step(primitive: Intrinsic) -> Rule:
    """A primitive that takes the float type last."""
    return lambda e, call, *values: e.use(primitive, *values, result_type(call))


def library(name: str) -> Rule:
    """A function of NVIDIA's libdevice, by its name for f64."""
    return lambda e, call, *values: e.use(primitives.libdevice, name, list(values), result_type(call))


def absolute(e: Emitter, value: Any, dtype: DType) -> Any:
    """The absolute value of a number of that type."""
    if dtype.is_float:
        return e.use(primitives.fabs, value, dtype)
    if dtype.kind == "u":
        return value
    zero = e.const(dtype, 0)
    return e.b.select(e.b.icmp_signed("<", value, zero), e.b.sub(zero, value), value)


F = TypeVar("F", bound=Callable[..., Any])


def example_of(function: Callable[..., Any], *arguments: str) -> str:
    """The example of a function of floats: a call with as many of these arguments as it takes."""
    taken = arguments[: len(inspect.signature(function).parameters)]
    return f"out[i] = kaio.{function.__name__}({', '.join(taken)})"


def from_library(ptx: str, *, example: str = "", same_bits: bool = False) -> Callable[[F], F]:
    """Make the record of a function of libdevice from a signature, all of whose parameters are floats of one type."""

    def record(function: F) -> F:
        name = function.__name__
        shown = example or example_of(function, "x[i]", "y[i]", "0.5", "0.25")
        made = intrinsic(floats(name), emit=library(name), example=shown, ptx=ptx, same_bits=same_bits)
        return made(function)

    return record


# ---------------------------------------------------------------------- signatures of Python's own functions
def one(value: Any, /) -> None:
    """A signature."""


def two(x: Any, y: Any, /) -> None:
    """A signature."""
