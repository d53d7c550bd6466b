"""What `await done` waits with: a future of asyncio's loop, or a rescheduling of trio's task.

Neither library is imported for it: one that runs is imported already.
"""

from __future__ import annotations

import sys
import weakref
from collections import deque
from collections.abc import Generator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from kaio.errors import KaioError
from kaio.forking import fork_lock

if TYPE_CHECKING:
    import asyncio

    from kaio.runtime.completion import Completion

__all__ = ["arrive", "mailbox_of"]

# As many awaits go on in one turn of a loop; other tasks have theirs in between. Each takes some 10 us.
_BATCH = 100


def arrive(done: Completion) -> Generator[Any, Any, None]:
    """Let other tasks go on until the work is done, well or not."""
    trio = sys.modules.get("trio")
    task = None if trio is None else _task_of(trio)
    if task is not None:
        return _arrive_in_trio(done, trio, task)
    return _arrive_in_asyncio(done)


def _arrive_in_asyncio(done: Completion) -> Generator[Any, Any, None]:
    if done._spin():
        return
    asyncio = sys.modules.get("asyncio")
    loop = None if asyncio is None else asyncio._get_running_loop()
    if loop is None:
        raise KaioError(
            "`await` of a Completion needs asyncio or trio, and neither runs here",
            help="wait with `done.wait()`, or take `done.future()` to another library",
        )
    future = loop.create_future()
    mailbox = mailbox_of(loop)

    def tell(_: Completion) -> None:
        mailbox.put(future)

    done._listen(tell)
    try:
        yield from future
    finally:
        if not future.done() or future.cancelled():
            done._forget(tell)


class Mailbox:
    """The futures of one loop of asyncio that are to be set: one call of the loop for many."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = weakref.ref(loop)
        self._arrived: deque[asyncio.Future[None]] = deque()
        self._is_called = False

    def put(self, future: asyncio.Future[None]) -> None:
        """Set a future soon; from any thread. Does not wait."""
        self._arrived.append(future)
        if not self._is_called:
            self._is_called = True
            loop = self._loop()
            try:
                if loop is not None:
                    loop.call_soon_threadsafe(self._deliver)
            except RuntimeError:  # the loop was closed meanwhile: nobody waits any more
                self._arrived.clear()

    def _deliver(self) -> None:
        for _ in range(_BATCH):
            if not self._arrived:
                self._is_called = False
                if not self._arrived:  # else it came in between, and who brought it may have seen the flag as it was
                    return
                self._is_called = True
            future = self._arrived.popleft()
            if not future.done():  # it is if the await was cancelled
                future.set_result(None)
        loop = self._loop()
        if loop is not None:
            loop.call_soon(self._deliver)


_mailboxes: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Mailbox] = weakref.WeakKeyDictionary()
_making = fork_lock()


def mailbox_of(loop: asyncio.AbstractEventLoop) -> Mailbox:
    """The mailbox of a loop. To be asked for by the thread that runs the loop."""
    found = _mailboxes.get(loop)
    if found is None:
        with _making:  # other threads have other loops, but the dictionary is one
            found = _mailboxes[loop] = Mailbox(loop)
    return found


def _task_of(trio: Any) -> Any:
    """The task of trio that runs in this thread, None if none does."""
    with suppress(RuntimeError, AttributeError):
        return trio.lowlevel.current_task()
    return None


def _arrive_in_trio(done: Completion, trio: Any, task: Any) -> Generator[Any, Any, None]:
    lowlevel = trio.lowlevel
    yield from lowlevel.checkpoint_if_cancelled().__await__()
    if done._spin():
        yield from lowlevel.cancel_shielded_checkpoint().__await__()  # each await is a turn of the other tasks too
        return
    token, waits = lowlevel.current_trio_token(), True

    def go_on() -> None:
        nonlocal waits
        if waits:
            waits = False
            lowlevel.reschedule(task)

    def tell(_: Completion) -> None:
        with suppress(trio.RunFinishedError):
            token.run_sync_soon(go_on)

    def abort(_: Any) -> Any:
        nonlocal waits
        waits = False
        done._forget(tell)
        return lowlevel.Abort.SUCCEEDED

    done._listen(tell)
    yield from lowlevel.wait_task_rescheduled(abort).__await__()
