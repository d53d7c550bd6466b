"""What the operators and conversions mean, as types: the values are the contract's, not the code's."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from kaio import bool_, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64
from kaio.dsl import rules
from kaio.dsl.joins import merge_branches, merge_variable
from kaio.dsl.literals import default, fits, fold, literal
from kaio.dsl.rule_error import RuleError
from kaio.dsl.rules import binary, common
from kaio.dsl.stores import cast, store
from kaio.dsl.values import INDEX64, Weak
from kaio.dtypes import DTYPES, dtype_of

SIGNED, UNSIGNED, FLOATS = (i8, i16, i32, i64), (u8, u16, u32, u64), (f32, f64)
INTEGERS = (*SIGNED, *UNSIGNED)
NUMBERS = (*INTEGERS, *FLOATS)


def one_of(*values: float) -> Weak:
    """A conditional expression whose branches are these literals."""
    return merge_branches([literal(v) for v in values])


def named(value: float) -> Weak:
    """A variable that was set from a literal."""
    return Weak("f" if isinstance(value, float) else "i", (value,), named=True)


def refusal(call, *args) -> str:
    with pytest.raises(RuleError) as caught:
        call(*args)
    return caught.value.what


def help_of(call, *args) -> str:
    with pytest.raises(RuleError) as caught:
        call(*args)
    return caught.value.help


# ---------------------------------------------------------------------- literals
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


# ---------------------------------------------------------------------- weak and named merging
def test_a_conditional_of_literals_stays_weak():
    assert one_of(1, 0) == Weak("i", (1, 0))
    assert one_of(1, 0.5) == Weak("f", (1.0, 0.5))
    assert binary("*", u8, one_of(1, 0)).result is u8
    assert binary("*", f64, one_of(1, 0.5)).result is f64
    assert refusal(binary, "*", u8, one_of(1, 300)) == "`300` does not fit u8"
    assert one_of(3, 3) == literal(3)


def test_a_conditional_takes_the_common_type():
    assert merge_branches([u8, literal(0)]) is u8
    assert merge_branches([u8, i8]) is i16
    assert merge_branches([i32, f32]) is f32
    assert merge_branches([f64, literal(0)]) is f64
    assert merge_branches([bool_, bool_]) is bool_
    assert refusal(merge_branches, [bool_, literal(0)]) == "one branch is bool and the other int literal 0"


@pytest.mark.parametrize("dtype", NUMBERS, ids=repr)
def test_a_named_variable_from_a_literal_is_never_narrower_than_i32_or_f32(dtype):
    counted = {i8: i32, i16: i32, u8: i32, u16: i32}.get(dtype, dtype)
    assert common(named(0), dtype, "+") is counted
    assert merge_variable([named(0), dtype], in_loop=True)[0] is counted
    assert merge_variable([dtype, named(0)], in_loop=False)[0] is counted
    summed = dtype if dtype.is_float else f32
    assert common(named(0.0), dtype, "+") is summed


def test_f64_and_i64_widen_a_variable_from_a_literal():
    assert merge_variable([named(0), i64], in_loop=True) == (i64, True)
    assert merge_variable([named(0.0), f64], in_loop=True) == (f64, True)
    assert merge_variable([named(0.0), f32], in_loop=True) == (f32, True)


def test_a_variable_has_one_type():
    assert merge_variable([i32, i64], in_loop=False)[1] is False
    assert merge_variable([f32, f64], in_loop=True)[1] is False
    assert merge_variable([i32, f32], in_loop=False)[1] is False
    assert merge_variable([named(0.5), i32], in_loop=False)[1] is False
    assert merge_variable([bool_, named(1)], in_loop=False)[1] is False
    assert merge_variable([u8, u8], in_loop=False) == (u8, True)


def test_a_variable_that_only_counts_literals_is_i32_in_a_loop():
    assert merge_variable([named(0), named(1)], in_loop=True) == (i32, True)
    assert merge_variable([named(0), named(0.5)], in_loop=True) == (f32, True)
    assert merge_variable([named(0), named(1)], in_loop=False)[0] == Weak("i", (0, 1), named=True)


def test_literals_are_told_apart_as_written():
    assert literal(0.0) != literal(-0.0)
    assert literal(math.nan) == literal(math.nan)
    assert literal(1) != literal(1.0)
    assert literal(1) != named(1)


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
    wanted = f64 if f64 in (a, b) and a.is_float else b
    assert common(a, b, "+") is wanted
    assert common(b, a, "+") is wanted


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


@pytest.mark.parametrize("dtype", DTYPES, ids=repr)
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
@pytest.mark.parametrize(("a", "b"), list(product(DTYPES, DTYPES)), ids=lambda d: d.name)
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


# ---------------------------------------------------------------------- stores and casts
def stores(value, dtype) -> bool:
    try:
        store(value, dtype)
    except RuleError:
        return False
    return True


@pytest.mark.parametrize(("value", "dtype"), list(product(DTYPES, DTYPES)), ids=lambda d: d.name)
def test_what_may_be_stored_without_a_cast(value, dtype):
    """Widening of one kind, int to float, and float to a narrower float."""
    if value is dtype:
        wanted = True
    elif bool_ in (value, dtype):
        wanted = False
    elif dtype.is_float:
        wanted = True
    elif value.is_float:
        wanted = False
    elif value.kind == dtype.kind:
        wanted = value.bits < dtype.bits
    else:
        wanted = value.kind == "u" and value.bits < dtype.bits  # every value of it fits
    assert stores(value, dtype) is wanted
    if not wanted:
        assert refusal(store, value, dtype) == f"{value.name} is stored in {dtype.name} only with a cast"


@pytest.mark.parametrize("dtype", NUMBERS, ids=repr)
def test_a_literal_is_stored_where_it_fits(dtype):
    assert stores(literal(100), dtype)
    assert stores(one_of(0, 100), dtype)
    assert stores(literal(0.5), dtype) is dtype.is_float
    assert not stores(literal(10**400), dtype) if dtype.is_int else True


def test_the_value_that_does_not_fit_is_named():
    assert refusal(store, literal(300), u8) == "`300` does not fit u8"
    assert refusal(store, one_of(1, -1), u32) == "`-1` does not fit u32"
    assert refusal(store, literal(1), bool_) == "int literal 1 is stored in bool only with a cast"
    assert refusal(store, literal(0.5), i32) == "float literal 0.5 is stored in i32 only with a cast"
    assert refusal(store, literal(1e39), f32) == "`1e+39` does not fit f32"
    assert help_of(store, literal(300), u8) == "u8 holds 0 to 255"
    assert help_of(store, literal(1e39), f32) == "the largest f32 is 3.4028235e+38 (infinity is `math.inf`)"


def test_a_variable_set_from_a_literal_is_stored_as_an_i32():
    assert refusal(store, named(0), u8) == "i32 is stored in u8 only with a cast"
    assert stores(named(0), i64)
    assert stores(named(0), f32)
    assert stores(named(0.5), f64)


def test_an_index_may_be_stored_in_an_i32():
    assert stores(INDEX64, i32)
    assert stores(INDEX64, i64)
    assert not stores(INDEX64, i16)
    assert not stores(INDEX64, u64)
    assert stores(INDEX64, f32)


def test_a_cast_of_an_int_literal_must_fit():
    for value, dtype in ((300, u8), (-1, u32), (2**31, i32), (1e39, f32), (2**64, u64)):
        assert refusal(cast, literal(value), dtype) == f"`{value!r}` does not fit {dtype!r}"
    for value, dtype in ((255, u8), (2.7, i32), (1e39, f64), (5, bool_), (2**63, u64), (1e39, i32)):
        cast(literal(value), dtype)
    for source, target in product(DTYPES, DTYPES):
        cast(source, target)
