"""A kernel's function that is to be split at its barriers; what `fission` must know of it is noted meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from llvmlite import ir as llvm

from kaio import host_abi as abi
from kaio.dsl.compiler import ir
from kaio.dsl.compiler.emission.access import Access
from kaio.dsl.compiler.emission.checks import Sites
from kaio.dsl.compiler.emission.constant_arrays import ConstantArrays
from kaio.dsl.compiler.host.fission import fission
from kaio.dsl.compiler.host.fission_regions import Refused
from kaio.dsl.compiler.host.host_body import Body
from kaio.dsl.compiler.host.host_context import I8, I32, I64
from kaio.dsl.compiler.host.host_exchange import ROW_NBYTES, Peers
from kaio.dsl.compiler.host.prove import Prover
from kaio.dsl.compiler.host.strip_loops import Counted
from kaio.errors import Place
from kaio.program import Build, Site

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter
    from kaio.dsl.compiler.loop_nest import Loop

__all__ = ["SplitBody"]

_EVERY = 0xFFFFFFFF


class SplitBody(Body):
    """The function of one thread, in which a barrier, and where a warp exchanges words, is the end of a block.

    strip: how many threads side by side are done together; 16 are of f32 one vector of AVX-512, 32 a warp
    `run` is the function of a whole block that is made of it.
    """

    run: llvm.Function

    def __init__(
        self,
        module: llvm.Module,
        typed: ir.Typed,
        name: str,
        sites: Sites,
        *,
        build: Build,
        contract: bool,
        prover: Prover | None,
        constants: ConstantArrays,
    ) -> None:
        super().__init__(module, typed, name, sites, build=build, contract=contract, prover=prover, constants=constants)
        self.waits = False
        self.strip = 16
        # What a strip knows is no parameter: a thread's lane, and where its first thread is.
        self.lane = llvm.Argument(module, I32, "lane")
        self._first = [llvm.Argument(module, I32, "first") for _ in range(2)]
        self.counted: list[Counted] = []
        self.long: dict[int, Site] = {}  # of blocks that lead back to the head of a loop
        self.barriers: list[llvm.Block] = []
        self.pauses: list[llvm.Block] = []
        self.rows: list[llvm.Value] = []
        self.row_reads: list[llvm.Value] = []
        self.fault_blocks: list[llvm.Block] = []
        self.serial_blocks: list[llvm.Block] = []

    @property
    def first_places(self) -> dict[int, llvm.Value]:
        """What stands for `tid.x` and the thread's number of the first thread of a strip."""
        return dict(zip((id(self.registers["tid.x"]), id(self.thread)), self._first, strict=True))

    def split(self, *, in_strips: bool) -> bool:
        """Emit it, and put `run` in its place; False, and nothing left of it, where it cannot be split."""
        try:
            self.emit()
            self._remove(self.function_name)
            self.run = fission(self, in_strips=in_strips)
        except Refused:
            for name in list(self.module.globals):
                if name == self.function_name or name.startswith(f"{self.function_name}."):
                    self._remove(name)
            return False
        return True

    def _remove(self, name: str) -> None:
        del self.module.globals[name]

    def touch(self, e: Emitter, pointer: llvm.Value, access: Access) -> None:
        """Note what other threads see in order, and what is done later: it keeps its order."""
        super().touch(e, pointer, access)
        if access.is_strong or access.how == "async":
            self.serial_blocks.append(e.b.block)

    def fault(self, e: Emitter, site: Site, index: llvm.Value | None = None, size: llvm.Value | None = None) -> None:
        """Note where a thread ends."""
        self.fault_blocks.append(e.b.block)
        super().fault(e, site, index, size)

    def go_round(self, e: Emitter, place: Place, loop: Loop) -> None:
        """Only a thread by itself counts the turns of a loop that may never end. At a barrier is progress.

        Loops that end each for itself may in each other take for ever: those of many turns look up.
        """
        if not (loop.waits or loop.is_short):
            raise Refused("a loop may never end")
        if not loop.waits and loop.turns > abi.MOST_TURNS:
            self.long[id(e.b.block)] = Site("loop", place, e.trace, "loop")

    def begin_loop(self, e: Emitter, place: Place, is_inner: bool, turns: Callable[[], llvm.Value | int]) -> None:
        """It ends in a while."""

    def note_range(
        self, e: Emitter, value: llvm.Value, start: llvm.Value, stop: llvm.Value, step: llvm.Value, is_signed: bool
    ) -> None:
        """Note a loop over a range that goes up."""
        super().note_range(e, value, start, stop, step, is_signed)
        if isinstance(step, llvm.Constant):
            goes_up = 0 < step.constant < 2**31
        else:
            goes_up = self.prover is not None and self.prover.takes_positive(step)
        if is_signed and goes_up:
            self.counted.append((value, start, stop, step))

    def suspend(self, e: Emitter, kind: str, text: str = "", words: int = 0) -> None:
        """Note where all threads wait."""
        if kind not in ("barrier", "whole") or words:
            raise Refused(f"threads wait at `{text}`")
        self._end_block(e, self.barriers)

    def exchange(
        self,
        e: Emitter,
        words: Sequence[llvm.Value],
        mask: llvm.Value | None = None,
        what: str = "",
        kind: str = "",
    ) -> Peers:
        """All lanes of a warp leave their words in rows of their strip, and read them when the last one has."""
        if kind == "warp_any" or (mask is not None and getattr(mask, "constant", None) not in (_EVERY, -1)):
            raise Refused(f"`{what}` is of some lanes")
        self.strip = 32
        with e.b.goto_entry_block():
            # Where a context has them, so that what reads them of a context does it here, too.
            rows = e.b.alloca(llvm.ArrayType(I8, abi.TAKEN + ROW_NBYTES * len(words)), name="rows")
            rows.align = 128
        self.rows.append(rows)
        context = e.b.gep(rows, [I32(0), I32(0)], inbounds=True)
        peers = _StripPeers(e.b, context, I32(_EVERY), self.lane, self.row_reads)
        for k, word in enumerate(words):
            e.b.store(word, peers.place(k, self.lane))
        self._end_block(e, self.pauses)
        return peers

    def give(self, e: Emitter, words: Sequence[llvm.Value]) -> None:
        """There is no scheduler to give it to."""
        raise Refused("threads count something")

    def check_lane(self, e: Emitter, holds: llvm.Value, lane: llvm.Value, peers: Peers, what: str) -> None:
        """All lanes take part."""

    def _end_block(self, e: Emitter, ends: list[llvm.Block]) -> None:
        ends.append(e.b.block)
        resumed = e.block("resumed")
        e.b.branch(resumed)
        e.b.position_at_end(resumed)


@dataclass(frozen=True)
class _StripPeers(Peers):
    """The words of a warp that is a strip, in rows of its own."""

    reads: list[llvm.Value]

    def place(self, k: int, lane: llvm.Value) -> llvm.Value:
        """Where a lane's word `k` is."""
        return self.b.gep(self.b.bitcast(self._row(k), I32.as_pointer()), [self.b.zext(lane, I64)], inbounds=True)

    def word(self, k: int, lane: llvm.Value) -> llvm.Value:
        """The i32 that a lane has given."""
        return self._read(self.b.load(self.place(k, lane)))

    def all(self, k: int) -> llvm.Value:
        """Word `k` of every lane."""
        return self._read(super().all(k))

    def _read(self, load: llvm.Value) -> llvm.Value:
        self.reads.append(load)
        return load
