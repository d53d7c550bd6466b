"""f16, bf16 and the floats of 8 bits as a kernel's author meets them."""

from __future__ import annotations

import math
import re
from typing import TypeVar

import ml_dtypes
import numpy as np
import pytest

import kaio
from kaio import Const, DType, In, InOut, Out, bf16, f8e4m3, f8e5m2, f16, f32, f64, i32
from kaio.dsl.intrinsic import STANDARD, Intrinsic
from kaio.dsl.rule_error import RuleError
from kaio.errors import LaunchError
from tests.dsl.from_text import kernel, message, mistakes, run, types_of
from tests.dsl.test_intrinsics import FUNCTIONS
from tests.narrow import HALVES, NARROW, STORAGE, all_values, rounded, same

T = TypeVar("T", f16, bf16, f32, f64)


# ---------------------------------------------------------------------- arguments
def scalar(dtype: DType) -> kaio.Kernel:
    return kernel(f"@kernel\ndef k(out: Out[{dtype!r}], n: i32, a: {dtype!r}):\n    out[n] = a\n")


@pytest.mark.parametrize(
    ("dtype", "given", "arrives"),
    [
        (f16, 42.0, 42.0),
        (f16, 42, 42.0),
        (f16, 65500.0, 65504.0),
        (f16, np.float64(0.1), float(np.float16(0.1))),
        (f16, np.float16(0.1), float(np.float16(0.1))),
        (f16, True, 1.0),
        (f16, math.inf, math.inf),
        (bf16, 257, 256.0),
        (bf16, 1 + 2**-8 + 2**-40, 1 + 2**-7),
        (bf16, ml_dtypes.bfloat16(3), 3.0),
        (f8e4m3, 0.3, 0.3125),
        (f8e5m2, 50000, 49152.0),
    ],
)
def test_b16_a_number_arrives_as_the_nearest_of_its_type(device, dtype, given, arrives):
    out = device.alloc_zeros(2, dtype)
    scalar(dtype).over(1).launch(out, 1, given).wait()
    assert out.to_host().astype(float).tolist() == [0, arrives]


@pytest.mark.parametrize(
    ("dtype", "given", "largest"),
    [
        (f16, 1e6, "65504; infinity is `math.inf`"),
        (f16, 65520, "65504; infinity is `math.inf`"),
        (bf16, 1e39, "3.3895314e+38; infinity is `math.inf`"),
        (f8e4m3, 465, "448"),
        (f8e4m3, math.inf, "448"),
    ],
)
def test_b16_a_number_beyond_the_type_is_an_error(dtype, given, largest):
    cpu = kaio.Device("cpu")
    with pytest.raises(LaunchError) as caught:
        scalar(dtype).over(1).launch(cpu.alloc_zeros(2, dtype), 0, given)
    assert str(caught.value) == (
        f"argument `a` of kernel `k` does not fit {dtype!r} (got {given})\n  help: the largest {dtype!r} is {largest}"
    )


@pytest.mark.parametrize("dtype", NARROW, ids=repr)
def test_an_int_that_is_wrong_beside_a_narrow_float_is_named(dtype):
    cpu = kaio.Device("cpu")
    with pytest.raises(LaunchError, match="argument `n` of kernel `k` must be a scalar of i32"):
        scalar(dtype).over(1).launch(cpu.alloc_zeros(2, dtype), 0.5, 1.5)
    out = cpu.alloc_zeros(2, dtype)
    scalar(dtype).over(1).launch(out, np.array(1), 1.5).wait()  # packed the slow way
    assert out.to_host().astype(float).tolist() == [0, 1.5]


def test_a_bound_launch_changes_a_narrow_scalar(device):
    out = device.alloc_zeros(2, bf16)
    bound = scalar(bf16).over(1).bind(out, 0, 1.5)
    bound.update(a=2.5)
    bound.launch().wait()
    assert float(out.to_host()[0]) == 2.5


def test_defaults_round_and_are_checked(device):
    made = kernel("@kernel\ndef k(out: Out[f16], a: f16 = 0.1, b: bf16 = np.float16(3)):\n    out[0] = a * f16(b)\n")
    out = device.alloc_zeros(1, f16)
    made.over(1).launch(out).wait()
    assert out.to_host()[0] == np.float16(0.1) * np.float16(3)
    (mistake,) = mistakes("@kernel\ndef k(out: Out[f16], a: f16 = 1e6):\n    out[0] = a\n")
    assert mistake.what == "the default 1000000.0 of `a` does not fit f16"


