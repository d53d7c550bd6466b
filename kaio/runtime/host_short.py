"""Launches so short that they are run where they are launched: no thread is woken, and the interpreter's lock is kept.

What a worker needs is made ready once for each geometry, and copied into place for each launch.
"""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Callable
from typing import Any

from kaio import host_abi as abi
from kaio.runtime.stream import Dims

__all__ = ["MOST_STATEMENTS", "ShortLaunch", "ShortLaunches"]

MOST_STATEMENTS = 1 << 15
"""Of all threads of a short launch together: some 20 us. A thread that has loops is never short."""

_MOST_GEOMETRIES = 16  # each has memory of its own


class ShortLaunch:
    """One launch made ready: who takes it runs it, and gives it back."""

    __slots__ = (
        "_address", "_arguments", "_before", "_call", "_check", "_context", "_counter", "_fault", "_kept", "_raise",
    )  # fmt: skip

    def __init__(
        self,
        call: Callable[[int], object],
        record: Any,
        counter: Any,
        arguments: Any,
        raise_fault: Callable[[], object],
        check: Callable[[], object],
    ) -> None:
        self._call, self._address, self._raise, self._check = call, record.worker.address, raise_fault, check
        self._kept = record, counter, arguments
        self._arguments = arguments.view
        # What a launch changes, as it is before one.
        self._context, self._counter = record.context.view[: abi.CONTEXT_NBYTES], counter.view
        self._before = bytes(self._context), bytes(self._counter)
        self._fault = ctypes.c_int32.from_address(record.context.address + abi.FAULT)

    def run(self, arguments: bytes) -> None:
        """Run all blocks; raises the first fault as `HostKernel.run` does."""
        self._check()
        self._context[:], self._counter[:] = self._before
        self._arguments[: len(arguments)] = arguments
        self._call(self._address)
        if self._fault.value:
            self._raise()


Free = deque[ShortLaunch]


class ShortLaunches:
    """The launches of one loaded program that are made ready, by grid, block and bytes of shared memory."""

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel
        self._free: dict[tuple[Dims, Dims, int], Free | None] = {}

    def find(self, grid: Dims, block: Dims, shared_nbytes: int) -> Free | None:
        """Those that nobody has, for `run`; None where such a launch is not short."""
        key = grid, block, shared_nbytes
        try:
            return self._free[key]
        except KeyError:
            if len(self._free) >= _MOST_GEOMETRIES:
                self._free.clear()
            free: Free | None = deque() if self._kernel.is_short(grid, block) else None
            return self._free.setdefault(key, free)

    def run(self, free: Free, grid: Dims, block: Dims, arguments: bytes, shared_nbytes: int, workers: Any) -> None:
        """Run a launch of those that `find` gave, in this thread, which keeps the interpreter's lock."""
        try:
            launch = free.pop()
        except IndexError:
            launch = self._kernel.make_short(grid, block, shared_nbytes, workers)
        launch.run(arguments)
        free.append(launch)
