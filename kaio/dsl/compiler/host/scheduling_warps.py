"""How the CPU device runs one warp, in kaio's own language: until none of its lanes can go on without the block."""

# mypy: disable-error-code="arg-type, assignment, no-untyped-call, no-untyped-def"
# (Kernel functions: an int literal becomes an i32, and device functions take their arguments' types.)

from __future__ import annotations

from kaio import host_abi as abi
from kaio.dsl.compiler.host.scheduling_order import let_run
from kaio.dsl.compiler.host.scheduling_steps import lanes_at, take_row
from kaio.dsl.compiler.host.shadow_clocks import pass_warp
from kaio.dsl.compiler.host.shadow_order import meet_warp
from kaio.dtypes import i32, u32

__all__ = ["report", "report_stuck", "run_warp"]

# Positions in the block context, counted in i32.
_FAULT, _FAULT_THREAD, _FAULT_OTHER = abi.FAULT // 4, abi.FAULT_THREAD // 4, abi.FAULT_OTHER // 4
_FAULT_INDEX, _MEMBERS = abi.FAULT_INDEX // 4, abi.MEMBERS // 4
_STATE, _MASK, _STUCK = abi.STATE, abi.MASK, abi.STUCK
_WARP, _WARP_SYNC, _WARP_SYNC_ALL, _WARP_ANY = abi.WARP, abi.WARP_SYNC, abi.WARP_SYNC_ALL, abi.WARP_ANY


def run_warp(context, c, words, kinds, run, first, stop, progress):
    """Complete the operations of one warp until none can be completed."""
    every = u32(0xFFFFFFFF) >> (32 - (stop - first))
    while c[_FAULT] == 0:
        state = words[_STATE, first]
        site = kinds[max(state, 0)]
        whole = lanes_at(words, _STATE, first, state) & every == every
        if whole and site & 255 < _WARP:
            return
        if whole and is_masked(site):
            mask = words[_MASK, first]
            whole = u32(mask) & lanes_at(words, _MASK, first, mask) & every == every
        if whole:
            take(c, words, site, first, every)
            let_run(run, context, c, words, first, stop, state)
        elif run_some(context, c, words, kinds, run, first, stop) == 0:
            return
        progress[0] += 1


def is_masked(site):
    """Whether who waits at a site has left a mask."""
    return site & 255 == _WARP or site & 255 == _WARP_SYNC


def run_some(context, c, words, kinds, run, first, stop):
    """Complete the first operation whose lanes are all there, of some of the lanes; 0 where there is none."""
    live = u32(0)
    for lane in range(stop - first):
        live |= u32(words[_STATE, first + lane] > 0) << lane
    leader, members = who_can_go(words, kinds, first, stop, live)
    if members == 0:
        return 0
    take(c, words, kinds[words[_STATE, first + leader]], first, members)
    for lane in range(stop - first):
        if (members >> lane) & 1 != 0:
            words[_STATE, first + lane] = 0
    let_run(run, context, c, words, first, stop, 0)
    return 1


def who_can_go(words, kinds, first, stop, live):
    """A lane and those with it whose operation can be completed; no lanes where there is none."""
    for lane in range(stop - first):
        site = kinds[max(words[_STATE, first + lane], 0)] & 255
        if site >= _WARP and site != _WARP_ANY:
            members = complete(words, kinds, first, lane, live)
            if members != 0:
                return lane, members
    for lane in range(stop - first):  # who asks who is here, is told when no other lane can come
        state = words[_STATE, first + lane]
        if kinds[max(state, 0)] & 255 == _WARP_ANY:
            return lane, lanes_at(words, _STATE, first, state) & live
    return 0, u32(0)


def complete(words, kinds, first, lane, live):
    """The lanes of the operation that a lane waits at, if they are all there; else 0."""
    state = words[_STATE, first + lane]
    site = kinds[state] & 255
    here = lanes_at(words, _STATE, first, state)
    wanted = live
    if is_masked(site):
        mask = words[_MASK, first + lane]
        wanted = u32(mask) & live
        here &= lanes_at(words, _MASK, first, mask)
    if site >= _WARP_SYNC:  # another `syncwarp` will do
        here = u32(0)
        for other in range(32):
            if (wanted >> other) & 1 != 0 and meets(words, kinds, first + other, wanted, live):
                here |= u32(1) << other
    if wanted & here != wanted or (wanted >> lane) & 1 == 0:
        return u32(0)
    return wanted


def meets(words, kinds, thread, wanted, live):
    """Whether a thread is at a `syncwarp` of these lanes."""
    site = kinds[max(words[_STATE, thread], 0)]
    own = u32(words[_MASK, thread]) & live if is_masked(site) else live
    return site & 255 >= _WARP_SYNC and site & 255 != _WARP_ANY and own == wanted


def take(c, words, site, first, members):
    """Keep what the lanes of an operation have given, for those that are resumed now."""
    if site & 255 == _WARP_SYNC or site & 255 == _WARP_SYNC_ALL:
        pass_warp(c, words, first, members)
        meet_warp(c, first, members)
    c[_MEMBERS] = i32(members)
    for word in range(site >> 8):
        take_row(c, words, word, first)


def report_stuck(c, words, kinds, thread, threads):
    """Record a warp operation whose lanes cannot all come, and one that it waits for, or itself if it names itself not.

    Nothing else can run: whoever still waits, waits for ever.
    """
    first, own = thread - thread % 32, words[_STATE, thread]
    has_mask = is_masked(kinds[own])
    mask = u32(words[_MASK, thread]) if has_mask else u32(0xFFFFFFFF)
    c[_FAULT_INDEX] = i32(mask)
    c[_FAULT_INDEX + 1] = i32(has_mask)
    if (mask >> (thread % 32)) & 1 != 0:
        for lane in range(min(32, threads - first)):
            other = first + lane
            state = words[_STATE, other]
            is_elsewhere = state != own or (has_mask and u32(words[_MASK, other]) != mask)
            if state > 0 and (mask >> lane) & 1 != 0 and is_elsewhere:
                return report(c, _STUCK, thread, other)
    return report(c, _STUCK, thread, thread)


def report(c, kind, thread, other):
    """Record what is wrong, and between whom."""
    c[_FAULT] = kind
    c[_FAULT_THREAD] = thread
    c[_FAULT_OTHER] = other
    return 0
