"""What two accesses to one place are to each other, in kaio's own language. `shadow_object.py` compiles it.

The code of a kernel decides the usual cases itself (`shadow.py`) and asks here in all others.
"""

# mypy: disable-error-code="arg-type, assignment, no-untyped-call, no-untyped-def"
# (Kernel functions: an int literal becomes an i32, and device functions take their arguments' types.)

from __future__ import annotations

from kaio import host_abi as abi
from kaio import order_abi as order
from kaio import shadow_abi as shadow
from kaio.dsl.atomic import atomic_cas, atomic_exch
from kaio.dsl.compiler.host.scheduling_steps import of_slot
from kaio.dsl.compiler.host.shadow_aside import place_aside, put_aside
from kaio.dsl.compiler.host.shadow_async import wait_for_copies
from kaio.dsl.compiler.host.shadow_known import is_known, is_of_before, is_seen, is_told
from kaio.dsl.types import D2, InOut
from kaio.dtypes import i32, i64

__all__ = ["decide", "settle_blocks"]

# Positions in the block context, counted in i32 and in i64.
_START, _FIRST, _THREADS = shadow.START // 4, shadow.FIRST // 4, abi.THREADS // 4
_FAULT, _FAULT_SITE, _FAULT_THREAD, _FAULT_OTHER = (
    abi.FAULT // 4, abi.FAULT_SITE // 4, abi.FAULT_THREAD // 4, abi.FAULT_OTHER // 4,
)  # fmt: skip
_FAULT_INDEX, _FAULT_SIZE = abi.FAULT_INDEX // 8, abi.FAULT_SIZE // 8
_CLOCK, _SHADOWED, _CONTEXT_NBYTES = shadow.CLOCK, shadow.SHADOWED // 4, abi.CONTEXT_NBYTES
_W_WHEN, _W_WHO, _W_WHAT, _R_WHAT = shadow.W_WHEN, shadow.W_WHO, shadow.W_WHAT, shadow.R_WHAT
_R1_WHEN, _R1_WHO, _R2_WHEN, _R2_WHO = shadow.R1_WHEN, shadow.R1_WHO, shadow.R2_WHEN, shadow.R2_WHO
_SITE, _STRENGTH, _ATOMIC = shadow.MOST_SITES - 1, shadow.STRENGTH_SHIFT, shadow.ATOMIC_IN_BLOCK
_READS, _WRITES, _IN_SHARED, _NBYTES = shadow.READS, shadow.WRITES, shadow.IN_SHARED, shadow.NBYTES_SHIFT
_ASYNC, _WAIT, _GROUP_TIME, _GROUP = shadow.ASYNC, order.WAIT, order.GROUP_TIME, order.GROUP
_PLACES, _ASIDE = shadow.ASIDE_PLACES, 16
_SEES, _KEPT_WRITE = order.SEES, shadow.KEPT_WRITE
_IN_CLUSTER, _RANK, _VISITS, _VISIT = (
    shadow.IN_CLUSTER, abi.CLUSTER_RANK // 4, order.VISITS // 4, order.VISIT_NBYTES,
)  # fmt: skip
_SHARED, _SHARED_STRIDE = abi.SHARED // 8, abi.SHARED_STRIDE // 8
_RACE, _UNINITIALISED, _OF_THREAD = shadow.RACE, shadow.UNINITIALISED, shadow.OF_THREAD
_UNSETTLED, _UNSETTLED_THREAD, _UNSETTLED_WHAT, _UNSETTLED_ADDRESS = (
    shadow.UNSETTLED // 4, shadow.UNSETTLED_THREAD // 4, shadow.UNSETTLED_WHAT // 4, shadow.UNSETTLED_ADDRESS // 8,
)  # fmt: skip


