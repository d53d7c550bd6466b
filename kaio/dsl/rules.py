"""What every operator and conversion means. Knows neither Numba nor LLVM.

Type inference, the constant folder and the tables of `docs/language.md` all take their answers from here.
Literals are weak: they take the type of the operand they meet (NumPy 2), and alone they are i32, f32 or bool_.
"""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kaio.dsl.values import INDEX64, Scalar, Weak, show
from kaio.dtypes import DTYPES, DType, bool_, f32, f64, i32, i64

__all__ = [
    "ARITHMETIC", "BITWISE", "COMPARISONS", "SHIFTS", "BinaryRule", "RuleError", "binary", "cast", "common", "default",
    "fits", "fold", "fold_unary", "literal", "merge_branches", "merge_variable", "store", "unary",
]  # fmt: skip

ARITHMETIC = ("+", "-", "*", "/", "//", "%", "**")
BITWISE = ("&", "|", "^")
SHIFTS = ("<<", ">>")
COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")

_BOOL: DType = bool_  # type: ignore[assignment]
_SIGNED = {dtype.bits: dtype for dtype in DTYPES if dtype.kind == "i"}
_FOLD: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
    "%": operator.mod, "**": operator.pow, "<<": operator.lshift, ">>": operator.rshift,
    "&": operator.and_, "|": operator.or_, "^": operator.xor,
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_UNARY: dict[str, Callable[[Any], Any]] = {"-": operator.neg, "+": operator.pos, "~": operator.invert}
_MAX_LITERAL_BITS = 4096  # beyond this a folded int is a mistake, not a number


class RuleError(Exception):
    """Types that do not fit; inference adds the place."""

    def __init__(self, what: str, help: str | None = None) -> None:
        super().__init__(what)
        self.what, self.help = what, help

    def named(self, texts: Mapping[str, str]) -> RuleError:
        """The same with the parameters of a record (`buffer`, `value`) in the words of the source."""

        def fill(text: str | None) -> str | None:
            for name, written in texts.items():
                for before, after in (("`", "`"), ("`", "["), ("(", ")")):
                    text = text and text.replace(f"{before}{name}{after}", f"{before}{written}{after}")
            return text

        return RuleError(fill(self.what) or self.what, fill(self.help))


def literal(value: bool | int | float) -> Scalar:
    """The type of a Python number in a kernel."""
    if isinstance(value, bool):
        return _BOOL
    return Weak("f" if isinstance(value, float) else "i", (value,))


def fits(dtype: DType, value: int | float) -> bool:
    """Whether a literal may become this type: an int in range, a float that stays finite."""
    if dtype.is_float:
        return math.isinf(value) or math.isnan(value) or not _overflows(dtype, value)
    low, high = dtype.range
    return isinstance(value, int) and low <= value <= high


def _overflows(dtype: DType, value: int | float) -> bool:
    try:
        struct.pack({32: "<f", 64: "<d"}[dtype.bits], value)
    except OverflowError:
        return True
    return False


def check_fits(dtype: DType, weak: Weak, is_target: bool = False) -> None:
    """Raise RuleError unless each value of the literal may become this type; `is_target`: of a store or a cast."""
    for value in weak.values:
        if not fits(dtype, value):
            way_out = held(dtype) if is_target else _wider(dtype, value)
            raise RuleError(f"`{value!r}` does not fit {show(dtype)}", way_out)


def held(dtype: DType) -> str:
    """What a type holds, in words."""
    if dtype.is_float:
        largest = float(np.finfo(dtype.numpy).max)
        return f"the largest {show(dtype)} is {largest:.8g} (infinity is `math.inf`)"
    return f"{show(dtype)} holds {dtype.range[0]} to {dtype.range[1]}"


def _wider(dtype: DType, value: int | float) -> str:
    if value < 0 and dtype.kind == "u":
        return f"{show(dtype)} has no negative values; compute in a signed type, for example `kaio.i32(...)`"
    for wide in (i32, i64) if dtype.is_int else (f64,):
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
            wide = f64 if type_.kind == "f" else next((d for d in (i64, *DTYPES) if d.is_int and fits(d, value)), i64)
            raise RuleError(
                f"`{value!r}` does not fit {show(alone)}, the type of a literal that stands alone",
                f"write `kaio.{wide!r}({value!r})`",
            )
    return alone


