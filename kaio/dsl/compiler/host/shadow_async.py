"""When copies that go on by themselves were done, as far as a thread can know, in kaio's own language.

On the CPU device a copy is made at once. Its cell says of which thread and group it is; whether and when that thread
has waited for the group is asked when somebody comes to the cell.
"""

# mypy: disable-error-code="arg-type, assignment, no-untyped-call, no-untyped-def"
# (Kernel functions: an int literal becomes an i32, and device functions take their arguments' types.)

from __future__ import annotations

from kaio import order_abi as order
from kaio import shadow_abi as shadow

__all__ = ["copy_time", "wait_for_copies"]

_BASE, _CLOCK = shadow.BASE // 4, shadow.CLOCK
_GROUP, _WAITED, _WAITED_BEFORE, _WAITED_BASE = order.GROUP, order.WAITED, order.WAITED_BEFORE, order.WAITED_BASE
_WAITS, _MOST, _WAIT_GROUP, _WAIT_TIME = order.WAITS, order.MOST_WAITS, order.WAIT_GROUP, order.WAIT_TIME


def wait_for_copies(c, words, thread, left):
    """A thread waits until at most so many of its groups are under way."""
    reached = words[_GROUP, thread] - left
    if reached <= words[_WAITED, thread]:
        return
    if words[_WAITED_BASE, thread] != c[_BASE]:
        words[_WAITED_BEFORE, thread] = words[_WAITED, thread]
        words[_WAITED_BASE, thread] = c[_BASE]
    words[_WAITED, thread] = reached
    number = words[_WAITS, thread] % _MOST
    words[_WAITS, thread] = number + 1
    words[_WAIT_GROUP + number, thread] = reached
    words[_WAIT_TIME + number, thread] = words[_CLOCK, thread]


def copy_time(c, words, thread, group):
    """When a thread of the block has waited for one of its groups; 0 if it has not.

    Of waits that are long past it is a time that is earlier than it was, which all of the block know of.
    """
    if group >= words[_WAITED, thread]:
        return 0
    known = words[_WAITED_BEFORE, thread] if words[_WAITED_BASE, thread] == c[_BASE] else words[_WAITED, thread]
    found, reached = c[_BASE] - 1, known
    if group < known:
        return found
    for number in range(_MOST):
        upto = words[_WAIT_GROUP + number, thread]
        if upto > group and (reached <= group or upto < reached):
            reached = upto
            found = words[_WAIT_TIME + number, thread]
    return found
