"""`Lending`: memory of this process that a worker opens: the arena's chunks, and arrays of other libraries."""

from __future__ import annotations

from typing import Any

from kaio.errors import KaioError
from kaio.runtime.cuda.device import CudaDevice
from kaio.runtime.cuda.driver import DriverError, done, driver
from kaio.runtime.isolated.arena import Arena, Block, Chunk, chunk_nbytes
from kaio.runtime.isolated.link import Link, Lost, Refused
from kaio.runtime.isolated.opened import handle_bytes
from kaio.runtime.memory import Memory

__all__ = ["Borrowed", "Lending"]

_OUT_OF_MEMORY = driver.CUresult.CUDA_ERROR_OUT_OF_MEMORY


class Borrowed:
    """An allocation of another library that the worker has opened, as often as buffers lie in it."""

    __slots__ = ("count", "handle", "nbytes", "start")

    def __init__(self, start: int, nbytes: int, handle: bytes) -> None:
        self.start, self.nbytes, self.handle = start, nbytes, handle
        self.count = 0


class Lending:
    """What a worker has opened, and each one that follows opens, too. Who uses it holds the lock of the device."""

    def __init__(self, owner: CudaDevice) -> None:
        self._owner, self.arena = owner, Arena()
        self._borrowed: dict[int, Borrowed] = {}
        with owner.current():
            flags = driver.CUstream_flags.CU_STREAM_NON_BLOCKING
            self._stream = owner.ask(driver.cuStreamCreateWithPriority(flags, 0))

    def open_all(self, link: Link) -> None:
        """Let a new worker open everything."""
        for lent in (*self.arena, *self._borrowed.values()):
            link.tell("open", lent.start, lent.nbytes, lent.handle)

    # The arena.

    def take(self, nbytes: int, link: Link) -> Block | None:
        """A block of so many bytes, of a new chunk if need be; None where the driver has no memory left."""
        found = self.arena.take(nbytes)
        if found is None and self._grow(nbytes, link):
            found = self.arena.take(nbytes)
        return found

    def _grow(self, nbytes: int, link: Link) -> bool:
        for is_tight in (False, True):
            size = chunk_nbytes(nbytes, is_tight)
            with self._owner.current():
                answer = driver.cuMemAlloc(size)
                if answer[0] == _OUT_OF_MEMORY:
                    continue
                start = int(self._owner.ask(answer))
                handle = handle_bytes(self._owner.ask(driver.cuIpcGetMemHandle(start)))
            self.arena.add(Chunk(start, size, handle))
            link.tell("open", start, size, handle)
            return True
        return False

    def give(self, owner: Any, link: Link) -> None:
        """Take back what a buffer had, of the arena or of another library."""
        if isinstance(owner, Block):
            self.arena.give(owner)
        elif isinstance(owner, _Part):
            self._return(owner, link)

    def take_empty(self, keep_nbytes: int = 0) -> list[Chunk]:
        """Take chunks out of which nothing is used; `give_back` follows, without the lock."""
        return self.arena.take_empty(keep_nbytes)

    def give_back(self, chunk: Chunk, link: Link) -> None:
        """Give a chunk back to the driver; whoever opened it must have closed it before (cuIpcCloseMemHandle)."""
        try:
            link.ask("close", chunk.start)
        except (Lost, Refused):
            link.gone.wait()
        with self._owner.current():
            self._owner.ask(driver.cuMemFree(chunk.start))

    def zero(self, pointer: int, nbytes: int) -> None:
        """Fill memory with zeros now. Not in the worker: so no fault of what it runs can be in the way."""
        with self._owner.current():
            self._owner.ask(driver.cuMemsetD8Async(pointer, 0, nbytes, self._stream))
            self._owner.ask(driver.cuStreamSynchronize(self._stream))

    def copy(self, target: int, source: int, nbytes: int, to_host: bool) -> None:
        """Copy from or to pinned memory now; all work on it is done."""
        function = driver.cuMemcpyDtoHAsync if to_host else driver.cuMemcpyHtoDAsync
        with self._owner.current():
            self._owner.ask(function(target, source, nbytes, self._stream))
            self._owner.ask(driver.cuStreamSynchronize(self._stream))

    # Other libraries.

    def borrow(self, memory: Memory, owner: Any, link: Link, who: str) -> Any:
        """Let the worker open the allocation that some memory is of; gives what the memory has to keep."""
        if not memory.nbytes or any(chunk.start <= memory.pointer < chunk.start + chunk.nbytes for chunk in self.arena):
            return owner
        try:
            with self._owner.current():
                start, nbytes = done(driver.cuMemGetAddressRange(memory.pointer))
                handle = handle_bytes(done(driver.cuIpcGetMemHandle(memory.pointer)))
        except DriverError as problem:
            raise KaioError(
                f"the memory of another library cannot be used in place on {who}: no other process can open it "
                f"({problem.name})",
                help="copy it: `device.alloc_from(…)`; memory of `cudaMalloc` can be opened, that of a pool cannot",
            ) from problem
        borrowed = self._borrowed.get(int(start))
        if borrowed is None:
            borrowed = self._borrowed[int(start)] = Borrowed(int(start), int(nbytes), handle)
            link.tell("open", borrowed.start, borrowed.nbytes, borrowed.handle)
        borrowed.count += 1
        return _Part(borrowed, owner)

    def _return(self, part: _Part, link: Link) -> None:
        borrowed = part.borrowed
        borrowed.count -= 1
        if borrowed.count:
            part.let_go()
        else:
            del self._borrowed[borrowed.start]
            link.tell_then("close", (borrowed.start,), part.let_go)  # not before may its owner free it


class _Part:
    """What a buffer has of an allocation of another library, and what keeps that alive."""

    __slots__ = ("_owner", "borrowed")

    def __init__(self, borrowed: Borrowed, owner: Any) -> None:
        self.borrowed, self._owner = borrowed, owner

    def let_go(self) -> None:
        """The memory is needed no more."""
        self._owner = None
