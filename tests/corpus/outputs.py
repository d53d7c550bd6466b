"""Elements of an `Out` buffer that nobody writes, or that are written twice."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import numpy as np

import kaio
from kaio import D2, In, Out, f32, f32x4, i32
from tests.corpus.case import BOUNDS, Case, Launch, Report, Size

T = 8


def covered(make):
    """The same launch, with the coverage of its outputs looked at."""

    def made(size: Size) -> Launch:
        launch = make(size)
        return replace(launch, options={**launch.options, "coverage": True})

    return made


def never(array: str, index: Collection[Any]) -> Report:
    return Report("coverage", "is never written", array, index)


def twice(array: str, index: Collection[Any]) -> Report:
    return Report("coverage", "is written more than once", array, index)


# ---------------------------------------------------------------------- never
@kaio.kernel
def last_elements_forgotten(x: In[i32], out: Out[i32]):
    """Each thread makes four, and a rest is left."""
    i = kaio.grid(1)
    if 4 * i + 3 < x.size:
        for k in range(4):
            out[4 * i + k] = x[4 * i + k] + 1  # HERE


@kaio.kernel
def last_elements_made(x: In[i32], out: Out[i32]):
    i = kaio.grid(1)
    for k in range(4):
        if 4 * i + k < x.size:
            out[4 * i + k] = x[4 * i + k] + 1


def with_a_rest(size: Size) -> Launch:
    x = size.integers(4 * size.count - 2)
    return Launch((x, np.zeros_like(x)), size.blocks, size.threads, {"out": x + 1})


@kaio.kernel
def added_where_multiplied(x: In[i32], out: Out[i32]):
    """B30: `+` between block and thread, where the number of the block is multiplied."""
    i = kaio.block_idx.x + kaio.thread_idx.x
    if i < out.size:
        out[i] = x[i]  # HERE


@kaio.kernel
def multiplied(x: In[i32], out: Out[i32]):
    i = kaio.block_idx.x * kaio.block_dim.x + kaio.thread_idx.x
    if i < out.size:
        out[i] = x[i]


def copied(size: Size) -> Launch:
    x = size.integers(size.count)
    return Launch((x, np.zeros_like(x)), size.blocks, size.threads, {"out": x})


@kaio.kernel
def axes_of_the_grid_swapped(a: In[i32, D2], out: Out[i32, D2]):
    col, row = kaio.grid(2)
    if row < out.shape[0] and col < out.shape[1]:
        out[row, col] = a[row, col]  # HERE


def tiles(swap: bool):
    def make(size: Size) -> Launch:
        a = size.integers((T * size.blocks, T))
        grid = (size.blocks, 1) if swap else (1, size.blocks)
        return Launch((a, np.zeros_like(a)), grid, (T, T), {"out": a})

    return make


@kaio.kernel
def lanes_forgotten(x: In[f32], out: Out[f32x4]):
    i = kaio.grid(1)
    out[i].x = x[i]  # HERE
    out[i].y = x[i]  # HERE
    out[i].z = x[i]  # HERE


@kaio.kernel
def lanes_set(x: In[f32], out: Out[f32x4]):
    i = kaio.grid(1)
    out[i].x = x[i]
    out[i].y = x[i]
    out[i].z = x[i]
    out[i].w = x[i]


def four_lanes(size: Size) -> Launch:
    x = size.integers(size.count, dtype=np.float32)
    out = np.zeros(size.count, f32x4.numpy)
    expected = np.zeros_like(out)
    for name in out.dtype.names:
        expected[name] = x
    return Launch((x, out), size.blocks, size.threads, {"out": expected})


# ---------------------------------------------------------------------- twice
@kaio.kernel
def zeroed_and_set(x: In[i32], out: Out[i32]):
    i = kaio.grid(1)
    out[i] = 0  # OTHER
    if x[i] > 50:
        out[i] = x[i]  # HERE


@kaio.kernel
def zeroed_or_set(x: In[i32], out: Out[i32]):
    i = kaio.grid(1)
    out[i] = x[i] if x[i] > 50 else 0


def large_ones(size: Size) -> Launch:
    x = size.integers(size.count)
    x[0] = 99
    return Launch((x, np.zeros_like(x)), size.blocks, size.threads, {"out": np.where(x > 50, x, 0)})


CASES = [
    Case(
        last_elements_forgotten, last_elements_made, covered(with_a_rest), never("out", {764, 765}), levels=BOUNDS,
    ),
    Case(added_where_multiplied, multiplied, covered(copied), never("out", {66}), levels=["bounds"]),
    Case(
        axes_of_the_grid_swapped, axes_of_the_grid_swapped, covered(tiles(True)),
        never("out", [(row, col) for row in range(T, 3 * T) for col in range(T)]), of_mended=covered(tiles(False)),
        threads=(T * T,), levels=BOUNDS, name="axes_of_the_grid_swapped",
    ),
    Case(lanes_forgotten, lanes_set, covered(four_lanes), never("out", range(192)), levels=BOUNDS),
    Case(zeroed_and_set, zeroed_or_set, covered(large_ones), twice("out", range(192)), levels=BOUNDS),
]  # fmt: skip
