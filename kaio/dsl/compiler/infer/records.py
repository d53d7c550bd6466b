"""Records made in a kernel: `Params(gain, bias=0.5)`, `p._replace(gain=2)`, `dataclasses.replace(p, gain=2)`."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from kaio.dsl.compiler import ir
from kaio.dsl.compiler.infer.constants import constant_type
from kaio.dsl.intrinsic import Intrinsic
from kaio.dsl.places import check_value
from kaio.dsl.records import Field, RecordType, fields_of, signature_of
from kaio.dsl.rule_error import RuleError
from kaio.dsl.values import Type, show
from kaio.errors import did_you_mean

if TYPE_CHECKING:
    from kaio.dsl.compiler.infer.inference import Inference

__all__ = ["construct", "replace"]


def _make(e: Any, call: ir.TypedCall, *values: Any) -> Any:
    return values


def _replace(e: Any, call: ir.TypedCall, record: Any, *values: Any) -> Any:
    parts = list(record[0] if call.static[1] else record)
    for position, value in zip(call.static[0], values, strict=True):
        parts[position] = value
    return tuple(parts)


_MAKE = Intrinsic("making of a record", emit=_make)
_REPLACE = Intrinsic("record with other fields", emit=_replace)


def construct(inference: Inference, target: str, op: ir.Call, of: type) -> Type:
    """The type of `Params(...)`."""
    fields, signature = fields_of(of), signature_of(of)
    try:
        bound = signature.bind(*op.args, **dict(op.kwargs))
    except TypeError as problem:
        names = ", ".join(signature.parameters)
        raise RuleError(f"`{of.__name__}({names})`: {problem}") from None
    arguments: list[str | ir.Constant] = []
    for field in fields:
        given = bound.arguments.get(field.name)
        arguments.append(ir.Constant(signature.parameters[field.name].default) if given is None else given)
    types = [inference.types[a] if isinstance(a, str) else constant_type(a.value) for a in arguments]
    items = tuple(_field_type(of, field, type_) for field, type_ in zip(fields, types, strict=True))
    result = RecordType(of, tuple(field.name for field in fields), items)
    inference.calls[target] = ir.TypedCall(_MAKE, tuple(arguments), items, result)
    return result


def replace(inference: Inference, target: str, op: ir.Call, record: str, of_method: bool) -> Type:
    """The type of a record with some fields set anew; `record` names it, or its bound method."""
    given = inference.types[record]
    type_ = given.items[0] if of_method else given  # type: ignore[union-attr]
    if not isinstance(type_, RecordType):
        raise RuleError(f"`replace` takes a dataclass, not {show(type_)}", "make a tuple of the values")
    fields = {field.name: field for field in fields_of(type_.of)}
    for name, _ in op.kwargs:
        if name not in fields:
            way_out = did_you_mean(name, fields) or f"it has {', '.join(fields)}"
            raise RuleError(f"{show(type_)} has no field `{name}`", way_out)
    items = list(type_.items)
    changed = [type_.fields[name] for name, _ in op.kwargs]
    for position, (name, value) in zip(changed, op.kwargs, strict=True):
        items[position] = _field_type(type_.of, fields[name], inference.types[value])
    result = type_.with_items(tuple(items))
    names = (record, *(value for _, value in op.kwargs))
    operands = (given, *(items[position] for position in changed))
    inference.calls[target] = ir.TypedCall(_REPLACE, names, operands, result, (tuple(changed), of_method))
    return result


def _field_type(of: type, field: Field, type_: Type) -> Type:
    """What a field is when it is set to a value of this type: what its annotation pins, else the value's own."""
    if field.type is None:
        return type_
    try:
        return check_value(field.type, type_)
    except RuleError as problem:
        raise RuleError(f"field `{field.name}` of `{of.__name__}`: {problem.what}", problem.help) from None


def is_replace(function: Any) -> bool:
    """Whether this is `dataclasses.replace`."""
    return function is dataclasses.replace or getattr(function, "__name__", "") == "__replace__"
