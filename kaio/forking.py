"""Locks that a fork leaves usable: in the child process no other thread is there that could release one.

A lock around a few lines of Python is as good as new in the child. One around native code, which another thread may be
in the middle of, is taken before the fork, so that the child finds whole what it guards.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any

__all__ = ["fork_lock", "fork_rlock", "whole_lock"]

_PATIENCE_S = 60.0  # rather a fork that may go wrong than one that never ends

_renewed: weakref.WeakSet[Any] = weakref.WeakSet()
_whole: list[tuple[int, Any]] = []
_taken: list[Any] = []


def fork_lock() -> threading.Lock:
    """A lock that nobody holds in a child process."""
    made = threading.Lock()
    _renewed.add(made)
    return made


def fork_rlock() -> Any:
    """The same of a lock that its thread may take again."""
    made = threading.RLock()
    _renewed.add(made)
    return made


def whole_lock(level: int) -> Any:
    """A lock, for the whole process, that a fork waits for. Whoever holds one takes only those of higher levels."""
    made = threading.RLock()
    _whole.append((level, made))
    _whole.sort(key=lambda pair: pair[0])
    return made


def _before() -> None:
    _taken.extend(lock for _, lock in _whole if lock.acquire(timeout=_PATIENCE_S))


def _after_in_parent() -> None:
    while _taken:
        _taken.pop().release()


def _after_in_child() -> None:
    _after_in_parent()
    for lock in list(_renewed):
        lock._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
