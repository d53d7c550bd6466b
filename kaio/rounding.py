"""Python numbers as the nearest value of a floating-point type: what a literal or an argument becomes.

In exact arithmetic, because a conversion by way of another type would round twice.
"""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kaio.dtypes import DType

__all__ = ["bits_of", "fits_float", "nearest"]

_LOWEST_EXPONENTS = {"e4m3": -6, "e5m2": -14, "f16": -14, "bf16": -126, "f32": -126, "f64": -1022}


def nearest(dtype: DType, value: int | float) -> float:
    """The value of the type that is nearest, ties to even; beyond its range an infinity, or the largest of 8 bits.

    >>> from kaio import bf16, f8e4m3, f16
    >>> nearest(f16, 0.1), nearest(bf16, 257), nearest(f16, 1e6), nearest(f8e4m3, 1e6)
    (0.0999755859375, 256.0, inf, 448.0)
    """
    found = _unbounded(dtype, value)
    if abs(found) > dtype.largest:
        return math.copysign(dtype.largest if dtype.is_storage else math.inf, found)
    return found


def fits_float(dtype: DType, value: int | float) -> bool:
    """Whether a number may become this type: it stays finite, or was not; 8 bits have no infinity to convert to."""
    if isinstance(value, float) and not math.isfinite(value):
        return math.isnan(value) or not dtype.is_storage
    return abs(_unbounded(dtype, value)) <= dtype.largest


def bits_of(dtype: DType, value: int | float) -> int:
    """The bits of the nearest value, as an unsigned integer.

    >>> from kaio import bf16, f16
    >>> hex(bits_of(f16, 1.0)), hex(bits_of(bf16, 1.0))
    ('0x3c00', '0x3f80')
    """
    return int.from_bytes(dtype.numpy.type(nearest(dtype, value)).tobytes(), sys.byteorder)


def _unbounded(dtype: DType, value: int | float) -> float:
    """The nearest value of a type with the same digits that has no largest value, as far as a Python float goes."""
    if isinstance(value, float) or -(2**53) <= value <= 2**53:
        return _rounded(dtype, float(value))
    step = 1 << (value.bit_length() - dtype.digits)  # such an integer has more digits than any type
    count, rest = divmod(value, step)
    if 2 * rest > step or (2 * rest == step and count % 2):
        count += 1
    try:
        return float(count * step)
    except OverflowError:
        return math.copysign(math.inf, count)


def _rounded(dtype: DType, value: float) -> float:
    """The same of a Python float: scaled by a power of two, its last digit is that of whole numbers."""
    if value == 0 or not math.isfinite(value):
        return value
    exponent = math.frexp(value)[1] - 1
    step = max(exponent, _LOWEST_EXPONENTS[dtype.ptx]) - dtype.digits + 1
    try:
        return math.copysign(math.ldexp(round(math.ldexp(value, -step)), step), value)
    except OverflowError:  # rounded up to a power of two that no Python float is
        return math.copysign(math.inf, value)
