"""The parts of Python that kernels do not have, each with a way out."""

from __future__ import annotations

import ast
import enum
import types
from collections.abc import Iterator
from typing import TypeGuard, TypeVar

from kaio.dsl import literals, rules, symbols
from kaio.dsl.annotated import is_annotation
from kaio.dsl.compiler.check.scope import LATER, UNKNOWN, Scope, is_print, stored_element
from kaio.dsl.function import Func
from kaio.dsl.intrinsic import Intrinsic
from kaio.dsl.rule_error import RuleError
from kaio.dtypes import DType
from kaio.errors import Mistake

__all__ = ["check_language"]

_OUTSIDE = "define it outside the kernel and call it by its name: plain functions compile as device functions"
_TUPLE = "a few values are a tuple `(a, b)`; an array of the thread is `kaio.local_mem(shape, dtype)`"

_REFUSED: dict[type[ast.AST], tuple[str, str]] = {
    ast.Raise: (
        "a kernel cannot `raise`",
        'write `assert condition, "text"`: it is checked on the CPU device, and on a GPU under `check="bounds"`',
    ),
    ast.Try: ("a kernel has no `try`: nothing in it raises", "test for the bad case before, with `if`"),
    ast.TryStar: ("a kernel has no `try`: nothing in it raises", "test for the bad case before, with `if`"),
    ast.With: ("a kernel has no `with`", "do it around the launch"),
    ast.AsyncWith: ("a kernel has no `async with`", "do it around the launch"),
    ast.AsyncFor: ("a kernel has no `async for`", "write `for i in range(n):`"),
    ast.Await: ("a kernel cannot `await`", "await the launch; threads of a block wait for each other in `bar_sync()`"),
    ast.Yield: ("a kernel cannot `yield`", "write each value into a buffer"),
    ast.YieldFrom: ("a kernel cannot `yield`", "write each value into a buffer"),
    ast.Lambda: ("a kernel cannot make a `lambda`", _OUTSIDE),
    ast.FunctionDef: ("a kernel cannot define a function", _OUTSIDE),
    ast.AsyncFunctionDef: ("a kernel cannot define a function", _OUTSIDE),
    ast.ClassDef: ("a kernel cannot define a class", "define it outside the kernel"),
    ast.Import: ("a kernel cannot import", "import at the top of the file"),
    ast.ImportFrom: ("a kernel cannot import", "import at the top of the file"),
    ast.Global: ("a kernel cannot set a global variable", "write into a buffer; reading a global needs no `global`"),
    ast.Nonlocal: ("a kernel cannot set a variable of the function around it", "write into a buffer"),
    ast.Set: ("a kernel has no sets", _TUPLE),
    ast.Dict: ("a kernel has no dicts", _TUPLE),
    ast.ListComp: ("a kernel has no list comprehensions", "fill a `kaio.local_mem(n, dtype)` array in a `for` loop"),
    ast.SetComp: ("a kernel has no set comprehensions", "fill a `kaio.local_mem(n, dtype)` array in a `for` loop"),
    ast.DictComp: ("a kernel has no dict comprehensions", "fill a `kaio.local_mem(n, dtype)` array in a `for` loop"),
    ast.GeneratorExp: ("a kernel has no generator expressions", "write a `for` loop"),
    ast.JoinedStr: (
        "a kernel has no strings",
        "print it, or store numbers in a buffer and format them after the launch",
    ),
    ast.Slice: (
        "a kernel indexes one element at a time",
        "use a number for each axis; slice before the launch: `x[1:3]` of a buffer is a view that copies nothing",
    ),
}

_MOST = 30
"""Values of a call or tuple that Python puts side by side; of more it makes a list while the program runs."""

_NO_STRINGS = (
    "a kernel has no strings",
    'a text may stand in a `print`, after `assert condition,`, and where a captured one decides: `if MODE == "fast":`',
)


