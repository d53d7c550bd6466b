"""Conditions that are known while compiling: those of constants, dtypes and captured numbers alone."""

from __future__ import annotations

import ast
import enum
from collections.abc import Mapping
from typing import Any, TypeVar

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
    return isinstance(found, DType | TypeVar | int | float | enum.EnumType | None)


def condition(scope: Scope, node: ast.expr, known: Mapping[str, Any] | None) -> bool | None:
    """The value of a condition, `UNDECIDED` where it is not known. `known` are a specialisation's constants."""
    if isinstance(node, ast.Constant):
        return bool(node.value)
    if known is None or not is_compile_time(scope, node, known):
        return UNDECIDED
    names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
    values = {name: known[name] if name in known else scope.lookup(name) for name in names}
    try:
        return bool(eval(compile(ast.Expression(node), scope.source.filename, "eval"), {"__builtins__": {}}, values))
    except Exception:  # for example a division by zero: it is found where it is typed
        return UNDECIDED


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
            return len(known) == len(numbers) and known[2:] != [0] and len(range(*known)) > 0
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
