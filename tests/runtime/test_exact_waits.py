"""Waits between streams are put in where they are needed, and nowhere else: read off what the fake driver was given.

All streams are held, so that nothing is done before the program ends, and each wait matters. What comes after what is
then computed anew from the driver's own view, events and waits, with vector clocks; two pieces of work conflict if one
of them writes memory that the other uses.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kaio
from kaio import u8
from tests.runtime.conftest import CudaLatch

pytestmark = pytest.mark.gpu

BUFFERS, STREAMS, SIZE = 3, 4, 64


class Call(NamedTuple):
    """A call of the driver that put something on a stream."""

    name: str
    stream: int
    a: int
    b: int


class Story:
    """What was put on streams since `clear`."""

    def __init__(self) -> None:
        library = ctypes.CDLL("libcuda.so.1")
        self._text = (ctypes.c_char * (1 << 22)).in_dll(library, "kaio_story")
        self.clear = library.kaio_clear_story

    def read(self) -> list[Call]:
        """The calls so far."""
        lines = [line.split() for line in self._text.value.decode().splitlines()]
        return [
            Call(name, *(0 if at == "(nil)" else int(at, 16) for at in addresses[:3])) for name, *addresses in lines
        ]


@pytest.fixture
def story() -> Story:
    """What the fake driver was given."""
    try:
        return Story()
    except ValueError:
        pytest.skip("the driver is not the fake one, which keeps a log")


@pytest.fixture
def gpu() -> Any:
    """The first GPU."""
    return kaio.Device("cuda:0")


class Use(NamedTuple):
    """What a copy or a fill does to memory, by the numbers of the buffers."""

    reads: frozenset[int]
    writes: frozenset[int]

    def conflicts(self, other: Use) -> bool:
        """Whether the order of the two matters."""
        return bool(self.writes & (other.reads | other.writes) or other.writes & self.reads)


def orders(calls: list[Call], without: int = -1) -> list[dict[int, int]]:
    """How many calls of each stream come before each call, if the wait at `without` was not there."""
    streams: dict[int, dict[int, int]] = {}
    events: dict[int, dict[int, int]] = {}
    found = []
    for number, call in enumerate(calls):
        clock = streams.setdefault(call.stream, {})
        if call.name == "wait" and number != without:
            for stream, count in events[call.a].items():
                clock[stream] = max(clock.get(stream, 0), count)
        clock[call.stream] = clock.get(call.stream, 0) + 1
        if call.name == "record":
            events[call.a] = dict(clock)
        found.append(dict(clock))
    return found


def unordered(calls: list[Call], uses: dict[int, Use], without: int = -1) -> Iterator[tuple[int, int]]:
    """Work that conflicts, and may run at the same time."""
    clocks = orders(calls, without)
    for later, use in uses.items():
        for earlier, other in uses.items():
            if earlier >= later:
                break
            stream = calls[earlier].stream
            if use.conflicts(other) and clocks[later].get(stream, 0) < clocks[earlier][stream]:
                yield earlier, later


places = st.integers(0, BUFFERS - 1)
views = st.sampled_from([slice(None), slice(SIZE // 2), slice(SIZE // 4, -SIZE // 4)])
steps = st.one_of(
    st.tuples(st.just("set"), places, views),
    st.tuples(st.just("copy"), places, places, views),
    st.tuples(st.just("read"), places, views),
)
programs = st.lists(st.tuples(st.integers(0, STREAMS - 1), steps), min_size=1, max_size=24)


class Program:
    """Random work over buffers that are known to be ready, on streams that are held."""

    def __init__(self, gpu: Any, steps: Any, **options: Any) -> None:
        self.gpu, self.steps = gpu, steps
        self.streams = [gpu.stream(**options) for _ in range(STREAMS)]
        # Of each buffer a reader of its own takes what it reads, so that nothing but the reads is ordered by it.
        self.buffers = [gpu.alloc_zeros(SIZE, u8) for _ in range(BUFFERS + STREAMS)]
        for buffer in self.buffers:
            buffer.to_host()
        self.kept: list[Any] = []  # completions, so that it does not depend on who is still referred to

    def run(self, story: Story) -> tuple[list[Call], dict[int, Use]]:
        """The calls and what the work among them uses."""
        latch = CudaLatch(self.gpu)
        for stream in self.streams:
            latch.hold(stream)
        story.clear()
        try:
            planned = [self.put(number, step) for number, step in self.steps]
            calls = story.read()
        finally:
            latch.release()
        self.gpu.wait(60)
        work = [number for number, call in enumerate(calls) if call.name in ("copy", "set")]
        wanted = [use for use in planned if use is not None]
        assert len(work) == len(wanted)
        return calls, dict(zip(work, wanted, strict=True))

    def put(self, number: int, step: Any) -> Use | None:
        """Put one step on a stream; what it uses."""
        stream, buffers = self.streams[number], self.buffers
        match step:
            case ("set", place, view):
                self.kept.append(stream.set(buffers[place][view], b"\x01"))
                return Use(frozenset(), frozenset((place,)))
            case ("copy", to, source, view) if to != source:
                self.kept.append(stream.copy(buffers[to][view], buffers[source][view]))
                return Use(frozenset((source,)), frozenset((to,)))
            case ("read", place, view):
                own = BUFFERS + number
                self.kept.append(stream.copy(buffers[own][view], buffers[place][view]))
                return Use(frozenset((place,)), frozenset((own,)))
        return None


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=programs)
def test_each_wait_is_needed_and_none_is_missing(gpu: Any, story: Story, steps: Any) -> None:
    calls, uses = Program(gpu, steps).run(story)
    assert not list(unordered(calls, uses))
    for number, call in enumerate(calls):
        if call.name == "wait":
            assert list(unordered(calls, uses, without=number)), f"{call} is not needed"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=programs)
def test_streams_that_are_ordered_by_hand_get_no_waits(gpu: Any, story: Story, steps: Any) -> None:
    calls, _ = Program(gpu, steps, ordering="manual").run(story)
    assert not [call for call in calls if call.name == "wait"]


def test_a_wait_that_another_one_implies_is_left_out(gpu: Any, story: Story) -> None:
    program = Program(
        gpu, [(0, ("set", 0, slice(None))), (1, ("copy", 1, 0, slice(None))), (2, ("set", 0, slice(None)))]
    )
    calls, _ = program.run(story)
    # Stream 2 writes what stream 0 wrote and stream 1 read: who waits for the reader has waited for the writer.
    assert [call.name for call in calls if call.name in ("set", "copy", "wait")] == [
        "set",
        "wait",
        "copy",
        "wait",
        "set",
    ]


def test_wait_for_puts_in_one_wait_and_is_not_repeated(gpu: Any, story: Story) -> None:
    x = gpu.alloc_zeros(SIZE, u8)
    x.to_host()
    first, second, third = (gpu.stream(ordering="manual") for _ in range(3))
    latch = CudaLatch(gpu)
    latch.hold(first)
    story.clear()
    done = first.set(x, b"\x01")
    for _ in range(2):
        second.wait_for(done)
    third.wait_for(second)
    third.wait_for(done)  # which the second one has waited for
    names = [call.name for call in story.read()]
    latch.release()
    third.wait(60)
    assert names.count("wait") == 2
