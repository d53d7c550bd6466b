"""Memory that is handed over by a flag or a lock: fences, their scope, release and acquire."""

from __future__ import annotations

import numpy as np

import kaio
from kaio import In, InOut, Out, i32
from tests.corpus.case import Case, Launch, Size, race

# ---------------------------------------------------------------------- one block writes for the next one
# Blocks come in pairs: the first one writes `data`, sets the flag of the pair, and the second one reads.


@kaio.kernel
def message_without_fences(data: InOut[i32], flag: InOut[i32], out: Out[i32]):
    pair, t, n = kaio.block_idx.x // 2, kaio.thread_idx.x, kaio.block_dim.x
    if kaio.block_idx.x % 2 == 0:
        data[pair * n + t] = 7 + t  # HERE
        kaio.bar_sync()
        if t == 0:
            kaio.atomic_exch(flag, pair, 1)
    else:
        if t == 0:
            while kaio.atomic_add(flag, pair, 0) == 0:
                pass
        kaio.bar_sync()
        out[pair * n + t] = data[pair * n + t]  # OTHER


@kaio.kernel
def message_with_fences(data: InOut[i32], flag: InOut[i32], out: Out[i32]):
    pair, t, n = kaio.block_idx.x // 2, kaio.thread_idx.x, kaio.block_dim.x
    if kaio.block_idx.x % 2 == 0:
        data[pair * n + t] = 7 + t
        kaio.bar_sync()
        if t == 0:
            kaio.fence()
            kaio.atomic_exch(flag, pair, 1)
    else:
        if t == 0:
            while kaio.atomic_add(flag, pair, 0) == 0:
                pass
            kaio.fence()
        kaio.bar_sync()
        out[pair * n + t] = data[pair * n + t]


@kaio.kernel
def message_without_acquire(data: InOut[i32], flag: InOut[i32], out: Out[i32]):
    pair, t, n = kaio.block_idx.x // 2, kaio.thread_idx.x, kaio.block_dim.x
    if kaio.block_idx.x % 2 == 0:
        data[pair * n + t] = 7 + t  # HERE
        kaio.bar_sync()
        if t == 0:
            kaio.atomic_exch(flag, pair, 1, order="release")
    else:
        if t == 0:
            while kaio.atomic_add(flag, pair, 0) == 0:
                pass
        kaio.bar_sync()
        out[pair * n + t] = data[pair * n + t]  # OTHER


@kaio.kernel
def message_released(data: InOut[i32], flag: InOut[i32], out: Out[i32]):
    pair, t, n = kaio.block_idx.x // 2, kaio.thread_idx.x, kaio.block_dim.x
    if kaio.block_idx.x % 2 == 0:
        data[pair * n + t] = 7 + t
        kaio.bar_sync()
        if t == 0:
            kaio.atomic_exch(flag, pair, 1, order="release")
    else:
        if t == 0:
            while kaio.atomic_add(flag, pair, 0, order="acquire") == 0:
                pass
        kaio.bar_sync()
        out[pair * n + t] = data[pair * n + t]


@kaio.kernel
def message_in_the_scope_of_a_block(data: InOut[i32], flag: InOut[i32], out: Out[i32]):
    pair, t, n = kaio.block_idx.x // 2, kaio.thread_idx.x, kaio.block_dim.x
    if kaio.block_idx.x % 2 == 0:
        data[pair * n + t] = 7 + t  # HERE
        kaio.bar_sync()
        if t == 0:
            kaio.fence("block")
            kaio.atomic_exch(flag, pair, 1)
    else:
        if t == 0:
            while kaio.atomic_add(flag, pair, 0) == 0:
                pass
            kaio.fence("block")
        kaio.bar_sync()
        out[pair * n + t] = data[pair * n + t]  # OTHER


