"""Block reductions as they are often written, and as the Rust project KAIO lowered them: one scratch for all calls.

There a sum was folded by shuffles in each warp, stored by its first lane into a scratch that all reductions of a kernel
shared, folded again by the first warp, and read by everyone from the first word of the scratch. Nothing was between
that read and the first store of the next reduction.
"""

from __future__ import annotations

import numpy as np

import kaio
from kaio import D2, In, InOut, Out, f32, i32
from tests.corpus.case import BOUNDS, WARPS, Case, Launch, Report, Size, out_of_range, race


@kaio.func
def fold_warp(value):
    for k in range(5):
        value += kaio.shfl_sync_down(value, 16 >> k)
    return value


@kaio.func
def sum_in_scratch(scratch, value):
    """The sum for all threads; there must be a barrier between two calls with the same scratch."""
    value = fold_warp(value)
    if kaio.lane_id() == 0:
        scratch[kaio.warp_id()] = value  # HERE
    kaio.bar_sync()
    if kaio.warp_id() == 0:
        value = 0.0
        if kaio.lane_id() < kaio.block_dim.x // 32:
            value = scratch[kaio.lane_id()]
        value = fold_warp(value)
        if kaio.lane_id() == 0:
            scratch[0] = value
    kaio.bar_sync()
    return scratch[0]  # OTHER


@kaio.func
def sum_and_barrier(scratch, value):
    total = sum_in_scratch(scratch, value)
    kaio.bar_sync()
    return total


@kaio.kernel
def two_sums_in_one_scratch(x: In[f32], out: Out[f32]):
    scratch = kaio.shared_mem(8, f32)
    i = kaio.grid(1)
    total = sum_in_scratch(scratch, x[i])
    squares = sum_in_scratch(scratch, x[i] * x[i])
    out[i] = total + squares


@kaio.kernel
def two_sums_apart(x: In[f32], out: Out[f32]):
    scratch = kaio.shared_mem(8, f32)
    i = kaio.grid(1)
    total = sum_and_barrier(scratch, x[i])
    squares = sum_and_barrier(scratch, x[i] * x[i])
    out[i] = total + squares


def sums_and_squares(size: Size) -> Launch:
    x = size.integers((size.blocks, size.threads), dtype=np.float32)
    out = np.repeat(x.sum(1) + (x * x).sum(1), size.threads)
    return Launch((x.ravel(), np.zeros(x.size, np.float32)), size.blocks, size.threads, {"out": out})


@kaio.kernel
def sums_in_a_loop(x: In[f32, D2], out: Out[f32, D2]):
    scratch = kaio.shared_mem(8, f32)
    t = kaio.thread_idx.x
    for row in range(kaio.block_idx.x, x.shape[0], kaio.grid_dim.x):
        out[row, t] = x[row, t] - sum_in_scratch(scratch, x[row, t])


@kaio.kernel
def sums_in_two_scratches(x: In[f32, D2], out: Out[f32, D2]):
    """Two scratches in turn: between two uses of one there are the barriers of the other."""
    even, odd = kaio.shared_mem(8, f32), kaio.shared_mem(8, f32)
    t, turn = kaio.thread_idx.x, 0
    for row in range(kaio.block_idx.x, x.shape[0], kaio.grid_dim.x):
        total = 0.0
        if turn % 2 == 0:
            total = sum_in_scratch(even, x[row, t])
        else:
            total = sum_in_scratch(odd, x[row, t])
        out[row, t] = x[row, t] - total
        turn += 1  # noqa: SIM113 - a kernel has no `enumerate`


def rows_without_their_sums(size: Size) -> Launch:
    x = size.integers((2 * size.blocks + 1, size.threads), dtype=np.float32)
    out = x - x.sum(1, keepdims=True)
    return Launch((x, np.zeros_like(x)), size.blocks, size.threads, {"out": out})


@kaio.kernel
def leaders_not_waited_for(x: In[f32], out: Out[f32]):
    """The first warp folds what the leaders of the others may not have stored yet."""
    scratch = kaio.shared_mem(8, f32)
    t, lane = kaio.thread_idx.x, kaio.lane_id()
    if t < 8:
        scratch[t] = 0.0
    kaio.bar_sync()
    value = fold_warp(x[kaio.grid(1)])
    if lane == 0:
        scratch[kaio.warp_id()] = value  # HERE
    if t < 32:
        value = scratch[lane] if lane < kaio.block_dim.x // 32 else 0.0  # OTHER
        value = fold_warp(value)
        if t == 0:
            out[kaio.block_idx.x] = value


@kaio.kernel
def leaders_waited_for(x: In[f32], out: Out[f32]):
    scratch = kaio.shared_mem(8, f32)
    t, lane = kaio.thread_idx.x, kaio.lane_id()
    value = fold_warp(x[kaio.grid(1)])
    if lane == 0:
        scratch[kaio.warp_id()] = value
    kaio.bar_sync()
    if t < 32:
        value = scratch[lane] if lane < kaio.block_dim.x // 32 else 0.0
        value = fold_warp(value)
        if t == 0:
            out[kaio.block_idx.x] = value


def sums_of_blocks(size: Size) -> Launch:
    x = size.integers((size.blocks, size.threads), dtype=np.float32)
    return Launch((x.ravel(), np.zeros(size.blocks, np.float32)), size.blocks, size.threads, {"out": x.sum(1)})


