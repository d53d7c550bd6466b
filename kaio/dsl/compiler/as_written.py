"""The function as its source says it: what runs may have been rewritten (pytest rewrites `assert` in test modules)."""

from __future__ import annotations

import ast
import copy
import sys
import types

from kaio.source import Source

__all__ = ["as_written"]


def as_written(function: types.FunctionType, source: Source) -> types.FunctionType:
    """The function compiled from its source: what runs may have been rewritten (pytest rewrites `assert`)."""
    code = function.__code__
    node = copy.deepcopy(source.node)
    nothing = ast.Constant(None)
    node.args.defaults = [nothing] * len(node.args.defaults)
    node.args.kw_defaults = [default and nothing for default in node.args.kw_defaults]
    for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
        argument.annotation = None
    statement: ast.stmt = ast.Return(node) if isinstance(node, ast.Lambda) else _bare(node)
    closure = ast.arguments([], [ast.arg(name) for name in code.co_freevars], None, [], [], None, [])
    factory = ast.FunctionDef("factory", closure, [statement], [], None)
    if sys.version_info >= (3, 12):
        factory.type_params = []
    module = compile(ast.fix_missing_locations(ast.Module([factory], [])), code.co_filename, "exec", dont_inherit=True)
    inner = _code_inside(_code_inside(module)).replace(co_name=code.co_name)
    cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
    made = types.FunctionType(
        inner,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        tuple(cells[n] for n in inner.co_freevars),
    )
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def _bare(node: ast.FunctionDef) -> ast.FunctionDef:
    # Under another name, since inside the factory its own would be a closure variable that it calls itself by.
    node.name, node.decorator_list, node.returns = "inner", [], None
    if sys.version_info >= (3, 12):
        node.type_params = []
    return node


def _code_inside(code: types.CodeType) -> types.CodeType:
    return next(constant for constant in code.co_consts if isinstance(constant, types.CodeType))