def common(a: Scalar, b: Scalar, what: str) -> Scalar:
    """The one type in which `a what b` is computed.

    >>> from kaio import u8, u32, f64
    >>> common(u8, i32, "+"), common(u32, i32, "+"), common(f32, literal(0.1), "+"), common(f32, f64, "+")
    (i32, i64, f32, f64)
    """
    if isinstance(a, Weak) and isinstance(b, Weak):
        return default(Weak("f" if "f" in (a.kind, b.kind) else "i", (0,)))
    if isinstance(b, Weak):
        return _with_literal(a, b)  # type: ignore[arg-type]
    if isinstance(a, Weak):
        return _with_literal(b, a)
    if a is b:
        return a
    if _BOOL in (a, b):
        return b if a is _BOOL else a
    if a.is_float or b.is_float:
        if a.is_float and b.is_float:
            return a if a.bits >= b.bits else b
        return a if a.is_float else b
    if a.kind == b.kind:
        if a.bits == b.bits:  # i64 with the wide index
            return i64
        return a if a.bits > b.bits else b
    signed, unsigned = (a, b) if a.kind == "i" else (b, a)
    if signed.bits > unsigned.bits:
        return signed
    if unsigned.bits == 64:
        raise RuleError(f"`{show(a)} {what} {show(b)}` has no exact common type", _cast_one(a, b))
    return _SIGNED[2 * unsigned.bits]


def _cast_one(a: DType, b: DType) -> str:
    other = b if a.kind == "i" else a
    return f"cast one side, for example `kaio.{other!r}(...)` of the {show(a if a.kind == 'i' else b)}"


def _with_literal(dtype: DType, weak: Weak) -> DType:
    if dtype is _BOOL:
        return default(weak)
    if weak.kind == "f" and not dtype.is_float:
        dtype = f32
    elif weak.named and dtype.bits < 32:
        dtype = f32 if dtype.is_float else i32
    check_fits(dtype, weak)
    return dtype


@dataclass(frozen=True)
class BinaryRule:
    """How `a op b` is computed: the types the operands are converted to, and the type of the result.

    For a comparison of two different types `left` and `right` are the operands' own: it is done exactly.
    """

    left: Scalar
    right: Scalar
    result: Scalar


def binary(op: str, a: Scalar, b: Scalar) -> BinaryRule:
    """The rule of one operator for one pair of types; raises RuleError where there is none.

    >>> from kaio import u8
    >>> binary("/", i32, i32).result, binary("<<", u8, i32).result, binary("<", u8, i32).result
    (f32, u8, bool_)
    """
    if isinstance(a, Weak) and isinstance(b, Weak):
        folded = fold(op, a, b)
        if folded is not None:
            return BinaryRule(a, b, folded)
        a = b = default(Weak("f" if "f" in (a.kind, b.kind) else "i", (0,)))
    if op in COMPARISONS:
        return _comparison(op, a, b)
    if op in SHIFTS:
        return _shift(op, a, b)
    if op == "**":
        return _power(a, b)
    type_ = common(a, b, op)
    assert isinstance(type_, DType)
    if op in BITWISE:
        if type_.is_float:
            raise RuleError(f"`{show(a)} {op} {show(b)}`: floats have no bitwise operators", "cast to an integer first")
        return BinaryRule(type_, type_, type_)
    if type_ is _BOOL:
        raise RuleError(
            f"`{show(a)} {op} {show(b)}`: bools have no arithmetic", "cast one side, for example `kaio.i32(...)`"
        )
    if op == "/" and type_.is_int:
        return BinaryRule(f32, f32, f32)
    return BinaryRule(type_, type_, type_)


