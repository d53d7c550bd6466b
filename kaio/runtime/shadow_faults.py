"""What the shadow found, in words: races, and reads of what nobody has written."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from kaio import shadow_abi as abi
from kaio.errors import KernelFault, Mistake
from kaio.program import HostProgram, PlacedArray, Site
from kaio.runtime.host_faults import FaultRecord, position
from kaio.runtime.host_shadow import Buffer

__all__ = ["Element", "Places", "is_of_shadow", "of_buffer", "shadow_error"]

Dim3 = tuple[int, int, int]
_WORDS = {abi.READ: "reads", abi.WRITE: "writes", abi.ATOMIC: "updates"}
_UPDATE = re.compile(r" (?:[-+*/%|&^]|\*\*|//|<<|>>)= ")
_NAMES = {abi.READ: "read", abi.WRITE: "write", abi.ATOMIC: "atomic"}


def is_of_shadow(record: FaultRecord) -> bool:
    """Whether this is for `shadow_error`."""
    return record.kind in (abi.RACE, abi.UNINITIALISED, abi.FREED)


@dataclass(frozen=True)
class Places:
    """What lies where in memory during a launch.

    shared: the address of the shared memory of the worker, and how many bytes each of its blocks has
    dynamic: the dynamic arrays as offset and size, in the order in which the program names them
    """

    buffers: tuple[Buffer, ...]
    shared: int
    shared_nbytes: int
    dynamic: tuple[tuple[int, int], ...] = ()

    def find(self, program: HostProgram, address: int, space: str) -> Element | None:
        """The element at an address: of a buffer, of an array in shared memory, of a thread's own."""
        if space == "global":
            return next((of_buffer(b, address) for b in self.buffers if b.start <= address < b.stop), None)
        if space == "local":
            assert program.shadow is not None
            return _of_array(program.shadow.local, address)
        sized = [
            PlacedArray(array.name, offset, array.dtype, (size,))
            for array, (offset, size) in zip(program.dynamic, self.dynamic, strict=True)
        ]
        offset = (address - self.shared) % max(1, self.shared_nbytes)
        return _of_array((*program.shared, *sized), offset)


@dataclass(frozen=True)
class Element:
    """An element by its array's name and its index."""

    array: str
    index: tuple[int, ...]
    is_output: bool = False

    def __str__(self) -> str:
        if not self.array.isidentifier():
            return self.array  # of kaio's own
        return f"`{self.array}[{', '.join(map(str, self.index))}]`" if self.index else f"`{self.array}[()]`"


def _of_array(arrays: tuple[PlacedArray, ...], offset: int) -> Element | None:
    for array in arrays:
        number = (offset - array.offset) // array.dtype.itemsize
        index = []
        for size in reversed(array.shape):
            index.append(number % size)
            number //= size
        if number == 0:
            return Element(array.name, tuple(reversed(index)))
    return None


