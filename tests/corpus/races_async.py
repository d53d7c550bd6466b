"""Copies that go on while the thread computes: groups, waiting for them, and the barrier behind."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import kaio
from kaio import In, InOut, Out, i32
from tests.corpus.case import MOST, Case, Launch, Report, Size, race
from tests.corpus.races_shared import reversed_blocks


def own_race(array: str, here: str, other: str) -> Report:
    """A race of a thread with its own copy."""
    return replace(race(array, here, other), own=True)


# ---------------------------------------------------------------------- waiting for one's own copies
@kaio.kernel
def copy_without_wait(x: In[i32], out: Out[i32]):
    s = kaio.shared_mem(MOST, i32)
    t, i = kaio.thread_idx.x, kaio.grid(1)
    s[t] = 0
    kaio.cp_async(s, t, x, i, 1)  # HERE
    kaio.cp_async_commit()
    out[i] = s[t]  # OTHER


@kaio.kernel
def copy(x: In[i32], out: Out[i32]):
    s = kaio.shared_mem(MOST, i32)
    t, i = kaio.thread_idx.x, kaio.grid(1)
    s[t] = 0
    kaio.cp_async(s, t, x, i, 1)
    kaio.cp_async_commit()
    kaio.cp_async_wait(0)
    out[i] = s[t]


@kaio.kernel
def copy_without_commit(x: In[i32], out: Out[i32]):
    s = kaio.shared_mem(MOST, i32)
    t, i = kaio.thread_idx.x, kaio.grid(1)
    s[t] = 0
    kaio.cp_async(s, t, x, i, 1)  # HERE
    kaio.cp_async_wait(0)
    out[i] = s[t]  # OTHER


def copied(size: Size) -> Launch:
    x = size.integers(size.count)
    return Launch((x, np.zeros_like(x)), size.blocks, size.threads, {"out": x})


@kaio.kernel
def wait_for_the_first_group(x: In[i32], y: In[i32], out: Out[i32]):
    a, b = kaio.shared_mem(MOST, i32), kaio.shared_mem(MOST, i32)
    t, i = kaio.thread_idx.x, kaio.grid(1)
    a[t] = 0
    b[t] = 0
    kaio.cp_async(a, t, x, i, 1)
    kaio.cp_async_commit()
    kaio.cp_async(b, t, y, i, 1)  # HERE
    kaio.cp_async_commit()
    kaio.cp_async_wait(1)
    out[i] = a[t] + b[t]  # OTHER


@kaio.kernel
def wait_for_both_groups(x: In[i32], y: In[i32], out: Out[i32]):
    a, b = kaio.shared_mem(MOST, i32), kaio.shared_mem(MOST, i32)
    t, i = kaio.thread_idx.x, kaio.grid(1)
    a[t] = 0
    b[t] = 0
    kaio.cp_async(a, t, x, i, 1)
    kaio.cp_async_commit()
    kaio.cp_async(b, t, y, i, 1)
    kaio.cp_async_commit()
    kaio.cp_async_wait(1)
    first = a[t]
    kaio.cp_async_wait(0)
    out[i] = first + b[t]


def added(size: Size) -> Launch:
    x, y = size.integers((2, size.count))
    return Launch((x, y, np.zeros_like(x)), size.blocks, size.threads, {"out": x + y})


# ---------------------------------------------------------------------- the copies of others
@kaio.kernel
def no_barrier_behind_the_wait(x: In[i32], out: Out[i32]):
    s = kaio.shared_mem(MOST, i32)
    t, i = kaio.thread_idx.x, kaio.grid(1)
    s[t] = 0
    kaio.bar_sync()
    kaio.cp_async(s, t, x, i, 1)  # HERE
    kaio.cp_async_commit()
    kaio.cp_async_wait(0)
    out[i] = s[kaio.block_dim.x - 1 - t]  # OTHER


@kaio.kernel
def barrier_before_the_wait(x: In[i32], out: Out[i32]):
    s = kaio.shared_mem(MOST, i32)
    t, i = kaio.thread_idx.x, kaio.grid(1)
    s[t] = 0
    kaio.bar_sync()
    kaio.cp_async(s, t, x, i, 1)  # HERE
    kaio.cp_async_commit()
    kaio.bar_sync()
    kaio.cp_async_wait(0)
    out[i] = s[kaio.block_dim.x - 1 - t]  # OTHER


@kaio.kernel
def barrier_behind_the_wait(x: In[i32], out: Out[i32]):
    s = kaio.shared_mem(MOST, i32)
    t, i = kaio.thread_idx.x, kaio.grid(1)
    s[t] = 0
    kaio.bar_sync()
    kaio.cp_async(s, t, x, i, 1)
    kaio.cp_async_commit()
    kaio.cp_async_wait(0)
    kaio.bar_sync()
    out[i] = s[kaio.block_dim.x - 1 - t]


# ---------------------------------------------------------------------- memory that is used again
@kaio.kernel
def stage_copied_into_too_soon(x: In[i32], out: Out[i32]):
    """Two stages: the copy for the turn after next goes into the stage that others may still read."""
    s = kaio.shared_mem((2, MOST), i32)
    t, n, total = kaio.thread_idx.x, kaio.block_dim.x, 0
    first = kaio.block_idx.x * 4 * n
    kaio.cp_async(s, (0, t), x, first + t, 1)
    kaio.cp_async_commit()
    for k in range(4):
        if k < 3:
            kaio.cp_async(s, ((k + 1) % 2, t), x, first + (k + 1) * n + t, 1)  # HERE
        kaio.cp_async_commit()
        kaio.cp_async_wait(1)
        kaio.bar_sync()
        total += s[k % 2, n - 1 - t]  # OTHER
    out[kaio.grid(1)] = total


@kaio.kernel
def pipeline_of_two_stages(x: In[i32], out: Out[i32]):
    s = kaio.shared_mem((2, MOST), i32)
    t, n, total = kaio.thread_idx.x, kaio.block_dim.x, 0
    first = kaio.block_idx.x * 4 * n
    kaio.cp_async(s, (0, t), x, first + t, 1)
    kaio.cp_async_commit()
    for k in range(4):
        if k < 3:
            kaio.cp_async(s, ((k + 1) % 2, t), x, first + (k + 1) * n + t, 1)
        kaio.cp_async_commit()
        kaio.cp_async_wait(1)
        kaio.bar_sync()
        total += s[k % 2, n - 1 - t]
        kaio.bar_sync()
    out[kaio.grid(1)] = total


def four_turns(size: Size) -> Launch:
    x = size.integers((size.blocks, 4, size.threads))
    out = x.sum(1, dtype=np.int32)[:, ::-1].ravel()
    return Launch((x.ravel(), np.zeros(size.count, np.int32)), size.blocks, size.threads, {"out": out})


@kaio.kernel
def source_cleared_too_soon(x: InOut[i32], out: Out[i32]):
    s = kaio.shared_mem(MOST, i32)
    t, i = kaio.thread_idx.x, kaio.grid(1)
    kaio.cp_async(s, t, x, i, 1)  # HERE
    kaio.cp_async_commit()
    x[i] = 0  # OTHER
    kaio.cp_async_wait(0)
    out[i] = s[t]


@kaio.kernel
def source_cleared(x: InOut[i32], out: Out[i32]):
    s = kaio.shared_mem(MOST, i32)
    t, i = kaio.thread_idx.x, kaio.grid(1)
    kaio.cp_async(s, t, x, i, 1)
    kaio.cp_async_commit()
    kaio.cp_async_wait(0)
    x[i] = 0
    out[i] = s[t]


def moved(size: Size) -> Launch:
    x = size.integers(size.count)
    return Launch((x, np.zeros_like(x)), size.blocks, size.threads, {"x": np.zeros_like(x), "out": x})


CASES = [
    Case(copy_without_wait, copy, copied, own_race("s", "write", "read")),
    Case(copy_without_commit, copy, copied, own_race("s", "write", "read")),
    Case(wait_for_the_first_group, wait_for_both_groups, added, own_race("b", "write", "read")),
    Case(no_barrier_behind_the_wait, barrier_behind_the_wait, reversed_blocks, race("s", "write", "read")),
    Case(barrier_before_the_wait, barrier_behind_the_wait, reversed_blocks, race("s", "write", "read")),
    Case(stage_copied_into_too_soon, pipeline_of_two_stages, four_turns, race("s", "write", "read", blocks="same")),
    Case(source_cleared_too_soon, source_cleared, moved, own_race("x", "read", "write")),
]
