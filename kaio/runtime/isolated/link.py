"""`Link`: one worker, what is said with it, and the thread that hears what it says."""

from __future__ import annotations

import itertools
import logging
import marshal
import os
import select
import signal
import socket
import subprocess
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from kaio.errors import KaioError
from kaio.runtime.isolated.process import start_process
from kaio.runtime.isolated.protocol import MESSAGE_NBYTES, PRINTS, RECORD_COUNT, REFUSALS, SLOTS, Op, Told
from kaio.runtime.isolated.shared import Shared
from kaio.runtime.printing import RING_NBYTES

if TYPE_CHECKING:
    from kaio.runtime.isolated.device import IsolatedDevice
    from kaio.runtime.isolated.faults import Failure
    from kaio.runtime.isolated.printing import IsolatedPrints
    from kaio.runtime.isolated.stream import IsolatedStream
    from kaio.runtime.isolated.timeouts import Limit

__all__ = ["Link", "Lost", "Pending", "Refused"]

_log = logging.getLogger("kaio")
_numbers = itertools.count(1)

_START_S = 60.0  # how long a worker may take until it is ready
_END_S = 30.0  # and to be gone once it is killed, with its context and what runs there
_LEAVE_S = 2.0  # how long one may take to end by itself, that has lost its link or is told so


class Lost(Exception):
    """The worker has ended before it answered."""


class Refused(Exception):
    """The driver refused a request; `code` is what it said."""

    def __init__(self, code: int) -> None:
        super().__init__(f"error {code}")
        self.code = code


class Pending(NamedTuple):
    """Work that was sent: its number on its stream, the kernel (None for a copy or the like), what it waits for."""

    number: int
    kernel: str | None
    waits: tuple[tuple[int, int], ...]  # slots and numbers


class _Answer:
    __slots__ = ("arrived", "is_good", "then", "value")

    def __init__(self, then: Callable[[], object] | None = None) -> None:
        self.arrived, self.is_good, self.value, self.then = threading.Event(), False, None, then


