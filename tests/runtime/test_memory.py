"""Memory of a device: what is counted, limited, kept and given back."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import kaio
from kaio import f32, i32, u8
from kaio.errors import KaioError, OutOfMemoryError
from tests.live import settled


@pytest.fixture
def limited(device: Any) -> Iterator[Any]:
    """A device whose limit is taken away in the end."""
    settled(device)
    yield device
    device.set_memory_limit(None)


def test_a_limit_refuses_what_is_over_it_and_names_who_holds_most(limited: Any) -> None:
    device, live = limited, settled(limited).live_nbytes
    device.set_memory_limit(live + 2000)
    keep = device.alloc_zeros((10, 30), f32)
    with pytest.raises(OutOfMemoryError) as caught:
        device.alloc_zeros(801, u8)
    text = str(caught.value)
    assert text.startswith(
        f"{device} has no memory for 801 bytes: 800 of {live + 2000:,} bytes are free below its limit; "
        "the largest buffers: "
    )
    assert f"f32[10, 30] of 1,200 bytes ({__file__}:" in text
    assert text.endswith("or raise it with `device.set_memory_limit(…)`")
    assert (caught.value.facts["asked"], caught.value.facts["free"]) == (801, 800)
    with pytest.raises(OutOfMemoryError):
        device.alloc_from(np.zeros(801, np.uint8))
    assert device.alloc_zeros(800, u8).size == 800
    keep.close()
    assert device.alloc_zeros(2000, u8).size == 2000
    device.set_memory_limit(None)
    assert device.alloc_zeros(3000, u8).size == 3000


def test_garbage_is_collected_before_memory_is_refused(limited: Any) -> None:
    class Node:
        """Keeps a buffer in a cycle of garbage."""

    device = limited
    device.set_memory_limit(settled(device).live_nbytes + 1000)
    gc.disable()
    try:
        node: Any = Node()
        node.me, node.buffer = node, device.alloc_zeros(900, u8)
        del node
        assert device.alloc_zeros(900, u8).size == 900
    finally:
        gc.enable()


@pytest.mark.parametrize("nbytes", [-1, True, "1 GB", 1.5])
def test_a_limit_is_a_number_of_bytes(device: Any, nbytes: Any) -> None:
    with pytest.raises(KaioError, match="`nbytes` is a number of bytes, 0 or more"):
        device.set_memory_limit(nbytes)
    with pytest.raises(KaioError, match="`keep_nbytes` is a number of bytes, 0 or more"):
        device.trim(nbytes)


def test_statistics_tell_the_most_there_ever_was(limited: Any) -> None:
    device, before = limited, settled(limited)
    x = device.alloc_empty(1 << 16, u8)
    del x
    stats = device.stats()
    assert stats[:2] == before[:2]
    assert stats.peak_nbytes >= before.live_nbytes + (1 << 16)
    assert stats.limit_nbytes is None
    device.set_memory_limit(1 << 40)
    assert device.stats().limit_nbytes == 1 << 40


def test_memory_used_on_several_streams_is_given_out_after_all_of_them(device: Any, make_latch: Any) -> None:
    one, two, size = device.stream(), device.stream(), 1 << 12
    source, first, second = (device.alloc_zeros(size, i32) for _ in range(3))
    source.fill(1).wait()
    latches = make_latch(), make_latch()
    for latch, stream, target in zip(latches, (one, two), (first, second), strict=True):
        latch.hold(stream)
        stream.copy(target, source)
    del source
    others = [device.alloc_zeros(size, i32) for _ in range(4)]
    for other in others:
        other.fill(9)
    latches[0].release()
    latches[1].release()
    assert (first.to_host() == 1).all()
    assert (second.to_host() == 1).all()


def test_views_and_temporaries_live_until_their_work_is_done(device: Any, latch: Any) -> None:
    stream, size = device.stream(), 1 << 12
    target = device.alloc_zeros(size, i32)
    latch.hold(stream)
    for k in range(8):  # each is dropped at once, and its memory is free for the next but for the work
        part = device.alloc_from(np.full(size, k, np.int32))[size // 8 * k : size // 8 * (k + 1)]
        stream.copy(target[size // 8 * k : size // 8 * (k + 1)], part)
        del part
    latch.release()
    np.testing.assert_array_equal(target.to_host(), np.repeat(np.arange(8, dtype=np.int32), size // 8))


@pytest.mark.gpu
class TestPool:
    """What only a GPU has."""

    def test_a_buffer_gets_the_memory_of_the_last_one_of_its_size(self, gpu: Any) -> None:
        addresses = set()
        for _ in range(10):
            x = gpu.alloc_empty(12_345, f32)
            addresses.add(x.pointer)
            del x
            gpu.tidy()
        assert len(addresses) <= 2

    def test_memory_that_is_given_out_again_comes_after_its_last_use(self, gpu: Any, latch: Any) -> None:
        stream, target = gpu.stream(), gpu.alloc_zeros(1 << 12, i32)
        latch.hold(stream)
        gpu.enter_stream(stream)
        for k in range(20):
            x = gpu.alloc_empty(1 << 12, i32)
            x.fill(k)
            if k == 10:
                stream.copy(target, x)
            del x
        gpu.leave_stream(stream)
        other = gpu.alloc_empty(1 << 12, i32)
        other.fill(99)
        latch.release()
        assert (target.to_host() == 10).all()
        assert (other.to_host() == 99).all()

    def test_trim_gives_back_what_is_kept(self, gpu: Any) -> None:
        gpu.alloc_empty(54_321, f32).close()
        gpu.tidy()
        assert gpu.pool.kept_nbytes() > 0
        gpu.trim()
        assert gpu.pool.kept_nbytes() == 0
        assert gpu.alloc_zeros(54_321, f32).to_host().sum() == 0

    @pytest.fixture
    def gpu(self) -> Any:
        """The first GPU."""
        return kaio.Device("cuda:0")

    @pytest.fixture
    def device(self, gpu: Any) -> Any:
        """For `latch`."""
        return gpu


def test_b36_random_work_reads_what_it_was_given_from_few_blocks(device: Any) -> None:
    """Buffers of one size come and go on several streams, so that each block is given out again and again."""
    rng, size = np.random.default_rng(36), 1 << 10
    streams = [device.stream() for _ in range(3)]
    kept: list[tuple[Any, int]] = []
    for k in range(300):
        stream = streams[rng.integers(3)]
        device.enter_stream(stream)
        source = device.alloc_empty(size, i32)
        source.fill(k)
        target = device.alloc_empty(size, i32)
        other = streams[rng.integers(3)]
        other.copy(target, source)
        if rng.random() < 0.3:
            source.close()
        device.leave_stream(stream)
        kept.append((target, k))
        del source, target
        if len(kept) > 5:
            found, value = kept.pop(rng.integers(len(kept)))
            assert (found.to_host() == value).all()
            del found
    for found, value in kept:
        assert (found.to_host() == value).all()
