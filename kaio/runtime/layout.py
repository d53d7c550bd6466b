"""Shapes and strides: where the elements of a buffer lie. Strides and offsets are in bytes."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from types import EllipsisType
from typing import Any, NamedTuple

import numpy as np

from kaio.dtypes import DType
from kaio.errors import KaioError

__all__ = [
    "OutOfBounds",
    "Rectangle",
    "byte_range",
    "contiguous_strides",
    "is_contiguous",
    "overlaps_itself",
    "overlay",
    "read_shape",
    "read_sizes",
    "rectangles",
    "reshaped",
    "share_elements",
    "sliced",
    "viewed",
]

Shape = tuple[int, ...]
Layout = tuple[int, Shape, Shape]  # pointer, shape, strides

_MOST_RECTANGLES = 1024  # that a copy is made of: each is a call of the driver
_MOST_DIMENSIONS = 64  # NumPy's: copies go by its arrays


def read_shape(shape: Any) -> Shape:
    """A shape from an int or an iterable of ints, or KaioError showing the value."""
    is_one = not isinstance(shape, Iterable) or isinstance(shape, str) or getattr(shape, "ndim", None) == 0
    sizes: list[Any] = [shape] if is_one else list(shape)
    try:
        if any(isinstance(size, bool | np.bool_) for size in sizes):
            raise TypeError
        found = tuple(operator.index(size) for size in sizes)
    except TypeError:
        raise KaioError(f"a shape is an int or a tuple of ints (got {shape!r})") from None
    if any(size < 0 for size in found):
        raise KaioError(f"a shape has no negative sizes (got {shape!r})")
    _check_rank(len(found))
    if 0 in found and math.prod(size or 1 for size in found) >= 1 << 63:
        raise KaioError(f"a shape has fewer than 2**63 elements, sizes of 0 left aside (got {shape!r})")
    return found


def _check_rank(ndim: int) -> None:
    if ndim > _MOST_DIMENSIONS:
        raise KaioError(f"a GpuBuffer has at most {_MOST_DIMENSIONS} dimensions (got {ndim})")


def read_sizes(sizes: tuple[Any, ...]) -> Shape:
    """The sizes given to `reshape`, one of which may be -1, or KaioError showing the value."""
    try:
        if any(isinstance(size, bool | np.bool_) for size in sizes):
            raise TypeError
        found = tuple(operator.index(size) for size in sizes)
    except TypeError:
        raise KaioError(
            f"`reshape` takes ints or a tuple of ints (got {', '.join(map(repr, sizes))})",
            help="for example `x.reshape(2, -1)`",
        ) from None
    _check_rank(len(found))
    return found


class OutOfBounds(KaioError, IndexError):
    """An index that is not among those of the axis; an IndexError as it is for all of Python's sequences."""


def contiguous_strides(shape: Shape, itemsize: int) -> Shape:
    """The strides of a C-contiguous layout.

    >>> contiguous_strides((2, 3), 4)
    (12, 4)
    """
    strides, step = [], itemsize
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def is_contiguous(shape: Shape, strides: Shape, itemsize: int) -> bool:
    """True if the elements follow each other in C order; the stride of an axis of one element does not matter."""
    if 0 in shape:
        return True
    step = itemsize
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size != 1 and stride != step:
            return False
        step *= size
    return True


def byte_range(pointer: int, shape: Shape, strides: Shape, itemsize: int) -> tuple[int, int]:
    """The first address of the elements, and the one after the last; equal if there are none."""
    if 0 in shape:
        return pointer, pointer
    reach = [(size - 1) * stride for size, stride in zip(shape, strides, strict=True)]
    return pointer + sum(min(r, 0) for r in reach), pointer + sum(max(r, 0) for r in reach) + itemsize


def overlaps_itself(shape: Shape, strides: Shape, itemsize: int) -> bool:
    """Whether two elements may lie over one another, as they do along an axis with a stride of 0.

    True also for layouts, found nowhere in practice, whose axes are intertwined so that no two elements meet.
    """
    if 0 in shape:
        return False
    reach = 0  # of the axes with smaller strides: from their first element to their last
    for stride, size in sorted((abs(stride), size) for size, stride in zip(shape, strides, strict=True) if size > 1):
        if stride < reach + itemsize:
            return True
        reach += stride * (size - 1)
    return False


