"""Definite assignment: every variable that is read was set on every path to there.

A path carries two sets of names: those that are set for certain, and those that may be. A loop needs one walk: going
round it again can only add names. A condition of compile-time constants is taken both ways at decoration, and one way
when a specialisation gives the constants.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kaio.dsl.compiler.check.constant import UNDECIDED, condition, is_compile_time, loops_at_least_once
from kaio.dsl.compiler.check.scope import Scope, is_irrefutable, names_set, own_nodes
from kaio.errors import Mistake

__all__ = ["check_assigned"]


@dataclass(frozen=True)
class _Path:
    """What is set at one point; None in place of it means that the point is never reached."""

    surely: frozenset[str]
    maybe: frozenset[str]

    def set(self, names: Iterable[str]) -> _Path:
        return _Path(self.surely | frozenset(names), self.maybe | frozenset(names))

    def without(self, names: Iterable[str]) -> _Path:
        return _Path(self.surely - frozenset(names), self.maybe - frozenset(names))


@dataclass
class _Loop:
    breaks: list[_Path | None] = field(default_factory=list)
    continues: list[_Path | None] = field(default_factory=list)


def check_assigned(scope: Scope, known: Mapping[str, Any] | None = None) -> Iterator[Mistake]:
    """The variables that may be read before they are set, each once, in source order."""
    walk = _Walk(scope, known)
    walk.block(scope.body, _Path(frozenset(), frozenset()))
    yield from walk.mistakes


def _join(paths: Iterable[_Path | None]) -> _Path | None:
    reached = [path for path in paths if path is not None]
    if not reached:
        return None
    surely = frozenset.intersection(*(path.surely for path in reached))
    return _Path(surely, frozenset.union(*(path.maybe for path in reached)))


class _Walk:
    def __init__(self, scope: Scope, known: Mapping[str, Any] | None) -> None:
        self.scope = scope
        self.known = known
        self.mistakes: list[Mistake] = []
        self.loops: list[_Loop] = []
        self._reported: set[str] = set()
        self._has_walrus = any(isinstance(node, ast.NamedExpr) for node in scope.nodes)

    def block(self, statements: list[ast.stmt], path: _Path | None) -> _Path | None:
        for statement in statements:
            if path is None:  # what is never reached is not looked at
                return None
            path = self.statement(statement, path)
        return path

    def statement(self, node: ast.stmt, path: _Path) -> _Path | None:
        match node:
            case ast.If():
                return self._if(node, path)
            case ast.While():
                return self._while(node, path)
            case ast.For():
                return self._for(node, path)
            case ast.Break() | ast.Continue():
                if self.loops:
                    loop = self.loops[-1]
                    (loop.breaks if isinstance(node, ast.Break) else loop.continues).append(path)
                return None
            case ast.Match():
                return self._match(node, path)
            case ast.Return():
                self.reads(node, path)
                return None
            case ast.AugAssign():
                if isinstance(node.target, ast.Name):
                    self.read(node.target, path)
                path = self.reads(node.target, self.reads(node.value, path))
            case ast.Assign() | ast.Expr() | ast.Assert() | ast.AnnAssign():
                path = self.reads(node, path)
            case ast.Delete(targets=targets):
                for target in targets:
                    if isinstance(target, ast.Name):
                        self.read(target, path)
                        path = path.without([target.id])
                return path
        # All others are refused elsewhere; what they set counts as set, so that one mistake is not told twice.
        return path.set(self._names_set_in(node))

    def _if(self, node: ast.If, path: _Path) -> _Path | None:
        held, failed = self.condition(node.test, path)
        decided = condition(self.scope, node.test, self.known)
        then = self.block(node.body, held) if decided in (True, UNDECIDED) else None
        otherwise = self.block(node.orelse, failed) if decided in (False, UNDECIDED) else None
        joined = _join([then, otherwise])
        if joined and decided is UNDECIDED and self.known is None and is_compile_time(self.scope, node.test):
            return joined.set(joined.maybe - path.maybe)
        return joined

    def _while(self, node: ast.While, path: _Path) -> _Path | None:
        held, failed = self.condition(node.test, path)
        decided = condition(self.scope, node.test, self.known)
        loop = self._body(node.body, held if decided is not False else None)
        after = _Path(failed.surely, failed.maybe | self._names_set_in(node))
        return _join([*loop.breaks, self.block(node.orelse, None if decided is True else after)])

    def _for(self, node: ast.For, path: _Path) -> _Path | None:
        path = self.reads(node.target, self.reads(node.iter, path))
        loop = self._body(node.body, path.set(self._names_set_in(node.target)))
        if loops_at_least_once(node):
            after = _join(loop.continues)
        else:
            after = _Path(path.surely, path.maybe | self._names_set_in(node))
        return _join([*loop.breaks, self.block(node.orelse, after)])

    def _match(self, node: ast.Match, path: _Path) -> _Path | None:
        path = self.reads(node.subject, path)
        ends: list[_Path | None] = []
        for case in node.cases:
            held = failed = self.reads(case.pattern, path).set(self._names_set_in(case.pattern))
            if case.guard is not None:
                held, failed = self.condition(case.guard, held)
            ends.append(self.block(case.body, held))
            path = _Path(path.surely, failed.maybe)
            if case.guard is None and is_irrefutable(case.pattern):
                return _join(ends)
        return _join([*ends, path])

    def _body(self, body: list[ast.stmt], path: _Path | None) -> _Loop:
        """Walk a loop's body once; the way off its end counts as a `continue`."""
        self.loops.append(_Loop())
        end = self.block(body, path)
        loop = self.loops.pop()
        loop.continues.append(end)
        return loop

    def reads(self, root: ast.AST, path: _Path) -> _Path:
        """Note what an expression or a simple statement reads; gives the path with what its `:=` set."""
        if not self._has_walrus or not any(isinstance(node, ast.NamedExpr) for node in own_nodes(root)):
            for node in own_nodes(root):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                    self.read(node, path)
            return path
        match root:
            case ast.NamedExpr(target=target, value=value):
                return self.reads(value, path).set([target.id])
            case ast.BoolOp() | ast.UnaryOp(op=ast.Not()):
                held, failed = self.condition(root, path)
                return _Path(held.surely & failed.surely, held.maybe | failed.maybe)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                held, failed = self.condition(test, path)
                ends = self.reads(body, held), self.reads(orelse, failed)
                return _Path(ends[0].surely & ends[1].surely, ends[0].maybe | ends[1].maybe)
            case ast.Assign(targets=targets, value=value):  # Python computes the value first
                for part in [value, *targets]:
                    path = self.reads(part, path)
                return path
        for child in ast.iter_child_nodes(root):
            path = self.reads(child, path)
        return path

    def condition(self, node: ast.expr, path: _Path) -> tuple[_Path, _Path]:
        """What is set where a condition holds, and where it fails: `a and (b := c)` sets `b` only where it holds."""
        match node:
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                held, failed = self.condition(operand, path)
                return failed, held
            case ast.BoolOp(op=op, values=values):
                is_and = isinstance(op, ast.And)
                ends: list[_Path] = []
                for value in values:
                    held, failed = self.condition(value, path)
                    path = held if is_and else failed
                    ends.append(failed if is_and else held)
                left = _join(ends) or path
                return (path, left) if is_and else (left, path)
        path = self.reads(node, path)
        return path, path

    def read(self, node: ast.Name, path: _Path) -> None:
        name, scope = node.id, self.scope
        if name in scope.parameters or name not in scope.stores or name in path.surely or name in self._reported:
            return
        self._reported.add(name)
        self.mistakes.append(_unbound(scope, node, name in path.maybe))

    def _names_set_in(self, root: ast.AST) -> frozenset[str]:
        return frozenset(name for node in own_nodes(root) for name in names_set(node))