@kaio.kernel
def scaled(x: In[T], y: Out[T], a: T):
    i = kaio.grid(1)
    if i < x.size:
        y[i] = a * x[i] + 1


@pytest.mark.parametrize("dtype", [f16, bf16, f32, f64], ids=repr)
def test_a_generic_kernel_takes_them(device, dtype):
    x = device.alloc_from(np.arange(5).astype(dtype.numpy))
    y = device.alloc_zeros(5, dtype)
    scaled.over(5).launch(x, y, 1.5).wait()
    assert y.to_host().astype(float).tolist() == [1, 2.5, 4, 5.5, 7]
    assert f"fma.rn.{dtype!r}" in scaled.ptx("sm_90", T=dtype)


@kaio.kernel
def converted(x: In[f32], out: Out[f32], dtype: Const[DType], scale: Const[float]):
    i = kaio.grid(1)
    if i < x.size:
        out[i] = dtype(x[i]) * scale


def test_a_dtype_and_a_number_may_be_constants(device):
    x = np.array([0.1, 1.0, 1000.1], np.float32)
    out = device.alloc_zeros(3, f32)
    converted.over(3).launch(device.alloc_from(x), out, f16, 0.5).wait()
    np.testing.assert_array_equal(out.to_host(), x.astype(np.float16).astype(np.float32) * np.float32(0.5))


# ---------------------------------------------------------------------- memory
@pytest.mark.parametrize("dtype", NARROW, ids=repr)
def test_elements_travel_through_every_kind_of_memory_unchanged(device, dtype):
    made = kernel(f"""
        @kernel
        def k(x: In[{dtype!r}], out: Out[{dtype!r}]):
            ours, mine = shared_mem(128, {dtype!r}), local_mem(2, {dtype!r})
            i, t = grid(1), thread_idx.x
            if i < x.size:
                ours[t] = x[i]
            bar_sync()
            if i < x.size:
                mine[t % 2] = ours[t]
                out[i] = mine[t % 2]
    """)
    bits = f"u{dtype.itemsize}"
    x = all_values(dtype)[:4096]
    given, out = device.alloc_from(x), device.alloc_zeros(x.size, dtype)
    made.over(x.size).block(128).launch(given, out).wait()
    np.testing.assert_array_equal(out.to_host().view(bits), x.view(bits))
    assert made.compile("sm_75").cubin


@pytest.mark.parametrize("dtype", NARROW, ids=repr)
def test_a_choice_between_two_elements_moves_one_of_them(device, dtype):
    made = kernel(f"""
        @kernel
        def k(x: In[{dtype!r}], y: In[{dtype!r}], out: Out[{dtype!r}]):
            i = grid(1)
            if i < x.size:
                chosen = x[i] if i % 2 == 0 else y[i]
                out[i] = chosen
    """)
    x, y = np.array([1, 2, 3, 4], dtype.numpy), np.array([5, 6, 7, 8], dtype.numpy)
    (out,) = run(made, [x, y], [dtype], device=device)
    assert out.astype(float).tolist() == [1, 6, 3, 8]


# ---------------------------------------------------------------------- literals and named variables
def test_types_follow_the_rules():
    made = kernel("""
        @kernel
        def k(h: In[f16], b: In[bf16], n: In[i32], c: bool_):
            literal = h[0] * 0.5
            whole = h[0] * n[0]
            apart = h[0] + b[0]
            truth = h[0] + c
            either = -(h[0] if c else 0.5)
            total = 0.0
            for i in range(4):
                total += h[i]
            kept = f16(0)
            for i in range(4):
                kept += h[i]
            wide = float(h[0])
            number = int(b[0])
            captured = np.float16(0.1) * b[0]
            quotient = n[0] / n[1] * h[0]
    """)
    found = types_of(made)
    wanted = {
        "literal": "f16", "whole": "f16", "apart": "f32", "truth": "f16", "either": "f16", "kept": "f16",
        "wide": "f32", "number": "i32", "captured": "f32", "quotient": "f32",
    }  # fmt: skip
    assert {name: found[name] for name in wanted} == wanted
    assert {type_ for name, type_ in found.items() if name.startswith("total")} >= {"f32"}


SCALE = np.float16(0.1)


