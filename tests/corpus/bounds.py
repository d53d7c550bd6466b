"""Indices that an array does not have, and other checks of one thread."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

import kaio
from kaio import D2, In, InOut, Out, f16, f32, f32x4, i32, i64
from tests.corpus.case import BOUNDS, MOST, Case, Launch, Report, Size, out_of_range

T = 8


# ---------------------------------------------------------------------- neighbours
@kaio.kernel
def neighbour_before_the_first(x: In[i32], out: Out[i32]):
    i = kaio.grid(1)
    out[i] = x[i] - x[i - 1]  # HERE


@kaio.kernel
def neighbour_before(x: In[i32], out: Out[i32]):
    i = kaio.grid(1)
    out[i] = x[i] - (x[i - 1] if i > 0 else 0)


def differences(size: Size) -> Launch:
    x = size.integers(size.count)
    return Launch((x, np.zeros_like(x)), size.blocks, size.threads, {"out": np.diff(x, prepend=0)})


@kaio.kernel
def neighbour_behind_the_last(x: In[i32], out: Out[i32]):
    i = kaio.grid(1)
    if i < x.size:
        out[i] = x[i] + x[i + 1]  # HERE


@kaio.kernel
def neighbour_behind(x: In[i32], out: Out[i32]):
    i = kaio.grid(1)
    if i + 1 < x.size:
        out[i] = x[i] + x[i + 1]


def sums_of_two(size: Size) -> Launch:
    x = size.integers(size.count)
    out = np.append(x[:-1] + x[1:], 0)
    return Launch((x, np.zeros_like(x)), size.blocks, size.threads, {"out": out})


@kaio.kernel
def halo_past_the_tile(x: In[i32], out: Out[i32]):
    s = kaio.shared_mem(64, i32)
    t, i = kaio.thread_idx.x, kaio.grid(1)
    s[t] = x[i]
    kaio.bar_sync()
    out[i] = s[t] + s[t + 1]  # HERE


@kaio.kernel
def halo_within_the_tile(x: In[i32], out: Out[i32]):
    s = kaio.shared_mem(64, i32)
    t, i = kaio.thread_idx.x, kaio.grid(1)
    s[t] = x[i]
    kaio.bar_sync()
    out[i] = s[t] + (s[t + 1] if t < 63 else 0)


def sums_of_two_in_tiles(size: Size) -> Launch:
    x = size.integers((size.blocks, 64))
    out = x + np.pad(x[:, 1:], ((0, 0), (0, 1)))
    return Launch((x.ravel(), np.zeros(x.size, np.int32)), size.blocks, 64, {"out": out.ravel()})


# ---------------------------------------------------------------------- guards
@kaio.kernel
def no_guard(x: Out[i32]):
    i = kaio.grid(1)
    x[i] = i  # HERE


@kaio.kernel
def guard(x: Out[i32]):
    i = kaio.grid(1)
    if i < x.size:
        x[i] = i


def numbered(size: Size) -> Launch:
    x = np.arange(size.count - size.threads // 2, dtype=np.int32)
    return Launch((np.zeros_like(x),), size.blocks, size.threads, {"x": x})


@kaio.kernel
def guard_of_rows_only(a: In[i32, D2], out: Out[i32, D2]):
    """A column too far is an element of the next row: memory that is there, and not meant."""
    col, row = kaio.grid(2)
    if row < a.shape[0]:
        out[row, col] = a[row, col] + 1  # HERE


@kaio.kernel
def guard_of_rows_and_columns(a: In[i32, D2], out: Out[i32, D2]):
    col, row = kaio.grid(2)
    if row < a.shape[0] and col < a.shape[1]:
        out[row, col] = a[row, col] + 1


def rows_of_seven(size: Size) -> Launch:
    a = size.integers((T * size.blocks, 7))
    return Launch((a, np.zeros_like(a)), (1, size.blocks), (T, T), {"out": a + 1})


# ---------------------------------------------------------------------- arrays of the block, of the thread, constants
@kaio.kernel
def past_a_dynamic_array(x: In[i32], out: Out[i32]):
    left, right = kaio.dynamic_shared("left", i32), kaio.dynamic_shared("right", i32)
    t, i = kaio.thread_idx.x, kaio.grid(1)
    right[t] = 1
    left[t + 1] = x[i]  # HERE
    kaio.bar_sync()
    out[i] = left[t] * right[t]


@kaio.kernel
def two_dynamic_arrays(x: In[i32], out: Out[i32]):
    left, right = kaio.dynamic_shared("left", i32), kaio.dynamic_shared("right", i32)
    t, i = kaio.thread_idx.x, kaio.grid(1)
    right[t] = 2
    left[t] = x[i]
    kaio.bar_sync()
    out[i] = left[t] * right[t]


def doubled(size: Size) -> Launch:
    """As B24: two arrays in dynamic shared memory lie side by side, and not over one another."""
    x = size.integers(size.count)
    shared = {"left": size.threads, "right": size.threads}
    return Launch((x, np.zeros_like(x)), size.blocks, size.threads, {"out": 2 * x}, shared=shared)


@kaio.kernel
def past_a_local_array(x: In[i32], out: Out[i32]):
    counts = kaio.local_mem(4, i32)
    i = kaio.grid(1)
    for k in range(4):
        counts[k] = k
    out[i] = counts[x[i] % 5]  # HERE


@kaio.kernel
def within_a_local_array(x: In[i32], out: Out[i32]):
    counts = kaio.local_mem(4, i32)
    i = kaio.grid(1)
    for k in range(4):
        counts[k] = k
    out[i] = counts[x[i] % 4]


def modulo_four(size: Size) -> Launch:
    x = size.integers(size.count)
    return Launch((x, np.zeros_like(x)), size.blocks, size.threads, {"out": x % 4})


WEIGHTS = np.array([1, 2, 4, 8], np.int32)


@kaio.kernel
def past_a_constant_array(x: In[i32], out: Out[i32]):
    i = kaio.grid(1)
    out[i] = WEIGHTS[x[i] % 5]  # HERE


@kaio.kernel
def within_a_constant_array(x: In[i32], out: Out[i32]):
    i = kaio.grid(1)
    out[i] = WEIGHTS[x[i] % 4]


def weights(size: Size) -> Launch:
    x = size.integers(size.count)
    return Launch((x, np.zeros_like(x)), size.blocks, size.threads, {"out": WEIGHTS[x % 4]})


# ---------------------------------------------------------------------- wide, spanning and atomic accesses
@kaio.kernel
def index_of_64_bits(x: In[i32], out: Out[i32], far: i64):
    """2**32 + 3: in 32 bits it would be 3."""
    i = kaio.grid(1)
    out[i] = x[far]  # HERE


def far_away(size: Size) -> Launch:
    x = size.integers(size.count + 4)
    return Launch((x, np.zeros(size.count, np.int32), 2**32 + 3), size.blocks, size.threads)


def near_by(size: Size) -> Launch:
    x = size.integers(size.count + 4)
    return replace(far_away(size), arguments=(x, np.zeros(size.count, np.int32), 3), expected={
        "out": np.full(size.count, x[3]),
    })  # fmt: skip


@kaio.kernel
def span_past_the_end(x: In[f32], out: Out[f32]):
    i = kaio.grid(1)
    if 4 * i < x.size:
        v = kaio.load(x, 4 * i, f32x4)  # HERE
        out[i] = v.x + v.y + v.z + v.w


@kaio.kernel
def span_within(x: In[f32], out: Out[f32]):
    i = kaio.grid(1)
    if 4 * i + 3 < x.size:
        v = kaio.load(x, 4 * i, f32x4)
        out[i] = v.x + v.y + v.z + v.w


def sums_of_spans(size: Size) -> Launch:
    x = size.integers(4 * size.count - 2, dtype=np.float32)
    out = np.append(x[:-2].reshape(-1, 4).sum(1), np.float32(0))
    return Launch((x, np.zeros_like(out)), size.blocks, size.threads, {"out": out})


@kaio.kernel
def bin_too_many(x: In[i32], h: InOut[i32]):
    kaio.atomic_add(h, x[kaio.grid(1)] // 25, 1)  # HERE


@kaio.kernel
def bins_enough(x: In[i32], h: InOut[i32]):
    kaio.atomic_add(h, min(x[kaio.grid(1)] // 25, h.size - 1), 1)


def counted(size: Size) -> Launch:
    x = size.integers(size.count, 0, 101)
    x[:1] = 100
    h = np.bincount(np.minimum(x // 25, 3), minlength=4)
    return Launch((x, np.zeros(4, np.int32)), size.blocks, size.threads, {"h": h})


@kaio.kernel
def copy_past_the_tile(x: In[i32], out: Out[i32]):
    s = kaio.shared_mem(MOST, i32)
    t, i = kaio.thread_idx.x, kaio.grid(1)
    kaio.cp_async(s, MOST - kaio.block_dim.x + t + 1, x, i, 1)  # HERE
    kaio.cp_async_commit()
    kaio.cp_async_wait(0)
    out[i] = s[MOST - kaio.block_dim.x + t + 1]


@kaio.kernel
def copy_within_the_tile(x: In[i32], out: Out[i32]):
    s = kaio.shared_mem(MOST, i32)
    t, i = kaio.thread_idx.x, kaio.grid(1)
    kaio.cp_async(s, MOST - kaio.block_dim.x + t, x, i, 1)
    kaio.cp_async_commit()
    kaio.cp_async_wait(0)
    out[i] = s[MOST - kaio.block_dim.x + t]


def copied(size: Size) -> Launch:
    x = size.integers(size.count)
    return Launch((x, np.zeros_like(x)), size.blocks, size.threads, {"out": x})


@kaio.kernel
def matrix_past_the_edge(a: In[f16, D2], out: Out[f32, D2]):
    total = kaio.matrix_zeros(f32)
    for k in range(0, a.shape[1], 16):
        left = kaio.load_matrix_a(a, 16 * kaio.block_idx.x, k)  # HERE
        total = kaio.mma(left, kaio.load_matrix_b(a, 0, 0), total)
    kaio.store_matrix(out, 16 * kaio.block_idx.x, 0, total)


@kaio.kernel
def matrix_within(a: In[f16, D2], out: Out[f32, D2]):
    total = kaio.matrix_zeros(f32)
    for k in range(0, a.shape[1] - 15, 16):
        left = kaio.load_matrix_a(a, 16 * kaio.block_idx.x, k)
        total = kaio.mma(left, kaio.load_matrix_b(a, 0, 0), total)
    kaio.store_matrix(out, 16 * kaio.block_idx.x, 0, total)


def squared(size: Size) -> Launch:
    a = size.integers((16 * size.blocks, 20), -2, 3, np.float16)
    wide = a.astype(np.float32)
    out = wide[:, :16] @ wide[:16, :8]
    return Launch((a, np.zeros_like(out)), size.blocks, 32, {"out": out})


# ---------------------------------------------------------------------- other checks
@kaio.kernel
def root_of_a_negative(x: In[f32], out: Out[f32]):
    i = kaio.grid(1)
    assert x[i] >= 0, "a root of a negative number"  # HERE
    out[i] = math.sqrt(x[i])


def some_negative(size: Size) -> Launch:
    x = size.integers(size.count, -4, 5, np.float32)
    return Launch((x, np.zeros_like(x)), size.blocks, size.threads)


def squares(size: Size) -> Launch:
    x = size.integers(size.count, 1, 5, np.float32) ** 2
    return Launch((x, np.zeros_like(x)), size.blocks, size.threads)


@kaio.kernel
def divided_by_nothing(x: In[i32], y: In[i32], out: Out[i32]):
    i = kaio.grid(1)
    out[i] = x[i] // y[i]  # HERE


def some_zero(size: Size) -> Launch:
    x, y = size.integers((2, size.count), 0, 3)
    return Launch((x, y, np.zeros_like(x)), size.blocks, size.threads)


def none_zero(size: Size) -> Launch:
    x, y = size.integers((2, size.count), 1, 9)
    return Launch((x, y, np.zeros_like(x)), size.blocks, size.threads, {"out": x // y})


def _case(*args, **options) -> Case:
    return Case(*args, levels=BOUNDS, **options)


CASES = [
    _case(neighbour_before_the_first, neighbour_before, differences, out_of_range("x", -1)),
    _case(neighbour_behind_the_last, neighbour_behind, sums_of_two, out_of_range("x", 192)),
    _case(halo_past_the_tile, halo_within_the_tile, sums_of_two_in_tiles, out_of_range("s", 64), threads=(64,)),
    _case(no_guard, guard, numbered, out_of_range("x", *range(160, 192))),
    _case(guard_of_rows_only, guard_of_rows_and_columns, rows_of_seven, out_of_range("a", 7, axis=1), threads=(T * T,)),
    _case(past_a_dynamic_array, two_dynamic_arrays, doubled, out_of_range("left", 64)),
    _case(past_a_local_array, within_a_local_array, modulo_four, out_of_range("counts", 4)),
    _case(past_a_constant_array, within_a_constant_array, weights, out_of_range("WEIGHTS", 4)),
    _case(
        index_of_64_bits, index_of_64_bits, far_away, out_of_range("x", 2**32 + 3), of_mended=near_by,
        name="index_of_64_bits",
    ),
    _case(span_past_the_end, span_within, sums_of_spans, Report("index", "is out of range", "x")),
    _case(bin_too_many, bins_enough, counted, out_of_range("h", 4)),
    _case(copy_past_the_tile, copy_within_the_tile, copied, out_of_range("s", MOST)),
    _case(
        matrix_past_the_edge, matrix_within, squared, Report("index", "is out of range for axis 1", "a"),
        threads=(32,), size=Size(3, 32),
    ),
    _case(
        root_of_a_negative, root_of_a_negative, some_negative,
        Report("assert", "assertion failed in kernel `root_of_a_negative`: a root of a negative number"),
        of_mended=squares, name="root_of_a_negative",
    ),
    _case(
        divided_by_nothing, divided_by_nothing, some_zero, Report("check", "zero"), of_mended=none_zero,
        name="divided_by_nothing",
    ),
]  # fmt: skip
