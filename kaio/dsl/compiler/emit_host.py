"""Typed IR to LLVM for this machine: one function per kernel, in which a barrier is a suspension and a fault a branch.

A kernel in which a thread may wait becomes a coroutine, one frame per thread, that `k_start` and `k_run` start and
resume. Every other kernel is inlined into loops over the threads of a block (`k_plain`), which LLVM vectorises; there a
second, unguarded copy of the body runs in the blocks for which `prove` shows, at run time, that no check can fail.
The layout that this code shares with the scheduler and the runtime is in `kaio/host_abi.py`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from llvmlite import ir as llvm

from kaio import host_abi as abi
from kaio.dsl.compiler import arithmetic, ir
from kaio.dsl.compiler.emit import BufferValue, Emitter
from kaio.dsl.compiler.prove import Prover
from kaio.dsl.intrinsic import Intrinsic
from kaio.dsl.values import BufferType, Type
from kaio.dtypes import DType
from kaio.errors import InternalError, Place
from kaio.program import Site
from kaio.source import Source

__all__ = ["HostModule", "emit_host", "emit_plain"]

I1, I8, I32, I64, VOID = llvm.IntType(1), llvm.IntType(8), llvm.IntType(32), llvm.IntType(64), llvm.VoidType()
POINTER = I8.as_pointer()
_REGISTERS = tuple(f"{register}.{axis}" for register in ("ntid", "nctaid", "ctaid") for axis in "xyz")
_POSITIONS = ("tid.x", "tid.y", "tid.z")
_LIBDEVICE = "__nv_"


@dataclass(frozen=True)
class HostModule:
    """The LLVM text of one kernel, the functions it exports, its sites, and what it needs."""

    text: str = field(repr=False)
    exported: tuple[str, ...]
    sites: tuple[Site, ...]
    shared_nbytes: int
    libdevice: tuple[str, ...]
    waits: bool
    proved: tuple[int, int] = (0, 0)

    def __str__(self) -> str:
        return self.text


def emit_host(typed: ir.Typed, *, check: bool, contract: bool = True) -> HostModule:
    """Emit a kernel; `check` compiles index checks, assertions and the like."""
    module = llvm.Module(typed.function.name)
    sites = _Sites()
    body = _Body(module, typed, "body", sites, check=check, contract=contract)
    if body.waits:
        body.emit()
        _start_and_run(body)
        return _finish(body, ("k_start", "k_run"))
    proved = (0, 0)
    fast = _Body(module, typed, "body.fast", sites, check=check, contract=contract, prover=Prover())
    fast.emit()
    assert fast.prover is not None
    if fast.prover.is_useful:
        body.emit()
        proved = fast.prover.counts
        _plain(body, fast)
    else:  # nothing can be proved, or there is nothing to prove: the one body keeps what checks it has
        _plain(fast, None)
    return replace(_finish(body, ("k_plain",)), proved=proved, shared_nbytes=max(body.shared_nbytes, fast.shared_nbytes))


def emit_plain(typed: ir.Typed, name: str) -> HostModule:
    """Emit a function as a C function ``void name(argument block)``, without threads: the scheduler."""
    module = llvm.Module(name)
    function = llvm.Function(module, llvm.FunctionType(VOID, [POINTER]), name)
    b = llvm.IRBuilder(function.append_basic_block("entry"))
    target = _PlainTarget()
    e = Emitter(b, target)
    e.function(typed, _values(typed.arguments, _load_arguments(b, typed.arguments, function.args[0])), lambda _: b.ret_void())
    return HostModule(str(module), (name,), (), 0, _libdevice(module), waits=False)


def _finish(body: _Body, exported: tuple[str, ...]) -> HostModule:
    module = body.module
    sites = tuple(body.sites.found)
    return HostModule(str(module), exported, sites, body.shared_nbytes, _libdevice(module), body.waits)


def _libdevice(module: llvm.Module) -> tuple[str, ...]:
    return tuple(sorted(name for name in module.globals if name.startswith(_LIBDEVICE)))


# ------------------------------------------------------------------ arguments


def _argument_types(types: tuple[Type, ...]) -> list[llvm.Type]:
    """The LLVM types of the argument block, in order: a pointer and sizes, or a scalar; constants have none."""
    flat: list[llvm.Type] = []
    for type_ in types:
        if isinstance(type_, BufferType):
            flat += [arithmetic.memory_type(type_.dtype).as_pointer(), *[arithmetic.llvm_type(type_.index)] * type_.ndim]
        elif isinstance(type_, DType):
            flat.append(arithmetic.memory_type(type_))
    return flat


def _load_arguments(b: llvm.IRBuilder, types: tuple[Type, ...], block: llvm.Value) -> list[llvm.Value]:
    layout = llvm.LiteralStructType(_argument_types(types))
    pointer = b.bitcast(block, layout.as_pointer())
    return [b.load(b.gep(pointer, [I32(0), I32(k)], inbounds=True)) for k in range(len(layout.elements))]


def _values(types: tuple[Type, ...], flat: list[llvm.Value], e: Emitter | None = None) -> tuple[Any, ...]:
    """The emitter's values of the arguments, from the flat list."""
    rest = iter(flat)
    values: list[Any] = []
    for type_ in types:
        if isinstance(type_, BufferType):
            values.append(BufferValue(next(rest), tuple(next(rest) for _ in range(type_.ndim))))
        elif isinstance(type_, DType):
            value = next(rest)
            values.append(arithmetic.from_memory(e, value, type_) if e is not None else value)
        else:
            values.append(None)
    return tuple(values)


