"""Python's operators by their symbol, as functions of Python."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

__all__ = ["BINARY", "MAX_BITS", "OF_SYNTAX", "UNARY", "apply"]

BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
    "%": operator.mod, "**": operator.pow, "<<": operator.lshift, ">>": operator.rshift, "&": operator.and_,
    "|": operator.or_, "^": operator.xor, "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le,
    ">": operator.gt, ">=": operator.ge, "is": operator.is_, "is not": operator.is_not,
    "in": operator.contains,  # its operands the other way round
}  # fmt: skip
UNARY: dict[str, Callable[[Any], Any]] = {
    "-": operator.neg, "+": operator.pos, "~": operator.invert, "not": operator.not_,
}  # fmt: skip

OF_SYNTAX: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.LShift: "<<", ast.RShift: ">>", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^",
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
    ast.Is: "is", ast.IsNot: "is not", ast.USub: "-", ast.UAdd: "+", ast.Invert: "~", ast.Not: "not",
}  # fmt: skip

_TOO_LARGE = "the result is too large for any type of kaio"
MAX_BITS = 4096  # beyond this an int that the compiler computes is a mistake, not a number


def apply(op: str, a: Any, b: Any) -> Any:
    """`a op b` as the compiler computes it: never what takes forever or all memory, such as `10 ** 10 ** 10`."""
    both_int = isinstance(a, int) and isinstance(b, int)
    if both_int and (
        (op in ("**", "<<") and b > 0 and a.bit_length() * b > MAX_BITS)
        or (op == "*" and a.bit_length() + b.bit_length() > MAX_BITS)
    ):
        raise OverflowError(_TOO_LARGE)
    if op in ("*", "%", "+") and (
        isinstance(a, str | bytes | tuple | list) or isinstance(b, str | bytes | tuple | list)
    ):
        raise TypeError("texts and tuples have no arithmetic in a kernel")
    try:
        return BINARY[op](a, b)
    except OverflowError:
        raise OverflowError(_TOO_LARGE) from None
