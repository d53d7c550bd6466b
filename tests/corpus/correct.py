"""Further correct kernels, of the kinds that are written with care: the CPU device has to be silent about them."""

from __future__ import annotations

import numpy as np

import kaio
from kaio import D2, In, InOut, Out, f32, i32, u8
from tests.corpus.case import MOST, POWERS, WARPS, Case, Launch, Size

T = 8
BINS = 16


@kaio.kernel
def private_histogram(x: In[i32], counts: InOut[i32]):
    private = kaio.shared_mem(BINS, i32)
    t, n = kaio.thread_idx.x, kaio.block_dim.x
    for k in range(t, BINS, n):
        private[k] = 0
    kaio.bar_sync()
    for i in range(kaio.grid(1), x.size, n * kaio.grid_dim.x):
        kaio.atomic_add(private, x[i] % BINS, 1, scope="block")
    kaio.bar_sync()
    for k in range(t, BINS, n):
        kaio.atomic_add(counts, k, private[k])


def histogram(size: Size) -> Launch:
    x = size.integers(3 * size.count + 1)
    counts = np.bincount(x % BINS, minlength=BINS)
    return Launch((x, np.zeros(BINS, np.int32)), size.blocks, size.threads, {"counts": counts})


@kaio.kernel
def sorted_in_blocks(x: InOut[i32]):
    """Odd-even transposition sort of each block's elements."""
    s = kaio.shared_mem(MOST, i32)
    t, n, i = kaio.thread_idx.x, kaio.block_dim.x, kaio.grid(1)
    s[t] = x[i]
    kaio.bar_sync()
    for turn in range(n):
        if t % 2 == turn % 2 and t + 1 < n:
            a, b = s[t], s[t + 1]
            s[t] = min(a, b)
            s[t + 1] = max(a, b)
        kaio.bar_sync()
    x[i] = s[t]


@kaio.kernel
def bitonic(x: InOut[i32]):
    """A sorting network over powers of two."""
    s = kaio.shared_mem(MOST, i32)
    t, n, i = kaio.thread_idx.x, kaio.block_dim.x, kaio.grid(1)
    s[t] = x[i]
    kaio.bar_sync()
    length = 2
    while length <= n:
        step = length // 2
        while step > 0:
            other = t ^ step
            if other > t:
                a, b = s[t], s[other]
                if (a > b) == (t & length == 0):
                    s[t] = b
                    s[other] = a
            kaio.bar_sync()
            step //= 2
        length *= 2
    x[i] = s[t]


def sorted_blocks(size: Size) -> Launch:
    x = size.integers((size.blocks, size.threads))
    return Launch((x.ravel(),), size.blocks, size.threads, {"x": np.sort(x, 1).ravel()})


@kaio.kernel
def matmul(a: In[f32, D2], b: In[f32, D2], c: Out[f32, D2]):
    """B19, mended: tiles are filled up with zeros, and nobody returns."""
    left, right = kaio.shared_mem((T, T), f32), kaio.shared_mem((T, T + 1), f32)
    col, row = kaio.grid(2)
    x, y = kaio.thread_idx.x, kaio.thread_idx.y
    total = 0.0
    for k in range(0, a.shape[1], T):
        left[y, x] = a[row, k + x] if row < a.shape[0] and k + x < a.shape[1] else 0.0
        right[y, x] = b[k + y, col] if k + y < b.shape[0] and col < b.shape[1] else 0.0
        kaio.bar_sync()
        for n in range(T):
            total += left[y, n] * right[n, x]
        kaio.bar_sync()
    if row < c.shape[0] and col < c.shape[1]:
        c[row, col] = total


def multiplied(size: Size) -> Launch:
    rows, inner = T * size.blocks - 3, 5 + 4 * size.blocks
    a = size.integers((rows, inner), -3, 4, np.float32)
    b = np.ascontiguousarray(a[::-1].T)[:, : rows - 1].copy()
    grid = (size.blocks, size.blocks)
    return Launch((a, b, np.zeros((rows, rows - 1), np.float32)), grid, (T, T), {"c": a @ b})


@kaio.kernel
def double_buffered(x: In[i32], out: Out[i32]):
    """Two buffers in turn need one barrier a turn."""
    s = kaio.shared_mem((2, MOST), i32)
    t, n, total = kaio.thread_idx.x, kaio.block_dim.x, 0
    first = 4 * n * kaio.block_idx.x
    for k in range(4):
        s[k % 2, t] = x[first + k * n + t]
        kaio.bar_sync()
        total += s[k % 2, n - 1 - t]
    out[kaio.grid(1)] = total


def four_turns(size: Size) -> Launch:
    x = size.integers((size.blocks, 4, size.threads))
    out = x.sum(1, dtype=np.int32)[:, ::-1].ravel()
    return Launch((x.ravel(), np.zeros_like(out)), size.blocks, size.threads, {"out": out})


