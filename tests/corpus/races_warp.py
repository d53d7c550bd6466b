"""Races between the lanes of a warp: what `syncwarp` orders, among which lanes, and what it does not order."""

from __future__ import annotations

import numpy as np

import kaio
from kaio import In, Out, i32, u32
from tests.corpus.case import MOST, WARPS, Case, Launch, Size, race
from tests.corpus.races_shared import reversed_blocks


# ---------------------------------------------------------------------- B20
@kaio.kernel
def warp_synchronous_sum(x: In[i32], out: Out[i32]):
    s = kaio.shared_mem(64, i32)
    t = kaio.thread_idx.x
    s[t] = x[kaio.grid(1)]
    kaio.bar_sync()
    if t < 32:
        s[t] += s[t + 32]  # HERE OTHER
        s[t] += s[t + 16]  # HERE OTHER
        s[t] += s[t + 8]  # HERE OTHER
        s[t] += s[t + 4]  # HERE OTHER
        s[t] += s[t + 2]  # HERE OTHER
        s[t] += s[t + 1]  # HERE OTHER
    if t == 0:
        out[kaio.block_idx.x] = s[0]


@kaio.kernel
def warp_sum(x: In[i32], out: Out[i32]):
    s = kaio.shared_mem(64, i32)
    t = kaio.thread_idx.x
    s[t] = x[kaio.grid(1)]
    kaio.bar_sync()
    if t < 32:
        for k in range(6):
            other = s[t + (32 >> k)]
            kaio.syncwarp()
            s[t] += other
            kaio.syncwarp()
    if t == 0:
        out[kaio.block_idx.x] = s[0]


def sums_of_64(size: Size) -> Launch:
    x = size.integers((size.blocks, 64))
    return Launch((x.ravel(), np.zeros(size.blocks, np.int32)), size.blocks, 64, {"out": x.sum(1, dtype=np.int32)})


# ---------------------------------------------------------------------- a warp's barrier for a block's
@kaio.kernel
def reverse_by_syncwarp(x: In[i32], out: Out[i32]):
    s = kaio.shared_mem(MOST, i32)
    t, i = kaio.thread_idx.x, kaio.grid(1)
    s[t] = 0
    kaio.bar_sync()
    s[t] = x[i]  # HERE
    kaio.syncwarp()
    out[i] = s[kaio.block_dim.x - 1 - t]  # OTHER


@kaio.kernel
def reverse_by_barrier(x: In[i32], out: Out[i32]):
    s = kaio.shared_mem(MOST, i32)
    t, i = kaio.thread_idx.x, kaio.grid(1)
    s[t] = 0
    kaio.bar_sync()
    s[t] = x[i]
    kaio.syncwarp()
    kaio.bar_sync()
    out[i] = s[kaio.block_dim.x - 1 - t]


@kaio.kernel
def ordered_by_a_shuffle(x: In[i32], out: Out[i32]):
    """Lanes exchange values, and that they have met says nothing of memory."""
    s = kaio.shared_mem(MOST, i32)
    t, i = kaio.thread_idx.x, kaio.grid(1)
    s[t] = 0
    kaio.bar_sync()
    s[t] = x[i]  # HERE
    other = kaio.shfl_sync_bfly(t, 1)
    out[i] = s[other]  # OTHER


@kaio.kernel
def ordered_by_syncwarp(x: In[i32], out: Out[i32]):
    s = kaio.shared_mem(MOST, i32)
    t, i = kaio.thread_idx.x, kaio.grid(1)
    s[t] = 0
    kaio.bar_sync()
    s[t] = x[i]
    other = kaio.shfl_sync_bfly(t, 1)
    kaio.syncwarp()
    out[i] = s[other]


# ---------------------------------------------------------------------- among which lanes
@kaio.kernel
def halves_by_themselves(x: In[i32], out: Out[i32]):
    """Each half of a warp waits for itself, and reads what the other half writes."""
    s = kaio.shared_mem(MOST, i32)
    t, lane, i = kaio.thread_idx.x, kaio.lane_id(), kaio.grid(1)
    s[t] = 0
    kaio.bar_sync()
    s[t] = x[i]  # HERE
    if lane < 16:
        kaio.syncwarp(0x0000FFFF)
    else:
        kaio.syncwarp(0xFFFF0000)
    out[i] = s[t ^ 16]  # OTHER


@kaio.kernel
def halves_in_themselves(x: In[i32], out: Out[i32]):
    s = kaio.shared_mem(MOST, i32)
    t, lane, i = kaio.thread_idx.x, kaio.lane_id(), kaio.grid(1)
    s[t] = 0
    kaio.bar_sync()
    s[t] = x[i]
    if lane < 16:
        kaio.syncwarp(0x0000FFFF)
    else:
        kaio.syncwarp(0xFFFF0000)
    out[i] = s[t ^ 8]


def swapped(distance: int):
    def make(size: Size) -> Launch:
        x = size.integers(size.count)
        return Launch((x, np.zeros_like(x)), size.blocks, size.threads, {"out": x[np.arange(x.size) ^ distance]})

    return make


