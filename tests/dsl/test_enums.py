"""Enums in kernels: captured members, parameters, constants of the compilation."""

from __future__ import annotations

import enum

import numpy as np
import pytest

import kaio
from kaio import Const, In, Out, i32
from tests import refusals
from tests.dsl.from_text import message


class Color(enum.Enum):
    RED = 1
    GREEN = 2
    BLUE = -3


class Side(enum.IntEnum):
    LEFT = 0
    RIGHT = 4


class Access(enum.IntFlag):
    READ = 1
    WRITE = 2
    RUN = 1 << 40


class Name(enum.Enum):
    FIRST = "first"


class Other(enum.Enum):
    RED = 1


def launched(kernel, device, *arguments, **named):
    out = device.alloc_zeros(4, i32)
    kernel.over(4).block(4).launch(out, *arguments, **named).wait()
    return out.to_host().tolist()


@kaio.kernel
def compares(out: Out[i32], color: Color, side: Side, access: Access = Access.READ | Access.RUN):
    i = kaio.grid(1)
    chosen = Color.RED if i % 2 == 0 else Color.GREEN
    total = 0
    if color == chosen:
        total += 1
    if color is not Color.BLUE and side is Side.RIGHT:
        total += 10
    if side > Side.LEFT:
        total += 100 * side
    if access & Access.RUN:
        total += 1000
    if chosen != Color.GREEN:
        total += chosen.value * 10000
    out[i] = total


def test_members_are_compared_by_equality_and_identity(device):
    assert launched(compares, device, Color.RED, Side.RIGHT) == [11411, 1410, 11411, 1410]
    assert launched(compares, device, Color.BLUE, Side.LEFT, Access.WRITE) == [10000, 0, 10000, 0]


def test_members_travel_as_ints_wide_enough_for_all():
    ptx = compares.ptx("sm_90")
    assert ".param .u32 color" in ptx
    assert ".param .u64 access" in ptx


def test_a_constant_member_decides_branches(device):
    @kaio.kernel
    def k(out: Out[i32], color: Const[Color] = Color.RED):
        if color is Color.RED:
            value = 1
        if color == Color.GREEN:
            value = 2
        if color.value < 0:
            value = color.value
        out[kaio.grid(1)] = value

    assert launched(k, device) == [1] * 4
    assert launched(k, device, Color.GREEN) == [2] * 4
    assert launched(k, device, color=Color.BLUE) == [-3] * 4
    assert "setp" not in k.ptx("sm_90", color=Color.GREEN)


def test_a_member_is_handed_to_functions_and_joined(device):
    @kaio.func
    def weight(color: Color):
        return 5 if color == Color.GREEN else 7

    @kaio.kernel
    def k(x: In[i32], out: Out[i32]):
        i = kaio.grid(1)
        color = Color.RED
        if x[i] > 1:
            color = Color.GREEN
        out[i] = weight(color) + weight(Color.GREEN) * Side.RIGHT

    x = device.alloc_from(np.arange(4, dtype=np.int32))
    out = device.alloc_zeros(4, i32)
    k.over(4).block(4).launch(x, out).wait()
    assert out.to_host().tolist() == [27, 27, 25, 25]


def refusal(kernel, *arguments, **named):
    out = kaio.Device("cpu").alloc_zeros(4, i32)
    return refusals.refusal(kernel.over(4).launch, out, *arguments, **named)


def test_a_launch_takes_members_of_the_enum_only():
    assert refusal(compares, 1, Side.LEFT) == (
        "argument `color` of kernel `compares` must be a member of Color (got 1, an int)\n  help: write `Color.RED`"
    )
    assert refusal(compares, Other.RED, Side.LEFT) == (
        "argument `color` of kernel `compares` must be a member of Color (got <Other.RED: 1>)\n"
        "  help: for example `Color.RED`"
    )
    assert refusal(compares, Color.RED, 3).startswith(
        "argument `side` of kernel `compares` must be a member of Side (got 3, an int)"
    )


def test_a_constant_is_a_member_of_the_enum():
    @kaio.kernel
    def k(out: Out[i32], color: Const[Color]):
        out[kaio.grid(1)] = color.value

    assert refusal(k, 1) == (
        "argument `color` of kernel `k` is a constant and must be a member of Color (got 1, an int)\n"
        "  help: for example `Color.RED`"
    )


NAMES = {"Color": Color, "Side": Side, "Other": Other, "Name": Name}


def told(body, parameters="c: Color, s: Side"):
    lines = message(f"@kernel\ndef k(out: Out[i32], {parameters}):\n    {body}\n", **NAMES).splitlines()
    return lines[0], lines[-1].removeprefix("  help: ")


@pytest.mark.parametrize(
    ("body", "what", "way_out"),
    [
        (
            "out[0] = c + 1",
            "`Color + int literal 1`: members of `Color` are no numbers",
            "take what they hold, `.value`, or derive `Color` from `IntEnum`",
        ),
        (
            "out[0] = 1 if c == 1 else 0",
            "`Color == int literal 1` is always the same: a member equals members of its own enum only",
            "compare with a member of `Color`, or take what it holds: `.value`",
        ),
        (
            "out[0] = 1 if c is Other.RED else 0",
            "`Color is Other.RED` is always the same: a member equals members of its own enum only",
            "compare with a member of `Color`, or take what it holds: `.value`",
        ),
        ("out[0] = c", "Color cannot be stored in an element of `out` (i32)", "take what it holds: `c.value`"),
        ("out[0] = c.vale", "Color has no attribute `vale` in a kernel", "it has value"),
        ("out[0] = Color.RAD.value", "`Color` has no attribute `RAD`", "did you mean `RED`?"),
    ],
)
def test_what_members_cannot_do_is_told(body, what, way_out):
    assert told(body) == (what, way_out)


def test_an_enum_of_texts_is_no_parameter():
    assert told("out[0] = 1", "n: Name") == (
        "`Name.FIRST` is 'first', not an int",
        "give the members of `Name` int values",
    )
