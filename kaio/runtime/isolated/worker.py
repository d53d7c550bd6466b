"""The worker: a process that runs kernels on memory of another one, and ends with it, or with a fault.

It lives for one context. Whatever leaves that unusable is told, and the process ends at once: only that gets rid of the
context, and of a kernel that still runs. What goes wrong otherwise is told of the work or the request that it was.
"""

from __future__ import annotations

import faulthandler
import marshal
import os
import select
import signal
import socket
import sys
import threading
import time
from typing import Any, Never

from kaio.runtime.cuda.calls import copy_rows, memsets
from kaio.runtime.cuda.driver import DriverError, done, driver, is_sticky, start
from kaio.runtime.isolated.lanes import Lane, Lanes
from kaio.runtime.isolated.opened import Opened
from kaio.runtime.isolated.programs import Prepared, Programs
from kaio.runtime.isolated.protocol import (
    COPY,
    LAUNCH,
    MESSAGE_NBYTES,
    NO_RECORD,
    REFUSALS,
    ROWS,
    RUN,
    SET,
    TIMED,
    WAIT,
    Op,
    Told,
)
from kaio.runtime.isolated.shared import Shared

__all__ = ["Worker", "main"]

_LIVELY_S = 100e-6  # after a message the next one is looked for in a loop: to be woken up takes longer than a launch
_LOOK_S, _LOOK_TIMED_S = 1e-3, 100e-6  # how often a fault is looked for, and work whose time is to be told
_BAD_ADDRESS = int(driver.CUresult.CUDA_ERROR_INVALID_VALUE)


class Worker:
    """One context of a GPU, and what serves it."""

    def __init__(self, link: socket.socket, shared: Shared, ordinal: int, uuid: bytes) -> None:
        self._link, self._shared = link, shared
        start()
        context = done(driver.cuDevicePrimaryCtxRetain(_find(ordinal, uuid)))
        done(driver.cuCtxSetCurrent(context))
        flags = driver.CU_MEMHOSTREGISTER_PORTABLE | driver.CU_MEMHOSTREGISTER_DEVICEMAP
        done(driver.cuMemHostRegister(shared.address, shared.nbytes, flags))
        base = int(done(driver.cuMemHostGetDevicePointer(shared.address, 0)))
        self.lanes, self.opened = Lanes(shared, base), Opened()
        self.programs = Programs(self.opened, base)
        self._parts = bytearray()
        self._requests: dict[str, Any] = {
            "stream": self.lanes.open,
            "end_stream": self.lanes.close,
            "open": self.opened.open,
            "close": self.opened.close,
            "load": self.programs.load,
            "allow": self.programs.allow,
            "resident_blocks": self.programs.resident_blocks,
            "prepare": self._prepare,
            "forget": self.programs.forget,
            "clear": self.programs.clear,
            "look": lambda: None,
        }

    def serve(self) -> None:
        """Do what is asked for until the other end is closed."""
        packet = bytearray(MESSAGE_NBYTES)
        view = memoryview(packet)
        receive, clock = self._link.recv_into, time.perf_counter
        lively_until = 0.0
        nbytes = 1
        while nbytes:
            try:
                nbytes = receive(packet, 0, socket.MSG_DONTWAIT)
            except BlockingIOError:
                if clock() >= lively_until:
                    self._rest()
                continue
            if nbytes:
                self._do(view[:nbytes])
            lively_until = clock() + _LIVELY_S

    def _rest(self) -> None:
        """Wait for the next message; while work is under way, no longer than until the next look at it."""
        lane, pause = self.lanes.first_busy(), None
        if lane is not None:
            self._look(lane)
            pause = _LOOK_S
        if self.lanes.tell_times(lambda *time: self._tell(Told.TIMED, *time)):
            pause = _LOOK_TIMED_S
        select.select([self._link], [], [], pause)

    def _look(self, lane: Lane) -> None:
        code = driver.cuStreamQuery(lane.raw)[0]
        if is_sticky(code):
            self._end(int(code))

    def _tell(self, *words: Any) -> None:
        self._link.send(marshal.dumps(words))

    def _end(self, code: int) -> Never:
        """A fault: tell it, and be gone."""
        self._tell(Told.FAULT, code)
        os._exit(0)

    # Work.

    def _do(self, packet: memoryview) -> None:
        op = packet[0]
        if op == Op.LAUNCH:
            message = LAUNCH.unpack_from(packet)
            self._work(message, self._launch, packet, message)
        elif op == Op.RUN:
            run = RUN.unpack_from(packet)
            self._work(run, self._run, run[3], run[5])
        elif op == Op.COPY:
            copy = COPY.unpack_from(packet)
            self._work(copy, self._copy, packet[COPY.size :])
        elif op == Op.SET:
            fill = SET.unpack_from(packet)
            self._work(fill, self._set, *fill[5:], bytes(packet[SET.size :]))
        elif op == Op.REQUEST:
            number, name, arguments = marshal.loads(bytes(self._parts) + packet[1:] if self._parts else packet[1:])
            self._parts.clear()
            self._serve_request(number, name, arguments)
        elif op == Op.PART:
            self._parts += packet[1:]
        else:
            self._wait(packet)

    def _work(self, header: tuple[Any, ...], function: Any, *arguments: Any) -> None:
        """Put work on its stream, and the count behind it, refused or not."""
        _, flags, slot, _, number = header[:5]
        lane = self.lanes[slot]
        begun = self.lanes.start_timing(lane) if flags & TIMED else None
        try:
            code = int(function(lane, *arguments))
        except LookupError as problem:
            print(problem, file=sys.stderr)  # noqa: T201 - is logged by the parent
            code = _BAD_ADDRESS
        if code:
            self._refuse(slot, number, code)
        if flags & TIMED:
            self.lanes.end_timing(lane, number, begun)
        code = self.lanes.mark(lane, number)
        if code:
            self._refuse(slot, number, code)

    def _refuse(self, slot: int, number: int, code: int) -> None:
        if is_sticky(code):
            self._end(code)
        self._shared.words[REFUSALS] += 1  # before the work counts as done: who sees that waits for what is told
        self._tell(Told.REFUSED, slot, number, code)

    def _launch(self, lane: Lane, packet: memoryview, message: tuple[Any, ...]) -> int:
        return self._start(self.programs.made(packet, message, lane.raw), message[-1])

    def _run(self, lane: Lane, number: int, record: int) -> int:
        return self._start(self.programs.prepared(number), record)

    def _start(self, launch: Prepared, record: int) -> int:
        if record != NO_RECORD:
            self.programs.lend(launch, record)
        return launch.function(*launch.arguments)[0]  # type: ignore[no-any-return]

    def _copy(self, lane: Lane, pieces: memoryview) -> int:
        here = self.opened.here
        for target, source, *rest in ROWS.iter_unpack(pieces):
            function, arguments = copy_rows(here(target), here(source), *rest)
            code = function(*arguments, lane.raw)[0]
            if code:
                return code  # type: ignore[no-any-return]
        return 0

    def _set(self, lane: Lane, target: int, count: int, pattern: bytes) -> int:
        for function, arguments in memsets(self.opened.here(target), pattern, count):
            code = function(*arguments, lane.raw)[0]
            if code:
                return code  # type: ignore[no-any-return]
        return 0

    def _wait(self, packet: memoryview) -> None:
        """Let a stream wait for the work of another one."""
        _, _, slot, other, number = WAIT.unpack_from(packet)
        code = self.lanes.wait(self.lanes[slot], self.lanes[other], number)
        if code:
            if is_sticky(code):
                self._end(code)
            raise DriverError(driver.CUresult(code))  # what cannot be kept in order is not gone on with

    # Requests.

    def _prepare(self, number: int, slot: int, packet: bytes) -> None:
        self.programs.prepare(number, packet, self.lanes[slot].raw)

    def _serve_request(self, number: int, name: str, arguments: tuple[Any, ...]) -> None:
        try:
            value = self._requests[name](*arguments)
        except DriverError as problem:
            if is_sticky(problem.code):
                self._end(problem.code)
            if not number:
                raise  # nobody would learn of it
            self._tell(Told.ANSWER, number, False, problem.code)
        else:
            if number:
                self._tell(Told.ANSWER, number, True, value)


