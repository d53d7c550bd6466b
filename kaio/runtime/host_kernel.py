"""Host programs run: object code loaded, blocks handed to worker threads. `host_faults` puts faults into words.

The layout that native code and this file share is in `kaio/host_abi.py`.
"""

from __future__ import annotations

import ctypes
import functools
import math
import os
import random
import struct
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from queue import SimpleQueue
from typing import Any

from kaio import host_abi as abi
from kaio import print_abi, trace_abi
from kaio.errors import InternalError, KaioError
from kaio.order_abi import ORDER
from kaio.program import HostProgram
from kaio.runtime.coverage import Coverage
from kaio.runtime.host_faults import FaultRecord, fault_error
from kaio.runtime.host_memory import HostMemory, Written
from kaio.runtime.host_order import LaunchOrdering
from kaio.runtime.host_shadow import LaunchShadow, ShadowOfRecord
from kaio.runtime.host_short import MOST_STATEMENTS, ShortLaunch
from kaio.runtime.overlaps import Flight
from kaio.runtime.printing import PrintRing
from kaio.runtime.shadow_faults import Places, is_of_shadow, shadow_error
from kaio.runtime.stream import USUAL, RunOptions
from kaio.runtime.watch import Watch

__all__ = ["HostKernel", "Library", "Record", "WorkerPool"]

Dim3 = tuple[int, int, int]
# Of the context, from SITE on: SITE ... LIVING; CONTROL ... SINCE; ORDERED ... UNIT, a gap; RANDOM, SEED, USED.
_RUNNING = struct.Struct("@5iPPqqq3iqqi")
_GEOMETRY = struct.Struct("@9ii")  # BLOCK_DIM, GRID_DIM, BLOCK_IDX, THREADS
_FOREVER = 1 << 62
_FAULT = struct.Struct("@4i2q")  # FAULT ... FAULT_SIZE
_KINDS = {
    "barrier": abi.BARRIER, "whole": abi.WHOLE, "named": abi.NAMED, "cluster": abi.CLUSTER, "grid": abi.GRID,
    "pause": abi.PAUSE,     "warp": abi.WARP, "warp_all": abi.WARP_ALL, "warp_sync": abi.WARP_SYNC,
    "warp_sync_all": abi.WARP_SYNC_ALL, "warp_any_all": abi.WARP_ANY,
}  # fmt: skip
_LOADING = threading.Lock()


class Library:
    """Object code loaded into this process; `address(name)` of its exported functions. Unloaded when it is dropped."""

    _count = 0

    def __init__(self, code: bytes, exported: Sequence[str]) -> None:
        from llvmlite.binding import JITLibraryBuilder

        builder = JITLibraryBuilder().add_object_img(code).add_current_process()
        for name in exported:
            builder.export_symbol(name)
        with _LOADING:
            Library._count += 1
            try:
                self._tracker = builder.link(_engine(), f"kaio.{Library._count}")
            except RuntimeError as problem:
                raise InternalError(f"native code does not load: {problem}") from problem

    def address(self, name: str) -> int:
        """Where an exported function lies."""
        return int(self._tracker[name])


@functools.cache
def _engine() -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    # JITLink puts all sections of an object side by side, as relative addresses between them need.
    return llvm.create_lljit_compiler(use_jit_link=sys.platform != "win32", suppress_errors=True)


@functools.lru_cache(maxsize=4)
def _decider(code: bytes) -> tuple[int, Library | None]:
    library = Library(code, ["kaio_decide"])
    return library.address("kaio_decide"), library


@functools.lru_cache(maxsize=4)
def _scheduler(code: bytes) -> tuple[Any, Library]:
    library = Library(code, ["kaio_worker"])
    return ctypes.CFUNCTYPE(None, ctypes.c_void_p)(library.address("kaio_worker")), library


_WORDS_NBYTES = 4 * abi.WORD_COUNT * abi.WORD_STRIDE


