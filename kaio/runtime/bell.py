"""`Bell`: what native code rings and Python waits at, so that a driver's thread can wake one of ours with no Python."""

from __future__ import annotations

import ctypes
import threading
import time
from typing import Any

__all__ = ["RING", "Bell"]

_MONOTONIC = 1  # CLOCK_MONOTONIC of Linux
_SEMAPHORE_NBYTES = 64  # sem_t has 32 with glibc and musl


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


def _libc() -> Any:
    """The functions on semaphores of the C library, None where there are none that wait by the steady clock."""
    try:
        calls = ctypes.CDLL(None)  # gives up the GIL: for what waits
        quick = ctypes.PyDLL(None)  # keeps it: for what does not
        calls.sem_clockwait.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.POINTER(_Timespec)]
        quick.sem_init.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_uint]
        quick.sem_post.argtypes = [ctypes.c_void_p]
        quick.calloc.argtypes, quick.calloc.restype = [ctypes.c_size_t, ctypes.c_size_t], ctypes.c_void_p
        address = ctypes.cast(quick.sem_post, ctypes.c_void_p).value
    except (AttributeError, TypeError, OSError):  # glibc before 2.30, musl, or no Linux
        return None
    return calls.sem_clockwait, quick, address


_LIBC = _libc()

# The address of a C function `int ring(void *bell)`, None where there is none: it may be called by any thread.
RING: int | None = None if _LIBC is None else _LIBC[2]

_spare: list[int] = []  # the memory of bells that are gone


class Bell:
    """Rung any number of times by any thread; who waits at it is woken once for each ring.

    Where the C library has what it takes, `address` is what native code passes to `RING`, else it is None. Its memory
    is never given back, only used again: a driver may ring it after whoever waited has gone, and after Python has
    ended. So it may have been rung already when it is new, which wakes who waits for nothing.
    """

    __slots__ = ("_rung", "address")

    def __init__(self) -> None:
        self.address: int | None = None
        if _LIBC is not None:
            try:
                self.address = _spare.pop()
            except IndexError:
                address = _LIBC[1].calloc(1, _SEMAPHORE_NBYTES)
                if address and not _LIBC[1].sem_init(address, 0, 0):
                    self.address = address
        self._rung = threading.Semaphore(0) if self.address is None else None

    def ring(self) -> None:
        """Wake whoever waits, or who waits next."""
        if self._rung is None:
            _LIBC[1].sem_post(self.address)
        else:
            self._rung.release()

    def wait(self, timeout_s: float) -> None:
        """Wait until it is rung, the time is over or a signal arrives, with the GIL released."""
        if self._rung is None:
            until = time.clock_gettime(_MONOTONIC) + timeout_s
            seconds = int(until)
            _LIBC[0](self.address, _MONOTONIC, _Timespec(seconds, int((until - seconds) * 1e9)))
        else:
            self._rung.acquire(timeout=timeout_s)

    def __del__(self, spare: list[int] = _spare) -> None:  # at exit the name may be gone
        if self.address is not None:
            spare.append(self.address)
