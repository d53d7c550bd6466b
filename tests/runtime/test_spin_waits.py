"""Loops that wait for other threads: locks and flags between lanes, warps and blocks, without `nanosleep`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kaio
from kaio import InOut, i32
from kaio.runtime.stream import USUAL, RunOptions
from tests.dsl.compiler.host import compiled

WORKERS = pytest.mark.parametrize("workers", [1, 2, 5])
SEEDS = [None, 0, 1, 2]
ORDERS = pytest.mark.parametrize("seed", SEEDS)


def _run(function: Any, grid: Any, block: Any, *args: Any, seed: int | None = None, **how: Any) -> None:
    kernel = compiled(function, stepped=seed is not None)
    kernel(grid, block, *args, options=USUAL if seed is None else RunOptions(schedule=seed), **how)


def lock(words: InOut[i32]):
    """Every thread in turn; who holds the lock gives others the chance to come."""
    while kaio.atomic_cas(words, 0, 0, 1, order="acquire") != 0:
        pass
    count = kaio.load(words, 1, volatile=True)
    kaio.nanosleep(10)
    kaio.store(words, 1, count + 1, volatile=True)
    kaio.atomic_exch(words, 0, 0, order="release")


@WORKERS
@ORDERS
def test_a_lock_that_all_threads_take_in_turn(workers: int, seed: int | None) -> None:
    words = np.zeros(2, np.int32)
    _run(lock, 6, 50, words, workers=workers, seed=seed)
    assert words.tolist() == [0, 300]


def lock_in_a_branch(words: InOut[i32]):
    """The lock that needs threads which go on by themselves (Volta and later)."""
    done = False
    while not done:
        if kaio.atomic_exch(words, 0, 1) == 0:
            words[1] = kaio.load(words, 1, volatile=True) + 1
            kaio.fence()
            kaio.atomic_exch(words, 0, 0)
            done = True


@WORKERS
def test_a_lock_between_lanes_in_a_branch(workers: int) -> None:
    words = np.zeros(2, np.int32)
    _run(lock_in_a_branch, 3, 64, words, workers=workers)
    assert words.tolist() == [0, 192]


def passes_on(flags: InOut[i32]):
    """The last thread begins, each waits for the one after it."""
    t = kaio.thread_idx.x
    last = kaio.block_dim.x - 1
    if t != last:
        while kaio.load(flags, t + 1, volatile=True) == 0:
            pass
    kaio.store(flags, t, 1 + kaio.load(flags, t + 1, volatile=True), volatile=True)


@pytest.mark.parametrize("threads", [2, 32, 33, 300])
@ORDERS
def test_threads_of_a_block_wait_for_the_one_after_them(threads: int, seed: int | None) -> None:
    flags = np.zeros(threads + 1, np.int32)
    _run(passes_on, 1, threads, flags, seed=seed)
    np.testing.assert_array_equal(flags, np.arange(threads, -1, -1))


def waits_before_a_barrier(flags: InOut[i32]):
    """Two loops at two places, and a barrier after both."""
    t = kaio.thread_idx.x
    if t == 0:
        while kaio.load(flags, 0, volatile=True) != 1:
            pass
        kaio.store(flags, 1, 1, volatile=True)
    elif t == 40:
        kaio.store(flags, 0, 1, volatile=True)
        while kaio.load(flags, 1, volatile=True) != 1:
            pass
        kaio.store(flags, 2, 1, volatile=True)
    kaio.bar_sync()
    kaio.atomic_add(flags, 3, kaio.load(flags, 2, volatile=True))


@ORDERS
def test_threads_wait_at_several_places_and_then_for_all(seed: int | None) -> None:
    flags = np.zeros(4, np.int32)
    _run(waits_before_a_barrier, 1, 70, flags, seed=seed)
    assert flags.tolist() == [1, 1, 1, 70]


def warp_waits_for_warp(flags: InOut[i32]):
    """One warp works in step, the other waits for its result."""
    if kaio.warp_id() == 0:
        while kaio.load(flags, 0, volatile=True) == 0:
            pass
        kaio.store(flags, 1 + kaio.lane_id(), kaio.load(flags, 0, volatile=True), volatile=True)
    else:
        total = kaio.warp_reduce_sum(kaio.lane_id())
        if kaio.lane_id() == 0:
            kaio.store(flags, 0, total, volatile=True)


@ORDERS
def test_a_warp_waits_for_what_another_computes_together(seed: int | None) -> None:
    flags = np.zeros(33, np.int32)
    _run(warp_waits_for_warp, 1, 64, flags, seed=seed)
    assert set(flags) == {496}


def waits_for_a_later_block(flags: InOut[i32]):
    """Block b waits for block b + 1; the last waits for none."""
    b = kaio.block_idx.x
    if kaio.thread_idx.x == 0:
        if b != kaio.grid_dim.x - 1:
            while kaio.load(flags, b + 1, volatile=True) == 0:
                pass
        kaio.store(flags, b, 1 + kaio.load(flags, b + 1, volatile=True), volatile=True)


@pytest.mark.parametrize("blocks", [2, 5, 100])
@WORKERS
def test_blocks_wait_for_blocks_that_begin_later(blocks: int, workers: int) -> None:
    flags = np.zeros(blocks + 1, np.int32)
    _run(waits_for_a_later_block, blocks, 3, flags, workers=workers)
    np.testing.assert_array_equal(flags, np.arange(blocks, -1, -1))


@pytest.mark.parametrize("seed", SEEDS[1:])
def test_blocks_wait_for_each_other_in_any_order(seed: int) -> None:
    flags = np.zeros(21, np.int32)
    _run(waits_for_a_later_block, 20, 3, flags, seed=seed)
    np.testing.assert_array_equal(flags, np.arange(20, -1, -1))


def own_grid_barrier(words: InOut[i32]):
    """A barrier of the grid by hand, twice."""
    for turn in range(2):
        kaio.bar_sync()
        if kaio.thread_idx.x == 0:
            kaio.atomic_add(words, 0, 1)
            while kaio.load(words, 0, volatile=True) < (turn + 1) * kaio.grid_dim.x:
                pass
        kaio.bar_sync()
        here = kaio.load(words, 0, volatile=True) >= (turn + 1) * kaio.grid_dim.x
        kaio.atomic_add(words, 1 + turn, i32(here))


@WORKERS
def test_a_barrier_of_the_grid_by_hand(workers: int) -> None:
    words = np.zeros(3, np.int32)
    _run(own_grid_barrier, 37, 40, words, workers=workers)
    assert words.tolist() == [74, 37 * 40, 37 * 40]


def clusters_wait(flags: InOut[i32]):
    """A cluster waits for the next one."""
    which = kaio.block_idx.x // kaio.cluster_size()
    if which < kaio.grid_dim.x // kaio.cluster_size() - 1:
        while kaio.load(flags, which + 1, volatile=True) == 0:
            pass
    kaio.cluster_sync()
    if kaio.cluster_rank() == 0 and kaio.thread_idx.x == 0:
        kaio.store(flags, which, 1 + kaio.load(flags, which + 1, volatile=True), volatile=True)


@pytest.mark.parametrize("workers", [1, 2])
def test_clusters_wait_for_clusters_that_begin_later(workers: int) -> None:
    flags = np.zeros(9, np.int32)
    _run(clusters_wait, 16, 34, flags, workers=workers, cluster=2)
    np.testing.assert_array_equal(flags, np.arange(8, -1, -1))


def looks_past_the_caches(flags: InOut[i32]):
    if kaio.thread_idx.x == 0:
        while kaio.load(flags, 0, cache="cv") == 0:
            pass
        flags[1] = 1
    else:
        flags[0] = 1


def test_a_loop_may_wait_with_loads_past_the_caches() -> None:
    flags = np.zeros(2, np.int32)
    _run(looks_past_the_caches, 1, 2, flags)
    assert flags.tolist() == [1, 1]


def test_blocks_do_not_wait_for_more_than_a_gpu_holds(device: kaio.Device) -> None:
    if device.kind != "cpu":
        pytest.skip("a GPU would hang")
    kernel, most = kaio.kernel(waits_for_a_later_block), device.limits.multiprocessors * 2
    flags = device.alloc_zeros(most + 1, i32)
    kernel.grid(most).block(1024).launch(flags).wait()
    done = kernel.grid(2 * most).block(1024).options(timeout_s=0.3).launch(device.alloc_zeros(2 * most + 1, i32))
    with pytest.raises(kaio.KernelFault, match="a loop never ends in kernel `waits_for_a_later_block`"):
        done.wait()
