"""`PinnedPool`: pinned memory of the host. The driver takes long to make some, so what is given back is kept."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from kaio.runtime.cuda.driver import driver

if TYPE_CHECKING:
    from kaio.runtime.cuda.device import CudaDevice

__all__ = ["PinnedBlock", "PinnedPool"]

_GRAIN = 1 << 16


class PinnedBlock:
    """Pinned memory; it goes back to its pool when this is dropped."""

    __slots__ = ("_pool", "nbytes", "pointer")

    def __init__(self, pool: PinnedPool, pointer: int, nbytes: int) -> None:
        self._pool, self.pointer, self.nbytes = pool, pointer, nbytes

    def __del__(self) -> None:
        self._pool.returned.append((self.nbytes, self.pointer))


class PinnedPool:
    """The pinned memory that a device made."""

    def __init__(self, device: CudaDevice) -> None:
        self._device = device
        self.returned: deque[tuple[int, int]] = deque()  # finalisers put in here
        self._free: dict[int, list[int]] = {}
        self.nbytes = 0

    def take(self, nbytes: int) -> PinnedBlock:
        """Memory of at least so many bytes."""
        device, size = self._device, max(1, -(-nbytes // _GRAIN)) * _GRAIN
        with device._lock:
            self._settle()
            free = self._free.get(size)
            if free:
                return PinnedBlock(self, free.pop(), size)
            with device.current():
                # For all contexts: a copy between two GPUs may go through it.
                pointer = int(device.ask(driver.cuMemHostAlloc(size, driver.CU_MEMHOSTALLOC_PORTABLE)))
            self.nbytes += size
            return PinnedBlock(self, pointer, size)

    def trim(self) -> None:
        """Give the system what nobody has."""
        device = self._device
        with device._lock, device.current():
            self._settle()
            for size, pointers in self._free.items():
                while pointers:
                    device.ask(driver.cuMemFreeHost(pointers.pop()))
                    self.nbytes -= size

    def _settle(self) -> None:
        while self.returned:
            size, pointer = self.returned.popleft()
            self._free.setdefault(size, []).append(pointer)
