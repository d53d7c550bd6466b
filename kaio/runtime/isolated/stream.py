"""Streams of a worker."""

from __future__ import annotations

import math
import time
from struct import Struct
from typing import TYPE_CHECKING, Any

from kaio.errors import KaioError, StaleBufferError
from kaio.runtime.completion import Completion
from kaio.runtime.isolated.completion import IsolatedCompletion
from kaio.runtime.isolated.link import Link, Pending
from kaio.runtime.isolated.protocol import (
    CHECKED,
    COPY,
    LAUNCH,
    NO_RECORD,
    ROWS,
    RUN,
    SET,
    SLOTS,
    TIMED,
    TOGETHER,
    WAIT,
    Op,
)
from kaio.runtime.isolated.timeouts import Limit
from kaio.runtime.layout import rectangles
from kaio.runtime.policy import Policy
from kaio.runtime.stream import USUAL, Dims, Launch, PreparedLaunch, RunOptions, Stream, Together, Uses, works_of
from kaio.runtime.watching import pause_after

if TYPE_CHECKING:
    from kaio.runtime.buffer import GpuBuffer
    from kaio.runtime.isolated.device import IsolatedDevice
    from kaio.runtime.isolated.loaded import IsolatedLoaded

__all__ = ["IsolatedStream"]

_new = object.__new__


