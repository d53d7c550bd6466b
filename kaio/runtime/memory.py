"""`Memory`: one allocation, which buffers and their views share, and the record of who uses it.

The record is what makes streams managed. It holds the last work that wrote the memory and, for each stream, the last
work that read it since; a launch on another stream waits for exactly those. While all use has been on one stream,
which is nearly always, `stream` is that stream and there is nothing to wait for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kaio.runtime.completion import Completion
    from kaio.runtime.device import Device
    from kaio.runtime.stream import Stream

__all__ = ["Memory", "closed_memory"]


class Memory:
    """One allocation of a device, or foreign memory that `owner` keeps alive."""

    __slots__ = (
        "__weakref__", "closed", "counted", "device", "exports", "foreign_stream", "generation", "nbytes", "owner",
        "pointer", "read_only", "readers", "stream", "unwritten", "writer",
    )  # fmt: skip

    def __init__(
        self,
        device: Device,
        pointer: int,
        nbytes: int,
        owner: Any = None,
        *,
        read_only: bool = False,
        foreign_stream: int | None = None,
    ) -> None:
        self.device, self.pointer, self.nbytes, self.owner = device, pointer, nbytes, owner
        self.read_only = read_only
        self.foreign_stream = foreign_stream  # a stream of another library that works on this memory too
        self.generation = device.generation
        self.closed = False
        self.counted = False  # in the statistics of the device
        self.unwritten: Any = None  # of the CPU device, where nobody has written all of it: `host_memory.Written`
        self.exports = 0  # arrays of other libraries over this memory
        self.stream: Stream | None = None
        self.writer: Completion | None = None
        self.readers: dict[Stream, Completion] = {}

    def pending(self, stream: Stream, writes: bool) -> list[Completion]:
        """The work on other streams that a use on `stream` has to wait for."""
        found = []
        writer = self.writer
        if writer is not None and writer.stream is not stream and stream not in self.readers:
            found.append(writer)
        if writes:
            found += [reader for other, reader in self.readers.items() if other is not stream]
        return found

    def record(self, stream: Stream, done: Completion, writes: bool) -> None:
        """Note a use on `stream`, which waits for what `pending` gave."""
        if writes:
            self.writer, self.unwritten = done, None
            if self.readers:
                self.readers = {}
            self.stream = None if self.foreign_stream is not None else stream
        else:
            if self.readers and stream not in self.readers:
                # Who is done is forgotten: each reader holds its stream.
                pending = ((other, reader) for other, reader in self.readers.items() if not reader._finished)
                self.readers = {other: reader for other, reader in pending if not reader._poll()}
            self.readers[stream] = done
            alone = len(self.readers) == 1 and (self.writer is None or self.writer.stream is stream)
            self.stream = stream if alone and self.foreign_stream is None else None

    def overwrite(self) -> None:
        """All of it is about to be overwritten: that comes after what wrote it as after a reader, however it went."""
        if self.writer is not None:
            self.device.check_usable()
            self.readers.setdefault(self.writer.stream, self.writer)
            self.writer = None

    def users(self, writes: bool = True) -> list[Completion]:
        """All work that the host has to wait for before it reads or, if `writes`, writes the memory itself."""
        found = [] if self.writer is None else [self.writer]
        return found + list(self.readers.values()) if writes else found

    def close(self) -> None:
        """Give the memory back as soon as the work that uses it, and the arrays exported from it, are done."""
        if not self.closed:
            self.closed, self.stream = True, None
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


def closed_memory(device: Device) -> Memory:
    """What a closed view refers to, so that it keeps nothing alive."""
    memory = Memory(device, 0, 0)
    memory.closed = True
    return memory
