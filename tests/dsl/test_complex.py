"""Complex numbers on both devices, against NumPy, Python's `cmath` and mpmath."""

from __future__ import annotations

import cmath
import itertools
import math

import numpy as np
import pytest

import kaio
from kaio import In, InOut, Out, c64, c128, f32, f64, i32
from kaio.dtypes import COMPLEX, DTYPES
from tests import refusals
from tests.dsl.from_text import kernel, message, mistakes, run_lines, types_of

REALS = [dtype for dtype in DTYPES if not dtype.is_storage]
PAIRS = [(a, b) for a, b in itertools.product((*REALS, *COMPLEX), (*REALS, *COMPLEX)) if a in COMPLEX or b in COMPLEX]
PARTS = {c64: f32, c128: f64}


def numbers(dtype, seed=0):
    rng = np.random.default_rng(seed)
    if dtype.kind == "c":
        parts = rng.normal(0, 10, 40), rng.normal(0, 10, 40)
        return np.array([*(parts[0] + 1j * parts[1]), 1, -2j, 3 + 4j, 1e-5 + 1e5j, 1e5 - 1e-5j], dtype.numpy)
    if dtype.is_float:
        return np.array([*rng.normal(0, 10, 43), 1, -2]).astype(dtype.numpy)
    low, high = max(dtype.range[0], -100), min(dtype.range[1], 100)
    return np.array([*rng.integers(low, high, 43), 1, low], dtype.numpy)


def launched(lines, inputs, results, device=None, options="(contract=False)"):
    return run_lines(lines, inputs, results, device=device, options=options)


def result_of(a, b):
    return c128 if f64 in (a, b) or c128 in (a, b) else c64


def divided(x, y):
    """Smith's algorithm, written afresh with NumPy's floats; a real divisor divides both parts."""
    if not np.iscomplexobj(y):
        return x.real / y, x.imag / y
    larger = np.abs(y.real) >= np.abs(y.imag)
    with np.errstate(all="ignore"):
        r, s = y.imag / y.real, y.real / y.imag
        one = ((x.real + x.imag * r) * (1 / (y.real + y.imag * r)), (x.imag - x.real * r) * (1 / (y.real + y.imag * r)))
        two = ((x.real * s + x.imag) * (1 / (y.real * s + y.imag)), (x.imag * s - x.real) * (1 / (y.real * s + y.imag)))
    return np.where(larger, one[0], two[0]), np.where(larger, one[1], two[1])


def expected(op, x, y, part):
    x, y = (v.astype(part.numpy if v.dtype.kind != "c" else result_of_part(part).numpy) for v in (x, y))
    if op == "/":
        return divided(x.astype(result_of_part(part).numpy), y)
    if op == "*" and not (np.iscomplexobj(x) and np.iscomplexobj(y)):
        return x.real * y.real, x.real * y.imag + x.imag * y.real
    if op == "*":
        return x.real * y.real - x.imag * y.imag, x.real * y.imag + x.imag * y.real
    return {"+": np.add, "-": np.subtract}[op](x.real, y.real), {"+": np.add, "-": np.subtract}[op](x.imag, y.imag)


def result_of_part(part):
    return c128 if part is f64 else c64


@pytest.mark.parametrize(("a", "b"), PAIRS, ids=lambda dtype: dtype.name)
def test_every_operator_gives_the_documented_value(a, b):
    result = result_of(a, b)
    source = [f"out{k}[i] = a {op} b" for k, op in enumerate("+-*/")] + ["out4[i] = a == b", "out5[i] = a != b"]
    pairs = list(itertools.product(numbers(a, 1), numbers(b, 2)[:12]))
    pairs = [(p, q) for p, q in pairs if q != 0]
    x, y = np.array([p for p, _ in pairs], a.numpy), np.array([q for _, q in pairs], b.numpy)
    if b.is_float or b in COMPLEX:  # some that are equal
        x[::7] = y[::7].astype(a.numpy) if a in COMPLEX else x[::7]
    *sums, equal, unequal = launched(source, [x, y], [result] * 4 + [kaio.bool_] * 2)
    for op, got in zip("+-*/", sums, strict=True):
        real, imag = expected(op, x, y, PARTS[result])
        with np.errstate(all="ignore"):
            assert np.array_equal(got.real, real, equal_nan=True), op
            assert np.array_equal(got.imag, imag, equal_nan=True), op
    want = [complex(p) == complex(q) for p, q in zip(x.tolist(), y.tolist(), strict=True)]
    assert equal.tolist() == want
    assert unequal.tolist() == [not w for w in want]


