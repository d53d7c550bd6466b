"""The notes of a kernel that is compiled to be watched: its variables in slots, and a call of the hook at each note.

What is agreed with the runtime is in `kaio/trace_abi.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from llvmlite import ir as llvm

from kaio import host_abi
from kaio import trace_abi as abi
from kaio.dsl.compiler import ir
from kaio.dsl.compiler.emission.declared import own_function
from kaio.dsl.compiler.emission.notes import Notes
from kaio.dsl.compiler.emission.scalars import nbytes
from kaio.dsl.compiler.host.host_context import I8, I32, I64, POINTER, field_of
from kaio.dsl.compiler.host.value_layouts import flat, layout_of, type_text
from kaio.dsl.compiler.host.watched_functions import WatchedFunction, variables_of
from kaio.dsl.element_types import element_type
from kaio.dsl.intrinsic import Intrinsic
from kaio.dsl.values import BOOL, NONE, ArrayType, BufferType, Type
from kaio.errors import Place
from kaio.program import Site

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter
    from kaio.dsl.compiler.host.host_body import Body

__all__ = ["HostNotes"]

_ALIGNMENT = 8
_TOLD = (POINTER, I32, I32, POINTER, POINTER)  # context, thread, note, slots, given


class HostNotes(Notes):
    """Keeps note of all that a thread does, for whoever watches it."""

    def __init__(self, body: Body) -> None:
        self.body = body
        self.notes: list[abi.Note] = []
        self.frames: list[abi.Frame] = []
        self._open: list[WatchedFunction] = []
        self._last: tuple[int, int] | None = None
        self._slots_nbytes = self._given_nbytes = 0

    def begin(self, b: llvm.IRBuilder) -> None:
        """Take the memory, whose size `finish` says."""
        with b.goto_entry_block():
            self._slots, self._given = b.alloca(I8, name="slots"), b.alloca(I8, name="given")

    def finish(self) -> abi.Watched:
        """All notes are there."""
        for memory, size in ((self._slots, self._slots_nbytes), (self._given, self._given_nbytes)):
            memory.allocated_type, memory.align = llvm.ArrayType(I8, max(1, size)), 16
        return abi.Watched(tuple(self.notes), tuple(self.frames))

    # ------------------------------------------------------------------ functions
    def enter(self, e: Emitter) -> None:
        """See `Notes`."""
        frame = e.frames[-1]
        self._open = self._open[: len(e.frames) - 1]
        if e.is_inside_own:
            self._open.append(self._open[-1])
            return
        number, source = len(self.frames), frame.typed.function.source
        slots = {}
        for name, size in variables_of(frame).items():
            slots[name] = abi.Slot(name, self._slots_nbytes)
            self._slots_nbytes += -(-(abi.TAG_NBYTES + size) // _ALIGNMENT) * _ALIGNMENT
            e.b.store(I32(0), self._at(e, self._slots, slots[name].start, I32))
        caller = self._open[-1] if self._open else None
        self.frames.append(
            abi.Frame(
                source.name,
                source,
                tuple(slots.values()),
                None if caller is None else caller.number,
                None if caller is None else e.place,
                0 if caller is None else 1 + self.frames[caller.number].depth,
            )
        )
        self._open.append(WatchedFunction(number, frame, slots))
        self._note(e, "enter", frame.typed.function.source.place(source.node), line=source.node.lineno)

    def leaves(self, e: Emitter, value: Any, type_: Type) -> None:
        """See `Notes`."""
        if not e.is_inside_own:
            self._note(e, "leave", e.place, given=[("", value, type_)])

    # ------------------------------------------------------------------ statements
    def block(self) -> None:
        """See `Notes`."""
        self._last = None

    def line(self, e: Emitter, what: ir.Statement | ir.Terminator) -> None:
        """See `Notes`. Phis come first in a block, and what the language adds is no line of the user's."""
        if e.is_inside_own:
            return
        here = self._here(e)
        at = here.number, here.line(what.place)
        if at != self._last and here.is_written(what):
            self._last = at
            self._note(e, "line", what.place)

    def assigned(self, e: Emitter, assign: ir.Assign) -> None:
        """See `Notes`."""
        if e.is_inside_own or ir.is_temporary(assign.target) or isinstance(assign.op, ir.Phi):
            if isinstance(assign.op, ir.Iterate) and not e.is_inside_own:
                self._note(e, "loop", assign.place, self._here(e).frame.origin(assign.target))
            return
        here = self._here(e)
        name, type_ = ir.user_name(assign.target), here.frame.typed.types[assign.target]
        seen_as = here.settled[assign.target]
        slot = here.slots[name]
        start = slot.start + abi.TAG_NBYTES
        self._write(e, self._slots, start, flat(e, here.frame.values.get(assign.target), type_))
        e.b.store(I32(len(self.notes) + 1), self._at(e, self._slots, slot.start, I32))
        part = abi.Part(name, type_text(seen_as), layout_of(type_, seen_as), start)
        line = here.frame.typed.function.source.node.lineno if here.is_parameter(assign) else 0
        self._note(e, "set", assign.place, name, parts=(part,), line=line)

    def stored(self, e: Emitter, statement: ir.SetItem) -> None:
        """See `Notes`."""
        if e.is_inside_own:
            return
        frame = self._here(e).frame
        index, value = (
            (frame.values.get(name), frame.typed.types[name]) for name in (statement.index, statement.value)
        )
        array = frame.typed.types[statement.array]
        assert isinstance(array, BufferType | ArrayType)
        if not statement.path:
            element = element_type(array.dtype)
            value = e.convert(*value, element), element
        path = self._here(e).path(statement.path)
        given = [("", *index), (path, *value)]
        self._note(e, "store", statement.place, frame.text(statement.array), given=given)

    def branches(self, e: Emitter, name: str, condition: Any) -> None:
        """See `Notes`."""
        if e.is_inside_own:
            return
        frame = self._here(e).frame
        op = frame.definitions[name].op
        kind: abi.Kind = "turn" if isinstance(op, ir.StepFlag) else "branch"
        text = frame.origins.text(name)
        if isinstance(op, ir.StepFlag):
            step = frame.definitions[op.step].op
            assert isinstance(step, ir.Step)
            text = frame.origin(step.iterator)
        self._note(e, kind, e.place, text, given=[("", condition, BOOL)])

    def called(self, e: Emitter, call: ir.TypedCall, values: Sequence[Any], result: Any) -> None:
        """See `Notes`."""
        if e.is_inside_own or not _is_noted(call):
            return
        given: list[tuple[str, Any, Type]] = []
        parts: list[abi.Part] = []
        for name, argument, value, type_ in zip(
            _parameters(call.callee, len(values)), call.arguments, values, call.operands, strict=True
        ):
            if isinstance(type_, BufferType | ArrayType):
                shown = e.called(argument, "...")
                parts.append(abi.Part(name, type_text(type_), abi.Known(shown)))
            elif isinstance(argument, str):
                given.append((name, value, type_))
        if call.result != NONE:
            given.append((abi.RESULT, result, call.result))
        self._note(e, "call", e.place, call.callee.name, given=given, parts=tuple(parts))

    def waits(self, e: Emitter) -> None:
        """See `Notes`."""
        self._note(e, "wait", e.place, e.operation)

    def breaks(self, e: Emitter) -> None:
        """See `Notes`."""
        self._note(e, "break", e.place)

    # ------------------------------------------------------------------ code
    def _here(self, e: Emitter) -> WatchedFunction:
        return self._open[len(e.frames) - 1]

    def _note(
        self,
        e: Emitter,
        kind: abi.Kind,
        place: Place,
        text: str = "",
        *,
        given: Iterable[tuple[str, Any, Type]] = (),
        parts: tuple[abi.Part, ...] = (),
        line: int = 0,
    ) -> None:
        """Leave what belongs to the note, and call the hook; at a line and a breakpoint it may stop the thread."""
        at, found = 0, list(parts)
        for name, value, type_ in given:
            layout = layout_of(type_)
            self._write(e, self._given, at, flat(e, value, type_))
            found.append(abi.Part(name, type_text(type_), layout, at))
            at += layout.nbytes
        self._given_nbytes = max(self._given_nbytes, at)
        here = self._here(e)
        self.notes.append(abi.Note(kind, here.number, line or here.line(place), place, text, tuple(found)))
        level = abi.BREAKS if kind == "break" else abi.ALL
        facts = [self.body.context, self.body.thread, I32(len(self.notes) - 1), self._slots, self._given, I32(level)]
        stop = e.b.call(_teller(self.body.module), facts)
        if kind in ("line", "break"):
            with self.body.unless(e, e.b.icmp_unsigned("==", stop, I32(0))):
                self.body.fault(e, Site("stopped", e.place, e.trace, "the launch was stopped at the prompt"))

    def _write(self, e: Emitter, memory: llvm.Value, start: int, values: Iterable[llvm.Value]) -> None:
        for value in values:
            e.b.store(value, self._at(e, memory, start, value.type), align=1)
            start += nbytes(value.type)

    def _at(self, e: Emitter, memory: llvm.Value, start: int, kind: llvm.Type) -> llvm.Value:
        return e.b.bitcast(e.b.gep(memory, [I64(start)], inbounds=True), kind.as_pointer())