@kaio.kernel
def stencil(a: In[i32, D2], out: Out[i32, D2]):
    """A tile with its halo on all sides, filled by the threads of the tile."""
    s = kaio.shared_mem((T + 2, T + 2), i32)
    col, row = kaio.grid(2)
    x, y = kaio.thread_idx.x, kaio.thread_idx.y
    for k in range(y * T + x, (T + 2) * (T + 2), T * T):
        r, c = T * kaio.block_idx.y + k // (T + 2) - 1, T * kaio.block_idx.x + k % (T + 2) - 1
        inside = 0 <= r < a.shape[0] and 0 <= c < a.shape[1]
        s[k // (T + 2), k % (T + 2)] = a[r, c] if inside else 0
    kaio.bar_sync()
    if row < a.shape[0] and col < a.shape[1]:
        out[row, col] = s[y, x + 1] + s[y + 2, x + 1] + s[y + 1, x] + s[y + 1, x + 2]


def sums_of_neighbours(size: Size) -> Launch:
    a = size.integers((T * size.blocks - 2, T + 3))
    wide = np.pad(a, 1)
    out = wide[:-2, 1:-1] + wide[2:, 1:-1] + wide[1:-1, :-2] + wide[1:-1, 2:]
    return Launch((a, np.zeros_like(a)), (2, size.blocks), (T, T), {"out": out})


@kaio.kernel
def specialised_warps(x: In[i32], out: Out[i32]):
    """Warp 0 loads the next stage while the others work on the last one, with a pair of named barriers a stage."""
    s = kaio.shared_mem((2, 32), i32)
    lane, n, total = kaio.lane_id(), kaio.block_dim.x, 0
    for k in range(6):
        stage = k % 2
        if kaio.warp_id() == 0:
            if k >= 2:
                kaio.named_bar_sync(3 + stage, n)
            s[stage, lane] = x[32 * k + lane]
            kaio.named_bar_arrive(1 + stage, n)
        else:
            kaio.named_bar_sync(1 + stage, n)
            total += s[stage, 31 - lane] * kaio.warp_id()
            if k < 4:
                kaio.named_bar_arrive(3 + stage, n)
    out[kaio.grid(1)] = total


def of_six_stages(size: Size) -> Launch:
    x = size.integers((6, 32))
    warps = np.arange(size.threads // 32)[:, None]
    out = np.tile((warps * x.sum(0)[::-1]).ravel(), size.blocks)
    return Launch((x.ravel(), np.zeros(size.count, np.int32)), size.blocks, size.threads, {"out": out})


@kaio.kernel
def copies_three_deep(x: In[i32], out: Out[i32]):
    """A pipeline of `cp_async` over three stages, which needs one barrier a turn."""
    s = kaio.shared_mem((3, MOST), i32)
    t, n, total = kaio.thread_idx.x, kaio.block_dim.x, 0
    first = kaio.block_idx.x * 8 * n
    for k in range(2):
        kaio.cp_async(s, (k, t), x, first + k * n + t, 1)
        kaio.cp_async_commit()
    for k in range(8):
        kaio.cp_async_wait(1)
        kaio.bar_sync()
        if k < 6:
            kaio.cp_async(s, ((k + 2) % 3, t), x, first + (k + 2) * n + t, 1)
        kaio.cp_async_commit()
        total += s[k % 3, n - 1 - t]
    out[kaio.grid(1)] = total


def eight_turns(size: Size) -> Launch:
    x = size.integers((size.blocks, 8, size.threads))
    out = x.sum(1, dtype=np.int32)[:, ::-1].ravel()
    return Launch((x.ravel(), np.zeros_like(out)), size.blocks, size.threads, {"out": out})


@kaio.kernel
def compacted(x: In[i32], out: InOut[i32], count: InOut[i32]):
    """A counter that nobody else's memory hangs on needs no order."""
    i = kaio.grid(1)
    if i < x.size and x[i] % 2 == 0:
        out[kaio.atomic_add(count, 0, 1)] = 1


def evens(size: Size) -> Launch:
    x = size.integers(size.count)
    count = int((x % 2 == 0).sum())
    out = np.zeros_like(x)
    out[:count] = 1
    return Launch(
        (x, np.zeros_like(x), np.zeros(1, np.int32)), size.blocks, size.threads, {"out": out, "count": [count]}
    )


@kaio.kernel
def warps_compacted(x: In[i32], out: InOut[i32], count: InOut[i32]):
    """One atomic for each warp; the lanes share out what it gives by a ballot."""
    i = kaio.grid(1)
    keep = i < x.size and x[i] % 2 == 0
    lanes = kaio.ballot(keep)
    place = 0
    if kaio.lane_id() == 0:
        place = kaio.atomic_add(count, 0, kaio.popc(lanes))
    place = kaio.shfl_sync_idx(place, 0)
    if keep:
        out[place + kaio.popc(lanes & kaio.lanemask_lt())] = 1


@kaio.kernel
def collectives(x: In[i32], out: Out[i32]):
    """Folds, scans and broadcasts one after another and in a loop, which share their memory."""
    i = kaio.grid(1)
    value = x[i]
    for _ in range(3):
        value = value % 7 + kaio.block_scan_sum(value % 5)
        value -= kaio.block_reduce_min(value)
        value += kaio.block_broadcast(value, kaio.block_dim.x - 1) % 3
        value += kaio.warp_reduce_max(value % 11)
    out[i] = kaio.block_reduce_max(value)


def of_collectives(size: Size) -> Launch:
    x = size.integers((size.blocks, size.threads))
    value = x
    for _ in range(3):
        value = value % 7 + (value % 5).cumsum(1, dtype=np.int32)
        value = value - value.min(1, keepdims=True)
        value = value + value[:, -1:] % 3
        most = [np.repeat((w % 11).max(1, keepdims=True), w.shape[1], 1) for w in
                np.split(value, range(32, size.threads, 32), 1)]  # fmt: skip
        value = value + np.concatenate(most, 1)
    out = np.repeat(value.max(1), size.threads)
    return Launch((x.ravel(), np.zeros(x.size, np.int32)), size.blocks, size.threads, {"out": out})


@kaio.kernel
def phases_of_the_grid(x: InOut[i32], total: InOut[i32]):
    """Grid barriers in a loop: in each turn all add, then all read."""
    i = kaio.grid(1)
    for turn in range(3):
        kaio.atomic_add(total, turn, x[i])
        kaio.grid_sync()
        x[i] = (x[i] + total[turn]) % 101


def of_three_phases(size: Size) -> Launch:
    x = size.integers(size.count)
    value, totals = x, []
    for _ in range(3):
        totals.append(value.sum())
        value = (value + totals[-1]) % 101
    return Launch((x, np.zeros(3, np.int32)), size.blocks, size.threads, {"x": value, "total": totals})


@kaio.kernel
def bytes_packed(x: In[u8], out: Out[u8]):
    """Bytes go through shared memory, each by a thread of its own, and come back transposed."""
    s = kaio.shared_mem((T, T), u8)
    c, r = kaio.thread_idx.x, kaio.thread_idx.y
    first = T * T * kaio.block_idx.x
    s[r, c] = x[first + T * r + c]
    kaio.bar_sync()
    out[first + T * r + c] = s[c, r]


def byte_tiles(size: Size) -> Launch:
    x = size.integers((size.blocks, T, T), dtype=np.uint8)
    out = x.transpose(0, 2, 1).ravel()
    return Launch((x.ravel(), np.zeros_like(out)), size.blocks, (T, T), {"out": out})


@kaio.kernel
def counted_at_barriers(x: In[i32], out: Out[i32]):
    """`bar_sync_count` is a barrier for memory, too."""
    s = kaio.shared_mem(MOST, i32)
    t, i = kaio.thread_idx.x, kaio.grid(1)
    s[t] = x[i]
    evens = kaio.bar_sync_count(x[i] % 2 == 0)
    other = s[kaio.block_dim.x - 1 - t]
    is_any = kaio.bar_sync_or(other > 90)
    s[t] = other + evens
    kaio.bar_sync()
    out[i] = s[kaio.block_dim.x - 1 - t] + i32(is_any)


def counts_of_evens(size: Size) -> Launch:
    x = size.integers((size.blocks, size.threads))
    out = x + (x % 2 == 0).sum(1, keepdims=True) + (x > 90).any(1, keepdims=True)
    return Launch((x.ravel(), np.zeros(x.size, np.int32)), size.blocks, size.threads, {"out": out.ravel()})


@kaio.kernel
def stored_before_a_return(x: In[i32], out: Out[i32]):
    """Who has returned counts as arrived, and what it stored is there behind the barrier."""
    s = kaio.shared_mem(MOST, i32)
    t, i = kaio.thread_idx.x, kaio.grid(1)
    s[t] = x[i]
    if t % 2 == 1:
        return
    kaio.bar_sync()
    out[i] = s[t + 1] if t + 1 < kaio.block_dim.x else 0


def second_of_two(size: Size) -> Launch:
    x = size.integers((size.blocks, size.threads))
    out = np.zeros_like(x)
    out[:, :-1] = x[:, 1:]
    out[:, 1::2] = 0
    return Launch((x.ravel(), np.zeros(x.size, np.int32)), size.blocks, size.threads, {"out": out.ravel()})


CASES = [
    Case(None, stored_before_a_return, second_of_two),
    Case(None, private_histogram, histogram),
    Case(None, sorted_in_blocks, sorted_blocks),
    Case(None, bitonic, sorted_blocks, threads=POWERS),
    Case(None, matmul, multiplied, threads=(T * T,)),
    Case(None, double_buffered, four_turns),
    Case(None, stencil, sums_of_neighbours, threads=(T * T,)),
    Case(None, specialised_warps, of_six_stages, threads=WARPS[1:]),
    Case(None, copies_three_deep, eight_turns),
    Case(None, compacted, evens),
    Case(None, warps_compacted, evens),
    Case(None, collectives, of_collectives),
    Case(None, phases_of_the_grid, of_three_phases),
    Case(None, bytes_packed, byte_tiles, threads=(T * T,)),
    Case(None, counted_at_barriers, counts_of_evens),
]
