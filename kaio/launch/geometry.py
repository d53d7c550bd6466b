"""How many threads a launch runs: grid and block, from what the user wrote and what the device takes."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from kaio.errors import LaunchError, is_message
from kaio.runtime.limits import Limits

__all__ = [
    "Dims", "check_limits", "check_rank", "check_registers", "cover", "default_block", "is_whole_number", "read_dims",
    "read_shape", "shape_block", "three",
]  # fmt: skip

__tracebackhide__ = is_message

Dims = tuple[int, int, int]

# x by y by z. 256 threads fill every GPU; a first axis of 32 lets one warp read one row.
_DEFAULT_BLOCKS: tuple[tuple[int, ...], ...] = ((256,), (256,), (32, 8), (8, 8, 4))


def read_shape(kernel: str, shape: Any) -> tuple[int, ...]:
    """The shape given to `over`: none to three axes, each a whole number from 0, the last one x."""
    axes = tuple(shape) if isinstance(shape, tuple | list) else (shape,)
    found = tuple(_whole_number(kernel, "over", axis, axes, least=0) for axis in axes)
    if len(found) > 3:
        folded = (prod(found[:-2]), *found[-2:])
        raise LaunchError(
            f"`over` of kernel `{kernel}` takes at most 3 axes (got {found})",
            help=f"fold the leading axes into one: `over({folded})`",
        )
    return found


def read_dims(kernel: str, label: str, values: tuple[Any, ...]) -> tuple[int, ...]:
    """The dimensions given to `grid` or `block`: one to three whole numbers, x first, as arguments or as one tuple."""
    if len(values) == 1 and isinstance(values[0], tuple | list):
        values = tuple(values[0])
    if not 1 <= len(values) <= 3:
        raise LaunchError(
            f"`{label}` of kernel `{kernel}` takes 1 to 3 dimensions (got {values})",
            help=f"x first: `.{label}(x, y, z)`",
        )
    return tuple(_whole_number(kernel, label, value, values, least=0 if label == "grid" else 1) for value in values)


def is_whole_number(value: Any) -> bool:
    """Whether this is an integer of Python or NumPy, and no bool."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _whole_number(kernel: str, label: str, value: Any, among: tuple[Any, ...], least: int) -> int:
    got = f"{value!r} in {among!r}" if len(among) > 1 else repr(value)
    if not is_whole_number(value):
        raise LaunchError(
            f"`{label}` of kernel `{kernel}` takes whole numbers (got {got})", help=_way_out(label, value)
        )
    if value < least:
        raise LaunchError(f"`{label}` of kernel `{kernel}` must be at least {least} (got {got})")
    return int(value)


def _way_out(label: str, value: Any) -> str:
    if isinstance(value, float | np.floating):
        return "divide with `//`, or round up with `math.ceil`"
    if isinstance(value, np.ndarray):
        return f"convert it: `.{label}({'int' if value.ndim == 0 else 'tuple'}(…))`"
    return "for example `over(y.size)` or `over(image.shape)`" if label == "over" else f"for example `.{label}(128)`"


