"""The pages under docs/ are true: their code prints what they show, and their tables are those of the compiler."""

from __future__ import annotations

import contextlib
import doctest
import io
import linecache
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kaio
from kaio.dsl import rules
from kaio.dsl.intrinsic import STANDARD, Intrinsic
from kaio.dsl.reference import reference
from kaio.dsl.rule_error import RuleError
from kaio.dtypes import DTYPES
from tests.corpus.table import tools_table
from tests.tables import check_table

DOCS = Path(__file__).parent.parent / "docs"
LANGUAGE = DOCS / "language.md"
REFERENCE = DOCS / "reference.md"
HOST = DOCS / "host.md"
CHECKING = DOCS / "checking.md"
_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> list[tuple[str, str, int]]:
    """Language, text and first line of each fenced block."""
    text = page.read_text(encoding="utf-8")
    return [(m[1], m[2], text.count("\n", 0, m.start(2)) + 1) for m in _FENCE.finditer(text)]


def run_page(page: Path) -> list[tuple[str, str]]:
    """Run the Python of a page as one program; pairs of what is shown and what was printed before it."""
    space: dict[str, Any] = {"__name__": "page"}
    printed, pairs = "", []
    for language, text, line in blocks(page):
        if language == "python":
            source = "\n" * (line - 1) + text
            linecache.cache[str(page)] = (len(source), None, source.splitlines(keepends=True), str(page))
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                exec(compile(source, str(page), "exec", dont_inherit=True), space)
            printed = output.getvalue()
        elif language == "text":
            pairs.append((text, printed))
    return pairs


@pytest.mark.parametrize("page", [LANGUAGE, HOST, CHECKING], ids=["language", "host", "checking"])
def test_the_code_of_a_page_prints_what_is_shown(page: Path) -> None:
    pairs = run_page(page)
    assert len(pairs) >= 4
    for shown, printed in pairs:
        assert doctest.OutputChecker().check_output(shown, printed, doctest.ELLIPSIS), f"{shown}is shown for\n{printed}"


# ---------------------------------------------------------------------- tables made from the compiler
def common_table() -> str:
    """The type in which each two dtypes meet."""
    lines = [f"| | {' | '.join(d.name for d in DTYPES)} |", "| --- " * (len(DTYPES) + 1) + "|"]
    for a in DTYPES:
        cells = [f"**{a.name}**"]
        for b in DTYPES:
            try:
                result = rules.binary("+", a, b).result
                cells.append(result.name)
            except RuleError:
                cells.append("-")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def functions_table() -> str:
    """The functions of numbers, with their docs."""
    own = {name: getattr(kaio, name) for name in kaio.__all__ if is_of_numbers(getattr(kaio, name))}
    of_python = {p: r for p, r in STANDARD.items() if r not in own.values()}  # `math.fma` came with Python 3.13
    named = {
        p.__name__ if p.__module__ == "builtins" else f"{p.__module__}.{p.__name__}": r for p, r in of_python.items()
    }
    named |= own
    rounded = [name for name in own if re.fullmatch(r"\w+_r[nzud]", name)]
    plain = sorted(named.keys() - rounded, key=lambda name: (name.rpartition(".")[0], name))
    lines = ["| function | gives |", "| --- | --- |"]
    lines += [f"| `{name}` | {_cell(named[name].doc)} |" for name in plain]
    for name in (name for name in rounded if name.endswith("_rn")):
        names = " ".join(f"`{name[:-1]}{mode}`" for mode in "nzud")
        what = named[name].doc.partition(",")[0]
        lines.append(f"| {names} | {what}, rounded to the nearest, towards zero, up and down. |")
    return "\n".join(lines)


def _cell(doc: str) -> str:
    """A doc in a cell of a table, which a bar would end."""
    return " ".join(doc.split()).replace("|", r"\|")


def is_of_numbers(value: object) -> bool:
    """Whether it is the record of a function of numbers."""
    return isinstance(value, Intrinsic) and (value.__module__ or "").startswith("kaio.dsl.numeric")


TABLES: dict[str, tuple[Path, Callable[[], str]]] = {
    "common": (LANGUAGE, common_table),
    "functions": (LANGUAGE, functions_table),
    "reference": (REFERENCE, reference),
    "tools": (CHECKING, tools_table),
}


@pytest.mark.parametrize("name", list(TABLES))
def test_a_table_is_that_of_the_compiler(name: str) -> None:
    """Run with KAIO_WRITE_DOCS=1 to write the tables anew."""
    page, made = TABLES[name]
    check_table(page, name, made())


# ---------------------------------------------------------------------- names
def test_the_language_page_names_nothing_that_does_not_exist() -> None:
    text = LANGUAGE.read_text(encoding="utf-8")
    prose = _FENCE.sub("", text)
    named = set(re.findall(r"kaio\.(\w+)", prose))
    assert named
    assert [name for name in named if not hasattr(kaio, name)] == []


def test_every_name_of_the_language_is_on_the_page() -> None:
    text = LANGUAGE.read_text(encoding="utf-8")
    classes = [
        *kaio.errors.__all__,
        "DType",
        "Func",
        "Kernel",
        "Completion",
        "Device",
        "GpuBuffer",
        "Graph",
        "Stream",
    ]  # on the page of the host
    outside = {*classes, "as_completed", "devices", "gather", "trace", "D1", "D3"}
    missing = [name for name in kaio.__all__ if name not in outside and not re.search(rf"\b{name}\b", text)]
    assert missing == []


@pytest.mark.parametrize(
    "of", [kaio.Device, kaio.GpuBuffer, kaio.Graph, kaio.Stream, kaio.Completion], ids=lambda of: of.__name__
)
def test_what_can_be_done_with_an_object_is_on_the_page_of_the_host(of: type) -> None:
    text = HOST.read_text(encoding="utf-8")
    public = {name for name in dir(of) if not name.startswith("_")} - {"done", "synchronize", "completed"}
    assert [name for name in sorted(public) if not re.search(rf"\b{name}\b", text)] == []


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda p: p.name)
def test_links_lead_to_files(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8"))
    assert [link for link in links if "://" not in link and not (DOCS / link).exists()] == []
