"""`Memory`: one allocation, which buffers and their views share, and the record of who uses it.

The record is what makes streams managed. It holds the last work that wrote the memory and, for each stream, the last
work that read it since; a launch on another stream waits for exactly those. While all use has been on one stream,
which is nearly always, `stream` is that stream and there is nothing to wait for.

A stream with `ordering="manual"` waits for nobody, so that a write there may leave earlier writes and reads under way.
They stay in the record, `beside` the last write: managed work and the host wait for them too, and the memory lives as
long as any of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kaio.errors import StaleBufferError

if TYPE_CHECKING:
    from kaio.dtypes import DType
    from kaio.runtime.accounts import Origin
    from kaio.runtime.completion import Completion
    from kaio.runtime.device import Device
    from kaio.runtime.foreign import ForeignHandle
    from kaio.runtime.stream import Stream

__all__ = ["Memory", "closed_memory", "stale"]

_NOBODY: dict[Any, Any] = {}


class Memory:
    """One allocation of a device, or foreign memory that `owner` keeps alive."""

    __slots__ = (
        "__weakref__", "beside", "closed", "counted", "device", "exports", "foreign_stream", "generation", "guests",
        "is_host",
        "made", "nbytes", "origin", "owner", "pointer", "read_only", "readers", "stream", "unwritten", "writer",
    )  # fmt: skip

    def __init__(
        self,
        device: Device,
        pointer: int,
        nbytes: int,
        owner: Any = None,
        *,
        read_only: bool = False,
        foreign_stream: ForeignHandle | None = None,
    ) -> None:
        self.device, self.pointer, self.nbytes, self.owner = device, pointer, nbytes, owner
        self.read_only = read_only
        self.foreign_stream = foreign_stream  # a stream of another library that works on this memory too
        self.generation = device.generation
        self.closed = False
        self.counted = False  # in the accounts of the device
        self.made: tuple[DType, tuple[int, ...]] | None = None  # the elements and shape of the buffer it was made for
        self.origin: Origin | None = None  # the line that asked for it
        self.unwritten: Any = None  # of the CPU device, where nobody has written all of it: `host_memory.Written`
        self.is_host = False  # pinned memory of the host, which the device copies from and to by itself
        self.exports = 0  # arrays of other libraries over this memory
        self.guests: tuple[tuple[Stream, bool], ...] = ()  # where a library puts work that uses it now, or writes it
        self.stream: Stream | None = None
        self.writer: Completion | None = None
        self.readers: dict[Stream, Completion] = {}
        self.beside: dict[Stream, Completion] = _NOBODY  # earlier writers that nothing orders before the last one

    def pending(self, stream: Stream, writes: bool) -> list[Completion]:
        """The work on other streams that a use on `stream` comes after, if it is managed."""
        found = []
        writer = self.writer
        if writer is not None and writer.stream is not stream:
            found.append(writer)
        if self.beside:
            found += [earlier for other, earlier in self.beside.items() if other is not stream]
        if writes and self.readers:
            found += [reader for other, reader in self.readers.items() if other is not stream]
        return found

    def record(self, stream: Stream, done: Completion, writes: bool, ordered: bool = True) -> None:
        """Note a use on `stream`, which waits for what `pending` gave, or, if it is not `ordered`, for nobody."""
        if not ordered:
            self._record_beside(stream, done, writes)
        elif writes:
            self.writer, self.unwritten = done, None
            if self.readers:
                self.readers = {}
            if self.beside:
                self.beside = _NOBODY
            self.stream = None if self.closed or self.foreign_stream is not None or self.guests else stream
        else:
            if self.readers and stream not in self.readers:
                # Who is done is forgotten, and who comes before this one anyhow: each reader holds its stream.
                self.readers = _pending({s: work for s, work in self.readers.items() if not stream.comes_after(work)})
            self.readers[stream] = done
            alone = len(self.readers) == 1 and (self.writer is None or self.writer.stream is stream) and not self.beside
            is_own = stream.device is self.device  # on a stream of another device it is not given back
            self.stream = stream if alone and is_own and self.foreign_stream is None and not self.guests else None

    def _record_beside(self, stream: Stream, done: Completion, writes: bool) -> None:
        """Note a use that comes after the earlier ones on its own stream alone."""
        if writes:
            beside, last = _pending(self.beside), self.writer
            if last is not None and not last._finished:
                beside[last.stream] = last
            beside.pop(stream, None)
            self.writer, self.unwritten, self.beside = done, None, beside or _NOBODY
            self.readers = _pending({other: reader for other, reader in self.readers.items() if other is not stream})
        else:
            self.readers[stream] = done
        users = {self.writer.stream} if self.writer is not None else set()
        alone = users.union(self.readers, self.beside) == {stream}
        is_plain = not self.closed and self.foreign_stream is None and not self.guests
        self.stream = stream if alone and is_plain else None

    def overwrite(self) -> None:
        """All of it is about to be overwritten: that comes after what wrote it as after a reader, however it went."""
        if self.writer is not None:
            self.device.check_usable()
            self.readers.setdefault(self.writer.stream, self.writer)
            self.writer = None

    def users(self, writes: bool = True) -> list[Completion]:
        """All work that the host has to wait for before it reads or, if `writes`, writes the memory itself."""
        found = [] if self.writer is None else [self.writer]
        if self.beside:
            found += self.beside.values()
        return found + list(self.readers.values()) if writes else found

    def close(self) -> None:
        """Give the memory back as soon as the work that uses it, and the arrays exported from it, are done."""
        if not self.closed:
            self.closed, self.stream = True, None
            self.device.attention = True  # who has bound it does not look at it each time
            if not self.exports:
                self._let_go()

    def end_export(self) -> None:
        """An array of another library over this memory is gone."""
        self.exports -= 1
        if self.closed and not self.exports:
            self._let_go()

    def _let_go(self) -> None:
        self.device.release(self)
        self.owner = None
        self.device.after_close()

    def __del__(self) -> None:
        if not self.closed:
            self.closed = True
            self.device.release(self)


def stale(what: str, generation: int, current: int) -> StaleBufferError:
    """The error of who uses what is of an earlier generation of its device."""
    return StaleBufferError(
        f"{what} is of generation {generation} of its device, which lost its state and is at generation {current}",
        help="make it again",
        generation=generation,
        current=current,
    )


def closed_memory(device: Device) -> Memory:
    """What a closed view refers to, so that it keeps nothing alive."""
    memory = Memory(device, 0, 0)
    memory.closed = True
    return memory


def _pending(work: dict[Stream, Completion]) -> dict[Stream, Completion]:
    """Those that are not done."""
    return {stream: done for stream, done in list(work.items()) if not done._finished and not done._poll()}
