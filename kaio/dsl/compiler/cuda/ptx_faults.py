"""What a thread of a GPU does when a check fails: it leaves an entry (`kaio/fault_abi.py`), and ends.

Threads that wait for it at a barrier of the block, of the cluster, or for its warp go on: from sm_70 on they wait for
those who have not ended (CUDA C++ programming guide, "Synchronization Functions"). At a named barrier they would not,
as it counts; there the whole launch is ended instead, which costs the context.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from llvmlite import ir as llvm

from kaio import fault_abi as abi
from kaio.dsl.compiler.cuda import ptx_memory

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter

__all__ = ["STATE", "FaultExit"]

_I32, _I64 = llvm.IntType(32), llvm.IntType(64)
STATE = _I64.as_pointer(1)
"""The type of the address of a launch's state."""


class FaultExit:
    """The one place of a kernel where its failed checks go.

    traps: whether the launch ends with the thread
    """

    def __init__(self, state: llvm.Value, *, traps: bool) -> None:
        self.state, self._traps = state, traps
        self._coming: list[tuple[llvm.Block, tuple[llvm.Value, llvm.Value, llvm.Value]]] = []
        self._block: llvm.Block | None = None
        self._barriers: llvm.Value | None = None

    def count(self, e: Emitter) -> None:
        """All threads of the block have come here."""
        if self._barriers is None:
            with e.b.goto_entry_block():
                self._barriers = e.b.alloca(_I32)
                e.b.store(_I32(0), self._barriers)
        e.b.store(e.b.add(e.b.load(self._barriers), _I32(1)), self._barriers)

    def leave(self, e: Emitter, site: int, index: llvm.Value | None, size: llvm.Value | None) -> None:
        """Go there; ends the current block."""
        if self._block is None:
            self._block = e.block("failed")
        index, size = (_I64(0) if v is None else v if v.type == _I64 else e.b.sext(v, _I64) for v in (index, size))
        self._coming.append((e.b.block, (_I32(site), index, size)))
        e.b.branch(self._block)

    def emit(self, e: Emitter) -> None:
        """Fill the place, once all checks are there."""
        if self._block is None:
            return
        b = e.b
        b.position_at_end(self._block)
        site, index, size = (b.phi(kind) for kind in (_I32, _I64, _I64))
        for block, values in self._coming:
            for phi, value in zip((site, index, size), values, strict=True):
                phi.add_incoming(value, block)
        number, thread = _block_number(e), e.target.linear_thread(e)
        key = self._key(e, number, thread)
        lower, first, ended = e.block("lower"), e.block("first"), e.block("ended")
        # A look before the atomic: of a thousand threads that fail, few are lower than all before them.
        b.cbranch(b.icmp_unsigned("<", key, ptx_memory.load(e, self.state, "volatile", "global")), lower, ended)
        b.position_at_end(lower)
        b.cbranch(b.icmp_unsigned("<", key, b.atomic_rmw("umin", self.state, key, "monotonic")), first, ended)
        b.position_at_end(first)
        words = b.bitcast(self.state, _I32.as_pointer(1))
        count = b.atomic_rmw("add", b.gep(words, [_I64(abi.COUNT // 4)]), _I32(1), "monotonic")
        at = b.mul(b.zext(b.and_(count, _I32(abi.LENGTH - 1)), _I64), _I64(abi.ENTRY.size // 8))
        record = b.inttoptr(b.load(b.gep(self.state, [_I64(abi.RECORD // 8)])), STATE)
        entry = b.gep(record, [at])
        both = b.or_(b.zext(thread, _I64), b.shl(b.zext(site, _I64), _I64(32)))
        for k, value in enumerate((key, number, both, index, size)):
            b.store(value, b.gep(entry, [_I64(k)]))
        b.branch(ended)
        b.position_at_end(ended)
        if self._traps:
            e.call("llvm.nvvm.membar.sys", llvm.VoidType(), [])  # the entry is there before the launch is not
            e.call("llvm.trap", llvm.VoidType(), [])
        b.ret_void()

    def _key(self, e: Emitter, number: llvm.Value, thread: llvm.Value) -> llvm.Value:
        b = e.b
        passed = _I64(0) if self._barriers is None else b.zext(b.load(self._barriers), _I64)
        block, barriers = _at_most(e, number, abi.BLOCK_BITS), _at_most(e, passed, abi.BARRIER_BITS)
        high = b.or_(b.shl(block, _I64(abi.BARRIER_BITS)), barriers)
        return b.or_(b.shl(high, _I64(abi.THREAD_BITS)), b.zext(thread, _I64))


def _at_most(e: Emitter, value: llvm.Value, bits: int) -> llvm.Value:
    """A number, or the highest of so many bits."""
    highest = _I64((1 << bits) - 1)
    return e.b.select(e.b.icmp_unsigned("<", value, highest), value, highest)


def _block_number(e: Emitter) -> llvm.Value:
    """The number of the block in the grid, x first."""
    b = e.b
    x, y, z = (b.zext(e.target.special_register(e, "ctaid", axis), _I64) for axis in ("x", "y", "z"))
    width, height = (b.zext(e.target.special_register(e, "nctaid", axis), _I64) for axis in ("x", "y"))
    return b.add(x, b.mul(width, b.add(y, b.mul(height, z))))
