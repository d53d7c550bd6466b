"""Memory of the CPU device's own, which nobody moves."""

from __future__ import annotations

import ctypes
import mmap
from functools import cached_property
from typing import Any

import numpy as np

__all__ = ["HostMemory", "Written"]

_MUCH_NBYTES = 1 << 20


class HostMemory:
    """`nbytes` of memory that nobody moves, aligned, of zeros. Much of it costs nothing until it is used."""

    def __init__(self, nbytes: int, alignment: int = 64) -> None:
        size = nbytes + alignment
        self._owner: Any = mmap.mmap(-1, size) if size > _MUCH_NBYTES else ctypes.create_string_buffer(size)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self._owner))
        self.address = (start + alignment - 1) // alignment * alignment
        offset = self.address - start
        self.view = memoryview(self._owner).cast("B")[offset : offset + nbytes]
        self.nbytes = nbytes


class Written:
    """Of memory that held anything at first, a byte for each of its bytes, -1 where somebody has written since.

    Only launches under ``check="full"`` say where they write. Whatever else may write makes an end of it.

    is_complete: whether somebody has written all of it
    """

    def __init__(self, pointer: int, nbytes: int) -> None:
        self.pointer, self.nbytes, self.is_complete = pointer, nbytes, nbytes == 0

    def __contains__(self, address: int) -> bool:
        return self.pointer <= address < self.pointer + self.nbytes

    def note(self, start: int, written: np.ndarray[Any, np.dtype[np.bool_]]) -> None:
        """Whether each of the bytes from an address on was written; what was before stays so."""
        known = np.frombuffer(self.map.view, np.uint8)
        part = known[start - self.pointer :][: written.size]
        part |= np.negative(written.view(np.uint8))
        self.is_complete = bool(known.all())

    @cached_property
    def map(self) -> HostMemory:
        """The bytes, made when they are asked for."""
        return HostMemory(self.nbytes)
