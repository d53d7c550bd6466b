"""Completions of work in a worker: a look at a counter in shared memory tells whether it is done."""

from __future__ import annotations

import ctypes
import math
import time
from typing import TYPE_CHECKING

from kaio import fault_abi as abi
from kaio import host_abi
from kaio.errors import KaioError
from kaio.runtime.completion import Completion
from kaio.runtime.host_faults import FaultRecord, fault_error
from kaio.runtime.isolated.protocol import RECORD_NBYTES, RECORDS
from kaio.runtime.stream import Dims
from kaio.runtime.watching import pause_after, watcher

if TYPE_CHECKING:
    from kaio.runtime.isolated.faults import Failure
    from kaio.runtime.isolated.link import Link
    from kaio.runtime.isolated.stream import IsolatedStream

__all__ = ["IsolatedCompletion"]

# To look takes 0.1 us and wakes up at once, a sleep takes 50 and more. Inside an await other tasks wait meanwhile.
_SPIN_S, _AWAIT_SPIN_S = 100e-6, 50e-6


class IsolatedCompletion(Completion):
    """The work with a number on a stream of a worker."""

    stream: IsolatedStream
    number: int
    _after: tuple[IsolatedCompletion, ...] = ()  # checked launches whose results this one takes
    _record: int | None = None  # where the checks of this one leave what they find
    _dims: tuple[Dims, Dims]  # its grid and block
    _failure: Failure | None = None  # that it shares with others

    def _poll(self) -> bool:
        if self._finished:
            return True
        stream = self.stream
        link = stream.link
        fault = link.fault  # looked at first: the counters of a worker that is gone do not change
        if link.words[stream.slot] >= self.number:
            is_told = link.is_heard and (not self._timed or (stream.slot, self.number) in link.times)
            if not is_told and fault is None:
                return False  # the thread of the link will hear it in a moment
            self._end_well(link)
        elif fault is None:
            return False
        else:
            self._finish(fault, link.failure)
        return True

    def _end_well(self, link: Link) -> None:
        """It is done, unless the driver did not take it."""
        key = self.stream.slot, self.number
        refused = link.refused.get(key) if link.refused else None
        if self._timed:
            self._elapsed_ms = link.times.pop(key, self._elapsed_ms)
            if self._elapsed_ms is None and not self._finished and refused is None:  # the worker was gone before
                self._finish(link.fault, link.failure)
                return
        if refused is None:
            self._finish(None, None)
        else:
            error = refused._error
            assert isinstance(error, KaioError)
            self._finish(error, refused)

    def _finish(self, error: KaioError | None, failure: Failure | None) -> None:
        device, link = self.stream.device, self.stream.link
        if link.prints is not None:  # before anyone learns that the work is done
            link.prints.show(getattr(self, "_loaded", None))
        if self._after and error is None:
            error = self._inherited()
        found = None
        with device.finishing:
            if self._finished:
                return
            record, self._record = self._record, None
            if record is not None:
                found = self._found(link, record)
                link.records.append(record)
            self._error = found or error
            self._failure = failure
            self._after = ()
            self._finished = True
        device.watched.pop(self, None)
        if found is not None:
            device.failures.note(self)

    def _inherited(self) -> KaioError | None:
        """What the checks of earlier work found, whose results this one took."""
        # Those before first, one after another: else each would ask the one before it, as many deep as there are.
        for earlier in list(self.stream.device.watched):
            if earlier is self:
                break
            if earlier.stream is self.stream:
                earlier._poll()
        for earlier in self._after:
            earlier._poll()  # which is done: the stream has waited for it
            if isinstance(earlier._error, KaioError):
                return earlier._error
        return None

    def _found(self, link: Link, record: int) -> KaioError | None:
        """What the checks of this launch found. The record is as new afterwards."""
        ring, nbytes = link.shared.address + RECORDS + record * RECORD_NBYTES, abi.LENGTH * abi.ENTRY.size
        entries = [entry for entry in abi.ENTRY.iter_unpack(ctypes.string_at(ring, nbytes)) if entry[3]]
        if not entries:
            return None
        ctypes.memset(ring, 0, nbytes)
        link.tell("clear", record)
        _, block, thread, site, index, size = min(entries)
        found = FaultRecord(host_abi.FAILED, block, site, thread, 0, index, size, lambda word, thread: 0)
        return fault_error(self._loaded.program, found, *self._dims)

    def _check(self) -> None:
        if self._failure is not None:
            self._failure._seen = True
        super()._check()

    # Waiting.

    def _turn(self) -> int:
        return self.number

    def _block(self, timeout_s: float | None) -> bool:
        start = time.monotonic()
        deadline = math.inf if timeout_s is None else start + timeout_s
        while not self._poll():
            now = time.monotonic()
            if now >= deadline:
                return False
            if now - start > _SPIN_S:
                time.sleep(min(pause_after(now - start), deadline - now))
        return True

    def _spin(self) -> bool:
        if self.stream.policy.completion != "adaptive" or watcher.is_busy:
            return self._poll()
        deadline = time.monotonic() + _AWAIT_SPIN_S
        while not self._poll():
            if time.monotonic() > deadline:
                return False
        return True

    def _watch(self) -> None:
        watcher.watch(self)
