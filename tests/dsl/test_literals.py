"""What literals become, and what they give; the values are the contract's, not the code's."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kaio import bool_, f32, f64, i8, i32, i64, u8, u32, u64
from kaio.dsl.literals import default, fits, fold, literal
from kaio.dsl.rules import binary
from kaio.dsl.values import Weak
from tests.dsl import from_text
from tests.dsl.rule_types import INTEGERS, NUMBERS, UNSIGNED, help_of, one_of, refusal


def mistakes(line, **names):
    return from_text.mistakes(f"@kernel\ndef k(out: InOut[f32]):\n    {line}\n", **names)


def run(line, dtype, **names):
    """What a line sets four elements of `out` to; x holds 0 to 3."""
    made = from_text.kernel(
        f"@kernel\ndef k(x: In[f64], out: Out[{dtype!r}]):\n    i = grid(1)\n    if i < x.size:\n        {line}\n",
        **names,
    )
    return from_text.run(made, [np.arange(4.0)], [dtype])[0].tolist()


def test_a_literal_alone_is_i32_f32_or_bool():
    assert default(literal(0)) is i32
    assert default(literal(-(2**31))) is i32
    assert default(literal(0.1)) is f32
    assert default(literal(math.inf)) is f32
    assert literal(True) is bool_


@pytest.mark.parametrize(
    ("value", "what", "help"),
    [
        (2**31, "`2147483648` does not fit i32", "write `kaio.i64(2147483648)`"),
        (2**63, f"`{2**63}` does not fit i32", f"write `kaio.u64({2**63})`"),
        (1e39, "`1e+39` does not fit f32", "write `kaio.f64(1e+39)`"),
        (2**64, f"`{2**64}` does not fit i32", "no type of kaio holds this value"),
    ],
)
def test_a_literal_alone_that_does_not_fit_is_refused(value, what, help):
    assert refusal(default, literal(value)) == f"{what}, the type of a literal that stands alone"
    assert help_of(default, literal(value)) == help


@pytest.mark.parametrize("dtype", NUMBERS, ids=repr)
def test_a_literal_takes_the_type_of_its_partner(dtype):
    for op in ("+", "-", "*", "//", "%"):
        assert binary(op, dtype, literal(2)).result is dtype
        assert binary(op, literal(2), dtype).result is dtype
    with_float = dtype if dtype.is_float else f32
    assert binary("*", dtype, literal(0.5)).result is with_float
    assert binary("*", literal(0.5), dtype).result is with_float


@pytest.mark.parametrize(("dtype", "value"), [(u8, 256), (u8, -1), (i8, 128), (u64, 2**64), (i64, 2**63), (f32, 1e39)])
def test_a_literal_that_does_not_fit_its_partner_is_refused_with_value_and_type(dtype, value):
    assert refusal(binary, "+", dtype, literal(value)) == f"`{value!r}` does not fit {dtype!r}"
    assert refusal(binary, "+", literal(value), dtype) == f"`{value!r}` does not fit {dtype!r}"


def test_what_fits():
    assert [fits(d, 255) for d in INTEGERS] == [False, True, True, True, True, True, True, True]
    assert [fits(d, -1) for d in UNSIGNED] == [False] * 4
    assert fits(f32, 3.4028234e38)
    assert not fits(f32, 3.4028236e38)
    assert fits(f32, math.inf)
    assert fits(f32, math.nan)
    assert fits(f32, 16777217)  # rounds, as in NumPy
    assert not fits(i32, 1.0)


# ---------------------------------------------------------------------- folding
@pytest.mark.parametrize(
    ("op", "a", "b", "wanted"),
    [
        ("+", 1, 2, 3),
        ("*", 2, 0.5, 1.0),
        ("/", 1, 4, 0.25),
        ("//", -7, 2, -4),
        ("%", -7, 2, 1),
        ("**", 2, 10, 1024),
        ("**", 2, -1, 0.5),
        ("<<", 1, 40, 2**40),
        (">>", -1, 3, -1),
        ("&", 12, 10, 8),
        ("|", 12, 10, 14),
        ("^", 12, 10, 6),
        ("-", 0.1, 0.3, 0.1 - 0.3),
    ],
)
def test_literals_fold_as_in_python(op, a, b, wanted):
    assert fold(op, literal(a), literal(b)) == literal(wanted)


def test_folding_with_a_conditional_folds_each_value():
    assert fold("*", one_of(1, 2), literal(10)) == Weak("i", (10, 20))
    assert fold("/", literal(1), one_of(2, 4)) == Weak("f", (0.5, 0.25))
    assert fold("+", one_of(1, 2), one_of(3, 4)) is None
    assert binary("+", one_of(1, 2), one_of(3, 4)).result is i32
    assert fold("<", one_of(1, 2), literal(2)) is bool_


@pytest.mark.parametrize(
    ("op", "a", "b", "what"),
    [
        ("/", 1, 0, "division of literals by zero"),
        ("//", 1, 0, "division of literals by zero"),
        ("%", 1, 0, "division of literals by zero"),
        ("**", 0, -1, "division of literals by zero"),
        ("**", -1, 0.5, "`int literal -1 ** float literal 0.5`: the result is complex"),
        ("**", 2, 10**6, "`int literal 2 ** int literal 1000000`: the result is too large for any type of kaio"),
        ("<<", 1, 10**9, "`int literal 1 << int literal 1000000000`: the result is too large for any type of kaio"),
        ("<<", 1, -1, "`int literal 1 << int literal -1`: negative shift count"),
    ],
)
def test_literals_that_cannot_be_computed_are_refused(op, a, b, what):
    assert refusal(fold, op, literal(a), literal(b)) == what


def test_an_int_beyond_every_type_is_refused_wherever_it_stands():
    huge = 10**400
    for line in ("out[0] = huge", "out[0] *= huge", "out[0] = f32(huge)", "out[0] **= huge", "total: f32 = huge"):
        assert mistakes(f"{line}", huge=huge)[0].what == f"`{huge}` does not fit f32", line
    assert mistakes("out[0] = 1 if out[0] < huge else 2", huge=huge)[0].what == f"`{huge}` does not fit f32"
    joined = mistakes("out[0] = huge if out[0] < 1 else 0.5", huge=huge)[0].what
    assert joined.startswith(f"`{huge}` does not fit f")  # f64 where the branches meet before the store
    assert mistakes("total: float = huge", huge=huge)[0].what == f"`{huge}` does not fit f64"
    assert mistakes("out[0] = c64(huge).real", huge=huge)[0].what == f"`{huge}` does not fit f32"
    assert mistakes("out[0] = c64(1e300).real")[0].what == "`1e+300` does not fit f32"
    assert mistakes("out[0] = huge", huge=10**5000)[0].what == (
        "an int of 16610 bits is too large for any type of kaio"
    )


@pytest.mark.parametrize(
    "value", ["max({}, 1)", "gcd({}, 1)", "(1 if out[0] < 1 else {}) + (2 if out[0] < 2 else 3)", "sqrt({})"]
)
def test_literals_that_are_computed_alone_have_to_fit(value):
    found = mistakes(f"out[0] = {value.format('2**40')}", gcd=math.gcd, sqrt=math.sqrt)
    assert [mistake.what for mistake in found] == [
        "`1099511627776` does not fit i32, the type of a literal that stands alone"
    ]


def test_literals_of_a_call_take_the_type_of_the_others_wherever_they_stand():
    assert run("out[i] = max(1, 2, u8(i))", u8) == [2, 2, 2, 3]
    assert run("out[i] = max(0.1, 0.05, 0 * x[i])", f64) == [0.1] * 4
    assert run("out[i] = fma(0.1, 0.2, x[i])", f64)[0] == 0.1 * 0.2


def test_a_literal_nan_becomes_the_int_that_an_f32_becomes():
    for dtype, wanted in ((i32, 0), (u8, 0), (i64, -(2**63)), (u64, 2**63)):
        assert run(f"out[i] = {dtype!r}(nan)", dtype, nan=math.nan) == [wanted] * 4
        assert run(f"out[i] = {dtype!r}(f32(nan))", dtype, nan=math.nan) == [wanted] * 4


@pytest.mark.parametrize("dtype", [u8, u32, u64], ids=repr)
def test_an_unsigned_number_is_compared_exactly_with_a_float_literal_just_below_zero(dtype):
    for op, wanted in (("<=", 2), (">", 1), ("<", 2), (">=", 1), ("!=", 1)):
        literal = "-0.5" if op != "!=" else "7.0"
        assert run(f"out[i] = 1 if {dtype!r}(i) {op} {literal} else 2", u8) == [wanted] * 4
