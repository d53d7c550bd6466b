"""What functions and methods mean for values of several parts: `abs(z)`, `fma(v, w, u)`, `z.conjugate()`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kaio.dsl.intrinsic import STANDARD, Intrinsic
from kaio.dsl.values import Type

__all__ = ["METHODS", "OVERLOADS", "of_types"]

OVERLOADS: dict[tuple[Any, type], Intrinsic] = {}
"""The record that stands for a function (Python's own, or a record) where an argument is of that class of types."""

METHODS: dict[tuple[type, str], Intrinsic] = {}
"""The record of a method of values of that class of types; its first argument is the value."""


def of_types(callee: Intrinsic, types: Iterable[Type]) -> Intrinsic:
    """The record that is meant for arguments of these types."""
    for type_ in types:
        for (function, kind), record in OVERLOADS.items():
            if isinstance(type_, kind) and STANDARD.get(function, function) is callee:
                return record
    return callee
