"""Names that other libraries have for what kaio names otherwise: who writes one is told what to write here.

They are descriptors and no `__getattr__`: a class that has one of those gives up Python's quick access to all its
attributes, and a launch reads a dozen of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Never

__all__ = ["Shown", "answer", "refuse", "refuse_arguments", "visible"]

_refused: set[str] = set()


class _Elsewhere:
    """A name that is not there, and what to write instead."""

    __slots__ = ("_instead", "_name", "_noun")

    def __init__(self, noun: str, name: str, instead: str) -> None:
        self._noun, self._name, self._instead = noun, name, instead

    def __get__(self, instance: object, owner: type) -> Never:
        raise AttributeError(f"a {self._noun} has no `{self._name}`: write `{self._instead}`")

    def __repr__(self) -> str:
        return f"(not here: write `{self._instead}`)"


def answer(cls: type, names: Mapping[str, str], noun: str = "") -> None:
    """Answer each of these attributes of a class with what to write instead."""
    for name, instead in names.items():
        setattr(cls, name, _Elsewhere(noun or cls.__name__, name, instead))


def refuse(cls: type, name: str, what: str) -> None:
    """Let a special method of a class raise TypeError with these words.

    Set from outside the class, so that a type checker still finds the mistake before it runs.
    """

    def refuse(*args: Any) -> Never:
        raise TypeError(what)

    setattr(cls, name, refuse)
    _refused.add(name)


def visible(names: Iterable[str], public: frozenset[str]) -> list[str]:
    """What `dir` shows of an object: its public names, and Python's own."""
    return [name for name in names if name in public or (name.startswith("__") and name not in _refused)]


class Shown(type):
    """A class of which `dir` and `help` show no more than its `_public` names, beside Python's own."""

    _public: frozenset[str]

    def __dir__(cls) -> list[str]:
        return visible(super().__dir__(), cls._public)


def refuse_arguments(function: str, unknown: Mapping[str, Any], instead: str) -> Never:
    """Raise TypeError for keyword arguments that a function does not have."""
    names = ", ".join(f"`{name}`" for name in unknown)
    raise TypeError(f"{function} has no argument {names}: write {instead}")
