"""Flags, fences, locks and counters between blocks, warps and threads: silent where they order, a race where not."""

from __future__ import annotations

import numpy as np
import pytest

import kaio
from kaio import In, InOut, Out, i32
from tests.runtime.races import race, silent, zeros

WRITE, READ = ("write", "data[0] = 42"), ("read", "out[0] = data[0]")


def message(before: str | None, after: str | None, flag_is: str = "volatile", same_block: bool = False) -> kaio.Kernel:
    """One thread tells another that its data is there."""

    @kaio.kernel
    def message(data: InOut[i32], flag: InOut[i32], out: Out[i32]):
        who = kaio.grid(1) // 32
        if kaio.lane_id() == 0 and who == 0:
            data[0] = 42
            if before is not None:
                kaio.fence(before)
            if flag_is == "volatile":
                kaio.store(flag, 0, 1, volatile=True)
            else:
                kaio.atomic_exch(flag, 0, 1)
        if kaio.lane_id() == 0 and who == 1:
            if flag_is == "volatile":
                while kaio.load(flag, 0, volatile=True) == 0:
                    kaio.nanosleep(32)
            else:
                while kaio.atomic_or(flag, 0, 0) == 0:
                    kaio.nanosleep(32)
            if after is not None:
                kaio.fence(after)
            out[0] = data[0]

    return message.grid(1 if same_block else 2).block(64 if same_block else 32)


@pytest.mark.parametrize(
    ("before", "after", "flag_is", "same_block"),
    [
        ("device", "device", "volatile", False),
        ("system", "device", "volatile", False),
        ("device", "device", "atomic", False),
        ("block", "block", "volatile", True),
        ("block", "device", "atomic", True),
        ("device", "block", "volatile", True),
    ],
)
def test_a_fenced_flag_orders_data(before, after, flag_is, same_block):
    data, flag, out = zeros(1, 1, 1)
    silent(message(before, after, flag_is, same_block), data, flag, out)
    assert out.to_host()[0] == 42


@pytest.mark.parametrize(
    ("before", "after", "flag_is", "same_block"),
    [
        (None, "device", "volatile", False),
        ("device", None, "volatile", False),
        ("block", "device", "volatile", False),
        ("device", "block", "atomic", False),
        (None, None, "atomic", False),
        (None, "block", "volatile", True),
        ("block", None, "volatile", True),
    ],
)
def test_a_flag_without_both_fences_for_both_orders_nothing(before, after, flag_is, same_block):
    told = race(message(before, after, flag_is, same_block), *zeros(1, 1, 1))
    assert told.array == "data"
    assert told.accesses == {WRITE, READ}


def test_the_report_says_what_a_flag_needs():
    text = str(race(message("device", None), *zeros(1, 1, 1)).fault)
    assert text.endswith(
        "help: a flag orders blocks where who sets it fences before, `kaio.fence()`, and who reads it fences after, "
        "for a scope that both are in, and both come to the flag with volatile or atomic accesses; an atomic operation "
        'does both by `order="release"` and `order="acquire"`'
    )


@kaio.kernel
def plain_flag(data: InOut[i32], flag: InOut[i32], out: Out[i32]):
    if kaio.thread_idx.x == 0:
        if kaio.block_idx.x == 0:
            data[0] = 42
            kaio.fence("device")
            flag[0] = 1
        elif flag[0] != 0:
            kaio.fence("device")
            out[0] = data[0]


@kaio.kernel
def half_plain_flag(flag: InOut[i32], out: Out[i32]):
    if kaio.thread_idx.x == 0:
        if kaio.block_idx.x == 0:
            flag[0] = 1
        else:
            out[0] = kaio.load(flag, 0, volatile=True)


def test_a_plain_flag_is_a_race_itself():
    told = race(plain_flag.grid(2).block(32), *zeros(1, 1, 1))
    assert told.array == "flag"
    assert told.accesses == {("write", "flag[0] = 1"), ("read", "elif flag[0] != 0:")}
    told = race(half_plain_flag.grid(2).block(32), *zeros(1, 1))
    assert told.accesses == {("write", "flag[0] = 1"), ("read", "out[0] = kaio.load(flag, 0, volatile=True)")}


