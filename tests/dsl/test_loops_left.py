"""Loops whose body always leaves, at once or on some way: the turns are Python's, and so are those of what is around.

Nothing goes back to the head of such a `for`, so that it may run straight on from the head of a loop around it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

import kaio
from tests.dsl.from_text import kernel

HEAD = "@kernel\ndef k(out: InOut[i32], n: i32):\n"
ROUTES = {"cpu": kaio.Device("cpu"), "ptx": kaio.Device("cpu", route="ptx")}
SHAPES = {
    "first in a while": """
        while w > 0:
            for j in range(2):
                v = v * 10 + j + 1
                break
            w -= 1
    """,
    "first in a while, by a step": """
        while w > 0:
            for j in range(1, 9, n):
                v = v * 10 + j
                break
            w -= 1
    """,
    "over numbers of a tuple": """
        while w > 0:
            for j in (n, w, 2):
                v = v * 10 + j
                break
            w -= 1
    """,
    "written out, with an else": """
        while w > 0:
            for j in unrolled(range(2)):
                v = v * 10 + j + 1
                break
            else:
                break
            w -= 1
    """,
    "with no turn": """
        while w > 0:
            w -= 1
            for j in range(w - 2):
                v = v * 10 + j + 7
                break
            else:
                v += 1
    """,
    "in one another": """
        while w > 0:
            for i in range(3):
                for j in range(i, 5):
                    v = v * 10 + j + 1
                    break
                break
            w -= 1
    """,
    "around a loop that ends": """
        while w > 0:
            for i in range(3):
                for j in range(2):
                    v = v * 3 + i + j
                    if v == n:
                        break
                break
            w -= 1
    """,
    "in a for": """
        for i in range(w):
            for j in range(i, 5):
                v = v * 10 + j
                break
    """,
    "behind what a constant decides": """
        while w > 0:
            for j in range(3):
                v = v * 10 + j + 1
                if 2 % 2 == 0:
                    break
            w -= 1
    """,
    "behind what a function decides": """
        while w > 0:
            for j in range(3):
                v = v * 10 + j + 1
                if yes():
                    break
            w -= 1
    """,
    "going on around": """
        while True:
            for j in range(2):
                w -= 1
                v = v * 10 + j + 1
                break
            if w > 0:
                continue
            break
    """,
}


def body_of(text: str, first: str = "") -> str:
    """The lines of a shape, with what is to come first in each turn of its outermost loop."""
    lines = [line[4:] for line in text.strip("\n").splitlines() if line.strip()]
    return "\n".join([lines[0], first, *lines[1:]] if first else lines)


@kaio.func
def yes():
    return True


def of_python(body: str, n: int) -> int:
    names = {"n": n, "w": n, "v": 0, "unrolled": list, "yes": lambda: True}
    exec("def k(n, w, v):\n" + body + "\n    return v\nv = k(n, w, v)", names)
    return (int(names["v"]) + 2**31) % 2**32 - 2**31  # as an i32 wraps


def of_kaio(body: str, n: int, route: str, threads: int = 32) -> list[int]:
    text = HEAD + "    w = n\n    v = 0\n" + body + "\n    out[grid(1)] = v\n"
    out = ROUTES[route].alloc_zeros(threads, kaio.i32)
    kernel(text, yes=yes).over(threads).block(threads).launch(out, n).wait()
    return out.to_host().tolist()


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_loop_that_is_left_at_once_has_one_turn(shape: str, route: str) -> None:
    body = body_of(SHAPES[shape])
    assert of_kaio(body, 4, route) == [of_python(body, 4)] * 32


@pytest.mark.parametrize("shape", SHAPES)
def test_so_it_has_where_threads_wait_in_the_loop_around_it(shape: str) -> None:
    waiting = body_of(SHAPES[shape], "        bar_sync(); syncwarp()")
    assert of_kaio(waiting, 4, "cpu", threads=64) == [of_python(body_of(SHAPES[shape]), 4)] * 64


class Nest:
    """A random nest of loops that are left in all ways there are; the same seed gives the same one."""

    def __init__(self, seed: int) -> None:
        self.random, self.loops = random.Random(seed), 0

    def body(self) -> str:
        return "\n".join(self.block("    ", 3, ""))

    def block(self, indent: str, depth: int, loop: str) -> Iterator[str]:
        for _ in range(self.random.randint(1, 2)):
            yield f"{indent}v = v * 3 + {self.random.choice(('w', 'n', '1', loop or '2'))}"
            if depth:
                yield from self.loop(indent, depth)
        if loop:
            yield from self.leave(indent)

    def leave(self, indent: str) -> Iterator[str]:
        how = self.random.choice(("break", "break", "continue", "pass"))
        condition = self.random.choice(("", "", "if v % 2 == 0: ", "if 2 % 2 == 0: ", "if n > w: "))
        yield f"{indent}{condition}{how}"

    def loop(self, indent: str, depth: int) -> Iterator[str]:
        self.loops += 1
        name, inside = f"j{self.loops}", indent + "    "
        if self.random.random() < 0.4:
            yield f"{indent}{name} = {self.random.randint(1, 3)}"
            yield f"{indent}while {name} > 0:"
            if self.random.random() < 0.5:
                yield f"{inside}{name} -= 1"
                yield from self.block(inside, depth - 1, name)
            else:  # whose first statement is a loop
                yield from self.loop(inside, depth - 1) if depth > 1 else ()
                yield f"{inside}{name} -= 1"
                yield from self.block(inside, depth - 1, name)
        else:
            numbers = self.random.choice(("range(2)", "range(n)", "range(1, 8, n)", "(w, n, 3)", "unrolled(range(2))"))
            yield f"{indent}for {name} in {numbers}:"
            yield from self.block(inside, depth - 1, name)
        if self.random.random() < 0.3:
            yield f"{indent}else:"
            yield f"{inside}v += 1"


@pytest.mark.parametrize("seed", range(12))
def test_loops_that_are_left_in_any_way_do_what_they_do_in_python(seed: int) -> None:
    body = Nest(seed).body()
    assert of_kaio(body, 3, "cpu", threads=1) == [of_python(body, 3)]