@kaio.kernel
def message_behind_its_flag(data: InOut[i32], flag: InOut[i32], out: Out[i32]):
    pair, t, n = kaio.block_idx.x // 2, kaio.thread_idx.x, kaio.block_dim.x
    if kaio.block_idx.x % 2 == 0:
        if t == 0:
            kaio.atomic_exch(flag, pair, 1, order="release")
        kaio.bar_sync()
        data[pair * n + t] = 7 + t  # HERE
    else:
        if t == 0:
            while kaio.atomic_add(flag, pair, 0, order="acquire") == 0:
                pass
        kaio.bar_sync()
        out[pair * n + t] = data[pair * n + t]  # OTHER


@kaio.kernel
def volatile_flag_without_fences(data: InOut[i32], flag: InOut[i32], out: Out[i32]):
    pair, t, n = kaio.block_idx.x // 2, kaio.thread_idx.x, kaio.block_dim.x
    if kaio.block_idx.x % 2 == 0:
        data[pair * n + t] = 7 + t  # HERE
        kaio.bar_sync()
        if t == 0:
            kaio.store(flag, pair, 1, volatile=True)
    else:
        if t == 0:
            while kaio.load(flag, pair, volatile=True) == 0:
                kaio.nanosleep(20)
        kaio.bar_sync()
        out[pair * n + t] = data[pair * n + t]  # OTHER


@kaio.kernel
def volatile_flag_with_fences(data: InOut[i32], flag: InOut[i32], out: Out[i32]):
    pair, t, n = kaio.block_idx.x // 2, kaio.thread_idx.x, kaio.block_dim.x
    if kaio.block_idx.x % 2 == 0:
        data[pair * n + t] = 7 + t
        kaio.bar_sync()
        if t == 0:
            kaio.fence()
            kaio.store(flag, pair, 1, volatile=True)
    else:
        if t == 0:
            while kaio.load(flag, pair, volatile=True) == 0:
                kaio.nanosleep(20)
            kaio.fence()
        kaio.bar_sync()
        out[pair * n + t] = data[pair * n + t]


@kaio.kernel
def flag_stored_plainly(data: InOut[i32], flag: InOut[i32], out: Out[i32]):
    pair, t, n = kaio.block_idx.x // 2, kaio.thread_idx.x, kaio.block_dim.x
    if kaio.block_idx.x % 2 == 0:
        data[pair * n + t] = 7 + t
        kaio.bar_sync()
        if t == 0:
            kaio.fence()
            flag[pair] = 1  # HERE
    else:
        if t == 0:
            while kaio.load(flag, pair, volatile=True) == 0:  # OTHER
                kaio.nanosleep(20)
            kaio.fence()
        kaio.bar_sync()
        out[pair * n + t] = data[pair * n + t]


def messages(size: Size) -> Launch:
    data = np.zeros((size.blocks, size.threads), np.int32)
    out = (data + np.arange(7, 7 + size.threads, dtype=np.int32)).ravel()
    arguments = (data.ravel(), np.zeros(size.blocks, np.int32), np.zeros_like(out))
    return Launch(arguments, 2 * size.blocks, size.threads, {"data": out, "out": out})


# ---------------------------------------------------------------------- one warp for another
@kaio.kernel
def warp_flag_without_fences(out: Out[i32]):
    s, flag = kaio.shared_mem(32, i32), kaio.shared_mem(1, i32)
    lane = kaio.lane_id()
    if kaio.thread_idx.x == 0:
        flag[0] = 0
    kaio.bar_sync()
    if kaio.warp_id() == 0:
        s[lane] = 7 + lane  # HERE
        kaio.syncwarp()
        if lane == 0:
            kaio.store(flag, 0, 1, volatile=True)
    else:
        while kaio.load(flag, 0, volatile=True) == 0:
            kaio.nanosleep(20)
        out[kaio.grid(1)] = s[31 - lane]  # OTHER


@kaio.kernel
def warp_flag_with_fences(out: Out[i32]):
    s, flag = kaio.shared_mem(32, i32), kaio.shared_mem(1, i32)
    lane = kaio.lane_id()
    if kaio.thread_idx.x == 0:
        flag[0] = 0
    kaio.bar_sync()
    if kaio.warp_id() == 0:
        s[lane] = 7 + lane
        kaio.syncwarp()
        if lane == 0:
            kaio.fence("block")
            kaio.store(flag, 0, 1, volatile=True)
    else:
        while kaio.load(flag, 0, volatile=True) == 0:
            kaio.nanosleep(20)
        kaio.fence("block")
        out[kaio.grid(1)] = s[31 - lane]


