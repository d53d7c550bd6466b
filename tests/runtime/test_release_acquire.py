"""Who knows what after fences, flags, atomics and barriers: the model alone, without a kernel."""

from __future__ import annotations

from kaio.order_abi import BLOCK_SCOPE as BLOCK
from kaio.order_abi import CLUSTER_SCOPE as CLUSTER
from kaio.order_abi import DEVICE_SCOPE as DEVICE
from kaio.runtime.release_acquire import ReleaseAcquire, Who

FLAG, OTHER = 0x1000, 0x2000
THREADS = 64


class Threads:
    """Threads of blocks, each with a clock, which do things one after the other."""

    def __init__(self, clusters: dict[int, int] | None = None) -> None:
        self.order = ReleaseAcquire(THREADS, lambda block: block if clusters is None else clusters[block])
        self.clock: dict[tuple[int, int], int] = {}
        self.base: dict[int, int] = {}

    def _who(self, block: int, thread: int) -> Who:
        base = self.base.get(block, 0)
        return Who(block, thread, self.clock.setdefault((block, thread), base), base)

    def now(self, block: int, thread: int) -> int:
        """The time of what a thread does now."""
        return self._who(block, thread).clock

    def fence(self, block: int, thread: int, scope: int = DEVICE) -> None:
        self.order.fence(self._who(block, thread), scope)
        self.clock[block, thread] += 1

    def write(
        self, block: int, thread: int, place: int = FLAG, scope: int = DEVICE, *, releases: bool = False,
        updates: bool = False,
    ) -> None:  # fmt: skip
        self.order.write(self._who(block, thread), place, scope, releases=releases, updates=updates)
        self.clock[block, thread] += releases

    def read(self, block: int, thread: int, place: int = FLAG, scope: int = DEVICE, *, acquires: bool = False) -> None:
        self.order.read(self._who(block, thread), place, scope, acquires=acquires)

    def barrier(self, block: int) -> None:
        self.order.barrier(block)
        self.base[block] = 1 + max(self.clock.get((block, thread), 0) for thread in range(THREADS))
        for thread in range(THREADS):
            self.clock[block, thread] = self.base[block]

    def knows(self, block: int, thread: int, other_block: int, other: int, when: int) -> bool:
        return self.order.state(block, thread).bound(other_block * THREADS + other, other_block, when) > when


def test_a_fenced_flag_hands_on_what_came_before_the_fence_and_nothing_after() -> None:
    t = Threads()
    before = t.now(0, 3)
    t.fence(0, 3)
    after = t.now(0, 3)
    t.write(0, 3)
    t.read(1, 5)
    assert not t.knows(1, 5, 0, 3, before)
    t.fence(1, 5)
    assert t.knows(1, 5, 0, 3, before)
    assert not t.knows(1, 5, 0, 3, after)
    assert not t.knows(1, 6, 0, 3, before)


def test_without_a_fence_before_the_flag_nothing_is_handed_on() -> None:
    t = Threads()
    before = t.now(0, 3)
    t.write(0, 3)
    t.read(1, 5)
    t.fence(1, 5)
    assert not t.knows(1, 5, 0, 3, before)


def test_another_write_to_the_flag_ends_what_was_handed_on_but_an_update_does_not() -> None:
    for updates in (True, False):
        t = Threads()
        before = t.now(0, 3)
        t.fence(0, 3)
        t.write(0, 3)
        t.write(2, 0, updates=updates)
        t.read(1, 5)
        t.fence(1, 5)
        assert t.knows(1, 5, 0, 3, before) is updates


def test_a_fence_for_the_block_orders_only_the_block() -> None:
    for releasing, acquiring, reaches in (
        (BLOCK, DEVICE, False), (DEVICE, BLOCK, False), (CLUSTER, DEVICE, False), (DEVICE, DEVICE, True),
    ):  # fmt: skip
        t = Threads()
        before = t.now(0, 3)
        t.fence(0, 3, releasing)
        t.write(0, 3)
        t.read(1, 5)
        t.fence(1, 5, acquiring)
        t.read(0, 40)
        t.fence(0, 40, acquiring)
        assert t.knows(1, 5, 0, 3, before) is reaches
        assert t.knows(0, 40, 0, 3, before)


def test_a_fence_for_the_cluster_orders_its_blocks() -> None:
    t = Threads({0: 0, 1: 0, 2: 1})
    before = t.now(0, 3)
    t.fence(0, 3, CLUSTER)
    t.write(0, 3)
    for block in (1, 2):
        t.read(block, 5)
        t.fence(block, 5, CLUSTER)
    assert t.knows(1, 5, 0, 3, before)
    assert not t.knows(2, 5, 0, 3, before)


