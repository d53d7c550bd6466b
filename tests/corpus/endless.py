"""Kernels that never end, and correct ones that wait: for a lock, for another thread, for another block."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import kaio
from kaio import In, InOut, Out, i32, u8
from tests.corpus.case import ANY, BOUNDS, Case, Launch, Report, Size

_SOON = {"timeout_s": 0.05}


def soon(make):
    """The same launch, which is stopped soon."""

    def made(size: Size) -> Launch:
        launch = make(size)
        return replace(launch, options={**launch.options, **_SOON})

    return made


# ---------------------------------------------------------------------- loops whose condition stays
@kaio.kernel
def collatz_without_a_step(n: In[i32], steps: Out[i32]):
    i = kaio.grid(1)
    value, count = n[i], 0
    while value > 1:  # HERE
        if value % 2 == 0:
            value //= 2
        count += 1
    steps[i] = count


@kaio.kernel
def collatz(n: In[i32], steps: Out[i32]):
    i = kaio.grid(1)
    value, count = n[i], 0
    while value > 1:
        if value % 2 == 0:
            value //= 2
        else:
            value = 3 * value + 1
        count += 1
    steps[i] = count


def collatz_steps(size: Size) -> Launch:
    n = size.integers(size.count, 1, 1000)

    def count(value: int) -> int:
        steps = 0
        while value > 1:
            value, steps = value // 2 if value % 2 == 0 else 3 * value + 1, steps + 1
        return steps

    return Launch((n, np.zeros_like(n)), size.blocks, size.threads, {"steps": [count(int(v)) for v in n]})


@kaio.kernel
def search_that_stands_still(x: In[i32], keys: In[i32], out: Out[i32]):
    i = kaio.grid(1)
    low, high = 0, i32(x.size)
    while low < high:  # HERE
        middle = (low + high) // 2
        if x[middle] <= keys[i]:
            low = middle
        else:
            high = middle
    out[i] = low


@kaio.kernel
def search(x: In[i32], keys: In[i32], out: Out[i32]):
    i = kaio.grid(1)
    low, high = 0, i32(x.size)
    while low < high:
        middle = (low + high) // 2
        if x[middle] <= keys[i]:
            low = middle + 1
        else:
            high = middle
    out[i] = low


def searched(size: Size) -> Launch:
    x, keys = np.sort(size.integers(50)), size.integers(size.count)
    out = np.searchsorted(x, keys, side="right")
    return Launch((x, keys, np.zeros_like(keys)), size.blocks, size.threads, {"out": out})


@kaio.kernel
def byte_that_wraps(out: Out[i32], n: i32):
    """A counter of 8 bits never reaches 300."""
    k, total = u8(0), 0
    while i32(k) < n:  # HERE
        k = u8(k + 1)
        total += 1
    out[kaio.grid(1)] = total


def counted_to(n: int):
    def make(size: Size) -> Launch:
        out = np.full(size.count, n, np.int32)
        return Launch((np.zeros_like(out), n), size.blocks, size.threads, {"out": out})

    return make


@kaio.kernel
def stride_of_zero(x: In[i32], out: InOut[i32], stride: i32):
    i = kaio.grid(1)
    while i < x.size:  # HERE
        out[i] = x[i]
        i += stride


def strided(blocks: int):
    """The stride as the host computes it: in whole blocks, of which 0 are no stride."""

    def make(size: Size) -> Launch:
        x = size.integers(2 * size.count)
        stride = size.threads * size.blocks * blocks
        return Launch((x, np.zeros_like(x), stride), size.blocks, size.threads, {"out": x})

    return make


@kaio.kernel
def loop_of_a_trillion(out: Out[i32], n: kaio.i64):
    total = 0
    for k in range(n):  # HERE
        total = (total * 31 + i32(k)) % 65521
    out[kaio.grid(1)] = total


def turns(n: int, fuel: int):
    def make(size: Size) -> Launch:
        total = 0
        for k in range(min(n, 1000)):
            total = (total * 31 + k) % 65521
        arguments = (np.zeros(size.count, np.int32), n)
        expected = {"out": np.full(size.count, total)}
        return Launch(arguments, size.blocks, size.threads, expected, {"fuel": fuel})

    return make


# ---------------------------------------------------------------------- waiting for what never comes
@kaio.kernel
def flag_never_set(flag: InOut[i32], out: Out[i32]):
    if kaio.thread_idx.x == 0:
        while kaio.load(flag, 0, volatile=True) == 0:  # HERE
            kaio.nanosleep(20)
    out[kaio.grid(1)] = 1


@kaio.kernel
def flag_set_by_the_last(flag: InOut[i32], out: Out[i32]):
    if kaio.thread_idx.x == 0 and kaio.block_idx.x == kaio.grid_dim.x - 1:
        kaio.store(flag, 0, 1, volatile=True)
    if kaio.thread_idx.x == 0:
        while kaio.load(flag, 0, volatile=True) == 0:
            kaio.nanosleep(20)
    out[kaio.grid(1)] = 1


def flagged(size: Size) -> Launch:
    out = np.ones(size.count, np.int32)
    return Launch((np.zeros(1, np.int32), np.zeros_like(out)), size.blocks, size.threads, {"out": out})


@kaio.kernel
def plain_poll(flag: InOut[i32], out: Out[i32]):
    """A plain load in a loop that does something else beside, so that no check of the text refuses it."""
    i, turns = kaio.grid(1), 0
    if i == 0:
        while flag[0] == 0:  # HERE
            turns += 1
    out[i] = 1 + 0 * turns


@kaio.kernel
def lock_never_released(lock: InOut[i32], total: InOut[i32]):
    while kaio.atomic_cas(lock, 0, 0, 1, order="acquire") != 0:  # HERE
        pass
    total[0] += 1


@kaio.kernel
def lock_released(lock: InOut[i32], total: InOut[i32]):
    while kaio.atomic_cas(lock, 0, 0, 1, order="acquire") != 0:
        pass
    total[0] += 1
    kaio.atomic_exch(lock, 0, 0, order="release")


def counted(size: Size) -> Launch:
    zeros = np.zeros(1, np.int32)
    return Launch((zeros, zeros), size.blocks, size.threads, {"total": [size.count]})


@kaio.kernel
def two_locks_crosswise(locks: InOut[i32], total: InOut[i32]):
    """Threads 0 and 1 each hold a lock, and want that of the other."""
    t = kaio.thread_idx.x
    if t < 2:
        while kaio.atomic_cas(locks, t, 0, 1, order="acquire") != 0:  # HERE
            pass
        kaio.atomic_add(locks, 2, 1)
        while kaio.atomic_add(locks, 2, 0) < 2:  # HERE
            pass
        while kaio.atomic_cas(locks, 1 - t, 0, 1, order="acquire") != 0:  # HERE
            pass
        kaio.atomic_add(total, 0, 1)


@kaio.kernel
def two_locks_in_order(locks: InOut[i32], total: InOut[i32]):
    t = kaio.thread_idx.x
    if t < 2:
        for k in range(2):
            while kaio.atomic_cas(locks, k, 0, 1, order="acquire") != 0:
                pass
        total[0] += 1
        for k in range(2):
            kaio.atomic_exch(locks, 1 - k, 0, order="release")


def counted_by_two(size: Size) -> Launch:
    arguments = (np.zeros(3, np.int32), np.zeros(1, np.int32))
    return Launch(arguments, size.blocks, size.threads, {"total": [min(2, size.threads) * size.blocks]})


# ---------------------------------------------------------------------- correct ones that wait
@kaio.kernel
def one_after_another(turn: InOut[i32], out: Out[i32]):
    """The blocks go from the last one to the first, which no order of starting them would do by itself."""
    b = kaio.block_idx.x
    if kaio.thread_idx.x == 0:
        while kaio.atomic_add(turn, 0, 0, order="acquire") != kaio.grid_dim.x - 1 - b:
            pass
        out[b] = kaio.grid_dim.x - 1 - b
        kaio.atomic_add(turn, 0, 1, order="release")


def backwards(size: Size) -> Launch:
    out = np.arange(size.blocks, dtype=np.int32)[::-1]
    return Launch((np.zeros(1, np.int32), np.zeros(size.blocks, np.int32)), size.blocks, size.threads, {"out": out})


@kaio.kernel
def relay(out: Out[i32]):
    """Thread after thread, from the last to the first, by a volatile word in shared memory."""
    turn = kaio.shared_mem(1, i32)
    t, n = kaio.thread_idx.x, kaio.block_dim.x
    if t == 0:
        turn[0] = 0
    kaio.bar_sync()
    while kaio.load(turn, 0, volatile=True) != n - 1 - t:
        pass
    out[kaio.grid(1)] = n - 1 - t
    kaio.store(turn, 0, n - t, volatile=True)


@kaio.kernel
def relay_with_pauses(out: Out[i32]):
    """The same with a pause in the loop, without which a GPU may hold the lane back that the others wait for."""
    turn = kaio.shared_mem(1, i32)
    t, n = kaio.thread_idx.x, kaio.block_dim.x
    if t == 0:
        turn[0] = 0
    kaio.bar_sync()
    while kaio.load(turn, 0, volatile=True) != n - 1 - t:
        kaio.nanosleep(20)
    out[kaio.grid(1)] = n - 1 - t
    kaio.store(turn, 0, n - t, volatile=True)


def relayed(size: Size) -> Launch:
    out = np.tile(np.arange(size.threads, dtype=np.int32)[::-1], size.blocks)
    return Launch((np.zeros_like(out),), size.blocks, size.threads, {"out": out})


_NEVER = Report("endless", "a loop never ends in kernel")
_FEW = Size(2, 32)


def _endless(planted, mended, make, **options) -> Case:
    options.setdefault("report", _NEVER)
    options.setdefault("of_mended", make)
    return Case(planted, mended, soon(make), levels=BOUNDS, on_gpu=False, size=_FEW, **options)


CASES = [
    _endless(collatz_without_a_step, collatz, collatz_steps),
    _endless(search_that_stands_still, search, searched),
    _endless(
        byte_that_wraps, byte_that_wraps, counted_to(300), of_mended=counted_to(200), name="byte_that_wraps",
    ),
    _endless(stride_of_zero, stride_of_zero, strided(0), of_mended=strided(1), name="stride_of_zero"),
    Case(
        loop_of_a_trillion, loop_of_a_trillion, turns(10**12, 1000),
        Report("endless", "ran out of fuel"), of_mended=turns(1000, 1001), levels=BOUNDS, on_gpu=False, size=_FEW,
        name="loop_of_a_trillion",
    ),
    _endless(flag_never_set, flag_set_by_the_last, flagged),
    _endless(plain_poll, flag_set_by_the_last, flagged),
    _endless(lock_never_released, lock_released, counted, threads=(1, 2, 7, 32)),
    _endless(two_locks_crosswise, two_locks_in_order, counted_by_two),
    Case(None, one_after_another, backwards, threads=(1, 32, 33)),
    Case(None, relay, relayed, threads=tuple(n for n in ANY if n <= 100), mended_on_gpu=False),
    Case(None, relay_with_pauses, relayed, threads=tuple(n for n in ANY if n <= 100)),
]  # fmt: skip
