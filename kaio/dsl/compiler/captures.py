"""What a kernel takes from outside its own body, and whether that is still the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from types import CellType, FunctionType
from typing import Any

import numpy as np

from kaio.dsl.values import MOST_CONSTANT_NBYTES

__all__ = ["Capture"]


@dataclass(frozen=True, eq=False)
class Capture:
    """What a kernel read when it was compiled: a global, a closure cell, an attribute of a module, part of a function.

    `value` is None for a global that was not there, where Python's own builtin was meant.
    """

    namespace: dict[str, Any] | CellType | FunctionType
    name: str
    value: Any
    seen: Any = field(init=False, repr=False)
    """The value as it was then: an array may be written to while the kernel lives."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "seen", _copied(self.value))

    def reader(self) -> Callable[[str], Any]:
        """What gives the value that a name has now, None where it has none; one call without a frame for globals."""
        if isinstance(self.namespace, dict):
            return self.namespace.get
        if isinstance(self.namespace, CellType):
            return partial(_cell_contents, self.namespace)
        return partial(getattr, self.namespace)

    def current(self) -> Any:
        """What the name means now."""
        return self.reader()(self.name)

    def is_current(self) -> bool:
        """Whether the name still means the same object."""
        return self.current() is self.value

    def __str__(self) -> str:
        return f"{self.name} = {self.value!r}"


def _copied(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.nbytes <= MOST_CONSTANT_NBYTES:
        return value.copy()
    return tuple(map(_copied, value)) if type(value) is tuple else value


def _cell_contents(cell: CellType, name: str) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # empty
        return None
