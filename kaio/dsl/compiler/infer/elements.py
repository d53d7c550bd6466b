"""`array[index]`, read and written, and the items of tuples."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from kaio.dsl.compiler import advice, ir
from kaio.dsl.compiler.infer import remedies
from kaio.dsl.element_types import element_type
from kaio.dsl.elements import check_index, check_store, check_writable
from kaio.dsl.places import check_value
from kaio.dsl.records import field_of
from kaio.dsl.rule_error import RuleError
from kaio.dsl.values import ArrayType, BufferType, Compound, ObjectType, TupleType, Type, Weak, show
from kaio.errors import Place

if TYPE_CHECKING:
    from kaio.dsl.compiler.infer.inference import Inference

__all__ = ["get_item", "set_item", "unpack"]


def get_item(inference: Inference, op: ir.GetItem, value: Type, index: Type) -> Type:
    """The type of an item of a tuple, or of an element."""
    if isinstance(value, Compound):
        return _item(value, index)
    return element_type(_element(inference, op.value, op.index, value, index).dtype)


def unpack(value: Type, count: int | None) -> Compound:
    """The tuple that is unpacked, into that many names where it is told."""
    items = _sequence(value, "unpacked")
    if count is not None and len(items.items) != count:
        raise RuleError(f"{_noun(items)} of {len(items.items)} cannot be unpacked into {count} names")
    return items


def _sequence(value: Type, taken: str) -> Compound:
    """The value, if its items go by position."""
    if isinstance(value, Compound) and value.is_sequence:
        return value
    fields = value.fields if isinstance(value, Compound) else ()
    raise RuleError(f"{show(value)} cannot be {taken}", f"read its fields: {', '.join(fields)}" if fields else None)


def _noun(value: Compound) -> str:
    return "a tuple" if isinstance(value, TupleType) else show(value)


def _item(value: Compound, index: Type) -> Type:
    noun = _noun(_sequence(value, "indexed"))
    if not isinstance(index, Weak) or not isinstance(index.value, int):
        raise RuleError(
            f"{noun} is indexed with an int literal",
            "numbers to choose from at run time are a buffer, for example `In[f32]`, or a `local_mem` array",
        )
    if not -len(value.items) <= index.value < len(value.items):
        raise RuleError(f"index {index.value} is out of range for {noun} of {len(value.items)}")
    return value.items[index.value]


def set_item(inference: Inference, statement: ir.SetItem) -> None:
    """Whether an element may be set so; a mistake is noted where the value is written."""
    array, index, value = (inference.types.get(n) for n in (statement.array, statement.index, statement.value))
    if array is None or index is None or value is None:
        return None
    name = inference.origins.text(statement.array)
    if isinstance(array, Compound):
        way_out = "make a new one, or an array, which is `kaio.local_mem(shape, dtype)`"
        raise RuleError(f"`{name}` is {show(array)}, whose items are not set", way_out)
    target = _element(inference, statement.array, statement.index, array, index)
    if statement.path:
        return _set_part(inference, statement, target, value)
    try:
        check_store(target, value, name, inference.origins.text(statement.value))
    except RuleError as problem:
        inference.mistake(statement, _value_place(inference, statement), problem)


def _set_part(inference: Inference, statement: ir.SetItem, array: BufferType | ArrayType, value: Type) -> None:
    """Whether a part of an element may be set so."""
    check_writable(array, inference.origins.text(statement.array))
    type_ = element_type(array.dtype)
    for step in statement.path:
        position = _position(inference, type_, step)
        type_ = type_.items[position]  # type: ignore[union-attr]
    try:
        check_value(type_, value)
    except RuleError as problem:
        inference.mistake(statement, _value_place(inference, statement), problem)


def _position(inference: Inference, type_: Type, step: ir.PathStep) -> int:
    """The position of a part, named as a field or by its index."""
    if not isinstance(type_, Compound):
        raise RuleError(f"{show(type_)} has no parts that can be set", "set the whole element, `x[i] = value`")
    if not step.is_index:
        field_of(type_, step.name)
        return type_.fields[step.name]
    index = inference.types[step.name]
    if not isinstance(index, Weak) or not isinstance(index.value, int):
        raise RuleError(
            "a part of an element is set at an int literal",
            "an array of numbers to choose from at run time is a buffer with one more dimension",
        )
    _item(type_, index)
    return index.value % len(type_.items)


def _element(inference: Inference, array: str, at: str, type_: Type, index: Type) -> BufferType | ArrayType:
    """The array's type, if it is one and the index fits it."""
    if isinstance(type_, ObjectType):
        text, kind = inference.origins.text(array), type(type_.value).__name__
        way_out = advice.instead_of_indexing(type_.value, text)
        raise RuleError(f"`{text}` is a {kind}, and cannot be indexed", way_out)
    return check_index(type_, index, inference.origins.text(array), partial(remedies.of_index, inference, at))


def _value_place(inference: Inference, statement: ir.SetItem) -> Place:
    """Where the value of a store is written: bytecode knows the place of its target only."""
    assign = inference.origins.definitions.get(statement.value)
    if assign is None or not ir.is_temporary(statement.value) or assign.place.line != statement.place.line:
        return statement.place
    return assign.place
