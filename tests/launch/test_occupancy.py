"""`block("occupancy")` on the CPU device, which takes what fills the GPU that it is like."""

from __future__ import annotations

from typing import Any

import pytest

import kaio
from kaio import InOut, f32, i32
from kaio.runtime.occupancy import fullest


@kaio.kernel
def sizes(x: InOut[i32]):
    i = kaio.grid(1)
    if i < x.size:
        x[i] = kaio.block_dim.x


@kaio.kernel(launch_bounds=128)
def bounded(x: InOut[i32]):
    i = kaio.grid(1)
    if i < x.size:
        x[i] = kaio.block_dim.x


@kaio.kernel
def sharing(x: InOut[i32]):
    tile = kaio.dynamic_shared("tile", f32)
    i = kaio.grid(1)
    if i < x.size:
        tile[kaio.thread_idx.x % 32] = 1.0
        x[i] = kaio.block_dim.x


def block_of(launcher: Any, like: str = "sm_90") -> int:
    """The threads of a block that a launch over 5000 elements has."""
    x = kaio.Device("cpu", like=like).alloc_zeros(5000, i32)
    launcher.block("occupancy").launch(x)
    (found,) = set(x.to_host().tolist())
    return int(found)


@pytest.mark.parametrize(("like", "threads"), [("sm_90", 1024), ("sm_86", 768)])
def test_it_fills_the_threads_of_a_multiprocessor(like: str, threads: int) -> None:
    assert block_of(sizes.over(5000), like) == threads


def test_it_keeps_to_launch_bounds() -> None:
    assert block_of(bounded.over(5000)) == 128


def test_it_counts_the_shared_memory_that_the_launch_asks_for() -> None:
    assert block_of(sharing.over(5000).shared(tile=25_000), "sm_86") == 1024  # one block at a time: as large as can be
    assert block_of(sharing.over(5000).shared(tile=32), "sm_86") == 768


def test_a_trace_has_the_block_of_the_launch() -> None:
    x = kaio.Device("cpu").alloc_zeros(5000, i32)
    assert sizes.over(5000).block("occupancy").trace(x).block_dim == (1024, 1, 1)


def test_among_sizes_that_fill_it_alike_the_largest_is_taken() -> None:
    assert fullest(lambda threads: 2048 // threads, 32, 1024) == 1024
    assert fullest(lambda threads: min(4, 2048 // threads), 32, 1024) == 1024
    assert fullest(lambda threads: 0, 32, 1024) == 1024
    assert fullest(lambda threads: 1, 32, 20) == 20