def _find(ordinal: int, uuid: bytes) -> Any:
    """The GPU that the parent means: what it sees may have changed in the environment since it started the driver."""
    count = int(done(driver.cuDeviceGetCount()))
    for number in (ordinal, *range(count)):
        if number < count:
            handle = done(driver.cuDeviceGet(number))
            if bytes(done(driver.cuDeviceGetUuid(handle)).bytes) == uuid:
                return handle
    raise RuntimeError(f"the worker does not see GPU {ordinal} of the process that started it")


def _end_with(parent: int) -> None:
    """End when the parent does, however it ends; forked children of it may keep the socket open."""
    try:
        descriptor = os.pidfd_open(parent)
    except OSError:  # the system has no such thing, or the process is gone
        while os.getppid() == parent:
            time.sleep(0.5)
    else:
        if os.getppid() == parent:
            select.select([descriptor], [], [])
    os._exit(0)


def main() -> None:
    """Serve the process that started this one, with what it passed."""
    descriptor, shared, nbytes, parent = map(int, sys.argv[1:5])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent
    faulthandler.enable()
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    link = socket.socket(fileno=descriptor)
    ordinal, uuid = marshal.loads(link.recv(MESSAGE_NBYTES))
    try:
        worker = Worker(link, Shared(nbytes, shared), ordinal, uuid)
    except Exception as problem:
        link.send(marshal.dumps((Told.READY, str(problem))))
        os._exit(1)
    link.send(marshal.dumps((Told.READY, "")))
    worker.serve()
    os._exit(0)  # at once: to take a context down in order takes long, and nobody needs it any more