# ------------------------------------------------------------------ places that a fault or a wait names


class _Sites:
    """The numbered sites of a program; one source place has one number, however often it is emitted. 0 is no site."""

    def __init__(self) -> None:
        self.found = [Site("none", Place("", 0))]
        self._numbers: dict[Site, int] = {}

    def number(self, site: Site) -> int:
        if site not in self._numbers:
            self._numbers[site] = len(self.found)
            self.found.append(site)
        return self._numbers[site]

    def reach(self, number: int, exits: int) -> None:
        self.found[number] = replace(self.found[number], reach=self.found[number].reach | exits)


# ------------------------------------------------------------------ the kernel's function


class _Token(llvm.Type):
    """LLVM's token type, which llvmlite does not have."""

    def _to_string(self) -> str:
        return "token"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Token)

    def __hash__(self) -> int:
        return hash(_Token)


_NONE = llvm.FormattedConstant(_Token(), "none")


class _Body:
    """A kernel's function being built, and the target that the emitter asks."""

    name: Literal["host"] = "host"

    def __init__(
        self,
        module: llvm.Module,
        typed: ir.Typed,
        name: str,
        sites: _Sites,
        *,
        check: bool,
        contract: bool,
        prover: Prover | None = None,
    ) -> None:
        self.module, self.typed, self.function_name, self.sites = module, typed, name, sites
        self.checks, self.contract, self.prover = check, contract, prover
        self.waits = _waits(typed)
        self.shared_nbytes = 0
        self.registers: dict[str, llvm.Value] = {}
        self._exits: dict[Place, int] = {}
        self._returns = _returns(typed.function.source)
        self._exit_blocks: dict[str, int] = {}
        self._wait_blocks: dict[str, int] = {}

    def emit(self) -> None:
        """Fill the function."""
        flat = _argument_types(self.typed.arguments)
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
        e.function(self.typed, _values(self.typed.arguments, self.arguments, e), lambda _: self.leave(e))
        self.b.position_at_end(self._leave)
        if self.waits:
            e.call("llvm.coro.end", VOID, [self._handle, I1(0), _NONE])
            self.b.ret(self._handle)
            self._find_reach()
        else:
            self.b.ret_void()

    def _name_parameters(self, registers: list[llvm.Value]) -> None:
        self.context.name, self.thread.name, self.shared_start.name = "context", "thread", "shared"
        for name, value in zip((*_POSITIONS, *_REGISTERS), registers, strict=True):
            value.name = name
            self.registers[name] = value
        rest = iter(self.arguments)
        for name, type_ in zip(self.typed.function.params, self.typed.arguments, strict=True):
            for k in range(len(_argument_types((type_,)))):
                next(rest).name = f"{name}.{k}" if k else name

    def _add_noalias(self) -> None:
        """No two buffers of a launch overlap unless both are only read. (A coroutine's memory changes while it waits.)"""
        for argument in self.arguments:
            if isinstance(argument.type, llvm.PointerType):
                argument.add_attribute("noalias")

    def _begin_coroutine(self) -> None:
        b = self.b
        # llvmlite does not know these attributes. A jump table costs a resume twice what compares cost.
        set.update(self.function.attributes, ("presplitcoroutine", '"no-jump-tables"="true"'))
        self.function.attributes.add("noinline")
        null = llvm.Constant(POINTER, None)
        identity = _call(b, "llvm.coro.id", _Token(), [I32(abi.FRAME_ALIGNMENT), null, null, null])
        nbytes = _call(b, "llvm.coro.size.i64", I64, [])
        frames = b.load(_field(b, self.context, abi.FRAMES, I64))
        with b.if_then(b.icmp_unsigned("==", frames, I64(0))):
            b.store(nbytes, _field(b, self.context, abi.FRAME_NBYTES, I64))
            b.ret(null)
        frame = _frame(b, frames, nbytes, self.thread)
        # The handle is returned: a coroutine that returns nothing is elided, with its resume function.
        self._handle = _call(b, "llvm.coro.begin", POINTER, [identity, frame])
        words = b.load(_field(b, self.context, abi.WORDS, POINTER))
        self._words = b.gep(words, [b.mul(b.zext(self.thread, I64), I64(4))])

    # -------------------------------------------------------------- Target: registers and memory

    def locate(self, e: Emitter) -> None:
        """Places travel in the sites; there is no debug information."""

    def special_register(self, e: Emitter, register: str, axis: str) -> llvm.Value:
        """`tid`, `ntid`, `ctaid`, `nctaid`: parameters of the function."""
        return self.registers[f"{register}.{axis}"]

    def shared(self, e: Emitter, element: llvm.Type, count: int, name: str) -> llvm.Value:
        """Static shared memory is laid out here, from the start of the block's memory."""
        alignment = 16
        offset = (self.shared_nbytes + alignment - 1) // alignment * alignment
        self.shared_nbytes = offset + count * _nbytes(element)
        return e.b.bitcast(e.b.gep(self.shared_start, [I64(offset)], inbounds=True), element.as_pointer())

    def local(self, e: Emitter, element: llvm.Type, count: int, name: str) -> llvm.Value:
        """A stack slot, which a coroutine keeps in its frame where it must."""
        with e.b.goto_entry_block():
            array = e.b.alloca(llvm.ArrayType(element, count), name=name)
            array.align = 16
        return e.b.bitcast(array, element.as_pointer())

    def load(self, e: Emitter, pointer: llvm.Value, read_only: bool) -> llvm.Value:
        """A plain load."""
        return e.b.load(pointer)

    def alone(self, e: Emitter) -> llvm.Value:
        """i1, at run time: no other worker runs this launch. Threads change only where they wait, so a plain update is atomic."""
        return e.b.icmp_unsigned("!=", e.b.load(_field(e.b, self.context, abi.ALONE, I32)), I32(0))

    # -------------------------------------------------------------- Target: checks

    @property
    def checks_asserts(self) -> bool:
        """Assertions are compiled where anything is checked."""
        return self.checks

    def check_index(self, e: Emitter, index: llvm.Value, size: llvm.Value, axis: int, array: str) -> None:
        """One unsigned comparison, unless the proof takes it over."""
        if not self.checks or (self.prover is not None and self.prover.takes_index(index, size)):
            return
        with self._unless(e, e.b.icmp_unsigned("<", index, size)):
            self._fault(e, Site("index", e.place, e.trace, array, axis), index, size)

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
        e.b.call(_record_fault(self.module), [self.context, self.thread, I32(self.sites.number(site)), *wide])
        if self.waits:
            e.b.store(I32(abi.FAULTED), self._word(e.b, abi.STATE))
        e.b.branch(self._leave)

    # -------------------------------------------------------------- Target: what is proved instead

    def decide(self, e: Emitter, condition: llvm.Value) -> bool | None:
        """A test on the index of the grid that the proof takes over."""
        return self.prover.takes_guard(condition) if self.prover is not None else None

    def note_range(self, e: Emitter, value: llvm.Value, start: llvm.Value, stop: llvm.Value, step: llvm.Value) -> None:
        """What a loop variable ranges over."""
        if self.prover is not None:
            # The comparison that ends the loop stands in this block; it tells how the loop reads its numbers.
            is_signed = any(isinstance(i, llvm.instructions.ICMPInstr) and i.op == "slt" for i in e.b.block.instructions)
            self.prover.note_range(value, start, stop, step, is_signed)

    # -------------------------------------------------------------- leaving and waiting

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

    def suspend(self, e: Emitter, kind: str, **values: llvm.Value) -> llvm.Value | None:
        """Wait here until the scheduler resumes this thread; `kind` is a kind of `Site`.

        No kind of wait carries `values` to the scheduler, or gives one back, yet.
        """
        number = self.sites.number(Site(kind, e.place, e.trace))
        e.b.store(I32(number), self._word(e.b, abi.STATE))
        state = e.call("llvm.coro.suspend", I8, [_NONE, I1(0)])
        resumed = e.block("resumed")
        self._wait_blocks[e.b.block.name] = number
        switch = e.b.switch(state, self._leave)
        switch.add_case(I8(0), resumed)
        e.b.position_at_end(resumed)
        return None

    def _word(self, b: llvm.IRBuilder, word: int) -> llvm.Value:
        return b.bitcast(b.gep(self._words, [I64(4 * word * abi.WORD_STRIDE)]), I32.as_pointer())

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