def of_buffer(buffer: Buffer, address: int) -> Element:
    """The element of a buffer at an address."""
    rest, index = address - buffer.pointer, [0] * len(buffer.shape)
    axes = sorted(range(len(index)), key=lambda axis: -abs(buffer.strides[axis]))
    for axis in axes:
        step, last = buffer.strides[axis], buffer.shape[axis] - 1
        if step and last > 0:
            # An axis that goes down in memory counts from its other end.
            index[axis] = min(last, rest // step) if step > 0 else min(last, -((rest) // -step))
            rest -= index[axis] * step
    return Element(buffer.argument.name, tuple(index), buffer.argument.access == "Out")


# ---------------------------------------------------------------------- messages
def shadow_error(program: HostProgram, record: FaultRecord, places: Places, grid: Dim3, block: Dim3) -> KernelFault:
    """The error that says what the shadow found."""
    site = program.sites[record.site]
    element = places.find(program, record.index, site.written) or Element(site.text, ())
    if element.array.startswith("$"):  # it was made without a name: `s, t = kaio.shared_mem(…), kaio.shared_mem(…)`
        element = replace(element, array=site.text)
    return _Found(program, record, site, element, grid, block).error()


class _Found:
    """One fault with the names of everything that it is about."""

    def __init__(
        self, program: HostProgram, record: FaultRecord, site: Site, element: Element, grid: Dim3, block: Dim3
    ) -> None:
        self.program, self.record, self.site, self.element = program, record, site, element
        self.space = site.written
        self.is_copy = record.size >> 47 & 1 != 0
        self.kinds = record.size >> 32 & 15, record.size >> 36 & 15
        threads = block[0] * block[1] * block[2]
        who = record.size & 0xFFFFFFFF
        self.other_block, self.other_thread = who // threads, who % threads
        self.own = position(record.thread, block), position(record.block, grid)
        self.other = position(self.other_thread, block), position(self.other_block, grid)
        self.facts: dict[str, Any] = {
            "kernel": program.name,
            "block": self.own[1],
            "thread": self.own[0],
            "line": site.place.line,
            "array": element.array,
            "index": element.index[0] if len(element.index) == 1 else element.index,
            "access": _NAMES[self.kinds[0]],
        }

    def error(self) -> KernelFault:
        if self.record.kind == abi.RACE:
            return self._race()
        if self.record.kind == abi.UNINITIALISED:
            return self._unwritten()
        return self._freed()

    def _here(self, what: str, who: tuple[Dim3, Dim3], kind: int) -> str:
        return f"{what}thread {who[0]} of block {who[1]} {_WORDS[kind]} it here"

    def _race(self) -> KernelFault:
        there = self.program.sites[self.record.other]
        what = f"data race on {self.element} in kernel `{self.program.name}`\n  "
        mistakes = [
            Mistake(self._here(what, self.own, self.kinds[0]), self.site.place, trace=self.site.trace),
            Mistake(
                self._here("", self.other, self.kinds[1]) + self._missing(),
                there.place if self.record.other else None, self._way_out(there), there.trace,
            ),
        ]  # fmt: skip
        facts: dict[str, Any] = {
            "kind": "race",
            "other_line": there.place.line,
            "other_thread": self.other[0],
            "other_block": self.other[1],
            "other_access": _NAMES[self.kinds[1]],
        }
        return KernelFault(mistakes, **self.facts, **facts)

    def _missing(self) -> str:
        """What would have to be there between the two."""
        if not self.is_copy:
            return "; nothing orders the two"
        return " by a copy that goes on by itself, and nothing says that it is done"

    def _way_out(self, there: Site) -> str:
        """By what the two are to each other."""
        if self.is_copy:
            return (
                "wait for the copy first: `kaio.cp_async_commit()`, `kaio.cp_async_wait(…)` for its group by the "
                "thread that copies, and a `kaio.bar_sync()` behind that for the others"
            )
        is_one_block = self.record.block == self.other_block
        if abi.ATOMIC in self.kinds and abi.READ not in self.kinds:
            way_out = "update it with an `atomic_…` operation in both places, of a scope that both are in"
            if abi.WRITE in self.kinds and is_one_block:
                return f"put a `kaio.bar_sync()` between them, or {way_out}"
            return way_out
        if self._updates(self.site) and self._updates(there):
            return "where several threads update one element, use `kaio.atomic_add` and the like"
        if not is_one_block and self.program.shadow is not None and self.program.shadow.orders:
            return (
                "a flag orders blocks where who sets it fences before, `kaio.fence()`, and who reads it fences after, "
                "for a scope that both are in, and both come to the flag with volatile or atomic accesses; an atomic "
                'operation does both by `order="release"` and `order="acquire"`'
            )
        if not is_one_block:
            return (
                "blocks are not ordered: let each write elements of its own, use atomic operations, or do what "
                "comes after in another launch; a flag orders them with a `kaio.fence()` before it is set and after "
                "it is read"
            )
        places = self.site.place, there.place
        is_one_line = len({(place.file, place.line) for place in places}) == 1 and self.kinds[0] != self.kinds[1]
        if is_one_line and self.space == "global":
            return "write into another buffer: the threads of a launch do not wait until all others have read this one"
        if is_one_line:
            return (
                "read into a variable, put a `kaio.bar_sync()`, and write behind it; in a loop put another one between "
                "its turns"
            )
        if self.record.thread // 32 == self.other_thread // 32:
            way_out = "put a `kaio.bar_sync()` between them, or `kaio.syncwarp()` where all are lanes of one warp"
        else:
            way_out = "put a `kaio.bar_sync()` between them, which every thread of the block reaches"
        return f"{way_out}; in a loop also between its turns"

    @staticmethod
    def _updates(site: Site) -> bool:
        """Whether it is the element that a statement such as `x[i] += 1` sets, and not one that it reads."""
        sign = _UPDATE.search(site.place.text)
        return sign is not None and site.place.column < sign.start()

    def _unwritten(self) -> KernelFault:
        what = f"{self.element} is read before it is written in kernel `{self.program.name}`\n  "
        ways = {
            "global": "a kernel reads of an `Out` buffer what it has written; annotate it `InOut` to read what it held"
            if self.element.is_output
            else "what `alloc_empty` gives holds anything: write it first, or take `alloc_zeros`",
            "local": "write each element before it is read: the memory of a thread holds anything at first",
        }
        way_out = ways.get(
            self.space,
            "write each element before it is read, and put a `kaio.bar_sync()` between: at first it holds anything",
        )
        mistake = Mistake(self._here(what, self.own, self.kinds[0]), self.site.place, way_out, self.site.trace)
        return KernelFault([mistake], kind="uninitialised", **self.facts)

    def _freed(self) -> KernelFault:
        what = f"{self.element} is of a block that has ended, in kernel `{self.program.name}`\n  "
        way_out = "let no block of a cluster end while others use its memory: put a `kaio.cluster_sync()` at the end"
        mistake = Mistake(self._here(what, self.own, self.kinds[0]), self.site.place, way_out, self.site.trace)
        return KernelFault([mistake], kind="freed", **self.facts)
