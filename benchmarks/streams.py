"""What order between streams costs the host, and whether independent work overlaps.

Host: launches of saxpy of 1024 elements. On one stream, where managed order should add nothing; from stream to stream
over the same buffers, where each launch waits for the one before by event; and in the same way with CuPy's and torch's
own events. GPU: two kernels of half as many blocks as there are multiprocessors, over buffers of their own, one after
the other and on two streams: named, or chosen by `streams="pool"`. Needs an NVIDIA GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
from harness import Report, Samples, compare, ratio, timed

import kaio
from examples.saxpy import saxpy
from kaio import InOut, f32, i32

N, BLOCK = 1024, 256
LAUNCHES = 200
TURNS = 400_000  # of a loop of one fused multiply-add, about 1 ms

CUDA_C = """
extern "C" __global__ void saxpy(const float *x, float *y, float a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}
extern "C" __global__ void busy(float *out, int turns) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = out[i];
    for (int k = 0; k < turns; k++) v = v * 0.5f + 1.0f;
    out[i] = v;
}
"""

Case = Callable[[], float]


@kaio.kernel
def busy(out: InOut[f32], turns: i32) -> None:
    i = kaio.grid(1)
    v = out[i]
    for _ in range(turns):
        v = v * 0.5 + 1.0
    out[i] = v


def sample(launch: Callable[[], object], wait: Callable[[], object], per_call: int = 1) -> Case:
    """Microseconds of one launch, of which a call makes so many."""
    return lambda: timed(launch, repeat=LAUNCHES // per_call, unit="us", after=wait) / per_call


def gpu_time(work: Callable[[], object], wait: Callable[[], object]) -> Case:
    """Milliseconds until all of it is done."""
    return lambda: timed(lambda: (work(), wait()), unit="ms")


def saxpy_on(device: kaio.Device, streams: list[Any]) -> Callable[[], None]:
    """Launches saxpy over the same buffers on one stream after the other."""
    x, y = device.alloc_from(np.ones(N, np.float32)), device.alloc_zeros(N, f32)
    device.wait()
    launchers = [saxpy.over(N).on(stream) for stream in streams] if streams else [saxpy.over(N)] * 2

    def launch() -> None:
        for launcher in launchers:
            launcher.launch(x, y, 2.0)

    return launch


def host_cases(device: kaio.Device) -> dict[str, Case]:
    managed, manual = device.stream(), device.stream(ordering="manual")
    pooled = kaio.Device("cuda:0", streams="pool")
    crossing = [device.stream(), device.stream()]
    by_hand = [device.stream(ordering="manual") for _ in range(2)]
    x, y = device.alloc_from(np.ones(N, np.float32)), device.alloc_zeros(N, f32)
    device.wait()
    launchers = [saxpy.over(N).on(stream) for stream in by_hand]

    def wait_for() -> None:
        for k in (0, 1):
            by_hand[1 - k].wait_for(launchers[k].launch(x, y, 2.0))

    return {
        "one stream, managed": sample(saxpy_on(device, [managed] * 2), device.wait, 2),
        "one stream, manual": sample(saxpy_on(device, [manual] * 2), device.wait, 2),
        "one chain, default stream": sample(saxpy_on(device, []), device.wait, 2),
        "one chain, pool": sample(saxpy_on(pooled, []), pooled.wait, 2),
        "from stream to stream, managed": sample(saxpy_on(device, crossing), device.wait, 2),
        "from stream to stream, wait_for": sample(wait_for, device.wait, 2),
    }


def overlap_cases(device: kaio.Device) -> dict[str, Case]:
    blocks, threads = device.limits.multiprocessors // 2, 1024
    pooled = kaio.Device("cuda:0", streams="pool")
    streams = [device.stream(), device.stream()]

    def two(on: kaio.Device, places: list[Any]) -> Callable[[], None]:
        outs = [on.alloc_from(np.zeros(blocks * threads, np.float32)) for _ in range(2)]
        launcher = busy.grid(blocks).block(threads)

        def work() -> None:
            for out, place in zip(outs, places, strict=True):
                (launcher if place is None else launcher.on(place)).launch(out, TURNS)

        return work

    return {
        "two kernels, one stream": gpu_time(two(device, [None, None]), device.wait),
        "two kernels, two streams": gpu_time(two(device, streams), device.wait),
        "two kernels, pool": gpu_time(two(pooled, [None, None]), pooled.wait),
    }


def cupy_cases(device: kaio.Device) -> tuple[dict[str, Case], dict[str, Case]]:
    import cupy

    module = cupy.RawModule(code=CUDA_C)
    kernel, spin = module.get_function("saxpy"), module.get_function("busy")
    x, y, a, n = cupy.ones(N, cupy.float32), cupy.zeros(N, cupy.float32), np.float32(2), np.int32(N)
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(2)]
    events = [cupy.cuda.Event(disable_timing=True) for _ in range(2)]
    blocks, threads = device.limits.multiprocessors // 2, 1024
    outs = [cupy.zeros(blocks * threads, cupy.float32) for _ in range(2)]
    cupy.cuda.Device().synchronize()

    def same() -> None:
        with streams[0]:
            kernel((N // BLOCK,), (BLOCK,), (x, y, a, n))

    def cross() -> None:
        for k in (0, 1):
            with streams[k]:
                kernel((N // BLOCK,), (BLOCK,), (x, y, a, n))
                events[k].record(streams[k])
            streams[1 - k].wait_event(events[k])

    def two(places: list[Any]) -> Callable[[], None]:
        def work() -> None:
            for out, place in zip(outs, places, strict=True):
                with place or nullcontext():
                    spin((blocks,), (threads,), (out, np.int32(TURNS)))

        return work

    wait = cupy.cuda.Device().synchronize
    host = {"CuPy, one stream": sample(same, wait), "CuPy, from stream to stream": sample(cross, wait, 2)}
    overlaps = {
        "CuPy: two kernels, one stream": gpu_time(two([streams[0], streams[0]]), wait),
        "CuPy: two kernels, two streams": gpu_time(two(streams), wait),
    }
    return host, overlaps


def torch_cases(device: kaio.Device) -> tuple[dict[str, Case], dict[str, Case]]:
    import torch

    x, y = torch.ones(N, device="cuda"), torch.zeros(N, device="cuda")
    streams = [torch.cuda.Stream() for _ in range(2)]
    torch.cuda.synchronize()

    def same() -> None:
        y.add_(x, alpha=2.0)

    def cross() -> None:
        for k in (0, 1):
            with torch.cuda.stream(streams[k]):
                y.add_(x, alpha=2.0)
            streams[1 - k].wait_stream(streams[k])

    wait = torch.cuda.synchronize
    return {"torch, one stream": sample(same, wait), "torch, from stream to stream": sample(cross, wait, 2)}, {}


def main() -> None:
    report = Report("streams")
    try:
        device = kaio.Device("cuda:0")
    except kaio.DeviceNotFoundError as problem:
        raise SystemExit(f"this benchmark needs a GPU: {problem}") from None
    host, overlaps = host_cases(device), overlap_cases(device)
    for others in (cupy_cases, torch_cases):
        try:
            more_host, more_overlaps = others(device)
        except Exception as problem:  # whatever a competitor raises, the others are still measured
            report.omit(others.__name__, f"{type(problem).__name__}: {problem}"[:300])
        else:
            host |= more_host
            overlaps |= more_overlaps
    measured = compare(host, unit="us", rounds=25)
    report.add(measured.values())
    _host_ratios(report, measured)
    measured = compare(overlaps, unit="ms", rounds=15)
    report.add(measured.values())
    serial = measured["two kernels, one stream"]
    report.ratios["two_streams_over_serial"] = ratio(measured["two kernels, two streams"], serial)
    report.ratios["pool_over_serial"] = ratio(measured["two kernels, pool"], serial)
    if "CuPy: two kernels, two streams" in measured:
        theirs = measured["CuPy: two kernels, one stream"]
        report.ratios["cupy_two_streams_over_serial"] = ratio(measured["CuPy: two kernels, two streams"], theirs)
    report.finish()


def _host_ratios(report: Report, measured: dict[str, Samples]) -> None:
    one = measured["one stream, managed"]
    report.ratios["managed_over_manual_on_one_stream"] = ratio(one, measured["one stream, manual"])
    report.ratios["pool_over_one_for_a_chain"] = ratio(
        measured["one chain, pool"], measured["one chain, default stream"]
    )
    for who, alone, crossed in (
        ("", "one stream, managed", "from stream to stream, managed"),
        ("wait_for_", "one stream, manual", "from stream to stream, wait_for"),
        ("cupy_", "CuPy, one stream", "CuPy, from stream to stream"),
        ("torch_", "torch, one stream", "torch, from stream to stream"),
    ):
        if crossed in measured:
            added = measured[crossed].median - measured[alone].median
            report.ratios[f"{who}crossing_adds_us"] = float(f"{added:.4g}")


if __name__ == "__main__":
    main()
