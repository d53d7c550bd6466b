"""Approximate functions of f32: what they compile to, how near they are, and what `fastmath` makes of a kernel."""

from __future__ import annotations

import numpy as np
import pytest

from kaio import UnsupportedFeatureError, bf16, f16, f32
from tests.dsl.from_text import kernel, kernel_of, message, run

# name: (the exact one, its arguments, the relative error that is allowed)
FAST = {
    "fast_sin": (np.sin, (0.1, 3.0), 1e-5),
    "fast_cos": (np.cos, (-1.5, 1.5), 2e-5),
    "fast_tan": (np.tan, (0.1, 1.5), 3e-5),
    "fast_exp": (np.exp, (-80, 80), 1.2e-5),
    "fast_exp2": (np.exp2, (-120, 120), 3e-7),
    "fast_exp10": (lambda x: 10**x, (-37, 37), 1.5e-5),
    "fast_log": (np.log, (2, 1e6), 4e-7),
    "fast_log2": (np.log2, (2, 1e6), 3e-7),
    "fast_log10": (np.log10, (2, 1e6), 4e-7),
    "fast_sqrt": (np.sqrt, (0, 1e3), 4e-7),
    "fast_rsqrt": (lambda x: 1 / np.sqrt(x), (1e-3, 1e3), 3e-7),
    "fast_rcp": (lambda x: 1 / x, (1e-3, 1e3), 2e-7),
    "fast_tanh": (np.tanh, (-5, 5), 2.0**-10.9),
}
PAIRS = {"fast_pow": (np.power, (0.5, 8), 1e-5), "fast_div": (np.divide, (1e-3, 1e3), 3e-7)}


@pytest.mark.parametrize("name", [*FAST, *PAIRS])
def test_a_fast_function_is_as_near_as_it_says(device, name):
    exact, (low, high), relative = (FAST | PAIRS)[name]
    count = 2 if name in PAIRS else 1
    xs = np.random.default_rng(8).uniform(low, high, (count, 3000)).astype(np.float32)
    (got,) = run(kernel_of(name, f32, count), list(xs), [f32], device=device)
    np.testing.assert_allclose(got, exact(*xs.astype(np.float64)), rtol=relative)


@pytest.mark.parametrize("dtype", [f16, bf16], ids=repr)
@pytest.mark.parametrize("name", ["fast_exp2", "fast_tanh", "fast_sqrt"])
def test_narrow_floats_go_through_f32(device, name, dtype):
    exact, _, _ = FAST[name]
    xs = np.random.default_rng(9).uniform(0.1, 4, 500).astype(dtype.numpy)
    (got,) = run(kernel_of(name, dtype), [xs], [dtype], device=device)
    np.testing.assert_allclose(got.astype(np.float64), exact(xs.astype(np.float64)), rtol=2.0**-7)


@pytest.mark.parametrize(
    ("dtype", "architecture", "instruction"),
    [
        (f16, "sm_75", "{}.approx.f16"),
        (f16, "sm_90", "{}.approx.f16"),
        (bf16, "sm_80", "{}.approx.f32"),
        (bf16, "sm_90", "{}.approx.ftz.bf16"),
    ],
    ids=str,
)
def test_narrow_floats_have_instructions_of_their_own(dtype, architecture, instruction):
    for name, mnemonic in (("fast_exp2", "ex2"), ("fast_tanh", "tanh")):
        wanted = instruction.format(mnemonic)
        made = kernel_of(name, dtype)
        assert (wanted.replace(".ftz", "") if mnemonic == "tanh" else wanted) in made.ptx(architecture)
        assert made.compile(architecture).cubin


def test_f64_is_refused_with_the_exact_function():
    for name, way_out in (
        ("fast_sin", "math.sin(x[0])"),
        ("fast_div", "x / y"),
        ("fast_exp10", "kaio.exp10(x[0])"),
    ):
        arguments = "x[0], x[0]" if name == "fast_div" else "x[0]"
        text = message(f"@kernel\ndef k(x: InOut[f64]):\n    x[0] = {name}({arguments})\n").splitlines()
        assert text[0] == f"`{name}` of f64; it is of f32"
        assert text[-1] == f"  help: write `{way_out}`, or cast with `kaio.f32(...)`"


