"""Literals: what a Python number in a kernel may become, what it is alone, and what two of them give.

They are weak: they take the type of the operand they meet (NumPy 2), and alone they are i32, f32 or bool_.
"""

from __future__ import annotations

from collections.abc import Sequence

from kaio.dsl import symbols
from kaio.dsl.rule_error import RuleError
from kaio.dsl.values import BOOL, Scalar, Weak, show
from kaio.dtypes import DType, f32, f64, i32, i64, u64
from kaio.rounding import fits_float

__all__ = ["check_fits", "default", "fits", "fold", "fold_unary", "fold_values", "join", "literal"]


def literal(value: bool | int | float) -> Scalar:
    """The type of a Python number in a kernel."""
    if isinstance(value, bool):
        return BOOL
    if isinstance(value, int) and value.bit_length() > symbols.MAX_BITS:
        raise RuleError(f"an int of {value.bit_length()} bits is too large for any type of kaio")
    return Weak("f" if isinstance(value, float) else "i", (value,))


def fits(dtype: DType, value: int | float) -> bool:
    """Whether a literal may become this type: an int in range, a float that stays finite."""
    if dtype.is_float:
        return fits_float(dtype, value)
    low, high = dtype.range
    return isinstance(value, int) and low <= value <= high


def check_fits(dtype: DType, weak: Weak, is_target: bool = False) -> None:
    """Raise RuleError unless each value of the literal may become this type; `is_target`: of a store or a cast."""
    for value in weak.values:
        if not fits(dtype, value):
            way_out = _held(dtype) if is_target else _wider(dtype, value)
            raise RuleError(f"`{value!r}` does not fit {show(dtype)}", way_out)


def _held(dtype: DType) -> str:
    """What a type holds, in words."""
    if dtype.is_float:
        infinity = "" if dtype.is_storage else " (infinity is `math.inf`)"
        return f"the largest {show(dtype)} is {dtype.largest:.8g}{infinity}"
    return f"{show(dtype)} holds {dtype.range[0]} to {dtype.range[1]}"


def _wider(dtype: DType, value: int | float) -> str:
    if value < 0 and dtype.kind == "u":
        return f"{show(dtype)} has no negative values; compute in a signed type, for example `kaio.i32(...)`"
    for wide in (i32, i64) if dtype.is_int else (f32, f64):
        if wide is not dtype and fits(wide, value):
            return f"compute in a wider type, for example `kaio.{wide!r}(...)`"
    return "no type of kaio holds this value" if dtype.bits == 64 else f"use a value that {show(dtype)} holds"


def default(type_: Scalar) -> DType:
    """The type of a value that stands alone: literals become i32 or f32.

    >>> default(literal(1)), default(literal(0.5))
    (i32, f32)
    """
    if isinstance(type_, DType):
        return type_
    alone = f32 if type_.kind == "f" else i32
    for value in type_.values:
        if not fits(alone, value):
            held = next((wide for wide in ((f64,) if type_.kind == "f" else (i64, u64)) if fits(wide, value)), None)
            raise RuleError(
                f"`{value!r}` does not fit {show(alone)}, the type of a literal that stands alone",
                f"write `kaio.{held!r}({value!r})`" if held else "no type of kaio holds this value",
            )
    return alone


def fold(op: str, a: Weak, b: Weak) -> Scalar | None:
    """What two literals give: another literal, or bool_. None where both depend on a condition.

    >>> fold("*", literal(2), literal(0.5))
    float literal 1.0
    """
    if len(a.values) > 1 and len(b.values) > 1:
        return None
    try:
        results = [fold_values(op, x, y) for x in a.values for y in b.values]
    except ZeroDivisionError:
        raise RuleError("division of literals by zero", "for infinity or NaN write `math.inf` or `math.nan`") from None
    except (TypeError, ValueError, OverflowError) as problem:
        raise RuleError(f"`{show(a)} {op} {show(b)}`: {problem}") from None
    if isinstance(results[0], bool):  # of a comparison
        return BOOL
    return Weak("f" if any(isinstance(r, float) for r in results) else "i", tuple(results), a.named or b.named)


def fold_values(op: str, a: int | float, b: int | float) -> int | float | bool:
    """`a op b` of two Python numbers, as the compiler computes it."""
    result = symbols.apply(op, a, b)
    if isinstance(result, complex):
        raise ValueError("the result is complex")
    return result  # type: ignore[no-any-return]


def fold_unary(op: str, a: Weak) -> Weak:
    """What an operator of one literal gives."""
    if op == "~" and a.kind == "f":
        raise RuleError("`~` of a float literal", "bitwise operators take integers")
    return Weak(a.kind, tuple(symbols.UNARY[op](v) for v in a.values), a.named)


def join(weak: Sequence[Weak]) -> Weak:
    """One of several literals, each value once; which one, is known at run time."""
    if all(w == weak[0] for w in weak):
        return weak[0]
    kind = "f" if any(w.kind == "f" for w in weak) else "i"
    values: tuple[int | float, ...] = tuple(v for w in weak for v in w.values)
    if kind == "f":
        check_fits(f64, Weak("i", values))
        values = tuple(map(float, values))
    values = tuple({repr(v): v for v in values}.values())  # by what is written: 0.0 is not -0.0
    return Weak(kind, values, any(w.named for w in weak))  # type: ignore[arg-type]
