"""Streams of the CPU device: a queue each, and threads that work them off in order.

A thread serves one stream at a time, until nothing is left there. So there are as many threads as streams that have
had work at one time, however many streams there were.
"""

from __future__ import annotations

import ctypes
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

import numpy as np

from kaio.errors import InternalError, KaioError
from kaio.program import Access
from kaio.runtime.completion import Completion
from kaio.runtime.first_block import may_be_alike, run_by_first
from kaio.runtime.launch_order import LaunchOrder, Moment
from kaio.runtime.layout import overlay
from kaio.runtime.policy import Policy
from kaio.runtime.stream import (
    USUAL,
    Launch,
    PreparedLaunch,
    Stream,
    Uses,
    library_error,
    works_of,
)
from kaio.runtime.sync_stream import SyncStream, is_sync

if TYPE_CHECKING:
    from kaio.runtime.buffer import GpuBuffer
    from kaio.runtime.cpu_device import CpuDevice
    from kaio.runtime.overlaps import Flight

__all__ = ["CpuCompletion", "CpuStream", "Enqueued", "Servers", "wait_at_prompt"]

_KEPT = 16  # threads that wait for the next stream


class CpuCompletion(Completion):
    """Work of a stream's thread."""

    stream: CpuStream
    _moment: Moment | None = None  # where the order of work is looked at

    def __init__(self, stream: CpuStream) -> None:
        self.stream = stream

    _gate: threading.Lock | None = None  # held until the work is done: who waits takes it and passes it on

    @staticmethod
    def of(stream: CpuStream, moment: Moment) -> CpuCompletion:
        """That of work which is done, and whose own nobody has kept."""
        done = CpuCompletion(stream)
        done._moment, done._finished = moment, True
        return done

    @property
    def is_done(self) -> bool:
        """True once the work is done, or has failed. Does not wait."""
        return self._finished and self._reach()

    def _block(self, timeout_s: float | None) -> bool:
        inside = _here.call
        if inside is not None and inside.done is self:  # which is done as far as who asks has come
            return True
        return self._come_after(timeout_s) and self._reach()

    def _check(self) -> None:
        self._reach()
        super()._check()

    def _tell(self) -> None:
        self._reach()
        super()._tell()

    def _reach(self) -> bool:
        """The host goes on, and knows that the work is done."""
        if self._moment is not None and self.stream.device.order is not None:
            self.stream.device.order.reach(self._moment)
        return True

    def _come_after(self, timeout_s: float | None) -> bool:
        """Wait; True if the work is done."""
        if not self._finished:
            if self.stream._server == threading.get_ident():
                raise KaioError(
                    "what runs for a kernel (`breakpoint()`, a write to `sys.stdout`) waits for work on its own stream",
                    help="launch it on another stream, or wait elsewhere",
                )
            gate = self._find_gate()
            if gate is not None:
                if not gate.acquire(timeout=-1 if timeout_s is None else min(timeout_s, threading.TIMEOUT_MAX)):
                    return self._finished
                gate.release()
        return True

    def _find_gate(self) -> threading.Lock | None:
        """What to wait at, None if the work is done."""
        with self.stream._lock:
            if self._finished:
                return None
            if self._gate is None:
                self._gate = threading.Lock()
                self._gate.acquire()
            return self._gate

    def _finish(self, error: BaseException | None) -> None:
        if error is not None:
            # Without its traceback, whose frames would keep the buffers alive.
            self._error = error.with_traceback(None)
            if not self.stream.device.is_stop(error):
                self.stream.device.failures.note(self)
        with self.stream._lock:
            self._finished = True
            gate, self._gate = self._gate, None
        if gate is not None:
            gate.release()
        if "_listeners" in self.__dict__:
            self._tell()


