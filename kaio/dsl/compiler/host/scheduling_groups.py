"""How the CPU device runs blocks that may wait for each other, in kaio's own language: those that live, in turns.

A group is the blocks that are begun together: a cluster, the whole grid, or one block. A group that waits, while its
threads pause, for what blocks do that have not begun yet, needs them to begin: when no living group has come to its
end in a turn of all, twice as many live in the next, up to as many as live at a time on a GPU.
"""

# mypy: disable-error-code="arg-type, assignment, no-untyped-call, no-untyped-def"
# (Kernel functions: an int literal becomes an i32, and device functions take their arguments' types.)

from __future__ import annotations

from kaio import host_abi as abi
from kaio import shadow_abi as shadow
from kaio.dsl.atomic import atomic_add, atomic_max
from kaio.dsl.compiler.host.scheduling_blocks import run_block
from kaio.dsl.compiler.host.scheduling_order import begin_order
from kaio.dsl.compiler.host.scheduling_steps import of_slot
from kaio.dsl.compiler.host.shadow_clocks import begin_blocks
from kaio.dsl.compiler.host.shadow_order import begin_knowing, meet_blocks
from kaio.dsl.compiler.host.shadow_rules import settle_blocks
from kaio.dsl.compiler.host.shadow_visits import find_freed
from kaio.dtypes import i32, i64

__all__ = ["run_groups"]

# Positions in the block context, counted in i32 and in i64, and in the control block; the size of one context.
_BLOCK, _BLOCK_IDX, _GRID_DIM = abi.BLOCK // 8, abi.BLOCK_IDX // 4, abi.GRID_DIM // 4
_CLUSTER_DIM, _CLUSTER_RANK, _SITE = abi.CLUSTER_DIM // 4, abi.CLUSTER_RANK // 4, abi.SITE // 4
_FAULT, _FAULT_INDEX, _UNIT, _USED = abi.FAULT // 4, abi.FAULT_INDEX // 8, abi.UNIT // 4, abi.USED // 4
_SHARED, _OWN_WORDS, _FRAMES = abi.SHARED // 8, abi.WORDS // 8, abi.FRAMES // 8
_SHARED_STRIDE, _FRAME_NBYTES, _THREADS = abi.SHARED_STRIDE // 8, abi.FRAME_NBYTES // 8, abi.THREADS // 4
_CONTEXT_NBYTES, _WORDS = abi.CONTEXT_NBYTES, abi.WORD_COUNT * abi.WORD_STRIDE
_CLUSTER, _PAUSE, _APART, _GIVEN = abi.CLUSTER, abi.PAUSE, abi.APART, abi.TAKEN // 8
_SHADOW, _UNSETTLED = abi.SHADOW // 8, shadow.UNSETTLED // 4
_QUESTION_CONTEXT, _QUESTION_WIDE = shadow.QUESTION_CONTEXTS[0] // 8, shadow.QUESTION_CONTEXTS[1] // 8
_QUESTION_WORDS = shadow.QUESTION_WORDS // 8
_ALIVE, _STOP, _FINISHING = abi.ALIVE // 8, abi.STOP // 8, abi.FINISHING