def test_a_captured_numpy_scalar_has_its_own_type(device):
    made = kernel("@kernel\ndef k(x: In[f16], out: Out[f16]):\n    out[0] = x[0] * SCALE\n", SCALE=SCALE)
    assert "cvt" not in made.ptx("sm_90")
    (out,) = run(made, [np.array([3], np.float16)], [f16], device=device)
    assert out[0] == np.float16(3) * SCALE
    made = kernel(
        "@kernel\ndef k(x: In[f32], out: Out[bf16]):\n    out[0] = bfloat16(x[0])\n", bfloat16=ml_dtypes.bfloat16
    )
    (out,) = run(made, [np.array([257], np.float32)], [bf16], device=device)
    assert float(out[0]) == 256


def test_a_literal_that_does_not_fit_names_the_type():
    (mistake,) = mistakes("def k(x: InOut[f16]):\n    x[0] = x[1] * 1e6\nk = kernel(k)\n")
    assert mistake.what == "`1000000.0` does not fit f16"
    assert mistake.help == "compute in a wider type, for example `kaio.f32(...)`"
    (mistake,) = mistakes("def k(x: InOut[f8e4m3]):\n    x[0] = 500.0\nk = kernel(k)\n")
    assert mistake.what == "`500.0` does not fit f8e4m3"
    assert mistake.help is not None
    assert mistake.help.startswith("the largest f8e4m3 is 448")


def test_a_comparison_with_a_variable_is_exact_and_with_a_literal_in_16_bits(device):
    made = kernel("""
        @kernel
        def k(x: In[f16], near: Out[bool_], exact: Out[bool_]):
            tenth = 0.1
            near[0], exact[0] = x[0] == 0.1, x[0] == tenth
    """)
    near, exact = run(made, [np.array([0.1], np.float16)], [kaio.bool_] * 2, device=device)
    assert (near[0], exact[0]) == (True, False)


# ---------------------------------------------------------------------- what 8 bits do, and what they do not
def test_8_bits_are_stored_from_and_into_wider_floats_without_a_cast(device):
    made = kernel("""
        @kernel
        def k(x: In[f32], y: Out[f8e4m3], z: Out[f32], n: Out[f8e5m2]):
            i = grid(1)
            if i < x.size:
                y[i] = x[i]
                z[i] = f32(f8e4m3(x[i])) * 2
                n[i] = i
    """)
    x = np.array([0.3, 1.0, 1e6, math.nan, -0.0], np.float32)
    y, z, n = run(made, [x], [f8e4m3, f32, f8e5m2], device=device)
    wanted = [rounded(v, f8e4m3) for v in x.tolist()]
    assert same(y, wanted).all()
    assert same(z, [v * 2 for v in wanted]).all()
    assert n.astype(float).tolist() == [0, 1, 2, 3, 4]


def test_an_operator_on_8_bits_is_refused_with_the_cast_to_write():
    text = "@kernel\ndef k(x: In[f8e4m3], out: Out[f32], i: i32):\n    out[i] = x[i] * 2\n"
    assert message(text).splitlines() == [
        "`f8e4m3 * int literal 2`: f8e4m3 is stored and cast, and not computed with",
        "  <text>:3:14, in k",
        "          out[i] = x[i] * 2",
        "                   ^^^^^^^^",
        "  help: cast it, for example `kaio.f32(x[i]) * 2`",
    ]


@pytest.mark.parametrize("dtype", STORAGE, ids=repr)
@pytest.mark.parametrize(
    "text", ["abs(x[0])", "min(x[0], 1)", "math.sin(x[0])", "fma(y[0], x[0], 1)", "math.isnan(x[0])", "-x[0]",
             "x[0] == x[1]", "(x[0] if y[0] else 1.0) + y[0]", "x[0] + y[0]", "not x[0]"],
)  # fmt: skip
def test_a_function_of_8_bits_is_refused(dtype, text):
    (mistake,) = mistakes(f"@kernel\ndef k(x: In[{dtype!r}], y: In[f32]):\n    v = {text}\n")
    assert mistake.what.endswith(f"{dtype!r} is stored and cast, and not computed with")
    assert mistake.help is not None
    assert "kaio.f32(" in mistake.help


