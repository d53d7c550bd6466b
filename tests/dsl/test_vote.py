"""Votes, ballots and matches: each lane gets what the PTX ISA says of the lanes of its mask."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kaio
from kaio import In, Out, i32, u32
from tests.dsl.from_text import kernel
from tests.dsl.warps import bits, fault, masks_of, run, warps
from tests.refusals import first_mistake


@kaio.kernel
def votes(x: In[i32], masks: In[u32], every: Out[u32], some: Out[u32], same: Out[u32], true: Out[u32]) -> None:
    t = kaio.thread_idx.x
    every[t] = u32(kaio.vote_all(x[t] > 0, masks[t]))
    some[t] = u32(kaio.vote_any(x[t] > 0, masks[t]))
    same[t] = u32(kaio.vote_uni(x[t] > 0, mask=masks[t]))
    true[t] = kaio.ballot(x[t] > 0, masks[t])


PAIRS = st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=100)


def check_votes(pairs: list[tuple[int, bool]], device: kaio.Device) -> None:
    groups, x = np.array([g for g, _ in pairs]), np.array([p for _, p in pairs], np.int32)
    masks, empty = masks_of(groups), np.zeros(len(pairs), np.uint32)
    found = run(votes, len(pairs), x, masks, empty, empty, empty, empty, device=device)[2:]
    expected = []
    for flags, of in zip(warps(x > 0), warps(masks), strict=True):
        for mask in of:
            true = bits(flags) & int(mask)
            expected.append((true == mask, true != 0, true in (0, mask), true))
    np.testing.assert_array_equal(np.array(found).T, expected)


@given(PAIRS)
@settings(max_examples=60, deadline=None)
def test_a_vote_asks_the_lanes_of_its_mask(pairs: list[tuple[int, bool]]) -> None:
    check_votes(pairs, kaio.Device("cpu"))


@pytest.mark.gpu
@given(PAIRS)
@settings(max_examples=60, deadline=None)
def test_a_vote_asks_the_lanes_of_its_mask_on_a_gpu(pairs: list[tuple[int, bool]]) -> None:
    check_votes(pairs, kaio.Device("cuda:0"))


@kaio.kernel
def without_masks(x: In[i32], out: Out[u32], n: i32) -> None:
    t = kaio.thread_idx.x
    if t >= n:
        return
    out[t] = kaio.ballot(x[t] > 0) + 2 * u32(kaio.vote_all(x[t] >= 0)) + kaio.match_any(x[t])


@pytest.mark.parametrize(("threads", "n"), [(1, 1), (20, 20), (32, 7), (70, 70), (96, 33)])
def test_without_a_mask_all_lanes_take_part_that_have_not_returned(device: kaio.Device, threads: int, n: int) -> None:
    x = np.arange(threads, dtype=np.int32) % 3
    expected = []
    for values in warps(x[:n]):
        expected += [bits(values > 0) + 2 + bits(values == value) for value in values]
    result = run(without_masks, threads, x, np.zeros(threads, np.uint32), n, device=device)[1]
    np.testing.assert_array_equal(result[:n], np.array(expected, np.uint64).astype(np.uint32))


DTYPES = [getattr(kaio, name) for name in ["bool_", "i8", "u16", "i32", "u32", "i64", "u64", "f32", "f64"]]
MATCHES = kernel("""
    @kernel
    def matches(x: In[T], masks: In[u32], some: Out[u32], every: Out[u32], is_same: Out[bool_]):
        t = thread_idx.x
        some[t] = match_any(x[t], masks[t])
        every[t], is_same[t] = match_all(x[t], mask=masks[t])
    """, T=TypeVar("T", *DTYPES))  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES, ids=repr)
@pytest.mark.parametrize("kinds", [1, 2, 5])
def test_a_match_compares_every_bit(device: kaio.Device, dtype: Any, kinds: int) -> None:
    rng = np.random.default_rng(kinds)
    raw = rng.integers(0, 256, kinds * dtype.itemsize, np.uint8)
    values = (raw % 2).astype(bool) if dtype is kaio.bool_ else raw.view(dtype.numpy)
    x, masks = values[rng.integers(0, kinds, 96)], masks_of(rng.integers(0, 2, 96))
    empty = np.zeros(96, np.uint32)
    _, _, some, every, is_same = run(MATCHES, 96, x, masks, empty, empty, np.zeros(96, bool), device=device)
    whole = [tuple(row) for row in x.view(np.uint8).reshape(96, -1)]
    for first in range(0, 96, 32):
        rows = whole[first : first + 32]
        for lane, mask in enumerate(masks[first : first + 32]):
            equal = bits([row == rows[lane] for row in rows]) & int(mask)
            assert some[first + lane] == equal
            assert (every[first + lane], is_same[first + lane]) == ((mask, True) if equal == mask else (0, False))


@kaio.kernel
def relations(out: Out[u32]) -> None:
    t = kaio.thread_idx.x
    every = kaio.lanemask_lt() | kaio.lanemask_eq() | kaio.lanemask_gt()
    assert every == 0xFFFFFFFF
    assert kaio.lanemask_le() == ~kaio.lanemask_gt()
    assert kaio.lanemask_ge() == ~kaio.lanemask_lt()
    out[t] = kaio.lanemask_lt()


def test_masks_of_lanes_before_and_behind_this_one(device: kaio.Device) -> None:
    result = run(relations, 64, np.zeros(64, np.uint32), device=device)[0]
    np.testing.assert_array_equal(result, [(1 << lane) - 1 for lane in range(32)] * 2)


@kaio.kernel
def active(out: Out[u32]) -> None:
    t = kaio.thread_idx.x
    out[t] = 0
    if t % 3 == 0:
        out[t] = kaio.activemask()


def test_lanes_of_a_branch_are_active_together_on_the_cpu_device() -> None:
    result = run(active, 40, np.zeros(40, np.uint32))[0]
    threads = np.arange(40)
    expected = [bits(warp % 3 == 0) for warp in warps(threads) for _ in warp]
    np.testing.assert_array_equal(result, np.where(threads % 3 == 0, expected, 0))


@kaio.kernel
def aggregated(x: In[i32], count: kaio.InOut[i32], places: Out[i32]) -> None:
    """Each lane of a branch gets a place, for one atomic addition a warp."""
    t = kaio.thread_idx.x
    if x[t] > 0:
        lanes = kaio.activemask()
        before, all_of_them = 0, 0
        for lane in range(32):
            all_of_them += i32((lanes >> lane) & 1)
            before += i32((lanes & kaio.lanemask_lt()) >> lane & 1)
        start = 0
        if before == 0:
            start = kaio.atomic_add(count, 0, all_of_them)
        leader = 0
        while (lanes >> leader) & 1 == 0:
            leader += 1
        places[t] = kaio.shfl_sync_idx(start, leader, mask=lanes) + before


def test_active_lanes_may_share_one_atomic_addition(device: kaio.Device) -> None:
    x = np.random.default_rng(3).integers(0, 2, 100).astype(np.int32)
    _, count, places = run(aggregated, 100, x, np.zeros(1, np.int32), np.full(100, -1, np.int32), device=device)
    assert count[0] == x.sum()
    np.testing.assert_array_equal(np.sort(places[x > 0]), np.arange(x.sum()))
    assert (places[x == 0] == -1).all()


# ---------------------------------------------------------------------- any program of warps
STEPS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 31)), min_size=1, max_size=12)
PROGRAM = kernel("""
    @kernel
    def program(x: In[u32], kinds: In[i32], operands: In[i32], leaves: In[i32], out: Out[u32]):
        t = thread_idx.x
        v = x[t]
        for step in range(kinds.size):
            if step == leaves[t]:
                out[t] = v
                return
            k = operands[step]
            if kinds[step] == 0:
                v += shfl_sync_idx(v, lane_id()) + ballot((v >> k) & 1 != 0)
            elif kinds[step] == 1:
                v ^= match_any(v & 3)
            elif kinds[step] == 2:
                side, other = ballot((v >> k) & 1 != 0), ballot((v >> k) & 1 == 0)
                if (v >> k) & 1 != 0:
                    v += ballot(v & 2 != 0, side)
                else:
                    v -= u32(vote_any(v & 4 != 0, other))
            elif kinds[step] == 3:
                syncwarp()
                v = v * 3 + lanemask_lt()
            else:
                bar_sync()
                v += u32(vote_uni(v & 1 != 0))
        out[t] = v
    """)  # fmt: skip


def model(x: np.ndarray, steps: list[tuple[int, int]], leaves: np.ndarray) -> np.ndarray:
    """The program in Python, step by step for all lanes that have not returned."""
    result = x.astype(object)
    for first in range(0, x.size, 32):
        v = {lane: int(value) for lane, value in enumerate(x[first : first + 32])}
        live = set(v)
        for step, (kind, k) in enumerate(steps):
            for lane in [lane for lane in live if leaves[first + lane] == step]:
                live.discard(lane)
            own = {lane: v[lane] for lane in live}
            true = sum(1 << lane for lane in live if own[lane] >> k & 1)
            for lane in live:
                if kind == 0:
                    v[lane] += own[lane] + true
                elif kind == 1:
                    v[lane] ^= sum(1 << other for other in live if own[other] & 3 == own[lane] & 3)
                elif kind == 2 and own[lane] >> k & 1:
                    v[lane] += sum(1 << other for other in live if true >> other & 1 and own[other] & 2)
                elif kind == 2:
                    v[lane] -= any(own[other] & 4 for other in live if not true >> other & 1)
                elif kind == 3:
                    v[lane] = own[lane] * 3 + (1 << lane) - 1
                else:
                    v[lane] += len({own[other] & 1 for other in live}) == 1
                v[lane] &= 0xFFFFFFFF
        for lane, value in v.items():
            result[first + lane] = value
    return result


def check_program(steps: list[tuple[int, int]], threads: int, seed: int, device: kaio.Device) -> None:
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 2**32, threads).astype(np.uint32)
    leaves = np.where(rng.random(threads) < 0.3, rng.integers(0, len(steps) + 1, threads), len(steps)).astype(np.int32)
    kinds, operands = (np.array(column, np.int32) for column in zip(*steps, strict=True))
    found = run(PROGRAM, threads, x, kinds, operands, leaves, np.zeros_like(x), device=device)[-1]
    np.testing.assert_array_equal(found, model(x, steps, leaves))


PROGRAMS = given(STEPS, st.integers(1, 80), st.integers(0, 1000))


@PROGRAMS
@settings(max_examples=80, deadline=None)
def test_warps_of_any_program_agree_with_its_model(steps: list[tuple[int, int]], threads: int, seed: int) -> None:
    check_program(steps, threads, seed, kaio.Device("cpu"))


@pytest.mark.gpu
@PROGRAMS
@settings(max_examples=80, deadline=None)
def test_warps_of_any_program_agree_with_its_model_on_a_gpu(
    steps: list[tuple[int, int]], threads: int, seed: int
) -> None:
    check_program(steps, threads, seed, kaio.Device("cuda:0"))


# ---------------------------------------------------------------------- faults and refusals
@kaio.kernel
def in_a_branch(out: Out[u32]) -> None:
    t = kaio.thread_idx.x
    if t < 4:
        out[t] = kaio.ballot(True)
    kaio.syncwarp()


def test_a_vote_that_not_all_lanes_reach_is_reported_with_both_lines() -> None:
    message = fault(in_a_branch, 8, np.zeros(8, np.uint32))
    assert message.startswith("`ballot` can never be completed in kernel `in_a_branch`\n")
    assert "(lane 0) waits here for all lanes of its warp" in message
    assert "thread (4, 0, 0) (lane 4) waits here" in message
    assert "out[t] = kaio.ballot(True)" in message
    assert "kaio.syncwarp()" in message


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("ballot(x[0])", "`ballot` takes a bool, not f32"),
        ("vote_all(1)", "`vote_all` takes a bool, not int literal 1"),
        ("match_any(x)", "`match_any` takes a number, or a value made of numbers, not In[f32]"),
        ("ballot(x[0] > 0, 1.0)", "the mask of `ballot` is a u32, one bit a lane, not float literal 1.0"),
    ],
)
def test_a_vote_that_means_nothing_is_refused(call: str, message: str) -> None:
    made = kernel(f"@kernel\ndef k(x: In[f32], out: InOut[u32]):\n    out[0] = u32({call})")
    assert message in first_mistake(made, "sm_90")
