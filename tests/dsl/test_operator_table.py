"""Every operator for every pair of dtypes on the CPU device, against exact Python arithmetic and NumPy.

The reference is written from the documented rules alone and shares nothing with `kaio.dsl.rules`.
"""

from __future__ import annotations

import linecache
import math
import operator
import warnings
from fractions import Fraction
from itertools import product

import ml_dtypes
import numpy as np
import pytest

import kaio
from kaio import bf16, f16, f32, f64
from tests.dsl.rule_types import NUMBERS
from tests.narrow import NARROW, STORAGE, rounded

COMPUTED = (kaio.bool_, *NUMBERS)
DTYPES = (*COMPUTED, *STORAGE)
ARITHMETIC, BITWISE, SHIFTS = ("+", "-", "*", "/", "//", "%", "**"), ("&", "|", "^"), ("<<", ">>")
COMPARISONS = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def common(a, b):
    """The documented common type, or None where there is none."""
    if a in STORAGE or b in STORAGE:
        return None
    if {a, b} == {f16, bf16}:
        return f32
    if kaio.bool_ in (a, b):
        return b if a is kaio.bool_ else a
    floats = [d for d in (a, b) if d.is_float]
    if floats:
        return max(floats, key=lambda d: d.bits)
    merged = np.promote_types(a.numpy, b.numpy)
    return None if merged.kind == "f" else kaio.dtypes.dtype_of(merged)


def result_type(op, a, b):
    if a in STORAGE or b in STORAGE:
        return None
    if op in COMPARISONS:
        return kaio.bool_
    if op in SHIFTS:
        return a if a.is_int and b.is_int else None
    merged = common(a, b)
    if merged is None or (op in BITWISE and merged.is_float) or (op in ARITHMETIC and merged is kaio.bool_):
        return None
    return f32 if op == "/" and merged.is_int else merged


def wrap(value, dtype):
    value &= (1 << dtype.bits) - 1
    return value - (1 << dtype.bits) if dtype.kind == "i" and value >> dtype.bits - 1 else value


