"""What native code tells of fences, flags, locks and named barriers during a launch, and asks of them.

The numbers are in `kaio/order_abi.py`, what they mean is in `release_acquire.py`. One worker runs such a launch, and
calls here in the middle of a block; what is asked for often is left in the words of the threads.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import TYPE_CHECKING

from kaio import host_abi
from kaio import order_abi as abi
from kaio import shadow_abi as shadow
from kaio.errors import InternalError
from kaio.runtime.release_acquire import ReleaseAcquire, State, Who

if TYPE_CHECKING:
    from kaio.runtime.host_record import Record

__all__ = ["LaunchOrdering"]

Dim3 = tuple[int, int, int]
_I32 = ctypes.c_int32
_FUNCTION = ctypes.CFUNCTYPE(_I32, ctypes.c_void_p, _I32, _I32, ctypes.c_int64, _I32)
_STRIDE = host_abi.WORD_STRIDE
_WORDS = host_abi.WORD_COUNT * _STRIDE
_CONTEXT = host_abi.CONTEXT_NBYTES // 4
_BASE, _APART, _TOLD, _TELLING = shadow.BASE // 4, abi.APART // 4, abi.TOLD // 4, abi.TELLING // 4
_FEW = 64  # pieces of knowledge that are looked at where the answer need not be found


class LaunchOrdering:
    """Who is told, and answers, during one launch."""

    def __init__(self, record: Record, slots: int, grid: Dim3, threads: int, cluster: Dim3, shared_nbytes: int) -> None:
        self._threads, self._grid, self._cluster = threads, grid, cluster
        self._context = memoryview(record.context.view).cast("i")
        self._numbers = memoryview(record.context.view).cast("q")
        self._words = memoryview(record.words.view).cast("i")
        self._start, self._shared = record.context.address, record.shared.address
        self._blocks = [-1] * slots
        self._shared_nbytes = shared_nbytes
        self._order = ReleaseAcquire(threads, self._cluster_of)
        self._does: dict[int, Callable[[int, int, int, int, int], int | None]] = {
            abi.FENCE: self._fence, abi.ACCESS: self._access, abi.BARRIER: self._barrier, abi.WARP: self._warp,
            abi.CLUSTER: self._meet_cluster, abi.ARRIVE: self._arrive, abi.LEAVE: self._leave, abi.KNOWS: self._knows,
            abi.SEES: self._sees,
        }  # fmt: skip
        self._function = _FUNCTION(self._told)
        self._failure: BaseException | None = None

    def prepare(self) -> None:
        """Say to the first context, from which all others are made, whom to tell."""
        self._numbers[abi.ORDER // 8] = ctypes.cast(self._function, ctypes.c_void_p).value or 0

    def check(self) -> None:
        """Raise InternalError if something went wrong here while native code was running."""
        if self._failure is not None:
            raise InternalError(f"what orders threads could not be kept: {self._failure!r}") from self._failure

    def _told(self, context: int, kind: int, thread: int, a: int, b: int) -> int:
        try:
            slot = (context - self._start) // host_abi.CONTEXT_NBYTES
            block = self._numbers[(slot * host_abi.CONTEXT_NBYTES + host_abi.BLOCK) // 8]
            if self._blocks[slot] != block:
                self._begin(slot, block)
            return self._does[kind](slot, block, thread, a, b) or 0
        except BaseException as problem:  # it would be lost in native code
            self._failure = self._failure or problem
            return 1

    def _begin(self, slot: int, block: int) -> None:
        """The block that had this slot before is over."""
        start = self._shared + slot * self._shared_nbytes
        self._order.end(self._blocks[slot], start, start + self._shared_nbytes)
        self._blocks[slot] = block

    def _cluster_of(self, block: int) -> int:
        """A number that is the same for the blocks of one cluster."""
        (width, height, _), (x, y, z) = self._grid, self._cluster
        across, down = width // x, height // y
        return block % width // x + across * (block // width % height // y + down * (block // width // height // z))

    # ------------------------------------------------------------------ threads
    def _word(self, slot: int, word: int, thread: int) -> int:
        return slot * _WORDS + word * _STRIDE + thread

    def _who(self, slot: int, block: int, thread: int, clock: int | None = None) -> Who:
        words, base = self._words, self._context[slot * _CONTEXT + _BASE]
        first = self._word(slot, shadow.KNOWN, thread)
        lanes = words[first : first + 32 * _STRIDE : _STRIDE].tolist()
        number = block * self._threads + thread // 32 * 32
        others = {number + lane: known + 1 for lane, known in enumerate(lanes) if known >= base}
        met = self._context[slot * _CONTEXT + abi.MET_CLUSTER // 4]
        cluster = dict.fromkeys(self._partners(slot), met) if met else {}
        now = words[self._word(slot, shadow.CLOCK, thread)] if clock is None else clock
        return Who(block, thread, now, base, others, cluster)

    def _partners(self, slot: int) -> list[int]:
        """The blocks of the cluster of one."""
        blocks = self._cluster[0] * self._cluster[1] * self._cluster[2]
        first = slot - slot % blocks
        places = range(first, first + blocks)
        return [self._numbers[(at * host_abi.CONTEXT_NBYTES + host_abi.BLOCK) // 8] for at in places]

    def _pass(self, slot: int, thread: int) -> None:
        """Time passes for a thread that has told something."""
        at = self._word(slot, shadow.CLOCK, thread)
        self._context[slot * _CONTEXT + _TELLING] = max(self._context[slot * _CONTEXT + _TELLING], self._words[at])
        self._words[at] += 1

    def _part(self, slot: int, block: int) -> None:
        """Say to native code whether threads of a block know different things, and whether they were told any."""
        self._context[slot * _CONTEXT + _APART] = self._order.is_apart(block)
        self._context[slot * _CONTEXT + _TOLD] = self._order.is_told(block)

    def _fence(self, slot: int, block: int, thread: int, a: int, b: int) -> None:
        self._order.fence(self._who(slot, block, thread), b)
        self._pass(slot, thread)
        self._part(slot, block)

    def _access(self, slot: int, block: int, thread: int, a: int, b: int) -> None:
        scope, reads, writes, order = b & 15, b & abi.READS != 0, b & abi.WRITES != 0, self._order
        if reads and order.is_handed(a):
            order.read(self._who(slot, block, thread), a, scope, acquires=b & abi.ACQUIRES != 0)
        if writes:
            releases = b & abi.RELEASES != 0
            if releases or order.is_handed(a) or order.has_fenced(block, thread):
                order.write(self._who(slot, block, thread), a, scope, releases=releases, updates=reads)
            if releases:
                self._pass(slot, thread)
        self._part(slot, block)

    # ------------------------------------------------------------------ threads together
    def _barrier(self, slot: int, block: int, thread: int, a: int, b: int) -> None:
        self._order.barrier(block)
        self._part(slot, block)

    def _warp(self, slot: int, block: int, thread: int, a: int, b: int) -> None:
        self._order.warp(block, (thread + lane for lane in range(32) if b >> lane & 1))

    def _meet_cluster(self, slot: int, block: int, thread: int, a: int, b: int) -> None:
        self._order.cluster(self._partners(slot))
        for at in range(slot, slot + len(self._partners(slot))):
            self._part(at, self._blocks[at])

    def _arrive(self, slot: int, block: int, thread: int, a: int, b: int) -> None:
        first = thread - thread % 32
        come = [first + lane for lane in range(32) if a >> lane & 1]
        times = [self._words[self._word(slot, abi.ARRIVED, each)] for each in come]
        self._context[slot * _CONTEXT + _TELLING] = max(self._context[slot * _CONTEXT + _TELLING], *times)
        self._order.arrive((self._who(slot, block, each, now) for each, now in zip(come, times, strict=True)), b)
        if a & abi.COMPLETES:
            self._order.complete(block, b)
        self._part(slot, block)

    def _leave(self, slot: int, block: int, thread: int, a: int, b: int) -> None:
        self._order.leave(block, thread, b)
        self._part(slot, block)

    # ------------------------------------------------------------------ questions
    def _knows(self, slot: int, block: int, thread: int, a: int, b: int, most: int = -1) -> int:
        other_block = a // self._threads
        state = self._order.state(block, thread)
        bound = state.bound(a, other_block, b, most)
        if bound <= b:
            return 0
        if other_block == block:
            self._keep_warp(slot, block, state, a)
        else:
            self._words[self._word(slot, abi.KNOWN_BLOCK, thread)] = other_block
            self._words[self._word(slot, abi.KNOWN_BOUND, thread)] = state.bound(-1, other_block, b, 0)
        return 1

    def _sees(self, slot: int, block: int, thread: int, a: int, b: int) -> int:
        return self._knows(slot, block, thread, a, b, _FEW)

    def _keep_warp(self, slot: int, block: int, state: State, other: int) -> None:
        """Leave with all threads that know the same what they know of a whole warp, as far as that was found."""
        warp = (other - block * self._threads) // 32
        lanes = range(32 * warp, min(32 * warp + 32, self._threads))
        bound = min(state.bound(block * self._threads + lane, block, 0, 0) for lane in lanes)
        if bound > self._context[slot * _CONTEXT + _BASE]:
            for thread in self._order.alike(block, state):
                self._words[self._word(slot, abi.KNOWN_WARPS + warp, thread)] = bound
