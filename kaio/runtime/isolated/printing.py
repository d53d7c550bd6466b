"""What kernels of a worker print."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np

from kaio import print_abi as abi
from kaio.errors import KaioError
from kaio.program import Program
from kaio.runtime.isolated.protocol import PRINTS
from kaio.runtime.printing import RING_NBYTES, PrintRing

if TYPE_CHECKING:
    from kaio.runtime.isolated.device import IsolatedDevice
    from kaio.runtime.isolated.link import Link

__all__ = ["IsolatedPrints"]


class IsolatedPrints:
    """The ring of one worker, in shared memory, so that it is shown whatever became of the worker.

    Its counters are in memory of the device, which this process can read, too.
    """

    def __init__(self, device: IsolatedDevice, link: Link) -> None:
        self._device, self._link = device, link
        address = link.shared.address + PRINTS
        words = np.ctypeslib.as_array((ctypes.c_uint32 * (RING_NBYTES // 4)).from_address(address))
        self._counters = device.take(4 * abi.COUNTERS, zero=True)
        self._ring = PrintRing(words, address, self._read_counters, self._counters.pointer)

    def _read_counters(self) -> tuple[int, int]:
        found = np.zeros(abi.COUNTERS, np.uint32)
        self._device._download(found, self._counters.pointer)
        return int(found[abi.HEAD]), int(found[abi.DROPPED])

    def bind(self, program: Program) -> bytes:
        """What goes into the program's variable; the worker knows the ring by another address."""
        return self._ring.bind(program)

    def show(self, loaded: Any) -> None:
        """Show what was printed so far; `loaded` is the program whose work is done, where that is known."""
        if not (self._ring.has_lines or loaded is None or loaded.program.prints):
            return
        try:
            self._ring.show(is_faulted=self._link.is_lost)
        except KaioError:  # a fault meanwhile
            self._ring.show(is_faulted=True)
