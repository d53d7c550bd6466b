"""The parts of a float are exact: against Python and NumPy, over edges and all binades."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

from kaio import bf16, f16, f32, f64, i32
from tests.dsl.from_text import kernel, message, run

INF, NAN = math.inf, math.nan


def values(dtype):
    info = np.finfo(dtype.numpy)
    rng = np.random.default_rng(5)
    exponents = np.arange(int(info.minexp) - int(info.nmant), int(info.maxexp))
    binades = rng.choice([-1.0, 1.0], exponents.size) * np.ldexp(rng.uniform(1, 2, exponents.size), exponents)
    edges = [
        0.0,
        -0.0,
        INF,
        -INF,
        NAN,
        1.0,
        -1.0,
        0.5,
        float(info.tiny),
        float(info.smallest_subnormal),
        float(info.max),
    ]
    whole = [1.5, -1.5, 2.5, 8388607.5, -8388609.0, 0.99999, -0.1]
    with np.errstate(all="ignore"):
        return np.array([*edges, *whole, *binades], dtype.numpy)


def same(got, wanted):
    """Equal with the signs of zeros; NaN like NaN."""
    np.testing.assert_array_equal(got, wanted)
    np.testing.assert_array_equal(np.signbit(got)[~np.isnan(got)], np.signbit(wanted)[~np.isnan(got)])


@pytest.mark.parametrize("dtype", [f32, f64], ids=repr)
def test_frexp_and_ldexp_take_a_float_apart_and_together(device, dtype):
    made = kernel(f"""
        @kernel
        def k(x: In[{dtype!r}], m: Out[{dtype!r}], e: Out[i32], again: Out[{dtype!r}]):
            i = grid(1)
            if i < x.size:
                m[i], e[i] = math.frexp(x[i])
                again[i] = math.ldexp(m[i], e[i])
    """)
    xs = values(dtype)
    m, e, again = run(made, [xs], [dtype, i32, dtype], device=device, check="off")
    wanted = [math.frexp(x) for x in xs.astype(np.float64).tolist()]
    same(m, np.array([w[0] for w in wanted], dtype.numpy))
    assert e.tolist() == [w[1] for w in wanted]
    same(again, xs)


@pytest.mark.parametrize("dtype", [f32, f64], ids=repr)
def test_ldexp_rounds_once_and_takes_any_exponent(device, dtype):
    made = kernel(f"""
        @kernel
        def k(x: In[{dtype!r}], n: In[i64], o: Out[{dtype!r}]):
            i = grid(1)
            if i < x.size:
                o[i] = math.ldexp(x[i], n[i])
    """)
    rng = np.random.default_rng(6)
    xs = np.resize(values(dtype), 4000)
    ns = rng.integers(-2300, 2300, xs.size)
    ns[:8] = [2**40, -(2**40), 0, 1, -1, 2**31, -(2**31), 2**63 - 1]
    (got,) = run(made, [xs, ns], [dtype], device=device)
    with np.errstate(all="ignore"):
        same(got, np.ldexp(xs, np.clip(ns, -5000, 5000).astype(np.int32)))


@pytest.mark.parametrize("dtype", [f32, f64], ids=repr)
def test_modf_ulp_logb_and_ilogb(device, dtype):
    made = kernel(
        """
        @kernel
        def k(x: In[T], f: Out[T], w: Out[T], u: Out[T], b: Out[T], e: Out[i32]):
            i = grid(1)
            if i < x.size:
                f[i], w[i] = math.modf(x[i])
                u[i], b[i], e[i] = math.ulp(x[i]), logb(x[i]), ilogb(x[i])
    """,
        T=dtype,
    )
    xs = values(dtype)
    f, w, u, b, e = run(made, [xs], [dtype] * 4 + [i32], device=device)
    wanted = [math.modf(x) for x in xs.astype(np.float64).tolist()]
    same(f, np.array([x[0] for x in wanted], dtype.numpy))
    same(w, np.array([x[1] for x in wanted], dtype.numpy))
    with np.errstate(all="ignore"):
        size = np.abs(xs)
        below = np.where(size == np.finfo(dtype.numpy).max, size / 2, size)  # NumPy's is infinite at the end
        spacing = np.where(below == size, np.spacing(below), 2 * np.spacing(below))
    same(u, np.where(np.isinf(xs), size, spacing))
    exponents = [math.frexp(x)[1] - 1 if math.isfinite(x) and x else None for x in xs.astype(np.float64).tolist()]
    special = {0.0: (-INF, -(2**31)), INF: (INF, 2**31 - 1)}
    for x, got_b, got_e, exponent in zip(np.abs(xs).tolist(), b.tolist(), e.tolist(), exponents, strict=True):
        if math.isnan(x):
            assert math.isnan(got_b)
            assert got_e == -(2**31)
        else:
            assert (got_b, got_e) == (special[x] if exponent is None else (exponent, exponent))


@pytest.mark.parametrize("dtype", [f16, bf16], ids=repr)
def test_neighbours_and_units_of_narrow_floats_are_their_own(device, dtype):
    made = kernel(f"""
        @kernel
        def k(x: In[{dtype!r}], up: Out[{dtype!r}], u: Out[{dtype!r}]):
            i = grid(1)
            if i < x.size:
                up[i], u[i] = math.nextafter(x[i], {dtype!r}(math.inf)), math.ulp(x[i])
    """)
    xs = np.arange(0, 0x10000, 37, dtype=np.uint16).view(dtype.numpy)
    up, u = run(made, [xs], [dtype] * 2, device=device)
    with np.errstate(all="ignore"):
        wanted = np.nextafter(xs, dtype.numpy.type(INF))
        size = np.abs(xs)
        last = float(np.finfo(np.float16).max) if dtype is f16 else float(ml_dtypes.finfo("bfloat16").max)
        below = np.where(size.astype(np.float32) == last, size / dtype.numpy.type(2), size)
        unit = np.where(np.isfinite(size), np.spacing(below), size)
        unit = np.where(below == size, unit, unit * dtype.numpy.type(2))
    np.testing.assert_array_equal(up.astype(np.float32), wanted.astype(np.float32))
    np.testing.assert_array_equal(u.astype(np.float32), np.abs(unit.astype(np.float32)))


def test_the_exponent_of_ldexp_is_an_integer():
    text = message("@kernel\ndef k(x: InOut[f32]):\n    x[0] = math.ldexp(x[0], 1.5)\n").splitlines()
    assert text[0] == "the exponent of `ldexp` is an integer, not float literal 1.5"


@pytest.mark.parametrize("dtype", [f32, f64], ids=repr)
def test_the_parts_link_for_the_oldest_architecture(dtype):
    made = kernel(f"""
        @kernel
        def k(x: InOut[{dtype!r}], n: InOut[i64]):
            x[0], n[0] = math.frexp(x[1])
            x[2], x[3] = math.modf(x[4])
            x[5], x[6], x[7], n[1] = math.ulp(x[0]), logb(x[0]), math.ldexp(x[0], n[0]), ilogb(x[0])
            x[8], x[9] = math.nextafter(x[0], x[1]), saturate(x[2])
    """)
    assert made.compile("sm_75").cubin


def test_an_exponent_may_be_narrow():
    made = kernel("@kernel\ndef k(x: InOut[f32], n: i8):\n    x[0] = math.ldexp(x[0], n)\n")
    assert made.ptx("sm_90")