def _is_noted(call: ir.TypedCall) -> bool:
    """Whether a call does something beside giving a value."""
    record = call.callee
    assert isinstance(record, Intrinsic)
    return (call.result == NONE and not record.suspends) or record.name.startswith("atomic_")


def _parameters(record: Intrinsic, count: int) -> list[str]:
    names = list(record.signature.parameters) if record.signature is not None else []
    return names if len(names) == count else [""] * count


def _teller(module: llvm.Module) -> llvm.Function:
    """`tell_note(context, thread, note, slots, given, level)`: calls the hook if the thread is watched so closely."""
    return own_function(module, "tell_note", I32, [*_TOLD, I32], _tell_note, "noinline")


def _tell_note(b: llvm.IRBuilder, *args: llvm.Value) -> None:
    context, thread, note, slots, given, level = args
    state = b.load(field_of(b, context, host_abi.WATCH, POINTER))

    def leave_unless(holds: llvm.Value) -> None:
        with b.if_then(b.not_(holds)):
            b.ret(I32(0))

    def is_watched(offset: int, value: llvm.Value) -> llvm.Value:
        wanted = b.load(field_of(b, state, offset, value.type))
        anyone = b.icmp_signed("==", wanted, value.type(abi.ANYONE))
        return b.or_(anyone, b.icmp_signed("==", wanted, value))

    leave_unless(b.icmp_unsigned("!=", state, llvm.Constant(POINTER, None)))
    leave_unless(b.icmp_signed("<=", level, b.load(field_of(b, state, abi.LEVEL, I32))))
    leave_unless(is_watched(abi.WATCHED_THREAD, thread))
    leave_unless(is_watched(abi.WATCHED_BLOCK, b.load(field_of(b, context, host_abi.BLOCK, I64))))
    hook = llvm.FunctionType(I32, _TOLD)
    address = b.load(field_of(b, state, abi.HOOK, hook.as_pointer()))
    b.ret(b.call(address, [context, thread, note, slots, given]))
