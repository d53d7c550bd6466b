"""Conversions on the host follow the rules of casts in kernels."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from kaio import bool_, f32, f64, i8, i32, i64, u8, u64
from kaio.dtypes import DTYPES
from kaio.errors import KaioError, LaunchError
from kaio.launch.scalars import convert
from kaio.runtime.conversion import convert_array, element_bytes

INTS = [dtype for dtype in DTYPES if dtype.is_int]


@given(
    values=hnp.arrays(np.float64, 20, elements=st.floats(allow_nan=False)),
    source=st.sampled_from([f32, f64]),
    target=st.sampled_from(INTS),
)
def test_float_to_int_truncates_and_saturates(values: Any, source: Any, target: Any) -> None:
    with np.errstate(over="ignore"):
        values = values.astype(source.numpy)
    low, high = target.range
    expected = [
        high if value == np.inf else low if value == -np.inf else max(low, min(high, int(value)))
        for value in values.tolist()
    ]
    assert convert_array(values, target).tolist() == expected


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        (f32, i32, 0),
        (f32, u8, 0),
        (f64, i32, -(2**31)),
        (f64, i8, -128),
        (f32, i64, -(2**63)),
        (f64, u64, 1 << 63),
        (f64, u8, 128),
    ],
)
def test_nan_to_int_is_what_ptx_gives(source: Any, target: Any, expected: int) -> None:
    assert convert_array(np.array([np.nan], source.numpy), target).tolist() == [expected]


def test_int_to_int_wraps_and_to_bool_is_truth() -> None:
    assert convert_array(np.array([300, -1]), u8).tolist() == [44, 255]
    assert convert_array(np.array([0.0, 0.5]), bool_).tolist() == [False, True]


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_bytes_of_an_element_are_numpys(dtype: Any) -> None:
    assert element_bytes(True, dtype) == np.ones(1, dtype.numpy).tobytes()
    assert element_bytes(np.ones(1, dtype.numpy)[0], dtype) == np.ones(1, dtype.numpy).tobytes()


@pytest.mark.parametrize("value", [True, np.True_, np.array(True)])
def test_a_bool_is_an_element_of_each_type_as_it_is_an_argument(value: Any) -> None:
    for dtype in DTYPES:
        assert element_bytes(value, dtype) == np.ones(1, dtype.numpy).tobytes()


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (2, bool_), (1, bool_), (0.5, bool_), (np.float64(1.0), bool_), (1.0, i32), ("1", f32), (None, i32), (-1, u8),
        (1e39, f32), (Fraction(1, 3), f32), (np.ma.masked, f32),
    ],
)  # fmt: skip
def test_what_is_no_element_is_refused_with_the_words_of_a_launch(value: Any, dtype: Any) -> None:
    with pytest.raises(KaioError) as filled:
        element_bytes(value, dtype)
    with pytest.raises(LaunchError) as launched:
        convert("k", "value", dtype, value)
    what = launched.value.mistakes[0].what.removeprefix("argument `value` of kernel `k` ")
    assert filled.value.mistakes[0].what == f"the value to fill with {what}"
