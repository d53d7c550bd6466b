"""The function of one thread on the host, being built: a coroutine where its threads may wait, else plain.

It is as much of the emitter's target as does not depend on where the code comes from: waiting, exchanging words with
the lanes of a warp, faults, and leaving.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

from llvmlite import ir as llvm

from kaio import host_abi as abi
from kaio.dsl.compiler.emission.arguments import argument_types
from kaio.dsl.compiler.emission.checks import Checks, Sites
from kaio.dsl.compiler.emission.declared import call
from kaio.dsl.compiler.emission.dynamic import Inputs
from kaio.dsl.compiler.host.host_context import (
    I1,
    I8,
    I32,
    I64,
    POINTER,
    POSITIONS,
    REGISTERS,
    VOID,
    fault_recorder,
    field_of,
    frame_of,
)  # fmt: skip
from kaio.dsl.compiler.host.host_exchange import Peers, own_word
from kaio.dsl.compiler.host.host_turns import Turns, note_progress
from kaio.errors import InternalError, Place
from kaio.program import Build, Site

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter
    from kaio.dsl.compiler.loop_nest import Loop

__all__ = ["Thread"]


_FEW = 64  # turns of a loop in another that are not worth the counting


class _Token(llvm.Type):
    """LLVM's token type, which llvmlite does not have."""

    def _to_string(self) -> str:
        return "token"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Token)

    def __hash__(self) -> int:
        return hash(_Token)


_NONE = llvm.FormattedConstant(_Token(), "none")


