"""Blocks that wait for each other: all of the grid, and those of a cluster."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import kaio
from kaio import D2, In, InOut, KernelFault, Out, UnsupportedFeatureError, i32
from tests.dsl.from_text import kernel
from tests.dsl.warps import CPU
from tests.refusals import first_mistake


@kaio.kernel
def rotate(x: InOut[i32], rounds: i32):
    i = kaio.grid(1)
    for _ in range(rounds):
        value = x[(i + 1) % x.size]
        kaio.grid_sync()
        x[i] = value
        kaio.grid_sync()


@pytest.mark.parametrize(("blocks", "threads"), [(1, 1), (3, 20), (8, 64), (132, 96)])
def test_a_grid_waits_for_all_of_its_blocks(device: kaio.Device, blocks: int, threads: int) -> None:
    x = device.alloc_from(np.arange(blocks * threads, dtype=np.int32))
    rotate.grid(blocks).block(threads).launch(x, 5).wait()
    np.testing.assert_array_equal(x.to_host(), np.roll(np.arange(blocks * threads), -5))


def test_a_cooperative_launch_can_be_repeated_and_overlap_with_others(device: kaio.Device) -> None:
    streams = [device.stream() for _ in range(3)]
    arrays = [device.alloc_from(np.arange(16 * 64, dtype=np.int32)) for _ in streams]
    bound = [rotate.grid(16).block(64).on(s).bind(x, 3) for s, x in zip(streams, arrays, strict=True)]
    for _ in range(20):
        for launch in bound:
            launch.launch()
    for x in arrays:
        np.testing.assert_array_equal(x.to_host(), np.roll(np.arange(16 * 64), -60))


@kaio.kernel
def total(x: In[i32], parts: InOut[i32], out: Out[i32]):
    """A sum in one launch: shared memory, warps and barriers of a block between those of the grid."""
    s = kaio.shared_mem(64, i32)
    t = kaio.thread_idx.x
    own = 0
    for k in range(kaio.grid(1), x.size, kaio.grid_dim.x * kaio.block_dim.x):
        own += x[k]
    for step in range(5):
        own += kaio.shfl_sync_bfly(own, 1 << step)
    s[t] = own
    kaio.bar_sync()
    if t == 0:
        parts[kaio.block_idx.x] = s[0] + s[32]
    kaio.grid_sync()
    if t == 0:
        everything = 0
        for k in range(kaio.grid_dim.x):
            everything += parts[k]
        out[kaio.block_idx.x] = everything


def test_blocks_keep_their_shared_memory_and_warps_over_a_wait_for_the_grid(device: kaio.Device) -> None:
    x = np.arange(5000, dtype=np.int32)
    parts, out = device.alloc_zeros(7, i32), device.alloc_zeros(7, i32)
    total.grid(7).block(64).launch(device.alloc_from(x), parts, out).wait()
    np.testing.assert_array_equal(out.to_host(), [x.sum()] * 7)


@kaio.kernel
def places(out: Out[i32, D2]):
    col, row = kaio.grid(2)
    kaio.grid_sync()
    out[row, col] = (kaio.block_idx.y * kaio.grid_dim.x + kaio.block_idx.x) * 100 + kaio.thread_idx.y * 8


def test_blocks_of_a_grid_of_several_axes_know_where_they_are(device: kaio.Device) -> None:
    out = device.alloc_zeros((6, 20), i32)
    places.grid(5, 3).block(4, 2).launch(out).wait()
    row, col = np.indices((6, 20))
    np.testing.assert_array_equal(out.to_host(), (row // 2 * 5 + col // 4) * 100 + row % 2 * 8)


def fault(made: kaio.Kernel, grid: Any, block: Any, *args: Any, **options: Any) -> str:
    launch = made.grid(*grid).block(*block)
    with pytest.raises(KernelFault) as caught:
        (launch.options(**options) if options else launch).launch(*args).wait()
    return str(caught.value)


@kaio.kernel
def returns_early(x: InOut[i32], n: i32):
    i = kaio.grid(1)
    if i >= n:
        return
    kaio.grid_sync()
    x[i] = 1


def test_a_thread_that_returned_before_the_grid_met_is_reported() -> None:
    x = CPU.alloc_zeros(64, i32)
    message = fault(returns_early, (2,), (32,), x, 50)
    assert message.startswith(
        "not all threads of a grid reach `grid_sync()` in kernel `returns_early`\n"
        "  thread (0, 0, 0) of block (1, 0, 0) waits here; thread (18, 0, 0) has returned\n"
    )
    assert message.endswith(
        "help: no thread may return before `grid_sync()`: put a guard round the work, not a `return`"
    )


def test_a_block_that_returned_before_the_grid_met_is_reported() -> None:
    message = fault(returns_early, (3,), (32,), CPU.alloc_zeros(96, i32), 64)
    assert message.startswith("`grid_sync()` can never be completed in kernel `returns_early`\n  block (0, 0, 0) waits")
    assert "waits here; block (2, 0, 0) has returned\n" in message


@kaio.kernel
def two_places(x: InOut[i32]):
    if kaio.block_idx.x == 0:
        kaio.grid_sync()
    else:
        kaio.grid_sync()
    x[0] = 1


def test_blocks_that_wait_for_the_grid_at_different_places_are_reported_with_both() -> None:
    message = fault(two_places, (2,), (32,), CPU.alloc_zeros(1, i32))
    assert message.startswith(
        "blocks of the grid wait at different places in kernel `two_places`\n  block (0, 0, 0) waits"
    )
    assert "block (1, 0, 0) waits here" in message
    assert len(re.findall(r"test_blocks.py:\d+", message)) == 2


@kaio.kernel
def wrong_index(x: InOut[i32]):
    kaio.grid_sync()
    x[kaio.grid(1) + 2] = 1


def test_the_lowest_block_that_faults_is_reported() -> None:
    message = fault(wrong_index, (4,), (8,), CPU.alloc_zeros(20, i32))
    assert "index 20 is out of range for axis 0 of `x` (size 20)" in message
    assert "thread (2, 0, 0) of block (2, 0, 0)" in message


# ---------------------------------------------------------------------- clusters
@kaio.kernel
def neighbours(x: In[i32], out: Out[i32]):
    s = kaio.shared_mem(32, i32)
    t, i = kaio.thread_idx.x, kaio.grid(1)
    s[t] = x[i]
    kaio.cluster_sync()
    there = kaio.cluster_shared(s, (kaio.cluster_rank() + 1) % kaio.cluster_size())
    out[i] = there[31 - t] + 10_000 * kaio.cluster_rank()
    kaio.cluster_sync()


HAS_CLUSTERS = [pytest.param("cpu"), pytest.param("cuda:0", marks=pytest.mark.gpu)]


@pytest.mark.parametrize("where", HAS_CLUSTERS)
@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_blocks_of_a_cluster_read_each_other_s_shared_memory(where: str, size: int) -> None:
    device = kaio.Device(where)
    x = np.arange(32 * 24, dtype=np.int32)
    out = device.alloc_zeros(x.size, i32)
    neighbours.over(x.size).block(32).options(cluster=size).launch(device.alloc_from(x), out).wait()
    tiles = x.reshape(-1, size, 32)
    expected = np.roll(tiles, -1, axis=1)[:, :, ::-1] + 10_000 * np.arange(size)[:, None]
    np.testing.assert_array_equal(out.to_host(), expected.reshape(-1))


@kaio.kernel
def scatter(out: Out[i32, D2]):
    """Every block writes into the first one's memory."""
    s = kaio.shared_mem((8, 16), i32)
    t, rank = kaio.thread_idx.x, kaio.cluster_rank()
    kaio.cluster_sync()
    first = kaio.cluster_shared(s, 0)
    first[rank, t] = 100 * kaio.block_idx.y + 10 * kaio.block_idx.x + t
    kaio.cluster_sync()
    if rank == 0:
        for k in range(kaio.cluster_size()):
            out[kaio.block_idx.y // 2 * 2 + kaio.block_idx.x // 2, k * 16 + t] = s[k, t]


@pytest.mark.parametrize("where", HAS_CLUSTERS)
def test_clusters_of_two_axes_tile_the_grid_x_first(where: str) -> None:
    device = kaio.Device(where)
    out = device.alloc_zeros((4, 64), i32)
    scatter.grid(4, 4).block(16).options(cluster=(2, 2)).launch(out).wait()
    expected = [
        [100 * (2 * (c // 2) + k // 2) + 10 * (2 * (c % 2) + k % 2) + t for k in range(4) for t in range(16)]
        for c in range(4)
    ]
    np.testing.assert_array_equal(out.to_host(), expected)


@kaio.kernel
def both(x: InOut[i32]):
    s = kaio.shared_mem(32, i32)
    t, i = kaio.thread_idx.x, kaio.grid(1)
    s[t] = x[i]
    kaio.cluster_sync()
    value = kaio.cluster_shared(s, 1 - kaio.cluster_rank())[t]
    kaio.grid_sync()
    x[(i + 32) % x.size] = value
    kaio.cluster_sync()


@pytest.mark.parametrize("where", HAS_CLUSTERS)
def test_clusters_and_the_grid_wait_in_one_kernel(where: str) -> None:
    device = kaio.Device(where)
    x = device.alloc_from(np.arange(32 * 6, dtype=np.int32))
    both.grid(6).block(32).options(cluster=2).launch(x).wait()
    swapped = np.arange(32 * 6).reshape(-1, 2, 32)[:, ::-1].reshape(-1)
    np.testing.assert_array_equal(x.to_host(), np.roll(swapped, 32))


@kaio.kernel
def leaves_cluster(x: InOut[i32]):
    if kaio.cluster_rank() == 1:
        return
    kaio.cluster_sync()
    x[0] = 1


def test_a_block_that_its_cluster_waits_for_and_that_returned_is_reported() -> None:
    message = fault(leaves_cluster, (4,), (32,), CPU.alloc_zeros(1, i32), cluster=2)
    assert "`cluster_sync()` can never be completed" in message
    assert "block (0, 0, 0) waits here; block (1, 0, 0) has returned" in message


@kaio.kernel
def beyond(x: InOut[i32]):
    s = kaio.shared_mem(4, i32)
    s[0] = 0
    kaio.cluster_sync()
    x[0] = kaio.cluster_shared(s, x[0])[0]


def test_a_rank_that_the_cluster_does_not_have_is_a_fault() -> None:
    x = CPU.alloc_from(np.array([2], np.int32))
    message = fault(beyond, (2,), (1,), x, cluster=2)
    assert "the rank of `cluster_shared` is not that of a block of the cluster in kernel `beyond`" in message


def test_clusters_are_refused_for_older_targets() -> None:
    with pytest.raises(UnsupportedFeatureError, match="`cluster_sync` needs sm_90 or later"):
        neighbours.ptx("sm_80")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("cluster_shared(x, 0)", "`cluster_shared` takes an array in shared memory, not InOut[f32]"),
        (
            "cluster_shared(shared_mem(4, f32), 0.5)",
            "the rank of `cluster_shared` is an integer, not float literal 0.5",
        ),
    ],
)
def test_a_call_that_means_nothing_is_refused(call: str, message: str) -> None:
    made = kernel(f"@kernel\ndef k(x: InOut[f32]):\n    x[0] = {call}[0]")
    assert message in first_mistake(made, "sm_90")


@kaio.kernel
def counts(x: In[i32], out: Out[i32]):
    """The blocks of a cluster count into the bins of the first one."""
    bins, halves = kaio.shared_mem(4, i32), kaio.shared_mem(4, kaio.f16)
    t, i = kaio.thread_idx.x, kaio.grid(1)
    if t < 4:
        bins[t], halves[t] = 0, 0
    kaio.cluster_sync()
    first, narrow = kaio.cluster_shared(bins, 0), kaio.cluster_shared(halves, 0)
    kaio.atomic_add(first, x[i], 1)
    kaio.atomic_add(narrow, x[i], kaio.f16(2))
    kaio.cluster_sync()
    if kaio.cluster_rank() == 0 and t < 4:
        out[kaio.block_idx.x // kaio.cluster_size() * 8 + t] = bins[t]
        out[kaio.block_idx.x // kaio.cluster_size() * 8 + 4 + t] = i32(halves[t])


@pytest.mark.parametrize("where", HAS_CLUSTERS)
def test_blocks_of_a_cluster_update_shared_memory_of_one_in_one_step(where: str) -> None:
    device = kaio.Device(where)
    x = np.random.default_rng(6).integers(0, 4, 32 * 8).astype(np.int32)
    out = device.alloc_zeros(16, i32)
    counts.grid(8).block(32).options(cluster=4).launch(device.alloc_from(x), out).wait()
    found = [np.bincount(part, minlength=4) for part in x.reshape(2, 128)]
    np.testing.assert_array_equal(out.to_host(), np.concatenate([[*f, *(2 * f)] for f in found]))


def test_an_update_of_another_block_s_memory_names_no_space_and_assembles() -> None:
    ptx = counts.ptx("sm_90")
    assert re.search(r"red\.add\.[su]32 \[%rd", ptx)
    assert "red.shared" not in ptx
    assert counts.compile("sm_90").cubin
