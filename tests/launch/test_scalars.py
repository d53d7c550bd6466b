from __future__ import annotations

import enum
import math
import struct
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaio import DType, bool_, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64
from kaio.errors import LaunchError
from kaio.launch.scalars import constant, convert
from kaio.runtime.scalars import describe
from tests.launch.fakes import fake
from tests.refusals import refusal

INTS = (i8, i16, i32, i64, u8, u16, u32, u64)


class Colour(enum.Enum):
    RED = 1


class Level(enum.IntEnum):
    HIGH = 3


def launched(stream: Any, dtype: DType, value: Any) -> Any:
    """What arrives when `value` is launched as a scalar of `dtype`."""
    from kaio.launch import Launcher

    Launcher(fake("k", n=dtype)).over(1).on(stream).launch(value)
    return stream.last.values[0]


@pytest.mark.parametrize("dtype", INTS)
@given(value=st.integers(-(2**64), 2**64) | st.sampled_from([-(2**63), 2**63 - 1, 2**64 - 1, 2**31, -(2**31)]))
def test_an_int_arrives_exactly_or_is_refused(dtype, value) -> None:
    low, high = dtype.range
    if low <= value <= high:
        assert convert("k", "n", dtype, value) == value
    else:
        assert refusal(convert, "k", "n", dtype, value) == (
            f"argument `n` of kernel `k` does not fit {dtype!r} (got {value})\n  help: {dtype!r} holds {low} to {high}"
        )


@pytest.mark.parametrize("dtype", INTS)
def test_the_ends_of_each_integer_type_are_launched_and_one_more_is_not(stream, dtype) -> None:
    low, high = dtype.range
    assert launched(stream, dtype, low) == low
    assert launched(stream, dtype, high) == high
    before = len(stream.launched)
    for value in (low - 1, high + 1):
        assert "does not fit" in refusal(launched, stream, dtype, value)
    assert len(stream.launched) == before


def test_an_int_over_its_type_is_an_error_and_never_wraps(stream) -> None:
    assert refusal(launched, stream, i32, 2**32 + 5) == (
        "argument `n` of kernel `k` does not fit i32 (got 4294967301)\n  help: i32 holds -2147483648 to 2147483647"
    )
    assert refusal(launched, stream, u32, -1) == (
        "argument `n` of kernel `k` does not fit u32 (got -1)\n  help: u32 holds 0 to 4294967295"
    )


@pytest.mark.parametrize(
    "value", [5, np.int64(5), np.uint8(5), np.array(5), np.array(5, np.uint64), True + 4, Level.HIGH + 2]
)
def test_whole_numbers_of_any_kind_are_taken_for_an_int(stream, value) -> None:
    assert launched(stream, i32, value) == 5


def test_enum_members_bools_and_numpy_bools_count_as_the_number_they_are(stream) -> None:
    assert launched(stream, i32, Level.HIGH) == 3
    assert launched(stream, i32, True) == 1
    assert launched(stream, i32, np.True_) == 1
    assert launched(stream, f32, True) == 1.0
    assert launched(stream, f32, Level.HIGH) == 3.0


class Tensor:
    """A 0-d array of some other library."""

    ndim = 0

    def __init__(self, value: float) -> None:
        self.value = value

    def item(self) -> float:
        return self.value


def test_a_0d_array_of_another_library_counts_as_its_element(stream) -> None:
    assert launched(stream, i32, Tensor(7)) == 7
    assert launched(stream, f32, Tensor(0.5)) == 0.5
    assert "does not fit i32" in refusal(launched, stream, i32, Tensor(2**40))
    assert "must be a scalar of i32" in refusal(launched, stream, i32, Tensor(0.5))


@pytest.mark.parametrize("value", [5, 5.0, np.float64(5), np.float32(5), np.int64(5), np.array(5.0)])
@pytest.mark.parametrize("dtype", [f32, f64])
def test_numbers_of_any_kind_are_taken_for_a_float(stream, dtype, value) -> None:
    assert launched(stream, dtype, value) == 5.0


@given(st.floats(width=64))
def test_a_float_arrives_rounded_as_numpy_rounds_it_or_is_refused(value) -> None:
    with np.errstate(over="ignore"):
        rounded = np.float32(value)
    if math.isinf(rounded) and not math.isinf(value):
        assert refusal(convert, "k", "n", f32, value).startswith("argument `n` of kernel `k` does not fit f32 (got ")
    else:
        arrived = struct.pack("f", convert("k", "n", f32, value))
        assert arrived == rounded.tobytes() or math.isnan(value)


@pytest.mark.parametrize("value", [math.inf, -math.inf, 3.4028235677973362e38, -0.0, 1e-46])
def test_infinity_and_what_rounds_to_a_number_is_launched(stream, value) -> None:
    assert launched(stream, f32, value) == np.float32(value)


def test_nan_is_launched(stream) -> None:
    assert math.isnan(launched(stream, f32, math.nan))


