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
    "ALIVE", "ALONE", "APART", "ARGUMENTS", "ARRIVED", "BARRIER", "BLOCK", "BLOCK_DIM", "BLOCK_IDX", "CLUSTER",
    "CLUSTER_DIM", "CLUSTER_RANK", "CONTEXT_NBYTES", "CONTROL", "COUNT", "DIVERGED", "DRY", "ENDING", "ENDLESS",
    "FAILED", "FAULT", "FAULTED", "FAULT_INDEX", "FAULT_OTHER", "FAULT_SITE", "FAULT_SIZE", "FAULT_THREAD",
    "FINISHING", "FIRST_PROGRESS", "FRAMES", "FRAME_ALIGNMENT", "FRAME_NBYTES", "FUEL", "GIVEN", "GRID", "GRID_DIM",
    "KNOWING_WORDS", "LAST_STARTED", "LAST_THREAD", "LAUNCH", "LIVING", "MASK", "MAX_EXITS", "MAX_THREADS", "MEMBERS",
    "MIXED", "MOST_TURNS", "MOST_WORDS", "NAMED", "NAMED_COUNT", "NAMED_THREADS", "NAMED_TURN", "NEXT", "ORDER",
    "ORDERED", "PARTIAL", "PAUSE", "PAUSES", "PROGRESS", "PROGRESS_STRIDE", "RANDOM", "RUNNING", "SEED", "SEEN",
    "SHADOW", "SHADOW_WORDS", "SHARED", "SHARED_ALIGNMENT", "SHARED_STRIDE", "SHORT", "SINCE", "SITE", "SLICE",
    "SOON_NS", "STATE", "STOP", "STOPPED", "STUCK", "TAKEN", "THREADS", "TIMEOUT_NS", "UNIT", "USED", "WARP",
    "WARP_ALL", "WARP_ANY", "WARP_ORDER", "WARP_SYNC", "WARP_SYNC_ALL", "WATCH", "WENT_ROUND", "WHOLE", "WORDS",
    "WORD_COUNT", "WORD_STRIDE", "WORKER", "WORKERS", "WORKSPACE", "frame_stride",
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
SLICE, PAUSES, LAST_THREAD, LIVING = 172, 176, 180, 184  # i32: the turns of loops that a thread may take before it
# looks up, in the beginning; how often threads have paused; which looked up last; how many had not returned
CONTROL, PROGRESS, FUEL, SEEN, SINCE = 192, 200, 208, 216, 224  # the launch's control block; where in it this worker
# notes progress; i64: turns of a thread beyond `SLICE`; the progress of all, and when it was seen (ns)
ORDERED, PARTIAL, UNIT = 232, 236, 240  # i32: 1 where threads go on in a seeded order; 1 where a thread that has
# returned has come to every barrier; whether blocks that run together live here (0 none, 1 do, 2 are to begin)
RANDOM, SEED, USED = 248, 256, 264  # i64: the state of the seeded order, and its seed; i32: contexts that were used
LAUNCH, WORKSPACE = CONTROL, 32  # the offset there of 16 bytes for a barrier of the grid that is written in PTX
WATCH = 272  # pointer to who is watched (`trace_abi.STATE`); null where nobody is
TAKEN = 320  # u32[MOST_WORDS][32]: what the lanes of a warp operation gave; each row is one vector
MOST_WORDS = 16
# i32[16] each: of the named barriers, threads that have come, how often it was completed, threads that it waits for
NAMED_COUNT = TAKEN + MOST_WORDS * 32 * 4
NAMED_TURN, NAMED_THREADS = NAMED_COUNT + 64, NAMED_COUNT + 128
SHADOW = NAMED_COUNT + 192  # what the full checks keep of the block: `shadow_abi`
CONTEXT_NBYTES = SHADOW + 448

# Per-thread words. The stride is not a power of two, or all words of a thread would fall into one set of the cache.
STATE, MASK, GIVEN = range(3)
SHADOW_WORDS = GIVEN + MOST_WORDS  # 33 words of the full checks: `shadow_abi`; and 56 more, of what orders: `order_abi`
# Of a seeded order: whose turn it is in each warp, by position in the block, and which warp's.
ORDER, WARP_ORDER = SHADOW_WORDS + 33, SHADOW_WORDS + 34
KNOWING_WORDS = SHADOW_WORDS + 35
WORD_COUNT, WORD_STRIDE = KNOWING_WORDS + 56, 1040
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
# In a loop: without progress for too long; out of fuel; the launch was to stop, for which there is another reason.
ENDLESS, DRY, STOPPED = 7, 8, 9

# The control block of a launch, which its workers share: byte offsets of i64s. The next block, or group of blocks, and
# how many groups live; whether to stop; for how long there may be no progress (ns); the workers. Each worker notes its
# own progress in a cache line of its own.
NEXT, ALIVE, STOP, TIMEOUT_NS, WORKERS, FIRST_PROGRESS, PROGRESS_STRIDE = 0, 8, 64, 72, 80, 128, 64
# What STOP says: go on; begin no more blocks; leave loops, too.
RUNNING, FINISHING, ENDING = 0, 1, 2
SOON_NS = 100_000_000  # how long a loop may go round without progress once a block has failed
MOST_TURNS = 1 << 16  # of loops, between two times that a thread looks up

# Arguments of `kaio_worker`: context as number; context as i32s and as i64s; words; kinds and reach of the sites;
# start and run as numbers; how threads wait; number of blocks, or of groups of blocks that run together; how many
# blocks a group has (0: blocks run by themselves); how many groups may live at a time; groups of a chunk; two numbers
# of the order of the groups (1 and 0: as they are numbered); the control block; where progress is noted. Contexts and
# words of the blocks of a group lie behind each other, and so do those of groups.
WORKER = struct.Struct("@q" + "Pi" + "Pi" + "Pii" + "Pi" + "Pi" + "qqi" + "qiiqqq" + "Pi" + "Pi")


def frame_stride(nbytes: int) -> int:
    """Bytes from one thread's coroutine frame to the next."""
    return (nbytes + FRAME_ALIGNMENT - 1) // FRAME_ALIGNMENT * FRAME_ALIGNMENT
