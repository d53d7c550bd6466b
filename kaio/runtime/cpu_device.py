"""The CPU device: kernels as native code on worker threads, memory from NumPy, streams on threads."""

from __future__ import annotations

import atexit
import ctypes
import os
import platform
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Never

import numpy as np

from kaio import print_abi as abi
from kaio.errors import UnsupportedFeatureError
from kaio.program import Build, Level
from kaio.runtime.buffer import GpuBuffer
from kaio.runtime.callbacks import finish_callbacks
from kaio.runtime.cpu_graph import CpuGraph
from kaio.runtime.cpu_stream import CpuStream, Servers
from kaio.runtime.crew import copy_bytes
from kaio.runtime.device import Device, Route
from kaio.runtime.device_memory import MemoryInfo
from kaio.runtime.failures import Failures
from kaio.runtime.foreign import Foreign
from kaio.runtime.foreign_stream import read_handle
from kaio.runtime.host_memory import Written
from kaio.runtime.host_short import ShortLaunches
from kaio.runtime.launch_order import LaunchOrder
from kaio.runtime.leaving import finish
from kaio.runtime.limits import describe
from kaio.runtime.memory import Memory
from kaio.runtime.occupancy import fullest
from kaio.runtime.policy import USUAL_POLICY, Policy
from kaio.runtime.printing import RING_NBYTES, PrintRing
from kaio.runtime.several import gather
from kaio.runtime.stream import Dims, Stream, Uses, read_priority

if TYPE_CHECKING:
    from kaio.runtime.overlaps import Flight, Overlaps

__all__ = ["CpuDevice", "CpuLoaded"]

_ALIGNMENT = 64  # a cache line, and the widest vector
_PRIORITIES = 0, -5  # of streams, the least and the greatest, on GPUs since Volta
_OWN_NBYTES = 1024  # of shared memory, which the system keeps for each block (CUDA guide, "Compute capability 8.x")
_LEAVE_S = 60.0  # how long work is waited for at exit
_STOP_S = 0.5  # how long blocks that run may take to end once no more are started


