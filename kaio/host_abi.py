"""What compiled host code, the block scheduler and the runtime of the CPU device agree on: offsets and numbers.

A host object exports either

``k_plain(context, 0, 0, 0)``
    runs all threads of the block described by the context (kernels in which no thread ever waits), or
``k_start(context, first, stop, 0)`` and ``k_run(context, first, stop, state)``
    start the threads `first` to `stop`, each up to its first wait; resume those of them whose state is `state`.

Threads are numbered ``x + block_dim.x * (y + block_dim.y * z)``. `k_start` with a null `FRAMES` writes the size of one
coroutine frame to `FRAME_NBYTES` and starts nothing. The scheduler object exports ``kaio_worker(arguments)``, whose
argument block is packed by `WORKER`.

The context of a block belongs to one worker. The per-thread words are one array of `WORD_STRIDE` i32 per word, so that
a word of a whole warp is one vector: `STATE` says where a thread is. A positive state is the number of the site it
waits at, ``-1 - g`` says that it returned through exit `g`, `FAULTED` that a check stopped it.

A thread at a warp operation has left up to `MOST_WORDS` words, from `GIVEN` on, and in `MASK` the lanes that it waits
for. When all of them are there, the scheduler copies their words to `TAKEN` in the context, ``[word][lane]``, writes
who they are to `MEMBERS`, and resumes them, all before anything else: each reads what it needs right there.
"""

from __future__ import annotations

import struct

__all__ = [
    "ALONE", "APART", "ARGUMENTS", "ARRIVED", "BARRIER", "BLOCK", "BLOCK_DIM", "BLOCK_IDX", "CLUSTER", "CLUSTER_DIM",
    "CLUSTER_RANK", "CONTEXT_NBYTES", "COUNT", "DIVERGED", "FAILED", "FAULT", "FAULTED", "FAULT_INDEX", "FAULT_OTHER",
    "FAULT_SITE", "FAULT_SIZE", "FAULT_THREAD", "FRAMES", "FRAME_ALIGNMENT", "FRAME_NBYTES", "GIVEN", "GRID",
    "GRID_DIM", "LAST_STARTED", "LAUNCH", "MASK", "MAX_EXITS", "MAX_THREADS", "MEMBERS", "MIXED", "MOST_WORDS",
    "NAMED", "NAMED_COUNT", "NAMED_THREADS", "NAMED_TURN", "PAUSE", "SHADOW", "SHADOW_WORDS", "SHARED",
    "SHARED_ALIGNMENT", "SHARED_STRIDE", "SHORT",
    "SITE", "STATE", "STUCK", "TAKEN", "THREADS", "WARP", "WARP_ALL", "WARP_ANY", "WARP_SYNC", "WARP_SYNC_ALL",
    "WATCH", "WENT_ROUND", "WHOLE", "WORDS", "WORD_COUNT", "WORD_STRIDE", "WORKER", "WORKSPACE", "frame_stride",
]  # fmt: skip

MAX_THREADS = 1024
SHARED_ALIGNMENT = 128
FRAME_ALIGNMENT = 16

# The block context: byte offsets. Pointers first. (LAST_STARTED is only written: LLVM elides a coroutine whose handle
# goes nowhere.)
ARGUMENTS, SHARED, WORDS, LAST_STARTED, FRAMES = 0, 8, 16, 24, 32
FRAME_NBYTES, BLOCK = 40, 48  # i64: size of one frame; linear number of the block
BLOCK_DIM, GRID_DIM, BLOCK_IDX, THREADS = 56, 68, 80, 92  # i32, three each; threads of the block
FAULT, FAULT_SITE, FAULT_THREAD, FAULT_OTHER = 96, 100, 104, 108  # i32: the first fault of the block
FAULT_INDEX, FAULT_SIZE = 112, 120  # i64
ALONE = 128  # i32: 1 while no other worker runs this launch, so that a plain update is an atomic one
MEMBERS = 132  # u32: the lanes of the warp operation that was completed last
COUNT, ARRIVED = 136, 140  # i32: threads that gave a barrier something else than 0, and all that came to it
CLUSTER_DIM, CLUSTER_RANK = 144, 156  # i32, three of the first: blocks of a cluster; the number of this one in it
SHARED_STRIDE = 160  # i64: bytes from the shared memory of one block of a cluster to the next
SITE = 168  # i32: where a block waits for other blocks; 0 where it does not
WATCH = 176  # pointer to who is watched (`trace_abi.STATE`); null where nobody is
LAUNCH = 184  # pointer to 64 bytes of the launch, zero before it: what counts its blocks, and behind that a workspace
WORKSPACE = 32  # the offset there of 16 bytes for a barrier of the grid that is written in PTX
TAKEN = 192  # u32[MOST_WORDS][32]: what the lanes of a warp operation gave; each row is one vector
MOST_WORDS = 16
# i32[16] each: of the named barriers, threads that have come, how often it was completed, threads that it waits for
NAMED_COUNT = TAKEN + MOST_WORDS * 32 * 4
NAMED_TURN, NAMED_THREADS = NAMED_COUNT + 64, NAMED_COUNT + 128
SHADOW = NAMED_COUNT + 192  # what the full checks keep of the block: `shadow_abi`
CONTEXT_NBYTES = SHADOW + 256

# Per-thread words. The stride is not a power of two, or all words of a thread would fall into one set of the cache.
STATE, MASK, GIVEN = range(3)
SHADOW_WORDS = GIVEN + MOST_WORDS  # 33 words of the full checks: `shadow_abi`
WORD_COUNT, WORD_STRIDE = SHADOW_WORDS + 33, 1040
FAULTED = -100
MAX_EXITS = 60  # exits of a kernel that are told apart; those above share the last number
MIXED = 1 << 62  # set in a reach mask that holds the shared number: "one exit only" cannot be said of it

# What a thread can wait for (kinds of sites): the block; the block, of which no thread may have returned; some of it;
# the cluster; the grid; nobody, but others go first; the lanes in MASK; all lanes of its warp that have not returned;
# the same two, where they may be at any such site; the lanes that can come here before the warp must wait. In the table
# that the scheduler gets, 256 times the number of words given is added. 0 is no place to wait.
BARRIER, WHOLE, NAMED, CLUSTER, GRID, PAUSE = 1, 2, 3, 4, 5, 6
WARP, WARP_ALL, WARP_SYNC, WARP_SYNC_ALL, WARP_ANY = 8, 9, 10, 11, 12

# Kinds of faults (FAULT): a check recorded by a thread; threads wait at different barriers; one went round a barrier;
# a warp operation whose lanes cannot all come (the index is the mask); a named barrier to which not enough threads come
# (the index is how many came, the size how many it waits for); blocks that wait for each other at different places, or
# for one that has returned (the index is the other block).
FAILED, DIVERGED, WENT_ROUND, STUCK, SHORT, APART = 1, 2, 3, 4, 5, 6

# Arguments of `kaio_worker`: context as number; context as i32s and as i64s; words; kinds and reach of the sites;
# start and run as numbers; how threads wait; number of blocks, or of groups of blocks that run together; how many
# blocks a group has (0: blocks run by themselves); groups of a chunk, the shared counter. Contexts and words of the
# blocks of a group lie behind each other.
WORKER = struct.Struct("@q" + "Pi" + "Pi" + "Pii" + "Pi" + "Pi" + "qqi" + "qiq" + "Pi")


def frame_stride(nbytes: int) -> int:
    """Bytes from one thread's coroutine frame to the next."""
    return (nbytes + FRAME_ALIGNMENT - 1) // FRAME_ALIGNMENT * FRAME_ALIGNMENT