def check_language(scope: Scope) -> Iterator[Mistake]:
    """The mistakes of grammar, in source order."""
    texts = _allowed_texts(scope)
    for node in scope.nodes:
        if type(node) in _REFUSED:
            yield scope.mistake(_REFUSED[type(node)][0], node, _REFUSED[type(node)][1])
            continue
        match node:
            case ast.Constant() if node not in texts:
                yield from _constant(scope, node)
            case ast.List() if isinstance(node.ctx, ast.Load):
                yield scope.mistake("a kernel has no lists", node, _instead_of_list(node))
            case ast.Starred() if isinstance(node.ctx, ast.Load):
                yield scope.mistake("a kernel has no `*` in calls and tuples", node, "write the values one by one")
            case ast.Starred():
                yield scope.mistake("a kernel cannot unpack into `*`", node, "name each item")
            case ast.Call() if len(node.args) + 2 * len(node.keywords) > _MOST:
                what = f"a call in a kernel takes at most {_MOST} values, of which one with a name counts twice"
                yield scope.mistake(what, node, "hand several over as a tuple or a record, or call it several times")
            case ast.Tuple(elts=elts) if isinstance(node.ctx, ast.Load) and len(elts) > _MOST and not _is_fixed(node):
                what = f"a tuple in a kernel has at most {_MOST} values, where they are not all literals"
                yield scope.mistake(what, node, "make a tuple of tuples, or a `kaio.local_mem(n, dtype)` array")
            case ast.Call():
                yield from _call(scope, node)
            case ast.For():
                yield from _for(scope, node)
            case ast.BinOp(op=ast.MatMult()) | ast.AugAssign(op=ast.MatMult()):
                yield scope.mistake("a kernel has no `@`", node, "write the sum as a `for` loop over the shared axis")
            case ast.BinOp():
                yield from _folded(scope, node)
            case ast.Compare():
                yield from _compare(scope, node)
            case ast.AnnAssign():
                yield from _annotated(scope, node)
            case ast.Delete():
                yield from _deleted(scope, node)
            case ast.pattern():
                yield from _pattern(scope, node)
            case ast.Attribute(ctx=ast.Store()) | ast.Subscript(ctx=ast.Store()) if stored_element(node):
                pass
            case ast.Subscript(ctx=ast.Store(), value=ast.Attribute()):
                what = f"a kernel cannot set `{ast.unparse(node)}`: `{ast.unparse(node.value)}` is fixed"
                yield scope.mistake(what, node, "set an element, `x[i] = value`, or a variable")
            case ast.Attribute(ctx=ast.Store()):
                what = f"a kernel cannot set the attribute `{ast.unparse(node)}`"
                yield scope.mistake(what, node, _instead_of_setting(scope, node))
            case ast.Subscript(slice=ast.Constant(value=None) | ast.Constant(value=True) | ast.Constant(value=False)):
                what = f"`{ast.unparse(node.slice)}` is not an index"
                yield scope.mistake(what, node.slice, "use a number for each axis")
            case ast.Expr():
                yield from _statement_without_effect(scope, node)
            case _ if type(node).__name__ == "TypeAlias":
                yield scope.mistake("a kernel cannot define a type", node, "define it outside the kernel")


def _is_fixed(node: ast.Tuple) -> bool:
    """Whether a tuple is made of literals alone, which Python makes one of."""
    return not any(isinstance(part, ast.Name | ast.Attribute | ast.Call | ast.Subscript) for part in ast.walk(node))


def _instead_of_list(node: ast.List) -> str:
    items = ", ".join(map(ast.unparse, node.elts))
    if not node.elts or len(items) > 40 or any(isinstance(item, ast.Starred) for item in node.elts):
        return _TUPLE
    return f"write a tuple, `({items}{',' * (len(node.elts) == 1)})`; an array is `kaio.local_mem(shape, dtype)`"


def _folded(scope: Scope, node: ast.BinOp) -> Iterator[Mistake]:
    """An operator of two bools, which Python adds up by its own rules before the compiler sees it."""
    left, right = (_number(side) for side in (node.left, node.right))
    if left is None or right is None or not (isinstance(left, bool) or isinstance(right, bool)):
        return
    try:
        rules.binary(symbols.OF_SYNTAX[type(node.op)], literals.literal(left), literals.literal(right))
    except RuleError as problem:
        yield scope.mistake(problem.what, node, problem.help)


