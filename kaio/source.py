"""A function's text and AST, with the positions that they have in the user's file."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from kaio.errors import Place

__all__ = ["Source"]


@dataclass(frozen=True)
class Source:
    """One function as written.

    Lines and columns of `node` are those of the user's file (columns in UTF-8 bytes, as in every Python AST);
    `place` turns them into what an editor shows. Printing it shows the text with its line numbers.

    name: the function's name; qualified_name: with the functions and classes around it
    file: as shown to users: relative to the working directory when inside it, ``Cell In[3]`` in a notebook
    filename: as the code object has it
    first_line: 1-based line of the first decorator, or of ``def``
    lines: the lines of the file from `first_line` on, as they are there
    node: the ``def`` or the ``lambda``
    """

    name: str
    qualified_name: str
    file: str
    filename: str
    first_line: int
    lines: tuple[str, ...] = field(repr=False)
    node: ast.FunctionDef | ast.Lambda = field(repr=False)

    @property
    def text(self) -> str:
        """The lines without the indentation of the first one."""
        first = self.lines[0]
        indent = first[: len(first) - len(first.lstrip())]
        return "\n".join(line.removeprefix(indent) for line in self.lines) + "\n"

    def __str__(self) -> str:
        width = len(str(self.first_line + len(self.lines) - 1))
        lines = self.text.rstrip("\n").split("\n")
        numbered = [f"{number:>{width}} | {line}".rstrip() for number, line in enumerate(lines, self.first_line)]
        return "\n".join([f"{self.qualified_name}, {self.file}:{self.first_line}", *numbered])

    @property
    def returns(self) -> frozenset[tuple[int, int]]:
        """Line and column of each `return` statement, as in its place."""
        places = [self.place(node) for node in ast.walk(self.node) if isinstance(node, ast.Return)]
        return frozenset((place.line, place.column) for place in places)

    def line(self, number: int) -> str:
        """The line of that number in the file, or an empty text where it is not part of the function."""
        index = number - self.first_line
        return self.lines[index] if 0 <= index < len(self.lines) else ""

    def place(self, node: ast.AST) -> Place:
        """Where a node of the AST stands. Of a node over several lines it is the first line."""
        line: int = getattr(node, "lineno", self.first_line)
        column: int = getattr(node, "col_offset", 0)
        return self.place_at(line, column, getattr(node, "end_lineno", None), getattr(node, "end_col_offset", None))

    def place_at(
        self, line: int | None, column: int | None, end_line: int | None = None, end_column: int | None = None
    ) -> Place:
        """Where a stretch stands, from a code object's ``co_positions()``: columns in UTF-8 bytes, any of them None."""
        line = self.first_line if line is None else line
        text = self.line(line)
        if column is None:
            start, stop = len(text) - len(text.lstrip()), len(text)
        else:
            start = _characters(text, column)
            is_one_line = end_column is not None and end_line in (None, line)
            stop = (
                _characters(text, end_column) if is_one_line and end_column is not None else len(_without_comment(text))
            )
        # A tab is one column to an editor; one space for it keeps the caret line under the text.
        return Place(self.file, line, start, max(stop, start + 1), self.name, text.replace("\t", " "))


def _characters(text: str, nbytes: int) -> int:
    """The number of characters that the first `nbytes` bytes of the UTF-8 text hold."""
    return nbytes if text.isascii() else len(text.encode()[:nbytes].decode(errors="ignore"))


def _without_comment(text: str) -> str:
    """The line up to a trailing comment. (A `#` inside a string ends it early: only the caret gets shorter.)"""
    return (text.split("#", 1)[0].rstrip() or text.rstrip()) if "#" in text else text.rstrip()
