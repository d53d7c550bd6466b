"""Random programs of accesses and barriers, run by one kernel, and what races they have by vector clocks.

The kernel follows a script: in each step a thread may read, write or update an element, and then meets others at a
barrier of the block, of some lanes of its warp, or of some warps. Which accesses the barriers order is computed here
for all pairs, in the plainest way: each thread has a vector of the times of all that it knows of (Mattern 1989). The
CPU device has to report one of exactly these races, or none where there is none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

import kaio
from kaio import D2, In, InOut, Out, i32, u32
from tests.corpus.case import Launch

CELLS = 256
NOTHING, READ, WRITE, UPDATE, LOOK, PUT = range(6)
NAMES = {READ: "read", WRITE: "write", UPDATE: "atomic", LOOK: "read", PUT: "write"}
STRONG = (UPDATE, LOOK, PUT)  # atomic and volatile accesses, which do not race with one another
NO_BARRIER, OF_BLOCK, OF_LANES, OF_WARPS = range(4)


@kaio.func
def act(s, op, k, value):
    """One access, and what the thread has read up to then."""
    if op == READ:
        value += s[k]
    elif op == WRITE:
        s[k] = value
    elif op == UPDATE:
        kaio.atomic_add(s, k, 1)
    elif op == LOOK:
        value += kaio.load(s, k, volatile=True)
    elif op == PUT:
        kaio.store(s, k, value, volatile=True)
    return value


@kaio.func
def meet(barrier, group, count):
    """Wait for the block, for a mask of lanes, or at a named barrier; group 0 waits for nobody."""
    if barrier == OF_BLOCK:
        kaio.bar_sync()
    elif barrier == OF_LANES and group != 0:
        kaio.syncwarp(group)
    elif barrier == OF_WARPS and group != 0:
        kaio.named_bar_sync(i32(group), count)


@kaio.kernel
def in_shared(
    ops: In[i32, D2], cells: In[i32, D2], barriers: In[i32], groups: In[u32, D2], counts: In[i32, D2], out: Out[i32]
):  # fmt: skip
    s = kaio.shared_mem(CELLS, i32)
    t, value = kaio.thread_idx.x, 0
    for k in range(t, CELLS, kaio.block_dim.x):
        s[k] = 0
    kaio.bar_sync()
    for step in range(barriers.size):
        value = act(s, ops[step, t], cells[step, t], value)
        meet(barriers[step], groups[step, t], counts[step, t])
    out[kaio.grid(1)] = value


@kaio.kernel
def in_a_buffer(
    ops: In[i32, D2], cells: In[i32, D2], barriers: In[i32], groups: In[u32, D2], counts: In[i32, D2], out: Out[i32],
    s: InOut[i32]
):  # fmt: skip
    t, value = kaio.thread_idx.x, 0
    for step in range(barriers.size):
        value = act(s, ops[step, t], cells[step, t], value)
        meet(barriers[step], groups[step, t], counts[step, t])
    out[kaio.grid(1)] = value


class Program(NamedTuple):
    """A script for one block: by step and thread what it does to which cell, and whom it meets then (0: nobody)."""

    ops: np.ndarray
    cells: np.ndarray
    barriers: np.ndarray
    groups: np.ndarray  # a mask of lanes, or the number of a named barrier
    counts: np.ndarray  # the threads that come to a named barrier

    @property
    def threads(self) -> int:
        return int(self.ops.shape[1])

    def launch(self, shared: bool) -> Launch:
        rest = (
            (np.zeros(self.threads, np.int32),)
            if shared
            else (np.zeros(self.threads, np.int32), np.zeros(CELLS, np.int32))
        )
        return Launch((*self, *rest), 1, self.threads)


class Access(NamedTuple):
    """One access, and what its thread knew then."""

    thread: int
    op: int
    time: int
    known: np.ndarray


class Race(NamedTuple):
    """Two accesses of one cell that nothing orders, the lower thread first."""

    cell: int
    first: tuple[int, str]
    second: tuple[int, str]


def random_program(seed: int) -> Program:
    """A program of some warps, of which about every other one has a race."""
    random = np.random.default_rng(seed)
    threads, steps = 32 * int(random.integers(1, 5)), int(random.integers(2, 9))
    busy, used = random.choice([0.02, 0.05, 0.2]), int(random.choice([4, 40, CELLS]))
    kinds = [READ, READ, READ, WRITE, UPDATE, LOOK, PUT]
    ops = np.where(random.random((steps, threads)) < busy, random.choice(kinds, (steps, threads)), NOTHING)
    if random.random() < 0.5:  # in a step all do the same
        ops = np.where(ops != NOTHING, random.choice(kinds, (steps, 1)), NOTHING)
    cells = random.integers(0, used, (steps, threads))
    barriers = random.choice([NO_BARRIER, OF_BLOCK, OF_BLOCK, OF_LANES, OF_LANES, OF_WARPS], steps)
    barriers[np.cumsum(barriers == OF_WARPS) > 5] = NO_BARRIER  # three numbers for each, of the 15 that there are
    groups, counts = np.zeros((steps, threads), np.uint32), np.zeros((steps, threads), np.int32)
    for step, barrier in enumerate(barriers):
        if barrier == OF_LANES:
            groups[step] = np.concatenate([_masks(random) for _ in range(threads // 32)])
        elif barrier == OF_WARPS:
            number = np.repeat(random.integers(0, 4, threads // 32), 32)
            number = np.where(number == 0, 0, number + 3 * int((barriers[:step] == OF_WARPS).sum()))
            groups[step] = number
            counts[step] = (number[:, None] == number[None, :]).sum(1)
    return Program(ops.astype(np.int32), cells.astype(np.int32), barriers.astype(np.int32), groups, counts)


def _masks(random: np.random.Generator) -> np.ndarray:
    """The lanes of a warp in groups, and for each the mask of its own; some lanes in none."""
    group = random.integers(0, random.integers(1, 5) + 1, 32)
    masks = [sum(1 << int(lane) for lane in np.flatnonzero(group == own)) for own in group]
    return np.where(group == 0, 0, np.array(masks, np.uint64)).astype(np.uint32)


def races(program: Program) -> set[Race]:
    """All races of a program."""
    known = np.eye(program.threads, dtype=np.int64)  # by thread: the time of each that it knows
    accesses: dict[int, list[Access]] = {}
    for step, barrier in enumerate(program.barriers):
        for thread in np.flatnonzero(program.ops[step]):
            clock = int(known[thread, thread])
            own = Access(int(thread), int(program.ops[step, thread]), clock, known[thread].copy())
            accesses.setdefault(int(program.cells[step, thread]), []).append(own)
        for members in _meetings(program, step, barrier):
            known[members] = known[members].max(0)
            known[members, members] += 1
    return {race for cell, made in accesses.items() for race in of_cell(cell, made)}


def _meetings(program: Program, step: int, barrier: int) -> Iterator[np.ndarray]:
    """The threads that meet, group by group."""
    if barrier == OF_BLOCK:
        yield np.arange(program.threads)
    elif barrier != NO_BARRIER:
        warp = np.arange(program.threads) // 32 if barrier == OF_LANES else np.zeros(program.threads, np.int64)
        groups = program.groups[step]
        for key in set(zip(warp[groups != 0].tolist(), groups[groups != 0].tolist(), strict=True)):
            yield np.flatnonzero((warp == key[0]) & (groups == key[1]))


def of_cell(cell: int, made: list[Access]) -> Iterator[Race]:
    for at, b in enumerate(made):
        for a in made[:at]:
            writes = NAMES[a.op] != "read" or NAMES[b.op] != "read"
            strong = a.op in STRONG and b.op in STRONG
            ordered = b.known[a.thread] >= a.time or a.known[b.thread] >= b.time
            if a.thread != b.thread and writes and not strong and not ordered:
                first, second = sorted([(a.thread, NAMES[a.op]), (b.thread, NAMES[b.op])])
                yield Race(cell, first, second)


def told(fault: kaio.KernelFault) -> Race:
    """The race that a fault is about."""
    facts = fault.facts
    first, second = sorted([(facts["thread"][0], facts["access"]), (facts["other_thread"][0], facts["other_access"])])
    return Race(facts["index"], first, second)
