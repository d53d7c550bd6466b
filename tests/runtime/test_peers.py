"""Copies between devices: two GPUs, a GPU and the CPU device, devices of other options."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import kaio
from kaio import f32, i32
from kaio.errors import DeviceNotFoundError, KaioError
from tests.runtime.conftest import CpuLatch, CudaLatch

WITH_GPUS: dict[str, Any] = {
    "cpu-gpu": (("cpu", {}), ("cuda:0", {})),
    "gpu-cpu": (("cuda:0", {}), ("cpu", {})),
    "gpu-gpu": (("cuda:0", {}), ("cuda:1", {})),
    "gpu-itself": (("cuda:0", {}), ("cuda:0", {"check": "bounds"})),
}
PAIRS = [
    pytest.param((("cpu", {}), ("cpu", {"like": "sm_80"})), id="cpu-cpu"),
    *(pytest.param(both, id=name, marks=pytest.mark.gpu) for name, both in WITH_GPUS.items()),
]


def _open(which: str, options: dict[str, Any]) -> Any:
    try:
        return kaio.Device(which, **options)
    except DeviceNotFoundError as problem:
        pytest.skip(str(problem).splitlines()[0])


@pytest.fixture(params=PAIRS)
def pair(request: pytest.FixtureRequest) -> Iterator[tuple[Any, Any]]:
    """Two devices: what is copied from, and what is copied to."""
    one, two = (_open(*which) for which in request.param)
    yield one, two
    one.wait(60)
    two.wait(60)


@pytest.fixture
def make_hold(pair: tuple[Any, Any]) -> Iterator[Callable[[Any], Any]]:
    """Make what holds a stream of a device until it is released."""
    made: list[Any] = []

    def make(device: Any) -> Any:
        made.append(CpuLatch() if device.kind == "cpu" else CudaLatch(device))
        return made[-1]

    yield make
    for latch in made:
        latch.release()


def test_a_buffer_is_copied_to_another_device(pair: tuple[Any, Any]) -> None:
    one, two = pair
    host = np.arange(1000, dtype=np.float32).reshape(20, 50)
    x = one.alloc_from(host)
    y = two.alloc_from(x)
    assert y.device is two
    np.testing.assert_array_equal(y.to_host(), host)
    z = two.alloc_zeros((20, 50), f32)
    z.copy_from(x).wait(60)
    np.testing.assert_array_equal(z.to_host(), host)
    z[::2, 1:].copy_from(x[::2, :-1])
    expected = host.copy()
    expected[::2, 1:] = host[::2, :-1]
    np.testing.assert_array_equal(z.to_host(), expected)
    assert two.alloc_from(one.alloc_zeros(0, i32)).shape == (0,)
    with pytest.raises(KaioError, match="cannot be copied from shape"):
        z.copy_from(x[1:])


def test_what_is_written_next_on_the_source_comes_after_the_copy(pair: tuple[Any, Any], make_hold: Any) -> None:
    one, two = pair
    x, y = one.alloc_from(np.full(1 << 14, 5, np.int32)), two.alloc_zeros(1 << 14, i32)
    latch, stream = make_hold(two), two.stream()
    both_gpus = one.kind == two.kind == "cuda"
    if both_gpus:  # others copy before they return
        latch.hold(stream)
    two.enter_stream(stream)
    done = y.copy_from(x)
    two.leave_stream(stream)
    filled = x.fill(9)
    if both_gpus:
        assert not done.is_done
        assert not filled.is_done
    latch.release()
    assert (y.to_host() == 5).all()
    assert (x.to_host() == 9).all()


@pytest.mark.gpu
@pytest.mark.parametrize("pair", [WITH_GPUS[name] for name in ("gpu-gpu", "gpu-itself")], indirect=True)
def test_a_copy_comes_after_what_is_under_way_on_both_devices(pair: tuple[Any, Any], make_hold: Any) -> None:
    one, two = pair
    x, y, z = one.alloc_zeros(1 << 14, i32), two.alloc_zeros(1 << 14, i32), two.alloc_zeros(1 << 14, i32)
    latches, streams = (make_hold(one), make_hold(two)), (one.stream(), two.stream())
    for latch, stream in zip(latches, streams, strict=True):
        latch.hold(stream)
    streams[0].set(x, b"\7\0\0\0")  # is copied
    streams[1].copy(z, y)  # reads what the copy overwrites
    done = y.copy_from(x)
    latches[0].release()
    streams[0].wait(60)
    assert not done.is_done
    latches[1].release()
    assert (y.to_host() == 7).all()
    assert (z.to_host() == 0).all()


def test_a_source_that_is_dropped_lives_until_it_is_copied(pair: tuple[Any, Any], make_hold: Any) -> None:
    one, two = pair
    y, latch, stream = two.alloc_zeros(1 << 14, i32), make_hold(two), two.stream()
    if one.kind == two.kind == "cuda":
        latch.hold(stream)
    two.enter_stream(stream)
    y.copy_from(one.alloc_from(np.full(1 << 14, 5, np.int32)))
    two.leave_stream(stream)
    gc.collect()
    others = [one.alloc_zeros(1 << 14, i32) for _ in range(4)]
    for other in others:
        other.fill(9)
    latch.release()
    assert (y.to_host() == 5).all()


@pytest.mark.gpu
def test_threads_that_copy_both_ways_do_not_hold_each_other_up() -> None:
    import threading

    one, two = _open("cuda:0", {}), _open("cuda:1", {})
    x, y = one.alloc_zeros(1000, i32), two.alloc_zeros(1000, i32)

    def go(target: Any, source: Any) -> None:
        for _ in range(200):
            target.copy_from(source)
            source.fill(1)

    threads = [threading.Thread(target=go, args=pair, daemon=True) for pair in ((x, y), (y, x)) * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(50)
    assert not any(thread.is_alive() for thread in threads)
    kaio.gather(x.fill(2), y.fill(3)).wait(60)
    assert (int(x.to_host().max()), int(y.to_host().max())) == (2, 3)


@pytest.mark.gpu
def test_each_gpu_works_in_its_own_context_in_any_thread() -> None:
    one, two = _open("cuda:0", {}), _open("cuda:1", {})
    for _ in range(3):
        for gpu in (one, two):
            x = gpu.alloc_zeros(1000, i32)
            with gpu.stream():
                x.fill(3)
                y = x.copy()
            assert (y.to_host() == 3).all()
            big = np.arange(3 << 20, dtype=np.uint8)
            np.testing.assert_array_equal(gpu.alloc_from(big).to_host(), big)
