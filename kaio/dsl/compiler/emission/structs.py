"""Elements of structured dtypes in memory: each number, and each vector, is loaded and stored at its own place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir as llvm

from kaio.dsl.compiler.emission import scalars
from kaio.dsl.compiler.emission.access import Access
from kaio.dsl.compiler.emission.leaves import rebuild, undefined
from kaio.dsl.compiler.emission.parts_read import Parts
from kaio.dsl.structs import part_offset
from kaio.dsl.values import Compound, Type
from kaio.dsl.vectors import VectorType
from kaio.dtypes import DType

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter

__all__ = ["Place", "load", "part_of", "store"]

Place = tuple[DType, tuple[int, ...]]
"""What lies at an address: a dtype, and the shape of a sub-array of it."""


def part_of(e: Emitter, pointer: llvm.Value, place: Place, position: int) -> tuple[llvm.Value, Place]:
    """The address of one part of what lies at an address, and what that is."""
    offset, part = part_offset(place, position)
    space = pointer.type.addrspace
    start = e.b.bitcast(pointer, llvm.IntType(8).as_pointer(space))
    at = e.b.gep(start, [llvm.IntType(32)(offset)], inbounds=True) if offset else start
    return e.b.bitcast(at, scalars.memory_type(part[0]).as_pointer(space)), part


def load(e: Emitter, pointer: llvm.Value, place: Place, type_: Type, access: Access, parts: Parts | None = None) -> Any:
    """The value at an address, number by number; a vector at once. Of `parts` only these, and the others undefined."""
    if isinstance(type_, Compound) and not isinstance(type_, VectorType):
        found = []
        for k, item in enumerate(type_.items):
            if parts is not None and k not in parts:
                found.append(rebuild(iter(undefined(e, item)), item))
            else:
                at, part = part_of(e, pointer, place, k)
                found.append(load(e, at, part, item, access, None if parts is None else parts[k]))
        return tuple(found)
    if parts is not None:
        access = access.to_lanes(place[0], parts)
    return scalars.from_memory(e, e.target.load(e, pointer, access), place[0])


def store(e: Emitter, pointer: llvm.Value, place: Place, type_: Type, value: Any, access: Access) -> None:
    """Set what lies at an address, number by number; a vector at once."""
    if isinstance(type_, Compound) and not isinstance(type_, VectorType):
        for k, (item, part_value) in enumerate(zip(type_.items, value, strict=True)):
            at, part = part_of(e, pointer, place, k)
            store(e, at, part, item, part_value, access)
    else:
        e.target.store(e, scalars.to_memory(e, value, place[0]), pointer, access)
