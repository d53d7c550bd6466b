"""What `cpu_device.py` measures: kernels on the CPU device, and the same work written for `numba.njit`.

A twin is the loop that one would write by hand, with the sizes that the kernel has as constants, too, and buffers of
the same types; `njit` does not check indices.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import kaio
from examples.matmul import TILE, matmul
from examples.saxpy import saxpy
from kaio import D2, In, InOut, Out, f32, i32, u8

__all__ = ["FEW", "THREADS", "WORKS", "Run", "Work", "every_core"]

N, SIDE, SIZE, FEW = 1 << 24, 4096, 512, 1 << 20
THREADS = 256
_RANDOM = np.random.default_rng(0)
Run = Callable[[], object]


@dataclass(frozen=True)
class Work:
    """One row: `bind` gives a run on a device, `twin` one of `numba.njit`."""

    name: str
    bind: Callable[[kaio.Device], Run]
    twin: Callable[[], Run]


def _launches(launcher: Any, *arrays: Any) -> Callable[[kaio.Device], Run]:
    """A bound launch; arrays become buffers, a shape a new f32 buffer, and the rest stays."""

    def bind(device: kaio.Device) -> Run:
        def given(value: Any) -> Any:
            if isinstance(value, np.ndarray):
                return device.alloc_from(value)
            return device.alloc_zeros(value, f32) if isinstance(value, tuple) else value

        bound = launcher.bind(*map(given, arrays))
        return lambda: bound.launch().wait()

    return bind


# ---------------------------------------------------------------------- element by element
def _saxpy_twin() -> Run:
    from numba import njit

    @njit
    def plain(x, y, a):
        for i in range(y.size):
            y[i] = a * x[i] + y[i]

    x, y, a = np.ones(N, np.float32), np.zeros(N, np.float32), np.float32(1e-6)
    return lambda: plain(x, y, a)


@kaio.kernel
def difference(a: In[u8], b: In[u8], out: Out[u8]):
    """How far two bytes are apart."""
    i = kaio.grid(1)
    if i < out.size:
        out[i] = u8(abs(i32(a[i]) - i32(b[i])))


def _difference_twin() -> Run:
    from numba import njit

    @njit
    def plain(a, b, out):
        for i in range(out.size):
            out[i] = np.uint8(abs(np.int32(a[i]) - np.int32(b[i])))

    a, b = _BYTES
    out = np.zeros(N, np.uint8)
    return lambda: plain(a, b, out)


@kaio.kernel
def smooth(x: In[f32], out: Out[f32]):
    """The mean of three neighbours, but at the ends."""
    i = kaio.grid(1)
    if i >= 1 and i < x.size - 1:
        out[i] = (x[i - 1] + x[i] + x[i + 1]) * f32(1 / 3)


def _smooth_twin() -> Run:
    from numba import njit

    @njit
    def plain(x, out):
        for i in range(1, x.size - 1):
            out[i] = (x[i - 1] + x[i] + x[i + 1]) * np.float32(1 / 3)

    x, out = np.ones(N, np.float32), np.zeros(N, np.float32)
    return lambda: plain(x, out)


@kaio.kernel
def five_points(a: In[f32, D2], out: Out[f32, D2]):
    """One step of Jacobi's method for the Poisson equation."""
    col, row = kaio.grid(2)
    if row >= 1 and row < a.shape[0] - 1 and col >= 1 and col < a.shape[1] - 1:
        out[row, col] = 0.25 * (a[row - 1, col] + a[row + 1, col] + a[row, col - 1] + a[row, col + 1])


def _five_points_twin() -> Run:
    from numba import njit

    @njit
    def plain(a, out):
        quarter = np.float32(0.25)
        for row in range(1, a.shape[0] - 1):
            for col in range(1, a.shape[1] - 1):
                out[row, col] = quarter * (a[row - 1, col] + a[row + 1, col] + a[row, col - 1] + a[row, col + 1])

    a, out = np.ones((SIDE, SIDE), np.float32), np.zeros((SIDE, SIDE), np.float32)
    return lambda: plain(a, out)


@kaio.kernel
def scaled(a: In[f32, D2], out: Out[f32, D2], factor: f32):
    """A guard in two dimensions."""
    col, row = kaio.grid(2)
    if row < out.shape[0] and col < out.shape[1]:
        out[row, col] = a[row, col] * factor


def _scaled_twin() -> Run:
    from numba import njit

    @njit
    def plain(a, out, factor):
        for row in range(out.shape[0]):
            for col in range(out.shape[1]):
                out[row, col] = a[row, col] * factor

    a, out, factor = np.ones((SIDE, SIDE), np.float32), np.zeros((SIDE, SIDE), np.float32), np.float32(2)
    return lambda: plain(a, out, factor)


@kaio.kernel
def grid_stride(x: In[f32], y: InOut[f32], a: f32):
    """Saxpy by a fixed number of threads."""
    for i in range(kaio.grid(1), y.size, kaio.grid_dim.x * kaio.block_dim.x):
        y[i] = a * x[i] + y[i]


# ---------------------------------------------------------------------- by blocks
def _matmul_twin() -> Run:
    from numba import njit

    @njit
    def tiled(a, b, c):
        n = a.shape[0]
        a_tile, b_tile = np.empty((TILE, TILE), np.float32), np.empty((TILE, TILE), np.float32)
        total = np.empty((TILE, TILE), np.float32)
        for row in range(0, n, TILE):
            for col in range(0, n, TILE):
                total[:] = 0
                for start in range(0, n, TILE):
                    for y in range(TILE):
                        for x in range(TILE):
                            a_tile[y, x] = a[row + y, start + x]
                            b_tile[y, x] = b[start + y, col + x]
                    for y in range(TILE):
                        for k in range(TILE):
                            scale = a_tile[y, k]
                            for x in range(TILE):
                                total[y, x] += scale * b_tile[k, x]
                for y in range(TILE):
                    for x in range(TILE):
                        c[row + y, col + x] = total[y, x]

    c = np.zeros((SIZE, SIZE), np.float32)
    return lambda: tiled(*_MATRICES, c)


