"""``cvt``: between integers, floats of 64 to 8 bits, and pairs of them, with every rounding and saturation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir as llvm

from kaio.dsl import primitives
from kaio.dsl.compiler.emission.conversions import resize
from kaio.dsl.compiler.emission.matrix_memory import as_tf32
from kaio.dsl.compiler.emission.narrow_floats import narrow, widen
from kaio.dsl.compiler.emission.packing import pack, unpack
from kaio.dsl.compiler.host.ptx_arithmetic import directed, flushed, residual
from kaio.dsl.compiler.ptx.floats import finished
from kaio.dsl.compiler.ptx.kinds import bits_of, dtype_of, is_signed, llvm_of
from kaio.dsl.compiler.ptx.opcodes import Step, opcode
from kaio.dtypes import f32, i32, u32

if TYPE_CHECKING:
    from kaio.dsl.compiler.ptx.emitter import PtxEmitter

_INTEGERS = "s8 s16 s32 s64 u8 u16 u32 u64"
_FLOATS = "f16 bf16 f32 f64"
_MODES = "rn rz rm rp"
_WHOLE = {"rni": "roundeven", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}
_F64, _I8 = llvm.DoubleType(), llvm.IntType(8)


# ---------------------------------------------------------------------- integers
@opcode("cvt{.sat}.to.of", takes="of", gives="to", to=_INTEGERS, of=_INTEGERS)
def _integer(e: PtxEmitter, i: Step, value: Any) -> Any:
    to, of = i["to"], i["of"]
    if i["sat"]:
        value = _clamped(e, value, of, to)
    return resize(e.b.sext if is_signed(of) else e.b.zext, e.b.trunc, value, dtype_of(of), dtype_of(to))


def _clamped(e: PtxEmitter, value: Any, of: str, to: str) -> Any:
    """An integer between the ends of another type's range, as far as its own type has them."""
    (low, high), (least, most) = dtype_of(to).range, dtype_of(of).range
    compare = e.b.icmp_signed if is_signed(of) else e.b.icmp_unsigned
    if high < most:
        value = e.b.select(compare(">", value, value.type(high)), value.type(high), value)
    if low > least:
        value = e.b.select(compare("<", value, value.type(low)), value.type(low), value)
    return value


# ---------------------------------------------------------------------- floats to integers
@opcode("cvt.mode{.ftz}{.sat}.to.of", takes="of", gives="to", mode="rni rzi rmi rpi", to=_INTEGERS, of=_FLOATS)
def _to_integer(e: PtxEmitter, i: Step, value: Any) -> Any:
    """Rounds and saturates; a NaN gives 0 from f32 to at most 32 bits, else the top bit of the target."""
    to, of = dtype_of(i["to"]), dtype_of(i["of"])
    if i["ftz"]:
        value = flushed(e.b, value)
    mode = _WHOLE[i["mode"]]
    if to.bits >= 32:
        return e.use(primitives.float_to_int, value, of, to, mode)
    wide = i32 if to.kind == "i" else u32
    found = e.use(primitives.float_to_int, value, of, wide, mode)
    found = e.b.trunc(_clamped(e, found, f"{i['to'][0]}32", i["to"]), llvm_of(i["to"]))
    if of.bits == 64 and to.kind == "u":
        lost = e.b.fcmp_unordered("uno", value, value)
        found = e.b.select(lost, found.type(1 << to.bits - 1), found)
    return found


# ---------------------------------------------------------------------- integers to floats
@opcode("cvt.mode{.ftz}{.sat}.to.of", takes="of", gives="to", mode=_MODES, to=_FLOATS, of=_INTEGERS)
def _to_float(e: PtxEmitter, i: Step, value: Any) -> Any:
    of, to = dtype_of(i["of"]), dtype_of(i["to"])
    if to.bits < 32:
        return narrow(e, value, of, to) if i["mode"] == "rn" else e.target.refuse(e, i, "that rounding")
    if i["mode"] == "rn":
        return finished(e, i, (e.b.sitofp if of.kind == "i" else e.b.uitofp)(value, llvm_of(i["to"])))
    return finished(e, i, _directed_integer(e, i, value))


def _directed_integer(e: PtxEmitter, i: Step, value: Any) -> Any:
    """Through two f64, the upper and the lower half, whose sum is exact but for a rest that is known."""
    b, signed, wide = e.b, is_signed(i["of"]), llvm.IntType(64)
    if value.type.width < 64:
        value = (b.sext if signed else b.zext)(value, wide)
    shift = b.ashr if signed else b.lshr
    high = (b.sitofp if signed else b.uitofp)(shift(value, wide(32)), _F64)
    high = b.fmul(high, llvm.Constant(_F64, 2.0**32))
    low = b.uitofp(b.and_(value, wide(0xFFFFFFFF)), _F64)
    total = b.fadd(high, low)
    rest = residual(b, high, low, total)
    return _directed_f64(e, i, total, rest)


