"""What the threads of a block do together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kaio.dsl.intrinsic import Resolved, intrinsic
from kaio.dsl.values import NONE

if TYPE_CHECKING:
    from kaio.dsl.compiler.emit import Emitter
    from kaio.dsl.compiler.ir import TypedCall

__all__ = ["bar_sync"]


def _barrier_cuda(e: Emitter, call: TypedCall) -> Any:
    e.call("llvm.nvvm.barrier0", e.void, [])


def _barrier_host(e: Emitter, call: TypedCall) -> Any:
    e.target.suspend(e, "barrier")


@intrinsic(lambda: Resolved((), NONE), cuda=_barrier_cuda, host=_barrier_host, suspends=True)
def bar_sync() -> None:
    """Wait until every thread of the block is here; what they wrote to memory before is then seen by all of them.

    A thread that returned counts as arrived. One that goes round the barrier, or waits at another, is an error that the
    CPU device reports.
    """
