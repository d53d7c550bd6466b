"""Random programs of threads that signal and wait by flags, across blocks, and what races they have.

As in `random_programs`, in one kernel that follows a script; here a thread sets a flag or waits for one, each with or
without what makes it a release or an acquire. What the PTX ISA leaves open to a reading ("Memory consistency model":
whether a barrier is a fence for a flag that was read before) is computed both ways: a race that is one only by the
strict reading may be reported, one by both has to be.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

import kaio
from kaio import D2, In, InOut, Out, i32
from tests.corpus.case import Launch
from tests.corpus.random_programs import CELLS, LOOK, NOTHING, PUT, READ, UPDATE, WRITE, Access, Race, act, of_cell

STEPS, FLAGS = 6, 64
SET, RELEASE, FENCE_AND_SET, BLOCK_FENCE_AND_SET, FENCE_AND_STORE = range(1, 6)
WAIT, ACQUIRE, WAIT_AND_FENCE, WAIT_AND_BLOCK_FENCE, POLL_AND_FENCE = range(6, 11)


@kaio.func
def signal(sync, flags, f):
    """Set a flag in one of the ways."""
    if sync == SET:
        kaio.atomic_exch(flags, f, 1)
    elif sync == RELEASE:
        kaio.atomic_exch(flags, f, 1, order="release")
    elif sync == FENCE_AND_SET:
        kaio.fence()
        kaio.atomic_exch(flags, f, 1)
    elif sync == BLOCK_FENCE_AND_SET:
        kaio.fence("block")
        kaio.atomic_exch(flags, f, 1)
    elif sync == FENCE_AND_STORE:
        kaio.fence()
        kaio.store(flags, f, 1, volatile=True)


@kaio.func
def wait(sync, flags, f):
    """Wait for a flag in one of the ways."""
    if sync == ACQUIRE:
        while kaio.atomic_add(flags, f, 0, order="acquire") == 0:
            kaio.nanosleep(20)
    elif sync == POLL_AND_FENCE:
        while kaio.load(flags, f, volatile=True) == 0:
            kaio.nanosleep(20)
        kaio.fence()
    elif sync >= WAIT:
        while kaio.atomic_add(flags, f, 0) == 0:
            kaio.nanosleep(20)
        if sync == WAIT_AND_FENCE:
            kaio.fence()
        elif sync == WAIT_AND_BLOCK_FENCE:
            kaio.fence("block")


@kaio.kernel
def messages(
    ops: In[i32, D2], cells: In[i32, D2], syncs: In[i32, D2], which: In[i32, D2], barriers: In[i32],
    flags: InOut[i32], s: InOut[i32], out: Out[i32]
):  # fmt: skip
    i, value = kaio.grid(1), 0
    for step in range(barriers.size):
        value = act(s, ops[step, i], cells[step, i], value)
        signal(syncs[step, i], flags, which[step, i])
        wait(syncs[step, i], flags, which[step, i])
        if barriers[step] != 0:
            kaio.bar_sync()
    out[i] = value


class Messages(NamedTuple):
    """A script for all threads: by step and thread what it does to which cell, and which flag it sets or waits for."""

    ops: np.ndarray
    cells: np.ndarray
    syncs: np.ndarray
    which: np.ndarray
    barriers: np.ndarray

    def launch(self, blocks: int) -> Launch:
        count = self.ops.shape[1]
        rest = np.zeros(FLAGS, np.int32), np.zeros(CELLS, np.int32), np.zeros(count, np.int32)
        return Launch((*self, *rest), blocks, count // blocks)


def random_messages(seed: int) -> tuple[Messages, int]:
    """A program, and of how many blocks."""
    random = np.random.default_rng(seed)
    blocks, threads = int(random.integers(1, 4)), int(random.choice([2, 5, 33]))
    count = blocks * threads
    busy = min(0.9, 24 / count)
    ops = random.choice([READ, READ, WRITE, UPDATE, LOOK, PUT], (STEPS, count))
    ops = np.where(random.random((STEPS, count)) < busy, ops, NOTHING)
    cells = random.integers(0, int(random.choice([3, 12])), (STEPS, count))
    syncs, which = np.zeros((2, STEPS, count), np.int32)
    for flag in range(int(random.integers(2, min(FLAGS, 3 * count)))):  # each is set once, and waited for once
        (a, b), (i, j) = random.integers(0, count, 2), np.sort(random.integers(0, STEPS, 2))
        if a != b and not syncs[i, a] and not syncs[j, b]:
            syncs[i, a], syncs[j, b] = random.choice([1, 2, 2, 3, 3, 4, 5]), random.choice([6, 7, 7, 8, 8, 9, 10])
            which[i, a] = which[j, b] = flag
    barriers = (random.random(STEPS) < 0.2).astype(np.int32)
    program = Messages(ops.astype(np.int32), cells.astype(np.int32), syncs, which, barriers)
    return _thinned(program, blocks, int(random.choice([0, 0, 1, 3])), random), blocks


def _thinned(program: Messages, blocks: int, most: int, random: np.random.Generator) -> Messages:
    """The program without some accesses, so that at most so many races are left: what remains is ordered by flags."""
    while len(found := sorted(races(program, blocks, generous=False))) > most:
        for k in random.choice(len(found), 1 + (len(found) - most) // 8, replace=False):
            thread, _ = found[k].first if random.random() < 0.5 else found[k].second
            program.ops[program.cells[:, thread] == found[k].cell, thread] = NOTHING
    return program


def races(program: Messages, blocks: int, generous: bool) -> set[Race]:
    """All races; `generous`: a barrier is a fence of the block, and a release one for the flags that are set later."""
    return _Clocks(program, blocks, generous).races()


class _Clocks:
    """What each thread knows, what it knew at its last fences, and what it has seen and not yet acquired."""

    def __init__(self, program: Messages, blocks: int, generous: bool) -> None:
        count = program.ops.shape[1]
        self.program, self.generous = program, generous
        self.block = np.arange(count) // (count // blocks)
        self.known, self.fenced, self.fenced_in_block, self.seen, self.seen_in_block = np.zeros((5, count, count), int)
        self.set_by: dict[int, tuple[int, np.ndarray, np.ndarray]] = {}  # flag: who, for the device, for the block
        self.accesses: dict[int, list[Access]] = {}

    def races(self) -> set[Race]:
        for step, barrier in enumerate(self.program.barriers):
            self._act(step)
            for thread in np.flatnonzero(self.program.syncs[step]):
                if self.program.syncs[step, thread] < WAIT:
                    self._signal(step, thread)
            for thread in np.flatnonzero(self.program.syncs[step] >= WAIT):
                self._wait(step, thread)
            if barrier:
                self._meet()
        return {race for cell, made in self.accesses.items() for race in of_cell(cell, made)}

    def _act(self, step: int) -> None:
        threads = np.arange(self.block.size)
        self.known[threads, threads] = step + 1
        for thread in np.flatnonzero(self.program.ops[step]):
            own = Access(int(thread), int(self.program.ops[step, thread]), step + 1, self.known[thread].copy())
            self.accesses.setdefault(int(self.program.cells[step, thread]), []).append(own)

    def _fence(self, thread: int, whole: bool) -> None:
        known = self.known[thread]
        np.maximum(known, self.seen_in_block[thread], out=known)
        if whole:
            np.maximum(known, self.seen[thread], out=known)
            self.fenced[thread] = known
        self.fenced_in_block[thread] = known

    def _signal(self, step: int, thread: int) -> None:
        how = self.program.syncs[step, thread]
        if how in (FENCE_AND_SET, BLOCK_FENCE_AND_SET, FENCE_AND_STORE):
            self._fence(thread, how != BLOCK_FENCE_AND_SET)
        whole, in_block = self.fenced[thread].copy(), self.fenced_in_block[thread].copy()
        if how == RELEASE:
            whole = in_block = self.known[thread].copy()
            if self.generous:
                self._fence(thread, True)
        self.set_by[int(self.program.which[step, thread])] = int(thread), whole, in_block

    def _wait(self, step: int, thread: int) -> None:
        how = self.program.syncs[step, thread]
        who, whole, in_block = self.set_by[int(self.program.which[step, thread])]
        is_near = self.block[who] == self.block[thread]
        seen = np.maximum(in_block, whole) if is_near else whole
        if how == ACQUIRE:
            np.maximum(self.known[thread], seen, out=self.known[thread])
        else:
            kept = self.seen_in_block if is_near else self.seen
            np.maximum(kept[thread], seen, out=kept[thread])
        if how in (WAIT_AND_FENCE, WAIT_AND_BLOCK_FENCE, POLL_AND_FENCE):
            self._fence(thread, how != WAIT_AND_BLOCK_FENCE)
        elif how == ACQUIRE and self.generous:
            self._fence(thread, True)

    def _meet(self) -> None:
        for block in range(self.block[-1] + 1):
            members = np.flatnonzero(self.block == block)
            if self.generous:
                for thread in members:
                    self._fence(thread, False)
            self.known[members] = self.known[members].max(0)
            if self.generous:
                self.fenced_in_block[members] = self.known[members]


def told(fault: kaio.KernelFault, program: Messages, blocks: int) -> Race:
    """The race that a fault is about."""
    facts, threads = fault.facts, program.ops.shape[1] // blocks
    mine = facts["block"][0] * threads + facts["thread"][0], facts["access"]
    other = facts["other_block"][0] * threads + facts["other_thread"][0], facts["other_access"]
    return Race(facts["index"], *sorted([mine, other]))
