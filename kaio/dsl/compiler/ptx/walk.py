"""A PTX function to LLVM: labels become blocks, and each instruction what the record of its opcode says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from llvmlite import ir as llvm

from kaio.dsl.compiler.ptx.cycles import spinning
from kaio.dsl.compiler.ptx.emitter import PtxEmitter
from kaio.dsl.compiler.ptx.opcodes import Opcode, Step, find
from kaio.dsl.compiler.ptx.places import Places
from kaio.dsl.compiler.ptx.registers import Registers
from kaio.dsl.compiler.ptx.syntax import Call, Function, Instruction, Item, Label, Line, Module, Table, Variable
from kaio.dsl.compiler.ptx.thread import WAY_OUT, PtxThread
from kaio.errors import InternalError, UnsupportedFeatureError
from kaio.program import Site

__all__ = ["Walk", "record_of"]

_I8, _I64 = llvm.IntType(8), llvm.IntType(64)


def record_of(instruction: Instruction) -> tuple[Opcode, Step] | None:
    """The record of an instruction, and the instruction as its rule gets it; None where there is no record."""
    found = find(instruction.opcode)
    return None if found is None else (found[0], Step(instruction, found[1]))


@dataclass
class _Frame:
    """A function that is being walked: where its labels are, its registers and parameters, and what `ret` does."""

    function: Function
    registers: Registers
    parameters: Mapping[str, Any]
    on_return: Callable[[], None]
    blocks: dict[str, Any] = field(default_factory=dict)
    tables: dict[str, tuple[str, ...]] = field(default_factory=dict)
    ends: frozenset[str] = frozenset()  # labels behind which the function returns at once
    loops: dict[str, bool] = field(default_factory=dict)  # see `spinning`
    begun: set[str] = field(default_factory=set)  # the labels so far


class Walk:
    """One kernel being lowered; functions that it calls are lowered in place."""

    def __init__(self, module: Module, thread: PtxThread, places: Places) -> None:
        self.module, self.thread, self.places = module, thread, places
        target: Any = thread
        self.e = PtxEmitter(thread.b, target)
        self.frames: list[_Frame] = []
        thread.walk = self

    def kernel(self) -> None:
        """Fill the function of the thread, from where its builder stands."""
        entry, e = self.module.entry, self.e
        self._at(None)
        self.thread.start(e)
        parameters = {
            variable.name: self._argument(variable, value)
            for variable, value in zip(entry.parameters, self.thread.arguments, strict=True)
        }
        self._function(entry, parameters, lambda: self.thread.leave(e))

    def _argument(self, variable: Variable, value: Any) -> Any:
        """Memory that holds an argument."""
        if isinstance(value.type, llvm.PointerType):
            value = self.e.b.ptrtoint(value, _I64)
        slot = self.e.b.alloca(value.type, name=f"{variable.name}.param")
        self.e.b.store(value, slot)
        return self.e.b.bitcast(slot, _I8.as_pointer())

    # ------------------------------------------------------------------ functions
    def _function(self, function: Function, parameters: Mapping[str, Any], on_return: Callable[[], None]) -> None:
        if any(frame.function.name == function.name for frame in self.frames):
            raise InternalError(f"the PTX function `{function.name}` calls itself")
        memory = {**parameters, **{v.name: self._memory(v) for v in function.variables if v.space == "param"}}
        frame = _Frame(function, Registers(function.registers), memory, on_return)
        before = self.thread.virtual, self.thread.parameters
        self.frames.append(frame)
        self.thread.virtual, self.thread.parameters = frame.registers, memory
        for item in function.body:
            if isinstance(item, Label):
                frame.blocks[item.name] = self.e.block(item.name.strip("$"))
            elif isinstance(item, Table):
                frame.tables[item.name] = item.labels
        frame.ends, frame.loops = _ends(function.body), spinning(function)
        for item in function.body:
            self._item(frame, item)
        if not self.e.b.block.is_terminated:
            on_return()
        self.frames.pop()
        self.thread.virtual, self.thread.parameters = before

    def _memory(self, variable: Variable) -> Any:
        with self.e.b.goto_entry_block():
            slot = self.e.b.alloca(llvm.ArrayType(_I8, max(8, variable.nbytes)), name=variable.name)
            slot.align = 16
            return self.e.b.bitcast(slot, _I8.as_pointer())

    def _item(self, frame: _Frame, item: Item) -> None:
        e = self.e
        if isinstance(item, Label):
            if not e.b.block.is_terminated:
                self.go(item.name)
            e.b.position_at_end(frame.blocks[item.name])
            frame.begun.add(item.name)
            return
        if isinstance(item, Table):
            return
        if e.b.block.is_terminated:  # nobody gets here
            e.b.position_at_end(e.block("never"))
        self._at(item.line)
        if item.guard is None:
            self._do(item)
            return
        then, after = e.block("then"), e.block("after")
        e.b.cbranch(self.thread.read(e, item.guard, "pred"), then, after)
        e.b.position_at_end(then)
        self._do(item)
        if not e.b.block.is_terminated:
            e.b.branch(after)
        e.b.position_at_end(after)

    def _at(self, line: Line | None) -> None:
        e = self.e
        e.place, trace = self.places.of(line)
        e.callers = tuple((place, None) for place in trace)  # type: ignore[misc]

    # ------------------------------------------------------------------ instructions
    def _do(self, item: Instruction | Call) -> None:
        if isinstance(item, Call):
            self._call(item)
            return
        found = record_of(item)
        if found is None:
            raise UnsupportedFeatureError(
                f'`route="ptx"` does not know the instruction `{item}`',
                place=self.e.place,
                help=WAY_OUT,
            )
        record, step = found
        if record.is_typed:
            self._typed(record, step)
        else:
            record.rule(self.e, step)

    def _typed(self, record: Opcode, step: Step) -> None:
        """Read what the record takes, and write what it gives."""
        e, count = self.e, len(record.gives)
        sources = zip(step.operands[count:], record.takes, strict=True)
        values = [self.thread.read(e, operand, step.kind(kind)) for operand, kind in sources]
        made = record.rule(e, step, *values)
        results = made if count > 1 else (made,)
        for operand, kind, value in zip(step.operands[:count], record.gives, results, strict=True):
            self.thread.write(e, operand, value, step.kind(kind))

    def _call(self, call: Call) -> None:
        """A function of the module, in place; its parameters are the caller's memory."""
        function = self.module.functions.get(call.function)
        if function is None:
            raise InternalError(f"the PTX of the kernel calls `{call.function}`, which it does not define")
        caller = self.frames[-1].parameters
        memory = {
            variable.name: caller[name]
            for variable, name in zip(
                (*function.results, *function.parameters), (*call.results, *call.arguments), strict=True
            )
        }
        after = self.e.block("returned")
        self._function(function, memory, lambda: _branch(self.e, after))
        self.e.b.position_at_end(after)

    # ------------------------------------------------------------------ the way through the code
    def go(self, label: str) -> None:
        """End the current block with a branch. One to where the function ends is an end of its own."""
        frame = self.frames[-1]
        if label in frame.ends:
            frame.on_return()
            return
        if label in frame.begun:
            self._go_round(frame.loops[label])
        self.e.b.branch(frame.blocks[label])

    def _go_round(self, spins: bool) -> None:
        """A turn of a loop ends here: it is counted, and one that may wait for others lets them go on."""
        e = self.e
        self.thread.turns.go_round(e, Site("pause" if spins else "loop", e.place, e.trace, "loop"), spins)

    def go_by_number(self, number: Any, table: str) -> None:
        """End the current block with a branch to one of the labels of a table."""
        frame = self.frames[-1]
        labels = frame.tables[table]
        back = frame.begun & set(labels)
        if back:
            self._go_round(any(frame.loops[label] for label in back))
        switch = self.e.b.switch(number, frame.blocks[labels[-1]])
        for k, label in enumerate(labels[:-1]):
            switch.add_case(number.type(k), frame.blocks[label])

    def end(self) -> None:
        """`ret`: end the current block with what the function's end is."""
        self.frames[-1].on_return()


def _branch(e: PtxEmitter, block: Any) -> None:
    e.b.branch(block)


def _ends(body: tuple[Item, ...]) -> frozenset[str]:
    """The labels behind which there is nothing but `ret`."""
    found: set[str] = set()
    last: Item | None = None
    for item in reversed(body):
        if isinstance(item, Label):
            is_end = isinstance(last, Instruction) and last.guard is None and last.opcode in ("ret", "exit")
            if is_end:
                found.add(item.name)
                continue
        last = item
    return frozenset(found)
