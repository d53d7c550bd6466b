"""What a number is as a float of 16 or 8 bits, found by looking at all values of the type."""

from __future__ import annotations

import math
from bisect import bisect_right
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from kaio import bf16, f8e4m3, f8e5m2, f16

HALVES, STORAGE = (f16, bf16), (f8e4m3, f8e5m2)
NARROW = (*HALVES, *STORAGE)


@cache
def all_values(dtype: Any) -> np.ndarray:
    """Every value of the type, in the order of its bits."""
    return np.arange(1 << dtype.bits).astype(f"u{dtype.itemsize}").view(dtype.numpy)


@cache
def magnitudes(dtype: Any) -> list[float]:
    """The finite values from 0 up, at the index of their bits, and what would follow if there were one more."""
    with np.errstate(invalid="ignore"):
        positive = all_values(dtype)[: 1 << dtype.bits - 1].astype(float)
    found = positive[np.isfinite(positive)].tolist()
    return [*found, 2 * found[-1] - found[-2]]


def rounded(number: float | Fraction, dtype: Any) -> float:
    """The nearest value, of two the one whose bits are even; beyond the last an infinity, or of 8 bits the last."""
    if number == 0 or number != number:
        return float(number)
    known, sign = magnitudes(dtype), -1.0 if number < 0 else 1.0
    if math.isinf(number):
        return sign * beyond(dtype)
    at = bisect_right(known, abs(number)) - 1
    if at < len(known) - 1:
        middle = (known[at] + known[at + 1]) / 2  # exact: f64 has digits to spare
        at += abs(number) > middle or (abs(number) == middle and at % 2 == 1)
    return sign * (known[at] if at < len(known) - 1 else beyond(dtype))


def beyond(dtype: Any) -> float:
    """What is larger than all finite values becomes this."""
    return magnitudes(dtype)[-2] if dtype in STORAGE else math.inf


@cache
def edges(dtype: Any) -> np.ndarray:
    """All finite values of the type and the middles between them, each with the f64 before and after it."""
    known = np.array(magnitudes(dtype))
    middle = np.concatenate([known, (known[1:] + known[:-1]) / 2])
    both = np.concatenate([middle, -middle])
    return np.concatenate([both, np.nextafter(both, np.inf), np.nextafter(both, -np.inf), [np.inf, -np.inf, np.nan]])


def same(got: Any, wanted: Any) -> Any:
    """Where two arrays of floats are equal to the bit, but for the sign and payload of NaN."""
    with np.errstate(invalid="ignore"):
        got, wanted = np.asarray(got).astype(float), np.asarray(wanted).astype(float)
    equal = (got == wanted) & (np.signbit(got) == np.signbit(wanted))
    return equal | (np.isnan(got) & np.isnan(wanted))