def share_elements(one: Layout, two: Layout, dtypes: tuple[DType, DType]) -> bool:
    """Whether two buffers have a byte in common; True also where that would take long to tell."""
    first, second = (overlay(*layout, dtype) for layout, dtype in zip((one, two), dtypes, strict=True))
    most: Any = 10_000  # NumPy's stubs know its two special values only
    try:
        return bool(np.shares_memory(first, second, max_work=most))
    except np.exceptions.TooHardError:
        return True


class _Interface:
    """What `numpy.asarray` needs to lay an array over memory that it does not own."""

    def __init__(self, pointer: int, shape: Shape, strides: Shape, dtype: DType, read_only: bool, keep: Any) -> None:
        self.keep = keep
        self.__array_interface__ = {
            "version": 3,
            "data": (pointer, read_only),
            "shape": shape,
            "strides": strides,
            "typestr": _typestr(dtype),
        }


def _typestr(dtype: DType) -> str:
    """How the interface names a type; of those that NumPy has from elsewhere it knows the size alone."""
    return f"|V{dtype.itemsize}" if dtype.numpy.isbuiltin != 1 else dtype.numpy.str


def overlay(
    pointer: int, shape: Shape, strides: Shape, dtype: DType, *, read_only: bool = False, keep: Any = None
) -> np.ndarray[Any, Any]:
    """A NumPy array over memory at `pointer`, which it reads only when its elements are; `keep` lives as long.

    Over device memory it serves to compute the layout of views, and its elements must not be touched.
    """
    if 0 in shape:
        return np.empty(shape, dtype.numpy)
    return np.asarray(_Interface(pointer, shape, strides, dtype, read_only, keep)).view(dtype.numpy)


# Any address does to compute a layout from, but NumPy takes null as a request to allocate.
_SOMEWHERE = 1 << 20


def sliced(pointer: int, shape: Shape, strides: Shape, dtype: DType, index: Any) -> Layout:
    """The layout of `x[index]` for integers, slices, ``...`` and None; KaioError for what would have to copy."""
    parts = index if isinstance(index, tuple) else (index,)
    for part in parts:
        if isinstance(part, bool | np.bool_) or not (
            part is None or isinstance(part, slice | EllipsisType | int | np.integer)
        ):
            raise KaioError(
                f"a GpuBuffer is indexed by integers and slices (got {part!r})",
                help="copy it to the host first: `x.to_host()[…]`",
            )
    if not any(part is Ellipsis for part in parts):
        parts = (*parts, ...)  # or NumPy would read the element when all axes are given
    try:
        view = np.asarray(_Interface(_SOMEWHERE, shape, strides, dtype, False, None))[parts]
    except IndexError as problem:
        raise OutOfBounds(f"a GpuBuffer of shape {shape} is indexed by {index!r}: {problem}") from None
    except (ValueError, TypeError) as problem:  # a step of 0, a slice of no integers
        raise KaioError(f"a GpuBuffer of shape {shape} is indexed by {index!r}: {problem}") from None
    return pointer + view.__array_interface__["data"][0] - _SOMEWHERE, view.shape, view.strides


def reshaped(shape: Shape, strides: Shape, dtype: DType, new: Shape) -> tuple[Shape, Shape]:
    """Shape and strides of the same elements as `new` (one size may be -1), or KaioError if that needs a copy."""
    base = np.asarray(_Interface(_SOMEWHERE, shape, strides, dtype, False, None))
    if -1 not in new and math.prod(new) != math.prod(shape):
        raise KaioError(f"{math.prod(shape)} elements of shape {shape} cannot be seen as shape {new}")
    try:
        view = base.reshape(new, copy=False)
    except (ValueError, OverflowError) as problem:
        if "Unable to avoid" not in str(problem):
            raise KaioError(f"{math.prod(shape)} elements of shape {shape} cannot be seen as shape {new}") from problem
        raise KaioError(
            f"a view of shape {shape} and strides {strides} cannot be seen as shape {new} without a copy",
            help="copy it first: `x.copy().reshape(…)`",
        ) from problem
    return view.shape, view.strides


