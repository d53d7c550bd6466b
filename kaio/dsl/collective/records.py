"""The records of the collective operations: their types, and the function of `folding` that each means."""

from __future__ import annotations

import operator
from collections.abc import Callable
from types import FunctionType
from typing import TYPE_CHECKING, Any

from kaio.dsl import literals
from kaio.dsl.casts import integer
from kaio.dsl.collective import folding
from kaio.dsl.collective.numbers import converts
from kaio.dsl.collective.signatures import (
    ArgReduction,
    FunctionReduction,
    FunctionScan,
    LaneBroadcast,
    Reduction,
    Scan,
    ThreadBroadcast,
)
from kaio.dsl.collective.steps import exchangeable
from kaio.dsl.complexes import ComplexType
from kaio.dsl.intrinsic import Body, Resolved, intrinsic
from kaio.dsl.rule_error import RuleError
from kaio.dsl.values import BOOL, ObjectType, Type, Weak, show
from kaio.dsl.vectors import VectorType
from kaio.dtypes import DType, i32

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter
    from kaio.dsl.compiler.ir import TypedCall

__all__ = [
    "block_broadcast", "block_reduce", "block_reduce_and", "block_reduce_argmax", "block_reduce_argmin",
    "block_reduce_max", "block_reduce_min", "block_reduce_or", "block_reduce_prod", "block_reduce_sum",
    "block_reduce_xor", "block_scan", "block_scan_and", "block_scan_max", "block_scan_min", "block_scan_or",
    "block_scan_prod", "block_scan_sum", "block_scan_xor", "warp_broadcast", "warp_reduce", "warp_reduce_and",
    "warp_reduce_argmax", "warp_reduce_argmin", "warp_reduce_max", "warp_reduce_min", "warp_reduce_or",
    "warp_reduce_prod", "warp_reduce_sum", "warp_reduce_xor", "warp_scan", "warp_scan_and", "warp_scan_max",
    "warp_scan_min", "warp_scan_or", "warp_scan_prod", "warp_scan_sum", "warp_scan_xor",
]  # fmt: skip


_GROUPS = {"warp": "the lanes of the warp", "block": "the threads of the block"}
_WORDS = {
    "sum": "sum", "prod": "product", "min": "smallest", "max": "largest",
    "and": "bitwise and", "or": "bitwise or", "xor": "bitwise exclusive or",
}  # fmt: skip
_OPERATORS = (
    (operator.add, folding.plus), (operator.mul, folding.times), (operator.and_, folding.both),
    (operator.or_, folding.either), (operator.xor, folding.differing),
)  # fmt: skip
_RULES = {
    "sum": "It stays in the type of the value: integers wrap, so cast narrow ones before.",
    "prod": "It stays in the type of the value: integers wrap, so cast narrow ones before.",
    "min": "NaN is ignored and -0.0 is below 0.0, as `min` has it.",
    "max": "NaN is ignored and 0.0 is above -0.0, as `max` has it.",
    "and": "Of integers and bools.",
    "or": "Of integers and bools.",
    "xor": "Of integers and bools.",
}


# ---------------------------------------------------------------------- types
def _number(name: str, value: Type, operation: str) -> Type:
    """The type of a value that is folded by an operation with a name; a vector is folded lane by lane."""
    if isinstance(value, VectorType):
        _number(name, value.lane, operation)
        return value
    if isinstance(value, ComplexType):
        if operation not in ("sum", "prod"):
            raise RuleError(f"`{name}` of {show(value)}: complex numbers have no order and no bits", "fold `abs(z)`")
        return exchangeable(value, "it")
    if not isinstance(value, DType | Weak):
        group = "_".join(name.split("_")[:2])
        raise RuleError(
            f"`{name}` takes a number, not {show(value)}", f"combine by a function: `kaio.{group}(value, function)`"
        )
    dtype = literals.default(value)
    if operation in ("and", "or", "xor"):
        if dtype is not BOOL and not dtype.is_int:
            raise RuleError(f"`{name}` of {show(dtype)}, which has no bitwise operators", "cast it to an integer")
    elif dtype is BOOL:
        raise RuleError(f"`{name}` of a bool: bools have no arithmetic", "cast it, for example `kaio.i32(...)`")
    if dtype.is_float and dtype.bits == 8:
        what = f"`{name}` of {show(dtype)}, which stores numbers and has no arithmetic"
        raise RuleError(what, "cast it, for example `kaio.f32(...)`")
    return dtype