def _comparison(op: str, a: Scalar, b: Scalar) -> BinaryRule:
    if isinstance(a, Weak) or isinstance(b, Weak):
        dtype, weak = (b, a) if isinstance(a, Weak) else (a, b)
        assert isinstance(dtype, DType)
        assert isinstance(weak, Weak)
        if dtype is _BOOL:
            dtype = default(weak)
        elif weak.kind == "f" and dtype.is_int:
            _check_float_literal(op, dtype, weak)
            return BinaryRule(a, b, _BOOL)
        elif dtype.is_int:
            for value in weak.values:
                if not fits(dtype, value):
                    raise RuleError(
                        _always(dtype, value),
                        "compare with a value in range, or cast the other side to a wider type",
                    )
        else:
            check_fits(dtype, weak)
        return BinaryRule(dtype, dtype, _BOOL)
    if a is b:
        return BinaryRule(a, b, _BOOL)
    if _BOOL in (a, b):
        type_ = common(a, b, op)
        return BinaryRule(type_, type_, _BOOL)
    return BinaryRule(a, b, _BOOL)


def _always(dtype: DType, value: int | float) -> str:
    return f"comparing {show(dtype)} with `{value!r}` is always the same: the value does not fit {show(dtype)}"


def _check_float_literal(op: str, dtype: DType, weak: Weak) -> None:
    low, high = dtype.range
    for value in weak.values:
        if op in ("==", "!=") and not float(value).is_integer():
            raise RuleError(
                f"no {show(dtype)} equals `{value!r}`", "compare with an int, or cast the integer to a float"
            )
        if math.isnan(value) or not low - 1 < value < high + 1:
            raise RuleError(
                _always(dtype, value),
                "compare with a value in range",
            )


def _shift(op: str, a: Scalar, b: Scalar) -> BinaryRule:
    left = a if isinstance(a, DType) else b if isinstance(b, DType) else default(a)
    assert isinstance(left, DType)
    amount = b.kind
    if not left.is_int or amount not in ("i", "u") or (isinstance(a, Weak) and a.kind == "f"):
        raise RuleError(f"`{show(a)} {op} {show(b)}`: shifts take integers", "cast both sides to an integer type")
    if isinstance(a, Weak):
        check_fits(left, a)
    if isinstance(b, Weak) and min(b.values) < 0:
        raise RuleError(f"shift by the negative literal `{min(b.values)}`", "shift the other way")
    return BinaryRule(left, b, left)


def _negative_power(base: str, exponent: int | float) -> RuleError:
    return RuleError(
        f"{base} to the negative power `{exponent}` is not an integer", f"cast the base: `kaio.f32(...) ** {exponent}`"
    )


def _power(a: Scalar, b: Scalar) -> BinaryRule:
    if isinstance(b, Weak) and b.kind == "i" and isinstance(a, DType) and a is not _BOOL:
        if a.is_int and min(b.values) < 0:
            raise _negative_power(show(a), min(b.values))
        base = _with_literal(a, Weak("i", b.values if a.is_float else (0,), b.named))  # an exponent need not fit an int
        return BinaryRule(base, b, base)
    type_ = common(a, b, "**")
    assert isinstance(type_, DType)
    if type_ is _BOOL:
        raise RuleError("`bool ** bool`: bools have no arithmetic", "cast one side, for example `kaio.i32(...)`")
    return BinaryRule(type_, type_, type_)


def unary(op: str, a: Scalar) -> tuple[Scalar, Scalar]:
    """Operand type and result type of ``- + ~ not``."""
    if op == "not":
        return a, _BOOL
    if isinstance(a, Weak):
        folded = fold_unary(op, a)
        return a, folded
    if a is _BOOL:
        raise RuleError(f"`{op}` of a bool", "use `not`, or cast: `kaio.i32(...)`")
    if op == "~" and a.is_float:
        raise RuleError(f"`~` of {show(a)}: floats have no bitwise operators", "cast to an integer first")
    return a, a


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
    if op in COMPARISONS:
        return _BOOL
    return Weak("f" if any(isinstance(r, float) for r in results) else "i", tuple(results), a.named or b.named)


def fold_values(op: str, a: int | float, b: int | float) -> int | float | bool:
    """`a op b` of two Python numbers, as the compiler computes it."""
    if (
        op in ("**", "<<")
        and isinstance(a, int)
        and isinstance(b, int)
        and b > 0
        and a.bit_length() * b > _MAX_LITERAL_BITS
    ):
        raise OverflowError("the result is too large for any type of kaio")
    result = _FOLD[op](a, b)
    if isinstance(result, complex):
        raise ValueError("the result is complex")
    return result  # type: ignore[no-any-return]


