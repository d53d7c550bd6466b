"""The committed measurements of the functions of numbers, of which docs/math.md is made."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from benchmarks.harness import RESULTS

__all__ = ["measurements"]


@cache
def measurements(device: str) -> dict[str, Any]:
    """What was found on a device: `functions` by name and dtype, `versions` of the libraries."""
    found: dict[str, Any] = json.loads((RESULTS / f"math_{device}.json").read_text(encoding="utf-8"))
    return found
