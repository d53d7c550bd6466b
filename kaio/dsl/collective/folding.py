"""Folds and scans of a warp and of a block, in the kernel language.

Everything combines in the order of the threads (x first), two neighbouring stretches at a time, so that a function only
has to be associative; and in an order that depends on nothing but the size of the block, so that the same bits come out
on every run and on every device. No identity is needed: where there is no neighbour, nothing is combined.

A block's warps hand each other values through slots of shared memory (`put`, `get`), the same for every operation in a
kernel; the first warp, which is full where there is another one, combines them. These rules make that safe, however the
operations follow each other:
- an operation waits twice (`arrive`), or not at all where one warp is the block: all threads go through both waits;
- slots 0 to 31, one for each warp, are written before the first wait and read between the two. The next operation
  writes them after the second wait of this one, when all have been read;
- slots 32 to 63, for results, are written between the two waits and read after the second. The next operation writes
  them after its own first wait, which no thread passes before all have been read here;
- between two waits a lane reads and writes no slot that another lane writes.
Whether there is a second warp is the same for all who meet at a wait or a shuffle.
"""

# mypy: disable-error-code="arg-type, assignment, no-untyped-call, no-untyped-def, func-returns-value"
# (Kernel functions: a value may have any type, and what a shuffle moves may have several parts.)

from __future__ import annotations

from kaio.dsl.collective.numbers import by_redux, identity, of_type, rank, redux
from kaio.dsl.collective.steps import arrive, farthest, from_above, from_below, from_lane, get, put, require
from kaio.dsl.index import block_dim
from kaio.dsl.warp import lane_id, warp_id

__all__ = [
    "FUNCTIONS", "broadcast_block", "broadcast_warp", "first_largest", "first_smallest", "fold_block",
    "fold_block_by_name", "fold_block_pairs", "fold_block_threads", "fold_warp", "fold_warp_by_name",
    "fold_warp_lanes", "fold_warp_pairs", "scan_block", "scan_block_by_name", "scan_block_from", "scan_warp",
    "scan_warp_by_name", "scan_warp_from",
]  # fmt: skip


# ---------------------------------------------------------------------- functions of two values
def plus(a, b):
    """The sum."""
    return a + b


def times(a, b):
    """The product."""
    return a * b


def smaller(a, b):
    """As `min`."""
    return min(a, b)


def larger(a, b):
    """As `max`."""
    return max(a, b)


def both(a, b):
    """The bitwise and."""
    return a & b


def either(a, b):
    """The bitwise or."""
    return a | b


def differing(a, b):
    """The bitwise exclusive or."""
    return a ^ b


FUNCTIONS = {
    "sum": plus, "prod": times, "min": smaller, "max": larger, "and": both, "or": either, "xor": differing,
}  # fmt: skip
"""What the operations with a name combine by."""


def first_smallest(a, b):
    """Of two pairs of a number and its index, the one with the smaller number, or else the smaller index."""
    x, y = rank(a[0], "min"), rank(b[0], "min")
    return b if y < x or (y == x and b[1] < a[1]) else a


def first_largest(a, b):
    """Of two pairs of a number and its index, the one with the larger number, or else the smaller index."""
    x, y = rank(a[0], "max"), rank(b[0], "max")
    return b if y > x or (y == x and b[1] < a[1]) else a


# ---------------------------------------------------------------------- the shape of a block
def threads():
    """The threads of a block."""
    return block_dim.x * block_dim.y * block_dim.z


def warps():
    """The warps of a block, the last one perhaps not full."""
    return (threads() + 31) >> 5


def last_lane():
    """The last lane that the block has in this warp."""
    return min(31, threads() - 1 - (warp_id() << 5))


def linear_thread():
    """This thread's number in its block, x first."""
    return (warp_id() << 5) + lane_id()


# ---------------------------------------------------------------------- folds
def fold_up_to(value, function, last, reach):
    """Lanes 0 to `last` in order; the result is lane 0's. No lanes farther apart than `reach` exchange anything."""
    delta = 1
    while delta <= reach:
        other, is_there = from_above(value, delta, last)
        if is_there:
            value = of_type(function(value, other), value)
        delta *= 2
    return value


def fold_lanes(value, function):
    """The fold of the warp, in lane 0."""
    last = last_lane()
    return fold_up_to(value, function, last, farthest(last))


def fold_warp(value, function):
    """The fold of the warp, in every lane."""
    return from_lane(fold_lanes(value, function), 0)


def fold_warp_by_name(value, function, name):
    """The same, by one instruction where there is one."""
    if by_redux(value, name):
        return redux(value, name)
    return fold_warp(value, function)


def fold_block(value, function):
    """The fold of the block, in every thread."""
    return finish_fold(fold_lanes(value, function), function)


def fold_block_by_name(value, function, name):
    """The same, with one instruction for a warp where there is one."""
    if by_redux(value, name):
        return finish_fold(redux(value, name), function)
    return fold_block(value, function)