def decide(
    cell: InOut[i32],
    address: i64,
    thread: i32,
    what: i32,
    c: InOut[i32],
    q: InOut[i64],
    words: InOut[i32, D2],
    locks: InOut[i32],
    aside: InOut[i32],
) -> None:
    """An access to what `cell` is kept of: note it there, or record a fault in the context of the block.

    `what` is as `shadow_abi` says. Without a cell, memory is read that nobody has written. `locks`: of cells that
    several workers see, none where one worker runs the launch. `aside`: see `shadow_aside`.
    """
    if what & _WAIT != 0:
        wait_for_copies(c, words, thread, i32(address))
        return
    if cell.size == 0:
        leave_unsettled(c, q, address, thread, what)
        return
    lock = -1
    if what & _IN_SHARED == 0 and locks.size > 0:
        lock = i32(address >> 2) & (locks.size - 1)
        while atomic_cas(locks, lock, 0, 1, order="acquire") != 0:
            pass
    found = conflict(cell, c, words, thread, what)
    if found == 0:
        found = conflict_aside(aside, address, c, words, thread, what)
    if found <= 0:
        note(cell, c, words, thread, what, aside, address)
        if what & _IN_CLUSTER != 0:
            note_visit(c, q, words, address, thread, what)
        if found < 0:
            leave_unsettled(c, q, address, thread, what)
    elif found >= _ASIDE:
        record(c, q, _RACE, address, thread, what, aside[found - _ASIDE + 3], read_of(aside[found - _ASIDE + 4]))
    elif found == _R2_WHEN + 1:
        record(c, q, _RACE, address, thread, what, cell[_R2_WHO], read_of(cell[_R_WHAT] >> 16))
    elif found == _R1_WHEN + 1:
        record(c, q, _RACE, address, thread, what, cell[_R1_WHO], read_of(cell[_R_WHAT]))
    else:
        record(c, q, _RACE, address, thread, what, cell[_W_WHO], (cell[_W_WHAT] & 0xFFFF) | _WRITES)
    if lock >= 0:
        atomic_exch(locks, lock, 0, order="release")


def conflict(cell, c, words, thread, what):
    """1 and the place of the time of the access in the cell that nothing orders with this one; 0 if all is well.

    -1 for a read of shared memory that nobody of the block has written.
    """
    first = c[_START] if what & _IN_SHARED != 0 else 1  # what is earlier, is empty
    if is_of_before(c, cell[_W_WHEN], first):
        if what & _IN_SHARED != 0 and what & _READS != 0:
            return -1
    elif is_apart(c, words, thread, what, cell[_W_WHO], cell[_W_WHEN], cell[_W_WHAT]):
        return _W_WHEN + 1
    for place in range(_R1_WHEN, _R2_WHEN + 1, 2):
        if not is_of_before(c, cell[place], first):
            other = cell[_R_WHAT] >> ((place - _R1_WHEN) * 8)
            # Two reads are no conflict. One of the two may stand for a strong write.
            matters = what & _WRITES != 0 or other & _KEPT_WRITE != 0
            if matters and is_apart(c, words, thread, what, cell[place + 1], cell[place], other):
                return place + 1
    return 0


def conflict_aside(aside, address, c, words, thread, what):
    """The same of accesses that were put aside: the place in the table, and `_ASIDE` more."""
    if aside.size == 0:
        return 0
    first = c[_START] if what & _IN_SHARED != 0 else 1
    for number in range(_PLACES):
        place = place_aside(aside, address, number)
        is_there = aside[place] == i32(address) and aside[place + 1] == i32(address >> 32)
        if is_there and not is_of_before(c, aside[place + 2], first):
            other = aside[place + 4]
            matters = what & _WRITES != 0 or other & _KEPT_WRITE != 0
            if matters and is_apart(c, words, thread, what, aside[place + 3], aside[place + 2], other):
                return place + _ASIDE
    return 0


def read_of(what):
    """What one of the two reads of a cell was, as said of an access."""
    return (what & 0xFFFF) | (_WRITES if what & _KEPT_WRITE != 0 else 0)


def is_apart(c, words, thread, what, who, when, other):
    """Whether nothing orders this access with another one, and both being strong does not make that right."""
    own, strength = (what >> _STRENGTH) & 3, (other >> _STRENGTH) & 3
    is_of_block = own == _ATOMIC or strength == _ATOMIC
    if own != 0 and strength != 0 and not (is_of_block and (who < c[_FIRST] or who >= c[_FIRST] + c[_THREADS])):
        return False
    return is_known(c, words, thread, who, when) == 0


