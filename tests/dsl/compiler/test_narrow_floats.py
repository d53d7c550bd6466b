"""Conversions to and from floats of 16 and 8 bits, at every edge, against a search through all values of the type."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import kaio
from kaio import bf16, bool_, f8e4m3, f8e5m2, f16, f32, f64, i32, i64, u32
from kaio.dsl.compiler.cuda.emit_ptx import CudaTarget
from kaio.dsl.compiler.host import native
from kaio.runtime.conversion import convert_array
from tests.dsl.from_text import kernel, run
from tests.dsl.rule_types import INTEGERS
from tests.narrow import NARROW, STORAGE, all_values, edges, rounded, same


def converted(source: Any, target: Any, x: np.ndarray, device: kaio.Device) -> np.ndarray:
    made = kernel(f"""
        @kernel
        def k(x: In[{source!r}], out: Out[{target!r}]):
            i = grid(1)
            if i < x.size:
                out[i] = {target!r}(x[i])
    """)
    return run(made, [x], [target], device=device)[0]


def sources(source: Any, target: Any) -> np.ndarray:
    """Numbers of the source around every value of the target, and anything."""
    rng = np.random.default_rng(target.bits)
    if source.is_float:
        anything = rng.integers(0, 2**source.bits - 1, 3000, np.uint64).astype(f"u{source.itemsize}")
        with np.errstate(all="ignore"):
            near = edges(target).astype(source.numpy)
        near = near[:: max(1, len(near) // 20_000)]
        down, up = (np.nextafter(near, source.numpy.type(end)) for end in (-np.inf, np.inf))
        return np.concatenate([near, down, up, anything.view(source.numpy)])
    halfway = (rng.integers(64, 512, 4000) * 2 + 1) << rng.integers(0, 53, 4000)
    wide = np.concatenate([halfway - 1, halfway, halfway + 1, -halfway, [65519, 65520, 65521, 0, 2**63 - 1, -(2**63)]])
    return (wide >> rng.integers(0, 65 - source.bits, wide.size)).astype(source.numpy)


def wanted(x: np.ndarray, target: Any) -> np.ndarray:
    distinct, places = np.unique(x, return_inverse=True)
    found = np.array([rounded(value, target) for value in distinct.tolist()])[places]
    return np.where(x == 0, x, found) if x.dtype.kind == "f" else found


@pytest.mark.parametrize("target", NARROW, ids=repr)
@pytest.mark.parametrize("source", [f32, f64, *INTEGERS], ids=repr)
def test_a_conversion_to_a_narrow_float_rounds_once(device, source, target):
    x = sources(source, target)
    assert same(converted(source, target, x, device), wanted(x, target)).all()


@pytest.mark.parametrize("source", NARROW, ids=repr)
def test_every_narrow_float_becomes_every_type_as_its_value_does(device, source):
    x = all_values(source)
    exact = convert_array(x, f32)
    for target in (*INTEGERS, bool_, *NARROW, f32, f64):
        got = converted(source, target, x, device)
        if target.is_float and target is not source:
            with np.errstate(invalid="ignore"):
                values = exact.astype(float)
            assert same(got, values if target in (f32, f64) else wanted(values, target)).all(), target
        elif target.is_float:
            assert same(got, x).all()
        else:
            np.testing.assert_array_equal(got, convert_array(exact, target), str(target))


@pytest.mark.parametrize("target", NARROW, ids=repr)
def test_a_processor_without_conversions_of_halves_does_them_on_the_bits(monkeypatch, target):
    monkeypatch.setattr(native, "converts_halves", lambda: False)
    cpu = kaio.Device("cpu")
    x = sources(f32, target)
    assert same(converted(f32, target, x, cpu), wanted(x, target)).all()
    assert same(converted(target, f32, all_values(target), cpu), all_values(target)).all()


@pytest.mark.gpu
@pytest.mark.parametrize("architecture", ["sm_75", "sm_80"])
@pytest.mark.parametrize("dtype", NARROW, ids=repr)
def test_what_stands_in_for_conversions_on_older_gpus_gives_the_same(monkeypatch, architecture, dtype):
    """The instructions of an older architecture, run on this one."""
    older, gpu = int(architecture[3:]), kaio.Device("cuda:0")
    monkeypatch.setattr(CudaTarget, "has", lambda self, since: int(re.sub(r"\D", "", since)) <= older)
    for source in (f32, f64, i32, i64):
        x = sources(source, dtype)
        assert same(converted(source, dtype, x, gpu), wanted(x, dtype)).all()
    assert same(converted(dtype, f32, all_values(dtype), gpu), all_values(dtype)).all()


@pytest.mark.parametrize("dtype", STORAGE, ids=repr)
def test_what_is_beyond_8_bits_becomes_the_largest_and_nan_stays(device, dtype):
    x = np.array([1e6, -1e6, np.inf, -np.inf, np.nan], np.float32)
    got = converted(f32, dtype, x, device).astype(float)
    np.testing.assert_array_equal(got, [dtype.largest, -dtype.largest, dtype.largest, -dtype.largest, np.nan])


@pytest.mark.parametrize(
    ("source", "target", "architecture", "instruction"),
    [
        (f16, f32, "sm_75", "cvt.f32.f16"),
        (f32, f16, "sm_75", "cvt.rn.f16.f32"),
        (f64, f16, "sm_75", "cvt.rn.f16.f64"),
        (i64, f16, "sm_75", "cvt.rn.f16.s64"),
        (u32, f16, "sm_75", "cvt.rn.f16.u32"),
        (f32, bf16, "sm_80", "cvt.rn.bf16.f32"),
        (f64, bf16, "sm_80", "cvt.rz.f32.f64"),
        (i32, bf16, "sm_80", "cvt.rz.f32.s32"),
        (f32, f8e4m3, "sm_89", "cvt.rn.satfinite.e4m3x2.f32"),
        (f32, f8e5m2, "sm_89", "cvt.rn.satfinite.e5m2x2.f32"),
        (f8e4m3, f32, "sm_89", "cvt.rn.f16x2.e4m3x2"),
        (f8e5m2, f32, "sm_75", "cvt.f32.f16"),
    ],
)
def test_a_conversion_is_the_instruction_of_the_gpu(source, target, architecture, instruction):
    made = kernel(f"@kernel\ndef k(x: In[{source!r}], out: Out[{target!r}]):\n    out[0] = {target!r}(x[0])\n")
    assert instruction in made.ptx(architecture)
    assert made.compile(architecture).cubin


@pytest.mark.parametrize("architecture", ["sm_75", "sm_80", "sm_89", "sm_90", "sm_100"])
def test_every_conversion_assembles_for_every_architecture(architecture):
    types = (*NARROW, f32, f64, *INTEGERS, bool_)
    params = ", ".join(f"p_{t.__name__}: InOut[{t!r}]" for t in types)
    lines = [
        f"    p_{t.__name__}[{k}] = {t!r}(p_{s.__name__}[0])"
        for t in types
        for k, s in enumerate(types, 1)
        if t in NARROW or s in NARROW
    ]
    assert kernel(f"@kernel\ndef k({params}):\n" + "\n".join(lines) + "\n").compile(architecture).cubin


@pytest.mark.parametrize(
    "value",
    [
        "f16(n)", "f16(f32(n))", "f16(f64(n))", "f16(u64(n))", "f16(-f32(-n))", "f16(abs(f32(n)))",
        "f16(f32(n) / f32(1))",
        "f16(n // 2) + f16(n // 2)", "f16(n // 2) * f16(2)", "f16(f32(n // 2) + f32(n // 2))", "f16x2(n, 1).x",
        "f16(f32(n) if i < 9 else f32(0))", "f16(math.floor(f32(n)))", "f16(max(f32(n), f32(0)))",
    ],
)  # fmt: skip
def test_an_integer_beyond_f16_stays_infinity_when_it_is_widened(value, device):
    """Its lowest bits are known to be 0, which LLVM takes for exact in `half`."""
    made = kernel(f"""
        @kernel
        def k(x: In[i32], out: Out[f32]):
            i = grid(1)
            if i < x.size:
                n = (x[i] & 1023) << 7
                out[i] = 1 / ({value})
    """)
    x = np.array([1023, 512, 511, 3], np.int32)
    assert run(made, [x], [f32], device=device)[0].tolist() == [0, 0, np.float16(1 / 65408), np.float16(1 / 384)]


@pytest.mark.parametrize("memory", ["out", "shared_mem(32, f32)", "local_mem(32, f32)"])
def test_an_integer_beyond_f16_stays_infinity_by_way_of_memory(memory, device):
    made = kernel(f"""
        @kernel
        def k(x: In[i32], out: InOut[f32]):
            i = grid(1)
            kept = {memory}
            if i < x.size:
                kept[i] = (x[i] & 1023) << 7
                out[i] = f16(kept[i])
    """)
    assert run(made, [np.array([1023, 3], np.int32)], [f32], device=device)[0].tolist() == [np.inf, 384]
