"""Definite assignment against Python itself: every way through random programs is run, and unset reads are noted."""

from __future__ import annotations

import itertools
import linecache
import sys
import textwrap
from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kaio.dsl.compiler.check import check
from kaio.dsl.compiler.parse import parse
from kaio.errors import KernelSyntaxError

MOST_WAYS = 2000
NUMBERS = itertools.count()


def blocks(depth: int, in_loop: bool) -> st.SearchStrategy[list[str]]:
    """Lines of a block. `pick()` is a decision that anything may hang on; `READ x` a read of `x`."""
    names = st.sampled_from("abc")
    simple = [
        names.map(lambda name: [f"{name} = 1"]),
        names.map(lambda name: [f"READ {name}"]),
        names.map(lambda name: [f"READ {name}"]),
        st.just(["return"]),
    ]
    if in_loop:
        simple += [st.just(["break"]), st.just(["continue"])]
    if depth == 0:
        return st.lists(st.one_of(simple), min_size=1, max_size=3).map(flat)
    inner, looped = blocks(depth - 1, in_loop), blocks(depth - 1, True)
    compound = [
        inner.map(lambda body: ["if pick():", *indented(body)]),
        st.tuples(inner, inner).map(lambda two: ["if pick():", *indented(two[0]), "else:", *indented(two[1])]),
        st.tuples(inner, inner).map(lambda two: ["if pick():", *indented(two[0]), "elif pick():", *indented(two[1])]),
        st.tuples(
            st.sampled_from(["while pick():", "while True:", "for a in range(pick()):", "for b in range(2):"]), looped
        ).map(lambda two: [two[0], *indented(two[1])]),
        st.tuples(st.sampled_from(["while pick():", "for a in range(pick()):", "for b in (1, 2):"]), looped, inner).map(
            lambda three: [three[0], *indented(three[1]), "else:", *indented(three[2])]
        ),
        st.tuples(inner, inner).map(
            lambda two: [
                "match pick():",
                "    case 1:",
                *indented(indented(two[0])),
                "    case c:",
                *indented(indented(two[1])),
            ]
        ),
        st.tuples(
            st.sampled_from(
                [
                    "if pick() and (a := pick()):",
                    "if (b := pick()) or (c := pick()):",
                    "if not (pick() or (a := pick())):",
                ]
            ),
            inner,
            inner,
        ).map(lambda three: [three[0], *indented(three[1]), "else:", *indented(three[2])]),
        names.map(lambda name: [f"{name} = 1", f"del {name}"]),
    ]
    return st.lists(st.one_of([*simple, *compound, *compound]), min_size=1, max_size=4).map(flat)


def flat(parts: list[list[str]]) -> list[str]:
    return [line for part in parts for line in part]


def indented(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


def define(lines: list[str], read: str, **names: Any) -> Any:
    lines = [*lines, "a = b = c = 1"]  # all three are variables of the function
    text = "def f():\n" + textwrap.indent("\n".join(lines), "    ") + "\n"
    for name in "abc":
        text = text.replace(f"READ {name}", read.format(name=name))
    file = f"<assigned {next(NUMBERS)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    exec(compile(text, file, "exec", dont_inherit=True), names)
    return names["f"]


class OutOfDecisions(Exception):
    """A way needs one more decision than was given."""


def unset_names(lines: list[str]) -> tuple[set[str], bool]:
    """The names that some way reads unset, and whether every way was run."""
    unset: set[str] = set()
    decisions: Iterator[int] = iter(())

    def pick() -> int:
        for decision in decisions:
            return decision
        raise OutOfDecisions

    def note(variables: dict[str, Any], name: str) -> None:
        if name not in variables:
            unset.add(name)

    function = define(lines, 'note(locals(), "{name}")', pick=pick, note=note)
    todo: list[tuple[int, ...]] = [()]
    for _ in range(MOST_WAYS):
        if not todo:
            return unset, True
        way = todo.pop(0)
        decisions = iter(way)
        try:
            function_steps(function)
        except OutOfDecisions:
            todo += [(*way, 0), (*way, 1)]
    return unset, False


def function_steps(function: Any) -> None:
    """Run a function; a loop that decides nothing would never end, so it is stopped by its number of lines."""

    left = 300

    def trace(frame: Any, event: str, argument: Any) -> Any:
        nonlocal left
        if frame.f_code is not function.__code__:  # what runs beside it, such as a callback of the garbage collector
            return None
        left -= event == "line"
        if left < 0:
            raise RecursionError
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function()
    except RecursionError:
        pass
    finally:
        sys.settrace(before)


def told_names(lines: list[str]) -> set[str]:
    function = define(lines, "use({name})", pick=lambda: 1, use=lambda v: v)
    try:
        check(function, parse(function), None)
    except KernelSyntaxError as error:
        return {mistake.what.split("`")[1] for mistake in error.mistakes}
    return set()


@given(blocks(depth=2, in_loop=False))
def test_what_is_told_is_what_some_way_reads_unset(lines: list[str]) -> None:
    unset, is_complete = unset_names(lines)
    told = told_names(lines)
    assert unset <= told
    if is_complete:
        assert told == unset
