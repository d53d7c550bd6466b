"""parse: from a function to its `Source`.

Works wherever `linecache` has the text: files, notebooks, doctests, zip archives, and code from `exec` whose
author put its text there.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import sys
import time
import tokenize
import types
import warnings
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from kaio.errors import KernelSyntaxError, is_message
from kaio.source import Source

__all__ = ["parse"]

__tracebackhide__ = is_message

_IMPORTED_AT = time.time()


def parse(function: Any) -> Source:
    """The source of a plain Python function or lambda.

    Raises `KernelSyntaxError` when it is not one, when its text is not to be had, or when the text has changed
    since the function was made.
    """
    _check_is_plain_function(function)
    code: types.CodeType = function.__code__
    lines = _file_lines(function)
    is_lambda = code.co_name == "<lambda>"
    node = _find_lambda(function, lines) if is_lambda else _find_def(function, lines)
    first = code.co_firstlineno
    last = max(first, node.end_lineno or first)
    source = Source(
        function.__name__,
        function.__qualname__,
        shown_file(code.co_filename),
        code.co_filename,
        first,
        tuple(line.rstrip("\r\n") for line in lines[first - 1 : last]),
        node,  # type: ignore[arg-type]  # an `async def` is refused in the next line
    )
    if isinstance(node, ast.AsyncFunctionDef):
        raise KernelSyntaxError(
            f"`{source.name}` is an `async def`: code of a kernel cannot wait for anything",
            place=source.place(node),
            help="write `def`; what you await is the launch: `await kernel.over(...).launch(...)`",
        )
    return source


def _check_is_plain_function(function: Any) -> None:
    """Refuse everything that is not made by `def` or `lambda`, each with its own way out."""
    way_out = None
    match function:
        case types.FunctionType() if not hasattr(function, "__wrapped__"):
            return
        case types.FunctionType():
            what = f"`{function.__name__}` was wrapped by another decorator, which hides the function itself"
            way_out = "put kaio's decorator directly above the `def`, under the other one"
        case staticmethod() | classmethod():
            what = f"`{function.__name__}` is a {type(function).__name__}, not a function"
            way_out = "put kaio's decorator under it, directly above the `def`"
        case types.MethodType():
            what = f"`{function.__qualname__}` is a method, and a kernel has no `self`"
            way_out = "make it a function that takes what it needs as arguments"
        case type():
            what = f"`{function.__name__}` is a class, not a function"
        case types.BuiltinFunctionType():
            what = f"`{function.__name__}` is a built-in function, which has no Python source"
        case _:
            what = f"`{function!r}` is a value of type {type(function).__name__}, not a function"
    raise KernelSyntaxError(what, help=way_out or "give a function made by `def`")


# --- the text of the file ---------------------------------------------------------------------------------------------


def _file_lines(function: types.FunctionType) -> list[str]:
    filename = function.__code__.co_filename
    linecache.checkcache(filename)
    lines = linecache.getlines(filename, function.__globals__)
    if not lines:
        raise _no_text(function.__name__, filename)
    return lines


def _no_text(name: str, filename: str) -> KernelSyntaxError:
    if filename in ("<stdin>", "<string>"):  # the prompt, `python -`, `python -c`, `exec`
        return KernelSyntaxError(
            f"the source of `{name}` cannot be read: Python keeps no source here (`{filename}`)",
            help="put the kernel in a file, or use IPython or Jupyter",
        )
    return KernelSyntaxError(
        f"the source of `{name}` cannot be read: there is no text for `{filename}`",
        help="put the kernel in a file; a program that makes code puts its text into `linecache.cache` before",
    )


def shown_file(filename: str) -> str:
    """The file as users know it: a notebook's cell by its number, a path inside the working directory relative."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    cells: dict[str, int] = getattr(getattr(shell, "compile", None), "_filename_map", {})
    if filename in cells:
        return f"Cell In[{cells[filename]}]"
    try:
        here = Path.cwd()
    except OSError:  # the working directory was removed
        return filename
    return str(Path(filename).relative_to(here)) if Path(filename).is_relative_to(here) else filename


def _changed(function: types.FunctionType) -> KernelSyntaxError:
    code = function.__code__
    return KernelSyntaxError(
        f"the source of `{function.__name__}` is no longer what runs: line {code.co_firstlineno} of "
        f"`{shown_file(code.co_filename)}` has changed since the function was made",
        help="import the module again (`importlib.reload`), or restart Python",
    )


# --- the def ----------------------------------------------------------------------------------------------------------


