"""What compiled code that says where it writes and the runtime that looks at it agree on.

A kernel compiled with `Build(covered=True)` notes each write to an `Out` buffer, byte by byte, in a map of the launch.
The context's `host_abi.WATCH` points to a `trace_abi.STATE`, which has the address of a table (`trace_abi.COVERED`):
the number of its rows, then one `ROW` for each `Out` buffer. A byte of the map is 0 where nobody wrote; see the bits.
Of each element there are two i64 for who wrote it first, and who wrote it again: 1 more than the thread's number in the
launch, and below that 16 bits for the site; 0 for nobody.
"""

from __future__ import annotations

import struct

__all__ = ["AGAIN", "ATOMIC", "COUNT", "ITEMSIZE", "MAP", "ROW", "SITE_BITS", "START", "STOP", "WHO", "WRITTEN"]

COUNT = struct.Struct("@q")
ROW = struct.Struct("@5q")  # first address, the one behind the last, address of the map, of who wrote, bytes an element
START, STOP, MAP, WHO, ITEMSIZE = range(0, 40, 8)

# Bits of the map: written by a store; written again, be it by an atomic update; written by an atomic update, which may
# come again.
WRITTEN, AGAIN, ATOMIC = 1, 2, 4
SITE_BITS = 16