def finish_fold(value, function):
    """From the fold of each warp, in its lane 0, to that of the block, in every thread."""
    count = warps()
    if count == 1:
        return from_lane(value, 0)
    lane, warp = lane_id(), warp_id()
    if lane == 0:
        put(value, warp)
    arrive()
    if warp == 0:
        if lane < count:
            value = get(value, lane)
        value = fold_up_to(value, function, count - 1, count - 1)
        if lane == 0:
            put(value, 32)
    arrive()
    return get(value, 32)


# ---------------------------------------------------------------------- scans
def scan_up_to(value, function, reach):
    """The fold of the lanes up to each one and with it, of the lanes up to `reach`."""
    delta = 1
    while delta <= reach:
        other, is_there = from_below(value, delta)
        if is_there:
            value = of_type(function(other, value), value)
        delta *= 2
    return value


def scan_warp(value, function):
    """The fold of the lanes up to each one and with it."""
    return scan_up_to(value, function, farthest(last_lane()))


def scan_warp_exclusive(value, function, initial):
    """The fold of the lanes below each one; the first has `initial`."""
    before, is_there = from_below(scan_warp(value, function), 1)
    return before if is_there else of_type(initial, value)


def scan_warp_after(value, function, initial):
    """The same, with `initial` in front of everything."""
    before, is_there = from_below(scan_warp(value, function), 1)
    start = of_type(initial, value)
    return of_type(function(start, before), value) if is_there else start


def folds_before(value, function, count):
    """From the fold of each warp, in its last lane, to the fold of all warps before this one (not for the first)."""
    lane, warp = lane_id(), warp_id()
    if lane == last_lane():
        put(value, warp)
    arrive()
    if warp == 0:
        if lane < count:
            value = get(value, lane)
        value = scan_up_to(value, function, count - 1)
        if lane < count - 1:
            put(value, 33 + lane)  # for the next warp
    arrive()
    if warp > 0:
        value = get(value, 32 + warp)
    return value


def scan_block(value, function):
    """The fold of the threads up to each one and with it."""
    value = scan_warp(value, function)
    count = warps()
    if count > 1:
        before = folds_before(value, function, count)
        if warp_id() > 0:
            value = of_type(function(before, value), value)
    return value


def scan_block_exclusive(value, function, initial):
    """The fold of the threads before each one; the first has `initial`."""
    value = scan_warp(value, function)
    start = of_type(initial, value)
    before, is_there = from_below(value, 1)
    count = warps()
    if count > 1:
        of_warps = folds_before(value, function, count)
        if warp_id() > 0:
            start = of_warps
            if is_there:
                before = of_type(function(of_warps, before), value)
    return before if is_there else start


def scan_block_after(value, function, initial):
    """The same, with `initial` in front of everything."""
    start = of_type(initial, value)
    before = scan_block_exclusive(value, function, initial)
    return of_type(function(start, before), value) if linear_thread() > 0 else start


# ---------------------------------------------------------------------- as they are called
def fold_warp_lanes(value, function):
    """Fold pairs of a number and the lane that has it."""
    return fold_warp((value, lane_id()), function)


def fold_block_threads(value, function):
    """Fold pairs of a number and the thread that has it."""
    return fold_block((value, linear_thread()), function)


def fold_warp_pairs(value, index, function):
    """Fold pairs of a number and an index."""
    return fold_warp((value, index), function)


def fold_block_pairs(value, index, function):
    """Fold pairs of a number and an index."""
    return fold_block((value, index), function)


def scan_warp_by_name(value, exclusive, function, name):
    """With or without the own value; the first has the identity."""
    if exclusive:
        return scan_warp_exclusive(value, function, identity(value, name))
    return scan_warp(value, function)


def scan_block_by_name(value, exclusive, function, name):
    """With or without the own value; the first has the identity."""
    if exclusive:
        return scan_block_exclusive(value, function, identity(value, name))
    return scan_block(value, function)


def scan_warp_from(value, function, exclusive, initial):
    """With or without the own value, and with `initial` in front."""
    if exclusive:
        return scan_warp_after(value, function, initial)
    return of_type(function(of_type(initial, value), scan_warp(value, function)), value)


def scan_block_from(value, function, exclusive, initial):
    """With or without the own value, and with `initial` in front."""
    if exclusive:
        return scan_block_after(value, function, initial)
    return of_type(function(of_type(initial, value), scan_block(value, function)), value)


# ---------------------------------------------------------------------- broadcasts
def broadcast_warp(value, lane):
    """A lane's value, in every lane."""
    return from_lane(value, lane)


def broadcast_block(value, thread):
    """A thread's value, in every thread; the waits are those of every operation."""
    require(thread >= 0 and thread < threads())
    if linear_thread() == thread:
        put(value, 0)
    arrive()
    value = get(value, 0)
    arrive()
    return value
