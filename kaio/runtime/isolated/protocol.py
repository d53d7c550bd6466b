"""What a device and its worker say to each other, and what lies in the memory that both see.

Work goes to the worker as messages of fixed layout, which begin with one of the `Op`. Everything else is a request: a
name and its arguments, marshalled. The worker answers requests, and tells what it was refused, in tuples of the same
kind that begin with one of the words below. A message is one packet of a socket: whole or not at all.

Each stream of the worker has a slot, and a counter in shared memory that the GPU itself writes behind each work: the
number of the last one that is done. So to learn that work is done takes a look at a word, and after a fault the
counters tell which work was the first that is not. (`cuStreamWriteValue64` comes after all writes to memory of what is
before it, for the host and for other contexts, too.)

A worker starts with no more than this package's own files, `errors` and the driver: nothing here imports NumPy.
"""

from __future__ import annotations

import struct
from enum import IntEnum

__all__ = [
    "CHECKED", "COPY", "LAUNCH", "MESSAGE_NBYTES", "NO_RECORD", "PRINTS", "RECORDS", "RECORD_COUNT", "RECORD_NBYTES",
    "REFUSALS", "ROWS", "RUN", "SET", "SLOTS", "TIMED", "TOGETHER", "WAIT", "Op", "Told",
]  # fmt: skip

MESSAGE_NBYTES = 1 << 16  # the most that one packet holds: what is larger goes in parts


class Op(IntEnum):
    """What a message asks for."""

    LAUNCH = 1  # LAUNCH, then the argument block
    RUN = 2  # RUN: a launch that was prepared
    COPY = 3  # COPY, then the ROWS that are copied between buffers
    SET = 4  # SET, then the bytes of one element
    WAIT = 5  # WAIT: what comes on a stream waits for the work of another
    PART = 6  # a part of the request that follows
    REQUEST = 7  # a marshalled (number, name, arguments); the number is 0 where no answer is wanted


class Told:
    """The first entry of what a worker tells."""

    READY = "ready"  # facts about the context
    ANSWER = "answer"  # number of the request, whether it was done, the value or what the driver said
    REFUSED = "refused"  # slot, number of the work, what the driver said
    TIMED = "timed"  # slot, number of the work, milliseconds
    FAULT = "fault"  # what the driver said; the worker has ended


# All begin with: op, flags, slot, what is launched (a program, or what was prepared), number of the work on its stream.
# Then: grid, block, bytes of shared memory, cluster, record
LAUNCH = struct.Struct("<BBHIQ3I3II3Ii")
RUN = struct.Struct("<BBHIQi")  # record
COPY = struct.Struct("<BBHIQ")
ROWS = struct.Struct("<QQQQQQ")  # target, source, bytes of a row, rows, from row to row in the target and the source
SET = struct.Struct("<BBHIQQQ")  # target, elements
WAIT = struct.Struct("<BBHIQ")  # the other slot in place of what is launched, and the number of its work

TIMED, TOGETHER, CHECKED = 1, 2, 4  # flags; together: all blocks of the grid run at once
NO_RECORD = -1

# The memory that both see, in bytes.
SLOTS = 2048  # streams at a time; the counter of each is 8 bytes
REFUSALS = SLOTS  # this word counts what the worker has told of as refused
RECORDS = 1 << 16  # where what checks find is left: `kaio/fault_abi.py`
RECORD_COUNT = 1024
RECORD_NBYTES = 2560
PRINTS = RECORDS + RECORD_COUNT * RECORD_NBYTES  # the ring of `kaio/print_abi.py`, at the end