def note(cell, c, words, thread, what, aside, address):
    """Put an access into the cell, which conflicts with none that is there."""
    me, now = c[_FIRST] + thread, words[_CLOCK, thread]
    first = c[_START] if what & _IN_SHARED != 0 else 1
    if what & _ASYNC != 0:
        me, now = ~me, _GROUP_TIME + words[_GROUP, thread]
    if what & _WRITES != 0:
        # Of two strong writes that nothing orders both are kept, for whoever comes after one only; and a plain one in
        # front of a strong one, which may race with who does not race with that.
        is_second = not is_over(cell, c, words, thread, what, first, _W_WHEN)
        is_weaker = strength_of(what) != 0 and strength_of(cell[_W_WHAT]) == 0 and cell[_W_WHEN] >= first
        keeps = is_second or (is_weaker and what & _IN_SHARED == 0)
        if keeps and is_over(cell, c, words, thread, what, first, _R2_WHEN):
            keep_read(cell, _R2_WHEN, cell[_W_WHO], cell[_W_WHEN], cell[_W_WHAT] | _KEPT_WRITE)
        elif keeps:
            before = (cell[_W_WHAT] & 0xFFFF) | _KEPT_WRITE
            put_aside(aside, address, c, words, thread, first, cell[_W_WHEN], cell[_W_WHO], before)
        # Of what one thread does at one time the weaker write is kept, which conflicts with more.
        if cell[_W_WHO] != me or cell[_W_WHEN] != now or strength_of(cell[_W_WHAT]) != 0:
            cell[_W_WHAT] = (what & 0xFFFF) | ((what >> _NBYTES) << 16)
        cell[_W_WHEN] = now
        cell[_W_WHO] = me
        if strength_of(what) == 0:  # whoever knows of this write knows of the reads before it
            cell[_R1_WHEN] = 0
            cell[_R2_WHEN] = 0
    elif is_place_for(cell, c, words, thread, me, now, what, first, _R1_WHEN):
        keep_read(cell, _R1_WHEN, me, now, what)
    elif is_place_for(cell, c, words, thread, me, now, what, first, _R2_WHEN):
        keep_read(cell, _R2_WHEN, me, now, what)
    elif strength_of(what) == 0 and strength_of(cell[_R_WHAT]) != 0:
        put_aside(aside, address, c, words, thread, first, cell[_R1_WHEN], cell[_R1_WHO], cell[_R_WHAT] & 0xFFFF)
        keep_read(cell, _R1_WHEN, me, now, what)
    elif is_farther(cell, c, me) or (strength_of(what) == 0 and strength_of(cell[_R_WHAT] >> 16) != 0):
        kept = (cell[_R_WHAT] >> 16) & 0xFFFF
        put_aside(aside, address, c, words, thread, first, cell[_R2_WHEN], cell[_R2_WHO], kept)
        keep_read(cell, _R2_WHEN, me, now, what)
    else:
        put_aside(aside, address, c, words, thread, first, now, me, what & 0xFFFF)


def is_place_for(cell, c, words, thread, me, now, what, first, place):
    """Whether a read may take the place of one that is kept: that one is over, and no weaker one of this moment."""
    kept = cell[_R_WHAT] >> ((place - _R1_WHEN) * 8)
    is_now = cell[place + 1] == me and cell[place] == now
    if is_now and strength_of(kept) == 0 and strength_of(what) != 0:
        return False
    return is_over(cell, c, words, thread, what, first, place)


def strength_of(what):
    """How strong an access is."""
    return (what >> _STRENGTH) & 3


def is_over(cell, c, words, thread, what, first, place):
    """Whether an access in the cell happened before, or is of a block that was here before; perhaps not if that takes
    long to find out. A strong access does not ask the runtime: flags and counters are hot, and who races with them is
    plain.
    """
    when, who = cell[place], cell[place + 1]
    if is_of_before(c, when, first):
        return True
    if when >= _GROUP_TIME:
        return is_known(c, words, thread, who, when) != 0
    if (what >> _STRENGTH) & 3 != 0:
        return is_seen(c, words, thread, who, when) != 0
    return is_told(c, words, thread, who, when, _SEES) != 0