def _find_def(function: types.FunctionType, lines: list[str]) -> ast.FunctionDef | ast.AsyncFunctionDef:
    """The `def` that starts at the code's first line.

    An indented one is parsed inside an `if`, so that no text is moved and columns are the file's own.
    """
    code = function.__code__
    first = code.co_firstlineno
    try:
        block = inspect.getblock(lines[first - 1 :])
        is_indented = block[0][:1].isspace()
        text = "".join((["if 1:\n"] if is_indented else []) + block)
        body = _parse_text(text).body
    except (SyntaxError, IndexError, ValueError, tokenize.TokenError):
        raise _changed(function) from None
    if body and isinstance(body[0], ast.If) and is_indented:
        body = body[0].body
    node = body[0] if body else None
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or not _fits(node, code, first, is_indented):
        raise _changed(function)
    ast.increment_lineno(node, first - 1 - is_indented)
    has_assert = any(isinstance(inner, ast.Assert) for inner in ast.walk(node))
    if not has_assert and _is_newer_and_different(function, lines):
        raise _changed(function)
    return node


def _parse_text(text: str) -> ast.Module:
    with warnings.catch_warnings():  # they were given when the function was first compiled
        warnings.simplefilter("ignore")
        return ast.parse(text)


def _fits(node: ast.FunctionDef | ast.AsyncFunctionDef, code: types.CodeType, first: int, is_indented: bool) -> bool:
    """Whether the text's name, parameters and length are the code's."""
    arguments = node.args
    names = [a.arg for a in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]]
    made = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    last = max((line for _, _, line in code.co_lines() if line is not None), default=first)
    return (
        node.name == code.co_name
        and len(names) == len(made)
        and all(made_name.endswith(name) for name, made_name in zip(names, made, strict=True))  # `__x` in a class
        and last <= (node.end_lineno or 0) + first - 1 - is_indented
    )


def _is_newer_and_different(function: types.FunctionType, lines: list[str]) -> bool:
    """Whether a file that was written after kaio was imported compiles to other code than the function has.

    The whole file is compiled, since its imports are part of how Python compiles a call. Only such a file is compared,
    and no function with `assert`: import hooks (pytest's) make other code of the same text.
    """
    code = function.__code__
    try:
        if Path(code.co_filename).stat().st_mtime <= _IMPORTED_AT:
            return False
        module = compile("".join(lines), code.co_filename, "exec", dont_inherit=True)
    except (OSError, SyntaxError, ValueError):
        return False
    found = [c for c in _code_objects(module) if (c.co_name, c.co_firstlineno) == (code.co_name, code.co_firstlineno)]
    return len(found) == 1 and _essence(found[0]) != _essence(code)


def _code_objects(code: types.CodeType) -> Iterator[types.CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield constant
            yield from _code_objects(constant)


def _essence(code: types.CodeType) -> tuple[Any, ...]:
    """What a code object does, without where it stands."""
    constants = tuple(_essence(c) if isinstance(c, types.CodeType) else repr(c) for c in code.co_consts)
    return code.co_code, constants, code.co_names, code.co_varnames, code.co_freevars


# --- lambdas ----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=8)
def _parse_file(text: str) -> ast.Module:
    return _parse_text(text)


def _find_lambda(function: types.FunctionType, lines: list[str]) -> ast.Lambda:
    """The `lambda` of the file that made the function; of several on a line, the one with the code's columns."""
    code = function.__code__
    try:
        tree = _parse_file("".join(lines))
    except (SyntaxError, ValueError):
        raise _changed(function) from None
    parameters = list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
    found = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Lambda) and node.lineno == code.co_firstlineno and _parameters(node) == parameters
    ]
    if len(found) > 1:
        start, stop = _extent(code)
        if start < stop:
            found = [node for node in found if _start(node.body) <= start and stop <= _stop(node.body)]
            found.sort(key=lambda node: (_start(node.body), _stop(node.body)), reverse=True)  # the innermost first
        else:
            found = [node for node in found if _is_made_by(code, node)]
            if len({ast.dump(node) for node in found}) != 1:
                raise KernelSyntaxError(
                    f"which lambda is meant cannot be told: there are several in line {code.co_firstlineno} of "
                    f"`{shown_file(code.co_filename)}`, and Python was told to keep no columns",
                    help="put each on a line of its own, or run Python without `-X no_debug_ranges`",
                )
    if not found:
        raise _changed(function)
    return found[0]


def _is_made_by(code: types.CodeType, node: ast.Lambda) -> bool:
    """Whether the lambda compiles to the code (never true of a closure). Constants have no columns in Python 3.12."""
    outer = compile(ast.Expression(node), code.co_filename, "eval", dont_inherit=True)
    return any(isinstance(c, types.CodeType) and _essence(c) == _essence(code) for c in outer.co_consts)


def _parameters(node: ast.Lambda) -> list[str]:
    return [a.arg for a in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]]


def _start(node: ast.expr) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _stop(node: ast.expr) -> tuple[int, int]:
    return node.end_lineno or 0, node.end_col_offset or 0


def _extent(code: types.CodeType) -> tuple[tuple[int, int], tuple[int, int]]:
    """First and last position of the code's instructions (those that the compiler added have no columns)."""
    spans = [
        ((line, column), (end_line, end_column))
        for line, end_line, column, end_column in code.co_positions()
        if line and end_line and column is not None and end_column
    ]
    nowhere = (0, 0)
    return min((start for start, _ in spans), default=nowhere), max((stop for _, stop in spans), default=nowhere)
