"""Programs loaded on a GPU, and what the driver takes to launch them."""

from __future__ import annotations

import ctypes
import struct
from typing import TYPE_CHECKING, Any

from kaio.runtime.completion import Completion
from kaio.runtime.cuda.calls import call_together
from kaio.runtime.cuda.driver import done, driver
from kaio.runtime.stream import Dims, Together, Uses

if TYPE_CHECKING:
    from kaio.runtime.cuda.stream import CudaStream

__all__ = [
    "ArgumentBlock", "CheckedPrepared", "CudaLoaded", "CudaPrepared", "launch_kernel", "launch_together", "with_room",
]  # fmt: skip

launch_kernel = driver.cuLaunchKernel
launch_together = driver.cuLaunchKernelEx


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


class CudaPrepared:
    """A launch of a GPU made ready."""

    __slots__ = (
        "_arguments",
        "_block",
        "_empty",
        "_function",
        "_launch",
        "_loaded",
        "_lock",
        "_stream",
        "_submit",
        "_timed",
        "_uses",
    )

    def __init__(
        self,
        stream: CudaStream,
        loaded: CudaLoaded,
        grid: Dims,
        block: Dims,
        arguments: bytes,
        uses: Uses,
        shared_nbytes: int,
        timed: bool,
        together: Together | None,
    ) -> None:
        self._block = ArgumentBlock(len(arguments))
        extra = self._block.put(arguments)
        self._function: Any = launch_kernel
        self._arguments: tuple[Any, ...] = (loaded.function, *grid, *block, shared_nbytes, stream.raw, 0, extra)
        if together is not None:
            self._function = launch_together
            self._arguments = call_together(
                loaded.function, grid, block, shared_nbytes, stream.raw, extra, together
            )  # fmt: skip
        self._stream, self._loaded, self._uses, self._timed = stream, loaded, uses, timed
        self._launch = loaded, grid, block, arguments, uses, shared_nbytes, timed, together
        self._empty = 0 in grid
        self._submit, self._lock = stream.submit, stream.device._lock

    def launch(self) -> Completion:
        """Launch it once more."""
        if self._empty:
            return Completion.completed(self._stream)
        if self._stream.device.recordings:
            return self._stream.launch(*self._launch)
        with self._lock:
            return self._submit(self._function, self._arguments, self._uses, self._loaded, self._timed)


class CheckedPrepared(CudaPrepared):
    """The same of a program with checks."""

    __slots__ = ("_dims",)

    def __init__(
        self, stream: CudaStream, loaded: CudaLoaded, grid: Dims, block: Dims, arguments: bytes, *rest: Any
    ) -> None:
        super().__init__(stream, loaded, grid, block, with_room(arguments, loaded), *rest)
        self._launch = loaded, grid, block, arguments, *rest
        self._dims = grid, block

    def launch(self) -> Completion:
        """Launch it once more, with a record of its own."""
        if self._empty:
            return Completion.completed(self._stream)
        if self._stream.device.recordings:
            return self._stream.launch(*self._launch)
        self._stream.device.make_room()
        with self._lock:
            record = self._stream.device.records.take()
            self._block.put_state(record.state)
            call = self._function, self._arguments, self._uses, self._loaded, self._timed
            return self._stream.submit_checked(record, self._dims, call)


def with_room(arguments: bytes, loaded: CudaLoaded) -> bytes:
    """The arguments of a program with checks, with room for the address of a state."""
    assert loaded.state_at is not None
    return arguments + bytes(loaded.state_at + 8 - len(arguments))
