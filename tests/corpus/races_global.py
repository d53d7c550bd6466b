"""Races in buffers: between threads of one block, between blocks, and between launches that run at the same time."""

from __future__ import annotations

import numpy as np

import kaio
from kaio import D2, In, InOut, Out, i32
from tests.corpus.case import Case, Launch, Size, race

T = 8


# ---------------------------------------------------------------------- B18
@kaio.kernel
def histogram_by_update(x: In[i32], h: InOut[i32]):
    i = kaio.grid(1)
    if i < x.size:
        h[x[i]] += 1  # HERE OTHER


@kaio.kernel
def histogram_by_atomics(x: In[i32], h: InOut[i32]):
    i = kaio.grid(1)
    if i < x.size:
        kaio.atomic_add(h, x[i], 1)


def histogram(size: Size) -> Launch:
    x = size.integers(size.count, 0, 4)
    h = np.bincount(x, minlength=4).astype(np.int32)
    return Launch((x, np.zeros(4, np.int32)), size.blocks, size.threads, {"h": h})


@kaio.kernel
def total_by_update(x: In[i32], total: InOut[i32]):
    mine = kaio.block_reduce_sum(x[kaio.grid(1)])
    if kaio.thread_idx.x == 0:
        total[0] += mine  # HERE OTHER


@kaio.kernel
def total_by_atomics(x: In[i32], total: InOut[i32]):
    mine = kaio.block_reduce_sum(x[kaio.grid(1)])
    if kaio.thread_idx.x == 0:
        kaio.atomic_add(total, 0, mine)


@kaio.kernel
def total_of_one_block_each(x: In[i32], total: InOut[i32]):
    mine = kaio.block_reduce_sum(x[kaio.grid(1)])
    if kaio.thread_idx.x == 0:
        kaio.atomic_add(total, 0, mine, scope="block")  # HERE OTHER


def grand_total(size: Size) -> Launch:
    x = size.integers(size.count)
    total = np.array([x.sum()], np.int32)
    return Launch((x, np.zeros(1, np.int32)), size.blocks, size.threads, {"total": total})


@kaio.kernel
def maximum_stored_plainly(x: In[i32], most: InOut[i32]):
    """A store where there is nothing yet, and atomics from then on: the store may come late."""
    i = kaio.grid(1)
    if i == 0:
        most[0] = x[0]  # HERE
    else:
        kaio.atomic_max(most, 0, x[i])  # OTHER


@kaio.kernel
def maximum_by_atomics(x: In[i32], most: InOut[i32]):
    kaio.atomic_max(most, 0, x[kaio.grid(1)])


def maximum(size: Size) -> Launch:
    x = size.integers(size.count)
    most = np.array([x.max()], np.int32)
    return Launch((x, np.zeros(1, np.int32)), size.blocks, size.threads, {"most": most})


# ---------------------------------------------------------------------- in place
@kaio.kernel
def smooth_in_place(x: InOut[i32]):
    i = kaio.grid(1)
    if 0 < i < x.size - 1:
        x[i] = x[i - 1] + x[i + 1]  # HERE OTHER


@kaio.kernel
def smooth(x: In[i32], out: Out[i32]):
    i = kaio.grid(1)
    if 0 < i < x.size - 1:
        out[i] = x[i - 1] + x[i + 1]


def smoothed_in_place(size: Size) -> Launch:
    return Launch((size.integers(size.count),), size.blocks, size.threads)


def smoothed(size: Size) -> Launch:
    x = size.integers(size.count)
    out = np.zeros_like(x)
    out[1:-1] = x[:-2] + x[2:]
    return Launch((x, np.zeros_like(x)), size.blocks, size.threads, {"out": out})


@kaio.kernel
def transpose_everything_in_place(a: InOut[i32, D2]):
    col, row = kaio.grid(2)
    if row < a.shape[0] and col < a.shape[1]:
        value = a[col, row]  # HERE
        a[row, col] = value  # OTHER


@kaio.kernel
def transpose_in_place(a: InOut[i32, D2]):
    col, row = kaio.grid(2)
    if row < a.shape[0] and col < row:
        a[row, col], a[col, row] = a[col, row], a[row, col]


def transposed(size: Size) -> Launch:
    side = T * size.blocks - 3
    a = size.integers((side, side))
    return Launch((a,), (size.blocks, size.blocks), (T, T), {"a": a.T})


# ---------------------------------------------------------------------- whose element it is
@kaio.kernel
def chunks_that_overlap(out: Out[i32], chunk: i32):
    """Each block fills its chunk and one element of the next."""
    first = kaio.block_idx.x * chunk
    for k in range(kaio.thread_idx.x, chunk + 1, kaio.block_dim.x):
        if first + k < out.size:
            out[first + k] = kaio.block_idx.x  # HERE OTHER


