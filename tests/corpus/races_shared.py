"""Races in shared memory between the threads of a block: barriers that are missing."""

from __future__ import annotations

import numpy as np

import kaio
from kaio import D2, In, InOut, Out, i32
from tests.corpus.case import MOST, POWERS, Case, Launch, Size, race

T = 8  # the side of a tile
PAIR = (5, 40)  # two threads, of two warps


# ---------------------------------------------------------------------- a tile that is used at once
@kaio.kernel
def reverse_without_barrier(x: In[i32], out: Out[i32]):
    s = kaio.shared_mem(MOST, i32)
    t, i = kaio.thread_idx.x, kaio.grid(1)
    s[t] = 0
    kaio.bar_sync()
    s[t] = x[i]  # HERE
    out[i] = s[kaio.block_dim.x - 1 - t]  # OTHER


@kaio.kernel
def reverse(x: In[i32], out: Out[i32]):
    s = kaio.shared_mem(MOST, i32)
    t, i = kaio.thread_idx.x, kaio.grid(1)
    s[t] = 0
    kaio.bar_sync()
    s[t] = x[i]
    kaio.bar_sync()
    out[i] = s[kaio.block_dim.x - 1 - t]


def reversed_blocks(size: Size) -> Launch:
    x = size.integers(size.count)
    out = x.reshape(size.blocks, size.threads)[:, ::-1].ravel()
    return Launch((x, np.zeros_like(x)), size.blocks, size.threads, {"out": out})


@kaio.kernel
def transpose_without_barrier(a: In[i32, D2], out: Out[i32, D2]):
    tile = kaio.shared_mem((T, T + 1), i32)
    col, row = kaio.thread_idx.x, kaio.thread_idx.y
    tile[row, col] = a[T * kaio.block_idx.x + row, col]  # HERE
    out[T * kaio.block_idx.x + row, col] = tile[col, row]  # OTHER


@kaio.kernel
def transpose(a: In[i32, D2], out: Out[i32, D2]):
    tile = kaio.shared_mem((T, T + 1), i32)
    col, row = kaio.thread_idx.x, kaio.thread_idx.y
    tile[row, col] = a[T * kaio.block_idx.x + row, col]
    kaio.bar_sync()
    out[T * kaio.block_idx.x + row, col] = tile[col, row]


def transposed_tiles(size: Size) -> Launch:
    a = size.integers((size.blocks * T, T))
    out = np.concatenate([tile.T for tile in a.reshape(size.blocks, T, T)])
    return Launch((a, np.zeros_like(a)), size.blocks, (T, T), {"out": out})


@kaio.kernel
def halo_without_barrier(x: In[i32], out: Out[i32]):
    s = kaio.shared_mem(MOST + 2, i32)
    t, i = kaio.thread_idx.x, kaio.grid(1)
    s[t + 1] = x[i + 1]  # HERE
    if t == 0:
        s[0] = x[i]  # HERE
    if t == kaio.block_dim.x - 1:
        s[t + 2] = x[i + 2]
    out[i] = s[t] + s[t + 2]  # OTHER


@kaio.kernel
def halo(x: In[i32], out: Out[i32]):
    s = kaio.shared_mem(MOST + 2, i32)
    t, i = kaio.thread_idx.x, kaio.grid(1)
    s[t + 1] = x[i + 1]
    if t == 0:
        s[0] = x[i]
    if t == kaio.block_dim.x - 1:
        s[t + 2] = x[i + 2]
    kaio.bar_sync()
    out[i] = s[t] + s[t + 2]


def neighbours(size: Size) -> Launch:
    x = size.integers(size.count + 2)
    return Launch((x, np.zeros(size.count, np.int32)), size.blocks, size.threads, {"out": x[:-2] + x[2:]})