class Enqueued:
    """The call of another library. What it puts on its own stream is done at once: that is the stream's order."""

    done: CpuCompletion | None = None

    def __init__(self, stream: CpuStream, enqueue: Callable[[Stream], object], uses: Uses, keep: Any, library: str):
        self.stream, self._enqueue, self._library, self._keep = stream, enqueue, library, keep
        self.memories = {buffer.memory for buffer, _ in uses}

    def __call__(self) -> None:
        """Call it, in the thread of the stream."""
        self.done = self.stream._pending[0].done
        outer, _here.call = _here.call, self
        self.stream.device.enter_stream(self.stream)
        try:
            self._enqueue(self.stream)
        except Exception as problem:
            # Frames would keep the buffers alive.
            raise library_error(self._library, problem) from problem.with_traceback(None)
        finally:
            self.stream.device.leave_stream(self.stream)
            _here.call = outer


class _Here(threading.local):
    """Whose call this thread is in."""

    call: Enqueued | None = None


_here = _Here()


class _Work:
    """One entry of a queue."""

    __slots__ = ("call", "done", "keep", "readers", "writers")

    def __init__(
        self,
        done: CpuCompletion,
        call: Callable[[], object] | None,
        writers: list[Any],
        readers: list[Any],
        keep: list[Any],
    ) -> None:
        self.done, self.call, self.writers, self.readers = done, call, writers, readers
        self.keep = keep  # the memory in use, for as long as this lives

    def run(self) -> None:
        """Wait for what must come before, then do it; a failure of work whose results it takes is its own."""
        done = self.done
        try:
            for earlier in (*self.writers, *self.readers):
                if isinstance(earlier, CpuCompletion):
                    earlier._come_after(None)
                elif not earlier._finished:
                    earlier._block(None)
            error = next((writer._error for writer in self.writers if writer._error is not None), None)
            if error is None and self.call is not None:
                start = time.perf_counter()
                self.call()
                done._elapsed_ms = (time.perf_counter() - start) * 1e3
        except KaioError as problem:
            error = problem
        except BaseException as problem:
            error = InternalError(f"work on the CPU device failed: {problem!r}")
            error.__cause__ = problem
        self.keep, self.call, self.writers, self.readers = [], None, [], []
        done._finish(error)


def _is_in_use(buffer: GpuBuffer[Any], access: Access) -> bool:
    """Whether work on a buffer has to be done first."""
    memory = buffer.memory
    if memory.writer is not None and not memory.writer._finished:
        return True
    for writer in memory.beside.values():
        if not writer._finished:
            return True
    if access != "In":
        for reader in memory.readers.values():
            if not reader._finished:
                return True
    return False


def wait_at_prompt(done: CpuCompletion) -> None:
    """Wait for a launch whose threads may stop at a prompt, which Ctrl-C here does not take away."""
    while True:
        try:
            done._block(None)
            return
        except KeyboardInterrupt:
            from kaio.runtime.prompt import Prompt  # `pdb` takes its time

            if not Prompt.takes_interrupt():
                raise


def _nothing() -> None:
    """The weak reference of a stream that never had work."""


class Servers:
    """The threads of a device that work off its streams."""

    def __init__(self) -> None:
        self._ready: SimpleQueue[CpuStream] = SimpleQueue()
        self._idle = 0
        self._lock = threading.Lock()

    def take(self, stream: CpuStream) -> bool:
        """Let a thread work off the stream; False if there is none, and no new one can be started."""
        with self._lock:
            reserved = self._idle > 0
            if reserved:
                self._idle -= 1
        if not reserved:
            try:
                threading.Thread(target=self._serve, name="kaio streams", daemon=True).start()
            except RuntimeError:  # the system has no more, or Python ends
                return False
        self._ready.put(stream)
        return True

    def _serve(self) -> None:
        while True:
            stream = self._ready.get()
            stream.work_off()
            del stream  # which waits for nothing any more
            with self._lock:
                if self._idle >= _KEPT:
                    return
                self._idle += 1


