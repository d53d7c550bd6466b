"""What the names in a function of PTX mean: ``{ }`` opens a scope, in which a name may be declared anew."""

from __future__ import annotations

import re

__all__ = ["Scopes"]

_NUMBER = re.compile(r"\d+$")


class Scopes:
    """The scopes around a place, and the registers of the function so far.

    registers: the type of each register, by the name that no other one has
    """

    def __init__(self) -> None:
        self.registers: dict[str, str] = {}
        self._open: list[tuple[int, dict[str, str]]] = []
        self._count = 0

    def open(self, labels: set[str]) -> None:
        """Begin a scope with these labels."""
        self._open.append((self._count, {}))
        self._count += 1
        for label in labels:
            self.declare(label)

    def close(self) -> None:
        """End the innermost scope."""
        self._open.pop()

    def declare(self, name: str, kind: str = "", count: int | None = None) -> str:
        """Declare a name in the innermost scope; with a `count` so many registers, numbered from 0 on.

        Gives the name that no other scope has. A `kind` is the type of registers.
        """
        number, names = self._open[-1]
        names[name if count is None else f"{name}#"] = kind
        return self._unique(name, number)

    def find(self, name: str) -> str | None:
        """The unique name of what a name means here; None where it was not declared."""
        for number, names in reversed(self._open):
            for key in (name, _NUMBER.sub("#", name)):
                if key in names:
                    unique = self._unique(name, number)
                    if names[key]:
                        self.registers[unique] = names[key]
                    return unique
        return None

    @staticmethod
    def _unique(name: str, number: int) -> str:
        return f"{name}@{number}" if number else name
