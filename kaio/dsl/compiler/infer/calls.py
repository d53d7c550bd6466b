"""Calls: of intrinsics and dtypes by their records, of Python functions by typing them for these arguments."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import zip_longest
from types import FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from kaio.dsl import overloads, places, stores
from kaio.dsl.casts import cast_to
from kaio.dsl.compiler import advice, ir
from kaio.dsl.compiler.infer import records
from kaio.dsl.compiler.infer.constants import constant_type, numpy_dtype
from kaio.dsl.compiler.own import without_own_places
from kaio.dsl.function import Func
from kaio.dsl.intrinsic import STANDARD, Body, Intrinsic
from kaio.dsl.overloads import METHODS
from kaio.dsl.records import annotated_type
from kaio.dsl.rule_error import RuleError
from kaio.dsl.values import INDEX64, MethodType, ObjectType, TupleType, Type, Weak, show
from kaio.dtypes import DType
from kaio.errors import KernelTypeError, Place, is_message
from kaio.record_classes import is_record

if TYPE_CHECKING:
    from kaio.dsl.compiler.infer.inference import Inference

__all__ = ["call"]

__tracebackhide__ = is_message


def call(inference: Inference, assign: ir.Assign, op: ir.Call) -> Type:
    """The type of what a call gives; what it resolved to is kept for the emitter."""
    function = inference.types[op.function]
    if isinstance(function, MethodType):
        return _call_method(inference, assign, op, function)
    if not isinstance(function, ObjectType):
        text = inference.origins.text(op.function)
        raise RuleError(f"`{text}` is {show(function)}, and cannot be called", advice.not_callable(function, text))
    callee = _resolved(function.value)
    if is_record(callee):
        return records.construct(inference, assign.target, op, callee)
    if records.is_replace(callee) and len(op.args) == 1:
        return records.replace(inference, assign.target, op, op.args[0], of_method=False)
    if isinstance(callee, Intrinsic):
        return _call_intrinsic(inference, assign, op, callee)
    if isinstance(callee, FunctionType):
        return _call_function(inference, assign, op, callee)
    text = inference.origins.text(op.function)
    raise RuleError(f"`{text}` cannot be called in a kernel", advice.instead_of_call(callee, text))


def _resolved(callee: Any) -> Any:
    """The record of an intrinsic, a dtype or a function of Python's, or the function inside a `Func`."""
    if isinstance(callee, type) and issubclass(callee, np.generic):  # np.float64(0.1) has a width of its own
        return cast_to(numpy_dtype(callee))
    if isinstance(callee, DType):
        return cast_to(callee)
    if not isinstance(callee, Intrinsic) and _is_hashable(callee):
        callee = STANDARD.get(callee, callee)
    return callee.function if isinstance(callee, Func) else callee


def _call_method(inference: Inference, assign: ir.Assign, op: ir.Call, method: MethodType) -> Type:
    target = assign.target
    if method.name == "_replace" and not op.args:
        return records.replace(inference, target, op, op.function, of_method=True)
    if method.name != "_replace":
        return _call_bound(inference, assign, op, METHODS[type(method.receiver), method.name])
    raise RuleError(f"{show(method)} takes its fields by name", "for example `p._replace(gain=2)`")


def _call_bound(inference: Inference, assign: ir.Assign, op: ir.Call, callee: Intrinsic) -> Type:
    """A method by its record: its first argument is what the bound method holds."""
    if op.args or op.kwargs:
        raise RuleError(f"`{callee.name}` takes no arguments")
    bound = inference.types[op.function]
    assert isinstance(bound, MethodType)
    assert callee.typing is not None
    resolved = callee.typing(bound.receiver)
    assert resolved.result is not None
    called = replace(callee, emit=lambda e, call, method: callee.rule(e.target.name)(e, call, method[0]))
    inference.calls[assign.target] = ir.TypedCall(called, (op.function,), (bound,), resolved.result)
    return resolved.result


