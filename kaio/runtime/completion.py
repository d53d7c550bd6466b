"""`Completion`: work that was started, and how to learn that it is done."""

from __future__ import annotations

import numbers
from collections import deque
from collections.abc import Generator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Never

import numpy as np

from kaio.errors import CompletionTimeout, KaioError
from kaio.runtime.callbacks import Callback, call, call_soon
from kaio.runtime.callbacks import start as start_callbacks
from kaio.runtime.elsewhere import answer, refuse_arguments, visible

if TYPE_CHECKING:
    from concurrent.futures import Future

    from kaio.runtime.bell import Bell
    from kaio.runtime.stream import Stream

__all__ = ["TIMEOUT", "Completion", "read_timeout"]

_PUBLIC = frozenset(("add_done_callback", "elapsed_ms", "future", "is_done", "result", "stream", "wait"))
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
    _output: Any = None  # what `result` gives
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

    def _turn(self) -> int:
        """A number that is higher for later work of one stream, once `_poll` was asked."""
        return 0

    def _end(self) -> None:
        """What `_poll` does at the end, where it is known that the work is done."""
        self._poll()

    def _arm(self, bell: Bell) -> bool:
        """Let a native thread ring the bell once the work is done; False where that cannot be."""
        return False

    def _watch(self) -> None:
        """See to it that `_tell` is called once the work is done."""

    def _result(self) -> Any:
        return self._output

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

    def add_done_callback(self, callback: Callback) -> None:
        """Call `callback(self)` once the work is done, at once if it is; from a thread of kaio's otherwise."""
        if self.is_done:
            call(callback, self)
        else:
            start_callbacks()
            self._listen(partial(call_soon, callback))

    def future(self) -> Future[Any]:
        """The same as a `concurrent.futures.Future`, for what takes those: `wait`, executors, other event loops.

        It runs already: it cannot be cancelled. A new one is made by each call.

        >>> import concurrent.futures, kaio
        >>> done = kaio.Device("cpu").alloc_zeros(4, kaio.f32).fill(1)
        >>> concurrent.futures.wait([done.future()]).not_done
        set()
        """
        from kaio.runtime.futures import future_of

        return future_of(self)

    # What waits inside kaio. A listener is called by whoever finds the work done: it is quick, and never waits.

    def _listen(self, listener: Callback) -> None:
        """Call `listener(self)` once the work is done, at once if it is."""
        listeners: deque[Callback] = self.__dict__.setdefault("_listeners", deque())
        listeners.append(listener)
        if self._finished:  # whoever watches asks whether it is
            self._tell()
        else:
            self._watch()

    def _forget(self, listener: Callback) -> None:
        """Call this listener no more, if it was not called yet."""
        with suppress(KeyError, ValueError):
            self.__dict__["_listeners"].remove(listener)

    def _tell(self) -> None:
        """Call the listeners: the work is done. Each is called once, whoever comes here at one time."""
        listeners = self.__dict__.get("_listeners")
        while listeners:
            try:
                listener = listeners.popleft()
            except IndexError:  # another thread took the last one
                return
            listener(self)

    def _check(self) -> None:
        if self._error is not None:
            self._seen = True
            raise self._error.with_traceback(None)

    def __await__(self) -> Generator[Any, None, Any]:
        yield from self._arrive()
        return self.result()

    def _arrive(self) -> Generator[Any, Any, None]:
        """Let other tasks of a loop go on until the work is done, well or not."""
        from kaio.runtime.arrival import arrive  # not at the top: `import kaio` is quicker without

        return arrive(self)

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


def read_timeout(timeout_s: float | None) -> float | None:
    """A time to wait in seconds, None for as long as it takes; KaioError for what is neither."""
    if timeout_s is None:
        return None
    given: Any = timeout_s
    is_number = isinstance(given, numbers.Real) and not isinstance(given, bool | np.timedelta64)
    if not is_number or not given >= 0:
        raise KaioError(f"`timeout_s` is a number of seconds, 0 or more (got {timeout_s!r})")
    return float(min(given, 1e9))  # compared first: an int may be more than a float holds