class Record:
    """What one worker needs while it runs blocks: context, words, frames, shared memory. Kept between launches.

    Of blocks that run together there are several, each with its own, behind each other.
    """

    def __init__(self) -> None:
        self.worker = HostMemory(abi.WORKER.size)
        self.context, self.words = HostMemory(abi.CONTEXT_NBYTES), HostMemory(_WORDS_NBYTES)
        self.shared, self.frames = HostMemory(0, abi.SHARED_ALIGNMENT), HostMemory(0)
        self.shadow = ShadowOfRecord()

    def grow(self, blocks: int, shared_nbytes: int, frames_nbytes: int) -> None:
        """Make room for so many blocks of so much each."""
        if self.context.nbytes < blocks * abi.CONTEXT_NBYTES:
            self.context, self.words = HostMemory(blocks * abi.CONTEXT_NBYTES), HostMemory(blocks * _WORDS_NBYTES)
        if self.shared.nbytes < blocks * shared_nbytes:
            self.shared = HostMemory(blocks * shared_nbytes, abi.SHARED_ALIGNMENT)
        if self.frames.nbytes < blocks * frames_nbytes:
            self.frames = HostMemory(blocks * frames_nbytes)

    def faults(self) -> list[FaultRecord]:
        """What went wrong in the blocks that ran last."""
        return [fault for slot in range(self.used) if (fault := self._fault(slot)) is not None]

    @property
    def used(self) -> int:
        """How many blocks have lived here at a time, in the last launch."""
        return max(1, int(struct.unpack_from("@i", self.context.view, abi.USED)[0]))

    def _fault(self, slot: int) -> FaultRecord | None:
        context = slot * abi.CONTEXT_NBYTES
        kind, site, thread, other, index, size = _FAULT.unpack_from(self.context.view, context + abi.FAULT)
        if not kind:
            return None
        block = int(struct.unpack_from("@q", self.context.view, context + abi.BLOCK)[0])
        own = FaultRecord(kind, block, site, thread, other, index, size, partial(self._word, slot))
        if kind != abi.APART:
            return own
        other_block = int(struct.unpack_from("@q", self.context.view, index * abi.CONTEXT_NBYTES + abi.BLOCK)[0])
        sites = [
            struct.unpack_from("@i", self.context.view, at * abi.CONTEXT_NBYTES + abi.SITE)[0] for at in (slot, index)
        ]
        return replace(own, site=sites[0], other=sites[1], index=other_block)

    def _word(self, slot: int, word: int, thread: int) -> int:
        at = slot * _WORDS_NBYTES + 4 * (word * abi.WORD_STRIDE + thread)
        return int(struct.unpack_from("@i", self.words.view, at)[0])


class _Job:
    """One launch while it runs. Helpers that come too late find no record left, and do nothing."""

    def __init__(self, function: Any, records: list[Record]) -> None:
        self.function, self.records = function, records
        self._helpers = len(records)  # counted before any of them can have come
        self.done = threading.Semaphore(0)

    def help(self) -> None:
        try:
            record = self.records.pop()
        except IndexError:
            return
        try:
            self.function(record.worker.address)
        finally:
            self.done.release()

    def run(self, own: Record) -> None:
        """Run in this thread, then wait for those who are still at it."""
        helpers = self._helpers
        self.function(own.worker.address)
        while self.records:
            try:
                self.records.pop()
            except IndexError:
                break
            helpers -= 1
        for _ in range(helpers):
            self.done.acquire()


