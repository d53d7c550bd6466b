"""`Staging`: large copies between a GPU and ordinary memory of the host, through pinned memory.

A GPU reads and writes pinned memory at the speed of the bus; ordinary memory the driver copies by itself, in one thread
and at a quarter of that. So several threads copy pieces to or from pinned chunks, each with two of its own: while the
GPU is at one, the thread is at the other.
"""

from __future__ import annotations

import ctypes
import threading
from typing import TYPE_CHECKING, Any

from kaio.runtime.crew import Job, helpers, run_together
from kaio.runtime.cuda.driver import driver

if TYPE_CHECKING:
    from kaio.runtime.cuda.device import CudaDevice
    from kaio.runtime.cuda.pinned_pool import PinnedBlock

__all__ = ["LEAST_NBYTES", "Staging"]

LEAST_NBYTES = 1 << 20  # below, the driver's own way is as quick
CHUNK_NBYTES = 2 << 20  # small enough to stay in the caches on its way


class _Chunk:
    """Pinned memory for one piece, and the event behind its copy."""

    __slots__ = ("_device", "_event", "_is_busy", "block", "pointer")

    def __init__(self, device: CudaDevice, block: PinnedBlock) -> None:
        self._device, self.block, self.pointer, self._is_busy = device, block, block.pointer, False
        self._event = device.ask(driver.cuEventCreate(driver.CUevent_flags.CU_EVENT_DISABLE_TIMING))

    def __del__(self) -> None:
        event = getattr(self, "_event", None)
        if event is not None:
            self._device.ended.append((driver.cuEventDestroy, event))

    def copy(self, function: Any, target: int, source: int, nbytes: int, stream: Any) -> None:
        """Let the GPU copy from or to it."""
        self._device.ask(function(target, source, nbytes, stream))
        self._device.ask(driver.cuEventRecord(self._event, stream))
        self._is_busy = True

    def wait(self) -> None:
        """Wait until the GPU is done with it; the interpreter is free meanwhile."""
        if self._is_busy:
            self._is_busy = False
            self._device.ask(driver.cuEventSynchronize(self._event))


class Staging:
    """The chunks of one direction. One copy at a time has them: several would share the same bus."""

    def __init__(self, device: CudaDevice, stream: Any) -> None:
        self._device, self._stream = device, stream
        self._lock = threading.Lock()
        self._chunks: list[_Chunk] = []

    def upload(self, pointer: int, host: int, nbytes: int) -> None:
        """Copy from ordinary memory of the host, and return when that is done."""

        def copy(job: Job, one: _Chunk, two: _Chunk) -> None:
            while (number := job.take()) is not None:
                at = number * CHUNK_NBYTES
                size = min(CHUNK_NBYTES, nbytes - at)
                one.wait()
                ctypes.memmove(one.pointer, host + at, size)
                one.copy(driver.cuMemcpyHtoDAsync, pointer + at, one.pointer, size, self._stream)
                one, two = two, one

        self._run(copy, nbytes)

    def download(self, host: int, pointer: int, nbytes: int) -> None:
        """Copy to ordinary memory of the host, and return when that is done."""

        def begin(job: Job, chunk: _Chunk) -> int | None:
            number = job.take()
            if number is not None:
                at = number * CHUNK_NBYTES
                size = min(CHUNK_NBYTES, nbytes - at)
                chunk.copy(driver.cuMemcpyDtoHAsync, chunk.pointer, pointer + at, size, self._stream)
            return number

        def copy(job: Job, one: _Chunk, two: _Chunk) -> None:
            number = begin(job, one)
            while number is not None:
                after = begin(job, two)
                at = number * CHUNK_NBYTES
                one.wait()
                ctypes.memmove(host + at, one.pointer, min(CHUNK_NBYTES, nbytes - at))
                one, two, number = two, one, after

        self._run(copy, nbytes)

    def trim(self) -> None:
        """Give the chunks back, unless a copy has them."""
        if self._lock.acquire(blocking=False):
            try:
                self._chunks.clear()
            finally:
                self._lock.release()

    def _run(self, copy: Any, nbytes: int) -> None:
        with self._lock:
            pieces = -(-nbytes // CHUNK_NBYTES)
            self._make(2 * min(helpers() + 1, pieces))
            free = list(self._chunks)

            def work(job: Job) -> None:
                own = free.pop(), free.pop()
                with self._device.current():
                    try:
                        copy(job, *own)
                    finally:
                        for chunk in own:  # the GPU must not write to it, or read it, for the next one to have it
                            chunk.wait()

            run_together(work, pieces)

    def _make(self, number: int) -> None:
        with self._device.current():
            while len(self._chunks) < number:
                self._chunks.append(_Chunk(self._device, self._device.pinned.take(CHUNK_NBYTES)))