def _function(name: str, function: Type) -> ObjectType:
    """What a fold combines by; Python's operators as functions are those of the kernel."""
    if not isinstance(function, ObjectType) or not callable(function.value):
        raise RuleError(
            f"`{name}` combines by a function of two values, not by {show(function)}",
            "define one outside the kernel: `plus = lambda a, b: a + b`",
        )
    return next((ObjectType(ours) for python, ours in _OPERATORS if python is function.value), function)


def _flag(name: str, exclusive: Type) -> None:
    if exclusive is not BOOL:
        raise RuleError(f"the second argument of `{name}`, `exclusive`, is a bool, not {show(exclusive)}")


def _resolved(operands: tuple[Type, ...], function: Any, *constants: Any) -> Resolved:
    """A call that means a function of `folding`, which takes the operands and then these literals and objects."""
    known = (literals.literal(value) if isinstance(value, int) else ObjectType(value) for value in constants)
    return Resolved(operands, None, body=Body(function, (*operands, *known)))


def _lower(e: Emitter, call: TypedCall, *values: Any) -> Any:
    constants = len(call.body.function.params) - len(values)  # type: ignore[union-attr]
    return e.inline(call.body, (*values, *[None] * constants))  # type: ignore[arg-type]


# ---------------------------------------------------------------------- records
def _record(name: str, doc: str, like: Callable[..., Any], typing: Any, example: str, ptx: str) -> Any:
    """The record of a function of that name and doc with the parameters of another."""
    made = FunctionType(like.__code__, like.__globals__, name, like.__defaults__)
    made.__doc__, made.__module__ = doc, __name__
    return intrinsic(typing, emit=_lower, example=example, ptx=ptx)(made)


def _of_value(value: Any) -> Any: ...
def _of_index(value: Any, index: Any = None) -> Any: ...
def _of_function(value: Any, function: Any) -> Any: ...
def _of_flag(value: Any, exclusive: Any = False) -> Any: ...
def _of_initial(value: Any, function: Any, exclusive: Any = False, initial: Any = None) -> Any: ...
def _of_lane(value: Any, lane: Any = 0) -> Any: ...
def _of_thread(value: Any, thread: Any = 0) -> Any: ...


_VALUES = {"min": "n[i] + 1", "and": "n[i] | 64", "or": "n[i]", "xor": "n[i] // 3 + 64 // (i + 1)"}


def _example(name: str, operation: str, more: str = "") -> str:
    """With integers where there is an instruction for them."""
    return f"{'counts' if operation in _VALUES else 'out'}[i] = kaio.{name}({_VALUES.get(operation, 'x[i]')}{more})"


def _reduction(group: str, operation: str) -> Reduction:
    name = f"{group}_reduce_{operation}"
    body = folding.fold_warp_by_name if group == "warp" else folding.fold_block_by_name

    def typing(value: Type) -> Resolved:
        return _resolved((_number(name, value, operation),), body, folding.FUNCTIONS[operation], operation)

    doc = f"The {_WORDS[operation]} of `value` over {_GROUPS[group]}; each of them gets it.\n\n{_RULES[operation]}"
    ptx = "redux.sync" if operation in _VALUES else "shfl.sync.down"
    return _record(name, doc, _of_value, typing, _example(name, operation), ptx)  # type: ignore[no-any-return]