def ordered(release: str, acquire: str, scope: str = "device") -> kaio.Kernel:
    """The same by the orders of atomics."""

    @kaio.kernel
    def ordered(data: InOut[i32], flag: InOut[i32], out: Out[i32]):
        if kaio.thread_idx.x == 0:
            if kaio.block_idx.x == 0:
                data[0] = 42
                kaio.atomic_exch(flag, 0, 1, order=release, scope=scope)
            else:
                while kaio.atomic_or(flag, 0, 0, order=acquire) == 0:
                    kaio.nanosleep(32)
                out[0] = data[0]

    return ordered.grid(2).block(32)


@pytest.mark.parametrize(("release", "acquire"), [("release", "acquire"), ("acq_rel", "acq_rel")])
def test_orders_of_atomics_order_data(release, acquire):
    data, flag, out = zeros(1, 1, 1)
    silent(ordered(release, acquire), data, flag, out)
    assert out.to_host()[0] == 42


@pytest.mark.parametrize(
    ("release", "acquire"), [("relaxed", "acquire"), ("release", "relaxed"), ("acquire", "release")]
)
def test_orders_of_atomics_on_one_side_only_order_nothing(release, acquire):
    told = race(ordered(release, acquire), *zeros(1, 1, 1))
    assert told.array == "data"
    assert told.accesses == {WRITE, READ}


def test_an_atomic_of_a_block_is_a_race_with_another_block():
    assert race(ordered("release", "acquire", "block"), *zeros(1, 1, 1)).array == "flag"


def lock(taken: str, given: str, fences: bool) -> kaio.Kernel:
    """Every thread counts under a lock."""

    @kaio.kernel
    def lock(mutex: InOut[i32], count: InOut[i32]):
        while kaio.atomic_cas(mutex, 0, 0, 1, order=taken) != 0:
            kaio.nanosleep(32)
        if fences:
            kaio.fence("device")
        count[0] += 1
        if fences:
            kaio.fence("device")
        kaio.atomic_exch(mutex, 0, 0, order=given)

    return lock.grid(3).block(8)


@pytest.mark.parametrize(("taken", "given", "fences"), [("acquire", "release", False), ("relaxed", "relaxed", True)])
def test_a_lock_orders_what_it_guards(taken, given, fences):
    mutex, count = zeros(1, 1)
    silent(lock(taken, given, fences), mutex, count)
    assert count.to_host()[0] == 24


@pytest.mark.parametrize(("taken", "given"), [("relaxed", "relaxed"), ("acquire", "relaxed"), ("relaxed", "release")])
def test_a_lock_without_orders_guards_nothing(taken, given):
    told = race(lock(taken, given, False), *zeros(1, 1))
    assert told.array == "count"


def ticket_lock(fences: bool) -> kaio.Kernel:
    """The same by tickets."""

    @kaio.kernel
    def ticket_lock(following: InOut[i32], serving: InOut[i32], count: InOut[i32]):
        ticket = kaio.atomic_add(following, 0, 1)
        while kaio.load(serving, 0, volatile=True) != ticket:
            kaio.nanosleep(32)
        if fences:
            kaio.fence("device")
        count[0] += 1
        if fences:
            kaio.fence("device")
        kaio.store(serving, 0, ticket + 1, volatile=True)

    return ticket_lock.grid(3).block(8)


def test_a_ticket_lock_orders_what_it_guards():
    following, serving, count = zeros(1, 1, 1)
    silent(ticket_lock(True), following, serving, count)
    assert count.to_host()[0] == 24
    assert race(ticket_lock(False), *zeros(1, 1, 1)).array == "count"


def last_block(before: str, after: str) -> kaio.Kernel:
    """The last block to finish adds up what all have left."""

    @kaio.kernel
    def last_block(x: In[i32], partial: InOut[i32], finished: InOut[i32], out: Out[i32]):
        is_last = kaio.shared_mem(1, i32)
        total = kaio.block_reduce_sum(x[kaio.grid(1)])
        t = kaio.thread_idx.x
        if t == 0:
            partial[kaio.block_idx.x] = total
            if before == "one":
                kaio.fence("device")
            is_last[0] = i32(kaio.atomic_add(finished, 0, 1) == kaio.grid_dim.x - 1)
            if after == "one":
                kaio.fence("device")
        kaio.bar_sync()
        if is_last[0] != 0:
            if after == "all":
                kaio.fence("device")
            own = 0
            for k in range(t, kaio.grid_dim.x, kaio.block_dim.x):
                own += partial[k]
            found = kaio.block_reduce_sum(own)
            if t == 0:
                out[0] = found

    return last_block.grid(6).block(64)


