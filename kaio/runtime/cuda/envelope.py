"""Work that another library puts on a stream of a GPU.

While the library does so, the lock of the device is free: it may take long, and wait for threads that launch, too. What
others start meanwhile over the same memory cannot come after work that is not on the stream yet. It is put in between,
as if it was on the stream itself: it waits for what is there, and what comes next there waits for it. So the stream is
a *guest* of the memory until all is enqueued.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from kaio.runtime.cuda.completion import CudaCompletion
from kaio.runtime.stream import Stream, Uses, library_error

if TYPE_CHECKING:
    from kaio.runtime.cuda.stream import CudaStream

__all__ = ["Library", "run_on"]


class Library(NamedTuple):
    """What may have faulted, by its name."""

    name: str


class _EnvelopeCompletion(CudaCompletion):
    """Work of a library. Until all of it is on the stream, it is done for nobody but the thread that puts it there."""

    _thread: int | None = None  # which that is

    def _mark(self) -> None:
        if self._thread is not None:
            self._event = None  # that of a moment ago
        super()._mark()

    def _poll(self) -> bool:
        return self._thread is None and super()._poll()

    def _block(self, timeout_s: float | None) -> bool:
        if self._thread == threading.get_ident():
            return self.stream._tail()._block(timeout_s)  # as far as it has come
        return super()._block(timeout_s)

    def _arm(self, bell: Any) -> bool:
        return self._thread is None and super()._arm(bell)


def run_on(
    stream: CudaStream, enqueue: Callable[[Stream], object], uses: Uses, keep: Any, library: str
) -> CudaCompletion:
    """Call `enqueue`, in order with all other work on the buffers that it uses."""
    device = stream.device
    with device._lock:
        work = stream.submit(_nothing, (), uses, kind=_EnvelopeCompletion)
        assert isinstance(work, _EnvelopeCompletion)
        work._thread, work._what = threading.get_ident(), f"work of {library}"
        stream.forget_last()  # what asks for the last work meanwhile means what is there then
        stream.recent[Library(library)] = None
        guests = [(buffer.memory, (stream, access != "In")) for buffer, access in uses]
        for memory, guest in guests:
            memory.stream, memory.guests = None, (*memory.guests, guest)
    device.enter_stream(stream)
    try:
        enqueue(stream)
    except Exception as problem:
        work._error, work._seen = library_error(library, problem), True  # without frames, which keep buffers alive
        raise library_error(library, problem) from problem
    finally:
        device.leave_stream(stream)
        with device._lock:
            for memory, guest in guests:
                left = list(memory.guests)
                left.remove(guest)
                memory.guests = tuple(left)
            _seal(stream, work, uses)
            device.dropped.append((0, 0, keep, [work]))
            device.attention = True
    return work


def _seal(stream: CudaStream, work: _EnvelopeCompletion, uses: Uses) -> None:
    """All is on the stream: what is there now is the work. The lock of the device is held."""
    stream.forget_last()
    work._thread = work._event = None
    stream.last = weakref.ref(work)
    for buffer, access in uses:  # beside what was put in between, of which manual streams let nobody wait
        buffer.memory.record(stream, work, access != "In", ordered=False)


def _nothing() -> tuple[int]:
    """What is enqueued later."""
    return (0,)
