"""How many threads of a block fill a multiprocessor best."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["fullest"]


def fullest(resident_blocks: Callable[[int], int], warp_size: int, most_threads: int) -> int:
    """The size of a block, in whole warps, with which most threads of a multiprocessor are in use.

    `resident_blocks(threads)` says how many blocks of a size run there at once. Among sizes that fill it alike the
    largest is taken, as CUDA's own calculator does (cuda_occupancy.h: the fewest blocks).

    >>> fullest(lambda threads: 1536 // threads, 32, 1024)
    768
    """
    sizes = range(most_threads // warp_size * warp_size, 0, -warp_size)
    return max(sizes, key=lambda threads: threads * resident_blocks(threads), default=most_threads)