@kaio.kernel
def chunks(out: Out[i32], chunk: i32):
    first = kaio.block_idx.x * chunk
    for k in range(kaio.thread_idx.x, chunk, kaio.block_dim.x):
        if first + k < out.size:
            out[first + k] = kaio.block_idx.x


def filled_chunks(size: Size) -> Launch:
    chunk = 100
    out = np.arange(size.blocks * chunk, dtype=np.int32) // chunk
    return Launch((np.zeros_like(out), chunk), size.blocks, size.threads, {"out": out})


@kaio.kernel
def stride_of_one_block(x: In[i32], out: Out[i32]):
    for i in range(kaio.grid(1), x.size, kaio.block_dim.x):
        out[i] = 2 * x[i]  # HERE OTHER


@kaio.kernel
def stride_of_the_grid(x: In[i32], out: Out[i32]):
    for i in range(kaio.grid(1), x.size, kaio.grid_dim.x * kaio.block_dim.x):
        out[i] = 2 * x[i]


def doubled(size: Size) -> Launch:
    x = size.integers(3 * size.count + 5)
    return Launch((x, np.zeros_like(x)), size.blocks, size.threads, {"out": 2 * x})


@kaio.kernel
def scatter(x: In[i32], to: In[i32], out: Out[i32]):
    i = kaio.grid(1)
    if i < x.size:
        out[to[i]] = x[i]  # HERE OTHER


def scattered_twice(size: Size) -> Launch:
    x, to = size.integers(size.count), np.random.default_rng(size.seed).permutation(size.count).astype(np.int32)
    to[to == 3] = 4  # so that two threads store there
    return Launch((x, to, np.zeros_like(x)), size.blocks, size.threads)


def scattered(size: Size) -> Launch:
    x, to = size.integers(size.count), np.random.default_rng(size.seed).permutation(size.count).astype(np.int32)
    out = np.zeros_like(x)
    out[to] = x
    return Launch((x, to, np.zeros_like(x)), size.blocks, size.threads, {"out": out})


@kaio.kernel
def found_by_many(x: In[i32], found: InOut[i32]):
    """All store the same, which is a race nevertheless."""
    if x[kaio.grid(1)] >= 50:
        found[0] = 1  # HERE OTHER


@kaio.kernel
def found_by_atomics(x: In[i32], found: InOut[i32]):
    if x[kaio.grid(1)] >= 50:
        kaio.atomic_or(found, 0, 1)


def any_large(size: Size) -> Launch:
    x = size.integers(size.count)
    found = np.array([(x >= 50).any()], np.int32)
    return Launch((x, np.zeros(1, np.int32)), size.blocks, size.threads, {"found": found})


# ---------------------------------------------------------------------- one block after another
@kaio.kernel
def carry_from_the_block_before(x: In[i32], carry: InOut[i32]):
    mine = kaio.block_reduce_sum(x[kaio.grid(1)])
    b = kaio.block_idx.x
    if kaio.thread_idx.x == 0:
        before = 0
        if b > 0:
            before = carry[b - 1]  # HERE
        carry[b] = before + mine  # OTHER


@kaio.kernel
def carry_over_the_grid(x: In[i32], carry: InOut[i32]):
    mine = kaio.block_reduce_sum(x[kaio.grid(1)])
    b = kaio.block_idx.x
    if kaio.thread_idx.x == 0:
        carry[b] = mine
    kaio.grid_sync()
    if kaio.grid(1) == 0:
        for k in range(1, carry.size):
            carry[k] += carry[k - 1]


def carried(size: Size) -> Launch:
    x = size.integers(size.count)
    carry = x.reshape(size.blocks, size.threads).sum(1).cumsum().astype(np.int32)
    return Launch((x, np.zeros(size.blocks, np.int32)), size.blocks, size.threads, {"carry": carry})


@kaio.kernel
def mirror_without_grid_sync(x: In[i32], y: InOut[i32], out: Out[i32]):
    i = kaio.grid(1)
    y[i] = 3 * x[i]  # HERE
    out[i] = y[y.size - 1 - i]  # OTHER


@kaio.kernel
def mirror_by_grid_sync(x: In[i32], y: InOut[i32], out: Out[i32]):
    i = kaio.grid(1)
    y[i] = 3 * x[i]
    kaio.grid_sync()
    out[i] = y[y.size - 1 - i]


def mirrored(size: Size) -> Launch:
    x = size.integers(size.count)
    zeros = np.zeros_like(x)
    return Launch((x, zeros, zeros), size.blocks, size.threads, {"out": 3 * x[::-1]})


