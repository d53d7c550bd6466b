"""Where a kernel writes, noted for the runtime: see `kaio/coverage_abi.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llvmlite import ir as llvm

from kaio import coverage_abi as abi
from kaio import host_abi, trace_abi
from kaio.dsl.compiler.emission.access import Access
from kaio.dsl.compiler.emission.declared import own_function
from kaio.dsl.compiler.emission.scalars import nbytes
from kaio.dsl.compiler.host.host_context import I1, I8, I32, I64, POINTER, VOID, field_of
from kaio.program import Site

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter
    from kaio.dsl.compiler.host.host_body import Body

__all__ = ["note_write"]


def note_write(body: Body, e: Emitter, pointer: llvm.Value, access: Access) -> None:
    """Note a write or an update of memory that may be an `Out` buffer's."""
    if access.kind == "read" or access.space != "global":
        return
    site = body.sites.number(Site("write", e.place, e.trace, access.array))
    function = _noter(body.module, nbytes(pointer.type.pointee), access.kind == "atomic")
    e.b.call(function, [body.context, e.b.bitcast(pointer, POINTER), body.thread, I32(site)])


def _noter(module: llvm.Module, count: int, is_atomic: bool) -> llvm.Function:
    """`note_write_4(context, address, thread, site)`: of so many bytes. Out of line: there is one for many stores."""
    name = f"note_{'update' if is_atomic else 'write'}_{count}"

    def fill(b: llvm.IRBuilder, *_: llvm.Value) -> None:
        _Noter(b, count, is_atomic).emit()

    return own_function(module, name, VOID, [POINTER, POINTER, I32, I32], fill, "noinline")


class _Noter:
    """The function, being built."""

    def __init__(self, b: llvm.IRBuilder, count: int, is_atomic: bool) -> None:
        self.b, self.function, self.count = b, b.function, count
        self.bit, self.before = (abi.ATOMIC, abi.WRITTEN) if is_atomic else (abi.WRITTEN, abi.WRITTEN | abi.ATOMIC)

    def emit(self) -> None:
        """Look for the buffer that the address is in, and note the write there."""
        b = self.b
        context, pointer, _, _ = self.function.args
        state = b.load(field_of(b, context, host_abi.WATCH, POINTER))
        table = b.load(field_of(b, state, trace_abi.COVERED, POINTER))
        rows = b.load(field_of(b, table, 0, I64))
        entry = b.block
        head, row_block, found, after, done = (
            self.function.append_basic_block(name) for name in ("head", "row", "found", "next", "done")
        )
        b.branch(head)
        b.position_at_end(head)
        k = b.phi(I64)
        k.add_incoming(I64(0), entry)
        b.cbranch(b.icmp_unsigned("<", k, rows), row_block, done)
        b.position_at_end(row_block)
        row = b.gep(table, [b.add(I64(abi.COUNT.size), b.mul(k, I64(abi.ROW.size)))])
        start, stop = (b.load(field_of(b, row, at, I64)) for at in (abi.START, abi.STOP))
        offset = b.sub(b.ptrtoint(pointer, I64), start)
        b.cbranch(b.icmp_unsigned("<", offset, b.sub(stop, start)), found, after)
        b.position_at_end(after)
        k.add_incoming(b.add(k, I64(1)), after)
        b.branch(head)
        b.position_at_end(found)
        self._note(row, offset)
        b.branch(done)
        b.position_at_end(done)
        b.ret_void()

    def _note(self, row: llvm.Value, offset: llvm.Value) -> None:
        b, context = self.b, self.function.args[0]
        place = b.gep(b.load(field_of(b, row, abi.MAP, POINTER)), [offset])
        alone = b.icmp_unsigned("!=", b.load(field_of(b, context, host_abi.ALONE, I32)), I32(0))
        with b.if_else(alone) as (then, otherwise):
            with then:
                one, one_block = self._at_once(place), b.block
            with otherwise:
                many, many_block = self._byte_by_byte(place), b.block
        is_again = b.phi(I1)
        is_again.add_incoming(one, one_block)
        is_again.add_incoming(many, many_block)
        self._sign(row, offset, is_again)

    def _at_once(self, place: llvm.Value) -> llvm.Value:
        """All bytes, as one number; gives whether one was written before."""
        b, word = self.b, llvm.IntType(8 * self.count)

        def each(bits: int) -> llvm.Constant:
            return word(int.from_bytes(bytes([bits]) * self.count, "little"))

        pointer = b.bitcast(place, word.as_pointer())
        old = b.load(pointer, align=1)
        seen = b.and_(old, each(self.before))
        ones = b.and_(b.or_(seen, b.lshr(seen, word(2))), each(1))
        b.store(b.or_(b.or_(old, each(self.bit)), b.shl(ones, word(1))), pointer, align=1)
        return b.icmp_unsigned("!=", seen, word(0))

    def _byte_by_byte(self, place: llvm.Value) -> llvm.Value:
        """The same where other workers write too: who comes second sees the first one's bit."""
        b = self.b
        again = I1(0)
        for k in range(self.count):
            pointer = b.gep(place, [I64(k)])
            old = b.atomic_rmw("or", pointer, I8(self.bit), "monotonic")
            is_seen = b.icmp_unsigned("!=", b.and_(old, I8(self.before)), I8(0))
            with b.if_then(is_seen):
                b.atomic_rmw("or", pointer, I8(abi.AGAIN), "monotonic")
            again = b.or_(again, is_seen)
        return again

    def _sign(self, row: llvm.Value, offset: llvm.Value, is_again: llvm.Value) -> None:
        """Leave at each element who it was, where nobody has yet: as the first, or as the one who writes again."""
        b = self.b
        context, _, thread, site = self.function.args
        threads = b.zext(b.load(field_of(b, context, host_abi.THREADS, I32)), I64)
        block = b.load(field_of(b, context, host_abi.BLOCK, I64))
        number = b.add(b.add(b.mul(block, threads), b.zext(thread, I64)), I64(1))
        own = b.or_(b.shl(number, I64(abi.SITE_BITS)), b.zext(site, I64))
        size = b.load(field_of(b, row, abi.ITEMSIZE, I64))
        who = b.load(field_of(b, row, abi.WHO, POINTER))
        first, last = b.udiv(offset, size), b.udiv(b.add(offset, I64(self.count - 1)), size)
        before = b.block
        sign, signed = (self.function.append_basic_block(name) for name in ("sign", "signed"))
        b.branch(sign)
        b.position_at_end(sign)
        element = b.phi(I64)
        element.add_incoming(first, before)
        one, two = (field_of(b, who, at, I64) for at in (0, 8))
        one, two = (b.gep(slot, [b.shl(element, I64(1))]) for slot in (one, two))
        is_first = b.icmp_unsigned("==", b.load(one), I64(0))
        with b.if_then(is_first):
            b.store(own, one)
        is_second = b.and_(is_again, b.icmp_unsigned("==", b.load(two), I64(0)))
        with b.if_then(b.and_(b.not_(is_first), is_second)):
            b.store(own, two)
        element.add_incoming(b.add(element, I64(1)), b.block)
        b.cbranch(b.icmp_unsigned("<", element, last), sign, signed)
        b.position_at_end(signed)
