"""The CPU device against `numba.njit`, and against Numba's CUDA simulator on a size that it can finish.

- saxpy of 16M elements, bounds checked (the default) and not;
- matmul of 512 x 512 through 16 x 16 tiles: njit has the same tiling;
- a barrier, a `syncwarp` and a shuffle: ns a thread;
- a launch of one block of 64 threads, launched and waited for, in a row: with checks of its arguments and bound, and
  one whose threads have a loop, which gets a thread of the stream;
- the first launch of a process that several workers share, over later ones: what starting them costs;
- saxpy of 4096 elements on the simulator, in a process of its own (it is switched on by an environment variable).

All this runs on one core, to which the process is bound, so that the CPU device has one worker as njit has one
thread. One more row has saxpy with a worker on every core, in a process of its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

import numpy as np
from harness import Report, compare, fresh_process, ratio, timed

import kaio
from examples.matmul import TILE, matmul
from examples.saxpy import saxpy
from kaio import Out, f32, i32

N = 1 << 24
SIZE = 512
ROUNDS, THREADS = 20_000, 256  # so many that the launch and its wake-up do not count
SIMULATED = 4096
CHECKS = {"bounds": "bounds", "unchecked": "off"}

SIMULATOR = f"""
import time
import numpy as np
from numba import cuda

@cuda.jit
def saxpy(x, y, a):
    i = cuda.grid(1)
    if i < y.size:
        y[i] = a * x[i] + y[i]

