"""Seeded orders of threads, warps and blocks: the same again, another by another seed, and what depends on it shows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kaio
from kaio import In, InOut, KernelFault, Out, f32, i32
from kaio.runtime.stream import RunOptions
from tests.dsl.compiler.host import compiled


def ticket(counter: InOut[i32], out: Out[i32]):
    """When each thread came."""
    out[kaio.grid(1)] = kaio.atomic_add(counter, 0, 1)


def tickets(counter: InOut[i32], out: Out[i32], rounds: i32):
    """When each thread came, in each of some rounds between barriers."""
    for k in range(rounds):
        out[k * kaio.block_dim.x + kaio.thread_idx.x] = kaio.atomic_add(counter, 0, 1)
        kaio.bar_sync()


def lanes(counter: InOut[i32], out: Out[i32], rounds: i32):
    """The same between operations of warps."""
    t = kaio.thread_idx.x
    for k in range(rounds):
        t = kaio.shfl_sync_idx(t, 0)
        out[k * kaio.block_dim.x + kaio.thread_idx.x] = kaio.atomic_add(counter, 0, 1)


def _order(grid: int, block: int, seed: int) -> list[int]:
    counter, out = np.zeros(1, np.int32), np.full(grid * block, -1, np.int32)
    compiled(ticket, stepped=True)(grid, block, counter, out, options=RunOptions(schedule=seed), workers=3)
    return out.tolist()


def test_a_seed_gives_one_order_of_all_threads_and_blocks() -> None:
    one, again, other = _order(7, 70, 1), _order(7, 70, 1), _order(7, 70, 3)
    assert one == again
    assert one != other
    for order in (one, other):
        assert sorted(order) == list(range(490))
        firsts = np.reshape(order, (7, 70)).min(axis=1)  # a block that does not wait runs to its end
        np.testing.assert_array_equal(np.sort(firsts), 70 * np.arange(7))
        assert list(firsts) != sorted(firsts)


@pytest.mark.parametrize("blocks", [1, 2, 3, 10, 64])
def test_all_blocks_run_once_by_any_seed(blocks: int) -> None:
    kernel = compiled(ticket, stepped=True)
    orders = set()
    for seed in range(20):
        counter, out = np.zeros(1, np.int32), np.full(blocks, -1, np.int32)
        kernel(blocks, 1, counter, out, options=RunOptions(schedule=seed))
        assert sorted(out) == list(range(blocks))
        orders.add(tuple(out.tolist()))
    assert len(orders) >= min(blocks, 10)


def test_without_a_seed_threads_go_on_as_they_are_numbered() -> None:
    for stepped in (False, True):
        counter, out = np.zeros(1, np.int32), np.zeros(128, np.int32)
        compiled(ticket, stepped=stepped)(2, 64, counter, out)
        np.testing.assert_array_equal(out, np.arange(128))


@pytest.mark.parametrize("function", [tickets, lanes])
@pytest.mark.parametrize("threads", [3, 33, 128])
def test_the_order_is_drawn_anew_in_each_round(function: Any, threads: int) -> None:
    kernel, found = compiled(function, stepped=True), []
    for _ in range(2):
        counter, out = np.zeros(1, np.int32), np.zeros((6, threads), np.int32)
        kernel(1, threads, counter, out.reshape(-1), 6, options=RunOptions(schedule=5))
        found.append(out)
    np.testing.assert_array_equal(*found)
    assert sorted(found[0].reshape(-1)) == list(range(6 * threads))
    orders = {tuple(np.argsort(row)) for row in found[0]}
    assert len(orders) >= 3


def last_one(out: Out[i32], partial: InOut[f32]):
    """Who writes last, and a sum in the order of the threads."""
    i = kaio.grid(1)
    out[0] = i
    kaio.atomic_add(partial, 0, 1.0 / (1.0 + f32(i)))


def test_results_that_depend_on_the_order_show() -> None:
    kernel, seen = compiled(last_one, stepped=True), set()
    for seed in range(8):
        out, partial = np.zeros(1, np.int32), np.zeros(1, np.float32)
        kernel(2, 40, out, partial, options=RunOptions(schedule=seed))
        seen.add((int(out[0]), float(partial[0])))
    assert len(seen) > 4


def mirrored(x: In[i32], out: Out[i32]):
    """Right in any order: a block's values turned round, and sums of warps and blocks."""
    s = kaio.shared_mem(100, i32)
    t = kaio.thread_idx.x
    s[t] = x[kaio.grid(1)]
    kaio.bar_sync()
    other = s[kaio.block_dim.x - 1 - t]
    out[kaio.grid(1)] = other + kaio.warp_reduce_sum(x[kaio.grid(1)]) + kaio.block_reduce_max(x[kaio.grid(1)])