# ---------------------------------------------------------------------- functions
@pytest.mark.parametrize("dtype", HALVES, ids=repr)
@pytest.mark.parametrize("name", [*FUNCTIONS, "x ** y", "x ** -2", "x ** 0.5", "x // y", "x % y", "2 ** x"])
def test_a_function_of_16_bits_is_that_of_f32_rounded(device, dtype, name):
    function = FUNCTIONS.get(name, FUNCTIONS["math.pow"])
    names = ["x[i]", "y[i]", "z[i]"][: function.count]
    call = f"{name}({', '.join(names)})" if name in FUNCTIONS else re.sub(r"\b([xy])\b", r"\1[i]", name)
    body = f"""
        @kernel
        def k(x: In[{{0}}], y: In[{{0}}], z: In[{{0}}], out: Out[{{0}}]):
            i = grid(1)
            if i < x.size:
                out[i] = {call}
    """
    rng = np.random.default_rng(1)
    with np.errstate(all="ignore"):
        inputs = [rng.uniform(function.low, function.high, 500).astype(dtype.numpy) for _ in range(3)]
    made = kernel(body.format(repr(dtype)))
    (got,) = run(made, inputs, [dtype], device=device)
    with np.errstate(all="ignore"):
        wide = [v.astype(np.float32) for v in inputs]
    (exact,) = run(kernel(body.format("f32")), wide, [f32], device=device)
    assert same(got, [rounded(v, dtype) for v in exact.tolist()]).all()
    assert "f64" not in types_of(made).values()


def test_a_mean_is_taken_in_f32_and_stored_in_16_bits():
    @kaio.kernel
    def centre(x: InOut[f16], n: i32):
        total = 0.0
        for i in range(n):
            total += x[i]
        mean = total / n
        for i in range(n):
            x[i] = x[i] - mean

    x = np.random.default_rng(0).normal(3, 1, 1000).astype(np.float16)
    buffer = kaio.Device("cpu").alloc_from(x)
    centre.grid(1).block(1).launch(buffer, x.size).wait()
    total = np.float32(0)
    for value in x:
        total += np.float32(value)
    wanted = (x.astype(np.float32) - total / np.float32(x.size)).astype(np.float16)
    np.testing.assert_array_equal(buffer.to_host(), wanted)


# ---------------------------------------------------------------------- every function
def accepting(dtype: DType) -> list[str]:
    """A call of each function that takes so many numbers of the type, alone or several."""
    found = []
    for function, record in [*((None, getattr(kaio, name)) for name in kaio.__all__), *STANDARD.items()]:
        if not isinstance(record, Intrinsic) or record.typing is None or record.suspends:
            continue
        name = f"math.{record.name}" if getattr(function, "__module__", "") == "math" else record.name
        for count in range(1, 5):
            try:
                assert record.signature is not None
                record.signature.bind(*range(count))
                record.typing(*[dtype] * count)
            except (RuleError, TypeError, ValueError, AssertionError):
                continue
            found.append(f"{name}({', '.join(f'x[{k}]' for k in range(count))})")
    return found


@pytest.mark.parametrize("dtype", HALVES, ids=repr)
def test_every_function_that_takes_16_bits_compiles_everywhere(dtype):
    calls = accepting(dtype)
    assert {"abs(x[0])", "math.sin(x[0])", "fma(x[0], x[1], x[2])", "int(x[0])"} <= set(calls)
    lines = "".join(f"    v{k} = {call}\n" for k, call in enumerate(calls))
    made = kernel(f"import cmath\n@kernel\ndef k(x: In[{dtype!r}]):\n{lines}")
    assert made.compile("cpu").code
    for architecture in ("sm_75", "sm_80", "sm_90"):
        assert ".entry k(" in made.ptx(architecture)


@pytest.mark.parametrize("dtype", HALVES, ids=repr)
def test_the_neighbours_of_every_value_are_those_of_the_type(device, dtype):
    made = kernel(f"""
        @kernel
        def k(x: In[{dtype!r}], up: Out[{dtype!r}], down: Out[{dtype!r}]):
            i = grid(1)
            if i < x.size:
                up[i], down[i] = math.nextafter(x[i], math.inf), math.nextafter(x[i], -math.inf)
    """)
    x = all_values(dtype)
    up, down = run(made, [x], [dtype] * 2, device=device)
    assert same(up, neighbours(x, math.inf)).all()
    assert same(down, neighbours(x, -math.inf)).all()


def neighbours(x: np.ndarray, to: float) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.nextafter(x, np.full_like(x, to))
