"""`Source`: true places in the user's file, and a text that reads well."""

from __future__ import annotations

import ast
from typing import Any
from unicodedata import east_asian_width

from kaio.dsl.compiler.parse import parse
from kaio.source import Source


# ruff: noqa: W191, E702, F841, RET504  (the text under test is laid out in odd ways)
# fmt: off
class Holder:
	def tabbed(größe, text="é"):
		text = "日本語"; return größe + 1


def outer() -> Any:
    def plain(a, b):
        total = a + (
            b * 2
        )
        return total  # the sum

    return plain
# fmt: on


def only(node_type: type[ast.AST], source: Source) -> ast.AST:
    [node] = [node for node in ast.walk(source.node) if isinstance(node, node_type)]
    return node


def caret(source: Source, node: ast.AST) -> str:
    """What the caret line is under."""
    _, text, carets = source.place(node).excerpt()
    columns = [c for c in text for _ in range(2 if east_asian_width(c) in "WF" else 1)]  # as a terminal shows it
    start = carets.index("^")
    return "".join(columns[start : start + carets.count("^")])


def test_columns_count_characters_and_the_caret_stands_under_them() -> None:
    source = parse(Holder.tabbed)
    place = source.place(only(ast.BinOp, source))
    assert source.lines[place.line - source.first_line][place.column : place.end_column] == "größe + 1"
    assert caret(source, only(ast.BinOp, source)) == "größe + 1"


def test_a_node_over_several_lines_is_shown_by_its_first() -> None:
    source = parse(outer())
    [node] = [node for node in ast.walk(source.node) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add)]
    assert caret(source, node) == "a + ("


def test_a_comment_behind_is_not_underlined() -> None:
    source = parse(outer())
    line = source.node.end_lineno or 0
    place = source.place_at(line, 8, line + 1, 3)
    assert place.text[place.column : place.end_column] == "return total"


def test_places_of_the_code_object_are_those_of_the_tree() -> None:
    function = outer()
    source = parse(function)
    wanted = source.place(only(ast.Return, source))
    positions = [p for p in function.__code__.co_positions() if p[0] == wanted.line and p[2] is not None]
    places = {source.place_at(line, column, end_line, end_column) for line, end_line, column, end_column in positions}
    assert wanted in places or source.place(only(ast.Return, source).value) in places  # type: ignore[attr-defined]


def test_a_place_without_a_column_is_the_whole_line() -> None:
    source = parse(outer())
    place = source.place_at(source.first_line, None)
    assert place.text[place.column : place.end_column] == "def plain(a, b):"


def test_a_place_without_a_line_is_the_first() -> None:
    source = parse(outer())
    assert source.place_at(None, None).line == source.first_line


def test_a_line_outside_the_function_has_no_text() -> None:
    source = parse(outer())
    assert source.line(source.first_line - 1) == ""
    assert source.place_at(1, 0, 1, 3).text == ""


def test_printed_it_is_the_text_without_indentation_and_with_line_numbers() -> None:
    source = parse(outer())
    first = source.first_line
    assert str(source) == "\n".join(
        [
            f"outer.<locals>.plain, {source.file}:{first}",
            f"{first} | def plain(a, b):",
            f"{first + 1} |     total = a + (",
            f"{first + 2} |         b * 2",
            f"{first + 3} |     )",
            f"{first + 4} |     return total  # the sum",
        ]
    )
    assert source.text.startswith("def plain(a, b):\n    total")
