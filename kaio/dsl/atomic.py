"""Updates of one element that no other thread can come between."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

from kaio.dsl.elements import check_index, check_store
from kaio.dsl.intrinsic import Resolved, intrinsic
from kaio.dsl.rule_error import RuleError
from kaio.dsl.types import InOut, Out
from kaio.dsl.values import BOOL, INDEX64, ArrayType, BufferType, ObjectType, Type, show
from kaio.dtypes import DType

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter
    from kaio.dsl.compiler.ir import TypedCall

    Buffer: TypeAlias = Out[Any, Any] | InOut[Any, Any]
    Index: TypeAlias = int | tuple[int, ...]
    Scope: TypeAlias = Literal["block", "device", "system"]
    Order: TypeAlias = Literal["relaxed", "acquire", "release", "acq_rel"]

__all__ = [
    "atomic_add", "atomic_and", "atomic_cas", "atomic_dec", "atomic_exch", "atomic_inc", "atomic_max", "atomic_min",
    "atomic_or", "atomic_sub", "atomic_xor",
]  # fmt: skip

F = TypeVar("F", bound=Callable[..., Any])

_SCOPES = ("block", "device", "system")
_ORDERS = ("relaxed", "acquire", "release", "acq_rel")
_ON_BITS = ("and", "or", "xor")
_ON_EVERYTHING = ("exch", "cas")
_INSTEAD = {"add": "`+=`", "sub": "`-=`", "and": "`&=`", "or": "`|=`", "xor": "`^=`", "exch": "`=`"}


# ---------------------------------------------------------------------- types
def _typing(operation: str) -> Callable[..., Resolved]:
    """What an update of that name takes; its values are converted as they would be in a store."""
    name = f"atomic_{operation}"
    parameters = {"cas": ("expected", "desired"), "inc": ("limit",), "dec": ("limit",)}.get(operation, ("value",))

    def typing(buffer: Type, index: Type, *given: Type) -> Resolved:
        values, words = given[: len(parameters)], given[len(parameters) :]
        array = check_index(buffer, index, "buffer")
        for parameter, value in zip(parameters, values, strict=True):
            check_store(array, value, "buffer", parameter)
        _check_memory(name, operation, array)
        _check_dtype(name, operation, array.dtype)
        scope = _word(name, "scope", words[0], _SCOPES) if words else "device"
        order = _word(name, "order", words[1], _ORDERS) if len(words) > 1 else "relaxed"
        converted = tuple(INDEX64 if value is INDEX64 else array.dtype for value in values)
        return Resolved((buffer, index, *converted, *words), array.dtype, (operation, scope, order))

    return typing


def _check_memory(name: str, operation: str, array: BufferType | ArrayType) -> None:
    if isinstance(array, ArrayType) and array.space == "local":
        way_out = f"write it with {_INSTEAD.get(operation, '`=`')}"
        raise RuleError(f"`{name}` on a local array, which no other thread sees", way_out)


def _check_dtype(name: str, operation: str, dtype: DType) -> None:
    """Refuse what the operation does not mean for this element type."""
    shown = show(dtype)
    if dtype.kind not in "biuf":
        raise RuleError(
            f"`{name}` on {shown}: its parts are several numbers, and one step updates one",
            "keep each part in a buffer of its own",
        )
    if operation in _ON_EVERYTHING:
        return
    if operation in _ON_BITS:
        if dtype.is_float:
            raise RuleError(f"`{name}` on {shown}: floats have no bitwise operators", "keep the bits in a u32 buffer")
        return
    if dtype is BOOL:
        raise RuleError(
            f"`{name}` on bool: bools have no arithmetic",
            "use `atomic_or`, `atomic_and` or `atomic_xor`, or count in an i32 or u32 buffer",
        )
    if dtype.is_float and operation in ("inc", "dec"):
        raise RuleError(f"`{name}` on {shown}: it counts in whole numbers", "count in a u32 buffer")
    if dtype.is_float and dtype.bits == 8:
        raise RuleError(f"`{name}` on {shown}, which stores numbers and has no arithmetic", "use an f16 or f32 buffer")


def _word(name: str, what: str, given: Type, known: tuple[str, ...]) -> str:
    if isinstance(given, ObjectType) and given.value in known:
        return str(given.value)
    listed = f"{', '.join(map(repr, known[:-1]))} or {known[-1]!r}"
    raise RuleError(f"the {what} of `{name}` is {listed}, not {show(given)}")


# ---------------------------------------------------------------------- rules
def _update(e: Emitter, call: TypedCall, array: Any, index: Any, *values: Any) -> Any:
    """What is to be done, for the rules of the two machines."""
    from kaio.dsl.compiler.emission.access import Access
    from kaio.dsl.compiler.emission.atomics import Update

    type_, at = call.operands[:2]
    operation, scope, order = call.static
    assert isinstance(type_, BufferType | ArrayType)
    dtype = type_.dtype
    pointer = e.address(array, type_, index, at, e.assigning)
    sources = call.operands[2:]
    operands = tuple(
        e.convert(value, source, dtype)
        for value, source in zip(values, sources, strict=True)
        if isinstance(source, DType)
    )
    overwrites = operation == "exch" and not e.is_result_read
    access = Access("atomic", type_.space, e.assigning, dtype, scope=scope, order=order, overwrites=overwrites)
    return Update(operation, dtype, pointer, operands, access, e.is_result_read)


def _cuda(e: Emitter, call: TypedCall, *values: Any) -> Any:
    from kaio.dsl.compiler.cuda.ptx_atomics import update

    return update(e, _update(e, call, *values))


def _host(e: Emitter, call: TypedCall, *values: Any) -> Any:
    from kaio.dsl.compiler.host.host_atomics import update

    return update(e, _update(e, call, *values))


def _atomic(example: str, ptx: str) -> Callable[[F], F]:
    """The record of a function `atomic_...`."""

    def record(function: F) -> F:
        operation = function.__name__.removeprefix("atomic_")
        return intrinsic(
            _typing(operation), cuda=_cuda, host=_host, example=example, ptx=ptx, observes=lambda call: True
        )(function)

    return record


_IN_SHARED = """\
turn = kaio.shared_mem(1, kaio.u32)
if i == 0:
    turn[0] = 3