class WorkerPool:
    """Native worker threads of a CPU device: `count` with the thread that launches.

    A launch runs in the calling thread with the GIL released, and is helped by the others. They start with the first
    launch that has work for them, if they can: the system may have no more, and when Python ends it starts none.
    """

    def __init__(self, count: int) -> None:
        self.count = max(1, count)
        self._free: deque[Record] = deque()
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._process = 0
        self._lock = threading.Lock()
        self._is_closed = False
        self._launches: dict[int, tuple[str, HostMemory]] = {}  # by the address of their control block
        self.stopped: KaioError | None = None

    @property
    def running(self) -> list[str]:
        """The kernels that run now, in words."""
        return [f"kernel `{name}`" for name, _ in list(self._launches.values())]

    def begin(self, name: str, control: HostMemory) -> None:
        """A launch with this control block; KaioError after `stop`."""
        self._launches[control.address] = name, control
        self.check()

    def end(self, control: HostMemory) -> None:
        """What `begin` noted is over."""
        self._launches.pop(control.address, None)

    def check(self) -> None:
        """Raise KaioError after `stop`."""
        if self.stopped is not None:
            raise self.stopped

    def stop(self) -> None:
        """Start no more blocks, of launches that run or are to come: they fail. Loops of blocks that run are left."""
        self.stopped = KaioError("the launch was stopped, because the process ends", help="wait for it before")
        for _, control in list(self._launches.values()):
            struct.pack_into("@q", control.view, abi.STOP, abi.ENDING)

    def close(self) -> None:
        """End the threads once their work is done."""
        with self._lock:
            self._is_closed = True
            if self._process == os.getpid():
                for _ in self._threads:
                    self._jobs.put(None)
                for thread in self._threads:
                    thread.join()
            self._threads = []

    def take(self, count: int) -> list[Record]:
        """Records for so many workers, for this launch alone."""
        taken = []
        for _ in range(count):
            try:
                taken.append(self._free.pop())
            except IndexError:
                taken.append(Record())
        return taken

    def give_back(self, records: list[Record]) -> None:
        """Records that `take` gave."""
        self._free.extend(records)

    def run(self, function: Any, records: list[Record]) -> None:
        """Call `function` on the argument block of each record, the first one in this thread. Blocks."""
        job = _Job(function, records[1:])
        if job.records:
            self.start()
            for _ in range(min(len(job.records), len(self._threads))):
                self._jobs.put(job)
        job.run(records[0])

    def start(self) -> None:
        """Start the threads that do not run yet; launches do without those that cannot be started."""
        if self._process == os.getpid() and len(self._threads) >= self.count - 1:
            return
        with self._lock:
            if self._is_closed:
                return
            if self._process != os.getpid():  # threads do not survive a fork, nor do the jobs they had
                self._process, self._jobs, self._threads = os.getpid(), SimpleQueue(), []
            while len(self._threads) < self.count - 1:
                name = f"kaio-cpu-{len(self._threads) + 1}"
                thread = threading.Thread(target=_work, args=(self._jobs,), name=name, daemon=True)
                try:
                    thread.start()
                except RuntimeError:
                    return
                self._threads.append(thread)


def _work(jobs: SimpleQueue[_Job | None]) -> None:
    while (job := jobs.get()) is not None:
        job.help()
        del job