def _directed_f64(e: PtxEmitter, i: Step, total: Any, rest: Any) -> Any:
    """`total + rest` rounded by the instruction's mode to its type."""
    b, mode = e.b, i["mode"]
    if i["to"] == "f64":
        return directed(b, mode, total, rest)
    rounded = b.fptrunc(total, llvm_of("f32"))
    first = b.fsub(total, b.fpext(rounded, _F64))
    error = b.select(b.fcmp_ordered("==", first, llvm.Constant(_F64, 0.0)), rest, first)
    return directed(b, mode, rounded, error)


# ---------------------------------------------------------------------- floats
@opcode("cvt{.mode}{.ftz}{.sat}.to.of", takes="of", gives="to", mode=f"{_MODES} rni rzi rmi rpi", to=_FLOATS,
        of=_FLOATS)  # fmt: skip
def _float(e: PtxEmitter, i: Step, value: Any) -> Any:
    to, of, mode = i["to"], i["of"], i["mode"]
    if i["ftz"]:
        value = flushed(e.b, value)
    if mode in _WHOLE:
        if bits_of(of) < 32:
            value = widen(e, value, dtype_of(of))
        kind = "f64" if of == "f64" else "f32"
        value = e.call(f"llvm.{_WHOLE[mode]}.{kind}", value.type, [value])
        return finished(e, i, value if to == kind else narrow(e, value, dtype_of(kind), dtype_of(to)))
    if bits_of(to) < 32:
        if mode not in ("", "rn") or i["sat"]:
            e.target.refuse(e, i, "that rounding")
        source = dtype_of(of)
        return (
            narrow(e, widen(e, value, source), f32, dtype_of(to))
            if source.bits < 32
            else narrow(e, value, source, dtype_of(to))
        )
    return finished(e, i, _to_wide(e, i, value))


def _to_wide(e: PtxEmitter, i: Step, value: Any) -> Any:
    """An f32 or f64."""
    to, of = i["to"], i["of"]
    if bits_of(of) < 32:
        value = widen(e, value, dtype_of(of))
        return value if to == "f32" else e.b.fpext(value, _F64)
    if to == of:
        return value
    if to == "f64":
        return e.b.fpext(value, _F64)
    if i["mode"] in ("", "rn"):
        return e.b.fptrunc(value, llvm_of("f32"))
    return _directed_overflow(e, i, value)


def _directed_overflow(e: PtxEmitter, i: Step, value: Any) -> Any:
    """An f64 rounded to f32 by a direction; one beyond the range becomes infinity or the largest number."""
    b = e.b
    found = _directed_f64(e, i, value, llvm.Constant(_F64, 0.0))
    infinite = b.fcmp_ordered("==", e.call("llvm.fabs.f64", _F64, [value]), llvm.Constant(_F64, float("inf")))
    return b.select(infinite, b.fptrunc(value, llvm_of("f32")), found)


@opcode("cvt.mode{.satfinite}.tf32.f32", takes="f32", gives="b32", mode="rna")
def _to_tf32(e: PtxEmitter, i: Step, value: Any) -> Any:
    return as_tf32(e, value)


# ---------------------------------------------------------------------- pairs
@opcode("cvt.rn{.satfinite}.to.f32", takes="f32 f32", gives="to", to="f16x2 bf16x2 e4m3x2 e5m2x2")
def _pair_of_singles(e: PtxEmitter, i: Step, high: Any, low: Any) -> Any:
    to = dtype_of(i["to"].removesuffix("x2"))
    if i["satfinite"] and to.bits == 16:
        e.target.refuse(e, i, "a half that saturates")
    return _paired(e, [narrow(e, value, f32, to) for value in (low, high)])


@opcode("cvt.rn.of.pair", takes="pair", gives="of", of="f16x2", pair="e4m3x2 e5m2x2")
def _pair_of_bytes(e: PtxEmitter, i: Step, pair: Any) -> Any:
    of = dtype_of(i["pair"].removesuffix("x2"))
    return _paired(e, [narrow(e, widen(e, byte, of), f32, dtype_of("f16")) for byte in _parts(e, pair, 8)])


@opcode("cvt.rn.satfinite.to.f16x2", takes="f16x2", gives="to", to="e4m3x2 e5m2x2")
def _pair_of_halves(e: PtxEmitter, i: Step, pair: Any) -> Any:
    to, half = dtype_of(i["to"].removesuffix("x2")), dtype_of("f16")
    return _paired(e, [narrow(e, widen(e, part, half), f32, to) for part in unpack(e.b, pair, 16)])


def _parts(e: PtxEmitter, pair: Any, bits: int) -> list[Any]:
    return [e.b.trunc(e.b.lshr(pair, pair.type(at)), _I8) for at in (0, bits)]


def _paired(e: PtxEmitter, parts: list[Any]) -> Any:
    if parts[0].type.width == 16:
        return pack(e.b, parts)
    wide = llvm.IntType(16)
    return e.b.or_(e.b.zext(parts[0], wide), e.b.shl(e.b.zext(parts[1], wide), wide(8)))
