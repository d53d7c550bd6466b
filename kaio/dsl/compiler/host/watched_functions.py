"""A function that is lowered into a kernel that is watched: its variables, and the lines of its statements."""

from __future__ import annotations

import ast

from kaio import trace_abi as abi
from kaio.dsl.compiler import ir
from kaio.dsl.compiler.emission.frame import Frame
from kaio.dsl.compiler.host.value_layouts import layout_of
from kaio.dsl.compiler.type_view import settled
from kaio.dsl.values import Weak
from kaio.errors import Place
from kaio.source import Source

__all__ = ["WatchedFunction", "variables_of"]


class WatchedFunction:
    """A function that is being walked, with its slots by name."""

    def __init__(self, number: int, frame: Frame, slots: dict[str, abi.Slot]) -> None:
        self.number, self.frame, self.slots = number, frame, slots
        self.settled = settled(frame.typed)
        source = frame.typed.function.source
        self._lines = _statement_lines(source)
        self._returns = source.returns

    def path(self, steps: tuple[ir.PathStep, ...]) -> str:
        """The part of an element that a store sets, as written but with the values of its indices."""
        found = []
        for step in steps:
            known = self.frame.typed.types[step.name] if step.is_index else None
            found.append(f"[{known.value}]" if isinstance(known, Weak) else str(step))
        return "".join(found)

    def line(self, place: Place) -> int:
        """The first line of the statement at a place."""
        return self._lines.get(place.line, place.line)

    def is_parameter(self, what: ir.Statement | ir.Terminator) -> bool:
        """Whether a statement gives a parameter its value."""
        return isinstance(what, ir.Assign) and what.target in self.frame.typed.function.params

    def is_written(self, what: ir.Statement | ir.Terminator) -> bool:
        """Whether it is a part of a statement that the user wrote, before which the thread may stand."""
        match what:
            case ir.Assign(target=target, op=op):
                is_constant = isinstance(op, ir.Constant) and ir.is_temporary(target)
                return not (is_constant or isinstance(op, ir.Phi | ir.Step) or self.is_parameter(what))
            case ir.Return(place=place):
                return (place.line, place.column) in self._returns
        return not isinstance(what, ir.Jump)


def variables_of(frame: Frame) -> dict[str, int]:
    """The variables of a function, and the bytes that the largest value of each takes."""
    found: dict[str, int] = {}
    for target in ir.definitions(frame.typed.function):
        if not ir.is_temporary(target) and target in frame.typed.types:
            name = ir.user_name(target)
            found[name] = max(found.get(name, 0), layout_of(frame.typed.types[target]).nbytes)
    return found


def _statement_lines(source: Source) -> dict[int, int]:
    """The first line of the statement that a line belongs to, of those of several lines."""
    found: dict[int, int] = {}
    for node in ast.walk(source.node):  # a statement comes before those inside it
        if isinstance(node, ast.stmt) and node is not source.node:
            body = getattr(node, "body", None)
            stop = body[0].lineno - 1 if body else node.end_lineno
            if isinstance(node, ast.Match):  # whose cases are lines of their own
                stop = node.subject.end_lineno
            found.update(dict.fromkeys(range(node.lineno, max(node.lineno, stop or 0) + 1), node.lineno))
    return found
