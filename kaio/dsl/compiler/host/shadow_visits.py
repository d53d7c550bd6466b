"""Who came to the shared memory of another block, in kaio's own language: it must be there until they are done.

Whether a block has ended when another comes depends on who runs when. So the last visit of each block is kept until
they meet, and when all have ended, somebody of the block visited must have known of it.
"""

# mypy: disable-error-code="arg-type, assignment, no-untyped-call, no-untyped-def"
# (Kernel functions: an int literal becomes an i32, and device functions take their arguments' types.)

from __future__ import annotations

from kaio import host_abi as abi
from kaio import order_abi as order
from kaio import shadow_abi as shadow
from kaio.dsl.compiler.host.scheduling_steps import of_slot
from kaio.dsl.compiler.host.shadow_known import is_known
from kaio.dsl.compiler.host.shadow_rules import record
from kaio.dtypes import i32

__all__ = ["find_freed"]

_THREADS, _FIRST, _FAULT = abi.THREADS // 4, shadow.FIRST // 4, abi.FAULT // 4
_SHADOWED, _RANK = shadow.SHADOWED // 4, abi.CLUSTER_RANK // 4
_VISITS, _ADDRESS, _VISIT = order.VISITS // 4, order.VISITS // 8 + 2, order.VISIT_NBYTES
_CONTEXT_NBYTES, _WORDS = abi.CONTEXT_NBYTES, abi.WORD_COUNT * abi.WORD_STRIDE
_FREED = shadow.FREED


def find_freed(c, q, words, blocks):
    """Blocks that ran together have ended: a visit that nobody of the block visited knows of came too late."""
    if c[_SHADOWED] == 0 or blocks == 1:
        return
    for slot in range(blocks):
        if of_slot(c, slot, _CONTEXT_NBYTES // 4)[_FAULT] != 0:
            return
    for slot in range(blocks):
        own = of_slot(c, slot, _CONTEXT_NBYTES // 4)
        for rank in range(8):
            visit = _VISITS + rank * (_VISIT // 4)
            if own[visit] != 0:
                guest = of_slot(c, slot + rank - own[_RANK], _CONTEXT_NBYTES // 4)
                who = guest[_FIRST] + own[visit + 1]
                if is_known_to_any(own, of_slot(words, slot, _WORDS), who, own[visit]) == 0:
                    address = of_slot(q, slot, _CONTEXT_NBYTES // 8)[_ADDRESS + rank * (_VISIT // 8)]
                    wide = of_slot(q, slot + rank - own[_RANK], _CONTEXT_NBYTES // 8)
                    record(guest, wide, _FREED, address, own[visit + 1], own[visit + 2], own[_FIRST], 0)
                    return


def is_known_to_any(c, words, who, when):
    """Whether a thread of a block knows what another one did."""
    for thread in range(c[_THREADS]):
        if is_known(c, words, thread, who, when) != 0:
            return 1
    return i32(0)
