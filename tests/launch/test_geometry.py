from __future__ import annotations

from enum import IntEnum
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaio.launch.geometry import (
    check_limits,
    check_rank,
    check_registers,
    cover,
    default_block,
    read_dims,
    read_shape,
    three,
)
from kaio.runtime.limits import Limits
from tests.refusals import refusal

LIMITS = Limits()
shapes = st.lists(st.integers(0, 10_000), max_size=3).map(tuple)
blocks = st.lists(st.integers(1, 32), min_size=1, max_size=3).map(tuple)


@given(shapes, blocks)
def test_the_grid_covers_the_shape_and_no_block_is_spare(shape, block) -> None:
    block = three(block)
    axes = (*shape[::-1], 1, 1, 1)[:3]  # the last axis is x
    for blocks, threads, size in zip(cover(shape, block), block, axes, strict=True):
        assert blocks * threads >= size
        assert (blocks - 1) * threads < size


@given(st.integers(1, 3), st.integers(1, 2000))
def test_the_default_block_keeps_the_launch_bounds_and_is_never_empty(ndim, bounds) -> None:
    block = default_block(ndim, LIMITS, bounds)
    assert len(block) == ndim
    assert 1 <= min(block)
    assert prod(block) <= min(bounds, 256)


@pytest.mark.parametrize(
    ("ndim", "bounds", "block"),
    [
        (0, None, (256,)),
        (1, None, (256,)),
        (2, None, (32, 8)),
        (3, None, (8, 8, 4)),
        (1, 1024, (256,)),
        (1, 100, (100,)),
        (2, 128, (32, 4)),
        (2, 16, (16, 1)),
        (3, 128, (8, 8, 2)),
        (3, 32, (8, 4, 1)),
    ],
)
def test_the_default_block(ndim, bounds, block) -> None:
    assert default_block(ndim, LIMITS, bounds) == block


def test_the_default_block_is_cut_to_the_device() -> None:
    assert default_block(2, Limits(max_threads_per_block=64), None) == (32, 2)
    assert default_block(3, Limits(max_block=(1024, 1024, 2)), None) == (8, 8, 2)


@pytest.mark.parametrize(
    ("shape", "read"),
    [
        (5, (5,)),
        ((2, 3), (2, 3)),
        ([2, 3], (2, 3)),
        ((), ()),
        (0, (0,)),
        ((0, 5), (0, 5)),
        (np.int64(7), (7,)),
        ((np.uint8(3), 4), (3, 4)),
        (IntEnum("Size", {"N": 12}).N, (12,)),
        (2**40, (2**40,)),
    ],
)
def test_a_shape_is_an_int_or_up_to_three_of_them(shape, read) -> None:
    assert read_shape("k", shape) == read


WAY_OUT = "\n  help: for example `over(y.size)` or `over(image.shape)`"
FLOAT = "\n  help: divide with `//`, or round up with `math.ceil`"


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        (2.5, f"`over` of kernel `k` takes whole numbers (got 2.5){FLOAT}"),
        (4.0, f"`over` of kernel `k` takes whole numbers (got 4.0){FLOAT}"),
        (np.float32(4), f"`over` of kernel `k` takes whole numbers (got np.float32(4.0)){FLOAT}"),
        ((3, 2.5), f"`over` of kernel `k` takes whole numbers (got 2.5 in (3, 2.5)){FLOAT}"),
        (True, f"`over` of kernel `k` takes whole numbers (got True){WAY_OUT}"),
        (np.True_, f"`over` of kernel `k` takes whole numbers (got np.True_){WAY_OUT}"),
        (None, f"`over` of kernel `k` takes whole numbers (got None){WAY_OUT}"),
        ("5", f"`over` of kernel `k` takes whole numbers (got '5'){WAY_OUT}"),
        (
            np.array(4),
            "`over` of kernel `k` takes whole numbers (got array(4))\n  help: convert it: `.over(int(…))`",
        ),
        (
            np.array([4, 5]),
            "`over` of kernel `k` takes whole numbers (got array([4, 5]))\n  help: convert it: `.over(tuple(…))`",
        ),
        (-1, "`over` of kernel `k` must be at least 0 (got -1)"),
        ((4, -1), "`over` of kernel `k` must be at least 0 (got -1 in (4, -1))"),
        (
            (2, 3, 4, 5),
            (
                "`over` of kernel `k` takes at most 3 axes (got (2, 3, 4, 5))\n"
                "  help: fold the leading axes into one: `over((6, 4, 5))`"
            ),
        ),
    ],
)
def test_what_is_no_shape_is_refused_with_advice(shape, message) -> None:
    assert refusal(read_shape, "k", shape) == message


@pytest.mark.parametrize("values", [(4, 2), ((4, 2),), ([4, 2],), (np.int32(4), np.int64(2))])
def test_dimensions_are_given_as_arguments_or_as_one_tuple(values) -> None:
    assert read_dims("k", "grid", values) == (4, 2)


