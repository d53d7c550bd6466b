"""The bits of a value as a value of another type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from kaio.dsl import literals
from kaio.dsl.element_types import element_type
from kaio.dsl.intrinsic import Resolved, intrinsic
from kaio.dsl.rule_error import RuleError
from kaio.dsl.values import BOOL, Compound, ObjectType, Type, Weak, show
from kaio.dtypes import DTYPES, DType

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter
    from kaio.dsl.compiler.ir import TypedCall

__all__ = ["bitcast"]

T = TypeVar("T")


def _typing(value: Type, dtype: Type) -> Resolved:
    if not isinstance(dtype, ObjectType) or not isinstance(dtype.value, DType):
        raise RuleError(
            f"the second argument of `bitcast` is a dtype, not {show(dtype)}", "for example `bitcast(x, kaio.u32)`"
        )
    given = literals.default(value) if isinstance(value, Weak) else value
    source, target = getattr(given, "dtype", given) if isinstance(given, Compound) else given, dtype.value
    if not isinstance(source, DType):
        raise RuleError(f"`bitcast` takes a number, not {show(value)}")
    if BOOL in (source, target):
        raise RuleError(
            f"`bitcast` of {show(source)} to {show(target)}: a bool is no pattern of bits", "cast it: `kaio.u8(...)`"
        )
    if source.bits != target.bits:
        same = [other for other in DTYPES if other.bits == source.bits and other not in (source, BOOL)]
        raise RuleError(
            f"`bitcast` keeps the bits, and {show(source)} has {source.bits} of them, {show(target)} {target.bits}",
            f"{show(source)} can be {', '.join(map(show, same))}" if same else None,
        )
    return Resolved((given, dtype), element_type(target), (source, target))


def _emit(e: Emitter, call: TypedCall, value: Any, dtype: Any) -> Any:
    from kaio.dsl.compiler.emission.scalars import from_memory, memory_type, to_memory

    source, target = call.static
    bits, kind = to_memory(e, value, source), memory_type(target)
    return from_memory(e, bits if bits.type == kind else e.b.bitcast(bits, kind), target)


@intrinsic(_typing, emit=_emit, example="out[i] = kaio.bitcast(n[i] + 0x3F800000, kaio.f32) + x[i]", ptx="mov.b32")
def bitcast(value: Any, dtype: type[T]) -> T:
    """The same bits as a number of another type of that size.

    `bitcast(x, kaio.u32)` of an f32 is its sign, exponent and significand in one number; NaNs keep their
    payload. A cast, `kaio.u32(x)`, keeps the value instead.
    """
    raise AssertionError
