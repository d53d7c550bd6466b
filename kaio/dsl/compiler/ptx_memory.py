"""Loads and stores of PTX with a qualifier, which LLVM has no words for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir as llvm

from kaio.dsl.compiler.assembly import assemble

if TYPE_CHECKING:
    from kaio.dsl.compiler.emit import Emitter

__all__ = ["load", "store"]

_I8, _I16, _I64 = llvm.IntType(8), llvm.IntType(16), llvm.IntType(64)


def load(e: Emitter, pointer: Any, how: str, space: str) -> Any:
    """The element at an address: ``ld.global.cg.f32``."""
    element = pointer.type.pointee
    register = _I16 if element == _I8 else element  # a register has 16 bits at least
    name = _spelled("ld", how, space, element)
    (found,) = assemble(e, f"{name} $0, [$1];", [register], [e.b.ptrtoint(pointer, _I64)], memory=True)
    return e.b.trunc(found, _I8) if element == _I8 else found


def store(e: Emitter, value: Any, pointer: Any, how: str, space: str) -> None:
    """Set the element at an address: ``st.global.cs.b32``."""
    name = _spelled("st", how, space, value.type)
    register = e.b.zext(value, _I16) if value.type == _I8 else value
    assemble(e, f"{name} [$0], $1;", [], [e.b.ptrtoint(pointer, _I64), register], memory=True)


def _spelled(name: str, how: str, space: str, element: Any) -> str:
    kind = f"b{element.width}" if isinstance(element, llvm.IntType) else f"f{32 if str(element) == 'float' else 64}"
    return f"{name}.volatile.{space}.{kind}" if how == "volatile" else f"{name}.{space}.{how}.{kind}"
