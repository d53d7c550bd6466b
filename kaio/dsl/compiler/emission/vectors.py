"""Packed vectors in LLVM: their lanes one by one, and f16 and bf16 in pairs where the GPU computes two at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir as llvm

from kaio.dsl.compiler.cuda.assembly import instruction
from kaio.dsl.compiler.emission import arithmetic as reals
from kaio.dsl.compiler.emission.narrow_floats import is_narrow
from kaio.dsl.compiler.emission.packing import pack, unpack
from kaio.dsl.compiler.emission.scalars import Value
from kaio.dsl.values import Type
from kaio.dsl.vectors import VectorType
from kaio.dtypes import DType, f16

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter
    from kaio.dsl.compiler.ir import TypedCall

__all__ = ["arithmetic", "fma", "function", "negate", "unary"]

_I32 = llvm.IntType(32)
_NAMES = {"+": "add", "-": "sub", "*": "mul"}
Lanes = tuple[Value, ...]


def arithmetic(e: Emitter, call: TypedCall, left: Any, right: Any) -> Lanes:
    """An operator of numbers, lane by lane."""
    op, result = call.static[0], call.result
    assert isinstance(result, VectorType)
    if op in _NAMES and _has_pairs(e, result.lane, "sm_90"):
        return _in_pairs(e, f"{_NAMES[op]}.rn.{result.lane.ptx}x2", left, right)
    sides = [_sides(value, type_, result.count) for value, type_ in zip((left, right), call.operands, strict=True)]
    return tuple(reals.binary(e, op, x, y, result.lane) for x, y in zip(*sides, strict=True))


def _sides(value: Any, type_: Type, count: int) -> list[tuple[Any, Type]]:
    """Each lane with its type; a literal shift or exponent is the same for all."""
    if isinstance(type_, VectorType):
        return [(lane, type_.lane) for lane in value]
    return [(value, type_)] * count


def fma(e: Emitter, x: Lanes, y: Lanes, z: Lanes, lane: DType) -> Lanes:
    """x * y + z of each lane, rounded once."""
    if _has_pairs(e, lane, "sm_80"):
        return _in_pairs(e, f"fma.rn.{lane.ptx}x2", x, y, z)
    return tuple(reals.fma(e, *values, lane) for values in zip(x, y, z, strict=True))


def negate(e: Emitter, value: Lanes, lane: DType) -> Lanes:
    """-value of each lane."""
    return tuple(reals.unary(e, "-", v, lane) for v in value)


def unary(e: Emitter, call: TypedCall, value: Lanes) -> Lanes:
    """``- + ~``."""
    assert isinstance(call.result, VectorType)
    return tuple(reals.unary(e, call.static[0], v, call.result.lane) for v in value)


def function(e: Emitter, call: TypedCall, *values: Lanes) -> Lanes:
    """A function of numbers, lane by lane."""
    record, resolved = call.static
    assert isinstance(call.result, VectorType)
    if record.name == "fma":
        x, y, z = values
        return fma(e, x, y, z, call.result.lane)
    rule = record.rule(e.target.name)
    return tuple(rule(e, resolved, *lanes) for lanes in zip(*values, strict=True))


# ---------------------------------------------------------------------- two halves in a register
def _has_pairs(e: Emitter, lane: DType, bf16_since: str) -> bool:
    """Whether the GPU computes two of these at once."""
    return e.target.name == "cuda" and is_narrow(lane) and (lane is f16 or e.target.has(bf16_since))


def _in_pairs(e: Emitter, mnemonic: str, *operands: Lanes) -> Lanes:
    """One instruction for each two lanes."""
    found: list[Value] = []
    for k in range(0, len(operands[0]), 2):
        words = [pack(e.b, value[k : k + 2]) for value in operands]
        found += unpack(e.b, instruction(e, mnemonic, _I32, words), 16)
    return tuple(found)
