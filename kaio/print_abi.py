"""What compiled code that prints and the runtime that shows it agree on.

Lines go through a ring of 32-bit words. A record is a header word, its site counted from 1 on and from the program's
first site, then the words of its values, low half first. A thread takes room for a record by moving the head on, writes
the values, and the header last; the reader goes from header to header, makes the words 0 again and moves the tail on.
Head and tail count words since the start and wrap at 2**32, so that the place of a word is its count modulo `CAPACITY`.

A program that prints exports the variable `VARIABLE`, which the runtime fills when it loads it: `BINDING`.
"""

from __future__ import annotations

import re
import struct
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from kaio.dtypes import DType

__all__ = [
    "BINDING",
    "CAPACITY",
    "COUNTERS",
    "DATA",
    "DROPPED",
    "HEAD",
    "SEEN_TAIL",
    "TAIL",
    "VARIABLE",
    "Line",
    "Printed",
]

CAPACITY = 1 << 20  # words: 4 MiB
DATA = 16  # the ring is the tail, which the reader writes, then from this word on the data
TAIL = 0
# Words of the counters, which threads write: the head; how many records found no room; the tail as a thread saw it
# last, because to read the real one may be a trip to the host.
HEAD, DROPPED, SEEN_TAIL = 0, 1, 2
COUNTERS = 4

VARIABLE = "kaio_print"
BINDING = struct.Struct("@QQI4x")  # addresses of the ring and of the counters; the program's first site


@dataclass(frozen=True)
class Printed:
    """A number that a kernel prints; a `spec` formats it as in `format(value, spec)`, or its text where `is_text`.

    `names` are what some values are called instead: members of an enum.
    """

    dtype: DType
    spec: str = ""
    names: tuple[tuple[int, str], ...] = ()
    is_text: bool = False

    @property
    def words(self) -> int:
        """How many words of 32 bits it takes."""
        return 1 if self.dtype.itemsize <= 4 else self.dtype.itemsize // 4

    def text(self, words: bytes) -> str:
        """What its words, as bytes, say: as Python prints it."""
        value = np.frombuffer(words[: self.dtype.itemsize], self.dtype.numpy)[0]
        if self.names:
            return dict(self.names).get(int(value), str(value))
        if self.spec and not self.is_text:
            return _formatted(value, self.spec)
        if self.dtype.kind == "c":
            text = _complex(value.real, value.imag)
        else:
            text = _shortest(value) if self.dtype.is_float else str(value)
        return format(text, self.spec)


_WITHOUT_DIGITS = re.compile(r"(?:.?[<>=^])?[-+ ]?z?#?0?\d*[,_]?", re.DOTALL)


def _formatted(value: Any, spec: str) -> str:
    """`format(value, spec)`; where no digits are asked for, the fewest that tell a float from its neighbours."""
    number = value.item()
    if spec.endswith("c") and (not 0 <= number <= sys.maxunicode or 0xD800 <= number < 0xE000):
        return "\N{REPLACEMENT CHARACTER}"  # Python has no such character, or cannot write it
    if isinstance(number, complex) and _WITHOUT_DIGITS.fullmatch(spec):
        number = complex(float(_shortest(value.real)), float(_shortest(value.imag)))
    elif isinstance(number, float) and _WITHOUT_DIGITS.fullmatch(spec):
        number = float(_shortest(value))
    return format(number, spec)


def _shortest(value: Any) -> str:
    """The fewest digits that tell a float from its neighbours, laid out as Python's `repr` of a float."""
    number = float(value)
    if not np.isfinite(number) or number == 0:
        return repr(number)
    scientific = np.format_float_scientific(value, trim="-", exp_digits=2)
    if not isinstance(value, np.floating):  # of the types that NumPy does not have
        tried = (f"{number:.{digits}e}" for digits in range(17))
        scientific = next(text for text in tried if value.dtype.type(float(text)) == value)
    exponent = int(scientific.partition("e")[2])
    if not -4 <= exponent < 16:
        return scientific
    return np.format_float_positional(float(scientific), trim="0")


def _complex(real: Any, imag: Any) -> str:
    """As Python's `repr` of a complex number."""
    parts = [_shortest(part).removesuffix(".0") for part in (real, imag)]
    if parts[0] == "0":
        return f"{parts[1]}j"
    sign = "" if parts[1].startswith("-") else "+"
    return f"({parts[0]}{sign}{parts[1]}j)"


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
