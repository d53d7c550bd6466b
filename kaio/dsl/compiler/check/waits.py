"""Loops that wait for another thread and never see what it writes."""

from __future__ import annotations

import ast
import types
from collections.abc import Iterator

from kaio.dsl.compiler.check.scope import Scope
from kaio.dtypes import DType
from kaio.errors import Mistake

__all__ = ["check_waits"]

_PURE = {"abs", "bool", "float", "int", "len", "max", "min"}


def check_waits(scope: Scope) -> Iterator[Mistake]:
    """The loops that do nothing but test elements, which the compiler may then read once and for all."""
    for node in scope.nodes:
        if isinstance(node, ast.While) and all(_is_idle(scope, n) for n in node.body) and not _leaves(node.body):
            tests = [node.test, *(inner.test for inner in ast.walk(node) if isinstance(inner, ast.If))]
            element = next((part for test in tests for part in ast.walk(test) if _is_element(scope, part)), None)
            if element is not None and all(_stays(scope, test) for test in tests):
                yield _mistake(scope, element)


def _mistake(scope: Scope, element: ast.AST) -> Mistake:
    what = f"this loop waits for `{ast.unparse(element)}` to change, and reads it only once"
    if isinstance(element, ast.Call):
        args = [ast.unparse(arg) for arg in element.args]
    else:
        assert isinstance(element, ast.Subscript)
        args = [ast.unparse(element.value), ast.unparse(element.slice)]
    return scope.mistake(what, element, f"read it each time: `kaio.load({', '.join(args)}, volatile=True)`")


def _is_idle(scope: Scope, node: ast.stmt) -> bool:
    """Whether a statement changes nothing that a test could see."""
    match node:
        case ast.Pass() | ast.Break() | ast.Continue() | ast.Return(value=None):
            return True
        case ast.Expr(value=ast.Constant()):
            return True
        case ast.Expr(value=ast.Call(func=func)):
            return _kaio(scope, func) == "nanosleep"
        case ast.If(body=body, orelse=orelse):
            return all(_is_idle(scope, inner) for inner in [*body, *orelse])
    return False


def _leaves(statements: list[ast.stmt]) -> bool:
    """Whether they always leave the loop, which then has one turn."""
    return any(
        isinstance(node, ast.Break | ast.Return)
        or (isinstance(node, ast.If) and _leaves(node.body) and _leaves(node.orelse))
        for node in statements
    )


def _is_element(scope: Scope, node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return _is_plain_load(scope, node)
    return isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and scope.is_local(node.value.id)


def _stays(scope: Scope, test: ast.expr) -> bool:
    """Whether a test gives the same each time: it sets nothing, and calls nothing that reads anew."""
    for node in ast.walk(test):
        if isinstance(node, ast.NamedExpr):
            return False
        if isinstance(node, ast.Call) and not (_is_plain_load(scope, node) or _is_pure(scope, node.func)):
            return False
    return True


def _is_plain_load(scope: Scope, node: ast.Call) -> bool:
    """Whether it is `kaio.load`, and surely one that may be made once for all: neither volatile nor past the caches."""
    return _kaio(scope, node.func) == "load" and all(_is_plain_hint(keyword) for keyword in node.keywords)


def _is_plain_hint(keyword: ast.keyword) -> bool:
    value = keyword.value.value if isinstance(keyword.value, ast.Constant) else None
    if keyword.arg == "volatile":
        return value is False
    return keyword.arg in ("buffer", "index", "dtype") or (
        keyword.arg == "cache" and value is not None and value != "cv"
    )


def _is_pure(scope: Scope, func: ast.expr) -> bool:
    value = scope.value_of(func)
    return isinstance(value, DType) or (isinstance(value, types.BuiltinFunctionType | type) and _named(value) in _PURE)


def _kaio(scope: Scope, func: ast.expr) -> str | None:
    """The name of a function of kaio."""
    value = scope.value_of(func)
    return _named(value) if type(value).__module__.startswith("kaio.") else None


def _named(value: object) -> str | None:
    return getattr(value, "__name__", None) or getattr(value, "name", None)
