"""Which launches come after which: by streams, buffers, waits, callbacks, asyncio; and which by nothing."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kaio
from kaio import i32
from kaio.runtime.launch_order import LaunchOrder


@pytest.fixture
def cpu() -> kaio.Device:
    """A CPU device whose work is looked at."""
    device: Any = kaio.Device("cpu", like="sm_80")
    device.order = LaunchOrder()
    return device


def _work(stream: Any, *uses: Any, do: Callable[[], object] = lambda: None) -> Any:
    return stream.submit(do, uses)


def _ordered(earlier: Any, later: Any) -> bool:
    assert not earlier._moment.is_after(later._moment)
    return bool(later._moment.is_after(earlier._moment))


@pytest.fixture
def streams(cpu: kaio.Device) -> list[Any]:
    return [cpu.stream() for _ in range(3)]


@pytest.fixture
def x(cpu: kaio.Device) -> Any:
    return cpu.alloc_zeros(8, i32)


def test_work_on_one_stream_is_ordered_and_on_two_is_not(streams: Any) -> None:
    one, two = _work(streams[0]), _work(streams[1])
    assert _ordered(one, _work(streams[0]))
    assert not _ordered(one, two)
    assert not one._moment.is_after(two._moment)


def test_a_buffer_orders_its_writer_before_readers_and_both_before_the_next_writer(streams: Any, x: Any) -> None:
    write = _work(streams[0], (x, "Out"))
    readers = [_work(stream, (x[:4], "In")) for stream in streams[1:]]
    assert all(_ordered(write, reader) for reader in readers)
    assert not _ordered(*readers)
    again = _work(streams[0], (x, "InOut"))
    assert all(_ordered(reader, again) for reader in readers)


def test_a_reader_that_is_done_is_still_before_the_next_writer(streams: Any, x: Any) -> None:
    reader = _work(streams[0], (x, "In"))
    while not reader._finished:
        threading.Event().wait(0.001)
    _work(streams[1], (x, "In"))
    assert _ordered(reader, _work(streams[2], (x, "Out")))


def test_two_imports_of_one_array_order_nothing(cpu: kaio.Device, streams: Any) -> None:
    host = np.zeros(8, np.int32)
    one, two = cpu.import_array(host), cpu.import_array(host)
    write = _work(streams[0], (one, "Out"))
    assert not _ordered(write, _work(streams[1], (two, "In")))


@pytest.mark.parametrize(
    "see",
    [
        lambda cpu, stream, done, x: done.wait(),
        lambda cpu, stream, done, x: done.result(),
        lambda cpu, stream, done, x: kaio.gather(done).wait(),
        lambda cpu, stream, done, x: list(kaio.as_completed([done])),
        lambda cpu, stream, done, x: stream.wait(),
        lambda cpu, stream, done, x: cpu.wait(),
        lambda cpu, stream, done, x: stream.__exit__(None, None, None),
        lambda cpu, stream, done, x: x.to_host(),
        lambda cpu, stream, done, x: x.__dlpack__(),
        lambda cpu, stream, done, x: asyncio.run(_await(done)),
        lambda cpu, stream, done, x: asyncio.run(_leave(stream)),
    ],
)
@pytest.mark.parametrize("was_done", [False, True])
def test_what_the_host_has_seen_is_before_all_that_it_submits(
    cpu: kaio.Device, streams: Any, x: Any, see: Any, was_done: bool
) -> None:
    done = _work(streams[0], (x, "Out"))
    other = _work(streams[1])
    if was_done:
        while not done._finished:
            threading.Event().wait(0.001)
    assert not _ordered(done, _work(streams[2]))
    see(cpu, streams[0], done, x)
    later = _work(cpu.stream())
    assert _ordered(done, later)
    assert _ordered(other, later) is cpu.order.is_reached(other._moment)  # type: ignore[attr-defined]


async def _await(done: Any) -> None:
    await done


async def _leave(stream: Any) -> None:
    async with stream:
        pass


def test_a_stream_whose_work_nobody_kept_is_seen_by_a_wait(cpu: kaio.Device, streams: Any) -> None:
    moment = _work(streams[0])._moment
    streams[0].wait()
    assert _work(streams[1])._moment.is_after(moment)


def test_asking_counts_where_the_answer_is_yes(streams: Any) -> None:
    gate = threading.Event()
    held = _work(streams[0], do=gate.wait)
    assert not held.is_done
    assert not _ordered(held, _work(streams[1]))
    gate.set()
    while not held.is_done:
        threading.Event().wait(0.001)
    assert _ordered(held, _work(streams[1]))


def test_a_callback_comes_after_its_work(streams: Any) -> None:
    later: list[Any] = []
    called = threading.Event()
    done = _work(streams[0])
    done.add_done_callback(lambda _: (later.append(_work(streams[1])), called.set()))
    assert called.wait(10)
    assert _ordered(done, later[0])


def test_work_that_waits_for_work_orders_nothing_for_the_host(streams: Any, x: Any) -> None:
    gate = threading.Event()
    write = _work(streams[0], (x, "Out"), do=gate.wait)
    read = _work(streams[1], (x, "In"))
    gate.set()
    while not read._finished:
        threading.Event().wait(0.001)
    assert not _ordered(write, _work(streams[2]))


def test_devices_that_nobody_looks_at_keep_no_order() -> None:
    assert kaio.Device("cpu", like="sm_75").order is None  # type: ignore[attr-defined]
