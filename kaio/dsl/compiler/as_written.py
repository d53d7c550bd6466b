"""The function as its source says it: what runs may have been rewritten (pytest rewrites `assert` in test modules)."""

from __future__ import annotations

import ast
import sys
import types

from kaio.dsl.compiler.desugar import NAMES, desugar
from kaio.source import Source

__all__ = ["as_written"]


def as_written(function: types.FunctionType, source: Source) -> types.FunctionType:
    """The function compiled from its source, with the globals, cells and defaults of the one that was made.

    The body is shared with the source's tree, not copied: that would recurse as deep as its expressions nest.
    """
    code = function.__code__
    outer = [*code.co_freevars, *NAMES]
    factory = _def("factory", [ast.arg(name) for name in outer], [_statement(source.node)])
    outside: ast.stmt = factory
    owner = _class_around(source.qualified_name)
    if owner is not None:  # names like `__x` are mangled with the name of the class
        outside = ast.ClassDef(owner, [], [], [factory], [])
        if sys.version_info >= (3, 12):
            outside.type_params = []
    _place(outside, source.node)
    module = compile(ast.Module([outside], []), code.co_filename, "exec", dont_inherit=True)
    inner = _code_inside(_code_inside(module))
    inner = (inner if owner is None else _code_inside(inner)).replace(co_name=code.co_name)
    cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
    cells |= {name: types.CellType(value) for name, value in NAMES.items()}
    closure = tuple(cells[name] for name in inner.co_freevars)
    made = types.FunctionType(inner, function.__globals__, function.__name__, function.__defaults__, closure)
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def _statement(node: ast.FunctionDef | ast.Lambda) -> ast.stmt:
    """The function alone, in a statement: without decorators, annotations and defaults, which are not run again."""
    if isinstance(node, ast.Lambda):
        return ast.Return(ast.Lambda(_bare(node.args), node.body))
    # Under a name that nothing in it can have, which would be a closure variable of the factory.
    return _def(".inner", _bare(node.args), desugar(node.body))


def _def(name: str, args: list[ast.arg] | ast.arguments, body: list[ast.stmt]) -> ast.FunctionDef:
    arguments = ast.arguments([], args, None, [], [], None, []) if isinstance(args, list) else args
    made = ast.FunctionDef(name, arguments, body, [], None)
    if sys.version_info >= (3, 12):
        made.type_params = []
    return made


def _bare(arguments: ast.arguments) -> ast.arguments:
    def names(given: list[ast.arg]) -> list[ast.arg]:
        return [ast.arg(argument.arg) for argument in given]

    return ast.arguments(
        names(arguments.posonlyargs),
        names(arguments.args),
        arguments.vararg,
        names(arguments.kwonlyargs),
        [default and ast.Constant(None) for default in arguments.kw_defaults],
        arguments.kwarg,
        [ast.Constant(None) for _ in arguments.defaults],
    )


def _place(made: ast.AST, like: ast.AST) -> None:
    """Give the new nodes a place; those of the source have theirs."""
    if hasattr(made, "lineno") or isinstance(made, ast.expr_context):
        return
    ast.copy_location(made, like)
    for child in ast.iter_child_nodes(made):
        _place(child, like)


def _class_around(qualified_name: str) -> str | None:
    """The class whose body a function was written in."""
    outer = qualified_name.split(".")[:-1]
    return outer[-1] if outer and outer[-1] != "<locals>" else None


def _code_inside(code: types.CodeType) -> types.CodeType:
    return next(constant for constant in code.co_consts if isinstance(constant, types.CodeType))
