"""Named barriers, the grid and clusters: what they order, and what they leave unordered."""

from __future__ import annotations

import pytest

import kaio
from kaio import InOut, Out, i32
from tests.runtime.races import race, silent, zeros


def named(full: bool, empty: bool) -> kaio.Kernel:
    """A warp writes a tile twice, another reads it twice; named barriers say that it is full, and empty again."""

    @kaio.kernel
    def named(out: Out[i32]):
        tile = kaio.shared_mem(32, i32)
        lane = kaio.lane_id()
        if kaio.thread_idx.x < 32:
            tile[lane] = lane
            if full:
                kaio.named_bar_arrive(1, 64)
            if empty:
                kaio.named_bar_sync(2, 64)
            tile[lane] = 10 + lane
            if full:
                kaio.named_bar_arrive(3, 64)
        else:
            total = 0
            if full:
                kaio.named_bar_sync(1, 64)
            total += tile[31 - lane]
            if empty:
                kaio.named_bar_arrive(2, 64)
            if full:
                kaio.named_bar_sync(3, 64)
            out[lane] = total + tile[31 - lane]

    return named.grid(1).block(64)


def test_named_barriers_order_producer_and_consumer():
    (out,) = zeros(32)
    silent(named(True, True), out)
    assert out.to_host().tolist() == [10 + 2 * (31 - t) for t in range(32)]


@pytest.mark.parametrize(("full", "empty"), [(False, True), (True, False)])
def test_one_of_the_two_named_barriers_is_not_enough(full, empty):
    told = race(named(full, empty), *zeros(32))
    assert told.array == "tile"
    assert {kind for kind, _ in told.accesses} == {"read", "write"}
    warps = {told.fault.facts[name][0] // 32 for name in ("thread", "other_thread")}
    assert warps == {0, 1}


@kaio.kernel
def writes_after_arriving(out: Out[i32]):
    tile = kaio.shared_mem(32, i32)
    lane = kaio.lane_id()
    if kaio.thread_idx.x < 32:
        tile[lane] = lane
        kaio.named_bar_arrive(1, 64)
        tile[lane] = 10 + lane
    else:
        kaio.named_bar_sync(1, 64)
        out[lane] = tile[31 - lane]


def test_what_is_written_after_arriving_is_not_ordered():
    told = race(writes_after_arriving.grid(1).block(64), *zeros(32))
    assert told.accesses == {("write", "tile[lane] = 10 + lane"), ("read", "out[lane] = tile[31 - lane]")}


@kaio.kernel
def left_out(out: Out[i32]):
    tile = kaio.shared_mem(96, i32)
    t = kaio.thread_idx.x
    tile[t] = t
    if t < 64:
        kaio.named_bar_sync(1, 64)
    out[t] = tile[(t + 32) % 64 if t < 64 else 0]


def test_a_warp_that_does_not_take_part_is_not_ordered():
    told = race(left_out.grid(1).block(96), *zeros(96))
    assert told.array == "tile"
    assert told.fault.facts["thread"][0] >= 64 or told.fault.facts["other_thread"][0] >= 64


def grid(waits: bool) -> kaio.Kernel:
    """Each block reads what the next one wrote, twice."""

    @kaio.kernel
    def grid(x: InOut[i32], out: InOut[i32]):
        i, n = kaio.grid(1), x.size
        for k in range(2):
            x[i] = i + k
            kaio.grid_sync()
            out[i] += x[(i + 32) % n]
            if waits:
                kaio.grid_sync()

    return grid.grid(4).block(32)


def test_grid_sync_orders_blocks():
    x, out = zeros(128, 128)
    silent(grid(True), x, out)
    assert out.to_host().tolist() == [2 * ((i + 32) % 128) + 1 for i in range(128)]
    told = race(grid(False), *zeros(128, 128))
    assert told.array == "x"
    assert told.accesses == {("write", "x[i] = i + k"), ("read", "out[i] += x[(i + 32) % n]")}


def cluster(begins: bool, ends: bool) -> kaio.Kernel:
    """Each block reads the shared memory of the other one of its cluster."""

    @kaio.kernel
    def cluster(out: Out[i32]):
        s = kaio.shared_mem(32, i32)
        t = kaio.thread_idx.x
        s[t] = kaio.grid(1)
        if begins:
            kaio.cluster_sync()
        else:
            kaio.bar_sync()
        there = kaio.cluster_shared(s, 1 - kaio.cluster_rank())
        out[kaio.grid(1)] = there[31 - t]
        if ends:
            kaio.cluster_sync()

    return cluster.grid(4).block(32).options(cluster=2)


def test_cluster_sync_orders_the_shared_memory_of_its_blocks():
    (out,) = zeros(128)
    silent(cluster(True, True), out)
    assert out.to_host().reshape(4, 32)[:, 31].tolist() == [32, 0, 96, 64]


def test_shared_memory_of_a_block_that_has_ended_is_freed():
    with pytest.raises(kaio.KernelFault) as caught:
        silent(cluster(True, False), *zeros(128))
    assert caught.value.facts["kind"] == "freed"
    assert caught.value.facts["array"] == "s"


def test_without_cluster_sync_the_blocks_of_a_cluster_race():
    told = race(cluster(False, True), *zeros(128))
    assert told.accesses == {("write", "s[t] = kaio.grid(1)"), ("read", "out[kaio.grid(1)] = there[31 - t]")}


@kaio.kernel
def global_in_cluster(x: InOut[i32], out: Out[i32]):
    i = kaio.grid(1)
    x[i] = i
    kaio.cluster_sync()
    out[i] = x[(i + 32) % x.size]


def test_cluster_sync_orders_no_other_cluster():
    x, out = zeros(64, 64)
    silent(global_in_cluster.grid(2).block(32).options(cluster=2), x, out)
    told = race(global_in_cluster.grid(4).block(32).options(cluster=2), *zeros(128, 128))
    assert told.array == "x"
    blocks = {told.fault.facts["block"][0] // 2, told.fault.facts["other_block"][0] // 2}
    assert blocks == {0, 1}
