"""Elements of buffers and arrays: their addresses, with each axis checked where the target checks, loads and stores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir as llvm

from kaio.dsl.compiler.emission import conversions, scalars, structs
from kaio.dsl.compiler.emission.access import Access
from kaio.dsl.compiler.emission.parts_read import Parts
from kaio.dsl.element_types import element_type
from kaio.dsl.values import INDEX64, ArrayType, BufferType, Compound, TupleType, Type, Weak
from kaio.dtypes import DType, i32

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter

__all__ = ["address", "load", "store", "store_part", "strides"]


def address(
    e: Emitter, array: Any, type_: BufferType | ArrayType, index: Any, index_type: Type, name: str, count: int = 1
) -> llvm.Value:
    """The address of one element, or of the first of `count` along the last axis.

    Each axis is checked where the target checks, the last one for all of them.
    """
    indices = index_type.items if isinstance(index_type, TupleType) else (index_type,)
    values = index if isinstance(index_type, TupleType) else (index,)
    wide = type_.index.bits == 64 or any(isinstance(t, DType) and t.bits == 64 for t in indices)
    position = INDEX64 if wide else i32
    sizes, checked = _sizes(e, array, type_, position), []
    for axis, (value, source, size) in enumerate(zip(values, indices, sizes, strict=True)):
        at = conversions.index(e, value, source, size, position)
        e.target.check_index(e, at, size, axis, name, _written(source))
        checked.append(at)
    if count > 1:
        last = e.b.add(checked[-1], e.const(position, count - 1))
        e.target.check_index(e, last, sizes[-1], len(sizes) - 1, name, f"+{count - 1}")
    if isinstance(type_, BufferType) and type_.strided:
        offset = _by_strides(e, checked, [e.convert(stride, type_.index, position) for stride in array.strides])
    else:
        offset = _in_order(e, checked, sizes)
    if isinstance(type_, ArrayType) and type_.space == "constant":
        pointer = e.target.constant(e, type_, name)
    else:
        pointer = array.pointer
    return pointer if offset is None else e.b.gep(pointer, [offset], inbounds=True)


def _in_order(e: Emitter, indices: list[llvm.Value], sizes: list[llvm.Value]) -> llvm.Value | None:
    """The place of an element among those of a C-contiguous array; None where there is only one."""
    offset = None
    for at, size in zip(indices, sizes, strict=True):
        offset = at if offset is None else e.b.add(e.b.mul(offset, size, flags=("nsw",)), at, flags=("nsw",))
    return offset


def _by_strides(e: Emitter, indices: list[llvm.Value], strides: list[llvm.Value]) -> llvm.Value | None:
    """How many elements away from the first an element lies; a launch checks that all of it fits the index type."""
    offset = None
    for at, stride in zip(indices, strides, strict=True):
        step = e.b.mul(at, stride, flags=("nsw",))
        offset = step if offset is None else e.b.add(offset, step, flags=("nsw",))
    return offset


def strides(e: Emitter, buffer: Any, type_: BufferType) -> tuple[llvm.Value, ...]:
    """The strides of a buffer in bytes, as i64."""
    steps = [e.convert(stride, type_.index, INDEX64) for stride in buffer.strides]
    if not type_.strided:
        step = e.const(INDEX64, 1)
        for size in reversed(buffer.sizes):
            steps.insert(0, step)
            step = e.b.mul(step, e.convert(size, type_.index, INDEX64))
    return tuple(e.b.mul(step, e.const(INDEX64, type_.dtype.itemsize)) for step in steps)


def _sizes(e: Emitter, array: Any, type_: BufferType | ArrayType, position: DType) -> list[llvm.Value]:
    if isinstance(type_, BufferType):
        return [e.convert(size, type_.index, position) for size in array.sizes]
    return [e.const(position, n) for n in type_.shape]


def _written(index: Type) -> str:
    """How the source has an index: see `Site.written`."""
    if isinstance(index, Weak):
        return "from_end" if len(index.values) == 1 and index.values[0] < 0 else ""
    return f"u{max(index.bits, 32)}" if isinstance(index, DType) and index.kind == "u" else ""


def load(e: Emitter, pointer: llvm.Value, dtype: DType, access: Access, parts: Parts | None = None) -> Any:
    """The element at an address, as a value; of `parts` only these are read, and the others undefined."""
    if dtype.kind == "s":
        return structs.load(e, pointer, (dtype, ()), element_type(dtype), access, parts)
    if parts is not None:
        access = access.to_lanes(dtype, parts)
    return scalars.from_memory(e, e.target.load(e, pointer, access), dtype)


def store(e: Emitter, pointer: llvm.Value, dtype: DType, value: Any, source: Type, access: Access) -> None:
    """Set the element at an address to a value of type `source`."""
    element = e.convert(value, source, element_type(dtype))
    if dtype.kind == "s":
        structs.store(e, pointer, (dtype, ()), element_type(dtype), element, access)
    else:
        e.target.store(e, scalars.to_memory(e, element, dtype), pointer, access)


def store_part(
    e: Emitter,
    pointer: llvm.Value,
    dtype: DType,
    path: tuple[str | int, ...],
    value: Any,
    source: Type,
    access: Access,
) -> None:
    """Set one part of the element at an address: a field, an item of one, a lane."""
    place: structs.Place = dtype, ()
    type_ = element_type(dtype)
    for step in path:
        assert isinstance(type_, Compound)
        position = type_.fields[step] if isinstance(step, str) else step % len(type_.items)
        pointer, place = structs.part_of(e, pointer, place, position)
        type_ = type_.items[position]
    structs.store(e, pointer, place, type_, e.convert(value, source, type_), access)
