"""Formulas over the numbers of a launch: what depends on the block, and whether blocks have elements of their own."""

from __future__ import annotations

from typing import Any

import pytest

from kaio.dtypes import i32
from kaio.program import Alike, Argument, Formula, HostProgram, Shadow
from kaio.runtime.alike import count_alike, tells_apart

GRID, BLOCK = (10, 1, 1), (64, 1, 1)
PLACE = ("+", ("*", "ctaid.x", "ntid.x"), "tid.x")


def counted(
    alike: Alike | None,
    grid: tuple[int, int, int] = GRID,
    block: tuple[int, int, int] = BLOCK,
    values: tuple[int, ...] = (),
) -> int:
    """How many blocks are alike in a launch of a kernel with a buffer for each entry of `places`, and these scalars."""
    places = () if alike is None else alike.places
    buffers = tuple(Argument(f"y{k}", i32, 0, "InOut") for k in range(len(places)))
    arguments = (*buffers, *(Argument(f"n{k}", i32) for k in range(len(values))))
    shadow = Shadow(b"", 4, (), (None,) * len(places), alike=alike)
    program = HostProgram("k", "host", arguments, 32, 0, b"", b"", 0, shadow=shadow)
    return count_alike(program, grid, block, program.block.pack(*[0] * len(buffers), *values))


def places(*formulas: Formula) -> Alike:
    return Alike((), (formulas,))


def test_without_a_proof_no_block_is_like_another():
    assert counted(None) == 0
    assert counted(Alike((), ())) == 10


@pytest.mark.parametrize(
    ("formulas", "expected"),
    [
        ([PLACE], 10),
        (["ctaid.x"], 10),
        ([("+", PLACE, 1), ("+", PLACE, 1)], 10),
        ([PLACE, ("+", PLACE, 1)], 0),  # the last of one block is the first of the next
        (["tid.x"], 0),
        ([("*", "ctaid.x", 63), ("+", ("*", "ctaid.x", 63), "tid.x")], 0),
        ([("+", ("*", "ctaid.x", 64), "thread")], 10),
        ([PLACE, "ctaid.x"], 0),  # they begin elsewhere in each block, and in another way
        ([(">>", PLACE, 5)], 10),
        ([(">>", PLACE, 7)], 0),
        ([("+", ("*", "tid.x", 10), "ctaid.x")], 10),  # element by element in turn
        ([("+", ("*", "tid.x", 9), "ctaid.x")], 0),
        ([("*", "ctaid.x", -1)], 10),
        ([("*", "tid.x", "ctaid.x")], 0),
        ([("*", "ctaid.x", 1 << 29)], 0),  # it might wrap
        ([("<<", "ctaid.x", 3)], 10),
        ([("-", ("*", "ctaid.x", 64), "tid.x")], 10),
        ([("&", PLACE, 63)], 0),
        ([("+", ("*", "ctaid.x", 100), ("range", "tid.x", 100, "ntid.x"))], 10),  # a row for each block
        ([("+", ("*", "ctaid.x", 99), ("range", "tid.x", 100, "ntid.x"))], 0),
        ([("+", ("*", "ctaid.x", 100), ("range", "tid.x", 100, ("-", "tid.x", 1)))], 0),  # it may go down
        ([("+", ("*", "ctaid.x", 100), ("range", "ctaid.x", 100, 1))], 0),  # fewer turns in each block
    ],
)
def test_each_block_must_have_elements_of_its_own(formulas: list[Any], expected: int):
    assert counted(places(*formulas)) == expected


def test_blocks_of_two_dimensions_are_told_like_digits():
    tile = ("+", ("*", ("+", ("*", "ctaid.y", 8), "tid.y"), ("argument", 1)), ("+", ("*", "ctaid.x", 8), "tid.x"))
    turned = ("+", ("*", ("+", ("*", "ctaid.x", 8), "tid.y"), ("argument", 1)), ("+", ("*", "ctaid.y", 8), "tid.x"))
    for formula, width in (tile, 40), (turned, 24):
        assert counted(places(formula), (5, 3, 1), (8, 8, 1), (width,)) == 15
        assert counted(places(formula), (5, 3, 1), (8, 8, 1), (width - 1,)) == 0
        assert counted(places(formula), (5, 3, 1), (9, 8, 1), (width,)) == 0


@pytest.mark.parametrize(("threads", "expected"), [(64, 10), (48, 0)])
def test_low_bits_are_the_threads_where_a_block_is_a_multiple_of_them(threads: int, expected: int):
    alike = Alike((("&", PLACE, 31),), ())
    assert counted(alike, block=(threads, 1, 1)) == expected


@pytest.mark.parametrize(
    ("size", "expected"), [(640, 10), (10_000, 10), (639, 9), (577, 9), (576, 9), (575, 0), (-5, 10), (0, 10)]
)
def test_a_guard_goes_one_way_in_all_blocks_or_in_all_but_the_last(size: int, expected: int):
    alike = Alike((("<", PLACE, ("argument", 0)),), ())
    assert counted(alike, values=(size,)) == expected


def test_the_last_block_stands_aside_in_a_line_of_blocks_alone():
    alike = Alike((("<", PLACE, ("argument", 0)),), ())
    assert counted(alike, grid=(5, 2, 1), values=(319,)) == 0


def test_a_number_of_the_block_is_another_in_each():
    assert counted(Alike(("ctaid.x",), ())) == 0
    assert counted(Alike(("ctaid.y",), ())) == 10


def test_a_comparison_of_threads_with_each_other_is_the_same_in_each_block():
    assert counted(Alike((("<", PLACE, ("+", ("*", "ctaid.x", "ntid.x"), 7)),), ())) == 10


@pytest.mark.parametrize(
    ("axes", "block", "expected"),
    [(None, BLOCK, False), (("x",), BLOCK, True), (("x64",), BLOCK, True), (("x32",), BLOCK, False),
     (("x",), (64, 2, 1), False), (("y", "x"), (64, 2, 1), True)],
)  # fmt: skip
def test_places_in_the_grid_tell_threads_apart(axes: Any, block: Any, expected: bool):
    assert tells_apart(axes, GRID, block) is expected
