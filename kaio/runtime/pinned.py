"""`PinnedArray`: an array of the host that a device copies by itself, and that nobody sees half copied.

Its memory has a record like a buffer's. Whoever looks at the elements, or writes them, waits for the copies in flight
that stand against it. A plain NumPy array over the memory cannot wait: as long as one is alive, kaio knows of it (it
holds a token), and a copy is done before it returns.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from types import EllipsisType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from kaio.dtypes import DType
from kaio.runtime.buffer import GpuBuffer
from kaio.runtime.layout import contiguous_strides, overlay
from kaio.runtime.memory import Memory

if TYPE_CHECKING:
    from kaio.runtime.device import Device

__all__ = ["PinnedArray"]

Array = np.ndarray[Any, Any]


class _Token:
    """What the plain arrays over some memory hold: as long as it lives, they may look at the memory at any time."""

    __slots__ = ("__weakref__", "owner")

    def __init__(self, owner: Any) -> None:
        self.owner = owner


class PinnedArray(NDArrayOperatorsMixin):
    """Elements in memory of the host that does not move, made by `device.alloc_pinned(shape, dtype)`.

    `buffer.copy_from(pinned)` and `buffer.copy_to(pinned)` return at once, and run at the full speed of the bus. It is
    used as a NumPy array: indexed, assigned to, passed to NumPy's functions. All of that waits for copies in flight:
    reading for those into it, writing for those from it as well. A slice is a PinnedArray too.

    `pinned.array` is a plain NumPy array over the same memory; functions and methods of NumPy may give one, too. While
    any is alive, copies from and to this memory are done when they return. What goes by an address
    (`pinned.array.ctypes.data`) is not seen.

    >>> import kaio
    >>> device = kaio.Device("cpu")
    >>> stage, x = device.alloc_pinned(3, kaio.f32), device.alloc_zeros(3, kaio.f32)
    >>> stage[:] = [1, 2, 3]
    >>> done = x.copy_from(stage)
    >>> stage[:] = 7                    # waits for the copy
    >>> x.to_host(), stage.sum()
    (array([1., 2., 3.], dtype=float32), np.float32(21.0))
    """

    __slots__ = ("__weakref__", "_tokens", "buffer")

    buffer: GpuBuffer[Any]
    _tokens: weakref.WeakSet[_Token]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise TypeError("a PinnedArray is made by a device: `device.alloc_pinned(shape, dtype)`")

    @staticmethod
    def make(device: Device, pointer: int, owner: Any, shape: tuple[int, ...], dtype: DType) -> PinnedArray:
        """One over memory that `owner` keeps; for devices."""
        strides = contiguous_strides(shape, dtype.itemsize)
        nbytes = dtype.itemsize
        for size in shape:
            nbytes *= size
        memory = Memory(device, pointer, nbytes, owner)
        memory.is_host = True
        return PinnedArray._over(GpuBuffer.make(memory, pointer, shape, strides, dtype), weakref.WeakSet())

    @staticmethod
    def _over(buffer: GpuBuffer[Any], tokens: weakref.WeakSet[_Token]) -> PinnedArray:
        self = object.__new__(PinnedArray)
        self.buffer, self._tokens = buffer, tokens
        return self

    # What it is.

    @property
    def device(self) -> Device:
        """The device that made it; buffers of other devices take it too."""
        return self.buffer.device

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of its elements, as NumPy has it."""
        return self.buffer.dtype.numpy

    @property
    def shape(self) -> tuple[int, ...]:
        """Its sizes."""
        return self.buffer.shape

    @property
    def ndim(self) -> int:
        """How many axes it has."""
        return self.buffer.ndim

    @property
    def size(self) -> int:
        """How many elements it has."""
        return self.buffer.size

    @property
    def nbytes(self) -> int:
        """How large its elements are together."""
        return self.buffer.nbytes

    @property
    def has_views(self) -> bool:
        """Whether plain arrays over its memory are alive, for whose sake copies are done when they return."""
        return bool(self._tokens)

    # Its elements.

    @property
    def array(self) -> Array:
        """A NumPy array over the memory, after the copies in flight; raises what a copy into it failed with."""
        memory = self.buffer.memory
        for work in memory.users():
            if not work._finished:
                work._block(None)
        if memory.writer is not None:
            memory.writer._check()
        memory.writer, memory.readers, memory.stream = None, {}, None  # what is done is not held
        return self.bare()

    def bare(self) -> Array:
        """The same without a wait; for results of copies, and to find layouts."""
        token = _Token(self.buffer.memory.owner)
        self._tokens.add(token)
        buffer = self.buffer
        return overlay(buffer.pointer, buffer.shape, buffer.strides, buffer.dtype, keep=token)

    def __getitem__(self, index: Any) -> Any:
        parts = index if isinstance(index, tuple) else (index,)
        if all(part is None or isinstance(part, slice | EllipsisType | int | np.integer) for part in parts):
            if not any(isinstance(part, slice | EllipsisType) for part in parts) and (
                sum(part is not None for part in parts) == self.ndim
            ):
                return self.array[index]
            return PinnedArray._over(self.buffer[index], self._tokens)
        return self.array[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        self.array[index] = _plain(value)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self.array, dtype=dtype, copy=copy)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        out = options.get("out", ())
        if out:
            options["out"] = tuple(_plain(one) for one in out)
        found = getattr(ufunc, method)(*map(_plain, inputs), **options)
        return out[0] if len(out) == 1 and isinstance(out[0], PinnedArray) else found

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return function(*_plain_all(args), **_plain_all(kwargs))

    def __len__(self) -> int:
        return len(self.buffer)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.array)

    def __contains__(self, value: Any) -> bool:
        return value in self.array

    def __float__(self) -> float:
        return float(self.array)

    def __int__(self) -> int:
        return int(self.array)

    def __bool__(self) -> bool:
        return bool(self.array)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(np.ndarray, name):
            raise AttributeError(f"a PinnedArray has no `{name}`")
        return getattr(self.array, name)

    def __copy__(self) -> Array:
        return self.array.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> Array:
        return self.array.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        return np.array, (self.array.copy(),)

    def __repr__(self) -> str:
        sizes = ", ".join(map(str, self.shape))
        return f"PinnedArray({self.buffer.dtype!r}[{sizes}] for {self.device})"


def _plain(value: Any) -> Any:
    return value.array if isinstance(value, PinnedArray) else value


def _plain_all(value: Any) -> Any:
    if isinstance(value, PinnedArray):
        return value.array
    if isinstance(value, dict):
        return {key: _plain_all(one) for key, one in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_plain_all(one) for one in value)
    return value