@pytest.mark.parametrize("architecture", ["sm_75", "sm_90"])
def test_every_fast_function_links(architecture):
    calls = [*(f"{name}(x[0])" for name in FAST), *(f"{name}(x[0], x[1])" for name in PAIRS)]
    body = "".join(f"    x[{k}] = {call}\n" for k, call in enumerate(calls))
    for options in ("", "(fastmath=True)"):
        assert kernel(f"@kernel{options}\ndef k(x: InOut[f32]):\n{body}").compile(architecture).cubin


def test_the_first_architecture_of_tanh_is_named():
    with pytest.raises(UnsupportedFeatureError, match="`fast_tanh` needs sm_75 or later"):
        kernel_of("fast_tanh", f32).ptx("sm_70")


# ---------------------------------------------------------------------- fastmath
@pytest.mark.parametrize(
    ("call", "instruction"),
    [
        ("math.sin(a[i])", "sin.approx.ftz.f32"),
        ("math.cos(a[i])", "cos.approx.ftz.f32"),
        ("math.exp(a[i])", "ex2.approx.ftz.f32"),
        ("exp10(a[i])", "ex2.approx.ftz.f32"),
        ("math.log(a[i])", "lg2.approx.ftz.f32"),
        ("math.tan(a[i])", "div.approx.ftz.f32"),
        ("sincos(a[i])[1]", "cos.approx.ftz.f32"),
        ("math.sqrt(a[i])", "sqrt.approx.ftz.f32"),
        ("a[i] / (a[i] + 2)", "div.full.ftz.f32"),
        ("a[i] * a[i]", "mul.rn.ftz.f32"),
    ],
)
def test_fastmath_makes_f32_approximate_on_a_gpu(call, instruction):
    text = f"@kernel(fastmath=True)\ndef k(a: In[f32], o: Out[f32]):\n    i = grid(1)\n    o[i] = {call}\n"
    assert instruction in kernel(text).ptx("sm_90")
    exact = kernel(text.replace("(fastmath=True)", "", 1)).ptx("sm_90")
    assert ".full" not in exact
    assert exact.count(".approx") <= exact.count("rcp.approx.ftz.f32") + exact.count("ex2.approx.ftz.f32")


def test_fastmath_leaves_f64_and_powers_of_negative_numbers_alone(device):
    made = kernel("""
        @kernel(fastmath=True)
        def k(x: In[f32], d: In[f64], o: Out[f32], p: Out[f64]):
            i = grid(1)
            if i < x.size:
                o[i], p[i] = math.pow(x[i], 3.0) + x[i] ** 2, math.exp(d[i])
    """)
    x = np.array([-2.0, 3.0, -0.5], np.float32)
    o, p = run(made, [x, x.astype(np.float64)], ["f32", "f64"], device=device)
    np.testing.assert_allclose(o, x**3 + x**2, rtol=1e-6)
    np.testing.assert_allclose(p, np.exp(x.astype(np.float64)), rtol=4e-16)


def test_the_cpu_device_computes_as_without_fastmath():
    xs = np.random.default_rng(1).uniform(-80, 80, 500).astype(np.float32)
    xs[:3] = 1e-40, -1e-44, 3e38
    text = "{}\ndef k(a: In[f32], o: Out[f32], p: Out[f32]):\n    i = grid(1)\n    if i < a.size:\n"
    text += "        o[i], p[i] = math.exp(a[i]), a[i] / 3 + math.sin(a[i])\n"
    fast, exact = (run(kernel(text.format(head)), [xs], [f32] * 2) for head in ("@kernel(fastmath=True)", "@kernel"))
    for a, b in zip(fast, exact, strict=True):
        np.testing.assert_array_equal(a, b)
