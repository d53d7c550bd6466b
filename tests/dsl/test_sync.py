"""Barriers that count, and those of some warps of a block."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kaio
from kaio import In, Out, i32
from tests.dsl.from_text import kernel
from tests.dsl.warps import CPU, fault, run
from tests.refusals import first_mistake


@kaio.kernel
def counted(x: In[i32], out: Out[i32]) -> None:
    t = (kaio.thread_idx.z * kaio.block_dim.y + kaio.thread_idx.y) * kaio.block_dim.x + kaio.thread_idx.x
    total = 0
    for k in range(5):
        total += 1000 * kaio.bar_sync_count(x[t] > k)
        total += 10 * i32(kaio.bar_sync_and(x[t] > k)) + i32(kaio.bar_sync_or(x[t] > k))
    out[t] = total


def check_counts(x: np.ndarray, block: Any, device: kaio.Device) -> None:
    expected = sum(1000 * (x > k).sum() + 10 * (x > k).all() + (x > k).any() for k in range(5))
    np.testing.assert_array_equal(run(counted, block, x, np.zeros_like(x), device=device)[1], expected)


@given(x=st.lists(st.integers(0, 6), min_size=1, max_size=80))
@settings(max_examples=30, deadline=None)
def test_a_barrier_counts_the_threads_that_say_yes(x: list[int]) -> None:
    check_counts(np.array(x, np.int32), len(x), CPU)


@pytest.mark.parametrize("block", [1, 33, (5, 7), (4, 4, 9), 1024])
def test_a_barrier_counts_in_blocks_of_every_shape(device: kaio.Device, block: Any) -> None:
    check_counts(np.random.default_rng(0).integers(0, 6, int(np.prod(block))).astype(np.int32), block, device)


@kaio.kernel
def some_left(out: Out[i32], n: i32) -> None:
    t = kaio.thread_idx.x
    if t >= n:
        return
    v = kaio.shfl_sync_idx(t, 0)
    out[t] = kaio.bar_sync_count(t % 2 == 0) + 100 * i32(kaio.bar_sync_and(t >= 0)) + 0 * v


@pytest.mark.parametrize("n", [1, 40, 70])
def test_threads_that_have_returned_are_not_counted(n: int) -> None:
    result = run(some_left, 70, np.zeros(70, np.int32), n)[0]
    np.testing.assert_array_equal(result, np.where(np.arange(70) < n, (n + 1) // 2 + 100, 0))


# ---------------------------------------------------------------------- named barriers
@kaio.kernel
def pipeline(x: In[i32], out: Out[i32], rounds: i32) -> None:
    """Warp 0 makes, the others use: barrier 1 says that there is something, barrier 2 that it was used."""
    s = kaio.shared_mem(32, i32)
    t, lane = kaio.thread_idx.x, kaio.lane_id()
    total = 0
    for k in range(rounds):
        if kaio.warp_id() == 0:
            s[lane] = x[lane] + k
            kaio.named_bar_arrive(1, kaio.block_dim.x)
            kaio.named_bar_sync(2, kaio.block_dim.x)
        else:
            kaio.named_bar_sync(1, kaio.block_dim.x)
            total += s[31 - lane]
            kaio.named_bar_arrive(2, kaio.block_dim.x)
    out[t] = total


@pytest.mark.parametrize("warps", [2, 3, 8])
def test_a_warp_hands_work_to_others_through_two_named_barriers(device: kaio.Device, warps: int) -> None:
    x = np.arange(32, dtype=np.int32) * 3
    result = run(pipeline, 32 * warps, x, np.zeros(32 * warps, np.int32), 7, device=device)[1]
    used = 7 * x[::-1] + sum(range(7))
    np.testing.assert_array_equal(result.reshape(warps, 32), [0 * used, *[used] * (warps - 1)])


@kaio.kernel
def halves(out: Out[i32], order: In[i32]) -> None:
    """Each half of the block has a barrier of its own."""
    s = kaio.shared_mem(128, i32)
    t = kaio.thread_idx.x
    side = t // 64
    for k in range(4):
        s[t] = t * 10 + k
        kaio.named_bar_sync(side + 3, 64)
        out[t] = s[side * 64 + (t + 33) % 64]
        kaio.named_bar_sync(order[side], 64)
    kaio.bar_sync()


def test_named_barriers_of_two_halves_do_not_mix(device: kaio.Device) -> None:
    t = np.arange(128)
    result = run(halves, 128, np.zeros(128, np.int32), np.array([7, 15], np.int32), device=device)[0]
    np.testing.assert_array_equal(result, (t // 64 * 64 + (t + 33) % 64) * 10 + 3)


@kaio.kernel
def partial_warp(out: Out[i32]) -> None:
    kaio.named_bar_sync(1, 64)
    out[kaio.thread_idx.x] = 1


def test_a_warp_that_is_not_full_counts_as_one() -> None:
    assert run(partial_warp, 40, np.zeros(40, np.int32))[0].all()


@kaio.kernel
def too_few(out: Out[i32]) -> None:
    if kaio.warp_id() == 0:
        kaio.named_bar_sync(1, 96)
    else:
        kaio.bar_sync()


def test_a_named_barrier_to_which_too_few_come_is_reported_with_both_lines() -> None:
    message = fault(too_few, 64, np.zeros(1, np.int32))
    assert message.startswith(
        "named barrier 1 is never completed in kernel `too_few`\n"
        "  thread (0, 0, 0) of block (0, 0, 0) waits here for 96 threads; 32 have come, and no other can\n"
    )
    assert "thread (32, 0, 0) waits here" in message
    assert message.endswith("help: count all warps that come to it, those of `named_bar_arrive` too")
    assert len(re.findall(r"test_sync.py:\d+", message)) == 2


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("named_bar_sync(x[0], 32)", "the number of `named_bar_sync` is not 1 to 15 in kernel `k`"),
        ("named_bar_sync(1, x[1])", "`named_bar_sync` of a part of a warp in kernel `k`"),
        ("named_bar_sync(1 + lane_id() % 2, 32)", "lanes of one warp are at different barriers of `named_bar_sync`"),
        ("named_bar_arrive(1, 64 + 32 * warp_id())", "`named_bar_arrive` for another number of threads than those who"),
        (
            "if lane_id() < 5:\n        named_bar_sync(1, 32)\n    bar_sync()",
            "`named_bar_sync` can never be completed in kernel `k`",
        ),
    ],
)
def test_a_named_barrier_that_is_used_wrongly_is_a_fault(body: str, message: str) -> None:
    made = kernel(f"@kernel\ndef k(x: In[i32]):\n    {body}")
    assert message in fault(made, 64, np.array([16, 33], np.int32))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("bar_sync_count(x[0])", "`bar_sync_count` takes a bool, not f32"),
        ("named_bar_sync(0, 32)", "the number of `named_bar_sync` is 1 to 15, not 0"),
        ("named_bar_arrive(16, 32)", "the number of `named_bar_arrive` is 1 to 15, not 16"),
        ("named_bar_sync(1, 40)", "the threads of `named_bar_sync` are a multiple of 32 up to 1024, not 40"),
        ("named_bar_sync(1, x[0])", "`named_bar_sync` takes an integer as its threads, not f32"),
    ],
)
def test_a_barrier_that_means_nothing_is_refused(call: str, message: str) -> None:
    made = kernel(f"@kernel\ndef k(x: In[f32]):\n    {call}")
    assert message in first_mistake(made, "sm_90")
