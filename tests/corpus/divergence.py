"""Threads that are not together: at barriers, at operations of a warp, at barriers of the grid and of a cluster."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import kaio
from kaio import In, InOut, Out, i32
from tests.corpus.case import ANY, BOUNDS, MOST, WARPS, Case, Launch, Report, Size, divergence


def ones(size: Size) -> Launch:
    """Nothing comes in, and ones come out."""
    out = np.ones(size.count, np.int32)
    return Launch((np.zeros_like(out),), size.blocks, size.threads, {"out": out})


# ---------------------------------------------------------------------- barriers
@kaio.kernel
def gone_round(out: Out[i32]):
    t, i = kaio.thread_idx.x, kaio.grid(1)
    if t < 40:
        kaio.bar_sync()  # HERE
    out[i] = 1


@kaio.kernel
def gone_through(out: Out[i32]):
    t, i = kaio.thread_idx.x, kaio.grid(1)
    if t < 40:
        out[i] = 1
    kaio.bar_sync()
    if t >= 40:
        out[i] = 1


@kaio.kernel
def two_lines(out: Out[i32]):
    if kaio.thread_idx.x < 32:
        out[kaio.grid(1)] = 1
        kaio.bar_sync()  # HERE
    else:
        kaio.bar_sync()  # OTHER
        out[kaio.grid(1)] = 1


@kaio.kernel
def one_line(out: Out[i32]):
    if kaio.thread_idx.x < 32:
        out[kaio.grid(1)] = 1
    kaio.bar_sync()
    if kaio.thread_idx.x >= 32:
        out[kaio.grid(1)] = 1


@kaio.kernel
def other_counts(out: Out[i32]):
    for _ in range(1 + kaio.warp_id()):
        kaio.bar_sync()  # HERE
    out[kaio.grid(1)] = 1


@kaio.kernel
def same_counts(out: Out[i32]):
    for k in range(kaio.block_dim.x):
        if k <= kaio.warp_id():
            out[kaio.grid(1)] = 1
        kaio.bar_sync()


@kaio.kernel
def continued_past(x: In[i32], out: InOut[i32]):
    i = kaio.grid(1)
    for k in range(4):
        if x[i] < k:
            continue
        kaio.bar_sync()  # HERE
        out[i] += 1


@kaio.kernel
def continued_behind(x: In[i32], out: InOut[i32]):
    i = kaio.grid(1)
    for k in range(4):
        kaio.bar_sync()
        if x[i] < k:
            continue
        out[i] += 1


def counts_of_four(size: Size) -> Launch:
    x = size.integers(size.count, 0, 4)
    return Launch((x, np.zeros_like(x)), size.blocks, size.threads, {"out": x + 1})


@kaio.kernel
def broken_out(x: In[i32], out: InOut[i32]):
    i = kaio.grid(1)
    for k in range(4):
        if x[i] < k:
            break
        out[i] += 1
        kaio.bar_sync()  # HERE


@kaio.kernel
def broken_out_together(x: In[i32], out: InOut[i32]):
    i = kaio.grid(1)
    for k in range(4):
        if kaio.bar_sync_and(x[i] < k):
            break
        if x[i] >= k:
            out[i] += 1


@kaio.kernel
def barrier_under_the_guard(x: In[i32], out: Out[i32]):
    s = kaio.shared_mem(MOST, i32)
    t, i = kaio.thread_idx.x, kaio.grid(1)
    if i < x.size:
        s[t] = x[i]
        kaio.bar_sync()  # HERE
        out[i] = s[t ^ 1]


@kaio.kernel
def barrier_outside_the_guard(x: In[i32], out: Out[i32]):
    s = kaio.shared_mem(MOST, i32)
    t, i = kaio.thread_idx.x, kaio.grid(1)
    if i < x.size:
        s[t] = x[i]
    kaio.bar_sync()
    if i < x.size:
        out[i] = s[t ^ 1]


def partial_block(size: Size) -> Launch:
    """Half of the last block has something to do."""
    x = size.integers(max(2, size.count - size.threads // 2) // 2 * 2)
    out = x.reshape(-1, 2)[:, ::-1].ravel()
    return Launch((x, np.zeros_like(x)), size.blocks, size.threads, {"out": out})


def allowed(size: Size) -> Launch:
    return replace(partial_block(size), options={"partial_barriers": True})


# ---------------------------------------------------------------------- who has returned
@kaio.kernel
def reduced_after_a_return(x: In[i32], out: Out[i32]):
    i = kaio.grid(1)
    if kaio.warp_id() == 1:
        return
    out[i] = kaio.block_reduce_sum(x[i])  # HERE


@kaio.kernel
def reduced_by_all(x: In[i32], out: Out[i32]):
    i = kaio.grid(1)
    total = kaio.block_reduce_sum(x[i] if kaio.warp_id() != 1 else 0)
    if kaio.warp_id() != 1:
        out[i] = total


def sums_without_a_warp(size: Size) -> Launch:
    x = size.integers((size.blocks, size.threads))
    used = np.arange(size.threads) // 32 != 1
    out = np.where(used, (x * used).sum(1, keepdims=True), 0)
    return Launch((x.ravel(), np.zeros(x.size, np.int32)), size.blocks, size.threads, {"out": out.ravel()})


@kaio.kernel
def barrier_after_a_return(x: In[i32], out: Out[i32]):
    """Right: who has returned counts as arrived."""
    s = kaio.shared_mem(MOST, i32)
    t, i = kaio.thread_idx.x, kaio.grid(1)
    if i >= x.size:
        return
    s[t] = x[i]
    kaio.bar_sync()
    out[i] = s[t ^ 1]


@kaio.kernel
def lane_that_returned(x: In[i32], out: Out[i32]):
    lane, i = kaio.lane_id(), kaio.grid(1)
    if lane == 0:
        return
    out[i] = kaio.shfl_sync_idx(x[i], 0)  # HERE


@kaio.kernel
def lane_that_stays(x: In[i32], out: Out[i32]):
    i = kaio.grid(1)
    out[i] = kaio.shfl_sync_idx(x[i], 0)


def firsts_of_warps(size: Size) -> Launch:
    x = size.integers(size.count)
    out = np.repeat(x[::32], 32)
    return Launch((x, np.zeros_like(x)), size.blocks, size.threads, {"out": out})


# ---------------------------------------------------------------------- masks
@kaio.kernel
def mask_of_absent_lanes(out: Out[i32]):
    if kaio.lane_id() < 16:
        kaio.syncwarp(0xFFFFFFFF)  # HERE
    kaio.bar_sync()  # OTHER
    out[kaio.grid(1)] = 1


@kaio.kernel
def mask_of_present_lanes(out: Out[i32]):
    if kaio.lane_id() < 16:
        kaio.syncwarp(0x0000FFFF)
    kaio.bar_sync()
    out[kaio.grid(1)] = 1


@kaio.kernel
def mask_without_oneself(out: Out[i32]):
    kaio.syncwarp(0x0000FFFF)  # HERE
    out[kaio.grid(1)] = 1


@kaio.kernel
def masks_that_differ(out: Out[i32]):
    lane = kaio.lane_id()
    mask = 0x000000FF if lane < 4 else 0x0000FFFF
    if lane < 8:
        out[kaio.grid(1)] = i32(kaio.vote_any(lane == 3, mask=mask))  # HERE
    else:
        out[kaio.grid(1)] = 1


@kaio.kernel
def masks_that_agree(out: Out[i32]):
    lane = kaio.lane_id()
    if lane < 8:
        out[kaio.grid(1)] = i32(kaio.vote_any(lane == 3, mask=0x000000FF))
    else:
        out[kaio.grid(1)] = 1


@kaio.kernel
def shuffles_in_two_branches(x: In[i32], out: Out[i32]):
    i = kaio.grid(1)
    if x[i] % 2 == 0:
        out[i] = kaio.shfl_sync_bfly(x[i], 1)  # HERE
    else:
        out[i] = -kaio.shfl_sync_bfly(x[i], 1)  # OTHER


@kaio.kernel
def shuffle_before_the_branch(x: In[i32], out: Out[i32]):
    i = kaio.grid(1)
    other = kaio.shfl_sync_bfly(x[i], 1)
    if x[i] % 2 == 0:
        out[i] = other
    else:
        out[i] = -other


def signed_neighbours(size: Size) -> Launch:
    x = size.integers(size.count)
    other = x.reshape(-1, 2)[:, ::-1].ravel()
    return Launch((x, np.zeros_like(x)), size.blocks, size.threads, {"out": np.where(x % 2 == 0, other, -other)})


@kaio.kernel
def reduced_by_some(x: In[i32], out: Out[i32]):
    i = kaio.grid(1)
    if kaio.warp_id() == 0:
        out[i] = kaio.block_reduce_max(x[i])  # HERE
    else:
        out[i] = 0


@kaio.kernel
def reduced_before_the_branch(x: In[i32], out: Out[i32]):
    i = kaio.grid(1)
    most = kaio.block_reduce_max(x[i])
    if kaio.warp_id() == 0:
        out[i] = most
    else:
        out[i] = 0


def maxima_in_the_first_warp(size: Size) -> Launch:
    x = size.integers((size.blocks, size.threads))
    out = np.where(np.arange(size.threads) < 32, x.max(1, keepdims=True), 0)
    return Launch((x.ravel(), np.zeros(x.size, np.int32)), size.blocks, size.threads, {"out": out.ravel()})


# ---------------------------------------------------------------------- named barriers, the grid, a cluster
@kaio.kernel
def too_few_at_a_named_barrier(out: Out[i32]):
    if kaio.warp_id() == 0:
        kaio.named_bar_sync(1, kaio.block_dim.x + 32)  # HERE
    else:
        kaio.named_bar_arrive(1, kaio.block_dim.x + 32)
    out[kaio.grid(1)] = 1


@kaio.kernel
def enough_at_a_named_barrier(out: Out[i32]):
    if kaio.warp_id() == 0:
        kaio.named_bar_sync(1, kaio.block_dim.x)
    else:
        kaio.named_bar_arrive(1, kaio.block_dim.x)
    out[kaio.grid(1)] = 1


@kaio.kernel
def block_that_skips_the_grid(out: Out[i32]):
    if kaio.block_idx.x != 1:
        kaio.grid_sync()  # HERE
    out[kaio.grid(1)] = 1


@kaio.kernel
def every_block_meets_the_grid(out: Out[i32]):
    kaio.grid_sync()
    out[kaio.grid(1)] = 1


@kaio.kernel
def block_that_skips_the_cluster(out: Out[i32]):
    if kaio.cluster_rank() == 0:
        kaio.cluster_sync()  # HERE
    out[kaio.grid(1)] = 1


@kaio.kernel
def every_block_meets_the_cluster(out: Out[i32]):
    kaio.cluster_sync()
    out[kaio.grid(1)] = 1


def ones_by_pairs(size: Size) -> Launch:
    made = ones(Size(2 * size.blocks, size.threads))
    return replace(made, options={"cluster": 2})


_ROUND = divergence("not all threads of a block reach a barrier")
_TWO = divergence("wait at different barriers")
_NEVER = divergence("can never be completed")
_PAIRS = tuple(n for n in ANY if n % 2 == 0)


def _at_bounds(*args, on_gpu: bool = False, **options) -> Case:
    return Case(*args, levels=BOUNDS, on_gpu=on_gpu, **options)


CASES = [
    _at_bounds(gone_round, gone_through, ones, _ROUND, on_gpu=True),
    _at_bounds(two_lines, one_line, ones, _TWO, on_gpu=True),
    _at_bounds(other_counts, same_counts, ones, _ROUND),
    _at_bounds(continued_past, continued_behind, counts_of_four, _ROUND),
    _at_bounds(broken_out, broken_out_together, counts_of_four, _ROUND),
    _at_bounds(barrier_under_the_guard, barrier_outside_the_guard, partial_block, _ROUND, threads=_PAIRS),
    _at_bounds(
        barrier_under_the_guard, barrier_under_the_guard, partial_block, _ROUND, of_mended=allowed, threads=_PAIRS,
        name="barrier_under_the_guard_allowed",
    ),
    _at_bounds(
        reduced_after_a_return, reduced_by_all, sums_without_a_warp,
        divergence("not all threads of a block reach `block_reduce_sum()`"),
    ),
    _at_bounds(
        lane_that_returned, lane_that_stays, firsts_of_warps,
        Report("lane", "`shfl_sync_idx` reads lane 0, which does not take part"), threads=WARPS,
    ),
    _at_bounds(mask_of_absent_lanes, mask_of_present_lanes, ones, _NEVER, threads=WARPS),
    _at_bounds(mask_without_oneself, mask_of_present_lanes, ones, _NEVER, threads=WARPS),
    _at_bounds(masks_that_differ, masks_that_agree, ones, _NEVER, threads=WARPS),
    _at_bounds(shuffles_in_two_branches, shuffle_before_the_branch, signed_neighbours, _NEVER, threads=_PAIRS),
    _at_bounds(
        reduced_by_some, reduced_before_the_branch, maxima_in_the_first_warp, divergence("`block_reduce_max"),
    ),
    _at_bounds(
        too_few_at_a_named_barrier, enough_at_a_named_barrier, ones, divergence("named barrier 1 is never completed"),
        threads=WARPS[1:],
    ),
    _at_bounds(
        block_that_skips_the_grid, every_block_meets_the_grid, ones, divergence("`grid_sync()`"),
    ),
    _at_bounds(
        block_that_skips_the_cluster, every_block_meets_the_cluster, ones_by_pairs, divergence("`cluster_sync()`"),
    ),
    Case(None, barrier_after_a_return, partial_block, threads=_PAIRS),
]  # fmt: skip
