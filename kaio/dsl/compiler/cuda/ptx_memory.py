"""Loads and stores of PTX with a qualifier, which LLVM has no words for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir as llvm

from kaio.dsl.compiler.cuda.assembly import assemble
from kaio.dsl.compiler.emission.packing import vector

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter

__all__ = ["load", "store"]

_I8, _I16, _I32, _I64 = (llvm.IntType(bits) for bits in (8, 16, 32, 64))


def load(e: Emitter, pointer: Any, how: str, space: str) -> Any:
    """The element at an address: ``ld.global.cg.f32``, or ``ld.global.cg.v4.f32`` of a vector."""
    element = pointer.type.pointee
    part, count = _parts(element)
    register = _I16 if part == _I8 else part  # a register has 16 bits at least
    text = f"{_spelled('ld', how, space, element)} {_group(0, count)}, [${count}];"
    found = assemble(e, text, [register] * count, [e.b.ptrtoint(pointer, _I64)], memory=True)
    if isinstance(element, llvm.VectorType):
        return vector(e.b, found)
    return e.b.trunc(found[0], _I8) if element == _I8 else found[0]


def store(e: Emitter, value: Any, pointer: Any, how: str, space: str) -> None:
    """Set the element at an address: ``st.global.cs.b32``."""
    _, count = _parts(value.type)
    if isinstance(value.type, llvm.VectorType):
        registers = [e.b.extract_element(value, _I32(k)) for k in range(count)]
    else:
        registers = [e.b.zext(value, _I16) if value.type == _I8 else value]
    text = f"{_spelled('st', how, space, value.type)} [$0], {_group(1, count)};"
    assemble(e, text, [], [e.b.ptrtoint(pointer, _I64), *registers], memory=True)


def _parts(element: Any) -> tuple[Any, int]:
    return (element.element, element.count) if isinstance(element, llvm.VectorType) else (element, 1)


def _group(first: int, count: int) -> str:
    """The registers of an access, numbered from `first`: ``{$0, $1}``."""
    registers = ", ".join(f"${first + k}" for k in range(count))
    return registers if count == 1 else f"{{{registers}}}"


def _spelled(name: str, how: str, space: str, element: Any) -> str:
    part, count = _parts(element)
    kind = f"b{part.width}" if isinstance(part, llvm.IntType) else f"f{32 if str(part) == 'float' else 64}"
    wide = f"v{count}.{kind}" if count > 1 else kind
    return f"{name}.volatile.{space}.{wide}" if how == "volatile" else f"{name}.{space}.{how}.{wide}"
