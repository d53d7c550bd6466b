"""Scalars: what is taken as one element of a type, for the arguments of a launch and for `fill` alike."""

from __future__ import annotations

import enum
import math
import numbers
from typing import Any

import numpy as np

from kaio.dtypes import DType, is_float
from kaio.rounding import fits_float, nearest

__all__ = ["Misfit", "describe", "is_masked", "plain_number", "read_parts", "read_scalar"]


class Misfit(Exception):
    """A value is no scalar of a type: what is wrong, to follow the words for the value, and the way out."""

    def __init__(self, what: str, help: str | None = None, annotation: str | None = None) -> None:
        super().__init__(what)
        self.what, self.help = what, help
        self.annotation = annotation  # of a parameter that would take the value


def read_scalar(value: Any, dtype: DType, name: str) -> bool | int | float:
    """`value`, which the user calls `name`, as a scalar of `dtype`, or Misfit.

    An integer takes whole numbers in its range, a float any float or whole number that does not overflow, a bool a
    bool. NumPy scalars, 0-d arrays and enum members of a number count as the number they hold.
    """
    plain = plain_number(value)
    if dtype.kind == "b":
        if isinstance(plain, bool):
            return plain
        raise _refused(dtype, value, _way_out(name, value) or f"compare it, or convert it with `bool({name})`")
    if isinstance(plain, int):
        return _fitting_float(dtype, value, plain) if dtype.is_float else _fitting_int(dtype, value, plain)
    if isinstance(plain, float) or (isinstance(plain, numbers.Real) and not isinstance(plain, numbers.Rational)):
        if dtype.is_float:
            return _fitting_float(dtype, value, plain)
        raise _refused(dtype, value, f"convert it with `int({name})`", f"`{name}: f32`")
    way_out = _way_out(name, value)
    if way_out is None and isinstance(value, numbers.Number) and not isinstance(value, np.generic):
        # Fractions and decimals are exact, and no element is: that they are rounded is for the caller to say.
        way_out = f"convert it with `{'float' if dtype.is_float else 'int'}({name})`"
    raise _refused(dtype, value, way_out, f"a buffer: `{name}: In[…]`" if way_out == _ONE_ELEMENT else None)


def read_parts(value: Any, dtype: DType, name: str) -> tuple[bool | int | float, ...]:
    """`value` as the parts of one element of a dtype that has parts, or Misfit: a complex number, or one part each."""
    found = _split(value, dtype)
    if found is None:
        way_out = _way_out(name, value) if not isinstance(value, complex | np.complexfloating) else None
        raise _refused(dtype, value, way_out)
    read = []
    for (part, of), number in zip(dtype.parts, found, strict=True):
        try:
            read.append(read_scalar(number, of, f"{name}.{part}"))
        except Misfit as problem:
            raise Misfit(f"{problem.what}, in its part `{part}`", problem.help) from None
    return tuple(read)


def _split(value: Any, dtype: DType) -> tuple[Any, ...] | None:
    if dtype.kind == "c":
        if isinstance(value, complex | np.complexfloating):
            return value.real, value.imag
        if isinstance(value, np.ndarray) and value.ndim == 0 and value.dtype.kind == "c" and not is_masked(value):
            return value.item().real, value.item().imag
        plain = plain_number(value)
        is_real = isinstance(plain, int | float) and not isinstance(plain, bool)
        return (plain, 0.0) if is_real else None
    if isinstance(value, np.void) and value.dtype == dtype.numpy:
        return tuple(value[name] for name, _ in dtype.parts)
    is_lanes = isinstance(value, tuple | list) or (isinstance(value, np.ndarray) and value.ndim == 1)
    return tuple(value) if is_lanes and len(value) == len(dtype.parts) and not is_masked(value) else None