# ---------------------------------------------------------------------- the last block adds up
@kaio.kernel
def last_block_without_fence(x: In[i32], parts: InOut[i32], done: InOut[i32], out: InOut[i32]):
    mine = kaio.block_reduce_sum(x[kaio.grid(1)])
    if kaio.thread_idx.x == 0:
        parts[kaio.block_idx.x] = mine  # HERE
        if kaio.atomic_add(done, 0, 1) == kaio.grid_dim.x - 1:
            for k in range(parts.size):
                out[0] += parts[k]  # OTHER


@kaio.kernel
def last_block_with_fences(x: In[i32], parts: InOut[i32], done: InOut[i32], out: InOut[i32]):
    mine = kaio.block_reduce_sum(x[kaio.grid(1)])
    if kaio.thread_idx.x == 0:
        parts[kaio.block_idx.x] = mine
        kaio.fence()
        if kaio.atomic_add(done, 0, 1) == kaio.grid_dim.x - 1:
            kaio.fence()
            for k in range(parts.size):
                out[0] += parts[k]


def total_of_parts(size: Size) -> Launch:
    x = size.integers(size.count)
    arguments = (x, np.zeros(size.blocks, np.int32), np.zeros(1, np.int32), np.zeros(1, np.int32))
    return Launch(arguments, size.blocks, size.threads, {"out": [x.sum()]})


@kaio.kernel
def fence_of_one_thread(x: In[i32], parts: InOut[i32], done: InOut[i32], out: InOut[i32]):
    """Thread 0 counts its block as done while the others may not have stored yet."""
    last, i = kaio.shared_mem(1, i32), kaio.grid(1)
    parts[i] = 2 * x[i]  # HERE
    if kaio.thread_idx.x == 0:
        kaio.fence()
        last[0] = kaio.atomic_add(done, 0, 1)
        kaio.fence()
    kaio.bar_sync()
    if last[0] == kaio.grid_dim.x - 1:
        for k in range(kaio.thread_idx.x, parts.size, kaio.block_dim.x):
            kaio.atomic_add(out, 0, parts[k])  # OTHER


@kaio.kernel
def fence_behind_a_barrier(x: In[i32], parts: InOut[i32], done: InOut[i32], out: InOut[i32]):
    last, i = kaio.shared_mem(1, i32), kaio.grid(1)
    parts[i] = 2 * x[i]
    kaio.bar_sync()
    if kaio.thread_idx.x == 0:
        kaio.fence()
        last[0] = kaio.atomic_add(done, 0, 1)
        kaio.fence()
    kaio.bar_sync()
    if last[0] == kaio.grid_dim.x - 1:
        for k in range(kaio.thread_idx.x, parts.size, kaio.block_dim.x):
            kaio.atomic_add(out, 0, parts[k])


def total_of_doubles(size: Size) -> Launch:
    x = size.integers(size.count)
    arguments = (x, np.zeros_like(x), np.zeros(1, np.int32), np.zeros(1, np.int32))
    return Launch(arguments, size.blocks, size.threads, {"out": [2 * x.sum()]})


CASES = [
    Case(histogram_by_update, histogram_by_atomics, histogram, race("h", "write", "read", index=range(4))),
    Case(
        total_by_update, total_by_atomics, grand_total,
        race("total", "write", "read", index={0}, blocks="different"),
    ),
    Case(
        total_of_one_block_each, total_by_atomics, grand_total,
        race("total", "atomic", "atomic", index={0}, blocks="different"),
    ),
    Case(maximum_stored_plainly, maximum_by_atomics, maximum, race("most", "write", "atomic", index={0})),
    Case(smooth_in_place, smooth, smoothed_in_place, race("x", "write", "read"), of_mended=smoothed),
    Case(
        transpose_everything_in_place, transpose_in_place, transposed, race("a", "read", "write"), threads=(T * T,),
    ),
    Case(
        chunks_that_overlap, chunks, filled_chunks,
        race("out", "write", "write", index={100, 200}, blocks="different"),
    ),
    Case(stride_of_one_block, stride_of_the_grid, doubled, race("out", "write", "write", blocks="different")),
    Case(
        scatter, scatter, scattered_twice, race("out", "write", "write", index={4}), of_mended=scattered,
        name="scatter_to_one_place",
    ),
    Case(found_by_many, found_by_atomics, any_large, race("found", "write", "write", index={0})),
    Case(
        carry_from_the_block_before, carry_over_the_grid, carried,
        race("carry", "read", "write", index={0, 1}, blocks="different"),
    ),
    Case(mirror_without_grid_sync, mirror_by_grid_sync, mirrored, race("y", "write", "read"), size=Size(4, 64)),
    Case(
        last_block_without_fence, last_block_with_fences, total_of_parts,
        race("parts", "write", "read", index=range(3), blocks="different"),
    ),
    Case(
        fence_of_one_thread, fence_behind_a_barrier, total_of_doubles, race("parts", "write", "read"),
    ),
]  # fmt: skip
