"""Reads of what nobody has written: shared and local memory, `Out` buffers, `alloc_empty`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

import kaio
from kaio import D2, In, InOut, Out, f32, f32x4, i32, u8
from tests.corpus.case import MOST, Case, Empty, Launch, Report, Size, uninitialised

T = 8


# ---------------------------------------------------------------------- B19: a tile that is filled in part
@kaio.kernel
def unfilled_tile(a: In[i32, D2], out: Out[i32, D2]):
    tile = kaio.shared_mem((T, T), i32)
    col, row = kaio.grid(2)
    x, y = kaio.thread_idx.x, kaio.thread_idx.y
    if row < a.shape[0] and col < a.shape[1]:
        tile[y, x] = a[row, col]
    kaio.bar_sync()
    out[col, row] = tile[y, x]  # HERE


@kaio.kernel
def filled_tile(a: In[i32, D2], out: Out[i32, D2]):
    tile = kaio.shared_mem((T, T), i32)
    col, row = kaio.grid(2)
    x, y = kaio.thread_idx.x, kaio.thread_idx.y
    if row < a.shape[0] and col < a.shape[1]:
        tile[y, x] = a[row, col]
    else:
        tile[y, x] = 0
    kaio.bar_sync()
    out[col, row] = tile[y, x]


def padded(size: Size) -> Launch:
    rows, columns = size.blocks * T, T
    a = size.integers((rows - 3, T - 1))
    out = np.zeros((columns, rows), np.int32)
    out[: T - 1, : rows - 3] = a.T
    return Launch((a, np.zeros_like(out)), (1, size.blocks), (T, T), {"out": out})


@kaio.kernel
def halo_without_ends(x: In[i32], out: Out[i32]):
    s = kaio.shared_mem(MOST + 2, i32)
    t, i = kaio.thread_idx.x, kaio.grid(1)
    s[t + 1] = x[i]
    kaio.bar_sync()
    out[i] = s[t] + s[t + 2]  # HERE


@kaio.kernel
def halo_with_ends(x: In[i32], out: Out[i32]):
    s = kaio.shared_mem(MOST + 2, i32)
    t, i = kaio.thread_idx.x, kaio.grid(1)
    s[t + 1] = x[i]
    if t == 0:
        s[0] = 0
        s[kaio.block_dim.x + 1] = 0
    kaio.bar_sync()
    out[i] = s[t] + s[t + 2]


def neighbours_in_blocks(size: Size) -> Launch:
    x = size.integers((size.blocks, size.threads))
    wide = np.pad(x, ((0, 0), (1, 1)))
    out = (wide[:, :-2] + wide[:, 2:]).ravel()
    return Launch((x.ravel(), np.zeros_like(out)), size.blocks, size.threads, {"out": out})


@kaio.kernel
def counter_never_zeroed(x: In[i32], out: Out[i32]):
    count = kaio.shared_mem(1, i32)
    if x[kaio.grid(1)] % 2 == 0:
        kaio.atomic_add(count, 0, 1)  # HERE
    kaio.bar_sync()
    if kaio.thread_idx.x == 0:
        out[kaio.block_idx.x] = count[0]


@kaio.kernel
def counter_zeroed(x: In[i32], out: Out[i32]):
    count = kaio.shared_mem(1, i32)
    if kaio.thread_idx.x == 0:
        count[0] = 0
    kaio.bar_sync()
    if x[kaio.grid(1)] % 2 == 0:
        kaio.atomic_add(count, 0, 1)
    kaio.bar_sync()
    if kaio.thread_idx.x == 0:
        out[kaio.block_idx.x] = count[0]


def evens(size: Size) -> Launch:
    x = size.integers((size.blocks, size.threads))
    out = (x % 2 == 0).sum(1, dtype=np.int32)
    return Launch((x.ravel(), np.zeros_like(out)), size.blocks, size.threads, {"out": out})


@kaio.kernel
def left_by_the_block_before(out: Out[i32]):
    """The first block fills what the others read: they find what it left, where they run behind it."""
    s = kaio.shared_mem(MOST, i32)
    t = kaio.thread_idx.x
    if kaio.block_idx.x == 0:
        s[t] = 9
    kaio.bar_sync()
    out[kaio.grid(1)] = s[kaio.block_dim.x - 1 - t]  # HERE


@kaio.kernel
def filled_by_every_block(out: Out[i32]):
    s = kaio.shared_mem(MOST, i32)
    t = kaio.thread_idx.x
    s[t] = 9
    kaio.bar_sync()
    out[kaio.grid(1)] = s[kaio.block_dim.x - 1 - t]


def nines(size: Size) -> Launch:
    out = np.full(size.count, 9, np.int32)
    return Launch((np.zeros_like(out),), size.blocks, size.threads, {"out": out})


@kaio.kernel
def dynamic_array_filled_in_part(out: Out[i32]):
    tile = kaio.dynamic_shared("tile", i32)
    if kaio.thread_idx.x > 0:
        tile[kaio.thread_idx.x] = 9
    kaio.bar_sync()
    out[kaio.grid(1)] = tile[tile.size - 1 - kaio.thread_idx.x]  # HERE


@kaio.kernel
def dynamic_array_filled(out: Out[i32]):
    tile = kaio.dynamic_shared("tile", i32)
    tile[kaio.thread_idx.x] = 9
    kaio.bar_sync()
    out[kaio.grid(1)] = tile[tile.size - 1 - kaio.thread_idx.x]


def dynamic_nines(size: Size) -> Launch:
    made = nines(size)
    return Launch(made.arguments, size.blocks, size.threads, made.expected, shared={"tile": size.threads})


@kaio.kernel
def odd_bytes_never_written(out: Out[i32]):
    s = kaio.shared_mem(MOST, u8)
    t = kaio.thread_idx.x
    if t % 2 == 0:
        s[t] = u8(9)
    kaio.bar_sync()
    out[kaio.grid(1)] = i32(s[t])  # HERE


@kaio.kernel
def every_byte_written(out: Out[i32]):
    s = kaio.shared_mem(MOST, u8)
    t = kaio.thread_idx.x
    s[t] = u8(9)
    kaio.bar_sync()
    out[kaio.grid(1)] = i32(s[t])


@kaio.kernel
def copy_of_too_few(x: In[i32], out: Out[i32]):
    s = kaio.shared_mem((MOST, 4), i32)
    t, i = kaio.thread_idx.x, kaio.grid(1)
    kaio.cp_async(s, (t, 0), x, 4 * i, 2)
    kaio.cp_async_commit()
    kaio.cp_async_wait(0)
    out[i] = s[t, 0] + s[t, 1] + s[t, 2] + s[t, 3]  # HERE


@kaio.kernel
def copy_of_four(x: In[i32], out: Out[i32]):
    s = kaio.shared_mem((MOST, 4), i32)
    t, i = kaio.thread_idx.x, kaio.grid(1)
    kaio.cp_async(s, (t, 0), x, 4 * i, 4)
    kaio.cp_async_commit()
    kaio.cp_async_wait(0)
    out[i] = s[t, 0] + s[t, 1] + s[t, 2] + s[t, 3]


def sums_of_four(size: Size) -> Launch:
    x = size.integers((size.count, 4))
    out = x.sum(1, dtype=np.int32)
    return Launch((x.ravel(), np.zeros_like(out)), size.blocks, size.threads, {"out": out})


# ---------------------------------------------------------------------- local memory
@kaio.kernel
def local_array_filled_in_part(x: In[i32], out: Out[i32]):
    window = kaio.local_mem(8, i32)
    i = kaio.grid(1)
    for k in range(x[i] % 8):
        window[k] = x[i] + k
    out[i] = window[7]  # HERE


@kaio.kernel
def local_array_filled(x: In[i32], out: Out[i32]):
    window = kaio.local_mem(8, i32)
    i = kaio.grid(1)
    for k in range(8):
        window[k] = x[i] + k
    out[i] = window[7]


def plus_seven(size: Size) -> Launch:
    x = size.integers(size.count)
    return Launch((x, np.zeros_like(x)), size.blocks, size.threads, {"out": x + 7})


class Particle(NamedTuple):
    """A struct with a gap behind its first field."""

    kind: u8
    mass: f32
    position: tuple[f32, f32]


@kaio.kernel
def field_never_set(x: In[f32], out: Out[f32]):
    s = kaio.shared_mem(MOST, Particle)
    t, i = kaio.thread_idx.x, kaio.grid(1)
    s[t].kind = u8(1)
    s[t].mass = x[i]
    kaio.bar_sync()
    out[i] = s[t].mass + s[t].position[1]  # HERE


@kaio.kernel
def fields_set(x: In[f32], out: Out[f32]):
    """The gap is not written, and copied: that is no read of it."""
    s = kaio.shared_mem((2, MOST), Particle)
    t, i = kaio.thread_idx.x, kaio.grid(1)
    s[0, t].kind = u8(1)
    s[0, t].mass = x[i]
    s[0, t].position = (0.0, 0.0)
    s[1, t] = s[0, t]
    kaio.bar_sync()
    out[i] = s[1, t].mass + s[1, t].position[1]


@kaio.kernel
def lane_never_set(x: In[f32], out: Out[f32]):
    s = kaio.shared_mem(MOST, f32x4)
    t, i = kaio.thread_idx.x, kaio.grid(1)
    s[t].x = x[i]
    s[t].y = x[i]
    s[t].z = x[i]
    v = s[t]  # HERE
    out[i] = v.x + v.w


@kaio.kernel
def lanes_set(x: In[f32], out: Out[f32]):
    s = kaio.shared_mem(MOST, f32x4)
    t, i = kaio.thread_idx.x, kaio.grid(1)
    s[t].x = x[i]
    s[t].y = x[i]
    s[t].z = x[i]
    s[t].w = 0.0
    v = s[t]
    out[i] = v.x + v.w


def copied(size: Size) -> Launch:
    x = size.integers(size.count, dtype=np.float32)
    return Launch((x, np.zeros_like(x)), size.blocks, size.threads, {"out": x})


# ---------------------------------------------------------------------- buffers
@kaio.kernel
def out_read_before(x: In[i32], out: Out[i32]):
    i = kaio.grid(1)
    out[2 * i] = x[i]
    out[2 * i + 1] = out[2 * i] + out[2 * i + 1]  # HERE


@kaio.kernel
def out_read_behind(x: In[i32], out: Out[i32]):
    i = kaio.grid(1)
    out[2 * i] = x[i]
    out[2 * i + 1] = out[2 * i] + x[i]


def pairs(size: Size) -> Launch:
    x = size.integers(size.count)
    out = np.stack([x, 2 * x], 1).ravel()
    return Launch((x, np.zeros_like(out)), size.blocks, size.threads, {"out": out})


@kaio.kernel
def added_to(x: In[i32], total: InOut[i32]):
    i = kaio.grid(1)
    total[i] += x[i]  # HERE


def added_to_nothing(size: Size) -> Launch:
    x = size.integers(size.count)
    return Launch((x, Empty(size.count, i32)), size.blocks, size.threads)


def added_to_zeros(size: Size) -> Launch:
    x = size.integers(size.count)
    return Launch((x, np.zeros_like(x)), size.blocks, size.threads, {"total": x})


# ---------------------------------------------------------------------- a block that has ended
@kaio.kernel
def tile_of_a_block_that_ended(x: In[i32], out: Out[i32]):
    tile = kaio.shared_mem(64, i32)
    t, i = kaio.thread_idx.x, kaio.grid(1)
    tile[t] = x[i]
    kaio.cluster_sync()
    if kaio.cluster_rank() == 0:
        for _ in range(20):
            kaio.bar_sync()
        out[i] = kaio.cluster_shared(tile, 1)[t]  # HERE
    else:
        out[i] = 0


@kaio.kernel
def tile_of_a_block_that_waits(x: In[i32], out: Out[i32]):
    tile = kaio.shared_mem(64, i32)
    t, i = kaio.thread_idx.x, kaio.grid(1)
    tile[t] = x[i]
    kaio.cluster_sync()
    if kaio.cluster_rank() == 0:
        for _ in range(20):
            kaio.bar_sync()
        out[i] = kaio.cluster_shared(tile, 1)[t]
    else:
        out[i] = 0
    kaio.cluster_sync()


def tiles_of_the_second(size: Size) -> Launch:
    x = size.integers((size.blocks, 2, size.threads))
    out = np.zeros_like(x)
    out[:, 0] = x[:, 1]
    arguments = (x.ravel(), np.zeros(x.size, np.int32))
    return Launch(arguments, 2 * size.blocks, size.threads, {"out": out.ravel()}, {"cluster": 2})


CASES = [
    Case(unfilled_tile, filled_tile, padded, uninitialised("tile"), threads=(T * T,)),
    Case(halo_without_ends, halo_with_ends, neighbours_in_blocks, uninitialised("s", {0, 65})),
    Case(counter_never_zeroed, counter_zeroed, evens, uninitialised("count", {0})),
    Case(left_by_the_block_before, filled_by_every_block, nines, uninitialised("s", range(64))),
    Case(dynamic_array_filled_in_part, dynamic_array_filled, dynamic_nines, uninitialised("tile", {0})),
    Case(odd_bytes_never_written, every_byte_written, nines, uninitialised("s", range(1, 64, 2))),
    Case(copy_of_too_few, copy_of_four, sums_of_four, uninitialised("s", [(t, 2) for t in range(64)])),
    Case(local_array_filled_in_part, local_array_filled, plus_seven, uninitialised("window", {7})),
    Case(field_never_set, fields_set, copied, uninitialised("s", range(64))),
    Case(lane_never_set, lanes_set, copied, uninitialised("s", range(64))),
    Case(out_read_before, out_read_behind, pairs, uninitialised("out", range(1, 384, 2))),
    Case(
        added_to, added_to, added_to_nothing, uninitialised("total", range(192)), of_mended=added_to_zeros,
        name="added_to_an_empty_buffer",
    ),
    Case(
        tile_of_a_block_that_ended, tile_of_a_block_that_waits, tiles_of_the_second, Report("freed"),
        threads=(1, 31, 32, 64), on_gpu=False,
    ),
]  # fmt: skip