@kaio.kernel
def handed_on_out_of_order(out: Out[i32]):
    """Lane 1 waits for lane 2 before it waits for lane 0: what lane 0 wrote does not reach lane 2 by that."""
    s = kaio.shared_mem(1, i32)
    lane = kaio.thread_idx.x
    if lane == 0:
        s[0] = 0
    kaio.bar_sync()
    if lane == 0:
        s[0] = 5  # HERE
    for k in range(2):
        mask = u32(0b110) if k == 0 else u32(0b011)
        if lane < 3 and mask >> lane & 1 != 0:
            kaio.syncwarp(mask)
    if lane == 2:
        out[kaio.block_idx.x] = s[0]  # OTHER


@kaio.kernel
def handed_on(out: Out[i32]):
    """From lane 0 to lane 1, and from there to lane 2: who reads has never waited for who wrote."""
    s = kaio.shared_mem(1, i32)
    lane = kaio.thread_idx.x
    if lane == 0:
        s[0] = 0
    kaio.bar_sync()
    if lane == 0:
        s[0] = 5
    for k in range(2):
        mask = u32(0b011) if k == 0 else u32(0b110)
        if lane < 3 and mask >> lane & 1 != 0:
            kaio.syncwarp(mask)
    if lane == 2:
        out[kaio.block_idx.x] = s[0]


def fives(size: Size) -> Launch:
    return Launch((np.zeros(size.blocks, np.int32),), size.blocks, size.threads, {"out": np.full(size.blocks, 5)})


# ---------------------------------------------------------------------- rounds
@kaio.kernel
def rounds_with_one_syncwarp(x: In[i32], out: Out[i32]):
    s = kaio.shared_mem(MOST, i32)
    t, i = kaio.thread_idx.x, kaio.grid(1)
    value = x[i]
    s[t] = value
    kaio.syncwarp()
    for k in range(5):
        value += s[t ^ (1 << k)]  # HERE
        s[t] = value  # OTHER
        kaio.syncwarp()
    out[i] = value


@kaio.kernel
def rounds_with_two_syncwarps(x: In[i32], out: Out[i32]):
    s = kaio.shared_mem(MOST, i32)
    t, i = kaio.thread_idx.x, kaio.grid(1)
    value = x[i]
    s[t] = value
    kaio.syncwarp()
    for k in range(5):
        value += s[t ^ (1 << k)]
        kaio.syncwarp()
        s[t] = value
        kaio.syncwarp()
    out[i] = value


def sums_of_warps(size: Size) -> Launch:
    x = size.integers(size.count)
    out = np.repeat(x.reshape(-1, 32).sum(1, dtype=np.int32), 32)
    return Launch((x, np.zeros_like(x)), size.blocks, size.threads, {"out": out})


@kaio.kernel
def readers_of_another_warp(out: Out[i32]):
    """The writer's own warp has read before; it is the other warp whose readers nobody has waited for."""
    s = kaio.shared_mem(1, i32)
    t = kaio.thread_idx.x
    if t == 0:
        s[0] = 3
    kaio.bar_sync()
    out[kaio.grid(1)] = s[0]  # OTHER
    kaio.syncwarp()
    if t == 0:
        s[0] = 4  # HERE


@kaio.kernel
def readers_of_the_same_warp(out: Out[i32]):
    s = kaio.shared_mem(MOST // 32, i32)
    t, warp = kaio.thread_idx.x, kaio.warp_id()
    if t % 32 == 0:
        s[warp] = 3
    kaio.bar_sync()
    out[kaio.grid(1)] = s[warp]
    kaio.syncwarp()
    if t % 32 == 0:
        s[warp] = 4


def threes(size: Size) -> Launch:
    out = np.full(size.count, 3, np.int32)
    return Launch((np.zeros_like(out),), size.blocks, size.threads, {"out": out})


CASES = [
    Case(
        warp_synchronous_sum, warp_sum, sums_of_64, race("s", "write", "read", index=range(64), blocks="same"),
        threads=(64,),
    ),
    Case(reverse_by_syncwarp, reverse_by_barrier, reversed_blocks, race("s", "write", "read", index=range(64))),
    Case(
        ordered_by_a_shuffle, ordered_by_syncwarp, swapped(1), race("s", "write", "read", index=range(64)),
        threads=WARPS,
    ),
    Case(
        halves_by_themselves, halves_in_themselves, swapped(16), race("s", "write", "read", index=range(64)),
        of_mended=swapped(8), threads=WARPS,
    ),
    Case(
        handed_on_out_of_order, handed_on, fives, race("s", "write", "read", index={0}, blocks="same"),
        size=Size(3, 3), threads=(3, 7, 32, 40),
    ),
    Case(
        rounds_with_one_syncwarp, rounds_with_two_syncwarps, sums_of_warps, race("s", "read", "write", blocks="same"),
        threads=WARPS,
    ),
    Case(
        readers_of_another_warp, readers_of_the_same_warp, threes, race("s", "write", "read", index={0}),
        threads=WARPS,
    ),
]  # fmt: skip