@kaio.kernel
def every_lane_is_a_leader(x: In[f32], out: Out[f32]):
    """All lanes store, and only the first of them has the sum of the warp."""
    scratch = kaio.shared_mem(8, f32)
    value = fold_warp(x[kaio.grid(1)])
    scratch[kaio.warp_id()] = value  # HERE OTHER
    kaio.bar_sync()
    if kaio.thread_idx.x == 0:
        total = 0.0
        for k in range(kaio.block_dim.x // 32):
            total += scratch[k]
        out[kaio.block_idx.x] = total


@kaio.kernel
def one_lane_is_the_leader(x: In[f32], out: Out[f32]):
    scratch = kaio.shared_mem(8, f32)
    value = fold_warp(x[kaio.grid(1)])
    if kaio.lane_id() == 0:
        scratch[kaio.warp_id()] = value
    kaio.bar_sync()
    if kaio.thread_idx.x == 0:
        total = 0.0
        for k in range(kaio.block_dim.x // 32):
            total += scratch[k]
        out[kaio.block_idx.x] = total


@kaio.kernel
def threads_numbered_by_x_alone(x: In[f32, D2], out: Out[f32]):
    """In a block of two dimensions several threads have the same `thread_idx.x`, and store to the same place."""
    s = kaio.shared_mem(64, f32)
    tx, ty = kaio.thread_idx.x, kaio.thread_idx.y
    s[tx] = x[kaio.block_idx.x * kaio.block_dim.y + ty, tx]  # HERE OTHER
    kaio.bar_sync()
    if tx == 0 and ty == 0:
        total = 0.0
        for k in range(kaio.block_dim.x):
            total += s[k]
        out[kaio.block_idx.x] = total


@kaio.kernel
def threads_numbered_by_x_and_y(x: In[f32, D2], out: Out[f32]):
    s = kaio.shared_mem(64, f32)
    tx, ty = kaio.thread_idx.x, kaio.thread_idx.y
    s[ty * kaio.block_dim.x + tx] = x[kaio.block_idx.x * kaio.block_dim.y + ty, tx]
    kaio.bar_sync()
    if tx == 0 and ty == 0:
        total = 0.0
        for k in range(kaio.block_dim.x * kaio.block_dim.y):
            total += s[k]
        out[kaio.block_idx.x] = total


def sums_of_tiles(size: Size) -> Launch:
    x = size.integers((size.blocks, 4, 16), dtype=np.float32)
    arguments = (x.reshape(-1, 16), np.zeros(size.blocks, np.float32))
    return Launch(arguments, size.blocks, (16, 4), {"out": x.sum((1, 2))})


# ---------------------------------------------------------------------- a block whose last warp is not full
@kaio.kernel
def scratch_for_whole_warps(x: In[f32], out: Out[f32], warps: i32):
    """A word for each whole warp: the last one, which is not full, has none."""
    scratch = kaio.dynamic_shared("scratch", f32)
    value = kaio.warp_reduce_sum(x[kaio.grid(1)])
    if kaio.lane_id() == 0:
        scratch[kaio.warp_id()] = value  # HERE
    kaio.bar_sync()
    if kaio.thread_idx.x == 0:
        total = 0.0
        for k in range(warps):
            total += scratch[k]
        out[kaio.block_idx.x] = total


def whole_warps(size: Size, up: int = 0) -> Launch:
    x = size.integers((size.blocks, size.threads), dtype=np.float32)
    warps = (size.threads + up) // 32
    arguments = (x.ravel(), np.zeros(size.blocks, np.float32), warps)
    return Launch(arguments, size.blocks, size.threads, {"out": x.sum(1)}, shared={"scratch": warps})


def all_warps(size: Size) -> Launch:
    return whole_warps(size, 31)


@kaio.kernel
def mask_of_a_whole_warp(x: In[f32], out: Out[f32]):
    value = x[kaio.grid(1)]
    for k in range(5):
        value += kaio.shfl_sync_down(value, 16 >> k, mask=0xFFFFFFFF)  # HERE
    if kaio.lane_id() == 0:
        out[kaio.grid(1) // 32] = value


@kaio.kernel
def mask_of_those_there(x: In[f32], out: InOut[f32]):
    value = kaio.warp_reduce_sum(x[kaio.grid(1)])
    if kaio.lane_id() == 0:
        kaio.atomic_add(out, kaio.block_idx.x, value)


def of_40_threads(size: Size) -> Launch:
    x = size.integers(40, dtype=np.float32)
    return Launch((x, np.zeros(2, np.float32)), 1, 40)


CASES = [
    Case(
        two_sums_in_one_scratch, two_sums_apart, sums_and_squares,
        race("scratch", "write", "read", index={0}, blocks="same"), threads=WARPS, functions=(sum_in_scratch,),
    ),
    Case(
        sums_in_a_loop, sums_in_two_scratches, rows_without_their_sums,
        race("scratch", "write", "read", index={0}, blocks="same"), threads=WARPS, functions=(sum_in_scratch,),
    ),
    Case(
        leaders_not_waited_for, leaders_waited_for, sums_of_blocks,
        race("scratch", "write", "read", index={1}, blocks="same"), threads=WARPS,
    ),
    Case(
        every_lane_is_a_leader, one_lane_is_the_leader, sums_of_blocks,
        race("scratch", "write", "write", index={0, 1}, blocks="same"), threads=WARPS,
    ),
    Case(
        threads_numbered_by_x_alone, threads_numbered_by_x_and_y, sums_of_tiles,
        race("s", "write", "write", index=range(16), blocks="same"), threads=(64,),
    ),
    Case(
        scratch_for_whole_warps, scratch_for_whole_warps, whole_warps, out_of_range("scratch", 1), of_mended=all_warps,
        levels=BOUNDS, size=Size(3, 40), name="scratch_for_whole_warps",
    ),
    Case(
        mask_of_a_whole_warp, mask_of_those_there, of_40_threads, Report("lane", "which does not take part"),
        of_mended=sums_of_blocks, levels=BOUNDS, on_gpu=False,
    ),
]  # fmt: skip
