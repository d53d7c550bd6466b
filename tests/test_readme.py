"""The README is true: its code prints what it shows, its PTX is what comes out, its commands are those of CI."""

from __future__ import annotations

import contextlib
import doctest
import io
import linecache
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

README = Path(__file__).parent.parent / "README.md"
_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block: its language and text, and the line of the README that its text starts at."""

    language: str
    text: str
    line: int


def blocks() -> list[Block]:
    text = README.read_text(encoding="utf-8")
    return [Block(m[1], m[2], text.count("\n", 0, m.start(2)) + 1) for m in _FENCE.finditer(text)]


def run(block: Block, space: dict[str, Any]) -> str:
    """Run a block of Python as if the README were its file, so that kernels find their source; give what it prints."""
    source = "\n" * (block.line - 1) + block.text
    linecache.cache[str(README)] = (len(source), None, source.splitlines(keepends=True), str(README))
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(source, str(README), "exec"), space)
    return output.getvalue()


@pytest.fixture
def session() -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """The names that the code of the README makes, and pairs of what it shows and what was printed."""
    space: dict[str, Any] = {"__name__": "readme"}
    printed, pairs = "", []
    for block in blocks():
        if block.language == "python":
            printed = run(block, space)
        elif block.language == "text":
            pairs.append((block.text, printed))
    return space, pairs


def test_code_prints_what_is_shown(session: tuple[dict[str, Any], list[tuple[str, str]]]) -> None:
    _, pairs = session
    assert len(pairs) >= 2
    for shown, printed in pairs:
        assert doctest.OutputChecker().check_output(shown, printed, doctest.ELLIPSIS), (
            f"{shown}\nis shown for\n{printed}"
        )


def test_ptx_is_what_comes_out(session: tuple[dict[str, Any], list[tuple[str, str]]]) -> None:
    """Line by line but for the numbers of registers and labels, which a compiler may give as it likes."""
    space, _ = session
    (shown,) = (block.text for block in blocks() if block.language == "ptx")
    assert body(shown) == body(space["saxpy"].ptx("sm_90"))


def body(ptx: str) -> list[str]:
    """The entry of a PTX text: no declarations of registers, no line information, numbers of registers left out."""
    entry = ptx[ptx.index(".visible .entry") :]
    lines = (re.sub(r"%(\w+?)\d+", r"%\1", " ".join(line.split())) for line in entry.splitlines())
    return [line for line in lines if line and not line.startswith((".reg", ".loc", ".file", "//"))]


def test_the_commands_are_those_that_ci_runs() -> None:
    commands = [block.text.strip() for block in blocks() if block.language == "sh"]
    assert commands == ["pip install '.[demo]' && python -m kaio demo", "pip install '.[test]' && python -m pytest"]
    assert "README.md" in (README.parent / ".ci/run").read_text()


def test_the_readme_names_only_files_that_exist() -> None:
    text = README.read_text(encoding="utf-8")
    named = re.findall(r"`([\w./]+/[\w.]*|[A-Z]+\.md)`", text)
    assert named
    assert [name for name in named if not (README.parent / name).exists()] == []
