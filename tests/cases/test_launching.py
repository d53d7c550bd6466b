"""Patterns of launching that failed for users of kernel languages; the numbers are those of the case list."""

from __future__ import annotations

import math

import numpy as np
import pytest

import kaio
from kaio import D0, D2, In, InOut, f32, f64, i32
from tests.refusals import refusal


@kaio.kernel
def axpb(x: InOut[f32], m: f32, n: i32):
    i = kaio.grid(1)
    if i < n:
        x[i] = x[i] * m


@kaio.kernel
def fill(x: InOut[f64], v: f64):
    i = kaio.grid(1)
    if i < x.size:
        x[i] = v


@kaio.kernel
def fill_image(x: InOut[f64, D2], v: f64):
    column, row = kaio.grid(2)
    if row < x.shape[0] and column < x.shape[1]:
        x[row, column] = v


@kaio.kernel
def bump(x: InOut[i32, D0]):
    x[()] += 1


@kaio.kernel
def touch(x: InOut[i32, D2]):
    i, j = kaio.grid(2)
    if j < x.shape[0] and i < x.shape[1]:
        x[j, i] += 1


@kaio.kernel
def copy_image(a: In[f32, D2], b: InOut[f32, D2]):
    column, row = kaio.grid(2)
    if row < b.shape[0] and column < b.shape[1]:
        b[row, column] = a[row, column]


@pytest.mark.parametrize("m", [5.0, 5, np.float64(5), np.float32(5), np.int64(5), np.array(5.0)])
def test_b16_numbers_of_any_kind_are_taken_for_a_float(device, m) -> None:
    x = device.alloc_from(np.arange(6, dtype=np.float32))
    axpb.over(6).launch(x, m, np.int64(4)).wait()
    assert x.to_host().tolist() == [0, 5, 10, 15, 4, 5]


@pytest.mark.parametrize("n", [2**32 + 5, -(2**31) - 1, np.int64(2**40), 5.0, None])
def test_b16_a_count_that_is_no_i32_never_becomes_one(device, n) -> None:
    x = device.alloc_from(np.ones(6, np.float32))
    assert refusal(axpb.over(6).launch, x, 5.0, n).startswith("argument `n` of kernel `axpb` ")
    device.wait()
    assert (x.to_host() == 1).all()


def test_b16_a_float_that_is_no_f32_is_an_error_and_infinity_is_not(device) -> None:
    x = device.alloc_from(np.ones(1, np.float32))
    assert "does not fit f32 (got 1e+300)" in refusal(axpb.over(1).launch, x, 1e300, 1)
    axpb.over(1).launch(x, math.inf, 1).wait()
    assert x.to_host()[0] == np.inf


@pytest.mark.parametrize(("kernel", "shape"), [(fill, (0,)), (fill_image, (0, 5)), (fill_image, (5, 0))])
def test_b28_an_empty_buffer_is_nothing_to_do(device, kernel, shape) -> None:
    x = device.alloc_from(np.zeros(shape))
    for launcher in (kernel.over(x.shape), kernel[0, 128], kernel[1, 128]):
        launcher.launch(x, 1.0).wait()
    assert x.to_host().shape == shape


def test_b28_arguments_are_checked_even_if_the_grid_is_empty(device) -> None:
    assert "must be a GpuBuffer of f64 (got f32[0])" in refusal(fill.over(0).launch, device.alloc_zeros(0, f32), 1.0)


def test_b28_a_buffer_of_no_dimensions_stays_one(device) -> None:
    x = device.alloc_from(np.array(41, np.int32))
    bump[1, 1](x).wait()
    assert x.to_host().shape == ()
    assert x.to_host() == 42


@pytest.mark.parametrize(
    ("grid", "block", "told"),
    [
        (1, (32, 33), "has 1056 threads, but {device} takes at most 1024"),
        (1, (1, 1, 65), "block.z of kernel `touch` is 65, but {device} takes at most 64"),
        ((1, 65536), (1, 1), "grid.y of kernel `touch` is 65536, but {device} takes at most 65535"),
    ],
)
def test_b29_a_geometry_over_the_limits_is_told_before_the_launch(device, grid, block, told) -> None:
    x = device.alloc_zeros((2, 2), i32)
    assert told.format(device=device) in refusal(touch[grid, block].launch, x)
    device.wait()
    assert (x.to_host() == 0).all()


def test_b30_a_float_grid_is_refused_with_the_way_to_round(device) -> None:
    assert refusal(copy_image.grid, 100 / 32 + 1, 37 / 32 + 1) == (
        "`grid` of kernel `copy_image` takes whole numbers (got 4.125 in (4.125, 2.15625))\n"
        "  help: divide with `//`, or round up with `math.ceil`"
    )


@pytest.mark.parametrize("dimension", [True, None, -1, np.array(4), (1, 2, 3, 4), "4"])
def test_b30_what_is_no_dimension_is_refused(dimension) -> None:
    assert refusal(copy_image.grid, dimension).startswith("`grid` of kernel `copy_image` ")


def test_b30_over_a_shape_leaves_no_element_out(device) -> None:
    a = np.arange(100 * 37, dtype=np.float32).reshape(100, 37)
    b = device.alloc_from(np.full((100, 37), -1, np.float32))
    copy_image.over(b.shape).launch(device.alloc_from(a), b).wait()
    assert (b.to_host() == a).all()
    again = device.alloc_from(np.full((100, 37), -1, np.float32))
    copy_image[(np.int64(2), np.int32(13)), (32, 8)](b, again).wait()
    assert (again.to_host() == a).all()