def _arg_reduction(group: str, operation: str) -> ArgReduction:
    name = f"{group}_reduce_arg{operation}"
    function = folding.first_smallest if operation == "min" else folding.first_largest
    bodies = (
        (folding.fold_warp_lanes, folding.fold_warp_pairs)
        if group == "warp"
        else (folding.fold_block_threads, folding.fold_block_pairs)
    )

    def typing(value: Type, index: Type | None = None) -> Resolved:
        if isinstance(value, VectorType):
            raise RuleError(f"`{name}` takes one number, not {show(value)}", "call it for each lane, for example `v.x`")
        dtype = _number(name, value, operation)
        if index is None:
            return _resolved((dtype,), bodies[0], function)
        integer(index, f"the index that `{name}` gives", None)
        return _resolved((dtype, exchangeable(index, "an index")), bodies[1], function)

    place = "lane in its warp" if group == "warp" else "number in the block, x first"
    doc = (
        f"The {_WORDS[operation]} of `value` over {_GROUPS[group]} and its `index`; each of them gets both.\n\n"
        f"Without an index it is the thread's {place}. Of equal numbers it is the one with the lowest index. "
        f"{_RULES[operation]} Where all are NaN, it is the NaN with the lowest index."
    )
    example = f"best, where = kaio.{name}(x[i])\nout[i] = best\ncounts[i] = where + 1"
    return _record(name, doc, _of_index, typing, example, "shfl.sync.down")  # type: ignore[no-any-return]


def _function_reduction(group: str) -> FunctionReduction:
    name = f"{group}_reduce"
    body = folding.fold_warp if group == "warp" else folding.fold_block

    def typing(value: Type, function: Type) -> Resolved:
        return _resolved((exchangeable(value, f"what `{name}` combines"), _function(name, function)), body)

    doc = (
        f"Combine `value` of {_GROUPS[group]} by a function of two values; each of them gets the result.\n\n"
        "The function is associative; it need not be commutative, since it combines in the order of the threads, x "
        "first. The value may be a tuple. The function is one of kaio or of Python's `operator`, or a function or "
        "lambda that is defined outside the kernel; what it gives is converted as in a store."
    )
    example = f"out[i] = kaio.{name}(x[i], kaio.maximum)"
    return _record(name, doc, _of_function, typing, example, "shfl.sync.down")  # type: ignore[no-any-return]


def _scan(group: str, operation: str) -> Scan:
    name = f"{group}_scan_{operation}"
    function = folding.FUNCTIONS[operation]
    plain, flagged = (
        (folding.scan_warp, folding.scan_warp_by_name)
        if group == "warp"
        else (folding.scan_block, folding.scan_block_by_name)
    )

    def typing(value: Type, exclusive: Type | None = None) -> Resolved:
        dtype = _number(name, value, operation)
        if exclusive is None:
            return _resolved((dtype,), plain, function)
        _flag(name, exclusive)
        return _resolved((dtype, BOOL), flagged, function, operation)

    doc = (
        f"The {_WORDS[operation]} of `value` over {_GROUPS[group]} up to this one, x first.\n\n"
        "With `exclusive=True` without its own; the first then has the number that changes no other. "
        f"{_RULES[operation]}"
    )
    more = ", exclusive=True" if group == "block" and operation in ("sum", "or") else ""
    return _record(name, doc, _of_flag, typing, _example(name, operation, more), "shfl.sync.up")  # type: ignore[no-any-return]


