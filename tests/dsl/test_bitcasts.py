"""Bits of one type as a number of another, for every pair of types of one size."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import kaio
from kaio.dtypes import DTYPES, DType
from kaio.vectors import VECTORS
from tests.dsl.from_text import kernel, message

NUMBERS = [dtype for dtype in (*DTYPES, kaio.c64, kaio.c128) if dtype.kind != "b"]
PAIRS = [(a, b) for a, b in itertools.product(NUMBERS, NUMBERS) if a.bits == b.bits]
for vector in VECTORS:
    others = (kaio.u32, kaio.f64, kaio.f32x4, kaio.u8x16)
    same = next(other for other in others if other.bits == vector.bits and other is not vector)
    PAIRS += [(vector, same), (same, vector)]


@pytest.mark.parametrize(("source", "target"), PAIRS, ids=lambda dtype: dtype.name)
def test_every_pair_of_one_size_keeps_the_bits(source: DType, target: DType, device: kaio.Device) -> None:
    text = f"@kernel\ndef k(x: In[{source!r}], y: Out[{target!r}]):\n    i = grid(1)\n    if i < x.size:\n"
    made = kernel(text + f"        y[i] = bitcast(x[i], {target!r})\n")
    given = np.random.default_rng(0).bytes(64 * source.itemsize)
    x = device.alloc_from(np.frombuffer(given, source.numpy).copy())
    y = device.alloc_zeros(64, target)
    made.over(64).launch(x, y).wait()
    assert y.to_host().tobytes() == given
    assert made.compile("sm_75").cubin


def test_literals_are_i32_and_f32() -> None:
    made = kernel("@kernel\ndef k(y: Out[u32]):\n    y[0] = bitcast(1.0, u32)\n    y[1] = bitcast(-1, u32)\n")
    y = kaio.Device("cpu").alloc_zeros(2, kaio.u32)
    made.grid(1).block(1).launch(y).wait()
    assert y.to_host().tolist() == [0x3F800000, 0xFFFFFFFF]


def refused(call: str) -> str:
    return message(f"@kernel\ndef k(x: In[f32], y: Out[f32], n: In[u8]):\n    v = {call}\n    y[0] = f32(v)\n")


def test_another_size_is_refused_with_the_types_of_this_one() -> None:
    text = refused("bitcast(x[0], i64)")
    assert text.startswith("`bitcast` keeps the bits, and f32 has 32 of them, i64 64\n")
    assert text.endswith("help: f32 can be i32, u32")


def test_what_has_no_bits_to_keep_is_refused() -> None:
    assert refused("bitcast(n[0] > 1, u8)").startswith("`bitcast` of bool to u8: a bool is no pattern of bits")
    assert refused("bitcast(x, u32)").startswith("`bitcast` takes a number, not In[f32]")
    assert refused("bitcast(x[0], 4)").startswith("the second argument of `bitcast` is a dtype, not int literal 4")
