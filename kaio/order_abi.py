"""What the code of a kernel, the rules of the shadow and the runtime agree on about what orders threads.

Barriers of a block and `syncwarp` are in `kaio/shadow_abi.py`. Here is what threads know besides: by flags, locks and
named barriers, which the runtime keeps (`ORDER`, in programs that have any) and of which what is asked for often is
cached in words; by barriers of the grid and of clusters; and of copies that go on by themselves.
"""

from __future__ import annotations

from kaio import host_abi as abi

__all__ = [
    "ACCESS", "ACQUIRES", "APART", "ARRIVE", "ARRIVED", "BARRIER", "BLOCK_SCOPE", "CLUSTER", "CLUSTER_SCOPE",
    "COMPLETES", "DEVICE_SCOPE", "FENCE", "FIRST_GROUP", "GROUP", "GROUP_TIME", "KNOWN_BLOCK", "KNOWN_BOUND",
    "KNOWN_WARPS", "KNOWS", "LEAVE", "MET_CLUSTER", "MET_GRID", "MOST_WAITS", "ORDER", "ORDER_WORDS", "READS",
    "RELEASES", "SEES", "TELLING", "TOLD", "VISITS", "VISIT_NBYTES", "WAIT", "WAITED", "WAITED_BASE", "WAITED_BEFORE",
    "WAITS", "WAIT_GROUP", "WAIT_TIME", "WARP", "WRITES",
]  # fmt: skip

# In the context of a block. i64: the function of the runtime that is told what orders threads, 0 where nothing does.
# i32: what any block of the grid, and of the cluster, did before then all of them know; whether threads of the block
# know different things; the first group of asynchronous copies that is of this block; whether anybody has told a thread
# of the block anything; when a thread of the block last told anything.
ORDER = abi.SHADOW + 192
MET_GRID, MET_CLUSTER, APART, FIRST_GROUP = ORDER + 8, ORDER + 12, ORDER + 16, ORDER + 20
TOLD, TELLING = ORDER + 24, ORDER + 28
# Of each block of the cluster, by its rank, the last access to the shared memory of this one since they met: i32 time,
# 0 where there was none, thread, what it was (`shadow_abi`), nothing; i64 address.
VISITS = ORDER + 64
VISIT_NBYTES = 24

# Words of each thread: for each warp of the block a time before which this thread knows all that the warp did; the same
# of one other block; when the thread came to a named barrier.
KNOWN_WARPS = abi.KNOWING_WORDS
KNOWN_BLOCK, KNOWN_BOUND, ARRIVED = KNOWN_WARPS + 32, KNOWN_WARPS + 33, KNOWN_WARPS + 34
# Of asynchronous copies: the group that is being collected; all groups before this one were waited for; the same when
# the block last met, and when that was; how often the thread has waited, and of the last waits up to which group, when.
GROUP = ARRIVED + 1
WAITED, WAITED_BEFORE, WAITED_BASE, WAITS = GROUP + 1, GROUP + 2, GROUP + 3, GROUP + 4
MOST_WAITS = 8
WAIT_GROUP = WAITS + 1
WAIT_TIME = WAIT_GROUP + MOST_WAITS
ORDER_WORDS = WAIT_TIME + MOST_WAITS - KNOWN_WARPS

# In a cell, a copy that its thread has begun: the thread is `~thread`, and the time this much above its group. Times
# stay below (`shadow_abi`), so that it is never earlier than anything.
GROUP_TIME = 1 << 30
WAIT = 1 << 22
"""In the place of what an access does: that the thread waits for its copies instead; the address is for how many."""

BLOCK_SCOPE, CLUSTER_SCOPE, DEVICE_SCOPE = range(3)
"""Scopes: each includes those before it. Nothing that is looked at is farther away than the device."""

# What the runtime is told or asked: ``function(context, kind, thread, a, b) -> i32``.
# FENCE: b is the scope. ACCESS: of `a`, b the scope and what follows. BARRIER: of the block. WARP: `thread` is its
# first, b the lanes. CLUSTER: of the cluster of the block. ARRIVE: b is the number, a the lanes of the warp, and
# whether that completes the barrier. LEAVE: b is the number. KNOWS: whether `thread` knows what thread a of the launch
# did at time b.
# SEES: the same, where the answer may be no for one who does.
FENCE, ACCESS, BARRIER, WARP, CLUSTER, ARRIVE, LEAVE, KNOWS, SEES = range(9)
READS, WRITES, ACQUIRES, RELEASES = 1 << 4, 1 << 5, 1 << 6, 1 << 7
COMPLETES = 1 << 32
