"""What the names in a function mean, as far as its text and its surroundings tell."""

from __future__ import annotations

import ast
import builtins
import enum
import linecache
import types
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeGuard

from kaio.dsl.types import BufferAnnotation, ConstAnnotation, EnumAnnotation, Signature
from kaio.errors import Mistake
from kaio.source import Source

__all__ = ["LATER", "UNKNOWN", "Scope", "is_irrefutable", "is_print", "names_set", "own_nodes", "stored_element"]

_LEFT_OUT = (
    ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda,
    ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Raise, ast.JoinedStr,
    ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop,
)  # fmt: skip


class _Unknown:
    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


UNKNOWN = _Unknown("UNKNOWN")
"""No such name."""
LATER = _Unknown("LATER")
"""A name that exists, with a value that is not known yet or not known at all."""


def own_nodes(*roots: ast.AST) -> Iterator[ast.AST]:
    """All nodes in source order.

    Left out are the insides of functions, classes, lambdas and comprehensions, which have names of their own, and of
    what is refused as a whole: one mistake is not told three times.
    """
    todo = list(reversed(roots))
    while todo:
        node = todo.pop()
        yield node
        if isinstance(node, ast.ExceptHandler):
            todo += reversed(node.body)
        elif is_print(node):
            todo += reversed([inner for child in ast.iter_child_nodes(node) for inner in _printed(child)])
        elif not isinstance(node, _LEFT_OUT):
            todo += reversed(list(ast.iter_child_nodes(node)))


def is_irrefutable(pattern: ast.pattern) -> bool:
    """Whether a pattern of `match` takes everything: `_` or a name."""
    match pattern:
        case ast.MatchAs(pattern=None):
            return True
        case ast.MatchAs(pattern=inner) if inner is not None:
            return is_irrefutable(inner)
        case ast.MatchOr(patterns=patterns):
            return any(map(is_irrefutable, patterns))
    return False


def is_print(node: ast.AST) -> TypeGuard[ast.Call]:
    """Whether a node is a call of `print`, whose arguments may be f-strings."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"


def _printed(node: ast.AST) -> list[ast.AST]:
    """An argument of `print`; of an f-string its values."""
    if not isinstance(node, ast.JoinedStr):
        return [node]
    return [part.value for part in node.values if isinstance(part, ast.FormattedValue)]


@dataclass(frozen=True, eq=False)
class Scope:
    """A function with the names that it can see. `signature` is None for a device function."""

    function: types.FunctionType
    source: Source
    signature: Signature | None

    @cached_property
    def body(self) -> list[ast.stmt]:
        """The statements; a lambda is one `return`."""
        node = self.source.node
        return [ast.copy_location(ast.Return(node.body), node.body)] if isinstance(node, ast.Lambda) else node.body

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """Every node of the body, in source order."""
        return tuple(own_nodes(*self.body))

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        """The parameters' names."""
        a = self.source.node.args
        starred = [x for x in (a.vararg, a.kwarg) if x is not None]
        return tuple(x.arg for x in [*a.posonlyargs, *a.args, *a.kwonlyargs, *starred])

    @cached_property
    def stores(self) -> dict[str, list[ast.AST]]:
        """The local variables, each with the nodes that set it, in source order."""
        found: dict[str, list[ast.AST]] = {}
        outer = {name for node in self.nodes if isinstance(node, ast.Global | ast.Nonlocal) for name in node.names}
        for node in self.nodes:
            for name in names_set(node):
                if name not in outer:
                    found.setdefault(name, []).append(node)
        return found

    @cached_property
    def buffers(self) -> dict[str, BufferAnnotation]:
        """The parameters that are buffers and stay so: those that are never assigned to."""
        return {p: a for p, a in self._annotations.items() if isinstance(a, BufferAnnotation) and p not in self.stores}

    @cached_property
    def consts(self) -> frozenset[str]:
        """The parameters that are constants of the compilation."""
        found = (p for p, a in self._annotations.items() if isinstance(a, ConstAnnotation) and p not in self.stores)
        return frozenset(found)

    @cached_property
    def enums(self) -> frozenset[str]:
        """The parameters that are members of an enum."""
        return frozenset(p for p, a in self._annotations.items() if isinstance(a, EnumAnnotation))

    @cached_property
    def _annotations(self) -> dict[str, Any]:
        return {p.name: p.annotation for p in self.signature.params} if self.signature else {}

    def is_local(self, name: str) -> bool:
        """Whether the name is a parameter or a variable of the function."""
        return name in self.stores or name in self.parameters

    def lookup(self, name: str) -> Any:
        """What a name that is not local stands for; `LATER` if it has no value yet; `UNKNOWN` if there is none."""
        code = self.function.__code__
        if name in code.co_freevars:
            cell = (self.function.__closure__ or ())[code.co_freevars.index(name)]
            try:
                return cell.cell_contents
            except ValueError:
                return LATER
        found = self.function.__globals__.get(name, getattr(builtins, name, UNKNOWN))
        return LATER if found is UNKNOWN and name in self._names_set_in_file else found

    def value_of(self, node: ast.AST) -> Any:
        """What a name, or a path through modules like `kaio.grid`, stands for; else `LATER` or `UNKNOWN`."""
        if isinstance(node, ast.Name):
            return LATER if self.is_local(node.id) else self.lookup(node.id)
        if isinstance(node, ast.Attribute):
            base = self.value_of(node.value)
            has_parts = isinstance(base, types.ModuleType) or (isinstance(base, type) and issubclass(base, enum.Enum))
            return getattr(base, node.attr, UNKNOWN) if has_parts else LATER
        return LATER

    @cached_property
    def _names_set_in_file(self) -> frozenset[str]:
        """The names that the file sets somewhere outside functions, perhaps below this one."""
        try:
            tree = ast.parse("".join(linecache.getlines(self.source.filename, self.function.__globals__)))
        except (SyntaxError, ValueError):
            return frozenset()
        return frozenset(name for node in own_nodes(tree) for name in names_set(node))

    def mistake(self, what: str, node: ast.AST, way_out: str | None = None) -> Mistake:
        """A mistake at a node."""
        return Mistake(what, self.source.place(node), way_out)


def stored_element(node: ast.AST) -> ast.Subscript | None:
    """The element, `x[i]`, of which a store sets a part: of `x[i].field`, `x[i].field[0]`; None of other stores."""
    if not isinstance(node, ast.Attribute | ast.Subscript) or not isinstance(node.ctx, ast.Store):
        return None
    inner: ast.AST = node.value
    found = None
    while isinstance(inner, ast.Attribute | ast.Subscript):
        found = inner
        inner = inner.value
    return found if isinstance(found, ast.Subscript) and isinstance(inner, ast.Name) else None


def names_set(node: ast.AST) -> Iterator[str]:
    """The names that this one node sets."""
    match node:
        case ast.Name(id=name, ctx=ast.Store()):
            yield name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            yield from (alias.asname or alias.name.split(".")[0] for alias in names)
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            yield name
        case ast.MatchMapping(rest=str(name)):
            yield name
