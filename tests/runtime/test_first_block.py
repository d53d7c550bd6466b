"""The first block of a launch shows for those that do alike, and nothing that another block does is lost by that."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kaio
from kaio import D2, In, InOut, Out, f32, f32x4, i32, i32x4
from kaio.runtime import first_block
from kaio.runtime.host_kernel import HostKernel
from tests.corpus.case import workers
from tests.runtime.alike_programs import BLOCKS, program

FULL = kaio.Device("cpu", check="full")
MANY = 20  # blocks
NEVER = 1 << 31


class Rests:
    """How many launches had blocks that were run without looking at accesses, and how many blocks that were."""

    def __init__(self) -> None:
        self.launches = self.blocks = 0

    def note(self, kernel: HostKernel, numbers: range | None) -> None:
        if kernel.program.shadow is None:
            assert numbers is not None
            self.launches, self.blocks = self.launches + 1, self.blocks + len(numbers)


@pytest.fixture
def rests(monkeypatch: pytest.MonkeyPatch) -> Rests:
    found, run = Rests(), HostKernel.run

    def noted(self: HostKernel, *args: Any, numbers: range | None = None, **kwargs: Any) -> None:
        found.note(self, numbers)
        run(self, *args, numbers=numbers, **kwargs)

    monkeypatch.setattr(HostKernel, "run", noted)
    return found


def numbers(count: int, dtype: Any = np.int32) -> np.ndarray:
    return np.random.default_rng(count).integers(0, 100, count).astype(dtype)


def fault_of(launcher: Any, *arrays: Any) -> kaio.KernelFault | None:
    """What a launch reports, with a buffer for each array."""
    buffers = [FULL.alloc_from(a) if isinstance(a, np.ndarray) else a for a in arrays]
    try:
        launcher.launch(*buffers).wait()
    except kaio.KernelFault as fault:
        return fault
    return None


# ---------------------------------------------------------------------- kernels whose blocks do alike
@kaio.kernel
def tree(x: In[f32], out: Out[f32]):
    s = kaio.shared_mem(64, f32)
    t, i = kaio.thread_idx.x, kaio.grid(1)
    s[t] = x[i] if i < x.size else 0.0
    kaio.bar_sync()
    half = 32
    while half > 0:
        if t < half:
            s[t] += s[t + half]
        kaio.bar_sync()
        half //= 2
    if t == 0:
        out[kaio.block_idx.x] = s[0]


@kaio.kernel
def transpose(x: In[i32, D2], out: Out[i32, D2]):
    tile = kaio.shared_mem((8, 9), i32)
    x0, y0 = kaio.block_idx.x * 8, kaio.block_idx.y * 8
    tx, ty = kaio.thread_idx.x, kaio.thread_idx.y
    tile[ty, tx] = x[y0 + ty, x0 + tx]
    kaio.bar_sync()
    out[x0 + ty, y0 + tx] = tile[tx, ty]


@kaio.kernel
def every_warp(x: In[f32], out: InOut[f32]):
    i = kaio.grid(1)
    value = kaio.warp_reduce_sum(x[i])
    if i % 32 == 0:
        out[i // 32] = value


@kaio.kernel
def totals(x: In[i32], out: InOut[i32]):
    total = kaio.block_reduce_sum(x[kaio.grid(1)])
    if kaio.thread_idx.x == 0:
        kaio.atomic_add(out, 0, total)


@kaio.kernel
def early(x: In[i32], out: Out[i32]):
    s = kaio.shared_mem(64, i32)
    t, i = kaio.thread_idx.x, kaio.grid(1)
    if i >= x.size:
        return
    s[t] = x[i]
    kaio.bar_sync()
    out[i] = s[t] + s[0]


@kaio.kernel
def rows(x: In[i32, D2], out: Out[i32, D2]):
    row, columns, total = kaio.block_idx.x, x.shape[1], 0
    for col in range(kaio.thread_idx.x, columns, kaio.block_dim.x):
        total += x[row, col]
    total = kaio.block_reduce_sum(total)
    for col in range(kaio.thread_idx.x, columns, kaio.block_dim.x):
        out[row, col] = x[row, col] - total


@kaio.kernel
def vectors(x: In[f32], out: Out[f32]):
    s = kaio.shared_mem(256, f32)
    t, i = kaio.thread_idx.x, kaio.grid(1)
    kaio.store(s, 4 * t, kaio.load(x, 4 * i, f32x4))
    kaio.bar_sync()
    out[i] = s[t]


def test_rows_that_blocks_go_along_are_their_own(rests):
    x, out = np.arange(MANY * 150, dtype=np.int32).reshape(MANY, 150), FULL.alloc_zeros((MANY, 150), i32)
    rows.grid(MANY).block(64).launch(FULL.alloc_from(x), out).wait()
    assert rests.blocks == MANY - 1
    assert np.array_equal(out.to_host(), x - x.sum(1, keepdims=True))


def test_a_store_of_several_elements_is_looked_at_as_such_in_the_first_block(rests):
    x, out = np.arange(256 * MANY, dtype=np.float32), FULL.alloc_zeros(64 * MANY, f32)
    vectors.grid(MANY).block(64).launch(FULL.alloc_from(x), out).wait()
    assert rests.blocks == MANY - 1
    assert np.array_equal(out.to_host(), x.reshape(MANY, 256)[:, :64].ravel())


def test_a_tree_in_shared_memory_is_checked_in_one_block(rests):
    x, out = FULL.alloc_from(np.arange(64 * MANY, dtype=np.float32)), FULL.alloc_zeros(MANY, f32)
    tree.over(x.size).block(64).launch(x, out).wait()
    assert (rests.launches, rests.blocks) == (1, MANY - 1)
    assert np.array_equal(out.to_host(), np.arange(64 * MANY).reshape(MANY, 64).sum(1))


def test_elements_that_a_block_has_alone_in_two_dimensions_are_told_by_where_the_blocks_begin(rests):
    x = np.arange(64 * 40).reshape(40, 64).astype(np.int32)
    given, out = FULL.alloc_from(x), FULL.alloc_zeros((64, 40), i32)
    transpose.grid(8, 5).block(8, 8).launch(given, out).wait()
    assert rests.blocks == 39
    assert np.array_equal(out.to_host(), x.T)


@pytest.mark.parametrize(("threads", "launches"), [(64, 1), (48, 0)])
def test_low_bits_of_the_index_are_the_threads_where_blocks_are_whole_warps(rests, threads, launches):
    x, out = FULL.alloc_from(np.ones(threads * MANY * 2, np.float32)), FULL.alloc_zeros(3 * MANY + threads, f32)
    every_warp.over(x.size).block(threads).launch(x, out).wait()
    assert rests.launches == launches


def test_atomic_updates_need_no_place_of_their_own(rests):
    x, out = numbers(64 * MANY), FULL.alloc_zeros(1, i32)
    totals.over(x.size).block(64).launch(FULL.alloc_from(x), out).wait()
    assert rests.launches == 1
    assert out.to_host()[0] == x.sum()


@pytest.mark.parametrize(("size", "blocks"), [(64 * MANY, MANY - 1), (64 * MANY - 5, MANY - 2)])
def test_of_a_grid_with_threads_left_over_the_last_block_is_checked_too(rests, size, blocks):
    x, out = numbers(size), FULL.alloc_zeros(size, i32)
    early.over(size).block(64).launch(FULL.alloc_from(x), out).wait()
    assert rests.blocks == blocks
    assert np.array_equal(out.to_host(), x + x[np.arange(size) // 64 * 64])


@pytest.mark.parametrize(
    "options", [{"schedule": 1}, {"fuel": 10**6}, {"coverage": True}, {"partial_barriers": True}, {"cluster": 2}]
)
def test_with_options_that_look_closer_every_block_is_checked(rests, options):
    x, out = numbers(64 * MANY), FULL.alloc_zeros(64 * MANY, i32)
    early.over(x.size).block(64).options(**options).launch(FULL.alloc_from(x), out).wait()
    assert rests.launches == 0


def test_a_trace_is_of_the_kernel_with_all_checks(rests):
    trace = early.over(64 * MANY).block(64).on(FULL).trace(numbers(64 * MANY), np.zeros(64 * MANY, np.int32), block=17)
    assert trace.fault is None
    assert rests.launches == 0


def test_few_blocks_are_all_checked(rests):
    x, out = numbers(64 * 3), FULL.alloc_zeros(64 * 3, i32)
    early.over(x.size).block(64).launch(FULL.alloc_from(x), out).wait()
    assert rests.launches == 0


def test_a_launch_that_is_bound_goes_the_same_way(rests):
    x, out = FULL.alloc_from(numbers(64 * MANY)), FULL.alloc_zeros(64 * MANY, i32)
    bound = early.over(x.size).block(64).bind(x, out)
    for _ in range(3):
        bound.launch().wait()
    assert rests.launches == 3


# ---------------------------------------------------------------------- memory that held anything
@kaio.kernel
def some(x: In[i32], out: Out[i32]):
    i = kaio.grid(1)
    if i < x.size:
        out[i] = x[i]


@kaio.kernel
def copied(x: In[i32], out: Out[i32]):
    out[kaio.grid(1)] = x[kaio.grid(1)]


def test_where_blocks_write_that_are_like_the_first_is_known_afterwards(rests):
    out = FULL.alloc_empty(64 * MANY, i32)
    some.over(64 * MANY).block(64).launch(FULL.alloc_from(numbers(64 * MANY - 40)), out).wait()
    assert rests.blocks == MANY - 1
    copied.grid(MANY - 1).block(64).launch(out[:-64], FULL.alloc_zeros(64 * (MANY - 1), i32)).wait()
    fault = fault_of(copied.grid(MANY).block(64), out, np.zeros(64 * MANY, np.int32))
    assert fault is not None
    assert (fault.kind, fault.facts["index"]) == ("uninitialised", 64 * MANY - 40)


def test_memory_that_somebody_has_written_whole_is_like_any_other(rests):
    out = FULL.alloc_empty(64 * MANY, i32)
    some.over(64 * MANY).block(64).launch(FULL.alloc_from(numbers(64 * MANY)), out).wait()
    copied.grid(MANY).block(64).launch(out, FULL.alloc_zeros(64 * MANY, i32)).wait()
    assert rests.launches == 2


# ---------------------------------------------------------------------- bugs that the first block does not have
@kaio.kernel
def one_block_is_wrong(x: In[i32], out: Out[i32], which: i32):
    s = kaio.shared_mem(64, i32)
    t, i = kaio.thread_idx.x, kaio.grid(1)
    s[t] = x[i]
    if kaio.block_idx.x != which:
        kaio.bar_sync()
    out[i] = s[63 - t]


@kaio.kernel
def index_by_block(x: In[i32], out: Out[i32]):
    s = kaio.shared_mem(64, i32)
    t, i = kaio.thread_idx.x, kaio.grid(1)
    s[t] = x[i]
    kaio.bar_sync()
    s[t] += s[(t + kaio.block_idx.x) % 64]
    out[i] = s[t]


@kaio.kernel
def index_by_memory(x: In[i32], out: Out[i32]):
    s = kaio.shared_mem(64, i32)
    t, i = kaio.thread_idx.x, kaio.grid(1)
    s[x[i]] = t
    kaio.bar_sync()
    out[i] = s[t]


@kaio.kernel
def guard_by_memory(x: In[i32], out: Out[i32]):
    s = kaio.shared_mem(64, i32)
    t, i = kaio.thread_idx.x, kaio.grid(1)
    if x[i] < 64:
        s[t] = 1
    kaio.bar_sync()
    out[i] = s[t]


@kaio.kernel
def turns_by_block(x: In[i32], out: Out[i32]):
    s = kaio.shared_mem(64, i32)
    t, i = kaio.thread_idx.x, kaio.grid(1)
    s[t] = x[i]
    kaio.bar_sync()
    for k in range(kaio.block_idx.x // 7):
        s[(t + k) % 64] = k
    kaio.bar_sync()
    out[i] = s[t]


@kaio.kernel
def guard_of_the_edge(x: In[i32], out: Out[i32]):
    s = kaio.shared_mem(64, i32)
    t, i = kaio.thread_idx.x, kaio.grid(1)
    if i < x.size:
        s[t] = x[i]
    kaio.bar_sync()
    out[i] = s[63 - t]


@kaio.kernel
def blocks_overlap(x: In[i32], out: InOut[i32]):
    out[kaio.block_idx.x * 60 + kaio.thread_idx.x] = x[kaio.grid(1)]


@kaio.kernel
def own_memory(x: In[i32], out: Out[i32]):
    own = kaio.local_mem(4, i32)
    i = kaio.grid(1)
    if kaio.block_idx.x < 5:
        own[1] = x[i]
    out[i] = own[1]


@kaio.kernel
def output_read(x: In[i32], out: Out[i32]):
    i = kaio.grid(1)
    if x[i] < 64:
        out[i] = x[i]
    out[i] += 1


@kaio.kernel
def pairs_by_memory(x: In[i32], out: InOut[i32]):
    b, t = kaio.block_idx.x, kaio.thread_idx.x
    if x[b * 64] > 0:
        out[b * 64 + t // 2] = t


SAME = np.tile(np.arange(64, dtype=np.int32), MANY)
LATE = SAME.copy()
LATE[64 * 13 + 5] = 4  # as its neighbour, and
FAR = SAME.copy()
FAR[64 * 13 + 5] = 70
LATER_BUGS = [
    (one_block_is_wrong, (SAME, SAME * 0, 9), "race", 9),
    (index_by_block, (SAME, SAME * 0), "race", 1),
    (index_by_memory, (LATE, SAME * 0), "race", 13),
    (guard_by_memory, (FAR, SAME * 0), "uninitialised", 13),
    (turns_by_block, (SAME, SAME * 0), "race", 14),
    (guard_of_the_edge, (SAME[:-3], SAME * 0), "uninitialised", MANY - 1),
    (blocks_overlap, (SAME, SAME * 0), "race", 1),
    (own_memory, (SAME, SAME * 0), "uninitialised", 5),
    (output_read, (FAR, SAME * 0), "uninitialised", 13),
    (pairs_by_memory, (np.where(np.arange(64 * MANY) == 64 * 13, 1, SAME), SAME * 0), "race", 13),
]


@pytest.mark.parametrize(("kernel", "arguments", "kind", "block"), LATER_BUGS, ids=[k.name for k, *_ in LATER_BUGS])
def test_a_bug_of_a_later_block_is_found(kernel, arguments, kind, block):
    fault = fault_of(kernel.grid(MANY).block(64), *arguments)
    assert fault is not None
    assert fault.kind == kind
    assert block in (fault.facts["block"][0], fault.facts.get("other_block", (None,))[0])


# ---------------------------------------------------------------------- bugs that every block has
@kaio.kernel
def no_barrier(x: In[i32], out: Out[i32]):
    s = kaio.shared_mem(64, i32)
    t, i = kaio.thread_idx.x, kaio.grid(1)
    s[t] = x[i]
    out[i] = s[63 - t]


@kaio.kernel
def not_injective(x: In[i32], out: Out[i32]):
    s = kaio.shared_mem(64, i32)
    tx, ty, tz = kaio.thread_idx.x, kaio.thread_idx.y, kaio.thread_idx.z
    s[tx + 8 * ty + 16 * tz] = 1
    kaio.bar_sync()
    out[kaio.block_idx.x * 64 + tx + 8 * ty + 32 * tz] = s[tx]


@kaio.kernel
def no_second_barrier(x: In[i32], out: Out[i32]):
    s = kaio.shared_mem(64, i32)
    t, i = kaio.thread_idx.x, kaio.grid(1)
    total = 0
    for k in range(3):
        s[t] = x[i] + k
        kaio.bar_sync()
        total += s[63 - t]
    out[i] = total


@kaio.kernel
def larger_than_the_block(x: In[i32], out: Out[i32]):
    s = kaio.shared_mem(128, i32)
    t, i = kaio.thread_idx.x, kaio.grid(1)
    s[t] = x[i]
    kaio.bar_sync()
    out[i] = s[t + 1]


@kaio.kernel
def guard_that_differs(x: In[i32], out: Out[i32]):
    s = kaio.shared_mem(64, i32)
    t, i = kaio.thread_idx.x, kaio.grid(1)
    s[t] = x[i]
    kaio.bar_sync()
    half = 32 - 9 * (t % 2)
    if t < half:
        s[t] += s[t + half]
    out[i] = s[t] * 0


@kaio.kernel
def in_one_dynamic_memory(x: In[i32], out: Out[i32]):
    one, two = kaio.dynamic_shared("one", i32), kaio.dynamic_shared("two", i32)
    t, i = kaio.thread_idx.x, kaio.grid(1)
    one[t] = x[i]
    kaio.bar_sync()
    two[t] = one[63 - t]
    one[t] = two[t]
    out[i] = one[t]


@kaio.kernel
def atomic_and_plain(x: In[i32], out: Out[i32]):
    s = kaio.shared_mem(1, i32)
    i = kaio.grid(1)
    if kaio.thread_idx.x == 0:
        s[0] = 0
    kaio.atomic_add(s, 0, x[i])
    out[i] = 0


@kaio.kernel
def early_return(x: In[i32], out: Out[i32]):
    s = kaio.shared_mem(64, i32)
    t, i = kaio.thread_idx.x, kaio.grid(1)
    if t >= 60:
        return
    s[t] = x[i]
    kaio.bar_sync()
    out[i] = s[t + 1]


@kaio.kernel
def vectors_overlap(x: In[i32], out: Out[i32]):
    s = kaio.shared_mem(256, i32)
    t, i = kaio.thread_idx.x, kaio.grid(1)
    kaio.store(s, t // 2 * 4, i32x4(x[i]))
    kaio.bar_sync()
    out[i] = s[0]


EVERY_BUG = [
    (vectors_overlap, (64,), {}, "race"),
    (no_barrier, (64,), {}, "race"),
    (not_injective, (8, 4, 2), {}, "race"),
    (no_second_barrier, (64,), {}, "race"),
    (larger_than_the_block, (64,), {}, "uninitialised"),
    (guard_that_differs, (64,), {}, "race"),
    (in_one_dynamic_memory, (64,), {"one": 64, "two": 64}, "race"),
    (atomic_and_plain, (64,), {}, "race"),
    (early_return, (64,), {}, "uninitialised"),
]


@pytest.mark.parametrize(("kernel", "block", "shared", "kind"), EVERY_BUG, ids=[k.name for k, *_ in EVERY_BUG])
def test_a_bug_of_every_block_is_told_of_the_first_as_where_all_are_checked(
    kernel, block, shared, kind, rests, monkeypatch
):
    launcher = kernel.grid(MANY).block(*block).shared(**shared)
    fault = fault_of(launcher, SAME, SAME * 0)
    assert rests.launches == 0
    monkeypatch.setattr(first_block, "FEWEST", NEVER)
    exact = fault_of(launcher, SAME, SAME * 0)
    assert fault is not None
    assert exact is not None
    assert fault.kind == kind
    assert fault.facts == exact.facts


def test_two_launches_over_memory_of_others_are_compared_access_by_access(rests):
    array = np.zeros(64 * MANY, np.int32)
    one, two = FULL.import_array(array), FULL.import_array(array)

    def launch_both() -> None:
        with FULL.stream():
            copied.grid(MANY).block(64).launch(FULL.alloc_from(SAME), one)
            with FULL.stream():
                copied.grid(MANY).block(64).launch(FULL.alloc_from(SAME), two)

    with pytest.raises(kaio.KernelFault, match="data race"):  # told by whichever of the two ends last
        launch_both()
    assert rests.launches == 0


# ---------------------------------------------------------------------- random kernels
def outcome(launcher: Any, arrays: list[Any], n: int, m: int, is_empty: bool) -> tuple[Any, ...]:
    """What a random kernel does: its fault, or what its buffers hold afterwards."""
    buffers = [FULL.alloc_from(array) for array in arrays]
    if is_empty:
        buffers[2] = FULL.alloc_empty(arrays[2].size, i32)
    try:
        launcher.launch(*buffers, n, m).wait()
    except kaio.KernelFault as fault:
        return fault.kind, fault.facts.get("array"), fault.facts["line"]
    written = fault_of(copied.grid(arrays[2].size).block(1), buffers[2], np.zeros_like(arrays[2]))
    found = [buffer.to_host().tolist() for buffer in buffers[: 2 if is_empty else 3]]
    return *found, None if written is None else written.facts["index"]


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=25)
def test_random_kernels_get_the_report_that_they_get_where_every_block_is_checked(seed):
    rng, kernel = random.Random(seed), program(seed)
    block, blocks = rng.choice(BLOCKS), rng.choice([3, 5, 8])
    total = blocks * int(np.prod(block))
    size, room = rng.choice([total, total - 5, total // 2]), rng.choice([total, 2 * total + 70])
    arrays = [numbers(size), np.zeros(2 * total + 70, np.int32), np.zeros(room, np.int32)]
    launcher, n, m, is_empty = (
        kernel.grid(blocks).block(*block),
        rng.choice([16, 32, 40]),
        rng.choice([1, 2, 3]),
        rng.random() < 0.4,
    )
    found = []
    for fewest in 2, NEVER:
        with pytest.MonkeyPatch.context() as patch, workers(FULL, 1):  # one fault of several, always the same
            patch.setattr(first_block, "FEWEST", fewest)
            found.append(outcome(launcher, arrays, n, m, is_empty))
    assert found[0] == found[1]
