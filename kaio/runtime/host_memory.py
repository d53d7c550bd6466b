"""Memory of the CPU device's own, which nobody moves."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

__all__ = ["HostMemory"]

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