def test_barriers_carry_what_is_handed_on_by_one_thread_for_all_and_taken_over_by_one_for_all() -> None:
    t = Threads()
    before = [t.now(0, thread) for thread in range(THREADS)]
    t.barrier(0)
    t.fence(0, 0)
    t.write(0, 0)
    t.read(1, 0)
    t.fence(1, 0)
    assert not t.knows(1, 9, 0, 63, before[63])
    t.barrier(1)
    assert t.knows(1, 9, 0, 63, before[63])


def test_fences_of_all_threads_before_the_barrier_count_for_the_flag_behind_it() -> None:
    t = Threads()
    before = t.now(0, 50)
    for thread in range(THREADS):
        if thread != 51:
            t.fence(0, thread)
    without = t.now(0, 51)
    t.barrier(0)
    t.write(0, 0)
    t.read(1, 0)
    t.barrier(1)
    t.fence(1, 7)
    assert t.knows(1, 7, 0, 50, before)
    assert not t.knows(1, 7, 0, 51, without)
    assert not t.knows(1, 8, 0, 50, before)


def test_orders_of_atomics_need_no_fence() -> None:
    t = Threads()
    before = t.now(0, 3)
    t.write(0, 3, releases=True, updates=True)
    after = t.now(0, 3)
    t.read(1, 5, acquires=True)
    assert t.knows(1, 5, 0, 3, before)
    assert not t.knows(1, 5, 0, 3, after)


def test_a_block_wide_atomic_hands_nothing_to_another_block() -> None:
    for writes, reads in ((BLOCK, DEVICE), (DEVICE, BLOCK)):
        t = Threads()
        before = t.now(0, 3)
        t.write(0, 3, scope=writes, releases=True, updates=True)
        t.read(1, 5, scope=reads, acquires=True)
        assert not t.knows(1, 5, 0, 3, before)


def test_what_was_taken_over_is_handed_on() -> None:
    t = Threads()
    before = t.now(0, 3)
    t.fence(0, 3)
    t.write(0, 3)
    t.read(1, 5, acquires=True)
    t.fence(1, 5)
    t.write(1, 5, OTHER)
    t.read(2, 1, OTHER, acquires=True)
    assert t.knows(2, 1, 0, 3, before)


def test_the_last_to_count_knows_all_who_counted_before() -> None:
    t = Threads()
    before = [t.now(block, 0) for block in range(40)]
    for block in range(40):
        t.fence(block, 0)
        t.write(block, 0, updates=True)
        t.read(block, 0)
    t.fence(39, 0)
    t.barrier(39)
    assert all(t.knows(39, 8, block, 0, before[block]) for block in range(40))
    assert not t.knows(38, 0, 0, 0, before[0])


def test_a_named_barrier_orders_those_who_came_before_those_who_waited() -> None:
    t = Threads()
    producer, consumer = range(32), range(32, 64)
    before = t.now(0, 4)
    t.order.arrive([t._who(0, thread) for thread in producer], 1)
    for thread in producer:
        t.clock[0, thread] += 1
    after = t.now(0, 4)
    t.order.arrive([t._who(0, thread) for thread in consumer], 1)
    t.order.complete(0, 1)
    for thread in consumer:
        t.order.leave(0, thread, 1)
    assert t.knows(0, 40, 0, 4, before)
    assert not t.knows(0, 40, 0, 4, after)
    assert not t.knows(0, 5, 0, 4, before)


def test_lanes_that_come_to_a_named_barrier_hand_on_the_latest_that_any_of_them_knows() -> None:
    t = Threads()
    early, late = t._who(0, 3), t._who(0, 4)
    early.clock = 7
    late.others = {3: 2}  # lane 4 knows of lane 3 what it did until then
    t.order.arrive([early, late], 1)
    t.order.complete(0, 1)
    t.order.leave(0, 18, 1)
    assert t.knows(0, 18, 0, 3, 7)
    assert not t.knows(0, 18, 0, 3, 8)


def test_a_warp_that_meets_shares_what_one_of_it_has_taken_over() -> None:
    t = Threads()
    before = t.now(0, 3)
    t.fence(0, 3)
    t.write(0, 3)
    t.read(1, 0, acquires=True)
    t.order.warp(1, range(16))
    assert t.knows(1, 15, 0, 3, before)
    assert not t.knows(1, 16, 0, 3, before)


def test_a_block_that_is_over_leaves_nothing_in_its_shared_memory() -> None:
    t = Threads()
    before = t.now(0, 3)
    t.fence(0, 3)
    t.write(0, 3)
    t.order.end(0, FLAG, FLAG + 4)
    t.read(1, 5, acquires=True)
    assert not t.knows(1, 5, 0, 3, before)


def test_a_long_row_of_hand_overs_costs_each_a_step() -> None:
    t = Threads()
    before = t.now(0, 0)
    for block in range(20_000):
        t.read(block, 0, acquires=True)
        t.write(block, 0, releases=True, updates=True)
    assert t.knows(19_999, 0, 0, 0, before)
