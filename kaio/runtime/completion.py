"""`Completion`: work that was started, and how to learn that it is done."""

from __future__ import annotations

import logging
import numbers
import queue
import threading
import time
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Never

import numpy as np

from kaio.errors import CompletionTimeout, KaioError
from kaio.runtime.elsewhere import answer, refuse_arguments, visible

if TYPE_CHECKING:
    import asyncio

    from kaio.runtime.stream import Stream

__all__ = ["Completion", "as_completed", "gather"]

_log = logging.getLogger("kaio")

_PUBLIC = frozenset(("add_done_callback", "elapsed_ms", "is_done", "result", "stream", "wait"))
TIMEOUT = "`timeout_s=…`, a time in seconds"


class Completion:
    """Work on a stream: a launch or a copy. Made by what starts the work.

    `await done` from asyncio, or `done.wait(timeout_s)`; both raise what went wrong. Cancelling an await, or dropping
    the completion, leaves the work alone. A failure that nobody sees is raised by the next wait on the stream or the
    device, and logged at exit.
    """

    # Defaults live in the class: a launch makes one of these, and what is not set costs nothing.
    stream: Stream
    _finished = False
    _error: BaseException | None = None
    _seen = False
    _timed = False
    _elapsed_ms: float | None = None
    _loaded: Any  # the program of a launch; without a default, as Python is slower to set what the class has too
    _what: str = "work"  # anything else, in a word

    def __init__(self, stream: Stream) -> None:
        self.stream = stream

    @staticmethod
    def completed(stream: Stream) -> Completion:
        """Work that was nothing to do: done at once."""
        done = Completion(stream)
        done._finished = done._timed = True
        done._elapsed_ms = 0.0
        return done

    # What a device provides.

    def _poll(self) -> bool:
        """Ask whether the work is done, without waiting."""
        return self._finished

    def _block(self, timeout_s: float | None) -> bool:
        """Wait until the work is done or the time is over; True if it is done."""
        return self._finished

    def _watch(self) -> None:
        """See to it that `_run_callbacks` is called once the work is done."""

    def _result(self) -> Any:
        return None

    def _spelled(self) -> str:
        loaded = getattr(self, "_loaded", None)
        return f"the {self._what}" if loaded is None else f"kernel `{loaded.name}`"

    # What a user sees.

    @property
    def is_done(self) -> bool:
        """True once the work is done, or has failed. Does not wait."""
        return self._finished or self._poll()

    def wait(self, timeout_s: float | None = None, **unknown: Never) -> None:
        """Wait until the work is done; raises what went wrong, or CompletionTimeout after `timeout_s` seconds."""
        if unknown:
            refuse_arguments("wait", unknown, TIMEOUT)
        if not self._finished and not self._block(read_timeout(timeout_s)):
            raise CompletionTimeout(f"{self._spelled()} is not done after {timeout_s} s; it goes on")
        self._check()

    def result(self) -> Any:
        """Wait, raise what went wrong, and give the result: None for a launch or a copy."""
        self.wait()
        return self._result()

    @property
    def elapsed_ms(self) -> float:
        """Milliseconds that the work took on the device, if it was launched with `timed=True` and is done."""
        if not self._timed:
            raise KaioError("this work was not timed", help="launch it with `.options(timed=True)`")
        if not self.is_done:
            raise KaioError("the time is known once the work is done", help="`await` or `wait()` first")
        self._check()
        assert self._elapsed_ms is not None
        return self._elapsed_ms

    def add_done_callback(self, callback: Callable[[Completion], object]) -> None:
        """Call `callback(self)` once the work is done, at once if it is; from a thread of kaio's otherwise."""
        callbacks: list[Callable[[Completion], object]] = self.__dict__.setdefault("_callbacks", [])
        callbacks.append(callback)
        if self.is_done:
            self._run_callbacks()
        else:
            self._watch()

    def _run_callbacks(self) -> None:
        callbacks = self.__dict__.get("_callbacks")
        while callbacks:
            try:
                callback = callbacks.pop(0)
            except IndexError:  # another thread took the last one
                return
            try:
                callback(self)
            except BaseException as problem:  # SystemExit too would end a thread that others need
                if isinstance(problem, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
                    raise
                _log.exception("a callback of %r failed", self)

    def _check(self) -> None:
        if self._error is not None:
            self._seen = True
            raise self._error.with_traceback(None)

    def __await__(self) -> Generator[Any, None, Any]:
        yield from self._arrive()
        return self.result()

    def _arrive(self) -> Generator[Any, None, None]:
        """Let a loop of asyncio go on until the work is done, well or not."""
        if not self._spin():
            import asyncio  # not at the top: `import kaio` is quicker without

            loop = asyncio.get_running_loop()
            future = loop.create_future()
            self.add_done_callback(lambda _: _wake(loop, future))
            yield from future

    def _spin(self) -> bool:
        return self.is_done

    def __bool__(self) -> bool:
        raise TypeError(
            "whether a Completion is true is ambiguous: ask `is_done`, or wait for it with `wait()` or `await`"
        )

    def __dir__(self) -> list[str]:
        return visible(super().__dir__(), _PUBLIC)

    def __reduce__(self) -> Never:
        raise KaioError(
            "a Completion is neither copied nor pickled", help="send on what the work gives, once it is done"
        )

    def __repr__(self) -> str:
        with suppress(Exception):  # a look must not fail; who waits will learn why
            self._poll()
        state = "pending" if not self._finished else "done" if self._error is None else "failed"
        return f"<Completion of {self._described()}, {state}>"

    def _described(self) -> str:
        return f"{self._spelled().removeprefix('the ')} on {self.stream.device}"


# No more than these, as they show in `help`: to make one of a class whose class is not `type` takes longer.
answer(
    Completion,
    {"done": "done.is_done", "synchronize": "done.wait()"},
)


def _wake(loop: asyncio.AbstractEventLoop, future: asyncio.Future[None]) -> None:
    with suppress(RuntimeError):  # the loop was closed meanwhile: nobody waits any more
        loop.call_soon_threadsafe(_settle, future)


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():  # it is if the await was cancelled
        future.set_result(None)


def read_timeout(timeout_s: float | None) -> float | None:
    """A time to wait in seconds, None for as long as it takes; KaioError for what is neither."""
    if timeout_s is None:
        return None
    given: Any = timeout_s
    is_number = isinstance(given, numbers.Real) and not isinstance(given, bool | np.timedelta64)
    if not is_number or not given >= 0:
        raise KaioError(f"`timeout_s` is a number of seconds, 0 or more (got {timeout_s!r})")
    return float(min(given, 1e9))  # compared first: an int may be more than a float holds


class _Gathered(Completion):
    """Several completions as one."""

    def __init__(self, parts: tuple[Completion, ...]) -> None:
        self.parts = parts
        self._what = f"{len(parts)} completions"
        self._finished = not parts

    def _described(self) -> str:
        return self._what

    def _poll(self) -> bool:
        if not self._finished and all(part.is_done for part in self.parts):
            self._error = next((part._error for part in self.parts if part._error is not None), None)
            self._finished = True
        return self._finished

    def _block(self, timeout_s: float | None) -> bool:
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        for part in self.parts:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not part._finished and not part._block(left):
                return False
        return self._poll()

    def _watch(self) -> None:
        for part in self.parts:
            part.add_done_callback(self._one_is_done)

    def _one_is_done(self, part: Completion) -> None:
        if self._poll():
            self._run_callbacks()

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

    In asyncio write `async for`. With `timeout_s`, CompletionTimeout is raised when not all are done after so many
    seconds.
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
            completion.add_done_callback(ready.put)
        for left in range(len(self._completions), 0, -1):
            try:
                yield ready.get(timeout=None if deadline is None else max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise self._late(left) from None

    async def __aiter__(self) -> AsyncIterator[Completion]:
        import asyncio

        loop, ready = asyncio.get_running_loop(), asyncio.Queue[Completion]()

        def put(done: Completion) -> None:
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(ready.put_nowait, done)

        for completion in self._completions:
            completion.add_done_callback(put)
        try:
            async with asyncio.timeout(self._timeout_s):
                for left in range(len(self._completions), 0, -1):  # noqa: B007
                    yield await ready.get()
        except TimeoutError:
            raise self._late(left) from None
