"""The block scheduler of the CPU device, in kaio's own language. `scheduler.py` compiles it.

A worker takes chunks of blocks from a counter that all workers share. In a block whose threads may wait, it starts them
all, then resumes those that wait at a barrier once every thread that has not returned is there (`scheduling_blocks`).
Where threads also wait for others of their warp, each warp runs alone until none of its lanes can go on without the
block (`scheduling_warps`). Blocks that wait for each other are a group: one worker runs them in turns.
"""

# mypy: disable-error-code="arg-type, assignment, no-untyped-call, no-untyped-def"
# (Kernel functions: an int literal becomes an i32, and device functions take their arguments' types.)

from __future__ import annotations

from kaio import host_abi as abi
from kaio.dsl.atomic import atomic_add
from kaio.dsl.compiler.host.scheduling_blocks import run_block, run_warps
from kaio.dsl.compiler.host.scheduling_steps import native, of_slot
from kaio.dsl.compiler.host.shadow_clocks import begin_blocks
from kaio.dsl.compiler.host.shadow_rules import settle_blocks
from kaio.dsl.types import D2, In, InOut
from kaio.dtypes import i32, i64

__all__ = ["worker"]

# Positions in the block context, counted in i32 and in i64; the size of one.
_BLOCK, _BLOCK_IDX, _GRID_DIM = abi.BLOCK // 8, abi.BLOCK_IDX // 4, abi.GRID_DIM // 4
_CLUSTER_DIM, _CLUSTER_RANK, _SITE = abi.CLUSTER_DIM // 4, abi.CLUSTER_RANK // 4, abi.SITE // 4
_FAULT, _FAULT_INDEX = abi.FAULT // 4, abi.FAULT_INDEX // 8
_CONTEXT_NBYTES, _WORDS = abi.CONTEXT_NBYTES, abi.WORD_COUNT * abi.WORD_STRIDE
_CLUSTER, _PAUSE, _APART = abi.CLUSTER, abi.PAUSE, abi.APART


