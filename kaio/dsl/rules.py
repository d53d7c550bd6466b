"""What every operator means, as types. Knows neither Numba nor LLVM.

Type inference and the tables of `docs/language.md` take their answers from here, and from `literals`, `joins` and
`stores` beside it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from kaio.dsl.literals import check_fits, default, fits, fold, fold_unary
from kaio.dsl.rule_error import RuleError
from kaio.dsl.values import BOOL, Scalar, Weak, show
from kaio.dtypes import DTYPES, DType, f32, i32, i64

__all__ = [
    "ARITHMETIC",
    "BITWISE",
    "COMPARISONS",
    "SHIFTS",
    "BinaryRule",
    "binary",
    "check_computes",
    "common",
    "unary",
]

ARITHMETIC = ("+", "-", "*", "/", "//", "%", "**")
BITWISE = ("&", "|", "^")
SHIFTS = ("<<", ">>")
COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")

_SIGNED = {dtype.bits: dtype for dtype in DTYPES if dtype.kind == "i"}


def common(a: Scalar, b: Scalar, what: str) -> Scalar:
    """The one type in which `a what b` is computed.

    >>> from kaio import u8, u32, f64
    >>> from kaio.dsl.literals import literal
    >>> common(u8, i32, "+"), common(u32, i32, "+"), common(f32, literal(0.1), "+"), common(f32, f64, "+")
    (i32, i64, f32, f64)
    """
    if isinstance(a, Weak) and isinstance(b, Weak):
        return _alone(a, b)
    if a is not b:
        check_computes(what, a, b)
    if isinstance(b, Weak):
        return _with_literal(a, b)  # type: ignore[arg-type]
    if isinstance(a, Weak):
        return _with_literal(b, a)
    if a is b:
        return a
    if BOOL in (a, b):
        return b if a is BOOL else a
    if a.is_float or b.is_float:
        if a.is_float and b.is_float:
            if a.bits == b.bits:  # f16 with bf16: neither holds the other
                return f32
            return a if a.bits > b.bits else b
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


def _alone(a: Weak, b: Weak) -> DType:
    """The type of two literals that stand alone: one that holds all their values, or RuleError."""
    return default(Weak("f" if "f" in (a.kind, b.kind) else "i", (*a.values, *b.values)))


def check_computes(what: str, *types: Scalar) -> None:
    """Raise RuleError where a type is for storage only: `what` is the operator, or the name of a function."""
    for type_ in types:
        if isinstance(type_, DType) and type_.is_storage:
            shown = f"`{f' {what} '.join(map(show, types))}`" if len(types) > 1 else f"`{what}` of {show(type_)}"
            raise RuleError(
                f"{shown}: {show(type_)} is stored and cast, and not computed with",
                f"cast the {show(type_)}, for example `kaio.f32(...)`",
            )


def _cast_one(a: DType, b: DType) -> str:
    other = b if a.kind == "i" else a
    return f"cast one side, for example `kaio.{other!r}(...)` of the {show(a if a.kind == 'i' else b)}"


def _with_literal(dtype: DType, weak: Weak) -> DType:
    if dtype is BOOL:
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
        a = b = _alone(a, b)
    check_computes(op, a, b)
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
    if type_ is BOOL:
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
        if dtype is BOOL:
            dtype = default(weak)
        elif weak.kind == "f" and dtype.is_int:
            _check_float_literal(op, dtype, weak)
            return BinaryRule(a, b, BOOL)
        elif dtype.is_int:
            for value in weak.values:
                if not fits(dtype, value):
                    raise RuleError(
                        _always(dtype, value),
                        "compare with a value in range, or cast the other side to a wider type",
                    )
        else:
            if weak.named and dtype.bits < 32:  # a named variable is an f32 at least, and the comparison exact
                dtype = f32
            check_fits(dtype, weak)
        return BinaryRule(dtype, dtype, BOOL)
    if a is b:
        return BinaryRule(a, b, BOOL)
    if BOOL in (a, b):
        type_ = common(a, b, op)
        return BinaryRule(type_, type_, BOOL)
    return BinaryRule(a, b, BOOL)


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


def _power(a: Scalar, b: Scalar) -> BinaryRule:
    if isinstance(b, Weak) and b.kind == "i" and isinstance(a, DType) and a is not BOOL:
        if a.is_int and min(b.values) < 0:
            raise _negative_power(show(a), min(b.values))
        base = _with_literal(a, Weak("i", b.values if a.is_float else (0,), b.named))  # an exponent need not fit an int
        return BinaryRule(base, b, base)
    type_ = common(a, b, "**")
    assert isinstance(type_, DType)
    if type_ is BOOL:
        raise RuleError("`bool ** bool`: bools have no arithmetic", "cast one side, for example `kaio.i32(...)`")
    return BinaryRule(type_, type_, type_)


def _negative_power(base: str, exponent: int | float) -> RuleError:
    return RuleError(
        f"{base} to the negative power `{exponent}` is not an integer", f"cast the base: `kaio.f32(...) ** {exponent}`"
    )


def unary(op: str, a: Scalar) -> tuple[Scalar, Scalar]:
    """Operand type and result type of ``- + ~ not``."""
    check_computes(op, a)
    if op == "not":
        return a, BOOL
    if isinstance(a, Weak):
        folded = fold_unary(op, a)
        return a, folded
    if a is BOOL:
        raise RuleError(f"`{op}` of a bool", "use `not`, or cast: `kaio.i32(...)`")
    if op == "~" and a.is_float:
        raise RuleError(f"`~` of {show(a)}: floats have no bitwise operators", "cast to an integer first")
    return a, a
