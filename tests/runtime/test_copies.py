"""Copies of parts and strided views on the device, and generations of its memory."""

from __future__ import annotations

from typing import Any

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from kaio import f32, i16, i32
from kaio.errors import StaleBufferError
from kaio.runtime.layout import rectangles

VIEWS: dict[str, Any] = {
    "rows": np.s_[2:7],
    "columns": np.s_[:, 3:9],
    "a block": np.s_[1:6, 2:8],
    "every other row": np.s_[::2],
    "every other column": np.s_[:, ::2],
    "every third of both": np.s_[::3, 1::3],
    "rows backwards": np.s_[::-1],
    "all backwards": np.s_[::-1, ::-1],
    "one column": np.s_[:, 4],
    "an element": np.s_[4, 5],
    "nothing": np.s_[3:3],
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("dtype", [np.int16, np.float32, np.complex128])
def test_views_are_copied_filled_and_read_as_numpys_are(device: Any, view: str, dtype: Any) -> None:
    index, host = VIEWS[view], np.arange(120).reshape(10, 12).astype(dtype)
    part = host[index]
    x = device.alloc_from(host)
    np.testing.assert_array_equal(x[index].to_host(), part)
    np.testing.assert_array_equal(x[index].copy().to_host(), part)
    np.testing.assert_array_equal(x[index].copy_to().result(), part)

    expected = host.copy()
    expected[index] = 100 + part
    x[index].copy_from(100 + part)
    np.testing.assert_array_equal(x.to_host(), expected)

    expected[index] = -part
    x[index].copy_from(device.alloc_from(-part))
    np.testing.assert_array_equal(x.to_host(), expected)

    expected[index] = 7
    x[index].fill(7)
    np.testing.assert_array_equal(x.to_host(), expected)


def test_copies_of_views_are_work_on_a_stream(device: Any, latch: Any) -> None:
    x, y, stream = device.alloc_from(np.arange(12).reshape(3, 4)), device.alloc_zeros((3, 2), np.int64), device.stream()
    latch.hold(stream)
    device.enter_stream(stream)
    done = y.copy_from(x[:, 1:3])
    filled = x[:, :2].fill(5)
    device.leave_stream(stream)
    assert not done.is_done
    assert not filled.is_done
    latch.release()
    assert y.to_host().tolist() == [[1, 2], [5, 6], [9, 10]]
    assert x.to_host().tolist() == [[5, 5, 2, 3], [5, 5, 6, 7], [5, 5, 10, 11]]


@pytest.mark.parametrize("shift", [1, -1, 3])
def test_overlapping_parts_are_copied_as_if_at_once(device: Any, shift: int) -> None:
    host = np.arange(1000, dtype=np.int32)
    x = device.alloc_from(host)
    one, two = (np.s_[shift:], np.s_[:-shift]) if shift > 0 else (np.s_[:shift], np.s_[-shift:])
    x[one].copy_from(x[two])
    expected = host.copy()
    expected[one] = host[two]
    np.testing.assert_array_equal(x.to_host(), expected)
    rows = x.reshape(10, 100)
    rows[::-1].copy_from(rows)
    np.testing.assert_array_equal(rows.to_host(), expected.reshape(10, 100)[::-1])


def test_a_layout_of_very_many_pieces_is_copied_too(device: Any) -> None:
    host = np.arange(2 * 60 * 2 * 60 * 2, dtype=np.int16).reshape(2, 60, 2, 60, 2)
    x, y = device.alloc_from(host), device.alloc_zeros((2, 30, 2, 60, 1), i16)
    index = np.s_[:, ::2, :, ::-1, :1]
    y.copy_from(x[index])
    np.testing.assert_array_equal(y.to_host(), host[index])
    x[index].fill(-1)
    host[index] = -1
    np.testing.assert_array_equal(x.to_host(), host)


@hypothesis.given(st.data())
def test_rectangles_cover_each_element_once(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 5), max_size=4)))
    order = data.draw(st.permutations(range(len(shape))))
    layouts = []
    for _ in range(2):
        strides, step = [0] * len(shape), 4
        for axis in order:
            step *= data.draw(st.integers(1, 2))
            strides[axis] = step * data.draw(st.sampled_from((1, -1)))
            step *= shape[axis]
        order = data.draw(st.permutations(range(len(shape))))
        layouts.append(tuple(strides))
    wanted = {
        tuple(sum(k * stride for k, stride in zip(place, strides, strict=True)) + byte for strides in layouts)
        for place in np.ndindex(shape)
        for byte in range(4)
    }
    found = [
        (piece.target + row * piece.target_pitch + byte, piece.source + row * piece.source_pitch + byte)
        for piece in rectangles(0, 0, shape, (layouts[0], layouts[1]), 4)
        for row in range(piece.height)
        for byte in range(piece.width)
    ]
    assert len(found) == len(wanted)
    assert set(found) == wanted


def test_memory_that_survives_takes_the_new_generation_and_all_else_is_stale() -> None:
    import kaio

    device: Any = kaio.Device("cpu", like="sm_86")
    lost, kept = device.alloc_zeros(4, i32), device.alloc_from([1, 2, 3])
    view, old = lost[1:], device.generation
    new = device.begin_generation(lambda memory: memory is kept.memory)
    assert (new, kept.generation, lost.generation) == (old + 1, old + 1, old)
    assert kept.to_host().tolist() == [1, 2, 3]
    for use in (lost.to_host, lost.copy, lambda: lost.fill(1), view.to_host, lambda: kept.copy_from(lost)):
        with pytest.raises(StaleBufferError) as caught:
            use()
        assert (caught.value.facts["generation"], caught.value.facts["current"]) == (old, new)
    assert str(caught.value) == (
        f"the GpuBuffer of i32[4] is of generation {old} of its device, which lost its state and is at "
        f"generation {new}\n  help: make it again"
    )
    device.check_generation(new, "the launch")
    with pytest.raises(StaleBufferError, match=f"the launch is of generation {old} of its device"):
        device.check_generation(old, "the launch")
    assert device.alloc_zeros(2, f32).to_host().tolist() == [0, 0]
