"""A few threads that help with large copies: one thread copies at a fraction of what the memory gives.

Who has something to copy works on it itself, piece by piece, and threads that are free take pieces too. So nobody waits
for a thread to be free. New memory of a large array is given by the system when it is first written, which they do at
the same time as well.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from itertools import count
from queue import SimpleQueue

from kaio.forking import fork_lock

__all__ = ["MUCH_NBYTES", "Job", "copy_bytes", "helpers", "run_together"]

MUCH_NBYTES = 4 << 20  # from here on several threads are quicker than one
_MOST = 6  # threads that take part: they copy about as much as a bus carries
_PIECE_NBYTES = 2 << 20


class Job:
    """Pieces that several threads take in turn."""

    def __init__(self, work: Callable[[Job], None], pieces: int) -> None:
        self._work, self.pieces = work, pieces
        self._numbers = count()
        self._active, self._is_over = 0, False
        self._changed = threading.Condition()
        self._error: BaseException | None = None

    def take(self) -> int | None:
        """The next piece, None if there is none left."""
        number = next(self._numbers)  # one step of the interpreter
        return number if number < self.pieces and self._error is None else None

    def help(self) -> None:
        """Take part, unless it is over."""
        with self._changed:
            if self._is_over:
                return
            self._active += 1
        try:
            self._work(self)
        except BaseException as error:
            self._error = self._error or error
        with self._changed:
            self._active -= 1
            self._changed.notify_all()

    def finish(self) -> None:
        """Take part, wait for those who do, and raise what went wrong."""
        try:
            self._work(self)
        except BaseException as error:  # Ctrl-C too: nobody writes any more once this has returned
            self._error = self._error or error
        with self._changed:
            self._is_over = True
            while self._active:
                try:
                    self._changed.wait()
                except KeyboardInterrupt as error:  # they take no further piece, and are done with theirs soon
                    self._error = error
        failure, self._error = self._error, None
        if failure is not None:
            try:
                raise failure
            finally:
                del failure  # whose frames refer to it


class _Crew:
    def __init__(self) -> None:
        self._jobs: SimpleQueue[Job] = SimpleQueue()
        self._threads = 0
        self._lock = fork_lock()

    def call(self, job: Job, number: int) -> None:
        """Let so many threads have a look at the job."""
        with self._lock:
            while self._threads < number:
                try:
                    threading.Thread(target=self._serve, name="kaio copies", daemon=True).start()
                except RuntimeError:  # the system has no more, or Python ends
                    break
                self._threads += 1
            number = min(number, self._threads)
        for _ in range(number):
            self._jobs.put(job)

    def _serve(self) -> None:
        while True:
            job = self._jobs.get()
            job.help()
            del job  # and what it holds


_crew = _Crew()


def _begin_anew() -> None:
    global _crew
    _crew = _Crew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)


def helpers() -> int:
    """How many threads may take part in a job beside the one that has it."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(0, min(_MOST, cores) - 1)


def run_together(work: Callable[[Job], None], pieces: int) -> None:
    """Call `work` here and in free threads; each takes pieces of the job that it is given until none is left."""
    job = Job(work, pieces)
    if pieces > 1:
        _crew.call(job, min(helpers(), pieces - 1))
    job.finish()


def copy_bytes(target: int, source: int, nbytes: int) -> None:
    """Copy between two places in memory of the host that do not overlap; other threads of Python go on meanwhile."""
    if nbytes < MUCH_NBYTES:
        ctypes.memmove(target, source, nbytes)
        return

    def copy(job: Job) -> None:
        while (number := job.take()) is not None:
            at = number * _PIECE_NBYTES
            ctypes.memmove(target + at, source + at, min(_PIECE_NBYTES, nbytes - at))

    run_together(copy, -(-nbytes // _PIECE_NBYTES))