def _function_scan(group: str) -> FunctionScan:
    name = f"{group}_scan"
    plain, flagged = (
        (folding.scan_warp, folding.scan_warp_from)
        if group == "warp"
        else (folding.scan_block, folding.scan_block_from)
    )

    def typing(value: Type, function: Type, exclusive: Type | None = None, initial: Type | None = None) -> Resolved:
        function, given = _function(name, function), exchangeable(value, f"what `{name}` combines")
        if exclusive is None:
            return _resolved((given, function), plain)
        _flag(name, exclusive)
        if initial is None:
            raise RuleError(
                f"an exclusive `{name}` has nothing to give to the first thread",
                "say what: `exclusive=True, initial=0`",
            )
        if not converts(initial, given):
            what = f"what `{name}` puts in front is {show(initial)}, which is no {show(given)}"
            raise RuleError(what, "cast it to the type of the value")
        return _resolved((given, function, BOOL, initial), flagged)

    doc = (
        f"Combine `value` of {_GROUPS[group]} up to this one by a function of two values; see `{group}_reduce`.\n\n"
        "`initial` is put in front of everything. With `exclusive=True` a thread's own value is left out, and the "
        "first has `initial`."
    )
    example = f"out[i] = kaio.{name}(x[i], kaio.maximum, exclusive=True, initial=0.5)"
    return _record(name, doc, _of_initial, typing, example, "shfl.sync.up")  # type: ignore[no-any-return]


def _broadcast(name: str, like: Any, body: Any, what: str, most: int, doc: str, ptx: str) -> Any:
    def typing(value: Type, place: Type | None = None) -> Resolved:
        given = exchangeable(value, f"what `{name}` gives")
        if place is None:
            return _resolved((given,), body, 0)
        integer(place, f"the {what} of `{name}`")
        if isinstance(place, Weak) and not all(0 <= number <= most for number in place.values):
            raise RuleError(f"the {what} of `{name}` is 0 to {most}, not {show(place)}")
        return _resolved((given, i32), body)

    return _record(name, doc, like, typing, f"out[i] = kaio.{name}(x[i], 5)", ptx)


warp_reduce_sum = _reduction("warp", "sum")
warp_reduce_prod = _reduction("warp", "prod")
warp_reduce_min = _reduction("warp", "min")
warp_reduce_max = _reduction("warp", "max")
warp_reduce_and = _reduction("warp", "and")
warp_reduce_or = _reduction("warp", "or")
warp_reduce_xor = _reduction("warp", "xor")
warp_reduce_argmin = _arg_reduction("warp", "min")
warp_reduce_argmax = _arg_reduction("warp", "max")
warp_reduce = _function_reduction("warp")

block_reduce_sum = _reduction("block", "sum")
block_reduce_prod = _reduction("block", "prod")
block_reduce_min = _reduction("block", "min")
block_reduce_max = _reduction("block", "max")
block_reduce_and = _reduction("block", "and")
block_reduce_or = _reduction("block", "or")
block_reduce_xor = _reduction("block", "xor")
block_reduce_argmin = _arg_reduction("block", "min")
block_reduce_argmax = _arg_reduction("block", "max")
block_reduce = _function_reduction("block")

warp_scan_sum = _scan("warp", "sum")
warp_scan_prod = _scan("warp", "prod")
warp_scan_min = _scan("warp", "min")
warp_scan_max = _scan("warp", "max")
warp_scan_and = _scan("warp", "and")
warp_scan_or = _scan("warp", "or")
warp_scan_xor = _scan("warp", "xor")
warp_scan = _function_scan("warp")

block_scan_sum = _scan("block", "sum")
block_scan_prod = _scan("block", "prod")
block_scan_min = _scan("block", "min")
block_scan_max = _scan("block", "max")
block_scan_and = _scan("block", "and")
block_scan_or = _scan("block", "or")
block_scan_xor = _scan("block", "xor")
block_scan = _function_scan("block")


warp_broadcast: LaneBroadcast = _broadcast(
    "warp_broadcast",
    _of_lane,
    folding.broadcast_warp,
    "lane",
    31,
    "`value` of one lane of the warp, which each lane gets; the lane is the same in all of them.",
    "shfl.sync.idx",
)
block_broadcast: ThreadBroadcast = _broadcast(
    "block_broadcast",
    _of_thread,
    folding.broadcast_block,
    "thread",
    1023,
    "`value` of one thread of the block, which each thread gets; the thread is its number, x first, the same in all.",
    "bar.sync",
)