def viewed(pointer: int, shape: Shape, strides: Shape, dtype: DType, new: DType) -> tuple[Shape, Shape]:
    """Shape and strides of the same bytes as elements of another type, or KaioError if they are no such elements."""
    shown = f"{dtype!r}[{', '.join(map(str, shape))}]"
    if pointer % new.alignment and math.prod(shape):
        raise KaioError(
            f"{shown} cannot be seen as {new!r}: it starts at no multiple of {new.alignment} bytes",
            help="copy it first: `x.copy().view(…)`",
        )
    if new.itemsize == dtype.itemsize:
        return shape, strides
    if not shape:
        raise KaioError(f"{shown} of no dimensions cannot be seen as {new!r}, which has another size")
    if strides[-1] != dtype.itemsize and shape[-1] > 1:
        raise KaioError(
            f"{shown} cannot be seen as {new!r}: its last axis is not contiguous",
            help="copy it first: `x.copy().view(…)`",
        )
    nbytes = shape[-1] * dtype.itemsize
    if nbytes % new.itemsize:
        raise KaioError(
            f"{shown} cannot be seen as {new!r}: the {nbytes} bytes of its last axis are no multiple of {new.itemsize}",
            help="make the last axis longer, or slice it",
        )
    if any(stride % new.alignment for stride in strides[:-1]):
        raise KaioError(f"{shown} cannot be seen as {new!r}: its rows start at no multiple of {new.alignment} bytes")
    return (*shape[:-1], nbytes // new.itemsize), (*strides[:-1], new.itemsize)


class Rectangle(NamedTuple):
    """Rows of bytes that lie at equal distances, in one layout and in another."""

    target: int  # where the first row begins
    source: int
    width: int
    height: int
    target_pitch: int  # from one row to the next
    source_pitch: int


def rectangles(target: int, source: int, shape: Shape, strides: tuple[Shape, Shape], itemsize: int) -> list[Rectangle]:
    """A copy between two layouts of one shape, as few copies of rows as there may be; empty if they are too many.

    >>> rectangles(0, 1000, (3, 4), ((16, 4), (32, 4)), 4)
    [Rectangle(target=0, source=1000, width=16, height=3, target_pitch=16, source_pitch=32)]
    """
    axes: list[tuple[int, int, int]] = []  # size, and its strides in the target and the source; outermost first
    for size, to, start in zip(shape, *strides, strict=True):
        if size == 1:
            continue
        if to < 0 and start < 0:  # both run backwards: from the other end both run forwards
            target, source, to, start = target + (size - 1) * to, source + (size - 1) * start, -to, -start
        axes.append((size, to, start))
    axes.sort(key=lambda axis: abs(axis[1]), reverse=True)  # the order of the axes is free, as long as it is one
    merged: list[tuple[int, int, int]] = []
    for size, to, start in axes:
        if merged and merged[-1][1:] == (size * to, size * start):
            size *= merged.pop()[0]
        merged.append((size, to, start))
    width = itemsize
    if merged and merged[-1][1:] == (itemsize, itemsize):
        width *= merged.pop()[0]
    height, to_pitch, source_pitch = 1, width, width
    for place in range(len(merged) - 1, -1, -1):  # the longest column of rows that a driver takes
        size, to, start = merged[place]
        if to >= width and start >= width and size > height:
            height, to_pitch, source_pitch = size, to, start
    if height > 1:
        merged.remove((height, to_pitch, source_pitch))
    if math.prod(size for size, _, _ in merged) > _MOST_RECTANGLES:
        return []
    begins = [(target, source)]
    for size, to, start in merged:
        begins = [(one + k * to, two + k * start) for one, two in begins for k in range(size)]
    return [Rectangle(one, two, width, height, to_pitch, source_pitch) for one, two in begins]
