"""The function of one thread as it is written, to be looked at: where it comes to memory, and where it meets others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from llvmlite import ir as llvm

from kaio import host_abi as abi
from kaio.dsl.compiler import ir
from kaio.dsl.compiler.emission.access import Access
from kaio.dsl.compiler.emission.checks import Sites
from kaio.dsl.compiler.emission.orders import Orders
from kaio.dsl.compiler.host.host_body import Body
from kaio.dsl.compiler.host.host_context import I32, field_of
from kaio.dsl.compiler.host.host_exchange import Peers
from kaio.dsl.values import ArrayType
from kaio.errors import Place
from kaio.program import UNCHECKED, Site

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaio.dsl.compiler.emission.emit import Emitter
    from kaio.dsl.compiler.loop_nest import Loop

__all__ = ["Outline", "Unseen"]


class Unseen(Exception):
    """Threads wait for others in a way that an outline does not have."""


class Outline(Body):
    """The function without checks and without waiting. It is never run, so what a wait gives is any value of memory.

    accesses: block, address and what is done there
    meetings: blocks in which threads wait for others, or do something that orders what they do
    locals: the arrays of the thread's own
    ranges: the number that a loop is at, and the first one, the end and the step
    fault_blocks: blocks that end the thread with a fault
    """

    def __init__(self, typed: ir.Typed, *, contract: bool) -> None:
        super().__init__(llvm.Module("outline"), typed, "outline", Sites(), build=UNCHECKED, contract=contract)
        self.waits = False
        self.accesses: list[tuple[llvm.Block, llvm.Value, Access]] = []
        self.meetings: list[llvm.Block] = []
        self.locals: list[llvm.Value] = []
        self.ranges: list[tuple[llvm.Value, llvm.Value, llvm.Value, llvm.Value]] = []
        self.fault_blocks: list[llvm.Block] = []
        self.orders = _Noted(self.meetings)

    def touch(self, e: Emitter, pointer: llvm.Value, access: Access) -> None:
        """Note it."""
        self.accesses.append((e.b.block, pointer, access))

    def local(self, e: Emitter, array: ArrayType, name: str) -> llvm.Value:
        """Note whose memory it is."""
        pointer = super().local(e, array, name)
        self.locals.append(pointer.operands[0])
        return pointer

    def suspend(self, e: Emitter, kind: str, text: str = "", words: int = 0) -> None:
        """Note a barrier of the block."""
        if kind not in ("barrier", "whole"):
            raise Unseen
        self.meetings.append(e.b.block)

    def exchange(
        self,
        e: Emitter,
        words: Sequence[llvm.Value],
        mask: llvm.Value | None = None,
        what: str = "",
        kind: str = "",
    ) -> Peers:
        """Note an operation of the warp."""
        self.meetings.append(e.b.block)
        members = e.b.load(field_of(e.b, self.context, abi.MEMBERS, I32))
        return Peers(e.b, self.context, members, e.b.and_(self.thread, I32(31)))

    def give(self, e: Emitter, words: Sequence[llvm.Value]) -> None:
        """Nobody takes it."""

    def fault(self, e: Emitter, site: Site, index: Any = None, size: Any = None) -> None:
        """Note where a thread ends."""
        self.fault_blocks.append(e.b.block)
        super().fault(e, site, index, size)

    def note_range(
        self, e: Emitter, value: llvm.Value, start: llvm.Value, stop: llvm.Value, step: llvm.Value, is_signed: bool
    ) -> None:
        """Note a loop over a range of signed numbers."""
        if is_signed:
            self.ranges.append((value, start, stop, step))

    def go_round(self, e: Emitter, place: Place, loop: Loop) -> None:
        """Nobody counts."""

    def begin_loop(self, e: Emitter, place: Place, is_inner: bool, turns: Callable[[], llvm.Value | int]) -> None:
        """Nobody counts."""


class _Noted(Orders):
    """Notes where asynchronous copies are told apart; what else orders threads, an outline is not asked for."""

    def __init__(self, meetings: list[llvm.Block]) -> None:
        self._meetings = meetings

    def commit_copies(self, e: Emitter) -> None:
        """A group ends here."""
        self._meetings.append(e.b.block)

    def wait_for_copies(self, e: Emitter, groups: int) -> None:
        """And is waited for here."""
        self._meetings.append(e.b.block)
