"""What kernels of a GPU print."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

import numpy as np

from kaio import print_abi as abi
from kaio.errors import KaioError
from kaio.runtime.cuda.driver import driver
from kaio.runtime.cuda.launch import CudaLoaded
from kaio.runtime.printing import RING_NBYTES, PrintRing

if TYPE_CHECKING:
    from kaio.runtime.cuda.device import CudaDevice

__all__ = ["CudaPrints"]


class CudaPrints:
    """The ring of a GPU, made when the first program that prints is loaded.

    It is memory of the host, which outlives a fault and is looked at without a call of the driver; its counters are on
    the GPU, whose atomics are quick there.
    """

    def __init__(self, device: CudaDevice) -> None:
        self._device = device
        flags = driver.CU_MEMHOSTALLOC_PORTABLE | driver.CU_MEMHOSTALLOC_DEVICEMAP
        host = int(device.ask(driver.cuMemHostAlloc(RING_NBYTES, flags)))
        words = np.ctypeslib.as_array((ctypes.c_uint32 * (RING_NBYTES // 4)).from_address(host))
        words[:] = 0
        address = int(device.ask(driver.cuMemHostGetDevicePointer(host, 0)))
        self._counters = int(device.ask(driver.cuMemAlloc(4 * abi.COUNTERS)))
        device._upload(self._counters, np.zeros(abi.COUNTERS, np.uint32))
        self._ring = PrintRing(words, address, self._read_counters, self._counters)

    def _read_counters(self) -> tuple[int, int]:
        found = np.zeros(abi.COUNTERS, np.uint32)
        self._device._download(found, self._counters)
        return int(found[abi.HEAD]), int(found[abi.DROPPED])

    def bind(self, loaded: CudaLoaded) -> None:
        """Let a program print."""
        binding = np.frombuffer(self._ring.bind(loaded.program), np.uint8)
        pointer, _ = self._device.ask(driver.cuModuleGetGlobal(loaded.module, abi.VARIABLE.encode()))
        self._device._upload(int(pointer), binding)

    def show(self, loaded: CudaLoaded | None) -> None:
        """Show what was printed so far; `loaded` is the program whose work is done, where that is known.

        If that does not print, a look at the ring is enough.
        """
        if not (self._ring.has_lines or loaded is None or loaded.program.prints):
            return
        try:
            self._ring.show(is_faulted=self._device.fault is not None)
        except KaioError:  # a fault meanwhile
            self._ring.show(is_faulted=True)
