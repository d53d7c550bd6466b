"""Random nests of loops and branches compute the same when the loops are written out."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest

import kaio
from kaio import i32
from tests.dsl.from_text import kernel

NUMBERS = ("total", "other")


class Program:
    """A random body of a kernel; the same seed gives the same one, with its loops written out or not."""

    def __init__(self, seed: int, iterated: str) -> None:
        self.random, self.iterated = random.Random(seed), iterated

    def source(self) -> str:
        head = "@kernel\ndef k(x: In[i32], out: Out[i32]):\n    i = grid(1)\n    total = i32(0)\n    other = x[i]\n"
        return "\n".join([head, *self.block(3, "    ", ()), "    out[i] = total * 31 + other\n"])

    def block(self, depth: int, indent: str, loops: tuple[str, ...]) -> Iterator[str]:
        for _ in range(self.random.randint(1, 3)):
            kind = self.random.choice(["update", "loop", "branch"]) if depth else "update"
            yield from getattr(self, kind)(depth, indent, loops)

    def update(self, depth: int, indent: str, loops: tuple[str, ...]) -> Iterator[str]:
        value = self.random.choice(("x[i]", "2", "total", "i", *loops))
        yield f"{indent}{self.random.choice(NUMBERS)} {self.random.choice(('+=', '-=', '^='))} {value}"

    def loop(self, depth: int, indent: str, loops: tuple[str, ...]) -> Iterator[str]:
        name, start, stop = self.random.choice("abc"), self.random.randint(-1, 2), self.random.randint(0, 4)
        bounds = self.random.choice((f"{stop}", f"{start}, {stop}", f"{start}, {stop}, 2", f"{stop}, {start}, -1"))
        yield f"{indent}{name} = 0"
        yield f"{indent}for {name} in {self.iterated.format(f'range({bounds})')}:"
        yield from self.block(depth - 1, f"{indent}    ", (*loops, name))
        if self.random.random() < 0.4:
            yield f"{indent}    if ({self.random.choice(NUMBERS)} + {name}) % 3 == {self.random.randint(0, 2)}:"
            yield f"{indent}        {self.random.choice(('break', 'continue', 'total += 7'))}"
            yield f"{indent}    {self.random.choice(NUMBERS)} += 1"
        if self.random.random() < 0.25:
            yield f"{indent}else:"
            yield f"{indent}    total += 100"

    def branch(self, depth: int, indent: str, loops: tuple[str, ...]) -> Iterator[str]:
        yield f"{indent}if {self.random.choice(NUMBERS)} % 2 == 0:"
        yield from self.block(depth - 1, f"{indent}    ", loops)
        if self.random.random() < 0.5:
            yield f"{indent}else:"
            yield from self.block(depth - 1, f"{indent}    ", loops)


def launched(source: str, x: np.ndarray) -> np.ndarray:
    cpu = kaio.Device("cpu")
    out = cpu.alloc_zeros(x.size, i32)
    kernel(source).grid(1).block(x.size).launch(cpu.alloc_from(x), out).wait()
    return out.to_host()


@pytest.mark.parametrize("seed", range(8))
def test_loops_compute_the_same_written_out(seed: int) -> None:
    x = np.arange(4, dtype=np.int32) * 5 - 3
    plain, written_out = (Program(seed, iterated).source() for iterated in ("{}", "unrolled({})"))
    wanted, found = (launched(source, x) for source in (plain, written_out))
    np.testing.assert_array_equal(found, wanted, written_out)
