"""Arithmetic rounded as its name says, against exact fractions."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

from kaio import f32, f64
from tests.dsl.from_text import kernel, kernel_of, message, run

INF, NAN = math.inf, math.nan
MODES = ("rn", "rz", "ru", "rd")
FORMS = {f32: (24, -149), f64: (53, -1074)}

EXACT: dict[str, Callable[..., Any]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "fma": lambda x, y, z: x * y + z,
    "rcp": lambda x: 1 / x,
}
PLAIN = {**EXACT, "sqrt": np.sqrt}  # of the floats of NumPy, which rounds to the nearest
COUNTS = {operation: {"fma": 3, "rcp": 1, "sqrt": 1}.get(operation, 2) for operation in PLAIN}


def truncated_root(x: Fraction) -> tuple[Fraction, bool]:
    """A number at or below the root, far nearer to it than any float, and whether it is the root."""
    scale = 4**1200
    root = math.isqrt(int(x * scale))
    return Fraction(root, 2**1200), root * root == x * scale


def round_to(exact: Fraction, mode: str, dtype: Any, above: bool = False) -> float:
    """A non-zero fraction as a float of that type; `above`: the number is a little larger."""
    precision, lowest = FORMS[dtype]
    size = abs(exact)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= Fraction(2) ** exponent > size
    unit = Fraction(2) ** max(exponent - precision + 1, lowest)
    whole, rest = divmod(size, unit)
    inexact = rest != 0 or above
    away = {
        "rz": False,
        "ru": exact > 0,
        "rd": exact < 0,
        "rn": rest * 2 > unit or (rest * 2 == unit and (above or whole % 2 == 1)),
    }[mode]
    value = (whole + (1 if inexact and away else 0)) * unit
    largest = Fraction(float(np.finfo(dtype.numpy).max))
    if value > largest:
        value_of = INF if (away or mode == "rn") else float(largest)
    else:
        value_of = float(value)
    return -value_of if exact < 0 else value_of


def wanted(operation: str, mode: str, dtype: Any, args: tuple[float, ...]) -> float:
    """What an operation gives; NumPy's where it is special."""
    with np.errstate(all="ignore"):
        plain = float(PLAIN[operation](*(dtype.numpy.type(a) for a in args)))
    divisor = {"div": args[-1], "rcp": args[0]}.get(operation, 1.0)
    if not all(map(math.isfinite, args)) or divisor == 0 or math.isnan(plain):
        return plain
    if operation == "sqrt":
        if args[0] <= 0:
            return plain
        root, is_exact = truncated_root(Fraction(args[0]))
        return round_to(root, mode, dtype, above=not is_exact)
    exact = EXACT[operation](*map(Fraction, args))
    if exact != 0:
        return round_to(exact, mode, dtype)
    if operation in ("add", "sub", "fma"):
        negatives = [math.copysign(1, a) < 0 for a in args]
        last = negatives[-1] ^ (operation == "sub")
        first = negatives[0] ^ negatives[1] if operation == "fma" else negatives[0]
        return -0.0 if (first and last) or (first != last and mode == "rd") else 0.0
    return plain


def inputs(operation: str, dtype: Any) -> list[np.ndarray]:
    """Edges in all combinations, random numbers of all binades, and of near ones, which cancel."""
    info = np.finfo(dtype.numpy)
    count = COUNTS[operation]
    tiny, least, most = float(info.tiny), float(info.smallest_subnormal), float(info.max)
    edges = [0.0, -0.0, 1.0, -1.0, 1.5, 3.0, least, -least, tiny, -tiny, tiny - least, most, -most, INF, -INF, NAN]
    edges += [float(np.nextafter(dtype.numpy.type(1), dtype.numpy.type(2))), 1 / 3, 2.0 ** (FORMS[dtype][0] - 1) + 1]
    rng = np.random.default_rng(3)
    rows = [*product(edges[:12] if count == 3 else edges, repeat=count)]
    wild = rng.integers(0, 2**64 - 1, (600, count), np.uint64).astype(f"u{dtype.bits // 8}").view(dtype.numpy)
    near = rng.uniform(-2, 2, (600, count)).astype(dtype.numpy)
    near[:200, -1] = -near[:200, 0] * (near[:200, 1] if count == 3 else 1) if count > 1 else near[:200, -1]
    columns = np.concatenate([np.array(rows, dtype.numpy), wild, near]).T
    return [np.ascontiguousarray(column) for column in columns]


@pytest.mark.parametrize("dtype", [f32, f64], ids=repr)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("operation", PLAIN)
def test_an_operation_rounds_as_its_name_says(device, operation, mode, dtype):
    xs = inputs(operation, dtype)
    (got,) = run(kernel_of(f"{operation}_{mode}", dtype, len(xs)), xs, [dtype], device=device)
    right = np.array([wanted(operation, mode, dtype, args) for args in zip(*(x.tolist() for x in xs), strict=True)])
    bits = f"u{dtype.bits // 8}"
    same = (got.view(bits) == right.astype(dtype.numpy).view(bits)) | (np.isnan(got) & np.isnan(right))
    wrong = np.flatnonzero(~same)
    shown = [([float(x[k]) for x in xs], float(got[k]).hex(), float(right[k]).hex()) for k in wrong[:6]]
    assert not shown, (len(wrong), shown)


def test_a_rounded_product_is_never_fused():
    made = kernel("@kernel\ndef k(x: InOut[f32]):\n    x[0] = add_rn(x[0] * x[1], x[2]) + mul_rd(x[0], x[1])\n")
    text = made.ptx("sm_75")
    assert "fma" not in text
    assert "mul.rm.f32" in text


def test_an_interval_encloses_what_it_should(device):
    made = kernel("""
        @kernel
        def k(low: Out[f32], high: Out[f32], n: i32):
            low[0], high[0] = f32(0), f32(0)
            for k in range(n):
                low[0], high[0] = add_rd(low[0], 0.1), add_ru(high[0], 0.1)
    """)
    low, high = device.alloc_zeros(1, f32), device.alloc_zeros(1, f32)
    made.grid(1).block(1).launch(low, high, 1000).wait()
    exact = 1000 * Fraction(float(np.float32(0.1)))
    assert low.to_host()[0] < exact < high.to_host()[0]


@pytest.mark.parametrize("dtype", [f32, f64], ids=repr)
@pytest.mark.parametrize("architecture", ["sm_75", "sm_90"])
def test_every_operation_links(architecture, dtype):
    args = ["x[0]", "x[1]", "x[2]"]
    calls = [f"{name}_{mode}({', '.join(args[:count])})" for name, count in COUNTS.items() for mode in MODES]
    body = "".join(f"    x[{k}] = {call}\n" for k, call in enumerate(calls, 3))
    assert kernel(f"@kernel\ndef k(x: InOut[{dtype!r}]):\n{body}").compile(architecture).cubin


def test_integers_are_f32_and_bools_are_refused():
    assert "cvt.rn.f32.s32" in kernel("@kernel\ndef k(n: i32, o: Out[f32]):\n    o[0] = rcp_rd(n)\n").ptx("sm_90")
    text = message("@kernel\ndef k(c: bool_, o: Out[f32]):\n    o[0] = add_rd(c, c)\n")
    assert text.splitlines()[0] == "`add_rd` of a bool"
