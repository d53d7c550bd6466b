"""Statements whose bytecode does not say all that they mean, as others that do.

Python compiles `acc: f32 = 0` as `acc = 0`; here it becomes a call of the record `annotated`, under a name that no
program can write. An f-string in a `print` becomes the tuple that the record of `print` reads. Expressions are shared
with the source's tree, not copied: they may nest deeper than Python recurses.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Mapping
from typing import Any, TypeVar

from kaio.dsl.annotated import annotated
from kaio.dsl.compiler.check.scope import is_print
from kaio.dsl.printing import F_STRING, SPEC

__all__ = ["NAMES", "desugar"]

N = TypeVar("N", bound=ast.AST)

_DESUGARED = ast.AnnAssign | ast.Delete | ast.JoinedStr
_ANNOTATED = "kaio.annotated"

NAMES: Mapping[str, Any] = {_ANNOTATED: annotated}
"""What the names in desugared code stand for."""

_MOST = 14
"""Parts of an f-string in one tuple: of a tuple of more than 30 items, two of a part, Python makes a list first."""


def desugar(statements: list[ast.stmt]) -> list[ast.stmt]:
    """The statements in simpler ones; the same list where there is nothing to do."""
    if not any(isinstance(node, _DESUGARED) for root in statements for node in ast.walk(root)):
        return statements
    new = [_statement(node) for node in statements]
    return new if any(a is not b for a, b in zip(new, statements, strict=True)) else statements


def _statement(node: ast.stmt) -> ast.stmt:
    match node:
        case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation, value=ast.expr() as value):
            function = _at(ast.Name(_ANNOTATED, ast.Load()), node)
            call = _at(ast.Call(function, [annotation, value, _at(ast.Constant(name), node)], []), node)
            return _at(ast.Assign([node.target], call), node)
        case ast.Expr(value=value) if is_print(value):
            return _with_f_strings_as_tuples(node, value)
        case ast.Delete(targets=targets) if all(isinstance(target, ast.Name) for target in targets):
            return _at(ast.Pass(), node)
        case ast.FunctionDef() | ast.ClassDef():
            return node
        case ast.Match(cases=cases):
            bodies = [desugar(case.body) for case in cases]
            if any(new is not case.body for new, case in zip(bodies, cases, strict=True)):
                made = [ast.match_case(c.pattern, c.guard, body) for c, body in zip(cases, bodies, strict=True)]
                return _at(ast.Match(node.subject, made), node)
    return _with_blocks(node)


def _with_f_strings_as_tuples(node: ast.stmt, printed: ast.Call) -> ast.stmt:
    if not any(isinstance(argument, ast.JoinedStr) for argument in printed.args):
        return node
    call = copy.copy(printed)
    call.args = [_as_tuple(a) if isinstance(a, ast.JoinedStr) else a for a in printed.args]
    return _at(ast.Expr(call), node)


def _as_tuple(string: ast.JoinedStr) -> ast.Tuple:
    """`f"{x:.2f} m"` as `(F_STRING, x, SPEC + "-.2f", " m")`; before the format stands the conversion, `r` of `!r`."""
    if len(string.values) > _MOST:
        starts = range(0, len(string.values), _MOST)
        parts = [_at(ast.JoinedStr(string.values[start : start + _MOST]), string) for start in starts]
        return _at(ast.Tuple([_at(ast.Constant(F_STRING), string), *map(_as_tuple, parts)], ast.Load()), string)
    items: list[ast.expr] = [_at(ast.Constant(F_STRING), string)]
    for part in string.values:
        if not isinstance(part, ast.FormattedValue):
            items.append(part)
            continue
        items.append(part.value)
        conversion, spec = "-" if part.conversion < 0 else chr(part.conversion), ""
        match part.format_spec:
            case ast.JoinedStr(values=[ast.Constant(value=str() as spec)]):
                pass
        if conversion != "-" or spec:
            items.append(_at(ast.Constant(SPEC + conversion + spec), string))
    return _at(ast.Tuple(items, ast.Load()), string)


def _with_blocks(node: ast.stmt) -> ast.stmt:
    """An `if` or a loop with its blocks desugared."""
    blocks = {
        field: getattr(node, field) for field in ("body", "orelse") if isinstance(getattr(node, field, None), list)
    }
    new = {field: desugar(block) for field, block in blocks.items()}
    if all(new[field] is blocks[field] for field in blocks):
        return node
    return _at(type(node)(**{**dict(ast.iter_fields(node)), **new}), node)


def _at(made: N, like: ast.AST) -> N:
    return ast.copy_location(made, like)
