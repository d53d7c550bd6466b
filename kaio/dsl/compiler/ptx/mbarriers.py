"""Barriers in shared memory: ``mbarrier``, a word of 64 bits in which arrivals are counted, phase after phase.

What the word holds is the machine's own affair. Here it is, from the lowest bit on: 20 bits of arrivals that are still
awaited, 20 of those that a phase takes, and in the top bit the phase's parity. Threads of a block change only where
they wait, so plain loads and stores will do; a loop that tests one lets the others go on (`cycles`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir as llvm

from kaio.dsl.compiler.ptx.opcodes import Step, opcode
from kaio.dsl.compiler.ptx.syntax import Operand

if TYPE_CHECKING:
    from kaio.dsl.compiler.ptx.emitter import PtxEmitter

_I64 = llvm.IntType(64)
_BITS = 20
_MASK = (1 << _BITS) - 1
_PARITY = 63
_SPACES = "shared shared::cta"
_MEMORY: Any = {"space": _SPACES, "order": "acquire release relaxed", "scope": "cta cluster"}


def _place(e: PtxEmitter, i: Step, address: Operand) -> Any:
    pointer = e.target.address(e, address, i["space"], 8, "atomic")
    return e.b.bitcast(pointer, _I64.as_pointer())


def _pending(e: PtxEmitter, word: Any) -> Any:
    return e.b.and_(word, _I64(_MASK))


def _expected(e: PtxEmitter, word: Any) -> Any:
    return e.b.and_(e.b.lshr(word, _I64(_BITS)), _I64(_MASK))


def _word(e: PtxEmitter, pending: Any, expected: Any, parity: Any) -> Any:
    return e.b.or_(e.b.or_(pending, e.b.shl(expected, _I64(_BITS))), e.b.shl(parity, _I64(_PARITY)))


@opcode("mbarrier.init{.space}.b64", space=_SPACES)
def _begin(e: PtxEmitter, i: Step) -> None:
    address, count = i.operands
    arrivals = e.b.zext(e.target.read(e, count, "u32"), _I64)
    e.b.store(_word(e, arrivals, arrivals, _I64(0)), _place(e, i, address))


@opcode("mbarrier.inval{.space}.b64", space=_SPACES)
def _end(e: PtxEmitter, i: Step) -> None:
    e.b.store(_I64(0), _place(e, i, i.operands[0]))


@opcode("mbarrier.arrive{.order}{.scope}{.space}.b64", "mbarrier.arrive_drop{.order}{.scope}{.space}.b64", **_MEMORY)
@opcode("mbarrier.arrive.noComplete{.order}{.scope}{.space}.b64", **_MEMORY)
def _arrive(e: PtxEmitter, i: Step) -> None:
    """One arrival, or as many as it says; the last one begins the next phase. Gives the word from before."""
    b = e.b
    to, address, *count = i.operands
    place = _place(e, i, address)
    word = b.load(place)
    many = b.zext(e.target.read(e, count[0], "u32"), _I64) if count else _I64(1)
    e.target.check(
        e, b.icmp_unsigned("<=", many, _pending(e, word)), "more threads arrive at an `mbarrier` than it takes"
    )
    pending, expected, parity = b.sub(_pending(e, word), many), _expected(e, word), b.lshr(word, _I64(_PARITY))
    if "arrive_drop" in i.instruction.opcode:
        expected = b.sub(expected, many)
    is_last = b.icmp_unsigned("==", pending, _I64(0))
    pending = b.select(is_last, expected, pending)
    parity = b.select(is_last, b.xor(parity, _I64(1)), parity)
    b.store(_word(e, pending, expected, parity), place)
    e.target.write(e, to, word, "b64")


@opcode("mbarrier.test_wait{.order}{.scope}{.space}.b64", "mbarrier.try_wait{.order}{.scope}{.space}.b64", **_MEMORY)
def _test(e: PtxEmitter, i: Step) -> None:
    """Whether the phase in which a thread arrived, by the word that it was given, is over."""
    to, address, state, *_ = i.operands
    before = e.b.lshr(e.target.read(e, state, "b64"), _I64(_PARITY))
    _tell(e, i, to, address, before)


@opcode("mbarrier.test_wait.parity{.order}{.scope}{.space}.b64",
        "mbarrier.try_wait.parity{.order}{.scope}{.space}.b64", **_MEMORY)  # fmt: skip
def _test_parity(e: PtxEmitter, i: Step) -> None:
    """Whether the phase of that parity is over."""
    to, address, parity, *_ = i.operands
    _tell(e, i, to, address, e.b.zext(e.b.and_(e.target.read(e, parity, "u32"), llvm.IntType(32)(1)), _I64))


def _tell(e: PtxEmitter, i: Step, to: Operand, address: Operand, before: Any) -> None:
    now = e.b.lshr(e.b.load(_place(e, i, address)), _I64(_PARITY))
    e.target.write(e, to, e.b.icmp_unsigned("!=", now, before), "pred")


@opcode("mbarrier.pending_count.b64", takes="b64", gives="u32")
def _count(e: PtxEmitter, i: Step, word: Any) -> Any:
    return e.b.trunc(_pending(e, word), llvm.IntType(32))
