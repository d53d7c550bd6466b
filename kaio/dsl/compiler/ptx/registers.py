"""Virtual registers as LLVM values: one slot each, which LLVM makes values of, and what a block knows of them."""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Any

from llvmlite import ir as llvm

from kaio.dsl.compiler.ptx.kinds import bits_of, is_signed, llvm_of
from kaio.dsl.compiler.ptx.syntax import Immediate

if TYPE_CHECKING:
    from kaio.dsl.compiler.ptx.emitter import PtxEmitter

__all__ = ["Registers", "as_kind", "number"]


class Registers:
    """The registers of one call of a function."""

    def __init__(self, kinds: Any) -> None:
        self._kinds = kinds
        self._slots: dict[str, Any] = {}
        self._known: dict[str, Any] = {}  # values that were read or written in `_block`, so far
        self._block: Any = None

    def read(self, e: PtxEmitter, name: str) -> Any:
        """The value of a register, in the type it was declared with."""
        known = self._known_in(e)
        if name not in known:
            known[name] = e.b.load(self._slot(e, name))
        return known[name]

    def write(self, e: PtxEmitter, name: str, value: Any, kind: str) -> None:
        """Set a register to a value of an instruction's type, which may be narrower."""
        own = self._kinds[name]
        found = _extended(e, value, kind, own)
        e.b.store(found, self._slot(e, name))
        self._known_in(e)[name] = found

    def _known_in(self, e: PtxEmitter) -> dict[str, Any]:
        if self._block is not e.b.block:
            self._block, self._known = e.b.block, {}
        return self._known

    def _slot(self, e: PtxEmitter, name: str) -> Any:
        if name not in self._slots:
            with e.b.goto_entry_block():
                self._slots[name] = e.b.alloca(llvm_of(self._kinds[name]), name=name.lstrip("%"))
        return self._slots[name]


def _extended(e: PtxEmitter, value: Any, kind: str, own: str) -> Any:
    """A value of one type in a register of another that is as wide or wider."""
    to = llvm_of(own)
    if value.type == to:
        return value
    if isinstance(value.type, llvm.IntType) and isinstance(to, llvm.IntType):
        if value.type.width > to.width:
            return e.b.trunc(value, to)
        return (e.b.sext if is_signed(kind) else e.b.zext)(value, to)
    if bits_of(kind) == bits_of(own):
        return e.b.bitcast(value, to)
    raise TypeError(f"a value of {kind} in a register of {own}")


def as_kind(e: PtxEmitter, value: Any, kind: str) -> Any:
    """The value of a register as an instruction of some type reads it: its lowest bits."""
    to = llvm_of(kind)
    if value.type == to:
        return value
    if not isinstance(value.type, llvm.IntType):
        value = e.b.bitcast(value, llvm.IntType(32 if isinstance(value.type, llvm.FloatType) else 64))
    bits = bits_of(kind)
    if value.type.width > bits:
        value = e.b.trunc(value, llvm.IntType(bits))
    elif value.type.width < bits:
        value = (e.b.sext if is_signed(kind) else e.b.zext)(value, llvm.IntType(bits))
    return value if value.type == to else e.b.bitcast(value, to)


def number(immediate: Immediate, kind: str) -> Any:
    """A number as an instruction of some type takes it.

    >>> str(number(Immediate(0x3F800000, 32), "f32")), str(number(Immediate(-1), "u32"))
    ('float 0x3ff0000000000000', 'i32 4294967295')
    """
    bits, to = immediate.value & (1 << bits_of(kind)) - 1, llvm_of(kind)
    if isinstance(to, llvm.IntType):
        return llvm.Constant(to, bits)
    value = struct.unpack("<f" if kind == "f32" else "<d", bits.to_bytes(4 if kind == "f32" else 8, "little"))[0]
    if math.isnan(value):  # all of its bits count
        return llvm.Constant(llvm.IntType(bits_of(kind)), bits).bitcast(to)
    return llvm.Constant(to, value)
