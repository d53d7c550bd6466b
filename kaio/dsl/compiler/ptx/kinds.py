"""The types of PTX: how many bits, in which LLVM type a register holds them, and which dtype of kaio's they are."""

from __future__ import annotations

import re
from typing import Any

from llvmlite import ir as llvm

from kaio.dtypes import DType, bf16, f8e4m3, f8e5m2, f16, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64

__all__ = ["bits_of", "double", "dtype_of", "is_signed", "llvm_of"]

_BITS = {"pred": 1, "f16x2": 32, "bf16x2": 32, "e4m3": 8, "e5m2": 8, "e4m3x2": 16, "e5m2x2": 16, "bf16": 16, "tf32": 32}
_DTYPES: dict[str, DType] = {
    "s8": i8, "s16": i16, "s32": i32, "s64": i64, "u8": u8, "u16": u16, "u32": u32, "u64": u64,
    "b8": u8, "b16": u16, "b32": u32, "b64": u64, "f16": f16, "bf16": bf16, "f32": f32, "f64": f64,
    "e4m3": f8e4m3, "e5m2": f8e5m2,
}  # fmt: skip


def bits_of(kind: str) -> int:
    """The bits of a type.

    >>> bits_of("s32"), bits_of("pred"), bits_of("f16x2")
    (32, 1, 32)
    """
    return _BITS[kind] if kind in _BITS else int(re.sub(r"\D", "", kind))


def llvm_of(kind: str) -> Any:
    """The LLVM type of a register: narrow and packed floats are their bits."""
    if kind == "f32":
        return llvm.FloatType()
    return llvm.DoubleType() if kind == "f64" else llvm.IntType(bits_of(kind))


def dtype_of(kind: str) -> Any:
    """The dtype of a number; untyped bits are unsigned."""
    return _DTYPES[kind]


def is_signed(kind: str) -> bool:
    """Whether it is a signed integer."""
    return kind.startswith("s")


def double(kind: str) -> str:
    """The integer type of twice the width.

    >>> double("s32")
    's64'
    """
    return f"{kind[0]}{2 * bits_of(kind)}"
