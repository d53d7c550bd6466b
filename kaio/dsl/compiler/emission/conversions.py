"""Scalars of one type as another, in LLVM: what a cast means, and what a rule asks for.

Where LLVM has poison (a float out of the range of an int), it is PTX's value.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from llvmlite import ir as llvm

from kaio.dsl import primitives
from kaio.dsl.compiler.emission.narrow_floats import is_narrow, narrow, narrow_lanes, truth, widen
from kaio.dsl.compiler.emission.scalars import Value, choose, constant, llvm_type
from kaio.dsl.values import BOOL, INDEX64, Compound, EnumType, Type, Weak
from kaio.dsl.vectors import VectorType
from kaio.dtypes import DType, bf16, f16, f32, f64, i32, u32

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter

__all__ = ["compound", "convert", "index", "literal", "literal_index", "resize", "saturate_i32"]


def convert(e: Emitter, value: Value, source: Type, target: Type) -> Value:
    """A scalar of one type as another: floats to ints truncate and saturate, ints to narrower ints wrap."""
    if isinstance(target, EnumType):
        known = source.member if isinstance(source, EnumType) else None
        return value if known is None or target.member is not None else constant(target.dtype, known.value)
    if not isinstance(target, DType):
        return value
    if isinstance(source, Weak):
        return literal(e, value, source, target)
    if source is target or not isinstance(source, DType):
        return value
    if is_narrow(source):
        if target is BOOL:
            return truth(e, value, source)
        value, source = widen(e, value, source), f32
        if source is target:
            return value
    if target is BOOL:
        zero = constant(source, 0)
        return e.b.fcmp_unordered("!=", value, zero) if source.is_float else e.b.icmp_unsigned("!=", value, zero)
    if source is BOOL:
        return e.b.select(value, constant(target, 1), constant(target, 0))
    if is_narrow(target):
        return narrow(e, value, source, target)
    if source.is_float:
        if target.is_float:
            return resize(e.b.fpext, e.b.fptrunc, value, source, target)
        return _float_to_int(e, value, source, target)
    if target.is_float:
        return (e.b.sitofp if source.kind == "i" else e.b.uitofp)(value, llvm_type(target))
    resized = resize(e.b.sext if source.kind == "i" else e.b.zext, e.b.trunc, value, source, target)
    if source is INDEX64 and target is i32:  # what a store does; a cast is one of an i64
        fits = e.b.icmp_signed("==", e.b.sext(resized, value.type), value)
        e.target.check(e, fits, "a position does not fit an i32")
    return resized


def compound(e: Emitter, value: Any, source: Type, target: Compound) -> tuple[Value, ...]:
    """A value as one of several parts: part by part, or spread from one number."""
    if isinstance(source, Compound) and len(source.items) == len(target.items):
        parts = list(zip(value, source.items, strict=True))
    else:
        parts = target.spread(value, source)
    if isinstance(target, VectorType) and target.lane in (f16, bf16) and all(of is f32 for _, of in parts):
        return narrow_lanes(e, [part for part, _ in parts], target.lane)
    return tuple(e.convert(part, of, item) for (part, of), item in zip(parts, target.items, strict=True))


def resize(widen: Any, narrow: Any, value: Value, source: DType, target: DType) -> Value:
    """A number of the same kind in another width: by the one instruction, or by the other."""
    if source.bits == target.bits:
        return value
    return (widen if source.bits < target.bits else narrow)(value, llvm_type(target))


def literal(e: Emitter, position: Value, weak: Weak, target: DType) -> Value:
    """One of the literal's values as a number of that type; `position` says which where there are several."""
    return choose(e, position, [constant(target, _as(target, v)) for v in weak.values])


def _as(target: DType, value: int | float) -> int | float | bool:
    if target is BOOL:
        return value != 0
    if not target.is_int or isinstance(value, int):
        return value
    low, high = target.range
    if math.isnan(value):  # as of an f32
        return 0 if target.bits <= 32 else 1 << target.bits - 1
    return high if value >= high else low if value <= low else int(value)


def literal_index(e: Emitter, value: Value, source: Type, target: Weak) -> Value:
    """Which of the target's values a literal, or one of several, is; nothing at run time where there is only one."""
    if not isinstance(source, Weak) or len(target.values) == 1:
        return value
    wanted = [repr(v) for v in target.values]
    places = [wanted.index(repr(float(v) if target.kind == "f" else v)) for v in source.values]
    if len(places) > 1 and places == list(range(len(places))):
        return value
    return choose(e, value, [llvm.IntType(32)(place) for place in places])


def _float_to_int(e: Emitter, value: Value, source: DType, target: DType) -> Value:
    """PTX cvt.rzi: saturates. Narrow targets are clamped in 32 bits, never by fptosi, which is poison out of range."""
    if target.bits >= 32:
        return e.use(primitives.float_to_int, value, source, target, "trunc")
    wide: DType = i32 if target.kind == "i" else u32
    result = e.use(primitives.float_to_int, value, source, wide, "trunc")
    result = e.b.trunc(_clamp(e, result, wide, target), llvm_type(target))
    if source is f64 and target.kind == "u":  # a NaN gives the top bit of the target's own width
        nan = e.b.fcmp_unordered("uno", value, value)
        result = e.b.select(nan, constant(target, 1 << target.bits - 1), result)
    return result


def saturate_i32(e: Emitter, value: Value, source: DType) -> Value:
    """`int(x)`: an i32, clamped."""
    if source.is_float or source is BOOL or source.bits < 32 or source is i32:
        return convert(e, value, source, i32)
    return resize(e.b.zext, e.b.trunc, _clamp(e, value, source, i32), source, i32)


def _clamp(e: Emitter, value: Value, dtype: DType, target: DType) -> Value:
    """An int of `dtype` between the ends of a narrower type's range."""
    low, high = (constant(dtype, max(bound, dtype.range[0])) for bound in target.range)
    compare = e.b.icmp_signed if dtype.kind == "i" else e.b.icmp_unsigned
    value = e.b.select(compare("<", value, high), value, high)
    return e.b.select(compare(">", value, low), value, low) if dtype.kind == "i" else value


def index(e: Emitter, value: Value, source: Type, size: Value, position: DType) -> Value:
    """An index of one axis; a negative literal counts from the end, also as a branch of a conditional."""
    if not isinstance(source, Weak) or min(source.values) >= 0:
        return convert(e, value, source, position)
    places = [constant(position, v) if v >= 0 else e.b.add(size, constant(position, v), flags=("nsw",))
              for v in source.values]  # fmt: skip
    return choose(e, value, places)
