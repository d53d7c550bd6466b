"""Uses of buffer parameters that go against their annotation: `In` written, `Out` read first, a wrong number of axes.

Only what the text proves is reported; the CPU device finds the rest while it runs.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kaio.dsl.access import load, store
from kaio.dsl.compiler.check.scope import Scope, own_nodes, stored_element
from kaio.dsl.intrinsic import Intrinsic
from kaio.errors import Mistake

__all__ = ["check_buffers"]


def check_buffers(scope: Scope) -> Iterator[Mistake]:
    """The mistakes with buffer parameters."""
    accesses = {annotation.access for annotation in scope.buffers.values()}
    if "In" in accesses:
        yield from _written_inputs(scope)
    if "Out" in accesses:
        yield from _FirstUse(scope).mistakes
    yield from _wrong_axes(scope)


def _buffer(scope: Scope, node: ast.AST, access: str) -> str | None:
    """The name of the parameter with that access, if the node is one."""
    is_one = isinstance(node, ast.Name) and node.id in scope.buffers and scope.buffers[node.id].access == access
    return node.id if is_one and isinstance(node, ast.Name) else None


def _accesses(scope: Scope, node: ast.Call) -> tuple[ast.expr | None, ast.expr | None]:
    """What a call of one of kaio's functions reads an element of, and what it writes one of."""
    function = scope.value_of(node.func)
    if not isinstance(function, Intrinsic) or not node.args:
        return None, None
    first = node.args[0]
    if function.name == "cp_async":
        return (node.args[2] if len(node.args) > 2 else None), first
    is_atomic = function.name.startswith("atomic_")
    return (first if is_atomic or function is load else None), (first if is_atomic or function is store else None)


def _written_inputs(scope: Scope) -> Iterator[Mistake]:
    for node in scope.nodes:
        match node:
            case ast.Subscript(ctx=ast.Store() | ast.Del(), value=value):
                name = _buffer(scope, value, "In")
            case ast.Attribute(ctx=ast.Store()) if (element := stored_element(node)) is not None:
                name = _buffer(scope, element.value, "In")
            case ast.Call() if (written := _accesses(scope, node)[1]) is not None:
                name = _buffer(scope, written, "In")
            case _:
                continue
        if name is not None:
            annotation = repr(scope.buffers[name])
            what = f"`{name}` is an `In` buffer, which a kernel only reads"
            yield scope.mistake(what, node, f"annotate it `{name}: InOut{annotation.removeprefix('In')}`")


def _indexed_twice(scope: Scope) -> Iterator[tuple[ast.Subscript, ast.Subscript]]:
    """`x[i][j]` of a buffer, with its `x[i]`."""
    for node in scope.nodes:
        match node:
            case ast.Subscript(value=ast.Subscript(value=ast.Name(id=name)) as inner) if name in scope.buffers:
                if not isinstance(inner.slice, ast.Slice) and not getattr(scope.buffers[name].dtype, "parts", ()):
                    yield node, inner


def _wrong_axes(scope: Scope) -> Iterator[Mistake]:
    for outer, inner in _indexed_twice(scope):
        parts = [ast.unparse(part).removeprefix("(").removesuffix(")") for part in (inner.slice, outer.slice)]
        what = f"`{ast.unparse(outer)}`: a buffer takes all its indices at once"
        yield scope.mistake(what, outer, f"write `{ast.unparse(inner.value)}[{', '.join(parts)}]`")
    told = {inner for _, inner in _indexed_twice(scope)}
    for node in scope.nodes:
        if not (
            isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id in scope.buffers
        ):
            continue
        if node in told:
            continue
        name, index = node.value.id, node.slice
        ndim = scope.buffers[name].ndim
        count = len(index.elts) if isinstance(index, ast.Tuple) else 1 if _is_number(index) else ndim
        if count != ndim:
            dimensions = "1 dimension" if ndim == 1 else f"{ndim} dimensions"
            indices = "1 index" if count == 1 else f"{count} indices"
            example = f"{name}[{', '.join('ijkl'[:ndim]) or '()'}]"
            yield scope.mistake(f"`{name}` has {dimensions} and is given {indices}", node, f"write `{example}`")


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.BinOp | ast.UnaryOp | ast.Compare) or (
        isinstance(node, ast.Constant) and isinstance(node.value, int)
    )


