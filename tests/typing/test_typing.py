"""Kernels, device functions and launches pass `mypy --strict`; plain mistakes in them are found by it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest

pytest.importorskip("mypy")

HERE = Path(__file__).parent
ROOT = HERE.parent.parent


def run_mypy(*names: str) -> str:
    """What `mypy --strict` prints for sample files of this folder, without its summary."""
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--no-error-summary"]
    files = [str((HERE / name).relative_to(ROOT)) for name in names]
    done = subprocess.run(
        [*command, *files],
        cwd=ROOT,
        env={**os.environ, "MYPYPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


def test_kernels_and_launches_pass_strict_mypy() -> None:
    assert run_mypy("kernels.py") == ""


def test_the_samples_are_kernels_that_kaio_accepts(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (HERE / "kernels.py").read_text(encoding="utf-8")
    sample = types.ModuleType("sample")
    monkeypatch.setitem(sys.modules, "sample", sample)  # where dataclasses look their annotations up
    exec(compile(text, str(HERE / "kernels.py"), "exec", dont_inherit=True), sample.__dict__)


def test_mypy_finds_what_is_plainly_wrong_in_a_kernel() -> None:
    found = dict(re.findall(r"wrong\.py:(\d+): error: (.*)", run_mypy("wrong.py")))
    lines = (HERE / "wrong.py").read_text(encoding="utf-8").splitlines()
    expected = {str(number): line.split("  # ")[1] for number, line in enumerate(lines, 1) if "  # " in line}
    assert found.keys() == expected.keys()
    for number, message in expected.items():
        assert message in found[number]
