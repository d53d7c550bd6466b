"""Kernels with barriers as loops over their threads: nobody can tell them from coroutines, but for the time."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import kaio
from examples.matmul import matmul
from kaio import D2, In, InOut, Out, f32, i32
from kaio.dsl.compiler.host import fission
from tests.dsl.compiler.barrier_programs import MOST_THREADS, program
from tests.dsl.compiler.host import Compiled, compiled, ramp, unsplit

BLOCKS = [(16, 4), (32, 2), (5, 3), (1, 1), (16, 1), (64, 2), (8, 8), (48, 2)]


def _outcome(kernel: Compiled, block: tuple[int, int], size: int, n: int, m: int) -> Any:
    out = np.zeros(size, np.float32)
    message = kernel.fault(3, block, ramp(50) * 0.25, out, n, m)
    return message, out.view(np.int32).tolist()


@pytest.mark.parametrize("seed", range(10))
def test_random_kernels_with_barriers_give_the_same_bits_as_coroutines(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    function, check = program(seed), seed % 3 > 0
    split, whole = compiled(function, check=check), unsplit(function, monkeypatch, check=check)
    assert whole.module.waits
    assert not split.module.waits
    rng = random.Random(seed)
    for block in BLOCKS:
        assert block[0] * block[1] <= MOST_THREADS
        n, m = rng.randint(0, 9), rng.randint(0, 3)
        size = rng.choice([3 * block[0] * block[1], rng.randint(1, 3 * block[0] * block[1])])
        assert _outcome(split, block, size, n, m) == _outcome(whole, block, size, n, m), (block, n, m, size)


@pytest.mark.parametrize("seed", range(8))
def test_random_kernels_whose_lanes_exchange_values_give_the_same_bits_as_coroutines(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fission, "_MOST_OF_WARPS", 2000)
    function, check = program(seed, has_warps=True), seed % 3 == 0
    split, whole = compiled(function, check=check), unsplit(function, monkeypatch, check=check)
    assert check or "split.fast.run" in split.module.text
    rng = random.Random(seed)
    for block in (32, 2), (64, 2), (32, 1), (96, 1), (16, 4), (5, 3):
        n, m = rng.randint(0, 9), rng.randint(0, 3)
        size = rng.choice([3 * block[0] * block[1], rng.randint(1, 3 * block[0] * block[1])])
        assert _outcome(split, block, size, n, m) == _outcome(whole, block, size, n, m), (block, n, m, size)


def tree(x: In[f32], out: Out[f32]):
    s = kaio.shared_mem((128,), f32)
    tid = kaio.thread_idx.x
    i = kaio.grid(1)
    s[tid] = x[i] if i < x.size else 0.0
    kaio.bar_sync()
    half = kaio.block_dim.x // 2
    while half > 0:
        if tid < half:
            s[tid] += s[tid + half]
        kaio.bar_sync()
        half //= 2
    if tid == 0:
        out[kaio.block_idx.x] = s[0]


@pytest.mark.parametrize("threads", [1, 2, 16, 64, 128])
def test_a_tree_of_barriers_is_split(threads: int) -> None:
    kernel, out = compiled(tree), np.zeros(4, np.float32)
    assert not kernel.module.waits
    kernel(4, threads, ramp(300), out)
    padded = np.zeros(4 * threads, np.float32)
    padded[: min(300, 4 * threads)] = ramp(300)[: 4 * threads]
    np.testing.assert_array_equal(out, padded.reshape(4, threads).sum(axis=1))


def test_the_whole_inner_loop_of_a_matmul_is_proved_and_in_vectors() -> None:
    kernel = compiled(matmul.__wrapped__)
    assert kernel.module.proved == (14, 4)
    fast = kernel.module.text.split('define internal i32 @"split.fast.group.2"')[1].split("\n}\n")[0]
    assert "record_fault" not in fast
    assert "llvm.loop" in fast


def of_strides(x: In[f32], out: InOut[f32], step: i32):
    """A sum of every so many elements a thread, of which some have one more than others."""
    s = kaio.shared_mem((64,), f32)
    tid = kaio.thread_idx.x
    total, count = f32(0), 0
    for i in range(tid, x.size, step):
        total = total * 0.5 + x[i]
        count += 1
    s[tid] = total
    kaio.bar_sync()
    for i in range(kaio.grid(1), out.size, kaio.grid_dim.x * kaio.block_dim.x):
        out[i] = s[63 - tid] + f32(count) + f32(i)


@pytest.mark.parametrize("step", [1, 3, 64, 1000])
@pytest.mark.parametrize("size", [0, 1, 63, 64, 100, 1000])
def test_loops_by_a_stride_go_round_together(size: int, step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x, out = np.random.default_rng(2).standard_normal(size).astype(np.float32), np.zeros((2, 300), np.float32)
    split, whole = compiled(of_strides), unsplit(of_strides, monkeypatch)
    assert not split.module.waits
    assert split.module.proved == (4, 0)
    for kernel, to in zip((split, whole), out, strict=True):
        kernel(2, 64, x, to, step)
    assert to[100]
    np.testing.assert_array_equal(out[0], out[1])


def guarded(x: In[f32], out: Out[f32]):
    s = kaio.shared_mem((64,), f32)
    i = kaio.grid(1)
    if i >= x.size:
        return
    s[kaio.thread_idx.x] = x[i]
    kaio.bar_sync()
    out[i] = s[63 - kaio.thread_idx.x]


def test_an_early_return_is_split_in_the_blocks_where_nobody_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    split, whole = compiled(guarded), unsplit(guarded, monkeypatch)
    assert split.module.exported == ("k_start", "k_run")
    assert "split.fast.run" in split.module.text
    for size in (128, 192, 1, 0):
        outcomes = []
        for kernel in (split, whole):
            out = np.zeros(192, np.float32)
            outcomes.append((kernel.fault(3, 64, ramp(size), out), out.tolist()))
        assert outcomes[0] == outcomes[1]
    assert outcomes[0] == (None, [0.0] * 192)


def reads_beyond(x: In[f32], out: Out[f32], shift: i32):
    s = kaio.shared_mem((64,), f32)
    tid = kaio.thread_idx.x
    s[tid] = x[tid]
    kaio.bar_sync()
    total = f32(0)
    for k in range(4):
        total += s[tid + k * shift]
        assert total >= 0
    kaio.bar_sync()
    out[tid] = total


@pytest.mark.parametrize(("shift", "sign"), [(0, 1), (1, 1), (20, 1), (-9, 1), (0, -1), (1, -1)])
def test_the_fault_is_that_of_the_first_thread_of_its_part(shift: int, sign: int, monkeypatch: Any) -> None:
    split, whole = compiled(reads_beyond), unsplit(reads_beyond, monkeypatch)
    assert not split.module.waits
    out = np.zeros(64, np.float32)
    messages = [kernel.fault(1, 64, sign * ramp(64), out, shift) for kernel in (split, whole)]
    assert messages[0] == messages[1]
    assert (messages[0] is None) == (shift == 0 and sign == 1)


def sums(x: In[f32], out: InOut[f32]):
    total = kaio.shared_mem((1,), f32)
    tid = kaio.thread_idx.x
    if tid == 0:
        total[0] = 0.0
    kaio.bar_sync()
    for k in range(4):
        kaio.atomic_add(total, 0, x[tid + k * 64])
    kaio.bar_sync()
    if tid == 0:
        out[0] = total[0]


def test_atomic_updates_are_made_in_the_order_of_the_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(0).standard_normal(256).astype(np.float32) * 1e3
    out = np.zeros((2, 1), np.float32)
    split, whole = compiled(sums), unsplit(sums, monkeypatch)
    assert not split.module.waits
    for kernel, to in zip((split, whole), out, strict=True):
        kernel(1, 64, x, to)
    assert out[0] == out[1]


def in_a_branch(out: Out[i32]):
    if kaio.thread_idx.x < 8:
        kaio.bar_sync()
    out[kaio.thread_idx.x] = 1


def of_their_own(x: In[i32], out: Out[i32]):
    for _ in range(x[kaio.thread_idx.x]):
        kaio.bar_sync()
    out[kaio.thread_idx.x] = 1


def counted(x: In[i32], out: Out[i32]):
    out[kaio.thread_idx.x] = kaio.bar_sync_count(x[kaio.thread_idx.x] > 0)


def loaded_branch(x: In[i32], out: Out[i32]):
    if x[0] > 0:  # the same for all threads, but nothing says so
        kaio.bar_sync()
    out[kaio.thread_idx.x] = 1


@pytest.mark.parametrize("function", [in_a_branch, of_their_own, counted, loaded_branch], ids=lambda f: f.__name__)
def test_what_is_not_shown_to_be_uniform_stays_a_coroutine(function: Any) -> None:
    module = compiled(function).module
    assert module.waits
    assert "split.fast" not in module.text


def forever(x: In[i32], out: Out[i32]):
    step = 1
    while step > 0:  # always, which is found when compiling: no way leads out
        out[kaio.thread_idx.x] = x[kaio.thread_idx.x]
        kaio.bar_sync()


def test_a_kernel_with_barriers_that_never_ends_is_compiled_all_the_same() -> None:
    module = compiled(forever).module
    assert module.waits
    assert "split.fast" not in module.text


def of_rows(x: In[f32, D2], out: Out[f32, D2]):
    """Rows differ in how often they go round, columns do not: what is uniform over x alone is no barrier's business."""
    s = kaio.shared_mem((4, 32), f32)
    tx, ty = kaio.thread_idx.x, kaio.thread_idx.y
    s[ty, tx] = x[ty, tx]
    kaio.bar_sync()
    total = f32(0)
    for k in range(ty * 3):
        total = total * 0.5 + s[(ty + k) % 4, tx]
    kaio.bar_sync()
    if ty > 1 and tx != 3:
        total += s[0, tx]
    out[ty, tx] = total


