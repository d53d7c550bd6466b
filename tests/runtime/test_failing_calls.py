"""Each call of the driver that can fail does, once: the right error comes out, nothing hangs, nothing is left behind.

`failing_calls.py` says how; it finds the calls by itself, in the workloads that it has.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
COMPILER = shutil.which("cc")


@pytest.mark.skipif(sys.platform != "linux" or COMPILER is None, reason="needs Linux and a C compiler")
def test_whatever_call_fails_the_error_is_right_and_the_device_goes_on(tmp_path: Path) -> None:
    pytest.importorskip("cuda.bindings")
    library = tmp_path / "libcuda.so.1"
    build = [str(COMPILER), "-O1", "-shared", "-fPIC", "-pthread", "-Wl,-soname,libcuda.so.1", "-o", str(library)]
    subprocess.run([*build, str(HERE / "fake_driver" / "driver.c"), "-ldl"], check=True, timeout=120)
    environment = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path), "KAIO_FAKE_GPUS": "2"}
    command = [sys.executable, "-m", "tests.runtime.failing_calls"]
    found = subprocess.run(command, env=environment, cwd=HERE.parents[1], capture_output=True, text=True, timeout=280)
    assert found.returncode == 0, found.stderr[-4000:]
    *wrong, summary = [json.loads(line) for line in found.stdout.splitlines()]
    assert not wrong, "\n".join(f"{one['case']}: {one['wrong']}" for one in wrong[:10])
    assert summary["raised"] > summary["cases"] / 2  # most failures are told; the others are mended on the way
    assert {"cuLaunchKernel", "cuGraphLaunch", "cuLaunchHostFunc", "cuMemcpyPeerAsync"} <= set(summary["calls"])