@pytest.mark.parametrize("after", ["one", "all"])
def test_the_last_block_sees_what_all_have_left(after):
    x = kaio.Device("cpu").alloc_from(np.arange(6 * 64, dtype=np.int32))
    partial, finished, out = zeros(6, 1, 1)
    silent(last_block("one", after), x, partial, finished, out)
    assert out.to_host()[0] == np.arange(6 * 64).sum()


@pytest.mark.parametrize(("before", "after"), [("none", "one"), ("one", "none")])
def test_the_last_block_sees_nothing_without_fences(before, after):
    x = kaio.Device("cpu").alloc_from(np.arange(6 * 64, dtype=np.int32))
    told = race(last_block(before, after), x, *zeros(6, 1, 1))
    assert told.array == "partial"
    assert told.accesses == {("write", "partial[kaio.block_idx.x] = total"), ("read", "own += partial[k]")}


def look_back(fences: bool) -> kaio.Kernel:
    """A scan in one pass: each block adds what the one before it has told, or what those before that have."""

    @kaio.kernel
    def look_back(x: In[i32], sums: InOut[i32], totals: InOut[i32], state: InOut[i32], out: Out[i32]):
        start = kaio.shared_mem(1, i32)
        b, t = kaio.block_idx.x, kaio.thread_idx.x
        own = kaio.block_scan_sum(x[kaio.grid(1)])
        if t == kaio.block_dim.x - 1:
            sums[b] = own
            if fences:
                kaio.fence("device")
            kaio.store(state, b, 1, volatile=True)
            before, k = 0, b - 1
            while k >= 0:
                found = kaio.load(state, k, volatile=True)
                if found == 0:
                    kaio.nanosleep(32)
                    continue
                if fences:
                    kaio.fence("device")
                if found == 2:
                    before += totals[k]
                    break
                before += sums[k]
                k -= 1
            totals[b] = before + own
            if fences:
                kaio.fence("device")
            kaio.store(state, b, 2, volatile=True)
            start[0] = before
        kaio.bar_sync()
        out[kaio.grid(1)] = start[0] + own

    return look_back.grid(7).block(32)


def test_a_scan_that_looks_back_is_silent_with_fences():
    host = np.arange(7 * 32, dtype=np.int32) % 5
    x = kaio.Device("cpu").alloc_from(host)
    *more, out = zeros(7, 7, 7, 7 * 32)
    silent(look_back(True), x, *more, out)
    np.testing.assert_array_equal(out.to_host(), np.cumsum(host))
    assert race(look_back(False), x, *zeros(7, 7, 7, 7 * 32)).array in ("sums", "totals")


def tiles(producer: str, consumer: str) -> kaio.Kernel:
    """A block writes a tile with all its threads, another reads it with all of its."""

    @kaio.kernel
    def tiles(tile: InOut[i32], flag: InOut[i32], out: Out[i32]):
        t = kaio.thread_idx.x
        if kaio.block_idx.x == 0:
            tile[t] = t
            if producer == "fences first":
                kaio.fence("device")
            if producer != "no barrier":
                kaio.bar_sync()
            if t == 0:
                if producer != "fences first":
                    kaio.fence("device")
                kaio.store(flag, 0, 1, volatile=True)
        else:
            if t == 0:
                while kaio.load(flag, 0, volatile=True) == 0:
                    kaio.nanosleep(32)
                if consumer != "fences last":
                    kaio.fence("device")
            if consumer != "no barrier":
                kaio.bar_sync()
            if consumer == "fences last":
                kaio.fence("device")
            out[t] = tile[63 - t]

    return tiles.grid(2).block(64)


