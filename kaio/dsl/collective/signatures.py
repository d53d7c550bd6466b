"""The collective operations to type checkers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

__all__ = [
    "ArgReduction", "FunctionReduction", "FunctionScan", "LaneBroadcast", "Reduction", "Scan", "ThreadBroadcast",
]  # fmt: skip

T = TypeVar("T")


class Reduction(Protocol):
    """`block_reduce_sum` and its kin."""

    def __call__(self, value: T) -> T:
        """One result of all values."""


class ArgReduction(Protocol):
    """`block_reduce_argmin` and its kin."""

    def __call__(self, value: T, index: int | None = None) -> tuple[T, int]:
        """The extreme, and its index."""


class FunctionReduction(Protocol):
    """`block_reduce` and `warp_reduce`."""

    def __call__(self, value: T, function: Callable[[T, T], Any]) -> T:
        """One result of all values by a function."""


class Scan(Protocol):
    """`block_scan_sum` and its kin."""

    def __call__(self, value: T, exclusive: bool = False) -> T:
        """The result of the values so far."""


class FunctionScan(Protocol):
    """`block_scan` and `warp_scan`."""

    def __call__(self, value: T, function: Callable[[T, T], Any], exclusive: bool = False, initial: Any = None) -> T:
        """The result of the values so far by a function."""


class LaneBroadcast(Protocol):
    """`warp_broadcast`."""

    def __call__(self, value: T, lane: int = 0) -> T:
        """The value of a lane."""


class ThreadBroadcast(Protocol):
    """`block_broadcast`."""

    def __call__(self, value: T, thread: int = 0) -> T:
        """The value of a thread."""