def integer(op, x, y, dtype):
    if op == "//":
        return wrap(x // y, dtype) if y else 0
    if op == "%":
        return wrap(x % y, dtype) if y else 0
    if op == "**":
        return wrap(pow(x, y, 1 << dtype.bits), dtype) if y >= 0 else 0
    if op in SHIFTS:
        if not 0 <= y < dtype.bits:
            return -1 if op == ">>" and x < 0 else 0
        return wrap(x << y, dtype) if op == "<<" else x >> y
    return wrap(
        {
            "+": operator.add,
            "-": operator.sub,
            "*": operator.mul,
            "&": operator.and_,
            "|": operator.or_,
            "^": operator.xor,
        }[op](x, y),
        dtype,
    )


def floating(op, x, y, dtype):
    """Each operation of a narrow float is rounded once; `//` and `%` are those of f32, rounded."""
    if dtype in NARROW:
        xs, ys = ([rounded(value, dtype) for value in np.ravel(v).tolist()] for v in (x, y))
        return np.array([rounded(narrow(op, p, q), dtype) for p, q in zip(xs, ys, strict=True)]).reshape(np.shape(x))
    x, y = np.asarray(x).astype(dtype.numpy), np.asarray(y).astype(dtype.numpy)
    with np.errstate(all="ignore"):
        return {
            "+": np.add,
            "-": np.subtract,
            "*": np.multiply,
            "/": np.divide,
            "//": np.floor_divide,
            "%": np.remainder,
        }[op](x, y)


def narrow(op, x, y):
    """The exact result of two numbers, or f32's where there is none or none is meant."""
    if op in ("//", "%"):
        return float(floating(op, x, y, f32))
    with np.errstate(all="ignore"):
        double = float(floating(op, x, y, f64))
    if not math.isfinite(x) or not math.isfinite(y) or (op == "/" and y == 0) or double == 0:
        return double
    return {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}[op](
        Fraction(x), Fraction(y)
    )


def compared(op, x, y):
    if any(isinstance(v, float) and math.isnan(v) for v in (x, y)):
        return op == "!="
    if any(isinstance(v, float) and math.isinf(v) for v in (x, y)):
        return COMPARISONS[op](x, y)
    return COMPARISONS[op](Fraction(x), Fraction(y))


def values(dtype):
    rng = np.random.default_rng(dtype.bits)
    if dtype.is_float:
        tiny, huge = ml_dtypes.finfo(dtype.numpy).tiny, dtype.largest
        edges = [
            0.0,
            -0.0,
            1.0,
            -1.0,
            0.5,
            -2.5,
            3.0,
            math.inf,
            -math.inf,
            math.nan,
            tiny / 4,
            huge,
            2.0**31,
            -(2.0**31),
            2.0**63,
            2.0**64,
            16777217.0,
            2.0**53,
        ]
        with np.errstate(over="ignore"):
            return np.array([*edges, *rng.normal(0, 100, 4)], dtype.numpy)
    low, high = dtype.range
    if dtype is kaio.bool_:
        return np.array([False, True])
    edges = {
        low,
        low + 1,
        0,
        1,
        2,
        3,
        7,
        8,
        31,
        32,
        63,
        64,
        high - 1,
        high,
        high // 2,
        *(v for v in (-1, -2, -7) if low <= v),
        *(v for v in (2**24 + 1, 2**53 + 1, 2**60, 2**63 - 1) if v <= high),
    }
    return np.array(sorted(edges), dtype.numpy)


def build(source, name, **names):
    """A kernel from text, as a notebook would have it."""
    file = f"<{name}>"
    linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file
    space = {"kaio": kaio, **{repr(d): d for d in DTYPES}, "In": kaio.In, "Out": kaio.Out, **names}
    exec(compile(source, file, "exec"), space)
    return space["k"]


def launch(source, name, inputs, result_types, check="off"):
    device = kaio.Device("cpu")
    count = len(inputs[0])
    buffers = [device.alloc_from(x) for x in inputs]
    outputs = [device.alloc_zeros(count, dtype) for dtype in result_types]
    build(source, name).over(count).options(check=check).launch(*buffers, *outputs).wait()
    return [out.to_host() for out in outputs]


@pytest.mark.parametrize(("a", "b"), list(product(COMPUTED, COMPUTED)), ids=lambda d: d.name)
def test_every_operator_gives_the_documented_value(a, b):
    ops = [op for op in (*ARITHMETIC, *BITWISE, *SHIFTS, *COMPARISONS) if result_type(op, a, b) is not None]
    ops = [
        op for op in ops if not (op == "**" and result_type(op, a, b).is_float)
    ]  # libdevice's pow has a test of its own
    types = [result_type(op, a, b) for op in ops]
    params = "".join(f", o{k}: Out[{t!r}]" for k, t in enumerate(types))
    body = "".join(f"        o{k}[i] = a[i] {op} b[i]\n" for k, op in enumerate(ops))
    guard = "    i = kaio.grid(1)\n    if i < a.size:\n"
    source = f"@kaio.kernel(contract=False)\ndef k(a: In[{a!r}], b: In[{b!r}]{params}):\n{guard}{body}"
    x, y = (v.ravel() for v in np.meshgrid(values(a), values(b), indexing="ij"))
    results = launch(source, f"{a.name}-{b.name}", (x, y), types)
    for op, type_, got in zip(ops, types, results, strict=True):
        xs, ys = x.tolist(), y.tolist()
        if op in COMPARISONS:
            want = np.array([compared(op, p, q) for p, q in zip(xs, ys, strict=True)])
        elif type_.is_float:
            want = floating(op, x, y, type_)
        else:
            want = np.array([integer(op, int(p), int(q), type_) for p, q in zip(xs, ys, strict=True)], object).astype(
                type_.numpy
            )
        same = (got == want) & (np.signbit(got) == np.signbit(want)) if type_.is_float else got == want
        if type_.is_float:
            same |= np.isnan(got) & np.isnan(want)
        wrong = [
            f"{p!r} {op} {q!r} = {w!r}, not {g!r}"
            for p, q, g, w, s in zip(xs, ys, got.tolist(), want.tolist(), same, strict=True)
            if not s
        ]
        assert not wrong, wrong[:5]


REFUSED = [
    (op, a, b)
    for op, a, b in product((*ARITHMETIC, *BITWISE, *SHIFTS, *COMPARISONS), DTYPES, DTYPES)
    if result_type(op, a, b) is None
]


@pytest.mark.parametrize(("op", "a", "b"), REFUSED, ids=lambda d: d if isinstance(d, str) else d.name)
def test_an_operator_without_a_meaning_is_refused_with_a_place(op, a, b):
    source = f"@kaio.kernel\ndef k(a: In[{a!r}], b: In[{b!r}], out: Out[f64]):\n    out[0] = f64(a[0] {op} b[0])\n"
    with pytest.raises(kaio.KernelTypeError) as caught:
        build(source, "refused").ptx()
    assert f"a[0] {op} b[0]" in str(caught.value)
    assert "^" * len(f"a[0] {op} b[0]") in str(caught.value)


def converted(value, source, target):
    """float to int as PTX cvt, int to narrower int wraps, everything else as NumPy."""
    if target is kaio.bool_:
        return bool(value != 0)
    if target.is_int:
        if not source.is_float:
            return wrap(int(value), target)
        low, high = target.range
        if math.isnan(value):
            return 0 if source is not f64 and target.bits <= 32 else wrap(1 << target.bits - 1, target)
        return high if value >= high else low if value <= low else math.trunc(value)
    if target is source:
        return value
    if target in NARROW:
        return rounded(value, target)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        return np.asarray(value, source.numpy).astype(target.numpy).item()


@pytest.mark.parametrize("source_type", DTYPES, ids=lambda d: d.name)
def test_every_cast_gives_the_documented_value(source_type):
    params = "".join(f", o{k}: Out[{t!r}]" for k, t in enumerate(DTYPES))
    body = "".join(f"        o{k}[i] = {t!r}(x[i])\n" for k, t in enumerate(DTYPES))
    source = f"@kaio.kernel\ndef k(x: In[{source_type!r}]{params}):\n    i = kaio.grid(1)\n    if i < x.size:\n{body}"
    x = values(source_type)
    for target, got in zip(DTYPES, launch(source, f"cast-{source_type.name}", (x,), DTYPES), strict=True):
        want = [converted(v, source_type, target) for v in x.tolist()]
        pairs = list(zip(x.tolist(), got.tolist(), want, strict=True))
        assert [p for p in pairs if p[1] != p[2] and not (p[1] != p[1] and p[2] != p[2])] == []
