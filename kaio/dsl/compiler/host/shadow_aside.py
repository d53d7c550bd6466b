"""What does not fit into a cell, in kaio's own language: more accesses than two that nothing orders.

Where threads meet all together two are enough. Where some meet, or tell each other, one of many may be left out: then
the others are put aside, in a table by address with a few places for each.
"""

# mypy: disable-error-code="arg-type, assignment, no-untyped-call, no-untyped-def"
# (Kernel functions: an int literal becomes an i32, and device functions take their arguments' types.)

from __future__ import annotations

from kaio import shadow_abi as shadow
from kaio.dsl.compiler.host.shadow_known import is_of_before, is_seen
from kaio.dtypes import i32

__all__ = ["place_aside", "put_aside"]

_PLACES, _WORDS, _STRENGTH = shadow.ASIDE_PLACES, shadow.ASIDE_WORDS, shadow.STRENGTH_SHIFT


def place_aside(aside, address, number):
    """Where in the table an access to an address may be, of a few places the one of that number."""
    row = i32(address >> 2) & (aside.size // (_PLACES * _WORDS) - 1)
    return (row * _PLACES + number) * _WORDS


def put_aside(aside, address, c, words, thread, first, when, who, what):
    """Keep an access that has no place in its cell."""
    if aside.size == 0:
        return
    place = place_aside(aside, address, when & (_PLACES - 1))
    for number in range(_PLACES):
        other = place_aside(aside, address, number)
        is_own = aside[other] == i32(address) and aside[other + 1] == i32(address >> 32) and aside[other + 3] == who
        is_weaker = is_own and aside[other + 2] == when and (aside[other + 4] >> _STRENGTH) & 3 == 0
        if is_weaker:
            return
        is_over = is_of_before(c, aside[other + 2], first)
        if is_own or is_over or is_seen(c, words, thread, aside[other + 3], aside[other + 2]) != 0:
            place = other
    aside[place] = i32(address)
    aside[place + 1] = i32(address >> 32)
    aside[place + 2] = when
    aside[place + 3] = who
    aside[place + 4] = what
