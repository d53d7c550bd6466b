"""Several completions: as one, or in the order in which they are done."""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Generator, Iterable, Iterator
from typing import Any

from kaio.errors import CompletionTimeout
from kaio.runtime.completion import Completion, read_timeout

__all__ = ["as_completed", "gather"]


class _Gathered(Completion):
    """Several completions as one."""

    def __init__(self, parts: tuple[Completion, ...]) -> None:
        self.parts = parts
        self._what = f"{len(parts)} completions"
        self._finished = not parts
        self._done = 0  # of so many parts, from the first on, it is known that they are done

    def _described(self) -> str:
        return self._what

    def _poll(self) -> bool:
        if not self._finished:
            done, parts = self._done, self.parts
            while done < len(parts) and parts[done].is_done:
                done += 1
            self._done = done
            if done < len(parts):
                return False
            self._error = next((part._error for part in parts if part._error is not None), None)
            self._finished = True
        return True

    def _block(self, timeout_s: float | None) -> bool:
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        for part in self.parts:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not part._finished and not part._block(left):
                return False
        self._poll()
        return True  # also where a part is what waits: it has come as far as it can

    def _watch(self) -> None:
        for part in self.parts:
            part._listen(self._one_is_done)

    def _one_is_done(self, part: Completion) -> None:
        if self._poll():
            self._tell()

    def _check(self) -> None:
        for part in self.parts:
            part._seen = part._seen or part._error is self._error
        super()._check()

    def _result(self) -> list[Any]:
        return [part._result() for part in self.parts]

    def _spin(self) -> bool:
        return all(part._spin() for part in self.parts)


def _completions(what: str, given: Iterable[Any]) -> tuple[Completion, ...]:
    if isinstance(given, Completion):
        raise TypeError(f"{what} takes several completions (got {given!r})")
    found = tuple(given)
    for one in found:
        if not isinstance(one, Completion):
            raise TypeError(f"{what} takes completions (got {one!r})")
    return found


def gather(*completions: Completion) -> Completion:
    """One completion for several: done when all are; raises the failure of the first, in the order given, that failed.

    `await kaio.gather(a, b)`, or `kaio.gather(a, b).wait(timeout_s=1)`. The result is the list of their results.
    """
    if len(completions) == 1 and isinstance(completions[0], list | tuple):
        raise TypeError("`kaio.gather(a, b)` takes completions, not a list of them: write `kaio.gather(*completions)`")
    return _Gathered(_completions("`kaio.gather(a, b)`", completions))


class as_completed:
    """The completions in the order in which they are done, failed ones too: `for done in kaio.as_completed(work)`.

    In asyncio and trio write `async for`. With `timeout_s`, CompletionTimeout is raised when not all are done after so
    many seconds.
    """

    def __init__(self, completions: Iterable[Completion], timeout_s: float | None = None) -> None:
        self._completions = _completions("`kaio.as_completed([a, b])`", completions)
        self._timeout_s = read_timeout(timeout_s)

    def _late(self, left: int) -> CompletionTimeout:
        return CompletionTimeout(
            f"{left} of {len(self._completions)} completions are not done after {self._timeout_s} s; their work goes on"
        )

    def __iter__(self) -> Iterator[Completion]:
        deadline = None if self._timeout_s is None else time.monotonic() + self._timeout_s
        ready: queue.SimpleQueue[Completion] = queue.SimpleQueue()
        for completion in self._completions:
            completion._listen(ready.put)
        for left in range(len(self._completions), 0, -1):
            try:
                yield ready.get(timeout=None if deadline is None else max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise self._late(left) from None

    async def __aiter__(self) -> AsyncIterator[Completion]:
        inbox = _Inbox()
        timer = None if self._timeout_s is None else threading.Timer(self._timeout_s, inbox.close)
        if timer is not None:
            timer.daemon = True
            timer.start()
        try:
            for completion in self._completions:
                completion._listen(inbox.put)
            for left in range(len(self._completions), 0, -1):
                while not inbox.arrived:
                    if inbox.is_closed:
                        raise self._late(left)
                    await inbox  # which whoever brought the one before may end too early
                yield inbox.arrived.popleft()
        finally:
            if timer is not None:
                timer.cancel()


class _Inbox(Completion):
    """Done as long as something has arrived in it, or it was closed."""

    def __init__(self) -> None:
        self.arrived: deque[Completion] = deque()
        self.is_closed = False

    def put(self, done: Completion) -> None:
        self.arrived.append(done)
        self._tell()

    def close(self) -> None:
        self.is_closed = True
        self._tell()

    def _poll(self) -> bool:
        return bool(self.arrived) or self.is_closed

    def _watch(self) -> None:
        if self._poll():
            self._tell()

    def __await__(self) -> Generator[Any, Any, None]:
        return self._arrive()