kaio.bar_sync()
{call}
kaio.bar_sync()
counts[i] = kaio.i32(turn[0])"""


@_atomic("kaio.atomic_add(counts, i, 1)", "red.global.add.u32")
def atomic_add(buffer: Buffer, index: Index, value: Any, *, scope: Scope = "device", order: Order = "relaxed") -> Any:
    """Add `value` to `buffer[index]` in one step and give the value from before.

    Integers wrap. Floats are rounded at each addition, and the order of additions is not fixed, so that their last bits
    may differ from run to run; f32 in a buffer takes subnormals as zero, as the hardware does.
    """


@_atomic("kaio.atomic_sub(out, i, x[i])", "red.global.add.f32")
def atomic_sub(buffer: Buffer, index: Index, value: Any, *, scope: Scope = "device", order: Order = "relaxed") -> Any:
    """Subtract `value` from `buffer[index]` in one step and give the value from before; see `atomic_add`."""


@_atomic("kaio.atomic_min(counts, 0, -i)", "red.global.min.s32")
def atomic_min(buffer: Buffer, index: Index, value: Any, *, scope: Scope = "device", order: Order = "relaxed") -> Any:
    """Set `buffer[index]` to the smaller of it and `value`, as `min` does, and give the value from before.

    NaN is ignored and -0.0 is below 0.0, so the result does not depend on the order of the threads.
    """


@_atomic("kaio.atomic_max(counts, 0, i)", "red.global.max.s32")
def atomic_max(buffer: Buffer, index: Index, value: Any, *, scope: Scope = "device", order: Order = "relaxed") -> Any:
    """Set `buffer[index]` to the larger of it and `value`, as `max` does, and give the value from before.

    NaN is ignored and 0.0 is above -0.0, so the result does not depend on the order of the threads.
    """


@_atomic("counts[i] = 7\nkaio.atomic_and(counts, i, 5)", "red.global.and.b32")
def atomic_and(buffer: Buffer, index: Index, value: Any, *, scope: Scope = "device", order: Order = "relaxed") -> Any:
    """Set `buffer[index]` to `buffer[index] & value` and give the value from before: integers and bools."""


@_atomic("kaio.atomic_or(counts, 0, 1 << (i % 31))", "red.global.or.b32")
def atomic_or(buffer: Buffer, index: Index, value: Any, *, scope: Scope = "device", order: Order = "relaxed") -> Any:
    """Set `buffer[index]` to `buffer[index] | value` and give the value from before: integers and bools."""


@_atomic("kaio.atomic_xor(counts, 0, n[i])\nkaio.atomic_xor(counts, 1, 1 << (i % 31))", "red.global.xor.b32")
def atomic_xor(buffer: Buffer, index: Index, value: Any, *, scope: Scope = "device", order: Order = "relaxed") -> Any:
    """Set `buffer[index]` to `buffer[index] ^ value` and give the value from before: integers and bools."""


@_atomic("wide[i] = 1.5\nout[i] = kaio.atomic_exch(wide, i, d[i])", "atom.global.exch.b64")
def atomic_exch(buffer: Buffer, index: Index, value: Any, *, scope: Scope = "device", order: Order = "relaxed") -> Any:
    """Set `buffer[index]` to `value` and give the value from before."""


@_atomic("counts[i] = kaio.atomic_cas(counts, i, 0, 7) + 1", "atom.global.cas.b32")
def atomic_cas(
    buffer: Buffer,
    index: Index,
    expected: Any,
    desired: Any,
    *,
    scope: Scope = "device",
    order: Order = "relaxed",
) -> Any:
    """Set `buffer[index]` to `desired` where it is `expected`, and give the value from before either way.

    The bits are compared: a NaN is equal to itself, and 0.0 is not -0.0.
    """


@_atomic(_IN_SHARED.format(call="kaio.atomic_inc(turn, 0, 9)"), "red.shared.inc.u32")
def atomic_inc(buffer: Buffer, index: Index, limit: Any, *, scope: Scope = "device", order: Order = "relaxed") -> Any:
    """Count up to `limit`, then from 0 again: `0 if old >= limit else old + 1`. Gives the value from before.

    One instruction for u32, a loop of `atomic_cas` for the other integers.
    """


@_atomic(_IN_SHARED.format(call="kaio.atomic_dec(turn, 0, 9)"), "red.shared.dec.u32")
def atomic_dec(buffer: Buffer, index: Index, limit: Any, *, scope: Scope = "device", order: Order = "relaxed") -> Any:
    """Count down to 0, then from `limit` again: `limit if old == 0 or old > limit else old - 1`.

    Gives the value from before. One instruction for u32, a loop of `atomic_cas` for the other integers.
    """
