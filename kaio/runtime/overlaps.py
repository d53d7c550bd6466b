"""Launches that may run at the same time and share memory: which elements both of them came to.

kaio orders work by buffers and streams. Two imports of one array are two buffers, and so are an exported buffer and the
import of what was exported: launches that use them on different streams may overlap, and it is the program's to order
them. So are all buffers once a stream has `ordering="manual"`. Under ``check="full"`` a launch over such memory keeps
its cells (`kaio/shadow_abi.py`) when it ends, until all that comes later is ordered after it; of two that nothing
orders, the one that ends last compares them. So a race is found whether the two ran at the same time or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from kaio import shadow_abi as abi
from kaio.errors import KernelFault, Mistake
from kaio.forking import fork_lock
from kaio.program import HostProgram, Site
from kaio.runtime.host_faults import position, replayable
from kaio.runtime.host_memory import HostMemory
from kaio.runtime.host_shadow import Buffer
from kaio.runtime.launch_order import LaunchOrder, Moment
from kaio.runtime.shadow_faults import Element, of_buffer

if TYPE_CHECKING:
    from kaio.runtime.stream import Uses

__all__ = ["Flight", "Overlaps", "watched_ranges"]

Dim3 = tuple[int, int, int]
_MOST_NBYTES = 1 << 28  # of cells that are kept of launches that are done
_SITE = abi.MOST_SITES - 1
_WORDS = {abi.READ: "reads", abi.WRITE: "writes", abi.ATOMIC: "updates"}
_NAMES = {abi.READ: "read", abi.WRITE: "write", abi.ATOMIC: "atomic"}


_NEVER = Moment(0, 0, {})


@dataclass(frozen=True)
class _Kept:
    """The cells of one buffer: `first` is the number of the granule of the first one, of so many bytes each."""

    buffer: Buffer
    memory: HostMemory
    first: int
    granule: int

    @property
    def cells(self) -> np.ndarray[Any, np.dtype[np.int32]]:
        """One row a cell."""
        words = np.frombuffer(self.memory.view, np.int32)
        return words[: len(words) // 8 * 8].reshape(-1, abi.CELL_NBYTES // 4)

    def of(self, start: int, stop: int, granule: int) -> np.ndarray[Any, np.dtype[np.int32]]:
        """The cells of these addresses, one for each granule of so many bytes."""
        cells = self.cells[start // self.granule - self.first : -(-stop // self.granule) - self.first]
        return cells if granule == self.granule else np.repeat(cells, self.granule // granule, axis=0)


@dataclass(eq=False)
class Flight:
    """A launch from its submission on, until all that comes later is ordered after it.

    watched: the addresses of memory that other buffers may be over as well
    schedule: the seed that the launch runs with
    """

    program: HostProgram
    grid: Dim3
    block: Dim3
    watched: tuple[tuple[int, int], ...]
    schedule: int | None = None
    moment: Moment = _NEVER
    kept: list[_Kept] = field(default_factory=list)

    def watches(self, buffer: Buffer) -> bool:
        """Whether who reads this buffer has to be known although this launch does not write it."""
        return any(start < buffer.stop and buffer.start < stop for start, stop in self.watched)

    def keep(self, buffer: Buffer, memory: HostMemory, first: int, granule: int) -> None:
        """The cells of a buffer that is watched."""
        self.kept.append(_Kept(buffer, memory, first, granule))

    @property
    def nbytes(self) -> int:
        """Of what is kept."""
        return sum(kept.memory.nbytes for kept in self.kept)


def watched_ranges(uses: Uses, is_by_hand: bool = False) -> tuple[tuple[int, int], ...]:
    """The addresses in use of memory that is not kaio's alone: it was imported, or is exported; all, if the program
    orders streams itself.
    """
    return tuple(
        buffer.byte_range for buffer, _ in uses if is_by_hand or not buffer.memory.counted or buffer.memory.exports
    )


class Overlaps:
    """The launches over shared memory of a device, those that are done and those that are to come."""

    def __init__(self, order: LaunchOrder) -> None:
        self._order, self._lock = order, fork_lock()
        self._flying: list[Flight] = []
        self._done: list[Flight] = []

    def start(self, flight: Flight, moment: Moment) -> None:
        """A launch is submitted."""
        flight.moment = moment
        with self._lock:
            self._forget()
            self._flying.append(flight)

    def run(self, flight: Flight, run: Callable[..., object]) -> None:
        """Run it; KernelFault if it raced with another one. One that failed is not looked at."""
        try:
            run(flight=flight)
        except BaseException:
            self.drop(flight)
            raise
        for other in self._finish(flight):
            for found in _conflicts(flight, other):
                raise replayable(found, flight.schedule)

    def drop(self, flight: Flight) -> None:
        """A launch that was submitted does not run."""
        with self._lock:
            self._flying.remove(flight)

    def _finish(self, flight: Flight) -> list[Flight]:
        """A launch is done; those that are done too, and not ordered with it."""
        with self._lock:
            self._flying.remove(flight)
            self._done.append(flight)
            others = [other for other in self._done if other is not flight and not _are_ordered(flight, other)]
            self._forget()
            return others

    def _forget(self) -> None:
        """Drop what nobody can race with any more, and the oldest of more than is reasonable."""
        self._done = [flight for flight in self._done if self._matters(flight)]
        while len(self._done) > 1 and sum(flight.nbytes for flight in self._done) > _MOST_NBYTES:
            del self._done[0]

    def _matters(self, flight: Flight) -> bool:
        return not self._order.is_reached(flight.moment) or any(
            not _are_ordered(flight, other) for other in self._flying
        )


def _are_ordered(one: Flight, two: Flight) -> bool:
    return one.moment.is_after(two.moment) or two.moment.is_after(one.moment)


# ---------------------------------------------------------------------- comparing
@dataclass(frozen=True)
class _Access:
    """The accesses that the cells keep in one place, as columns: time (0: none), thread of the launch, what it was."""

    when: Any
    who: Any
    what: Any
    writes: Any

    @property
    def strength(self) -> Any:
        return self.what >> abi.STRENGTH_SHIFT & 3


def _accesses(cells: Any) -> list[_Access]:
    reads = cells[:, abi.R_WHAT]
    return [
        _Access(cells[:, abi.W_WHEN], cells[:, abi.W_WHO], cells[:, abi.W_WHAT] & 0xFFFF, np.ones(len(cells), bool)),
        _Access(cells[:, abi.R1_WHEN], cells[:, abi.R1_WHO], reads & 0xFFFF, reads & abi.KEPT_WRITE != 0),
        _Access(cells[:, abi.R2_WHEN], cells[:, abi.R2_WHO], reads >> 16 & 0xFFFF, reads >> 16 & abi.KEPT_WRITE != 0),
    ]


def _conflicts(flight: Flight, other: Flight) -> Iterator[KernelFault]:
    """The first element of each two buffers to which both came, and one of them to write."""
    for own in flight.kept:
        for its in other.kept:
            start, stop = max(own.buffer.start, its.buffer.start), min(own.buffer.stop, its.buffer.stop)
            if start < stop:
                granule = min(own.granule, its.granule)
                found = _first(own.of(start, stop, granule), its.of(start, stop, granule))
                if found is not None:
                    at, one, two = found
                    yield _fault(flight, other, own.buffer, max(own.buffer.start, start + at * granule), at, one, two)


def _first(own: Any, its: Any) -> tuple[int, _Access, _Access] | None:
    """The number of the first granule of a race, and the accesses."""
    best: tuple[int, _Access, _Access] | None = None
    for one in _accesses(own):
        for two in _accesses(its):
            one_is, two_is = one.strength, two.strength
            writes = one.writes | two.writes
            are_strong = (one_is > 0) & (two_is > 0) & (one_is != abi.ATOMIC_IN_BLOCK) & (two_is != abi.ATOMIC_IN_BLOCK)
            races = (one.when > 0) & (two.when > 0) & writes & ~are_strong
            if races.any():
                at = int(races.argmax())
                if best is None or at < best[0]:
                    best = at, one, two
    return best


def _fault(
    flight: Flight, other: Flight, buffer: Buffer, address: int, at: int, one: _Access, two: _Access
) -> KernelFault:
    element = of_buffer(buffer, address)
    mine, its = _Told(flight, one, at), _Told(other, two, at)
    what = f"data race on {element} in kernel `{flight.program.name}`\n  {mine.who} {_WORDS[mine.kind]} it here"
    there = f"{its.who} of kernel `{other.program.name}` {_WORDS[its.kind]} it here; nothing orders the two launches"
    way_out = (
        "wait for one before you launch the other, launch both on one stream, or pass views of one buffer: launches "
        "that use one buffer are ordered"
    )
    mistakes = [
        Mistake(what, mine.site.place, trace=mine.site.trace),
        Mistake(there, its.site.place, way_out, its.site.trace),
    ]
    return KernelFault(
        mistakes, kind="race", kernel=flight.program.name, other_kernel=other.program.name, **_named(element),
        thread=mine.thread, block=mine.block, line=mine.site.place.line, access=_NAMES[mine.kind],
        other_thread=its.thread, other_block=its.block, other_line=its.site.place.line, other_access=_NAMES[its.kind],
    )  # fmt: skip


def _named(element: Element) -> dict[str, Any]:
    return {"array": element.array, "index": element.index[0] if len(element.index) == 1 else element.index}


class _Told:
    """One side of a race."""

    def __init__(self, flight: Flight, access: _Access, at: int) -> None:
        who, what = int(access.who[at]), int(access.what[at])
        who = ~who if who < 0 else who
        threads = flight.block[0] * flight.block[1] * flight.block[2]
        self.thread, self.block = position(who % threads, flight.block), position(who // threads, flight.grid)
        self.who = f"thread {self.thread} of block {self.block}"
        self.site: Site = flight.program.sites[what & _SITE]
        strength = what >> abi.STRENGTH_SHIFT & 3
        self.kind = abi.ATOMIC if strength >= abi.ATOMIC_IN_BLOCK else abi.WRITE if access.writes[at] else abi.READ
