"""How much memory of a device lives, for the tests that count it."""

from __future__ import annotations

import gc
from typing import Any


def settled(device: Any) -> Any:
    """The device's statistics, when nothing of earlier tests awaits the garbage collector."""
    gc.collect()
    return device.stats()
