"""The tests of the CUDA device on a driver without a GPU: its own logic, on any Linux machine with a C compiler."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
COMPILER = shutil.which("cc")
FILES = (
    "test_contract.py",
    "test_copies.py",
    "test_completion.py",
    "test_cuda.py",
    "test_cuda_completion.py",
    "test_cuda_faults.py",
    "test_cuda_graph.py",
    "test_envelope.py",
    "test_exact_waits.py",
    "test_foreign_streams.py",
    "test_graph.py",
    "test_graph_library.py",
    "test_large_copies.py",
    "test_memory.py",
    "test_order.py",
    "test_peers.py",
    "test_pinned.py",
    "test_policy.py",
    "test_processes.py",
    "test_quick_launch.py",
    "test_streams.py",
)
ISOLATED = (
    "isolated/test_contract.py",
    "isolated/test_checks.py",
    "isolated/test_faults.py",
    "isolated/test_memory.py",
    "isolated/test_processes.py",
    "isolated/test_work.py",
)


@pytest.mark.parametrize("files", [FILES, ISOLATED], ids=["plain", "isolated"])
@pytest.mark.skipif(sys.platform != "linux" or COMPILER is None, reason="needs Linux and a C compiler")
def test_the_cuda_device_keeps_the_contract_on_a_fake_driver(tmp_path: Path, files: tuple[str, ...]) -> None:
    pytest.importorskip("cuda.bindings")
    library = tmp_path / "libcuda.so.1"
    build = [str(COMPILER), "-O1", "-shared", "-fPIC", "-pthread", "-Wl,-soname,libcuda.so.1", "-o", str(library)]
    subprocess.run([*build, str(HERE / "fake_driver" / "driver.c"), "-ldl"], check=True, timeout=120)
    environment = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path), "KAIO_REQUIRE_GPU": "1", "KAIO_FAKE_GPUS": "2"}
    tests = [str(HERE / name) for name in files]
    # A limit for each test: one that hangs is named, with the stack of every thread.
    options = ["-p", "no:cacheprovider", "--timeout", "60", "-o", "faulthandler_timeout=50"]
    command = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", *options, *tests]
    found = subprocess.run(command, env=environment, cwd=HERE.parents[1], capture_output=True, text=True, timeout=280)
    assert found.returncode == 0, found.stdout[-8000:] + found.stderr[-8000:]
    assert "skipped" not in found.stdout.splitlines()[-1]
