"""Programs that a worker has loaded, and the argument blocks that it launches them with."""

from __future__ import annotations

import ctypes
import struct
from typing import Any, NamedTuple

from kaio import fault_abi as abi
from kaio.runtime.cuda.calls import call_together
from kaio.runtime.cuda.driver import done, driver
from kaio.runtime.isolated.opened import Opened
from kaio.runtime.isolated.protocol import CHECKED, LAUNCH, PRINTS, RECORD_COUNT, RECORD_NBYTES, RECORDS, TOGETHER

__all__ = ["Block", "Loaded", "Prepared", "Programs"]

_POINTER = struct.Struct("@Q")
_ONE_BY_ONE = (1, 1, 1)


class _Together(NamedTuple):
    """As `kaio.runtime.stream.Together`, which is not to be imported here."""

    cooperative: bool
    cluster: tuple[int, int, int]


class Loaded:
    """A program in the context. `pointers` are the places in its argument block of addresses of the parent."""

    __slots__ = ("function", "module", "pointers", "state_at")

    def __init__(self, name: str, cubin: bytes, pointers: tuple[int, ...], state_at: int | None) -> None:
        self.module = done(driver.cuModuleLoadData(cubin))
        self.function = done(driver.cuModuleGetFunction(self.module, name.encode()))
        self.pointers, self.state_at = pointers, state_at

    def facts(self) -> tuple[int, ...]:
        """Most threads of a block, registers of a thread, static and dynamic shared memory."""
        attribute = driver.CUfunction_attribute
        return tuple(
            int(done(driver.cuFuncGetAttribute(one, self.function)))
            for one in (
                attribute.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
                attribute.CU_FUNC_ATTRIBUTE_NUM_REGS,
                attribute.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES,
                attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
            )
        )


class Block:
    """An argument block where the driver reads it, with addresses of this process."""

    def __init__(self, capacity: int) -> None:
        self._bytes = ctypes.create_string_buffer(max(capacity, 1))
        self._nbytes = ctypes.c_size_t(0)
        # CU_LAUNCH_PARAM_BUFFER_POINTER, its value, CU_LAUNCH_PARAM_BUFFER_SIZE, its value, CU_LAUNCH_PARAM_END
        self._extra = (ctypes.c_void_p * 5)(1, ctypes.addressof(self._bytes), 2, ctypes.addressof(self._nbytes), None)
        self._view = memoryview(self._bytes).cast("B")
        self._address = ctypes.addressof(self._extra)

    def put(self, arguments: memoryview, loaded: Loaded, opened: Opened) -> int:
        """Fill in arguments of the parent; gives what the driver takes as `extra`."""
        nbytes = len(arguments)
        self._view[:nbytes] = arguments
        for at in loaded.pointers:
            if at < nbytes:
                _POINTER.pack_into(self._view, at, opened.here(*_POINTER.unpack_from(self._view, at)))
        if loaded.state_at is not None:
            nbytes = loaded.state_at + 8
        self._nbytes.value = nbytes
        return self._address if nbytes else 0

    def put_state(self, loaded: Loaded, state: int) -> None:
        """Say where the launch leaves what its checks find."""
        assert loaded.state_at is not None
        _POINTER.pack_into(self._view, loaded.state_at, state)


class Prepared:
    """A launch that is made ready."""

    __slots__ = ("arguments", "block", "flags", "function", "loaded")

    def __init__(self, loaded: Loaded, block: Block, extra: int, message: tuple[Any, ...], raw: Any) -> None:
        _, flags, _, _, _, gx, gy, gz, bx, by, bz, shared_nbytes, cx, cy, cz, _ = message
        self.loaded, self.block, self.flags = loaded, block, flags
        cluster = cx, cy, cz
        if flags & TOGETHER or cluster != _ONE_BY_ONE:
            self.function: Any = driver.cuLaunchKernelEx
            many: Any = _Together(bool(flags & TOGETHER), cluster)
            grid, block_dims = (gx, gy, gz), (bx, by, bz)
            self.arguments: tuple[Any, ...] = call_together(
                loaded.function, grid, block_dims, shared_nbytes, raw, extra, many
            )
        else:
            self.function = driver.cuLaunchKernel
            self.arguments = loaded.function, gx, gy, gz, bx, by, bz, shared_nbytes, raw, 0, extra