class _PlainTarget:
    """The target of a function without threads: nothing is checked, nothing waits."""

    name: Literal["host"] = "host"
    contract = False
    checks_asserts = False

    def locate(self, e: Emitter) -> None:
        return None

    def special_register(self, e: Emitter, register: str, axis: str) -> llvm.Value:
        raise InternalError("a function without threads has no index registers")

    def check_index(self, e: Emitter, index: llvm.Value, size: llvm.Value, axis: int, array: str) -> None:
        return None

    def check(self, e: Emitter, holds: llvm.Value, text: str) -> None:
        return None

    def fail(self, e: Emitter, text: str) -> None:
        e.b.unreachable()

    def shared(self, e: Emitter, element: llvm.Type, count: int, name: str) -> llvm.Value:
        raise InternalError("a function without threads has no shared memory")

    def local(self, e: Emitter, element: llvm.Type, count: int, name: str) -> llvm.Value:
        with e.b.goto_entry_block():
            return e.b.bitcast(e.b.alloca(llvm.ArrayType(element, count), name=name), element.as_pointer())

    def load(self, e: Emitter, pointer: llvm.Value, read_only: bool) -> llvm.Value:
        return e.b.load(pointer)

    def alone(self, e: Emitter) -> llvm.Value:
        return I1(0)

    def decide(self, e: Emitter, condition: llvm.Value) -> bool | None:
        return None

    def note_range(self, e: Emitter, value: llvm.Value, start: llvm.Value, stop: llvm.Value, step: llvm.Value) -> None:
        return None

    def suspend(self, e: Emitter, kind: str, **values: llvm.Value) -> llvm.Value | None:
        raise InternalError("a function without threads does not wait")

    def leave(self, e: Emitter) -> None:
        e.b.ret_void()


