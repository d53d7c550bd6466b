"""Patterns of variables and names that failed for users of kernel languages, numbered as in the case list."""

from __future__ import annotations

import numpy as np
import pytest

import kaio
from kaio import Const, In, KernelSyntaxError, Out, f32, i32


@kaio.kernel
def reuse(out: Out[i32]):
    acc = 0
    for i in range(2):
        acc += i
    i = 0
    while i < 3:
        acc += 10
        i += 1
    out[0] = acc
    out[1] = i


def test_b08_a_loop_variable_is_an_ordinary_variable_afterwards(device):
    out = device.alloc_zeros(2, i32)
    reuse[1, 1](out).wait()
    assert out.to_host().tolist() == [31, 3]


@kaio.kernel
def nested(out: Out[i32]):
    steps = 0
    for i in range(2):
        for i in range(3, 6):  # noqa: B007
            steps += 1
        out[steps // 3 - 1] = i


def test_b08_an_inner_loop_over_the_same_variable_leaves_its_last_value(device):
    out = device.alloc_zeros(2, i32)
    nested[1, 1](out).wait()
    assert out.to_host().tolist() == [5, 5]


@kaio.kernel
def after_a_loop(out: Out[i32]):
    for i in range(3):
        last = i * 10
    out[0] = last + i


def test_b08_a_loop_over_literals_sets_its_variables(device):
    out = device.alloc_zeros(1, i32)
    after_a_loop[1, 1](out).wait()
    assert out.to_host().tolist() == [22]


def test_b08_a_variable_that_may_be_unset_is_refused_with_both_lines():
    with pytest.raises(KernelSyntaxError) as caught:

        @kaio.kernel
        def maybe_unbound(n: i32, out: Out[f32]):
            if n > 3:
                y = 1.0
            out[0] = y

    [mistake] = caught.value.mistakes
    line = mistake.place.line
    assert mistake.what == (
        f"`y` may not be set when line {line} reads it: line {line - 1} sets it only if `n > 3` is true"
    )
    assert mistake.help == f"set it first, for example `y = 0.0` before line {line - 2}"


def test_b08_a_loop_variable_read_after_a_range_that_may_be_empty_is_refused():
    with pytest.raises(KernelSyntaxError, match=r"`i` may not be set when line \d+ reads it"):

        @kaio.kernel
        def read_after(n: i32, out: Out[i32]):
            for i in range(n):
                out[i] = i
            out[0] = i


@kaio.kernel
def optional_bias(x: In[f32], out: Out[f32], has_bias: Const[bool]):
    i = kaio.grid(1)
    if i < out.size:
        if has_bias:
            bias = x[0]
        out[i] = x[i]
        if has_bias:
            out[i] += bias


def test_b08_a_variable_under_a_constant_is_set_where_the_constant_is(device):
    x = device.alloc_from(np.array([1, 2, 3], np.float32))
    out = device.alloc_zeros(3, f32)
    optional_bias.over(3).launch(x, out, True).wait()
    assert out.to_host().tolist() == [2, 3, 4]
    optional_bias.over(3).launch(x, out, has_bias=False).wait()
    assert out.to_host().tolist() == [1, 2, 3]


@kaio.kernel
def bias_everywhere(x: In[f32], out: Out[f32], has_bias: Const[bool]):
    if has_bias:
        bias = x[0]
    out[0] = bias


def test_b08_a_variable_that_a_constant_leaves_unset_is_refused_for_that_value():
    assert "st.global.f32" in bias_everywhere.ptx("sm_90", has_bias=True)
    with pytest.raises(KernelSyntaxError, match="`bias` is read in line"):
        bias_everywhere.ptx("sm_90", has_bias=False)
