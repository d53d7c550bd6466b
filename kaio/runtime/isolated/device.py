"""The isolated device: memory of this process, kernels in another one, which is replaced when one of them faults."""

from __future__ import annotations

import itertools
import logging
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Never

import numpy as np

from kaio.errors import ContextPoisonedError, DeviceNotFoundError, KaioError, UnsupportedFeatureError
from kaio.program import Level
from kaio.runtime.buffer import GpuBuffer
from kaio.runtime.completion import Completion
from kaio.runtime.cuda.device import CudaDevice
from kaio.runtime.cuda.driver import driver
from kaio.runtime.device import Device
from kaio.runtime.device_memory import MemoryInfo
from kaio.runtime.foreign import Foreign, read_foreign
from kaio.runtime.foreign_stream import read_handle
from kaio.runtime.isolated.completion import IsolatedCompletion
from kaio.runtime.isolated.faults import Failure, driver_error, explain, refusal
from kaio.runtime.isolated.lending import Lending
from kaio.runtime.isolated.link import Link, Lost, Refused
from kaio.runtime.isolated.loaded import IsolatedLoaded
from kaio.runtime.isolated.stream import IsolatedStream
from kaio.runtime.layout import contiguous_strides, rectangles
from kaio.runtime.leaving import finish
from kaio.runtime.memory import Memory
from kaio.runtime.pinned import PinnedArray
from kaio.runtime.policy import USUAL_POLICY, Policy
from kaio.runtime.several import gather
from kaio.runtime.stream import Stream, Uses, read_priority

__all__ = ["IsolatedDevice"]

_log = logging.getLogger("kaio")

_ROOM_S = 10.0  # how long work is waited for, of which memory may come back


