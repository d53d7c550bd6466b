"""Scalars and constants of a launch: converted exactly, or refused by name."""

from __future__ import annotations

import enum
import math
import numbers
from typing import Any

import numpy as np

from kaio.dtypes import DType, dtype_of
from kaio.errors import KaioError, LaunchError, is_message

__all__ = ["constant", "convert", "describe", "largest_float"]

__tracebackhide__ = is_message


def convert(kernel: str, name: str, dtype: DType, value: Any) -> bool | int | float:
    """`value` as the scalar argument `name` of `dtype`, or LaunchError that names and shows it.

    An integer takes whole numbers in its range, a float any real number that does not overflow, a bool a bool.
    NumPy scalars, 0-d arrays and enum members of a number count as the number they hold.
    """
    plain = _plain(value)
    if dtype.kind == "b":
        if isinstance(plain, bool):
            return plain
        raise _refused(kernel, name, dtype, value, f"compare it, or convert it with `bool({name})`")
    if isinstance(plain, int):
        if dtype.is_float:
            return _fitting_float(kernel, name, dtype, value, plain)
        return _fitting_int(kernel, name, dtype, value, plain)
    if isinstance(plain, numbers.Real):
        if dtype.is_float:
            return _fitting_float(kernel, name, dtype, value, float(plain))
        raise _refused(kernel, name, dtype, value, f"convert it with `int({name})`, or annotate `{name}: f32`")
    raise _refused(kernel, name, dtype, value, _way_out(name, value))


def _plain(value: Any) -> Any:
    """The Python number that `value` holds; else None or `value` itself."""
    if isinstance(value, np.generic | np.ndarray):
        if value.ndim or value.dtype.kind not in "biuf":
            return None  # to NumPy even its durations are real numbers
        return float(value) if value.dtype.kind == "f" else value.item()
    if isinstance(value, bool | int | float):
        return value
    if getattr(value, "ndim", None) == 0 and callable(getattr(value, "item", None)):
        return value.item()
    return value


def _fitting_int(kernel: str, name: str, dtype: DType, value: Any, plain: int) -> int:
    low, high = dtype.range
    if low <= plain <= high:
        return int(plain)
    raise LaunchError(
        f"argument `{name}` of kernel `{kernel}` does not fit {dtype!r} (got {_short(value)})",
        help=f"{dtype!r} holds {low} to {high}",
    )


def _fitting_float(kernel: str, name: str, dtype: DType, value: Any, plain: float) -> float:
    try:
        with np.errstate(over="ignore"):
            overflows = math.isinf(dtype.numpy.type(plain)) and not math.isinf(plain)
    except OverflowError:
        overflows = True
    if not overflows:
        return float(plain)
    raise LaunchError(
        f"argument `{name}` of kernel `{kernel}` does not fit {dtype!r} (got {_short(value)})",
        help=f"the largest {dtype!r} is {largest_float(dtype):.8g}; infinity is `math.inf`",
    )


def largest_float(dtype: DType) -> float:
    """The largest finite value of a float dtype."""
    return float(np.finfo(dtype.numpy).max)


def _refused(kernel: str, name: str, dtype: DType, value: Any, help: str | None) -> LaunchError:
    return LaunchError(
        f"argument `{name}` of kernel `{kernel}` must be a scalar of {dtype!r} (got {describe(value)})", help=help
    )


def _way_out(name: str, value: Any) -> str | None:
    if isinstance(value, enum.Enum):
        return f"pass what it holds: `{name}.value`"
    if isinstance(value, complex | np.complexfloating):
        return f"pass its parts: `{name}.real`, `{name}.imag`"
    if isinstance(value, np.ndarray):
        return f"pass one element, or annotate a buffer: `{name}: In[…]`"
    return None


def constant(kernel: str, name: str, of: type, value: Any) -> Any:
    """`value` as the compile-time constant `name` of type `of`: int, bool, float or `DType`."""
    if of is DType:
        try:
            return dtype_of(value)
        except KaioError as problem:
            raise _not_constant(kernel, name, of, value, "for example `kaio.f32`") from problem
    plain = _plain(value)
    if isinstance(plain, bool) or of is bool:
        if of is bool and isinstance(plain, bool):
            return plain
        raise _not_constant(kernel, name, of, value, f"convert it with `{of.__name__}({name})`")
    if isinstance(plain, int):
        try:
            return of(plain)
        except OverflowError as problem:
            raise _not_constant(kernel, name, of, value, None) from problem
    if of is float and isinstance(plain, numbers.Real):
        return float(plain)
    raise _not_constant(kernel, name, of, value, f"convert it with `{of.__name__}({name})`")


def _not_constant(kernel: str, name: str, of: type, value: Any, help: str | None) -> LaunchError:
    wanted = "a dtype" if of is DType else f"{'an' if of is int else 'a'} {of.__name__}"
    return LaunchError(
        f"argument `{name}` of kernel `{kernel}` is a constant and must be {wanted} (got {describe(value)})", help=help
    )


def describe(value: Any) -> str:
    """A value as a message shows it: `f64[4096]` for a buffer, what and how large for an array, else its repr."""
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if isinstance(value, np.generic):
        return f"{_short(value)}, a NumPy {value.dtype}"
    if isinstance(value, np.ndarray):
        return f"a NumPy array {dtype}{list(value.shape)}"
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
    text = repr(value.item() if is_scalar and value.dtype.kind in "biuf" else value)
    return text if len(text) <= 60 else f"{text[:57]}…"
