"""Host cost of one launch: kaio's first-class call and its BoundLaunch, a C loop as the floor, and others.

The kernel is saxpy of 1024 elements: 2 buffers, 2 scalars at most, 4 blocks. A sample is the mean of a row of
launches; the GPU is waited for outside the time, and before its queue is full, where a launch would block. Beside the
floor stands the bare call of cuda.bindings with everything packed once: less is not to be had through it.

Then kaio alone: kernels of 1 to 32 buffers, launches in turn on two streams over the same and over other buffers, and
the first-class launch in less usual forms. Needs an NVIDIA GPU, and gcc for the floor.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import numpy as np
from c_saxpy import BLOCK, CSaxpy, N, check
from harness import Report, Samples, compare, ratio, timed

import kaio
from examples.saxpy import saxpy

COUNTS = (1, 2, 8, 32)
LAUNCHES = 200

C_LOOP = """
typedef int (*launch_t)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *,
                        void **, void **);
int loop(launch_t launch, void *function, void *stream, void **arguments, unsigned grid, unsigned block, int count) {
    int failed = 0;
    for (int i = 0; i < count; i++)
        failed |= launch(function, grid, 1, 1, block, 1, 1, 0, stream, arguments, 0);
    return failed;
}
"""

TRITON = """
import triton
import triton.language as tl

@triton.jit
def saxpy(x, y, a, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, a * tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)
"""

CUDA_C = """
extern "C" __global__ void saxpy(const float *x, float *y, float a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}
"""

Case = Callable[[], float]


def sample(launch: Callable[[], object], wait: Callable[[], object]) -> Case:
    return lambda: timed(launch, repeat=LAUNCHES, unit="us", after=wait)


def kaio_cases(device: kaio.Device) -> dict[str, Case]:
    x, y = device.alloc_from(np.ones(N, np.float32)), device.alloc_zeros(N, kaio.f32)
    bound = saxpy.over(N).bind(x, y, 2.0)
    return {
        "kaio launch": sample(lambda: saxpy.over(N).launch(x, y, 2.0), device.wait),
        "kaio BoundLaunch": sample(bound.launch, device.wait),
    }


def bare_bindings(device: kaio.Device) -> dict[str, Case]:
    """cuLaunchKernel of the same cubin through cuda.bindings with arguments made once, and through a native call."""
    from cuda.bindings import driver

    from kaio.runtime.cuda.launch import ArgumentBlock
    from kaio.runtime.cuda.thunk import launch_call

    x, y = device.alloc_from(np.ones(N, np.float32)), device.alloc_zeros(N, kaio.f32)
    program, stream = saxpy.compile(device), device.current_stream()
    loaded = device.load(program)
    packed = program.block.pack(x.pointer, N, y.pointer, N, 2.0)
    block = ArgumentBlock(len(packed))
    arguments = (loaded.function, N // BLOCK, 1, 1, BLOCK, 1, 1, 0, stream.raw, 0, block.put(packed))  # type: ignore[attr-defined]
    native = launch_call(loaded.function, (N // BLOCK, 1, 1), (BLOCK, 1, 1), 0, stream.raw, None)  # type: ignore[attr-defined]
    alive = (x, y, block)
    launch = driver.cuLaunchKernel

    def bare() -> None:
        assert alive
        launch(*arguments)

    cases = {"cuda.bindings, prepacked": sample(bare, device.wait)}
    if native is not None:
        cases["native call alone"] = sample(lambda: native(packed), device.wait)
    return cases


MANY = """
import kaio
from kaio import In, InOut, f32

@kaio.kernel
def saxpy({parameters}, a: f32):
    i = kaio.grid(1)
    if i < x0.size:
        x0[i] = {total}
