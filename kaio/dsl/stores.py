"""What may be stored in an element, and what a cast means: which values become others without being asked."""

from __future__ import annotations

from kaio.dsl.literals import check_fits, default, fits
from kaio.dsl.rule_error import RuleError
from kaio.dsl.values import BOOL, INDEX64, Scalar, Weak, show
from kaio.dtypes import DType, i32, i64

__all__ = ["CAST_IT", "cast", "store"]

CAST_IT = "cast it"
"""The help of a lossy store; whoever knows the text of the value writes the cast out."""


def store(value: Scalar, dtype: DType) -> None:
    """Whether a value may be stored in an element of `dtype` without a cast; raises RuleError if not.

    >>> from kaio import u8, f32, f64
    >>> store(u8, i32), store(i32, f32), store(f64, f32)
    (None, None, None)
    """
    if isinstance(value, Weak):
        alone = default(Weak(value.kind, (0,)))
        if value.named and all(fits(alone, v) for v in value.values):  # a named variable is an i32 or f32 at least
            store(alone, dtype)
        if dtype is BOOL or (value.kind == "f" and not dtype.is_float):
            raise _lossy(value, dtype)
        return check_fits(dtype, value, is_target=True)
    if value is dtype or (value.is_float and dtype.is_float) or (value.is_int and dtype.is_float):
        return None
    if value is INDEX64 and dtype in (i32, i64):
        return None
    if value is BOOL or dtype is BOOL or value.is_float or not _holds(dtype, value):
        raise _lossy(value, dtype)
    return None


def _holds(dtype: DType, value: DType) -> bool:
    """Whether an integer type has every value of another."""
    (low, high), (least, most) = dtype.range, value.range
    return low <= least and most <= high


def _lossy(value: Scalar, dtype: DType) -> RuleError:
    return RuleError(f"{show(value)} is stored in {show(dtype)} only with a cast", CAST_IT)


def cast(value: Scalar, dtype: DType) -> None:
    """Whether `dtype(value)` is meant; an int literal must fit, everything else converts."""
    if (isinstance(value, Weak) and value.kind == "i" and dtype is not BOOL) or (
        isinstance(value, Weak) and dtype.is_float
    ):
        check_fits(dtype, value, is_target=True)
