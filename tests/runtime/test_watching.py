"""The thread that watches: what it asks, in which order, and what it does when asking fails."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from typing import Any

import pytest

from kaio.runtime.completion import Completion
from kaio.runtime.watching import Watcher, pause_after

LIMIT_S = 60


class Work(Completion):
    """Work of a stream that is any object; notes each time that it is asked, and told done."""

    def __init__(self, stream: Any, turn: int, notes: queue.SimpleQueue[Any], answers: Any = (True,)) -> None:
        self.stream, self._number, self._notes, self._answers = stream, turn, notes, list(answers)

    def _poll(self) -> bool:
        if not self._finished:
            answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
            self._notes.put(("asked", self._number))
            if isinstance(answer, Exception):
                self._answers = [True]
                raise answer
            self._finished = answer
        return self._finished

    def _turn(self) -> int:
        return self._number

    def _described(self) -> str:
        return f"work {self._number}"

    def _tell(self) -> None:
        self._notes.put(("told", self._number))


@pytest.fixture
def watcher() -> Iterator[Watcher]:
    """One of its own, whose thread ends with the test."""
    watcher = Watcher()
    yield watcher
    watcher.stop()
    assert watcher._thread is not None
    assert not watcher._thread.is_alive()


@pytest.fixture
def notes() -> queue.SimpleQueue[Any]:
    """What happened, in order."""
    return queue.SimpleQueue()


def _until(notes: queue.SimpleQueue[Any], last: Any) -> list[Any]:
    found = [notes.get(timeout=LIMIT_S)]
    while found[-1] != last:
        found.append(notes.get(timeout=LIMIT_S))
    return found


def test_it_prepares_before_it_asks(watcher: Watcher, notes: Any) -> None:
    watcher.prepare(lambda: notes.put("prepared"))
    watcher.watch(Work(object(), 1, notes))
    assert _until(notes, ("told", 1)) == ["prepared", ("asked", 1), ("told", 1)]
    watcher.prepare(lambda: notes.put("more"))
    watcher.watch(Work(object(), 2, notes))
    assert _until(notes, ("told", 2)) == ["more", ("asked", 2), ("told", 2)]


def test_it_tells_the_work_of_a_stream_in_order_and_asks_about_few(watcher: Watcher, notes: Any) -> None:
    stream, order = object(), [5, 2, 9, *range(10, 60), 1]
    hold = Work(stream, 0, notes, [False] * 3 + [True])
    for work in (hold, *(Work(stream, turn, notes) for turn in order)):
        watcher._arrived.append(work)
    watcher.watch(Work(stream, 60, notes))
    found = _until(notes, ("told", 60))
    assert [turn for what, turn in found if what == "told"] == sorted([0, *order, 60])
    assert found[:4] == [("asked", 0)] * 4  # nothing else of the stream meanwhile


def test_what_was_told_too_early_is_asked_about_again(watcher: Watcher, notes: Any) -> None:
    stream = object()
    watcher._arrived.append(Work(stream, 1, notes, [True]))
    watcher._arrived.append(Work(stream, 2, notes, [False, False, True]))  # known later than what comes after it
    watcher._arrived.append(Work(stream, 3, notes, [True]))
    watcher.watch(Work(object(), 0, notes))
    told: list[int] = []
    while sorted(told) != [0, 1, 2, 3]:
        what, turn = notes.get(timeout=LIMIT_S)
        told += [turn] if what == "told" else []


def test_who_waits_is_told_if_asking_fails(watcher: Watcher, notes: Any, caplog: pytest.LogCaptureFixture) -> None:
    watcher.watch(Work(object(), 1, notes, [ValueError("no answer")]))
    assert _until(notes, ("told", 1))[0] == ("asked", 1)
    assert caplog.messages == ["asking about <Completion of work 1, done> failed"]


def test_work_that_comes_when_it_has_ended_is_waited_for(notes: Any) -> None:
    class Waited(Work):
        def _block(self, timeout_s: float | None) -> bool:
            notes.put("waited")
            return True

    watcher = Watcher()
    watcher.stop()
    watcher.watch(Waited(object(), 1, notes))
    assert _until(notes, ("told", 1)) == ["waited", ("told", 1)]


def test_pauses_grow_with_the_time_that_nothing_happened() -> None:
    found = [pause_after(waited_s) for waited_s in (0, 1e-3, 32e-3, 0.1, 10)]
    assert found == [20e-6, 1e-3 / 16, 1e-3, 0.1 / 64, 5e-3]
