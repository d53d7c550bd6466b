"""Where the worker of an isolated device comes from, and that it is gone when nobody needs it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kaio
from kaio.errors import KaioError
from tests.runtime.isolated.conftest import Lab, is_alive, until

pytestmark = pytest.mark.gpu

START = """
import os, signal, sys, kaio
from tests.runtime.isolated.conftest import Lab
gpu = kaio.Device(0, isolated=True)
lab = Lab(gpu)
lab.check_data()
print(gpu.link.process.pid, flush=True)
"""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Any]:
    """Run a script without a guard for its main module, given what comes after START; gives it and its worker."""
    started: list[subprocess.Popen[str]] = []

    def start(body: str = "", script: bool = True) -> tuple[subprocess.Popen[str], int]:
        file = tmp_path / "script.py"
        file.write_text(START + body)
        command = [sys.executable, str(file)] if script else [sys.executable, "-c", START + body]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )  # fmt: skip
        started.append(process)
        assert process.stdout is not None
        worker = process.stdout.readline()
        if not worker:
            raise AssertionError(process.communicate(timeout=60)[1])
        return process, int(worker)

    yield start
    for process in started:
        process.kill()
        process.communicate(timeout=60)


@pytest.mark.parametrize("script", [True, False])
def test_the_worker_ends_with_the_program(start: Any, script: bool) -> None:
    process, worker = start(script=script)
    out, errors = process.communicate(timeout=60)
    assert (process.returncode, out, errors) == (0, "", "")
    assert not is_alive(worker)


@pytest.mark.parametrize("how", ["os.kill(os.getpid(), signal.SIGKILL)", "os._exit(0)", "os.abort()"])
def test_the_worker_ends_with_a_program_that_ends_badly(start: Any, how: str) -> None:
    process, worker = start(f"sys.stdin.readline()\n{how}")
    assert is_alive(worker)
    process.communicate("\n", timeout=60)
    assert until(lambda: not is_alive(worker))


def test_a_worker_that_runs_an_endless_kernel_ends_with_a_program_that_is_killed(start: Any) -> None:
    process, worker = start('lab.launch("endless")\nsys.stdin.readline()')
    process.kill()
    process.communicate(timeout=60)
    assert until(lambda: not is_alive(worker))


def test_a_worker_ends_though_a_forked_child_keeps_what_its_parent_had(start: Any) -> None:
    process, worker = start("child = os.fork()\nif child: print(child, flush=True)\nsignal.pause()")
    child = int(process.stdout.readline())
    process.kill()
    try:
        assert until(lambda: not is_alive(worker))
    finally:
        os.kill(child, signal.SIGKILL)


def test_ctrl_c_does_not_reach_the_worker(start: Any) -> None:
    process, worker = start(
        "try:\n    print(flush=True)\n    signal.pause()\nexcept KeyboardInterrupt: pass\n"
        "lab.check_data()\nprint(gpu.generation)"
    )
    assert os.getsid(worker) != os.getsid(process.pid)
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=60)
    assert (process.returncode, out, errors) == (0, "0\n", "")


def test_a_failure_that_nobody_saw_is_logged_at_exit(start: Any) -> None:
    process, worker = start('lab.launch("fault")')
    out, errors = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "")
    assert errors.startswith("kernel `fault` on cuda:0 (isolated) failed and nobody asked: kernel `fault` failed on ")
    assert not is_alive(worker)


def test_an_endless_kernel_is_left_at_exit_with_a_word(start: Any) -> None:
    body = """
import kaio.runtime.leaving, kaio.runtime.isolated.device as isolated
isolated.finish = lambda *args, **rest: kaio.runtime.leaving.finish(*args, limit_s=0.01)
kaio.runtime.leaving._SILENT_S = 0.01
lab.launch("endless")
"""
    process, worker = start(body)
    out, errors = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "")
    assert "was not done 0.01 s after the program; it is left unfinished" in errors
    assert not is_alive(worker)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_is_told_and_leaves_the_worker_alone(lab: Lab) -> None:
    gpu, y = lab.gpu, lab.gpu.alloc_zeros(1000, kaio.f32)
    done = lab.saxpy(y)
    gpu.wait(60)
    child = os.fork()
    if not child:
        told = 0
        uses = (lambda: lab.saxpy(y), lambda: gpu.alloc_zeros(4, kaio.f32), y.to_host, gpu.wait, gpu.stream)
        for use in uses:
            try:
                use()
            except KaioError as error:
                told += "CUDA does not survive a fork, and the parent had started it" in str(error)
        os._exit(told)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
    done.wait(60)
    lab.check_data()


def test_a_worker_starts_from_a_process_that_was_spawned(start: Any, tmp_path: Path) -> None:
    (tmp_path / "spawned.py").write_text(START.replace("lab.check_data()", "") + "lab.check_data()\nos._exit(0)")
    process, _ = start(
        f"import subprocess\nprint(subprocess.run([sys.executable, {str(tmp_path / 'spawned.py')!r}]).returncode)"
    )
    out, errors = process.communicate(timeout=60)
    assert out.splitlines()[-1] == "0", errors
