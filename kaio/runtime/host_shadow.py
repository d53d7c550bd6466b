"""The memory of the shadow during a launch under ``check="full"``: cells, maps of what was written, table of buffers.

The layout is in `kaio/shadow_abi.py`. Pages of it that no thread comes to cost nothing.
"""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kaio import host_abi, order_abi
from kaio import shadow_abi as abi
from kaio.errors import LaunchError, OutOfMemoryError
from kaio.program import Argument, HostProgram
from kaio.runtime.alike import tells_apart
from kaio.runtime.host_memory import HostMemory, Written
from kaio.structs import granule_of

if TYPE_CHECKING:
    from kaio.runtime.host_record import Record
    from kaio.runtime.overlaps import Flight

__all__ = ["Buffer", "LaunchShadow", "ShadowOfRecord"]

Dim3 = tuple[int, int, int]
_MOST_THREADS = 2**31
_LATE = 2**30  # a time from which on a worker begins anew
_LOCKS = 1024
_U64 = (1 << 64) - 1


@dataclass(frozen=True)
class Buffer:
    """A buffer as a launch passes it: the address of its first element, its shape, and its strides in bytes."""

    argument: Argument
    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def start(self) -> int:
        """The lowest address of an element."""
        return self.pointer + sum(min(0, step * (n - 1)) for n, step in zip(self.shape, self.strides, strict=True))

    @property
    def stop(self) -> int:
        """The address behind the last element; of an empty buffer the first one."""
        if 0 in self.shape:
            return self.start
        above = sum(max(0, step * (n - 1)) for n, step in zip(self.shape, self.strides, strict=True))
        return self.pointer + above + self.argument.dtype.itemsize


class ShadowOfRecord:
    """What a worker keeps between launches: cells of shared memory, and the time and group at which the last ended."""

    def __init__(self) -> None:
        self.cells, self.now, self.group = HostMemory(0), 0, 0

    def make_room(self, nbytes: int) -> None:
        """Cells of so many bytes; all that is kept is older than what is to come."""
        if self.cells.nbytes < nbytes:
            self.cells = HostMemory(nbytes)


