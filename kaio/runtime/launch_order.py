"""Which work on a device comes after which: by streams, by the buffers that are used, by the host that waited.

Two launches that nothing orders may run at the same time, and race with each other if they share memory: two imports of
one array are two buffers, between which kaio does not order work. What comes after what is kept as vector clocks
(Lamport 1978; Mattern 1989): each stream counts its work, and each work knows how much of every stream is before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from kaio.forking import fork_lock

if TYPE_CHECKING:
    from kaio.runtime.memory import Memory
    from kaio.runtime.stream import Stream, Uses

__all__ = ["LaunchOrder", "Moment"]

Counts = Mapping[int, int]
"""How much of each stream, by its number, is before something."""


@dataclass(frozen=True, slots=True)
class Moment:
    """When some work was submitted: to which stream, as which of its works, and what is before it, itself included."""

    stream: int
    number: int
    before: Counts

    def is_after(self, other: Moment) -> bool:
        """Whether the other work is done before this one starts."""
        return self.before.get(other.stream, 0) >= other.number


@dataclass(slots=True)
class _Use:
    """What is before the next read of some memory, and before the next write."""

    written: Counts
    used: Counts


class LaunchOrder:
    """The order of all work on a device since this was made; what was submitted before is before all of it."""

    def __init__(self) -> None:
        self._lock = fork_lock()
        self._host: dict[int, int] = {}
        self._numbers: WeakKeyDictionary[Stream, int] = WeakKeyDictionary()
        self._last: WeakKeyDictionary[Stream, Moment] = WeakKeyDictionary()
        self._uses: WeakKeyDictionary[Memory, _Use] = WeakKeyDictionary()
        self._streams = 0

    def submit(self, stream: Any, uses: Uses, is_managed: bool = True, after: Iterable[Moment] = ()) -> Moment:
        """Work that is submitted now, and waits for these works and, if it `is_managed`, for earlier work on what it
        uses.
        """
        with self._lock:
            before = dict(self._host)
            last = self._last.get(stream)
            if last is not None:
                _add(before, last.before)
            for moment in after:
                _add(before, moment.before)
            for buffer, access in uses if is_managed else ():
                use = self._uses.get(buffer.memory)
                if use is not None:
                    _add(before, use.written if access == "In" else use.used)
            moment = self._next(stream, before)
            for buffer, access in uses:
                self._note(buffer.memory, before, access != "In", is_managed)
            return moment

    def _next(self, stream: Stream, before: dict[int, int]) -> Moment:
        line = self._numbers.get(stream)
        if line is None:
            self._streams += 1
            line = self._numbers[stream] = self._streams
        number = before[line] = before.get(line, 0) + 1
        moment = self._last[stream] = Moment(line, number, before)
        return moment

    def _note(self, memory: Memory, before: Counts, writes: bool, is_managed: bool) -> None:
        use = self._uses.get(memory)
        if use is None or (writes and is_managed):
            self._uses[memory] = _Use(before if writes else {}, before)
        elif writes:  # besides what was written before
            use.written, use.used = _joined(use.written, before), _joined(use.used, before)
        else:
            use.used = _joined(use.used, before)

    # ------------------------------------------------------------------ what the host has seen
    def reach(self, moment: Moment) -> None:
        """The host goes on after it has seen that this work is done."""
        if self._host.get(moment.stream, 0) < moment.number:
            with self._lock:
                _add(self._host, moment.before)

    def reach_uses(self, memory: Memory, writes: bool) -> None:
        """The host goes on after the work that wrote this memory or, if it `writes` itself, that used it."""
        with self._lock:
            use = self._uses.get(memory)
            if use is not None:
                _add(self._host, use.used if writes else use.written)

    def last(self, stream: Stream) -> Moment | None:
        """The last work on a stream."""
        return self._last.get(stream)

    def is_reached(self, moment: Moment) -> bool:
        """Whether all that is submitted from now on comes after this work."""
        return self._host.get(moment.stream, 0) >= moment.number


def _add(counts: dict[int, int], more: Counts) -> None:
    for stream, number in more.items():
        if counts.get(stream, 0) < number:
            counts[stream] = number


def _joined(one: Counts, two: Counts) -> Counts:
    both = dict(one)
    _add(both, two)
    return both
