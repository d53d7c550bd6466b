"""Programs loaded on a GPU, and what the driver takes to launch them."""

from __future__ import annotations

import ctypes
import struct
import weakref
from typing import TYPE_CHECKING, Any

from kaio.runtime.completion import Completion
from kaio.runtime.cuda.completion import CudaCompletion, Repeated
from kaio.runtime.cuda.driver import done, driver

if TYPE_CHECKING:
    from kaio.runtime.cuda.stream import CudaStream
    from kaio.runtime.cuda.thunk import Call
    from kaio.runtime.stream import Launch

__all__ = [
    "ArgumentBlock", "CudaLoaded", "CudaPrepared", "PlainPrepared", "launch_kernel", "launch_together", "with_room",
]  # fmt: skip

launch_kernel = driver.cuLaunchKernel
launch_together = driver.cuLaunchKernelEx

_SAME_SHARED = driver.CUoccupancyB2DSize(0)  # the bytes of dynamic shared memory do not depend on the block
_ref, _new = weakref.ref, object.__new__


class CudaLoaded:
    """A program in a context, with what the driver says about it."""

    __slots__ = (
        "dynamic_nbytes",
        "function",
        "max_threads",
        "module",
        "name",
        "program",
        "registers",
        "shared_nbytes",
        "state_at",
    )

    def __init__(self, program: Any) -> None:
        self.program, self.name = program, program.name
        # Where its argument block has the address of a state (`kaio/fault_abi.py`); None of a program without checks.
        self.state_at = -(-program.block.size // 8) * 8 if program.sites else None
        self.module = done(driver.cuModuleLoadData(program.cubin))
        self.function = done(driver.cuModuleGetFunction(self.module, program.name.encode()))
        attribute = driver.CUfunction_attribute
        self.max_threads: int | None = self._ask(attribute.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)
        self.registers = self._ask(attribute.CU_FUNC_ATTRIBUTE_NUM_REGS)
        self.shared_nbytes = self._ask(attribute.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)
        self.dynamic_nbytes = self._ask(attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)

    def _ask(self, attribute: Any) -> int:
        return int(done(driver.cuFuncGetAttribute(attribute, self.function)))

    def resident_blocks(self, device: Any, threads: int, shared_nbytes: int) -> int:
        """How many blocks of this size one multiprocessor runs at once."""
        ask = driver.cuOccupancyMaxActiveBlocksPerMultiprocessor
        with device.current():
            return int(done(ask(self.function, threads, shared_nbytes)))

    def fullest_block(self, device: Any, shared_nbytes: int, most_threads: int) -> int:
        """The threads of a block with which most threads of a multiprocessor are in use, as the driver reckons."""
        if shared_nbytes > self.dynamic_nbytes:
            device.allow_shared(self, shared_nbytes)
        ask = driver.cuOccupancyMaxPotentialBlockSize
        with device.current():
            _, threads = device.ask(ask(self.function, _SAME_SHARED, shared_nbytes, most_threads))
        return int(threads)

    def allow(self, shared_nbytes: int) -> None:
        """Opt in to more dynamic shared memory than a block has by default."""
        attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        done(driver.cuFuncSetAttribute(self.function, attribute, shared_nbytes))
        self.dynamic_nbytes = shared_nbytes


class ArgumentBlock:
    """A packed argument block where the driver can read it; it copies the bytes while it launches."""

    def __init__(self, capacity: int) -> None:
        self._bytes = ctypes.create_string_buffer(max(capacity, 1))
        self._size, self._nbytes = ctypes.c_size_t(0), 0
        # CU_LAUNCH_PARAM_BUFFER_POINTER, its value, CU_LAUNCH_PARAM_BUFFER_SIZE, its value, CU_LAUNCH_PARAM_END
        self._extra = (ctypes.c_void_p * 5)(1, ctypes.addressof(self._bytes), 2, ctypes.addressof(self._size), None)
        self._view = memoryview(self._bytes).cast("B")
        self._address = ctypes.addressof(self._extra)

    def put_state(self, state: int) -> None:
        """Set the address that a program with checks takes, behind its own arguments (`with_room`)."""
        struct.pack_into("@Q", self._view, self._nbytes - 8, state)

    def put(self, arguments: bytes) -> int:
        """Fill in the bytes; gives what `cuLaunchKernel` takes as `extra`."""
        nbytes = len(arguments)
        if not nbytes:
            return 0
        self._view[:nbytes] = arguments
        if nbytes != self._nbytes:
            self._nbytes = self._size.value = nbytes
        return self._address


class PlainPrepared:
    """A launch made ready that goes the way of every launch."""

    __slots__ = ("_launch", "_stream")

    def __init__(self, stream: CudaStream, launch: Launch) -> None:
        self._stream, self._launch = stream, launch

    def launch(self) -> Completion:
        """Launch it once more."""
        for buffer, _ in self._launch.uses:
            buffer.check_usable()
        return self._stream.launch(self._launch)


class CudaPrepared(PlainPrepared):
    """One with a quick way, whose cost does not grow with its buffers: their memory notes it once (`Repeated`)."""

    __slots__ = ("_acquire", "_arguments", "_call", "_device", "_loaded", "_lock", "_release", "_turn", "_uses")

    def __init__(self, call: Call, stream: CudaStream, launch: Launch) -> None:
        super().__init__(stream, launch)
        self._loaded, self._arguments, self._uses = launch.loaded, launch.arguments, launch.uses
        self._call, self._device, self._lock, self._turn = call, stream.device, stream.device._lock, object()
        self._acquire, self._release = self._lock.acquire, self._lock.release

    def launch(self) -> Completion:
        """Launch it once more."""
        stream = self._stream
        try:  # as `with self._lock`, which takes 0.15 us longer; Ctrl-C may arrive in any of the calls
            self._acquire()
            if self._device.attention or (stream.turn is not self._turn and not self._take_turn()):
                work: Any = super().launch()
            else:
                work = _new(CudaCompletion)
                work.stream, work._loaded = stream, self._loaded
                last = stream.last()
                if last is not None:
                    last._mark()
                code = self._call(self._arguments)
                if code:
                    stream._refused(code, self._call, (self._arguments,), self._loaded)
                stream.last = _ref(work)
                stream.recent[self._loaded] = None
        except BaseException:
            if self._lock._is_owned():  # type: ignore[attr-defined]
                self._release()
            raise
        self._release()
        return work  # type: ignore[no-any-return]

    def _take_turn(self) -> bool:
        """Note the launches to come in the buffers; False where one has been used elsewhere. The lock is held."""
        stream = self._stream
        for buffer, _ in self._uses:
            memory = buffer.memory
            if memory.stream is not stream:
                return False
            if memory.writer is not None and memory.writer._error is not None:
                buffer.check_usable()
        work = Repeated(stream)
        work._loaded, work.token = self._loaded, object()
        for buffer, access in self._uses:
            memory = buffer.memory
            if access == "In":
                memory.readers[stream] = work
            else:
                memory.writer = work
                if memory.readers:
                    memory.readers = {}
        stream.take_turn(work)
        self._turn = work.token
        return True


def with_room(arguments: bytes, loaded: CudaLoaded) -> bytes:
    """The arguments of a program with checks, with room for the address of a state."""
    assert loaded.state_at is not None
    return arguments + bytes(loaded.state_at + 8 - len(arguments))