class IsolatedDevice(Device):
    """A GPU whose kernels run in a worker process. `owner` is the same GPU in this one, which has the memory."""

    kind = "cuda"
    is_isolated = True
    is_leaving = False  # the process ends: no worker is started any more
    owner: CudaDevice
    uuid: bytes
    link: Link
    dropped: deque[tuple[Any, list[Completion]]]  # memory that nobody can reach any more, and who uses it
    ended: deque[tuple[Link, int, int]]  # streams whose objects are gone: worker, slot, last work
    forgotten: deque[tuple[Link, int]]  # bound launches that are gone
    watched: dict[IsolatedCompletion, None]  # checked launches of which nobody knows yet how they ended
    finishing: threading.Lock
    loading: threading.RLock
    unlocked: threading.Condition  # to wait in with the lock given up
    lending: Lending
    _default: IsolatedStream
    _loaded: dict[int, IsolatedLoaded]
    _held: list[tuple[Any, list[Completion]]]
    _lost: list[Link]  # whose fault may not have been seen
    _memories_lent: weakref.WeakSet[Memory]
    _numbers: itertools.count[int]

    @classmethod
    def open(cls, owner: CudaDevice, check: Level = "off", policy: Policy = USUAL_POLICY) -> IsolatedDevice:
        """The device over a plain one; `Device(ordinal, isolated=True)` keeps one of each."""
        if not hasattr(os, "memfd_create"):
            raise UnsupportedFeatureError(
                "`isolated=True` is for Linux: elsewhere the driver does not let processes share memory of a GPU",
                help="leave it out",
            )
        self = object.__new__(cls)
        self.owner, self.ordinal, self.check, self.policy = owner, owner.ordinal, check, policy
        self.name, self.target, self.capability, self.limits = owner.name, owner.target, owner.capability, owner.limits
        self.uuid = bytes(owner.ask(driver.cuDeviceGetUuid(owner.ask(driver.cuDeviceGet(self.ordinal)))).bytes)
        self._start()
        self.dropped, self.ended, self.forgotten, self.watched = deque(), deque(), deque(), {}
        self.finishing, self.loading = threading.Lock(), threading.RLock()
        self.unlocked = threading.Condition(self._lock)
        self._loaded, self._held, self._lost, self._numbers = {}, [], [], itertools.count(1)
        self._memories_lent, self.lending = weakref.WeakSet(), Lending(owner)
        self.link = Link(self)
        self.link.ready.wait()
        if self.link.problem:
            raise DeviceNotFoundError(
                f"the worker of {self} does not start: {self.link.problem}",
                help=f"`Device({self.ordinal})` runs kernels in this process",
            )
        self._set_default()
        _devices.add(self)
        return self

    def _spec(self) -> tuple[str, dict[str, Any]]:
        options = {} if self.check == "off" else {"check": self.check}
        return f"cuda:{self.ordinal}", {"isolated": True} | options | self.policy.spelled()

    def __str__(self) -> str:
        which, options = self._spec()
        return f"{which} ({', '.join(['isolated', *(f'{n} {v}' for n, v in options.items() if n != 'isolated')])})"

    @property
    def memory(self) -> MemoryInfo:
        """Free and total memory in bytes; what is kept for the next buffers counts as free."""
        self.check_usable()
        free, total = self.owner.memory
        with self._lock:
            return MemoryInfo(min(free + self.lending.arena.free_nbytes, total), total)

    # The worker.

    def ask(self, what: str, request: Callable[[Link], Any]) -> Any:
        """What a worker answers to a request; the next one is asked if it ends meanwhile. Not with the lock held."""
        while True:
            self.check_usable()
            link = self.link
            try:
                return request(link)
            except Refused as problem:
                cause = driver_error(problem.code)
                raise self.owner.translated(cause, what) from cause
            except Lost:
                link.replaced.wait()

    def take_number(self) -> int:
        """A number for what a worker is to keep."""
        return next(self._numbers)

    def refused(self, stream: IsolatedStream | None, kernel: str | None, code: int) -> Failure:
        """Work that the driver did not take. Called by the thread of a link."""
        what = "work" if kernel is None else f"kernel `{kernel}`"
        failure = Failure(stream or self._default, refusal(self, kernel, code), what)
        self.failures.note(failure)
        return failure

    def replace(self, link: Link) -> None:
        """A worker has ended: see to the next one, and let all unfinished work of this one fail. Called by its thread.

        Nothing of it counts as failed before the process is gone: what it ran may write until then.
        """
        if link.is_leaving:
            return
        try:
            self._replace(link)
        except Exception as problem:
            _log.exception("the worker of %s could not be replaced", self)
            self._give_up(link, problem)
        finally:
            link.close()
            link.ready.set()
            link.replaced.set()

    def _replace(self, link: Link) -> None:
        if link.problem != "":
            link.end()
            link.problem = link.problem or f"it {link.last_words()}"
            self._give_up(link, KaioError(f"the worker of {self} does not start: {link.problem}"))
            return
        fresh = self._next_worker()  # which starts while the old one ends
        if not link.end():
            if fresh is not None:
                fresh.leave()
            raise KaioError(f"the worker of {self} does not end, and may still write to its buffers")
        if link.prints is not None:
            link.prints.show(None)
        is_busy = self._fail(link, fresh)
        self.settle()
        # Who waits for the work is told; of what has done no harm there is but this word.
        assert link.fault is not None
        level = logging.INFO if is_busy else logging.WARNING
        _log.log(level, "the worker of %s was replaced: %s", self, link.fault.mistakes[0].what)

    def _next_worker(self) -> Link | None:
        """The worker that takes over; None where the process ends."""
        if not self.is_leaving:
            try:
                return Link(self)
            except RuntimeError as problem:  # of a thread that cannot be started
                if "interpreter shutdown" not in str(problem):
                    raise
                self.is_leaving = True
        return None

    def _fail(self, link: Link, fresh: Link | None) -> bool:
        """Let what was not done fail, and go over to the next worker, if there is to be one; True if there was any."""
        with self._lock:
            is_busy = any(line and line[-1].number > link.words[slot] for slot, line in list(link.lines.items()))
            fault, what = explain(self, link)
            link.failure = Failure(self._default, fault, what)
            self._forget_seen()
            if is_busy:
                self._lost.append(link)
                self.failures.note(link.failure)
            if fresh is not None:
                self._move_to(fresh)
            link.fault = fault
            for memory in list(self._memories_lent):
                for work in memory.users():
                    work._poll()
        return is_busy

    def _move_to(self, fresh: Link) -> None:
        """From now on the next worker has the memory, and a new generation begins. The lock is held."""
        self.lending.open_all(fresh)
        self.generation += 1
        for memory in list(self._memories_lent):
            memory.generation = self.generation
        self.link = fresh
        self._set_default()

    def _set_default(self) -> None:
        self._default = IsolatedStream.make(self, self.link)
        self._default.is_default = True
        self.__dict__.pop("_choice", None)  # of streams: it had those of the worker before

    @property
    def current_default(self) -> IsolatedStream:
        """The stream of work of which nothing else is said."""
        return self._default

    def _give_up(self, link: Link, problem: Exception) -> None:
        with self._lock:
            self.fault = problem if isinstance(problem, KaioError) else KaioError(f"{problem}")
            link.fault = link.fault or self.fault

    def check_usable(self) -> None:
        """Raise ContextPoisonedError if there can be no worker any more, or the context of this process has failed."""
        if self.fault is not None:
            raise ContextPoisonedError(
                f"{self} cannot be used any more in this process: {self.fault.mistakes[0].what}",
                help="start a new process",
                fault=self.fault,
            ) from self.fault
        self.owner.check_usable()

    def raise_unseen(self, stream: Stream | None) -> None:
        """Raise a failure that nobody saw; faults of earlier workers are those of the streams that they had."""
        self.settle(stream)
        self._forget_seen()
        for link in self._lost:
            if stream is self._default or (isinstance(stream, IsolatedStream) and stream.link is link):
                assert link.failure is not None
                self.failures.raise_unseen(link.failure.stream)
        super().raise_unseen(stream)
        if self.fault is not None:
            self.check_usable()

    def _forget_seen(self) -> None:
        self._lost = [link for link in self._lost if link.failure is not None and not link.failure._seen]

    def settle(self, stream: Stream | None = None) -> None:
        """Learn how those checked launches ended that are done, on a stream or on all."""
        busy: set[Stream] = set()
        for work in list(self.watched):  # in the order of their launches
            if work.stream not in busy and (stream is None or work.stream is stream) and not work._poll():
                busy.add(work.stream)

    def checked_writers(self, uses: Uses) -> tuple[IsolatedCompletion, ...]:
        """The checked launches that wrote what these uses take, or what was made of it since."""
        found: dict[IsolatedCompletion, None] = {}
        for buffer, _ in uses:
            writer = buffer.memory.writer
            if isinstance(writer, IsolatedCompletion) and not writer._finished:
                found |= dict.fromkeys((writer,) if writer in self.watched else writer._after)
        return tuple(found)

    def _log_unseen(self) -> None:
        self.is_leaving = True
        if self.fault is None:
            with suppress(KaioError):
                finish(self, [stream._tail() for stream in list(self._streams)], limit_s=10.0)
            if self.link.prints is not None:
                self.link.prints.show(None)
            self.settle()
        super()._log_unseen()
        if not self.link.is_lost:
            self.link.leave()

    # Programs and streams.

    def load(self, program: Any) -> IsolatedLoaded:
        """Load the cubin of a program into the worker, once."""
        found = self._loaded.get(id(program))
        if found is None:
            with self.loading:
                found = self._loaded.get(id(program))
                if found is None:
                    found = self._loaded[id(program)] = IsolatedLoaded(self, program)
        return found

    def stream(
        self,
        priority: int = 0,
        *,
        completion: str | None = None,
        ordering: str | None = None,
        foreign: Any = None,
        **unknown: Never,
    ) -> IsolatedStream:
        """A new stream of the worker; lower numbers go first. After a fault it is stale."""
        policy = self._stream_policy(completion, ordering, unknown)
        if foreign is not None:
            read_handle(foreign)
            raise UnsupportedFeatureError(
                f"{foreign!r} is a stream of this process, and {self} runs kernels in another one",
                help=f"use `Device({self.ordinal})`, or a stream of its own: `device.stream()`",
            )
        self.check_usable()
        self.tidy()
        with self._lock:
            return IsolatedStream.make(self, self.link, read_priority(priority, self, *self.owner.priorities), policy)

    def _make_graph(self) -> Never:
        raise UnsupportedFeatureError(
            f"graphs are not supported on {self}",
            help=f"bind and launch the work itself, which is quick, too, or record it on `Device({self.ordinal})`",
        )

    def _default_stream(self) -> Stream:
        return self._default

    # Memory.

    def take(self, nbytes: int, zero: bool) -> Memory:
        """Memory that the worker has opened, or is told to before anything else."""
        if not nbytes:
            return Memory(self, 0, 0)
        with self._lock:
            self.tidy()
            block = self.lending.take(nbytes, self.link)
        if block is None:
            raise self._out_of_memory(nbytes)
        if zero:
            self.lending.zero(block.pointer, nbytes)
        memory = Memory(self, block.pointer, nbytes, block)
        self._memories_lent.add(memory)
        return memory

    def _make_room(self) -> None:
        with self._lock:
            self.tidy()
            held = [work for _, users in self._held for work in users]
        gather(*held)._block(_ROOM_S)
        self._trim(0)

    def _trim(self, keep_nbytes: int) -> None:
        with self._lock:
            self.tidy()
            empty = self.lending.take_empty(keep_nbytes)
        for chunk in empty:
            self.lending.give_back(chunk, self.link)

    def _pool_counts(self) -> tuple[Any, ...]:
        arena = self.lending.arena
        return arena.nbytes, arena.nbytes - arena.free_nbytes, arena.peak_nbytes, 0, self.accounts.limit

    def _allocate(self, nbytes: int, zero: bool) -> Memory:
        return self.take(nbytes, zero)

    def _release(self, memory: Memory) -> None:
        # Finalisers come here, at any moment and in any thread: only note it.
        if memory.owner is not None:
            self.dropped.append((memory.owner, memory.users()))

    def tidy(self) -> None:
        """Take memory back whose work is done, and tell the worker of streams and launches that are gone."""
        with self._lock:
            while self.dropped:
                self._held.append(self.dropped.popleft())
            held, self._held = self._held, []
            for owner, users in held:
                if all(work.is_done for work in users):
                    self.lending.give(owner, self.link)
                else:
                    self._held.append((owner, users))
            for _ in range(len(self.ended)):
                self._end_stream(*self.ended.popleft())
            while self.forgotten:
                link, number = self.forgotten.popleft()
                link.tell("forget", number)

    def _end_stream(self, link: Link, slot: int, given: int) -> None:
        if link.words[slot] >= given:
            link.tell("end_stream", slot)
            link.give_slot(slot)
        elif not link.is_lost:
            self.ended.append((link, slot, given))

    def after_close(self) -> None:
        """Take back what was closed."""
        if self.fault is None:
            self.tidy()

    def copies(self, target: GpuBuffer[Any], source: GpuBuffer[Any] | None) -> bool:
        """Whether the worker copies between these layouts."""
        if target.memory.is_host or (source is not None and source.memory.is_host):
            return target.is_contiguous and (source is None or source.is_contiguous)
        itemsize = target.dtype.itemsize
        strides = contiguous_strides(target.shape, itemsize) if source is None else source.strides
        if (target.is_contiguous and (source is None or source.is_contiguous)) or not target.size:
            return True
        return bool(rectangles(0, 0, target.shape, (target.strides, strides), itemsize))

    def _pin(self, nbytes: int) -> tuple[int, Any]:
        return self.owner._pin(nbytes)

    def alloc_pinned(self, shape: Any, dtype: Any = None) -> PinnedArray:
        """Pinned memory of this process; copies from and to it are done when they return."""
        made = super().alloc_pinned(shape, dtype)
        self._memories_lent.add(made.buffer.memory)  # which outlives a worker
        return made

    def _upload(self, pointer: int, host: np.ndarray[Any, Any]) -> None:
        self.owner._upload(pointer, host)

    def _download(self, host: np.ndarray[Any, Any], pointer: int) -> None:
        self.owner._download(host, pointer)

    # Other libraries. They work in this process: what they use is waited for.

    def _takes(self, foreign: Foreign) -> bool:
        return foreign.kind == "cuda" and foreign.ordinal == self.ordinal

    def import_array(self, array: Any) -> GpuBuffer[Any]:
        """A buffer over another library's memory, which the worker opens; see `Device.import_array`."""
        if isinstance(array, np.ndarray) or (isinstance(array, GpuBuffer) and array.device is self):
            return super().import_array(array)
        foreign = read_foreign(array, self.owner)
        if foreign is None or not self._takes(foreign):
            return super().import_array(array)
        self.owner.current_stream()._tail()._block(None)  # which the library has let wait for its own work
        return self.adopt(foreign)

    def adopt(self, foreign: Foreign) -> GpuBuffer[Any]:
        """A buffer over foreign memory that lies on this device, if another process can open it."""
        buffer = super().adopt(foreign)
        with self._lock:
            buffer.memory.owner = self.lending.borrow(buffer.memory, foreign.owner, self.link, str(self))
        self._memories_lent.add(buffer.memory)
        return buffer

    def wait_foreign(self, memory: Memory) -> None:
        """Wait until another library that works on this memory is done with it."""
        self.owner.wait_foreign(memory)

    def writing_stream(self, memory: Memory) -> int | None:
        """There is no stream to wait for: the work is done."""
        if memory.writer is not None:
            memory.writer._block(None)
        return None

    # Other processes.

    def after_fork(self) -> None:
        """In a forked child: the worker is the parent's, and so is the memory."""
        self._lock, self.finishing, self.loading = threading.RLock(), threading.Lock(), threading.RLock()
        self.unlocked = threading.Condition(self._lock)
        self.link.forget()
        self.fault = self.link.fault = KaioError(
            "CUDA does not survive a fork, and the parent had started it",
            help='start processes that use the GPU another way, as `multiprocessing.get_context("spawn")` does',
        )


_devices: weakref.WeakSet[IsolatedDevice] = weakref.WeakSet()


def _after_fork() -> None:
    for device in list(_devices):
        device.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
