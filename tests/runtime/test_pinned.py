"""Pinned arrays: copies that nobody waits for, and that nobody sees half done."""

from __future__ import annotations

import copy
import pickle
import threading
from typing import Any

import numpy as np
import pytest

from kaio import f32, i32
from kaio.errors import KaioError


def test_b37_a_pinned_array_is_not_overwritten_while_it_is_copied(device: Any) -> None:
    stage, outs = device.alloc_pinned(1 << 14, f32), []
    for r in range(6):
        stage[:] = r
        outs.append(device.alloc_empty(1 << 14, f32))
        outs[-1].copy_from(stage)
    assert [float(out.to_host().max()) for out in outs] == [0, 1, 2, 3, 4, 5]
    assert [float(out.to_host().min()) for out in outs] == [0, 1, 2, 3, 4, 5]


def _starts_and_waits(latch: Any, use: Any) -> Any:
    """Call `use` in a thread, which must not come to its end before the latch is released."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(use()), daemon=True)
    thread.start()
    thread.join(0.05)
    assert not found
    latch.release()
    thread.join(60)
    return found[0]


USES: dict[str, Any] = {
    "assigned to": lambda stage: stage.__setitem__(slice(None), 9),
    "filled": lambda stage: stage.fill(9),
    "a result of NumPy": lambda stage: np.add(1, 1, out=stage),
    "copied to by NumPy": lambda stage: np.copyto(stage, 9),
    "a slice that is assigned to": lambda stage: stage[1:].__setitem__(0, 9),
}


@pytest.mark.parametrize("use", USES)
def test_writing_waits_for_a_copy_from_it(device: Any, latch: Any, use: str) -> None:
    stage, x, stream = device.alloc_pinned(100, i32), device.alloc_zeros(100, i32), device.stream()
    stage[:] = 5
    latch.hold(stream, (x, "Out"))
    device.enter_stream(stream)
    done = x.copy_from(stage)
    device.leave_stream(stream)
    assert not done.is_done
    _starts_and_waits(latch, lambda: USES[use](stage))
    assert done.is_done
    assert (x.to_host() == 5).all()


READS = {
    "read by index": lambda stage: int(stage[99]),
    "added up": lambda stage: int(stage.sum() // 100),
    "passed to NumPy": lambda stage: int(np.max(stage)),
    "made an array": lambda stage: int(np.asarray(stage)[0]),
    "computed with": lambda stage: int((stage + 1)[0]) - 1,
    "copied": lambda stage: int(copy.copy(stage)[0]),
    "pickled": lambda stage: int(pickle.loads(pickle.dumps(stage))[0]),
    "read through a slice": lambda stage: int(stage[50:].min()),
}


@pytest.mark.parametrize("read", READS)
def test_reading_waits_for_a_copy_into_it(device: Any, latch: Any, read: str) -> None:
    stage, x, stream = device.alloc_pinned(100, i32), device.alloc_zeros(100, i32), device.stream()
    x.fill(7).wait()
    stage[:] = 0
    latch.hold(stream)
    device.enter_stream(stream)
    done = x.copy_to(stage)
    device.leave_stream(stream)
    assert not done.is_done
    assert _starts_and_waits(latch, lambda: READS[read](stage)) == 7
    assert done.result() is stage


def test_a_copy_is_done_on_return_while_a_plain_view_is_alive(device: Any) -> None:
    stage, x = device.alloc_pinned(1 << 14, i32), device.alloc_zeros(1 << 14, i32)
    part = stage.array[5:]
    part[:] = 3
    assert stage.has_views
    assert x.copy_from(stage).is_done
    assert x.copy_to(stage).is_done
    del part
    assert not stage.has_views


def test_a_copy_out_gives_an_array_of_its_own(device: Any, latch: Any) -> None:
    x, stream = device.alloc_from(np.arange(10, dtype=np.int32)), device.stream()
    latch.hold(stream)
    device.enter_stream(stream)
    first, second = x.copy_to(), x[::2].copy_to()
    device.leave_stream(stream)
    x.fill(0)
    assert not first.is_done
    latch.release()
    np.testing.assert_array_equal(first.result(), np.arange(10))
    np.testing.assert_array_equal(second.result(), np.arange(0, 10, 2))
    first.result()[:] = 8  # nobody else has it
    assert x.to_host().tolist() == [0] * 10


def test_a_copy_out_to_numpy_is_done_on_return(device: Any) -> None:
    x, out = device.alloc_from([1, 2, 3]), np.zeros(3, np.int64)
    done = x.copy_to(out)
    assert out.tolist() == [1, 2, 3]
    assert done.is_done
    assert done.result() is out


def test_pinned_memory_lives_until_its_copy_is_done(device: Any, latch: Any) -> None:
    x, y, stream = device.alloc_zeros(1000, i32), device.alloc_zeros(1000, i32), device.stream()
    latch.hold(stream)
    device.enter_stream(stream)
    for target, value in ((x, 1), (y, 2)):  # the memory of the first is not that of the second
        stage = device.alloc_pinned(1000, i32)
        stage[:] = value
        target.copy_from(stage)
        del stage
    device.leave_stream(stream)
    latch.release()
    assert (x.to_host().tolist(), y.to_host().tolist()) == ([1] * 1000, [2] * 1000)


def test_copies_through_one_pinned_array_are_in_order(device: Any) -> None:
    stage, x, y = device.alloc_pinned(1 << 12, i32), device.alloc_from(np.full(1 << 12, 4, np.int32)), None
    y = device.alloc_zeros(1 << 12, i32)
    for stream in (device.stream(), device.stream()):
        device.enter_stream(stream)
        x.copy_to(stage)
        device.leave_stream(stream)
        y.copy_from(stage)
    assert (y.to_host() == 4).all()


def test_a_pinned_array_is_used_as_an_array(device: Any) -> None:
    stage = device.alloc_pinned((2, 3), f32)
    stage[...] = np.arange(6).reshape(2, 3)
    stage += 1
    assert (stage.shape, stage.dtype, stage.ndim, len(stage)) == ((2, 3), np.float32, 2, 2)
    assert (stage.size, stage.nbytes) == (6, 24)
    assert stage[1].tolist() == [4, 5, 6]
    assert stage[1, 2] == 6
    assert stage[stage.array > 4].tolist() == [5, 6]
    assert [row.tolist() for row in stage] == [[1, 2, 3], [4, 5, 6]]
    assert 6 in stage
    assert np.concatenate([stage, stage]).shape == (4, 3)
    assert repr(stage) == f"PinnedArray(f32[2, 3] for {device})"
    assert device.alloc_from(stage).to_host().tolist() == [[1, 2, 3], [4, 5, 6]]
    assert stage.T.shape == (3, 2)


def test_what_does_not_fit_a_pinned_array_is_refused(device: Any) -> None:
    stage, x = device.alloc_pinned(3, f32), device.alloc_zeros(4, f32)
    with pytest.raises(KaioError, match=r"a GpuBuffer of f32\[4\] cannot be copied from shape \(3,\)"):
        x.copy_from(stage)
    with pytest.raises(KaioError, match=r"a GpuBuffer of f32\[3\] cannot be copied from shape \(4,\)"):
        x.copy_to(stage)
    with pytest.raises(AttributeError, match="a PinnedArray has no `cuda`"):
        stage.cuda()
    with pytest.raises(TypeError, match="alloc_pinned needs an element type too"):
        device.alloc_pinned(3)


@pytest.mark.gpu
def test_pinned_memory_is_counted_kept_and_trimmed() -> None:
    import kaio

    gpu = kaio.Device("cuda:0")
    gpu.trim()
    before = gpu.stats().pinned_nbytes
    stage = gpu.alloc_pinned(100_000, f32)
    assert gpu.stats().pinned_nbytes > before
    address = stage.array.ctypes.data
    del stage
    gpu.tidy()  # type: ignore[attr-defined]
    again = gpu.alloc_pinned(100_000, f32)
    assert again.array.ctypes.data == address
    del again
    gpu.trim()
    assert gpu.stats().pinned_nbytes == before
