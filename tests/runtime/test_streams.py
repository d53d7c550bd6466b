"""Which stream work goes to, and streams that are ordered by hand; both devices."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kaio
from kaio import i32
from kaio.errors import KaioError


@pytest.fixture
def x(device: Any) -> Any:
    """A buffer of 1, 2, 3."""
    return device.alloc_from(np.arange(1, 4, dtype=np.int32))


# Policies.


def opened(device: Any, **options: Any) -> Any:
    return kaio.Device(str(device), **options)


def test_all_threads_share_one_stream_unless_something_is_said(device: Any) -> None:
    found = [device.current_stream()]
    thread = threading.Thread(target=lambda: found.append(device.current_stream()))
    thread.start()
    thread.join()
    assert found[0] is found[1]


def test_each_thread_has_a_stream_of_its_own_which_a_later_thread_takes_over(device: Any) -> None:
    device = opened(device, streams="per_thread")
    found: dict[str, Any] = {}

    def note(name: str) -> None:
        x = device.alloc_zeros(4, i32)
        assert x.fill(1).stream is x.copy_from(x.copy()).stream is device.current_stream()
        found[name] = device.current_stream()

    note("here")
    for name in ("first", "second"):
        thread = threading.Thread(target=note, args=(name,))
        thread.start()
        thread.join()
    assert found["first"] is found["second"] is not found["here"]
    device.wait(60)


def test_independent_work_of_a_pool_overlaps(device: Any, make_latch: Any) -> None:
    device = opened(device, streams="pool")
    x, y = (device.alloc_from(np.zeros(4, np.int32)) for _ in range(2))
    latch = make_latch()
    stream = device.stream_for(((x, "Out"),))
    held = latch.hold(stream, (x, "Out"))
    filled = y.fill(5)
    filled.wait(60)  # although the other is held
    assert filled.stream is not held.stream
    assert not held.is_done
    latch.release()
    device.wait(60)


def test_a_chain_stays_on_one_stream_of_the_pool(device: Any) -> None:
    device = opened(device, streams="pool")
    x, y = device.alloc_zeros(4, i32), device.alloc_zeros(4, i32)
    first = x.fill(1)
    chain = [first, y.copy_from(x), x.copy_from(y), x.fill(3), y.copy_from(x)]
    assert {done.stream for done in chain} == {first.stream}
    assert y.to_host().tolist() == [3] * 4


def test_two_readers_of_one_result_part_ways(device: Any, make_latch: Any) -> None:
    device = opened(device, streams="pool")
    x, y, z = (device.alloc_from(np.zeros(4, np.int32)) for _ in range(3))
    latch = make_latch()
    made = latch.hold(device.stream_for(((x, "Out"),)), (x, "Out"))
    first, second = y.copy_from(x), z.copy_from(x)
    assert first.stream is made.stream
    assert second.stream is not made.stream
    latch.release()
    device.wait(60)


def test_the_block_of_a_stream_goes_before_the_policy(device: Any) -> None:
    plain = device
    for streams in ("per_thread", "pool"):
        device = opened(plain, streams=streams)
        x = device.alloc_zeros(4, i32)
        with device.stream() as outer:
            with device.stream() as inner:
                assert x.fill(1).stream is device.current_stream() is inner
            assert x.fill(2).stream is device.current_stream() is outer
        assert device.current_stream() is not outer


steps = st.lists(
    st.tuples(st.sampled_from("scn"), st.integers(0, 3), st.integers(0, 3), st.integers(1, 9)), max_size=30
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=steps)
def test_a_pool_gives_what_one_stream_gives(device: Any, steps: Any) -> None:
    device = opened(device, streams="pool")
    buffers = [device.alloc_zeros(64, i32) for _ in range(4)]
    expected = [np.zeros(64, np.int32) for _ in range(4)]
    for kind, to, source, value in steps:
        if kind == "s":
            buffers[to][value:].fill(value)
            expected[to][value:] = value
        elif kind == "c" and to != source:
            buffers[to][:40].copy_from(buffers[source][24:])
            expected[to][:40] = expected[source][24:]
        elif kind == "n":
            buffers[to], expected[to] = buffers[source].copy(), expected[source].copy()
    for buffer, numbers in zip(buffers, expected, strict=True):
        np.testing.assert_array_equal(buffer.to_host(), numbers)


def test_bound_launches_that_take_each_others_results_share_a_stream_of_the_pool() -> None:
    @kaio.kernel
    def add(x: kaio.In[i32], y: kaio.Out[i32]) -> None:
        i = kaio.grid(1)
        if i < y.size:
            y[i] = x[i] + 1

    device = kaio.Device("cpu", streams="pool")
    x, y, z, other = (device.alloc_zeros(8, i32) for _ in range(4))
    device.wait(60)
    for buffer in (x, y, z, other):
        buffer.to_host()
    first, second, alone = (add.over(8).bind(*pair) for pair in ((x, y), (y, z), (x, other)))
    work = [bound.launch() for bound in (first, second, alone)]
    assert work[0].stream is work[1].stream is not work[2].stream
    assert (z.to_host().tolist(), other.to_host().tolist()) == ([2] * 8, [1] * 8)


@pytest.mark.gpu
def test_a_chain_of_launches_goes_the_quick_way_in_a_pool_too(monkeypatch: pytest.MonkeyPatch) -> None:
    from examples.saxpy import saxpy

    device: Any = kaio.Device("cuda:0", streams="pool")
    x, y = (device.alloc_from(np.ones(64, np.float32)) for _ in range(2))
    launcher, first = saxpy.over(64), None
    for _ in range(3):
        first = launcher.launch(x, y, 1.0)
    assert first is not None
    with monkeypatch.context() as patched:
        patched.setattr(type(first.stream), "submit", None)
        found = [launcher.launch(x, y, 1.0) for _ in range(3)]
    assert {done.stream for done in found} == {first.stream}
    assert (y.to_host() == 7).all()
    device.wait(60)


# Priorities.


def test_a_priority_that_the_device_does_not_have_is_refused_with_those_it_has(device: Any) -> None:
    for priority in (1, -99):
        with pytest.raises(KaioError) as caught:
            device.stream(priority=priority)
        first, _, rest = str(caught.value).partition("\n")
        assert first == f"{device} has no streams of priority {priority}"
        assert rest.startswith(("  help: it has from 0 to -", "  help: it has 0 alone"))


# Order by hand.


def test_work_of_a_manual_stream_does_not_wait(device: Any, x: Any, make_latch: Any) -> None:
    latch = make_latch()
    held = latch.hold(device.stream(), (x, "Out"))
    by_hand = device.stream(ordering="manual")
    by_hand.set(x, (7).to_bytes(4, "little")).wait(60)
    assert not held.is_done
    latch.release()
    held.wait(60)


def test_a_manual_stream_waits_for_what_it_is_told_to(device: Any, x: Any, make_latch: Any) -> None:
    y = device.alloc_zeros(3, i32)
    latch = make_latch()
    held = latch.hold(device.stream())
    by_hand = device.stream(ordering="manual")
    by_hand.wait_for(held)
    copied = by_hand.copy(y, x)
    assert not copied.is_done
    latch.release()
    copied.wait(60)
    assert held.is_done


def test_wait_for_takes_streams_and_gathered_work(device: Any, x: Any, make_latch: Any) -> None:
    latches = [make_latch() for _ in range(3)]
    streams = [device.stream() for _ in range(3)]
    held = [latch.hold(stream) for latch, stream in zip(latches, streams, strict=True)]
    by_hand = device.stream(ordering="manual")
    by_hand.wait_for(streams[0])
    by_hand.wait_for(kaio.gather(held[1], kaio.gather(held[2])))
    filled = by_hand.set(x, bytes(4))
    for latch in latches:
        assert not filled.is_done
        latch.release()
    filled.wait(60)


def test_wait_for_of_failed_work_lets_the_stream_go_on(fail: Any, cpu: Any) -> None:
    other = cpu.stream()
    failed = fail(stream=cpu.stream())
    other.wait_for(failed)
    x = cpu.alloc_zeros(3, i32)
    other.set(x, b"\x01\0\0\0").wait(60)
    assert x.to_host().tolist() == [1, 1, 1]
    with pytest.raises(KaioError):
        failed.wait(60)


def test_wait_for_says_what_it_takes(device: Any) -> None:
    with pytest.raises(KaioError) as caught:
        device.stream().wait_for(3)
    assert str(caught.value) == (
        "`wait_for` takes a Completion or a stream (got 3)\n  help: pass what a launch, a copy or a fill gave"
    )


def test_managed_work_and_the_host_come_after_all_that_manual_streams_do(device: Any, make_latch: Any) -> None:
    x, y = device.alloc_zeros(8, i32), device.alloc_zeros(8, i32)
    device.wait(60)  # manual streams would not wait for the zeros
    latch = make_latch()
    halves = [device.stream(ordering="manual") for _ in range(2)]
    for number, stream in enumerate(halves):
        latch.hold(stream)
        stream.set(x[4 * number : 4 * number + 4], (number + 1).to_bytes(4, "little"))
    copied = y.copy_from(x)  # on a managed stream: after both of them
    assert not copied.is_done
    latch.release()
    assert y.to_host().tolist() == x.to_host().tolist() == [1] * 4 + [2] * 4


def test_memory_lives_as_long_as_any_manual_stream_uses_it(device: Any, make_latch: Any) -> None:
    source, out = device.alloc_from(np.full(1000, 7, np.int32)), device.alloc_zeros(1000, i32)
    device.wait(60)
    latch = make_latch()
    reads, writes = (device.stream(ordering="manual") for _ in range(2))
    latch.hold(reads)
    reads.copy(out, source)
    writes.set(source[:0], bytes(4))
    writes.set(source[999:], (7).to_bytes(4, "little")).wait(60)
    del source
    for _ in range(4):  # take the memory if it was given back
        device.alloc_from(np.full(1000, 9, np.int32)).fill(9).wait(60)
    latch.release()
    assert (out.to_host() == 7).all()


def test_a_missing_wait_is_found_by_full_checks() -> None:
    @kaio.kernel
    def put(y: kaio.Out[i32], value: i32) -> None:
        i = kaio.grid(1)
        if i < y.size:
            y[i] = value

    device = kaio.Device("cpu", check="full", ordering="manual")
    y, first, second = device.alloc_zeros(8, i32), device.stream(), device.stream()
    device.wait(60)
    launched = [put.over(8).on(stream).launch(y, 1) for stream in (first, second)]
    with pytest.raises(kaio.KernelFault) as caught:
        kaio.gather(*launched).wait(60)
    assert caught.value.kind == "race"
    healed = y.fill(0)
    first.wait_for(healed)
    second.wait_for(put.over(8).on(first).launch(y, 1))
    put.over(8).on(second).launch(y, 2).wait(60)
    assert y.to_host().tolist() == [2] * 8
