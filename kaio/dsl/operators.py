"""Operators of values that are not one number: each is a record, found by the types of its operands.

A kind of value (enums, complex numbers, vectors) adds its rule to `BINARY` or `UNARY`; inference asks them in turn.
"""

from __future__ import annotations

from collections.abc import Callable

from kaio.dsl.intrinsic import Intrinsic, Resolved
from kaio.dsl.values import Compound, EnumType, Type

__all__ = ["BINARY", "UNARY", "Found", "binary", "is_compound", "unary"]

Found = tuple[Intrinsic, Resolved]
"""The record of an operator, and what it means for these operands."""

BINARY: list[Callable[[str, Type, Type], Found | None]] = []
UNARY: list[Callable[[str, Type], Found | None]] = []


def is_compound(type_: Type) -> bool:
    """Whether the operators of a value are found here, not in `rules`."""
    return isinstance(type_, Compound | EnumType)


def binary(op: str, left: Type, right: Type) -> Found | None:
    """The record of `left op right`; None where no kind of value knows it, RuleError where one refuses it."""
    return next((found for rule in BINARY if (found := rule(op, left, right)) is not None), None)


def unary(op: str, operand: Type) -> Found | None:
    """The record of `op operand`, as `binary`."""
    return next((found for rule in UNARY if (found := rule(op, operand)) is not None), None)
