"""`DeviceMemory`: how a device allocates, takes memory of others in, counts, limits and gives back."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import numpy as np

from kaio.dtypes import DType, dtype_of
from kaio.errors import KaioError, OutOfMemoryError
from kaio.runtime.accounts import Accounts, DeviceStats, Origin, find_origin, read_limit
from kaio.runtime.buffer import GpuBuffer
from kaio.runtime.conversion import check_unmasked
from kaio.runtime.elsewhere import Shown
from kaio.runtime.foreign import Foreign, read_foreign
from kaio.runtime.host_memory import HostMemory
from kaio.runtime.layout import byte_range, contiguous_strides, overlay, read_shape
from kaio.runtime.memory import Memory, stale

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaio.runtime.completion import Completion
    from kaio.runtime.device import Device
    from kaio.runtime.pinned import PinnedArray

__all__ = ["DeviceMemory", "MemoryInfo"]

T = TypeVar("T")

_MISSING: Any = None
_TOLD = 5  # buffers that an OutOfMemoryError names


class MemoryInfo(NamedTuple):
    """Memory of a device in bytes."""

    free: int
    total: int


class DeviceMemory(metaclass=Shown):
    """The part of `Device` that has to do with memory."""

    _public: frozenset[str] = frozenset()
    generation: int
    fault: KaioError | None  # what a GPU's context failed with; it cannot be used again
    accounts: Accounts
    _lock: threading.RLock

    # What each kind of device provides.

    @property
    def memory(self) -> MemoryInfo:
        """Free and total memory in bytes."""
        raise NotImplementedError

    def _allocate(self, nbytes: int, zero: bool) -> Memory:
        """New memory; `OutOfMemoryError` from `_out_of_memory` if there is none."""
        raise NotImplementedError

    def _allocate_copy(self, host: np.ndarray[Any, Any]) -> Memory:
        """New memory with the bytes of a contiguous host array, ready for any stream."""
        memory = self._allocate(host.nbytes, zero=False)
        if host.nbytes:
            self._upload(memory.pointer, host)
        return memory

    def _release(self, memory: Memory) -> None:
        """Give memory back once the work that uses it is done. Called from finalisers: must take no lock."""
        raise NotImplementedError

    def _upload(self, pointer: int, host: np.ndarray[Any, Any]) -> None:
        """Copy a contiguous host array to `pointer`, and return when that is done."""
        raise NotImplementedError

    def _download(self, host: np.ndarray[Any, Any], pointer: int) -> None:
        """Copy from `pointer` to a contiguous host array, and return when that is done."""
        raise NotImplementedError

    def _pin(self, nbytes: int) -> tuple[int, Any]:
        """Memory of the host, pinned where the device copies from and to it by itself: where it is, what keeps it."""
        made = HostMemory(nbytes)
        return made.address, made

    def copies(self, target: GpuBuffer[Any], source: GpuBuffer[Any] | None) -> bool:
        """Whether a stream of this device copies between these layouts; None: elements that lie side by side."""
        if target.memory.is_host or not target.is_contiguous:
            return False
        return source is None or (source.is_contiguous and not source.memory.is_host)

    def takes_from(self, other: Device) -> bool:
        """Whether copies from that device are work on a stream of this one: `copy_across`."""
        return False

    def copy_across(self, target: GpuBuffer[Any], source: GpuBuffer[Any]) -> Completion:
        """Copy between contiguous buffers of one shape, from a device of which this one takes."""
        raise NotImplementedError

    def _takes(self, foreign: Foreign) -> bool:
        """Whether foreign memory can be used in place."""
        raise NotImplementedError

    def _make_room(self) -> None:
        """There is too little memory: give back all that nobody uses. The lock is not held."""

    def _trim(self, keep_nbytes: int) -> None:
        """Give the system what is kept for later, but for so much."""

    def _limit_changed(self) -> None:
        """The limit of the accounts is another one."""

    def after_close(self) -> None:
        """Memory was closed: a good moment to give it back."""

    def hand_over(self, memory: Memory, stream: int | None) -> None:
        """Let another library, on its stream if it has one, come after the work that writes this memory."""
        if memory.writer is not None:
            memory.writer._block(None)

    def writing_stream(self, memory: Memory) -> int | None:
        """The handle of the stream that another library has to wait for, None if there is nothing to wait for."""
        return None

    def come_after(self, memory: Memory, writes: bool) -> None:
        """The host has waited for kaio's work on memory that it is about to read or write, and goes on."""
        self.wait_foreign(memory)

    def wait_foreign(self, memory: Memory) -> None:
        """Wait until another library that works on this memory is done with it."""

    def check_usable(self) -> None:
        """Raise ContextPoisonedError if a fault has made the device unusable; the CPU device is never."""

    # Allocating.

    def alloc_from(self, array: Any) -> GpuBuffer[Any]:
        """A new buffer with a copy of an array or anything `numpy.asarray` takes; shape and dtype are kept.

        Raises:
            KaioError: for an element type that kaio does not have.
            OutOfMemoryError: the device has no memory left.

        >>> import kaio
        >>> kaio.Device("cpu").alloc_from([[1.0, 2.0]])
        GpuBuffer(f64[1, 2] on cpu)
        """
        if isinstance(array, GpuBuffer):
            array.check_usable()
            copied: GpuBuffer[Any] = self.alloc_empty(array.shape, cast("Any", array.dtype))
            copied.copy_from(array)
            return copied
        self._itself.refuse_recorded(
            "an array of the host cannot be copied",
            "make the buffer before the block, and copy into it before each launch of the graph",
        )
        host = self._host_array(array)
        dtype = dtype_of(host.dtype)
        self.check_usable()
        host = np.ascontiguousarray(host).reshape(host.shape)
        return self._made(
            self._obtain(host.nbytes, lambda: self._allocate_copy(host)), host.shape, dtype, find_origin(2)
        )

    def _host_array(self, array: Any) -> np.ndarray[Any, Any]:
        check_unmasked(array)
        if not isinstance(array, np.ndarray):
            foreign = read_foreign(array, self._itself)
            if foreign is not None and foreign.kind == "cuda":
                return _device_of(foreign).adopt(foreign).to_host()
            if foreign is not None:
                return overlay(foreign.pointer, foreign.shape, foreign.strides, foreign.dtype, keep=foreign.owner)
        try:
            return np.asarray(array)
        except (ValueError, TypeError) as problem:
            raise KaioError(
                f"a {type(array).__name__} is no array ({problem})", help="pass what `numpy.asarray` takes"
            ) from problem

    def alloc_zeros(self, shape: int | Iterable[int], dtype: type[T] = _MISSING) -> GpuBuffer[T]:
        """A new buffer of zeros (False for `bool_`). `shape` is an int or a tuple of ints.

        >>> import kaio
        >>> kaio.Device("cpu").alloc_zeros((2, 2), kaio.i32).to_host().tolist()
        [[0, 0], [0, 0]]
        """
        return self._alloc(shape, dtype, zero=True)

    def alloc_empty(self, shape: int | Iterable[int], dtype: type[T] = _MISSING) -> GpuBuffer[T]:
        """A new buffer of whatever is in memory: write it before you read it."""
        return self._alloc(shape, dtype, zero=False)

    def alloc_pinned(self, shape: int | Iterable[int], dtype: type[Any] = _MISSING) -> PinnedArray:
        """An array of the host, of whatever is in memory, that `copy_from` and `copy_to` do not wait for.

        On a GPU its memory is pinned, so that copies run at the full speed of the bus. See `PinnedArray`.
        """
        if dtype is None:
            raise TypeError(f"alloc_pinned needs an element type too: write `device.alloc_pinned({shape!r}, kaio.f32)`")
        from kaio.runtime.pinned import PinnedArray

        sizes, element = read_shape(shape), dtype_of(dtype)
        nbytes = element.itemsize
        for size in sizes:
            nbytes *= size
        self.check_usable()
        if nbytes > self.memory.total and nbytes >= 1 << 40:
            raise OutOfMemoryError(f"the host has no memory for {nbytes:,} bytes of pinned memory", asked=nbytes)
        return PinnedArray.make(self._itself, *self._pin(nbytes), sizes, element)

    def _alloc(self, shape: Any, dtype: Any, *, zero: bool) -> GpuBuffer[Any]:
        if type(dtype) is not DType:
            if dtype is None:
                name = "alloc_zeros" if zero else "alloc_empty"
                raise TypeError(f"{name} needs an element type too: write `device.{name}({shape!r}, kaio.f32)`")
            dtype = dtype_of(dtype)
        sizes = (shape,) if type(shape) is int and shape >= 0 else read_shape(shape)
        nbytes = dtype.itemsize
        for size in sizes:
            nbytes *= size
        if self.fault is not None:
            self.check_usable()
        if nbytes >= 1 << 63:  # more than can be asked of a driver
            raise self._out_of_memory(nbytes)
        if self.accounts.limit is not None:
            memory = self._obtain(nbytes, partial(self._allocate, nbytes, zero))
        else:
            try:
                memory = self._allocate(nbytes, zero)
            except OutOfMemoryError:
                memory = self._obtain(nbytes, partial(self._allocate, nbytes, zero))
        made = self._made(memory, sizes, dtype, find_origin(3))
        if zero and self._itself.recordings and self._itself.recording() is not None:
            self._itself.current_stream().set(made, bytes(dtype.itemsize))  # each launch of the graph begins with zeros
        return made

    def _obtain(self, nbytes: int, allocate: Callable[[], Memory]) -> Memory:
        """What `allocate` gives; where it finds too little, what nobody uses is given back first."""
        is_below = self.accounts.has_room(nbytes)
        if is_below:
            try:
                return allocate()
            except OutOfMemoryError:
                if nbytes > self.memory.total:
                    raise
        # Without the lock: finalisers of whatever is garbage may run here.
        gc.collect()
        self._check_limit(nbytes)
        if is_below:
            self._make_room()
        return allocate()

    def _check_limit(self, nbytes: int) -> None:
        if not self.accounts.has_room(nbytes):
            raise self._out_of_memory(nbytes)

    def _made(
        self, memory: Memory, shape: tuple[int, ...], dtype: DType, origin: Origin | None = None
    ) -> GpuBuffer[Any]:
        memory.counted, memory.made, memory.origin = True, (dtype, shape), origin
        self.accounts.add(memory)
        itemsize = dtype.itemsize
        strides = (itemsize,) if len(shape) == 1 else contiguous_strides(shape, itemsize)
        return GpuBuffer.make(memory, memory.pointer, shape, strides, dtype)

    def release(self, memory: Memory) -> None:
        """Take memory back that nobody can reach any more; called by `Memory`."""
        if memory.counted:
            self.accounts.remove(memory)
        self._release(memory)

    def _out_of_memory(self, nbytes: int) -> OutOfMemoryError:
        accounts, (free, total) = self.accounts, self.memory
        largest = accounts.largest(_TOLD)
        held = "; ".join(accounts.spelled(memory) for memory in largest)
        if accounts.limit is not None and not accounts.has_room(nbytes):
            total = accounts.limit
            free = min(free, max(0, total - accounts.count()[1]))
            where = f"{free:,} of {total:,} bytes are free below its limit"
            way_out = "close buffers that are not needed any more, or raise it with `device.set_memory_limit(…)`"
        else:
            where = f"{free:,} of {total:,} bytes are free"
            way_out = "close buffers that are not needed any more, or work in parts"
        return OutOfMemoryError(
            f"{self} has no memory for {nbytes:,} bytes: {where}{'; the largest buffers: ' if held else ''}{held}",
            help=way_out,
            asked=nbytes,
            free=free,
            largest=[memory.nbytes for memory in largest],
        )

    def import_array(self, array: Any) -> GpuBuffer[Any]:
        """A buffer over the memory of another library's array, without a copy; both see each other's writes.

        Takes what exchanges through DLPack or the CUDA array interface and lies on this device; on the CPU device
        NumPy arrays too. A read-only array gives a buffer that kernels cannot write.

        Each import is a buffer of its own: order work on two imports of the same memory yourself, for example with
        `wait()`, or import it once and take views of that.

        >>> import numpy as np, kaio
        >>> x = np.zeros(3)
        >>> _ = kaio.Device("cpu").import_array(x).fill(7).wait()
        >>> x
        array([7., 7., 7.])
        """
        if isinstance(array, GpuBuffer) and array.device is self:
            return array.reshape(array.shape)
        check_unmasked(array)
        foreign = read_foreign(array, self._itself)
        if foreign is None:
            raise KaioError(
                f"a value of type `{type(array).__name__}` cannot be imported without a copy",
                help="copy it: `device.alloc_from(…)` takes any array",
            )
        if not self._takes(foreign):
            raise KaioError(
                f"a {type(array).__name__} on {foreign.place} cannot be used in place on {self}",
                help="copy it: `device.alloc_from(…)`",
            )
        return self.adopt(foreign)

    def adopt(self, foreign: Foreign) -> GpuBuffer[Any]:
        """A buffer over foreign memory that lies on this device."""
        self.check_usable()
        dtype = foreign.dtype
        if foreign.pointer % dtype.alignment and 0 not in foreign.shape:  # a GPU would fault
            raise KaioError(
                f"an array of {dtype!r} that begins at no multiple of {dtype.alignment} bytes cannot be used in place",
                help="copy it: `device.alloc_from(…)`",
            )
        start, stop = byte_range(foreign.pointer, foreign.shape, foreign.strides, foreign.dtype.itemsize)
        memory = Memory(
            self._itself, start, stop - start, foreign.owner, read_only=foreign.read_only, foreign_stream=foreign.stream
        )
        return GpuBuffer.make(memory, foreign.pointer, foreign.shape, foreign.strides, foreign.dtype)

    def begin_generation(self, survives: Callable[[Memory], bool] = lambda memory: True) -> int:
        """The device lost its state: begin a new generation, which the memory that `survives` is taken into.

        What was bound to the old one raises StaleBufferError (`check_generation`), buffers over memory that was lost
        too. Nobody may be using the device meanwhile. Gives the new generation.
        """
        with self._lock:
            self.generation += 1
            for memory in self.accounts.live():
                memory.writer, memory.readers, memory.stream = None, {}, None  # whoever used it is gone
                if survives(memory):
                    memory.generation = self.generation
            self._itself.attention = True
            return self.generation

    def check_generation(self, generation: int, what: str) -> None:
        """Raise StaleBufferError if what was bound in this generation is stale; `what` is it in words."""
        if generation != self.generation:
            raise stale(what, generation, self.generation)

    # Counting and limits.

    def set_memory_limit(self, nbytes: int | None) -> None:
        """Let the buffers of this device have `nbytes` together at most; None (the default): as much as there is.

        Asking for more raises OutOfMemoryError. Buffers that are there stay, also where they are more than that. A GPU
        keeps no more than that for the next buffers either.

        >>> import kaio
        >>> device = kaio.Device("cpu", like="sm_80")
        >>> device.set_memory_limit(1000)
        >>> try:
        ...     device.alloc_zeros(1001, kaio.u8)
        ... except kaio.OutOfMemoryError as error:
        ...     print(error)
        cpu (like sm_80) has no memory for 1,001 bytes: 1,000 of 1,000 bytes are free below its limit
          help: close buffers that are not needed any more, or raise it with `device.set_memory_limit(…)`
        >>> device.set_memory_limit(None)
        """
        with self._lock:
            self.accounts.limit = None if nbytes is None else read_limit(nbytes, "nbytes")
            self._limit_changed()

    def trim(self, keep_nbytes: int = 0) -> None:
        """Give memory that no buffer uses back to the system, but for `keep_nbytes`; pinned memory kept for copies too.

        What work in flight uses stays until that is done.
        """
        self._trim(read_limit(keep_nbytes, "keep_nbytes"))

    def stats(self) -> DeviceStats:
        """What kaio holds of this device's memory: the buffers, the most they ever were, what is kept for later."""
        with self._lock:
            return DeviceStats(*self.accounts.count(), *self._pool_counts())

    def _pool_counts(self) -> Iterable[Any]:
        """The other fields of `DeviceStats`. The lock is held."""
        _, nbytes, peak_nbytes = self.accounts.count()
        return nbytes, nbytes, peak_nbytes, 0, self.accounts.limit

    @property
    def _itself(self) -> Device:
        return cast("Device", self)


def _device_of(foreign: Foreign) -> Device:
    from kaio.runtime.device import Device  # which is built on this

    return Device(foreign.place)
