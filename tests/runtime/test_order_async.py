"""Copies into shared memory that go on meanwhile: what reads or writes too early is a race with the copy."""

from __future__ import annotations

import numpy as np
import pytest

import kaio
from kaio import In, InOut, Out, i32
from tests.runtime.races import race, silent, zeros

COPY = ("write", "kaio.cp_async(tile, t, x, t, 1)")


def single(commits: bool, waits: bool, syncs: bool, own: bool) -> kaio.Kernel:
    """One tile, read by who copied it (`own`) or by another thread."""

    @kaio.kernel
    def single(x: In[i32], out: Out[i32]):
        tile = kaio.shared_mem(64, i32)
        t = kaio.thread_idx.x
        kaio.cp_async(tile, t, x, t, 1)
        if commits:
            kaio.cp_async_commit()
        if waits:
            kaio.cp_async_wait(0)
        if syncs:
            kaio.bar_sync()
        out[t] = tile[t if own else 63 - t]

    return single.grid(1).block(64)


def numbers(count: int) -> kaio.GpuBuffer[i32]:
    """0, 1, 2, … on the CPU device."""
    return kaio.Device("cpu").alloc_from(np.arange(count, dtype=np.int32))


@pytest.mark.parametrize(("syncs", "own"), [(True, False), (False, True)])
def test_a_copy_that_was_waited_for_is_read(syncs, own):
    (out,) = zeros(64)
    silent(single(True, True, syncs, own), numbers(64), out)
    assert sorted(out.to_host().tolist()) == list(range(64))


@pytest.mark.parametrize(
    ("commits", "waits", "syncs", "own"),
    [
        (True, False, True, False),
        (True, False, True, True),
        (True, False, False, True),
        (False, True, True, False),
        (False, False, False, True),
        (True, True, False, False),
    ],
)
def test_a_copy_that_was_not_waited_for_is_a_race(commits, waits, syncs, own):
    told = race(single(commits, waits, syncs, own), numbers(64), *zeros(64))
    assert told.array == "tile"
    assert told.accesses == {COPY, ("read", "out[t] = tile[t if own else 63 - t]")}


def stages(depth: int, last_barrier: bool = True) -> kaio.Kernel:
    """Four tiles through two places: the next is copied while one is read; `depth` groups may be under way."""

    @kaio.kernel
    def stages(x: In[i32], out: Out[i32]):
        tiles = kaio.shared_mem((2, 32), i32)
        t = kaio.thread_idx.x
        kaio.cp_async(tiles, (0, t), x, t, 1)
        kaio.cp_async_commit()
        total = 0
        for k in range(4):
            if k < 3:
                kaio.cp_async(tiles, ((k + 1) % 2, t), x, 32 * (k + 1) + t, 1)
            kaio.cp_async_commit()
            kaio.cp_async_wait(depth)
            kaio.bar_sync()
            total += tiles[k % 2, 31 - t]
            if last_barrier:
                kaio.bar_sync()
        out[t] = total

    return stages.grid(2).block(32)


def test_stages_wait_for_the_group_that_they_read():
    x, (out,) = numbers(128), zeros(32)
    silent(stages(1).grid(1), x, out)
    assert out.to_host().tolist() == [sum(32 * k + 31 - t for k in range(4)) for t in range(32)]
    told = race(stages(2).grid(1), x, out)
    assert told.array == "tiles"
    assert ("read", "total += tiles[k % 2, 31 - t]") in told.accesses


def test_a_copy_over_a_tile_that_is_still_read_is_a_race():
    told = race(stages(1, last_barrier=False).grid(1), numbers(128), *zeros(32))
    assert told.accesses == {
        ("read", "total += tiles[k % 2, 31 - t]"),
        ("write", "kaio.cp_async(tiles, ((k + 1) % 2, t), x, 32 * (k + 1) + t, 1)"),
    }