@pytest.mark.parametrize("dtype", COMPLEX, ids=lambda d: d.name)
def test_products_and_quotients_are_numpys(dtype):
    x, y = numbers(dtype, 1), numbers(dtype, 2)
    product, quotient = launched(["out0[i] = a * b", "out1[i] = a / b"], [x, y], [dtype] * 2)
    epsilon = np.finfo(dtype.numpy).eps  # NumPy's own may fuse
    assert (np.abs(product - x * y) <= 2 * epsilon * np.abs(x * y)).all()
    assert (np.abs(quotient - x / y) <= 4 * epsilon * np.abs(x / y)).all()


REFUSED = [(op, a, b) for op in ("//", "%", "&", "<<", "<", ">=") for a, b in PAIRS[:: len(PAIRS) // 12]]


@pytest.mark.parametrize(("op", "a", "b"), REFUSED, ids=lambda d: d if isinstance(d, str) else d.name)
def test_an_operator_without_a_meaning_is_refused_with_a_place(op, a, b):
    text = message(f"@kernel\ndef k(a: In[{a!r}], b: In[{b!r}], out: Out[f64]):\n    out[0] = f64(a[0] {op} b[0])\n")
    assert "complex numbers have no" in text.splitlines()[0]
    assert "^" * len(f"a[0] {op} b[0]") in text


# ---------------------------------------------------------------------- both devices
@kaio.kernel
def everything(x: In[c64], y: In[c128], r: In[f32], out: Out[c64], wide: Out[c128], flags: Out[i32], s: c64, w: c128):
    i = kaio.grid(1)
    if i < out.size:
        z = x[i]
        total = 0j
        for k in range(3):
            total += z * s + k
        total = total / (z + 1j) - 3 * z.conjugate() + r[i]
        out[i] = total + z**3 - 2.0 / z
        wide[i] = y[i] * z + w**-2
        flags[i] = 1 if z == y[i] and z != 3 else 0


def test_a_kernel_of_complex_numbers_computes_what_numpy_does(device):
    x = numbers(c64)
    y = x.astype(np.complex128)
    y[3] += 1e-12
    r = numbers(f32)
    buffers = [device.alloc_from(v) for v in (x, y, r)]
    outs = [device.alloc_zeros(x.size, dtype) for dtype in (c64, c128, i32)]
    everything.over(x.size).launch(*buffers, *outs, 1 + 2j, 2.0).wait()
    out, wide, flags = (o.to_host() for o in outs)
    total = 3 * x.astype(np.complex128) * (1 + 2j) + 3
    want = total / (x + 1j) - 3 * x.conj() + r + y**3 - 2 / y
    np.testing.assert_allclose(out, want, rtol=1e-4, atol=1e-2)
    np.testing.assert_allclose(wide, y * x + 0.25, rtol=1e-14)
    assert flags.tolist() == [0 if k == 3 else 1 for k in range(x.size)]


def test_elements_are_loaded_and_stored_at_once():
    ptx = everything.ptx("sm_90")
    for access in ("ld.global.nc.v2.f32", "ld.global.nc.v2.f64", "st.global.v2.f32", "st.global.v2.f64"):
        assert access in ptx
    assert ".param .f32 s_real" in ptx
    assert everything.compile("sm_75").cubin


def test_shared_and_local_arrays_hold_complex_numbers(device):
    @kaio.kernel
    def reverses(x: InOut[c64]):
        t = kaio.thread_idx.x
        tile = kaio.shared_mem(32, c64)
        own = kaio.local_mem(2, c128)
        tile[t] = x[t]
        kaio.bar_sync()
        own[0] = tile[31 - t]
        own[1] = 2
        x[t] = own[0] * own[1]

    host = (np.arange(32) * (1 + 1j)).astype(np.complex64)
    x = device.alloc_from(host)
    reverses.over(32).block(32).launch(x).wait()
    np.testing.assert_array_equal(x.to_host(), host[::-1] * 2)
    assert "ld.shared.v2.f32" in reverses.ptx("sm_90")


def test_a_product_fuses_with_the_sum_that_takes_it(device):
    rng = np.random.default_rng(5)
    x, y, z = ((rng.normal(size=50) + 1j * rng.normal(size=50)).astype(np.complex64) for _ in range(3))
    (fused,) = launched(["out0[i] = a * b + c"], [x, y, z], [c64], device, options="")
    exact = x.astype(np.complex128) * y + z
    (plain,) = launched(["p = a * b", "out0[i] = p + c"], [x, y, z], [c64], device, options="")
    assert np.abs(fused - exact).mean() < np.abs(plain - exact).mean()
    body = "@kernel\ndef k(x: InOut[c64]):\n    x[0] = x[0] * x[1] + x[2]"
    arithmetic = [line for line in kernel(body).ptx("sm_90").splitlines() if ".rn.f32" in line]
    assert len(arithmetic) == 4
    assert all("fma" in line for line in arithmetic)


# ---------------------------------------------------------------------- functions
FUNCTIONS = ("exp", "log", "log10", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_is_that_of_cmath(name, device):
    rng = np.random.default_rng(3)
    z = np.concatenate([rng.normal(0, 3, 300) + 1j * rng.normal(0, 3, 300), [1, -1, 1j, -1j, 1 + 1e-9j, 1e-8 - 1e-8j]])
    narrow, wide = z.astype(np.complex64), z
    (got32,) = launched([f"out0[i] = cmath.{name}(a)"], [narrow], [c64], device)
    (got64,) = launched([f"out0[i] = cmath.{name}(a)"], [wide], [c128], device)
    function = getattr(cmath, name)
    want32, want64 = (np.array([function(v) for v in given.tolist()]) for given in (narrow, wide))
    assert (np.abs(got32 - want32) <= 2e-6 * np.abs(want32)).all()
    assert (np.abs(got64 - want64) <= 4e-15 * np.abs(want64)).all()


def test_functions_keep_their_digits_where_parts_are_large_small_or_near_one():
    mpmath = pytest.importorskip("mpmath")
    z = np.array(
        [3e38 + 3e38j, 1e-42 + 1e-43j, 1 + 1e-6j, 0.999999 + 1e-4j, -3e38 + 1e-40j, 88.9 + 0.8j, 1e20 - 1e-20j]
    )
    z = z.astype(np.complex64)
    log, sqrt, size, exp = launched(
        ["out0[i] = cmath.log(a)", "out1[i] = cmath.sqrt(a)", "out2[i] = abs(a)", "out3[i] = cmath.exp(a)"],
        [z],
        [c64, c64, f32, c64],
    )
    for k, value in enumerate(z.tolist()):
        exact = mpmath.mpc(value.real, value.imag)
        for got, function in ((log, mpmath.log), (sqrt, mpmath.sqrt)):
            want = function(exact)
            assert abs(got[k].real - want.real) <= 2e-6 * abs(want.real) + 1e-45, (k, function)
            assert abs(got[k].imag - want.imag) <= 2e-6 * abs(want.imag) + 1e-45, (k, function)
        want = abs(exact)
        assert want > 3.4e38 or abs(size[k] - want) <= 3e-7 * want + 1e-45
    np.testing.assert_allclose(exp[5], np.exp(np.complex128(z[5])), rtol=2e-5)
    assert np.isfinite(exp[5])


def test_division_overflows_only_with_the_quotient(device):
    x = np.array([1e30 + 1e30j, 1e-30 - 1e-30j, 3e38 + 1e38j, 1 + 0j, 0j], np.complex64)
    y = np.array([1e30 + 1e30j, 1e-30 + 1e-30j, 3e38 - 3e38j, 0j, 0j], np.complex64)
    (got,) = launched(["out0[i] = a / b"], [x, y], [c64], device)
    with np.errstate(all="ignore"):
        want = x / y
    np.testing.assert_allclose(got[:3], want[:3], rtol=1e-6)
    assert np.isinf(got[3].real)
    assert np.isnan(got[4].real)


def test_powers(device):
    z = numbers(c128)[:20]
    exponents = (0, 1, 2, 5, -1, -3, 17)
    lines = [f"out{k}[i] = a ** {n}" for k, n in enumerate(exponents)]
    lines += ["out7[i] = a ** 0.5", "out8[i] = 2 ** a", "out9[i] = a ** a", "out10[i] = (0 * a) ** 2.5"]
    *whole, half, two, own, zero = launched(lines, [z], [c128] * 11, device)
    for n, got in zip(exponents, whole, strict=True):
        np.testing.assert_allclose(got, z**n, rtol=1e-13)
    np.testing.assert_allclose(half, z**0.5, rtol=1e-13)
    np.testing.assert_allclose(two, 2**z, rtol=1e-12)
    np.testing.assert_allclose(own, z**z, rtol=1e-11)
    assert (zero == 0).all()


def test_parts_polar_and_predicates(device):
    z = np.array([3 + 4j, -1 + 0j, complex(math.inf, math.nan), complex(0, math.inf), -2.5j], np.complex64)
    lines = ["r, phi = cmath.polar(a)", "out0[i] = r", "out1[i] = phi", "out2[i] = cmath.rect(r, phi)"]
    lines += ["out3[i] = cmath.isnan(a)", "out4[i] = cmath.isinf(a)", "out5[i] = cmath.isfinite(a)"]
    lines += ["out6[i] = a.real - a.imag", "out7[i] = complex(a.imag, a.real)", "out8[i] = -a", "out9[i] = +a"]
    types = [f32, f32, c64, *[kaio.bool_] * 3, f32, c64, c64, c64]
    r, phi, back, nan, inf, finite, parts, swapped, negative, same = launched(lines, [z], types, device)
    whole = z[[0, 1, 4]]
    np.testing.assert_allclose(r[[0, 1, 4]], np.abs(whole), rtol=1e-7)
    np.testing.assert_allclose(phi[[0, 1, 4]], np.angle(whole), rtol=1e-6)
    np.testing.assert_allclose(back[[0, 1, 4]], whole, rtol=1e-6, atol=1e-6)
    assert [nan.tolist(), inf.tolist(), finite.tolist()] == [
        [False, False, True, False, False],
        [False, False, True, True, False],
        [True, True, False, False, True],
    ]
    assert parts[[0, 1, 4]].tolist() == [-1, -1, 2.5]
    assert swapped[0] == 4 + 3j
    assert negative[0] == -3 - 4j
    assert same[0] == z[0]


# ---------------------------------------------------------------------- types
def test_types_of_what_meets():
    text = """
    @kernel
    def k(z: In[c64], w: In[c128], x: In[f32], d: In[f64], n: In[i64], out: Out[c128]):
        a = z[0] * 2.0
        b = z[0] + d[0]
        c = n[0] * z[0]
        e = x[0] + 2j
        f = d[0] + 2j
        g = z[0] - w[0]
        h = abs(w[0])
        l = 1 if x[0] > 0 else z[0]
        m = complex(x[0], 1)
        o = complex(d[0])
        p = c64(w[0])
        q = c128(x[0], n[0])
        r = UNIT * z[0]
        s = WIDE * z[0]
        out[0] = a + b + c + e + f + g + h + l + m + o + p + q + r + s
    """
    found = types_of(kernel(text, UNIT=1j, WIDE=np.complex128(1j)))
    want = dict.fromkeys("acelmpr", "c64") | dict.fromkeys("bfgoqs", "c128") | {"h": "f64"}
    assert {name: found[name] for name in want} == want


def test_a_variable_set_from_a_literal_becomes_complex(device):
    z = numbers(c64)
    lines = ["total = 0.0", "for k in range(2):", "    total = total + a", "out0[i] = total"]
    (got,) = launched(lines, [z], [c64], device)
    np.testing.assert_array_equal(got, z + z)


def test_captured_numbers_and_literals(device):
    @kaio.kernel
    def k(out: Out[c128]):
        out[kaio.grid(1)] = (1 + 2j) * UNIT / 2 + abs(3 + 4j) + (2j).conjugate() + (1j if kaio.grid(1) > 0 else 2)

    out = device.alloc_zeros(2, c128)
    k.over(2).block(2).launch(out).wait()
    assert out.to_host().tolist() == [(1 + 2j) * 1j / 2 + 5 - 2j + 2, (1 + 2j) * 1j / 2 + 5 - 2j + 1j]


UNIT = 1j


def test_functions_take_and_give_complex_numbers(device):
    @kaio.func
    def rotated(z: c64, by):
        return z * by, abs(z)

    @kaio.kernel
    def k(x: In[f32], out: Out[c64]):
        i = kaio.grid(1)
        if i < out.size:
            z, size = rotated(x[i], 1j)
            out[i] = z + size

    x = device.alloc_from(np.array([1, -2], np.float32))
    out = device.alloc_zeros(2, c64)
    k.over(2).launch(x, out).wait()
    assert out.to_host().tolist() == [1 + 1j, 2 - 2j]


@pytest.mark.parametrize(
    ("body", "what", "way_out"),
    [
        (
            "x[0] = z[0]",
            "c64 cannot be stored in an element of `x` (f32)",
            "take a part of it: `z[0].real` or `z[0].imag`",
        ),
        (
            "z[0] = x[0] > 1",
            "bool is stored in a complex number only with a cast",
            "cast it, for example `kaio.c64(x[0] > 1)`",
        ),
        ("z[0] = 1e300j", "`1e+300` does not fit f32", "the largest f32 is 3.4028235e+38 (infinity is `math.inf`)"),
        ("x[0] = math.sin(z[0])", "an argument of `sin` is a number, not c64", None),
        ("x[0] = float(z[0])", "what `float` converts is a number, not c64", None),
        ("x[0] = f32(z[0])", "what `f32` casts is a number, not c64", None),
        ("x[0] = 1 if z[0] else 0", "c64 is neither true nor false", "compare it: `z != 0`"),
        ("x[0] = not z[0]", "c64 is neither true nor false", "compare it: `z == 0`"),
        ("x[0] = z[0].imaginary", "c64 has no attribute `imaginary` in a kernel", "did you mean `imag`?"),
        ("x[0] = max(z[0], 1)", "an argument of `max` is a number, not c64", None),
        ("z[0] = complex(z[0], 1)", "a part of `complex` is a real number, not c64", "add `1j * part`"),
        ("a, b = z[0]", "c64 cannot be unpacked", "read its fields: real, imag"),
    ],
)
def test_what_complex_numbers_cannot_do_is_told(body, what, way_out):
    (mistake,) = mistakes(f"@kernel\ndef k(x: InOut[f32], z: InOut[c64]):\n    {body}\n")
    assert (mistake.what, mistake.help) == (what, way_out)


# ---------------------------------------------------------------------- buffers and arguments
def refusal(*arguments):
    outs = [kaio.Device("cpu").alloc_zeros(4, dtype) for dtype in (c64, c128, f32, c64, c128, i32)]
    return refusals.refusal(everything.over(4).launch, *outs, *arguments)


def test_a_complex_argument_is_checked_part_by_part():
    assert refusal("x", 1j).startswith("argument `s` of kernel `everything` must be a scalar of c64 (got 'x', a str)")
    assert refusal(1e39j, 1j).splitlines()[0] == (
        "argument `s` of kernel `everything` does not fit f32 (got 1e+39), in its part `imag`"
    )


def test_fill_copies_and_conversions(device):
    x = device.alloc_zeros(3, c64)
    x.fill(2 - 1j).wait()
    assert x.to_host().tolist() == [2 - 1j] * 3
    x.fill(3)
    assert x.astype(c128).to_host().dtype == np.complex128
    assert device.alloc_from(np.arange(3)).astype(c64).to_host().tolist() == [0, 1, 2]
    with pytest.raises(kaio.KaioError) as caught:
        x.astype(f32)
    assert str(caught.value) == (
        "a complex array is not converted to f32\n  help: take a part of it on the host: `x.to_host().real`"
    )


def test_memory_that_is_not_aligned_is_refused():
    raw = np.zeros(9 * 16 + 8, np.uint8)
    start = -raw.ctypes.data % 16 + 8
    with pytest.raises(kaio.KaioError) as caught:
        kaio.Device("cpu").import_array(raw[start : start + 4 * 16].view(np.complex128))
    assert str(caught.value).startswith("an array of c128 that begins at no multiple of 16 bytes cannot be used")


def test_outside_a_kernel_a_complex_dtype_gives_the_numpy_scalar():
    assert (c64(1 + 2j), type(c64(1))) == (1 + 2j, np.complex64)
    assert [kaio.dtypes.dtype_of(name) for name in ("c64", "complex128", np.complex64)] == [c64, c128, c64]
