"""Random kernels that come to shared memory, to memory of their own and to buffers, and often are wrong there.

About half of them do in each block what they do in the first; in the others some index, guard or loop depends on which
block it is, or on what memory holds.
"""

from __future__ import annotations

import linecache
import random
from typing import Any

import kaio
from kaio import In, InOut, Out, i32

__all__ = ["BLOCKS", "program"]

SIZE = 64
BLOCKS = [(64,), (32, 2), (8, 4, 2), (48,), (16, 4), (32,), (61,)]
_HEAD = f"""\
def f(x: In[i32], y: InOut[i32], out: Out[i32], n: i32, m: i32):
    s, u = kaio.shared_mem({SIZE}, i32), kaio.shared_mem({SIZE}, i32)
    own = kaio.local_mem(4, i32)
    tx, ty, b = kaio.thread_idx.x, kaio.thread_idx.y, kaio.block_idx.x
    many = kaio.block_dim.x * kaio.block_dim.y * kaio.block_dim.z
    t = tx + kaio.block_dim.x * (ty + kaio.block_dim.y * kaio.thread_idx.z)
    g = kaio.grid(1)
    i = b * many + t
    acc = i32(t)
"""
_SAME = [
    "t",
    "t",
    "t",
    "tx",
    f"(t + 1) % {SIZE}",
    f"{SIZE - 1} - t",
    "t // 2",
    "t ^ 1",
    f"(t * m) % {SIZE}",
    "ty",
    "0",
    "t % 32",
]
_OTHER = [
    f"i % {SIZE}",
    f"(t + b) % {SIZE}",
    f"b % {SIZE}",
    f"x[t] % {SIZE}",
    f"x[i % x.size] % {SIZE}",
    f"abs(acc) % {SIZE}",
]
_PLACES = [
    "i",
    "i",
    "i",
    "g",
    "b",
    "b * many + many - 1 - t",
    "t",
    "i // 2",
    "i + 1",
    "b * 2",
    "b * 2 + t % 2",
    "b * 64 + t",
]
_GUARDS = ["t < 32", "t < n", "t % 2 == 0", "m > 1", "t == 0", "i < x.size", "tx > 0"]
_OTHER_GUARDS = ["b != 2", "x[b] > 40", "b > 0 or t < 20", "i % 3 == 0", "x[i % x.size] > 50", "i < x.size - 1"]


class _Writer:
    def __init__(self, rng: random.Random) -> None:
        self.rng, self.lines, self.depth = rng, [_HEAD.rstrip()], 1
        self.differs = rng.random() < 0.4
        self.index = rng.choice(_SAME[:3])  # that most accesses have
        self.place = rng.choice(_PLACES)
        self.counters: list[str] = []
        self.writes = False  # to `out`; a kernel that reads it first is refused

    def say(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)

    def at(self) -> str:
        rng = self.rng
        if rng.random() < 0.6:
            return self.index
        if self.differs and rng.random() < 0.3:
            return rng.choice(_OTHER)
        return rng.choice([*_SAME, *(f"(t + {c}) % {SIZE}" for c in self.counters)])

    def in_buffer(self) -> str:
        rows = [f"b * {n} + {c}" for c in self.counters for n in ("n", "64")]
        return self.place if self.rng.random() < 0.7 else self.rng.choice([*_PLACES, *rows])

    def guard(self) -> str:
        return self.rng.choice(_OTHER_GUARDS if self.differs and self.rng.random() < 0.4 else _GUARDS)

    def statement(self) -> None:
        rng, array = self.rng, self.rng.choice("ssu")
        kind = rng.choice(
            ["write", "write", "read", "read", "both", "update", "own", "buffer", "out", "if", "loop", "warp"]
        )
        if kind == "write":
            self.say(f"{array}[{self.at()}] = {rng.choice(['acc', 't', 'x[i % x.size]', 'i'])}")
        elif kind == "read":
            self.say(f"acc += {array}[{self.at()}]")
        elif kind == "both":
            self.say(f"{array}[{self.at()}] += {rng.choice(['1', f'{array}[{self.at()}]'])}")
        elif kind == "update":
            self.say(f"kaio.atomic_add({rng.choice(['s', 'u', 'y'])}, {self.at()}, 1)")
        elif kind == "own":
            self.say(rng.choice(["own[t % 4] = acc", "own[1] = acc", "acc += own[1]", "acc += own[m % 4]"]))
        elif kind == "buffer":
            self.say(rng.choice(["y[{0}] = acc", "y[{0}] += 1", "acc += y[{0}]"]).format(self.in_buffer()))
        elif kind == "out":
            self.say(rng.choice(["out[{0}] = acc", *["acc += out[{0}]"] * self.writes]).format(self.in_buffer()))
            self.writes = True
        elif kind == "warp":
            self.say(rng.choice(["kaio.syncwarp()", "kaio.bar_sync()", "acc += kaio.shfl_sync_bfly(acc, 1)"]))
        elif self.depth < 3:
            self.block(kind)

    def block(self, kind: str) -> None:
        rng = self.rng
        if kind == "if":
            self.say(f"if {self.guard()}:")
        else:
            counter = f"k{self.depth}"
            ends = "b + 1" if self.differs and rng.random() < 0.3 else rng.choice(["2", "m", "t, n, many", "1, m"])
            self.say(f"for {counter} in range({ends}):")
            self.counters.append(counter)
        self.depth += 1
        self.say("acc += 1")
        for _ in range(rng.randint(1, 2)):
            self.statement()
        if kind == "loop":
            if rng.random() < 0.5:
                self.say("kaio.bar_sync()")
            self.counters.pop()
        self.depth -= 1

    def write(self) -> str:
        rng = self.rng
        if rng.random() < 0.15:
            self.say(f"if {rng.choice(['i >= x.size', 't >= n + 32', 'b == 3'])}:\n        return")
        if rng.random() < 0.7:
            self.say(f"s[{self.index}] = acc")
            self.say(f"u[{self.index}] = t")
            self.say("own[0] = own[1] = own[2] = own[3] = 7")
            self.say("kaio.bar_sync()" if rng.random() < 0.9 else "kaio.syncwarp()")
        for _ in range(rng.randint(1, 5)):
            self.statement()
            if rng.random() < 0.6:
                self.say("kaio.bar_sync()")
        self.say(
            rng.choice(["if i < out.size:\n        out[i] = acc", "if t == 0:\n        out[b] = acc", "y[i] = acc"])
        )
        return "\n".join(self.lines) + "\n"


def program(seed: int) -> kaio.Kernel:
    """A kernel ``f(x, y, out, n, m)``; `seed` says which."""
    text, name = _Writer(random.Random(seed)).write(), f"<alike program {seed}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    space: dict[str, Any] = {"kaio": kaio, "In": In, "InOut": InOut, "Out": Out, "i32": i32}
    exec(compile(text, name, "exec"), space)
    return kaio.kernel(space["f"])
