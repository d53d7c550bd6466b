"""`Wrapped`: a completion with a result of its own.

The work itself must not hold its result: memory refers to the work that wrote it, and both would keep each other alive.
"""

from __future__ import annotations

from typing import Any

from kaio.runtime.completion import Completion

__all__ = ["Wrapped"]


class Wrapped(Completion):
    """Other work, whose result is this one."""

    def __init__(self, work: Completion, output: Any) -> None:
        self.stream, self.parts, self._output = work.stream, (work,), output
        self._what = work._what
        self._finished, self._error = work._finished, work._error

    def _poll(self) -> bool:
        (work,) = self.parts
        if not self._finished and work.is_done:
            self._error, self._finished = work._error, True
        return self._finished

    def _block(self, timeout_s: float | None) -> bool:
        (work,) = self.parts
        return (work._finished or work._block(timeout_s)) and self._poll()

    def _watch(self) -> None:
        self.parts[0]._listen(self._is_known)

    def _is_known(self, work: Completion) -> None:
        if self._poll():
            self._tell()

    def _check(self) -> None:
        self.parts[0]._check()

    def _spin(self) -> bool:
        return self.parts[0]._spin()

    def _result(self) -> Any:
        return self._output
