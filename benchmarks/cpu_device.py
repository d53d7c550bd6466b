"""The CPU device against `numba.njit`, and against Numba's CUDA simulator on a size that it can finish.

- all that is in `cpu_work.py`: loops over elements, stencils, matmuls, sums of blocks and warps, a histogram; bounds
  checked (the default) and not, each against a twin for `njit`;
- a barrier, a `syncwarp` and a shuffle: ns a thread. A barrier that all threads are shown to reach costs no switch of
  threads; where that is not known, their number coming out of memory, it does;
- a launch of one block of 64 threads, launched and waited for, in a row: with checks of its arguments and bound, and
  one whose threads have a loop, which gets a thread of the stream;
- the first launch of a process that several workers share, over later ones: what starting them costs;
- saxpy of 4096 elements on the simulator, in a process of its own (it is switched on by an environment variable).

All this runs on one core, to which the process is bound, so that the CPU device has one worker as njit has one
thread. The work of `cpu_work.py` is measured once more with a worker on every core, in a process of its own.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import partial

import numpy as np
from cpu_work import WORKS
from harness import Report, Samples, compare, fresh_output, fresh_process, ratio, timed

import kaio
from examples.saxpy import saxpy
from kaio import InOut, Out, f32, i32

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
def barriers_of_memory(out: InOut[i32]):
    """The same as often as memory says."""
    for _ in range(out[0]):
        kaio.bar_sync()


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


def work_cases() -> dict[str, Callable[[], float]]:
    cases = {}
    for work in WORKS:
        runs = {f"{work.name}, njit": work.twin()}
        runs |= {f"{work.name}, {name}": work.bind(kaio.Device("cpu", check=check)) for name, check in CHECKS.items()}
        cases |= {name: partial(timed, run, unit="ms") for name, run in runs.items()}
    return cases


def barrier_cases() -> dict[str, Callable[[], float]]:
    device = kaio.Device("cpu")
    out, rounds = device.alloc_zeros(THREADS, i32), device.alloc_from(np.array([ROUNDS], np.int32))
    block = {
        "barrier": barriers.over(THREADS).block(THREADS).bind(out, ROUNDS),
        "barrier of a coroutine": barriers_of_memory.grid(1).block(THREADS).bind(rounds),
        "syncwarp": syncwarps.over(THREADS).block(THREADS).bind(out, ROUNDS),
        "shuffle": shuffles.over(THREADS).block(THREADS).bind(out, ROUNDS),
    }
    return {f"{name}, per thread": partial(_per_thread, bound) for name, bound in block.items()}


def _per_thread(bound: kaio.BoundLaunch) -> float:
    return timed(lambda: bound.launch().wait(), unit="ns") / (ROUNDS * THREADS)


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


def every_core() -> dict[str, Samples]:
    """All of `cpu_work.py` with a worker on every core."""
    found = json.loads(fresh_output("from cpu_work import print_every_core; print_every_core()"))
    return {name: Samples(f"{name}, bounds, every core", "ms", tuple(times)) for name, times in found.items()}


def main() -> None:
    report = Report("cpu_device")
    one_core = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {one_core})
    work = compare(work_cases(), unit="ms", rounds=7, warm_up=1)
    barrier = compare(barrier_cases(), unit="ns", rounds=7)
    small = compare(simulator_cases(), unit="ms", rounds=5, warm_up=1)
    launches = compare(launch_cases(), unit="us", rounds=15)
    started = compare({"workers start, first launch only": lambda: fresh_process(STARTED)}, unit="us", rounds=5)
    spread = every_core()
    for measured in (work, barrier, launches, started, small, spread):
        report.add(measured.values())
    for name in (each.name for each in WORKS):
        njit, short = work[f"{name}, njit"], "_".join(name.lower().replace(",", "").replace("'", "").split())
        report.ratios |= {f"{short}_{check}_speed_over_njit": ratio(njit, work[f"{name}, {check}"]) for check in CHECKS}
        report.ratios[f"{short}_every_core_speed_over_njit"] = ratio(njit, spread[name])
    report.ratios |= {
        "block_sums_1m_ms": round(work["block sums 1M, bounds"].median, 3),
        "saxpy_4096_speed_over_simulator": ratio(small["saxpy 4096 Numba simulator"], small["saxpy 4096 kaio"]),
        "launch_and_wait_us": round(launches["launch and wait, one block"].median, 2),
    }
    for name, samples in barrier.items():
        report.ratios["_".join(name.partition(",")[0].split()) + "_ns_per_thread"] = round(samples.median, 3)
    report.finish()


if __name__ == "__main__":
    main()