def fold_unary(op: str, a: Weak) -> Weak:
    """What an operator of one literal gives."""
    if op == "~" and a.kind == "f":
        raise RuleError("`~` of a float literal", "bitwise operators take integers")
    return Weak(a.kind, tuple(_UNARY[op](v) for v in a.values), a.named)


def store(value: Scalar, dtype: DType) -> None:
    """Whether a value may be stored in an element of `dtype` without a cast; raises RuleError if not.

    >>> from kaio import u8
    >>> store(u8, i32), store(i32, f32), store(f64, f32)
    (None, None, None)
    """
    if isinstance(value, Weak):
        alone = default(Weak(value.kind, (0,)))
        if value.named and all(fits(alone, v) for v in value.values):  # a named variable is an i32 or f32 at least
            store(alone, dtype)
        if dtype is _BOOL or (value.kind == "f" and not dtype.is_float):
            raise _lossy(value, dtype)
        return check_fits(dtype, value, is_target=True)
    if value is dtype or (value.is_float and dtype.is_float) or (value.is_int and dtype.is_float):
        return None
    if value is INDEX64 and dtype in (i32, i64):
        return None
    if value is _BOOL or dtype is _BOOL or value.is_float or not _holds(dtype, value):
        raise _lossy(value, dtype)
    return None


def _holds(dtype: DType, value: DType) -> bool:
    """Whether an integer type has every value of another."""
    (low, high), (least, most) = dtype.range, value.range
    return low <= least and most <= high


CAST_IT = "cast it"
"""The help of a lossy store; whoever knows the text of the value writes the cast out."""


def _lossy(value: Scalar, dtype: DType) -> RuleError:
    return RuleError(f"{show(value)} is stored in {show(dtype)} only with a cast", CAST_IT)


def cast(value: Scalar, dtype: DType) -> None:
    """Whether `dtype(value)` is meant; an int literal must fit, everything else converts."""
    if (isinstance(value, Weak) and value.kind == "i" and dtype is not _BOOL) or (
        isinstance(value, Weak) and dtype.is_float
    ):
        check_fits(dtype, value, is_target=True)


def merge_branches(types: Sequence[Scalar]) -> Scalar:
    """The type of a conditional expression: the branches' common one; literals stay weak, with several values."""
    weak = [t for t in types if isinstance(t, Weak)]
    if len(weak) == len(types):
        return _join_literals(weak)
    merged: Scalar = next(t for t in types if isinstance(t, DType))
    for type_ in types:
        if isinstance(type_, Weak) and merged is _BOOL:
            raise RuleError(f"one branch is bool and the other {show(type_)}", "cast one of them")
        merged = common(merged, type_, "or")
    return merged


def _join_literals(weak: Sequence[Weak]) -> Weak:
    if all(w == weak[0] for w in weak):
        return weak[0]
    kind = "f" if any(w.kind == "f" for w in weak) else "i"
    values = tuple(float(v) if kind == "f" else v for w in weak for v in w.values)
    return Weak(kind, values, any(w.named for w in weak))  # type: ignore[arg-type]


def merge_variable(types: Sequence[Scalar], in_loop: bool) -> tuple[Scalar, bool]:
    """The type of a named variable where several assignments meet, and whether they agree.

    One that was set from literals is never narrower than i32 or f32; other types must be the same.
    """
    weak = [t for t in types if isinstance(t, Weak)]
    strong = [t for t in types if isinstance(t, DType)]
    if not strong:
        joined = _join_literals(weak)
        return (default(joined), True) if in_loop and len(joined.values) > 1 else (joined, True)
    merged: Scalar = strong[0]
    agreed = all(t is merged for t in strong)
    for type_ in strong[1:]:
        merged = common(merged, type_, "or")
    if weak and merged is _BOOL:
        return merged, False
    for w in weak:
        if w.kind == "f" and not merged.is_float:  # type: ignore[union-attr]
            return merged, False
        merged = common(merged, Weak(w.kind, w.values, named=True), "or")
    return merged, agreed