class IsolatedStream(Stream):
    """A stream of one worker: it ends with it."""

    device: IsolatedDevice
    link: Link
    slot: int
    given: int  # the number of its last work
    generation: int
    is_default = False
    _waits: dict[tuple[int, int], None]  # what the next work waits for, by slots and numbers

    @classmethod
    def make(
        cls, device: IsolatedDevice, link: Link, priority: int = 0, policy: Policy | None = None
    ) -> IsolatedStream:
        """A new stream of a worker."""
        slot = link.take_slot()
        if slot is None:
            raise KaioError(f"{device} has {SLOTS} streams, and no more at a time", help="drop those that are done")
        self = object.__new__(cls)
        self.device, self.link, self.slot, self.priority = device, link, slot, priority
        self.policy, self.given, self.generation = policy or device.policy, link.words[slot], device.generation
        self.is_managed, self._waits = self.policy.ordering == "managed", {}
        link.streams[slot] = self
        link.tell("stream", slot, priority)
        with device._lock:
            device._streams.add(self)
        return self

    def __del__(self) -> None:
        if hasattr(self, "given") and not self.link.is_lost:
            self.device.ended.append((self.link, self.slot, self.given))

    @property
    def handle(self) -> int:
        """There is none in this process: KaioError."""
        raise KaioError(
            f"the streams of {self.device} are those of another process: no library of this one can use them",
            help=f"use `Device({self.device.ordinal})` for what works with other libraries, or wait and share buffers",
        )

    # Launching.

    def launch(self, launch: Launch) -> Completion:
        """Launch a loaded CUDA program; see `Stream.launch`."""
        loaded, grid, block, arguments, uses, shared_nbytes, timed, together, options = launch
        if 0 in grid:
            return Completion.completed(self)
        if self._is_followed():
            return self.device.current_default.launch(launch)
        self.make_ready(loaded, shared_nbytes, uses)
        flags = _flags(loaded, timed, together)
        record = self.take_record(loaded)
        rest = (*grid, *block, shared_nbytes, *launch.cluster, record)
        work = self.put(LAUNCH, Op.LAUNCH, flags, loaded.number, rest, arguments, uses, loaded, (grid, block), options)
        return self.started(work, uses)

    def prepare(self, launch: Launch) -> PreparedLaunch:
        """Make a launch ready; see `Stream.prepare`."""
        if self._is_followed():
            return self.device.current_default.prepare(launch)
        loaded, grid, block, arguments, uses, shared_nbytes, timed, together, options = launch
        self.make_ready(loaded, shared_nbytes, ())
        flags = _flags(loaded, timed, together)
        rest = (*grid, *block, shared_nbytes, *launch.cluster, NO_RECORD)
        packet = LAUNCH.pack(Op.LAUNCH, flags, self.slot, loaded.number, 0, *rest) + arguments
        return _Prepared(self, loaded, packet, flags, tuple(uses), (grid, block), options)

    def make_ready(self, loaded: IsolatedLoaded, shared_nbytes: int, uses: Uses) -> None:
        """Before a launch: the worker has the program, and other libraries are done with the memory."""
        self.check_fresh()
        if shared_nbytes > loaded.dynamic_nbytes:
            loaded.allow(shared_nbytes)
        loaded.send_to(self.link)
        for buffer, _ in uses:
            if buffer.memory.foreign_stream is not None:
                self.device.wait_foreign(buffer.memory)

    def take_record(self, loaded: IsolatedLoaded) -> int:
        """Where a checked launch leaves what it finds; waits for one if all are in use."""
        if loaded.state_at is None:
            return NO_RECORD
        records = self.link.records
        while True:
            try:
                return records.popleft()
            except IndexError:
                self.device.settle()
                if not records:
                    oldest = next(iter(self.device.watched), None)
                    if oldest is not None:
                        oldest._block(None)

    def copy(self, target: GpuBuffer[Any], source: GpuBuffer[Any]) -> Completion:
        """Copy between buffers of one shape; see `Stream.copy`."""
        if not target.nbytes:
            return Completion.completed(self)
        if self._is_followed():
            return self.device.current_default.copy(target, source)
        uses: Uses = ((target, "Out"), (source, "In"))
        if target.memory.is_host or source.memory.is_host:
            return self._copy_host(target, source)
        self._wait_foreign(uses)
        work = self.put(COPY, Op.COPY, 0, 0, (), _rows(target, source), uses)
        work._what = "copy"
        return self.started(work, uses)

    def _copy_host(self, target: GpuBuffer[Any], source: GpuBuffer[Any]) -> Completion:
        """Copy from or to pinned memory of this process, now: the worker has not opened it."""
        for buffer, is_written in ((target, True), (source, False)):
            for earlier in buffer.memory.users(is_written):
                earlier._block(None)
            buffer.check_usable()
        self.device.lending.copy(target.pointer, source.pointer, target.nbytes, to_host=target.memory.is_host)
        return Completion.completed(self)

    def set(self, target: GpuBuffer[Any], pattern: bytes) -> Completion:
        """Repeat the bytes of one element over a contiguous buffer."""
        if not target.size:
            return Completion.completed(self)
        if self._is_followed():
            return self.device.current_default.set(target, pattern)
        uses: Uses = ((target, "Out"),)
        self._wait_foreign(uses)
        work = self.put(SET, Op.SET, 0, 0, (target.pointer, target.size), pattern, uses)
        work._what = "fill"
        return self.started(work, uses)

    def _is_followed(self) -> bool:
        """Whether this was the default stream until a fault: what was given to that goes to the one of now."""
        return self.is_default and self.link.fault is not None and self.device.fault is None

    def _wait_foreign(self, uses: Uses) -> None:
        self.check_fresh()
        for buffer, _ in uses:
            if buffer.memory.foreign_stream is not None:
                self.device.wait_foreign(buffer.memory)

    def put(
        self,
        layout: Struct,
        op: Op,
        flags: int,
        which: int,
        rest: tuple[int, ...],
        tail: bytes,
        uses: Uses,
        loaded: IsolatedLoaded | None = None,
        dims: tuple[Dims, Dims] | None = None,
        options: RunOptions = USUAL,
    ) -> IsolatedCompletion:
        """Send work to the worker, in order with what else uses the buffers."""
        device, link = self.device, self.link
        record = rest[-1] if flags & CHECKED else NO_RECORD
        try:
            with device._lock:
                self.check_fresh()
                if device.dropped or device.ended or device.forgotten:
                    device.tidy()
                work: IsolatedCompletion = _new(IsolatedCompletion)
                work.stream, work._loaded, work._timed = self, loaded, bool(flags & TIMED)
                self._order(uses)
                if device.watched:
                    work._after = device.checked_writers(uses)
                work.number = self.given = self.given + 1
                pending = Pending(work.number, None if loaded is None else loaded.name, tuple(self._waits))
                self._waits = {}
                self._note(pending)
                link.send(layout.pack(op, flags, self.slot, which, work.number, *rest) + tail)
                for buffer, access in uses:
                    buffer.memory.record(self, work, access != "In", self.is_managed)
                if record != NO_RECORD and dims is not None:
                    work._record, work._dims = record, dims
                    device.watched[work] = None
        except BaseException:
            if record != NO_RECORD:
                link.records.append(record)
            raise
        if options.timeout_s is not None and options.timeout_s < math.inf:
            link.limit(Limit(self.slot, pending, options.timeout_s))
        return work

    def _order(self, uses: Uses) -> None:
        """Let the stream wait for other streams' work on the buffers."""
        for buffer, _ in uses:
            if buffer.memory.stream is not self:
                break
        else:
            return
        for buffer, _ in uses:
            buffer.check_usable()
        if self.is_managed:
            for buffer, access in uses:
                for earlier in buffer.memory.pending(self, access != "In"):
                    self._come_after(earlier)

    def _come_after(self, earlier: Completion) -> None:
        """Let what comes next wait for other work of the worker. The lock is held."""
        if isinstance(earlier, IsolatedCompletion) and earlier.stream is not self and not earlier._poll():
            place = earlier.stream.slot, earlier.number
            if place not in self._waits:
                self.link.send(WAIT.pack(Op.WAIT, 0, self.slot, *place))
                self._waits[place] = None

    def wait_for(self, earlier: Completion | Stream) -> None:
        """Let what comes next wait for other work; see `Stream.wait_for`."""
        self.check_fresh()
        for work in works_of(earlier):
            if isinstance(work, IsolatedCompletion) and work.stream.link is self.link:
                with self.device._lock:
                    self._come_after(work)
            elif not work._finished:
                work._block(None)  # of another device, which the worker cannot wait for

    def ends_with(self, work: Completion) -> bool:
        """Whether this is the last work that was put here."""
        return isinstance(work, IsolatedCompletion) and work.stream is self and work.number == self.given

    def _note(self, pending: Pending) -> None:
        """Keep what is under way, to know after a fault what that was."""
        line, count = self.link.lines[self.slot], self.link.words[self.slot]
        while line and line[0].number <= count:
            line.popleft()
        line.append(pending)

    def started(self, work: IsolatedCompletion, uses: Uses) -> IsolatedCompletion:
        """Wait for work that has to be done before anything goes on: other libraries cannot wait for a worker."""
        is_blocking = self.device.is_blocking
        if is_blocking or self.policy.completion == "sync" or any(b.memory.foreign_stream is not None for b, _ in uses):
            start = time.monotonic()
            with (
                self.device._lock
            ):  # which the caller may have, too: to wait gives it up, or no worker could be replaced
                while not work._poll():
                    self.device.unlocked.wait(pause_after(time.monotonic() - start))
            if is_blocking:
                work._check()
        return work

    def check_fresh(self) -> None:
        """Raise StaleBufferError if the worker is gone."""
        if self.link.fault is not None:
            self.device.check_usable()
            raise StaleBufferError(
                f"a stream of {self.device} is of generation {self.generation}, and the device of generation "
                f"{self.device.generation}: it ended with the worker that a fault has ended",
                help="make another: `device.stream()`",
                generation=self.generation,
                device_generation=self.device.generation,
            )

    def _tail(self) -> Completion:
        done = IsolatedCompletion(self)
        done.number = self.given
        return done


