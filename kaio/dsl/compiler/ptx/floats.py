"""Floating-point arithmetic: every rounding of f32 and f64, halves and pairs of halves, the approximate functions.

An approximate instruction means what it means to the typed IR on the host (`ptx_arithmetic`): rounded correctly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from llvmlite import ir as llvm

from kaio.dsl.approximate import approximate
from kaio.dsl.approximate import narrow as approximate_narrow
from kaio.dsl.compiler.emission import halves
from kaio.dsl.compiler.emission.float_bits import copysign, extreme
from kaio.dsl.compiler.emission.packing import pack, unpack
from kaio.dsl.compiler.emission.rounded import rounded
from kaio.dsl.compiler.host.ptx_arithmetic import emit_instruction, flushed
from kaio.dsl.compiler.ptx.kinds import dtype_of, llvm_of
from kaio.dsl.compiler.ptx.opcodes import FLOATS, Step, opcode

if TYPE_CHECKING:
    from kaio.dsl.compiler.ptx.emitter import PtxEmitter

__all__ = ["finished"]

_ROUNDINGS = {"": "rn", "rn": "rn", "rz": "rz", "rm": "rd", "rp": "ru"}
"""The roundings of PTX in the names of `rounded`."""

_MODES = "rn rz rm rp"
_HALVES = "f16 bf16 f16x2 bf16x2"
_I16 = llvm.IntType(16)


def finished(e: PtxEmitter, i: Step, value: Any) -> Any:
    """What ``.ftz`` and ``.sat`` make of a result."""
    if i["ftz"]:
        value = flushed(e.b, value)
    if i["sat"]:
        zero, one = llvm.Constant(value.type, 0.0), llvm.Constant(value.type, 1.0)
        value = extreme(e.b, "minnum", extreme(e.b, "maxnum", value, zero), one)
    return value


def _given(e: PtxEmitter, i: Step, values: tuple[Any, ...]) -> list[Any]:
    return [flushed(e.b, value) for value in values] if i["ftz"] else list(values)


# ---------------------------------------------------------------------- f32 and f64
@opcode(
    "add{.mode}{.ftz}{.sat}.type",
    "sub{.mode}{.ftz}{.sat}.type",
    "mul{.mode}{.ftz}{.sat}.type",
    takes="type type",
    gives="type",
    mode=_MODES,
    type=FLOATS,
)
@opcode(
    "fma.mode{.ftz}{.sat}.type",
    "mad.mode{.ftz}{.sat}.type",
    takes="type type type",
    gives="type",
    mode=_MODES,
    type=FLOATS,
)
@opcode("div.mode{.ftz}.type", takes="type type", gives="type", mode=_MODES, type=FLOATS)
@opcode("rcp.mode{.ftz}.type", "sqrt.mode{.ftz}.type", takes="type", gives="type", mode=_MODES, type=FLOATS)
def _rounded(e: PtxEmitter, i: Step, *values: Any) -> Any:
    name = i.instruction.opcode.partition(".")[0].replace("mad", "fma")
    return finished(e, i, rounded(e.b, name, _ROUNDINGS[i["mode"]], _given(e, i, values)))


@opcode("div.mode{.ftz}.f32", takes="f32 f32", gives="f32", mode="approx full")
@opcode(
    "rcp.mode{.ftz}.type",
    "sqrt.mode{.ftz}.type",
    "rsqrt.mode{.ftz}.type",
    takes="type",
    gives="type",
    mode="approx",
    type=FLOATS,
)
@opcode("sin.mode{.ftz}.f32", "cos.mode{.ftz}.f32", "ex2.mode{.ftz}.f32", "lg2.mode{.ftz}.f32", takes="f32",
        gives="f32", mode="approx")  # fmt: skip
def _approximate(e: PtxEmitter, i: Step, *values: Any) -> Any:
    name, kind = i.instruction.opcode.partition(".")[0], values[0].type
    parts = [name, "approx", *(["ftz"] if i["ftz"] else []), "f" if kind == llvm_of("f32") else "d"]
    return emit_instruction(e.b, parts, values, kind)


@opcode("tanh.approx.f32", takes="f32", gives="f32")
def _tanh(e: PtxEmitter, i: Step, x: Any) -> Any:
    return e.use(approximate, "tanh", x)


@opcode("abs{.ftz}.type", takes="type", gives="type", type=FLOATS)
def _magnitude(e: PtxEmitter, i: Step, x: Any) -> Any:
    return finished(e, i, e.call(f"llvm.fabs.{i['type']}", x.type, [x]))


@opcode("neg{.ftz}.type", takes="type", gives="type", type=FLOATS)
def _negative(e: PtxEmitter, i: Step, x: Any) -> Any:
    return finished(e, i, e.b.fneg(x))


@opcode("copysign.type", takes="type type", gives="type", type=FLOATS)
def _with_sign(e: PtxEmitter, i: Step, sign: Any, magnitude: Any) -> Any:
    return copysign(e, magnitude, sign, dtype_of(i["type"]))


@opcode("min{.ftz}{.NaN}.type", "max{.ftz}{.NaN}.type", takes="type type", gives="type", type=FLOATS)
def _extreme(e: PtxEmitter, i: Step, *values: Any) -> Any:
    x, y = _given(e, i, values)
    value = extreme(e.b, f"{i.instruction.opcode[:3]}num", x, y)
    if i["NaN"]:
        lost = e.b.fcmp_unordered("uno", x, y)
        value = e.b.select(lost, llvm.Constant(value.type, float("nan")), value)
    return value


@opcode("testp.test.type", takes="type", gives="pred", test="finite infinite number notanumber normal subnormal",
        type=FLOATS)  # fmt: skip
def _test(e: PtxEmitter, i: Step, x: Any) -> Any:
    b, is_single = e.b, i["type"] == "f32"
    size = e.call(f"llvm.fabs.{i['type']}", x.type, [x])
    infinity, normal = (llvm.Constant(x.type, value) for value in (float("inf"), 2.0 ** (-126 if is_single else -1022)))
    match i["test"]:
        case "finite":
            return b.fcmp_ordered("<", size, infinity)
        case "infinite":
            return b.fcmp_ordered("==", size, infinity)
        case "number":
            return b.fcmp_ordered("ord", x, x)
        case "notanumber":
            return b.fcmp_unordered("uno", x, x)
        case "normal":
            return b.and_(b.fcmp_ordered(">=", size, normal), b.fcmp_ordered("<", size, infinity))
    return b.and_(b.fcmp_ordered("<", size, normal), b.fcmp_ordered(">", size, llvm.Constant(x.type, 0.0)))


# ---------------------------------------------------------------------- halves, alone and in pairs
def _in_pairs(e: PtxEmitter, kind: str, compute: Callable[..., Any], *values: Any) -> Any:
    """What `compute(*values)` gives for a half, or for each of the two in a word."""
    if not kind.endswith("x2"):
        return compute(*values)
    parts = zip(*(unpack(e.b, value, 16) for value in values), strict=True)
    return pack(e.b, [compute(*part) for part in parts])


def _of_halves(e: PtxEmitter, i: Step, compute: Callable[..., Any], values: tuple[Any, ...]) -> Any:
    """`compute(*halves, dtype)`, with what ``.ftz`` and ``.sat`` ask for."""
    dtype: Any = dtype_of(i["type"].removesuffix("x2"))

    def one(*parts: Any) -> Any:
        found = compute(*(_flushed_half(e, half, dtype) if i["ftz"] else half for half in parts), dtype)
        if i["sat"]:
            for name, bound in (("maxnum", 0.0), ("minnum", 1.0)):
                found = halves.extreme(e, name, found, e.const(dtype, bound), dtype)
        return _flushed_half(e, found, dtype) if i["ftz"] else found

    return _in_pairs(e, i["type"], one, *values)


def _flushed_half(e: PtxEmitter, value: Any, dtype: Any) -> Any:
    """A subnormal half as a zero of its sign."""
    magnitude = e.b.and_(value, _I16(0x7FFF))
    is_tiny = e.b.icmp_unsigned("<", magnitude, _I16(1 << dtype.digits - 1))
    return e.b.select(is_tiny, e.b.and_(value, _I16(0x8000)), value)


@opcode("add{.rn}{.ftz}{.sat}.type", "sub{.rn}{.ftz}{.sat}.type", "mul{.rn}{.ftz}{.sat}.type", takes="type type",
        gives="type", type=_HALVES)  # fmt: skip
def _half_arithmetic(e: PtxEmitter, i: Step, *values: Any) -> Any:
    sign = {"add": "+", "sub": "-", "mul": "*"}[i.instruction.opcode[:3]]
    return _of_halves(e, i, lambda x, y, dtype: halves.arithmetic(e, sign, x, y, dtype), values)


@opcode("fma.rn{.ftz}{.sat}.type", takes="type type type", gives="type", type=_HALVES)
def _half_fma(e: PtxEmitter, i: Step, *values: Any) -> Any:
    return _of_halves(e, i, lambda x, y, z, dtype: halves.fma(e, x, y, z, dtype), values)


@opcode("neg{.ftz}.type", takes="type", gives="type", type=_HALVES)
def _half_negative(e: PtxEmitter, i: Step, *values: Any) -> Any:
    return _of_halves(e, i, lambda x, dtype: halves.negate(e, x, dtype), values)


@opcode("abs{.ftz}.type", takes="type", gives="type", type=_HALVES)
def _half_magnitude(e: PtxEmitter, i: Step, *values: Any) -> Any:
    return _of_halves(e, i, lambda x, dtype: halves.absolute(e, x, dtype), values)


@opcode("min{.ftz}.type", "max{.ftz}.type", takes="type type", gives="type", type=_HALVES)
def _half_extreme(e: PtxEmitter, i: Step, *values: Any) -> Any:
    name = f"{i.instruction.opcode[:3]}num"
    return _of_halves(e, i, lambda x, y, dtype: halves.extreme(e, name, x, y, dtype), values)


@opcode("ex2.approx{.ftz}.type", "tanh.approx{.ftz}.type", takes="type", gives="type", type=_HALVES)
def _half_approximate(e: PtxEmitter, i: Step, *values: Any) -> Any:
    name = i.instruction.opcode.partition(".")[0]
    plain = Step(i.instruction, {"type": i["type"]})  # the hardware flushes; the typed IR on the host does not
    return _of_halves(e, plain, lambda x, dtype: e.use(approximate_narrow, name, x, dtype), values)
