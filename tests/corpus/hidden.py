"""Races that hide behind other accesses of the same element: one of several that came before is not ordered.

Whoever keeps the last access alone, or two of them, sees the others and nothing wrong.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import kaio
from kaio import Const, In, InOut, Out, Strided, i32, u32
from tests.corpus.case import Case, Launch, Size, View, race

FOUR_WARPS = (128,)


def with_odd_one(odd: int) -> Callable[[Size], Launch]:
    """A launch of blocks of four warps, with the number of the one that is not waited for."""

    def make(size: Size) -> Launch:
        out = np.full(size.blocks, 4, np.int32)
        return Launch((np.zeros_like(out), odd), size.blocks, 128, {"out": out})

    return make


# ---------------------------------------------------------------------- readers and updates of several warps
@kaio.kernel
def one_reading_warp_not_waited_for(out: Out[i32], odd: Const[int]):
    """Warps 0 to 2 read, and warp 3 writes when two of them have come."""
    s = kaio.shared_mem(1, i32)
    warp, lane = kaio.warp_id(), kaio.lane_id()
    if kaio.thread_idx.x == 0:
        s[0] = 4
    kaio.bar_sync()
    seen = 0
    if warp < 3:
        seen = s[0]  # OTHER
    if warp != odd:
        kaio.named_bar_sync(1, 96)
    if warp == 3 and lane == 0:
        s[0] = 5  # HERE
    if warp == 2 and lane == 0:
        out[kaio.block_idx.x] = seen


@kaio.kernel
def every_reading_warp_waited_for(out: Out[i32], odd: Const[int]):
    s = kaio.shared_mem(1, i32)
    warp, lane = kaio.warp_id(), kaio.lane_id()
    if kaio.thread_idx.x == 0:
        s[0] = 4
    kaio.bar_sync()
    seen = 0
    if warp < 3 and warp != odd:
        seen = s[0]
    if warp != odd:
        kaio.named_bar_sync(1, 96)
    if warp == 3 and lane == 0:
        s[0] = 5
    if warp == (1 if odd == 2 else 2) and lane == 0:
        out[kaio.block_idx.x] = seen


@kaio.kernel
def one_updating_warp_not_waited_for(out: Out[i32], odd: Const[int]):
    """Warps 0 to 2 add one each, and warp 3 reads when two of them have come."""
    s = kaio.shared_mem(1, i32)
    warp, lane = kaio.warp_id(), kaio.lane_id()
    if kaio.thread_idx.x == 0:
        s[0] = 2
    kaio.bar_sync()
    if warp < 3 and lane == 0:
        kaio.atomic_add(s, 0, 1)  # HERE
    if warp != odd:
        kaio.named_bar_sync(1, 96)
    if warp == 3 and lane == 0:
        out[kaio.block_idx.x] = s[0]  # OTHER


@kaio.kernel
def every_updating_warp_waited_for(out: Out[i32], odd: Const[int]):
    s = kaio.shared_mem(1, i32)
    warp, lane = kaio.warp_id(), kaio.lane_id()
    if kaio.thread_idx.x == 0:
        s[0] = 2
    kaio.bar_sync()
    if warp < 3 and warp != odd and lane == 0:
        kaio.atomic_add(s, 0, 1)
    if warp != odd:
        kaio.named_bar_sync(1, 96)
    if warp == 3 and lane == 0:
        out[kaio.block_idx.x] = s[0]


@kaio.kernel
def one_reading_lane_not_waited_for(out: Out[i32], odd: Const[int]):
    """Lanes 0 to 7 read, and lane 8 writes when it has met all of them but one."""
    s = kaio.shared_mem(1, i32)
    lane = kaio.lane_id()
    if kaio.thread_idx.x == 0:
        s[0] = 4
    kaio.bar_sync()
    if kaio.warp_id() == 0:
        if lane < 8:
            seen = s[0]  # OTHER
            if lane == 0:
                out[kaio.block_idx.x] = seen
        mask = u32(0x1FF) & ~(u32(1) << odd)
        if (mask >> lane) & 1 != 0:
            kaio.syncwarp(mask)
        if lane == 8:
            s[0] = 5  # HERE


@kaio.kernel
def every_reading_lane_waited_for(out: Out[i32], odd: Const[int]):
    s = kaio.shared_mem(1, i32)
    lane = kaio.lane_id()
    if kaio.thread_idx.x == 0:
        s[0] = 4
    kaio.bar_sync()
    if kaio.warp_id() == 0:
        if lane < 8:
            seen = s[0]
            if lane == odd:
                out[kaio.block_idx.x] = seen
        if lane < 9:
            kaio.syncwarp(0x1FF)
        if lane == 8:
            s[0] = 5


# ---------------------------------------------------------------------- updates of several blocks
@kaio.kernel
def total_read_by_the_last_block(x: In[i32], total: InOut[i32], done: InOut[i32], out: InOut[i32]):
    """All blocks add to the total; the one that comes last reads it, and its own update was the last one, too."""
    mine = kaio.block_reduce_sum(x[kaio.grid(1)])
    if kaio.thread_idx.x == 0:
        kaio.atomic_add(total, 0, mine)  # HERE
        if kaio.atomic_add(done, 0, 1) == kaio.grid_dim.x - 1:
            out[0] = total[0]  # OTHER


@kaio.kernel
def total_read_behind_a_fence(x: In[i32], total: InOut[i32], done: InOut[i32], out: InOut[i32]):
    mine = kaio.block_reduce_sum(x[kaio.grid(1)])
    if kaio.thread_idx.x == 0:
        kaio.atomic_add(total, 0, mine)
        if kaio.atomic_add(done, 0, 1, order="acq_rel") == kaio.grid_dim.x - 1:
            out[0] = total[0]


def totals(size: Size) -> Launch:
    x, zero = size.integers(size.count), np.zeros(1, np.int32)
    return Launch((x, zero, zero, zero), size.blocks, size.threads, {"out": [x.sum()], "total": [x.sum()]})


# ---------------------------------------------------------------------- views
@kaio.kernel
def neighbour_of_a_view(a: InOut[i32, kaio.D1, Strided], b: InOut[i32, kaio.D1, Strided]):
    """Two views lie between one another; what is racy is named by the view."""
    i = kaio.grid(1)
    b[i] = a[i]
    if i + 1 < a.size:
        a[i] = a[i + 1]  # HERE OTHER


@kaio.kernel
def views_between_one_another(a: InOut[i32, kaio.D1, Strided], b: InOut[i32, kaio.D1, Strided]):
    i = kaio.grid(1)
    b[i] = a[i]
    a[i] = 0


def views(size: Size) -> Launch:
    """`a` has every other element from the end on, `b` those between."""
    both = size.integers(2 * size.count)
    a, b = View(both, slice(None, None, -2)), View(both, slice(0, None, 2), 0)
    zeros = np.zeros(size.count, np.int32)
    return Launch((a, b), size.blocks, size.threads, {"a": zeros, "b": both[::-2]})


def _of_warps(planted: kaio.Kernel, mended: kaio.Kernel, here: str, other: str, *odds: int) -> list[Case]:
    report = race("s", here, other, index={0}, blocks="same")
    return [
        Case(planted, mended, with_odd_one(k), report, threads=FOUR_WARPS, on_gpu=True, name=f"{planted.name}_{k}")
        for k in odds
    ]


CASES = [
    *_of_warps(one_reading_warp_not_waited_for, every_reading_warp_waited_for, "write", "read", 0, 1, 2),
    *_of_warps(one_updating_warp_not_waited_for, every_updating_warp_waited_for, "atomic", "read", 0, 1, 2),
    *_of_warps(one_reading_lane_not_waited_for, every_reading_lane_waited_for, "write", "read", 0, 3, 7),
    Case(
        total_read_by_the_last_block, total_read_behind_a_fence, totals,
        race("total", "atomic", "read", index={0}, blocks="different"),
    ),
    Case(neighbour_of_a_view, views_between_one_another, views, race("a", "write", "read", index=range(192))),
]  # fmt: skip