def _number(node: ast.expr) -> bool | int | float | None:
    match node:
        case ast.Constant(value=bool() | int() | float() as value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return -value
    return None


def _allowed_texts(scope: Scope) -> set[ast.AST]:
    """Texts that stand where they may: documentation, messages of `assert`, names of shared memory."""
    found: set[ast.AST] = set()
    for node in scope.nodes:
        match node:
            case (
                ast.Expr(value=ast.Constant(value=str() | types.EllipsisType()) as text)
                | ast.Assert(msg=ast.Constant(value=str()) as text)
            ):
                found.add(text)
            case ast.Compare(left=left, comparators=others) if any(
                isinstance(scope.value_of(side), str) for side in (left, *others)
            ):  # of a captured text, which decides a branch while compiling
                found.update(_constants_in(left, *others))
            case ast.Match(subject=subject, cases=cases) if isinstance(scope.value_of(subject), str):
                found.update(_constants_in(*(case.pattern for case in cases)))
            case ast.Compare(ops=[ast.In() | ast.NotIn()], comparators=[ast.Constant() as told]):
                found.add(told)
            case ast.MatchMapping(keys=keys):
                found.update(keys)
            case ast.Call(func=ast.Attribute(value=ast.Constant(value=str())), args=args):
                found.update(_constants_in(*args))
            case ast.Call() if _is_told_elsewhere_or_takes_text(scope.value_of(node.func)):
                found.update(a for a in [*node.args, *(k.value for k in node.keywords)] if isinstance(a, ast.Constant))
                if is_print(node):
                    found.update(item for a in node.args if isinstance(a, ast.Tuple) for item in ast.walk(a))
    return found


def _constants_in(*roots: ast.AST) -> Iterator[ast.AST]:
    return (node for root in roots for node in ast.walk(root) if isinstance(node, ast.Constant))


def _is_told_elsewhere_or_takes_text(function: object) -> bool:
    return isinstance(function, Intrinsic) or getattr(function, "__module__", None) in ("builtins", "_io", "io")


def _constant(scope: Scope, node: ast.Constant) -> Iterator[Mistake]:
    match node.value:
        case str():
            yield scope.mistake(_NO_STRINGS[0], node, _NO_STRINGS[1])
        case bytes():
            yield scope.mistake("a kernel has no bytes", node, "use numbers, or pass a buffer of u8")
        case types.EllipsisType():
            yield scope.mistake("`...` is not a value", node, "use a number for each axis")


def _annotated(scope: Scope, node: ast.AnnAssign) -> Iterator[Mistake]:
    """`total: f32 = 0` is right; what annotates something else, or with something else, or sets nothing, is not."""
    target, annotation = ast.unparse(node.target), ast.unparse(node.annotation)
    value = "0" if node.value is None else ast.unparse(node.value)
    meant = scope.value_of(node.annotation)
    is_const = isinstance(node.annotation, ast.Name) and node.annotation.id in scope.parameters
    if not isinstance(node.target, ast.Name):
        yield scope.mistake(
            f"`{target}` takes no annotation: only a variable does", node, f"write `{target} = {value}`"
        )
    elif not (is_annotation(meant) or isinstance(meant, TypeVar) or is_const or meant in (UNKNOWN, LATER)):
        what = f"a variable of a kernel is annotated with a dtype (got `{annotation}`)"
        yield scope.mistake(
            what, node.annotation, f"for example `{target}: f32 = {value}`, or leave the annotation out"
        )
    elif node.value is None:
        what = f"`{target}: {annotation}` sets nothing"
        yield scope.mistake(what, node, f"give it a first value: `{target}: {annotation} = 0`")


def _deleted(scope: Scope, node: ast.Delete) -> Iterator[Mistake]:
    for target in node.targets:
        if not isinstance(target, ast.Name):
            what = f"a kernel cannot delete `{ast.unparse(target)}`"
            yield scope.mistake(what, target, "a buffer keeps its elements; set one to a value that means nothing")


def _pattern(scope: Scope, node: ast.pattern) -> Iterator[Mistake]:
    """A `match` of a kernel is over numbers and constants."""
    match node:
        case ast.MatchSequence() | ast.MatchStar():
            yield scope.mistake("a kernel matches no sequences", node, "match one number, or write `if` and `elif`")
        case ast.MatchMapping():
            yield scope.mistake("a kernel has no dicts to match", node, "match one number, or write `if` and `elif`")
        case ast.MatchClass(cls=cls):
            what = f"a kernel does not match by class: `{ast.unparse(cls)}(...)`"
            yield scope.mistake(what, node, "the type of a value is known when compiling; match its value")


def _call(scope: Scope, node: ast.Call) -> Iterator[Mistake]:
    for keyword in node.keywords:
        if keyword.arg is None:
            what = f"a kernel has no `**` in calls: `**{ast.unparse(keyword.value)}`"
            yield scope.mistake(what, keyword.value, "write the arguments one by one")
    if is_print(node):
        yield from _print(scope, node)


def _print(scope: Scope, node: ast.Call) -> Iterator[Mistake]:
    """It is a statement of its own, and the formats of f-strings are texts: a kernel does not compute them."""
    if not any(isinstance(statement, ast.Expr) and statement.value is node for statement in scope.nodes):
        yield scope.mistake("`print` gives no value", node, "print in a statement of its own")
        return
    strings = [argument for argument in node.args if isinstance(argument, ast.JoinedStr)]
    for part in (part for string in strings for part in string.values):
        match part:
            case ast.FormattedValue(format_spec=ast.JoinedStr(values=values)) if len(values) != 1 or not isinstance(
                values[0], ast.Constant
            ):
                shown = ast.unparse(ast.JoinedStr([part]))[2:-1]
                what = f"the format of `{shown}` is not known when compiling"
                yield scope.mistake(what, part.value, f"write it out, for example `{{{ast.unparse(part.value)}:8.3f}}`")


def _for(scope: Scope, node: ast.For) -> Iterator[Mistake]:
    if _is_iterable(scope, node.iter):
        if not isinstance(node.target, ast.Name | ast.Tuple):
            what = f"a loop of a kernel sets variables, not `{ast.unparse(node.target)}`"
            yield scope.mistake(what, node.target, "write `for i in range(n):`, and store `i` in the body")
        elif isinstance(node.target, ast.Tuple) and _is_range(scope, node.iter):
            yield scope.mistake("a loop over a range sets one variable", node.target, "write `for i in range(n):`")
    elif type(node.iter) not in (*_REFUSED, ast.List):
        what = f"a kernel loops over `range(...)` or a tuple, not over `{ast.unparse(node.iter)}`"
        yield scope.mistake(what, node.iter, _instead_of_iterating(scope, node))


def _is_iterable(scope: Scope, node: ast.expr) -> bool:
    """Whether the text does not show that a loop cannot go over it."""
    match node:
        case ast.Tuple(elts=elts):
            return bool(elts)
        case ast.Name(id=name) if scope.is_local(name):
            return name not in scope.buffers and name not in scope.consts
        case ast.Call():
            return _is_range(scope, node) or isinstance(scope.value_of(node.func), types.FunctionType | Func)
        case ast.Attribute(attr="shape") | ast.Attribute(value=ast.Subscript()):  # a struct's array is a tuple
            return True
        case ast.Attribute(value=value) | ast.Subscript(value=value) if _is_iterable(scope, value):
            return True
    return isinstance(scope.value_of(node), tuple)


def _instead_of_setting(scope: Scope, node: ast.Attribute) -> str:
    if isinstance(node.value, ast.Name) and scope.is_local(node.value.id) and node.value.id not in scope.buffers:
        copy = f"`{node.value.id}` holds a copy, which does not change"
        return f"{copy}: set the field of an element, `x[i].{node.attr} = value`, or make a new value"
    return "set an element, `x[i] = value`, or a variable"


def _is_range(scope: Scope, node: ast.expr) -> bool:
    """`range(...)`, or one argument of a kaio function around it, as in `unrolled(range(4))`."""
    if not isinstance(node, ast.Call):
        return False
    if isinstance(scope.value_of(node.func), Intrinsic) and 1 <= len(node.args) <= 2:
        return _is_range(scope, node.args[0])
    return scope.value_of(node.func) is range


def _instead_of_iterating(scope: Scope, node: ast.For) -> str:
    target = ast.unparse(node.target)
    match node.iter:
        case ast.Name(id=name) if name in scope.buffers:
            return f"write `for i in range({name}.size):` and `{target} = {name}[i]`"
        case ast.Call(func=ast.Name(id="enumerate"), args=[ast.Name(id=name)]) if name in scope.buffers:
            index, value = map(ast.unparse, node.target.elts) if _is_pair(node.target) else ("i", "v")
            return f"write `for {index} in range({name}.size):` and `{value} = {name}[{index}]`"
        case ast.Tuple():
            return "leave the loop out: an empty tuple has no items"
        case ast.Call(func=ast.Name(id="reversed"), args=[ast.Call(func=ast.Name(id="range"))]):
            return "count down: `range(n - 1, -1, -1)`"
    return f"write `for {target if isinstance(node.target, ast.Name) else 'i'} in range(n):`"


def _is_pair(node: ast.expr) -> TypeGuard[ast.Tuple]:
    return isinstance(node, ast.Tuple) and len(node.elts) == 2


def _compare(scope: Scope, node: ast.Compare) -> Iterator[Mistake]:
    left = node.left
    for op, right in zip(node.ops, node.comparators, strict=True):
        match op:
            case ast.Is() | ast.IsNot() if not (_is_identity(scope, left) or _is_identity(scope, right)):
                word, sign = ("is", "==") if isinstance(op, ast.Is) else ("is not", "!=")
                what = f"`{word}` compares objects, and a kernel has numbers"
                yield scope.mistake(what, node, f"write `{ast.unparse(left)} {sign} {ast.unparse(right)}`")
            case ast.In() | ast.NotIn() if not _may_be_tuple(scope, right):
                word = "in" if isinstance(op, ast.In) else "not in"
                what = f"`{word}` of a kernel looks into a tuple, not into `{ast.unparse(right)}`"
                yield scope.mistake(what, node, _instead_of_in(scope, op, left, right))
        left = right


def _is_identity(scope: Scope, node: ast.expr) -> bool:
    """Whether the operand is something that `is` may be asked of: None, a dtype, a compile-time constant."""
    match node:
        case ast.Constant(value=None) | ast.Attribute(attr="dtype"):
            return True
        case ast.Name(id=name) if name in scope.consts or name in scope.enums:
            return True
    return isinstance(scope.value_of(node), DType | TypeVar | enum.Enum)


def _may_be_tuple(scope: Scope, node: ast.expr) -> bool:
    match node:
        case ast.List() | ast.Set():  # refused as what they are
            return True
        case ast.Name(id=name) if scope.is_local(name):
            return name not in scope.buffers
        case ast.Tuple() | ast.Attribute(attr="shape"):
            return True
        case ast.Call():
            return isinstance(scope.value_of(node.func), types.FunctionType | Func)
    return isinstance(scope.value_of(node), tuple)


def _instead_of_in(scope: Scope, op: ast.cmpop, left: ast.expr, right: ast.expr) -> str:
    name = ast.unparse(left)
    if isinstance(right, ast.Call) and ast.unparse(right.func) == "range" and len(right.args) <= 2:
        low, high = ["0", *map(ast.unparse, right.args)][-2:]
        inside = f"{low} <= {name} < {high}"
        return f"write `{inside}`" if isinstance(op, ast.In) else f"write `not {inside}`"
    if isinstance(right, ast.Name) and right.id in scope.buffers:
        return "loop over its elements and compare with each"
    return f"write the values as a tuple: `{name} {'in' if isinstance(op, ast.In) else 'not in'} (a, b)`"


def _statement_without_effect(scope: Scope, node: ast.Expr) -> Iterator[Mistake]:
    match node.value:
        case ast.Name() | ast.Attribute() if isinstance(scope.value_of(node.value), Intrinsic):
            text = ast.unparse(node)
            yield scope.mistake(f"`{text}` alone does nothing", node, f"call it: `{text}()`")
        case ast.Compare(left=left, ops=[ast.Eq()], comparators=[right]):
            what = "this comparison is not used"
            yield scope.mistake(what, node, f"to store the value write `{ast.unparse(left)} = {ast.unparse(right)}`")
        case (
            ast.Name() | ast.Attribute() | ast.Compare() | ast.BinOp() | ast.UnaryOp() | ast.BoolOp() | ast.Subscript()
        ):
            yield scope.mistake("this value is not used", node, "store it in a variable or an element, or take it out")
