"""What kernels print: the ring that their records go through, read and shown. The layout is in `kaio/print_abi.py`."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable

import numpy as np

from kaio import print_abi as abi
from kaio.print_abi import Line
from kaio.program import Program

__all__ = ["RING_NBYTES", "PrintRing"]

_log = logging.getLogger("kaio")

RING_NBYTES = 4 * (abi.DATA + abi.CAPACITY)
_PATIENCE_S = 1.0  # how long a record that was begun may take to be there


class PrintRing:
    """The ring of a device. `words` is its memory, all 0; `address` where kernels see it.

    `counters` reads the head and how many records were dropped, `counters_address` is where kernels count them.
    """

    def __init__(
        self, words: np.ndarray, address: int, counters: Callable[[], tuple[int, int]], counters_address: int
    ) -> None:
        self._words, self._address = words, address
        self._counters, self._counters_address = counters, counters_address
        self._lines: list[Line] = []
        self._tail = self._dropped = 0
        self._lock = threading.RLock()  # what writes to `sys.stdout` may come back here

    def after_fork(self) -> None:
        """In a child process: whoever held the lock stayed in the parent, which shows what was printed so far."""
        self._lock = threading.RLock()
        self._tail, self._dropped = self._counters()
        self._words[abi.DATA :] = 0
        self._words[abi.TAIL] = self._tail

    def bind(self, program: Program) -> bytes:
        """Take in the lines of a program that is loaded; gives what goes into its variable."""
        with self._lock:
            first = len(self._lines)
            self._lines += program.prints
        return abi.BINDING.pack(self._address, self._counters_address, first)

    @property
    def has_lines(self) -> bool:
        """Whether there is something to show, as far as one look tells."""
        return bool(self._words[abi.DATA + (self._tail & abi.CAPACITY - 1)])

    def show(self, is_faulted: bool = False) -> None:
        """Show what was printed so far, in the order in which threads took room for it.

        After a fault the counters cannot be read: what is there is shown.
        """
        with self._lock:
            head, dropped = (self._tail, self._dropped) if is_faulted else self._counters()
            shown = self._read()
            started = time.monotonic()
            while 0 < (head - self._tail) % 2**32 <= abi.CAPACITY and time.monotonic() - started < _PATIENCE_S:
                time.sleep(0)  # a thread of another launch has begun a record in front of ours
                shown += self._read()
            if dropped != self._dropped:
                count = (dropped - self._dropped) % 2**32
                self._dropped = dropped
                shown.append(f"({count} more were dropped: a device keeps {RING_NBYTES >> 20} MiB of lines)\n")
            if shown:
                _write("".join(shown))

    def _read(self) -> list[str]:
        """Take out the records that are there."""
        found = []
        data, mask = self._words[abi.DATA :], abi.CAPACITY - 1
        while site := int(data[self._tail & mask]):
            line = self._lines[site - 1]
            places = (self._tail + np.arange(1 + line.words)) & mask
            words = data[places[1:]].tobytes()
            data[places] = 0
            self._tail = (self._tail + len(places)) % 2**32
            self._words[abi.TAIL] = self._tail
            found.append(line.text(words))
        return found


def _write(text: str) -> None:
    """Write to what `sys.stdout` is now; a failure is no failure of the launch."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.write(text)
    except Exception:
        _log.exception("what a kernel printed cannot be written")
