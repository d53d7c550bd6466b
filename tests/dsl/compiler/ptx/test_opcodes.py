"""Instructions do what the PTX ISA says, on words at random and at the ends; what it says is written in Python."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kaio
from kaio.dsl.compiler.ptx.opcodes import find
from tests.dsl.from_text import kernel

DEVICE = kaio.Device("cpu", route="ptx")
ENDS = [0, 1, 2, 31, 32, 33, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF]
COUNT = 200

Reference = Callable[..., Any]


def words(bits: int, seed: int) -> np.ndarray:
    """Words at random, small ones, and the ends of the ranges."""
    rng = np.random.default_rng(seed)
    found = (
        rng.integers(0, 1 << bits, COUNT, np.uint64, endpoint=False)
        if bits < 64
        else rng.integers(0, (1 << 64) - 1, COUNT, np.uint64, endpoint=True)
    )
    found[: len(ENDS)] = rng.permutation(ENDS)
    found[len(ENDS) : 2 * len(ENDS)] = rng.integers(0, 70, len(ENDS))
    return found.astype(f"u{bits // 8}")


def signed(value: int, bits: int = 32) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value


def clamped(value: int, low: int, high: int) -> int:
    return max(low, min(high, value))


def extracted(a: int, b: int, c: int, bits: int, is_signed: bool) -> int:
    """The pseudocode of `bfe`."""
    start, count, last = b & 255, c & 255, bits - 1
    sign = a >> min(start + count - 1, last) & 1 if is_signed and count else 0
    return sum((a >> start + k & 1 if k < count and start + k <= last else sign) << k for k in range(bits))


def inserted(a: int, b: int, c: int, d: int) -> int:
    """The pseudocode of `bfi`."""
    start, count = c & 255, d & 255
    for k in range(count):
        if start + k < 32:
            b = b & ~(1 << start + k) | (a >> k & 1) << start + k
    return b


def leading(a: int, is_signed: bool, is_shift: bool) -> int:
    """The pseudocode of `bfind`."""
    if is_signed and a >> 31:
        a ^= 0xFFFFFFFF
    if a == 0:
        return -1
    return 32 - a.bit_length() if is_shift else a.bit_length() - 1


def divided(a: int, b: int) -> int:
    return -1 if b == 0 else int(abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1)


def moved(a: int, b: int, bits: int = 32) -> int:
    return 0 if b >= bits else a << b


INTEGERS: dict[str, Reference] = {
    "add.s32": lambda a, b, c: a + b,
    "sub.u32": lambda a, b, c: a - b,
    "add.sat.s32": lambda a, b, c: clamped(signed(a) + signed(b), -(2**31), 2**31 - 1),
    "sub.sat.s32": lambda a, b, c: clamped(signed(a) - signed(b), -(2**31), 2**31 - 1),
    "mul.lo.s32": lambda a, b, c: a * b,
    "mul.hi.s32": lambda a, b, c: signed(a) * signed(b) >> 32,
    "mul.hi.u32": lambda a, b, c: a * b >> 32,
    "mad.lo.u32": lambda a, b, c: a * b + c,
    "mad.hi.s32": lambda a, b, c: (signed(a) * signed(b) >> 32) + c,
    "mul24.lo.u32": lambda a, b, c: (a & 0xFFFFFF) * (b & 0xFFFFFF),
    "mul24.hi.s32": lambda a, b, c: signed(a, 24) * signed(b, 24) >> 16,
    "mad24.lo.s32": lambda a, b, c: signed(a, 24) * signed(b, 24) + c,
    "sad.u32": lambda a, b, c: c + abs(a - b),
    "sad.s32": lambda a, b, c: c + abs(signed(a) - signed(b)),
    "min.s32": lambda a, b, c: min(signed(a), signed(b)),
    "max.u32": lambda a, b, c: max(a, b),
    "abs.s32": lambda a, b, c: abs(signed(a)),
    "neg.s32": lambda a, b, c: -a,
    "div.u32": lambda a, b, c: 0xFFFFFFFF if b == 0 else a // b,
    "div.s32": lambda a, b, c: divided(signed(a), signed(b)),
    "rem.u32": lambda a, b, c: a if b == 0 else a % b,
    "rem.s32": lambda a, b, c: a if b == 0 else int(math.fmod(signed(a), signed(b))),
    "and.b32": lambda a, b, c: a & b,
    "or.b32": lambda a, b, c: a | b,
    "xor.b32": lambda a, b, c: a ^ b,
    "not.b32": lambda a, b, c: ~a,
    "cnot.b32": lambda a, b, c: int(a == 0),
    "shl.b32": lambda a, b, c: moved(a, b),
    "shr.u32": lambda a, b, c: a >> min(b, 32),
    "shr.s32": lambda a, b, c: signed(a) >> min(b, 31),
    "shf.l.wrap.b32": lambda a, b, c: (b << 32 | a) << (c & 31) >> 32,
    "shf.l.clamp.b32": lambda a, b, c: (b << 32 | a) << min(c, 32) >> 32,
    "shf.r.wrap.b32": lambda a, b, c: (b << 32 | a) >> (c & 31),
    "shf.r.clamp.b32": lambda a, b, c: (b << 32 | a) >> min(c, 32),
    "bfe.u32": lambda a, b, c: extracted(a, b, c, 32, False),
    "bfe.s32": lambda a, b, c: extracted(a, b, c, 32, True),
    "popc.b32": lambda a, b, c: a.bit_count(),
    "clz.b32": lambda a, b, c: 32 - a.bit_length(),
    "bfind.u32": lambda a, b, c: leading(a, False, False),
    "bfind.s32": lambda a, b, c: leading(a, True, False),
    "bfind.shiftamt.s32": lambda a, b, c: leading(a, True, True),
    "brev.b32": lambda a, b, c: int(f"{a:032b}"[::-1], 2),
    "szext.wrap.s32": lambda a, b, c: signed(a, b & 31) if b & 31 else 0,
    "szext.clamp.u32": lambda a, b, c: a & (1 << min(b, 32)) - 1,
    "slct.b32.s32": lambda a, b, c: a if signed(c) >= 0 else b,
    "set.lt.u32.s32": lambda a, b, c: -int(signed(a) < signed(b)),
    "set.hi.s32.u32": lambda a, b, c: -int(a > b),
    "dp4a.s32.u32": lambda a, b, c: c + sum(signed(a >> k, 8) * (b >> k & 255) for k in (0, 8, 16, 24)),
    "dp2a.hi.u32.s32": lambda a, b, c: c + sum((a >> 16 * k & 65535) * signed(b >> 16 + 8 * k, 8) for k in range(2)),
    "cvt.s32.s8": lambda a, b, c: signed(a, 8),
    "cvt.u32.u16": lambda a, b, c: a & 65535,
    "cvt.sat.s8.s32": lambda a, b, c: clamped(signed(a), -128, 127),
    "cvt.sat.u8.s32": lambda a, b, c: clamped(signed(a), 0, 255),
    "cvt.sat.u16.u32": lambda a, b, c: min(a, 65535),
}
ONE = ("abs", "neg", "not", "cnot", "popc", "clz", "bfind", "brev", "cvt")
THREE = ("mad", "mad24", "sad", "shf", "bfe", "slct", "dp4a", "dp2a", "fma")


def operands(name: str) -> int:
    first = name.partition(".")[0]
    return 1 if first in ONE else 3 if first in THREE else 2


def run(instructions: dict[str, int], dtype: Any, inputs: list[np.ndarray], result: Any = None) -> np.ndarray:
    """What each instruction gives for each element of the inputs: one row each."""
    lines, made = [], {}
    for k, (name, count) in enumerate(instructions.items()):
        given = dict.fromkeys("abc"[:count], dtype)
        text = f"{name} {{out}}, {', '.join(f'{{{letter}}}' for letter in given)};"
        made[f"f{k}"] = kaio.ptx(text, out=result or dtype, **given)
        lines.append(f"    out[{k}, i] = f{k}({', '.join(f'{letter}[i]' for letter in given)})")
    params = ", ".join(f"{letter}: In[{dtype!r}]" for letter in "abc")
    head = [f"@kernel\ndef k({params}, out: Out[{result or dtype!r}, D2]):", "    i = grid(1)", "    if i < a.size:"]
    source = "\n".join([*head, *(f"    {line}" for line in lines)])
    out = DEVICE.alloc_zeros((len(instructions), COUNT), result or dtype)
    kernel(source, **made).over(COUNT).launch(*(DEVICE.alloc_from(x) for x in inputs), out).wait()
    return out.to_host()


def test_integer_instructions_do_what_the_isa_says() -> None:
    inputs = [words(32, seed) for seed in range(3)]
    found = run({name: operands(name) for name in INTEGERS}, kaio.u32, inputs)
    for row, (name, meaning) in zip(found, INTEGERS.items(), strict=True):
        wanted = [meaning(*map(int, given)) & 0xFFFFFFFF for given in zip(*inputs, strict=True)]
        np.testing.assert_array_equal(row, np.array(wanted, np.uint32), name)


WIDE: dict[str, Reference] = {
    "add.u64": lambda a, b, c: a + b,
    "mul.hi.u64": lambda a, b, c: a * b >> 64,
    "mul.hi.s64": lambda a, b, c: signed(a, 64) * signed(b, 64) >> 64,
    "mad.lo.s64": lambda a, b, c: a * b + c,
    "div.s64": lambda a, b, c: divided(signed(a, 64), signed(b, 64)),
    "rem.u64": lambda a, b, c: a if b == 0 else a % b,
    "min.u64": lambda a, b, c: min(a, b),
    "brev.b64": lambda a, b, c: int(f"{a:064b}"[::-1], 2),
    "abs.s64": lambda a, b, c: abs(signed(a, 64)),
}


def test_integer_instructions_of_64_bits_do_what_the_isa_says() -> None:
    inputs = [words(64, seed) for seed in range(3)]
    found = run({name: operands(name) for name in WIDE}, kaio.u64, inputs)
    for row, (name, meaning) in zip(found, WIDE.items(), strict=True):
        wanted = [meaning(*map(int, given)) & (1 << 64) - 1 for given in zip(*inputs, strict=True)]
        np.testing.assert_array_equal(row, np.array(wanted, np.uint64), name)


def test_fields_bytes_and_tables_do_what_the_isa_says() -> None:
    a, b, c = (words(32, seed) for seed in range(3))
    made = {
        "insert": kaio.ptx("bfi.b32 {out}, {a}, {b}, {c}, 9;", a=kaio.u32, b=kaio.u32, c=kaio.u32, out=kaio.u32),
        "logic": kaio.ptx("lop3.b32 {out}, {a}, {b}, {c}, 0x6A;", a=kaio.u32, b=kaio.u32, c=kaio.u32, out=kaio.u32),
        "permute": kaio.ptx("prmt.b32 {out}, {a}, {b}, {c};", a=kaio.u32, b=kaio.u32, c=kaio.u32, out=kaio.u32),
        "carried": kaio.ptx(
            "add.cc.u32 {out}, {a}, {b}; addc.u32 {out}, {c}, 0;", a=kaio.u32, b=kaio.u32, c=kaio.u32, out=kaio.u32
        ),
        "borrowed": kaio.ptx(
            "sub.cc.u32 {out}, {a}, {b}; subc.u32 {out}, {c}, 0;", a=kaio.u32, b=kaio.u32, c=kaio.u32, out=kaio.u32
        ),
    }  # fmt: skip
    source = (
        "@kernel\ndef k(a: In[u32], b: In[u32], c: In[u32], out: Out[u32, D2]):\n    i = grid(1)\n    if i < a.size:\n"
    )
    source += "".join(f"        out[{k}, i] = {name}(a[i], b[i], c[i])\n" for k, name in enumerate(made))
    out = DEVICE.alloc_zeros((len(made), COUNT), kaio.u32)
    kernel(source, **made).over(COUNT).launch(*(DEVICE.alloc_from(x) for x in (a, b, c)), out).wait()

    def permuted(x: int, y: int, selector: int) -> int:
        both, found = (y << 32 | x).to_bytes(8, "little"), 0
        for k in range(4):
            nibble = selector >> 4 * k & 15
            byte = both[nibble & 7]
            found |= ((0xFF if byte & 0x80 else 0) if nibble & 8 else byte) << 8 * k
        return found

    meanings: list[Reference] = [
        lambda x, y, z: inserted(x, y, z, 9),
        lambda x, y, z: sum((0x6A >> (4 * (x >> k & 1) + 2 * (y >> k & 1) + (z >> k & 1)) & 1) << k for k in range(32)),
        permuted,
        lambda x, y, z: z + (x + y >> 32),
        lambda x, y, z: z - int(x < y),
    ]
    for row, name, meaning in zip(out.to_host(), made, meanings, strict=True):
        wanted = [meaning(*map(int, given)) & 0xFFFFFFFF for given in zip(a, b, c, strict=True)]
        np.testing.assert_array_equal(row, np.array(wanted, np.uint32), name)


def floats(seed: int) -> np.ndarray:
    """Floats of all sizes, with zeros, subnormals, infinities and NaN."""
    found = words(32, seed).view(np.float32).copy()
    found[40:80] = np.random.default_rng(seed).normal(size=40)
    found[80:90] = [0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 0.5, 2.5, -2.5]
    return np.random.default_rng(seed).permutation(found)


def flushed(x: float) -> float:
    return math.copysign(0.0, x) if abs(x) < 2.0**-126 else x


def single(x: float) -> float:
    with np.errstate(over="ignore"):
        return float(np.float32(x))


FLOATS: dict[str, Reference] = {
    "add.rn.f32": lambda a, b, c: single(a + b),
    "sub.f32": lambda a, b, c: single(a - b),
    "mul.ftz.f32": lambda a, b, c: flushed(single(flushed(a) * flushed(b))),
    "add.sat.f32": lambda a, b, c: 0.0 if math.isnan(a + b) else clamped(single(a + b), 0.0, 1.0) + 0.0,
    "abs.f32": lambda a, b, c: abs(a),
    "neg.ftz.f32": lambda a, b, c: flushed(-a),
    "copysign.f32": lambda a, b, c: math.copysign(b, a),
    "min.f32": lambda a, b, c: float(np.fmin(a, b)),
    "max.NaN.f32": lambda a, b, c: math.nan if math.isnan(a) or math.isnan(b) else max(a, b),
    "set.leu.f32.f32": lambda a, b, c: float(not a > b),
    "cvt.rni.f32.f32": lambda a, b, c: float(np.rint(a)),
    "cvt.rpi.f32.f32": lambda a, b, c: float(np.ceil(a)),
    "cvt.sat.f32.f32": lambda a, b, c: 0.0 if math.isnan(a) else clamped(a, 0.0, 1.0) + 0.0,
}  # fmt: skip


def test_float_instructions_do_what_the_isa_says() -> None:
    inputs = [floats(seed) for seed in range(3)]
    with np.errstate(all="ignore"):
        found = run({name: operands(name) for name in FLOATS}, kaio.f32, inputs)
        for row, (name, meaning) in zip(found, FLOATS.items(), strict=True):
            wanted = np.array([meaning(*map(float, given)) for given in zip(*inputs, strict=True)], np.float32)
            np.testing.assert_array_equal(row, wanted, name)
            if name not in (
                "min.f32",
                "max.NaN.f32",
                "add.sat.f32",
                "cvt.sat.f32.f32",
            ):  # whose zeros have any sign here
                numbers = ~np.isnan(wanted)
                np.testing.assert_array_equal(np.signbit(row)[numbers], np.signbit(wanted)[numbers], name)


TO_INTEGERS = ("cvt.rni.s32.f32", "cvt.rzi.u32.f32", "cvt.rmi.s32.f32", "cvt.rpi.u32.f32", "cvt.rzi.s16.f32",
               "cvt.rzi.u8.f32")  # fmt: skip


def test_floats_become_integers_rounded_and_saturated() -> None:
    inputs = [floats(seed) for seed in range(3)]
    found = run(dict.fromkeys(TO_INTEGERS, 1), kaio.f32, inputs, kaio.i32)
    for row, name in zip(found, TO_INTEGERS, strict=True):
        wanted = np.array([signed(as_integer(float(x), *name.split(".")[1:3])) for x in inputs[0]], np.int32)
        np.testing.assert_array_equal(row, wanted, name)


def as_integer(x: float, mode: str, to: str) -> int:
    """A float rounded, and then the nearest that the type has."""
    bits = int(to[1:])
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if to[0] == "s" else (0, (1 << bits) - 1)
    if not math.isfinite(x):
        return 0 if math.isnan(x) else high if x > 0 else low
    return clamped({"rni": round, "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil}[mode](x), low, high)


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
def test_integers_become_floats_by_every_rounding(mode: str) -> None:
    """Python compares an int with a float exactly: the number lies between the float and its neighbour."""
    inputs = [words(64, seed) for seed in range(3)]
    names = [f"cvt.{mode}.f32.{kind}" for kind in ("u64", "s64")]
    for name, row in zip(names, run(dict.fromkeys(names, 1), kaio.u64, inputs, kaio.f32), strict=True):
        for x, found in zip(inputs[0], row, strict=True):
            exact = signed(int(x), 64) if name.endswith("s64") else int(x)
            value = float(found)
            above, below = (float(np.nextafter(found, np.float32(side))) for side in (math.inf, -math.inf))
            if mode == "rn":
                assert value == float(np.float32(x if name.endswith("u64") else x.astype(np.int64))), (name, x)
            elif mode == "rp" or (mode == "rz" and exact < 0):
                assert below < exact <= value, (name, x)
            else:
                assert value <= exact < above, (name, x)


def test_a_form_says_what_an_instruction_is_made_of() -> None:
    record, parts = find("ld.global.nc.v4.f32")
    assert (record.suspends, parts) == (False, {"space": "global", "nc": "nc", "count": "v4", "type": "f32"})
    assert find("bar.sync")[0].suspends
    assert find("mad.lo.f32") is None
    assert find("frobnicate.b32") is None


def test_numbers_are_read_as_their_bits() -> None:
    negative_nan = struct.unpack("<f", struct.pack("<I", 0xFFC00001))[0]
    assert math.isnan(negative_nan)
    made = kaio.ptx("mov.b32 {out}, 0fFFC00001;", out=kaio.u32)
    out = DEVICE.alloc_zeros(1, kaio.u32)
    source = "@kernel\ndef k(out: Out[u32]):\n    out[grid(1)] = bits()\n"
    kernel(source, bits=made).grid(1).block(1).launch(out).wait()
    assert out.to_host().tolist() == [0xFFC00001]


@pytest.mark.parametrize(
    ("number", "value"), [("017", 15), ("0", 0), ("00", 0), ("0b101", 5), ("0B11U", 3), ("0x1FU", 31), ("-010", -8)]
)
def test_integers_are_read_in_every_base(number: str, value: int) -> None:
    made = kaio.ptx(f"mov.b32 {{out}}, {number};", out=kaio.i32)
    out = DEVICE.alloc_zeros(1, kaio.i32)
    source = "@kernel\ndef k(out: Out[i32]):\n    out[grid(1)] = number()\n"
    kernel(source, number=made).grid(1).block(1).launch(out).wait()
    assert out.to_host().tolist() == [value]
