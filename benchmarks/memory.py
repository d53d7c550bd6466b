"""Copies of 256 MiB between NumPy and a GPU, from pinned memory too, and 1 MiB allocated and freed: kaio and others.

Rates are in GB/s (10^9 bytes a second), into a new array where nothing else is said, as users write it: its pages are
part of the time. Allocation is the mean of a row, in microseconds. Needs an NVIDIA GPU.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from harness import Report, Samples, compare, ratio, timed

import kaio

N = 1 << 26  # f32: 256 MiB
NBYTES = 4 * N
SMALL = 1 << 18  # f32: 1 MiB
ROW = 2000

Case = Callable[[], float]
Cases = tuple[dict[str, Case], dict[str, Case]]


def rate(work: Callable[[], object], wait: Callable[[], object] = lambda: None) -> Case:
    """GB/s of one call, the wait included; what it gives is dropped outside of the time."""

    def sample() -> float:
        start = time.perf_counter()
        kept = work()
        wait()
        elapsed_s = time.perf_counter() - start
        del kept
        return NBYTES / elapsed_s / 1e9

    return sample


def kaio_cases(device: Any, host: np.ndarray[Any, Any]) -> Cases:
    buffer, out = device.alloc_from(host), np.zeros_like(host)
    pinned = device.alloc_pinned(N, kaio.f32)
    pinned[:] = host
    copies = {
        "kaio alloc_from": rate(lambda: device.alloc_from(host)),
        "kaio copy_from": rate(lambda: buffer.copy_from(host)),
        "kaio to_host": rate(buffer.to_host),
        "kaio to_host(out)": rate(lambda: buffer.to_host(out)),
        "kaio copy_from(pinned)": rate(lambda: buffer.copy_from(pinned).wait()),
        "kaio copy_to(pinned)": rate(lambda: buffer.copy_to(pinned).wait()),
        "kaio copy_to()": rate(lambda: buffer.copy_to().result()),
    }
    allocate = timed_row(lambda: device.alloc_empty(SMALL, kaio.f32), device.wait)
    return copies, {"kaio alloc_empty 1 MiB": allocate, **driver_pair(device)}


def timed_row(work: Callable[[], object], wait: Callable[[], object]) -> Case:
    return lambda: timed(work, repeat=ROW, unit="us", after=wait)


def driver_pair(device: Any) -> dict[str, Case]:
    """The stream-ordered pair of the driver, called from Python: what a pool without a cache of its own pays."""
    from kaio.runtime.cuda.driver import driver

    pool, raw = device.pool.handle, device.current_stream().raw

    def pair() -> None:
        pointer = driver.cuMemAllocFromPoolAsync(4 * SMALL, pool, raw)[1]
        driver.cuMemFreeAsync(pointer, raw)

    return {"cuMemAllocFromPoolAsync + cuMemFreeAsync": timed_row(pair, device.wait)}


def torch_cases(_: Any, host: np.ndarray[Any, Any]) -> Cases:
    import torch

    wait = torch.cuda.synchronize
    plain, out = torch.from_numpy(host), torch.zeros(N)
    pinned, there = torch.from_numpy(host).pin_memory(), torch.from_numpy(host).cuda()
    copies = {
        "torch .cuda()": rate(plain.cuda, wait),
        "torch copy_ from NumPy": rate(lambda: there.copy_(plain), wait),
        "torch .cpu()": rate(there.cpu, wait),
        "torch copy_ to NumPy": rate(lambda: out.copy_(there), wait),
        "torch copy_ from pinned": rate(lambda: there.copy_(pinned, non_blocking=True), wait),
        "torch copy_ to pinned": rate(lambda: pinned.copy_(there, non_blocking=True), wait),
    }
    return copies, {"torch.empty 1 MiB": timed_row(lambda: torch.empty(SMALL, device="cuda"), wait)}


def cupy_cases(_: Any, host: np.ndarray[Any, Any]) -> Cases:
    import cupy

    wait = cupy.cuda.Device().synchronize
    there, out = cupy.asarray(host), np.zeros_like(host)
    block = cupy.cuda.alloc_pinned_memory(NBYTES)
    pinned = np.frombuffer(block, np.float32, N)
    pinned[:] = host
    copies = {
        "CuPy asarray": rate(lambda: cupy.asarray(host), wait),
        "CuPy set": rate(lambda: there.set(host), wait),
        "CuPy asnumpy": rate(lambda: cupy.asnumpy(there), wait),
        "CuPy get(out)": rate(lambda: there.get(out=out), wait),
        "CuPy set from pinned": rate(lambda: there.set(pinned), wait),
        "CuPy get to pinned": rate(lambda: there.get(out=pinned), wait),
    }
    return copies, {"cupy.empty 1 MiB": timed_row(lambda: cupy.empty(SMALL, cupy.float32), wait)}


def numba_cases(_: Any, host: np.ndarray[Any, Any]) -> Cases:
    from numba import cuda

    there, out = cuda.to_device(host), np.zeros_like(host)
    pinned = cuda.pinned_array(N, np.float32)
    pinned[:] = host
    copies = {
        "numba-cuda to_device": rate(lambda: cuda.to_device(host), cuda.synchronize),
        "numba-cuda copy_to_host": rate(there.copy_to_host, cuda.synchronize),
        "numba-cuda copy_to_host(out)": rate(lambda: there.copy_to_host(out), cuda.synchronize),
        "numba-cuda from pinned": rate(lambda: there.copy_to_device(pinned), cuda.synchronize),
        "numba-cuda to pinned": rate(lambda: there.copy_to_host(pinned), cuda.synchronize),
    }

    def allocate() -> float:  # a row of so many would take a second
        return timed(lambda: cuda.device_array(SMALL, np.float32), repeat=ROW // 20, unit="us", after=cuda.synchronize)

    return copies, {"numba-cuda device_array 1 MiB": allocate}


def plain_copies(_: Any, host: np.ndarray[Any, Any]) -> Cases:
    """What memory of the host gives: one thread, and as many as kaio uses."""
    from kaio.runtime.crew import copy_bytes

    out = np.zeros_like(host)
    to, start = out.ctypes.data, host.ctypes.data
    return {
        "memcpy, 1 thread": rate(lambda: ctypes.memmove(to, start, NBYTES)),
        "memcpy, kaio's threads": rate(lambda: copy_bytes(to, start, NBYTES)),
        "memcpy to a new array, 1 thread": rate(host.copy),
    }, {}


def main() -> None:
    report = Report("memory")
    try:
        device = kaio.Device("cuda:0")
    except kaio.DeviceNotFoundError as problem:
        raise SystemExit(f"this benchmark needs a GPU: {problem}") from None
    host = np.arange(N, dtype=np.float32)
    copies, allocations = kaio_cases(device, host)
    for others in (torch_cases, cupy_cases, numba_cases, plain_copies):
        try:
            more, allocated = others(device, host)
        except Exception as problem:  # whatever a competitor raises, the others are still measured
            report.omit(others.__name__, f"{type(problem).__name__}: {problem}"[:300])
            continue
        copies |= more
        allocations |= allocated
    measured = compare(copies, unit="GB/s", rounds=9)
    took = compare(allocations, unit="us", rounds=15)
    report.add(measured.values())
    report.add(took.values())
    pairs = {
        "to_host_over_torch": ("kaio to_host", "torch .cpu()"),
        "alloc_from_over_torch": ("kaio alloc_from", "torch .cuda()"),
        "to_host_over_cupy": ("kaio to_host", "CuPy asnumpy"),
        "alloc_from_over_cupy": ("kaio alloc_from", "CuPy asarray"),
        "to_host_over_pinned": ("kaio to_host", "kaio copy_to(pinned)"),
        "alloc_from_over_pinned": ("kaio alloc_from", "kaio copy_from(pinned)"),
    }
    note(report, measured, pairs)
    kaios = "kaio alloc_empty 1 MiB"
    names = {"cupy": "cupy.empty 1 MiB", "torch": "torch.empty 1 MiB", "numba_cuda": "numba-cuda device_array 1 MiB"}
    floor = {"driver_pair": "cuMemAllocFromPoolAsync + cuMemFreeAsync"}
    note(report, took, {f"{name}_over_alloc": (row, kaios) for name, row in (names | floor).items()})
    report.finish()


def note(report: Report, measured: dict[str, Samples], pairs: dict[str, tuple[str, str]]) -> None:
    for name, (top, bottom) in pairs.items():
        if top in measured and bottom in measured:
            report.ratios[name] = ratio(measured[top], measured[bottom])


if __name__ == "__main__":
    main()