def note_visit(c, q, words, address, thread, what):
    """Say to the block whose shared memory this is that another one has come there."""
    away = i32((address - q[_SHARED]) // q[_SHARED_STRIDE])
    if away != 0:
        there = of_slot(c, away, _CONTEXT_NBYTES // 4)
        visit = _VISITS + c[_RANK] * (_VISIT // 4)
        there[visit] = words[_CLOCK, thread]
        there[visit + 1] = thread
        there[visit + 2] = what
        of_slot(q, away, _CONTEXT_NBYTES // 8)[_VISITS // 2 + c[_RANK] * (_VISIT // 8) + 2] = address


def is_farther(cell, c, me):
    """Whether this thread is farther from the first reader than the second is: in another block, or warp."""
    threads = c[_THREADS]
    one, two, first = cell[_R1_WHO], cell[_R2_WHO], c[_FIRST]
    if one // threads != two // threads:
        return False
    if one // threads != me // threads:
        return True
    return (one - first) >> 5 == (two - first) >> 5 and (one - first) >> 5 != (me - first) >> 5


def keep_read(cell, place, who, when, what):
    """Keep a read as the first or second one."""
    cell[place] = when
    cell[place + 1] = who
    if place == _R1_WHEN:
        cell[_R_WHAT] = (cell[_R_WHAT] & -0x10000) | (what & 0xFFFF)
    else:
        cell[_R_WHAT] = (cell[_R_WHAT] & 0xFFFF) | (what << 16)


def leave_unsettled(c, q, address, thread, what):
    """A read of what nobody has written. Another thread may still do so, and then the two race: `settle` decides."""
    if what & _OF_THREAD != 0:
        record(c, q, _UNINITIALISED, address, thread, what, 0, 0)
    elif c[_UNSETTLED] == 0:
        c[_UNSETTLED] = 1
        c[_UNSETTLED_THREAD] = thread
        c[_UNSETTLED_WHAT] = what
        q[_UNSETTLED_ADDRESS] = address


def record(c, q, kind, address, thread, what, who, other):
    """Record a fault, if it is the first one of the block."""
    if c[_FAULT] == 0:
        c[_FAULT] = kind
        c[_FAULT_SITE] = what & _SITE
        c[_FAULT_THREAD] = thread
        c[_FAULT_OTHER] = other & _SITE
        q[_FAULT_INDEX] = address
        kinds = kind_of(what) | (kind_of(other) << 4) | (((what >> _NBYTES) & 127) << 8)
        q[_FAULT_SIZE] = (i64(kinds | i32(who < 0) << 15) << 32) | i64(~who if who < 0 else who)


def kind_of(what):
    """Read, write or atomic update."""
    return 2 if (what >> _STRENGTH) & 3 >= _ATOMIC else i32(what & _WRITES != 0)


def settle_blocks(c, q, blocks):
    """Blocks that ran together have ended: what was read and not written is a fault, unless a race was found.

    It comes before any other fault of the block: whoever reads what nobody has written goes astray. 1 if there is one.
    """
    found, races = 0, 0
    for slot in range(blocks):
        races |= i32(of_slot(c, slot, _CONTEXT_NBYTES // 4)[_FAULT] == _RACE)
    for slot in range(blocks):
        own = of_slot(c, slot, _CONTEXT_NBYTES // 4)
        if own[_SHADOWED] != 0 and own[_UNSETTLED] != 0 and races == 0:
            wide = of_slot(q, slot, _CONTEXT_NBYTES // 8)
            own[_FAULT] = 0
            record(
                own, wide, _UNINITIALISED, wide[_UNSETTLED_ADDRESS], own[_UNSETTLED_THREAD], own[_UNSETTLED_WHAT], 0, 0
            )
        own[_UNSETTLED] = 0
        found |= own[_FAULT]
    return found