def test_rows_may_part_between_barriers(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(1).standard_normal((4, 32)).astype(np.float32)
    out = np.zeros((2, 4, 32), np.float32)
    split, whole = compiled(of_rows), unsplit(of_rows, monkeypatch)
    assert not split.module.waits
    for kernel, to in zip((split, whole), out, strict=True):
        kernel(1, (32, 4), x, to)
    np.testing.assert_array_equal(out[0].view(np.int32), out[1].view(np.int32))


def divides(x: In[f32], out: Out[f32], p: i32, q: i32):
    s = kaio.shared_mem((16,), f32)
    tid = kaio.thread_idx.x
    s[tid] = x[tid]
    kaio.bar_sync()
    total = f32(tid)
    for _ in range(2):
        if tid % 3 == 1:
            total = total * 0.25 + s[abs(p) % q]
    out[tid] = total


def test_a_division_of_uniform_numbers_behind_a_condition_is_made_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    # LLVM's vectors would divide for the first lane alone, where that one does not come by not at all.
    x, out = ramp(16) + 1, np.zeros((2, 16), np.float32)
    kernels = compiled(divides, check=False), unsplit(divides, monkeypatch, check=False)
    for kernel, to in zip(kernels, out, strict=True):
        kernel(1, 16, x, to, 3, 20)
    np.testing.assert_array_equal(out[0], out[1])
