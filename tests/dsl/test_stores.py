"""What is stored without a cast, and what a cast takes; the values are the contract's, not the code's."""

from __future__ import annotations

from itertools import product

import pytest

from kaio import bool_, f32, f64, i16, i32, i64, u8, u32, u64
from kaio.dsl.literals import literal
from kaio.dsl.rule_error import RuleError
from kaio.dsl.stores import cast, store
from kaio.dsl.values import INDEX64
from kaio.dtypes import DTYPES
from tests.dsl.rule_types import NUMBERS, help_of, named, one_of, refusal


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
