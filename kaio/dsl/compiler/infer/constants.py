"""The types of literals and of what a kernel captures."""

from __future__ import annotations

from typing import Any

import numpy as np

from kaio.dsl import literals
from kaio.dsl.rule_error import RuleError
from kaio.dsl.values import ObjectType, TupleType, Type
from kaio.dtypes import DType, dtype_of
from kaio.errors import KaioError

__all__ = ["constant_type", "numpy_dtype"]


def constant_type(value: Any) -> Type:
    """The type of a literal or of a captured object."""
    if isinstance(value, np.generic):
        return dtype_of(value.dtype)  # np.float64(0.1) has a width of its own
    if isinstance(value, bool | int | float):
        return literals.literal(value)
    if isinstance(value, tuple):
        return TupleType(tuple(map(constant_type, value)))
    if isinstance(value, np.ndarray):
        raise RuleError("an array cannot be captured", "pass it to the kernel as a buffer")
    return ObjectType(value)


def numpy_dtype(scalar: type[np.generic]) -> DType:
    """The dtype of a NumPy scalar type called in a kernel."""
    try:
        return dtype_of(scalar)
    except KaioError as problem:
        raise RuleError(problem.mistakes[0].what, problem.mistakes[0].help) from None
