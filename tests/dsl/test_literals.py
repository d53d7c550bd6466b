"""What literals become, and what they give; the values are the contract's, not the code's."""

from __future__ import annotations

import math

import pytest

from kaio import bool_, f32, i8, i32, i64, u8, u64
from kaio.dsl.literals import default, fits, fold, literal
from kaio.dsl.rules import binary
from kaio.dsl.values import Weak
from tests.dsl.rule_types import INTEGERS, NUMBERS, UNSIGNED, help_of, one_of, refusal


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
