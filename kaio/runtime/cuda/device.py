"""A GPU, through the CUDA driver, in its primary context, which other libraries of the process share."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from contextlib import suppress
from typing import Any, Never

import numpy as np

from kaio.errors import ContextPoisonedError, DeviceNotFoundError, InternalError, KaioError, KernelFault, LaunchError
from kaio.program import Level
from kaio.runtime.buffer import GpuBuffer
from kaio.runtime.completion import Completion
from kaio.runtime.cuda.completion import CudaCompletion, Events
from kaio.runtime.cuda.context import Current, describe
from kaio.runtime.cuda.driver import DriverError, count_devices, done, driver, is_sticky
from kaio.runtime.cuda.envelope import Library
from kaio.runtime.cuda.faults import CheckedCompletion, Records
from kaio.runtime.cuda.foreign import stream_over
from kaio.runtime.cuda.graph import CudaGraph
from kaio.runtime.cuda.launch import ArgumentBlock, CudaLoaded
from kaio.runtime.cuda.pinned_pool import PinnedPool
from kaio.runtime.cuda.pool import GRAIN, MOST_OF_A_SIZE, Pool
from kaio.runtime.cuda.printing import CudaPrints
from kaio.runtime.cuda.staging import LEAST_NBYTES, Staging
from kaio.runtime.cuda.stream import CudaStream
from kaio.runtime.cuda.waiting import Waiters
from kaio.runtime.device import Device
from kaio.runtime.device_memory import MemoryInfo
from kaio.runtime.failures import note_unseen
from kaio.runtime.foreign import Foreign, handle_of
from kaio.runtime.foreign_stream import LEGACY
from kaio.runtime.layout import contiguous_strides, rectangles
from kaio.runtime.leaving import finish
from kaio.runtime.memory import Memory
from kaio.runtime.policy import USUAL_POLICY, Policy
from kaio.runtime.stream import Stream, Uses, read_priority

__all__ = ["CudaDevice"]

_ELSEWHERE = (driver.CUresult.CUDA_ERROR_INVALID_CONTEXT, driver.CUresult.CUDA_ERROR_INVALID_HANDLE)
_ref, _new = weakref.ref, object.__new__
_MAX_ARGUMENTS_NBYTES = 32764  # CUDA C++ programming guide: parameters of a kernel, from sm_70 on


class CudaDevice(Device):
    """A GPU of this machine."""

    kind = "cuda"
    ordinal: int
    events: Events
    timing_events: Events
    waiters: Waiters
    scratch: ArgumentBlock
    dropped: deque[tuple[int, int, Any, list[Completion]]]  # pointer, size, owner, users
    by_handle: weakref.WeakValueDictionary[int, CudaStream]
    orphans: dict[Any, None]  # what was put on streams that are gone, and not known to be done by then
    ended: deque[Any]  # what the driver is to destroy, as its objects are gone: the function and the handle
    fault_seen: bool
    prints: CudaPrints | None
    records: Records
    watched: dict[CheckedCompletion, None]  # checked launches of which nobody knows yet how they ended
    _context: Any
    pool: Pool
    pinned: PinnedPool
    _peers: set[int]  # GPUs whose memory this one was let reach
    _threads: threading.local
    _loaded: dict[int, CudaLoaded]
    _held: list[tuple[Any, list[Completion]]]
    _unused: list[Any]  # of those that have ended, the ones on which nothing is freed any more
    priorities: tuple[int, int]  # of streams, the least and the greatest
    _default: CudaStream
    _copies: CudaStream
    _frees: CudaStream
    _reads: CudaStream
    _uploads: Staging
    _downloads: Staging

    @classmethod
    def open(cls, ordinal: int, check: Level = "off", policy: Policy = USUAL_POLICY) -> CudaDevice:
        """The GPU with this number; `Device(ordinal)` keeps one of each."""
        count = count_devices()
        if ordinal >= count:
            raise DeviceNotFoundError(
                f"there is no device cuda:{ordinal}: this machine has {count} GPU{'' if count == 1 else 's'}",
                help="`kaio.devices()` lists them",
            )
        self = object.__new__(cls)
        self.ordinal, self.check, self.policy = ordinal, check, policy
        try:
            self._open()
        except (DriverError, KaioError) as problem:
            raise DeviceNotFoundError(f"device cuda:{ordinal} cannot be used: {problem}") from problem
        return self

    def _open(self) -> None:
        handle = done(driver.cuDeviceGet(self.ordinal))
        self.name = done(driver.cuDeviceGetName(256, handle)).split(b"\0")[0].decode()
        self.capability, self.limits = describe(handle)
        self.target = "sm_{}{}".format(*self.capability)
        self._context = done(driver.cuDevicePrimaryCtxRetain(handle))
        self._start()
        self.fault_seen, self.prints = False, None
        self.dropped, self._held, self._loaded, self._threads = deque(), [], {}, threading.local()
        self.ended, self._unused = deque(), []
        self.by_handle, self.orphans = weakref.WeakValueDictionary(), {}
        self.scratch = ArgumentBlock(_MAX_ARGUMENTS_NBYTES + 16)
        self.records, self.watched = Records(self), {}
        self.waiters = Waiters(self)
        self.events = Events(int(driver.CUevent_flags.CU_EVENT_DISABLE_TIMING), self.ask, self.current)
        self.timing_events = Events(int(driver.CUevent_flags.CU_EVENT_DEFAULT), self.ask, self.current)
        with self.current():
            least, greatest = done(driver.cuCtxGetStreamPriorityRange())
            self.priorities = int(least), int(greatest)
            self.pool = Pool(self)
        self.pinned, self._peers = PinnedPool(self), set()
        self._default, self._copies, self._frees, self._reads = (CudaStream.make(self) for _ in range(4))
        self._uploads, self._downloads = Staging(self, self._copies.raw), Staging(self, self._reads.raw)

    def _spec(self) -> tuple[str, dict[str, Any]]:
        options = {} if self.check == "off" else {"check": self.check}
        return f"cuda:{self.ordinal}", options | self.policy.spelled()

    # The driver and its errors.

    def current(self) -> Current:
        """Inside `with device.current():` the context of this device is the current one."""
        return Current(self._context, self.ask)

    def bind_thread(self) -> None:
        """Give a thread that has no context this one; once a thread."""
        if not getattr(self._threads, "bound", False):
            with self.current():
                self._threads.bound = True

    def call(self, function: Any, *arguments: Any) -> Any:
        """What the driver answers, with the context of this device where another is the current one."""
        self.bind_thread()
        answer = function(*arguments)
        if answer[0] in _ELSEWHERE:
            with self.current():
                answer = function(*arguments)
        return answer

    def ask(self, answer: tuple[Any, ...], what: str = "") -> Any:
        """The value that a driver call answered, or its error in kaio's words."""
        if not answer[0]:
            return done(answer)
        problem = DriverError(answer[0])
        raise self.refusal(problem, what) from problem

    def refusal(self, problem: DriverError, what: str = "") -> KaioError:
        """An error of the driver in kaio's words; raises ContextPoisonedError if it has ended the context."""
        code = driver.CUresult(problem.code)
        if is_sticky(code):
            self.poison(code)
            self.check_usable()
        return self.translated(problem, what)

    def translated(self, problem: DriverError, what: str = "") -> KaioError:
        """An error of the driver that leaves the context usable."""
        refused = f"the CUDA driver refuses {what}: {problem}" if what else f"the CUDA driver refuses: {problem}"
        return LaunchError(refused, code=problem.code) if what.startswith("kernel") else InternalError(refused)

    def poison(self, code: Any) -> None:
        """A fault has ended the context; the first one is kept."""
        with self._lock:
            if self.fault is not None:
                return
            problem = DriverError(code)
            known: list[Any] = [one for stream in self._streams for one in stream.recent]  # type: ignore[attr-defined]
            suspects = list(dict.fromkeys((*known, *list(self.orphans))))
            kernels = tuple(one.name for one in suspects if not isinstance(one, Library))
            names = [f"work of {one.name}" if isinstance(one, Library) else f"kernel `{one.name}`" for one in suspects]
            names = list(dict.fromkeys(names))
            way_out = '`Device("cpu")` runs the same kernels and says where; this process cannot use the GPU any more'
            if len(names) == 1:
                who = f"{names[0]} failed"
            elif len(kernels) == len(suspects) and kernels:
                who = f"one of the kernels {', '.join(f'`{name}`' for name in dict.fromkeys(kernels))} failed"
            else:
                who = f"{', '.join(names[:-1])} or {names[-1]} failed" if names else "work failed"
            if len(names) > 1:
                way_out = f"with KAIO_SYNC=1 in the environment the one is named; {way_out}"
            self.fault = KernelFault(
                f"{who} on {self}: {problem}",
                help=way_out,
                kernel=kernels[0] if len(names) == 1 and kernels else None,
                kernels=tuple(dict.fromkeys(kernels)),
                code=problem.code,
            )
            self.fault.__cause__ = problem
            self.attention = True

    def check_usable(self) -> None:
        """Raise ContextPoisonedError if a fault has made the device unusable."""
        if self.fault is not None:
            self.fault_seen = True
            raise ContextPoisonedError(
                f"{self} cannot be used any more in this process: {self.fault.mistakes[0].what}",
                help="start a new process",
                fault=self.fault,
            ) from self.fault

    def raise_unseen(self, stream: Stream | None) -> None:
        """Raise the fault: itself to the first who waits, then as ContextPoisonedError."""
        if self.fault is not None and not self.fault_seen:
            self.fault_seen = True
            kernel = self.fault.facts.get("kernel")
            note_unseen(self.fault, f"kernel `{kernel}`" if kernel else "work")
            raise self.fault
        self.settle(stream)
        super().raise_unseen(stream)
        self.check_usable()

    def settle(self, stream: Stream | None = None) -> None:
        """Learn how those checked launches ended that are done, on a stream or on all."""
        busy: set[Stream] = set()
        for work in list(self.watched):  # in the order of their launches
            if work.stream not in busy and (stream is None or work.stream is stream) and not work._poll():
                busy.add(work.stream)

    def make_room(self) -> None:
        """Before a launch with checks, without the lock: have a record for it without making more, if possible."""
        if not self.records.free and self.watched:
            self.settle()

    def checked_writers(self, uses: Uses) -> tuple[CudaCompletion, ...]:
        """The checked launches that wrote what these uses take, or what was made of it since."""
        found: dict[CudaCompletion, None] = {}
        for buffer, _ in uses:
            writer = buffer.memory.writer
            if isinstance(writer, CudaCompletion) and not writer._finished:
                found |= dict.fromkeys((writer,) if writer in self.watched else writer._after)
        return tuple(found)

    def _log_unseen(self) -> None:
        if self.fault is None:  # who never asked has not been told of a fault yet
            with suppress(KaioError):
                finish(self, [stream._tail() for stream in list(self._streams)], limit_s=10.0)
        if self.prints is not None:
            self.prints.show(None)
        with suppress(KaioError):
            self.settle()
        if self.fault is not None and not self.fault_seen:
            self.failures.note(_failed(self._default, self.fault))
        super()._log_unseen()

    # Programs and streams.

    def load(self, program: Any) -> CudaLoaded:
        """Load the cubin of a program into the context, once."""
        found = self._loaded.get(id(program))
        if found is None:
            self.check_usable()
            with self._lock, self.current():
                try:
                    found = CudaLoaded(program)
                except DriverError as problem:
                    raise self.refusal(problem, f"kernel `{program.name}` for {program.target}") from problem
                if program.prints:
                    self.prints = self.prints or CudaPrints(self)
                    self.prints.bind(found)
                self._loaded[id(program)] = found
        return found

    def allow_shared(self, loaded: CudaLoaded, shared_nbytes: int) -> None:
        """Let a program have this much dynamic shared memory."""
        with self._lock, self.current():
            try:
                if shared_nbytes > loaded.dynamic_nbytes:  # another thread may have asked for more meanwhile
                    loaded.allow(shared_nbytes)
            except DriverError as problem:
                raise self.refusal(problem, f"kernel `{loaded.name}`") from problem

    def stream(
        self,
        priority: int = 0,
        *,
        completion: str | None = None,
        ordering: str | None = None,
        foreign: Any = None,
        **unknown: Never,
    ) -> CudaStream:
        """A new stream, or the one over a stream of another library; lower numbers go first."""
        policy = self._stream_policy(completion, ordering, unknown)
        self.check_usable()
        if foreign is not None:
            if priority:
                raise KaioError("a stream of another library has its own priority", help="leave `priority` out")
            return stream_over(self, foreign, policy if completion or ordering else None)
        return CudaStream.make(self, read_priority(priority, self, *self.priorities), policy)

    def _make_graph(self) -> CudaGraph:
        return CudaGraph.make(self)

    def _default_stream(self) -> Stream:
        return self._default

    # Memory.

    @property
    def memory(self) -> MemoryInfo:
        """Free and total memory in bytes; what the pool keeps for the next buffers counts as free."""
        self.check_usable()
        with self.current():
            free, total = self.ask(driver.cuMemGetInfo())
        with self._lock:
            kept = self.pool.reserved_nbytes() - self.pool.used_nbytes()
        return MemoryInfo(min(int(free) + kept, int(total)), int(total))

    def _allocate(self, nbytes: int, zero: bool) -> Memory:
        stream: Any = self.stream_for(())
        with self._lock:
            memory = self._take(nbytes, stream)
            if nbytes:
                work: CudaCompletion = _new(CudaCompletion)
                work.stream = stream
                stream._mark_last()
                if zero:
                    try:
                        self.ask(self.call(driver.cuMemsetD8Async, memory.pointer, 0, nbytes, stream.raw))
                    except BaseException:
                        self._drop(memory, stream)
                        raise
                memory.stream, memory.writer = stream, work
                stream.last = _ref(work)
            return memory

    def _allocate_copy(self, host: np.ndarray[Any, Any]) -> Memory:
        # On the stream of the copies: there it need not wait for what kernels are at.
        with self._lock:
            memory = self._take(host.nbytes, self._copies)
        if host.nbytes:
            try:
                self._upload(memory.pointer, host)
            except BaseException:
                self._drop(memory, self._copies)
                raise
        return memory

    def _drop(self, memory: Memory, stream: CudaStream) -> None:
        """Give memory back that became no buffer, behind what the stream was given for it."""
        self.dropped.append((memory.pointer, memory.nbytes, None, [Completion.completed(stream)]))
        self.attention = True

    def _take(self, nbytes: int, stream: CudaStream) -> Memory:
        """Memory that may be used on the stream, and after that on others. The lock is held."""
        if self._is_enqueuing():
            raise KaioError(
                "memory cannot be made by what `kaio.run` enqueues while a graph is recorded", help="make it before"
            )
        if self.fault is not None or self.dropped or self.ended or self._unused or self._held:
            self._tidy()
        kept = stream.kept.get(-(-nbytes // GRAIN) * GRAIN)
        if kept:
            return Memory(self, kept.pop(), nbytes)
        if not nbytes:
            return Memory(self, 0, 0)
        pointer = self.pool.take(nbytes, stream)
        if pointer is None:
            raise self._out_of_memory(nbytes)
        return Memory(self, pointer, nbytes)

    def _make_room(self) -> None:
        self.pool.make_room()

    def _trim(self, keep_nbytes: int) -> None:
        self.check_usable()
        self.pool.trim(keep_nbytes)
        self._uploads.trim()
        self._downloads.trim()
        self.tidy()
        self.pinned.trim()

    def _limit_changed(self) -> None:
        self.pool.set_threshold(self.accounts.limit)

    def _pool_counts(self) -> tuple[Any, ...]:
        pool, limit = self.pool, self.accounts.limit
        return pool.reserved_nbytes(), pool.used_nbytes(), pool.reserved_peak_nbytes(), self.pinned.nbytes, limit

    def release(self, memory: Memory) -> None:
        """Take memory back that nobody can reach any more; called by `Memory`.

        Finalisers come here, at any moment and in any thread: what is done here needs no lock.
        """
        if memory.counted:
            self.accounts.remove(memory)
            stream: Any = memory.stream
            if stream is not None:  # the only one that used it
                kept = stream.kept.get(-(-memory.nbytes // GRAIN) * GRAIN)
                if kept is not None and len(kept) < MOST_OF_A_SIZE:
                    kept.append(memory.pointer)
                    return
        pointer = memory.pointer if memory.counted else 0
        if pointer or memory.owner is not None:
            self.dropped.append((pointer, memory.nbytes, memory.owner, memory.users()))
            self.attention = True

    def attend(self) -> None:
        """See to what was noted, before more work goes in; raises ContextPoisonedError after a fault.

        The lock is held. What stands keeps the flag up, and with it launches off the quick ways.
        """
        self.attention = False  # first: a finaliser may raise it again at any moment
        try:
            if self.fault is not None or self.dropped or self.ended:
                self.tidy()
        finally:
            if self.fault is not None or self.watched or self.recordings:
                self.attention = True

    def tidy(self) -> None:
        """Give dropped memory back, in the order of the streams; raises ContextPoisonedError after a fault."""
        with self._lock:
            self._tidy()

    def _tidy(self) -> None:
        dropped = self.dropped
        if self.fault is not None:
            dropped.clear()
            self._held.clear()
            self.check_usable()
        while dropped:
            pointer, nbytes, owner, users = dropped.popleft()
            if pointer:
                self.pool.give_back(pointer, nbytes, users)
            else:
                self._held.append((owner, users))
        if self._held:
            self._held = [(owner, users) for owner, users in self._held if not all(work.is_done for work in users)]
        if self.ended or self._unused:
            self._destroy_ended()

    def _destroy_ended(self) -> None:
        """Destroy streams and graphs, each one turn after it was dropped.

        In a cycle of garbage a stream may be finalised before the memory that is to be freed on it is dropped.
        """
        for destroy, raw in self._unused:
            destroy(raw)  # returns at once; the driver finishes the work that is left
        self._unused = [self.ended.popleft() for _ in range(len(self.ended))]

    def after_close(self) -> None:
        """Free what was closed, if that is still possible."""
        if self.fault is None:
            self.tidy()

    def copy_in(self, pointer: int, host: int, nbytes: int) -> None:
        """Copy from ordinary memory of the host, and return when that is done."""
        if nbytes < LEAST_NBYTES:
            self._copy(driver.cuMemcpyHtoDAsync, pointer, host, nbytes)
        else:
            self.check_usable()
            self._uploads.upload(pointer, host, nbytes)

    def _upload(self, pointer: int, host: np.ndarray[Any, Any]) -> None:
        self.copy_in(pointer, host.ctypes.data, host.nbytes)

    def _download(self, host: np.ndarray[Any, Any], pointer: int) -> None:
        if host.nbytes < LEAST_NBYTES:
            self._copy(driver.cuMemcpyDtoHAsync, host.ctypes.data, pointer, host.nbytes)
        else:
            self.check_usable()
            self._downloads.download(host.ctypes.data, pointer, host.nbytes)

    def _copy(self, function: Any, target: int, source: int, nbytes: int) -> None:
        """Copy now: work on the memory is done, and an upload from ordinary memory returns before it has arrived."""
        self.check_usable()
        # Without the lock: another thread may have to launch before this can go on.
        self.ask(self.call(function, target, source, nbytes, self._copies.raw))
        self.ask(driver.cuStreamSynchronize(self._copies.raw))

    # Other GPUs.

    def takes_from(self, other: Device) -> bool:
        """Whether copies from that device are work on a stream of this one."""
        return isinstance(other, CudaDevice)

    def copy_across(self, target: GpuBuffer[Any], source: GpuBuffer[Any]) -> Completion:
        """Copy between contiguous buffers of one shape, from another GPU; events order it on both."""
        other: Any = source.device
        if other.ordinal != self.ordinal:
            self._be_peer_of(other)
        stream: Any = self.stream_for(((target, "Out"),))
        for earlier in source.memory.users(writes=False):
            stream.wait_for(earlier)
        if not target.nbytes:
            return Completion.completed(stream)
        function: Any = driver.cuMemcpyPeerAsync
        arguments: tuple[Any, ...] = (target.pointer, self._context, source.pointer, other._context)
        if other.ordinal == self.ordinal:  # the same GPU, opened with other options
            function, arguments = driver.cuMemcpyDtoDAsync, (target.pointer, source.pointer)
        with self._lock:
            work: CudaCompletion = stream.submit(function, (*arguments, target.nbytes, stream.raw), ((target, "Out"),))
            work._what = "copy"
            work._mark()  # now, so that the other device needs nothing of this one to wait for it
        with other._lock:
            source.memory.record(stream, work, writes=False)
        return work

    def _be_peer_of(self, other: CudaDevice) -> None:
        """Let this GPU reach the memory of another by itself, where it can: else the driver goes through the host."""
        if other.ordinal in self._peers:
            return
        handles = [self.ask(driver.cuDeviceGet(ordinal)) for ordinal in (self.ordinal, other.ordinal)]
        if self.ask(driver.cuDeviceCanAccessPeer(*handles)):
            other.pool.share_with(self.ordinal)
        self._peers.add(other.ordinal)

    # Other libraries.

    def copies(self, target: GpuBuffer[Any], source: GpuBuffer[Any] | None) -> bool:
        """Pinned memory in one piece, and all layouts that are few pieces for the driver."""
        if (target.is_contiguous and (source is None or source.is_contiguous)) or not target.size:
            hosts = [one.device for one in (target, source) if one is not None and one.memory.is_host]
            return all(isinstance(maker, CudaDevice) for maker in hosts)  # others pin none
        if target.memory.is_host or (source is not None and source.memory.is_host):
            return False
        itemsize = target.dtype.itemsize
        strides = contiguous_strides(target.shape, itemsize) if source is None else source.strides
        return bool(rectangles(0, 0, target.shape, (target.strides, strides), itemsize))

    def _pin(self, nbytes: int) -> tuple[int, Any]:
        block = self.pinned.take(nbytes)
        return block.pointer, block

    def _takes(self, foreign: Foreign) -> bool:
        return foreign.kind == "cuda" and foreign.ordinal == self.ordinal

    def adopt(self, foreign: Foreign) -> GpuBuffer[Any]:
        """A buffer over foreign memory; its owner let our current stream wait for what it has still to do."""
        buffer = super().adopt(foreign)
        if foreign.is_joined:
            stream = self.current_stream()
            with self._lock:
                buffer.memory.record(stream, stream._tail(), writes=True)
        return buffer

    def wait_foreign(self, memory: Memory) -> None:
        """Wait until another library that works on this memory is done with it."""
        if memory.foreign_stream is not None:
            with self._lock, self.current():
                event = self.events.record(driver.CUstream(handle_of(memory.foreign_stream)))
            self.ask(driver.cuEventSynchronize(event.handle))

    def writing_stream(self, memory: Memory) -> int | None:
        """The handle of the stream that whoever reads and writes this memory has to wait for."""
        if self._is_enqueuing():
            return None
        with self._lock:
            users = [work for work in memory.users() if not work.is_done]
            streams = {work.stream for work in users}
            if len(streams) > 1:
                self._frees._wait_for_all(users)
                return self._frees.handle
        return int(streams.pop().raw) if streams else None  # type: ignore[attr-defined]

    def _is_enqueuing(self) -> bool:
        """Whether the caller puts the work of a library into a graph: what comes before it there, is known there."""
        graph = self.recording() if self.recordings else None
        return graph is not None and graph.is_enqueuing

    def hand_over(self, memory: Memory, stream: int | None) -> None:
        """Let a stream of another library, which may write, wait for the work on this memory; -1: it does so itself."""
        if stream == -1 or self._is_enqueuing():
            return
        target = driver.CUstream(stream or LEGACY)
        with self._lock, self.current():
            for work in memory.users(writes=not memory.read_only):
                if isinstance(work, CudaCompletion) and int(work.stream.raw) != int(target) and not work.is_done:
                    work._mark()
                    if work._event is not None:
                        self.ask(driver.cuStreamWaitEvent(target, work._event.handle, 0))


def _failed(stream: CudaStream, fault: KaioError) -> Completion:
    failed = Completion(stream)
    failed._finished, failed._error = True, fault
    return failed