class Thread(Checks):
    """The function of one thread.

    waits: whether it may wait for others, and is a coroutine; a `stepped` build is one always
    spins: whether a loop in it may wait for what another thread writes
    """

    name: Literal["host"] = "host"

    def __init__(
        self,
        module: llvm.Module,
        name: str,
        sites: Sites,
        inputs: Inputs,
        *,
        waits: bool,
        build: Build,
        spins: bool = False,
    ) -> None:
        self.module, self.function_name, self.sites, self.inputs = module, name, sites, inputs
        self.waits, self.spins, self.build, self.checks = waits, spins, build, build.check != "off"
        self.turns, self.shared_nbytes = Turns(self), 0
        self.registers: dict[str, llvm.Value] = {}
        self._exit_blocks: dict[str, int] = {}
        self._wait_blocks: dict[str, int] = {}

    def begin(self) -> None:
        """Make the function; the builder `b` stands in its entry."""
        parameters = argument_types(self.inputs.types)
        lead = [POINTER, I32, *[I32] * 12, POINTER]
        kind = llvm.FunctionType(POINTER if self.waits else VOID, [*lead, *parameters])
        self.function = function = llvm.Function(self.module, kind, self.function_name)
        function.linkage = "internal"
        self.context, self.thread, *registers, self.shared_start = function.args[: len(lead)]
        self.arguments = list(function.args[len(lead) :])
        self.context.name, self.thread.name, self.shared_start.name = "context", "thread", "shared"
        for name, value in zip((*POSITIONS, *REGISTERS), registers, strict=True):
            value.name = name
            self.registers[name] = value
        self.b = llvm.IRBuilder(function.append_basic_block("entry"))
        if self.waits:
            self._begin_coroutine()
        else:
            function.attributes.add("alwaysinline")
        self._leave = function.append_basic_block("leave")

    def finish(self) -> None:
        """End the function; all of its blocks are there."""
        self.b.position_at_end(self._leave)
        if self.waits:
            call(self.b, "llvm.coro.end", VOID, [self._handle, I1(0), _NONE])
            self.b.ret(self._handle)
            self._find_reach()
        else:
            self.b.ret_void()

    def _begin_coroutine(self) -> None:
        b = self.b
        # llvmlite does not know these attributes. A jump table costs a resume twice what compares cost.
        set.update(self.function.attributes, ("presplitcoroutine", '"no-jump-tables"="true"'))
        self.function.attributes.add("noinline")
        null = llvm.Constant(POINTER, None)
        identity = call(b, "llvm.coro.id", _Token(), [I32(abi.FRAME_ALIGNMENT), null, null, null])
        nbytes = call(b, "llvm.coro.size.i64", I64, [])
        frames = b.load(field_of(b, self.context, abi.FRAMES, I64))
        with b.if_then(b.icmp_unsigned("==", frames, I64(0))):
            b.store(nbytes, field_of(b, self.context, abi.FRAME_NBYTES, I64))
            b.ret(null)
        frame = frame_of(b, frames, nbytes, self.thread)
        # The handle is returned: a coroutine that returns nothing is elided, with its resume function.
        self._handle = call(b, "llvm.coro.begin", POINTER, [identity, frame])
        words = b.load(field_of(b, self.context, abi.WORDS, POINTER))
        self._words = b.gep(words, [b.mul(b.zext(self.thread, I64), I64(4))])

    # -------------------------------------------------------------- what every thread has
    def special_register(self, e: Emitter, register: str, axis: str) -> llvm.Value:
        """`tid`, `ntid`, `ctaid`, `nctaid`: parameters of the function."""
        return self.registers[f"{register}.{axis}"]

    def alone(self, e: Emitter) -> llvm.Value:
        """i1, at run time: no other worker runs this launch.

        Threads change only where they wait, so then a plain update is an atomic one.
        """
        return e.b.icmp_unsigned("!=", e.b.load(field_of(e.b, self.context, abi.ALONE, I32)), I32(0))

    # -------------------------------------------------------------- faults
    def fault(self, e: Emitter, site: Site, index: llvm.Value | None = None, size: llvm.Value | None = None) -> None:
        """Record a fault and leave; ends the current block."""
        wide = [I64(0) if v is None else v if v.type == I64 else e.b.sext(v, I64) for v in (index, size)]
        e.b.call(fault_recorder(self.module), [self.context, self.thread, I32(self.sites.number(site)), *wide])
        self.abandon(e)

    def abandon(self, e: Emitter) -> None:
        """Leave, as a fault was recorded; ends the current block."""
        if self.waits:
            e.b.store(I32(abi.FAULTED), self._word(e.b, abi.STATE))
        e.b.branch(self._leave)

    # -------------------------------------------------------------- loops
    def go_round(self, e: Emitter, place: Place, loop: Loop) -> None:
        """A turn is counted, if not where it began; a loop that spins lets the others go on."""
        site = Site("pause" if loop.spins else "loop", place, e.trace, "loop")
        if not self.build.counted:
            self.turns.count_one(e, site)
        if loop.spins:
            self.turns.pause(e, site)

    def begin_turn(self, e: Emitter, place: Place) -> None:
        """With fuel every turn is counted here, so that the one too many does nothing."""
        if self.build.counted:
            self.turns.count_one(e, Site("loop", place, e.trace, "loop"))

    def begin_loop(self, e: Emitter, place: Place, is_inner: bool, turns: Callable[[], llvm.Value | int]) -> None:
        """All turns are counted at once, of a loop in another.

        Else it ends in a while, and LLVM may make vectors of several threads.
        """
        if self.build.counted or not (is_inner or self.build.stepped):
            return
        many = turns()
        if not isinstance(many, int) or many > _FEW or self.build.stepped:
            self.turns.take(e, Site("loop", place, e.trace, "loop"), I64(many) if isinstance(many, int) else many)

    # -------------------------------------------------------------- leaving and waiting
    def leave(self, e: Emitter) -> None:
        """The kernel returns; the scheduler learns through which exit."""
        if self.spins:
            note_progress(e.b, self.context)
        if self.waits:
            number = self.exit_of(e.place)
            e.b.store(I32(-1 - number), self._word(e.b, abi.STATE))
            self._exit_blocks[e.b.block.name] = number
        e.b.branch(self._leave)

    def exit_of(self, place: Place) -> int:
        """The number of the exit at a place, 0 to `host_abi.MAX_EXITS`."""
        raise NotImplementedError

    def suspend(self, e: Emitter, kind: str, text: str = "", words: int = 0) -> None:
        """Wait here until the scheduler resumes this thread; `kind`, `text` and `words` are those of a `Site`."""
        if self.spins and kind != "pause":
            note_progress(e.b, self.context)
        self.wait_at(e, Site(kind, e.place, e.trace, text, words=words))

    def wait_at(self, e: Emitter, site: Site) -> None:
        """Wait at a site."""
        number = self.sites.number(site)
        e.b.store(I32(number), self._word(e.b, abi.STATE))
        state = e.call("llvm.coro.suspend", I8, [_NONE, I1(0)])
        resumed = e.block("resumed")
        self._wait_blocks[e.b.block.name] = number
        switch = e.b.switch(state, self._leave)
        switch.add_case(I8(0), resumed)
        e.b.position_at_end(resumed)
        self.resumed(e)

    def resumed(self, e: Emitter) -> None:
        """The thread goes on that has waited: what others may have changed is read again."""

    def exchange(
        self,
        e: Emitter,
        words: Sequence[llvm.Value],
        mask: llvm.Value | None = None,
        what: str = "",
        kind: str = "",
    ) -> Peers:
        """Give i32 words, and wait until all lanes of `mask` have: they are at the same place with the same mask.

        Lanes that have returned are not waited for. Without a mask all lanes of the warp take part that have not.
        `what` is the operation, as a fault names it. `kind` is another kind of site: at ``warp_sync`` lanes meet others
        that are at any such site, at ``warp_any`` those who can come.
        """
        if len(words) > abi.MOST_WORDS:
            raise InternalError(f"`{what}` exchanges {len(words)} words; {abi.MOST_WORDS} is the most")
        self.give(e, words)
        if mask is not None:
            e.b.store(mask, self._word(e.b, abi.MASK))
        self.suspend(e, (kind or "warp") + ("_all" if mask is None else ""), what, len(words))
        members = e.b.load(field_of(e.b, self.context, abi.MEMBERS, I32))
        return Peers(e.b, self.context, members, e.b.and_(self.thread, I32(31)))

    def give(self, e: Emitter, words: Sequence[llvm.Value]) -> None:
        """Leave i32 words for the scheduler."""
        for k, word in enumerate(words):
            e.b.store(word, self._word(e.b, abi.GIVEN + k))

    def field(self, e: Emitter, offset: int, index: llvm.Value | None = None) -> llvm.Value:
        """An i32 of the block's context (`host_abi`), of an array there the one at `index`."""
        return e.b.load(self._field(e.b, offset, index))

    def set_field(self, e: Emitter, offset: int, index: llvm.Value, value: llvm.Value) -> None:
        """Set an element of an array in the block's context."""
        e.b.store(value, self._field(e.b, offset, index))

    def _field(self, b: llvm.IRBuilder, offset: int, index: llvm.Value | None) -> llvm.Value:
        pointer = field_of(b, self.context, offset, I32)
        return pointer if index is None else b.gep(pointer, [b.zext(index, I64)])

    def word(self, e: Emitter, word: int) -> llvm.Value:
        """The address of one of the thread's words (`host_abi`), also where it never waits."""
        words = e.b.load(field_of(e.b, self.context, abi.WORDS, POINTER))
        return own_word(e.b, e.b.gep(words, [e.b.mul(e.b.zext(self.thread, I64), I64(4))]), word)

    def linear_thread(self, e: Emitter) -> llvm.Value:
        """The thread's number in its block."""
        return self.thread

    def check_lane(self, e: Emitter, holds: llvm.Value, lane: llvm.Value, peers: Peers, what: str) -> None:
        """One branch: the lane that is read has given something."""
        if self.checks:
            with self.unless(e, holds):
                self.fault(e, Site("lane", e.place, e.trace, what), lane, e.b.zext(peers.members, I64))

    def _word(self, b: llvm.IRBuilder, word: int) -> llvm.Value:
        return own_word(b, self._words, word)

    def _find_reach(self) -> None:
        """Which exits can be reached from each wait: a thread that left through the only one went round the barrier."""
        follow = {block.name: _successors(block, self._leave) for block in self.function.blocks}
        for start, number in self._wait_blocks.items():
            seen: set[str] = set()
            todo = list(follow[start])
            while todo:
                name = todo.pop()
                if name not in seen:
                    seen.add(name)
                    todo += follow[name]
            exits = {self._exit_blocks[name] for name in seen & self._exit_blocks.keys()}
            mask = sum(1 << number for number in exits)
            self.sites.reach(number, mask | (abi.MIXED if abi.MAX_EXITS in exits else 0))


def _successors(block: llvm.Block, leave: llvm.Block) -> list[str]:
    terminator = block.terminator
    if terminator is None:
        return []
    if isinstance(terminator, llvm.instructions.SwitchInstr):
        return [to.name for _, to in terminator.cases]
    return [o.name for o in terminator.operands if isinstance(o, llvm.Block) and o is not leave]
