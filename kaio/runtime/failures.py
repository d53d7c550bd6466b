"""`Failures`: what went wrong and nobody has seen yet, so that none is lost."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kaio.runtime.completion import Completion
    from kaio.runtime.stream import Stream

__all__ = ["Failures", "note_unseen"]

_log = logging.getLogger("kaio")


def note_unseen(error: BaseException, what: str) -> None:
    """Say on an error that it is not of what its catcher waits for."""
    note = f"This is from {what}, started earlier, which nobody had waited for."
    if note not in getattr(error, "__notes__", ()):
        error.add_note(note)


class Failures:
    """The failed work of a device, until somebody sees each failure."""

    def __init__(self) -> None:
        self._failed: list[Completion] = []
        self._lock = threading.Lock()

    def note(self, done: Completion) -> None:
        """Keep a failure until somebody sees it."""
        with self._lock:
            self._failed = [*(earlier for earlier in self._failed if not earlier._seen), done]

    def _take(self, stream: Stream | None) -> list[Completion]:
        with self._lock:
            asked = [done for done in self._failed if done._seen or stream is None or done.stream is stream]
            self._failed = [done for done in self._failed if done not in asked]
        return [done for done in asked if not done._seen]

    def raise_unseen(self, stream: Stream | None) -> None:
        """Raise the first failure that nobody saw, of one stream or of all, and say so; the others become its notes."""
        unseen = self._take(stream)
        if unseen:
            first = unseen[0]._error
            assert first is not None
            note_unseen(first, unseen[0]._spelled())
            for done in unseen:
                done._seen = True
                if done._error is not first:
                    first.add_note(f"Another failure that nobody had seen: {done._error}")
            raise first.with_traceback(None)

    def log(self) -> None:
        """At exit: say what nobody asked for."""
        told: list[BaseException | None] = []
        for done in self._take(None):
            if done._error not in told:
                told.append(done._error)
                _log.error("%s failed and nobody asked: %s", done._described(), done._error)