@pytest.mark.parametrize("seed", range(4))
def test_a_correct_kernel_gives_the_same_in_any_order(seed: int) -> None:
    x = np.random.default_rng(seed).integers(-9, 9, 300).astype(np.int32)
    usual, other = np.zeros(300, np.int32), np.zeros(300, np.int32)
    compiled(mirrored)(3, 100, x, usual)
    compiled(mirrored, stepped=True)(3, 100, x, other, options=RunOptions(schedule=seed))
    np.testing.assert_array_equal(other, usual)


def all_blocks(words: InOut[i32]):
    i = kaio.grid(1)
    words[i] = i
    kaio.grid_sync()
    other = words[words.size - 1 - i]
    kaio.grid_sync()
    words[i] = other


@pytest.mark.parametrize("seed", range(3))
def test_blocks_that_wait_for_each_other_go_on_in_a_seeded_order(seed: int) -> None:
    words = np.zeros(300, np.int32)
    compiled(all_blocks, stepped=True)(6, 50, words, options=RunOptions(schedule=seed))
    np.testing.assert_array_equal(words, np.arange(300)[::-1])


def reads_its_neighbour(x: InOut[i32]):
    i = kaio.grid(1)
    assert i == 0 or x[i - 1] == 1, "the one before has come"
    x[i] = 1


def test_a_fault_tells_the_seed_that_finds_it_again(device: kaio.Device) -> None:
    if device.kind != "cpu":
        pytest.skip("a GPU has an order of its own")
    kernel = kaio.kernel(reads_its_neighbour)
    kernel.over(8).block(8).launch(device.alloc_zeros(8, i32)).wait()
    found = []
    for _ in range(2):
        with pytest.raises(KernelFault) as caught:
            kernel.over(8).block(8).options(schedule=7).launch(device.alloc_zeros(8, i32)).wait()
        found.append((str(caught.value), caught.value.facts))
    assert found[0] == found[1]
    assert found[0][1]["kind"] == "assert"
    assert found[0][0].endswith("\n  help: `.options(schedule=7)` runs the threads in this order again")


def all_in_one(out: Out[i32]):
    out[0] = kaio.thread_idx.x


def never_written(out: Out[i32]):
    s = kaio.shared_mem(8, i32)
    out[kaio.thread_idx.x] = s[0]


def goes_round_it(out: Out[i32]):
    if kaio.thread_idx.x == 0:
        kaio.bar_sync()
    out[kaio.thread_idx.x] = 1


@pytest.mark.parametrize(
    ("function", "kind", "options"),
    [
        (all_in_one, "race", {"check": "full"}),
        (all_in_one, "coverage", {"coverage": True}),
        (never_written, "uninitialised", {"check": "full"}),
        (goes_round_it, "divergence", {}),
    ],
)
def test_whatever_is_found_tells_the_seed(function: Any, kind: str, options: dict[str, Any]) -> None:
    launch, out = kaio.kernel(function).grid(1).block(8).options(**options), kaio.Device("cpu").alloc_zeros(8, i32)
    with pytest.raises(KernelFault) as caught:
        launch.options(schedule=7).launch(out).wait()
    assert (caught.value.kind, caught.value.facts["schedule"]) == (kind, 7)
    assert str(caught.value).endswith("\n  help: `.options(schedule=7)` runs the threads in this order again")
    with pytest.raises(KernelFault) as usual:
        launch.launch(kaio.Device("cpu").alloc_zeros(8, i32)).wait()
    assert "schedule" not in usual.value.facts


def test_a_race_of_two_launches_tells_the_seed() -> None:
    cpu, host = kaio.Device("cpu", check="full"), np.zeros(1, np.int32)
    launch = kaio.kernel(all_in_one).grid(1).block(1).options(schedule=3)
    launches = [launch.on(cpu.stream()).launch(cpu.import_array(host)) for _ in range(2)]
    seeds = []
    for done in launches:  # the one that ends last fails
        try:
            done.wait()
        except KernelFault as fault:
            seeds.append(fault.facts["schedule"])
    assert seeds == [3]