def worker(
    context: i64,
    c: InOut[i32],
    q: InOut[i64],
    words: InOut[i32, D2],
    kinds: In[i32],
    reach: In[i64],
    start: i64,
    run: i64,
    waits: i32,
    blocks: i64,
    group: i32,
    chunk: i64,
    counter: InOut[i64],
) -> None:
    """Run blocks until there are none left, or one faulted. `counter` is the next block, and whether to stop.

    `waits`: 0 where no thread waits, 1 where they wait at barriers, 2 where also for others of their warp. With a
    `group` it is groups of so many blocks that are counted.

    Blocks are handed out in order and a chunk that was taken is run to its first fault, so the lowest block that faults
    is always reached, by whichever worker.
    """
    while counter[1] == 0:
        block = atomic_add(counter, 0, chunk)
        if block >= blocks:
            return
        stop = min(block + chunk, blocks)
        x = i32(block % c[_GRID_DIM])
        y = i32(block // c[_GRID_DIM] % c[_GRID_DIM + 1])
        z = i32(block // c[_GRID_DIM] // c[_GRID_DIM + 1])
        while block < stop:
            if group == 0:
                q[_BLOCK] = block
                c[_BLOCK_IDX] = x
                c[_BLOCK_IDX + 1] = y
                c[_BLOCK_IDX + 2] = z
            else:
                place_all(c, q, group, block)
            begin_blocks(c, words, max(group, 1))
            if waits == 0 and group == 0:
                native(run, context, 0, 0, 0)
                failed = c[_FAULT]
            else:
                failed = run_group(context, c, q, words, kinds, reach, start, run, waits, group)
            if settle_blocks(c, q, max(group, 1)) | failed != 0:
                counter[1] = 1
                return
            block += 1
            x += 1
            if x == c[_GRID_DIM]:
                x = 0
                y += 1
                if y == c[_GRID_DIM + 1]:
                    y = 0
                    z += 1


def run_group(context, c, q, words, kinds, reach, start, run, waits, group):
    """Run the blocks of a group in turns, each until it waits for others or has returned; 1 where one faulted."""
    step, turns = start, 0
    while True:
        waiting = 0
        for slot in range(max(group, 1)):
            own = of_slot(c, slot, _CONTEXT_NBYTES // 4)
            site = own[_SITE] if turns > 0 else 0
            if turns == 0 or site < 0:
                site = turn(
                    context + i64(slot) * _CONTEXT_NBYTES, own, of_slot(words, slot, _WORDS), kinds, reach, step, run,
                    waits, -site,
                )  # fmt: skip
                own[_SITE] = site
                if own[_FAULT] != 0:
                    return 1
            waiting += i32(site > 0)
        if waiting == 0:
            return 0
        if let_go(c, kinds, max(group, 1)) == 0:
            return report_apart(c, q, kinds, group)
        step, turns = run, 1


def turn(context, c, words, kinds, reach, step, run, waits, state):
    """Run one block until it waits for others, at the site that is given, or all of its threads have returned: 0."""
    if waits == 0:
        native(run, context, 0, 0, 0)
        return 0
    if waits == 1:
        return run_block(context, c, words, kinds, reach, step, run, state)
    return run_warps(context, c, words, kinds, reach, step, run, state)


# ------------------------------------------------------------------ blocks that wait for each other
def place_all(c, q, group, number):
    """Say to the blocks of a group which ones they are: those of a cluster are side by side, in all axes and here."""
    width, height, depth = c[_CLUSTER_DIM], c[_CLUSTER_DIM + 1], c[_CLUSTER_DIM + 2]
    across, down = c[_GRID_DIM] // width, c[_GRID_DIM + 1] // height
    for slot in range(group):
        which = number * (group // (width * height * depth)) + slot // (width * height * depth)
        rank = slot % (width * height * depth)
        x = i32(which % across) * width + rank % width
        y = i32(which // across % down) * height + rank // width % height
        z = i32(which // across // down) * depth + rank // width // height
        own = of_slot(c, slot, _CONTEXT_NBYTES // 4)
        own[_BLOCK_IDX] = x
        own[_BLOCK_IDX + 1] = y
        own[_BLOCK_IDX + 2] = z
        own[_CLUSTER_RANK] = rank
        of_slot(q, slot, _CONTEXT_NBYTES // 8)[_BLOCK] = (i64(z) * c[_GRID_DIM + 1] + y) * c[_GRID_DIM] + x


def let_go(c, kinds, group):
    """Mark, by a negative site, the blocks that go on: all of a cluster or of the grid that are at one barrier, or one
    in which threads pause.
    """
    found = 0
    for slot in range(group):
        site = of_slot(c, slot, _CONTEXT_NBYTES // 4)[_SITE]
        if site > 0:
            first, stop = partners(c, kinds, slot, site, group)
            if other_site(c, first, stop, site) < 0:
                for other in range(first, stop):
                    of_slot(c, other, _CONTEXT_NBYTES // 4)[_SITE] = -site
                    found += 1
    return found


def partners(c, kinds, slot, site, group):
    """Who a block waits for at a site: its cluster, all, or only itself."""
    if kinds[site] & 255 == _PAUSE:
        return slot, slot + 1
    if kinds[site] & 255 == _CLUSTER:
        cluster = c[_CLUSTER_DIM] * c[_CLUSTER_DIM + 1] * c[_CLUSTER_DIM + 2]
        return slot - slot % cluster, slot - slot % cluster + cluster
    return 0, group


def other_site(c, first, stop, site):
    """A block of these that is elsewhere, -1 where there is none."""
    for other in range(first, stop):
        if of_slot(c, other, _CONTEXT_NBYTES // 4)[_SITE] != site:
            return other
    return -1


def report_apart(c, q, kinds, group):
    """Record that a block waits for one that waits elsewhere or has returned."""
    for slot in range(group):
        site = of_slot(c, slot, _CONTEXT_NBYTES // 4)[_SITE]
        if site > 0:
            first, stop = partners(c, kinds, slot, site, group)
            other = other_site(c, first, stop, site)
            of_slot(c, slot, _CONTEXT_NBYTES // 4)[_FAULT] = _APART
            of_slot(q, slot, _CONTEXT_NBYTES // 8)[_FAULT_INDEX] = i64(other)
            return 1
    return 1
