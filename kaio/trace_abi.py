"""What compiled code that is watched and the runtime that watches it agree on.

A kernel compiled to be watched keeps the variables of each function that it is made of in slots: a tag, which is 0
until the variable is set and then 1 more than the number of the note that set it, and behind it the value, its parts
side by side. At each *note* - a line that begins, a variable that was set, a store, a branch - it calls, for the thread
that is watched, ``hook(context, thread, note, slots, given)``: `slots` is where the slots lie, `given` where the values
lie that belong to the note alone. Where the hook gives something else than 0, the thread stops with a fault.

Who is watched, and how closely, stands in a `STATE` that the block's context points to (`host_abi.WATCH`).
"""

from __future__ import annotations

import ctypes
import enum
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from kaio.dtypes import DType
from kaio.errors import Place
from kaio.source import Source

__all__ = [
    "ALL", "ANYONE", "BREAKS", "COVERED", "HOOK", "LEVEL", "NOTHING", "RESULT", "STATE", "TAG_NBYTES", "WATCHED_BLOCK",
    "WATCHED_THREAD", "Array", "Choice", "Frame", "Kind", "Known", "Layout", "Member", "Note", "Number", "Part",
    "Parts", "Slot", "Watched",
]  # fmt: skip

STATE = struct.Struct("@qqiiq")  # hook, block, thread, level; address of the table of `coverage_abi`
HOOK, WATCHED_BLOCK, WATCHED_THREAD, LEVEL, COVERED = 0, 8, 16, 20, 24
ANYONE = -1  # as the block or the thread: any
NOTHING, BREAKS, ALL = 0, 1, 2  # levels: call the hook never, at `breakpoint()` only, at each note
TAG_NBYTES = 4

Memory = memoryview | bytes


@dataclass(frozen=True)
class Number:
    """A number of one type, as its bytes."""

    dtype: DType

    @property
    def nbytes(self) -> int:
        """How many bytes it takes."""
        return self.dtype.itemsize

    def value(self, raw: Memory) -> Any:
        """The NumPy scalar."""
        return np.frombuffer(raw, self.dtype.numpy, 1)[0]


@dataclass(frozen=True)
class Known:
    """A value that is known when compiling."""

    of: Any
    nbytes: int = 0

    def value(self, raw: Memory) -> Any:
        """The value."""
        return self.of


@dataclass(frozen=True)
class Choice:
    """One of several literals, by its position as an i32."""

    values: tuple[Any, ...]
    nbytes: int = 4

    def value(self, raw: Memory) -> Any:
        """The literal."""
        return self.values[int.from_bytes(raw[:4], "little")]


@dataclass(frozen=True)
class Member:
    """A member of an enum, by its value."""

    of: type[enum.Enum]
    dtype: DType

    @property
    def nbytes(self) -> int:
        """How many bytes it takes."""
        return self.dtype.itemsize

    def value(self, raw: Memory) -> Any:
        """The member, or the number where there is none of that value."""
        number = int(np.frombuffer(raw, self.dtype.numpy, 1)[0])
        try:
            return self.of(number)
        except ValueError:
            return number


@dataclass(frozen=True)
class Parts:
    """Several parts side by side.

    of: what the value is: ``complex``, a class of records, a structured dtype, or None for a tuple
    names: of the parts, where they have some
    """

    items: tuple[Layout, ...]
    of: Any = None
    names: tuple[str, ...] = ()

    @property
    def nbytes(self) -> int:
        """How many bytes they take."""
        return sum(item.nbytes for item in self.items)

    def _each(self, raw: Memory) -> Iterator[tuple[Layout, Memory]]:
        at = 0
        for item in self.items:
            yield item, raw[at : at + item.nbytes]
            at += item.nbytes

    def value(self, raw: Memory) -> Any:
        """The parts as what they are."""
        values = tuple(item.value(part) for item, part in self._each(raw))
        if self.of is None:
            return values
        if self.of is complex:
            made = complex(*values)
            return np.complex64(made) if self.items[0].nbytes == 4 else np.complex128(made)
        return self.of(*values) if isinstance(self.of, DType) else self.of(**dict(zip(self.names, values, strict=True)))


