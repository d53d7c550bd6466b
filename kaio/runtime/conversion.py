"""Values and arrays from one element type to another, on the host."""

from __future__ import annotations

from typing import Any

import numpy as np

from kaio.dtypes import DType
from kaio.errors import KaioError
from kaio.runtime.scalars import Misfit, is_masked, read_scalar

__all__ = ["check_unmasked", "convert_array", "element_bytes"]


def element_bytes(value: Any, dtype: DType) -> bytes:
    """The bytes of one element, or KaioError if the value is not one of the dtype; see `read_scalar`."""
    try:
        return bytes(dtype.numpy.type(read_scalar(value, dtype, "value")).tobytes())
    except Misfit as problem:
        raise KaioError(f"the value to fill with {problem.what}", help=problem.help) from None


def check_unmasked(array: Any) -> None:
    """Raise KaioError for a masked array: a buffer has no mask, and what is under it is not for use."""
    if is_masked(array):
        raise KaioError(
            "a masked array is not taken as it is, as a GpuBuffer has no mask",
            help="say what stands for what is masked: `array.filled(…)`",
        )


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