def default_block(ndim: int, limits: Limits, most_threads: int | None) -> tuple[int, ...]:
    """The block of a launch that names none: 256, (32, 8) or (8, 8, 4), cut to the bounds of kernel and device."""
    most = min(limits.max_threads_per_block, most_threads or limits.max_threads_per_block)
    block = [min(size, limit) for size, limit in zip(_DEFAULT_BLOCKS[ndim], limits.max_block, strict=False)]
    for axis in reversed(range(len(block))):
        # What is too many is taken from the last axes first, so that x stays wide.
        block[axis] = min(block[axis], max(1, most // prod(block[:axis])))
    return tuple(block)


def shape_block(ndim: int, threads: int) -> tuple[int, ...]:
    """A block of that many threads, in whole warps, as wide along x as the default one: (n,), (32, n) or (8, 8, n).

    >>> shape_block(1, 768), shape_block(2, 768), shape_block(3, 768), shape_block(3, 32)
    ((768,), (32, 24), (8, 8, 12), (8, 4, 1))
    """
    if ndim < 2:
        return (threads,)
    first = min(_DEFAULT_BLOCKS[ndim][0], threads)
    if ndim == 2:
        return first, threads // first
    second = min(_DEFAULT_BLOCKS[ndim][1], threads // first)
    return first, second, threads // (first * second)


def cover(shape: tuple[int, ...], block: Dims) -> Dims:
    """The grid whose blocks cover `shape` (last axis x), rounded up; 0 in each axis that is empty."""
    x, y, z = three(shape[::-1])
    return -(-x // block[0]), -(-y // block[1]), -(-z // block[2])


def three(dims: tuple[int, ...]) -> Dims:
    """`dims` with ones for the axes that it lacks."""
    x, y, z = (*dims, 1, 1, 1)[:3]
    return x, y, z


def check_limits(kernel: str, grid: Dims, block: Dims, limits: Limits, device: str, most_threads: int | None) -> None:
    """Raise LaunchError for a grid or block over the limits of the device or over the kernel's launch bounds."""
    for label, dims, most in (("block", block, limits.max_block), ("grid", grid, limits.max_grid)):
        for axis, size, limit in zip("xyz", dims, most, strict=True):
            if size > limit:
                raise LaunchError(
                    f"{label}.{axis} of kernel `{kernel}` is {size}, but {device} takes at most {limit}",
                    help=_smaller(label, axis, limits),
                )
    threads = prod(block)
    if threads > limits.max_threads_per_block:
        raise LaunchError(
            f"block {block} of kernel `{kernel}` has {threads} threads, "
            f"but {device} takes at most {limits.max_threads_per_block}"
        )
    if most_threads is not None and threads > most_threads:
        raise LaunchError(
            f"block {block} of kernel `{kernel}` has {threads} threads, but its launch_bounds allow {most_threads}",
            help=f"use `.block({most_threads})`, or raise it: `@kaio.kernel(launch_bounds={threads})`",
        )


def check_rank(kernel: str, shape: tuple[int, ...], ranks: frozenset[int]) -> None:
    """Raise LaunchError for a launch over a shape whose axes are others than those of the kernel's `grid(n)`.

    A kernel with `grid(1)` over two axes, and one with `grid(2)` over one, would do a part of the work and say nothing.
    """
    if not shape or not ranks or len(shape) in ranks:
        return
    used = " and ".join(f"`kaio.grid({rank})`" for rank in sorted(ranks))
    given = f"`over({shape[0]})` has 1 axis" if len(shape) == 1 else f"`over({shape})` has {len(shape)} axes"
    if len(shape) == 1:
        way_out = "give a shape, for example `over(image.shape)`, or use `kaio.grid(1)` in the kernel"
    else:
        names = ", ".join(("col", "row", "plane")[: len(shape)])
        way_out = f"use `{names} = kaio.grid({len(shape)})` in the kernel"
        if ranks == {1}:
            way_out = f"run it over all elements, `over({prod(shape)})`, or {way_out}"
    raise LaunchError(f"kernel `{kernel}` uses {used}, but {given}", help=way_out)


def _smaller(label: str, axis: str, limits: Limits) -> str | None:
    if label == "block":
        return None
    if axis == "x":
        return "let each thread do several elements, in a loop with a stride of the grid's size"
    return f"x takes {limits.max_grid[0]} blocks: put the longest axis last in `over(shape)`, first in `.grid(…)`"


def check_registers(kernel: str, block: Dims, most: int, registers_per_block: int, device: str) -> None:
    """Raise LaunchError if the kernel, as compiled, needs too many registers for a block of this size."""
    threads = prod(block)
    if threads > most:
        raise LaunchError(
            f"block {block} of kernel `{kernel}` has {threads} threads, but with the registers that the kernel uses "
            f"{device} runs at most {most}",
            help=f"use `.block({most})`, or `@kaio.kernel(max_registers={_registers(registers_per_block, threads)})`",
        )


def _registers(registers_per_block: int, threads: int) -> int:
    """Registers a thread may have, so that a block of `threads` fits: they are given out by eights (CUDA guide)."""
    return max(16, registers_per_block // threads // 8 * 8)
