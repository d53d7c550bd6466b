"""The block scheduler: compiled once, kept, and handing out blocks in order."""

from __future__ import annotations

import numpy as np
import pytest

import kaio
from kaio import InOut, Out, i32
from kaio.dsl.compiler.host import scheduler
from kaio.dsl.compiler.host.scheduling import worker
from kaio.dsl.compiler.host.shadow_rules import decide
from tests.dsl.compiler.host import compiled


def test_the_scheduler_is_kept_as_object_code_and_not_compiled_again(tmp_path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setenv("KAIO_CACHE_DIR", str(tmp_path))
    scheduler._kept_object.cache_clear()
    made = scheduler.scheduler_object()
    monkeypatch.setattr(scheduler, "_compile", lambda *_: pytest.fail("compiled again"))
    scheduler._kept_object.cache_clear()
    assert scheduler.scheduler_object() == made
    scheduler._kept_object.cache_clear()


@pytest.mark.parametrize(("function", "name"), [(worker, "kaio_worker"), (decide, "kaio_decide")])
def test_compiling_the_scheduler_twice_gives_the_same_bytes(function, name) -> None:
    assert scheduler._compile(function, name) == scheduler._compile(function, name)


def order(out: Out[i32], last: InOut[i32]):
    if kaio.thread_idx.x == 0:
        linear = (kaio.block_idx.z * kaio.grid_dim.y + kaio.block_idx.y) * kaio.grid_dim.x + kaio.block_idx.x
        out[linear] = kaio.atomic_add(last, 0, 1)


@pytest.mark.parametrize("grid", [(1, 1, 1), (7, 1, 1), (3, 5, 2), (1, 1, 9), (2, 1, 3), (300, 3, 1)])
def test_one_worker_runs_the_blocks_in_order_x_first(grid: tuple[int, int, int]) -> None:
    out, last = np.full(int(np.prod(grid)), -1, np.int32), np.zeros(1, np.int32)
    compiled(order)(grid, 32, out, last)
    np.testing.assert_array_equal(out, np.arange(out.size))


@pytest.mark.parametrize("grid", [(7, 1, 1), (3, 5, 2), (300, 3, 4)])
def test_many_workers_run_every_block_once(grid: tuple[int, int, int]) -> None:
    out, last = np.full(int(np.prod(grid)), -1, np.int32), np.zeros(1, np.int32)
    compiled(order)(grid, 1, out, last, workers=4)
    np.testing.assert_array_equal(np.sort(out), np.arange(out.size))


def stops(seen: InOut[i32], bad: i32):
    block = kaio.block_idx.x
    seen[block] = 1
    if block == bad:
        seen[seen.size] = 1


def test_no_block_is_started_after_a_fault_was_seen() -> None:
    seen = np.zeros(10_000, np.int32)
    assert compiled(stops).fault(10_000, 1, seen, 4000) is not None
    assert seen[:4001].all()
    assert not seen[4001:].any()


def test_blocks_below_a_fault_are_all_run_by_many_workers() -> None:
    seen = np.zeros(10_000, np.int32)
    assert compiled(stops).fault(10_000, 1, seen, 4000, workers=4) is not None
    assert seen[:4001].all()