class LaunchShadow:
    """The shadow of one launch."""

    def __init__(
        self,
        program: HostProgram,
        decide: int,
        grid: Dim3,
        block: Dim3,
        arguments: Any,
        workers: int,
        unwritten: Sequence[Written | None] = (),
        flight: Flight | None = None,
    ) -> None:
        blocks, threads = math.prod(grid), math.prod(block)
        if blocks * threads >= _MOST_THREADS:
            raise LaunchError(
                f'kernel `{program.name}` is launched with {blocks * threads} threads under check="full", which tells '
                f"{_MOST_THREADS - 1} apart",
                help='launch it with fewer blocks, or with check="bounds"',
            )
        assert program.shadow is not None
        self.program, self._shadow, self._decide, self._flight = program, program.shadow, decide, flight
        self.buffers = tuple(_buffers(program, arguments))
        numbers = program.block.unpack_from(arguments)[-2 * len(program.dynamic) :] if program.dynamic else ()
        self.dynamic = tuple(zip(numbers[::2], numbers[1::2], strict=True))
        self._kept: list[HostMemory] = []
        self._unwritten = [written for written in unwritten if written is not None]
        self._outputs: list[tuple[Buffer, HostMemory]] = []
        self._grid, self._block = grid, block
        self._locks = HostMemory(4 * _LOCKS * (workers > 1))
        self._table = self._make_table()

    def _make_table(self) -> HostMemory:
        rows = []
        for buffer, axes in zip(self.buffers, self._shadow.apart, strict=True):
            is_apart = tells_apart(axes, self._grid, self._block) and not self._is_watched(buffer)
            cells = 0 if is_apart else self._cells(buffer)
            rows.append((buffer.start, buffer.stop, cells, self._map(buffer)))
        rows.append((0, _U64, 0, 0))  # where `find` ends
        table = HostMemory(len(rows) * abi.BUFFER.size)
        for k, row in enumerate(rows):
            abi.BUFFER.pack_into(table.view, k * abi.BUFFER.size, *row)
        return table

    def _is_watched(self, buffer: Buffer) -> bool:
        """Whether other launches may come to it meanwhile."""
        return self._flight is not None and self._flight.watches(buffer)

    def _cells(self, buffer: Buffer) -> int:
        """What the table says of the cells: memory that nobody writes has none."""
        watched = self._is_watched(buffer)
        if (buffer.argument.access == "In" and not watched) or buffer.start == buffer.stop:
            return 0
        granule = granule_of(buffer.argument.dtype)
        first, last = buffer.start // granule, (buffer.stop - 1) // granule
        memory = self._keep((last - first + 1) * abi.CELL_NBYTES)
        if watched and self._flight is not None:
            self._flight.keep(buffer, memory, first, granule)
        return memory.address - first * abi.CELL_NBYTES & _U64

    def _map(self, buffer: Buffer) -> int:
        """What the table says of the bytes that were written: of an `Out` buffer by this launch."""
        if buffer.start == buffer.stop:
            return 0
        if buffer.argument.access == "Out":
            made = self._keep(buffer.stop - buffer.start)
            self._outputs.append((buffer, made))
            return made.address - buffer.start & _U64
        written = self._written_of(buffer)
        return 0 if written is None else written.map.address - written.pointer & _U64

    def _written_of(self, buffer: Buffer) -> Written | None:
        return next((written for written in self._unwritten if buffer.start in written), None)

    def write_down(self) -> None:
        """Say where the launch wrote of memory that held anything before."""
        for buffer, made in self._outputs:
            written = self._written_of(buffer)
            if written is not None:
                written.note(buffer.start, np.frombuffer(made.view, np.uint8) != 0)

    def _keep(self, nbytes: int) -> HostMemory:
        try:
            memory = HostMemory(nbytes)
        except (MemoryError, OSError):
            raise OutOfMemoryError(
                f'check="full" of kernel `{self.program.name}` takes {nbytes} bytes more, which there are not',
                help="check it with smaller buffers: faults of the same kind show there",
            ) from None
        self._kept.append(memory)
        return memory

    # -------------------------------------------------------------- workers
    def prepare(self, record: Record, slots: int, shared_nbytes: int) -> None:
        """Say to the first context of a worker where everything is, and what time it is; the others are made of it."""
        shift = self._shadow.granule.bit_length() - 1
        own = record.shadow
        own.make_room((slots * shared_nbytes >> shift) * abi.CELL_NBYTES)
        if own.now > _LATE:
            own.cells, own.now, own.group = HostMemory(own.cells.nbytes), 0, 0
            ctypes.memset(record.words.address, 0, record.words.nbytes)
        cells = own.cells.address - (record.shared.address >> shift) * abi.CELL_NBYTES
        aside = HostMemory(4 * abi.ASIDE_ROWS * abi.ASIDE_PLACES * abi.ASIDE_WORDS * self._shadow.in_part)
        self._kept.append(aside)
        context, address = record.context.view, record.context.address
        struct.pack_into("@4i", context, abi.SHADOWED, 1, 0, own.now, 0)
        struct.pack_into("@i", context, abi.UNSETTLED, 0)
        struct.pack_into("@i", context, order_abi.FIRST_GROUP, own.group)
        struct.pack_into("@3Q", context, abi.DECIDE, self._decide, cells & _U64, self._table.address)
        abi.DECIDER.pack_into(
            context, abi.QUESTION, 0, 0, 0, 0, 0, address, host_abi.CONTEXT_NBYTES // 4, address,
            host_abi.CONTEXT_NBYTES // 8, record.words.address, host_abi.WORD_COUNT, host_abi.WORD_STRIDE,
            self._locks.address, self._locks.nbytes // 4, aside.address, aside.nbytes // 4,
        )  # fmt: skip

    def finish(self, record: Record) -> None:
        """Remember how late it has become for a worker, and how many groups of copies there were."""
        words = np.frombuffer(record.words.view, np.int32).reshape(-1, host_abi.WORD_COUNT, host_abi.WORD_STRIDE)
        own = record.shadow
        own.now = max(own.now, int(words[: record.used, abi.CLOCK].max()))
        own.group = max(own.group, int(words[: record.used, order_abi.GROUP].max()))


def _buffers(program: HostProgram, arguments: Any) -> Iterator[Buffer]:
    """The buffers in an argument block."""
    values = iter(program.block.unpack_from(arguments))
    for argument in program.arguments:
        first = next(values)
        if argument.ndim is None:
            continue
        shape = tuple(next(values) for _ in range(argument.ndim))
        if argument.strided:
            steps = tuple(next(values) for _ in range(argument.ndim))
        else:
            steps = tuple(math.prod(shape[axis + 1 :]) for axis in range(argument.ndim))
        yield Buffer(argument, first, shape, tuple(step * argument.dtype.itemsize for step in steps))
