"""Completions of a GPU, and the events behind them.

A launch costs little more than the driver's own call. Its completion records no event at first: the stream keeps a weak
reference to it, and before the next work goes in, whoever is still referred to gets its event there. So the event
stands right behind the work, but work whose completion nobody kept, and whose buffers were used again since, costs
none.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from kaio.errors import KaioError
from kaio.runtime.bell import Bell
from kaio.runtime.clocks import Place
from kaio.runtime.completion import Completion
from kaio.runtime.cuda.driver import NOT_READY, driver, is_sticky
from kaio.runtime.watching import pause_after, watcher

if TYPE_CHECKING:
    from kaio.runtime.cuda.stream import CudaStream

__all__ = ["CudaCompletion", "Event", "Events", "Repeated"]

_query = driver.cuEventQuery

# To ask in a loop for as long as another way takes to wake up costs at most twice the best that there is (Karlin et
# al., "Competitive randomized algorithms for nonuniform problems", 1994). A thread that waits hinders nobody with it,
# while in an await other tasks wait meanwhile.
_SPIN_S, _AWAIT_SPIN_S = 100e-6, 50e-6
_SHORT_S = 1e-3  # to wait natively is not worth while for less
_SAFETY_S = 0.05  # the driver rings no bell after a fault: so often is asked for one

_numbers = itertools.count(1)


def _ignore_captures() -> None:
    """Asking about an event would break a capture that another library has begun in another thread meanwhile."""
    driver.cuThreadExchangeStreamCaptureMode(driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED)


watcher.prepare(_ignore_captures)


class Events:
    """A pool of events of one device: making one costs more than recording it."""

    def __init__(self, flags: int, ask: Callable[[tuple[Any, ...]], Any], current: Callable[[], Any]) -> None:
        self._flags, self._ask, self._current = flags, ask, current
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
            with self._current():  # an event is of the context that is current, and for its streams alone
                handle = self._ask(driver.cuEventCreate(self._flags))
        event = Event(handle, self)
        return driver.cuEventRecord(handle, stream)[0], event


class Event:
    """A recorded event, back in its pool when it is dropped: recording it again does not disturb who waits for it."""

    __slots__ = ("_pool", "handle", "number", "place")

    place: Place | None  # among the work of its stream; None of a stream of another library

    def __init__(self, handle: Any, pool: Events) -> None:
        self.place = None
        self.handle, self._pool = handle, pool
        self.number = next(_numbers)  # in the order of the recordings, which is that of the work on each stream

    def __del__(self) -> None:
        self._pool.free.append(self.handle)


class CudaCompletion(Completion):
    """Work on a stream of a GPU."""

    stream: CudaStream
    _event: Event | None = None
    _start: Event | None = None
    _bell: Bell  # that of a wait that timed out
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
                elapsed = driver.cuEventElapsedTime(self._start.handle, self._event.handle)
                self._elapsed_ms = self.stream.device.ask(elapsed)
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
        if self._poll():
            return True
        start = time.monotonic()
        deadline = math.inf if timeout_s is None else start + timeout_s
        strategy = self.stream.policy.completion
        if strategy != "host_fn" and self._poll_until(min(deadline, start + _SPIN_S)):
            return True
        return self._wait(start, deadline)

    def _wait(self, start: float, deadline: float) -> bool:
        """Wait natively if that can be, else asking again and again; True once the work is done."""
        # A wait that timed out has left its bell, which will ring: the next one need not arm another.
        kept: Bell | None = self.__dict__.pop("_bell", None)
        bell, is_armed, is_done = kept or Bell(), kept is not None, False
        try:
            while not is_done:
                now = time.monotonic()
                if now >= deadline:
                    break
                if not is_armed and deadline - now > _SHORT_S:
                    is_armed = self._arm(bell)
                bell.wait(min(_SAFETY_S if is_armed else pause_after(now - start), deadline - now))
                is_done = self._poll()
        finally:
            if is_armed and not is_done:
                self._bell = bell
        return is_done

    def _arm(self, bell: Bell) -> bool:
        event = self._event
        if event is None or self.stream.policy.completion == "polled":
            return False
        return self.stream.device.waiters.ring_after(event.handle, bell)

    def _poll_until(self, deadline: float) -> bool:
        while not self._poll():
            if time.monotonic() > deadline:
                return False
        return True

    def _spin(self) -> bool:
        if watcher.is_busy:  # to ask costs, and other tasks wait: the watcher asks about many at once
            return self._finished
        if self.stream.policy.completion != "adaptive":
            return self._poll()
        return self._poll_until(time.monotonic() + _AWAIT_SPIN_S)

    def _turn(self) -> int:
        event = self._event
        return 0 if event is None else event.number

    def _end(self) -> None:
        if self._finished:
            return
        if self.stream.device.fault is None:
            self._finish(None)
        else:
            self._poll()

    def _watch(self) -> None:
        if self._event is None:
            with self.stream.device._lock:
                self._mark()
        watcher.watch(self)


class Repeated(CudaCompletion):
    """All launches of a bound launch so far, as the memory that they use remembers them.

    It moves on with each of them, until somebody looks at it or other work goes in: from then on it stands for the
    last one, as any completion does. So a bound launch that is repeated has nothing to note in its buffers.
    """

    token: object  # the stream has it as its `turn` as long as this moves on

    def _mark(self) -> None:
        if self.stream.turn is self.token:
            self.stream.turn = None
        super()._mark()
