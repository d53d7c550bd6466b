"""What the operators mean, as types: the values are the contract's, not the code's."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from kaio import bf16, bool_, f16, f32, i8, i32, i64, u8, u64
from kaio.dsl import rules
from kaio.dsl.literals import literal
from kaio.dsl.rules import binary, common
from kaio.dtypes import DTYPES, dtype_of
from tests.dsl.rule_types import FLOATS, INTEGERS, NUMBERS, help_of, named, one_of, refusal
from tests.narrow import STORAGE

COMPUTED = (bool_, *NUMBERS)


# ---------------------------------------------------------------------- two numbers
@pytest.mark.parametrize(("a", "b"), list(product(INTEGERS, INTEGERS)), ids=lambda d: d.name)
def test_integers_meet_in_the_narrowest_integer_that_holds_both(a, b):
    numpy = np.promote_types(a.numpy, b.numpy)
    if numpy.kind == "f":
        assert {a, b} & {u64}
        assert refusal(common, a, b, "+") == f"`{a!r} + {b!r}` has no exact common type"
        assert "cast one side, for example `kaio.u64(...)`" in help_of(common, a, b, "+")
    else:
        assert common(a, b, "+") is dtype_of(numpy)


@pytest.mark.parametrize(("a", "b"), list(product(NUMBERS, FLOATS)), ids=lambda d: d.name)
def test_with_a_float_the_result_is_the_float(a, b):
    wanted = b if a.is_int else max((a, b), key=lambda d: d.bits)
    if {a, b} == {f16, bf16}:  # neither has all values of the other
        wanted = f32
    assert common(a, b, "+") is wanted
    assert common(b, a, "+") is wanted


@pytest.mark.parametrize("dtype", STORAGE, ids=repr)
@pytest.mark.parametrize("op", [*rules.ARITHMETIC, *rules.BITWISE, *rules.SHIFTS, *rules.COMPARISONS])
def test_an_8_bit_float_has_no_operators(op, dtype):
    for other in (*DTYPES, literal(2), literal(0.5)):
        shown = other.name if other in DTYPES else repr(other)
        assert refusal(binary, op, dtype, other) == (
            f"`{dtype!r} {op} {shown}`: {dtype!r} is stored and cast, and not computed with"
        )
        refusal(binary, op, other, dtype)
    assert help_of(binary, op, dtype, f32) == f"cast the {dtype!r}, for example `kaio.f32(...)`"


@pytest.mark.parametrize("dtype", STORAGE, ids=repr)
def test_an_8_bit_float_has_no_unary_operators(dtype):
    for op in ("-", "+", "~", "not"):
        wanted = f"`{op}` of {dtype!r}: {dtype!r} is stored and cast, and not computed with"
        assert refusal(rules.unary, op, dtype) == wanted


@pytest.mark.parametrize("dtype", [f16, bf16], ids=repr)
def test_a_literal_takes_the_16_bits_that_it_meets_and_a_named_one_is_f32(dtype):
    assert common(dtype, literal(0.1), "*") is dtype
    assert common(literal(2), dtype, "*") is dtype
    assert common(dtype, named(0.0), "+") is f32
    assert common(dtype, named(0), "+") is f32
    assert binary("<", dtype, literal(0.1)).left is dtype
    assert binary("<", dtype, named(0.1)).left is f32
    assert refusal(common, f16, literal(1e6), "*") == "`1000000.0` does not fit f16"
    assert help_of(common, f16, literal(1e6), "*") == "compute in a wider type, for example `kaio.f32(...)`"


@pytest.mark.parametrize("dtype", NUMBERS, ids=repr)
def test_a_bool_is_0_or_1_in_the_other_type(dtype):
    for op in ("+", "-", "*"):
        assert binary(op, bool_, dtype) == rules.BinaryRule(dtype, dtype, dtype)
        assert binary(op, dtype, bool_) == rules.BinaryRule(dtype, dtype, dtype)


@pytest.mark.parametrize("op", rules.ARITHMETIC)
def test_bools_have_no_arithmetic(op):
    assert refusal(binary, op, bool_, bool_) == f"`bool {op} bool`: bools have no arithmetic"
    assert help_of(binary, op, bool_, bool_) == "cast one side, for example `kaio.i32(...)`"


def test_bools_have_bitwise_operators():
    for op in rules.BITWISE:
        assert binary(op, bool_, bool_).result is bool_
        assert binary(op, bool_, u8).result is u8


@pytest.mark.parametrize("dtype", COMPUTED, ids=repr)
def test_division_of_integers_is_f32(dtype):
    if dtype is not bool_:
        assert binary("/", dtype, dtype).result is (dtype if dtype.is_float else f32)
        assert binary("/", dtype, literal(2)).result is (dtype if dtype.is_float else f32)
    assert binary("/", literal(1), literal(3)).result == literal(1 / 3)


@pytest.mark.parametrize("op", rules.BITWISE)
def test_floats_have_no_bitwise_operators(op):
    assert refusal(binary, op, f32, i32) == f"`f32 {op} i32`: floats have no bitwise operators"
    assert refusal(binary, op, i32, literal(1.5)) == f"`i32 {op} float literal 1.5`: floats have no bitwise operators"


# ---------------------------------------------------------------------- shifts and powers
@pytest.mark.parametrize(("a", "b"), list(product(INTEGERS, INTEGERS)), ids=lambda d: d.name)
def test_a_shift_has_the_type_of_its_left_operand(a, b):
    for op in rules.SHIFTS:
        assert binary(op, a, b) == rules.BinaryRule(a, b, a)
        assert binary(op, a, literal(3)).result is a
        assert binary(op, literal(1), b).result is b


def test_shifts_that_mean_nothing():
    assert refusal(binary, "<<", i32, literal(-1)) == "shift by the negative literal `-1`"
    assert refusal(binary, "<<", f32, i32) == "`f32 << i32`: shifts take integers"
    assert refusal(binary, ">>", i32, f32) == "`i32 >> f32`: shifts take integers"
    assert refusal(binary, ">>", bool_, i32) == "`bool >> i32`: shifts take integers"
    assert refusal(binary, "<<", literal(300), u8) == "`300` does not fit u8"


def test_powers():
    assert binary("**", u8, literal(2)).result is u8
    assert binary("**", i8, literal(200)).result is i8  # the exponent need not fit the base's type
    assert binary("**", u8, named(2)).result is i32
    assert binary("**", i32, i32).result is i32
    assert binary("**", u8, i32).result is i32
    assert binary("**", f32, i32).result is f32
    assert binary("**", f32, literal(-2)).result is f32
    assert binary("**", i32, literal(0.5)).result is f32
    assert binary("**", literal(2), u8).result is u8
    assert refusal(binary, "**", i32, literal(-2)) == "i32 to the negative power `-2` is not an integer"
    assert help_of(binary, "**", i32, literal(-2)) == "cast the base: `kaio.f32(...) ** -2`"
    assert refusal(binary, "**", u8, one_of(2, -1)) == "u8 to the negative power `-1` is not an integer"


# ---------------------------------------------------------------------- comparisons
@pytest.mark.parametrize(("a", "b"), list(product(COMPUTED, COMPUTED)), ids=lambda d: d.name)
def test_every_pair_of_types_compares(a, b):
    for op in rules.COMPARISONS:
        assert binary(op, a, b).result is bool_


@pytest.mark.parametrize(("dtype", "value"), [(u8, 256), (u8, -1), (i8, 128), (i32, 2**31), (u64, -1), (i32, 3e9)])
@pytest.mark.parametrize("op", rules.COMPARISONS)
def test_a_comparison_that_is_always_the_same_is_refused(op, dtype, value):
    wanted = f"comparing {dtype!r} with `{value!r}` is always the same: the value does not fit {dtype!r}"
    assert refusal(binary, op, dtype, literal(value)) == wanted
    assert refusal(binary, op, literal(value), dtype) == wanted


def test_an_integer_compares_with_a_float_literal():
    assert binary("<", i32, literal(2.5)).result is bool_
    assert binary("==", i32, literal(2.0)).result is bool_
    assert refusal(binary, "==", i32, literal(2.5)) == "no i32 equals `2.5`"
    assert refusal(binary, "!=", literal(2.5), i32) == "no i32 equals `2.5`"


# ---------------------------------------------------------------------- one operand
def test_unary_operators():
    assert rules.unary("-", u8) == (u8, u8)
    assert rules.unary("~", i64) == (i64, i64)
    assert rules.unary("not", f32)[1] is bool_
    assert rules.unary("-", literal(3))[1] == literal(-3)
    assert rules.unary("-", literal(0.0))[1] == literal(-0.0)
    assert rules.unary("~", literal(0))[1] == literal(-1)
    assert refusal(rules.unary, "-", bool_) == "`-` of a bool"
    assert refusal(rules.unary, "~", f32) == "`~` of f32: floats have no bitwise operators"
    assert refusal(rules.unary, "~", literal(1.5)) == "`~` of a float literal"
