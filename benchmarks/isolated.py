"""The isolated device: launch and wait, against the same on a plain device; a row of launches; the next worker.

The kernel is saxpy of 1024 elements. The next worker is measured from the launch of a kernel that faults to the end of
a launch that came after the fault was told, and so is what a fault of each kind takes to be told. A plain device cannot
go on at all: what stands beside it is a new process with kaio and a context.
Needs an NVIDIA GPU on Linux.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from harness import Report, Samples, compare, fresh_process, ratio, timed

import kaio
from examples.saxpy import saxpy
from kaio.program import CudaProgram

N, LAUNCHES, FAULTS = 1024, 200, 10

HEAD = ".version 7.0\n.target sm_70\n.address_size 64\n"
BAD = {
    "illegal address": HEAD + ".visible .entry bad() { .reg .b64 %d1; mov.u64 %d1, 64; st.global.u32 [%d1], 1; ret; }",
    "trap": HEAD + ".visible .entry bad() { trap; ret; }",
    "endless": HEAD + ".visible .entry bad() { again: bra again; }",
}
LIMIT_S = 0.1

FRESH = """
import time
start = time.perf_counter()
import numpy as np, kaio
from examples.saxpy import saxpy
device = kaio.Device(0)
x, y = device.alloc_from(np.ones(1024, np.float32)), device.alloc_zeros(1024, kaio.f32)
saxpy.over(1024).launch(x, y, 2.0).wait()
print(time.perf_counter() - start)
"""


def round_trips(device: kaio.Device) -> dict[str, Any]:
    x, y = device.alloc_from(np.ones(N, np.float32)), device.alloc_zeros(N, kaio.f32)
    launcher = saxpy.over(N)
    bound = launcher.bind(x, y, 2.0)
    return {
        f"{device}: launch and wait": lambda: timed(
            lambda: launcher.launch(x, y, 2.0).wait(), repeat=LAUNCHES, unit="us"
        ),
        f"{device}: BoundLaunch and wait": lambda: timed(lambda: bound.launch().wait(), repeat=LAUNCHES, unit="us"),
        f"{device}: launch in a row": lambda: timed(
            lambda: launcher.launch(x, y, 2.0), repeat=LAUNCHES, unit="us", after=device.wait
        ),
        f"{device}: BoundLaunch in a row": lambda: timed(bound.launch, repeat=LAUNCHES, unit="us", after=device.wait),
        f"{device}: alloc and close 1 MiB": lambda: timed(
            lambda: device.alloc_empty(1 << 20, kaio.u8).close(), repeat=LAUNCHES, unit="us"
        ),
    }


def faults(device: kaio.Device, kind: str, ptx: str) -> tuple[Samples, Samples]:
    """Seconds until a fault is told, and until the next launch is done."""
    from kaio.runtime.stream import Launch, RunOptions

    loaded = device.load(CudaProgram("bad", device.target, (), 32, 0, ptx=ptx, cubin=ptx.encode() + b"\0"))
    x, y = device.alloc_from(np.ones(N, np.float32)), device.alloc_zeros(N, kaio.f32)
    options = RunOptions(timeout_s=LIMIT_S if kind == "endless" else None)
    told, gone_on = [], []
    for _ in range(FAULTS):
        saxpy.over(N).launch(x, y, 2.0).wait()
        start = time.perf_counter()
        done = device.current_stream().launch(Launch(loaded, (1, 1, 1), (1, 1, 1), b"", (), options=options))
        try:
            done.wait(60)
        except kaio.KernelFault:
            told.append(time.perf_counter() - start)
        y.fill(0)
        saxpy.over(N).launch(x, y, 2.0).wait(60)
        gone_on.append(time.perf_counter() - start)
        assert (x.to_host() == 1).all()
        assert (y.to_host() == 2).all()
    return Samples(f"{kind}: told", "s", tuple(told)), Samples(f"{kind}: next launch done", "s", tuple(gone_on))


def main() -> None:
    report = Report("isolated")
    start = time.perf_counter()
    isolated = kaio.Device(0, isolated=True)
    first_s = time.perf_counter() - start
    plain = kaio.Device(0)
    measured = compare(round_trips(plain) | round_trips(isolated), unit="us")
    report.add(measured.values())
    for what in ("launch and wait", "BoundLaunch and wait", "launch in a row", "BoundLaunch in a row"):
        report.ratios[f"isolated / plain: {what}"] = ratio(
            measured[f"{isolated}: {what}"], measured[f"{plain}: {what}"]
        )
    report.add([Samples("first worker and plain device", "s", (first_s,))])
    for kind, ptx in BAD.items():
        report.add(faults(isolated, kind, ptx))
    report.add([Samples("a new process with a context instead", "s", tuple(fresh_process(FRESH) for _ in range(3)))])
    report.finish()


if __name__ == "__main__":
    main()
