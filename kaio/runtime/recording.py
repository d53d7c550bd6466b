"""What one thread of a kernel does, recorded while it runs: the steps of a `Trace`."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from kaio import trace_abi as abi
from kaio.errors import KernelFault
from kaio.runtime.trace import Branch, Call, Dim3, Event, Fault, Loop, Return, Set, Step, Store, Wait
from kaio.runtime.value_text import value_text
from kaio.runtime.watch import Moment, Seen, Watch

__all__ = ["Recorder", "linear"]


@dataclass
class _Line:
    """A step while it goes on."""

    step: Step
    frame: int
    events: list[Event] = field(default_factory=list)
    seen: set[int] = field(default_factory=set)


class Recorder:
    """Records the first `limit` steps of one thread; `watch` is for the options of its launch."""

    def __init__(self, thread: int, block: int, limit: int) -> None:
        self.watch = Watch(self._look, thread, block)
        self.is_cut = False
        self._limit = limit
        self._lines: list[_Line] = []
        self._turns: dict[tuple[int, str], int] = {}

    @property
    def variables(self) -> dict[str, frozenset[str]]:
        """The variables of each function of the kernel, also of those that the thread did not come to."""
        found: dict[str, frozenset[str]] = {}
        for frame in self.watch.watched.frames:
            found[frame.function] = found.get(frame.function, frozenset()).union(slot.name for slot in frame.slots)
        return found

    def steps(self, fault: KernelFault | None, is_own: bool) -> tuple[Step, ...]:
        """What was recorded; a fault, the thread's own or another's, is the last entry."""
        steps = [replace(line.step, events=tuple(line.events)) for line in self._lines]
        if fault is not None and not self.is_cut:
            text = fault.mistakes[0].what.splitlines()[0]
            place = fault.mistakes[0].place
            last = steps[-1] if steps else None
            whose = "" if is_own or "thread" not in fault.facts else _whose(fault)
            event = Fault(f"{whose}{text}")
            if last is not None and (not is_own or place is None or place.line == last.line):
                steps[-1] = replace(last, events=(*last.events, event))
            elif place is not None:
                depth, function = (last.depth, place.function) if last is not None else (0, place.function)
                steps.append(Step(place.file, place.line, place.text, function, depth, (event,)))
        return tuple(steps)

    def _look(self, moment: Moment) -> bool:
        note = moment.note
        if note.kind == "loop":
            self._turns[note.frame, note.text] = 0
            return False
        line = self._line(moment)
        if line is None:
            return False
        event = self._event(moment)
        if event is not None and not (isinstance(event, Wait) and line.events and line.events[-1] == event):
            line.events.append(event)
        return False

    def _line(self, moment: Moment) -> _Line | None:
        """The step that a note belongs to; None where it would be one too many."""
        note, number = moment.note, id(moment.note)
        last = self._lines[-1] if self._lines else None
        is_same = last is not None and (last.frame, last.step.line) == (note.frame, note.line)
        is_new = number not in last.seen or note.kind == "wait" if last is not None else True
        if last is not None and is_same and is_new and note.kind != "enter":
            last.seen.add(number)
            return last
        if len(self._lines) >= self._limit:
            self.is_cut = True
            self.watch.follow(abi.ANYONE, abi.ANYONE, abi.NOTHING)
            return None
        frame = moment.frame
        step = Step(frame.source.file, note.line, frame.source.line(note.line), frame.function, frame.depth, ())
        self._lines.append(_Line(step, note.frame, seen={number}))
        return self._lines[-1]

    def _event(self, moment: Moment) -> Event | None:
        note, parts = moment.note, moment.parts
        match note.kind:
            case "set":
                return Set(parts[0].name, parts[0].type, _kept(parts[0]))
            case "store":
                index = parts[0].value if isinstance(parts[0].value, tuple) else (parts[0].value,)
                return Store(note.text, tuple(map(int, index)), parts[1].name, parts[1].value)
            case "branch":
                return Branch(note.text, bool(parts[0].value))
            case "turn":
                return self._turn(note, bool(parts[0].value))
            case "call":
                return _call(note, parts)
            case "wait":
                return Wait(note.text)
            case "leave":
                return Return(parts[0].value)
        return None

    def _turn(self, note: abi.Note, more: bool) -> Loop:
        key = note.frame, note.text
        self._turns[key] = self._turns.get(key, 0) + more
        return Loop(self._turns[key], more)


def _whose(fault: KernelFault) -> str:
    return f"thread {fault.facts['thread']} of block {fault.facts['block']}: "


def _kept(seen: Seen) -> Any:
    """A value that can be kept: of an array, whose elements change, its text."""
    return value_text(seen.value) if isinstance(seen.value, np.ndarray) else seen.value


def _call(note: abi.Note, parts: tuple[Seen, ...]) -> Call:
    result = parts[-1] if parts and parts[-1].name == abi.RESULT else None
    arguments = parts if result is None else parts[:-1]
    return Call(note.text, tuple(map(_kept, arguments)), None if result is None else result.value)


def linear(position: Dim3, shape: Dim3) -> int:
    """The number of a thread in its block, or of a block in its grid, x first."""
    assert math.prod(shape) > 0
    return position[0] + shape[0] * (position[1] + shape[1] * position[2])
