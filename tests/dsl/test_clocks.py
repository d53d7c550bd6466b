"""Clocks go forward; a pause is a pause."""

from __future__ import annotations

import sys
import time

import numpy as np
import pytest

import kaio
from kaio import InOut, Out, f32, i32, i64
from tests.dsl.from_text import kernel
from tests.refusals import first_mistake


@kaio.kernel
def timed(x: InOut[f32], cycles: Out[i64], now: Out[i64]):
    start = kaio.clock()
    value = x[0]
    for _ in range(1000):
        value = value * 0.5 + 1.0
    x[0] = value
    cycles[0] = kaio.clock() - start
    now[0] = kaio.globaltimer()
    kaio.nanosleep(1000)
    now[1] = kaio.globaltimer()


def test_a_clock_counts_what_lies_between(device: kaio.Device) -> None:
    x, cycles, now = device.alloc_zeros(1, f32), device.alloc_zeros(1, i64), device.alloc_zeros(2, i64)
    timed.grid(1).block(1).launch(x, cycles, now).wait()
    assert cycles.to_host()[0] > 1000
    first, second = now.to_host()
    assert second >= first > 0


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no `clock_gettime`")
def test_the_timer_of_the_cpu_device_is_that_of_the_system() -> None:
    device = kaio.Device("cpu")
    x, cycles, now = device.alloc_zeros(1, f32), device.alloc_zeros(1, i64), device.alloc_zeros(2, i64)
    before = time.time_ns()
    timed.grid(1).block(1).launch(x, cycles, now).wait()
    assert before <= now.to_host()[0] <= now.to_host()[1] <= time.time_ns()


@kaio.kernel
def hand_on(order: Out[i32]):
    turn = kaio.shared_mem(1, i32)
    warp = kaio.warp_id()
    if kaio.thread_idx.x == 0:
        turn[0] = 0
    kaio.bar_sync()
    if kaio.lane_id() == 0:
        while kaio.atomic_add(turn, 0, 0) != order.size - 1 - warp:
            kaio.nanosleep(20)
        order[kaio.atomic_add(turn, 0, 1)] = warp


@pytest.mark.parametrize("threads", [32, 33, 128, 1024])
def test_a_warp_that_pauses_lets_those_behind_it_go_on(device: kaio.Device, threads: int) -> None:
    order = device.alloc_zeros((threads + 31) // 32, i32)
    hand_on.grid(1).block(threads).launch(order).wait()
    assert order.to_host().tolist() == list(range(order.size))[::-1]


@kaio.kernel
def lane_after_lane(order: Out[i32]):
    turn = kaio.shared_mem(1, i32)
    lane = kaio.thread_idx.x
    if lane == 0:
        turn[0] = 0
    kaio.syncwarp()
    while kaio.load(turn, 0, volatile=True) != kaio.block_dim.x - 1 - lane:
        kaio.nanosleep(20)
    order[kaio.atomic_add(turn, 0, 1)] = lane


@pytest.mark.parametrize("threads", [1, 7, 32])
def test_a_lane_that_pauses_lets_those_behind_it_go_on(device: kaio.Device, threads: int) -> None:
    order = device.alloc_zeros(threads, i32)
    lane_after_lane.grid(1).block(threads).launch(order).wait()
    assert order.to_host().tolist() == list(range(threads))[::-1]


@kaio.kernel
def barriers_of_its_own(arrived: InOut[i32], seen: Out[i32]):
    for turn in range(3):
        kaio.bar_sync()
        if kaio.thread_idx.x == 0:
            kaio.atomic_add(arrived, 0, 1)
            while kaio.load(arrived, 0, volatile=True) < (turn + 1) * kaio.grid_dim.x:
                kaio.nanosleep(20)
        kaio.bar_sync()
    kaio.grid_sync()
    seen[kaio.grid(1)] = arrived[0]


@pytest.mark.parametrize(("blocks", "threads"), [(1, 1), (7, 33), (30, 64)])
def test_a_block_that_pauses_lets_the_others_of_its_grid_go_on(device: kaio.Device, blocks: int, threads: int) -> None:
    arrived, seen = device.alloc_zeros(1, i32), device.alloc_zeros(blocks * threads, i32)
    barriers_of_its_own.grid(blocks).block(threads).launch(arrived, seen).wait()
    assert (seen.to_host() == 3 * blocks).all()


def test_who_pauses_is_neither_returned_nor_lost() -> None:
    pauses = kernel("""
        @kernel
        def pauses(x: InOut[f32]):
            i = grid(1)
            nanosleep(20)
            if i % 2 == 0:
                nanosleep(20)
            x[i] = block_reduce_sum(x[i]) + warp_reduce_max(x[i])
            nanosleep(20)
    """)
    x = kaio.Device("cpu").alloc_from(np.ones(300, np.float32))
    pauses.grid(3).block(100).launch(x).wait()
    assert (x.to_host() == 101).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("nanosleep(-1)", "`nanosleep` takes 0 to 1000000 ns, not -1"),
        ("nanosleep(2000000)", "`nanosleep` takes 0 to 1000000 ns, not 2000000"),
        ("nanosleep(x[0])", "`nanosleep` takes an integer, not f32"),
    ],
)
def test_a_pause_of_no_length_is_refused(call: str, message: str) -> None:
    made = kernel(f"@kernel\ndef k(x: InOut[f32]):\n    {call}")
    assert message in first_mistake(made, "sm_90")


@pytest.mark.parametrize("target", ["sm_75", "sm_90", "sm_120"])
def test_clocks_assemble(target: str) -> None:
    assert timed.compile(target).cubin
    assert timed.ptx(target).count("%clock64") == 2
