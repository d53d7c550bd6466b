"""`Lane`: a stream of the worker, with an event behind each work of it that is not known to be done."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from kaio.runtime.cuda.driver import done, driver
from kaio.runtime.isolated.shared import Shared

__all__ = ["Lane", "Lanes"]

_QUIET, _WITH_TIME = driver.CUevent_flags.CU_EVENT_DISABLE_TIMING, driver.CUevent_flags.CU_EVENT_DEFAULT
_WITH_FENCE = driver.CUstreamWriteValue_flags.CU_STREAM_WRITE_VALUE_DEFAULT


class Lane:
    """One stream: the driver's, its slot, the number of its last work, and the events of its latest ones."""

    __slots__ = ("given", "marks", "raw", "slot")

    def __init__(self, raw: Any, slot: int, given: int) -> None:
        self.raw, self.slot, self.given = raw, slot, given
        self.marks: deque[tuple[int, Any]] = deque()  # numbers without gaps


class Lanes:
    """The streams of a worker. `base` is where the GPU sees the shared memory."""

    def __init__(self, shared: Shared, base: int) -> None:
        self._words, self._base = shared.words, base
        self._lanes: dict[int, Lane] = {}
        self._events: list[Any] = []
        self._clocks: list[Any] = []  # events that know the time
        self._busy: dict[Lane, None] = {}
        self._timed: deque[tuple[Lane, int, Any, Any]] = deque()

    def __getitem__(self, slot: int) -> Lane:
        return self._lanes[slot]

    def open(self, slot: int, priority: int) -> None:
        """A new stream; its counter stands at the last work that its slot had."""
        flags = driver.CUstream_flags.CU_STREAM_NON_BLOCKING
        raw = done(driver.cuStreamCreateWithPriority(flags, priority))
        self._lanes[slot] = Lane(raw, slot, self._words[slot])

    def close(self, slot: int) -> None:
        """End a stream whose work is done."""
        lane = self._lanes.pop(slot)
        self._prune(lane)
        self._busy.pop(lane, None)
        done(driver.cuStreamDestroy(lane.raw))

    def mark(self, lane: Lane, number: int) -> int:
        """Put an event and the count behind a work; gives what the driver says."""
        marks = lane.marks
        if marks and marks[0][0] <= self._words[lane.slot]:
            self._prune(lane)
        event = self._events.pop() if self._events else done(driver.cuEventCreate(_QUIET))
        code = driver.cuEventRecord(event, lane.raw)[0]
        marks.append((number, event))
        lane.given = number
        self._busy[lane] = None
        return int(
            code or driver.cuStreamWriteValue64(lane.raw, self._base + 8 * lane.slot, number, _WITH_FENCE)[0]
        )  # fmt: skip

    def _prune(self, lane: Lane) -> None:
        marks, count = lane.marks, self._words[lane.slot]
        while marks and marks[0][0] <= count:
            self._events.append(marks.popleft()[1])

    def wait(self, lane: Lane, other: Lane, number: int) -> int:
        """What comes on `lane` waits for a work of `other`."""
        if self._words[other.slot] >= number or not other.marks:
            return 0
        event = other.marks[number - other.marks[0][0]][1]
        return int(driver.cuStreamWaitEvent(lane.raw, event, 0)[0])

    # Time, and work that is not done.

    def start_timing(self, lane: Lane) -> Any:
        """An event that knows the time."""
        event = self._clocks.pop() if self._clocks else done(driver.cuEventCreate(_WITH_TIME))
        done(driver.cuEventRecord(event, lane.raw))
        return event

    def end_timing(self, lane: Lane, number: int, start: Any) -> None:
        """The work that began at `start` ends here, before its count."""
        self._timed.append((lane, number, start, self.start_timing(lane)))

    def tell_times(self, tell: Callable[[int, int, float], None]) -> bool:
        """Tell slot, number and milliseconds of all timed work that is done; True if there is more that is not."""
        for _ in range(len(self._timed)):
            lane, number, start, end = self._timed.popleft()
            if self._words[lane.slot] < number:
                self._timed.append((lane, number, start, end))
                continue
            tell(lane.slot, number, done(driver.cuEventElapsedTime(start, end)))
            self._clocks += start, end
        return bool(self._timed)

    def first_busy(self) -> Lane | None:
        """A stream with work that is not done."""
        for lane in list(self._busy):
            if self._words[lane.slot] < lane.given:
                return lane
            del self._busy[lane]
            self._prune(lane)
        return None
