"""What the code of a kernel, the rules of the shadow and the runtime agree on under ``check="full"``.

Of every granule of memory that threads share, its smallest element, the shadow keeps a *cell*: by whom and when it
was written last, and read by two. A thread has a *time*, which grows; all threads of a block get a later one, the same,
when they pass a barrier. So an access of another thread of the block is known to have happened before if its time is
earlier than that of the last barrier, `BASE`; else only the lanes of one warp know of each other, through `syncwarp`.
This is FastTrack (Flanagan and Freund, PLDI 2009) with the barriers of a GPU for locks.

A worker's times go on from block to block and from launch to launch. In shared memory, which only its threads see, a
cell that is older than `START` is empty, and nothing is ever cleared.
"""

from __future__ import annotations

import struct

from kaio import host_abi as abi

__all__ = [
    "ASIDE_PLACES", "ASIDE_ROWS", "ASIDE_WORDS", "ASYNC", "ATOMIC", "ATOMIC_IN_BLOCK", "ATOMIC_IN_GRID", "BASE",
    "BUFFER", "BUFFERS", "BUFFER_CELLS", "BUFFER_MAP", "BUFFER_START", "BUFFER_STOP", "CELLS", "CELL_NBYTES", "CLOCK",
    "DECIDE", "DECIDER", "FIRST", "FREED", "IN_CLUSTER", "IN_SHARED", "KEPT_WRITE", "KNOWN", "MOST_SITES",
    "NBYTES_SHIFT", "OF_THREAD", "PLAIN", "QUESTION", "QUESTION_ADDRESS", "QUESTION_CELL", "QUESTION_CONTEXTS",
    "QUESTION_THREAD", "QUESTION_WHAT", "QUESTION_WORDS", "R1_WHEN", "R1_WHO", "R2_WHEN", "R2_WHO", "RACE", "READ",
    "READS", "R_WHAT", "SHADOWED", "START", "STRENGTH_SHIFT", "UNINITIALISED", "UNSETTLED", "UNSETTLED_ADDRESS",
    "UNSETTLED_THREAD", "UNSETTLED_WHAT", "VOLATILE", "WRITE", "WRITES", "W_WHAT", "W_WHEN", "W_WHO",
]  # fmt: skip

# In the context of a block. i32: whether the launch has a shadow, the times at which the block began and at which its
# threads last passed a barrier together, the number that its first thread has in the launch.
SHADOWED, START, BASE, FIRST = abi.SHADOW, abi.SHADOW + 4, abi.SHADOW + 8, abi.SHADOW + 12
# i64: the function that decides what the code of a kernel cannot, the cells of shared memory (what is added to the
# number of a granule times `CELL_NBYTES`), the table of the buffers.
DECIDE, CELLS, BUFFERS = abi.SHADOW + 16, abi.SHADOW + 24, abi.SHADOW + 32
# A read of what nobody has written, which is a race instead if somebody does so at the same time: whether there is one
# (i32), thread and what kind of access (i32), the address (i64). It is a fault when the block has ended.
UNSETTLED, UNSETTLED_THREAD, UNSETTLED_WHAT, UNSETTLED_ADDRESS = (
    abi.SHADOW + 40, abi.SHADOW + 44, abi.SHADOW + 48, abi.SHADOW + 56,
)  # fmt: skip
# The arguments of that function. The code of a kernel sets the first: cell, address, thread, what kind of access.
QUESTION = abi.SHADOW + 64
QUESTION_CELL, QUESTION_ADDRESS, QUESTION_THREAD, QUESTION_WHAT = QUESTION, QUESTION + 16, QUESTION + 24, QUESTION + 28
DECIDER = struct.Struct("@Pi" + "qii" + "Pi" + "Pi" + "Pii" + "Pi" + "Pi")
# The last one is a table of accesses that have no place in their cells: rows, places in each, and i32s in a place: the
# address in two halves, time, thread, and what it was as in the place of a read.
ASIDE_ROWS, ASIDE_PLACES, ASIDE_WORDS = 512, 8, 5
QUESTION_CONTEXTS, QUESTION_WORDS = (QUESTION + 32, QUESTION + 48), QUESTION + 64  # pointers to those of the block

# Words of each thread: its time, and of each lane of its warp the latest time that it knows of.
CLOCK, KNOWN = abi.SHADOW_WORDS, abi.SHADOW_WORDS + 1

# A cell, counted in i32: time and thread (its number in the launch) of the last write and of two reads, time 0 of none;
# then what the write was (site, strength and bytes), and the reads (site and strength of each).
CELL_NBYTES = 32
W_WHEN, W_WHO, R1_WHEN, R1_WHO, R2_WHEN, R2_WHO, W_WHAT, R_WHAT = range(8)

# What an access is: its site, how strong it is (an atomic update of the block only, or of more; `cluster` is more), and
# from bit 16 on what it does where (`OF_THREAD`: its own memory), and its bytes.
MOST_SITES, STRENGTH_SHIFT = 1 << 13, 14
KEPT_WRITE = 1 << 13  # in the place of a read: it was a write, beside a later one that nothing orders with it
PLAIN, VOLATILE, ATOMIC_IN_BLOCK, ATOMIC_IN_GRID = range(4)
READS, WRITES, IN_SHARED, IN_CLUSTER, ASYNC, OF_THREAD = (1 << bit for bit in range(16, 22))
NBYTES_SHIFT = 24

# A row of the table of buffers: its first address and the one behind it, what is added to the number of a granule times
# `CELL_NBYTES` for the cell, and to an address for the byte that says whether it was written. 0 where there is none.
BUFFER = struct.Struct("@4Q")
BUFFER_START, BUFFER_STOP, BUFFER_CELLS, BUFFER_MAP = 0, 8, 16, 24

# Kinds of faults, beside those of `host_abi`. The index is the address, `other` the site of the other access; the size
# is who made that, and from bit 32 on which kinds of accesses the own and the other are, 4 bits each, and the bytes.
RACE, UNINITIALISED, FREED = 20, 21, 22
READ, WRITE, ATOMIC = range(3)