# ---------------------------------------------------------------------- a tile that is used again (B19)
@kaio.kernel
def tile_overwritten(a: In[i32, D2], out: Out[i32, D2]):
    tile = kaio.shared_mem((T, T), i32)
    x, y = kaio.thread_idx.x, kaio.thread_idx.y
    total = 0
    for k in range(a.shape[1] // T):
        tile[y, x] = a[T * kaio.block_idx.x + y, T * k + x]  # HERE
        kaio.bar_sync()
        total += tile[x, y]  # OTHER
    out[T * kaio.block_idx.x + y, x] = total


@kaio.kernel
def tile_by_tile(a: In[i32, D2], out: Out[i32, D2]):
    tile = kaio.shared_mem((T, T), i32)
    x, y = kaio.thread_idx.x, kaio.thread_idx.y
    total = 0
    for k in range(a.shape[1] // T):
        tile[y, x] = a[T * kaio.block_idx.x + y, T * k + x]
        kaio.bar_sync()
        total += tile[x, y]
        kaio.bar_sync()
    out[T * kaio.block_idx.x + y, x] = total


def sums_of_tiles(size: Size) -> Launch:
    a = size.integers((size.blocks * T, 3 * T))
    out = np.concatenate([rows.reshape(T, 3, T).sum(1).T for rows in a.reshape(size.blocks, T, 3 * T)])
    return Launch((a, np.zeros(out.shape, np.int32)), size.blocks, (T, T), {"out": out})


# ---------------------------------------------------------------------- trees
@kaio.kernel
def tree_without_barrier(x: In[i32], out: Out[i32]):
    s = kaio.shared_mem(MOST, i32)
    t, step = kaio.thread_idx.x, kaio.block_dim.x // 2
    s[t] = x[kaio.grid(1)]
    kaio.bar_sync()
    while step > 0:
        if t < step:
            s[t] += s[t + step]  # HERE OTHER
        step //= 2
    if t == 0:
        out[kaio.block_idx.x] = s[0]


@kaio.kernel
def tree(x: In[i32], out: Out[i32]):
    s = kaio.shared_mem(MOST, i32)
    t, step = kaio.thread_idx.x, kaio.block_dim.x // 2
    s[t] = x[kaio.grid(1)]
    kaio.bar_sync()
    while step > 0:
        if t < step:
            s[t] += s[t + step]
        kaio.bar_sync()
        step //= 2
    if t == 0:
        out[kaio.block_idx.x] = s[0]


def sums_of_blocks(size: Size) -> Launch:
    x = size.integers(size.count)
    out = x.reshape(size.blocks, size.threads).sum(1, dtype=np.int32)
    return Launch((x, np.zeros(size.blocks, np.int32)), size.blocks, size.threads, {"out": out})


@kaio.kernel
def scan_without_second_barrier(x: In[i32], out: Out[i32]):
    s = kaio.shared_mem(MOST, i32)
    t, step = kaio.thread_idx.x, 1
    s[t] = x[kaio.grid(1)]
    kaio.bar_sync()
    while step < kaio.block_dim.x:
        before = 0
        if t >= step:
            before = s[t - step]  # HERE
        s[t] += before  # OTHER
        kaio.bar_sync()
        step *= 2
    out[kaio.grid(1)] = s[t]


@kaio.kernel
def scan(x: In[i32], out: Out[i32]):
    s = kaio.shared_mem(MOST, i32)
    t, step = kaio.thread_idx.x, 1
    s[t] = x[kaio.grid(1)]
    kaio.bar_sync()
    while step < kaio.block_dim.x:
        before = 0
        if t >= step:
            before = s[t - step]
        kaio.bar_sync()
        s[t] += before
        kaio.bar_sync()
        step *= 2
    out[kaio.grid(1)] = s[t]


def scans_of_blocks(size: Size) -> Launch:
    x = size.integers(size.count)
    out = x.reshape(size.blocks, size.threads).cumsum(1, dtype=np.int32).ravel()
    return Launch((x, np.zeros_like(x)), size.blocks, size.threads, {"out": out})


@kaio.kernel
def ping_pong_in_one_buffer(x: In[i32], out: Out[i32]):
    s = kaio.shared_mem((2, MOST), i32)
    t, source, step = kaio.thread_idx.x, 0, 1
    s[0, t] = x[kaio.grid(1)]
    s[1, t] = 0
    kaio.bar_sync()
    while step < kaio.block_dim.x:
        before = 0
        if t >= step:
            before = s[source, t - step]  # HERE
        s[source, t] = s[source, t] + before  # OTHER
        kaio.bar_sync()
        step *= 2
    out[kaio.grid(1)] = s[source, t]


@kaio.kernel
def ping_pong(x: In[i32], out: Out[i32]):
    s = kaio.shared_mem((2, MOST), i32)
    t, source, step = kaio.thread_idx.x, 0, 1
    s[0, t] = x[kaio.grid(1)]
    s[1, t] = 0
    kaio.bar_sync()
    while step < kaio.block_dim.x:
        before = 0
        if t >= step:
            before = s[source, t - step]
        s[1 - source, t] = s[source, t] + before
        kaio.bar_sync()
        source = 1 - source
        step *= 2
    out[kaio.grid(1)] = s[source, t]


# ---------------------------------------------------------------------- one element that many write
@kaio.kernel
def last_one_wins(x: In[i32], out: Out[i32]):
    s = kaio.shared_mem(1, i32)
    s[0] = x[kaio.grid(1)]  # HERE OTHER
    kaio.bar_sync()
    if kaio.thread_idx.x == 0:
        out[kaio.block_idx.x] = s[0]


@kaio.kernel
def first_one_wins(x: In[i32], out: Out[i32]):
    s = kaio.shared_mem(1, i32)
    if kaio.thread_idx.x == 0:
        s[0] = x[kaio.grid(1)]
    kaio.bar_sync()
    if kaio.thread_idx.x == 0:
        out[kaio.block_idx.x] = s[0]


def firsts_of_blocks(size: Size) -> Launch:
    x = size.integers(size.count)
    return Launch((x, np.zeros(size.blocks, np.int32)), size.blocks, size.threads, {"out": x[:: size.threads].copy()})


@kaio.kernel
def counter_in_shared(x: In[i32], out: Out[i32]):
    count = kaio.shared_mem(1, i32)
    if kaio.thread_idx.x == 0:
        count[0] = 0
    kaio.bar_sync()
    if x[kaio.grid(1)] % 2 == 0:
        count[0] += 1  # HERE OTHER
    kaio.bar_sync()
    if kaio.thread_idx.x == 0:
        out[kaio.block_idx.x] = count[0]


@kaio.kernel
def atomic_counter_in_shared(x: In[i32], out: Out[i32]):
    count = kaio.shared_mem(1, i32)
    if kaio.thread_idx.x == 0:
        count[0] = 0
    kaio.bar_sync()
    if x[kaio.grid(1)] % 2 == 0:
        kaio.atomic_add(count, 0, 1)
    kaio.bar_sync()
    if kaio.thread_idx.x == 0:
        out[kaio.block_idx.x] = count[0]


@kaio.kernel
def counter_read_too_soon(x: In[i32], out: Out[i32]):
    count = kaio.shared_mem(1, i32)
    if kaio.thread_idx.x == 0:
        count[0] = 0
    kaio.bar_sync()
    if x[kaio.grid(1)] % 2 == 0:
        kaio.atomic_add(count, 0, 1)  # HERE
    if kaio.thread_idx.x == 0:
        out[kaio.block_idx.x] = count[0]  # OTHER


@kaio.kernel
def counter_zeroed_too_late(x: In[i32], out: Out[i32]):
    count = kaio.shared_mem(1, i32)
    if kaio.thread_idx.x == 0:
        count[0] = 0  # HERE
    if x[kaio.grid(1)] % 2 == 0:
        kaio.atomic_add(count, 0, 1)  # OTHER
    kaio.bar_sync()
    if kaio.thread_idx.x == 0:
        out[kaio.block_idx.x] = count[0]


def evens_of_blocks(size: Size) -> Launch:
    x = size.integers(size.count)
    out = (x.reshape(size.blocks, size.threads) % 2 == 0).sum(1, dtype=np.int32)
    return Launch((x, np.zeros(size.blocks, np.int32)), size.blocks, size.threads, {"out": out})


# ---------------------------------------------------------------------- who is remembered
@kaio.kernel
def one_pair(out: Out[i32]):
    tile = kaio.shared_mem((4, 6), i32)
    t = kaio.thread_idx.x
    if t < 24:
        tile[t // 6, t % 6] = 0
    kaio.bar_sync()
    if t == PAIR[0]:
        tile[1, 2] = 7  # HERE
    if t == PAIR[1]:
        out[kaio.block_idx.x] = tile[1, 2]  # OTHER


@kaio.kernel
def one_pair_apart(out: Out[i32]):
    tile = kaio.shared_mem((4, 6), i32)
    t = kaio.thread_idx.x
    if t < 24:
        tile[t // 6, t % 6] = 0
    kaio.bar_sync()
    if t == PAIR[0]:
        tile[1, 2] = 7
    kaio.bar_sync()
    if t == PAIR[1]:
        out[kaio.block_idx.x] = tile[1, 2]


def sevens(size: Size) -> Launch:
    return Launch((np.zeros(size.blocks, np.int32),), size.blocks, size.threads, {"out": np.full(size.blocks, 7)})


@kaio.kernel
def reader_behind_another(out: Out[i32]):
    """All read, then one of them writes: whoever remembers only the last reader, the writer itself, sees nothing."""
    s = kaio.shared_mem(1, i32)
    t = kaio.thread_idx.x
    if t == 0:
        s[0] = 3
    kaio.bar_sync()
    out[kaio.grid(1)] = s[0]  # OTHER
    if t == kaio.block_dim.x - 1:
        s[0] = 4  # HERE


@kaio.kernel
def reader_before_a_barrier(out: Out[i32]):
    s = kaio.shared_mem(1, i32)
    t = kaio.thread_idx.x
    if t == 0:
        s[0] = 3
    kaio.bar_sync()
    out[kaio.grid(1)] = s[0]
    kaio.bar_sync()
    if t == kaio.block_dim.x - 1:
        s[0] = 4


def threes(size: Size) -> Launch:
    out = np.full(size.count, 3, np.int32)
    return Launch((np.zeros_like(out),), size.blocks, size.threads, {"out": out})


@kaio.kernel
def second_dynamic_array(x: InOut[i32]):
    left, right = kaio.dynamic_shared("left", i32), kaio.dynamic_shared("right", i32)
    t, i = kaio.thread_idx.x, kaio.grid(1)
    left[t] = x[i]
    right[t] = 0
    kaio.bar_sync()
    right[t] = left[left.size - 1 - t]  # HERE
    x[i] = right[right.size - 1 - t]  # OTHER


@kaio.kernel
def two_dynamic_arrays(x: InOut[i32]):
    left, right = kaio.dynamic_shared("left", i32), kaio.dynamic_shared("right", i32)
    t, i = kaio.thread_idx.x, kaio.grid(1)
    left[t] = x[i]
    right[t] = 0
    kaio.bar_sync()
    right[t] = left[left.size - 1 - t]
    kaio.bar_sync()
    x[i] = right[right.size - 1 - t]


def reversed_twice(size: Size) -> Launch:
    x = size.integers(size.count)
    shared = {"left": size.threads, "right": size.threads}
    return Launch((x,), size.blocks, size.threads, {"x": x}, shared=shared)


CASES = [
    Case(reverse_without_barrier, reverse, reversed_blocks, race("s", "write", "read", index=range(64), blocks="same")),
    Case(transpose_without_barrier, transpose, transposed_tiles, race("tile", "write", "read"), threads=(T * T,)),
    Case(halo_without_barrier, halo, neighbours, race("s", "write", "read", index=range(66))),
    Case(tile_overwritten, tile_by_tile, sums_of_tiles, race("tile", "write", "read"), threads=(T * T,)),
    Case(
        tree_without_barrier, tree, sums_of_blocks, race("s", "write", "read", index=range(64), blocks="same"),
        size=Size(3, 128), threads=POWERS,
    ),
    Case(scan_without_second_barrier, scan, scans_of_blocks, race("s", "read", "write", blocks="same")),
    Case(
        ping_pong_in_one_buffer, ping_pong, scans_of_blocks,
        race("s", "read", "write", index=[(0, k) for k in range(64)]),
    ),
    Case(last_one_wins, first_one_wins, firsts_of_blocks, race("s", "write", "write", index={0}, blocks="same")),
    Case(
        counter_in_shared, atomic_counter_in_shared, evens_of_blocks,
        race("count", "write", "read", index={0}, blocks="same"),
    ),
    Case(counter_read_too_soon, atomic_counter_in_shared, evens_of_blocks, race("count", "atomic", "read", index={0})),
    Case(
        counter_zeroed_too_late, atomic_counter_in_shared, evens_of_blocks,
        race("count", "write", "atomic", index={0}),
    ),
    Case(
        one_pair, one_pair_apart, sevens, race("tile", "write", "read", index={(1, 2)}, blocks="same"),
        threads=(64, 65, 96, 128),
    ),
    Case(reader_behind_another, reader_before_a_barrier, threes, race("s", "write", "read", index={0}, blocks="same")),
    Case(second_dynamic_array, two_dynamic_arrays, reversed_twice, race("right", "write", "read", index=range(64))),
]  # fmt: skip
