"""How time passes for the shadow, in kaio's own language: called by the scheduler where threads have met."""

# mypy: disable-error-code="arg-type, assignment, no-untyped-call, no-untyped-def"
# (Kernel functions: an int literal becomes an i32, and device functions take their arguments' types.)

from __future__ import annotations

from kaio import host_abi as abi
from kaio import shadow_abi as shadow
from kaio.dsl.compiler.host.scheduling_steps import of_slot
from kaio.dtypes import i32, u32

__all__ = ["begin_blocks", "pass_barrier", "pass_warp"]

# Positions in the block context, counted in i32.
_SHADOWED, _START, _BASE, _FIRST = shadow.SHADOWED // 4, shadow.START // 4, shadow.BASE // 4, shadow.FIRST // 4
_THREADS, _BLOCK = abi.THREADS // 4, abi.BLOCK // 4
_CLOCK, _KNOWN = shadow.CLOCK, shadow.KNOWN
_CONTEXT, _WORDS = abi.CONTEXT_NBYTES // 4, abi.WORD_COUNT * abi.WORD_STRIDE


def begin_blocks(c, words, blocks):
    """Blocks that run together begin, all at one time, which is later than everything that this worker did before."""
    if c[_SHADOWED] == 0:
        return
    now = 0
    for slot in range(blocks):
        now = max(now, of_slot(c, slot, _CONTEXT)[_BASE], latest(of_slot(words, slot, _WORDS), c[_THREADS]))
    for slot in range(blocks):
        own = of_slot(c, slot, _CONTEXT)
        own[_START] = now + 1
        own[_FIRST] = own[_BLOCK] * own[_THREADS]  # launches of 2**31 threads and more are refused
        set_clocks(own, of_slot(words, slot, _WORDS), now + 1)


def pass_barrier(c, words):
    """The threads of a block have met: whatever any of them did, all know."""
    if c[_SHADOWED] != 0:
        set_clocks(c, words, latest(words, c[_THREADS]) + 1)


def set_clocks(c, words, now):
    """It is now, for all threads of a block; what was before, all know."""
    c[_BASE] = now
    for thread in range(c[_THREADS]):
        words[_CLOCK, thread] = now


def latest(words, threads):
    """The latest time of a thread."""
    found = 0
    for thread in range(threads):
        found = max(found, words[_CLOCK, thread])
    return found


def pass_warp(c, words, first, members):
    """Lanes of a warp have met at `syncwarp`: what one of them knows and did, all know."""
    if c[_SHADOWED] == 0:
        return
    for lane in range(32):
        known = words[_CLOCK, first + lane] if (members >> lane) & 1 != 0 else 0
        for other in range(32):
            if (members >> other) & 1 != 0:
                known = max(known, words[_KNOWN + lane, first + other])
        for other in range(32):
            if (members >> other) & 1 != 0:
                words[_KNOWN + lane, first + other] = known
    for lane in range(32):
        words[_CLOCK, first + lane] += i32((members >> lane) & u32(1))
