"""One thread that calls users' callbacks, so that none holds up work, or what else waits for the end of work."""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kaio.runtime.completion import Completion

__all__ = ["Callback", "call", "call_soon", "finish_callbacks"]

Callback = Callable[["Completion"], object]

_log = logging.getLogger("kaio")
_pending: deque[tuple[Callback, Completion]] = deque()
_lock = threading.Lock()
_idle = threading.Event()
_idle.set()


def call_soon(callback: Callback, done: Completion) -> None:
    """Call it from the thread of callbacks, in the order of the calls of this; from here if there can be no thread."""
    with _lock:
        _pending.append((callback, done))
        if not _idle.is_set():
            return
        _idle.clear()
    try:
        # A thread for each busy time: an idle one would have to be woken, and ended at exit.
        threading.Thread(target=_work_off, name="kaio callbacks", daemon=True).start()
    except RuntimeError:  # the system has no more, or Python ends
        _work_off()


def _work_off() -> None:
    while True:
        with _lock:
            if not _pending:
                _idle.set()
                return
            callback, done = _pending.popleft()
        call(callback, done)
        del callback, done


def call(callback: Callback, done: Completion) -> None:
    """Call it here and now; what it raises is logged."""
    try:
        callback(done)
    except BaseException as problem:  # SystemExit too would end a thread that others need
        if isinstance(problem, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
            raise
        _log.exception("a callback of %r failed", done)


def finish_callbacks(timeout_s: float) -> None:
    """At exit: wait for the callbacks of what is done."""
    _idle.wait(timeout_s)


def _after_fork() -> None:
    """In a child process: the thread stayed in the parent, and its callbacks are called there."""
    global _lock, _idle
    _lock, _idle = threading.Lock(), threading.Event()
    _idle.set()
    _pending.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
