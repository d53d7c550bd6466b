"""Where a thread of a GPU leaves what a check found, as compiled code and the runtime agree on it.

A program with checks takes the address of a `STATE` behind its own arguments, at the next multiple of 8 bytes. It lies
on the GPU, whose atomics are quick there: at `KEY` the lowest key of the threads that failed, `NO_KEY` before; how many
lowered it at `COUNT`; 8 bytes at `BARRIER` in which the blocks of the launch wait for each other; and at `RECORD` the
address of a ring of `LENGTH` entries, `ENTRY` each: key, block, thread, site, index and size (see `Site`), no site
being 0.
The ring is memory of the host, which outlives whatever happens to the GPU, and where a look costs nothing.

A key is made of the block, how many barriers of the block the thread had passed, and the thread, from the highest bit
down. So the first thread of the first block is told, but none whose failure may come of what another one did not do.
"""

from __future__ import annotations

import struct

__all__ = [
    "BARRIER", "BARRIER_BITS", "BLOCK_BITS", "COUNT", "ENTRY", "KEY", "LENGTH", "NO_KEY", "RECORD", "SITE", "STATE",
    "THREAD_BITS",
]  # fmt: skip

STATE = struct.Struct("@QIxxxxQQ")
KEY, COUNT, BARRIER, RECORD = 0, 8, 16, 24
NO_KEY = 2**64 - 1
ENTRY = struct.Struct("@QqiIqq")
SITE = 20  # where an entry has its site
LENGTH = 64  # a power of two
THREAD_BITS, BARRIER_BITS, BLOCK_BITS = 10, 22, 32  # of a key; a number that is too large is the highest one
