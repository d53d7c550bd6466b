"""Every name of Python's `math` works in a kernel, or is refused with its own way out."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kaio import f32, f64
from kaio.dsl.intrinsic import STANDARD
from tests.dsl.from_text import kernel, mistakes, run

NAMES = [name for name in dir(math) if not name.startswith("_")]
CONSTANTS = [name for name in NAMES if isinstance(getattr(math, name), float)]
FUNCTIONS = [name for name in NAMES if name not in CONSTANTS]
REFUSED = {
    "comb": "it outgrows 64 bits soon; multiply and divide in a loop, or write `math.exp(math.lgamma(n + 1) - ...)`",
    "dist": "write `math.hypot(x1 - x0, y1 - y0)`",
    "factorial": "it outgrows 64 bits at 21; write `math.gamma(n + 1)`, or multiply in a loop",
    "fsum": "add in a loop, to an f64 where digits matter",
    "perm": "it outgrows 64 bits soon; multiply in a loop",
    "prod": "multiply in a loop",
    "sumprod": "add products in a loop: `total += x[i] * y[i]`",
}
RECENT = ["fmax", "fmin", "isnormal", "issubnormal", "signbit"]  # of Pythons that kaio does not run on


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name not in RECENT])
def test_a_function_of_math_works_or_is_refused_with_a_way_out(name):
    if name not in REFUSED:
        assert STANDARD[getattr(math, name)].example
        return
    (mistake,) = mistakes(f"@kernel\ndef k(n: i32, o: Out[f32]):\n    o[0] = math.{name}(n, n)\n")
    assert (mistake.what, mistake.help) == (f"`math.{name}` cannot be called in a kernel", REFUSED[name])


@pytest.mark.parametrize("dtype", [f32, f64], ids=repr)
def test_the_constants_take_the_type_beside_them(dtype):
    lines = "".join(f"    o[{k}] = x[0] * math.{name}\n" for k, name in enumerate(CONSTANTS))
    made = kernel(f"@kernel\ndef k(x: In[{dtype!r}], o: Out[{dtype!r}]):\n{lines}")
    (got,) = run(made, [np.ones(1, dtype.numpy)], [dtype], size=len(CONSTANTS), check="off")
    np.testing.assert_array_equal(got, np.array([getattr(math, name) for name in CONSTANTS], dtype.numpy))


def test_log_takes_a_base(device):
    made = kernel("""
        @kernel
        def k(x: In[f64], o: Out[f64], p: Out[f64], q: Out[f64]):
            i = grid(1)
            if i < x.size:
                o[i], p[i], q[i] = math.log(x[i], 2), math.log(x[i], 10), math.log(x[i], x[i] + 1)
    """)
    xs = np.array([1.0, 8.0, 1000.0, 0.125])
    o, p, q = run(made, [xs], [f64] * 3, device=device)
    np.testing.assert_allclose(o, [0, 3, math.log2(1000), -3], rtol=3e-16)
    np.testing.assert_allclose(p, [math.log10(x) for x in xs], rtol=3e-16)
    np.testing.assert_allclose(q, np.log(xs) / np.log(xs + 1), rtol=1e-15)


def test_isclose_has_the_tolerances_of_python(device):
    made = kernel("""
        @kernel
        def k(a: In[f64], b: In[f64], o: Out[bool_], p: Out[bool_], q: Out[bool_], r: Out[bool_]):
            i = grid(1)
            if i < a.size:
                o[i], p[i] = math.isclose(a[i], b[i]), math.isclose(a[i], b[i], rel_tol=0.1)
                q[i], r[i] = math.isclose(a[i], b[i], abs_tol=0.5), math.isclose(a[i], b[i], abs_tol=1e9, rel_tol=0.0)
    """)
    values = [0.0, -0.0, 1.0, 1.0 + 1e-10, 1.05, -1.0, 1e300, math.inf, -math.inf, math.nan]
    a, b = (np.ascontiguousarray(x.ravel()) for x in np.meshgrid(values, values))
    got = run(made, [a, b], ["bool"] * 4, device=device)
    options = [{}, {"rel_tol": 0.1}, {"abs_tol": 0.5}, {"abs_tol": 1e9, "rel_tol": 0.0}]
    for column, given in zip(got, options, strict=True):
        assert column.tolist() == [math.isclose(x, y, **given) for x, y in zip(a.tolist(), b.tolist(), strict=True)]


def test_hypot_takes_any_number_of_coordinates(device):
    made = kernel("""
        @kernel
        def k(x: In[f64], o: Out[f64]):
            o[0], o[1], o[2] = math.hypot(x[0]), math.hypot(x[0], x[1], x[2]), math.hypot(x[0], x[1], x[2], 4, 5, 6, 7)
            o[3], o[4] = math.hypot(x[3], x[4], 1), math.hypot(x[3], 1, 2, 3, 4, x[4])
    """)
    x = np.array([-1.0, 2.0, 3.0, math.nan, math.inf])
    (got,) = run(made, [x], [f64], device=device)
    np.testing.assert_allclose(got, [1, math.hypot(1, 2, 3), math.hypot(*range(1, 8)), math.inf, math.inf], rtol=4e-16)
