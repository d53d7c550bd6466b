"""Which stream work goes to when nothing is said: always the same, one for each thread, or one of a pool.

The pool lets independent work overlap. Work goes where the last work is that it has to come after, as long as nothing
else was put there since: so a chain stays on one stream and waits for nothing. Anything else goes to the stream that
was chosen longest ago, and waits there, by event, for what it needs.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from kaio.runtime.completion import Completion
    from kaio.runtime.memory import Memory
    from kaio.runtime.policy import StreamChoice
    from kaio.runtime.stream import Stream, Uses

__all__ = ["Choice", "choice_of"]

_POOL = 8  # streams: as many hardware queues as a process has by default (CUDA_DEVICE_MAX_CONNECTIONS)


class Choice(Protocol):
    """Chooses streams for a device."""

    def current(self) -> Stream:
        """The stream that the caller's work goes to where it is not known what it uses."""

    def of(self, uses: Uses) -> Stream:
        """The stream for work that uses these buffers."""

    def for_bound(self, uses: Uses) -> Stream:
        """The stream for work that will be put there again and again."""

    def send(
        self, plan: Any, arguments: bytes, read: tuple[Memory, ...], written: tuple[Memory, ...]
    ) -> Completion | None:
        """`Stream.send` on the stream for this work, if that is found at a glance; else None."""


def choice_of(streams: StreamChoice, default: Stream, make: Callable[[], Stream]) -> Choice:
    """The way to choose that a device was opened with."""
    match streams:
        case "one":
            return _One(default)
        case "per_thread":
            return _PerThread(make)
        case "pool":
            return _Pool([default, *(make() for _ in range(_POOL - 1))])


class _One:
    """Always the same."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def current(self) -> Stream:
        return self._stream

    def of(self, uses: Uses) -> Stream:
        return self._stream

    for_bound = of

    def send(
        self, plan: Any, arguments: bytes, read: tuple[Memory, ...], written: tuple[Memory, ...]
    ) -> Completion | None:
        return self._stream.send(plan, arguments, read, written)


class _Lease:
    """The stream of a thread, for the next one once this thread has ended."""

    def __init__(self, stream: Stream, free: deque[Stream]) -> None:
        self.stream, self._free = stream, free

    def __del__(self) -> None:
        self._free.append(self.stream)


class _PerThread:
    """One for each thread that lives. Streams of threads that have ended are used again, and waited for until then."""

    def __init__(self, make: Callable[[], Stream]) -> None:
        self._make, self._own = make, threading.local()
        self._free: deque[Stream] = deque()

    def current(self) -> Stream:
        lease: _Lease | None = getattr(self._own, "lease", None)
        if lease is None:
            try:
                stream = self._free.popleft()
            except IndexError:
                stream = self._make()
            lease = self._own.lease = _Lease(stream, self._free)
        return lease.stream

    def of(self, uses: Uses) -> Stream:
        return self.current()

    for_bound = of

    def send(
        self, plan: Any, arguments: bytes, read: tuple[Memory, ...], written: tuple[Memory, ...]
    ) -> Completion | None:
        return self.current().send(plan, arguments, read, written)


class _Pool:
    """The one of a pool where work has least to wait for."""

    def __init__(self, streams: list[Stream]) -> None:
        self._first = streams[0]
        self._chosen = dict.fromkeys(streams, 0)  # when each was chosen last
        self._turns = itertools.count(1)
        self._bound: WeakKeyDictionary[Memory, Stream] = WeakKeyDictionary()  # where what will be launched writes it

    def current(self) -> Stream:
        return self._first

    def of(self, uses: Uses) -> Stream:
        stream: Stream | None = None
        for buffer, access in uses:
            memory = buffer.memory
            home = None if memory.writer is None else self._home(memory.writer)
            if home is not None and access != "Out":
                stream = home  # of the work whose result is taken
                break
            if access != "In":
                homes = (self._home(reader) for reader in list(memory.readers.values()))
                stream = stream or home or next(filter(None, homes), None)
        if stream is None:
            chosen = self._chosen
            stream = min(chosen, key=chosen.__getitem__)
        self._chosen[stream] = next(self._turns)
        return stream

    def for_bound(self, uses: Uses) -> Stream:
        """Launches that take each other's results are bound to one stream, though none has run yet."""
        bound = (self._bound.get(buffer.memory) for buffer, _ in uses)
        stream = next((stream for stream in bound if stream is not None), None) or self.of(uses)
        for buffer, access in uses:
            if access != "In":
                self._bound[buffer.memory] = stream
        return stream

    def send(
        self, plan: Any, arguments: bytes, read: tuple[Memory, ...], written: tuple[Memory, ...]
    ) -> Completion | None:
        """A chain goes on where it is."""
        for memory in read + written:
            writer = memory.writer
            if writer is not None:
                stream = writer.stream
                if stream not in self._chosen or not stream.ends_with(writer):
                    return None
                self._chosen[stream] = next(self._turns)
                return stream.send(plan, arguments, read, written)
        return None

    def _home(self, earlier: Completion) -> Any:
        """The stream of earlier work, if that is one of the pool and nothing was put there since."""
        stream = earlier.stream
        return stream if stream in self._chosen and stream.ends_with(earlier) else None
