"""What a thread knows to have happened, in kaio's own language."""

# mypy: disable-error-code="arg-type, assignment, no-untyped-call, no-untyped-def"
# (Kernel functions: an int literal becomes an i32, and device functions take their arguments' types.)

from __future__ import annotations

from kaio import host_abi as abi
from kaio import shadow_abi as shadow

__all__ = ["is_known"]

_BASE, _FIRST, _THREADS = shadow.BASE // 4, shadow.FIRST // 4, abi.THREADS // 4
_KNOWN = shadow.KNOWN


def is_known(c, words, thread, who, when):
    """1 if what thread `who` of the launch did then happened before what `thread` of this block does now."""
    other = who - c[_FIRST]
    if other == thread or when == 0:
        return 1
    if 0 <= other < c[_THREADS]:
        if when < c[_BASE]:
            return 1
        if other >> 5 == thread >> 5 and when <= words[_KNOWN + (other & 31), thread]:
            return 1
    return 0