x, y, a = np.ones({SIMULATED}, np.float32), np.zeros({SIMULATED}, np.float32), np.float32(2)
start = time.perf_counter()
saxpy[{SIMULATED} // 256, 256](x, y, a)
print((time.perf_counter() - start) * 1e3)
"""

ALL_CORES = f"""
import os, statistics, time
import numpy as np
import kaio
from examples.saxpy import saxpy

os.sched_setaffinity(0, range(os.cpu_count()))
device = kaio.Device("cpu")
x, y = device.alloc_from(np.ones({N}, np.float32)), device.alloc_from(np.zeros({N}, np.float32))
bound = saxpy.over({N}).bind(x, y, 1e-6)

def one():
    start = time.perf_counter()
    bound.launch().wait()
    return (time.perf_counter() - start) * 1e3

one()
print(statistics.median(one() for _ in range(9)))
"""


STARTED = """
import os, statistics, time
import numpy as np
import kaio
from examples.saxpy import saxpy

os.sched_setaffinity(0, range(os.cpu_count()))
device = kaio.Device("cpu")
x, y = device.alloc_from(np.ones(1 << 20, np.float32)), device.alloc_from(np.ones(1 << 20, np.float32))
saxpy.over(64).launch(x[:64], y[:64], 2.0).wait()
bound = saxpy.over(x.size).bind(x, y, 2.0)

def one():
    start = time.perf_counter()
    bound.launch().wait()
    return (time.perf_counter() - start) * 1e6

first = one()
print(first - statistics.median(one() for _ in range(50)))
"""


@kaio.kernel
def barriers(out: Out[i32], rounds: i32):
    """Meet `rounds` times and do nothing else."""
    for _ in range(rounds):
        kaio.bar_sync()
    out[kaio.thread_idx.x] = rounds


@kaio.kernel
def syncwarps(out: Out[i32], rounds: i32):
    """Meet `rounds` times in warps and do nothing else."""
    for _ in range(rounds):
        kaio.syncwarp()
    out[kaio.thread_idx.x] = rounds


@kaio.kernel
def shuffles(out: Out[i32], rounds: i32):
    """Exchange a value with a neighbour `rounds` times."""
    value = kaio.thread_idx.x
    for _ in range(rounds):
        value = kaio.shfl_sync_bfly(value, 1)
    out[kaio.thread_idx.x] = value


def saxpy_cases() -> dict[str, Callable[[], float]]:
    from numba import njit

    @njit
    def plain(x, y, a):
        for i in range(y.size):
            y[i] = a * x[i] + y[i]

    x, y, a = np.ones(N, np.float32), np.zeros(N, np.float32), np.float32(1e-6)
    cases = {"saxpy 16M njit": lambda: timed(lambda: plain(x, y, a), unit="ms")}
    for name, check in CHECKS.items():
        cases[f"saxpy 16M kaio, {name}"] = _saxpy_on(kaio.Device("cpu", check=check), x, y)
    return cases


def _saxpy_on(device: kaio.Device, x: np.ndarray, y: np.ndarray) -> Callable[[], float]:
    bound = saxpy.over(N).bind(device.alloc_from(x), device.alloc_from(y), 1e-6)
    return lambda: timed(lambda: bound.launch().wait(), unit="ms")


def matmul_cases() -> dict[str, Callable[[], float]]:
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

    random = np.random.default_rng(0)
    a, b = random.random((2, SIZE, SIZE), dtype=np.float32)
    c = np.zeros((SIZE, SIZE), np.float32)
    cases = {"matmul 512 njit, same tiling": lambda: timed(lambda: tiled(a, b, c), unit="ms")}
    for name, check in CHECKS.items():
        device = kaio.Device("cpu", check=check)
        buffers = device.alloc_from(a), device.alloc_from(b), device.alloc_zeros((SIZE, SIZE), f32)
        cases[f"matmul 512 kaio, {name}"] = _matmul_on(buffers)
    return cases


def _matmul_on(buffers: tuple[kaio.GpuBuffer, ...]) -> Callable[[], float]:
    bound = matmul.over((SIZE, SIZE)).block(TILE, TILE).bind(*buffers)
    return lambda: timed(lambda: bound.launch().wait(), unit="ms")


def barrier_case() -> dict[str, Callable[[], float]]:
    device = kaio.Device("cpu")
    out = device.alloc_zeros(THREADS, i32)
    cases = {"barrier": barriers, "syncwarp": syncwarps, "shuffle": shuffles}
    return {f"{name}, per thread": _meeting_on(made, out) for name, made in cases.items()}


def _meeting_on(made: kaio.Kernel, out: kaio.GpuBuffer) -> Callable[[], float]:
    bound = made.over(THREADS).block(THREADS).bind(out, ROUNDS)
    return lambda: timed(lambda: bound.launch().wait(), unit="ns") / (ROUNDS * THREADS)


def launch_cases() -> dict[str, Callable[[], float]]:
    device = kaio.Device("cpu")
    x, y = device.alloc_from(np.ones(64, np.float32)), device.alloc_zeros(64, f32)
    launcher, out = saxpy.over(64).block(64), device.alloc_zeros(64, i32)
    bound, loop = launcher.bind(x, y, 2.0), barriers.grid(1).block(64)
    works = {
        "launch and wait, one block": lambda: launcher.launch(x, y, 2.0).wait(),
        "launch and wait, one block, bound": lambda: bound.launch().wait(),
        "launch and wait, one block with a loop": lambda: loop.launch(out, 1).wait(),
    }
    return {name: partial(timed, work, repeat=500, unit="us") for name, work in works.items()}


def simulator_cases() -> dict[str, Callable[[], float]]:
    device = kaio.Device("cpu")
    x, y = device.alloc_from(np.ones(SIMULATED, np.float32)), device.alloc_zeros(SIMULATED, f32)
    return {
        "saxpy 4096 Numba simulator": lambda: fresh_process(SIMULATOR, environment={"NUMBA_ENABLE_CUDASIM": "1"}),
        "saxpy 4096 kaio": lambda: timed(lambda: saxpy.over(SIMULATED).launch(x, y, 2.0).wait(), unit="ms"),
    }


def main() -> None:
    report = Report("cpu_device")
    one_core = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {one_core})
    big = compare(saxpy_cases() | matmul_cases(), unit="ms", rounds=11)
    barrier = compare(barrier_case(), unit="ns", rounds=11)
    small = compare(simulator_cases(), unit="ms", rounds=5, warm_up=1)
    launches = compare(launch_cases(), unit="us", rounds=15)
    started = compare({"workers start, first launch only": lambda: fresh_process(STARTED)}, unit="us", rounds=5)
    spread = compare({"saxpy 16M kaio, bounds, every core": lambda: fresh_process(ALL_CORES)}, unit="ms", rounds=3)
    for measured in (big, barrier, launches, started, small, spread):
        report.add(measured.values())
    njit, tiled = big["saxpy 16M njit"], big["matmul 512 njit, same tiling"]
    report.ratios = {
        "saxpy_16m_bounds_speed_over_njit": ratio(njit, big["saxpy 16M kaio, bounds"]),
        "saxpy_16m_unchecked_speed_over_njit": ratio(njit, big["saxpy 16M kaio, unchecked"]),
        "saxpy_16m_every_core_speed_over_njit": ratio(njit, spread["saxpy 16M kaio, bounds, every core"]),
        "matmul_512_bounds_speed_over_njit": ratio(tiled, big["matmul 512 kaio, bounds"]),
        "matmul_512_unchecked_speed_over_njit": ratio(tiled, big["matmul 512 kaio, unchecked"]),
        "saxpy_4096_speed_over_simulator": ratio(small["saxpy 4096 Numba simulator"], small["saxpy 4096 kaio"]),
        "launch_and_wait_us": round(launches["launch and wait, one block"].median, 2),
        "barrier_ns_per_thread": round(barrier["barrier, per thread"].median, 3),
        "syncwarp_ns_per_thread": round(barrier["syncwarp, per thread"].median, 3),
        "shuffle_ns_per_thread": round(barrier["shuffle, per thread"].median, 3),
    }
    report.finish()


if __name__ == "__main__":
    main()