class CpuStream(Stream):
    """A stream of the CPU device."""

    device: CpuDevice
    _pending: deque[_Work]  # the first one runs
    _last: Callable[[], CpuCompletion | None]  # a weak reference: what nobody holds any more is done
    _serving: bool
    _server: int | None  # the thread that works it off

    @classmethod
    def make(cls, device: CpuDevice, priority: int = 0, policy: Policy | None = None) -> CpuStream:
        """A new stream of the device."""
        policy = policy or device.policy
        self = object.__new__(_SyncCpuStream if is_sync(device, policy) and cls is CpuStream else cls)
        self.device, self.priority, self.policy = device, priority, policy
        self.is_managed = policy.ordering == "managed"
        self._start()
        with device._lock:
            device._streams.add(self)
            device.is_by_hand = device.is_by_hand or not self.is_managed
        return self

    def _start(self) -> None:
        self._pending, self._last, self._serving, self._server = deque(), _nothing, False, None
        self._lock = threading.RLock()

    def launch(self, launch: Launch) -> Completion:
        """Launch a loaded host program; see `Stream.launch`."""
        if self.device.recordings and (lane := self._lane()) is not None:
            return lane.launch(launch)  # type: ignore[no-any-return]
        loaded, grid, block, arguments, uses, shared_nbytes, timed, together, options = launch
        if 0 in grid:
            return Completion.completed(self)
        if together is None and options == USUAL and loaded.short is not None:
            free = loaded.short.find(grid, block, shared_nbytes)
            if free is not None:
                here = self._run_here(free, launch)
                if here is not None:
                    return here
        arguments = bytes(arguments)
        workers = self.device.workers
        if grid != (1, 1, 1):
            workers.start()  # here, as Python may be about to end when the stream comes to it
        # A launch that says where it writes leaves unwritten what it does not write.
        unwritten = [buffer.memory.unwritten for buffer, _ in uses] if loaded.is_full else []
        run = partial(
            loaded.kernel.run, grid, block, arguments, workers, shared_nbytes, launch.cluster, options, unwritten
        )
        flight = self.device.watch(loaded, grid, block, uses, options.schedule)
        if loaded.rests and flight is None and may_be_alike(loaded, grid, together, options):
            accesses = [access for _, access in uses]
            run = partial(run_by_first, loaded, accesses, *run.args)
        if flight is not None:
            run = partial(self.device.overlaps.run, flight, run)
        done = self.submit(run, uses, timed, loaded, flight=flight)
        for (buffer, _), kept in zip(uses, unwritten, strict=False):
            buffer.memory.unwritten = kept
        if loaded.kernel.breaks:  # a prompt and whoever launches would both read what is typed
            wait_at_prompt(done)
        return done

    def _run_here(self, free: Any, launch: Launch) -> CpuCompletion | None:
        """Run a short launch in this thread, if nothing has to be done before it; None if something has."""
        loaded, grid, block, arguments, uses, shared_nbytes, timed, *_ = launch
        done = CpuCompletion(self)
        done._timed, done._loaded = timed, loaded
        error, is_here = None, False
        try:
            with self.device._lock, self._lock:
                if self._serving:
                    return None
                keep = [buffer.memory.owner for buffer, _ in uses]  # before it is asked whether they are closed
                for buffer, access in uses:
                    buffer.check_usable()
                    if self.is_managed and _is_in_use(buffer, access):
                        return None
                is_here = True
                self._serving, self._server, self._last = True, threading.get_ident(), weakref.ref(done)
                if self.device.order is not None:
                    done._moment = self.device.order.submit(self, uses, self.is_managed)
                for buffer, access in uses:
                    buffer.memory.record(self, done, access != "In", self.is_managed)
            start = time.perf_counter()
            loaded.short.run(free, grid, block, arguments, shared_nbytes, self.device.workers)
            done._elapsed_ms = (time.perf_counter() - start) * 1e3
            del keep
        except KaioError as problem:
            if not is_here:
                raise
            error = problem
        except BaseException as problem:  # Ctrl-C goes to who launches
            error = KaioError(f"the launch was interrupted: {problem!r}", help="launch it again")
            done._seen = True
            raise
        finally:
            if is_here:
                try:
                    self._leave(done, error)
                except KeyboardInterrupt:  # just now; whatever happens, others must be able to go on
                    self._leave(done, error)
                    raise
        return done

    def _leave(self, done: CpuCompletion, error: BaseException | None) -> None:
        """End what was run here, and let others serve the stream: what was put there meanwhile needs a thread."""
        done._finish(error)
        with self._lock:
            self._server = None
            self._serving = bool(self._pending)
        if self._serving and not self.device.servers.take(self):
            self.work_off()

    def prepare(self, launch: Launch) -> PreparedLaunch:
        """Make a launch ready; see `Stream.prepare`."""
        return _Prepared(self, launch._replace(arguments=bytes(launch.arguments), uses=tuple(launch.uses)))

    def copy(self, target: GpuBuffer[Any], source: GpuBuffer[Any]) -> Completion:
        """Copy between buffers of one shape; see `Stream.copy`."""
        if self.device.recordings and (lane := self._lane()) is not None:
            return lane.copy(target, source)  # type: ignore[no-any-return]
        if not target.nbytes:
            return Completion.completed(self)
        uses: Uses = ((target, "Out"), (source, "In"))
        if target.is_contiguous and source.is_contiguous:
            to, start, nbytes = target.pointer, source.pointer, source.nbytes
            return self.submit(lambda: ctypes.memmove(to, start, nbytes), uses, what="copy")
        into = overlay(target.pointer, target.shape, target.strides, target.dtype)
        found = overlay(source.pointer, source.shape, source.strides, target.dtype)
        return self.submit(lambda: np.copyto(into, found), uses, what="copy")

    def set(self, target: GpuBuffer[Any], pattern: bytes) -> Completion:
        """Repeat the bytes of one element over a contiguous buffer."""
        if self.device.recordings and (lane := self._lane()) is not None:
            return lane.set(target, pattern)  # type: ignore[no-any-return]
        if not target.size:
            return Completion.completed(self)
        pointer, size = target.pointer, target.size
        return self.submit(lambda: _repeat(pointer, pattern, size), ((target, "Out"),), what="fill")

    def submit(
        self,
        call: Callable[[], object],
        uses: Uses,
        timed: bool = False,
        loaded: Any = None,
        what: str = "work",
        flight: Flight | None = None,
        place: Callable[[LaunchOrder], Moment] | None = None,
    ) -> CpuCompletion:
        """Queue a call after the earlier work on the buffers that it uses; `place` finds its place in the order."""
        done = CpuCompletion(self)
        done._timed, done._loaded = timed, loaded
        if loaded is None:
            done._what = what
        inside = _here.call
        is_here = inside is not None and inside.stream is self
        with self.device._lock:
            writers: list[Any] = []  # CpuCompletions
            readers: list[Any] = []
            keep = [buffer.memory.owner for buffer, _ in uses]  # before it is asked whether they are closed
            for buffer, access in uses:
                buffer.check_usable()
                memory = buffer.memory
                if inside is not None and memory in inside.memories:  # all others come before the call, or after it
                    continue
                # Earlier writers on this stream are done when this starts, but they may have failed.
                written = [] if memory.writer is None else [memory.writer, *memory.beside.values()]
                writers += [w for w in written if not w._finished and (self.is_managed or w.stream is self)]
                if access != "In" and self.is_managed:
                    readers += [r for r in memory.readers.values() if r.stream is not self and not r._finished]
            if self.device.order is not None:
                order = self.device.order
                done._moment = order.submit(self, uses, self.is_managed) if place is None else place(order)
                if flight is not None:
                    self.device.overlaps.start(flight, done._moment)
            for buffer, access in uses:
                memory = buffer.memory
                if inside is None or not is_here or memory not in inside.memories:
                    memory.record(self, done, access != "In", self.is_managed)
                elif access != "In" and memory.writer is None:  # a fill of all of it forgets who wrote it
                    memory.writer = inside.done
            work = _Work(done, call, writers, readers, keep)
            is_served = is_here or self._enqueue(work)
        if is_here:
            work.run()
        elif not is_served:
            self.work_off()
        return done

    def run(self, enqueue: Callable[[Stream], object], uses: Uses, keep: Any, library: str) -> Completion:
        """Let another library put work here; see `Stream.run`."""
        if self.device.recordings and (lane := self._lane()) is not None:
            return lane.run(enqueue, uses, keep, library)  # type: ignore[no-any-return]
        return self.submit(Enqueued(self, enqueue, uses, keep, library), uses, what=f"work of {library}")

    def wait_for(self, earlier: Completion | Stream) -> None:
        """Let what comes next wait for other work; see `Stream.wait_for`."""
        if self.device.recordings and (lane := self._lane()) is not None:
            lane.wait_recorded(earlier)
            return
        works = works_of(earlier)
        others = [work for work in works if not work.is_done and work.stream is not self]
        done = CpuCompletion(self)
        with self.device._lock:
            if self.device.order is not None:
                moments = [moment for work in works if (moment := getattr(work, "_moment", None)) is not None]
                done._moment = self.device.order.submit(self, (), after=moments)
            is_served = not others or self._enqueue(_Work(done, None, [], others, []))
        if not is_served:
            self.work_off()

    def _enqueue(self, work: _Work) -> bool:
        """Queue work; False if the caller has to do it itself, as no thread can."""
        with self._lock:
            self._last = weakref.ref(work.done)
            self._pending.append(work)
            if self._serving:
                return True
            self._serving = True
        try:
            return self.device.servers.take(self)
        except BaseException:
            self._serving = False
            raise

    def work_off(self) -> None:
        """Do all that is queued, in this thread; by one thread at a time."""
        self._server = threading.get_ident()
        while True:
            self._pending[0].run()
            with self._lock:
                self._pending.popleft()
                if not self._pending:
                    self._serving, self._server = False, None
                    return

    def after_fork(self) -> None:
        """In a child process: start anew; work that the parent had pending is not done here."""
        pending: list[CpuCompletion | None] = [work.done for work in self._pending]
        pending.append(self._last())  # which a thread may be doing itself
        self._start()
        for done in pending:
            if done is not None and not done._finished:
                done._seen = True  # it is the parent's: nobody here has to be told
                done.__dict__.pop("_listeners", None)
                done._finish(
                    KaioError("the process was forked while this work was pending", help="fork after `wait()`")
                )

    def ends_with(self, work: Completion) -> bool:
        """Whether this is the last work that was put here."""
        return self._last() is work

    def _tail(self) -> Completion:
        # Work is done in order, so the last is done when all are; and nobody asks this one what went wrong.
        last = self._last()
        if last is not None:
            return last
        moment = None if self.device.order is None else self.device.order.last(self)
        return Completion.completed(self) if moment is None else CpuCompletion.of(self, moment)


class _SyncCpuStream(SyncStream, CpuStream):
    """One whose work is done when the call returns."""


class _Prepared:
    """A launch of the CPU device made ready."""

    __slots__ = ("_launch", "_stream")

    def __init__(self, stream: CpuStream, launch: Launch) -> None:
        self._stream, self._launch = stream, launch

    def launch(self) -> Completion:
        """Launch it once more."""
        return self._stream.launch(self._launch)


def _repeat(pointer: int, pattern: bytes, size: int) -> None:
    if len(set(pattern)) == 1:
        ctypes.memset(pointer, pattern[0], size * len(pattern))
        return
    ctypes.memmove(pointer, pattern, len(pattern))
    # Double what is there until it is full.
    done, total = len(pattern), size * len(pattern)
    while done < total:
        step = min(done, total - done)
        ctypes.memmove(pointer + done, pointer, step)
        done += step
