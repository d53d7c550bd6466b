"""What folds and scans ask of numbers: one type, identities, an order, the one instruction for a warp."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kaio.dsl import literals, stores
from kaio.dsl.collective.steps import exchangeable
from kaio.dsl.complexes import ComplexType
from kaio.dsl.intrinsic import Resolved, intrinsic
from kaio.dsl.rule_error import RuleError
from kaio.dsl.values import BOOL, Compound, ObjectType, Type, Weak, show
from kaio.dtypes import DTYPES, DType, i32

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter
    from kaio.dsl.compiler.ir import TypedCall

__all__ = ["by_redux", "converts", "identity", "of_type", "rank", "redux"]


def converts(value: Type, like: Type) -> bool:
    """Whether a value becomes one of the type of another as in a store, part by part."""
    pairs = [(value, like)]
    if isinstance(like, Compound):
        if not (isinstance(value, Compound) and value.is_like(like)):
            return False
        pairs = list(zip(value.items, like.items, strict=True))
    for given, type_ in pairs:
        if not isinstance(given, DType | Weak) or not isinstance(type_, DType | Weak):
            if given != type_:
                return False
            continue
        try:
            stores.store(given, literals.default(type_))
        except RuleError:
            return False
    return True


def _of_type(value: Type, like: Type) -> Resolved:
    wanted = exchangeable(like, "it")
    if not converts(value, like):
        what = f"the function of two {show(like)} gives {show(value)}, which is no {show(like)}"
        raise RuleError(what, "cast what it returns")
    return Resolved((wanted, wanted), wanted)


@intrinsic(_of_type, emit=lambda e, call, value, like: value)
def of_type(value: Any, like: Any) -> Any:
    """A value converted to the type of another, as in a store."""


_IDENTITIES: dict[str, Callable[[DType], int | float]] = {
    "sum": lambda dtype: 0,
    "prod": lambda dtype: 1,
    "min": lambda dtype: math.inf if dtype.is_float else dtype.range[1],
    "max": lambda dtype: -math.inf if dtype.is_float else dtype.range[0],
    "and": lambda dtype: -1 if dtype.kind == "i" else dtype.range[1],
    "or": lambda dtype: 0,
    "xor": lambda dtype: 0,
}


def _by_name(value: Type, name: Type) -> Resolved:
    """A value of its own type, of the operation of that name."""
    assert isinstance(name, ObjectType)
    return Resolved((value, name), value, (name.value,))


def _identity(e: Emitter, call: TypedCall, *_: Any) -> Any:
    find = _IDENTITIES[call.static[0]]
    if isinstance(call.result, Compound):
        parts = [item for item in call.result.items if isinstance(item, DType)]
        if isinstance(call.result, ComplexType):  # all are real
            return e.const(parts[0], find(parts[0])), e.const(parts[1], 0)
        return tuple(e.const(part, find(part)) for part in parts)
    assert isinstance(call.result, DType)
    return e.const(call.result, find(call.result))


@intrinsic(_by_name, emit=_identity)
def identity(value: Any, name: str) -> Any:
    """The number of that type which changes no other in `sum`, `prod`, `min`, `max`, `and`, `or` and `xor`."""


_SIGNED = {dtype.bits: dtype for dtype in DTYPES if dtype.kind == "i"}


def _rank_typing(value: Type, name: Type) -> Resolved:
    assert isinstance(value, DType)
    assert isinstance(name, ObjectType)
    return Resolved((value, name), _SIGNED[value.bits] if value.is_float else value, (name.value,))


def _rank(e: Emitter, call: TypedCall, value: Any, _: Any) -> Any:
    from kaio.dsl.compiler.emission.atomics import bits_of
    from kaio.dsl.compiler.emission.float_bits import magnitude_bits

    dtype, result = call.operands[0], call.result
    assert isinstance(dtype, DType)
    assert isinstance(result, DType)
    if not dtype.is_float:
        return value
    low, high = result.range
    bits = bits_of(e, value, dtype)
    # from -0.0 down, the bits of floats are in reverse
    ordered = e.b.xor(bits, e.b.and_(e.b.ashr(bits, e.const(result, dtype.bits - 1)), e.const(result, high)))
    last = e.const(result, high if call.static[0] == "min" else low)
    size, infinity = magnitude_bits(e, value, dtype)
    return e.b.select(e.b.icmp_unsigned(">", size, infinity), last, ordered)


@intrinsic(_rank_typing, emit=_rank)
def rank(value: Any, name: str) -> Any:
    """An integer that is ordered as the numbers are: -0.0 below 0.0, NaN behind all that `min` or `max` may choose."""


# ---------------------------------------------------------------------- one instruction for a warp
_REDUX = {"sum": "add", "min": "min", "max": "max", "and": "and", "or": "or", "xor": "xor"}


def _has_redux(dtype: Type, name: str) -> bool:
    return isinstance(dtype, DType) and not dtype.is_float and dtype.bits <= 32 and name in _REDUX


def _by_redux_cuda(e: Emitter, call: TypedCall, *_: Any) -> Any:
    return e.const(BOOL, e.target.has("sm_80") and _has_redux(call.operands[0], call.static[0]))


@intrinsic(
    lambda value, name: Resolved((value, name), BOOL, (name.value,)),
    cuda=_by_redux_cuda,
    host=lambda e, call, *_: e.const(BOOL, False),
)
def by_redux(value: Any, name: str) -> bool:
    """Whether `redux` does that to such a value here; known while emitting."""
    raise AssertionError


def _redux_cuda(e: Emitter, call: TypedCall, value: Any, _: Any) -> Any:
    """`redux.sync` of PTX (sm_80) on 32 bits; a narrower integer is widened, which changes no result of its width."""
    from kaio.dsl.compiler.cuda.assembly import assemble

    dtype, word = call.operands[0], e.integer(32)
    assert isinstance(dtype, DType)
    if value.type != word:
        value = (e.b.sext if dtype.kind == "i" else e.b.zext)(value, word)
    name = _REDUX[call.static[0]]
    suffix = "b32" if name in ("and", "or", "xor") else "s32" if dtype.kind == "i" else "u32"
    text = f"redux.sync.{name}.{suffix} $0, $1, $2;"
    (found,) = assemble(e, text, [word], [value, e.const(i32, -1)], volatile=True)
    return e.b.trunc(found, e.llvm(dtype)) if e.llvm(dtype) != word else found


def _no_redux(e: Emitter, call: TypedCall, *_: Any) -> Any:
    raise NotImplementedError("`by_redux` is false on the host")


@intrinsic(_by_name, cuda=_redux_cuda, host=_no_redux)
def redux(value: Any, name: str) -> Any:
    """A fold of all lanes of the warp by one instruction."""
