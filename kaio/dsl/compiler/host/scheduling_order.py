"""In which order the CPU device lets threads go on, in kaio's own language: as they are numbered, or by a seed.

A launch with a schedule lets the warps of a block, and the lanes of a warp, go on one by one in an order that is drawn
anew each time that they do. The draws come from splitmix64 (Steele, Lea and Flood, "Fast splittable
pseudorandom number generators", 2014), which each block begins from the seed and its own number, so that its order
does not depend on what other blocks did.
"""

# mypy: disable-error-code="arg-type, assignment, no-untyped-call, no-untyped-def"
# (Kernel functions: an int literal becomes an i32, and device functions take their arguments' types.)

from __future__ import annotations

from kaio import host_abi as abi
from kaio.dsl.compiler.host.scheduling_steps import native
from kaio.dtypes import i32, u32, u64

__all__ = ["begin_order", "let_run", "order_warps"]

# Positions in the block context, counted in i32 and in i64.
_ORDERED, _RANDOM, _SEED = abi.ORDERED // 4, abi.RANDOM // 4, abi.SEED // 8
_ORDER, _WARP_ORDER = abi.ORDER, abi.WARP_ORDER


def let_run(step, context, c, words, first, stop, state):
    """Start threads of a warp, or resume those of them that are in this state."""
    if c[_ORDERED] == 0:
        native(step, context, first, stop, state)
    else:
        mix(c, words, _ORDER, first, stop)
        for place in range(first, stop):
            thread = words[_ORDER, place]
            native(step, context, thread, thread + 1, state)


def begin_order(q, number):
    """Begin the order of a block."""
    q[_RANDOM // 2] = q[_SEED] + number * 0x632BE59BD9B4E019


def order_warps(c, words, threads):
    """Draw which warp's turn it is next."""
    mix(c, words, _WARP_ORDER, 0, (threads + 31) // 32)


def mix(c, words, row, first, stop):
    """Put the numbers from `first` to before `stop` into these places of a row, in any order (Fisher and Yates)."""
    for place in range(first, stop):
        other = first + draw(c, place - first + 1)
        words[row, place] = words[row, other]
        words[row, other] = place


def draw(c, count):
    """A number from 0 to below `count`."""
    state = (u64(u32(c[_RANDOM])) | u64(u32(c[_RANDOM + 1])) << 32) + u64(0x9E3779B97F4A7C15)
    c[_RANDOM] = i32(u32(state & u64(0xFFFFFFFF)))
    c[_RANDOM + 1] = i32(u32(state >> 32))
    word = (state ^ state >> 30) * u64(0xBF58476D1CE4E5B9)
    word = (word ^ word >> 27) * u64(0x94D049BB133111EB)
    return i32((word ^ word >> 31) >> 33) % count
