"""What the arithmetic instructions of PTX mean on the host, as LLVM.

NVIDIA's math library is written with them. An instruction is named by its dotted parts: ``fma.rm.f`` is a fused
multiply-add of f32 rounded down, ``.ftz`` flushes subnormals to zero, ``.approx`` is rounded correctly here (the
hardware is within an ulp or two).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from kaio.dsl.compiler.emission.declared import call
from kaio.dsl.compiler.emission.float_bits import extreme

__all__ = ["directed", "emit_instruction", "emit_wide", "flushed", "residual"]

I1, I8, I32, I64, I128 = (ir.IntType(bits) for bits in (1, 8, 32, 64, 128))
F32, F64 = ir.FloatType(), ir.DoubleType()
_INTEGERS = {"i": I32, "ui": I32, "ll": I64, "ull": I64}
_ROUNDINGS = {"rn": "roundeven", "rz": "trunc", "rm": "floor", "rp": "ceil"}
_ONE_TO_ONE = {"floor": "floor", "ceil": "ceil", "trunc": "trunc", "fabs": "fabs", "round": "roundeven"}


def _suffix(kind: Any) -> str:
    return f"i{kind.width}" if isinstance(kind, ir.IntType) else "f32" if kind == F32 else "f64"


def _llvm(b: Any, name: str, *args: Any) -> Any:
    return call(b, f"llvm.{name}.{_suffix(args[0].type)}", args[0].type, args)


def emit_instruction(b: Any, parts: Sequence[str], args: Sequence[Any], result: Any) -> Any | None:
    """The value of one instruction, None where kaio has no host meaning for it."""
    flushes = "ftz" in parts
    parts = tuple(part for part in parts if part != "ftz")
    if flushes:
        args = [flushed(b, a) for a in args]
    value = _emit(b, parts, args, result)
    return flushed(b, value) if flushes and value is not None else value


def flushed(b: Any, v: Any) -> Any:
    """Subnormal f32 values become zeros of their sign."""
    if v.type != F32:
        return v
    small = b.fcmp_ordered("<", _llvm(b, "fabs", v), ir.Constant(F32, 2.0**-126))
    return b.select(small, _llvm(b, "copysign", ir.Constant(F32, 0.0), v), v)


def _emit(b: Any, parts: tuple[str, ...], args: Sequence[Any], result: Any) -> Any | None:
    match parts:
        case (name, _) if name in _ONE_TO_ONE:
            return _llvm(b, _ONE_TO_ONE[name], *args)
        case ("fmin" | "fmax" as name, _):
            return extreme(b, f"{name[1:]}num", *args)
        case ("sqrt", "rn" | "approx", _):
            return _llvm(b, "sqrt", *args)
        case ("add", "rn", _):
            return b.fadd(*args)
        case ("sub", "rn", _):
            return b.fsub(*args)
        case ("mul", "rn", _):
            return b.fmul(*args)
        case ("div", "rn" | "approx", _):
            return b.fdiv(*args)
        case ("rcp", "rn" | "approx", _):
            return b.fdiv(ir.Constant(result, 1.0), *args)
        case ("rsqrt", "approx", _):
            return _rsqrt(b, *args)
        case ("fma", "rn", _):
            return _llvm(b, "fma", *args)
        case ("add" | "sub" | "mul" | "fma" as name, "rz" | "rm" | "rp" as mode, "f"):
            return _directed_f32(b, name, mode, args)
        case ("add" | "sub" as name, "rz" | "rm" | "rp" as mode, "d"):
            first, second = args
            return _directed_sum(b, mode, first, second if name == "add" else b.fneg(second))
        case ("ex2", "approx", "f"):
            return b.fptrunc(_exp2(b, b.fpext(args[0], F64)), F32)
        case ("lg2", "approx", "f"):
            return b.fptrunc(_log2(b, b.fpext(args[0], F64)), F32)
        case ("sin" | "cos" as name, "approx", "f"):
            return call(b, f"__nv_{name}f", F32, args)
        case ("saturate", _):
            zero, one = ir.Constant(result, 0.0), ir.Constant(result, 1.0)
            return extreme(b, "minnum", extreme(b, "maxnum", args[0], zero), one)
        case _:
            return _emit_bits(b, parts, args, result)


def _emit_bits(b: Any, parts: tuple[str, ...], args: Sequence[Any], result: Any) -> Any | None:
    match parts:
        case ("d2i", "lo"):
            return b.trunc(b.bitcast(args[0], I64), I32)
        case ("d2i", "hi"):
            return b.trunc(b.lshr(b.bitcast(args[0], I64), I64(32)), I32)
        case ("lohi", "i2d"):
            low, high = (b.zext(a, I64) for a in args)
            return b.bitcast(b.or_(low, b.shl(high, I64(32))), F64)
        case ("mulhi", "i" | "ui" | "ll" | "ull" as kind):
            return _high_product(b, kind.startswith("u"), *args)
        case (conversion, "rn" | "rz" | "rm" | "rp" as mode) if "2" in conversion:
            source, _, destination = conversion.partition("2")
            if source in ("f", "d") and destination in _INTEGERS:
                return _to_integer(b, args[0], destination, mode)
            if source in _INTEGERS and destination in ("f", "d") and mode == "rn":
                return (b.uitofp if source.startswith("u") else b.sitofp)(args[0], result)
    return None


def _rsqrt(b: Any, v: Any) -> Any:
    if v.type == F64:
        return b.fdiv(ir.Constant(F64, 1.0), _llvm(b, "sqrt", v))
    return b.fptrunc(b.fdiv(ir.Constant(F64, 1.0), _llvm(b, "sqrt", b.fpext(v, F64))), F32)


def _high_product(b: Any, unsigned: bool, left: Any, right: Any) -> Any:
    wide = ir.IntType(2 * left.type.width)
    extend = b.zext if unsigned else b.sext
    product = b.mul(extend(left, wide), extend(right, wide))
    return b.trunc(b.lshr(product, wide(left.type.width)), left.type)


def _to_integer(b: Any, v: Any, destination: str, mode: str) -> Any:
    """PTX `cvt`: rounds, saturates; NaN gives 0 from f32 to 32 bits, else the top bit."""
    kind = _INTEGERS[destination]
    whole = _llvm(b, _ROUNDINGS[mode], v)
    sign = "u" if destination.startswith("u") else "s"
    number = call(b, f"llvm.fpto{sign}i.sat.i{kind.width}.{_suffix(v.type)}", kind, [whole])
    if v.type == F32 and kind == I32:
        return number
    return b.select(b.fcmp_unordered("uno", v, v), kind(1 << kind.width - 1), number)


def residual(b: Any, left: Any, right: Any, total: Any) -> Any:
    """What rounding took from `left + right` (Knuth's two-sum: exact, barring overflow)."""
    part = b.fsub(total, left)
    return b.fadd(b.fsub(left, b.fsub(total, part)), b.fsub(right, part))


def directed(b: Any, mode: str, rounded: Any, error: Any) -> Any:
    """`rounded`, moved one step where the exact value `rounded + error` rounds elsewhere in this mode."""
    zero, nothing = ir.Constant(rounded.type, 0.0), ir.Constant(error.type, 0.0)
    below, above = b.fcmp_ordered("<", error, nothing), b.fcmp_ordered(">", error, nothing)
    positive, negative = b.fcmp_ordered(">", rounded, zero), b.fcmp_ordered("<", rounded, zero)
    if mode == "rz":
        moves = b.or_(b.and_(positive, below), b.and_(negative, above))
        return b.select(moves, _step(b, rounded, outward=False), rounded)
    moves, outward = (below, negative) if mode == "rm" else (above, positive)
    stepped = b.select(outward, _step(b, rounded, outward=True), _step(b, rounded, outward=False))
    return b.select(moves, stepped, rounded)


def _step(b: Any, v: Any, outward: bool) -> Any:
    """The neighbour of a non-zero number, away from zero or towards it."""
    bits = ir.IntType(32 if v.type == F32 else 64)
    return b.bitcast(b.add(b.bitcast(v, bits), bits(1 if outward else -1)), v.type)


def _directed_sum(b: Any, mode: str, left: Any, right: Any) -> Any:
    total = b.fadd(left, right)
    return directed(b, mode, total, residual(b, left, right, total))


def _directed_f32(b: Any, name: str, mode: str, args: Sequence[Any]) -> Any:
    """Through f64, where a product of f32 is exact and a sum keeps what it lost."""
    wide = [b.fpext(a, F64) for a in args]
    if name == "sub":
        wide[1] = b.fneg(wide[1])
    left, right = (wide[0], wide[1]) if name in ("add", "sub") else (b.fmul(wide[0], wide[1]), ir.Constant(F64, -0.0))
    if name == "fma":
        right = wide[2]
    total = b.fadd(left, right)
    rounded = b.fptrunc(total, F32)
    first = b.fsub(total, b.fpext(rounded, F64))
    error = b.select(b.fcmp_ordered("==", first, ir.Constant(F64, 0.0)), residual(b, left, right, total), first)
    return directed(b, mode, rounded, error)


def _polynomial(b: Any, x: Any, coefficients: Sequence[float]) -> Any:
    """Horner's rule, the constant term first."""
    value = ir.Constant(F64, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        value = _llvm(b, "fma", value, x, ir.Constant(F64, coefficient))
    return value


def _exp2(b: Any, x: Any) -> Any:
    """2**x of an f32 widened to f64, to about 1e-14: the Taylor series of exp on [-ln 2 / 2, ln 2 / 2]."""
    ln2, terms, factor = 0.6931471805599453, [1.0], 1.0
    for k in range(1, 13):
        factor *= ln2 / k
        terms.append(factor)
    inside = _llvm(b, "minnum", _llvm(b, "maxnum", x, ir.Constant(F64, -300.0)), ir.Constant(F64, 300.0))
    whole = _llvm(b, "roundeven", inside)
    fraction = b.fsub(b.select(b.fcmp_unordered("uno", x, x), x, inside), whole)
    exponent = call(b, "llvm.fptosi.sat.i64.f64", I64, [whole])
    scale = b.bitcast(b.shl(b.add(exponent, I64(1023)), I64(52)), F64)
    return b.fmul(_polynomial(b, fraction, terms), scale)


def _log2(b: Any, x: Any) -> Any:
    """log2 of an f32 widened to f64, to about 1e-16: m in [1/sqrt 2, sqrt 2), atanh series of (m-1)/(m+1)."""
    bits = b.bitcast(x, I64)
    shifted = b.sub(bits, I64(0x3FE6A09E667F3BCD))
    exponent = b.ashr(shifted, I64(52))
    m = b.bitcast(b.sub(bits, b.shl(exponent, I64(52))), F64)
    one, zero = ir.Constant(F64, 1.0), ir.Constant(F64, 0.0)
    s = b.fdiv(b.fsub(m, one), b.fadd(m, one))
    series = _polynomial(b, b.fmul(s, s), [2.8853900817779268 / (2 * k + 1) for k in range(12)])
    value = _llvm(b, "fma", series, s, b.sitofp(exponent, F64))
    infinity, nan = ir.Constant(F64, float("inf")), ir.Constant(F64, float("nan"))
    value = b.select(b.fcmp_ordered("==", x, infinity), infinity, value)
    value = b.select(b.fcmp_ordered("==", x, zero), ir.Constant(F64, float("-inf")), value)
    return b.select(b.fcmp_ordered(">=", x, zero), value, nan)


def emit_wide(b: Any, name: str, args: Sequence[Any], result: Any) -> Any | None:
    """The multi-word integer sequences: low and high word of a sum, difference or product."""
    bits = args[0].type.width if isinstance(args[0].type, ir.IntType) else 32
    wide: Any = ir.IntType(2 * bits)

    def pair(low: Any, high: Any) -> Any:
        return b.or_(b.zext(low, wide), b.shl(b.zext(high, wide), wide(bits)))

    match name, len(args):
        case ("setp.equ.f64", 4):
            return b.select(b.fcmp_unordered("==", args[0], args[1]), args[2], args[3])
        case ("add.cc.u32" | "sub.cc.u32", 4):
            value = (b.add if name.startswith("add") else b.sub)(pair(*args[:2]), pair(*args[2:]))
        case ("mul.lo.u32", 2):
            value = b.mul(*(b.zext(a, wide) for a in args))
        case ("mad.lo.cc.u32", 3):
            left, right, addend = (b.zext(a, wide) for a in args)
            value = b.add(b.mul(left, right), addend)
        case _:
            return None
    words = b.insert_value(ir.Constant(result, ir.Undefined), b.trunc(value, args[0].type), 0)
    return b.insert_value(words, b.trunc(b.lshr(value, wide(bits)), args[0].type), 1)
