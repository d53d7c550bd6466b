"""`Accounts`: how much memory of a device is in buffers, which hold most, and how much they may be."""

from __future__ import annotations

import sys
import weakref
from collections import deque
from itertools import accumulate
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, Any, NamedTuple

from kaio.errors import KaioError
from kaio.forking import fork_lock

if TYPE_CHECKING:
    from kaio.runtime.memory import Memory

__all__ = ["Accounts", "DeviceStats", "Origin", "find_origin", "read_limit"]

_KAIO = str(Path(__file__).parents[1])
_MOST_EVENTS = 4096
_ref, _frame_at = weakref.ref, sys._getframe

Origin = tuple[CodeType, int]
"""Code and the place in it: what a line is found from when it is asked for."""


class DeviceStats(NamedTuple):
    """What kaio holds of a device's memory: its own buffers (imported memory is not counted), sizes in bytes.

    live_buffers, live_nbytes: the buffers that are alive, and their size
    peak_nbytes: the most that their size ever was
    reserved_nbytes, reserved_peak_nbytes: what the device's pool has from the system, now and at most: the buffers,
        and what is kept for the next ones (`device.trim()` gives that back)
    used_nbytes: the part of it that is in buffers, or waits for work that uses it
    pinned_nbytes: pinned memory of the host, in pinned arrays or kept for copies
    limit_nbytes: how large the buffers may become together (`device.set_memory_limit`), None: as the device has memory
    """

    live_buffers: int
    live_nbytes: int
    peak_nbytes: int
    reserved_nbytes: int = 0
    used_nbytes: int = 0
    reserved_peak_nbytes: int = 0
    pinned_nbytes: int = 0
    limit_nbytes: int | None = None


class Accounts:
    """The buffers of a device, counted.

    What comes and goes is noted in a row, which finalisers do too, at any moment and in any thread, and added up when
    somebody asks.
    """

    __slots__ = ("_lock", "_nbytes", "_peak_nbytes", "events", "limit", "references")

    def __init__(self) -> None:
        self._nbytes = self._peak_nbytes = 0
        self._lock = fork_lock()
        self.limit: int | None = None
        self.references: dict[int, weakref.ref[Memory]] = {}
        self.events: deque[int] = (
            deque()
        )  # one more than the bytes of a buffer that came, the negative of one that went

    def add(self, memory: Memory) -> None:
        """Count memory of a buffer."""
        self.references[id(memory)] = _ref(memory)
        self.events.append(memory.nbytes)
        if len(self.events) > _MOST_EVENTS:
            self.count()

    def remove(self, memory: Memory) -> None:
        """Memory was given back."""
        self.references.pop(id(memory), None)
        self.events.append(-memory.nbytes)

    def count(self) -> tuple[int, int, int]:
        """How many buffers there are, how large they are together, and the most that was."""
        with self._lock:
            events = [self.events.popleft() for _ in range(len(self.events))]
            sizes = list(accumulate(events, initial=self._nbytes))
            self._nbytes, self._peak_nbytes = sizes[-1], max(self._peak_nbytes, *sizes)
            return len(self.references), self._nbytes, self._peak_nbytes

    def has_room(self, nbytes: int) -> bool:
        """Whether the limit leaves room for so much more."""
        return self.limit is None or self.count()[1] + nbytes <= self.limit

    def live(self) -> list[Memory]:
        """The memory of all buffers."""
        found = (reference() for reference in self.references.copy().values())
        return [memory for memory in found if memory is not None and not memory.closed]

    def largest(self, count: int) -> list[Memory]:
        """That of the largest, the largest first."""
        return sorted(self.live(), key=lambda memory: memory.nbytes, reverse=True)[:count]

    def spelled(self, memory: Memory) -> str:
        """A buffer as an error tells it: what it holds, how much, and the line that made it."""
        what = "" if memory.made is None else f"{memory.made[0]!r}[{', '.join(map(str, memory.made[1]))}] of "
        return f"{what}{memory.nbytes:,} bytes{_line_of(memory.origin)}"


def find_origin(depth: int) -> Origin | None:
    """The line outside of kaio that called, where `depth` (this function is 0) or more frames are kaio's."""
    frame: Any = _frame_at(depth)
    while frame is not None and frame.f_code.co_filename.startswith(_KAIO):
        frame = frame.f_back
    return None if frame is None else (frame.f_code, frame.f_lasti)


def _line_of(origin: Origin | None) -> str:
    if origin is None:
        return ""
    code, at = origin
    line = next((line for start, stop, line in code.co_lines() if start <= at < stop), None)
    return f" ({code.co_filename}:{line or code.co_firstlineno})"


def read_limit(nbytes: Any, name: str) -> int:
    """A number of bytes, or KaioError showing the value."""
    if isinstance(nbytes, bool) or not isinstance(nbytes, int) or nbytes < 0:
        raise KaioError(f"`{name}` is a number of bytes, 0 or more (got {nbytes!r})")
    return nbytes
