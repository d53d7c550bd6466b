"""Functions of kaio's own that are lowered into kernels: users see the call, never what is inside."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache
from pathlib import Path
from types import FunctionType
from typing import Any

from kaio.dsl.compiler.ir import Function
from kaio.dsl.compiler.parse import parse
from kaio.errors import Mistake, Place
from kaio.source import Source

__all__ = ["is_own", "translate_own", "without_own_places"]

_DIRECTORY = str(Path(__file__).parents[1])


def is_own(filename: str) -> bool:
    """Whether a file is one of kaio's language itself."""
    return filename.startswith(_DIRECTORY)


def translate_own(function: FunctionType, consts: Mapping[str, Any]) -> Function:
    """The IR of a function of kaio's own, which does not change while a program runs, with these arguments constant."""
    # Only what is compared by identity or is of one type is part of a key: 1 == True == 1.0.
    if all(isinstance(value, str | FunctionType) or type(value) is int for value in consts.values()):
        return _translated(function, tuple(consts.items()))
    return _translate(function, consts)


@lru_cache(maxsize=512)
def _translated(function: FunctionType, consts: tuple[tuple[str, Any], ...]) -> Function:
    return _translate(function, dict(consts))


def _translate(function: FunctionType, consts: Mapping[str, Any]) -> Function:
    from kaio.dsl.compiler.translate import translate

    return translate(function, _source(function), dict(consts), {}).function


@cache
def _source(function: FunctionType) -> Source:
    return parse(function)


def without_own_places(mistake: Mistake) -> Mistake | None:
    """A mistake in a function that a user gave, without the calls that led there inside kaio; None of another."""
    if _is_inside(mistake.place):
        return None
    trace = tuple(place for place in mistake.trace if not _is_inside(place))
    return Mistake(mistake.what, mistake.place, mistake.help, trace)


def _is_inside(place: Place | None) -> bool:
    return place is not None and is_own(str(Path(place.file).absolute()))
