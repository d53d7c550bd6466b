"""`Shared`: the memory that a device and its worker both see, a file without a name."""

from __future__ import annotations

import ctypes
import mmap
import os
from typing import Any

__all__ = ["Shared"]


class Shared:
    """`nbytes` of memory of a file descriptor; who makes it without one makes the file, too."""

    words: Any  # the same memory as numbers of 8 bytes
    address: int

    def __init__(self, nbytes: int, descriptor: int | None = None) -> None:
        made = descriptor is None
        self.descriptor = os.memfd_create("kaio", os.MFD_CLOEXEC) if descriptor is None else descriptor
        if made:
            os.ftruncate(self.descriptor, nbytes)
        self.nbytes = nbytes
        self._map = mmap.mmap(self.descriptor, nbytes)
        self.words = memoryview(self._map).cast("Q")
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._map))

    def close_descriptor(self) -> None:
        """The memory stays as long as it is referred to; the file is for those who have it open."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1
