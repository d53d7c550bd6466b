"""`Opened`: memory of the parent process that the worker has opened, and where it lies here."""

from __future__ import annotations

import ctypes
from bisect import bisect_right
from typing import Any

from kaio.runtime.cuda.driver import done, driver

__all__ = ["HANDLE_NBYTES", "Opened", "handle_bytes"]

HANDLE_NBYTES = 64  # CUDA driver API: CU_IPC_HANDLE_SIZE
_LAZILY = driver.CUipcMem_flags.CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS


def handle_bytes(handle: Any) -> bytes:
    """What a handle of the driver holds, to be sent."""
    return ctypes.string_at(handle.getPtr(), HANDLE_NBYTES)


class Opened:
    """Ranges of memory by their addresses in the parent process, and what to add to get the address here."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ranges: list[tuple[int, int]] = []  # one after the last byte, what to add

    def open(self, start: int, nbytes: int, data: bytes) -> None:
        """Open a whole allocation, whose handle is `data`."""
        handle = driver.CUipcMemHandle()
        ctypes.memmove(handle.getPtr(), data, HANDLE_NBYTES)
        here = int(done(driver.cuIpcOpenMemHandle(handle, _LAZILY)))
        at = bisect_right(self._starts, start)
        self._starts.insert(at, start)
        self._ranges.insert(at, (start + nbytes, here - start))

    def close(self, start: int) -> None:
        """Close what begins there. The parent may give the memory back only afterwards."""
        at = self._starts.index(start)
        del self._starts[at]
        done(driver.cuIpcCloseMemHandle(start + self._ranges.pop(at)[1]))

    def here(self, address: int) -> int:
        """The same byte in this process; 0 stays 0."""
        if not address:
            return 0
        at = bisect_right(self._starts, address) - 1
        if at >= 0:
            stop, distance = self._ranges[at]
            if address <= stop:  # an empty array may begin where the memory ends
                return address + distance
        raise LookupError(f"{address:#x} is in no memory that was opened")
