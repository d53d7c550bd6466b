"""What checks find on a GPU: a record that each launch has to itself, and the completion that puts it into words."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kaio import fault_abi as abi
from kaio import host_abi
from kaio.errors import KaioError
from kaio.runtime.cuda.completion import CudaCompletion
from kaio.runtime.cuda.driver import driver
from kaio.runtime.host_faults import FaultRecord, fault_error
from kaio.runtime.stream import Dims

if TYPE_CHECKING:
    from kaio.runtime.cuda.device import CudaDevice
    from kaio.runtime.cuda.launch import CudaLoaded

__all__ = ["CheckedCompletion", "Lent", "Record", "Records"]

_FEWEST = 64  # are made at once; later as many again as there are
_RING_NBYTES = abi.LENGTH * abi.ENTRY.size


class Record:
    """Where one launch at a time leaves what its checks find. `state` is the address that its kernel takes."""

    __slots__ = ("_ring", "_site", "state")

    def __init__(self, state: int, ring: int) -> None:
        self.state, self._ring = state, ring
        self._site = ctypes.c_uint32.from_address(ring + abi.SITE)  # of the first entry: 0 as long as nothing was found

    def read(self) -> tuple[int, ...] | None:
        """The entry with the lowest key, None where there is none."""
        if not self._site.value:
            return None
        entries = abi.ENTRY.iter_unpack(ctypes.string_at(self._ring, _RING_NBYTES))
        return min(entry for entry in entries if entry[3])

    def clear(self, device: CudaDevice) -> None:
        """As new."""
        ctypes.memset(self._ring, 0, _RING_NBYTES)
        state = ctypes.create_string_buffer(abi.STATE.pack(abi.NO_KEY, 0, 0, self._ring), abi.STATE.size)
        device.copy_in(self.state, ctypes.addressof(state), abi.STATE.size)


class Records:
    """The records of a device that no launch has."""

    def __init__(self, device: CudaDevice) -> None:
        self._device = device
        self.free: list[Record] = []
        self._made = 0

    def take(self) -> Record:
        """One that is as new. The lock of the device is held."""
        if not self.free:
            self._make()
        return self.free.pop()

    def _make(self) -> None:
        device, count = self._device, max(_FEWEST, self._made)
        with device.current():
            flags = driver.CU_MEMHOSTALLOC_PORTABLE | driver.CU_MEMHOSTALLOC_DEVICEMAP
            # The GPU sees such memory at the same address (CUDA C++ programming guide, "Unified Virtual Addressing").
            rings = int(device.ask(driver.cuMemHostAlloc(count * _RING_NBYTES, flags)))
            states = int(device.ask(driver.cuMemAlloc(count * abi.STATE.size)))
        self._made += count
        for k in range(count):
            record = Record(states + k * abi.STATE.size, rings + k * _RING_NBYTES)
            record.clear(device)
            self.free.append(record)

    def give_back(self, record: Record, is_used: bool) -> None:
        """Take one back that a launch is done with. The lock of the device is held."""
        if self._device.fault is None:
            if is_used:
                record.clear(self._device)
            self.free.append(record)


# A record with the program that leaves there what it finds, and its grid and block.
Lent = tuple[Record, "CudaLoaded", tuple[Dims, Dims]]


class CheckedCompletion(CudaCompletion):
    """A launch with checks. Its device keeps it until it is known how it ended, so that no fault is lost."""

    _lent: Sequence[Lent]

    def lend(self, *lent: Lent) -> None:
        """Say where each kernel leaves what it finds: one, or those of a graph. The lock of the device is held."""
        self._lent = lent
        self.stream.device.watched[self] = None
        self.stream.device.attention = True

    def _finish(self, error: KaioError | None) -> None:
        device, is_failed = self.stream.device, False
        with device._lock:
            lent, self._lent = self._lent, ()
            for record, loaded, dims in lent:
                found = record.read()
                if found is not None and not is_failed:
                    self._error, is_failed = self._fault(found, loaded, dims), True
                device.records.give_back(record, found is not None)
        super()._finish(error)
        device.watched.pop(self, None)
        if is_failed:
            device.failures.note(self)

    def _inherited(self) -> Any:
        # Those before first, one after another: else each would ask the one before it, as many deep as there are.
        for earlier in list(self.stream.device.watched):
            if earlier is self:
                break
            if earlier.stream is self.stream:
                earlier._poll()
        return super()._inherited()

    def _fault(self, entry: tuple[int, ...], loaded: CudaLoaded, dims: tuple[Dims, Dims]) -> KaioError:
        _, block, thread, site, index, size = entry
        record = FaultRecord(host_abi.FAILED, block, site, thread, 0, index, size, lambda word, thread: 0)
        error = fault_error(loaded.program, record, *dims)
        if self.stream.device.fault is not None:
            error.add_note(
                f"{self.stream.device} cannot be used any more in this process: threads of this kernel wait at a named "
                "barrier, which counts those who have ended, so that the launch had to be ended with them."
            )
        return error
