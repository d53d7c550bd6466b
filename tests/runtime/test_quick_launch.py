"""The quick ways of launching on a GPU: native calls that skip what the usual launch does not need, and notice it when
it does.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import random
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import pytest

import kaio
from examples.saxpy import saxpy
from kaio import f32
from kaio.errors import BufferClosedError, LaunchError
from tests.live import settled
from tests.refusals import refusal
from tests.runtime.test_cuda import _Log

pytestmark = pytest.mark.gpu

N = 1000


@pytest.fixture
def device() -> Iterator[Any]:
    """The first GPU."""
    device = kaio.Device("cuda:0")
    yield device
    device.wait(timeout_s=60)


@pytest.fixture
def x(device: Any) -> Any:
    """What saxpy reads."""
    return device.alloc_from(np.arange(N, dtype=np.float32))


@pytest.fixture
def y(device: Any) -> Any:
    """What saxpy adds to."""
    return device.alloc_zeros(N, f32)


@pytest.fixture
def calls() -> _Log:
    """What asks the fake driver for the calls it was given."""
    try:
        return _Log()
    except ValueError:
        pytest.skip("the driver is not the fake one, which keeps a log")


@pytest.fixture(params=["native", "bindings"])
def native(request: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """With the native call, and as if native code could not be made."""
    from kaio.runtime.cuda import thunk

    if request.param == "bindings":
        monkeypatch.setattr(thunk, "_methods", lambda: None)
    return str(request.param)


def first_class(x: Any, y: Any) -> Callable[[], Any]:
    """The launch as users write it."""
    return lambda: saxpy.over(N).launch(x, y, 1.0)


def bound(x: Any, y: Any) -> Callable[[], Any]:
    """The same bound."""
    return saxpy.over(N).bind(x, y, 1.0).launch


WAYS = pytest.mark.parametrize("way", [first_class, bound])


@WAYS
def test_a_launch_repeated_does_its_work_each_time(native: str, way: Any, x: Any, y: Any) -> None:
    launch = way(x, y)
    for _ in range(50):
        launch()
    np.testing.assert_array_equal(y.to_host(), 50 * x.to_host())
    launch().wait(60)
    np.testing.assert_array_equal(y.to_host(), 51 * x.to_host())


@WAYS
def test_a_launch_repeated_asks_the_driver_for_nothing_else(way: Any, calls: _Log, x: Any, y: Any) -> None:
    launch = way(x, y)
    launch()
    launch()

    def repeat() -> None:
        for _ in range(5):
            launch()

    assert calls.of(repeat) == ["launch"] * 5


@WAYS
def test_a_launch_works_in_a_thread_that_never_used_the_device(way: Any, x: Any, y: Any) -> None:
    launch = way(x, y)
    for _ in range(3):
        launch()
    thread = threading.Thread(target=launch)
    thread.start()
    thread.join()
    np.testing.assert_array_equal(y.to_host(), 4 * x.to_host())


@WAYS
def test_launches_of_many_threads_all_count(way: Any, x: Any, y: Any) -> None:
    launch = way(x, y)
    launch()
    threads = [threading.Thread(target=lambda: [launch() for _ in range(50)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_array_equal(y.to_host(), 201 * x.to_host())


@WAYS
def test_a_full_queue_lets_other_threads_go_on(way: Any, make_latch: Any, calls: _Log, x: Any, y: Any) -> None:
    launch, latch = way(x, y), make_latch()
    for _ in range(3):
        launch().wait(60)
    queue = ctypes.c_int.in_dll(ctypes.CDLL("libcuda.so.1"), "kaio_queue")
    usual, queue.value = queue.value, 2
    try:
        latch.hold(kaio.Device("cuda:0").current_stream())
        launch()
        threading.Timer(0.05, latch.release).start()  # needs the GIL while the next launch is blocked
        launch().wait(60)
    finally:
        queue.value = usual
    np.testing.assert_array_equal(y.to_host(), 5 * x.to_host())


@WAYS
def test_a_closed_buffer_is_noticed(way: Any, x: Any, y: Any) -> None:
    launch = way(x, y)
    for _ in range(3):
        launch()
    array = y.__dlpack__(max_version=(1, 0))  # so that its memory is not given back yet
    y.close()
    assert refusal(launch, error=BufferClosedError) == (
        "argument `y` of kernel `saxpy` cannot be used: the GpuBuffer of f32[1000] was closed"
    )
    del array


@WAYS
def test_work_of_other_streams_is_waited_for_and_waits(way: Any, device: Any, make_latch: Any, x: Any, y: Any) -> None:
    launch, latch, other = way(x, y), make_latch(), device.stream()
    for _ in range(3):
        launch().wait(60)
    held = latch.hold(other, (x, "InOut"))
    done = launch()
    assert not done.is_done
    assert not held.is_done
    with other:
        z = x.copy()
        after = y.copy()
        latch.release()
    done.wait(60)
    np.testing.assert_array_equal(after.to_host(), 4 * z.to_host())


@WAYS
def test_a_write_on_another_stream_waits_for_the_last_of_many(
    way: Any, device: Any, make_latch: Any, x: Any, y: Any
) -> None:
    launch, latch = way(x, y), make_latch()
    launch()
    latch.hold(device.current_stream())
    for _ in range(5):
        launch()
    with device.stream():
        x.fill(7.0)
        copied = y.copy()
        assert not copied.memory.writer.is_done
        latch.release()
    np.testing.assert_array_equal(copied.to_host(), 6 * np.arange(N, dtype=np.float32))
    assert x.to_host()[0] == 7


@WAYS
def test_a_completion_that_is_kept_does_not_wait_for_later_work(
    way: Any, device: Any, make_latch: Any, x: Any, y: Any
) -> None:
    launch, latch = way(x, y), make_latch()
    launch()
    done = launch()
    latch.hold(device.current_stream())
    late = launch()
    done.wait(60)
    assert not late.is_done
    latch.release()
    late.wait(60)


@WAYS
def test_what_is_read_back_does_not_wait_for_later_work_on_other_buffers(
    way: Any, device: Any, make_latch: Any, x: Any, y: Any
) -> None:
    launch, latch = way(x, y), make_latch()
    for _ in range(3):
        launch()
    held = latch.hold(device.current_stream())
    np.testing.assert_array_equal(y.to_host(), 3 * x.to_host())
    assert not held.is_done
    latch.release()


@WAYS
def test_kept_and_dropped_completions_all_end(way: Any, x: Any, y: Any) -> None:
    launch = way(x, y)
    kept = [launch() for k in range(20) if k % 3]
    for done in reversed(kept):
        done.wait(60)
    assert all(done.is_done for done in kept)


@WAYS
def test_a_launch_keeps_no_stream_alive(way: Any, device: Any, x: Any, y: Any) -> None:
    def on_a_stream() -> Any:
        with device.stream() as stream:
            launch = way(x, y)
            for _ in range(3):
                launch()
            return weakref.ref(stream)

    gc.disable()  # nothing is in a cycle
    try:
        gone = on_a_stream()
        x.fill(1.0).wait(60)
        y.fill(1.0).wait(60)
        assert gone() is None  # written elsewhere since, the buffers have forgotten it
    finally:
        gc.enable()


@WAYS
def test_a_launch_that_goes_on_keeps_no_buffer_alive_that_is_dropped(way: Any, calls: _Log, device: Any) -> None:
    def rows() -> None:
        x, y = device.alloc_zeros(N, f32), device.alloc_zeros(N, f32)
        launch = way(x, y)
        for _ in range(3):
            launch()

    def drop() -> None:
        rows()
        device.alloc_zeros(4, f32)

    drop()
    before = settled(device).live_buffers
    assert calls.of(drop).count("alloc") == 0  # what was dropped is given out again
    assert device.stats().live_buffers == before


def test_a_bound_launch_notes_its_buffers_once(x: Any, y: Any) -> None:
    launch = bound(x, y)
    launch()
    launch()
    noted = y.memory.writer
    done = launch()
    assert y.memory.writer is noted is not done
    done.wait(60)
    y.to_host()
    launch()
    assert y.memory.writer is not noted  # that one was looked at, and stays as it was


def test_bound_launches_that_take_turns_stay_in_order(device: Any, x: Any, y: Any) -> None:
    forth, back = saxpy.over(N).bind(x, y, 1.0), saxpy.over(N).bind(y, x, 1.0)
    ours, theirs = x.to_host(), y.to_host()
    for _ in range(10):
        forth.launch()
        back.launch()
        saxpy.over(N).launch(x, y, 1.0)
        theirs += ours
        ours += theirs
        theirs += ours
    np.testing.assert_array_equal(y.to_host(), theirs)
    np.testing.assert_array_equal(x.to_host(), ours)


@pytest.mark.parametrize("a", [1, np.float32(1), np.float64(1), kaio.f32(1.0), True])
def test_numbers_of_other_types_are_converted_as_ever(x: Any, y: Any, a: Any) -> None:
    launcher = saxpy.over(N)
    for given in (1.0, a, 1.0, a):
        launcher.launch(x, y, given)
    np.testing.assert_array_equal(y.to_host(), 4 * x.to_host())


def test_what_does_not_fit_is_refused_in_the_same_words_after_quick_launches(device: Any, x: Any, y: Any) -> None:
    launcher = saxpy.over(N)
    wrong = device.alloc_zeros(N, kaio.f64)
    attempts: list[tuple[Any, ...]] = [
        (x, wrong, 1.0), (x, x, 1.0), (x, y[::2], 1.0), (x, y[:1], "1"), (x, y), (x, y, 1.0, 2), (x, y, 1e39),
        (np.zeros(N, np.float32), y, 1.0), (x, None, 1.0), (x, x[1:], 1.0), (x.reshape(10, 100), y, 1.0),
    ]  # fmt: skip
    fresh = [refusal(kaio.kernel(saxpy.__wrapped__).over(N).launch, *attempt) for attempt in attempts]
    for _ in range(3):
        launcher.launch(x, y, 1.0)
    assert [refusal(launcher.launch, *attempt) for attempt in attempts] == fresh
    np.testing.assert_array_equal(y.to_host(), 3 * x.to_host())


def test_disjoint_views_of_one_buffer_are_launched(device: Any) -> None:
    whole = device.alloc_from(np.ones(2 * N, np.float32))
    for _ in range(4):
        saxpy.over(N).launch(whole[:N], whole[N:], 1.0)
    np.testing.assert_array_equal(whole.to_host()[N:], np.full(N, 5.0, np.float32))
    with pytest.raises(LaunchError, match="overlap in the same memory"):
        saxpy.over(N).launch(whole[: N + 1], whole[N:], 1.0)


SCALE = 1.0


def test_a_captured_value_that_changed_is_noticed(monkeypatch: pytest.MonkeyPatch, x: Any, y: Any) -> None:
    @kaio.kernel
    def saxpy(x: kaio.In[f32], y: kaio.InOut[f32], a: f32):
        i = kaio.grid(1)
        if i < y.size:
            y[i] = SCALE * a * x[i] + y[i]

    for _ in range(3):
        saxpy.over(N).launch(x, y, 1.0)
    before = saxpy.over(N)._fitting.variant
    monkeypatch.setattr(sys.modules[__name__], "SCALE", 2.0)
    saxpy.over(N).launch(x, y, 1.0)
    assert saxpy.over(N)._fitting.variant is not before


def test_buffers_of_another_device_are_refused_after_quick_launches(x: Any, y: Any) -> None:
    for _ in range(3):
        saxpy.over(N).launch(x, y, 1.0)
    elsewhere = kaio.Device("cpu").alloc_zeros(N, f32)
    assert refusal(saxpy.over(N).launch, x, elsewhere, 1.0).startswith(
        "argument `y` of kernel `saxpy` is on cpu, but argument `x` is on cuda:0"
    )


def test_what_needs_attention_takes_the_plain_way(device: Any, x: Any, y: Any, calls: _Log) -> None:
    for launch in (first_class(x, y), bound(x, y)):
        held = [device.alloc_zeros(N, f32)]
        for _ in range(3):
            launch()

        def drop_and_launch(held: list[Any] = held, launch: Any = launch) -> None:
            held.pop().close()
            device.attention = True
            launch()

        assert [call for call in calls.of(drop_and_launch) if call not in ("record", "free")] == ["launch"]
        assert not device.attention


def test_a_native_call_takes_bytes_and_holds_all_else(device: Any, x: Any, y: Any) -> None:
    from kaio.runtime.cuda.thunk import launch_call

    program = saxpy.compile(device)
    stream = device.current_stream()
    call = launch_call(device.load(program).function, (4, 1, 1), (256, 1, 1), 0, stream.raw, None)
    assert call is not None
    with pytest.raises(TypeError):
        call("no bytes")  # type: ignore[arg-type]
    with device.current():
        assert call(program.block.pack(x.pointer, N, y.pointer, N, 2.0)) == 0
    stream.wait(60)
    np.testing.assert_array_equal(y.to_host(), 2 * x.to_host())


def test_many_threads_that_launch_first_share_one_native_code(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from kaio.runtime.cuda import thunk

    monkeypatch.setattr(thunk, "_made", functools.cache(thunk._made.__wrapped__))
    ready = threading.Barrier(16, timeout=30)

    def methods(_: int) -> Any:
        ready.wait()
        return thunk._methods()

    with device.current(), ThreadPoolExecutor(16) as pool:
        made = list(pool.map(methods, range(16)))
    assert made[0] is not None
    assert all(each is made[0] for each in made)


class Factor(NamedTuple):
    """A number by value."""

    a: f32


def by_value() -> tuple[Any, Any]:
    """A kernel that takes a record by value, and its argument."""

    @kaio.kernel
    def saxpy(x: kaio.In[f32], y: kaio.InOut[f32], factor: Factor):
        i = kaio.grid(1)
        if i < y.size:
            y[i] = factor.a * x[i] + y[i]

    return saxpy.over(N), Factor(1.0)


def with_large_shared_memory() -> tuple[Any, Any]:
    """A kernel whose blocks have more shared memory than 48 KiB, which a launch has to ask for."""

    @kaio.kernel
    def saxpy(x: kaio.In[f32], y: kaio.InOut[f32], a: f32):
        tile = kaio.dynamic_shared("tile", f32)
        i = kaio.grid(1)
        if i < y.size:
            tile[kaio.thread_idx.x] = x[i]
            y[i] = a * tile[kaio.thread_idx.x] + y[i]

    return saxpy.over(N).shared(tile=20_000), 1.0


def together() -> tuple[Any, Any]:
    """Clusters, all of them at the same time."""
    return saxpy.over(N).options(cooperative=True, cluster=2), 1.0


@pytest.mark.parametrize("make", [by_value, with_large_shared_memory, together])
def test_what_hopper_has_is_launched_quickly_too(make: Any, x: Any, y: Any) -> None:
    launcher, a = make()
    for _ in range(4):
        launcher.launch(x, y, a)
    assert y.memory.stream.calls[launcher._fitting.plan] is not None
    bound = launcher.bind(x, y, a)
    for _ in range(4):
        bound.launch()
    np.testing.assert_array_equal(y.to_host(), 8 * x.to_host())


def test_blocks_that_run_together_are_launched_so_each_time(x: Any, y: Any, calls: _Log) -> None:
    launcher, a = together()
    launcher.launch(x, y, a)
    bound = launcher.bind(x, y, a)
    for launch in (lambda: launcher.launch(x, y, a), bound.launch, bound.launch):
        assert calls.of(launch) == ["cooperative:1", "cluster:2,1,1", "launch"]


def test_what_another_stream_wrote_is_read_quickly_once_that_is_done(device: Any, y: Any) -> None:
    x, stream = device.alloc_zeros(N, f32), device.stream()
    x.fill(1.0).wait(60)
    launcher = saxpy.over(N).on(stream)
    for _ in range(3):
        launcher.launch(x, y, 1.0).wait(60)
    assert x.memory.stream is y.memory.stream is stream
    np.testing.assert_array_equal(y.to_host(), np.full(N, 3.0, np.float32))


def test_a_launch_on_another_stream_waits_once_for_each_earlier_one(device: Any, x: Any, y: Any, calls: _Log) -> None:
    one, other = (saxpy.over(N).on(device.stream()) for _ in range(2))
    for _ in range(2):
        one.launch(x, y, 1.0)
        other.launch(x, y, 1.0)
    for launcher in (one, other, one):
        assert calls.of(lambda launcher=launcher: launcher.launch(x, y, 1.0)) == ["record", "wait", "launch"]
        assert calls.of(lambda launcher=launcher: launcher.launch(x, y, 1.0)) == ["launch"]
    np.testing.assert_array_equal(y.to_host(), 10 * x.to_host())


@pytest.mark.parametrize("seed", range(6))
def test_random_launches_on_several_streams_give_what_they_give_in_order(device: Any, seed: int) -> None:
    draw = random.Random(seed)
    streams = [device.stream() for _ in range(3)]
    hosts = [np.full(N, k + 1.0, np.float32) for k in range(4)]
    buffers = [device.alloc_from(host) for host in hosts]
    bound: dict[Any, Any] = {}
    kept = []
    for _ in range(150):
        x, y = draw.sample(range(4), 2)
        stream, a = draw.choice(streams), draw.choice([0.5, -0.5])
        launcher = saxpy.over(N).on(stream)
        what = draw.choice(["launch", "bound", "bound", "fill", "copy", "read"])
        if what == "fill":
            buffers[y].fill(a)
            hosts[y][:] = a
        elif what == "copy":
            buffers[y].copy_from(buffers[x])
            hosts[y][:] = hosts[x]
        elif what == "read":
            np.testing.assert_array_equal(buffers[x].to_host(), hosts[x])
        else:
            key = x, y, stream, a
            if what == "launch":
                done = launcher.launch(buffers[x], buffers[y], a)
            else:
                bound[key] = bound.get(key) or launcher.bind(buffers[x], buffers[y], a)
                done = bound[key].launch()
            hosts[y] += np.float32(a) * hosts[x]
            if draw.random() < 0.3:
                kept.append(done)
    for host, buffer in zip(hosts, buffers, strict=True):
        np.testing.assert_array_equal(buffer.to_host(), host)
    for done in kept:
        done.wait(60)


def test_an_occupancy_block_is_found_once(x: Any, y: Any) -> None:
    launcher = saxpy.over(N).block("occupancy")
    for _ in range(4):
        launcher.launch(x, y, 1.0)
    np.testing.assert_array_equal(y.to_host(), 4 * x.to_host())


@pytest.mark.parametrize("is_bound", [False, True])
def test_a_launch_that_the_driver_refuses_lets_go_of_the_device(device: Any, x: Any, y: Any, is_bound: bool) -> None:
    launcher = saxpy.over(N)
    bound = launcher.bind(x, y, 1.0)
    for _ in range(2):
        launcher.launch(x, y, 1.0)
        bound.launch()
    stream, plan = device.current_stream(), launcher._fitting.plan
    usual = stream.calls[plan]
    stream.calls[plan] = (lambda arguments: 1, usual[1])
    bound._prepared._call = lambda arguments: 1
    try:
        launch = bound.launch if is_bound else lambda: launcher.launch(x, y, 1.0)
        assert refusal(launch).startswith("the CUDA driver refuses kernel `saxpy`: ")
        with ThreadPoolExecutor(1) as elsewhere:
            assert elsewhere.submit(lambda: device._lock.acquire(timeout=10) and not device._lock.release()).result()
    finally:
        stream.calls[plan] = usual
