"""`GpuBuffer`: elements in the memory of a device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Generic, Never, TypeVar, cast

import numpy as np

from kaio.dtypes import DType, dtype_of
from kaio.errors import BufferClosedError, KaioError
from kaio.runtime import dlpack
from kaio.runtime.completion import Completion
from kaio.runtime.conversion import convert_array, element_bytes
from kaio.runtime.elsewhere import visible
from kaio.runtime.layout import byte_range, is_contiguous, read_sizes, reshaped, sliced, viewed
from kaio.runtime.memory import Memory, closed_memory, stale
from kaio.runtime.no_array import NoArray
from kaio.runtime.transfer import check_out, copy_in, copy_out, read
from kaio.structs import is_laid_out_as

if TYPE_CHECKING:
    from kaio.runtime.device import Device

__all__ = ["GpuBuffer", "usual_form"]

T = TypeVar("T")
_HEALING = "what it left in the buffer is undefined: fill the whole of it with `x.fill(value)`, or make a new one"
_set, _new = object.__setattr__, object.__new__
_MOST_ELEMENTS = 2**31 - 1  # that an i32 counts
_FORMS: dict[tuple[DType, int], tuple[DType, int]] = {}

_PUBLIC = frozenset(
    (
        "astype", "close", "copy", "copy_from", "copy_to", "device", "dtype", "fill", "generation", "is_closed",
        "is_contiguous", "is_empty", "is_read_only", "nbytes", "ndim", "pointer", "reshape", "shape",
        "size", "strides", "to_host", "view",
    )
)  # fmt: skip


class _Layout(NoArray):
    """A buffer while it is made: its attributes can be set, at a tenth of what it costs to get round `__setattr__`."""

    __slots__ = (
        "__weakref__", "_is_view", "device", "dtype", "form", "is_contiguous", "memory", "nbytes", "ndim", "pointer",
        "shape", "size", "strides",
    )  # fmt: skip

    _public: frozenset[str] = frozenset()


class GpuBuffer(_Layout, Generic[T]):
    """Elements of one type in the memory of a device, laid out by shape and strides (in bytes).

    Made by a device: `device.alloc_from(array)`, `alloc_zeros`, `alloc_empty`, `import_array`. Slices and `reshape`
    are views: they share the memory. The memory is given back when the last of them is dropped or the first one is
    closed, and not before the work that uses it is done.

    >>> import numpy as np, kaio
    >>> x = kaio.Device("cpu").alloc_from(np.arange(6, dtype=np.float32).reshape(2, 3))
    >>> x
    GpuBuffer(f32[2, 3] on cpu)
    >>> x[1].to_host()
    array([3., 4., 5.], dtype=float32)
    """

    _public = _PUBLIC
    __slots__ = ()

    memory: Memory
    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: DType
    ndim: int
    size: int
    nbytes: int
    is_contiguous: bool
    form: object  # what `usual_form` gives for a buffer that a launch has nothing to say about
    device: Device
    _is_view: bool

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise TypeError(
            "a GpuBuffer is made by a device: `device.alloc_from(array)` or `device.alloc_zeros(shape, dtype)`"
        )

    @staticmethod
    def make(
        memory: Memory,
        pointer: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        dtype: DType,
        is_view: bool = False,
    ) -> GpuBuffer[Any]:
        """A buffer over memory of a device; for devices and importers."""
        self: Any = _new(_Layout)
        size = 1
        for extent in shape:
            size *= extent
        itemsize = dtype.itemsize
        plain = strides == (itemsize,) or is_contiguous(shape, strides, itemsize)
        self.memory, self.pointer, self.shape, self.strides = memory, pointer, shape, strides
        self.dtype, self.ndim, self.size, self.nbytes = dtype, len(shape), size, size * itemsize
        self.is_contiguous, self.device, self._is_view = plain, memory.device, is_view
        is_usual = plain and size <= _MOST_ELEMENTS and not memory.read_only
        if is_usual and not size:
            is_usual = max(shape) <= _MOST_ELEMENTS
        self.form = usual_form(dtype, len(shape)) if is_usual else None
        self.__class__ = GpuBuffer
        made: GpuBuffer[Any] = self
        return made

    def __setattr__(self, name: str, value: Any) -> None:
        advice = "; write `x.reshape(…)`" if name == "shape" else ""
        raise AttributeError(f"a GpuBuffer does not change: `{name}` cannot be set{advice}")

    # What it is.

    @property
    def generation(self) -> int:
        """Counts up when the device loses its state; work bound to an older generation is stale."""
        return self.memory.generation

    @property
    def is_closed(self) -> bool:
        """True after `close()` of this buffer or of the one it is a view of."""
        return self.memory.closed

    @property
    def is_empty(self) -> bool:
        """True if there are no elements."""
        return self.size == 0

    @property
    def is_read_only(self) -> bool:
        """True over imported memory that its owner does not let be written."""
        return self.memory.read_only

    @property
    def byte_range(self) -> tuple[int, int]:
        """The address of the first byte of its elements and the one after the last."""
        return byte_range(self.pointer, self.shape, self.strides, self.dtype.itemsize)

    def check_usable(self) -> None:
        """Raise what stands against using it: BufferClosedError, or the failure of the work that last wrote it."""
        memory = self.memory
        if memory.closed:
            raise BufferClosedError(f"the {self._spelled()} was closed")
        if memory.generation != self.device.generation:
            raise stale(f"the {self._spelled()}", memory.generation, self.device.generation)
        writer = memory.writer
        if writer is not None and writer._error is not None:
            self._raise_failure(writer)
        if self.device.fault is not None:
            self.device.check_usable()

    def _raise_failure(self, writer: Completion) -> Never:
        """Raise what the last writer failed with; where the device works on, say how the buffer does too."""
        assert writer._error is not None
        notes = getattr(writer._error, "__notes__", ())
        if self.device.fault is None and _HEALING not in notes:
            writer._error.add_note(_HEALING)
        writer._check()
        raise AssertionError  # `_check` has raised

    def _spelled(self) -> str:
        return f"GpuBuffer of {self.dtype!r}[{', '.join(map(str, self.shape))}]"

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a GpuBuffer of no dimensions has no length")
        return self.shape[0]

    def __bool__(self) -> bool:
        raise TypeError("whether a GpuBuffer is true is ambiguous: ask `is_empty`, `is_closed` or `size`")

    def __iter__(self) -> Iterator[Any]:
        raise TypeError("a GpuBuffer is not iterated over element by element: copy it with `to_host()`")

    def __repr__(self) -> str:
        state = ", closed" if self.is_closed else ""
        return f"GpuBuffer({self.dtype!r}[{', '.join(map(str, self.shape))}] on {self.device}{state})"

    def __dir__(self) -> list[str]:
        return visible(super().__dir__(), self._public)

    # To and from the host.

    def to_host(self, out: np.ndarray[Any, Any] | None = None) -> np.ndarray[Any, Any]:
        """A NumPy array with a copy of the elements, after the work that writes them; waits.

        Args:
            out: copy into this array of the same shape and dtype instead, and return it.

        Raises:
            KernelFault: the work that last wrote the buffer failed (or whatever else it failed with).
        """
        self.device.refuse_recorded("a buffer cannot be read", "read it after `graph.launch()`, which waits for that")
        if out is not None:
            check_out(out, self)
        self._wait(writes=False)
        return read(self, out)

    def copy_to(self, out: Any = None) -> Completion:
        """Copy the elements to the host; the completion's result is the array.

        Without `out`, and into a `PinnedArray`, it returns at once: the copy is work on the current stream. Into any
        other NumPy array of the same shape and dtype the copy is done on return.

        >>> import kaio
        >>> kaio.Device("cpu").alloc_from([1, 2]).copy_to().result()
        array([1, 2])
        """
        return copy_out(self, out)

    def copy_from(self, source: Any) -> Completion:
        """Overwrite the elements with those of an array or a buffer of the same shape and dtype.

        From a buffer, or a `PinnedArray`, the copy is work on the current stream; a buffer of another device may be
        waited for. Any other array is copied before this returns: it may be overwritten at once.
        """
        return copy_in(self, source)

    def fill(self, value: Any) -> Completion:
        """Set every element to `value`, which must be one of the dtype; work on the current stream.

        Filling a whole buffer makes it usable again if the work that last wrote it failed, or is still to fail.
        """
        pattern = element_bytes(value, self.dtype)
        self._check_writable()
        memory = self.memory
        with self.device._lock:
            if self.nbytes == memory.nbytes and not memory.closed and not self._is_recorded():
                memory.overwrite()
            self.check_usable()
            if self.is_contiguous:
                return self.device.stream_for(((self, "Out"),)).set(self, pattern)
        full = self.device.alloc_empty(self.shape, cast("type[T]", self.dtype))
        full.device.stream_for(((full, "Out"),)).set(full, pattern)
        return self.copy_from(full)

    def copy(self) -> GpuBuffer[T]:
        """A new contiguous buffer on the same device with the same elements; work on the current stream."""
        self.check_usable()
        new = self.device.alloc_empty(self.shape, cast("type[T]", self.dtype))
        new.copy_from(self)
        return new

    def astype(self, dtype: Any) -> GpuBuffer[Any]:
        """A new buffer with the elements converted as a cast in a kernel does; waits."""
        if dtype is None:
            raise KaioError("`astype` takes a dtype (got None)", help="for example `x.astype(kaio.f32)`")
        return self.device.alloc_from(convert_array(self.to_host(), dtype_of(dtype)))

    def _is_recorded(self) -> bool:
        """Whether what the caller does goes into a graph."""
        return bool(self.device.recordings) and self.device.recording() is not None

    def _wait(self, *, writes: bool) -> None:
        """Wait for the work that the host has to come after."""
        self.check_usable()
        memory = self.memory
        for done in memory.users(writes):
            if not done._finished:
                done._block(None)
        self.check_usable()
        self.device.come_after(memory, writes)

    def _check_writable(self) -> None:
        if self.memory.read_only:
            raise KaioError(f"the {self._spelled()} is over read-only memory", help="write to a copy: `x.copy()`")

    def _check_like(self, source: Any, shape: tuple[int, ...], dtype: DType) -> None:
        if shape != self.shape:
            raise KaioError(
                f"a {self._spelled()} cannot be copied from shape {shape}", help="the shapes must be equal: reshape it"
            )
        if not is_laid_out_as(dtype, self.dtype):
            raise KaioError(
                f"a {self._spelled()} cannot be copied from {dtype!r}",
                help=f"convert it with `.astype(…)` to {self.dtype!r}",
            )

    # Views.

    def __getitem__(self, index: Any) -> GpuBuffer[T]:
        """A view by integers, slices, ``...`` and None, as in NumPy; an integer for each axis gives 0 dimensions.

        Raises:
            KaioError: for anything else, or a step of 0. For an index out of bounds it is an IndexError too.
        """
        self._check_open()
        layout = sliced(self.pointer, self.shape, self.strides, self.dtype, index)
        return GpuBuffer.make(self.memory, *layout, self.dtype, is_view=True)

    def reshape(self, *shape: Any) -> GpuBuffer[T]:
        """A view of the same elements in another shape; one size may be -1. KaioError if that needs a copy."""
        self._check_open()
        sizes = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape
        layout = reshaped(self.shape, self.strides, self.dtype, read_sizes(tuple(sizes)))
        return GpuBuffer.make(self.memory, self.pointer, *layout, self.dtype, is_view=True)

    def view(self, dtype: Any) -> GpuBuffer[Any]:
        """The same bytes as elements of another dtype, as in NumPy: the last axis grows or shrinks with its size.

        `x.view(kaio.f32x4)` sees each four f32 as one vector. The last axis must be contiguous and its bytes a
        multiple of the new size, and the first element aligned to it; KaioError if not.
        """
        self._check_open()
        element = dtype_of(dtype)
        layout = viewed(self.pointer, self.shape, self.strides, self.dtype, element)
        return GpuBuffer.make(self.memory, self.pointer, *layout, element, is_view=True)

    def _check_open(self) -> None:
        if self.memory.closed:
            self.check_usable()

    # Its end.

    def close(self) -> None:
        """Give the memory back once the work that uses it is done; using the buffer or a view of it is an error then.

        Closing a view closes only the view.
        """
        if not self._is_view:
            self.memory.close()
        elif not self.memory.closed:
            _set(self, "memory", closed_memory(self.device))

    def __enter__(self) -> GpuBuffer[T]:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # Copies in Python's own sense, and other libraries.

    def __copy__(self) -> GpuBuffer[T]:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> GpuBuffer[T]:
        return self.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self.device, self.to_host())

    def __dlpack_device__(self) -> tuple[int, int]:
        """The device by DLPack's numbers."""
        if self.device.kind == "cpu":
            return dlpack.DEVICE_CPU, 0
        return dlpack.DEVICE_CUDA, self.device.ordinal

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """The memory for another library, whose `stream` comes after kaio's pending writes. What it writes itself is
        its own to finish before kaio goes on.
        """
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError(f"a GpuBuffer on {self.device} is not handed to another device: copy it with `to_host()`")
        if self.dtype.kind in "vs":
            raise BufferError(_not_shared(self.dtype))
        if copy:
            return self.copy().__dlpack__(stream=stream, max_version=max_version)
        self.check_usable()
        versioned = max_version is not None and max_version[0] >= 1
        if self.is_read_only and not versioned:
            raise BufferError("a GpuBuffer over read-only memory is shared by DLPack 1.0 and later only")
        self.device.hand_over(self.memory, stream)
        self.check_usable()
        return dlpack.export_buffer(self, self.__dlpack_device__(), versioned)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The memory for another library, after kaio's pending writes; on a GPU only."""
        if self.device.kind != "cuda":
            raise AttributeError(f"a GpuBuffer on {self.device} has no CUDA array interface")
        if self.dtype.kind in "vs":
            raise AttributeError(_not_shared(self.dtype))
        self.check_usable()
        return {
            "version": 3,
            "shape": self.shape,
            "strides": None if self.is_contiguous else self.strides,
            "typestr": self.dtype.numpy.str,
            "data": (self.pointer, self.is_read_only),
            "stream": self.device.writing_stream(self.memory),
        }


def usual_form(dtype: DType, ndim: int) -> object:
    """One object for all contiguous, writable buffers of this type whose elements an i32 counts: to compare with `is`.

    >>> import kaio
    >>> kaio.Device("cpu").alloc_zeros(3, kaio.f32).form is usual_form(kaio.f32, 1)
    True
    """
    key = dtype, ndim
    return _FORMS.get(key) or _FORMS.setdefault(key, key)


def _not_shared(dtype: DType) -> str:
    part = dtype.parts[0][1] if dtype.kind == "v" else "u8"
    return f"other libraries have no elements of {dtype!r}: share them as numbers, `x.view(kaio.{part!s})`"


def _rebuild(device: Device, host: np.ndarray[Any, Any]) -> GpuBuffer[Any]:
    return device.alloc_from(host)
