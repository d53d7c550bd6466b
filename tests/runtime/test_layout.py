"""Where elements lie: strides, ranges, views, against NumPy's answers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from kaio import i32
from kaio.errors import KaioError
from kaio.runtime.layout import byte_range, contiguous_strides, is_contiguous, read_shape, reshaped, sliced


@st.composite
def views(draw: st.DrawFn) -> np.ndarray[Any, Any]:
    """Views of arrays: sliced, reversed, transposed, broadcast."""
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4))
    base = np.arange(np.prod(shape, dtype=int), dtype=np.int32).reshape(shape)
    view = np.asarray(base[draw(hnp.basic_indices(shape, allow_newaxis=True))])
    return view.transpose(draw(st.permutations(range(view.ndim))))


def address(array: np.ndarray[Any, Any]) -> int:
    return int(array.__array_interface__["data"][0])


@given(view=views())
def test_contiguity_and_range_are_numpys(view: np.ndarray[Any, Any]) -> None:
    assert is_contiguous(view.shape, view.strides, 4) == view.flags.c_contiguous
    low, high = np.lib.array_utils.byte_bounds(view)
    start, stop = byte_range(address(view), view.shape, view.strides, 4)
    assert (start, stop) == ((low, high) if view.size else (address(view), address(view)))


@given(view=views(), data=st.data())
def test_slicing_is_numpys(view: np.ndarray[Any, Any], data: st.DataObject) -> None:
    index = data.draw(hnp.basic_indices(view.shape, allow_newaxis=True))
    expected = view[(*index, ...)] if isinstance(index, tuple) and ... not in index else view[index]
    if not isinstance(index, tuple) and index is not ...:
        expected = view[index, ...]
    pointer, shape, strides = sliced(address(view), view.shape, view.strides, i32, index)
    assert (shape, strides) == (expected.shape, expected.strides)
    if expected.size:
        assert pointer == address(expected)


@given(view=views(), data=st.data())
def test_reshaping_is_numpys_without_copies(view: np.ndarray[Any, Any], data: st.DataObject) -> None:
    new = data.draw(st.sampled_from([(-1,), (view.size,), (1, view.size), (*view.shape, 1), (view.size + 1,)]))
    try:
        expected = view.reshape(new, copy=False)
    except ValueError:
        with pytest.raises(KaioError):
            reshaped(view.shape, view.strides, i32, new)
    else:
        assert reshaped(view.shape, view.strides, i32, new) == (expected.shape, expected.strides)


@given(shape=hnp.array_shapes(min_dims=0, min_side=1))
def test_contiguous_strides_are_numpys(shape: tuple[int, ...]) -> None:
    assert contiguous_strides(shape, 4) == np.empty(shape, np.int32).strides


def test_a_shape_is_read_from_what_counts() -> None:
    assert (read_shape(3), read_shape([np.int64(2), 3]), read_shape(())) == ((3,), (2, 3), ())
    assert (read_shape(np.array(3)), read_shape(np.array([2, 3]))) == ((3,), (2, 3))
