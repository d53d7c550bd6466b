"""One thread that calls users' callbacks, so that none holds up work, or what else waits for the end of work."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kaio.runtime.completion import Completion

__all__ = ["Callback", "call", "call_soon", "finish_callbacks", "start"]

Callback = Callable[["Completion"], object]

_log = logging.getLogger("kaio")
_pending: SimpleQueue[tuple[Callback, Completion]] = SimpleQueue()
_lock = threading.Lock()
_count = 0  # of those that were not called yet
_idle = threading.Event()
_idle.set()
_thread: threading.Thread | None = None


def start() -> None:
    """Have the thread of callbacks, if there can be one; to be called where there is a callback that is to come.

    Once Python begins to end it starts no threads any more, and there may be callbacks to call then.
    """
    global _thread
    if _thread is None:
        with _lock:
            if _thread is None:
                thread = threading.Thread(target=_serve, args=(_pending,), name="kaio callbacks", daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # the system has no more, or Python ends
                    return
                _thread = thread


def call_soon(callback: Callback, done: Completion) -> None:
    """Call it from the thread of callbacks, in the order of the calls of this; from here if there is no thread."""
    global _count
    if _thread is None:
        call(callback, done)
        return
    with _lock:
        _count += 1
        _idle.clear()
    _pending.put((callback, done))


def _serve(pending: SimpleQueue[tuple[Callback, Completion]]) -> None:
    global _count
    while True:
        callback, done = pending.get()
        call(callback, done)
        del callback, done
        with _lock:
            _count -= 1
            if not _count:
                _idle.set()


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
    global _lock, _idle, _pending, _thread, _count
    _lock, _idle, _pending, _thread, _count = threading.Lock(), threading.Event(), SimpleQueue(), None, 0
    _idle.set()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
