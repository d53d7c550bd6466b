"""Conditions that are known while compiling: those of constants, dtypes and captured numbers alone."""

from __future__ import annotations

import ast
import enum
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from kaio.dsl import symbols
from kaio.dsl.compiler.check.scope import Scope
from kaio.dtypes import DType

__all__ = ["UNDECIDED", "condition", "is_compile_time", "loops_at_least_once"]

_PARTS = (
    ast.BoolOp, ast.UnaryOp, ast.BinOp, ast.Compare, ast.Constant, ast.Name,
    ast.boolop, ast.unaryop, ast.operator, ast.cmpop, ast.expr_context,
)  # fmt: skip

UNDECIDED = None
"""A condition that depends on values of the launch."""


def is_compile_time(scope: Scope, node: ast.expr, known: Mapping[str, Any] | None = None) -> bool:
    """Whether the condition holds or fails for a whole specialisation, whose constants `known` are."""
    return all(_is_known(scope, part, known or {}) for part in ast.walk(node))


def _is_known(scope: Scope, node: ast.AST, known: Mapping[str, Any]) -> bool:
    if isinstance(node, ast.Attribute):  # a member, or what a constant one holds
        holds = node.attr == "value" and isinstance(node.value, ast.Name) and node.value.id in scope.consts
        return holds or isinstance(scope.value_of(node), enum.Enum)
    if not isinstance(node, ast.Name):
        return isinstance(node, _PARTS)
    if scope.is_local(node.id):
        return node.id in scope.consts or (node.id in known and node.id not in scope.stores)
    found = scope.lookup(node.id)
    return isinstance(found, DType | TypeVar | int | float | str | enum.EnumType | None)


def condition(scope: Scope, node: ast.expr, known: Mapping[str, Any] | None) -> bool | None:
    """The value of a condition, `UNDECIDED` where it is not known. `known` are a specialisation's constants."""
    if isinstance(node, ast.Constant):
        return bool(node.value)
    if known is None or not is_compile_time(scope, node, known):
        return UNDECIDED
    try:
        return bool(_value(node, lambda name: known[name] if name in known else scope.lookup(name)))
    except Exception:  # for example a division by zero: it is found where it is typed
        return UNDECIDED


def _value(node: ast.expr, meaning: Callable[[str], Any]) -> Any:
    """The value of an expression of constants."""
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return meaning(name)
        case ast.Attribute(value=owner, attr=name):
            return getattr(_value(owner, meaning), name)
        case ast.UnaryOp(op=op, operand=operand):
            return symbols.UNARY[symbols.OF_SYNTAX[type(op)]](_value(operand, meaning))
        case ast.BinOp(left=left, op=op, right=right):
            return symbols.apply(symbols.OF_SYNTAX[type(op)], _value(left, meaning), _value(right, meaning))
        case ast.BoolOp(op=op, values=values):
            stops_at = isinstance(op, ast.Or)
            return next((v for v in (_value(part, meaning) for part in values) if bool(v) is stops_at), not stops_at)
        case ast.Compare(left=left, ops=ops, comparators=others):
            sides = [_value(side, meaning) for side in (left, *others)]
            pairs = zip(ops, sides, sides[1:], strict=False)
            return all(symbols.apply(symbols.OF_SYNTAX[type(op)], a, b) for op, a, b in pairs)
    raise ValueError(f"`{ast.unparse(node)}` is not a constant")


def loops_at_least_once(node: ast.For) -> bool:
    """Whether the loop is over a range of literals that is not empty."""
    return _is_not_empty(node.iter)


def _is_not_empty(node: ast.expr) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="unrolled") | ast.Attribute(attr="unrolled"), args=[turns, *_]):
            return _is_not_empty(turns)
        case ast.Call(func=ast.Name(id="range"), args=args, keywords=[]) if 1 <= len(args) <= 3:
            numbers = [_literal(argument) for argument in args]
            known = [number for number in numbers if number is not None]
            return len(known) == len(numbers) and known[2:] != [0] and bool(range(*known))
        case ast.Tuple(elts=[_, *_]):
            return True
    return False


def _literal(node: ast.expr) -> int | None:
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(number))):
            return -number
    return None