def _waits(typed: ir.Typed) -> bool:
    """Whether a thread may wait for others in this function or one that it calls."""
    for call in typed.calls.values():
        if isinstance(call.callee, Intrinsic) and call.callee.suspends:
            return True
        if isinstance(call.callee, ir.Typed) and _waits(call.callee):
            return True
    return False


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


def _nbytes(element: llvm.Type) -> int:
    if isinstance(element, llvm.IntType):
        return (element.width + 7) // 8
    return 4 if isinstance(element, llvm.FloatType) else 8


def _call(b: llvm.IRBuilder, name: str, result: llvm.Type, args: list[llvm.Value]) -> llvm.Value:
    function = b.module.globals.get(name)
    if function is None:
        function = llvm.Function(b.module, llvm.FunctionType(result, [a.type for a in args]), name)
    return b.call(function, args)


def _field(b: llvm.IRBuilder, context: llvm.Value, offset: int, kind: llvm.Type) -> llvm.Value:
    return b.bitcast(b.gep(context, [I64(offset)], inbounds=True), kind.as_pointer())


def _frame(b: llvm.IRBuilder, frames: llvm.Value, nbytes: llvm.Value, thread: llvm.Value) -> llvm.Value:
    """The frame of a thread, which is also the handle of its coroutine."""
    stride = b.and_(b.add(nbytes, I64(abi.FRAME_ALIGNMENT - 1)), I64(-abi.FRAME_ALIGNMENT))
    return b.inttoptr(b.add(frames, b.mul(b.zext(thread, I64), stride)), POINTER)


def _record_fault(module: llvm.Module) -> llvm.Function:
    """`record_fault(context, thread, site, index, size)`: keeps the first fault of the block. Out of line and cold."""
    found = module.globals.get("record_fault")
    if found is not None:
        return found
    function = llvm.Function(module, llvm.FunctionType(VOID, [POINTER, I32, I32, I64, I64]), "record_fault")
    function.linkage = "internal"
    function.attributes.add("noinline")
    function.attributes.add("cold")
    b = llvm.IRBuilder(function.append_basic_block("entry"))
    context, *facts = function.args
    flag = _field(b, context, abi.FAULT, I32)
    with b.if_then(b.icmp_unsigned("==", b.load(flag), I32(0))):
        b.store(I32(abi.FAILED), flag)
        for value, offset in zip(facts, (abi.FAULT_THREAD, abi.FAULT_SITE, abi.FAULT_INDEX, abi.FAULT_SIZE), strict=True):
            b.store(value, _field(b, context, offset, value.type))
    b.ret_void()
    return function


