"""What compiled code that prints and the runtime that shows it agree on.

Lines go through a ring of 32-bit words. A record is a header word, its site counted from 1 on and from the program's
first site, then the words of its values, low half first. A thread takes room for a record by moving the head on, writes
the values, and the header last; the reader goes from header to header, makes the words 0 again and moves the tail on.
Head and tail count words since the start and wrap at 2**32, so that the place of a word is its count modulo `CAPACITY`.

A program that prints exports the variable `VARIABLE`, which the runtime fills when it loads it: `BINDING`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

from kaio.dtypes import DType

__all__ = ["BINDING", "CAPACITY", "DATA", "DROPPED", "HEAD", "TAIL", "VARIABLE", "Line", "Printed"]

CAPACITY = 1 << 20  # words: 4 MiB
DATA = 16  # the ring is the tail, which the reader writes, then from this word on the data
TAIL = 0
HEAD, DROPPED = 0, 1  # words of the counters, which threads write: the head, and how many records found no room

VARIABLE = "kaio_print"
BINDING = struct.Struct("@QQI4x")  # addresses of the ring and of the counters; the program's first site


@dataclass(frozen=True)
class Printed:
    """A number that a kernel prints; a `spec` formats it as in `format(value, spec)`."""

    dtype: DType
    spec: str = ""

    @property
    def words(self) -> int:
        """How many words of 32 bits it takes."""
        return 1 if self.dtype.itemsize <= 4 else self.dtype.itemsize // 4

    def text(self, words: bytes) -> str:
        """What its words, as bytes, say: as Python prints it."""
        value = np.frombuffer(words[: self.dtype.itemsize], self.dtype.numpy)[0]
        if self.spec:
            return format(value.item(), self.spec)
        return _shortest(value) if isinstance(value, np.floating) else str(value)


def _shortest(value: np.floating[Any]) -> str:
    """The fewest digits that tell a float from its neighbours, laid out as Python's `repr` of a float."""
    if not np.isfinite(value) or value == 0:
        return repr(float(value))
    scientific = np.format_float_scientific(value, trim="-", exp_digits=2)
    if -4 <= int(scientific.partition("e")[2]) < 16:
        return np.format_float_positional(value, trim="0")
    return scientific


@dataclass(frozen=True)
class Line:
    """What one call of `print` in a kernel shows: texts, and numbers that are known when it runs."""

    parts: tuple[str | Printed, ...]

    @property
    def words(self) -> int:
        """How many words of 32 bits its numbers take."""
        return sum(part.words for part in self.parts if isinstance(part, Printed))

    def text(self, words: bytes) -> str:
        """The line for these words."""
        shown, start = [], 0
        for part in self.parts:
            if isinstance(part, Printed):
                shown.append(part.text(words[4 * start : 4 * (start + part.words)]))
                start += part.words
            else:
                shown.append(part)
        return "".join(shown)
