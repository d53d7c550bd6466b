"""Looking on at a thread while it runs: the hook that a watched kernel calls, and what is to be seen there.

The layout is in `kaio/trace_abi.py`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from kaio import host_abi
from kaio import trace_abi as abi

__all__ = ["Moment", "Seen", "Watch"]

_HOOK = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p
)


class Seen(NamedTuple):
    """A value as it was at one moment: what it is called, its type, and the value in Python."""

    name: str
    type: str
    value: Any


class Moment(NamedTuple):
    """A thread at a note; good until the thread goes on."""

    watched: abi.Watched
    note: abi.Note
    thread: int
    block: int
    slots: int
    given: int

    @property
    def frame(self) -> abi.Frame:
        """The function that the thread is in."""
        return self.watched.frames[self.note.frame]

    @property
    def parts(self) -> tuple[Seen, ...]:
        """The values of the note."""
        memory = self.slots if self.note.kind == "set" else self.given
        return tuple(_seen(part, memory) for part in self.note.parts)

    @property
    def calls(self) -> tuple[tuple[abi.Frame, int], ...]:
        """The functions that the thread is in, the kernel first, each with the line that it is at."""
        found = [(self.frame, self.note.line)]
        frame = self.frame
        while frame.caller is not None and frame.place is not None:
            caller = self.watched.frames[frame.caller]
            found.insert(0, (caller, frame.place.line))
            frame = caller
        return tuple(found)

    def variables(self, frame: abi.Frame) -> Iterator[Seen]:
        """The variables of a function that are set."""
        for slot in frame.slots:
            tag = ctypes.c_int32.from_address(self.slots + slot.start).value
            if tag:
                yield _seen(self.watched.notes[tag - 1].parts[0], self.slots)


def _seen(part: abi.Part, memory: int) -> Seen:
    raw = ctypes.string_at(memory + part.start, part.layout.nbytes)
    return Seen(part.name, part.type, part.layout.value(raw))


class Watch:
    """Calls `look(moment)` at the notes of one thread, or of anyone; where it gives True, the launch is stopped.

    It is called in the thread that runs the kernel. What it raises stops the launch, and is raised by `end`.

    watched: what the kernel is made of, from `begin` on
    """

    def __init__(
        self,
        look: Callable[[Moment], bool],
        thread: int = abi.ANYONE,
        block: int = abi.ANYONE,
        level: int = abi.ALL,
    ) -> None:
        self._look, self.watched = look, abi.Watched((), ())
        self._state = ctypes.create_string_buffer(abi.STATE.size)
        self._hook = _HOOK(self._told)  # which native code calls: it lives as long as this does
        self._problem: BaseException | None = None
        self._covered = 0
        self.follow(thread, block, level)

    def follow(self, thread: int, block: int, level: int) -> None:
        """Look at this thread of this block from now on, so closely."""
        address = ctypes.cast(self._hook, ctypes.c_void_p).value
        abi.STATE.pack_into(self._state, 0, address, block, thread, level, self._covered)

    def cover(self, table: int) -> None:
        """Let the kernel note its writes in the table of `coverage_abi` at this address."""
        self._covered = table
        abi.STATE.pack_into(self._state, 0, *abi.STATE.unpack(self._state)[:-1], table)

    def begin(self, watched: abi.Watched | None) -> int:
        """A kernel is about to run; gives the address of the state."""
        self.watched = watched or self.watched
        return ctypes.addressof(self._state)

    def end(self) -> None:
        """The kernel is done; raises what went wrong while looking."""
        problem, self._problem = self._problem, None
        if problem is not None:
            raise problem

    def _told(self, context: int, thread: int, note: int, slots: int, given: int) -> int:
        block = ctypes.c_int64.from_address(context + host_abi.BLOCK).value
        try:
            return int(self._look(Moment(self.watched, self.watched.notes[note], thread, block, slots, given)))
        except BaseException as problem:
            self._problem = problem
            self.follow(abi.ANYONE, abi.ANYONE, abi.NOTHING)
            return 1
