"""Host programs run: blocks prepared and handed to worker threads. `host_faults` puts faults into words.

The layout that native code and this file share is in `kaio/host_abi.py`.
"""

from __future__ import annotations

import ctypes
import functools
import math
import random
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kaio import host_abi as abi
from kaio import print_abi, trace_abi
from kaio.errors import InternalError, KernelFault
from kaio.order_abi import ORDER
from kaio.program import HostProgram
from kaio.runtime.coverage import Coverage
from kaio.runtime.host_faults import FaultRecord, fault_error, replayable
from kaio.runtime.host_library import Library
from kaio.runtime.host_memory import HostMemory, Written
from kaio.runtime.host_order import LaunchOrdering
from kaio.runtime.host_record import FAULT, Record
from kaio.runtime.host_shadow import LaunchShadow
from kaio.runtime.host_short import MOST_STATEMENTS, ShortLaunch
from kaio.runtime.host_workers import WorkerPool
from kaio.runtime.overlaps import Flight
from kaio.runtime.printing import PrintRing
from kaio.runtime.shadow_faults import Places, is_of_shadow, shadow_error
from kaio.runtime.stream import USUAL, RunOptions
from kaio.runtime.watch import Watch

__all__ = ["HostKernel"]

Dim3 = tuple[int, int, int]
# Of the context, from SITE on: SITE ... LIVING; CONTROL ... SINCE; ORDERED ... UNIT, a gap; RANDOM, SEED, USED.
_RUNNING = struct.Struct("@5iPPqqq3iqqi")
_GEOMETRY = struct.Struct("@9ii")  # BLOCK_DIM, GRID_DIM, BLOCK_IDX, THREADS
_FOREVER = 1 << 62
_KINDS = {
    "barrier": abi.BARRIER, "whole": abi.WHOLE, "named": abi.NAMED, "cluster": abi.CLUSTER, "grid": abi.GRID,
    "pause": abi.PAUSE,     "warp": abi.WARP, "warp_all": abi.WARP_ALL, "warp_sync": abi.WARP_SYNC,
    "warp_sync_all": abi.WARP_SYNC_ALL, "warp_any_all": abi.WARP_ANY,
}  # fmt: skip


@functools.lru_cache(maxsize=4)
def _decider(code: bytes) -> tuple[int, Library | None]:
    library = Library(code, ["kaio_decide"])
    return library.address("kaio_decide"), library


@functools.lru_cache(maxsize=4)
def _scheduler(code: bytes) -> tuple[Any, Library]:
    library = Library(code, ["kaio_worker"])
    return ctypes.CFUNCTYPE(None, ctypes.c_void_p)(library.address("kaio_worker")), library


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
        numbers: range | None = None,
        notes: bool = False,
    ) -> None:
        """Run all blocks, or those of these numbers, and return when they are done; the GIL is released.

        `arguments` is the packed argument block of the program, `shared_nbytes` is the shared memory of a block with
        its dynamic arrays; without any, the program knows. `unwritten` is what nobody has written yet of each buffer's
        memory, None where somebody has written all; with `notes` the program is one that was built to note where it
        writes there. A `flight` keeps what is compared with other launches.
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
        if numbers is None:
            numbers = range(blocks // max(1, group))
        count = 1 if is_alone or orders else min(workers.count, len(numbers))
        coverage = Coverage(self.program, arguments, grid, block) if options.coverage or notes else None
        if coverage is not None:
            watch = watch or Watch(lambda _: False, level=trace_abi.NOTHING)
            watch.cover(coverage.address)
        records, control = workers.take(count), _control(count, options, numbers.start)
        shadow: LaunchShadow | None = None
        ordering: LaunchOrdering | None = None
        try:
            workers.begin(self.program.name, control)
            packed = HostMemory(max(1, len(arguments)))
            packed.view[: len(arguments)] = arguments
            shared = self._shared_nbytes(shared_nbytes)
            launch = _Launch(grid, block, cluster, packed.address, shared, control, count, options, numbers)
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
                error = self._error(*min(faults, key=_first), shadow, launch, bytes(arguments))
                raise replayable(error, options.schedule)
            if shadow is not None:
                shadow.write_down()
            workers.check()
            if notes and coverage is not None:
                coverage.write_down(unwritten)
            elif coverage is not None and (missed := coverage.fault()) is not None:
                raise replayable(missed, options.schedule)
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
        numbers = range(math.prod(grid))
        launch = _Launch(grid, block, (1, 1, 1), packed.address, shared, control, 1, USUAL, numbers)
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
    ) -> KernelFault:
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
        FAULT.pack_into(context, abi.FAULT, 0, 0, 0, 0, 0, 0)
        struct.pack_into("@i", context, abi.ALONE, launch.workers == 1)
        struct.pack_into("@i", context, abi.SHADOW, 0)
        struct.pack_into("@q", context, ORDER, 0)
        struct.pack_into("@4iq", context, abi.CLUSTER_DIM, *launch.cluster, 0, launch.shared_nbytes)
        schedule, fuel = launch.options.schedule, launch.options.fuel
        turns = _FOREVER if fuel is None else min(fuel + 1, _FOREVER)  # the one too many is what fails
        first = min(turns, abi.MOST_TURNS)
        _RUNNING.pack_into(
            context, abi.SITE, 0, first, 0, -1, 0, control, progress, turns - first, -1, 0,
            schedule is not None, launch.options.partial_barriers, 0, 0, _seed_of(schedule), 0,
        )  # fmt: skip
        self._pack_worker(record, launch, group, most, progress)

    def _pack_worker(self, record: Record, launch: _Launch, group: int, most: int, progress: int) -> None:
        sites, address = len(self._kinds), record.context.address
        numbers, schedule = launch.numbers, launch.options.schedule
        chunk = 1 if most > 1 else max(1, min(1024, len(numbers) // (8 * launch.workers)))
        abi.WORKER.pack_into(
            record.worker.view, 0, address, address, abi.CONTEXT_NBYTES // 4, address, abi.CONTEXT_NBYTES // 8,
            record.words.address, abi.WORD_COUNT, abi.WORD_STRIDE, ctypes.addressof(self._kinds), sites,
            ctypes.addressof(self._reach), sites, self._start, self._run,
            self._waits if schedule is None or not self._is_coroutine else 2, numbers.stop, group, most, chunk,
            *_order_of(schedule, numbers.stop), launch.control.address, launch.control.nbytes // 8, progress, 1,
        )  # fmt: skip


@dataclass(frozen=True)
class _Launch:
    """One launch, as its workers' records tell it.

    arguments: the address of the argument block
    control: the control block
    numbers: those of the blocks, or groups of blocks, that are to run
    """

    grid: Dim3
    block: Dim3
    cluster: Dim3
    arguments: int
    shared_nbytes: int
    control: HostMemory
    workers: int
    options: RunOptions
    numbers: range


def _control(workers: int, options: RunOptions, first: int = 0) -> HostMemory:
    """The control block of a launch that begins with the block, or group of blocks, of this number."""
    control = HostMemory(abi.FIRST_PROGRESS + workers * abi.PROGRESS_STRIDE)
    timeout_ns = _FOREVER if options.patience_s > 1e9 else int(options.patience_s * 1e9)
    struct.pack_into("@2q", control.view, abi.TIMEOUT_NS, timeout_ns, workers)
    struct.pack_into("@q", control.view, abi.NEXT, first)
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
