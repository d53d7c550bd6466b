"""The functions of numbers that take vectors too, lane by lane."""

from __future__ import annotations

import builtins
import math
from typing import Any

from kaio.dsl.intrinsic import STANDARD
from kaio.dsl.numeric.rounding import fma
from kaio.dsl.numeric.selection import clamp, maximum, minimum, saturate
from kaio.dsl.vectors import overload

__all__ = ["LANEWISE"]

LANEWISE: tuple[Any, ...] = (
    *(STANDARD[python] for python in (builtins.abs, builtins.min, builtins.max, math.sqrt)),
    clamp, fma, maximum, minimum, saturate,
)  # fmt: skip
"""Their records."""

for _record in LANEWISE:
    overload(_record)
