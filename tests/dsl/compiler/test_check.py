"""`check` and the places and texts of its messages. Each program of tests/dsl/rejects gives the message beside it."""

from __future__ import annotations

import linecache
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

import kaio
from kaio import errors
from kaio.dsl.compiler.check import check
from kaio.dsl.compiler.parse import parse
from kaio.errors import KernelSyntaxError, KernelTypeError

REJECTS = Path(__file__).parent.parent / "rejects"
PROGRAMS = sorted(
    path for path in REJECTS.glob("*.py") if sys.version_info >= (3, 12) or "# Python 3.12" not in path.read_text()
)


def load(path: Path) -> dict[str, Any]:
    """Run a program under its own name, with its text where every reader of source text looks for it."""
    text = path.read_text(encoding="utf-8")
    linecache.cache[path.name] = (len(text), None, text.splitlines(keepends=True), path.name)
    names: dict[str, Any] = {"__name__": path.stem}
    with warnings.catch_warnings():  # Python itself finds `x is 0` odd
        warnings.simplefilter("ignore", SyntaxWarning)
        exec(compile(text, path.name, "exec", dont_inherit=True), names)
    return names


def read(names: dict[str, Any]) -> None:
    if "device" in names:
        check(names["device"], parse(names["device"]), None)
    else:
        kaio.kernel(names["kernel"]).types("cpu")


def test_no_error_is_a_syntax_error() -> None:
    """IPython shows a SyntaxError without its text."""
    classes = [getattr(errors, name) for name in errors.__all__]
    assert not any(issubclass(c, SyntaxError) for c in classes if isinstance(c, type))


def test_every_message_belongs_to_a_program() -> None:
    assert {path.stem for path in REJECTS.glob("*.txt")} == {path.stem for path in REJECTS.glob("*.py")}


@pytest.mark.parametrize("program", PROGRAMS, ids=[program.stem for program in PROGRAMS])
def test_a_wrong_program_gives_its_message(program: Path) -> None:
    names = load(program)
    with pytest.raises((KernelSyntaxError, KernelTypeError)) as caught:
        read(names)
    places = [(mistake.place.line, mistake.place.column) for mistake in caught.value.mistakes if mistake.place]
    assert len(places) == len(caught.value.mistakes)
    assert places == sorted(places)
    message = f"{caught.value}\n"
    expected = program.with_suffix(".txt")
    if os.environ.get("KAIO_UPDATE_MESSAGES"):
        expected.write_text(message, encoding="utf-8")
    assert message == expected.read_text(encoding="utf-8")
