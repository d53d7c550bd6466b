"""Threads that do not meet where they should: a fault of kind "divergence", whatever the order of the threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kaio
from kaio import In, InOut, KernelFault, Out, i32
from kaio.runtime.stream import USUAL, RunOptions
from tests.dsl.compiler.host import compiled

ORDERS = pytest.mark.parametrize("seed", [None, 0, 3])
WORKERS = pytest.mark.parametrize("workers", [1, 2])


def another_line(x: In[i32], out: Out[i32]):
    t = kaio.thread_idx.x
    if x[t] == 1:
        kaio.bar_sync()
    else:
        kaio.bar_sync()
    out[t] = 1


def another_count(x: In[i32], out: Out[i32]):
    t = kaio.thread_idx.x
    for _ in range(3 + x[t]):
        kaio.bar_sync()
    out[t] = 1


def another_count_before_a_barrier(x: In[i32], out: Out[i32]):
    t = kaio.thread_idx.x
    k = 0
    while k < 3 + x[t]:
        kaio.bar_sync()
        k += 1
    out[t] = k
    kaio.bar_sync()
    out[t] = 1


def goes_round(x: In[i32], out: Out[i32]):
    t = kaio.thread_idx.x
    if x[t] == 0:
        kaio.bar_sync()
    out[t] = 1


def some_lanes(x: In[i32], out: Out[i32]):
    t = kaio.thread_idx.x
    if x[t] == 0:
        out[t] = kaio.shfl_sync_idx(t, 0, mask=0xFFFFFFFF)
    else:
        kaio.syncwarp()


def some_reduce(x: In[i32], out: Out[i32]):
    t = kaio.thread_idx.x
    if x[t] == 0:
        out[t] = kaio.block_reduce_sum(t)


def too_few_warps(x: In[i32], out: Out[i32]):
    kaio.named_bar_sync(1, kaio.block_dim.x + 32)
    out[kaio.thread_idx.x] = x[0]


def one_block(x: In[i32], out: Out[i32]):
    if kaio.block_idx.x == 1:
        kaio.cluster_sync()
    out[kaio.thread_idx.x] = x[0]


CASES = {
    another_line: ((3, 5), "threads of one block wait at different barriers in kernel"),
    another_count: ((3,), "not all threads of a block reach a barrier in kernel"),
    another_count_before_a_barrier: ((4, 7), "threads of one block wait at different barriers in kernel"),
    goes_round: ((3,), "not all threads of a block reach a barrier in kernel"),
    some_lanes: ((3, 5), " can never be completed in kernel"),
    some_reduce: ((3,), "block_reduce_sum"),
    too_few_warps: ((1,), "named barrier 1 is never completed in kernel"),
    one_block: ((2,), "`cluster_sync()` can never be completed in kernel"),
}


@pytest.mark.parametrize("function", CASES, ids=lambda function: function.__name__)
@WORKERS
@ORDERS
def test_divergence_is_told_with_its_lines_in_any_order(function: Any, workers: int, seed: int | None) -> None:
    lines, words = CASES[function]
    x = np.zeros(96, np.int32)
    x[37] = 1
    options = USUAL if seed is None else RunOptions(schedule=seed)
    kernel = compiled(function, stepped=seed is not None)
    cluster = 2 if function is one_block else 1
    with pytest.raises(KernelFault) as caught:
        kernel(4, 96, x, np.zeros(96, np.int32), workers=workers, options=options, cluster=cluster)
    message, first = str(caught.value), function.__code__.co_firstlineno
    assert caught.value.kind == "divergence"
    assert caught.value.facts["line"] - first in lines
    assert words in message
    for line in lines:
        assert f"test_divergence.py:{first + line}:" in message


def guarded(x: InOut[i32], n: i32):
    i = kaio.grid(1)
    if i < n:
        x[i] += 1
        kaio.bar_sync()
        x[i] += 1


def returned(x: InOut[i32], n: i32):
    i = kaio.grid(1)
    if i >= n:
        return
    x[i] += 1
    kaio.bar_sync()
    x[i] += 1


@WORKERS
def test_a_thread_that_returned_before_counts_as_arrived(workers: int) -> None:
    x = np.zeros(64, np.int32)
    compiled(returned)(2, 32, x, 40, workers=workers)
    np.testing.assert_array_equal(x, 2 * (np.arange(64) < 40))


def test_partial_barriers_let_a_guarded_barrier_pass(device: kaio.Device) -> None:
    kernel, x = kaio.kernel(guarded), device.alloc_zeros(64, i32)
    launch = kernel.over(64).block(32)
    launch.options(partial_barriers=True).launch(x, 40).wait()
    np.testing.assert_array_equal(x.to_host(), 2 * (np.arange(64) < 40))
    if device.kind == "cpu":
        with pytest.raises(KernelFault, match=r"`\.options\(partial_barriers=True\)`") as caught:
            launch.launch(device.alloc_zeros(64, i32), 40).wait()
        assert (caught.value.kind, caught.value.facts["block"]) == ("divergence", (1, 0, 0))
