"""What `check="full"` costs on the CPU device: the time of a launch with all checks over that of one with none.

Saxpy whose elements are shown to belong to one thread each, which needs no record of who touched them, and two where
that is not seen: by a grid's stride, and by indices that come out of memory; the tiled matmul; sums of blocks through
shared memory and `block_reduce_sum`, and of warps. With one worker, and with one on every core.
"""

from __future__ import annotations

import json
import os
import sys
from functools import partial

import numpy as np
from cpu_work import FEW, THREADS, WORKS, Run, Work
from harness import Report, Samples, compare, fresh_output, ratio, timed

import kaio
from kaio import In, InOut, Out, f32, i32

ROUNDS = 5
NAMES = ("saxpy 16M", "saxpy 16M by a grid's stride", "matmul 512, tiled", "block sums 1M", "warp sums 1M")
LEVELS = ("full", "bounds", "off")


@kaio.kernel
def indexed(order: In[i32], x: In[f32], y: InOut[f32], a: f32):
    """Saxpy of the elements that memory names."""
    t = kaio.grid(1)
    if t < order.size:
        i = order[t]
        y[i] = a * x[i] + y[i]


@kaio.kernel
def reduced(x: In[f32], out: Out[f32]):
    """The sum of each block by the collective."""
    total = kaio.block_reduce_sum(x[kaio.grid(1)])
    if kaio.thread_idx.x == 0:
        out[kaio.block_idx.x] = total


def _indexed(device: kaio.Device) -> Run:
    order = device.alloc_from(np.arange(FEW, dtype=np.int32))
    x, y = device.alloc_from(np.ones(FEW, np.float32)), device.alloc_zeros(FEW, f32)
    bound = indexed.over(FEW).bind(order, x, y, 1e-6)
    return lambda: bound.launch().wait()


def _reduced(device: kaio.Device) -> Run:
    x, out = device.alloc_from(np.ones(FEW, np.float32)), device.alloc_zeros(FEW // THREADS, f32)
    bound = reduced.over(FEW).block(THREADS).bind(x, out)
    return lambda: bound.launch().wait()


def _no_twin() -> Run:
    raise NotImplementedError


MEASURED = (
    *(work for work in WORKS if work.name in NAMES),
    Work("saxpy 1M by indices of memory", _indexed, _no_twin),
    Work("block_reduce_sum 1M", _reduced, _no_twin),
)


def measure(cores: str) -> dict[str, Samples]:
    """All works at each level, on these cores: "one" or "every"."""
    count = os.cpu_count() or 1
    os.sched_setaffinity(0, {count - 1} if cores == "one" else range(count))
    cases = {
        f"{work.name}, {level}, {cores} core": partial(timed, work.bind(kaio.Device("cpu", check=level)), unit="ms")
        for work in MEASURED
        for level in LEVELS
    }
    return compare(cases, unit="ms", rounds=ROUNDS, warm_up=1)


def main() -> None:
    report = Report("cpu_full")
    for cores in ("one", "every"):
        found = json.loads(fresh_output(f"import cpu_full; cpu_full.print_all({cores!r})"))
        samples = {name: Samples(name, "ms", tuple(values)) for name, values in found.items()}
        report.add(samples.values())
        for work in MEASURED:
            full, off = (samples[f"{work.name}, {level}, {cores} core"] for level in ("full", "off"))
            short = "_".join(work.name.lower().replace(",", "").replace("'", "").split())
            report.ratios[f"{short}_full_over_off_{cores}_core"] = ratio(full, off)
    report.finish()


def print_all(cores: str) -> None:
    """For another process."""
    json.dump({name: samples.values for name, samples in measure(cores).items()}, sys.stdout)


if __name__ == "__main__":
    main()
