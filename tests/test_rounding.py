"""Python numbers as the nearest value of a type, against a search through all its values."""

from __future__ import annotations

import math
import struct

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import kaio
from kaio import bf16, f8e4m3, f8e5m2, f16, f32, f64
from kaio.rounding import bits_of, fits_float, nearest
from tests.dsl.from_text import kernel
from tests.narrow import NARROW, STORAGE, all_values, edges, magnitudes, rounded, same


@pytest.mark.parametrize("dtype", NARROW, ids=repr)
def test_the_nearest_value_is_found_at_every_edge(dtype):
    numbers = edges(dtype)
    numbers = numbers[:: max(1, len(numbers) // 20_000)].tolist()
    assert same([nearest(dtype, x) for x in numbers], [rounded(x, dtype) for x in numbers]).all()


@pytest.mark.parametrize("dtype", NARROW, ids=repr)
@given(number=st.floats() | st.integers() | st.integers(-(2**200), 2**200))
def test_the_nearest_value_of_any_number_is_found(dtype, number):
    assert same(nearest(dtype, number), rounded(number, dtype))


@example(1.7976930812868855e308, 0)
@given(st.floats(allow_nan=False), st.integers(-(2**1100), 2**1100))
def test_of_the_types_of_python_the_nearest_is_pythons_own(number, whole):
    assert nearest(f64, number) == number
    try:
        single = struct.unpack("<f", struct.pack("<f", number))[0]
    except OverflowError:
        single = math.copysign(math.inf, number)
    assert nearest(f32, number) == single
    try:
        assert nearest(f64, whole) == float(whole)
    except OverflowError:
        assert nearest(f64, whole) == (math.inf if whole > 0 else -math.inf)


@pytest.mark.parametrize("dtype", NARROW, ids=repr)
def test_the_bits_are_those_of_the_value(dtype):
    values = all_values(dtype)
    step = max(1, len(values) // 1000)
    for bits, value in list(enumerate(values.tolist()))[::step]:
        if not math.isnan(value) and not (math.isinf(value) and dtype in STORAGE):
            assert bits_of(dtype, value) == bits
    assert np.isnan(np.array(bits_of(dtype, math.nan), f"u{dtype.itemsize}").view(dtype.numpy))


@pytest.mark.parametrize("dtype", NARROW, ids=repr)
def test_a_number_fits_while_it_rounds_to_a_finite_value(dtype):
    last, next_ = magnitudes(dtype)[-2:]
    middle = (last + next_) / 2
    below = math.nextafter(middle, 0)
    assert fits_float(dtype, below)
    assert fits_float(dtype, -below)
    assert fits_float(dtype, middle) is (dtype is f8e4m3)  # its last value is even, so that the tie goes there
    assert not fits_float(dtype, next_)
    assert fits_float(dtype, math.nan)
    assert fits_float(dtype, math.inf) is (dtype not in STORAGE)


def test_digits_and_the_largest_value_are_those_of_the_type():
    found = {dtype: (dtype.digits, dtype.largest) for dtype in (f8e4m3, f8e5m2, f16, bf16)}
    assert found == {f8e4m3: (4, 448), f8e5m2: (3, 57344), f16: (11, 65504), bf16: (8, 2.0**127 * (2 - 2**-7))}
    assert (f32.digits, f64.digits) == (24, 53)


def test_a_dtype_called_outside_a_kernel_rounds_once_as_a_cast_in_a_kernel_does():
    tie = 1 + 2**-8 + 2**-40  # f32 drops the last bit, and then the rest is a tie
    assert float(bf16(tie)) == 1 + 2**-7
    assert float(f8e4m3(1e6)) == 448
    assert float(f16(np.float64(1e6))) == math.inf
    assert f16(np.arange(3)).dtype == np.float16


def test_an_int_beyond_every_float_fits_none():
    for dtype in (f16, bf16, f32, f64, f8e4m3):
        assert not fits_float(dtype, 10**400)
        assert not fits_float(dtype, -(10**400))


def test_an_int_is_rounded_once_where_python_s_float_would_round_before():
    whole = 2**60 + 2**36 + 1  # above the middle of two f32, and the nearest f64 is the middle
    assert kaio.f32(whole) == nearest(f32, whole) == 2.0**60 + 2.0**37
    literal = kernel(
        "@kernel\ndef k(out: Out[f32], a: f32):\n"
        f"    out[0] = {whole}\n    out[1] = f32({whole})\n    out[2] = a\n"
        f"    out[3] = const_mem(({whole}, 1), f32)[0]\n"
    )
    out = kaio.Device("cpu").alloc_zeros(5, f32)
    literal.grid(1).block(1).launch(out, whole).wait()
    out[4:].fill(whole)
    assert out.to_host().tolist() == [2.0**60 + 2.0**37] * 5
