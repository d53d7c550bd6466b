"""Values and arrays from one element type to another, on the host."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from kaio.dtypes import DType, is_float
from kaio.errors import KaioError
from kaio.runtime.scalars import Misfit, describe, is_masked, read_parts, read_scalar

__all__ = ["check_unmasked", "convert_array", "element_bytes"]


def element_bytes(value: Any, dtype: DType) -> bytes:
    """The bytes of one element, or KaioError if the value is not one of the dtype; see `read_scalar`."""
    if dtype.kind == "s":
        return _struct_bytes(value, dtype)
    try:
        if dtype.parts:
            parts = read_parts(value, dtype, "value")
            whole: Any = complex(*parts) if dtype.kind == "c" else parts
            return np.asarray(whole, dtype.numpy).tobytes()
        return np.asarray(read_scalar(value, dtype, "value"), dtype.numpy).tobytes()
    except Misfit as problem:
        raise KaioError(f"the value to fill with {problem.what}", help=problem.help) from None


def _struct_bytes(value: Any, dtype: DType) -> bytes:
    """One element out of a tuple of its fields, a record, or a NumPy scalar of the dtype."""
    is_record = dataclasses.is_dataclass(value) and not isinstance(value, type)
    fields = dataclasses.astuple(value) if is_record else value
    if isinstance(fields, tuple) or (isinstance(fields, np.void) and fields.dtype == dtype.numpy):
        try:
            return np.asarray(fields, dtype.numpy).tobytes()
        except (TypeError, ValueError, OverflowError):
            pass
    raise KaioError(
        f"the value to fill with must be one element of {dtype!r} (got {describe(value)})",
        help="give its fields as a tuple, in their order",
    )


def check_unmasked(array: Any) -> None:
    """Raise KaioError for a masked array: a buffer has no mask, and what is under it is not for use."""
    if is_masked(array):
        raise KaioError(
            "a masked array is not taken as it is, as a GpuBuffer has no mask",
            help="say what stands for what is masked: `array.filled(…)`",
        )


def convert_array(array: np.ndarray[Any, Any], dtype: DType) -> np.ndarray[Any, Any]:
    """A copy in another element type by the rules of kaio's casts: float to int truncates and saturates."""
    if dtype.kind in "vs" or (array.dtype.kind == "V" and array.dtype.names):
        raise KaioError(
            f"elements of several parts are not converted to {dtype!r}",
            help="view them as their parts before: `x.view(kaio.f32)`",
        )
    if array.dtype.kind == "c" and dtype.kind != "c":
        raise KaioError(
            f"a complex array is not converted to {dtype!r}",
            help="take a part of it on the host: `x.to_host().real`",
        )
    if array.dtype == dtype.numpy:
        return array.copy()
    with np.errstate(over="ignore", invalid="ignore"):
        if is_float(array.dtype) and array.dtype.itemsize < 4:
            array = array.astype(np.float32)
        if is_float(array.dtype) and dtype.is_int:
            return _truncated(array, dtype)
        if not dtype.is_float or dtype.bits >= 32:
            return array.astype(dtype.numpy)
        single = _rounded_to_odd(array)
        return (single.clip(-dtype.largest, dtype.largest) if dtype.is_storage else single).astype(dtype.numpy)


def _truncated(array: np.ndarray[Any, Any], dtype: DType) -> np.ndarray[Any, Any]:
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


def _rounded_to_odd(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """As f32 for the way to a narrower type: what is not exact gets an odd last bit, so that it is rounded only once.

    Source: Boldo and Melquiond, Emulation of a FMA and correctly rounded sums, IEEE Transactions on Computers, 2008.
    """
    if array.dtype.kind in "iu" and array.dtype.itemsize == 8:  # f64 holds 53 bits: the lowest 11 become one
        is_big = np.abs(array.astype(np.float64)) >= 2.0**53
        odd = ((array >> 11) | ((array & 2047) != 0)) << 11
        array = np.where(is_big, odd, array)
    exact = array.astype(np.float64)
    single = exact.astype(np.float32)
    back = single.astype(np.float64)
    bits = single.view(np.int32)
    wrong = (back != exact) & ~np.isnan(exact) & (bits & 1 == 0)
    bits += np.where(wrong, np.where(np.abs(back) > np.abs(exact), -1, 1), 0).astype(np.int32)
    return single
