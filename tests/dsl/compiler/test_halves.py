"""Arithmetic of f16 and bf16 against exact fractions, every operation rounded once."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import kaio
from kaio import bf16, bool_, f16, f32
from kaio.dsl.compiler.cuda.emit_ptx import CudaTarget
from tests.dsl.from_text import kernel, run
from tests.narrow import HALVES, all_values, rounded, same

COUNT = 6_000


def triples(dtype: Any) -> list[np.ndarray]:
    """Any bits; products that the third nearly cancels or barely moves; and the smallest numbers."""
    rng = np.random.default_rng(dtype.digits)
    x, y, z = (all_values(dtype)[rng.integers(0, 65536, COUNT)] for _ in range(3))
    third = COUNT // 3
    with np.errstate(all="ignore"):
        products = x[:third].astype(float) * y[:third].astype(float)
        z[:third] = (-products * 2.0 ** rng.integers(-13, 14, third)).astype(dtype.numpy)
        x[:1000] = 1  # sums and differences near zero
        lowest = math.log2(float(all_values(dtype)[1]))
        for values in (x, y, z):
            digits = rng.integers(1, 2**dtype.digits, third)
            values[third : 2 * third] = (digits * 2.0 ** rng.integers(lowest, lowest / 2, third)).astype(dtype.numpy)
    return [x, y, z]


def pairs_of_special(dtype: Any) -> list[np.ndarray]:
    """Every pair of zeros, ones, the ends of the range, infinities and NaN; the third is each in turn."""
    one = [0.0, 1.0, float(all_values(dtype)[1]), dtype.largest, math.inf]
    special = np.array([*one, *(-v for v in one), math.nan], dtype.numpy)
    return [v.ravel() for v in np.meshgrid(special, special, special, indexing="ij")]


def exactly(dtype: Any, compute: Callable[..., Any], *values: float) -> float:
    """What the operation gives in exact arithmetic, rounded; what has no exact result, and the sign of zero, by f64."""
    with np.errstate(all="ignore"):
        double = float(compute(*map(np.float64, values)))
    if not all(map(math.isfinite, values)) or math.isnan(double):
        return double
    try:
        exact = compute(*map(Fraction, values))
    except ZeroDivisionError:
        return double
    if exact == 0:
        return double
    return rounded(exact, dtype) or math.copysign(0.0, exact)


OPERATIONS: dict[str, Callable[..., Any]] = {
    "a + b": lambda a, b: a + b,
    "a - b": lambda a, b: a - b,
    "a * b": lambda a, b: a * b,
    "a / b": lambda a, b: a / b,
    "a * b + c": lambda a, b, c: a * b + c,
    "c - a * b": lambda a, b, c: c - a * b,
    "fma(-a, b, c)": lambda a, b, c: -a * b + c,
}


def operation(text: str, dtype: Any) -> kaio.Kernel:
    return kernel(f"""
        @kernel
        def k(x: In[{dtype!r}], y: In[{dtype!r}], z: In[{dtype!r}], out: Out[{dtype!r}]):
            i = grid(1)
            if i < x.size:
                a, b, c = x[i], y[i], z[i]
                out[i] = {text}
    """)


@pytest.mark.parametrize("dtype", HALVES, ids=repr)
@pytest.mark.parametrize("text", OPERATIONS)
@pytest.mark.parametrize("inputs", [triples, pairs_of_special])
def test_an_operation_is_rounded_once(device, dtype, text, inputs):
    given = inputs(dtype)
    (got,) = run(operation(text, dtype), given, [dtype], device=device)
    with np.errstate(invalid="ignore"):
        used = given if "c" in text else given[:2]
        rows = zip(*(values.astype(float).tolist() for values in used), strict=True)
    right = same(got, [exactly(dtype, OPERATIONS[text], *row) for row in rows])
    assert right.all(), [[v[~right][:3] for v in given], got[~right][:3]]


UNARY: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "-a": np.negative,
    "abs(a)": np.abs,
    "math.fabs(a)": np.abs,
    "math.sqrt(a)": np.sqrt,
    "math.floor(a)": np.floor,
    "math.ceil(a)": np.ceil,
    "math.trunc(a)": np.trunc,
    "round(a)": np.rint,
    "a ** 2": np.square,
    "a ** 3": lambda x: x**3,
    "1 / a": lambda x: 1 / x,
    "a * 0.5": lambda x: x * 0.5,
    "math.copysign(a, -1.0)": lambda x: -np.abs(x),
}


@pytest.mark.parametrize("dtype", HALVES, ids=repr)
@pytest.mark.parametrize("text", UNARY)
def test_a_function_of_every_value_is_that_of_f32_rounded(device, dtype, text):
    """For these f32 (its own or f64's result as f32) has digits enough that rounding it again is right."""
    made = kernel(f"""
        @kernel
        def k(x: In[{dtype!r}], out: Out[{dtype!r}]):
            i = grid(1)
            if i < x.size:
                a = x[i]
                out[i] = {text}
    """)
    x = all_values(dtype)
    (got,) = run(made, [x], [dtype], device=device)
    with np.errstate(all="ignore"):
        exact = UNARY[text](x.astype(np.float32))
    distinct, places = np.unique(exact, return_inverse=True)
    wanted = np.array([rounded(v, dtype) for v in distinct.tolist()])[places]
    assert same(got, np.where(exact == 0, exact, wanted)).all()


@pytest.mark.parametrize("dtype", HALVES, ids=repr)
def test_predicates_see_every_value(device, dtype):
    made = kernel(f"""
        @kernel
        def k(x: In[{dtype!r}], nan: Out[bool_], inf: Out[bool_], finite: Out[bool_], truth: Out[bool_]):
            i = grid(1)
            if i < x.size:
                a = x[i]
                nan[i], inf[i], finite[i] = math.isnan(a), math.isinf(a), math.isfinite(a)
                truth[i] = not not a
    """)
    x = all_values(dtype)
    got = run(made, [x], [bool_] * 4, device=device)
    with np.errstate(invalid="ignore"):
        exact = x.astype(np.float32)
    for found, wanted in zip(got, (np.isnan(exact), np.isinf(exact), np.isfinite(exact), exact != 0), strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("dtype", HALVES, ids=repr)
def test_the_smaller_and_the_larger_are_those_of_f32(device, dtype):
    body = """
        @kernel
        def k(x: In[{0!r}], y: In[{0!r}], a: Out[{0!r}], b: Out[{0!r}], c: Out[{0!r}], d: Out[{0!r}]):
            i = grid(1)
            if i < x.size:
                a[i], b[i] = min(x[i], y[i]), max(x[i], y[i])
                c[i], d[i] = minimum(x[i], y[i]), maximum(x[i], y[i])
    """
    of_halves, of_f32 = kernel(body.format(dtype)), kernel(body.format(f32))
    for x, y, _ in (triples(dtype), pairs_of_special(dtype)):
        got = run(of_halves, [x, y], [dtype] * 4, device=device)
        with np.errstate(invalid="ignore"):
            wide = [v.astype(np.float32) for v in (x, y)]
        for found, wanted in zip(got, run(of_f32, wide, [f32] * 4), strict=True):
            assert same(found, wanted).all()


# ---------------------------------------------------------------------- what reaches the GPU
BODY = """
    @kernel
    def k(x: InOut[{0!r}], y: In[{0!r}]):
        a, b = x[0], y[0]
        x[1] = a * b + y[1]
        x[2] = a + b
        x[3] = a - b
        x[4] = a * b
        x[5] = -a
        x[6] = abs(b)
        x[7] = min(a, b)
        x[8] = max(a, b)
        x[9] = a / b
        x[10] = a if a < b else y[2]
        x[11] = math.exp(a) + a // b + a % b + a ** b
"""


def instructions(dtype: Any, architecture: str) -> set[str]:
    """The names of the instructions of a kernel that does everything, which also assembles."""
    made = kernel(BODY.format(dtype))
    assert made.compile(architecture).cubin
    lines = (line.split() for line in made.ptx(architecture).splitlines())
    return {words[0] for words in lines if words and "." in words[0]}


@pytest.mark.parametrize("architecture", ["sm_75", "sm_80", "sm_90", "sm_100"])
def test_f16_is_computed_natively_everywhere(architecture):
    found = instructions(f16, architecture)
    assert found >= {"fma.rn.f16", "add.rn.f16", "sub.rn.f16", "mul.rn.f16", "neg.f16", "abs.f16"}
    assert any(name.startswith("setp.") and name.endswith(".f16") for name in found)
    assert ({"min.f16", "max.f16"} <= found) == (architecture != "sm_75")


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90", "sm_100"])
def test_bf16_is_computed_natively_from_sm_80_on(architecture):
    found = instructions(bf16, architecture)
    assert found >= {"fma.rn.bf16", "neg.bf16", "abs.bf16", "min.bf16", "max.bf16"}
    native = {"add.rn.bf16", "sub.rn.bf16", "mul.rn.bf16"}
    assert native <= found if architecture != "sm_80" else not native & found


def test_bf16_before_sm_80_goes_through_f32():
    found = instructions(bf16, "sm_75")
    assert not [name for name in found if "bf16" in name]
    assert found >= {"fma.rm.f32", "fma.rp.f32"}


@pytest.mark.parametrize("dtype", HALVES, ids=repr)
def test_no_operation_takes_f64(dtype):
    for architecture in ("sm_75", "sm_90"):
        body = BODY.format(dtype).replace("math.exp(a) + a // b + a % b + a ** b", "a")  # libdevice has tables in f64
        assert "f64" not in kernel(body).ptx(architecture)


@pytest.mark.gpu
@pytest.mark.parametrize("architecture", ["sm_75", "sm_80"])
@pytest.mark.parametrize("text", OPERATIONS)
def test_what_stands_in_for_bf16_on_older_gpus_gives_the_same_bits(monkeypatch, architecture, text):
    """The instructions of an older architecture, run on this one."""
    older = int(architecture[3:])
    monkeypatch.setattr(CudaTarget, "has", lambda self, since: int(re.sub(r"\D", "", since)) <= older)
    made = operation(text, bf16)
    for inputs in (triples(bf16), pairs_of_special(bf16)):
        (cpu,), (gpu,) = (run(made, inputs, [bf16], device=kaio.Device(d)) for d in ("cpu", "cuda:0"))
        assert same(gpu, cpu).all()


def test_a_product_fuses_only_where_contraction_is_on():
    text = "def k(x: InOut[f16]):\n    x[0] = x[1] * x[2] + x[3]\n"
    assert "fma.rn.f16" in kernel(f"@kernel\n{text}").ptx("sm_90")
    apart = kernel(f"@kernel(contract=False)\n{text}").ptx("sm_90")
    assert "fma.rn.f16" not in apart
    assert "mul.rn.f16" in apart
    assert "add.rn.f16" in apart


def test_a_literal_is_one_of_the_type():
    text = kernel("@kernel\ndef k(x: InOut[f16]):\n    x[0] = x[1] * 0.1\n").ptx("sm_90")
    assert f"{int(np.float16(0.1).view(np.uint16))}" in text
    assert "cvt" not in text


@pytest.mark.parametrize("dtype", HALVES, ids=repr)
def test_a_loop_counts_in_f32_from_a_literal_and_in_16_bits_from_a_cast(dtype):
    made = kernel(f"""
        @kernel
        def k(x: In[{dtype!r}], wide: Out[f32], narrow: Out[{dtype!r}]):
            total, kept = 0.0, {dtype!r}(0)
            for i in range(x.size):
                total += x[i]
                kept += x[i]
            wide[0], narrow[0] = total, kept
    """)
    x = np.ones(4096, dtype.numpy)
    cpu = kaio.Device("cpu")
    wide, narrow = cpu.alloc_zeros(1, f32), cpu.alloc_zeros(1, dtype)
    made.grid(1).block(1).launch(cpu.alloc_from(x), wide, narrow).wait()
    assert wide.to_host()[0] == 4096
    assert float(narrow.to_host()[0]) == 2.0**dtype.digits  # one more is a tie, and goes back


@pytest.mark.parametrize("dtype", HALVES, ids=repr)
def test_a_literal_on_its_way_to_f32_is_converted_when_compiling(dtype):
    text = kernel(f"@kernel\ndef k(x: InOut[{dtype!r}]):\n    x[0] = math.fmod(x[1], 0.5) / 3.0\n").ptx("sm_90")
    assert "0f3F000000" in text  # 0.5
    assert "0f40400000" in text  # 3.0
