"""A completion as a `concurrent.futures.Future`."""

from __future__ import annotations

from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from kaio.runtime.callbacks import call_soon, start
from kaio.runtime.completion import Completion

__all__ = ["future_of"]


class _CompletionFuture(Future[Any]):
    """What was asked for its result has told a failure, as a wait has."""

    def __init__(self, done: Completion) -> None:
        super().__init__()
        self._completion = done
        self.set_running_or_notify_cancel()  # the work runs: there is nothing to cancel

    def result(self, timeout: float | None = None) -> Any:
        try:
            return super().result(timeout)
        finally:
            self._note()

    def exception(self, timeout: float | None = None) -> BaseException | None:
        try:
            return super().exception(timeout)
        finally:
            self._note()

    def _note(self) -> None:
        if self.done():
            with suppress(BaseException):
                self._completion._check()

    def settle(self, done: Completion) -> None:
        """The work is done. Calls what users have given the future, so not to be called by what may not wait."""
        if done._error is None:
            self.set_result(done._result())
        else:
            self.set_exception(done._error)


def future_of(done: Completion) -> Future[Any]:
    """A future that is done when the work is, with its result or its failure."""
    future = _CompletionFuture(done)
    if done.is_done:
        future.settle(done)
    else:
        start()
        done._listen(lambda it: call_soon(future.settle, it))
    return future
