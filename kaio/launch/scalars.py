"""Scalars and constants of a launch: converted exactly, or refused by name."""

from __future__ import annotations

import enum
import numbers
from typing import Any

from kaio.dtypes import DType, dtype_of
from kaio.errors import KaioError, LaunchError, is_message
from kaio.program import packs_by_bits
from kaio.rounding import bits_of
from kaio.runtime.scalars import Misfit, describe, plain_number, read_parts, read_scalar

__all__ = ["Bits", "constant", "convert", "packable", "parts"]

__tracebackhide__ = is_message


class Bits(int):
    """The bits of a scalar, where `struct` does not know its type."""


def packable(dtype: DType, number: bool | int | float) -> bool | int | float:
    """A scalar of that type as it goes into the argument block."""
    return Bits(bits_of(dtype, number)) if packs_by_bits(dtype) else number


def convert(kernel: str, name: str, dtype: DType, value: Any) -> bool | int | float:
    """`value` as the scalar argument `name` of `dtype`, or LaunchError that names and shows it; see `read_scalar`."""
    __tracebackhide__ = is_message
    try:
        return read_scalar(value, dtype, name)
    except Misfit as problem:
        annotated = f", or annotate {problem.annotation}" if problem.annotation else ""
        way_out = f"{problem.help}{annotated}" if problem.help else None
        raise LaunchError(f"argument `{name}` of kernel `{kernel}` {problem.what}", help=way_out) from None


def parts(kernel: str, name: str, dtype: DType, value: Any) -> tuple[bool | int | float, ...]:
    """`value` as the parts of the scalar argument `name`, as `convert`."""
    __tracebackhide__ = is_message
    try:
        return read_parts(value, dtype, name)
    except Misfit as problem:
        raise LaunchError(f"argument `{name}` of kernel `{kernel}` {problem.what}", help=problem.help) from None


_MOST_BITS = 4096  # of a constant: no type of kaio holds more than 64, and beyond this Python does not spell it


def constant(kernel: str, name: str, of: type, value: Any) -> Any:
    """`value` as the compile-time constant `name` of type `of`: int, bool, float, `DType` or an enum."""
    if of is DType:
        try:
            return dtype_of(value)
        except KaioError as problem:
            raise _not_constant(kernel, name, of, value, "for example `kaio.f32`") from problem
    if issubclass(of, enum.Enum):
        if isinstance(value, of):
            return value
        raise _not_constant(kernel, name, of, value, f"for example `{next(iter(of))}`")
    plain = plain_number(value)
    if isinstance(plain, bool) or of is bool:
        if of is bool and isinstance(plain, bool):
            return plain
        raise _not_constant(kernel, name, of, value, f"convert it with `{of.__name__}({name})`")
    if isinstance(plain, int):
        if of is int and plain.bit_length() > _MOST_BITS:
            raise _not_constant(kernel, name, of, value, f"one of at most {_MOST_BITS} bits")
        try:
            return of(plain)  # type: ignore[call-arg]
        except OverflowError as problem:
            raise _not_constant(kernel, name, of, value, None) from problem
    if of is float and isinstance(plain, numbers.Real) and not isinstance(plain, numbers.Rational):
        return float(plain)
    raise _not_constant(kernel, name, of, value, f"convert it with `{of.__name__}({name})`")


def _not_constant(kernel: str, name: str, of: type, value: Any, help: str | None) -> LaunchError:
    if of is DType:
        wanted = "a dtype"
    elif issubclass(of, enum.Enum):
        wanted = f"a member of {of.__name__}"
    else:
        wanted = f"{'an' if of is int else 'a'} {of.__name__}"
    return LaunchError(
        f"argument `{name}` of kernel `{kernel}` is a constant and must be {wanted} (got {describe(value)})", help=help
    )