class _Prepared:
    """A launch that the worker has made ready."""

    def __init__(
        self, stream: IsolatedStream, loaded: IsolatedLoaded, packet: bytes, flags: int, uses: Uses,
        dims: tuple[Dims, Dims], options: RunOptions,
    ) -> None:  # fmt: skip
        self._stream, self._loaded, self._flags, self._uses = stream, loaded, flags, uses
        self._dims, self._options = dims, options
        self._number = stream.device.take_number()
        stream.link.tell("prepare", self._number, stream.slot, packet)

    def __del__(self) -> None:
        if hasattr(self, "_number") and not self._stream.link.is_lost:
            self._stream.device.forgotten.append((self._stream.link, self._number))

    def launch(self) -> Completion:
        """Launch it once more."""
        stream, uses = self._stream, self._uses
        if 0 in self._dims[0]:
            return Completion.completed(stream)
        if stream.link.fault is not None:
            self._refuse()
        for buffer, _ in uses:
            if buffer.memory.foreign_stream is not None:
                stream.device.wait_foreign(buffer.memory)
        record = stream.take_record(self._loaded)
        work = stream.put(
            RUN, Op.RUN, self._flags, self._number, (record,), b"", uses, self._loaded, self._dims, self._options
        )
        return stream.started(work, uses)

    def _refuse(self) -> None:
        stream = self._stream
        stream.device.check_usable()
        raise StaleBufferError(
            f"a bound launch of kernel `{self._loaded.name}` is of generation {stream.generation}, and {stream.device} "
            f"of generation {stream.device.generation}: it ended with the worker that a fault has ended",
            help="bind it again; the buffers hold what they held",
            generation=stream.generation,
            device_generation=stream.device.generation,
        )


def _rows(target: GpuBuffer[Any], source: GpuBuffer[Any]) -> bytes:
    """What a copy is made of, for a message."""
    if target.is_contiguous and source.is_contiguous:
        return ROWS.pack(target.pointer, source.pointer, target.nbytes, 1, 0, 0)
    strides = target.strides, source.strides
    pieces = rectangles(target.pointer, source.pointer, target.shape, strides, target.dtype.itemsize)
    return b"".join(ROWS.pack(*piece) for piece in pieces)


def _flags(loaded: IsolatedLoaded, timed: bool, together: Together | None) -> int:
    is_together = together is not None and together.cooperative
    return TIMED * timed | TOGETHER * is_together | CHECKED * (loaded.state_at is not None)