def sevens(size: Size) -> Launch:
    out = np.zeros((size.blocks, size.threads // 32, 32), np.int32)
    out[:, 1:] = np.arange(38, 6, -1)
    return Launch((np.zeros(size.count, np.int32),), size.blocks, size.threads, {"out": out.ravel()})


# ---------------------------------------------------------------------- locks, taken by one lane of each warp
@kaio.kernel
def lock_without_order(lock: InOut[i32], sums: InOut[i32], x: In[i32]):
    i = kaio.grid(1)
    if kaio.lane_id() == 0:
        while kaio.atomic_cas(lock, 0, 0, 1) != 0:
            pass
        sums[0] += x[i]  # HERE OTHER
        kaio.atomic_exch(lock, 0, 0)


@kaio.kernel
def lock_with_order(lock: InOut[i32], sums: InOut[i32], x: In[i32]):
    i = kaio.grid(1)
    if kaio.lane_id() == 0:
        while kaio.atomic_cas(lock, 0, 0, 1, order="acquire") != 0:
            pass
        sums[0] += x[i]
        kaio.atomic_exch(lock, 0, 0, order="release")


@kaio.kernel
def lock_released_too_soon(lock: InOut[i32], sums: InOut[i32], x: In[i32]):
    i = kaio.grid(1)
    if kaio.lane_id() == 0:
        while kaio.atomic_cas(lock, 0, 0, 1, order="acquire") != 0:
            pass
        total = sums[0] + x[i]  # HERE
        kaio.atomic_exch(lock, 0, 0, order="release")
        sums[0] = total  # OTHER


@kaio.kernel
def lock_of_another(lock: InOut[i32], sums: InOut[i32], x: In[i32]):
    """Two locks for one sum."""
    i, k = kaio.grid(1), kaio.warp_id() % 2
    if kaio.lane_id() == 0:
        while kaio.atomic_cas(lock, k, 0, 1, order="acquire") != 0:
            pass
        sums[0] += x[i]  # HERE OTHER
        kaio.atomic_exch(lock, k, 0, order="release")


@kaio.kernel
def lock_of_each(lock: InOut[i32], sums: InOut[i32], x: In[i32]):
    i, k = kaio.grid(1), kaio.warp_id() % 2
    if kaio.lane_id() == 0:
        while kaio.atomic_cas(lock, k, 0, 1, order="acquire") != 0:
            pass
        sums[k] += x[i]
        kaio.atomic_exch(lock, k, 0, order="release")


def locked(size: Size) -> Launch:
    x = size.integers(size.count)
    firsts = x.reshape(size.blocks, -1, 32)[:, :, 0]
    return Launch((np.zeros(2, np.int32), np.zeros(2, np.int32), x), size.blocks, size.threads, {
        "sums": [firsts.sum(), 0], "lock": [0, 0],
    })  # fmt: skip


def locked_by_two(size: Size) -> Launch:
    x = size.integers(size.count)
    firsts = x.reshape(size.blocks, -1, 32)[:, :, 0]
    return Launch((np.zeros(2, np.int32), np.zeros(2, np.int32), x), size.blocks, size.threads, {
        "sums": [firsts[:, ::2].sum(), firsts[:, 1::2].sum()], "lock": [0, 0],
    })  # fmt: skip


@kaio.kernel
def tickets_without_fences(lock: InOut[i32], sums: InOut[i32], x: In[i32]):
    i = kaio.grid(1)
    if kaio.lane_id() == 0:
        ticket = kaio.atomic_add(lock, 0, 1)
        while kaio.load(lock, 1, volatile=True) != ticket:
            kaio.nanosleep(20)
        sums[0] += x[i]  # HERE OTHER
        kaio.store(lock, 1, ticket + 1, volatile=True)


@kaio.kernel
def tickets_with_fences(lock: InOut[i32], sums: InOut[i32], x: In[i32]):
    i = kaio.grid(1)
    if kaio.lane_id() == 0:
        ticket = kaio.atomic_add(lock, 0, 1)
        while kaio.load(lock, 1, volatile=True) != ticket:
            kaio.nanosleep(20)
        kaio.fence()
        sums[0] += x[i]
        kaio.fence()
        kaio.store(lock, 1, ticket + 1, volatile=True)


def by_tickets(size: Size) -> Launch:
    x = size.integers(size.count)
    firsts = x.reshape(size.blocks, -1, 32)[:, :, 0]
    return Launch((np.zeros(2, np.int32), np.zeros(2, np.int32), x), size.blocks, size.threads, {
        "sums": [firsts.sum(), 0], "lock": [firsts.size, firsts.size],
    })  # fmt: skip


# ---------------------------------------------------------------------- each block waits for the one before
@kaio.kernel
def look_back_without_fences(x: In[i32], sums: InOut[i32], state: InOut[i32], out: Out[i32]):
    mine, b = kaio.block_reduce_sum(x[kaio.grid(1)]), kaio.block_idx.x
    if kaio.thread_idx.x == 0:
        before = 0
        if b > 0:
            while kaio.load(state, b - 1, volatile=True) == 0:
                kaio.nanosleep(20)
            before = sums[b - 1]  # HERE
        sums[b] = before + mine  # OTHER
        kaio.store(state, b, 1, volatile=True)
        out[b] = before


@kaio.kernel
def look_back(x: In[i32], sums: InOut[i32], state: InOut[i32], out: Out[i32]):
    mine, b = kaio.block_reduce_sum(x[kaio.grid(1)]), kaio.block_idx.x
    if kaio.thread_idx.x == 0:
        before = 0
        if b > 0:
            while kaio.load(state, b - 1, volatile=True) == 0:
                kaio.nanosleep(20)
            kaio.fence()
            before = sums[b - 1]
        sums[b] = before + mine
        kaio.fence()
        kaio.store(state, b, 1, volatile=True)
        out[b] = before


def looked_back(size: Size) -> Launch:
    x = size.integers(size.count)
    sums = x.reshape(size.blocks, size.threads).sum(1).cumsum()
    zeros = np.zeros(size.blocks, np.int32)
    out = np.concatenate([[0], sums[:-1]])
    return Launch((x, zeros, zeros, zeros), size.blocks, size.threads, {"sums": sums, "out": out})


_MESSAGE = race("data", "write", "read", blocks="different")
_SUM = race("sums", "write", "read", index={0})
_WARPS = (32, 64, 96, 128)

CASES = [
    Case(message_without_fences, message_with_fences, messages, _MESSAGE),
    Case(message_without_acquire, message_released, messages, _MESSAGE),
    Case(message_in_the_scope_of_a_block, message_with_fences, messages, _MESSAGE),
    Case(message_behind_its_flag, message_released, messages, _MESSAGE),
    Case(volatile_flag_without_fences, volatile_flag_with_fences, messages, _MESSAGE),
    Case(
        flag_stored_plainly, volatile_flag_with_fences, messages, race("flag", "write", "read", blocks="different"),
    ),
    Case(
        warp_flag_without_fences, warp_flag_with_fences, sevens, race("s", "write", "read", blocks="same"),
        threads=(64, 96, 256),
    ),
    Case(lock_without_order, lock_with_order, locked, _SUM, threads=_WARPS),
    Case(
        lock_released_too_soon, lock_with_order, locked, race("sums", "read", "write", index={0}), threads=_WARPS,
    ),
    Case(lock_of_another, lock_of_each, locked, _SUM, of_mended=locked_by_two, threads=_WARPS),
    Case(tickets_without_fences, tickets_with_fences, by_tickets, _SUM, threads=_WARPS),
    Case(
        look_back_without_fences, look_back, looked_back,
        race("sums", "read", "write", index={0, 1}, blocks="different"),
    ),
]  # fmt: skip
