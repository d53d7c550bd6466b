"""What threads know of each other beyond barriers: release and acquire, by PTX's memory model.

A thread that fences and then makes a strong write (volatile or atomic), or writes with `release`, hands on what it has
done and what it knows; a thread that reads that value strongly and then fences, or reads with `acquire`, takes it over
(PTX ISA, "Memory Consistency Model": release and acquire patterns, observation order through read-modify-writes,
morally strong operations). Here is who knows what. When each thread did what, its clock says: a thread knows what
another did *below* a bound. All that a block did before its last barrier is below the block's `base`, and everyone in
the block knows it without this file.

Three things are kept for a thread. `known`: what it may rely on. `pending`: what it has read of and takes over with its
next fence. `fenced`: what it knew and had done at its last fence, which its strong writes hand on. Barriers join all
three over those who meet: `fence.sc` by one thread and the flag written by another behind a barrier is a release, too,
since all `fence.sc` are in one order that agrees with what is observed. `pending` and `fenced` are kept for each scope:
a fence for the block alone orders nothing for another block.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kaio.order_abi import BLOCK_SCOPE, CLUSTER_SCOPE, DEVICE_SCOPE

__all__ = ["Know", "Knowledge", "ReleaseAcquire", "State", "Who"]

_SCOPES = (BLOCK_SCOPE, CLUSTER_SCOPE, DEVICE_SCOPE)


@dataclass(slots=True, eq=False)
class Knowledge:
    """What was known at one moment: bounds by block and by thread of the launch, and whatever `earlier` ones say.

    It does not change; what was found by `questions` to it is kept.
    """

    blocks: Mapping[int, int] = field(default_factory=dict)
    threads: Mapping[int, int] = field(default_factory=dict)
    earlier: tuple[Knowledge, ...] = ()
    questions: _Questions | None = None


Know = Knowledge | None


def join(parts: Iterable[Know]) -> Know:
    """All that some know together."""
    distinct = {id(part): part for part in parts if part is not None}
    if len(distinct) == 2:  # as a thread that takes over again and again what it has taken over
        one, two = distinct.values()
        if any(part is two for part in one.earlier):
            return one
        if any(part is one for part in two.earlier):
            return two
    if len(distinct) <= 1:
        return next(iter(distinct.values()), None)
    return Knowledge(earlier=tuple(distinct.values()))


def _raise(bounds: dict[int, int], given: Mapping[int, int]) -> None:
    """Join bounds by block or by thread."""
    for key, bound in given.items():
        if bounds.get(key, 0) < bound:
            bounds[key] = bound


class _Questions:
    """Questions to a piece of knowledge, answered by what is nearest first; what was found is kept."""

    __slots__ = ("_blocks", "_left", "_seen", "_threads")

    def __init__(self, known: Knowledge) -> None:
        self._blocks: dict[int, int] = {}
        self._threads: dict[int, int] = {}
        self._left, self._seen = deque(known.earlier), {id(part) for part in known.earlier}
        self._raise(known)

    def bound(self, thread: int, block: int, when: int, most: int) -> int:
        """A time below which all is known of a thread of that block: one above `when` if there is any.

        It is looked for in `most` pieces of knowledge more than before.
        """
        while True:
            found = max(self._blocks.get(block, 0), self._threads.get(thread, 0))
            if found > when or not self._left or not most:
                return found
            self._take(self._left.popleft())
            most -= 1

    def _take(self, known: Knowledge) -> None:
        self._raise(known)
        for part in known.earlier:
            if id(part) not in self._seen:
                self._seen.add(id(part))
                self._left.append(part)

    def _raise(self, known: Knowledge) -> None:
        _raise(self._blocks, known.blocks)
        _raise(self._threads, known.threads)


class State:
    """What a thread has of its own, or all threads of a block have in common. Not changed once it is made."""

    __slots__ = ("fenced", "known", "pending")

    def __init__(
        self, known: Know = None, pending: tuple[Know, ...] = (None,) * 3, fenced: tuple[Know, ...] = (None,) * 3
    ) -> None:
        self.known, self.pending, self.fenced = known, pending, fenced

    def bound(self, thread: int, block: int, when: int, most: int = -1) -> int:
        """See `_Questions.bound`; everywhere, if not `most` is given."""
        if self.known is None:
            return 0
        if self.known.questions is None:
            self.known.questions = _Questions(self.known)
        return self.known.questions.bound(thread, block, when, most)


_NOTHING = State()


def _meet(states: list[State], common: State) -> State:
    """What all know who meet and had `common` before: whatever is newer has it in it."""

    def joined(parts: list[Know], old: Know) -> Know:
        newer = [part for part in parts if part is not old]
        return join(newer) if newer else old

    return State(
        joined([state.known for state in states], common.known),
        tuple(joined([state.pending[s] for state in states], common.pending[s]) for s in _SCOPES),
        tuple(joined([state.fenced[s] for state in states], common.fenced[s]) for s in _SCOPES),
    )  # fmt: skip


def _all_of(states: Sequence[State]) -> State:
    """What some have together."""
    return State(
        join(state.known for state in states),
        tuple(join(state.pending[s] for state in states) for s in _SCOPES),
        tuple(join(state.fenced[s] for state in states) for s in _SCOPES),
    )


class _Block:
    """The threads of one block: what they have in common, and those who have something of their own."""

    __slots__ = ("common", "own", "told")

    def __init__(self) -> None:
        self.common, self.told = _NOTHING, False
        self.own: dict[int, State] = {}

    def of(self, thread: int) -> State:
        return self.own.get(thread, self.common)

    def put(self, thread: int, state: State) -> None:
        self.own[thread] = state
        self.told |= state.known is not None


class _Place:
    """What was handed on at one address: for all, for those of one cluster, for those of one block."""

    __slots__ = ("handed", "joined", "owners", "writer")

    def __init__(self, writer: int) -> None:
        self.writer = writer
        self.owners: list[int] = [-1, -1, 0]
        self.handed: list[Know] = [None, None, None]
        self.joined: list[set[int]] = [set(), set(), set()]

    def add(self, scope: int, owner: int, given: Know) -> None:
        """Join what one more has handed on; another block or cluster that does so for itself begins anew."""
        if given is None:
            return
        if self.owners[scope] != owner:
            self.owners[scope], self.handed[scope], self.joined[scope] = owner, None, set()
        if id(given) not in self.joined[scope]:
            before = self.handed[scope]
            self.handed[scope] = given if before is None else Knowledge(earlier=(before, given))
            self.joined[scope].add(id(given))  # which `handed` keeps alive


@dataclass(slots=True)
class Who:
    """A thread at the moment that it does something.

    block: the number of its block in the launch; thread: its own in the block
    clock: its time; base: all that its block did below it is known to everyone in the block
    others: bounds that it has besides, by thread of the launch or (`cluster`) block
    """

    block: int
    thread: int
    clock: int
    base: int
    others: Mapping[int, int] = field(default_factory=dict)
    cluster: Mapping[int, int] = field(default_factory=dict)


class ReleaseAcquire:
    """Who knows what in one launch. One worker runs it, and says here what its threads do, as they do it.

    threads: of a block
    cluster: a number that is the same for the blocks of one cluster, by the number of a block
    """

    def __init__(self, threads: int, cluster: Callable[[int], int]) -> None:
        self.threads, self._cluster = threads, cluster
        self._blocks: dict[int, _Block] = {}
        self._places: dict[int, _Place] = {}
        self._arrived: dict[tuple[int, int], list[State]] = {}
        self._completed: dict[tuple[int, int], State] = {}
        self._last: tuple[tuple[Know, ...], Know] = (), None
        self._left: tuple[State, State, State] | None = None  # who goes on like another has the same afterwards

    def _block(self, block: int) -> _Block:
        found = self._blocks.get(block)
        if found is None:
            found = self._blocks[block] = _Block()
        return found

    def state(self, block: int, thread: int) -> State:
        """What a thread has."""
        found = self._blocks.get(block)
        return _NOTHING if found is None else found.of(thread)

    def end(self, block: int, start: int, stop: int) -> None:
        """A block is over, and what lay in its shared memory, from `start` to `stop`."""
        self._blocks.pop(block, None)
        for address in [address for address in self._places if start <= address < stop]:
            del self._places[address]
        for kept in (self._arrived, self._completed):
            for key in [key for key in kept if key[0] == block]:
                del kept[key]

    # ------------------------------------------------------------------ what one thread does
    def _own(self, who: Who, known: Know) -> Knowledge:
        """What a thread knows now, and what it did up to now."""
        blocks = {**who.cluster, who.block: who.base}
        threads = {**who.others, who.block * self.threads + who.thread: who.clock + 1}
        return Knowledge(blocks, threads, () if known is None else (known,))

    def _joined(self, *parts: Know) -> Know:
        """All of these together; threads that know the same and take over the same share it."""
        if len(parts) != len(self._last[0]) or any(a is not b for a, b in zip(parts, self._last[0], strict=True)):
            self._last = parts, join(parts)
        return self._last[1]

    def fence(self, who: Who, scope: int) -> None:
        """A fence. The thread's clock advances after it."""
        block = self._block(who.block)
        state = block.of(who.thread)
        reached = [s for s in _SCOPES if s <= scope]
        known = self._joined(state.known, *(state.pending[s] for s in reached))
        own = self._own(who, known)
        pending = tuple(None if s <= scope else state.pending[s] for s in _SCOPES)
        fenced = tuple(own if s <= scope else state.fenced[s] for s in _SCOPES)
        block.put(who.thread, State(known, pending, fenced))

    def write(self, who: Who, address: int, scope: int, *, releases: bool, updates: bool) -> None:
        """A strong write; `updates`: it has read the value from before, in the same step.

        Where it `releases`, the thread's clock advances after it.
        """
        state, number = self.state(who.block, who.thread), who.block * self.threads + who.thread
        before = self._places.get(address)
        now = self._own(who, state.known) if releases else None
        given = [now if now is not None and s <= scope else state.fenced[s] for s in _SCOPES]
        if before is None or not (updates or before.writer == number):
            if not any(given):
                self._places.pop(address, None)
                return
            before = self._places[address] = _Place(number)
        before.writer = number
        owners = (who.block, self._cluster(who.block), 0)
        for s in _SCOPES:
            if s <= scope:
                before.add(s, owners[s], given[s])

    def read(self, who: Who, address: int, scope: int, *, acquires: bool) -> None:
        """A strong read."""
        place = self._places.get(address)
        if place is None:
            return
        owners = (who.block, self._cluster(who.block), 0)
        found = [place.handed[s] if s <= scope and place.owners[s] == owners[s] else None for s in _SCOPES]
        if not any(found):
            return
        block = self._block(who.block)
        state = block.of(who.thread)
        if acquires:
            block.put(who.thread, State(join([state.known, *found]), state.pending, state.fenced))
        elif any(found[s] is not None and found[s] is not state.pending[s] for s in _SCOPES):
            pending = tuple(join([state.pending[s], found[s]]) for s in _SCOPES)
            block.put(who.thread, State(state.known, pending, state.fenced))

    def is_handed(self, address: int) -> bool:
        """Whether something was handed on there."""
        return address in self._places

    def has_fenced(self, block: int, thread: int) -> bool:
        """Whether a thread has something that its strong writes hand on."""
        return self.state(block, thread).fenced[BLOCK_SCOPE] is not None

    # ------------------------------------------------------------------ what threads do together
    def is_apart(self, block: int) -> bool:
        """Whether threads of a block know different things."""
        found = self._blocks.get(block)
        return found is not None and bool(found.own)

    def is_told(self, block: int) -> bool:
        """Whether a thread of a block knows anything."""
        found = self._blocks.get(block)
        return found is not None and found.told

    def barrier(self, block: int) -> None:
        """All threads of a block meet."""
        found = self._blocks.get(block)
        if found is not None and found.own:
            found.common = _meet(list(found.own.values()), found.common)
            found.own = {}

    def warp(self, block: int, threads: Iterable[int]) -> None:
        """Some threads of a warp meet, and their accesses up to now are known to each other already."""
        found = self._blocks.get(block)
        if found is None or not found.own:
            return
        who = list(threads)
        met = _meet([found.of(thread) for thread in who], found.common)
        for thread in who:
            found.put(thread, met)

    def cluster(self, blocks: Iterable[int]) -> None:
        """All threads of some blocks meet, and what they did up to now is known to each other already."""
        those = [self._block(block) for block in blocks]
        for block in those:
            if block.own:
                block.common, block.own = _meet(list(block.own.values()), block.common), {}
        met = _meet([block.common for block in those], _NOTHING)
        for block in those:
            block.common, block.told = met, block.told or met.known is not None

    def arrive(self, lanes: Iterable[Who], number: int) -> None:
        """Threads of one warp come to a named barrier. Their clocks advance after it."""
        come = list(lanes)
        states = [self.state(who.block, who.thread) for who in come]
        blocks: dict[int, int] = {}
        threads: dict[int, int] = {}
        for who in come:
            own = self._own(who, None)
            _raise(blocks, own.blocks)
            _raise(threads, own.threads)
        known = {id(state.known): state.known for state in states if state.known is not None}
        together = Knowledge(blocks, threads, tuple(known.values()))
        met = _all_of(states)
        here = State(together, met.pending, met.fenced)
        self._arrived.setdefault((come[0].block, number), []).append(here)

    def complete(self, block: int, number: int) -> None:
        """All have come to a named barrier."""
        self._completed[block, number] = _all_of(self._arrived.pop((block, number), []))

    def leave(self, block: int, thread: int, number: int) -> None:
        """A thread goes on that has waited at a named barrier."""
        found, completed = self._block(block), self._completed[block, number]
        before = found.of(thread)
        if self._left is None or self._left[0] is not before or self._left[1] is not completed:
            self._left = before, completed, _all_of((before, completed))
        found.put(thread, self._left[2])

    # ------------------------------------------------------------------ questions
    def alike(self, block: int, state: State) -> list[int]:
        """The threads of a block that have this and nothing else."""
        found = self._block(block)
        if found.common is state:
            return [thread for thread in range(self.threads) if thread not in found.own]
        return [thread for thread, own in found.own.items() if own is state]
