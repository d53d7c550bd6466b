"""Functions of f16 and bf16: computed in f32 and rounded, on both devices."""

from __future__ import annotations

import numpy as np
import pytest

from kaio import bf16, f16
from tests.dsl.from_text import kernel, message

OF_ONE = (
    "math.sqrt math.sin math.cos math.tan math.asin math.acos math.atan math.sinh math.cosh math.tanh math.asinh "
    "math.acosh math.atanh math.exp math.exp2 math.expm1 math.log math.log2 math.log10 math.log1p math.erf math.erfc "
    "math.lgamma math.gamma math.cbrt math.radians math.degrees math.floor math.ceil math.trunc round rint logb rsqrt "
    "rcbrt rcp exp10 sinpi cospi erfinv erfcinv erfcx normcdf normcdfinv j0 j1 y0 y1 cyl_bessel_i0 cyl_bessel_i1 "
    "saturate fast_sin fast_exp fast_log fast_rsqrt"
)
OF_TWO = "math.pow math.atan2 math.hypot math.fmod math.remainder fdim rhypot fast_pow fast_div"


def calls(argument: str) -> list[str]:
    return [*(f"{name}({argument.format('a')})" for name in OF_ONE.split()),
            *(f"{name}({argument.format('a')}, {argument.format('b')})" for name in OF_TWO.split()),
            f"math.ldexp({argument.format('a')}, 3)", f"math.log({argument.format('a')}, 3.0)",
            f"math.modf({argument.format('a')})[0]", f"math.frexp({argument.format('a')})[0]",
            f"sincos({argument.format('a')})[1]", f"jn(2, {argument.format('a')})"]  # fmt: skip


@pytest.mark.parametrize("dtype", [f16, bf16], ids=repr)
@pytest.mark.parametrize("part", range(4))
def test_functions_of_narrow_floats_are_those_of_f32_rounded_once_more(device, part, dtype):
    narrow, wide = calls("{}[i]")[part::4], calls("f32({}[i])")[part::4]
    count = len(narrow)
    lines = [f"o[i * {count} + {k}] = {text}" for k, text in enumerate(narrow)]
    lines += [f"p[i * {count} + {k}] = {dtype!r}({text})" for k, text in enumerate(wide)]
    made = kernel(
        f"@kernel\ndef k(a: In[{dtype!r}], b: In[{dtype!r}], o: Out[{dtype!r}], p: Out[{dtype!r}]):\n"
        "    i = grid(1)\n    if i < a.size:\n" + "".join(f"        {line}\n" for line in lines)
    )
    edges = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan]
    drawn = np.random.default_rng(part).normal(0, 2, (2, 57))
    a, b = (np.array([*edges, *column], np.float32).astype(dtype.numpy) for column in drawn)
    o, p = device.alloc_zeros(a.size * count, dtype), device.alloc_zeros(a.size * count, dtype)
    made.over(a.size).launch(device.alloc_from(a), device.alloc_from(b), o, p).wait()
    got, wanted = (x.to_host().astype(np.float32).reshape(-1, count) for x in (o, p))
    for k, text in enumerate(narrow):
        np.testing.assert_array_equal(got[:, k], wanted[:, k], err_msg=text)
    assert made.compile("sm_75").cubin


def test_directed_rounding_of_narrow_floats_is_refused():
    text = message("@kernel\ndef k(x: InOut[f16]):\n    x[0] = add_rd(x[0], x[1])\n").splitlines()
    assert (text[0], text[-1]) == ("`add_rd` of f16; it is of f32 and f64", "  help: cast with `kaio.f32(...)`")


def test_floats_of_8_bits_have_no_functions():
    text = message("@kernel\ndef k(x: In[f8e4m3], o: Out[f32]):\n    o[0] = math.sin(x[0])\n").splitlines()
    assert "f8e4m3" in text[0]
    assert text[-1].startswith("  help: ")
