"""What a kernel takes from outside its own body, and whether that is still the same."""

from __future__ import annotations

from dataclasses import dataclass
from types import CellType
from typing import Any

__all__ = ["Capture"]

_GONE = object()


@dataclass(frozen=True, eq=False)
class Capture:
    """A global, a closure cell or a module's attribute that a kernel read when it was compiled."""

    namespace: dict[str, Any] | CellType
    name: str
    value: Any

    def current(self) -> Any:
        """What the name means now; a marker that equals nothing where it means nothing any more."""
        if isinstance(self.namespace, CellType):
            try:
                return self.namespace.cell_contents
            except ValueError:
                return _GONE
        return self.namespace.get(self.name, _GONE)

    def is_current(self) -> bool:
        """Whether the name still means the same object."""
        return self.current() is self.value

    def __str__(self) -> str:
        return f"{self.name} = {self.value!r}"
