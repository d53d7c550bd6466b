"""One thread that learns when work is done, and tells what waits for it without a thread of its own.

Work of one stream is done in order, so only the first pending work of each stream is asked about. While things go on
the thread asks every now and then; once nothing has for a while, it lets native threads of the drivers wake it. Those
are not told of a fault, so that it still asks a few times a second; and no Python runs in them, which could deadlock
with a thread that holds the GIL inside a driver call.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from kaio.runtime.bell import Bell
from kaio.runtime.callbacks import finish_callbacks

if TYPE_CHECKING:
    from kaio.runtime.completion import Completion

__all__ = ["pause_after", "watcher"]

_log = logging.getLogger("kaio")

# A sleep of 20 us takes about 70 with the timer slack of Linux.
_SHORTEST_S, _LONG_S, _LONGEST_S = 20e-6, 1e-3, 5e-3
_LIVELY_S = 300e-6  # after this long without news, to wait natively costs less than to go on asking
_SAFETY_S = 0.05
_BATCH = 64  # are told at one go, before others have the GIL: some 0.3 ms
_BUSY = 8  # awaits of so much work do without spinning: together they would hold up their loop
_STOP_S, _CALLBACKS_S = 5.0, 0.5


def pause_after(waited_s: float) -> float:
    """How long to sleep before asking again: a small part of the time since the last news, so that few wake-ups do."""
    return min(max(waited_s / 16, _SHORTEST_S), max(_LONG_S, min(waited_s / 64, _LONGEST_S)))


class _Line:
    """The watched work of one stream, in the order in which it will be done."""

    __slots__ = ("_turns", "_works", "is_armed")

    def __init__(self) -> None:
        self._turns: list[int] = []
        self._works: list[Completion] = []
        self.is_armed = False

    def __len__(self) -> int:
        return len(self._works)

    def add(self, work: Completion) -> None:
        turn = work._turn()
        at = bisect_right(self._turns, turn)
        self._turns.insert(at, turn)
        self._works.insert(at, work)
        self.is_armed = self.is_armed and at > 0

    def take_done(self) -> list[Completion]:
        """Take out some work that is done, from the first on: one is asked, then one further on, as long as all are."""
        works = self._works
        count = min(_BATCH, len(works))
        done, step = 0, 1
        while done < count and step:
            ahead = min(done + step, count)
            if _is_done(works[ahead - 1], is_first=ahead == done + 1):
                done, step = ahead, step * 2
            elif ahead == done + 1:
                break
            else:
                count, step = ahead - 1, 1
        taken = works[:done]
        if done:
            del self._turns[:done], works[:done]
            self.is_armed = False
        return taken

    def arm(self, bell: Bell) -> None:
        if not self.is_armed and self._works:
            self.is_armed = self._works[0]._arm(bell)


class Watcher:
    """The thread, its pending work, and the bell that wakes it."""

    def __init__(self) -> None:
        self._arrived: deque[Completion] = deque()
        self._lines: dict[Any, _Line] = {}  # by stream
        self._bell, self._is_rung = Bell(), False
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._is_stopped = False
        self._count = 0
        self._preparations: list[Callable[[], object]] = []

    @property
    def is_busy(self) -> bool:
        """Whether so much work is watched that to wait for one piece actively would hold up others."""
        return self._count + len(self._arrived) >= _BUSY

    def prepare(self, call: Callable[[], object]) -> None:
        """Let the thread call this before it asks about any work that is watched from now on."""
        self._preparations.append(call)

    def watch(self, work: Completion) -> None:
        """Tell the listeners of work once it is done. Returns at once, unless there can be no thread: then it waits."""
        if not self._start():
            work._block(None)
            work._tell()
            return
        self._arrived.append(work)
        self._ring()

    def _start(self) -> bool:
        if self._thread is not None and self._thread.is_alive():
            return not self._is_stopped
        with self._starting:
            if self._thread is None or not self._thread.is_alive():
                if self._is_stopped:
                    return False
                thread = threading.Thread(target=self._serve, name="kaio completions", daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # the system has no more, or Python ends
                    return False
                self._thread = thread
        return True

    def _ring(self) -> None:
        if not self._is_rung:
            self._is_rung = True
            self._bell.ring()

    def stop(self) -> None:
        """At exit: a thread that is inside a driver while Python ends would crash."""
        self._is_stopped = True
        if self._thread is not None:
            self._ring()
            self._thread.join(_STOP_S)

    def _serve(self) -> None:
        last_news, prepared = time.monotonic(), 0
        while not self._is_stopped:
            while prepared < len(self._preparations):
                self._preparations[prepared]()
                prepared += 1
            start = time.monotonic()
            is_new = self._let_in()
            is_new = self._tell_done() or is_new
            now = time.monotonic()
            if is_new:
                last_news = now
            self._is_rung = False
            if not self._arrived:  # who has brought something since has seen that the bell was rung
                self._bell.wait(self._pause(now - last_news, now - start))
        while self._let_in() or self._tell_done():  # what the devices have waited for at exit
            pass

    def _let_in(self) -> bool:
        arrived = self._arrived
        count = len(arrived)
        for _ in range(count):
            work = arrived.popleft()
            line = self._lines.get(work.stream)
            if line is None:
                line = self._lines[work.stream] = _Line()
            line.add(work)
            del work
        self._count += count
        return count > 0

    def _tell_done(self) -> bool:
        is_new = False
        for stream, line in list(self._lines.items()):
            taken = line.take_done()
            if not line:
                del self._lines[stream]
            if taken:
                is_new = True
                self._count -= len(taken)
                for work in taken:
                    if not _tell(work):
                        self._arrived.append(work)
        return is_new

    def _pause(self, quiet_s: float, turn_s: float) -> float:
        """How long to wait for the bell, armed if that is worth while."""
        if not self._lines:
            return _FOREVER_S
        if quiet_s >= _LIVELY_S:
            for line in self._lines.values():
                line.arm(self._bell)
        if all(line.is_armed for line in self._lines.values()):
            return _SAFETY_S
        # No more than a third of a core goes into asking, however many streams there are.
        return max(pause_after(quiet_s), 2 * turn_s)


_FOREVER_S = 3600.0


def _is_done(work: Completion, is_first: bool) -> bool:
    try:
        return work.is_done
    except Exception:
        if is_first:
            _log.exception("asking about %r failed", work)
        return is_first  # who waits asks again, and is told


def _tell(work: Completion) -> bool:
    """False if it is not done after all: a device may learn of one piece later than of what comes after it."""
    try:
        work._end()
        if not work._finished:
            return False
    except Exception:
        _log.exception("asking about %r failed", work)
    work._tell()
    return True


watcher = Watcher()


def _stop() -> None:
    with suppress(KeyboardInterrupt):
        watcher.stop()
        finish_callbacks(_CALLBACKS_S)


def _after_fork() -> None:
    """In a child process: the thread stayed in the parent."""
    preparations = watcher._preparations
    watcher.__init__()  # type: ignore[misc]
    watcher._preparations = preparations


# Registered before any device is opened: so it is called after the devices have waited for their work.
atexit.register(_stop)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
