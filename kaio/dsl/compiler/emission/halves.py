"""Arithmetic of f16 and bf16: natively on a GPU, through f32 on the host, with the same bits.

Through f32 a sum, a difference, a quotient and a square root are rounded twice and come out as if once: f32 has more
than twice the digits and two (Figueroa, When is double rounding innocuous?, SIGNUM Newsletter 30(3), 1995). A product
of two f16 is exact in f32; one of two bf16 is unless it is subnormal. A fused product and sum is neither, so its f32 is
rounded to odd: see `narrow_floats`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir as llvm

from kaio.dsl import primitives
from kaio.dsl.compiler.cuda.assembly import instruction
from kaio.dsl.compiler.emission.narrow_floats import DOUBLE, FLOAT, HALF, I16, I32, narrow, odd, widen
from kaio.dsl.compiler.emission.scalars import Value, constant
from kaio.dsl.intrinsic import primitive
from kaio.dtypes import DType, f16, f32, f64

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter

__all__ = ["absolute", "arithmetic", "compare", "extreme", "fma", "negate", "through_f32"]


def through_f32(e: Emitter, dtype: DType, compute: Any, *values: Value) -> Value:
    """What `compute` gives for the values as f32, rounded to the type."""
    return narrow(e, compute(*(widen(e, value, dtype) for value in values)), f32, dtype)


def arithmetic(e: Emitter, op: str, x: Value, y: Value, dtype: DType) -> Value:
    """``+ - * /``."""
    if op == "/":
        return through_f32(e, dtype, e.b.fdiv, x, y)
    return e.use(_arithmetic, op, x, y, dtype)


_NAMES = {"+": "add", "-": "sub", "*": "mul"}


def _arithmetic_cuda(e: Emitter, op: str, x: Value, y: Value, dtype: DType) -> Value:
    if dtype is f16 or e.target.has("sm_90"):
        return instruction(e, f"{_NAMES[op]}.rn.{dtype.ptx}", I16, [x, y])
    if op == "*":
        return fma(e, x, y, constant(dtype, -0.0), dtype)
    if e.target.has("sm_80"):
        one = constant(dtype, 1.0 if op == "+" else -1.0)
        return fma(e, y, one, x, dtype)
    return through_f32(e, dtype, getattr(e.b, f"f{_NAMES[op]}"), x, y)


def _arithmetic_host(e: Emitter, op: str, x: Value, y: Value, dtype: DType) -> Value:
    if op == "*" and dtype is not f16:
        wide = (e.b.fpext(widen(e, value, dtype), DOUBLE) for value in (x, y))
        return narrow(e, e.b.fmul(*wide), f64, dtype)
    return through_f32(e, dtype, getattr(e.b, f"f{_NAMES[op]}"), x, y)


_arithmetic = primitive("half_arithmetic", cuda=_arithmetic_cuda, host=_arithmetic_host)


# ---------------------------------------------------------------------- fused
def fma(e: Emitter, x: Value, y: Value, z: Value, dtype: DType) -> Value:
    """x * y + z, rounded once."""
    return e.use(_fma, x, y, z, dtype)


def _fma_cuda(e: Emitter, x: Value, y: Value, z: Value, dtype: DType) -> Value:
    if dtype is f16 or e.target.has("sm_80"):
        return instruction(e, f"fma.rn.{dtype.ptx}", I16, [x, y, z])
    # f32 rounded down and up: of two that differ, one is odd.
    wide = [widen(e, value, dtype) for value in (x, y, z)]
    nearest, low, high = (instruction(e, f"fma.{mode}.f32", FLOAT, wide) for mode in ("rn", "rm", "rp"))
    b = e.b
    low_is_odd = b.trunc(b.bitcast(low, I32), llvm.IntType(1))
    between = b.select(low_is_odd, low, high)
    return narrow(e, b.select(b.fcmp_ordered("==", low, high), nearest, between), f32, dtype)


def _fma_host(e: Emitter, x: Value, y: Value, z: Value, dtype: DType) -> Value:
    """The product is exact in a wide enough type, and so is the error of the sum (Knuth's two-sum)."""
    b, wide = e.b, f32 if dtype is f16 else f64
    x, y, z = (widen(e, value, dtype) for value in (x, y, z))
    if wide is f64:
        x, y, z = (b.fpext(value, DOUBLE) for value in (x, y, z))
    product = b.fmul(x, y)
    total = b.fadd(product, z)
    added = b.fsub(total, product)
    error = b.fadd(b.fsub(product, b.fsub(total, added)), b.fsub(z, added))
    return narrow(e, odd(e, total, error, wide), wide, dtype)


_fma = primitive("half_fma", cuda=_fma_cuda, host=_fma_host)


# ---------------------------------------------------------------------- signs, extremes, comparisons
def negate(e: Emitter, value: Value, dtype: DType) -> Value:
    """-value."""
    return e.use(_negate, value, dtype)


def absolute(e: Emitter, value: Value, dtype: DType) -> Value:
    """The value without its sign."""
    return e.use(_absolute, value, dtype)


def _native(e: Emitter, dtype: DType) -> bool:
    """Whether the GPU has more than the conversions of a type."""
    return dtype is f16 or e.target.has("sm_80")


def _flip(e: Emitter, value: Value, dtype: DType) -> Value:
    return e.b.xor(value, I16(0x8000))


def _clear(e: Emitter, value: Value, dtype: DType) -> Value:
    return e.b.and_(value, I16(0x7FFF))


_negate = primitive(
    "half_negate",
    cuda=lambda e, v, dtype: instruction(e, f"neg.{dtype.ptx}", I16, [v]) if _native(e, dtype) else _flip(e, v, dtype),
    host=_flip,
)
_absolute = primitive(
    "half_absolute",
    cuda=lambda e, v, dtype: instruction(e, f"abs.{dtype.ptx}", I16, [v]) if _native(e, dtype) else _clear(e, v, dtype),
    host=_clear,
)


def extreme(e: Emitter, name: str, x: Value, y: Value, dtype: DType) -> Value:
    """`minnum` or `maxnum`: the number where one is NaN, and -0.0 is below 0.0."""
    return e.use(_extreme, name, x, y, dtype)


def _extreme_host(e: Emitter, name: str, x: Value, y: Value, dtype: DType) -> Value:
    chosen: Any = primitives.minnum if name == "minnum" else primitives.maxnum
    return through_f32(e, dtype, lambda x, y: e.use(chosen, x, y, f32), x, y)


def _extreme_cuda(e: Emitter, name: str, x: Value, y: Value, dtype: DType) -> Value:
    if e.target.has("sm_80"):
        return instruction(e, f"{name[:3]}.{dtype.ptx}", I16, [x, y])
    return _extreme_host(e, name, x, y, dtype)


_extreme = primitive("half_extreme", cuda=_extreme_cuda, host=_extreme_host)


def compare(e: Emitter, op: str, x: Value, y: Value, dtype: DType) -> Value:
    """``== != < <= > >=``; a NaN differs from everything and is in no order, nor `ord`."""
    unordered = op in ("!=", "uno")
    if e.target.name == "cuda" and dtype is f16:
        x, y = (e.b.bitcast(value, HALF) for value in (x, y))
    else:
        x, y = (widen(e, value, dtype) for value in (x, y))
    return (e.b.fcmp_unordered if unordered else e.b.fcmp_ordered)(op, x, y)