"""


def of_buffers(count: int) -> kaio.Kernel:
    """A kernel with so many buffers, the first of them written."""
    parameters = ", ".join(f"x{k}: {'In' if k else 'InOut'}[f32]" for k in range(count))
    total = " + ".join(f"a * x{k}[i]" for k in range(count))
    with tempfile.TemporaryDirectory() as directory:  # kernels are read from files
        name = f"kernel_of_{count}"
        Path(directory, f"{name}.py").write_text(MANY.format(parameters=parameters, total=total))
        sys.path.insert(0, directory)
        try:
            found: kaio.Kernel = importlib.import_module(name).saxpy
        finally:
            sys.path.remove(directory)
    return found


def by_buffers(device: kaio.Device) -> dict[str, Case]:
    """Launches of kernels with more and more buffers."""
    cases = {}
    for count in COUNTS:
        kernel, buffers = of_buffers(count), [device.alloc_zeros(N, kaio.f32) for _ in range(count)]
        launcher = kernel.over(N)
        bound = launcher.bind(*buffers, 2.0)
        cases[f"kaio launch, {count} buffers"] = sample(partial(launcher.launch, *buffers, 2.0), device.wait)
        cases[f"kaio BoundLaunch, {count} buffers"] = sample(bound.launch, device.wait)
    return cases


def crossing(device: kaio.Device) -> dict[str, Case]:
    """Launches in turn on two streams, over the same buffers, which crosses, and over buffers of each stream's own."""
    streams = [device.stream(), device.stream()]
    pairs = [(device.alloc_zeros(N, kaio.f32), device.alloc_zeros(N, kaio.f32)) for _ in streams]
    apart = [saxpy.over(N).on(stream) for stream in streams]

    def same() -> None:
        for launcher in apart:
            launcher.launch(*pairs[0], 2.0)

    def own() -> None:
        for launcher, pair in zip(apart, pairs, strict=True):
            launcher.launch(*pair, 2.0)

    def halved(work: Callable[[], None]) -> Case:
        return lambda: timed(work, repeat=LAUNCHES // 2, unit="us", after=device.wait) / 2

    return {"kaio launch, streams in turn": halved(own), "kaio launch, streams that cross": halved(same)}


def other_forms(device: kaio.Device) -> dict[str, Case]:
    """The first-class launch where it is not quite the usual one."""
    x, y = device.alloc_from(np.ones(N, np.float32)), device.alloc_zeros(N, kaio.f32)
    z = device.alloc_zeros(N, kaio.f32)
    chain = [saxpy.over(N).bind(x, y, 2.0), saxpy.over(N).bind(y, z, 2.0)]

    def in_turn() -> None:
        for bound in chain:
            bound.launch()

    return {
        "kaio launch, completions kept": sample(partial(_kept, x, y), device.wait),
        "kaio launch, by keyword": sample(lambda: saxpy.over(N).launch(x, y, a=2.0), device.wait),
        "kaio launch, a whole number for an f32": sample(lambda: saxpy.over(N).launch(x, y, 2), device.wait),
        "kaio BoundLaunch, two in turn": lambda: timed(in_turn, repeat=LAUNCHES // 2, unit="us", after=device.wait) / 2,
    }


_done: list[object] = []


def _kept(x: object, y: object) -> None:
    _done[:] = [saxpy.over(N).launch(x, y, 2.0)]


def c_floor(device: kaio.Device) -> dict[str, Case]:
    """cuLaunchKernel in a loop in C, of the same cubin, on a stream of its own."""
    c = CSaxpy(device, C_LOOP)
    launch = ctypes.cast(c.driver.cuLaunchKernel, ctypes.c_void_p)

    def row() -> None:
        check(c.loop(launch, c.function, c.stream, c.arguments, N // BLOCK, BLOCK, LAUNCHES))

    return {"C loop over cuLaunchKernel": lambda: timed(row, unit="us", after=c.wait) / LAUNCHES}


def numba_cuda(_: kaio.Device) -> dict[str, Case]:
    from numba import cuda

    @cuda.jit
    def plain(x, y, a):
        i = cuda.grid(1)
        if i < y.size:
            y[i] = a * x[i] + y[i]

    x, y = cuda.to_device(np.ones(N, np.float32)), cuda.to_device(np.zeros(N, np.float32))
    a = np.float32(2)
    configured = plain[N // BLOCK, BLOCK]
    return {
        "numba-cuda": sample(lambda: plain[N // BLOCK, BLOCK](x, y, a), cuda.synchronize),
        "numba-cuda, configured once": sample(lambda: configured(x, y, a), cuda.synchronize),
    }


def cupy_raw(_: kaio.Device) -> dict[str, Case]:
    import cupy

    kernel = cupy.RawKernel(CUDA_C, "saxpy")
    x, y, a, n = cupy.ones(N, cupy.float32), cupy.zeros(N, cupy.float32), np.float32(2), np.int32(N)
    return {
        "CuPy RawKernel": sample(lambda: kernel((N // BLOCK,), (BLOCK,), (x, y, a, n)), cupy.cuda.Device().synchronize)
    }


def triton(_: kaio.Device) -> dict[str, Case]:
    import torch

    with tempfile.TemporaryDirectory() as directory:  # Triton reads its kernels from files
        Path(directory, "triton_saxpy.py").write_text(TRITON)
        sys.path.insert(0, directory)
        kernel = importlib.import_module("triton_saxpy").saxpy
        sys.path.remove(directory)
        x, y = torch.ones(N, device="cuda"), torch.zeros(N, device="cuda")
        kernel[(N // BLOCK,)](x, y, 2.0, N, BLOCK=BLOCK)  # compiles while its file is there
    launch = sample(lambda: kernel[(N // BLOCK,)](x, y, 2.0, N, BLOCK=BLOCK), torch.cuda.synchronize)
    return {"Triton": launch, "torch add_": sample(lambda: y.add_(x, alpha=2.0), torch.cuda.synchronize)}


def main() -> None:
    # Numba reads this when it is first imported: its warning of small grids is no part of a launch.
    os.environ["NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS"] = "0"
    report = Report("launch")
    try:
        device = kaio.Device("cuda:0")
    except kaio.DeviceNotFoundError as problem:
        raise SystemExit(f"this benchmark needs a GPU: {problem}") from None
    cases = kaio_cases(device)
    for others in (bare_bindings, by_buffers, crossing, other_forms, c_floor, numba_cuda, cupy_raw, triton):
        try:
            cases |= others(device)
        except Exception as problem:  # whatever a competitor raises, the others are still measured
            report.omit(others.__name__, f"{type(problem).__name__}: {problem}"[:300])
    measured = compare(cases, unit="us", rounds=25)
    report.add(measured.values())
    floor = measured.get("C loop over cuLaunchKernel")
    if floor:
        report.ratios["launch_over_c_floor"] = ratio(measured["kaio launch"], floor)
        report.ratios["bound_launch_over_c_floor"] = ratio(measured["kaio BoundLaunch"], floor)
    report.ratios |= within_kaio(measured)
    for name in ("numba-cuda", "CuPy RawKernel", "Triton"):
        if name in measured:
            key = name.split()[0].lower().replace("-", "_")
            report.ratios[f"{key}_over_launch"] = ratio(measured[name], measured["kaio launch"])
    report.finish()


def within_kaio(measured: Mapping[str, Samples]) -> dict[str, float]:
    """What kaio adds to what it is made of: in microseconds, and one ratio."""
    bare, most, least = "cuda.bindings, prepacked", COUNTS[-1], COUNTS[0]
    pairs = {
        "bound_launch_above_bindings_us": ("kaio BoundLaunch", bare),
        "launch_above_bindings_us": ("kaio launch", bare),
        "crossing_streams_us": ("kaio launch, streams that cross", "kaio launch, streams in turn"),
    }
    found = {
        name: round(measured[one].median - measured[other].median, 2)
        for name, (one, other) in pairs.items()
        if one in measured and other in measured
    }
    many, few = (f"kaio BoundLaunch, {count} buffers" for count in (most, least))
    if many in measured:
        found[f"bound_launch_{most}_buffers_over_{least}"] = ratio(measured[many], measured[few])
    return found


if __name__ == "__main__":
    main()
