"""Random kernels whose threads meet at barriers: races there are none, everything else may be."""

from __future__ import annotations

import linecache
import random
from typing import Any

import kaio
from kaio import In, InOut, f32, i32

__all__ = ["MOST_THREADS", "program"]

MOST_THREADS = 128
_HEAD = f"""\
def f(x: In[f32], out: InOut[f32], n: i32, m: i32):
    s = kaio.shared_mem(({MOST_THREADS},), f32)
    t = kaio.shared_mem(({MOST_THREADS},), f32)
    own = kaio.local_mem((3,), f32)
    tx, ty = kaio.thread_idx.x, kaio.thread_idx.y
    me = tx + ty * kaio.block_dim.x
    many = kaio.block_dim.x * kaio.block_dim.y
    i = kaio.block_idx.x * many + me
    s[me] = f32(me) * 0.5
    t[me] = f32(me % 7)
    own[0] = 1.0
    own[1] = f32(tx)
    own[2] = f32(n)
    acc = f32(i)
    count = tx
    same = n
    kaio.bar_sync()
"""


class _Writer:
    def __init__(self, rng: random.Random, has_warps: bool) -> None:
        self.has_warps = has_warps
        self.rng, self.lines, self.depth, self.loops = rng, [_HEAD.rstrip()], 1, 0
        self.arrays = ["s", "t"]
        self.counters = ["same"]

    def say(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)

    def uniform(self) -> str:
        return self.rng.choice(
            [*self.counters, "n", "m", "kaio.block_idx.x", "(m + 2)", f"({self.rng.choice(self.counters)} + m)"]
        )

    def varying(self) -> str:
        rng = self.rng
        return rng.choice(["me", "tx", "ty", "count", f"tx + {self.uniform()}", "i", f"me * {rng.randint(1, 3)}"])

    def value(self) -> str:
        rng, read = self.rng, self.arrays[1]
        index = rng.choice([self.varying(), self.uniform(), self.varying()])
        return rng.choice(
            [
                f"{read}[abs({index}) % many]", "acc", f"f32({self.uniform()})", f"f32({self.varying()} % 5)", "own[1]",
                f"own[abs({self.uniform()}) % 3]", f"x[abs({index}) % x.size]", f"{self.arrays[0]}[me]",
            ]
        )  # fmt: skip

    def condition(self, is_uniform: bool) -> str:
        rng = self.rng
        if is_uniform:
            return rng.choice([f"{self.uniform()} > {self.uniform()}", f"{self.uniform()} % 2 == 0", "m == 1"])
        one = rng.choice([f"{self.varying()} % 3 == 1", f"{self.varying()} < {self.uniform()}", "ty == 0", "tx > 3"])
        return rng.choice([one, f"{one} and {self.condition(True)}", f"{self.condition(True)} or {one}"])

    def statement(self) -> None:
        rng = self.rng
        kinds = ["acc", "acc", "own", "store", "count", "same", "if", "uniform if", "loop", "uniform loop"]
        kind = rng.choice([*kinds, "warp", "warp"] if self.has_warps else kinds)
        if kind == "acc":
            self.say(f"acc = {rng.choice(['acc * 0.5 + ', 'acc - ', ''])}{self.value()}")
        elif kind == "own":
            self.say(f"own[{rng.choice(['0', '1', '2', f'abs({self.varying()}) % 3'])}] = {self.value()}")
        elif kind == "warp":
            self.say(self.exchange())
        elif kind == "store":
            self.say(f"{self.arrays[0]}[me] = {self.value()}")
        elif kind == "count":
            self.say(f"count = (count * 3 + {self.varying()}) % 11")
        elif kind == "same":
            self.say(f"same = (same + {self.uniform()}) % 5")
        elif self.depth < 4 and self.loops < 3:
            self.block(kind)

    def exchange(self) -> str:
        """What the lanes of a warp do together."""
        rng = self.rng
        return rng.choice(
            [
                f"acc += kaio.shfl_sync_{rng.choice(['up', 'down', 'bfly'])}({self.value()}, {rng.choice([1, 3, 16])})",
                f"acc -= kaio.shfl_sync_idx({self.value()}, abs({self.varying()}) % 32)",
                f"count = (count + kaio.shfl_sync_bfly({self.varying()}, abs({self.uniform()}) % 32)) % 17",
                f"count = (count + kaio.popc(kaio.ballot({self.condition(False)}))) % 19",
                f"acc += 0.5 if kaio.vote_any({self.condition(False)}) else 0.25",
                "kaio.syncwarp()",
            ]
        )

    def block(self, kind: str) -> None:
        counters = list(self.counters)
        if kind == "if" or kind == "uniform if":
            self.say(f"if {self.condition(kind != 'if')}:")
        elif kind == "loop" and self.rng.random() < 0.5:
            start = self.rng.choice(["tx", "me", f"{self.uniform()} + tx", f"tx + {self.uniform()}"])
            step = self.rng.choice(["1", "3", "n + 1", "16", "-2"])
            self.say(f"for k{self.depth} in range({start}, abs({self.uniform()}) * 17, {step}):")
            self.say(f"    acc = acc * 0.75 + x[abs(k{self.depth}) % x.size]")
        elif kind == "loop":
            self.say(f"for k{self.depth} in range(abs({self.varying()}) % 4):")
        else:
            self.say(f"for k{self.depth} in range(abs({self.uniform()}) % 4):")
            self.counters.append(f"k{self.depth}")
        is_divergent = kind in ("if", "loop")
        self.loops += "loop" in kind
        self.depth += 1
        for _ in range(self.rng.randint(1, 3)):
            if is_divergent:  # `same` must stay so
                self.say(f"acc = acc * 0.25 + {self.value()}")
                self.say(f"count = (count + {self.varying()}) % 13")
            else:
                self.statement()
        if not is_divergent:
            self.say(f"acc += f32({self.uniform()})")
        if kind == "uniform loop" and self.rng.random() < 0.3:
            self.say(f"if {self.condition(True)}:\n{'    ' * (self.depth + 1)}{self.rng.choice(['break', 'continue'])}")
        self.depth -= 1
        self.loops -= "loop" in kind
        self.counters = counters

    def phase(self) -> None:
        """What threads do between two barriers: each writes its own element of one array, and reads the other."""
        for _ in range(self.rng.randint(1, 4)):
            self.statement()
        self.say("kaio.bar_sync()")
        self.arrays.reverse()

    def phases(self) -> None:
        rng = self.rng
        for _ in range(rng.randint(1, 3)):
            kind = rng.choice(["straight", "for", "for", "while", "if"])
            if kind == "straight":
                self.phase()
                continue
            counters = list(self.counters)
            if kind == "for":
                self.say(f"for r{len(self.lines)} in range({rng.choice(['n % 4', '3', '1, n % 5 + 1, 2', 'm'])}):")
                self.counters.append(self.lines[-1].split()[1])
            elif kind == "while":
                self.say("w = n % 9")
                self.say("while w > 0:")
                self.counters.append("w")
            else:
                self.say(f"if {self.condition(True)}:")
            self.depth += 1
            self.phase()
            self.phase()  # so that an even number of barriers was passed, whatever the way
            if kind == "while":
                self.say("w //= 2")
            self.depth -= 1
            self.counters = counters


def program(seed: int, has_warps: bool = False) -> Any:
    """A kernel ``f(x, out, n, m)``; `seed` says which. `has_warps`: whether lanes of a warp exchange values, too."""
    writer = _Writer(random.Random(seed), has_warps)
    writer.phases()
    if writer.rng.random() < 0.3:
        writer.say("if n == 3:\n        return")
    if writer.rng.random() < 0.5:
        writer.say("if i >= out.size:\n        return\n    out[i] = acc + f32(count) + f32(same) + own[2]")
    else:
        writer.say("if i < out.size:\n        out[i] = acc + f32(count) * f32(same) + s[me] + t[me]")
    text, name = "\n".join(writer.lines) + "\n", f"<barrier program {seed} {has_warps}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    space: dict[str, Any] = {"kaio": kaio, "In": In, "InOut": InOut, "i32": i32, "f32": f32}
    exec(compile(text, name, "exec"), space)
    return space["f"]
