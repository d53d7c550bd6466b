"""One thread that asks about pending work and calls what waits for it.

A driver's own callbacks are no way to learn that work is done: they are not told of a fault, and Python run from one
can deadlock with a thread that holds the GIL inside a driver call. A thread that waits natively for one piece of work
at a time is none either: it hangs when that work waits for a later piece. So the thread asks about all in turn.
"""

from __future__ import annotations

import atexit
import logging
import queue
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kaio.runtime.completion import Completion

__all__ = ["watch"]

_log = logging.getLogger("kaio")
_inbox: queue.SimpleQueue[Completion | None] = queue.SimpleQueue()
_starting = threading.Lock()
_thread: threading.Thread | None = None

# A sleep of 20 us takes about 70 with the timer slack of Linux; work that takes long is asked about less often.
_SHORTEST_S, _LONGEST_S = 20e-6, 500e-6


def watch(done: Completion) -> None:
    """Call the callbacks of a completion once it is done."""
    global _thread
    if _thread is None or not _thread.is_alive():
        with _starting:
            if _thread is None or not _thread.is_alive():
                if _thread is None:
                    atexit.register(_stop)
                _thread = threading.Thread(target=_serve, name="kaio completions", daemon=True)
                _thread.start()
    _inbox.put(done)


def _stop() -> None:
    """At exit: a thread that is inside the driver while Python ends would crash."""
    _inbox.put(None)
    if _thread is not None:
        _thread.join(timeout=5.0)


def _serve() -> None:
    pending: list[Completion] = []
    pause = _SHORTEST_S
    while True:
        before = len(pending)
        while not pending or not _inbox.empty():
            arrived = _inbox.get()
            if arrived is None:
                return
            pending.append(arrived)
            arrived = None
        left = [done for done in pending if not _settled(done)]
        pause = _SHORTEST_S if len(left) != before else min(pause * 1.25, _LONGEST_S)
        pending = left
        if pending:
            time.sleep(pause)


def _settled(done: Completion) -> bool:
    try:
        if not done.is_done:
            return False
    except Exception:
        _log.exception("asking about %r failed", done)
    done._run_callbacks()
    return True