# --- the message ------------------------------------------------------------------------------------------------------


def _unbound(scope: Scope, read: ast.Name, is_maybe: bool) -> Mistake:
    """Name the variable, the line that reads it, the line that sets it, and why that may not have run."""
    name, line = read.id, read.lineno
    stores = scope.stores[name]
    in_one_step = _set_by_the_step_of(scope, read)
    before = [store for store in stores if _start(store) < _start(read) and store not in in_one_step]
    store = before[-1] if before else stores[0]
    skipped = next((outer for outer in _around(scope, store) if not _holds(outer, read)), None)
    set_in = f"line {_start(store)[0]}"
    deleted = [node for node in scope.nodes if _deletes(node, name) and _start(node) < _start(read)]
    first = skipped.lineno if skipped and before else next((o.lineno for o in _loops_around(scope, read)), line)
    if store is read:
        what = f"`{name}` is updated in line {line} before it is set"
    elif deleted:
        what = f"`{name}` is read in line {line}, and line {_start(deleted[-1])[0]} deletes it"
        return scope.mistake(what, read, "leave the `del` out")
    elif not before:
        what = f"`{name}` is read in line {line} before it is set, in {set_in}"
    elif not is_maybe:
        what = f"`{name}` is read in line {line}, and {set_in}, which sets it, is never on the way there"
    elif skipped is None:
        what = f"`{name}` may not be set when line {line} reads it: {set_in}, which sets it, is not on every way there"
    else:
        what = f"`{name}` may not be set when line {line} reads it: {set_in} sets it {_reason(skipped, store)}"
    return scope.mistake(
        what, read, f"set it first, for example `{name} = {_example(scope, name)}` before line {first}"
    )