class Link:
    """A worker process from its start to its end. The device is told by the thread when it has ended."""

    is_lost = False  # nothing is sent or heard any more
    is_leaving = False
    fault: KaioError | None = None  # once it is gone: what work fails with that was not done
    failure: Failure | None = None  # the same, for who sees it
    code: int | None = None  # what the driver said of a fault
    stopped: Limit | None = None  # the time limit for which it was killed
    problem: str | None = None  # why it did not start; empty once it is ready
    prints: IsolatedPrints | None = None

    def __init__(self, device: IsolatedDevice) -> None:
        self._device, self._who, self.number = device, str(device), next(_numbers)
        self.shared = Shared(PRINTS + RING_NBYTES)
        self.words = self.shared.words
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self.process = start_process(theirs.fileno(), self.shared)
        self.shared.close_descriptor()
        self.ready, self.gone, self.replaced = threading.Event(), threading.Event(), threading.Event()
        self.refusals = 0  # that were heard, of those that the shared memory counts
        self.refused: dict[tuple[int, int], Failure] = {}
        self.times: dict[tuple[int, int], float] = {}
        self.lines: dict[int, deque[Pending]] = {}
        self.streams: weakref.WeakValueDictionary[int, IsolatedStream] = weakref.WeakValueDictionary()
        self.records = deque(range(RECORD_COUNT))  # those that no launch has
        self._limits: list[Limit] = []
        self._limiting = threading.Lock()
        self._slots = deque(range(SLOTS))
        self._answers: dict[int, _Answer] = {}
        self._numbers = itertools.count(1)
        self._sending = threading.Lock()
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._socket.send(marshal.dumps((device.ordinal, device.uuid)))
        self._thread = threading.Thread(target=self._serve, name=f"kaio worker of {self._who}", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:  # Python ends, or the system has no more threads
            self.process.kill()
            self.process.wait()
            self.close()
            raise

    # Saying.

    def send(self, packet: bytes) -> None:
        """Send work. To a worker that has ended nothing is sent: the work fails as what it had does."""
        with suppress(OSError):
            self._socket.send(packet)

    def tell(self, name: str, *arguments: Any) -> None:
        """Ask for something that is no work and needs no answer."""
        self._request(0, name, arguments)

    def ask(self, name: str, *arguments: Any) -> Any:
        """Ask and wait for the answer; raises Refused or Lost."""
        number, answer = next(self._numbers), _Answer()
        self._answers[number] = answer
        self._request(number, name, arguments)
        if self.is_lost:  # the thread may have looked at the answers already
            answer.arrived.set()
        answer.arrived.wait()
        if answer.is_good:
            return answer.value
        if answer.value is None:
            raise Lost
        raise Refused(answer.value)

    def tell_then(self, name: str, arguments: tuple[Any, ...], then: Callable[[], object]) -> None:
        """Ask without waiting; `then` is called once it is done, or the worker is gone."""
        number = next(self._numbers)
        self._answers[number] = _Answer(then)
        self._request(number, name, arguments)
        if self.gone.is_set():
            self._call_left()

    def _call_left(self) -> None:
        for number in list(self._answers):
            answer = self._answers.pop(number, None)
            if answer is not None and answer.then is not None:
                answer.then()

    def _request(self, number: int, name: str, arguments: tuple[Any, ...]) -> None:
        data, room = marshal.dumps((number, name, arguments)), MESSAGE_NBYTES - 1
        with self._sending, suppress(OSError):
            while len(data) > room:
                self._socket.send(bytes([Op.PART]) + data[:room])
                data = data[room:]
            self._socket.send(bytes([Op.REQUEST]) + data)

    # Streams.

    def take_slot(self) -> int | None:
        """A slot for a new stream, None if there are too many."""
        try:
            slot = self._slots.popleft()
        except IndexError:
            return None
        self.lines[slot] = deque()
        return slot

    def give_slot(self, slot: int) -> None:
        """The stream that had it has ended."""
        del self.lines[slot]
        self._slots.append(slot)

    def first_pending(self) -> list[Pending]:
        """The work that may have been running: the first of each stream that is not done, and waits for nobody."""
        found = []
        for slot, line in list(self.lines.items()):
            first = next((pending for pending in list(line) if pending.number > self.words[slot]), None)
            if first is not None and self.is_free(first):
                found.append(first)
        return found

    def is_free(self, pending: Pending) -> bool:
        """Whether all is done that some work waits for."""
        return all(self.words[slot] >= number for slot, number in pending.waits)

    # Hearing.

    def limit(self, limit: Limit) -> None:
        """Look after a time limit."""
        with self._limiting:
            self._limits.append(limit)
            if self._wake >= 0:
                os.eventfd_write(self._wake, 1)

    def _serve(self) -> None:
        try:
            self._hear()
        except Exception:
            _log.exception("the thread that hears the worker of %s failed", self._who)
        self.is_lost = True
        for answer in list(self._answers.values()):
            answer.arrived.set()
        self._device.replace(self)

    def _hear(self) -> None:
        assert self.process.stderr is not None
        errors = self.process.stderr.fileno()
        poll, started = select.poll(), time.monotonic()
        for descriptor in (self._socket.fileno(), errors, self._wake):
            poll.register(descriptor, select.POLLIN)
        text = b""
        while True:
            pause = 1.0 if self.problem is None else None
            with self._limiting:
                pause = min((limit.pause_s for limit in self._limits), default=pause)
            ready = {descriptor for descriptor, _ in poll.poll(None if pause is None else max(1, int(pause * 1e3)))}
            if self._wake in ready:
                os.eventfd_read(self._wake)
            if errors in ready:
                found = os.read(errors, 1 << 16)
                if not found:
                    poll.unregister(errors)
                text = self._log(text + found, is_all=not found)
            if self._socket.fileno() in ready and not self._take():
                self._log(text + _rest(errors), is_all=True)
                return
            self._check_limits()
            if self.problem is None and time.monotonic() - started > _START_S:
                self.problem = f"it was not ready after {_START_S:g} s"
                self.process.kill()

    def _log(self, text: bytes, is_all: bool) -> bytes:
        """Log what a worker writes, line by line; gives the rest of the last line."""
        *lines, rest = text.split(b"\n")
        if is_all:
            lines, rest = [*lines, rest], b""
        for line in lines:
            if line.strip():
                _log.warning("worker of %s: %s", self._who, line.decode(errors="replace"))
        return rest

    def _take(self) -> bool:
        """Hear all that was told; False at the end."""
        while True:
            try:
                packet = self._socket.recv(MESSAGE_NBYTES, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return True
            except ConnectionResetError:  # what was sent to it was left unread; what it had said comes all the same
                continue
            if not packet:
                return False
            self._heard(*marshal.loads(packet))

    def _heard(self, what: str, *told: Any) -> None:
        match what:
            case Told.ANSWER:
                answer = self._answers.pop(told[0], None)
                if answer is not None:
                    answer.is_good, answer.value = told[1:]
                    answer.arrived.set()
                    if answer.then is not None:
                        answer.then()
            case Told.REFUSED:
                slot, number, code = told
                self.refused[slot, number] = self._failed(slot, number, code)
                self.refusals += 1
            case Told.TIMED:
                slot, number, elapsed_ms = told
                self.times[slot, number] = elapsed_ms
            case Told.FAULT:
                self.code = told[0]
            case Told.READY:
                self.problem = told[0]
                self.ready.set()

    def _failed(self, slot: int, number: int, code: int) -> Failure:
        """Work that the driver did not take."""
        pending = next((pending for pending in list(self.lines.get(slot, ())) if pending.number == number), None)
        return self._device.refused(self.streams.get(slot), None if pending is None else pending.kernel, code)

    @property
    def is_heard(self) -> bool:
        """Whether all that was refused so far was heard."""
        return bool(self.words[REFUSALS] == self.refusals)

    def _check_limits(self) -> None:
        if self._limits and self.stopped is None:
            with self._limiting:
                self._limits = [limit for limit in self._limits if not limit.is_over(self)]
                self.stopped = next((limit for limit in self._limits if limit.is_exceeded), None)
            if self.stopped is not None:
                self.process.kill()

    # Its end.

    def end(self) -> bool:
        """Wait until it is gone with all that it had on the GPU; it is killed if it does not go. False if it stays."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(_LEAVE_S)
        self.process.kill()
        try:
            self.process.wait(_END_S)
        except subprocess.TimeoutExpired:
            return False
        self.gone.set()
        self._call_left()
        return True

    def close(self) -> None:
        """Give back what belongs to the system."""
        self._socket.close()
        with self._limiting:
            if self._wake >= 0:
                os.close(self._wake)
                self._wake = -1
        if self.process.stderr is not None:
            self.process.stderr.close()

    def leave(self) -> None:
        """At exit: let it end, and see that it does."""
        self.is_leaving = True
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
        self.end()
        self._thread.join(_LEAVE_S)

    def forget(self) -> None:
        """In a forked child: the worker is the parent's."""
        self._sending, self._limiting = threading.Lock(), threading.Lock()  # who held them stayed in the parent
        self.is_lost, self.process.returncode = True, 0
        self.close()

    def last_words(self) -> str:
        """How the process ended."""
        code = self.process.returncode
        if code is None:
            return "does not end"
        if code >= 0:
            return f"ended with exit code {code}"
        with suppress(ValueError):
            return f"was ended by {signal.Signals(-code).name}"
        return f"was ended by signal {-code}"


def _rest(descriptor: int) -> bytes:
    """What is left to be read, without waiting for more."""
    found = b""
    while select.select([descriptor], [], [], 0)[0]:
        more = os.read(descriptor, 1 << 16)
        if not more:
            break
        found += more
    return found
