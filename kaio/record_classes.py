"""Classes of values with named fields: NamedTuples and dataclasses, and what their annotations say."""

from __future__ import annotations

import dataclasses
import inspect
import sys
import types
import typing
from typing import Any

__all__ = ["hints_of", "is_named_tuple", "is_record", "names_of", "tuple_items"]


def is_record(of: Any) -> bool:
    """Whether this is a class of NamedTuples or a dataclass; not one of kaio's own."""
    if not isinstance(of, type) or of.__module__.startswith("kaio.dsl."):
        return False
    return dataclasses.is_dataclass(of) or is_named_tuple(of)


def is_named_tuple(of: type) -> bool:
    """Whether this is a class of NamedTuples."""
    return issubclass(of, tuple) and hasattr(of, "_fields")


def names_of(of: Any) -> tuple[str, ...]:
    """The names of a record's fields."""
    return tuple(of._fields) if is_named_tuple(of) else tuple(field.name for field in dataclasses.fields(of))


def hints_of(of: type) -> dict[str, Any]:
    """The annotations of a class and those it derives from, read if they are texts; None where one cannot be read."""
    hints: dict[str, Any] = {}
    for base in reversed(of.__mro__):
        space = vars(sys.modules[base.__module__]) if base.__module__ in sys.modules else {}
        hints |= {name: _evaluated(hint, space) for name, hint in inspect.get_annotations(base).items()}
    return hints


def _evaluated(hint: Any, space: dict[str, Any]) -> Any:
    hint = getattr(hint, "__forward_arg__", hint)  # NamedTuple wraps texts
    if not isinstance(hint, str):
        return hint
    try:
        return eval(hint, dict(space))  # annotations are the user's own code
    except Exception:
        return None


def tuple_items(hint: Any) -> tuple[Any, ...] | None:
    """The items of an annotation such as `tuple[f32, f32]`; None for any other, also one of no fixed length."""
    if not isinstance(hint, types.GenericAlias) or typing.get_origin(hint) is not tuple:
        return None
    items = typing.get_args(hint)
    return None if not items or Ellipsis in items else items
