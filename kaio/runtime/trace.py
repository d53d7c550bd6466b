"""`Trace`: what one thread of a kernel did, line by line. `recording` makes it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kaio.errors import KaioError, KernelFault, did_you_mean
from kaio.runtime.trace_table import html_of, text_of
from kaio.runtime.value_text import value_text

__all__ = [
    "Arrays", "Branch", "Call", "Dim3", "Event", "Fault", "Loop", "NotThere", "Return", "Set", "Step", "Store", "Trace",
    "Wait",
]  # fmt: skip

Dim3 = tuple[int, int, int]


@dataclass(frozen=True)
class Set:
    """A variable was set, by name; `value` is a NumPy scalar, a tuple, or an object of its class."""

    name: str
    type: str
    value: Any

    def __str__(self) -> str:
        return f"{self.name} = {value_text(self.value)}"


@dataclass(frozen=True)
class Store:
    """An element was set: `array[index]`, or the part of it that `path` names."""

    array: str
    index: tuple[int, ...]
    path: str
    value: Any

    def __str__(self) -> str:
        return f"{self.array}[{', '.join(map(str, self.index))}]{self.path} = {value_text(self.value)}"


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
    """A function of kaio's was called that does something; of a buffer the argument is its name."""

    function: str
    arguments: tuple[Any, ...]
    result: Any = None

    def __str__(self) -> str:
        given = "" if self.result is None else f" gives {value_text(self.result)}"
        return f"{self.function}({', '.join(map(value_text, self.arguments))}){given}"


@dataclass(frozen=True)
class Wait:
    """The thread came to where it waits for others."""

    function: str

    def __str__(self) -> str:
        return f"waits in {self.function}"


@dataclass(frozen=True)
class Return:
    """A function returned, the kernel with None."""

    value: Any = None

    def __str__(self) -> str:
        return "returns" if self.value is None else f"returns {value_text(self.value)}"


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


class Arrays(dict[str, Any]):
    """What the buffers of a kernel hold, by the names of the parameters."""

    def __init__(self, kernel: str, arrays: Mapping[str, Any]) -> None:
        super().__init__(arrays)
        self._kernel = kernel

    def __missing__(self, name: object) -> Any:
        raise _not_there(f"kernel `{self._kernel}` has no buffer `{name}`", str(name), self)


class NotThere(KaioError, KeyError):
    """A name that is none of those; a KeyError as it is for all of Python's mappings."""

    __str__ = KaioError.__str__  # that of a KeyError shows its text as a literal


def _not_there(what: str, name: str, names: Iterable[str]) -> NotThere:
    there = ", ".join(f"`{known}`" for known in sorted(names)) or "none"
    return NotThere(what, help=did_you_mean(name, names) or f"it has {there}")


@dataclass(frozen=True)
class Trace:
    """What one thread did, in the order in which it did it: made by `kernel.over(n).trace(…)` or `kaio.trace(…)`.

    Printed, it is a table beside the source; a notebook shows it as one. Iterating gives its steps.

    fault: what the launch failed with, also where another thread is to blame; None where nothing did
    is_cut: whether the thread did more than the limit of steps, of which these are the first
    arrays: what the buffers hold after the run, by the names of the parameters
    variables: the names of the variables of each function
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
    variables: Mapping[str, frozenset[str]] = field(default_factory=dict, repr=False, compare=False)

    @property
    def lines(self) -> list[int]:
        """The numbers of the lines, in the order in which they were executed."""
        return [step.line for step in self.steps]

    def values(self, name: str, function: str | None = None) -> list[Any]:
        """All values that a variable was set to, in order; of `function` alone where several have such a variable."""
        if function is not None and function not in self.variables:
            raise _not_there(f"kernel `{self.kernel}` calls no function `{function}`", function, self.variables)
        names = frozenset[str]().union(*self.variables.values())
        if name not in names:
            raise _not_there(f"kernel `{self.kernel}` has no variable `{name}`", name, names)
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
