"""Where a thread of a GPU leaves what a check found, as compiled code and the runtime agree on it.

A program with checks takes the address of a `STATE` behind its own arguments, at the next multiple of 8 bytes. It lies
on the GPU, whose atomics are quick there: at `KEY` the lowest key of the threads that failed, `NO_KEY` before; how many
lowered it at `COUNT`; 8 bytes at `BARRIER` in which the blocks of the launch wait for each other; and at `RECORD` the
address of a ring of `LENGTH` entries, `ENTRY` each: block, thread, site, index and size (see `Site`), no site being 0.
The ring is memory of the host, which outlives whatever happens to the GPU, and where a look costs nothing.

The key of a thread is its block and itself, ``block * MAX_THREADS + thread``. Where threads wait for each other it is
the block alone: who failed first there may be why others failed later.
"""

from __future__ import annotations

import struct

__all__ = ["BARRIER", "COUNT", "ENTRY", "KEY", "LENGTH", "MAX_THREADS", "NO_KEY", "RECORD", "STATE"]

STATE = struct.Struct("@QIxxxxQQ")
KEY, COUNT, BARRIER, RECORD = 0, 8, 16, 24
NO_KEY = 2**64 - 1
ENTRY = struct.Struct("@qiiqq")
LENGTH = 64  # a power of two
MAX_THREADS = 1024