def run_groups(
    context, c, q, words, kinds, reach, start, run, waits, blocks, group, most, chunk, stride, offset, control, progress
):
    """Run groups until there are none left, or a block faulted; up to `most` live at a time, and one of each worker.

    `stride` and `offset` say which group is the next: the numbers 0, 1, 2, ... times the one and the other added.
    """
    number, stop = i64(0), i64(0)
    room, used, living = 1, 0, 0
    while True:
        while living < room and (number < stop or control[_STOP] == 0):
            if living > 0 and control[_ALIVE] >= most:
                break
            if number == stop:
                number = atomic_add(control, 0, chunk)
                stop = min(number + chunk, blocks)
                if number >= blocks:
                    number = stop
                    break
            place = free_place(c, used, group)
            if place == used:
                used += 1
                c[_USED] = used * group
                prepare(c, q, place * group, group)
            begin(c, q, place * group, group, (number * stride + offset) % blocks)
            new, their_words = of_slot(c, place * group, _CONTEXT_NBYTES // 4), of_slot(words, place * group, _WORDS)
            begin_blocks(new, their_words, group)
            begin_knowing(new, their_words, group)
            number += 1
            living += 1
            atomic_add(control, _ALIVE, 1)
        if living == 0:
            return
        ended = 0
        for place in range(used):
            own = of_slot(c, place * group, _CONTEXT_NBYTES // 4)
            if own[_UNIT] != 0:
                waiting = run_group(
                    context, c, q, words, kinds, reach, start, run, waits, place * group, group, control, progress
                )
                wide = of_slot(q, place * group, _CONTEXT_NBYTES // 8)
                if waiting == 0:
                    find_freed(own, wide, of_slot(words, place * group, _WORDS), group)
                if waiting <= 0 and settle_blocks(own, wide, group) != 0:
                    waiting = -1
                if waiting < 0:
                    atomic_max(control, _STOP, i64(_FINISHING))
                    return
                if waiting == 0:
                    own[_UNIT] = 0
                    living -= 1
                    atomic_add(control, _ALIVE, -1)
                    ended += 1
                    progress[0] += 1
        if control[_STOP] > _FINISHING or (control[_STOP] != 0 and most > 1 and ended == 0):
            return
        if ended == 0:
            room = min(2 * room, most)


def run_group(context, c, q, words, kinds, reach, start, run, waits, first, group, control, progress):
    """Let the blocks of a group go on, each until it waits for others or has returned.

    Gives how many wait; less than 0 where something is wrong.
    """
    unit = of_slot(c, first, _CONTEXT_NBYTES // 4)
    is_new = unit[_UNIT] == 2
    unit[_UNIT] = 1
    if not is_new and let_go(c, words, kinds, first, group) == 0:
        return report_apart(c, q, kinds, first, group)
    waiting = 0
    for slot in range(first, first + group):
        own = of_slot(c, slot, _CONTEXT_NBYTES // 4)
        site = own[_SITE]
        if is_new or site < 0:
            site = run_block(
                context + i64(slot) * _CONTEXT_NBYTES, own, of_slot(words, slot, _WORDS), kinds, reach,
                start if is_new else run, run, waits, 0 if is_new else -site, control, progress,
            )  # fmt: skip
            own[_SITE] = site
            if own[_FAULT] != 0:
                return -1
        waiting += i32(site > 0)
    return waiting


# ------------------------------------------------------------------ places for groups
def free_place(c, used, group):
    """A place where no group lives, the one behind all that were used if there is none."""
    for place in range(used):
        if of_slot(c, place * group, _CONTEXT_NBYTES // 4)[_UNIT] == 0:
            return place
    return used


def prepare(c, q, first, group):
    """Make the contexts of a group that were not used yet; the first of all is as the runtime made it."""
    threads = i64(c[_THREADS])
    for slot in range(max(first, 1), first + group):
        own = of_slot(q, slot, _CONTEXT_NBYTES // 8)
        for field in range(_GIVEN):
            own[field] = q[field]
        for field in range(_SHADOW, _CONTEXT_NBYTES // 8):
            own[field] = q[field]
        own[_SHARED] += slot * q[_SHARED_STRIDE]
        own[_OWN_WORDS] += slot * i64(4 * _WORDS)
        own[_QUESTION_CONTEXT] += slot * i64(_CONTEXT_NBYTES)
        own[_QUESTION_WIDE] += slot * i64(_CONTEXT_NBYTES)
        own[_QUESTION_WORDS] += slot * i64(4 * _WORDS)
        of_slot(c, slot, _CONTEXT_NBYTES // 4)[_UNSETTLED] = 0
        own[_FRAMES] += slot * ((q[_FRAME_NBYTES] + 15) // 16 * 16) * threads


def begin(c, q, first, group, number):
    """Say to the blocks of a group which ones they are: those of a cluster are side by side, in all axes and here."""
    of_slot(c, first, _CONTEXT_NBYTES // 4)[_UNIT] = 2
    width, height, depth = c[_CLUSTER_DIM], c[_CLUSTER_DIM + 1], c[_CLUSTER_DIM + 2]
    across, down = c[_GRID_DIM] // width, c[_GRID_DIM + 1] // height
    for slot in range(group):
        which = number * (group // (width * height * depth)) + slot // (width * height * depth)
        rank = slot % (width * height * depth)
        x = i32(which % across) * width + rank % width
        y = i32(which // across % down) * height + rank // width % height
        z = i32(which // across // down) * depth + rank // width // height
        own = of_slot(c, first + slot, _CONTEXT_NBYTES // 4)
        own[_BLOCK_IDX] = x
        own[_BLOCK_IDX + 1] = y
        own[_BLOCK_IDX + 2] = z
        own[_CLUSTER_RANK] = rank
        block = (i64(z) * c[_GRID_DIM + 1] + y) * c[_GRID_DIM] + x
        of_slot(q, first + slot, _CONTEXT_NBYTES // 8)[_BLOCK] = block
        begin_order(of_slot(q, first + slot, _CONTEXT_NBYTES // 8), block)


# ------------------------------------------------------------------ blocks that wait for each other
def let_go(c, words, kinds, first, group):
    """Mark, by a negative site, the blocks that go on: all of a cluster or of the grid that are at one barrier, or one
    in which threads pause.
    """
    found = 0
    for slot in range(first, first + group):
        site = of_slot(c, slot, _CONTEXT_NBYTES // 4)[_SITE]
        if site > 0:
            low, high = partners(c, kinds, slot, site, first, group)
            if other_site(c, low, high, site) < 0:
                if kinds[site] & 255 != _PAUSE:
                    meet_blocks(c, words, low, high, kinds[site] & 255 != _CLUSTER)
                for other in range(low, high):
                    of_slot(c, other, _CONTEXT_NBYTES // 4)[_SITE] = -site
                    found += 1
    return found


def partners(c, kinds, slot, site, first, group):
    """Who a block waits for at a site: its cluster, all, or only itself."""
    if kinds[site] & 255 == _PAUSE:
        return slot, slot + 1
    if kinds[site] & 255 == _CLUSTER:
        cluster = c[_CLUSTER_DIM] * c[_CLUSTER_DIM + 1] * c[_CLUSTER_DIM + 2]
        return slot - (slot - first) % cluster, slot - (slot - first) % cluster + cluster
    return first, first + group


def other_site(c, first, stop, site):
    """A block of these that is elsewhere, -1 where there is none."""
    for other in range(first, stop):
        if of_slot(c, other, _CONTEXT_NBYTES // 4)[_SITE] != site:
            return other
    return -1


def report_apart(c, q, kinds, first, group):
    """Record that a block waits for one that waits elsewhere or has returned."""
    for slot in range(first, first + group):
        site = of_slot(c, slot, _CONTEXT_NBYTES // 4)[_SITE]
        if site > 0:
            low, high = partners(c, kinds, slot, site, first, group)
            other = other_site(c, low, high, site)
            of_slot(c, slot, _CONTEXT_NBYTES // 4)[_FAULT] = _APART
            of_slot(q, slot, _CONTEXT_NBYTES // 8)[_FAULT_INDEX] = i64(other)
            return -1
    return -1