def _deletes(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Del) and node.id == name


def _set_by_the_step_of(scope: Scope, read: ast.Name) -> set[ast.AST]:
    """The nodes that are set by the statement that reads, and so after it reads: ``a, b = b, a``."""
    for node in scope.nodes:
        parts = [node.iter, node.target] if isinstance(node, ast.For) else [node]
        if isinstance(node, ast.For | ast.Assign) and any(part is read for root in parts for part in ast.walk(root)):
            return {part for root in parts for part in ast.walk(root)}
    return set()


def _start(node: ast.AST) -> tuple[int, int]:
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


_Compound = ast.If | ast.For | ast.While | ast.Match


def _around(scope: Scope, node: ast.AST) -> Iterator[_Compound]:
    """The statements with a body that the node is in, the outermost first."""
    for other in scope.nodes:
        if isinstance(other, _Compound) and _holds(other, node):
            yield other


def _loops_around(scope: Scope, node: ast.AST) -> Iterator[ast.For | ast.While]:
    return (outer for outer in _around(scope, node) if isinstance(outer, ast.For | ast.While))


def _holds(outer: _Compound, node: ast.AST) -> bool:
    return any(inner is node for inner in ast.walk(outer))


def _reason(around: _Compound, store: ast.AST) -> str:
    if isinstance(around, ast.Match):
        return f"only in one case of `match {ast.unparse(around.subject)}`"
    if isinstance(around, ast.If) and any(part is store for part in ast.walk(around.test)):
        return "only where the condition is looked at to there"
    if isinstance(around, ast.If):
        is_then = any(_start(s) <= _start(store) <= (s.end_lineno or 0, s.end_col_offset or 0) for s in around.body)
        return f"only if `{ast.unparse(around.test)}` is {'true' if is_then else 'false'}"
    if any(_start(s) <= _start(store) for s in around.orelse):
        return f"only if the loop of line {around.lineno} ends without `break`"
    return f"only if the loop of line {around.lineno} runs at least once"


def _example(scope: Scope, name: str) -> str:
    """A value of the kind that the variable is given elsewhere."""
    for node in scope.nodes:
        match node:
            case ast.Assign(targets=[ast.Name(id=found)], value=ast.Constant(value=bool() | int() | float() as value)):
                if found == name:
                    return repr(type(value)())
            case ast.AugAssign(target=ast.Name(id=found), value=ast.Constant(value=float())) if found == name:
                return "0.0"
    return "0"
