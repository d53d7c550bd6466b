"""`Trace`: what one thread of a kernel did, line by line, and how it is recorded while the thread runs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kaio import trace_abi as abi
from kaio.errors import KaioError, KernelFault, did_you_mean
from kaio.runtime.trace_table import html_of, text_of
from kaio.runtime.watch import Moment, Seen, Watch

__all__ = ["Branch", "Call", "Event", "Fault", "Loop", "Recorder", "Return", "Set", "Step", "Store", "Trace", "Wait"]

Dim3 = tuple[int, int, int]


@dataclass(frozen=True)
class Set:
    """A variable was set, by name; `value` is a NumPy scalar, a tuple, or an object of its class."""

    name: str
    type: str
    value: Any
    text: str

    def __str__(self) -> str:
        return f"{self.name} = {self.text}"


@dataclass(frozen=True)
class Store:
    """An element was set: `array[index]`, or the part of it that `path` names."""

    array: str
    index: tuple[int, ...]
    path: str
    value: Any
    text: str

    def __str__(self) -> str:
        return f"{self.array}[{', '.join(map(str, self.index))}]{self.path} = {self.text}"


@dataclass(frozen=True)
class Branch:
    """A condition, as written, and whether it was true."""

    condition: str
    taken: bool

    def __str__(self) -> str:
        return f"{self.condition}: {self.taken}"


@dataclass(frozen=True)
class Loop:
    """A `for` loop began its turn number `turn`, from 1 on; or it has no more, after so many."""

    turn: int
    more: bool

    def __str__(self) -> str:
        return f"turn {self.turn}" if self.more else f"ends after {self.turn} turn{'s' * (self.turn != 1)}"


@dataclass(frozen=True)
class Call:
    """A function of kaio's was called that does something, with these arguments as text; `result` is None of most."""

    function: str
    arguments: tuple[str, ...]
    result: Any
    text: str

    def __str__(self) -> str:
        return f"{self.function}({', '.join(self.arguments)})" + (f" gives {self.text}" if self.text else "")


@dataclass(frozen=True)
class Wait:
    """The thread came to where it waits for others."""

    function: str

    def __str__(self) -> str:
        return f"waits in {self.function}"


@dataclass(frozen=True)
class Return:
    """A function returned, the kernel with None."""

    value: Any
    text: str

    def __str__(self) -> str:
        return "returns" if self.value is None else f"returns {self.text}"


@dataclass(frozen=True)
class Fault:
    """The launch stopped here."""

    text: str

    def __str__(self) -> str:
        return f"FAULT: {self.text}"


Event = Set | Store | Branch | Loop | Call | Wait | Return | Fault


@dataclass(frozen=True)
class Step:
    """One source line that the thread executed, and what it did there, in order.

    file, line, text: where it stands; of a statement over several lines the first
    function, depth: which function it is a line of, and by how many calls that is inside the kernel
    """

    file: str
    line: int
    text: str
    function: str
    depth: int
    events: tuple[Event, ...]

    @property
    def values(self) -> dict[str, Any]:
        """The variables that it set, with their last values."""
        return {event.name: event.value for event in self.events if isinstance(event, Set)}

    @property
    def is_fault(self) -> bool:
        """Whether the launch stopped here."""
        return any(isinstance(event, Fault) for event in self.events)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {', '.join(map(str, self.events))}"


@dataclass(frozen=True)
class Trace:
    """What one thread did, in the order in which it did it: made by `kernel.over(n).trace(…)` or `kaio.trace(…)`.

    Printed, it is a table beside the source; a notebook shows it as one. Iterating gives its steps.

    fault: what the launch failed with, also where another thread is to blame; None where nothing did
    is_cut: whether the thread did more than the limit of steps, of which these are the first
    arrays: what the buffers hold after the run, by the names of the parameters
    """

    kernel: str
    thread: Dim3
    block: Dim3
    block_dim: Dim3
    grid_dim: Dim3
    steps: tuple[Step, ...] = field(repr=False)
    fault: KernelFault | None = field(default=None, repr=False)
    is_cut: bool = False
    arrays: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    names: frozenset[str] = field(default=frozenset(), repr=False, compare=False)

    @property
    def lines(self) -> list[int]:
        """The numbers of the lines, in the order in which they were executed."""
        return [step.line for step in self.steps]

    def values(self, name: str, function: str | None = None) -> list[Any]:
        """All values that a variable was set to, in order; of `function` alone where several have such a variable."""
        if name not in self.names:
            names = ", ".join(sorted(self.names))
            raise KaioError(
                f"kernel `{self.kernel}` has no variable `{name}`",
                help=did_you_mean(name, self.names) or f"it has {names}",
            )
        steps = [step for step in self.steps if function is None or step.function == function]
        events = [event for step in steps for event in step.events]
        return [event.value for event in events if isinstance(event, Set) and event.name == name]

    def __len__(self) -> int:
        return len(self.steps)

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    def __getitem__(self, position: int) -> Step:
        return self.steps[position]

    def __str__(self) -> str:
        return text_of(self)

    def _repr_html_(self) -> str:
        return html_of(self)


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
        self.is_cut, self.names = False, frozenset[str]()
        self._limit = limit
        self._lines: list[_Line] = []
        self._turns: dict[tuple[int, str], int] = {}

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
        if note.kind == "enter" and not self.names:
            self.names = frozenset(slot.name for frame in moment.watched.frames for slot in frame.slots)
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
                return Set(parts[0].name, parts[0].type, _kept(parts[0]), parts[0].text)
            case "store":
                index = parts[0].value if isinstance(parts[0].value, tuple) else (parts[0].value,)
                return Store(note.text, tuple(map(int, index)), parts[1].name, parts[1].value, parts[1].text)
            case "branch":
                return Branch(note.text, bool(parts[0].value))
            case "turn":
                return self._turn(note, bool(parts[0].value))
            case "call":
                return _call(note, parts)
            case "wait":
                return Wait(note.text)
            case "leave":
                return Return(parts[0].value, parts[0].text)
        return None

    def _turn(self, note: abi.Note, more: bool) -> Loop:
        key = note.frame, note.text
        self._turns[key] = self._turns.get(key, 0) + more
        return Loop(self._turns[key], more)


def _whose(fault: KernelFault) -> str:
    return f"thread {fault.facts['thread']} of block {fault.facts['block']}: "


def _kept(seen: Seen) -> Any:
    """A value that can be kept: of an array, whose elements change, its text."""
    return seen.value if not hasattr(seen.value, "ctypes") else seen.text


def _call(note: abi.Note, parts: tuple[Seen, ...]) -> Call:
    *_, last = parts or (None,)
    has_result = bool(note.parts) and note.parts[-1].name == abi.RESULT
    arguments = tuple(part.text for part in (parts[:-1] if has_result else parts))
    if has_result and last is not None:
        return Call(note.text, arguments, last.value, last.text)
    return Call(note.text, arguments, None, "")


def linear(position: Dim3, shape: Dim3) -> int:
    """The number of a thread in its block, or of a block in its grid, x first."""
    assert math.prod(shape) > 0
    return position[0] + shape[0] * (position[1] + shape[1] * position[2])
