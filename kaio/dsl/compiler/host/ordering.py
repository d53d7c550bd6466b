"""What the code of a kernel tells the runtime of what orders its threads, under ``check="full"``.

Only programs with fences, orders of atomics or named barriers tell anything: others have nothing to hand on.
`kaio/order_abi.py` has the numbers, `runtime/host_order.py` is who is told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from llvmlite import ir as llvm

from kaio import order_abi as abi
from kaio import shadow_abi as shadow
from kaio.dsl.compiler import ir
from kaio.dsl.compiler.emission.access import Access
from kaio.dsl.compiler.emission.atomics import Update, bits_of
from kaio.dsl.compiler.emission.orders import Orders
from kaio.dsl.compiler.host.host_context import I1, I32, I64
from kaio.dsl.compiler.host.shadow_order import emit_tell
from kaio.dsl.intrinsic import Intrinsic
from kaio.dsl.values import Weak
from kaio.dtypes import DType

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter
    from kaio.dsl.compiler.host.host_threads import Thread
    from kaio.dsl.compiler.host.shadow import Shadow

__all__ = ["Ordering", "meets_in_part", "orders_threads"]

_SCOPES = {
    "block": abi.BLOCK_SCOPE, "cluster": abi.CLUSTER_SCOPE, "device": abi.DEVICE_SCOPE, "system": abi.DEVICE_SCOPE,
}  # fmt: skip
_OF_THREADS = ("fence", "named_bar_sync", "named_bar_arrive")


def orders_threads(typed: ir.Typed) -> bool:
    """Whether threads of a kernel may hand on what they know other than by barriers of all."""
    return any(_orders(call) for _, call in ir.calls_of(typed))


def meets_in_part(typed: ir.Typed) -> bool:
    """Whether some threads may know of an access and others not, beside those of other warps and blocks."""
    return orders_threads(typed) or any(_has_mask(call) for _, call in ir.calls_of(typed))


def _has_mask(call: ir.TypedCall) -> bool:
    is_syncwarp = isinstance(call.callee, Intrinsic) and call.callee.name.removeprefix("kaio.") == "syncwarp"
    return is_syncwarp and any(isinstance(operand, DType | Weak) for operand in call.operands)


def _orders(call: ir.TypedCall) -> bool:
    if not isinstance(call.callee, Intrinsic):
        return False
    name = call.callee.name
    return name in _OF_THREADS or (name.startswith("atomic_") and call.static[-1] != "relaxed")


class Ordering(Orders):
    """What the body of a kernel tells: of copies to its shadow, of the rest to the runtime if that `tells` anything."""

    def __init__(self, thread: Thread, shadow: Shadow, *, tells: bool) -> None:
        self._thread, self._shadow, self.tells = thread, shadow, tells

    def fence(self, e: Emitter, scope: str) -> None:
        """Told with its scope."""
        self._tell(e, abi.FENCE, I64(0), I32(_SCOPES[scope]))

    def accessed(self, e: Emitter, pointer: llvm.Value, access: Access) -> None:
        """Told with its address."""
        self._accessed(e, pointer, access, I1(1))

    def updated(self, e: Emitter, update: Update, before: llvm.Value) -> None:
        """Told with whether it has written: a comparison may not have found what it expected."""
        wrote: llvm.Value = I1(1)
        if update.operation == "cas":
            found, expected = (bits_of(e, value, update.dtype) for value in (before, update.operands[0]))
            wrote = e.b.icmp_unsigned("==", found, expected)
        self._accessed(e, update.pointer, update.access, wrote)

    def _accessed(self, e: Emitter, pointer: llvm.Value, access: Access, wrote: llvm.Value) -> None:
        flags = _SCOPES["system" if access.how == "volatile" else access.scope]
        flags |= abi.READS * (access.kind != "write") | abi.WRITES * (access.kind != "read")
        flags |= abi.ACQUIRES * (access.order in ("acquire", "acq_rel"))
        flags |= abi.RELEASES * (access.order in ("release", "acq_rel"))
        more = e.b.select(wrote, I32(flags), I32(flags & ~(abi.WRITES | abi.RELEASES)))
        self._tell(e, abi.ACCESS, e.b.ptrtoint(pointer, I64), more)

    def arrive(self, e: Emitter) -> None:
        """What the thread does from now on is later."""
        clock = self._thread.word(e, shadow.CLOCK)
        now = e.b.load(clock)
        e.b.store(now, self._thread.word(e, abi.ARRIVED))
        e.b.store(e.b.add(now, I32(1)), clock)

    def arrived(self, e: Emitter, number: llvm.Value, members: llvm.Value, completes: llvm.Value) -> None:
        """Told with who they are."""
        lanes = e.b.zext(members, I64)
        self._tell(e, abi.ARRIVE, e.b.select(completes, e.b.or_(lanes, I64(abi.COMPLETES)), lanes), number)

    def leave(self, e: Emitter, number: llvm.Value) -> None:
        """Told with the number."""
        self._tell(e, abi.LEAVE, I64(0), number)

    def commit_copies(self, e: Emitter) -> None:
        """Counted."""
        group = self._thread.word(e, abi.GROUP)
        e.b.store(e.b.add(e.b.load(group), I32(1)), group)

    def wait_for_copies(self, e: Emitter, groups: int) -> None:
        """Noted with the time."""
        self._shadow.wait_for_copies(e, groups)

    def _tell(self, e: Emitter, kind: int, a: llvm.Value, more: llvm.Value) -> None:
        if self.tells:
            emit_tell(e.b, self._thread.context, kind, self._thread.thread, a, more)
