"""The code of a `print`: a record into the ring of the device, whose layout is in `kaio/print_abi.py`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from llvmlite import ir as llvm

from kaio import print_abi as abi
from kaio.dsl.compiler.emission.declared import own_function
from kaio.print_abi import Line

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter

__all__ = ["Lines", "emit_line"]

_I32, _I64, _VOID = llvm.IntType(32), llvm.IntType(64), llvm.VoidType()
_BINDING = llvm.LiteralStructType([_I64, _I64, _I32, _I32])
_FULL = 1 << 63


class Lines:
    """The numbered lines that a program prints; equal ones have one number."""

    def __init__(self) -> None:
        self._numbers: dict[Line, int] = {}

    def number(self, line: Line) -> int:
        """The number of a line, a new one where it was not seen before."""
        return self._numbers.setdefault(line, len(self._numbers))

    @property
    def found(self) -> tuple[Line, ...]:
        """The lines in the order of their numbers."""
        return tuple(self._numbers)


def emit_line(e: Emitter, number: int, words: Sequence[llvm.Value]) -> None:
    """Put a record into the ring, if there is room."""
    b, space = e.b, 1 if e.target.name == "cuda" else 0
    start = b.call(_reserve(b.module, space), [_I32(1 + len(words))])
    room, after = e.block("print"), e.block("printed")
    b.cbranch(b.icmp_unsigned("!=", start, _I64(_FULL)), room, after)
    b.position_at_end(room)
    ring = _loaded(b, 0, space)
    first = b.trunc(start, _I32)
    for k, word in enumerate(words, 1):
        b.store(word, _data(b, ring, b.add(first, _I32(k))))
    site = b.add(b.load(b.gep(_binding(b.module, space), [_I32(0), _I32(2)])), _I32(number + 1))
    _publish(b, site, _data(b, ring, first), space)
    b.branch(after)
    b.position_at_end(after)


def _binding(module: llvm.Module, space: int) -> llvm.GlobalVariable:
    found = module.globals.get(abi.VARIABLE)
    if found is None:
        found = llvm.GlobalVariable(module, _BINDING, abi.VARIABLE, addrspace=space)
        found.initializer, found.align = llvm.Constant(_BINDING, None), 8
    return found


def _loaded(b: llvm.IRBuilder, field: int, space: int) -> llvm.Value:
    """The ring or the counters, as a pointer to words."""
    address = b.load(b.gep(_binding(b.module, space), [_I32(0), _I32(field)]))
    return b.inttoptr(address, _I32.as_pointer(space))


def _data(b: llvm.IRBuilder, ring: llvm.Value, count: llvm.Value) -> llvm.Value:
    place = b.add(b.and_(count, _I32(abi.CAPACITY - 1)), _I32(abi.DATA))
    return b.gep(ring, [b.zext(place, _I64)])


def _reserve(module: llvm.Module, space: int) -> llvm.Function:
    """`kaio_print_reserve(words)`: where they start, or `_FULL`. Out of line, as it loops around a compare-and-swap."""
    name = f"{abi.VARIABLE}_reserve"
    return own_function(module, name, _I64, [_I32], partial(_emit_reserve, space), "noinline")


def _emit_reserve(space: int, b: llvm.IRBuilder, words: llvm.Value) -> None:
    blocks = (b.append_basic_block(name) for name in ("again", "look", "full", "room", "done"))
    again, look, full, room, done = blocks
    ring, counters = _loaded(b, 0, space), _loaded(b, 1, space)
    head, seen = (b.gep(counters, [_I32(word)]) for word in (abi.HEAD, abi.SEEN_TAIL))
    b.branch(again)
    b.position_at_end(again)
    # The tail first: a tail that is older than the head only makes the ring look fuller than it is.
    known = _volatile(b, seen, space)
    before = _volatile(b, head, space)
    after = b.add(before, words)
    b.cbranch(b.icmp_unsigned("<=", b.sub(after, known), _I32(abi.CAPACITY)), room, look)
    b.position_at_end(look)
    tail = _volatile(b, b.gep(ring, [_I32(abi.TAIL)]), space)
    b.store(tail, seen)
    # A head that was read before this tail may be behind it, and the difference large: then look again.
    is_old = b.icmp_signed("<", b.sub(before, tail), _I32(0))
    fits = b.icmp_unsigned("<=", b.sub(after, tail), _I32(abi.CAPACITY))
    b.cbranch(b.or_(is_old, fits), again, full)
    b.position_at_end(full)
    b.atomic_rmw("add", b.gep(counters, [_I32(abi.DROPPED)]), _I32(1), "monotonic")
    b.ret(_I64(_FULL))
    b.position_at_end(room)
    swapped = b.cmpxchg(head, before, after, "monotonic", "monotonic")
    b.cbranch(b.extract_value(swapped, 1), done, again)
    b.position_at_end(done)
    b.ret(b.zext(before, _I64))


def _volatile(b: llvm.IRBuilder, pointer: llvm.Value, space: int) -> llvm.Value:
    """A load that is made each time."""
    if not space:
        return b.load_atomic(pointer, "acquire", 4)
    kind = llvm.FunctionType(_I32, [pointer.type])
    return b.call(llvm.InlineAsm(kind, "ld.volatile.global.u32 $0, [$1];", "=r,l,~{memory}", True), [pointer])


def _publish(b: llvm.IRBuilder, value: llvm.Value, pointer: llvm.Value, space: int) -> None:
    """A store that the host sees only with all stores before it."""
    if not space:
        b.store_atomic(value, pointer, "release", 4)
        return
    kind = llvm.FunctionType(_VOID, [pointer.type, value.type])
    text = "membar.sys; st.volatile.global.u32 [$0], $1;"
    b.call(llvm.InlineAsm(kind, text, "l,r,~{memory}", True), [pointer, value])