@dataclass(frozen=True)
class Array:
    """A buffer or an array: where it lies, then its sizes, then its strides in elements, each an i64.

    shape: where it is known when compiling
    """

    dtype: DType
    ndim: int
    strided: bool = False
    shape: tuple[int, ...] | None = None

    @property
    def nbytes(self) -> int:
        """How many bytes it takes."""
        return 8 if self.shape is not None else 8 * (1 + self.ndim * (1 + self.strided))

    def sizes(self, raw: Memory) -> tuple[int, ...]:
        """The sizes of its axes."""
        return self.shape if self.shape is not None else struct.unpack_from(f"@{self.ndim}q", raw, 8)

    def value(self, raw: Memory) -> Any:
        """The elements, where they lie: good for as long as the thread stands still."""
        (address,), sizes, itemsize = struct.unpack_from("@q", raw), self.sizes(raw), self.dtype.itemsize
        if 0 in sizes:
            return np.empty(sizes, self.dtype.numpy)
        steps = _in_order(sizes)
        if self.strided:
            steps = struct.unpack_from(f"@{self.ndim}q", raw, 8 * (1 + self.ndim))
        low = sum(min(0, step * (size - 1)) for size, step in zip(sizes, steps, strict=True))
        high = sum(max(0, step * (size - 1)) for size, step in zip(sizes, steps, strict=True))
        memory: Any = (ctypes.c_char * ((high - low + 1) * itemsize)).from_address(address + low * itemsize)
        strides = [step * itemsize for step in steps]
        return np.ndarray(sizes, self.dtype.numpy, memory, -low * itemsize, strides)


Layout = Number | Known | Choice | Member | Parts | Array
"""How a value lies in memory: `nbytes` in all, and `value(memory)` in Python."""


def _in_order(sizes: Sequence[int]) -> tuple[int, ...]:
    steps = [1]
    for size in reversed(sizes[1:]):
        steps.insert(0, steps[0] * size)
    return tuple(steps[: len(sizes)])


@dataclass(frozen=True)
class Slot:
    """Where a variable of a function is kept: the tag, and the value behind it."""

    name: str
    start: int


@dataclass(frozen=True)
class Frame:
    """A function that is lowered into the kernel, at one place that calls it; the first is the kernel itself.

    caller: the number of the frame that calls it, None of the kernel
    place: where it is called
    """

    function: str
    source: Source
    slots: tuple[Slot, ...]
    caller: int | None = None
    place: Place | None = None
    depth: int = 0


RESULT = "->"  # the name of the part of a call that is what it gave
Kind = Literal["enter", "line", "set", "store", "branch", "loop", "turn", "call", "wait", "leave", "break"]


@dataclass(frozen=True)
class Part:
    """One value of a note: what it is called, its type in words, and where it lies."""

    name: str
    type: str
    layout: Layout
    start: int = 0


@dataclass(frozen=True)
class Note:
    """A numbered place at which the hook is called.

    ``enter``: a function begins; ``line``: a statement; ``set``: a variable was set, whose slot the one part says;
    ``store``: the parts are index and value; ``branch``: the part is which way it goes; ``loop``: one begins; ``turn``:
    the part is whether there is one more; ``call``: the parts are arguments, and at last the result if there is one;
    ``wait``: the thread waits for others; ``leave``: a function returns the part; ``break``: `breakpoint()`.

    line: the first line of the statement, in the file of the frame
    text: the array, the condition as written, or the function that is called
    """

    kind: Kind
    frame: int
    line: int
    place: Place
    text: str = ""
    parts: tuple[Part, ...] = ()


@dataclass(frozen=True)
class Watched:
    """What a kernel that is compiled to be watched is made of: its notes and frames by their numbers."""

    notes: tuple[Note, ...]
    frames: tuple[Frame, ...]

    @property
    def breaks(self) -> bool:
        """Whether a thread may come to a `breakpoint()`."""
        return any(note.kind == "break" for note in self.notes)
