"""`Arena`: the memory of an isolated device, in chunks that are each opened once by the worker.

CUDA IPC shares whole allocations: a handle of a small array opens all of what the driver has put into the same block of
2 MiB, and to allocate and to open take a hundred times as long as a launch. So memory is taken from the driver in
chunks of many such blocks, and arrays are cut from those here, without asking anybody. (A pool of the driver has
handles of another kind, and one more for each array, which would have to be imported by the worker each time.)
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["Arena", "Block", "Chunk", "chunk_nbytes"]

_ALIGNMENT = 256  # CUDA C++ programming guide: memory of the driver's own allocations is so aligned
_GRAIN = 2 << 20
_CHUNK_NBYTES = 32 << 20


def _rounded(nbytes: int, grain: int) -> int:
    return -(-nbytes // grain) * grain


def chunk_nbytes(nbytes: int, is_tight: bool = False) -> int:
    """How large a chunk is made for an array of so many bytes; `is_tight`: no larger than it must be."""
    return _rounded(nbytes if is_tight else max(nbytes, _CHUNK_NBYTES), _GRAIN)


class Chunk:
    """One allocation of the driver, with the places in it that are free, in order."""

    __slots__ = ("free", "handle", "nbytes", "start")

    def __init__(self, start: int, nbytes: int, handle: bytes) -> None:
        self.start, self.nbytes, self.handle = start, nbytes, handle
        self.free: list[tuple[int, int]] = [(start, nbytes)]  # addresses and sizes

    @property
    def is_empty(self) -> bool:
        """Whether nothing of it is used."""
        return self.free == [(self.start, self.nbytes)]


class Block(NamedTuple):
    """A part of a chunk that is used."""

    chunk: Chunk
    pointer: int
    nbytes: int


class Arena:
    """The chunks of a device. It asks neither the driver nor a lock: who uses it does."""

    def __init__(self) -> None:
        self.chunks: list[Chunk] = []
        self.peak_nbytes = 0

    def add(self, chunk: Chunk) -> None:
        """One more chunk."""
        self.chunks.append(chunk)
        self.peak_nbytes = max(self.peak_nbytes, self.nbytes)

    def __iter__(self) -> Iterator[Chunk]:
        return iter(self.chunks)

    @property
    def free_nbytes(self) -> int:
        """Bytes that are there and not used."""
        return sum(size for chunk in self.chunks for _, size in chunk.free)

    @property
    def nbytes(self) -> int:
        """Bytes of all chunks."""
        return sum(chunk.nbytes for chunk in self.chunks)

    def take(self, nbytes: int) -> Block | None:
        """A block of at least so many bytes, in the smallest place that holds it; None if there is none."""
        wanted, best = _rounded(nbytes, _ALIGNMENT), None
        for chunk in self.chunks:
            for at, (_, size) in enumerate(chunk.free):
                if size >= wanted and (best is None or size < best[0]):
                    best = size, chunk, at
        if best is None:
            return None
        size, chunk, at = best
        pointer = chunk.free[at][0]
        if size == wanted:
            del chunk.free[at]
        else:
            chunk.free[at] = pointer + wanted, size - wanted
        return Block(chunk, pointer, wanted)

    def give(self, block: Block) -> None:
        """Take a block back, and join it with what is free before and behind."""
        chunk, start, size = block
        free = chunk.free
        at = bisect_left(free, (start, 0))
        if at < len(free) and free[at][0] == start + size:
            size += free.pop(at)[1]
        if at and sum(free[at - 1]) == start:
            start, size = free[at - 1][0], free[at - 1][1] + size
            at -= 1
            del free[at]
        free.insert(at, (start, size))

    def take_empty(self, keep_nbytes: int = 0) -> list[Chunk]:
        """Take out the chunks of which nothing is used, but for so many bytes of free memory."""
        found = []
        left = self.free_nbytes
        for chunk in sorted(self.chunks, key=lambda chunk: -chunk.nbytes):
            if chunk.is_empty and left - chunk.nbytes >= keep_nbytes:
                found.append(chunk)
                left -= chunk.nbytes
        self.chunks = [chunk for chunk in self.chunks if chunk not in found]
        return found
