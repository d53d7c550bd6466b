"""How a thread of the driver wakes one of ours: a host function behind an event, on a stream that does nothing else.

The function is the C library's, so no Python runs in a driver's thread. It stands on a stream of its own, as later work
on the work's own stream would have to wait for it. It is not called after a fault: who waits has to ask now and then.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Any

from kaio.runtime.bell import RING, Bell
from kaio.runtime.cuda.driver import driver, launch_host_function

if TYPE_CHECKING:
    from kaio.runtime.cuda.device import CudaDevice

__all__ = ["Waiters"]

# Streams share the queues of the hardware, of which there are 8 unless the environment says otherwise, and one that
# waits holds up those it shares a queue with. So there are few, and of the highest priority, which has queues apart.
_MOST = 4


class Waiters:
    """The streams of a device that wait for others' events."""

    def __init__(self, device: CudaDevice) -> None:
        self._device = device
        self._streams: deque[Any] = deque()
        self._made, self._making = 0, threading.Lock()

    def ring_after(self, event: Any, bell: Bell) -> bool:
        """Ring the bell once the event has happened; False where that cannot be now, or is of no use after a fault."""
        if RING is None or bell.address is None or self._device.fault is not None:
            return False
        self._device.bind_thread()
        stream = self._take()
        if stream is None:
            return False
        try:
            if driver.cuStreamWaitEvent(stream, event, 0)[0]:
                return False
            return not launch_host_function(int(stream), RING, bell.address)
        finally:
            self._streams.append(stream)

    def _take(self) -> Any:
        """A stream on which nothing is left to wait for, None if there is none."""
        for _ in range(len(self._streams)):
            try:
                stream = self._streams.popleft()
            except IndexError:  # another thread took the last one
                break
            if not driver.cuStreamQuery(stream)[0]:
                return stream
            self._streams.append(stream)
        with self._making:
            if self._made >= _MOST:
                return None
            self._made += 1
        with self._device.current():
            flags = driver.CUstream_flags.CU_STREAM_NON_BLOCKING
            code, stream = driver.cuStreamCreateWithPriority(flags, self._device.priorities[1])
        return None if code else stream