@pytest.mark.parametrize("producer", ["barrier first", "fences first"])
@pytest.mark.parametrize("consumer", ["barrier last", "fences last"])
def test_a_barrier_hands_on_for_all_threads_what_one_tells(producer, consumer):
    tile, flag, out = zeros(64, 1, 64)
    silent(tiles(producer, consumer), tile, flag, out)
    assert out.to_host().tolist() == list(range(63, -1, -1))


@pytest.mark.parametrize(("producer", "consumer"), [("no barrier", "barrier last"), ("barrier first", "no barrier")])
def test_without_the_barrier_one_thread_tells_for_itself_alone(producer, consumer):
    told = race(tiles(producer, consumer), *zeros(64, 1, 64))
    assert told.array == "tile"
    assert told.accesses == {("write", "tile[t] = t"), ("read", "out[t] = tile[63 - t]")}


def relay(fence_in_the_middle: bool) -> kaio.Kernel:
    """A tells B, B tells C: C reads what A wrote."""

    @kaio.kernel
    def relay(data: InOut[i32], flags: InOut[i32], out: Out[i32]):
        b = kaio.block_idx.x
        if kaio.thread_idx.x == 0:
            if b == 0:
                data[0] = 42
                kaio.fence("device")
                kaio.store(flags, 0, 1, volatile=True)
            else:
                while kaio.load(flags, b - 1, volatile=True) == 0:
                    kaio.nanosleep(32)
                if b == 2 or fence_in_the_middle:
                    kaio.fence("device")
                if b == 2:
                    out[0] = data[0]
                kaio.store(flags, b, 1, volatile=True)

    return relay.grid(3).block(32)


def test_what_was_told_is_told_on():
    data, flags, out = zeros(1, 3, 1)
    silent(relay(True), data, flags, out)
    assert out.to_host()[0] == 42
    assert race(relay(False), *zeros(1, 3, 1)).array == "data"


def warp_tells(syncs: bool) -> kaio.Kernel:
    """The lanes of a warp write, one of them tells another warp of the block."""

    @kaio.kernel
    def warp_tells(out: Out[i32]):
        s = kaio.shared_mem(32, i32)
        flag = kaio.shared_mem(1, i32)
        t, lane = kaio.thread_idx.x, kaio.lane_id()
        if t == 0:
            flag[0] = 0
        kaio.bar_sync()
        if t < 32:
            s[lane] = lane
            if syncs:
                kaio.syncwarp()
            if lane == 0:
                kaio.fence("block")
                kaio.store(flag, 0, 1, volatile=True)
        else:
            if lane == 0:
                while kaio.load(flag, 0, volatile=True) == 0:
                    kaio.nanosleep(32)
                kaio.fence("block")
            kaio.syncwarp()
            out[lane] = s[31 - lane]

    return warp_tells.grid(1).block(64)


def test_lanes_that_meet_tell_together():
    (out,) = zeros(32)
    silent(warp_tells(True), out)
    assert out.to_host().tolist() == list(range(31, -1, -1))
    assert race(warp_tells(False), *zeros(32)).array == "s"


def barrier_of_blocks(fences: bool) -> kaio.Kernel:
    """Blocks wait for each other by a counter."""

    @kaio.kernel
    def barrier_of_blocks(x: InOut[i32], count: InOut[i32], out: Out[i32]):
        t, b = kaio.thread_idx.x, kaio.block_idx.x
        x[kaio.grid(1)] = b
        kaio.bar_sync()
        if t == 0:
            if fences:
                kaio.fence("device")
            kaio.atomic_add(count, 0, 1)
            while kaio.load(count, 0, volatile=True) < kaio.grid_dim.x:
                kaio.nanosleep(32)
            if fences:
                kaio.fence("device")
        kaio.bar_sync()
        out[kaio.grid(1)] = x[(b + 1) % kaio.grid_dim.x * kaio.block_dim.x + t]

    return barrier_of_blocks.grid(4).block(32).options(cooperative=True)


def test_a_barrier_of_blocks_by_a_counter_needs_its_fences():
    x, count, out = zeros(128, 1, 128)
    silent(barrier_of_blocks(True), x, count, out)
    assert out.to_host().reshape(4, 32)[:, 0].tolist() == [1, 2, 3, 0]
    assert race(barrier_of_blocks(False), *zeros(128, 1, 128)).array == "x"