def plain_number(value: Any) -> Any:
    """The Python number that `value` holds; else None or `value` itself."""
    if isinstance(value, np.generic | np.ndarray):
        if is_masked(value) or value.ndim or not (value.dtype.kind in "biu" or is_float(value.dtype)):
            return None  # to NumPy even its durations are real numbers
        return float(value) if is_float(value.dtype) else value.item()
    if isinstance(value, bool | int | float):
        return value
    if getattr(value, "ndim", None) == 0 and callable(getattr(value, "item", None)):
        return value.item()
    return value


def is_masked(value: Any) -> bool:
    """True for a masked array of NumPy, and for the element that is masked out of one."""
    return isinstance(value, np.ndarray) and hasattr(value, "filled")  # `numpy.ma` need not be there to ask


def _fitting_int(dtype: DType, value: Any, plain: int) -> int:
    low, high = dtype.range
    if low <= plain <= high:
        return int(plain)
    raise Misfit(f"does not fit {dtype!r} (got {_short(value)})", f"{dtype!r} holds {low} to {high}")


def _fitting_float(dtype: DType, value: Any, plain: Any) -> float:
    if dtype.bits < 32 or isinstance(plain, int):  # by way of a Python float, an int would be rounded twice
        number = plain if isinstance(plain, int) else float(plain)
        if fits_float(dtype, number):
            return nearest(dtype, number)
    else:
        try:
            found = float(plain)
            with np.errstate(over="ignore"):
                overflows = math.isinf(dtype.numpy.type(found)) and not math.isinf(found)
        except OverflowError:
            overflows = True
        if not overflows:
            return found
    infinity = "" if dtype.is_storage else "; infinity is `math.inf`"
    largest = f"the largest {dtype!r} is {dtype.largest:.8g}{infinity}"
    raise Misfit(f"does not fit {dtype!r} (got {_short(value)})", largest)


def _refused(dtype: DType, value: Any, help: str | None, annotation: str | None = None) -> Misfit:
    return Misfit(f"must be a scalar of {dtype!r} (got {describe(value)})", help, annotation)


_ONE_ELEMENT = "pass one element"


def _way_out(name: str, value: Any) -> str | None:
    if isinstance(value, enum.Enum):
        return f"pass what it holds: `{name}.value`"
    if isinstance(value, complex | np.complexfloating):
        return f"pass its parts: `{name}.real`, `{name}.imag`"
    if is_masked(value):
        return f"say what stands for what is masked: `{name}.filled(…)`"
    if isinstance(value, np.ndarray):
        return _ONE_ELEMENT
    return None


def describe(value: Any) -> str:
    """A value as a message shows it: `f64[4096]` for a buffer, what and how large for an array, else its repr."""
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if isinstance(value, np.generic):
        return f"{_short(value)}, a NumPy {value.dtype}"
    if isinstance(value, np.ndarray):
        return f"a {'masked ' if is_masked(value) else ''}NumPy array {dtype}{list(value.shape)}"
    if isinstance(shape, tuple) and isinstance(dtype, DType):
        return f"{dtype!r}{list(shape)}"
    if shape is not None and dtype is not None:
        kind = type(value)
        return f"a {kind.__module__.partition('.')[0]} {kind.__name__} {dtype}{list(shape)}"
    if isinstance(value, bool | int | float | complex | str | bytes | None | enum.Enum):
        return _short(value) + ("" if value is None or isinstance(value, enum.Enum) else f", {_noun(value)}")
    return _short(value)


def _noun(value: Any) -> str:
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def _short(value: Any) -> str:
    is_scalar = isinstance(value, np.generic | np.ndarray) and value.ndim == 0
    is_number = is_scalar and (value.dtype.kind in "biu" or is_float(value.dtype))
    shown = value.item() if is_number else value
    is_long = type(shown) is int and shown.bit_length() > 4096  # Python refuses to write thousands of digits
    text = hex(shown) if is_long else repr(shown)
    return text if len(text) <= 60 else f"{text[:57]}…"
