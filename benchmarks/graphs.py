"""What a graph of 100 kernels costs: kaio's, launched eagerly beside it, a C floor, CuPy's and torch's graphs.

The kernels are saxpy of 1024 elements, 4 blocks each, one after the other. Two times are measured: what the host spends
on one launch of a graph, and the time of one kernel end to end, of a row of graphs and the wait for them.
Needs an NVIDIA GPU, and gcc for the floor.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np
from c_saxpy import BLOCK, CSaxpy, N, check
from harness import Report, compare, ratio, timed
from launch import CUDA_C

import kaio
from examples.saxpy import saxpy

KERNELS, ROW = 100, 10

C_LOOP = """
typedef int (*launch_t)(void *, void *);
int loop(launch_t launch, void *executable, void *stream, int count) {
    int failed = 0;
    for (int i = 0; i < count; i++) failed |= launch(executable, stream);
    return failed;
}
"""

Case = Callable[[], float]


def host_case(launch: Callable[[], object], wait: Callable[[], object]) -> Case:
    """Microseconds of the host for one launch of a graph."""
    return lambda: timed(launch, repeat=ROW, unit="us", after=wait)


def device_case(launch: Callable[[], object], wait: Callable[[], object]) -> Case:
    """Microseconds from the first launch of a row to the end of the last, for each kernel."""

    def row() -> None:
        for _ in range(ROW):
            launch()
        wait()

    return lambda: timed(row, unit="us") / (ROW * KERNELS)


def both(name: str, launch: Callable[[], object], wait: Callable[[], object]) -> dict[str, Case]:
    """The two times of one competitor."""
    return {f"{name}, host": host_case(launch, wait), f"{name}, each kernel": device_case(launch, wait)}


def kaio_cases(device: kaio.Device) -> dict[str, Case]:
    x, y = device.alloc_from(np.ones(N, np.float32)), device.alloc_zeros(N, kaio.f32)
    over, bound = saxpy.over(N), saxpy.over(N).bind(x, y, 2.0)
    with device.graph() as graph:
        for _ in range(KERNELS):
            over.launch(x, y, 2.0)
    recorded = graph.launches[0]

    def eager() -> None:
        for _ in range(KERNELS):
            bound.launch()

    def updated() -> None:
        graph.update(recorded, a=3.0)
        graph.launch()

    def record() -> None:
        with device.graph():
            for _ in range(KERNELS):
                over.launch(x, y, 2.0)

    return {
        **both("kaio graph", graph.launch, device.wait),
        **both("kaio BoundLaunch, 100 times", eager, device.wait),
        "kaio graph with one argument changed, host": host_case(updated, device.wait),
        "kaio graph recorded, host": lambda: timed(record, unit="us", after=device.wait),
    }


def c_floor(device: kaio.Device) -> dict[str, Case]:
    """cuGraphLaunch in a loop in C, of a graph captured from the same cubin."""
    c = CSaxpy(device, C_LOOP)
    driver, graph, executable = c.driver, ctypes.c_void_p(), ctypes.c_void_p()
    check(driver.cuStreamBeginCapture_v2(c.stream, 0))
    for _ in range(KERNELS):
        check(driver.cuLaunchKernel(c.function, N // BLOCK, 1, 1, BLOCK, 1, 1, 0, c.stream, c.arguments, None))
    check(driver.cuStreamEndCapture(c.stream, ctypes.byref(graph)))
    check(driver.cuGraphInstantiateWithFlags(ctypes.byref(executable), graph, ctypes.c_ulonglong(0)))
    launch = ctypes.cast(driver.cuGraphLaunch, ctypes.c_void_p)

    def row() -> None:
        check(c.loop(launch, executable, c.stream, ROW))

    def end_to_end() -> None:
        row()
        c.wait()

    return {
        "C graph, host": lambda: timed(row, unit="us", after=c.wait) / ROW,
        "C graph, each kernel": lambda: timed(end_to_end, unit="us") / (ROW * KERNELS),
    }


def cupy_graph(_: kaio.Device) -> dict[str, Case]:
    import cupy

    kernel = cupy.RawKernel(CUDA_C, "saxpy")
    x, y, a, n = cupy.ones(N, cupy.float32), cupy.zeros(N, cupy.float32), np.float32(2), np.int32(N)
    kernel((N // BLOCK,), (BLOCK,), (x, y, a, n))
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        for _ in range(KERNELS):
            kernel((N // BLOCK,), (BLOCK,), (x, y, a, n))
        graph = stream.end_capture()
    return both("CuPy graph", lambda: graph.launch(stream), stream.synchronize)


def torch_graph(_: kaio.Device) -> dict[str, Case]:
    import torch

    x, y = torch.ones(N, device="cuda"), torch.zeros(N, device="cuda")
    y.add_(x, alpha=2.0)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(KERNELS):
            y.add_(x, alpha=2.0)
    return both("torch.cuda.CUDAGraph", graph.replay, torch.cuda.synchronize)


def main() -> None:
    report = Report("graphs")
    try:
        device = kaio.Device("cuda:0")
    except kaio.DeviceNotFoundError as problem:
        raise SystemExit(f"this benchmark needs a GPU: {problem}") from None
    cases = kaio_cases(device)
    for others in (c_floor, cupy_graph, torch_graph):
        try:
            cases |= others(device)
        except Exception as problem:  # whatever a competitor raises, the others are still measured
            report.omit(others.__name__, f"{type(problem).__name__}: {problem}"[:300])
    measured = compare(cases, unit="us", rounds=25)
    report.add(measured.values())
    for which in ("host", "each kernel"):
        mine = measured[f"kaio graph, {which}"]
        for name in ("C graph", "CuPy graph", "torch.cuda.CUDAGraph", "kaio BoundLaunch, 100 times"):
            other = measured.get(f"{name}, {which}")
            if other is not None:
                report.ratios[f"kaio graph over {name}, {which}"] = ratio(mine, other)
    report.finish()


if __name__ == "__main__":
    main()
