"""What an index must be, and what an element may be set to."""

from __future__ import annotations

from collections.abc import Callable

from kaio.dsl import literals, stores
from kaio.dsl.complexes import ComplexType
from kaio.dsl.element_types import element_type
from kaio.dsl.intrinsic import Namespace
from kaio.dsl.places import check_value
from kaio.dsl.rule_error import RuleError
from kaio.dsl.values import ArrayType, BufferType, EnumType, ObjectType, TupleType, Type, Weak, show
from kaio.dtypes import DType, f64, i32, i64, u64

__all__ = ["check_index", "check_store", "check_writable"]


def check_index(
    array: Type,
    index: Type,
    name: str,
    cast: Callable[[int], str] = lambda axis: "cast it, for example `kaio.i32(...)`",
) -> BufferType | ArrayType:
    """The array's type, if this index fits it. `cast` tells the way out for the float index of an axis."""
    if not isinstance(array, BufferType | ArrayType):
        raise RuleError(f"{show(array)} cannot be indexed", _indexed_help(array))
    items = index.items if isinstance(index, TupleType) else (index,)
    if len(items) != array.ndim:
        given = "1 index was" if len(items) == 1 else f"{len(items)} indices were"
        raise RuleError(
            f"`{name}` has {array.ndim} dimension{'s' * (array.ndim != 1)}, and {given} given",
            _axes_help(array.ndim, len(items), name),
        )
    for axis, item in enumerate(items):
        _check_axis(array, item, axis, name, cast)
    return array


def _indexed_help(array: Type) -> str | None:
    return "annotate it as a buffer, for example `In[f32]`" if isinstance(array, DType) else None


def _axes_help(ndim: int, given: int, name: str) -> str:
    if ndim == 0:
        return f"index `{name}[()]`"
    example = f"for example `{name}[{', '.join('ijkl'[:ndim])}]`"
    if given < ndim:
        return f"index every axis, {example}"
    return f"index it with {'one number' if ndim == 1 else f'{ndim} numbers'}, {example}"


def _check_axis(array: BufferType | ArrayType, item: Type, axis: int, name: str, cast: Callable[[int], str]) -> None:
    if isinstance(item, DType) and item.is_int:
        return
    if isinstance(item, Weak) and item.kind == "i":
        for value in item.values:
            _check_literal(array, int(value), axis, name)
        return
    if isinstance(item, DType | Weak):
        way_out = cast(axis)
    elif isinstance(item, ObjectType) and isinstance(item.value, Namespace):
        way_out = f"read one of its axes: `{item.value!r}.x`"
    else:
        way_out = "an index is an integer; slices are not taken in a kernel"
    raise RuleError(f"index of axis {axis} of `{name}` is {show(item)}; an index is an integer", way_out)


def _check_literal(array: BufferType | ArrayType, value: int, axis: int, name: str) -> None:
    if isinstance(array, ArrayType):
        size = array.shape[axis]
        if not -size <= value < size:
            raise RuleError(f"index {value} is out of range for axis {axis} of `{name}` (size {size})")
    elif not i32.range[0] <= value <= i32.range[1]:
        raise RuleError(f"index {value} of `{name}` does not fit i32", "cast it: `kaio.i64(...)`")


def check_writable(array: BufferType | ArrayType, name: str) -> None:
    """Whether elements may be set at all."""
    if isinstance(array, BufferType) and array.access == "In":
        raise RuleError(
            f"`{name}` is an `In` buffer, which a kernel only reads", f"annotate it `{name}: InOut[{array.dtype!r}]`"
        )
    if isinstance(array, ArrayType) and array.space == "constant":
        raise RuleError(
            f"`{name}` is a constant array, which a kernel only reads",
            f"pass it as a buffer, `InOut[{array.dtype!r}]`, or write into a `shared_mem` or `local_mem` array",
        )


def check_store(array: BufferType | ArrayType, value: Type, name: str, text: str) -> None:
    """Whether an element may be set to a value of this type, which is written as `text`."""
    check_writable(array, name)
    place = element_type(array.dtype)
    if not isinstance(place, DType):
        return _check_place(place, value, text)
    if not isinstance(value, DType | Weak):
        way_out = f"take what it holds: `{text}.value`" if isinstance(value, EnumType) else None
        if isinstance(value, ComplexType):
            way_out = f"take a part of it: `{text}.real` or `{text}.imag`"
        raise RuleError(f"{show(value)} cannot be stored in an element of `{name}` ({show(array.dtype)})", way_out)
    try:
        stores.store(value, array.dtype)
    except RuleError as problem:
        if problem.help == stores.CAST_IT:
            way_out = f"cast it, for example `kaio.{array.dtype!r}({text})`"
        else:
            way_out = f"{problem.help}{_wider_array(array, value, name)}"
        raise RuleError(problem.what, way_out) from None


def _check_place(place: Type, value: Type, text: str) -> None:
    try:
        check_value(place, value)
    except RuleError as problem:
        way_out = f"cast it, for example `kaio.{place!r}({text})`" if problem.help == stores.CAST_IT else problem.help
        raise RuleError(problem.what, way_out) from None


def _wider_array(array: BufferType | ArrayType, value: Type, name: str) -> str:
    """The element type that would hold a literal."""
    if not isinstance(value, Weak):
        return ""
    for wider in (i32, i64, u64) if array.dtype.is_int else (f64,):
        if all(literals.fits(wider, v) for v in value.values):
            noun = "a buffer" if isinstance(array, BufferType) and array.space == "global" else "an array"
            return f"; for this value make `{name}` {noun} of {wider!r}"
    return ""