def overwrites(what: str, early: bool) -> kaio.Kernel:
    """The source or the target is written before the copy was waited for (`early`), or after."""

    @kaio.kernel
    def overwrites(x: InOut[i32], out: Out[i32]):
        tile = kaio.shared_mem(64, i32)
        t = kaio.thread_idx.x
        kaio.cp_async(tile, t, x, t, 1)
        kaio.cp_async_commit()
        if not early:
            kaio.cp_async_wait(0)
        if what == "source":
            x[t] = -1
        else:
            tile[t] = -1
        kaio.cp_async_wait(0)
        out[t] = tile[t]

    return overwrites.grid(1).block(64)


@pytest.mark.parametrize("what", ["source", "target"])
def test_writing_over_source_or_target_waits_for_the_copy(what):
    silent(overwrites(what, False), numbers(64), *zeros(64))
    told = race(overwrites(what, True), numbers(64), *zeros(64))
    assert told.array == ("x" if what == "source" else "tile")
    line = "x[t] = -1" if what == "source" else "tile[t] = -1"
    assert told.accesses == {("read" if what == "source" else "write", COPY[1]), ("write", line)}


@kaio.kernel
def source_of_each_thread(x: InOut[i32], out: Out[i32]):
    tile = kaio.shared_mem(64, i32)
    t, i = kaio.thread_idx.x, kaio.grid(1)
    kaio.cp_async(tile, t, x, i, 1)
    kaio.cp_async_commit()
    x[i] = -1
    kaio.cp_async_wait(0)
    out[i] = tile[t]


def test_a_thread_races_with_its_own_copy_of_elements_that_no_other_comes_to():
    told = race(source_of_each_thread.grid(2).block(64), numbers(128), *zeros(128))
    assert told.array == "x"
    assert told.fault.facts["thread"] == told.fault.facts["other_thread"]


@kaio.kernel
def wide(x: In[i32], out: Out[i32]):
    tile = kaio.shared_mem(64, i32)
    t = kaio.thread_idx.x
    if t < 16:
        kaio.cp_async(tile, 4 * t, x, 4 * t, 4)
        kaio.cp_async_commit()
        kaio.cp_async_wait(0)
    kaio.bar_sync()
    out[t] = tile[63 - t]


def test_a_copy_of_16_bytes_is_of_all_its_elements():
    (out,) = zeros(64)
    silent(wide.grid(1).block(64), numbers(64), out)
    assert out.to_host().tolist() == list(range(63, -1, -1))


def warp_specialised(waits: bool) -> kaio.Kernel:
    """A warp copies tiles into two places, another adds them up; named barriers say full and empty."""

    @kaio.kernel
    def warp_specialised(x: In[i32], out: Out[i32]):
        tiles = kaio.shared_mem((2, 32), i32)
        lane = kaio.lane_id()
        if kaio.thread_idx.x < 32:
            for k in range(6):
                if k >= 2:
                    kaio.named_bar_sync(3 + k % 2, 64)
                kaio.cp_async(tiles, (k % 2, lane), x, 32 * k + lane, 1)
                kaio.cp_async_commit()
                if waits:
                    kaio.cp_async_wait(0)
                kaio.named_bar_arrive(1 + k % 2, 64)
        else:
            total = 0
            for k in range(6):
                kaio.named_bar_sync(1 + k % 2, 64)
                total += tiles[k % 2, 31 - lane]
                if k < 4:
                    kaio.named_bar_arrive(3 + k % 2, 64)
            out[lane] = total

    return warp_specialised.grid(1).block(64)


def test_a_producer_waits_before_it_arrives():
    x, (out,) = numbers(192), zeros(32)
    silent(warp_specialised(True), x, out)
    assert out.to_host().tolist() == [sum(32 * k + 31 - t for k in range(6)) for t in range(32)]
    told = race(warp_specialised(False), x, out)
    assert told.array == "tiles"


def test_the_report_says_that_the_copy_is_not_done():
    text = str(race(single(True, False, True, False), numbers(64), *zeros(64)).fault)
    assert "by a copy that goes on by itself, and nothing says that it is done" in text
    assert text.endswith(
        "help: wait for the copy first: `kaio.cp_async_commit()`, `kaio.cp_async_wait(…)` for its group by the thread "
        "that copies, and a `kaio.bar_sync()` behind that for the others"
    )
