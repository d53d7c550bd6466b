"""The worker threads of a CPU device, and the launches that they help."""

from __future__ import annotations

import os
import struct
import threading
from collections import deque
from queue import SimpleQueue
from typing import Any

from kaio import host_abi as abi
from kaio.errors import KaioError
from kaio.forking import fork_lock
from kaio.runtime.host_memory import HostMemory
from kaio.runtime.host_record import Record

__all__ = ["WorkerPool"]


class _Job:
    """One launch while it runs. Helpers that come too late find no record left, and do nothing."""

    def __init__(self, function: Any, records: list[Record]) -> None:
        self.function, self.records = function, records
        self._helpers = len(records)  # counted before any of them can have come
        self.done = threading.Semaphore(0)

    def help(self) -> None:
        try:
            record = self.records.pop()
        except IndexError:
            return
        try:
            self.function(record.worker.address)
        finally:
            self.done.release()

    def run(self, own: Record) -> None:
        """Run in this thread, then wait for those who are still at it."""
        helpers = self._helpers
        self.function(own.worker.address)
        while self.records:
            try:
                self.records.pop()
            except IndexError:
                break
            helpers -= 1
        for _ in range(helpers):
            self.done.acquire()


class WorkerPool:
    """Native worker threads of a CPU device: `count` with the thread that launches.

    A launch runs in the calling thread with the GIL released, and is helped by the others. They start with the first
    launch that has work for them, if they can: the system may have no more, and when Python ends it starts none.
    """

    def __init__(self, count: int) -> None:
        self.count = max(1, count)
        self._free: deque[Record] = deque()
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._process = 0
        self._lock = fork_lock()
        self._is_closed = False
        self._launches: dict[int, tuple[str, HostMemory]] = {}  # by the address of their control block
        self.stopped: KaioError | None = None

    @property
    def running(self) -> list[str]:
        """The kernels that run now, in words."""
        return [f"kernel `{name}`" for name, _ in list(self._launches.values())]

    def begin(self, name: str, control: HostMemory) -> None:
        """A launch with this control block; KaioError after `stop`."""
        self._launches[control.address] = name, control
        self.check()

    def end(self, control: HostMemory) -> None:
        """What `begin` noted is over."""
        self._launches.pop(control.address, None)

    def check(self) -> None:
        """Raise KaioError after `stop`."""
        if self.stopped is not None:
            raise self.stopped

    def stop(self) -> None:
        """Start no more blocks, of launches that run or are to come: they fail. Loops of blocks that run are left."""
        self.stopped = KaioError("the launch was stopped, because the process ends", help="wait for it before")
        for _, control in list(self._launches.values()):
            struct.pack_into("@q", control.view, abi.STOP, abi.ENDING)

    def close(self) -> None:
        """End the threads once their work is done."""
        with self._lock:
            self._is_closed = True
            if self._process == os.getpid():
                for _ in self._threads:
                    self._jobs.put(None)
                for thread in self._threads:
                    thread.join()
            self._threads = []

    def after_fork(self) -> None:
        """In a child process: the launches that run are the parent's."""
        self._launches.clear()

    def take(self, count: int) -> list[Record]:
        """Records for so many workers, for this launch alone."""
        taken = []
        for _ in range(count):
            try:
                taken.append(self._free.pop())
            except IndexError:
                taken.append(Record())
        return taken

    def give_back(self, records: list[Record]) -> None:
        """Records that `take` gave."""
        self._free.extend(records)

    def run(self, function: Any, records: list[Record]) -> None:
        """Call `function` on the argument block of each record, the first one in this thread. Blocks."""
        job = _Job(function, records[1:])
        if job.records:
            self.start()
            for _ in range(min(len(job.records), len(self._threads))):
                self._jobs.put(job)
        job.run(records[0])

    def start(self) -> None:
        """Start the threads that do not run yet; launches do without those that cannot be started."""
        if self._process == os.getpid() and len(self._threads) >= self.count - 1:
            return
        with self._lock:
            if self._is_closed:
                return
            if self._process != os.getpid():  # threads do not survive a fork, nor do the jobs they had
                self._process, self._jobs, self._threads = os.getpid(), SimpleQueue(), []
            while len(self._threads) < self.count - 1:
                name = f"kaio-cpu-{len(self._threads) + 1}"
                thread = threading.Thread(target=_work, args=(self._jobs,), name=name, daemon=True)
                try:
                    thread.start()
                except RuntimeError:
                    return
                self._threads.append(thread)


def _work(jobs: SimpleQueue[_Job | None]) -> None:
    while (job := jobs.get()) is not None:
        job.help()
        del job
