"""The bits of integers, against Python's integers of any size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kaio import i32, u32
from tests.dsl.from_text import elementwise, kernel, message, run
from tests.dsl.rule_types import INTEGERS


def corners(dtype: Any) -> np.ndarray:
    low, high = dtype.range
    rng = np.random.default_rng(1)
    drawn = rng.integers(low, high, 40, dtype.numpy, endpoint=True).tolist()
    return np.array([0, 1, 2, 3, 7, low, low + 1, high, high - 1, high // 2, 1 << dtype.bits - 2, *drawn], dtype.numpy)


def unsigned(value: int, bits: int) -> int:
    return value & (1 << bits) - 1


def signed(value: int, dtype: Any) -> int:
    """The number of that type with these bits."""
    value = unsigned(value, dtype.bits)
    return value - (1 << dtype.bits) if dtype.kind == "i" and value >> dtype.bits - 1 else value


def call(device: Any, text: str, dtype: Any, *columns: np.ndarray, result: Any = None) -> list[int]:
    """An expression of a[i], b[i] and c[i] for every row."""
    (got,) = run(elementwise(text, dtype, len(columns), result), columns, [result or dtype], device=device)
    return got.tolist()


@pytest.mark.parametrize("dtype", INTEGERS, ids=repr)
def test_counts_of_bits_are_in_the_width_of_the_type(device, dtype):
    xs, bits = corners(dtype), dtype.bits
    words = [unsigned(x, bits) for x in xs.tolist()]
    assert call(device, "popc(a[i])", dtype, xs, result=i32) == [word.bit_count() for word in words]
    assert call(device, "clz(a[i])", dtype, xs, result=i32) == [bits - word.bit_length() for word in words]
    assert call(device, "ffs(a[i])", dtype, xs, result=i32) == [(word & -word).bit_length() for word in words]


@pytest.mark.parametrize("dtype", INTEGERS, ids=repr)
def test_brev_reverses_within_the_type(device, dtype):
    xs = corners(dtype)
    wanted = [signed(int(f"{unsigned(x, dtype.bits):0{dtype.bits}b}"[::-1], 2), dtype) for x in xs.tolist()]
    assert call(device, "brev(a[i])", dtype, xs) == wanted


@pytest.mark.parametrize("dtype", INTEGERS, ids=repr)
def test_funnel_shifts_take_the_amount_modulo_the_width_or_clamp_it(device, dtype):
    xs, bits = corners(dtype), dtype.bits
    low, high, by = np.repeat(xs, 2), np.resize(xs[::-1], 2 * xs.size), np.arange(2 * xs.size).astype(dtype.numpy)
    rows = [(unsigned(h, bits) << bits | unsigned(w, bits), unsigned(s, bits)) for w, h, s in zip(
        low.tolist(), high.tolist(), by.tolist(), strict=True)]  # fmt: skip
    for name, amount in (("", lambda s: s % bits), ("c", lambda s: min(s, bits))):
        left = [signed(pair << amount(s) >> bits, dtype) for pair, s in rows]
        right = [signed(pair >> amount(s), dtype) for pair, s in rows]
        assert call(device, f"funnelshift_l{name}(a[i], b[i], c[i])", dtype, low, high, by) == left
        assert call(device, f"funnelshift_r{name}(a[i], b[i], c[i])", dtype, low, high, by) == right


def permuted(x: int, y: int, selector: int) -> int:
    data = unsigned(x, 32).to_bytes(4, "little") + unsigned(y, 32).to_bytes(4, "little")
    digits = [selector >> 4 * k & 15 for k in range(4)]
    return int.from_bytes(bytes(data[d & 7] if d < 8 else 255 * (data[d & 7] >> 7) for d in digits), "little")


@pytest.mark.parametrize("dtype", [i32, u32], ids=repr)
def test_byte_perm_picks_bytes_and_copies_signs(device, dtype):
    rng = np.random.default_rng(2)
    x, y, selector = (rng.integers(0, 2**32, 300, np.uint32).view(dtype.numpy) for _ in range(3))
    wanted = [
        signed(permuted(*row), dtype) for row in zip(x.tolist(), y.tolist(), selector.view("u4").tolist(), strict=True)
    ]
    assert call(device, "byte_perm(a[i], b[i], c[i])", dtype, x, y, selector) == wanted


@pytest.mark.parametrize(
    ("body", "what", "help_text"),
    [
        ("n[0] = popc(x[0])", "`popc` of f32; it takes integers", "cast it, for example `kaio.i32(...)`"),
        ("n[0] = clz(x[0] > 0)", "`clz` of a bool", "cast it, for example `kaio.i32(...)`"),
        (
            "n[0] = i32(byte_perm(i64(n[0]), n[0], 0))",
            "`byte_perm` of i64; it takes i32 and u32",
            "cast it, for example `kaio.u32(...)`",
        ),
    ],
)
def test_other_types_are_refused(body, what, help_text):
    text = message(f"@kernel\ndef k(x: In[f32], n: InOut[i32]):\n    {body}\n").splitlines()
    assert (text[0], text[-1]) == (what, f"  help: {help_text}")


@pytest.mark.parametrize("architecture", ["sm_75", "sm_90"])
def test_every_function_of_bits_links(architecture):
    body = [f"brev(n[{k}]) + clz(n[{k}]) + popc(n[{k}]) + ffs(n[{k}])" for k in range(2)]
    body += ["byte_perm(n[0], n[1], n[2])", *(f"funnelshift_{way}(n[0], n[1], n[2])" for way in ("l", "lc", "r", "rc"))]
    for dtype in (i32, u32):
        lines = "".join(f"    n[{k}] = {dtype!r}({text})\n" for k, text in enumerate(body))
        assert kernel(f"@kernel\ndef k(n: InOut[{dtype!r}]):\n{lines}").compile(architecture).cubin
