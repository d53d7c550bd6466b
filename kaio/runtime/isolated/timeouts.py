"""`Limit`: how long a launch may take before its worker is killed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kaio.runtime.isolated.link import Link, Pending

__all__ = ["Limit"]

_SHORTEST_S, _LONGEST_S = 1e-3, 50e-3


class Limit:
    """A time limit of one launch; it counts from when all that comes before the launch is done."""

    is_exceeded = False

    def __init__(self, slot: int, pending: Pending, timeout_s: float) -> None:
        self._slot, self.pending, self.timeout_s = slot, pending, timeout_s
        self._since: float | None = None
        self.pause_s = min(max(timeout_s / 16, _SHORTEST_S), _LONGEST_S)  # between two looks

    def is_over(self, link: Link) -> bool:
        """Look at the launch: True once it is done; `is_exceeded` once it takes too long."""
        count = link.words[self._slot]
        if count >= self.pending.number:
            return True
        now = time.monotonic()
        if self._since is None:
            if count == self.pending.number - 1 and link.is_free(self.pending):
                self._since = now
        elif now - self._since > self.timeout_s:
            self.is_exceeded = True
        return False
