"""Options whose names are agreed and whose work is not done: one table, which an option leaves when it is there."""

from __future__ import annotations

from kaio.errors import UnsupportedFeatureError, is_message

__all__ = ["refuse_unbuilt"]

__tracebackhide__ = is_message

_UNBUILT: dict[str, str] = {}


def refuse_unbuilt(option: str, shown: str) -> None:
    """Raise UnsupportedFeatureError if an option is not there yet; `shown` is how it was asked for."""
    __tracebackhide__ = is_message
    if option in _UNBUILT:
        raise UnsupportedFeatureError(f"`{shown}` is not supported yet", help=_UNBUILT[option])
