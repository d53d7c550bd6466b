"""How the rules of the shadow and the scheduler ask the runtime what orders threads, in kaio's own language."""

# mypy: disable-error-code="arg-type, assignment, no-untyped-call, no-untyped-def"
# (Kernel functions: an int literal becomes an i32, and device functions take their arguments' types.)

from __future__ import annotations

from typing import Any

from llvmlite import ir as llvm

from kaio import host_abi as abi
from kaio import order_abi as order
from kaio import shadow_abi as shadow
from kaio.dsl.compiler.host.scheduling_steps import of_slot
from kaio.dsl.compiler.host.shadow_clocks import latest, set_clocks
from kaio.dsl.intrinsic import Resolved, intrinsic
from kaio.dsl.types import InOut
from kaio.dtypes import i32, i64

__all__ = ["begin_knowing", "emit_tell", "meet_barrier", "meet_blocks", "meet_warp", "tell"]

_I32, _I64 = llvm.IntType(32), llvm.IntType(64)
_POINTER = llvm.IntType(8).as_pointer()
# Positions in the block context, counted in i32.
_SHADOWED, _THREADS, _APART = shadow.SHADOWED // 4, abi.THREADS // 4, order.APART // 4
_MET_GRID, _MET_CLUSTER, _FIRST_GROUP = order.MET_GRID // 4, order.MET_CLUSTER // 4, order.FIRST_GROUP // 4
_KNOWN_BLOCK = order.KNOWN_BLOCK
_TOLD, _TELLING = order.TOLD // 4, order.TELLING // 4
_VISITS, _VISIT = order.VISITS // 4, order.VISIT_NBYTES // 4
_GROUP, _WAITED, _WAITED_BEFORE = order.GROUP, order.WAITED, order.WAITED_BEFORE
_BARRIER, _WARP, _CLUSTER = order.BARRIER, order.WARP, order.CLUSTER
_CONTEXT, _WORDS = abi.CONTEXT_NBYTES // 4, abi.WORD_COUNT * abi.WORD_STRIDE


def emit_tell(b: llvm.IRBuilder, context: Any, kind: int, thread: Any, a: Any, more: Any) -> Any:
    """Call the function of the runtime at `ORDER`, which is there; gives its answer, an i32."""
    context = b.bitcast(context, _POINTER)
    place = b.bitcast(b.gep(context, [_I64(order.ORDER)]), _I64.as_pointer())
    function = llvm.FunctionType(_I32, [_POINTER, _I32, _I32, _I64, _I32]).as_pointer()
    return b.call(b.inttoptr(b.load(place), function), [context, _I32(kind), thread, a, more])


def _tell(e: Any, call: Any, context: Any, kind: Any, thread: Any, a: Any, more: Any) -> Any:
    place = e.b.bitcast(e.b.gep(e.b.bitcast(context.pointer, _POINTER), [_I64(order.ORDER)]), _I64.as_pointer())
    address = e.b.load(place)
    before = e.b.block
    with e.b.if_then(e.b.icmp_unsigned("!=", address, _I64(0))):
        function = llvm.FunctionType(_I32, [_POINTER, _I32, _I32, _I64, _I32]).as_pointer()
        given = [e.b.bitcast(context.pointer, _POINTER), kind, thread, a, more]
        answer, told = e.b.call(e.b.inttoptr(address, function), given), e.b.block
    found = e.b.phi(_I32)
    found.add_incoming(_I32(0), before)
    found.add_incoming(answer, told)
    return found


@intrinsic(lambda c, *_: Resolved((c, i32, i32, i64, i32), i32), host=_tell)
def tell(c: InOut[i32], kind: i32, thread: i32, a: i64, more: i32) -> i32:
    """Tell or ask the runtime (`order_abi`); 0 where nobody is there."""
    raise AssertionError


def begin_knowing(c, words, blocks):
    """Blocks that run together begin: nobody has met, and no copy is theirs."""
    if c[_SHADOWED] == 0:
        return
    group = 0
    for slot in range(blocks):
        own = of_slot(words, slot, _WORDS)
        group = max(group, of_slot(c, slot, _CONTEXT)[_FIRST_GROUP])
        for thread in range(c[_THREADS]):
            group = max(group, own[_GROUP, thread])
    for slot in range(blocks):
        own = of_slot(c, slot, _CONTEXT)
        own[_MET_GRID] = 0
        own[_MET_CLUSTER] = 0
        own[_APART] = 0
        own[_TOLD] = 0
        own[_TELLING] = 0
        forget_visits(own)
        own[_FIRST_GROUP] = group + 1
        theirs = of_slot(words, slot, _WORDS)
        for thread in range(c[_THREADS]):
            theirs[_GROUP, thread] = group + 1
            theirs[_WAITED, thread] = group + 1
            theirs[_WAITED_BEFORE, thread] = group + 1
            theirs[_KNOWN_BLOCK, thread] = -1


def forget_visits(c):
    """Nobody has come to the shared memory of a block."""
    for rank in range(8):
        c[_VISITS + rank * _VISIT] = 0


def meet_barrier(c):
    """The threads of a block have met."""
    if c[_APART] != 0:
        tell(c, _BARRIER, 0, 0, 0)


def meet_warp(c, first, members):
    """Lanes of a warp have met."""
    if c[_APART] != 0:
        tell(c, _WARP, first, 0, i32(members))


def meet_blocks(c, words, first, stop, is_grid):
    """All threads of some blocks have met, those of the grid or of a cluster."""
    if c[_SHADOWED] == 0:
        return
    now = 0
    for slot in range(first, stop):
        now = max(now, latest(of_slot(words, slot, _WORDS), c[_THREADS]))
    for slot in range(first, stop):
        own = of_slot(c, slot, _CONTEXT)
        meet_barrier(own)
        set_clocks(own, of_slot(words, slot, _WORDS), now + 1)
        forget_visits(own)
        if is_grid:
            own[_MET_GRID] = now + 1
        else:
            own[_MET_CLUSTER] = now + 1
    if not is_grid:
        tell(of_slot(c, first, _CONTEXT), _CLUSTER, 0, 0, 0)