class HostKernel:
    """A host program, loaded. `run` may be called from several threads at once."""

    def __init__(self, program: HostProgram, most_blocks: Callable[[int, int], int] = lambda *_: 1024) -> None:
        """`most_blocks` says how many blocks of so many threads and bytes of shared memory live on a GPU at a time."""
        self.program, self._most_blocks = program, most_blocks
        kinds = [_KINDS.get(site.kind, 0) | site.words << 8 for site in program.sites]
        self._site_kinds = {site.kind for site in program.sites}
        self._pauses = "pause" in self._site_kinds  # threads may wait for what other blocks do
        has_warps = any(kind & 255 >= abi.PAUSE or kind & 255 == abi.NAMED for kind in kinds)
        self._is_coroutine = program.frame_nbytes != 0
        self._waits = 0 if not self._is_coroutine else 2 if has_warps else 1
        exported = ["k_start", "k_run"] if self._is_coroutine else ["k_plain"]
        self._library = Library(program.code, [*exported, print_abi.VARIABLE] if program.prints else exported)
        self._start = self._library.address(exported[0])
        self._run = self._library.address(exported[-1])
        self._worker, self._scheduler = _scheduler(program.scheduler)
        self._direct = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(self._scheduler.address("kaio_worker"))
        self._decide, self._rules = (0, None) if program.shadow is None else _decider(program.shadow.code)
        self._ring: PrintRing | None = None
        self._kinds = (ctypes.c_int32 * max(1, len(kinds)))(*kinds)
        self._reach = (ctypes.c_int64 * max(1, len(kinds)))(*(site.reach for site in program.sites))

    def print_to(self, ring: PrintRing) -> None:
        """Let the kernel print."""
        binding = ring.bind(self.program)
        ctypes.memmove(self._library.address(print_abi.VARIABLE), binding, len(binding))
        self._ring = ring

    def run(
        self,
        grid: Dim3,
        block: Dim3,
        arguments: Any,
        workers: WorkerPool,
        shared_nbytes: int = 0,
        cluster: Dim3 = (1, 1, 1),
        options: RunOptions = USUAL,
        unwritten: Sequence[Written | None] = (),
        flight: Flight | None = None,
    ) -> None:
        """Run all blocks and return when they are done; the GIL is released.

        `arguments` is the packed argument block of the program, `shared_nbytes` is the shared memory of a block with
        its dynamic arrays; without any, the program knows. `unwritten` is what nobody has written yet of each buffer's
        memory, None where somebody has written all. A `flight` keeps what is compared with other
        launches.
        The first fault, in the order of blocks and threads, is raised as `KernelFault`.
        """
        blocks, threads = math.prod(grid), math.prod(block)
        if blocks == 0 or threads == 0:
            return
        if threads > abi.MAX_THREADS:
            raise InternalError(f"a block of {threads} threads was launched; {abi.MAX_THREADS} is the most")
        group = self._group(grid, cluster, options)
        watch = self._watch(options, grid, block)
        is_alone = watch is not None or options.schedule is not None
        if watch is not None:
            options = options._replace(timeout_s=math.inf)  # who looks on takes their time
        orders = self.program.shadow is not None and self.program.shadow.orders
        count = 1 if is_alone or orders else min(workers.count, blocks // max(1, group))
        coverage = Coverage(self.program, arguments, grid, block) if options.coverage else None
        if coverage is not None:
            watch = watch or Watch(lambda _: False, level=trace_abi.NOTHING)
            watch.cover(coverage.address)
        records, control = workers.take(count), _control(count, options)
        shadow: LaunchShadow | None = None
        ordering: LaunchOrdering | None = None
        try:
            workers.begin(self.program.name, control)
            packed = HostMemory(max(1, len(arguments)))
            packed.view[: len(arguments)] = arguments
            shared = self._shared_nbytes(shared_nbytes)
            launch = _Launch(grid, block, cluster, packed.address, shared, control, count, options)
            most = self._most_groups(blocks, threads, shared, group)
            for number, record in enumerate(records):
                self._prepare(record, launch, number, group, most)
                self._show(record, watch)
            if self.program.shadow is not None:
                shadow = LaunchShadow(self.program, self._decide, grid, block, packed.view, count, unwritten, flight)
                for record in records:
                    shadow.prepare(record, max(1, group) * most, shared)
            if orders:
                ordering = LaunchOrdering(records[0], max(1, group) * most, grid, threads, cluster, shared)
                ordering.prepare()
            workers.run(self._worker, records)
            if watch is not None:
                watch.end()
            if ordering is not None:
                ordering.check()
            faults = [(f, record) for record in records for f in record.faults() if f.kind != abi.STOPPED]
            if faults:
                raise self._error(*min(faults, key=_first), shadow, launch, bytes(arguments))
            if shadow is not None:
                shadow.write_down()
            workers.check()
            if coverage is not None and (missed := coverage.fault()) is not None:
                raise missed
        finally:
            if shadow is not None:
                for record in records:
                    shadow.finish(record)
            workers.end(control)
            workers.give_back(records)
            if self._ring is not None:
                self._ring.show()

    def is_short(self, grid: Dim3, block: Dim3) -> bool:
        """Whether a launch is over so soon that it is not worth a thread: see `host_short`."""
        statements, program = self.program.straight, self.program
        is_plain = program.watched is None and not program.prints and program.shadow is None
        is_plain = is_plain and not self._site_kinds & {"grid", "cluster", "pause"}
        return is_plain and 0 < statements * math.prod(grid) * math.prod(block) <= MOST_STATEMENTS

    def make_short(self, grid: Dim3, block: Dim3, shared_nbytes: int, workers: WorkerPool) -> ShortLaunch:
        """A launch made ready to be run again and again, by one thread at a time and without help."""
        record, control = workers.take(1)[0], _control(1, USUAL)
        packed = HostMemory(max(1, self.program.block.size))
        shared = self._shared_nbytes(shared_nbytes)
        launch = _Launch(grid, block, (1, 1, 1), packed.address, shared, control, 1, USUAL)
        self._prepare(record, launch, 0, 0, 1)
        self._show(record, None)

        def raise_fault() -> None:
            raise fault_error(self.program, record.faults()[0], grid, block)

        return ShortLaunch(self._direct, record, control, packed, raise_fault, workers.check)

    @property
    def breaks(self) -> bool:
        """Whether a thread may stop at a `breakpoint()`."""
        return self.program.watched is not None and self.program.watched.breaks

    def _watch(self, options: RunOptions, grid: Dim3, block: Dim3) -> Watch | None:
        """Who looks on at a launch; None where nobody does."""
        if options.watch is not None or not self.breaks:
            return options.watch
        from kaio.runtime.prompt import stops_for  # `pdb` takes its time

        return stops_for(self.program.name, grid, block)

    def _show(self, record: Record, watch: Watch | None) -> None:
        """Let somebody look on at the blocks of a record."""
        address = 0 if watch is None else watch.begin(self.program.watched)
        struct.pack_into("@P", record.context.view, abi.WATCH, address)

    def _error(
        self, fault: FaultRecord, record: Record, shadow: LaunchShadow | None, launch: _Launch, arguments: bytes
    ) -> KaioError:
        if shadow is None or not is_of_shadow(fault):
            return fault_error(self.program, fault, launch.grid, launch.block, launch.options, arguments)
        places = Places(shadow.buffers, record.shared.address, launch.shared_nbytes, shadow.dynamic)
        return shadow_error(self.program, fault, places, launch.grid, launch.block)

    def _group(self, grid: Dim3, cluster: Dim3, options: RunOptions) -> int:
        """How many blocks run together, 0 where each runs by itself."""
        if self.program.waits_for_grid:
            return math.prod(grid)
        together = math.prod(cluster)
        if together > 1 or "cluster" in self._site_kinds or self._pauses:
            return together
        return 0 if options.schedule is None else 1

    def _shared_nbytes(self, given: int) -> int:
        """The shared memory of a block, from one to the next."""
        nbytes = max(self.program.shared_nbytes, given)
        return -(-nbytes // abi.SHARED_ALIGNMENT) * abi.SHARED_ALIGNMENT

    def _most_groups(self, blocks: int, threads: int, shared_nbytes: int, group: int) -> int:
        """How many groups of blocks may live at a time: several where they may wait for each other."""
        if not self._pauses:
            return 1
        return max(1, min(self._most_blocks(threads, shared_nbytes), blocks) // group)

    def _prepare(self, record: Record, launch: _Launch, number: int, group: int, most: int) -> None:
        """Make a worker's record ready: its first context, from which the scheduler makes the others."""
        threads = math.prod(launch.block)
        frames = abi.frame_stride(self.program.frame_nbytes) * threads
        record.grow(max(1, group) * most, launch.shared_nbytes, frames)
        context, control = record.context.view, launch.control.address
        progress = control + abi.FIRST_PROGRESS + number * abi.PROGRESS_STRIDE
        struct.pack_into(
            "@5P2q", context, 0, launch.arguments, record.shared.address, record.words.address, 0,
            record.frames.address, self.program.frame_nbytes, 0,
        )  # fmt: skip
        _GEOMETRY.pack_into(context, abi.BLOCK_DIM, *launch.block, *launch.grid, 0, 0, 0, threads)
        _FAULT.pack_into(context, abi.FAULT, 0, 0, 0, 0, 0, 0)
        struct.pack_into("@i", context, abi.ALONE, launch.workers == 1)
        struct.pack_into("@i", context, abi.SHADOW, 0)
        struct.pack_into("@q", context, ORDER, 0)
        struct.pack_into("@4iq", context, abi.CLUSTER_DIM, *launch.cluster, 0, launch.shared_nbytes)
        schedule, fuel = launch.options.schedule, launch.options.fuel
        turns = _FOREVER if fuel is None else fuel + 1  # the one too many is what fails
        first = min(turns, abi.MOST_TURNS)
        _RUNNING.pack_into(
            context, abi.SITE, 0, first, 0, -1, 0, control, progress, turns - first, -1, 0,
            schedule is not None, launch.options.partial_barriers, 0, 0, _seed_of(schedule), 0,
        )  # fmt: skip
        self._pack_worker(record, launch, group, most, progress)

    def _pack_worker(self, record: Record, launch: _Launch, group: int, most: int, progress: int) -> None:
        sites, address = len(self._kinds), record.context.address
        blocks, schedule = math.prod(launch.grid) // max(1, group), launch.options.schedule
        chunk = 1 if most > 1 else max(1, min(1024, blocks // (8 * launch.workers)))
        abi.WORKER.pack_into(
            record.worker.view, 0, address, address, abi.CONTEXT_NBYTES // 4, address, abi.CONTEXT_NBYTES // 8,
            record.words.address, abi.WORD_COUNT, abi.WORD_STRIDE, ctypes.addressof(self._kinds), sites,
            ctypes.addressof(self._reach), sites, self._start, self._run,
            self._waits if schedule is None or not self._is_coroutine else 2, blocks, group, most, chunk,
            *_order_of(schedule, blocks), launch.control.address, launch.control.nbytes // 8, progress, 1,
        )  # fmt: skip


@dataclass(frozen=True)
class _Launch:
    """One launch, as its workers' records tell it: addresses of the argument block and of the control block."""

    grid: Dim3
    block: Dim3
    cluster: Dim3
    arguments: int
    shared_nbytes: int
    control: HostMemory
    workers: int
    options: RunOptions


def _control(workers: int, options: RunOptions) -> HostMemory:
    """The control block of a launch."""
    control = HostMemory(abi.FIRST_PROGRESS + workers * abi.PROGRESS_STRIDE)
    timeout_ns = _FOREVER if options.timeout_s > 1e9 else int(options.timeout_s * 1e9)
    struct.pack_into("@2q", control.view, abi.TIMEOUT_NS, timeout_ns, workers)
    return control


def _first(found: tuple[FaultRecord, Record]) -> tuple[bool, int]:
    """Which fault comes first: that of the lowest block. A block that waits in vain may wait for one that failed."""
    fault, _ = found
    return fault.kind == abi.ENDLESS, fault.block


def _seed_of(schedule: int | None) -> int:
    """A seed as a number of 64 bits."""
    return (schedule or 0) * 0x9E3779B97F4A7C15 % (1 << 63)


def _order_of(schedule: int | None, blocks: int) -> tuple[int, int]:
    """Two numbers `a` and `b`: the groups of blocks begin in the order of ``(a * number + b) % blocks``."""
    if schedule is None or blocks >= 1 << 31:
        return 1, 0
    chosen = random.Random(schedule)
    stride = chosen.randrange(1, blocks + 1)
    while math.gcd(stride, blocks) != 1:
        stride = chosen.randrange(1, blocks + 1)
    return stride, chosen.randrange(blocks)