def _call_intrinsic(inference: Inference, assign: ir.Assign, op: ir.Call, callee: Intrinsic) -> Type:
    assert callee.signature is not None
    assert callee.typing is not None
    try:
        bound = callee.signature.bind(*op.args, **dict(op.kwargs))
    except TypeError:
        what, way_out = advice.misbound(callee.signature, len(op.args), [keyword for keyword, _ in op.kwargs])
        example = f"for example `{callee.call_line}`" if callee.call_line else None
        raise RuleError(f"`{callee.name}{_bare(callee.signature)}`: {what}", way_out or example) from None
    arguments = _in_order(callee.signature, bound.arguments)
    types = [_given(inference, callee, k, argument) for k, argument in enumerate(arguments)]
    callee = overloads.of_types(callee, types)
    assert callee.typing is not None
    try:
        resolved = callee.typing(*types)
    except RuleError as problem:
        raise problem.named(
            {key: inference.origins.text(name) for key, name in bound.arguments.items() if name in arguments}
        ) from None
    body = _body(inference, resolved.body, assign.place)
    given = resolved.result
    if given is None:
        assert body is not None
        given = body.result
    elif body is not None:
        _check_body(callee, body, given)
    result = _with_index(given, inference.index)
    inference.calls[assign.target] = ir.TypedCall(
        callee, tuple(arguments), resolved.operands, result, resolved.static, body, resolved.rounded
    )
    return resolved.rounded or result


def _given(inference: Inference, callee: Intrinsic, position: int, argument: str | ir.Constant) -> Type:
    """The type of an argument; of one that is known when compiling, its value."""
    assert callee.signature is not None
    name = list(callee.signature.parameters)[position] if callee.constants else ""
    if name not in callee.constants:
        return inference.types[argument] if isinstance(argument, str) else constant_type(argument.value)
    type_ = inference.types[argument] if isinstance(argument, str) else None
    if isinstance(type_, ObjectType):
        return type_
    made = inference.origins.of(argument).op if isinstance(argument, str) else argument
    if not isinstance(made, ir.Constant):
        text = inference.origins.text(str(argument))
        raise RuleError(
            f"`{name}=` of `{callee.name}` is known when compiling, and `{text}` is not",
            f"write the value, for example `{name}={callee.signature.parameters[name].default!r}`",
        )
    return ObjectType(made.value)


def _in_order(signature: inspect.Signature, given: Mapping[str, Any]) -> list[str | ir.Constant]:
    """The arguments in the order of the parameters up to the last one given, with the defaults between them.

    Behind a variable number of arguments come all that are given by keyword only.
    """
    parameters = list(signature.parameters.values())
    is_open = any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters)
    last = max((k for k, parameter in enumerate(parameters, 1) if parameter.name in given), default=0)
    found: list[str | ir.Constant] = []
    for parameter in parameters if is_open else parameters[:last]:
        if parameter.kind is parameter.VAR_POSITIONAL:
            found += given.get(parameter.name, ())
        else:
            found.append(given.get(parameter.name, ir.Constant(parameter.default)))
    return found


def _body(inference: Inference, body: Body | None, place: Place) -> ir.Typed | None:
    """The function that a record lowers in place, typed."""
    if body is None:
        return None
    parameters = dict(zip(inspect.signature(body.function).parameters, body.parameters, strict=True))
    try:
        return inference.type_callee(body.function, parameters, place)
    except KernelTypeError as problem:
        shown = [without_own_places(mistake) for mistake in problem.mistakes]
        if any(shown):
            raise KernelTypeError([mistake for mistake in shown if mistake is not None]) from problem
        raise RuleError(problem.mistakes[0].what, problem.mistakes[0].help) from problem


