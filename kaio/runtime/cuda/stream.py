"""Streams of a GPU."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kaio.errors import KaioError
from kaio.runtime.clocks import Clock, latest
from kaio.runtime.completion import Completion
from kaio.runtime.cuda.calls import call_together, memsets
from kaio.runtime.cuda.completion import CudaCompletion, Event, Repeated
from kaio.runtime.cuda.copies import copies
from kaio.runtime.cuda.driver import driver, is_sticky
from kaio.runtime.cuda.envelope import run_on
from kaio.runtime.cuda.faults import CheckedCompletion, Record
from kaio.runtime.cuda.launch import (
    CudaLoaded,
    CudaPrepared,
    PlainPrepared,
    launch_kernel,
    launch_together,
    with_room,
)
from kaio.runtime.cuda.thunk import launch_call
from kaio.runtime.foreign import handle_of
from kaio.runtime.policy import Policy
from kaio.runtime.stream import Dims, Launch, PreparedLaunch, Stream, Uses, works_of
from kaio.runtime.sync_stream import SyncStream, is_sync

if TYPE_CHECKING:
    from kaio.runtime.buffer import GpuBuffer
    from kaio.runtime.cuda.device import CudaDevice
    from kaio.runtime.cuda.thunk import Call as NativeCall
    from kaio.runtime.memory import Memory

__all__ = ["CudaStream"]

# What `submit` is given of a launch: the driver's function, its arguments, uses, the program, whether it is timed.
Call = tuple[Callable[..., Any], tuple[Any, ...], Uses, CudaLoaded, bool]

_ref, _new = weakref.ref, object.__new__

_MOST_PLANS = 256  # that a stream keeps its native launches of

_devices: weakref.WeakSet[CudaDevice] = weakref.WeakSet()  # those with streams


def _nothing() -> None:
    """The weak reference of a stream that never had work."""


class CudaStream(Stream):
    """A stream of a GPU; it does not wait for the legacy default stream."""

    device: CudaDevice
    last: Callable[[], CudaCompletion | None]
    recent: dict[Any, None]  # what was put on it since it was last known to be idle, to name what faulted
    clock: Clock
    turn: object  # of the bound launch that was the last work; None where other work was
    calls: dict[Any, tuple[NativeCall, CudaLoaded] | None]  # of each plan that was launched here
    raw: Any
    kept: dict[int, list[int]]  # memory that was freed here, by size: whose work is behind all that used it
    is_owned: bool = True  # made here, and to be destroyed here
    is_over: bool = False  # its object is finalised
    _repeated: Callable[[], Repeated | None]

    @classmethod
    def make(cls, device: CudaDevice, priority: int = 0, policy: Policy | None = None) -> CudaStream:
        """A new stream of the device."""
        policy = policy or device.policy
        self = object.__new__(_SyncCudaStream if is_sync(device, policy) and cls is CudaStream else cls)
        self.device, self.priority = device, priority
        with device.current():
            flags = driver.CUstream_flags.CU_STREAM_NON_BLOCKING
            self.raw = device.ask(driver.cuStreamCreateWithPriority(flags, priority))
        self._start(policy)
        return self

    def _start(self, policy: Policy) -> None:
        self.policy, self.is_managed = policy, policy.ordering == "managed"
        self.last, self.recent, self.clock = _nothing, {}, Clock()
        self.turn, self.calls, self._repeated, self.kept = None, {}, _nothing, {}
        with self.device._lock:
            self.device._streams.add(self)
            self.device.by_handle[int(self.raw)] = self
            _devices.add(self.device)

    @property
    def handle(self) -> int:
        """The `CUstream`, as a number, for other libraries."""
        return int(self.raw)

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, int(self.raw)

    def __del__(self) -> None:
        raw = getattr(self, "raw", None)
        if raw is not None and hasattr(self, "kept"):  # else the driver refused something before it was a stream
            kept, self.kept, self.is_over = self.kept, {}, True
            self.device.dropped.extend(
                (pointer, size, None, [Completion.completed(self)]) for size, all_ in kept.items() for pointer in all_
            )
            self.device.orphans.update(self.recent)
            if self.is_owned:
                self.device.ended.append((driver.cuStreamDestroy, raw))  # memory that it used may still be freed on it
            self.device.attention = True

    # Launching.

    def launch(self, launch: Launch) -> Completion:
        """Launch a loaded CUDA program; see `Stream.launch`."""
        if self.device.recordings and (lane := self._lane()) is not None:
            return lane.launch(launch)  # type: ignore[no-any-return]
        loaded, grid, block, arguments, uses, shared_nbytes, timed, together, _ = launch
        if 0 in grid:
            return Completion.completed(self)
        device = self.device
        if shared_nbytes > loaded.dynamic_nbytes:
            device.allow_shared(loaded, shared_nbytes)
        if loaded.state_at is not None:
            return self._launch_checked(launch)
        with device._lock:
            extra = device.scratch.put(arguments)
            if together is not None:
                call = call_together(loaded.function, grid, block, shared_nbytes, self.raw, extra, together)
                return self.submit(launch_together, call, uses, loaded, timed)
            return self.submit(
                launch_kernel, (loaded.function, *grid, *block, shared_nbytes, self.raw, 0, extra), uses, loaded, timed
            )

    def _launch_checked(self, launch: Launch) -> Completion:
        loaded, grid, block, arguments, uses, shared_nbytes, timed, together, _ = launch
        device = self.device
        device.make_room()
        with device._lock:
            record = device.records.take()
            extra = device.scratch.put(with_room(arguments, loaded))
            device.scratch.put_state(record.state)
            function: Any = launch_kernel
            call: tuple[Any, ...] = (loaded.function, *grid, *block, shared_nbytes, self.raw, 0, extra)
            if together is not None:
                function = launch_together
                call = call_together(loaded.function, grid, block, shared_nbytes, self.raw, extra, together)
            return self.submit_checked(record, (grid, block), (function, call, uses, loaded, timed))

    def submit_checked(self, record: Record, dims: tuple[Dims, Dims], call: Call) -> CudaCompletion:
        """`submit` of a launch that leaves what its checks find in a record. The lock of the device is held."""
        try:
            work = self.submit(*call, kind=CheckedCompletion)
        except BaseException:
            self.device.records.give_back(record, is_used=False)
            raise
        assert isinstance(work, CheckedCompletion)
        work.lend((record, call[3], dims))
        return work

    def prepare(self, launch: Launch) -> PreparedLaunch:
        """Make a launch ready; see `Stream.prepare`."""
        launch = launch._replace(uses=tuple(launch.uses))
        if launch.shared_nbytes > launch.loaded.dynamic_nbytes:
            self.device.allow_shared(launch.loaded, launch.shared_nbytes)
        call = None if launch.timed else self._quick_call(launch)
        return PlainPrepared(self, launch) if call is None else CudaPrepared(call, self, launch)

    # The quick ways of launching: what they cannot do is left to `launch`.

    def _quick_call(self, launch: Launch) -> NativeCall | None:
        """A native launch, where one on this stream needs nothing that `submit` or `launch` have besides."""
        if type(self) is not CudaStream:
            return None
        loaded, grid, block, _, _, shared_nbytes, _, together, _ = launch
        if loaded.state_at is not None or 0 in grid:
            return None
        return launch_call(loaded.function, grid, block, shared_nbytes, self.raw, together)

    def learn(self, plan: Any, launch: Launch) -> None:
        """Make `send` ready for a plan; see `Stream.learn`."""
        if plan not in self.calls:
            if len(self.calls) >= _MOST_PLANS:
                self.calls.clear()
            call = self._quick_call(launch)
            self.calls[plan] = None if call is None else (call, launch.loaded)

    def send(
        self, plan: Any, arguments: bytes, read: tuple[Memory, ...], written: tuple[Memory, ...]
    ) -> CudaCompletion | None:
        """Launch a plan; see `Stream.send`."""
        device = self.device
        lock = device._lock
        try:  # as `with lock`, which takes 0.15 us longer; Ctrl-C may arrive in any of the calls
            lock.acquire()
            known = self.calls.get(plan)
            is_crossing = False
            for memory in read:
                if memory.stream is not self:
                    is_crossing = True
            for memory in written:
                if memory.stream is not self:
                    is_crossing = True
            work: CudaCompletion | None = None
            if known is not None and not device.attention and (not is_crossing or self._come_across(read, written)):
                call, loaded = known
                work = _new(CudaCompletion)
                work.stream, work._loaded = self, loaded
                if is_crossing:
                    for memory in read:
                        memory.record(self, work, writes=False)
                    for memory in written:
                        memory.record(self, work, writes=True)
                else:
                    for memory in read:
                        memory.readers[self] = work
                    for memory in written:
                        memory.writer = work
                        if memory.readers:
                            memory.readers = {}
                if self.turn is not None:
                    self._end_turn()
                last = self.last()
                if last is not None:
                    last._mark()
                code = call(arguments)
                if code:
                    self._refused(code, call, (arguments,), loaded)
                self.last = _ref(work)
                self.recent[loaded] = None
        except BaseException:
            if lock._is_owned():  # type: ignore[attr-defined]
                lock.release()
            raise
        lock.release()
        return work

    def _come_across(self, read: tuple[Memory, ...], written: tuple[Memory, ...]) -> bool:
        """Wait, on the stream, for other streams' work on memory; False where more is to be seen to than that."""
        pending: list[Completion] = []
        for memories, writes in ((read, False), (written, True)):
            for memory in memories:
                if memory.stream is self:
                    continue
                writer = memory.writer
                if (
                    memory.closed
                    or memory.guests
                    or memory.foreign_stream is not None
                    or memory.device is not self.device
                ):
                    return False
                if writer is not None:
                    if writer._error is not None:
                        return False
                    if not writes:
                        _forget_written(memory, writer, self)
                for work in memory.pending(self, writes):
                    if work not in pending:
                        pending.append(work)
        self._wait_for_all(pending)
        return True

    def take_turn(self, work: Repeated) -> None:
        """What a bound launch does from now on is this work, until the turn ends. The lock of the device is held."""
        if self.turn is not None:
            self._end_turn()
        self.turn, self._repeated = work.token, _ref(work)

    def _end_turn(self) -> None:
        """A bound launch is no longer the last work: what memory remembers of it gets its event."""
        repeated = self._repeated()
        self.turn = None
        if repeated is not None:
            last = self.last()
            if last is not None and not last._finished:  # that one stands at the same place
                last._mark()
                repeated._event = last._event
            repeated._mark()

    def copy(self, target: GpuBuffer[Any], source: GpuBuffer[Any]) -> Completion:
        """Copy between buffers of one shape; see `Stream.copy`."""
        if self.device.recordings and (lane := self._lane()) is not None:
            return lane.copy(target, source)  # type: ignore[no-any-return]
        if not target.nbytes:
            return Completion.completed(self)
        uses: Uses = ((target, "Out"), (source, "In"))
        with self.device._lock:
            for function, arguments in copies(target, source):
                work = self.submit(function, (*arguments, self.raw), uses)
                work._what = "copy"
        return work

    def set(self, target: GpuBuffer[Any], pattern: bytes) -> Completion:
        """Repeat the bytes of one element over a contiguous buffer."""
        if self.device.recordings and (lane := self._lane()) is not None:
            return lane.set(target, pattern)  # type: ignore[no-any-return]
        if not target.size:
            return Completion.completed(self)
        uses: Uses = ((target, "Out"),)
        with self.device._lock:
            for function, arguments in memsets(target.pointer, pattern, target.size):
                work = self.submit(function, (*arguments, self.raw), uses)
                work._what = "fill"
        return work

    def submit(
        self,
        function: Callable[..., tuple[Any, ...]],
        arguments: tuple[Any, ...],
        uses: Uses,
        loaded: CudaLoaded | None = None,
        timed: bool = False,
        kind: type[CudaCompletion] = CudaCompletion,
    ) -> CudaCompletion:
        """Call the driver to put work on the stream. The lock of the device is held."""
        device = self.device
        if device.attention:
            device.attend()
        work: CudaCompletion = _new(kind)  # quicker than through `__init__`, which takes no more
        work.stream, work._loaded = self, loaded
        if device.watched:
            work._after = device.checked_writers(uses)
        foreign: list[int] | None = None
        for buffer, _ in uses:
            if buffer.memory.stream is not self:
                foreign = self._order(uses)
                break
        # Noted before the launch: the work that this replaces may then be held by nobody, and need no event.
        for buffer, access in uses:
            memory = buffer.memory
            if memory.stream is not self:
                memory.record(self, work, access != "In", self.is_managed)
            elif access == "In":
                memory.readers[self] = work
            else:
                memory.writer = work
                if memory.readers:
                    memory.readers = {}
        if self.turn is not None:
            self._end_turn()
        last = self.last()
        if last is not None:
            last._mark()
        if timed:
            work._timed, work._start = True, device.timing_events.record(self.raw)
        answer = function(*arguments)
        if answer[0]:
            self._refused(answer[0], function, arguments, loaded)
        self.last = _ref(work)
        if loaded is not None:
            self.recent[loaded] = None
        if timed:
            work._event = device.timing_events.record(self.raw)
            work._event.place = self.clock.tick()
        if foreign is not None:
            self._let_go(work, foreign)
        return work

    def _order(self, uses: Uses) -> list[int] | None:
        """Wait, on the stream, for other streams' work on the buffers; gives the streams of other libraries on them."""
        for buffer, _ in uses:
            buffer.check_usable()
        if not self.is_managed:
            return None
        pending: dict[Completion, None] = {}
        foreign: dict[int, None] = {}
        for buffer, access in uses:
            memory, writer = buffer.memory, buffer.memory.writer
            if access == "In" and writer is not None:
                _forget_written(memory, writer, self)
            pending |= dict.fromkeys(memory.pending(self, access != "In"))
            if memory.foreign_stream is not None:
                foreign[handle_of(memory.foreign_stream)] = None
            for guest, writes in memory.guests:
                if writes or access != "In":
                    foreign[int(guest.raw)] = None  # type: ignore[attr-defined]
        foreign.pop(int(self.raw), None)
        self._wait_for_all(list(pending))
        for handle in foreign:
            self._wait_for_foreign(handle)
        return list(foreign) or None

    def _wait_for_all(self, pending: list[Completion]) -> None:
        """Put in the fewest waits that put these before what comes next. The lock of the device is held."""
        unfinished = [work for work in pending if not work._finished and isinstance(work, CudaCompletion)]
        if len(unfinished) > 1:
            for work in unfinished:
                work._mark()
            places = [(work._event.place, work) for work in unfinished if work._event is not None]
            apart: list[CudaCompletion] = [work for place, work in places if place is None]
            unfinished = latest([(place, work) for place, work in places if place is not None]) + apart
        for work in unfinished:
            self._come_after(work)

    def wait_for(self, earlier: Completion | Stream) -> None:
        """Let what comes next wait for other work; see `Stream.wait_for`."""
        if self.device.recordings and (lane := self._lane()) is not None:
            lane.wait_recorded(earlier)
            return
        for work in works_of(earlier):
            if isinstance(work, CudaCompletion):
                with work.stream.device._lock:  # which may be another device; never both locks at a time
                    work._mark()
                with self.device._lock:
                    self.device.check_usable()
                    self._come_after(work)
            elif not work._finished:
                work._block(None)  # of another kind of device, which this one cannot wait for

    def _come_after(self, earlier: CudaCompletion) -> None:
        """Put a wait for another stream's work on this one, unless it is known to come after that. The lock is held."""
        if earlier._finished or earlier.stream is self:
            return
        earlier._mark()
        event = earlier._event
        if event is None or (event.place is not None and self.clock.is_after(event.place)):
            return
        self._mark_last()
        self.device.bind_thread()
        self.device.ask(driver.cuStreamWaitEvent(self.raw, event.handle, 0))
        if event.place is not None:
            self.clock.join(event.place)

    def _wait_for_foreign(self, handle: int) -> None:
        self._mark_last()
        with self.device.current():  # stream 0 is that of the current context
            event = self.device.events.record(driver.CUstream(handle))
            self.device.ask(driver.cuStreamWaitEvent(self.raw, event.handle, 0))

    def _let_go(self, work: CudaCompletion, foreign: list[int]) -> None:
        """What comes next on the streams of other libraries waits for this work."""
        work._mark()
        if work._event is not None:
            with self.device.current():
                for handle in foreign:
                    self.device.ask(driver.cuStreamWaitEvent(driver.CUstream(handle), work._event.handle, 0))

    def _mark_last(self) -> None:
        """The last work gets its event now, before something goes in that does not belong to it."""
        if self.turn is not None:
            self._end_turn()
        last = self.last()
        if last is not None:
            last._mark()

    def record_event(self) -> Event | None:
        """An event behind all work so far; None after a fault. The lock of the device is held."""
        device = self.device
        device.bind_thread()
        code, event = device.events.try_record(self.raw)
        if not code:
            event.place = self.clock.tick()
            return event
        if not is_sticky(code):
            device.ask((code,))
        device.poison(code)
        return None

    def _refused(
        self, code: Any, function: Callable[..., Any], arguments: tuple[Any, ...], loaded: CudaLoaded | None
    ) -> None:
        """The driver did not take the work. It may only miss the context on this thread: then it takes it now."""
        device = self.device
        if code in (driver.CUresult.CUDA_ERROR_INVALID_CONTEXT, driver.CUresult.CUDA_ERROR_INVALID_HANDLE):
            with device.current():
                answer = function(*arguments)
            code = answer if type(answer) is int else answer[0]
        if code:
            device.ask((driver.CUresult(code),), "work" if loaded is None else f"kernel `{loaded.name}`")

    # Waiting.

    def run(self, enqueue: Callable[[Stream], object], uses: Uses, keep: Any, library: str) -> Completion:
        """Let another library put work here; see `Stream.run`."""
        if self.device.recordings and (lane := self._lane()) is not None:
            return lane.run(enqueue, uses, keep, library)  # type: ignore[no-any-return]
        return run_on(self, enqueue, uses, keep, library)

    def forget_last(self) -> None:
        """What is put here from now on does not belong to the last work. The lock of the device is held."""
        if self.turn is not None:
            self._end_turn()
        self._mark_last()
        self.last = _nothing

    def comes_after(self, work: Completion) -> bool:
        """See `Stream.comes_after`."""
        event = work._event if isinstance(work, CudaCompletion) else None
        return event is not None and event.place is not None and self.clock.is_after(event.place)

    def ends_with(self, work: Completion) -> bool:
        """Whether this is the last work that was put here."""
        return self.last() is work or (self.turn is not None and self._repeated() is work)

    def _tail(self) -> Completion:
        with self.device._lock:
            last = self.last()
            if last is None:
                last = CudaCompletion(self)
                last._loaded = next(reversed(self.recent), None)  # the best name there is
                self.last = _ref(last)
            last._mark()
            return last


class _SyncCudaStream(SyncStream, CudaStream):
    """One whose work is done when the call returns."""


def _forget_written(memory: Memory, writer: Completion, stream: CudaStream) -> None:
    """What another stream wrote, and is only read from then on, need not be ordered for ever: not once it is done."""
    if writer.stream is not stream and writer._poll() and writer._error is None:
        memory.writer = None


def _after_fork() -> None:
    """In a child process: the driver would hang or crash, so nothing asks it any more."""
    for device in list(_devices):
        device._lock = threading.RLock()
        device.fault_seen = True  # nothing went wrong that has to be told at exit
        device.attention = True
        if device.fault is None:
            device.fault = KaioError(
                "CUDA does not survive a fork, and the parent had started it",
                help='start processes that use the GPU another way, as `multiprocessing.get_context("spawn")` does',
            )


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
