"""What the work of one stream is known to come after: vector clocks, so that no wait is put in twice.

Each stream counts its events, and knows how far it has waited for every other one, by itself or through those that it
waited for (Lamport 1978; Mattern 1989). A wait that this implies is left out.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeVar

__all__ = ["Clock", "Place", "latest"]

_numbers = itertools.count(1)
_MOST = 256  # streams that are remembered; to forget some costs a wait that was not needed
_NOTHING: Mapping[int, int] = {}


class Place(NamedTuple):
    """A place among the work of a stream: behind so many events, and behind what the stream had waited for."""

    stream: int
    number: int
    seen: Mapping[int, int]


class Clock:
    """That of one stream. `seen` is never changed, but replaced: places keep it."""

    __slots__ = ("_count", "_number", "_seen")

    def __init__(self) -> None:
        self._number, self._count, self._seen = next(_numbers), 0, _NOTHING

    def tick(self) -> Place:
        """The place behind all work of the stream so far."""
        self._count += 1
        return Place(self._number, self._count, self._seen)

    def is_after(self, place: Place) -> bool:
        """Whether all that comes next on the stream is known to come after this place."""
        return place.stream == self._number or self._seen.get(place.stream, 0) >= place.number

    def join(self, place: Place) -> None:
        """What comes next comes after this place, too."""
        seen = dict(self._seen) if len(self._seen) < _MOST else {}
        for stream, count in (*place.seen.items(), (place.stream, place.number)):
            if stream != self._number and seen.get(stream, 0) < count:
                seen[stream] = count
        self._seen = seen


T = TypeVar("T")


def latest(placed: Iterable[tuple[Place, T]]) -> list[T]:
    """Those whose places come before none of the others': to wait for these is to wait for all."""
    left = list(placed)
    return [
        one
        for k, (place, one) in enumerate(left)
        if not any(_implies(other, place, k < j) for j, (other, _) in enumerate(left) if j != k)
    ]


def _implies(later: Place, earlier: Place, is_first: bool) -> bool:
    if later.stream == earlier.stream:
        return later.number > earlier.number or (later.number == earlier.number and is_first)
    return later.seen.get(earlier.stream, 0) >= earlier.number
