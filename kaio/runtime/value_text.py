"""What a value of a kernel looks like in words."""

from __future__ import annotations

import enum
from typing import Any

import numpy as np

from kaio.dtypes import dtype_of
from kaio.print_abi import Printed
from kaio.record_classes import is_record, names_of

__all__ = ["value_text"]


def value_text(value: Any) -> str:
    """The text of a value that was looked at: as `print` in a kernel shows it; of an array its type and shape.

    >>> value_text(np.float32(0.1)), value_text((np.int32(1), np.bool_(True))), value_text(np.zeros((2, 3)))
    ('0.1', '(1, True)', 'f64[2, 3]')
    """
    match value:
        case np.void():
            return f"({_listed(value.dtype.names or (), [value[name] for name in value.dtype.names or ()])})"
        case np.generic():
            return Printed(dtype_of(value.dtype)).text(value.tobytes())
        case np.ndarray():
            return f"{dtype_of(value.dtype)!r}[{', '.join(map(str, value.shape))}]"
        case enum.Enum() | str():
            return str(value)
    if is_record(type(value)):
        names = names_of(type(value))
        return f"{type(value).__qualname__}({_listed(names, [getattr(value, name) for name in names])})"
    if isinstance(value, tuple):
        return f"({', '.join(map(value_text, value))}{',' * (len(value) == 1)})"
    return str(getattr(value, "__name__", None) or value)


def _listed(names: tuple[str, ...], values: list[Any]) -> str:
    """Fields with their names; an array in a struct is a tuple, as in the kernel."""
    texts = [value_text(_tuple(value)) for value in values]
    return ", ".join(f"{name}={text}" for name, text in zip(names, texts, strict=True))


def _tuple(value: Any) -> Any:
    return tuple(map(_tuple, value)) if isinstance(value, np.ndarray) else value
