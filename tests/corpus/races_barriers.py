"""Races round named barriers and the barriers of a cluster: who waits, who only arrives, and who is meant."""

from __future__ import annotations

import numpy as np

import kaio
from kaio import In, Out, i32
from tests.corpus.case import Case, Launch, Size, race


# ---------------------------------------------------------------------- a warp that makes, others that use
@kaio.kernel
def users_that_only_arrive(x: In[i32], out: Out[i32]):
    s = kaio.shared_mem(32, i32)
    lane, n = kaio.lane_id(), kaio.block_dim.x
    if kaio.warp_id() == 0:
        s[lane] = 0
    kaio.bar_sync()
    if kaio.warp_id() == 0:
        s[lane] = x[lane]  # HERE
        kaio.named_bar_sync(1, n)
    else:
        kaio.named_bar_arrive(1, n)
        out[kaio.grid(1)] = s[31 - lane]  # OTHER


@kaio.kernel
def users_wait(x: In[i32], out: Out[i32]):
    s = kaio.shared_mem(32, i32)
    lane, n = kaio.lane_id(), kaio.block_dim.x
    if kaio.warp_id() == 0:
        s[lane] = x[lane]
        kaio.named_bar_arrive(1, n)
    else:
        kaio.named_bar_sync(1, n)
        out[kaio.grid(1)] = s[31 - lane]


def used(size: Size) -> Launch:
    x = size.integers(32)
    out = np.zeros((size.blocks, size.threads // 32, 32), np.int32)
    out[:, 1:] = x[::-1]
    return Launch((x, np.zeros(size.count, np.int32)), size.blocks, size.threads, {"out": out.ravel()})


@kaio.kernel
def maker_that_does_not_wait(x: In[i32], out: Out[i32]):
    """Barrier 1 says that there is something; that it was used nobody says."""
    s = kaio.shared_mem(32, i32)
    lane, n, total = kaio.lane_id(), kaio.block_dim.x, 0
    for k in range(3):
        if kaio.warp_id() == 0:
            s[lane] = x[lane] + k  # HERE
            kaio.named_bar_arrive(1, n)
            kaio.named_bar_sync(2, n)
        else:
            kaio.named_bar_sync(1, n)
            kaio.named_bar_arrive(2, n)
            total += s[31 - lane]  # OTHER
    out[kaio.grid(1)] = total


@kaio.kernel
def maker_that_waits(x: In[i32], out: Out[i32]):
    s = kaio.shared_mem(32, i32)
    lane, n, total = kaio.lane_id(), kaio.block_dim.x, 0
    for k in range(3):
        if kaio.warp_id() == 0:
            s[lane] = x[lane] + k
            kaio.named_bar_arrive(1, n)
            kaio.named_bar_sync(2, n)
        else:
            kaio.named_bar_sync(1, n)
            total += s[31 - lane]
            kaio.named_bar_arrive(2, n)
    out[kaio.grid(1)] = total


def used_three_times(size: Size) -> Launch:
    x = size.integers(32)
    out = np.zeros((size.blocks, size.threads // 32, 32), np.int32)
    out[:, 1:] = 3 * x[::-1] + 3
    return Launch((x, np.zeros(size.count, np.int32)), size.blocks, size.threads, {"out": out.ravel()})


# ---------------------------------------------------------------------- two halves with a barrier each
@kaio.kernel
def across_the_halves(x: In[i32], out: Out[i32]):
    s = kaio.shared_mem(128, i32)
    t, i = kaio.thread_idx.x, kaio.grid(1)
    s[t] = 0
    kaio.bar_sync()
    s[t] = x[i]  # HERE
    kaio.named_bar_sync(1 + t // 64, 64)
    out[i] = s[127 - t]  # OTHER


@kaio.kernel
def within_the_halves(x: In[i32], out: Out[i32]):
    s = kaio.shared_mem(128, i32)
    t, i = kaio.thread_idx.x, kaio.grid(1)
    s[t] = 0
    kaio.bar_sync()
    s[t] = x[i]
    kaio.named_bar_sync(1 + t // 64, 64)
    out[i] = s[t // 64 * 64 + 63 - t % 64]


def halves(size: Size) -> Launch:
    x = size.integers((2 * size.blocks, 64))
    return Launch((x.ravel(), np.zeros(x.size, np.int32)), size.blocks, 128, {"out": x[:, ::-1].ravel()})


# ---------------------------------------------------------------------- the blocks of a cluster
@kaio.kernel
def other_tile_too_soon(x: In[i32], out: Out[i32]):
    tile = kaio.shared_mem(64, i32)
    t, i = kaio.thread_idx.x, kaio.grid(1)
    tile[t] = 0
    kaio.cluster_sync()
    tile[t] = x[i]  # HERE
    kaio.bar_sync()
    out[i] = kaio.cluster_shared(tile, 1 - kaio.cluster_rank())[t]  # OTHER
    kaio.cluster_sync()


@kaio.kernel
def other_tile(x: In[i32], out: Out[i32]):
    tile = kaio.shared_mem(64, i32)
    t, i = kaio.thread_idx.x, kaio.grid(1)
    tile[t] = x[i]
    kaio.cluster_sync()
    out[i] = kaio.cluster_shared(tile, 1 - kaio.cluster_rank())[t]
    kaio.cluster_sync()


@kaio.kernel
def other_tile_overwritten(x: In[i32], out: Out[i32]):
    """The second tile is stored while the other block may still read the first."""
    tile = kaio.shared_mem(64, i32)
    t, i, total = kaio.thread_idx.x, kaio.grid(1), 0
    for k in range(2):
        tile[t] = x[i] + k  # HERE
        kaio.cluster_sync()
        total += kaio.cluster_shared(tile, 1 - kaio.cluster_rank())[t]  # OTHER
    kaio.cluster_sync()
    out[i] = total


@kaio.kernel
def other_tile_twice(x: In[i32], out: Out[i32]):
    tile = kaio.shared_mem(64, i32)
    t, i, total = kaio.thread_idx.x, kaio.grid(1), 0
    for k in range(2):
        tile[t] = x[i] + k
        kaio.cluster_sync()
        total += kaio.cluster_shared(tile, 1 - kaio.cluster_rank())[t]
        kaio.cluster_sync()
    out[i] = total


def swapped(factor: int, plus: int):
    def make(size: Size) -> Launch:
        x = size.integers((size.blocks, 2, size.threads))
        out = factor * x[:, ::-1].ravel() + plus
        arguments = (x.ravel(), np.zeros(x.size, np.int32))
        return Launch(arguments, 2 * size.blocks, size.threads, {"out": out}, {"cluster": 2})

    return make


CASES = [
    Case(
        users_that_only_arrive, users_wait, used, race("s", "write", "read", index=range(32), blocks="same"),
        threads=(64, 96, 256),
    ),
    Case(
        maker_that_does_not_wait, maker_that_waits, used_three_times,
        race("s", "write", "read", index=range(32), blocks="same"), threads=(64, 96, 256),
    ),
    Case(
        across_the_halves, within_the_halves, halves, race("s", "write", "read", index=range(128), blocks="same"),
        threads=(128,),
    ),
    Case(
        other_tile_too_soon, other_tile, swapped(1, 0), race("tile", "write", "read", blocks="different"),
        threads=(1, 31, 32, 64),
    ),
    Case(
        other_tile_overwritten, other_tile_twice, swapped(2, 1), race("tile", "write", "read", blocks="different"),
        threads=(1, 31, 32, 64),
    ),
]  # fmt: skip
