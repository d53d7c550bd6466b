"""How values of a kernel lie in the memory of one that is watched: see `kaio/trace_abi.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir as llvm

from kaio import trace_abi as abi
from kaio.dsl import literals
from kaio.dsl.compiler.emission.leaves import leaves
from kaio.dsl.complexes import ComplexType
from kaio.dsl.records import RecordType
from kaio.dsl.values import (
    BOOL,
    INDEX64,
    ArrayType,
    BufferType,
    Compound,
    EnumType,
    MethodType,
    ObjectType,
    TupleType,
    Type,
    Weak,
    show,
)
from kaio.dtypes import DType, i64

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter

__all__ = ["flat", "layout_of", "number_type", "type_text"]


def number_type(type_: Type) -> Type:
    """The type that a value is shown in: a literal is what it is where it stands alone."""
    if type_ is INDEX64:
        return i64
    if isinstance(type_, TupleType):
        return TupleType(tuple(map(number_type, type_.items)))
    return literals.default(type_) if isinstance(type_, Weak) else type_


def type_text(type_: Type) -> str:
    """The type in words."""
    return show(number_type(type_)).replace("`", "")


def layout_of(type_: Type, seen_as: Type | None = None) -> abi.Layout:
    """The layout of values of a type; one that is known when compiling may be seen as of another type."""
    match type_:
        case Weak(values=[value]):
            return abi.Known((seen_as if isinstance(seen_as, DType) else number_type(type_))(value))  # type: ignore[operator]
        case Weak(values=values):
            return abi.Choice(values)
        case DType():
            return abi.Number(number_type(type_))  # type: ignore[arg-type]
        case EnumType(member=None):
            return abi.Member(type_.of, type_.dtype)
        case EnumType(member=member):
            return abi.Known(member)
        case BufferType(dtype=dtype, ndim=ndim, strided=strided):
            return abi.Array(dtype, ndim, strided)
        case ArrayType(space="constant"):
            return abi.Known(f"{type_.dtype!r}[{', '.join(map(str, type_.shape))}]")
        case ArrayType(dtype=dtype, ndim=ndim, shape=shape):
            return abi.Array(dtype, ndim, shape=shape)
        case ComplexType(value=complex() as value):
            return abi.Known(value)
        case ComplexType(items=items):
            return abi.Parts(tuple(map(layout_of, items)), complex)
        case RecordType(of=of, names=names, items=items):
            return abi.Parts(tuple(map(layout_of, items)), of, names)
        case Compound(items=items) if not isinstance(type_, MethodType):
            return abi.Parts(tuple(map(layout_of, items)))
        case ObjectType(value=value):
            return abi.Known(value)
    return abi.Known(type_text(type_))


def flat(e: Emitter, value: Any, type_: Type) -> list[llvm.Value]:
    """The parts of a value in the order and with the widths of its layout."""
    if isinstance(type_, Compound):
        if isinstance(type_, MethodType):
            return []
        return [part for item, of in zip(value, type_.items, strict=True) for part in flat(e, item, of)]
    if isinstance(type_, BufferType):
        pointer, *numbers = leaves(value, type_)
        return [pointer, *(e.convert(number, type_.index, INDEX64) for number in numbers)]
    return [e.b.zext(leaf, e.integer(8)) if type_ is BOOL else leaf for leaf in leaves(value, type_)]
