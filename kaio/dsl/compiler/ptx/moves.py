"""Moves: registers, addresses, halves of words; and what ends a thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir as llvm

from kaio.dsl.compiler.emission.words import from_words
from kaio.dsl.compiler.ptx.kinds import bits_of
from kaio.dsl.compiler.ptx.opcodes import Step, opcode
from kaio.dsl.compiler.ptx.syntax import Symbol, Vector

if TYPE_CHECKING:
    from kaio.dsl.compiler.ptx.emitter import PtxEmitter

_ANY = "pred b8 b16 b32 b64 u8 u16 u32 u64 s8 s16 s32 s64 f32 f64"


@opcode("mov.type", type=_ANY)
def _move(e: PtxEmitter, i: Step) -> None:
    """A register, or parts of one: ``mov.b64 {%r1, %r2}, %rd1``."""
    to, source = i.operands
    kind, target = i["type"], e.target
    if isinstance(source, Vector):
        part = f"b{bits_of(kind) // len(source.items)}"
        parts = [target.read(e, item, part) for item in source.items]
        target.write(e, to, _joined(e, parts, bits_of(kind)), f"b{bits_of(kind)}")
    elif isinstance(to, Vector):
        width = bits_of(kind) // len(to.items)
        value = target.read(e, source, f"b{bits_of(kind)}")
        for k, item in enumerate(to.items):
            part = e.b.trunc(e.b.lshr(value, value.type(k * width)), llvm.IntType(width))
            target.write(e, item, part, f"b{width}")
    else:
        target.write(e, to, target.read(e, source, kind), kind)


def _joined(e: PtxEmitter, parts: list[Any], bits: int) -> Any:
    """One word of several, the lowest first."""
    kind = llvm.IntType(bits)
    if parts[0].type.width == 32:
        return from_words(e.b, parts, kind)
    value = e.b.zext(parts[0], kind)
    for k, part in enumerate(parts[1:], 1):
        value = e.b.or_(value, e.b.shl(e.b.zext(part, kind), kind(k * part.type.width)))
    return value


_SPACES = "global shared shared::cta shared::cluster local const param"


@opcode("cvta.space.type", takes="type", gives="type", space=_SPACES, type="u32 u64")
def _to_generic(e: PtxEmitter, i: Step, address: Any) -> Any:
    return e.b.add(address, e.target.start_of(e, i["space"]))


@opcode("cvta.to.space.type", takes="type", gives="type", space=_SPACES, type="u32 u64")
def _from_generic(e: PtxEmitter, i: Step, address: Any) -> Any:
    return e.b.sub(address, e.target.start_of(e, i["space"]))


@opcode("isspacep.space", takes="u64", gives="pred", space=_SPACES)
def _is_in_space(e: PtxEmitter, i: Step, address: Any) -> Any:
    return e.target.is_in(e, i["space"], address)


# ---------------------------------------------------------------------- the way through the code
@opcode("bra{.uni}")
def _branch(e: PtxEmitter, i: Step) -> None:
    label = i.operands[0]
    assert isinstance(label, Symbol)
    e.target.go(e, label.name)


@opcode("brx.idx{.uni}")
def _branch_by_number(e: PtxEmitter, i: Step) -> None:
    number, table = i.operands
    assert isinstance(table, Symbol)
    e.target.go_by_number(e, e.target.read(e, number, "u32"), table.name)


@opcode("ret{.uni}")
def _return(e: PtxEmitter, i: Step) -> None:
    e.target.end(e)


@opcode("exit")
def _exit(e: PtxEmitter, i: Step) -> None:
    e.target.leave(e)


@opcode("trap")
def _trap(e: PtxEmitter, i: Step) -> None:
    """What the compiler writes where nothing can get."""
    e.target.trap(e)


@opcode("brkpt", "pmevent.number", number="mask")
def _nothing(e: PtxEmitter, i: Step) -> None:
    """For a debugger."""
