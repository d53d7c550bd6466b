"""A kernel's function on the host: a coroutine where its threads may wait, else plain. It is the emitter's target."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Literal

from llvmlite import ir as llvm

from kaio import host_abi as abi
from kaio.dsl.compiler import ir
from kaio.dsl.compiler.emission.access import Access
from kaio.dsl.compiler.emission.arguments import argument_types
from kaio.dsl.compiler.emission.constant_arrays import ConstantArrays
from kaio.dsl.compiler.emission.declared import call
from kaio.dsl.compiler.emission.dynamic import Inputs
from kaio.dsl.compiler.emission.emit import Emitter
from kaio.dsl.compiler.emission.print_ring import Lines
from kaio.dsl.compiler.emission.scalars import alignment, nbytes
from kaio.dsl.compiler.emission.target import BufferValue
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
from kaio.dsl.compiler.host.prove import Prover
from kaio.dsl.intrinsic import Intrinsic
from kaio.dsl.values import ArrayType
from kaio.errors import InternalError, Place
from kaio.print_abi import Line
from kaio.program import Site, aligned
from kaio.source import Source

__all__ = ["Body", "Sites"]


class Sites:
    """The numbered sites of a program, and the lines it prints.

    One source place has one number, however often it is emitted. 0 is no site.
    """

    def __init__(self) -> None:
        self.found = [Site("none", Place("", 0))]
        self._numbers: dict[Site, int] = {}
        self.prints = Lines()

    def number(self, site: Site) -> int:
        """The number of a site, a new one where it was not seen before."""
        if site not in self._numbers:
            self._numbers[site] = len(self.found)
            self.found.append(site)
        return self._numbers[site]

    def reach(self, number: int, exits: int) -> None:
        """These exits, too, can be reached from that site."""
        self.found[number] = replace(self.found[number], reach=self.found[number].reach | exits)


class _Token(llvm.Type):
    """LLVM's token type, which llvmlite does not have."""

    def _to_string(self) -> str:
        return "token"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Token)

    def __hash__(self) -> int:
        return hash(_Token)


_NONE = llvm.FormattedConstant(_Token(), "none")


