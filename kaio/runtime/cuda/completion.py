"""Completions of a GPU, and the events behind them.

A launch costs little more than the driver's own call. Its completion records no event at first: the stream keeps a weak
reference to it, and before the next work goes in, whoever is still referred to gets its event there. So the event
stands right behind the work, but work whose completion nobody kept, and whose buffers were used again since, costs
none.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from kaio.errors import KaioError
from kaio.runtime.completion import Completion
from kaio.runtime.cuda.driver import NOT_READY, done, driver, is_sticky
from kaio.runtime.polling import watch

if TYPE_CHECKING:
    from kaio.runtime.cuda.stream import CudaStream

__all__ = ["CudaCompletion", "Event", "Events"]

_query = driver.cuEventQuery

_SPIN_S = 100e-6  # asking in a loop wakes up in under 2 us, a sleep in 60 and more
_AWAIT_SPIN_S = 20e-6  # inside an await other tasks wait meanwhile


class Events:
    """A pool of events of one device: making one costs more than recording it."""

    def __init__(self, flags: int, ask: Callable[[tuple[Any, ...]], Any]) -> None:
        self._flags, self._ask = flags, ask
        self.free: list[Any] = []

    def record(self, stream: Any) -> Event:
        """An event that stands behind all work on the stream so far."""
        code, event = self.try_record(stream)
        if code:
            self._ask((code,))
        return event

    def try_record(self, stream: Any) -> tuple[Any, Event]:
        """The same with what the driver says to it."""
        try:
            handle = self.free.pop()
        except IndexError:
            handle = self._ask(driver.cuEventCreate(self._flags))
        event = Event(handle, self)
        return driver.cuEventRecord(handle, stream)[0], event


class Event:
    """A recorded event, back in its pool when it is dropped: recording it again does not disturb who waits for it."""

    __slots__ = ("_pool", "handle")

    def __init__(self, handle: Any, pool: Events) -> None:
        self.handle, self._pool = handle, pool

    def __del__(self) -> None:
        self._pool.free.append(self.handle)


class CudaCompletion(Completion):
    """Work on a stream of a GPU."""

    stream: CudaStream
    _event: Event | None = None
    _start: Event | None = None
    _after: Sequence[CudaCompletion] = ()  # checked launches whose results this one takes

    def _mark(self) -> None:
        """Put the event behind the work, if it has none yet. The lock of the device is held."""
        if self._event is None and not self._finished and self.stream.device.fault is None:
            self._event = self.stream.record_event()

    def _poll(self) -> bool:
        if self._finished:
            return True
        device = self.stream.device
        if device.fault is None:
            if self._event is None:
                with device._lock:
                    self._mark()
            event = self._event
            if event is not None:
                code = _query(event.handle)[0]
                if code == NOT_READY:
                    return False
                if not code:
                    self._finish(None)
                    return True
                if not is_sticky(code):
                    device.ask((code,))
                device.poison(code)
        self._finish(device.fault)
        return True

    def _finish(self, error: KaioError | None) -> None:
        prints = self.stream.device.prints
        if prints is not None:  # before anyone learns that the work is done
            prints.show(getattr(self, "_loaded", None))
        if self._after and error is None:
            error = self._inherited()
        with self.stream.device._lock:
            if self._finished:
                return
            if error is not None or self._error is not None:
                self._error = self._error or error
            elif self._start is not None and self._event is not None:
                self._elapsed_ms = done(driver.cuEventElapsedTime(self._start.handle, self._event.handle))
            if self.stream.device.fault is None and self.stream.last() is self:
                self.stream.recent.clear()
            self._finished = True
            self._event = self._start = None
            if self._after:
                self._after = ()

    def _inherited(self) -> Any:
        """What the checks of earlier work found, whose results this one took."""
        for earlier in self._after:
            earlier._poll()  # which is done: the stream has waited for it
            if earlier._error is not None:
                return earlier._error
        return None

    def _check(self) -> None:
        if self._error is not None:
            self._seen = True
            if self.stream.device.fault is not None:
                self.stream.device.fault_seen = True
            raise self._error.with_traceback(None)

    def _block(self, timeout_s: float | None) -> bool:
        start = time.perf_counter()
        while not self._poll():
            waited = time.perf_counter() - start
            if timeout_s is not None and waited >= timeout_s:
                return False
            if waited > _SPIN_S:
                # Not the driver's own wait: that one neither knows a time limit nor lets Ctrl-C through.
                pause = 50e-6 if waited < 0.1 else 500e-6
                time.sleep(pause if timeout_s is None else max(0.0, min(pause, timeout_s - waited)))
        return True

    def _spin(self) -> bool:
        start = time.perf_counter()
        while not self._poll():
            if time.perf_counter() - start > _AWAIT_SPIN_S:
                return False
        return True

    def _watch(self) -> None:
        watch(self)