class Programs:
    """What a worker has loaded and made ready, by the parent's numbers. `base`: where the GPU sees shared memory."""

    def __init__(self, opened: Opened, base: int) -> None:
        self._opened, self._base = opened, base
        self._loaded: dict[int, Loaded] = {}
        self._prepared: dict[int, Prepared] = {}
        self._scratch = Block(LAUNCH.size + (1 << 15))
        self._states = 0
        self._copies: Any = None

    def load(
        self, number: int, name: str, cubin: bytes, pointers: tuple[int, ...], state_at: int | None,
        binding: bytes | None, shared_nbytes: int,
    ) -> tuple[int, ...]:  # fmt: skip
        """Load a program; `binding` is what goes into the variable through which it prints."""
        self._loaded[number] = loaded = Loaded(name, cubin, pointers, state_at)
        if state_at is not None and not self._states:
            self._make_states()
        if binding is not None:
            counters = self._opened.here(_POINTER.unpack_from(binding, 8)[0])
            pointer, _ = done(driver.cuModuleGetGlobal(loaded.module, b"kaio_print"))
            self._upload(int(pointer), struct.pack("@QQ", self._base + PRINTS, counters) + binding[16:])
        facts = loaded.facts()
        if shared_nbytes > facts[3]:
            self.allow(number, shared_nbytes)
        return facts

    def allow(self, number: int, shared_nbytes: int) -> None:
        """Let a program have this much dynamic shared memory."""
        attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        done(driver.cuFuncSetAttribute(self._loaded[number].function, attribute, shared_nbytes))

    def resident_blocks(self, number: int, threads: int, shared_nbytes: int) -> int:
        """How many blocks of this size a multiprocessor runs at once."""
        ask = driver.cuOccupancyMaxActiveBlocksPerMultiprocessor
        return int(done(ask(self._loaded[number].function, threads, shared_nbytes)))

    def made(self, packet: memoryview, message: tuple[Any, ...], raw: Any) -> Prepared:
        """A launch as the message says, in a block that the next one uses again."""
        loaded = self._loaded[message[3]]
        return Prepared(loaded, self._scratch, self._fill(self._scratch, packet, loaded), message, raw)

    def prepare(self, number: int, packet: bytes, raw: Any) -> None:
        """The same, to be launched again and again."""
        message = LAUNCH.unpack_from(packet)
        loaded, block = self._loaded[message[3]], Block(len(packet) + 16)
        extra = self._fill(block, memoryview(packet), loaded)
        self._prepared[number] = Prepared(loaded, block, extra, message, raw)

    def _fill(self, block: Block, packet: memoryview, loaded: Loaded) -> int:
        return block.put(packet[LAUNCH.size :], loaded, self._opened)

    def prepared(self, number: int) -> Prepared:
        """What was prepared under a number."""
        return self._prepared[number]

    def forget(self, number: int) -> None:
        """It is launched no more."""
        del self._prepared[number]

    # What checks find.

    def lend(self, launch: Prepared, record: int) -> None:
        """Give a launch the record with this number."""
        if launch.flags & CHECKED:
            launch.block.put_state(launch.loaded, self._states + record * abi.STATE.size)

    def _make_states(self) -> None:
        self._states = int(done(driver.cuMemAlloc(RECORD_COUNT * abi.STATE.size)))
        self._upload(self._states, b"".join(map(self._fresh, range(RECORD_COUNT))))

    def _fresh(self, record: int) -> bytes:
        return abi.STATE.pack(abi.NO_KEY, 0, 0, self._base + RECORDS + record * RECORD_NBYTES)

    def clear(self, record: int) -> None:
        """Make the state of a record as new. Nobody uses it now."""
        self._upload(self._states + record * abi.STATE.size, self._fresh(record))

    def _upload(self, pointer: int, data: bytes) -> None:
        if self._copies is None:
            flags = driver.CUstream_flags.CU_STREAM_NON_BLOCKING
            self._copies = done(driver.cuStreamCreateWithPriority(flags, 0))
        kept = ctypes.create_string_buffer(data, len(data))
        done(driver.cuMemcpyHtoDAsync(pointer, ctypes.addressof(kept), len(data), self._copies))
        done(driver.cuStreamSynchronize(self._copies))
