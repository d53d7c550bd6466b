"""Host cost of one launch: kaio's first-class call and its BoundLaunch, a C loop as the floor, and others.

The kernel is saxpy of 1024 elements: 2 buffers, 2 scalars at most, 4 blocks. A sample is the mean of a row of
launches; the GPU is waited for outside the time, and before its queue is full, where a launch would block.
Needs an NVIDIA GPU, and gcc for the floor.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from harness import Report, compare, ratio, timed

import kaio
from examples.saxpy import saxpy
from kaio.program import CudaProgram

N, BLOCK = 1024, 256
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


def c_floor(device: kaio.Device) -> dict[str, Case]:
    """cuLaunchKernel in a loop in C, of the same cubin, on a stream of its own."""
    program = saxpy.compile(device.target)
    assert isinstance(program, CudaProgram)
    with tempfile.TemporaryDirectory() as directory:
        source, library = Path(directory, "loop.c"), Path(directory, "loop.so")
        source.write_text(C_LOOP)
        subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-o", library, source], check=True)
        loop = ctypes.CDLL(str(library)).loop
    driver = ctypes.CDLL("libcuda.so.1")
    context, module, function, stream = (ctypes.c_void_p() for _ in range(4))
    check(driver.cuInit(0))
    check(driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
    check(driver.cuCtxSetCurrent(context))
    image = ctypes.create_string_buffer(program.cubin, len(program.cubin))
    check(driver.cuModuleLoadData(ctypes.byref(module), image))
    check(driver.cuModuleGetFunction(ctypes.byref(function), module, program.name.encode()))
    check(driver.cuStreamCreate(ctypes.byref(stream), 1))

    x, y = device.alloc_from(np.ones(N, np.float32)), device.alloc_zeros(N, kaio.f32)
    device.wait()
    values = [
        ctypes.c_uint64(x.pointer),
        ctypes.c_int32(N),
        ctypes.c_uint64(y.pointer),
        ctypes.c_int32(N),
        ctypes.c_float(2),
    ]
    arguments = (ctypes.c_void_p * 5)(*[ctypes.addressof(value) for value in values])
    launch = ctypes.cast(driver.cuLaunchKernel, ctypes.c_void_p)
    alive = (x, y, values, image, module)

    def one() -> float:
        assert alive
        elapsed = timed(
            lambda: check(loop(launch, function, stream, arguments, N // BLOCK, BLOCK, LAUNCHES)), unit="us"
        )
        check(driver.cuStreamSynchronize(stream))
        return elapsed / LAUNCHES

    return {"C loop over cuLaunchKernel": one}


def check(code: int) -> None:
    if code:
        raise RuntimeError(f"the driver answered {code}")


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
    import importlib

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
    for others in (c_floor, numba_cuda, cupy_raw, triton):
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
    for name in ("numba-cuda", "CuPy RawKernel", "Triton"):
        if name in measured:
            key = name.split()[0].lower().replace("-", "_")
            report.ratios[f"{key}_over_launch"] = ratio(measured[name], measured["kaio launch"])
    report.finish()


if __name__ == "__main__":
    main()