class Body:
    """A kernel's function being built, and the target that the emitter asks."""

    name: Literal["host"] = "host"

    def __init__(
        self,
        module: llvm.Module,
        typed: ir.Typed,
        name: str,
        sites: Sites,
        *,
        check: bool,
        contract: bool,
        prover: Prover | None = None,
        constants: ConstantArrays | None = None,
    ) -> None:
        self.module, self.typed, self.function_name, self.sites = module, typed, name, sites
        self.checks, self.contract, self.prover = check, contract, prover
        self.waits = _waits(typed)
        self.inputs = Inputs(typed)
        self.constants = constants or ConstantArrays(module)
        self.shared_nbytes = 0
        self._scratches: dict[int, int] = {}
        self.registers: dict[str, llvm.Value] = {}
        self._exits: dict[Place, int] = {}
        self._returns = _returns(typed.function.source)
        self._exit_blocks: dict[str, int] = {}
        self._wait_blocks: dict[str, int] = {}

    def emit(self) -> None:
        """Fill the function."""
        flat = argument_types(self.inputs.types)
        lead = [POINTER, I32, *[I32] * 12, POINTER]
        kind = llvm.FunctionType(POINTER if self.waits else VOID, lead + flat)
        self.function = function = llvm.Function(self.module, kind, self.function_name)
        function.linkage = "internal"
        self.context, self.thread, *registers, self.shared_start = function.args[: len(lead)]
        self.arguments = list(function.args[len(lead) :])
        self._name_parameters(registers)
        self.b = llvm.IRBuilder(function.append_basic_block("entry"))
        if self.waits:
            self._begin_coroutine()
        else:
            function.attributes.add("alwaysinline")
            self._add_noalias()
        self._leave = function.append_basic_block("leave")
        if self.prover is not None:
            self.prover.begin(self.registers, self.arguments)
        e = Emitter(self.b, self)
        e.function(self.typed, self.inputs.arguments(e, self.arguments), lambda _: self.leave(e))
        self.b.position_at_end(self._leave)
        if self.waits:
            e.call("llvm.coro.end", VOID, [self._handle, I1(0), _NONE])
            self.b.ret(self._handle)
            self._find_reach()
        else:
            self.b.ret_void()

    def _name_parameters(self, registers: list[llvm.Value]) -> None:
        self.context.name, self.thread.name, self.shared_start.name = "context", "thread", "shared"
        for name, value in zip((*POSITIONS, *REGISTERS), registers, strict=True):
            value.name = name
            self.registers[name] = value
        rest = iter(self.arguments)
        for name, type_ in zip(self.typed.function.params, self.typed.arguments, strict=True):
            for k in range(len(argument_types((type_,)))):
                next(rest).name = f"{name}.{k}" if k else name
        for value, name in zip(rest, self.inputs.names(), strict=True):
            value.name = name

    def _add_noalias(self) -> None:
        """No two buffers of a launch overlap unless both are only read. (A coroutine's change while it waits.)"""
        for argument in self.arguments:
            if isinstance(argument.type, llvm.PointerType):
                argument.add_attribute("noalias")

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

    # -------------------------------------------------------------- Target: registers and memory

    def has(self, architecture: str) -> bool:
        """Everything is there."""
        return True

    def locate(self, e: Emitter) -> None:
        """Places travel in the sites; there is no debug information."""

    def special_register(self, e: Emitter, register: str, axis: str) -> llvm.Value:
        """`tid`, `ntid`, `ctaid`, `nctaid`: parameters of the function."""
        return self.registers[f"{register}.{axis}"]

    def shared(self, e: Emitter, element: llvm.Type, count: int, name: str) -> llvm.Value:
        """Static shared memory is laid out here, from the start of the block's memory."""
        return self._place(e, self._reserve(count * nbytes(element)), element)

    def scratch(self, e: Emitter, part: int, count: int) -> llvm.Value:
        """An offset that is the same wherever it is asked for."""
        if part not in self._scratches:
            self._scratches[part] = self._reserve(4 * count)
        return self._place(e, self._scratches[part], I32)

    def _reserve(self, count: int) -> int:
        offset = aligned(self.shared_nbytes)
        self.shared_nbytes = offset + count
        return offset

    def _place(self, e: Emitter, offset: int, element: llvm.Type) -> llvm.Value:
        return e.b.bitcast(e.b.gep(self.shared_start, [I64(offset)], inbounds=True), element.as_pointer())

    def constant(self, e: Emitter, array: ArrayType, name: str) -> llvm.Value:
        """In the module's own memory."""
        return self.constants.pointer(e, array, name)

    def dynamic_shared(self, e: Emitter, name: str, element: llvm.Type) -> BufferValue:
        """The launch has laid it out, behind the static arrays."""
        offset, size = self.inputs.places[name]
        place = e.b.gep(self.shared_start, [offset], inbounds=True)
        return BufferValue(e.b.bitcast(place, element.as_pointer()), (size,))

    def local(self, e: Emitter, element: llvm.Type, count: int, name: str) -> llvm.Value:
        """A stack slot, which a coroutine keeps in its frame where it must."""
        with e.b.goto_entry_block():
            array = e.b.alloca(llvm.ArrayType(element, count), name=name)
            array.align = 16
        return e.b.bitcast(array, element.as_pointer())

    def load(self, e: Emitter, pointer: llvm.Value, access: Access) -> llvm.Value:
        """Hints to the caches mean nothing here; a volatile load is one that is made each time, and whole."""
        self.touch(e, pointer, access)
        if access.how == "volatile":
            return e.b.load_atomic(pointer, "monotonic", _natural(pointer))
        return e.b.load(pointer, align=alignment(e, pointer.type.pointee))

    def store(self, e: Emitter, value: llvm.Value, pointer: llvm.Value, access: Access) -> None:
        """Like `load`."""
        self.touch(e, pointer, access)
        if access.how == "volatile":
            e.b.store_atomic(value, pointer, "monotonic", _natural(pointer))
        else:
            e.b.store(value, pointer, align=alignment(e, value.type))

    def touch(self, e: Emitter, pointer: llvm.Value, access: Access) -> None:
        """Nobody looks."""

    def alone(self, e: Emitter) -> llvm.Value:
        """i1, at run time: no other worker runs this launch.

        Threads change only where they wait, so then a plain update is an atomic one.
        """
        return e.b.icmp_unsigned("!=", e.b.load(field_of(e.b, self.context, abi.ALONE, I32)), I32(0))

    # -------------------------------------------------------------- Target: checks

    @property
    def checks_asserts(self) -> bool:
        """Assertions are compiled where anything is checked."""
        return self.checks

    def check_index(self, e: Emitter, index: llvm.Value, size: llvm.Value, axis: int, array: str, written: str) -> None:
        """One unsigned comparison, unless the proof takes it over."""
        if not self.checks or (self.prover is not None and self.prover.takes_index(index, size)):
            return
        with self._unless(e, e.b.icmp_unsigned("<", index, size)):
            is_fixed = isinstance(size, llvm.Constant)
            self._fault(
                e, Site("index", e.place, e.trace, array, axis, is_fixed=is_fixed, written=written), index, size
            )

    def check(self, e: Emitter, holds: llvm.Value, text: str) -> None:
        """A condition that the language demands."""
        if self.checks:
            with self._unless(e, holds):
                self._fault(e, Site("check", e.place, e.trace, text))

    def fail(self, e: Emitter, text: str) -> None:
        """An assertion did not hold."""
        self._fault(e, Site("assert", e.place, e.trace, text))

    @contextmanager
    def _unless(self, e: Emitter, holds: llvm.Value) -> Iterator[None]:
        good, bad = e.block("ok"), e.block("fault")
        e.b.cbranch(holds, good, bad).set_weights([1 << 20, 1])
        e.b.position_at_end(bad)
        yield
        e.b.position_at_end(good)

    def _fault(self, e: Emitter, site: Site, index: llvm.Value | None = None, size: llvm.Value | None = None) -> None:
        wide = [I64(0) if v is None else v if v.type == I64 else e.b.sext(v, I64) for v in (index, size)]
        e.b.call(fault_recorder(self.module), [self.context, self.thread, I32(self.sites.number(site)), *wide])
        if self.waits:
            e.b.store(I32(abi.FAULTED), self._word(e.b, abi.STATE))
        e.b.branch(self._leave)

    # -------------------------------------------------------------- Target: what is proved instead

    def decide(self, e: Emitter, condition: llvm.Value) -> bool | None:
        """A test on the index of the grid that the proof takes over."""
        return self.prover.takes_guard(condition) if self.prover is not None else None

    def note_range(
        self,
        e: Emitter,
        value: llvm.Value,
        start: llvm.Value,
        stop: llvm.Value,
        step: llvm.Value,
        is_signed: bool,
    ) -> None:
        """What a loop variable ranges over."""
        if self.prover is not None:
            conditions = [i for i in e.b.block.instructions if isinstance(i, llvm.instructions.ICMPInstr)]
            self.prover.note_range(value, start, stop, step, is_signed, conditions)

    def unroll(self, e: Emitter, branch: llvm.Instruction, count: int) -> None:
        """Left to LLVM, which knows this machine."""

    # -------------------------------------------------------------- leaving, waiting and printing

    def number_line(self, e: Emitter, line: Line) -> int:
        """The number of a line that the program prints."""
        return self.sites.prints.number(line)

    def leave(self, e: Emitter) -> None:
        """The kernel returns; the scheduler learns through which exit."""
        if self.waits:
            number = self._exit_of(e.place)
            e.b.store(I32(-1 - number), self._word(e.b, abi.STATE))
            self._exit_blocks[e.b.block.name] = number
        e.b.branch(self._leave)

    def _exit_of(self, place: Place) -> int:
        """The end of the kernel is exit 0 (Python returns from several places there), each `return` one more."""
        if (place.line, place.column) not in self._returns:
            return 0
        return min(self._exits.setdefault(place, len(self._exits) + 1), abi.MAX_EXITS)

    def suspend(self, e: Emitter, kind: str, text: str = "", words: int = 0) -> None:
        """Wait here until the scheduler resumes this thread; `kind`, `text` and `words` are those of a `Site`."""
        number = self.sites.number(Site(kind, e.place, e.trace, text, words=words))
        e.b.store(I32(number), self._word(e.b, abi.STATE))
        state = e.call("llvm.coro.suspend", I8, [_NONE, I1(0)])
        resumed = e.block("resumed")
        self._wait_blocks[e.b.block.name] = number
        switch = e.b.switch(state, self._leave)
        switch.add_case(I8(0), resumed)
        e.b.position_at_end(resumed)

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

    def linear_thread(self, e: Emitter) -> llvm.Value:
        """The thread's number in its block."""
        return self.thread

    def check_lane(self, e: Emitter, holds: llvm.Value, lane: llvm.Value, peers: Peers, what: str) -> None:
        """One branch: the lane that is read has given something."""
        if self.checks:
            with self._unless(e, holds):
                self._fault(e, Site("lane", e.place, e.trace, what), lane, e.b.zext(peers.members, I64))

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


def _waits(typed: ir.Typed) -> bool:
    """Whether a thread may wait for others in this function or one that it calls."""
    return any(isinstance(call.callee, Intrinsic) and call.callee.suspends for _, call in ir.calls_of(typed))


def _natural(pointer: llvm.Value) -> int:
    """The alignment of an element at its address."""
    return nbytes(pointer.type.pointee)


def _returns(source: Source) -> frozenset[tuple[int, int]]:
    """Where the `return` statements stand."""
    places = [source.place(node) for node in ast.walk(source.node) if isinstance(node, ast.Return)]
    return frozenset((place.line, place.column) for place in places)


def _successors(block: llvm.Block, leave: llvm.Block) -> list[str]:
    terminator = block.terminator
    if terminator is None:
        return []
    if isinstance(terminator, llvm.instructions.SwitchInstr):
        return [to.name for _, to in terminator.cases]
    return [o.name for o in terminator.operands if isinstance(o, llvm.Block) and o is not leave]