def _check_body(callee: Intrinsic, body: ir.Typed, result: Type) -> None:
    """Whether what a body gives may be what the call gives, as a value may go into an element."""
    pairs = [(body.result, result)]
    if isinstance(body.result, TupleType) and isinstance(result, TupleType):
        pairs = list(zip_longest(body.result.items, result.items))
    for given, wanted in pairs:
        if isinstance(given, DType | Weak) and isinstance(wanted, DType):
            with suppress(RuleError):
                stores.store(given, wanted)
                continue
        elif given == wanted:
            continue
        name = body.function.name
        raise RuleError(
            f"`{callee.name}` gives {show(result)}, and `{name}`, which says what it means, gives {show(body.result)}",
            f"cast what `{name}` returns",
        )


def _with_index(type_: Type, index: DType) -> Type:
    """Records speak of the wide index; in the narrow variant it is i32."""
    if isinstance(type_, TupleType):
        return TupleType(tuple(_with_index(item, index) for item in type_.items))
    return index if type_ is INDEX64 else type_


def _call_function(inference: Inference, assign: ir.Assign, op: ir.Call, callee: FunctionType) -> Type:
    signature = inspect.signature(callee)
    try:
        bound = signature.bind(*op.args, **dict(op.kwargs))
    except TypeError:
        what, way_out = advice.misbound(signature, len(op.args), [keyword for keyword, _ in op.kwargs])
        raise RuleError(f"`{callee.__name__}{signature}`: {what}", way_out) from None
    fixed = _annotated(callee)
    arguments: list[str | ir.Constant] = []
    parameters: dict[str, Type] = {}
    for name, parameter in signature.parameters.items():
        given = _argument(callee, bound.arguments.get(name), parameter)
        type_ = inference.types[given] if isinstance(given, str) else constant_type(given.value)
        arguments.append(given)
        parameters[name] = _as_annotated(callee, name, type_, fixed[name]) if name in fixed else type_
    typed = inference.type_callee(callee, parameters, assign.place)
    inference.calls[assign.target] = ir.TypedCall(typed, tuple(arguments), tuple(parameters.values()), typed.result)
    return typed.result


def _argument(callee: FunctionType, given: Any, parameter: inspect.Parameter) -> str | ir.Constant:
    """The name that is given for a parameter, or its default."""
    if given is None:
        return ir.Constant(parameter.default)
    if not isinstance(given, str):
        raise RuleError(
            f"`{callee.__name__}` takes a variable number of arguments",
            "a kernel calls functions with fixed parameters",
        )
    return given


def _as_annotated(callee: FunctionType, name: str, type_: Type, annotated: Type) -> Type:
    """An argument goes into an annotated parameter as a value into an element."""
    try:
        return places.check_value(annotated, type_)
    except RuleError as problem:
        if problem.help is not None:
            raise
        what = f"argument `{name}` of `{callee.__name__}` is {show(annotated)}, not {show(type_)}"
        raise RuleError(what, problem.help) from None


def _bare(signature: inspect.Signature) -> inspect.Signature:
    """A signature without annotations, as it is shown in messages."""
    empty = inspect.Parameter.empty
    return signature.replace(
        parameters=[p.replace(annotation=empty) for p in signature.parameters.values()], return_annotation=empty
    )


def _is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _annotated(function: FunctionType) -> dict[str, Type]:
    """The parameters of a device function that an annotation fixes; other annotations are for people."""
    hints = {name: _evaluated(hint, function) for name, hint in function.__annotations__.items() if name != "return"}
    return {name: type_ for name, hint in hints.items() if (type_ := _pinned(hint)) is not None}


def _pinned(hint: Any) -> Type | None:
    """What an annotation fixes; a record of free fields takes what it is given, so it fixes nothing."""
    try:
        return annotated_type(hint)
    except RuleError:
        return None


def _evaluated(hint: Any, function: FunctionType) -> Any:
    """An annotation, read if it is a text; None where it has names that only a type checker knows."""
    if not isinstance(hint, str):
        return hint
    closure = inspect.getclosurevars(function).nonlocals
    try:
        return eval(hint, function.__globals__, dict(closure))
    except Exception:
        return None
