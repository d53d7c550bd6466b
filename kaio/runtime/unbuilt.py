"""Options whose names are agreed and whose work is not done: one table, which an option leaves when it is there."""

from __future__ import annotations

from kaio.errors import UnsupportedFeatureError, is_message

__all__ = ["refuse_unbuilt"]

__tracebackhide__ = is_message

_UNBUILT: dict[str, str] = {
    "schedule": "leave it out: threads go on in the order of their numbers",
    "fuel": "leave it out",
    "timeout_s": "leave it out, and wait with a time limit: `done.wait(timeout_s=…)`",
    "partial_barriers": "leave it out, and let every thread of a block reach its barriers",
}


def refuse_unbuilt(option: str, shown: str) -> None:
    """Raise UnsupportedFeatureError if an option is not there yet; `shown` is how it was asked for."""
    __tracebackhide__ = is_message
    if option in _UNBUILT:
        raise UnsupportedFeatureError(f"`{shown}` is not supported yet", help=_UNBUILT[option])
