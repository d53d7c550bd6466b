"""Random arithmetic of every type gives the same bytes by both routes, but for those of a NaN, which mean nothing."""

from __future__ import annotations

import random

import numpy as np
import pytest

import kaio
from tests.dsl.from_text import kernel

INTEGERS = ("i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64")
FLOATS = ("f16", "bf16", "f32", "f64")
OF_FLOATS = ("math.sqrt", "math.floor", "math.ceil", "math.trunc", "math.exp2", "math.sin", "abs")
COUNT = 200
ROUTES = (kaio.Device("cpu", check="off"), kaio.Device("cpu", route="ptx", check="off"))


class Numbers:
    """A random kernel of four inputs and three outputs; the same seed gives the same one."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.inputs = self.random.choices(INTEGERS + FLOATS, k=4)
        self.outputs = self.random.choices(INTEGERS + FLOATS, k=3)

    def source(self) -> str:
        params = [f"p{k}: In[{name}]" for k, name in enumerate(self.inputs)]
        params += [f"o{k}: Out[{name}]" for k, name in enumerate(self.outputs)]
        lines = [f"@kernel\ndef k({', '.join(params)}):", "    i = grid(1)", "    if i < p0.size:"]
        names = [f"p{k}[i]" for k in range(4)]
        for k in range(3):
            lines.append(f"        v{k} = {self.random.choice(INTEGERS + FLOATS)}({self.expression(3, names)})")
            names.append(f"v{k}")
        for k, name in enumerate(self.outputs):
            lines.append(f"        o{k}[i] = {name}({self.expression(2, names)})")
        return "\n".join(lines) + "\n"

    def expression(self, depth: int, names: list[str]) -> str:
        def part() -> str:
            return self.expression(depth - 1, names)

        if depth == 0:
            return self.random.choice(names)
        match self.random.randrange(8):
            case 0 | 1:
                return f"({part()} {self.random.choice('+-*')} {part()})"
            case 2:
                return f"{self.random.choice(INTEGERS + FLOATS)}({part()})"
            case 3:
                return f"({part()} if {part()} < {part()} else {part()})"
            case 4:
                return f"{self.random.choice(('min', 'max'))}({part()}, {part()})"
            case 5:
                return f"({part()} {self.random.choice(('//', '%'))} {self.random.choice(('3', 'i32(5)', *names))})"
            case 6:
                return f"f32({part()}) / f32({part()})"
        return f"{self.random.choice(OF_FLOATS)}(f32({part()}))"

    def values(self) -> list[np.ndarray]:
        rng = np.random.default_rng(self.random.randrange(1 << 32))
        found = []
        for name in self.inputs:
            dtype = getattr(kaio, name).numpy
            if name in FLOATS:
                numbers = rng.normal(size=COUNT) * 10.0 ** rng.integers(-4, 5, COUNT)
                numbers[:6] = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0]
                with np.errstate(over="ignore"):
                    found.append(numbers.astype(np.float32).astype(dtype))
            else:
                found.append(rng.integers(0, 256, COUNT * dtype.itemsize, dtype=np.uint8).view(dtype))
        return found


def typed(seed: int) -> tuple[Numbers, kaio.Kernel]:
    """The first program from a seed on whose types fit each other (an i64 and a u64 have no type for both)."""
    while True:
        numbers = Numbers(seed)
        made = kernel(numbers.source())
        try:
            made.types()
        except kaio.KernelTypeError:
            seed += 1000
        else:
            return numbers, made


@pytest.mark.parametrize("seed", range(10))
def test_random_arithmetic_gives_the_same_bytes(seed: int) -> None:
    numbers, made = typed(seed)
    given, found = numbers.values(), []
    for device in ROUTES:
        outputs = [device.alloc_zeros(COUNT, getattr(kaio, name)) for name in numbers.outputs]
        made.over(COUNT).launch(*map(device.alloc_from, given), *outputs).wait()
        found.append([output.to_host() for output in outputs])
    for own, ptx in zip(*found, strict=True):
        same = (own.view(np.uint8) == ptx.view(np.uint8)).reshape(COUNT, -1).all(axis=1)
        assert np.all(same | ((own != own) & (ptx != ptx))), made