class CpuLoaded:
    """A host program whose code is loaded.

    rests: of one that looks at every access, those that do not, for the blocks that are like the first
    """

    __slots__ = ("kernel", "max_threads", "name", "program", "rests", "short")

    def __init__(self, program: Any, kernel: Any) -> None:
        self.program, self.kernel, self.name = program, kernel, program.name
        self.max_threads: int | None = None
        self.rests: dict[Build, CpuLoaded] = {}
        self.short = ShortLaunches(kernel)

    @property
    def is_full(self) -> bool:
        """Whether it looks at every access to memory."""
        return self.program.shadow is not None

    def takes_arguments_of(self, other: CpuLoaded) -> bool:
        """Whether what is packed for another program is right for this one."""
        own, its = self.program, other.program
        return (own.arguments, own.index_bits, own.dynamic, own.shared_nbytes) == (
            its.arguments, its.index_bits, its.dynamic, its.shared_nbytes,
        )  # fmt: skip

    def resident_blocks(self, device: CpuDevice, threads: int, shared_nbytes: int) -> int:
        """How many blocks of this size a multiprocessor of the GPU it is like runs at once, but for their registers."""
        limits, warp = device.limits, device.limits.warp_size
        found = min(limits.blocks_per_multiprocessor, limits.threads_per_multiprocessor // (-(-threads // warp) * warp))
        nbytes = max(self.program.shared_nbytes, shared_nbytes)
        return min(found, limits.shared_nbytes_per_multiprocessor // (nbytes + _OWN_NBYTES)) if nbytes else found

    def fullest_block(self, device: CpuDevice, shared_nbytes: int, most_threads: int) -> int:
        """The threads of a block that fills a multiprocessor of the GPU it is like, but for their registers."""
        return fullest(
            lambda threads: self.resident_blocks(device, threads, shared_nbytes), device.limits.warp_size, most_threads
        )


class CpuDevice(Device):
    """Runs kernels natively, with the limits of the GPU that it is `like`."""

    kind = "cpu"
    _like: str
    _loaded: dict[int, CpuLoaded]
    _workers: Any
    _total: int
    _default: CpuStream
    _ring: PrintRing | None
    servers: Servers
    order: LaunchOrder | None  # of the work, once a launch looks at it
    overlaps: Overlaps
    is_by_hand: bool = False  # whether a stream was made that is not managed

    @classmethod
    def open(cls, like: str, check: Level, route: Route = "ir", policy: Policy = USUAL_POLICY) -> CpuDevice:
        """The device with these options; `Device("cpu", …)` keeps one of each."""
        description = describe(like)
        self = object.__new__(cls)
        self._like, self.target, self.check, self.route, self.policy = like, like, check, route, policy
        self.name = f"CPU ({platform.processor() or platform.machine()}), limits of {like} ({description.name})"
        self.capability, self.limits = description.capability, description.limits
        self._start()
        self._total = self.memory.total
        self._loaded, self._workers, self.servers, self._ring = {}, None, Servers(), None
        self.order = None
        self._default = CpuStream.make(self)
        atexit.register(self._settle)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._after_fork)
        return self

    def _spec(self) -> tuple[str, dict[str, Any]]:
        options = {"like": self._like} if self._like != "sm_90" else {}
        if self.check != "bounds":
            options["check"] = self.check
        if self.route != "ir":
            options["route"] = self.route
        return "cpu", options | self.policy.spelled()

    @property
    def memory(self) -> MemoryInfo:
        """Free and total memory of the machine in bytes."""
        return _machine_memory()

    @property
    def workers(self) -> Any:
        """The threads that run blocks; started with the first launch."""
        if self._workers is None:
            from kaio.runtime.host_workers import WorkerPool

            with self._lock:
                if self._workers is None:
                    self._workers = WorkerPool(_usable_cores())
        return self._workers

    def load(self, program: Any) -> CpuLoaded:
        """Load the native code of a host program, once."""
        found = self._loaded.get(id(program))
        if found is None:
            with self._lock:
                found = self._loaded.get(id(program)) or self._load(program)
        return found

    def _load(self, program: Any) -> CpuLoaded:
        """The same, of one that is not loaded. The lock is held."""
        from kaio.runtime.host_kernel import HostKernel

        def most_blocks(threads: int, shared_nbytes: int) -> int:
            return loaded.resident_blocks(self, threads, shared_nbytes) * self.limits.multiprocessors

        loaded = CpuLoaded(program, HostKernel(program, most_blocks))
        if program.prints:
            self._ring = self._ring or _print_ring()
            loaded.kernel.print_to(self._ring)
        self._loaded[id(program)] = loaded
        return loaded

    def stream(
        self,
        priority: int = 0,
        *,
        completion: str | None = None,
        ordering: str | None = None,
        foreign: Any = None,
        **unknown: Never,
    ) -> Stream:
        """A new stream. It takes the priorities of a GPU, and makes no difference."""
        policy = self._stream_policy(completion, ordering, unknown)
        if foreign is not None:
            read_handle(foreign)
            raise UnsupportedFeatureError(
                f"{foreign!r} is a stream of a GPU, and {self} has none of those", help="make one: `device.stream()`"
            )
        return CpuStream.make(self, read_priority(priority, self, *_PRIORITIES), policy)

    def _make_graph(self) -> CpuGraph:
        return CpuGraph.make(self)

    def _default_stream(self) -> Stream:
        return self._default

    def watch(self, loaded: Any, grid: Dims, block: Dims, uses: Uses, schedule: int | None) -> Flight | None:
        """What a launch keeps that may overlap with others over the same memory; None where none can."""
        if not loaded.is_full:
            return None
        from kaio.runtime.overlaps import Flight, Overlaps, watched_ranges

        with self._lock:
            if self.order is None:
                self.order = LaunchOrder()
                self.overlaps = Overlaps(self.order)
        watched = watched_ranges(uses, self.is_by_hand)
        return Flight(loaded.program, grid, block, watched, schedule) if watched else None

    def come_after(self, memory: Memory, writes: bool) -> None:
        """Another library's work on the host is done when it returns; what the host has seen is noted."""
        if self.order is not None:
            self.order.reach_uses(memory, writes)

    def _allocate(self, nbytes: int, zero: bool) -> Memory:
        if nbytes > self._total:
            raise self._out_of_memory(nbytes)  # the system would promise it, and end the process later
        try:
            owner = (np.zeros if zero else np.empty)(nbytes + _ALIGNMENT, np.uint8)
        except MemoryError:
            raise self._out_of_memory(nbytes) from None
        return Memory(self, owner.ctypes.data + -owner.ctypes.data % _ALIGNMENT, nbytes, owner)

    def _alloc(self, shape: Any, dtype: Any, *, zero: bool) -> GpuBuffer[Any]:
        made = super()._alloc(shape, dtype, zero=zero)
        if not zero:
            made.memory.unwritten = Written(made.memory.pointer, made.memory.nbytes)
        return made

    def _release(self, memory: Memory) -> None:
        pass  # work in flight holds the owner: the memory goes with the last of them

    def _upload(self, pointer: int, host: np.ndarray[Any, Any]) -> None:
        copy_bytes(pointer, host.ctypes.data, host.nbytes)

    def _download(self, host: np.ndarray[Any, Any], pointer: int) -> None:
        copy_bytes(host.ctypes.data, pointer, host.nbytes)

    def copies(self, target: GpuBuffer[Any], source: GpuBuffer[Any] | None) -> bool:
        """All are memory of the host here."""
        return True

    def _takes(self, foreign: Foreign) -> bool:
        return foreign.kind == "cpu"

    def _after_fork(self) -> None:
        """The threads of the streams, and whoever held the lock, stayed in the parent process."""
        self._lock, self.failures, self.servers = threading.RLock(), Failures(), Servers()
        if self._workers is not None:
            self._workers.after_fork()
        if self._ring is not None:
            self._ring.after_fork()
        for stream in list(self._streams):
            if isinstance(stream, CpuStream):
                stream.after_fork()

    def is_stop(self, error: BaseException) -> bool:
        """Whether work failed because it was stopped when the process ended, of which nobody has to be told."""
        return self._workers is not None and error is self._workers.stopped

    def _settle(self) -> None:
        """At exit: native code must not run on while Python takes its memory away."""
        tails = [stream._tail() for stream in list(self._streams)]
        workers = self._workers
        if not finish(self, tails, _LEAVE_S, () if workers is None else workers.running) and workers is not None:
            workers.stop()
            with suppress(KeyboardInterrupt):
                gather(*tails)._block(_STOP_S)
        with suppress(KeyboardInterrupt):
            finish_callbacks(_STOP_S)


def _print_ring() -> PrintRing:
    words, counters = np.zeros(RING_NBYTES // 4, np.uint32), np.zeros(abi.COUNTERS, np.uint32)
    address, at = words.ctypes.data, counters.ctypes.data
    return PrintRing(words, address, lambda: (int(counters[abi.HEAD]), int(counters[abi.DROPPED])), at)


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _machine_memory() -> MemoryInfo:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        pass
    else:
        sizes = {name: int(rest.split()[0]) * 1024 for name, _, rest in (line.partition(":") for line in lines)}
        return MemoryInfo(sizes.get("MemAvailable", sizes.get("MemFree", 0)), sizes["MemTotal"])
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        return MemoryInfo(total, total)  # macOS does not tell what is free here
    return _windows_memory()


def _windows_memory() -> MemoryInfo:
    class Status(ctypes.Structure):
        _fields_ = (
            ("length", ctypes.c_ulong),
            ("load", ctypes.c_ulong),
            *((name, ctypes.c_ulonglong) for name in ("total", "free", "a", "b", "c", "d", "e")),
        )

    status = Status(length=ctypes.sizeof(Status))
    windll: Any = getattr(ctypes, "windll")  # noqa: B009 - only there on Windows
    windll.kernel32.GlobalMemoryStatusEx(ctypes.byref(status))
    return MemoryInfo(int(status.free), int(status.total))
