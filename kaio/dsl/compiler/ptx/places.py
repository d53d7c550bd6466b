"""From ``.loc`` lines to places in the source, with the stretch that a fault underlines."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator

from kaio.dsl.compiler import ir
from kaio.dsl.compiler.ptx.syntax import Line
from kaio.errors import Place
from kaio.source import Source

__all__ = ["Places", "sources_of"]


def sources_of(typed: ir.Typed) -> list[Source]:
    """The sources of a function and of all that it calls."""
    found = {id(typed.function.source): typed.function.source}
    for _, call in ir.calls_of(typed):
        for called in (call.callee, call.body):
            if isinstance(called, ir.Typed):
                found[id(called.function.source)] = called.function.source
    return list(found.values())


class Places:
    """The places of some sources, by file, line and column."""

    def __init__(self, sources: Iterable[Source]) -> None:
        self._sources = list(sources)
        self._find = functools.cache(self._found)

    def of(self, line: Line | None) -> tuple[Place, tuple[Place, ...]]:
        """Where an instruction comes from, and the calls that led there, innermost first."""
        if line is None:
            source = self._sources[0]
            return source.place(source.node), ()
        callers = tuple(self._find(*caller) for caller in line.callers)
        return self._find(line.file, line.line, line.column), callers

    def _found(self, file: str, line: int, column: int) -> Place:
        for source in self._sources:
            is_inside = source.first_line <= line < source.first_line + len(source.lines)
            if is_inside and source.filename.endswith(file):
                return self._in(source, line, column - 1)
        return Place(file, line, max(0, column - 1))

    def _in(self, source: Source, line: int, column: int) -> Place:
        """The smallest index or call that begins there, else the largest expression."""
        best: Place | None = None
        for node in _nodes_at(source, line):
            place = source.place(node)
            if place.column != column or place.line != line:
                continue
            if best is None or isinstance(node, ast.Subscript | ast.Call):
                best = place
        return best or source.place_at(line, None)


def _nodes_at(source: Source, line: int) -> Iterator[ast.AST]:
    """The nodes that begin in a line, outer ones first."""
    return (node for node in ast.walk(source.node) if getattr(node, "lineno", None) == line)
