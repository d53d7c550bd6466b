"""`return`: a kernel gives no value, a device function gives one on every path or on none."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kaio.dsl.compiler.check.scope import Scope, is_irrefutable
from kaio.errors import Mistake

__all__ = ["check_returns"]


def check_returns(scope: Scope) -> Iterator[Mistake]:
    """The wrong `return` statements."""
    found = [node for node in scope.nodes if isinstance(node, ast.Return)]
    values = [node for node in found if not _is_none(node.value)]
    if scope.signature is not None:
        for node in values:
            yield scope.mistake("a kernel cannot return a value", node, "write it into a buffer annotated `Out[...]`")
        return
    if not values:
        return
    first = values[0]
    for node in found:
        if _is_none(node.value):
            what = f"`{scope.source.name}` returns a value in line {first.lineno}, and none here"
            yield scope.mistake(what, node, "return a value on every path")
    if _ends(scope.body):
        what = f"`{scope.source.name}` returns a value here, but can also reach its end without one"
        yield scope.mistake(what, first, f"add a `return` after line {scope.source.node.end_lineno}")


def _is_none(node: ast.expr | None) -> bool:
    return node is None or (isinstance(node, ast.Constant) and node.value is None)


def _ends(statements: list[ast.stmt]) -> bool:
    """Whether the end of the statements can be reached."""
    return not any(_stops(node) for node in statements)


def _stops(node: ast.stmt) -> bool:
    match node:
        case ast.Return() | ast.Raise() | ast.Break() | ast.Continue():
            return True
        case ast.If(test=ast.Constant(value=value)):
            return not _ends(node.body if value else node.orelse)
        case ast.If():
            return not _ends(node.body) and not _ends(node.orelse)
        case ast.While(test=ast.Constant(value=value)) if value:
            return not any(_breaks(child) for child in node.body)
        case ast.For() | ast.While():
            return not _ends(node.orelse) and not any(_breaks(child) for child in node.body)
        case ast.Match(cases=cases):
            last = cases[-1]
            takes_all = last.guard is None and is_irrefutable(last.pattern)
            return takes_all and not any(_ends(case.body) for case in cases)
        case ast.With():
            return not _ends(node.body)
    return False


def _breaks(node: ast.stmt | ast.match_case) -> bool:
    """Whether the statement holds a `break` of the loop around it."""
    if isinstance(node, ast.Break):
        return True
    if isinstance(node, ast.For | ast.While):
        return False
    return any(_breaks(child) for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt | ast.match_case))