@pytest.mark.parametrize(
    ("label", "values", "message"),
    [
        ("grid", (32.25, 4), f"`grid` of kernel `k` takes whole numbers (got 32.25 in (32.25, 4)){FLOAT}"),
        ("block", (16.0,), f"`block` of kernel `k` takes whole numbers (got 16.0){FLOAT}"),
        (
            "grid",
            (True,),
            "`grid` of kernel `k` takes whole numbers (got True)\n  help: for example `.grid(128)`",
        ),
        (
            "block",
            (None,),
            "`block` of kernel `k` takes whole numbers (got None)\n  help: for example `.block(128)`",
        ),
        (
            "block",
            (np.array(64),),
            "`block` of kernel `k` takes whole numbers (got array(64))\n  help: convert it: `.block(int(…))`",
        ),
        ("block", (0,), "`block` of kernel `k` must be at least 1 (got 0)"),
        ("block", (32, 0), "`block` of kernel `k` must be at least 1 (got 0 in (32, 0))"),
        ("grid", (-2,), "`grid` of kernel `k` must be at least 0 (got -2)"),
        (
            "grid",
            (1, 2, 3, 4),
            "`grid` of kernel `k` takes 1 to 3 dimensions (got (1, 2, 3, 4))\n  help: x first: `.grid(x, y, z)`",
        ),
        (
            "block",
            ((),),
            "`block` of kernel `k` takes 1 to 3 dimensions (got ())\n  help: x first: `.block(x, y, z)`",
        ),
    ],
)
def test_what_is_no_dimension_is_refused_with_advice(label, values, message) -> None:
    assert refusal(read_dims, "k", label, values) == message


@pytest.mark.parametrize(
    ("grid", "block", "message"),
    [
        (
            (1, 1, 1),
            (32, 33, 1),
            "block (32, 33, 1) of kernel `k` has 1056 threads, but cpu takes at most 1024",
        ),
        ((1, 1, 1), (1, 1, 65), "block.z of kernel `k` is 65, but cpu takes at most 64"),
        ((1, 1, 1), (2048, 1, 1), "block.x of kernel `k` is 2048, but cpu takes at most 1024"),
        (
            (1, 65536, 1),
            (1, 1, 1),
            (
                "grid.y of kernel `k` is 65536, but cpu takes at most 65535\n"
                "  help: x takes 2147483647 blocks: put the longest axis last in `over(shape)`, first in `.grid(…)`"
            ),
        ),
        (
            (1, 1, 70000),
            (1, 1, 1),
            (
                "grid.z of kernel `k` is 70000, but cpu takes at most 65535\n"
                "  help: x takes 2147483647 blocks: put the longest axis last in `over(shape)`, first in `.grid(…)`"
            ),
        ),
        (
            (2**31, 1, 1),
            (1, 1, 1),
            (
                "grid.x of kernel `k` is 2147483648, but cpu takes at most 2147483647\n"
                "  help: let each thread do several elements, in a loop with a stride of the grid's size"
            ),
        ),
    ],
)
def test_a_geometry_over_the_limits_names_dimension_value_and_limit(grid, block, message) -> None:
    assert refusal(check_limits, "k", grid, block, LIMITS, "cpu", None) == message


def test_the_limits_themselves_are_taken() -> None:
    check_limits("k", (2**31 - 1, 65535, 65535), (1024, 1, 1), LIMITS, "cpu", 1024)
    check_limits("k", (1, 1, 1), (4, 4, 64), LIMITS, "cpu", None)


def test_a_block_over_the_launch_bounds_is_refused() -> None:
    assert refusal(check_limits, "k", (1, 1, 1), (16, 17, 1), LIMITS, "cpu", 256) == (
        "block (16, 17, 1) of kernel `k` has 272 threads, but its launch_bounds allow 256\n"
        "  help: use `.block(256)`, or raise it: `@kaio.kernel(launch_bounds=272)`"
    )


def test_a_block_that_needs_too_many_registers_is_refused_with_the_largest_that_fits() -> None:
    check_registers("k", (640, 1, 1), 640, 65536, "cuda:0")
    assert refusal(check_registers, "k", (32, 32, 1), 640, 65536, "cuda:0") == (
        "block (32, 32, 1) of kernel `k` has 1024 threads, but with the registers that the kernel uses "
        "cuda:0 runs at most 640\n"
        "  help: use `.block(640)`, or `@kaio.kernel(max_registers=64)`"
    )


# --- axes of the shape and of the kernel's grid ----------------------------------------------------------------------


@pytest.mark.parametrize(("shape", "ranks"), [((8,), {1}), ((8,), {1, 2}), ((2, 4), {2}), ((), {1}), ((2, 4), set())])
def test_a_shape_with_the_axes_of_a_grid_is_taken(shape, ranks) -> None:
    check_rank("k", shape, frozenset(ranks))


@pytest.mark.parametrize(
    ("shape", "ranks", "message"),
    [
        (
            (2, 4),
            {1},
            (
                "kernel `k` uses `kaio.grid(1)`, but `over((2, 4))` has 2 axes\n"
                "  help: run it over all elements, `over(8)`, or use `col, row = kaio.grid(2)` in the kernel"
            ),
        ),
        (
            (8,),
            {2, 3},
            (
                "kernel `k` uses `kaio.grid(2)` and `kaio.grid(3)`, but `over(8)` has 1 axis\n"
                "  help: give a shape, for example `over(image.shape)`, or use `kaio.grid(1)` in the kernel"
            ),
        ),
        (
            (2, 3, 4),
            {2},
            (
                "kernel `k` uses `kaio.grid(2)`, but `over((2, 3, 4))` has 3 axes\n"
                "  help: use `col, row, plane = kaio.grid(3)` in the kernel"
            ),
        ),
    ],
)
def test_a_shape_with_other_axes_than_every_grid_is_refused(shape, ranks, message) -> None:
    assert refusal(check_rank, "k", shape, frozenset(ranks)) == message