@pytest.mark.parametrize("value", [1e300, -1e300, 10**400, 3.4028235677973366e38])
def test_a_float_too_large_for_its_type_is_an_error(stream, value) -> None:
    message = refusal(launched, stream, f32, value)
    assert message.startswith("argument `n` of kernel `k` does not fit f32 (got ")
    assert message.endswith("\n  help: the largest f32 is 3.4028235e+38; infinity is `math.inf`")
    assert stream.launched == []


@pytest.mark.parametrize("value", [True, np.True_, np.array(True)])
def test_a_bool_takes_bools(stream, value) -> None:
    assert launched(stream, bool_, value) is True


@pytest.mark.parametrize(
    ("dtype", "value", "message"),
    [
        (
            i32,
            5.0,
            "must be a scalar of i32 (got 5.0, a float)\n  help: convert it with `int(n)`, or annotate `n: f32`",
        ),
        (
            i32,
            np.float64(5),
            (
                "must be a scalar of i32 (got 5.0, a NumPy float64)\n"
                "  help: convert it with `int(n)`, or annotate `n: f32`"
            ),
        ),
        (i32, None, "must be a scalar of i32 (got None)"),
        (i32, "5", "must be a scalar of i32 (got '5', a str)"),
        (i32, Colour.RED, "must be a scalar of i32 (got <Colour.RED: 1>)\n  help: pass what it holds: `n.value`"),
        (
            i32,
            np.array([5]),
            (
                "must be a scalar of i32 (got a NumPy array int64[1])\n"
                "  help: pass one element, or annotate a buffer: `n: In[…]`"
            ),
        ),
        (
            i32,
            np.timedelta64(5, "s"),
            "must be a scalar of i32 (got np.timedelta64(5,'s'), a NumPy timedelta64[s])",
        ),
        (
            f32,
            1j,
            "must be a scalar of f32 (got 1j, a complex)\n  help: pass its parts: `n.real`, `n.imag`",
        ),
        (f32, "5", "must be a scalar of f32 (got '5', a str)"),
        (
            f32,
            Fraction(1, 3),
            "must be a scalar of f32 (got Fraction(1, 3))\n  help: convert it with `float(n)`",
        ),
        (
            f32,
            Decimal("0.1"),
            "must be a scalar of f32 (got Decimal('0.1'))\n  help: convert it with `float(n)`",
        ),
        (i32, Fraction(4), "must be a scalar of i32 (got Fraction(4, 1))\n  help: convert it with `int(n)`"),
        (
            f32,
            np.ma.masked,
            (
                "must be a scalar of f32 (got a masked NumPy array float64[])\n"
                "  help: say what stands for what is masked: `n.filled(…)`"
            ),
        ),
        (bool_, 1, "must be a scalar of bool_ (got 1, an int)\n  help: compare it, or convert it with `bool(n)`"),
        (bool_, [], "must be a scalar of bool_ (got [])\n  help: compare it, or convert it with `bool(n)`"),
    ],
)
def test_what_is_no_scalar_of_the_type_is_refused(stream, dtype, value, message) -> None:
    assert refusal(launched, stream, dtype, value) == f"argument `n` of kernel `k` {message}"
    assert stream.launched == []


@pytest.mark.parametrize(
    ("of", "value", "found"),
    [
        (int, 16, 16),
        (int, np.int32(16), 16),
        (int, Level.HIGH, 3),
        (float, 1, 1.0),
        (float, np.float32(0.5), 0.5),
        (bool, np.False_, False),
        (DType, f32, f32),
        (DType, np.float32, f32),
    ],
)
def test_a_constant_becomes_a_plain_value_of_its_type(of, value, found) -> None:
    assert constant("k", "n", of, value) == found
    assert type(constant("k", "n", of, value)) is type(found)


@pytest.mark.parametrize(
    ("of", "value", "message"),
    [
        (int, 16.0, "must be an int (got 16.0, a float)\n  help: convert it with `int(n)`"),
        (int, True, "must be an int (got True, a bool)\n  help: convert it with `int(n)`"),
        (bool, 1, "must be a bool (got 1, an int)\n  help: convert it with `bool(n)`"),
        (float, Fraction(1, 3), "must be a float (got Fraction(1, 3))\n  help: convert it with `float(n)`"),
        (float, "x", "must be a float (got 'x', a str)\n  help: convert it with `float(n)`"),
        (DType, "nonsense", "must be a dtype (got 'nonsense', a str)\n  help: for example `kaio.f32`"),
    ],
)
def test_what_is_no_constant_of_the_type_is_refused(of, value, message) -> None:
    assert refusal(constant, "k", "n", of, value) == f"argument `n` of kernel `k` is a constant and {message}"


def test_a_long_value_is_shown_cut() -> None:
    assert describe("x" * 500) == "'" + "x" * 56 + "…, a str"


def test_a_constant_of_thousands_of_bits_is_refused() -> None:
    with pytest.raises(LaunchError, match=r"argument `n` of kernel `k` is a constant and must be an int"):
        constant("k", "n", int, 10**5000)
    assert constant("k", "n", int, 1 << 4095) == 1 << 4095