class _FirstUse:
    """Reads of an `Out` that come before every write of it.

    A walk in order, with the set of parameters that may be written by then. In a loop the first round is followed:
    it begins with what was written before the loop. Behind a condition or a `continue` in the loop, a later round
    may have come along, so there all that the loop writes counts as written.
    """

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.mistakes: list[Mistake] = []
        self._written: set[str] = set()
        self._told: set[ast.AST] = {inner for _, inner in _indexed_twice(scope)}
        self._block(scope.body, frozenset())

    def _block(self, statements: list[ast.stmt], in_loop: frozenset[str]) -> None:
        for node in statements:
            match node:
                case ast.If():
                    self._uses(node.test)
                    self._written |= in_loop
                    self._block(node.body, in_loop)
                    self._block(node.orelse, in_loop)
                case ast.While():
                    self._uses(node.test)
                    self._block(node.body, in_loop | self._writes(node))
                    self._block(node.orelse, in_loop)
                case ast.For():
                    self._uses(node.iter)
                    self._block(node.body, in_loop | self._writes(node))
                    self._block(node.orelse, in_loop)
                case ast.Match():
                    self._uses(node.subject)
                    self._written |= in_loop
                    for case in node.cases:
                        self._block(case.body, in_loop)
                case ast.Assign():
                    self._uses(node.value)
                    for target in node.targets:
                        self._uses(target)
                    self._written |= self._writes(node)
                case ast.AugAssign():
                    self._uses(node.value)
                    self._update(node.target)
                    self._uses(node.target)
                case ast.Expr(value=ast.Compare()):  # probably meant as `=`, and told of elsewhere
                    pass
                case _:
                    self._uses(node)

    def _writes(self, root: ast.AST) -> frozenset[str]:
        """The parameters that are, or may be, written somewhere in the node."""
        return frozenset(name for node in own_nodes(root) for name in self._written_by(node))

    def _written_by(self, node: ast.AST) -> Iterator[str]:
        match node:
            case ast.Subscript(ctx=ast.Store(), value=ast.Name(id=name)):
                yield name
            case ast.Attribute() | ast.Subscript() if (element := stored_element(node)) is not None:
                if isinstance(element.value, ast.Name):
                    yield element.value.id
            case ast.Call():  # a device function that is given the buffer may write it, and an atomic does
                given = [*node.args, *(keyword.value for keyword in node.keywords)]
                yield from (a.id for a in given if isinstance(a, ast.Name))
            case ast.Assign(value=value):  # under another name it may be written unseen
                names = [n for n in own_nodes(value) if isinstance(n, ast.Name) and n.id in self.scope.buffers]
                yield from (name.id for name in names if not _is_indexed(name, value))

    def _uses(self, root: ast.AST) -> None:
        """Report the reads in an expression or a simple statement, then note what it writes."""
        stored = {stored_element(node) for node in own_nodes(root)}
        for node in own_nodes(root):
            if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and node not in stored:
                self._read(node.value, node)
            elif isinstance(node, ast.Call) and (read := _accesses(self.scope, node)[0]) is not None:
                self._read(read, node)
        self._written |= self._writes(root)

    def _update(self, target: ast.expr) -> None:
        element = stored_element(target) or target
        if isinstance(element, ast.Subscript):
            self._read(element.value, element)

    def _read(self, value: ast.expr, node: ast.expr) -> None:
        name = _buffer(self.scope, value, "Out")
        if name is None or name in self._written or node in self._told:
            return
        self._written.add(name)  # one report for each buffer
        annotation = repr(self.scope.buffers[name])
        what = f"`{name}` is an `Out` buffer, and is read before the kernel wrote to it"
        way_out = f"annotate it `{name}: InOut{annotation.removeprefix('Out')}`, or write it first"
        self.mistakes.append(self.scope.mistake(what, node, way_out))


def _is_indexed(name: ast.Name, root: ast.AST) -> bool:
    """Whether the name stands there only to read an element or an attribute of it."""
    return any(isinstance(node, ast.Subscript | ast.Attribute) and node.value is name for node in ast.walk(root))
