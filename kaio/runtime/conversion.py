"""Values and arrays from one element type to another, on the host."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from kaio.dtypes import DType
from kaio.errors import KaioError

__all__ = ["convert_array", "element_bytes"]


def element_bytes(value: Any, dtype: DType) -> bytes:
    """The bytes of one element, or KaioError if the value is not one of the dtype."""
    try:
        if isinstance(value, str | bytes):
            raise TypeError  # which `float` would read
        if dtype.is_float:
            with np.errstate(over="ignore"):
                found = dtype.numpy.type(float(value))
        else:
            number = operator.index(value if dtype.is_int else int(value))
            low, high = dtype.range
            if not low <= number <= high or (dtype.kind == "b" and number != value):
                raise KaioError(f"{value!r} does not fit {dtype!r}, which holds {low} to {high}")
            found = dtype.numpy.type(number)
    except (TypeError, ValueError, OverflowError) as problem:
        raise KaioError(
            f"{value!r} is no {dtype!r}", help=f"convert it first, for example `kaio.{dtype!r}(…)`"
        ) from problem
    return bytes(found.tobytes())


def convert_array(array: np.ndarray[Any, Any], dtype: DType) -> np.ndarray[Any, Any]:
    """A copy in another element type by the rules of kaio's casts: float to int truncates and saturates."""
    if array.dtype.kind != "f" or not dtype.is_int:
        with np.errstate(over="ignore"):
            return array.astype(dtype.numpy)
    low, high = dtype.range
    whole = np.trunc(array)
    # 2**63 - 1 is no float: compare with the power of two that follows, and put the limits in by integer.
    above, below = whole >= float(high + 1), whole < float(low)
    safe = np.where(above | below | np.isnan(array), 0, whole)
    found: np.ndarray[Any, Any] = safe.astype(dtype.numpy)
    found[above], found[below] = high, low
    if array.dtype.itemsize == 8 or dtype.bits == 64:
        # PTX cvt gives the top bit for NaN, except from a narrow float to at most 32 bits, where it gives 0.
        found[np.isnan(array)] = low if dtype.kind == "i" else 1 << (dtype.bits - 1)
    return found
