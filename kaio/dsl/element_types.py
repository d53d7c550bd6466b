"""The type that a value has in a kernel when it is loaded from an element, or passed as a scalar, of some dtype."""

from __future__ import annotations

from collections.abc import Callable

from kaio.dsl.complexes import complex_type
from kaio.dsl.records import parameter_type
from kaio.dsl.values import Type
from kaio.dsl.vectors import vector_type
from kaio.dtypes import DType

__all__ = ["element_type"]

_BY_KIND: dict[str, Callable[[DType], Type]] = {"c": complex_type, "s": parameter_type, "v": vector_type}


def element_type(dtype: DType) -> Type:
    """The type of values of a dtype: of numbers it is the dtype itself.

    >>> from kaio import c64, f32
    >>> element_type(f32), element_type(c64)
    (f32, c64)
    """
    make = _BY_KIND.get(dtype.kind)
    return dtype if make is None else make(dtype)
