"""The command line: what it prints, what it exits with, and that nothing wrong ends in a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import kaio
from kaio.cli import main
from kaio.demo import write_picture

ROOT = Path(__file__).parent.parent


def noise(height: int, width: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (height, width, 3), np.uint8)


def test_a_wrong_stage_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("kaio.demo.reference.histogram", lambda picture: np.zeros(256))
    picture = tmp_path / "a.png"
    write_picture(picture, np.zeros((2, 3), np.uint8))
    assert main(["demo", str(picture), "--device", "cpu", "--out", str(tmp_path / "b.png")]) == 1
    assert "histogram" in (output := capsys.readouterr().out)
    assert "WRONG: off by 6, allowed 0" in output


def test_demo_runs_as_the_readme_says(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "kaio", "demo", "--device", "cpu"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "grace_hopper.jpg, 512 x 600 pixels" in done.stdout
    assert "wrote kaio-demo.png" in done.stdout
    with Image.open(tmp_path / "kaio-demo.png") as written:
        assert written.size == (1024, 1200)


def test_demo_says_device_times_ptx_and_checks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_picture(tmp_path / "in.png", noise(10, 20))
    assert main(["demo", str(tmp_path / "in.png"), "--device", "cpu", "--out", str(tmp_path / "out.png")]) == 0
    first, head, *stages, note, last = capsys.readouterr().out.splitlines()
    assert first == f"in.png, 20 x 10 pixels, on {kaio.Device('cpu').name}"
    assert head.split() == ["stage", "time", "PTX", "against", "NumPy"]
    assert [line.split()[0] for line in stages] == ["grey", "blur", "edges", "histogram", "equalise"]
    assert all(" ms " in line and " B " in line for line in stages)
    assert stages[0].endswith("equal")
    assert note.startswith("(last bits may differ: products are fused into sums")
    assert last == f"wrote {tmp_path / 'out.png'}"


def test_demo_of_a_missing_file_fails_cleanly(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    missing = tmp_path / "missing.jpg"
    assert main(["demo", str(missing)]) == 1
    assert capsys.readouterr().err == f"kaio: cannot read `{missing}` as a picture: No such file or directory\n"


def test_demo_that_cannot_write_fails_cleanly(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    write_picture(tmp_path / "in.png", noise(2, 2))
    out = tmp_path / "missing" / "out.png"
    assert main(["demo", str(tmp_path / "in.png"), "--device", "cpu", "--out", str(out)]) == 1
    assert capsys.readouterr().err == f"kaio: cannot write `{out}`: No such file or directory\n"


def test_demo_on_an_unknown_device_fails_cleanly(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["demo", "--device", "abacus", "--out", str(tmp_path / "out.png")]) == 1
    assert capsys.readouterr().err.startswith("kaio: ")


def test_no_command_shows_the_help_and_is_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("usage: python -m kaio")
    assert "demo" in shown.err
    assert "an image pipeline in kaio kernels" in shown.err


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert (caught.value.code, capsys.readouterr().out) == (0, f"kaio {kaio.__version__}\n")


@pytest.mark.parametrize("arguments", [["nonsense"], ["demo", "a", "b"], ["demo", "--nonsense"]])
def test_a_wrong_command_line_is_exit_code_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "usage: python -m kaio" in capsys.readouterr().err
