"""Launches whose blocks run at the same time: all of a grid that waits for itself, or those of a cluster."""

from __future__ import annotations

from math import prod
from typing import Any

from kaio.errors import LaunchError, UnsupportedFeatureError, is_message
from kaio.launch.geometry import is_whole_number, three
from kaio.runtime import Device
from kaio.runtime.stream import Dims, Together

__all__ = ["check_cluster", "read_cluster", "together", "whole_clusters"]

__tracebackhide__ = is_message

_MOST_BLOCKS = 8  # of a cluster, on every GPU that has clusters (CUDA C++ programming guide, "Thread Block Clusters")
_FIRST_WITH_CLUSTERS = (9, 0)


def read_cluster(kernel: str, value: Any) -> Dims:
    """The option `cluster`: one to three numbers of blocks, x first."""
    sizes = tuple(value) if isinstance(value, tuple | list) else (value,)
    if not 1 <= len(sizes) <= 3 or not all(is_whole_number(size) and size >= 1 for size in sizes):
        raise LaunchError(
            f"`options(cluster=…)` of kernel `{kernel}` takes 1 to 3 numbers of blocks, x first (got {value!r})",
            help="for example `.options(cluster=(2, 1, 1))`",
        )
    x, y, z = three(tuple(map(int, sizes)))
    if x * y * z > _MOST_BLOCKS:
        raise LaunchError(f"a cluster of kernel `{kernel}` has {x * y * z} blocks; {_MOST_BLOCKS} is the most")
    return x, y, z


def whole_clusters(grid: Dims, cluster: Dims) -> Dims:
    """A grid rounded up to whole clusters in every axis."""
    x, y, z = (-(-blocks // size) * size for blocks, size in zip(grid, cluster, strict=True))
    return x, y, z


def check_cluster(kernel: str, grid: Dims, cluster: Dims, device: Device) -> None:
    """Raise unless the device has clusters and the grid is made of whole ones."""
    if device.kind != "cpu" and device.capability < _FIRST_WITH_CLUSTERS:
        major, minor = device.capability
        raise UnsupportedFeatureError(
            f"kernel `{kernel}` is launched in clusters, which need sm_90 or later; {device} is sm_{major}{minor}",
            help="leave `cluster=` out, or run it on the CPU device",
        )
    for axis, blocks, size in zip("xyz", grid, cluster, strict=True):
        if blocks % size:
            raise LaunchError(
                f"grid.{axis} of kernel `{kernel}` is {blocks}, which is not a multiple of its clusters' {size}",
                help="use whole clusters, or `over(shape)`, which rounds up",
            )


def together(
    kernel: str, loaded: Any, grid: Dims, block: Dims, shared_nbytes: int, cooperative: bool | None,
    cluster: Dims | None, device: Device,
) -> Together | None:  # fmt: skip
    """What a launch says of blocks that run together, None where each runs by itself; LaunchError for too many."""
    waits = loaded.program.waits_for_grid
    if waits and cooperative is False:
        raise LaunchError(
            f"kernel `{kernel}` uses `kaio.grid_sync()`, and is launched with `cooperative=False`",
            help="leave the option out: such a kernel is launched cooperatively",
        )
    is_cooperative = waits or bool(cooperative)
    if is_cooperative:
        _check_residency(kernel, loaded, grid, block, shared_nbytes, device)
    if not is_cooperative and cluster is None:
        return None
    return Together(is_cooperative, cluster or (1, 1, 1))


def _check_residency(
    kernel: str, loaded: Any, grid: Dims, block: Dims, shared_nbytes: int, device: Device
) -> None:  # fmt: skip
    each, multiprocessors = loaded.resident_blocks(device, prod(block), shared_nbytes), device.limits.multiprocessors
    blocks = prod(grid)
    if blocks > each * multiprocessors:
        raise LaunchError(
            f"kernel `{kernel}` is launched cooperatively with {blocks} blocks, but {device} runs at most "
            f"{each * multiprocessors} of them at once ({each} on each of {multiprocessors} multiprocessors, with "
            f"{prod(block)} threads and {shared_nbytes} bytes of dynamic shared memory a block)",
            help="use fewer blocks, and let each thread do several elements, in a loop with a step of the grid's size",
        )
