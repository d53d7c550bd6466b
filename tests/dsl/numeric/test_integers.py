"""Arithmetic of integers that operators do not have, against Python's integers of any size."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kaio import KernelFault, i32, i64, u32, u64
from tests.dsl.from_text import kernel, message, run
from tests.dsl.numeric.test_bits import call, corners, signed
from tests.dsl.rule_types import INTEGERS


def pairs(dtype):
    a, b = np.meshgrid(corners(dtype), corners(dtype))
    a, b = np.ascontiguousarray(a.ravel()), np.ascontiguousarray(b.ravel())
    return a, b, list(zip(a.tolist(), b.tolist(), strict=True))


@pytest.mark.parametrize("dtype", INTEGERS, ids=repr)
def test_mulhi_is_the_upper_half_of_the_product(device, dtype):
    a, b, rows = pairs(dtype)
    assert call(device, "mulhi(a[i], b[i])", dtype, a, b) == [x * y >> dtype.bits for x, y in rows]


@pytest.mark.parametrize("dtype", INTEGERS, ids=repr)
def test_averages_do_not_overflow(device, dtype):
    a, b, rows = pairs(dtype)
    assert call(device, "hadd(a[i], b[i])", dtype, a, b) == [x + y >> 1 for x, y in rows]
    assert call(device, "rhadd(a[i], b[i])", dtype, a, b) == [x + y + 1 >> 1 for x, y in rows]


@pytest.mark.parametrize("dtype", INTEGERS, ids=repr)
def test_sad_adds_the_distance_and_wraps(device, dtype):
    a, b, rows = pairs(dtype)
    wanted = [signed(abs(x - y) + x, dtype) for x, y in rows]
    assert call(device, "sad(a[i], b[i], a[i])", dtype, a, b) == wanted


@pytest.mark.parametrize("dtype", [i32, u32], ids=repr)
def test_mul24_takes_24_bits(device, dtype):
    a, b, rows = pairs(dtype)

    def low(x: int) -> int:
        x &= 0xFFFFFF
        return x - 2**24 if dtype is i32 and x >> 23 else x

    assert call(device, "mul24(a[i], b[i])", dtype, a, b) == [signed(low(x) * low(y), dtype) for x, y in rows]


@pytest.mark.parametrize("dtype", INTEGERS, ids=repr)
def test_gcd_and_lcm_are_those_of_python_in_the_type(device, dtype):
    a, b, rows = pairs(dtype)
    assert call(device, "math.gcd(a[i], b[i])", dtype, a, b) == [signed(math.gcd(x, y), dtype) for x, y in rows]
    assert call(device, "math.lcm(a[i], b[i])", dtype, a, b) == [signed(math.lcm(x, y), dtype) for x, y in rows]
    several = [signed(math.gcd(x, y, 12), dtype) for x, y in rows]
    assert call(device, "math.gcd(a[i], b[i], 12)", dtype, a, b) == several


@pytest.mark.parametrize("dtype", INTEGERS, ids=repr)
def test_isqrt_is_exact(device, dtype):
    high = dtype.range[1]
    root = math.isqrt(high)
    xs = [x for r in (1, 2, 3, 11, root // 2, root - 1, root) for x in (r * r - 1, r * r, r * r + 1) if 0 <= x <= high]
    xs = np.array([0, 1, high, high - 1, *xs], dtype.numpy)
    assert call(device, "math.isqrt(a[i])", dtype, xs) == [math.isqrt(x) for x in xs.tolist()]


def test_isqrt_of_a_negative_number_is_a_fault_where_checked_and_else_0():
    made = kernel("""
        @kernel
        def k(n: In[i64], o: Out[i64]):
            i = grid(1)
            if i < o.size:
                o[i] = math.isqrt(n[i])
    """)
    xs = np.array([9, -4], np.int64)
    assert run(made, [xs], [i64], check="off")[0].tolist() == [3, 0]
    with pytest.raises(KernelFault, match="isqrt of a negative number"):
        run(made, [xs], [i64])
    text = message("@kernel\ndef k(o: Out[i32]):\n    o[0] = math.isqrt(-4)\n")
    assert text.splitlines()[0] == "`isqrt(-4)`: a negative number has no square root"


# ---------------------------------------------------------------------- dot products
def parts(word: int, count: int, is_signed: bool) -> list[int]:
    width = 32 // count
    found = [word >> width * k & (1 << width) - 1 for k in range(count)]
    return [x - (1 << width) if is_signed and x >> width - 1 else x for x in found]


@pytest.mark.parametrize("a_type", [i32, u32], ids=repr)
@pytest.mark.parametrize("b_type", [i32, u32], ids=repr)
def test_dot_products_of_bytes_and_halves(device, a_type, b_type):
    rng = np.random.default_rng(4)
    a, b = (rng.integers(0, 2**32, 200, np.uint32).view(t.numpy) for t in (a_type, b_type))
    result = u32 if a_type is b_type is u32 else i32
    made = kernel(f"""
        @kernel
        def k(a: In[{a_type!r}], b: In[{b_type!r}], o: Out[{result!r}], p: Out[{result!r}], q: Out[{result!r}]):
            i = grid(1)
            if i < a.size:
                c = {result!r}(7)
                o[i], p[i], q[i] = dp4a(a[i], b[i], c), dp2a_lo(a[i], b[i], c), dp2a_hi(a[i], b[i], c)
    """)
    got = run(made, [a, b], [result] * 3, device=device)
    rows = [(int(x) & 2**32 - 1, int(y) & 2**32 - 1) for x, y in zip(a, b, strict=True)]
    wanted: list[list[int]] = [[], [], []]
    for x, y in rows:
        small, halves = parts(y, 4, b_type is i32), parts(x, 2, a_type is i32)
        products = zip(parts(x, 4, a_type is i32), small, strict=True)
        wanted[0].append(signed(7 + sum(p * q for p, q in products), result))
        for k, two in ((1, small[:2]), (2, small[2:])):
            wanted[k].append(signed(7 + halves[0] * two[0] + halves[1] * two[1], result))
    assert [column.tolist() for column in got] == wanted


def test_dot_products_take_words_only():
    text = message("@kernel\ndef k(n: In[i64], o: Out[i32]):\n    o[0] = dp4a(n[0], 1, 2)\n").splitlines()
    assert text[0] == "`dp4a` of i64; it takes i32 and u32"


@pytest.mark.parametrize("architecture", ["sm_75", "sm_90"])
@pytest.mark.parametrize("dtype", [i32, u32, i64, u64], ids=repr)
def test_every_function_of_integers_links(architecture, dtype):
    names = ["mulhi(n[0], n[1])", "hadd(n[0], n[1])", "rhadd(n[0], n[1])", "sad(n[0], n[1], n[2])"]
    names += ["math.gcd(n[0], n[1])", "math.lcm(n[0], n[1])", "math.isqrt(n[0])"]
    if dtype.bits == 32:
        names += ["mul24(n[0], n[1])", *(f"{name}(n[0], n[1], n[2])" for name in ("dp4a", "dp2a_lo", "dp2a_hi"))]
    lines = "".join(f"    n[{k}] = {text}\n" for k, text in enumerate(names, 3))
    assert kernel(f"@kernel\ndef k(n: InOut[{dtype!r}]):\n{lines}").compile(architecture).cubin