# ------------------------------------------------------------------ drivers: the loops over the threads of a block


@dataclass
class _Launch:
    """What every thread of a block gets: index registers, shared memory, arguments."""

    registers: list[llvm.Value]
    shared: llvm.Value
    arguments: list[llvm.Value]


def _define(module: llvm.Module, name: str) -> tuple[llvm.IRBuilder, llvm.Value, llvm.Value, llvm.Value, llvm.Value]:
    function = llvm.Function(module, llvm.FunctionType(VOID, [POINTER, I32, I32, I32]), name)
    return llvm.IRBuilder(function.append_basic_block("entry")), *function.args


def _load_launch(body: _Body, b: llvm.IRBuilder, context: llvm.Value) -> _Launch:
    registers = []
    for offset, low, high in ((abi.BLOCK_DIM, 1, abi.MAX_THREADS + 1), (abi.GRID_DIM, 1, -(2**31)), (abi.BLOCK_IDX, 0, 2**31 - 1)):
        for axis in range(3):
            register = b.load(_field(b, context, offset + 4 * axis, I32))
            register.set_metadata("range", body.module.add_metadata([I32(low), I32(high)]))
            registers.append(register)
    shared = b.load(_field(b, context, abi.SHARED, POINTER))
    arguments = _load_arguments(b, body.typed.arguments, b.load(_field(b, context, abi.ARGUMENTS, POINTER)))
    return _Launch(registers, shared, arguments)


@contextmanager
def _loop(b: llvm.IRBuilder, start: llvm.Value, stop: llvm.Value, name: str) -> Iterator[llvm.Value]:
    """`for i in range(start, stop)`, at least once."""
    before = b.block
    head, done = b.append_basic_block(name), b.append_basic_block(f"{name}.done")
    b.branch(head)
    b.position_at_end(head)
    i = b.phi(I32, name)
    i.add_incoming(start, before)
    yield i
    later = b.add(i, I32(1), flags=("nuw", "nsw"))
    i.add_incoming(later, b.block)
    b.cbranch(b.icmp_unsigned("<", later, stop), head, done)
    b.position_at_end(done)


def _plain(body: _Body, fast: _Body | None) -> None:
    """`k_plain`: the whole block; the fast body where its proof holds."""
    b, context, *_ = _define(body.module, "k_plain")
    launch = _load_launch(body, b, context)
    if fast is None:
        _plain_loops(body, b, context, launch)
    else:
        assert fast.prover is not None
        holds = fast.prover.emit(b, dict(zip(_REGISTERS, launch.registers, strict=True)), launch.arguments)
        with b.if_else(holds, likely=True) as (proved, open_):
            with proved:
                _plain_loops(fast, b, context, launch)
            with open_:
                _plain_loops(body, b, context, launch)
    b.ret_void()


def _plain_loops(body: _Body, b: llvm.IRBuilder, context: llvm.Value, launch: _Launch) -> None:
    nx, ny, nz = launch.registers[:3]
    with _loop(b, I32(0), nz, "z") as z, _loop(b, I32(0), ny, "y") as y:
        row = b.mul(b.add(b.mul(z, ny), y), nx)
        with _loop(b, I32(0), nx, "x") as x:
            thread = b.add(row, x, flags=("nuw", "nsw"))
            b.call(body.function, [context, thread, x, y, z, *launch.registers, launch.shared, *launch.arguments])


def _start_and_run(body: _Body) -> None:
    """`k_start` and `k_run`."""
    b, context, first, stop, _ = _define(body.module, "k_start")
    launch = _load_launch(body, b, context)
    nx, ny = launch.registers[:2]
    with _loop(b, first, stop, "thread") as thread:
        row = b.udiv(thread, nx)
        position = [b.urem(thread, nx), b.urem(row, ny), b.udiv(row, ny)]
        handle = b.call(body.function, [context, thread, *position, *launch.registers, launch.shared, *launch.arguments])
        b.store(handle, _field(b, context, abi.LAST_STARTED, POINTER))
    b.ret_void()
    b, context, first, stop, wanted = _define(body.module, "k_run")
    frames, nbytes = (b.load(_field(b, context, offset, I64)) for offset in (abi.FRAMES, abi.FRAME_NBYTES))
    states = b.bitcast(b.load(_field(b, context, abi.WORDS, POINTER)), I32.as_pointer())
    with _loop(b, first, stop, "thread") as thread:
        state = b.load(b.gep(states, [thread]))
        with b.if_then(b.icmp_signed("==", state, wanted), likely=True):
            _call(b, "llvm.coro.resume", VOID, [_frame(b, frames, nbytes, thread)])
    b.ret_void()