@kaio.kernel
def naive_matmul(a: In[f32, D2], b: In[f32, D2], c: Out[f32, D2]):
    """A dot product a thread."""
    col, row = kaio.grid(2)
    if row < c.shape[0] and col < c.shape[1]:
        total = f32(0)
        for k in range(a.shape[1]):
            total += a[row, k] * b[k, col]
        c[row, col] = total


def _naive_matmul_twin() -> Run:
    from numba import njit

    @njit
    def plain(a, b, c):
        for row in range(c.shape[0]):
            for col in range(c.shape[1]):
                total = np.float32(0)
                for k in range(a.shape[1]):
                    total += a[row, k] * b[k, col]
                c[row, col] = total

    c = np.zeros((SIZE, SIZE), np.float32)
    return lambda: plain(*_MATRICES, c)


@kaio.kernel
def block_sums(x: In[f32], out: Out[f32]):
    """The sum of each block through a tree in shared memory, of nine barriers."""
    s = kaio.shared_mem((THREADS,), f32)
    tid, i = kaio.thread_idx.x, kaio.grid(1)
    s[tid] = x[i] if i < x.size else 0.0
    kaio.bar_sync()
    half = THREADS // 2
    while half > 0:
        if tid < half:
            s[tid] += s[tid + half]
        kaio.bar_sync()
        half //= 2
    if tid == 0:
        out[kaio.block_idx.x] = s[0]


@kaio.kernel
def warp_sums(x: In[f32], out: InOut[f32]):
    """The sum of each warp through five shuffles."""
    i = kaio.grid(1)
    value = x[i] if i < x.size else 0.0
    for k in range(5):
        value += kaio.shfl_sync_bfly(value, 1 << k)
    if i % 32 == 0:
        out[i // 32] = value


def _sum_twin() -> Run:
    from numba import njit

    @njit
    def plain(x):
        total = np.float32(0)
        for i in range(x.size):
            total += x[i]
        return total

    x = np.ones(FEW, np.float32)
    return lambda: plain(x)


@kaio.kernel
def histogram(x: In[u8], counts: InOut[i32]):
    """Counts in global memory."""
    i = kaio.grid(1)
    if i < x.size:
        kaio.atomic_add(counts, x[i], 1)


def _histogram_twin() -> Run:
    from numba import njit

    @njit
    def plain(x, counts):
        for i in range(x.size):
            counts[x[i]] += 1

    x, counts = _BYTES[0][:FEW], np.zeros(256, np.int32)
    return lambda: plain(x, counts)


_BYTES = _RANDOM.integers(0, 256, (2, N), np.uint8)
_MATRICES = _RANDOM.random((2, SIZE, SIZE), dtype=np.float32)
_IMAGE = np.ones((SIDE, SIDE), np.float32)
_X = np.ones(N, np.float32)
WORKS = (
    Work("saxpy 16M", _launches(saxpy.over(N), _X, (N,), 1e-6), _saxpy_twin),
    Work("saxpy 16M by a grid's stride", _launches(grid_stride.grid(256).block(256), _X, (N,), 1e-6), _saxpy_twin),
    Work("u8 difference 16M", _launches(difference.over(N), *_BYTES, np.zeros(N, np.uint8)), _difference_twin),
    Work("stencil of 3, 16M", _launches(smooth.over(N), _X, (N,)), _smooth_twin),
    Work(
        "stencil of 5, 4096 x 4096", _launches(five_points.over((SIDE, SIDE)), _IMAGE, (SIDE, SIDE)), _five_points_twin
    ),
    Work("guard in 2-D, 4096 x 4096", _launches(scaled.over((SIDE, SIDE)), _IMAGE, (SIDE, SIDE), 2.0), _scaled_twin),
    Work(
        "matmul 512, tiled",
        _launches(matmul.over((SIZE, SIZE)).block(TILE, TILE), *_MATRICES, (SIZE, SIZE)),
        _matmul_twin,
    ),
    Work("matmul 512, naive", _launches(naive_matmul.over((SIZE, SIZE)), *_MATRICES, (SIZE, SIZE)), _naive_matmul_twin),
    Work("block sums 1M", _launches(block_sums.over(FEW).block(THREADS), _X[:FEW], (FEW // THREADS,)), _sum_twin),
    Work("warp sums 1M", _launches(warp_sums.over(FEW).block(THREADS), _X[:FEW], (FEW // 32,)), _sum_twin),
    Work("histogram 1M", _launches(histogram.over(FEW), _BYTES[0][:FEW], np.zeros(256, np.int32)), _histogram_twin),
)


def every_core(rounds: int = 5) -> dict[str, list[float]]:
    """The times in ms of all works with a worker on every core, bounds checked."""
    os.sched_setaffinity(0, range(os.cpu_count() or 1))
    device = kaio.Device("cpu")
    found = {}
    for work in WORKS:
        run, times = work.bind(device), []
        run()
        for _ in range(rounds):
            start = time.perf_counter()
            run()
            times.append((time.perf_counter() - start) * 1e3)
        found[work.name] = times
    return found


def print_every_core() -> None:
    """For another process."""
    print(json.dumps(every_core()))
