"""`Pool`: the memory of a GPU, given out and taken back in the order of streams.

Beneath is a pool of the driver. What is freed on a stream is kept for the next buffer of the same size there, which
costs a dictionary instead of two calls of the driver: work on a stream is in order, so the next user comes after the
last. Everything else goes back to the driver's pool, and so does all that is kept when memory is short.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kaio.runtime.cuda.driver import done, driver

if TYPE_CHECKING:
    from kaio.runtime.completion import Completion
    from kaio.runtime.cuda.device import CudaDevice
    from kaio.runtime.cuda.stream import CudaStream

__all__ = ["GRAIN", "MOST_OF_A_SIZE", "Pool"]

GRAIN = 512  # what the driver aligns to
_LARGEST_KEPT = 32 << 20
MOST_OF_A_SIZE = 16
_MOST_KEPT = 256 << 20
_COUNTED_EVERY = 64  # times that the driver is asked for memory
_NO_THRESHOLD = 2**64 - 1
_PATIENCE_S = 10.0  # how long memory that work in flight uses is waited for where there is none else

Users = Sequence["Completion"]
"""The work that used memory."""

_OUT_OF_MEMORY = driver.CUresult.CUDA_ERROR_OUT_OF_MEMORY
_ATTRIBUTE = driver.CUmemPool_attribute
_allocate, _free = driver.cuMemAllocFromPoolAsync, driver.cuMemFreeAsync


class Pool:
    """The memory of one GPU. The lock of the device is held by who calls, unless it says otherwise."""

    __slots__ = ("_asked", "_device", "handle")

    def __init__(self, device: CudaDevice) -> None:
        self._device, self.handle = device, make_pool(device.ordinal)
        self._asked = 0

    def take(self, nbytes: int, stream: CudaStream) -> int | None:
        """The address of new memory that may be used on the stream, and after that on others; None if there is none."""
        device, size = self._device, -(-nbytes // GRAIN) * GRAIN
        self._asked += 1
        if not self._asked % _COUNTED_EVERY and self.kept_nbytes() > _MOST_KEPT:
            self.flush()
        answer = device.call(_allocate, size, self.handle, stream.raw)
        if answer[0] == _OUT_OF_MEMORY:
            return None
        pointer = int(device.ask(answer))
        if device.accounts.limit is not None and self.reserved_nbytes() > device.accounts.limit:
            device.ask(driver.cuMemPoolTrimTo(self.handle, device.accounts.limit))
        return pointer

    def give_back(self, pointer: int, nbytes: int, users: Users) -> None:
        """Take memory back, for use after the work that uses it."""
        home, after = self._home(users)
        size = -(-nbytes // GRAIN) * GRAIN
        if not after and size <= _LARGEST_KEPT and not home.is_over:
            kept = home.kept.setdefault(size, [])
            if len(kept) < MOST_OF_A_SIZE:
                kept.append(pointer)
                return
        if after:
            home._wait_for_all(list(after))
        self._free(pointer, home)

    def _home(self, users: Users) -> tuple[CudaStream, Users]:
        """The stream to free memory on, and what that has to wait for."""
        device = self._device
        streams = {work.stream for work in users}
        home: Any = streams.pop() if streams else device._default
        if not streams and home.device is device:
            return home, ()
        # Used on several streams: freed on one where nothing else is held up by waiting for all of them.
        return device._frees, users

    def _free(self, pointer: int, stream: CudaStream) -> None:
        device = self._device
        stream._mark_last()
        device.ask(device.call(_free, pointer, stream.raw))

    def flush(self) -> None:
        """Give the driver's pool all that is kept."""
        for stream in self._streams():
            for pointers in list(stream.kept.values()):  # lists stay where they are: finalisers add to them
                while pointers:
                    self._free(pointers.pop(), stream)

    def _streams(self) -> list[Any]:
        return list(self._device._streams)

    # Without the lock: work that others have yet to put in may have to be waited for.

    def make_room(self) -> None:
        """Give the system all that no buffer has, after the work that still uses it, if that does not take too long."""
        deadline = time.monotonic() + _PATIENCE_S
        for tail in self._settle(self._device):
            if not tail._block(max(0.0, deadline - time.monotonic())):
                break
        self.trim(0)

    def trim(self, keep_nbytes: int) -> None:
        """Give the system what no buffer has and no work uses, but for so much."""
        device = self._device
        tails = [tail for tail in self._settle(device) if tail.is_done]
        for tail in tails:  # what was freed behind the work of such a stream is free at once
            device.ask(driver.cuStreamSynchronize(tail.stream.raw))  # type: ignore[attr-defined]
        with device._lock:
            device.ask(driver.cuMemPoolTrimTo(self.handle, keep_nbytes))

    def _settle(self, device: CudaDevice) -> list[Completion]:
        """Free all that can be freed; gives the last work of each stream."""
        with device._lock:
            device.tidy()
            tails = [stream._tail() for stream in device._streams]
            self.flush()
        return tails

    def share_with(self, ordinal: int) -> None:
        """Let another GPU reach the memory by itself."""
        access = driver.CUmemAccessDesc()
        access.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        access.location.id = ordinal
        access.flags = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        self._device.ask(driver.cuMemPoolSetAccess(self.handle, [access], 1))

    # Figures.

    def set_threshold(self, nbytes: int | None) -> None:
        """Let the driver keep no more than this from one buffer to the next."""
        value = driver.cuuint64_t(_NO_THRESHOLD if nbytes is None else nbytes)
        self._device.ask(driver.cuMemPoolSetAttribute(self.handle, _ATTRIBUTE.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, value))

    def kept_nbytes(self) -> int:
        """What was freed and is kept on the streams."""
        kept = (list(stream.kept.items()) for stream in self._streams())
        return sum(size * len(pointers) for items in kept for size, pointers in items)

    def reserved_nbytes(self) -> int:
        """What the pool has from the system."""
        return self._figure(_ATTRIBUTE.CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)

    def used_nbytes(self) -> int:
        """What is in buffers, or in use by work on such as are gone."""
        return max(0, self._figure(_ATTRIBUTE.CU_MEMPOOL_ATTR_USED_MEM_CURRENT) - self.kept_nbytes())

    def reserved_peak_nbytes(self) -> int:
        """The most that the pool ever had from the system."""
        return self._figure(_ATTRIBUTE.CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH)

    def _figure(self, attribute: Any) -> int:
        code, value = driver.cuMemPoolGetAttribute(self.handle, attribute)
        return 0 if code else int(value)  # after a fault there is nothing to tell


def make_pool(ordinal: int) -> Any:
    """A pool of our own, so that how it behaves is nobody else's business."""
    properties = driver.CUmemPoolProps()
    properties.allocType = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    properties.handleTypes = driver.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_NONE
    properties.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    properties.location.id = ordinal
    pool = done(driver.cuMemPoolCreate(properties))
    # Keep what is freed for the next buffers: to ask the system each time costs a hundred times as much.
    keep = driver.cuuint64_t(_NO_THRESHOLD)
    done(driver.cuMemPoolSetAttribute(pool, _ATTRIBUTE.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, keep))
    # No hidden waits: memory that another stream has yet to free is not given out.
    done(driver.cuMemPoolSetAttribute(pool, _ATTRIBUTE.CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, 0))
    return pool
