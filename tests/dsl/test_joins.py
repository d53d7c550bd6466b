"""The type of what comes in from several ways; the values are the contract's, not the code's."""

from __future__ import annotations

import math

import numpy as np
import pytest

import kaio
from kaio import bf16, bool_, f16, f32, f64, i8, i16, i32, i64, u8, u16, u64
from kaio.dsl.joins import merge_branches, merge_variable
from kaio.dsl.literals import literal
from kaio.dsl.rules import binary, common
from kaio.dsl.values import Weak
from tests.dsl.from_text import kernel
from tests.dsl.rule_types import NUMBERS, named, one_of, refusal


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
    assert merge_branches([u64, i64, f32]) is f32
    assert merge_branches([i64, bf16, u64, f16]) is f32
    assert refusal(merge_branches, [bool_, literal(0)]) == "one branch is bool and the other int literal 0"


@pytest.mark.parametrize("dtype", NUMBERS, ids=repr)
def test_a_named_variable_from_a_literal_is_never_narrower_than_i32_or_f32(dtype):
    counted = {i8: i32, i16: i32, u8: i32, u16: i32, f16: f32, bf16: f32}.get(dtype, dtype)
    assert common(named(0), dtype, "+") is counted
    assert merge_variable([named(0), dtype], in_loop=True)[0] is counted
    assert merge_variable([dtype, named(0)], in_loop=False)[0] is counted
    summed = f64 if dtype is f64 else f32
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


@pytest.mark.parametrize("count", [3, 40, 300])
def test_a_variable_that_many_conditions_change_stays_one_number(count):
    body = "    if o[1] > 3:\n        a += 1\n    if o[1] > 7:\n        a += 2\n" * count
    made = kernel(f"@kernel\ndef k(o: InOut[i32]):\n    a = 0\n{body}    o[0] = a\n")
    for given, each in ((0, 0), (5, 1), (9, 3)):
        buffer = kaio.Device("cpu").alloc_from(np.array([0, given], np.int32))
        made.grid(1).block(1).launch(buffer).wait()
        assert buffer.to_host()[0] == each * count
