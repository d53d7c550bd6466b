"""Patterns of threads that work together and failed for users of kernel languages, numbered as in the case list."""

from __future__ import annotations

import itertools

import numpy as np

import kaio
from kaio import In, InOut, Out, f32, i32


@kaio.kernel
def largest(x: In[f32], out: InOut[f32], old: Out[f32]):
    i = kaio.grid(1)
    if i < x.size:
        old[i] = kaio.atomic_max(out, 0, x[i])


def test_b13_atomic_max_orders_negative_zero_and_negative_numbers(device):
    lowest = np.finfo(np.float32).min
    x, out, old = device.alloc_from(np.float32([-0.0, -5.0])), device.alloc_from([lowest]), device.alloc_zeros(2, f32)
    largest.grid(1).block(2).launch(x, out, old).wait()
    assert out.to_host()[0] == 0
    assert set(old.to_host().tolist()) <= {float(lowest), -0.0, -5.0}


def test_b13_an_atomic_extreme_ignores_nan_and_orders_zeros_whoever_comes_first(device):
    lowest = np.finfo(np.float32).min
    for given in itertools.permutations([np.float32(-0.0), np.float32(-5.0), np.float32(np.nan), -np.float32(np.nan)]):
        out, old = device.alloc_from(np.array([lowest])), device.alloc_zeros(4, f32)
        largest.over(4).launch(device.alloc_from(np.array(given)), out, old).wait()
        assert out.to_host()[0] == 0.0
        assert np.signbit(out.to_host()[0])
        assert lowest in old.to_host()


def test_b13_an_element_that_is_nan_gives_way_to_a_number(device):
    for nan in (np.float32(np.nan), -np.float32(np.nan)):
        for value in (np.float32(-3), np.float32(7), np.float32(-np.inf)):
            out, old = device.alloc_from(np.array([nan])), device.alloc_zeros(1, f32)
            largest.over(1).launch(device.alloc_from(np.array([value])), out, old).wait()
            assert out.to_host()[0] == value
            assert np.isnan(old.to_host()[0])


@kaio.kernel
def histogram(x: In[i32], counts: InOut[i32]):
    i = kaio.grid(1)
    if i < x.size:
        kaio.atomic_add(counts, x[i], 1)


def test_b18_an_atomic_update_loses_nothing(device):
    x = np.random.default_rng(0).integers(0, 7, 10_000).astype(np.int32)
    counts = device.alloc_zeros(7, i32)
    histogram.over(x.size).launch(device.alloc_from(x), counts).wait()
    np.testing.assert_array_equal(counts.to_host(), np.bincount(x))


@kaio.kernel
def total(x: In[i32], out: Out[i32]):
    sum_ = kaio.block_reduce_sum(x[kaio.thread_idx.x])
    if kaio.thread_idx.x == 0:
        out[kaio.block_idx.x] = sum_


def test_b20_the_sum_of_a_block_needs_no_barriers_of_the_user_s(device):
    out = device.alloc_zeros(100, i32)
    total.grid(100).block(64).launch(device.alloc_from(np.arange(64, dtype=np.int32)), out).wait()
    assert (out.to_host() == 2016).all()
