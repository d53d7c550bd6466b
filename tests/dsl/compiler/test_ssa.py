"""Names that are assigned once: loops of any length, variables of any history."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import kaio
from kaio import i32
from tests.dsl.test_operator_table import build

ROOT = Path(__file__).parents[3]


def run(body: str, *values: int) -> list[int]:
    """What the statements leave in `o`, in Python and on the CPU device; both must agree."""
    lines = [f"    {line}" for line in body.splitlines()]
    source = "\n".join(["@kaio.kernel", "def k(o: kaio.InOut[kaio.i32]):", *lines, ""])
    expected = list(values)
    exec("\n".join(["def k(o):", *lines, "k(o)"]), {"o": expected})
    device = kaio.Device("cpu")
    buffer = device.alloc_from(np.array(values, np.int32))
    build(source, "ssa").grid(1).block(1).launch(buffer).wait(60)
    assert buffer.to_host().tolist() == expected
    return expected


@pytest.mark.parametrize("lines", [1, 30, 60, 200])
def test_a_loop_over_a_range_ends_however_long_its_body_is(lines: int) -> None:
    run("v = o[0]\nfor j in range(3):\n" + "    v += j * 3\n" * lines + "o[0] = v", 1)


@pytest.mark.parametrize("lines", [1, 60])
def test_long_loops_nest_break_and_continue(lines: int) -> None:
    body = (
        "        v += j * 3\n" * lines
        + "        if v > 900:\n            break\n        if j == 1:\n            continue\n"
    )
    run("v = o[0]\nfor i in range(4):\n    for j in range(3):\n" + body + "        v -= i\n    v += 1\no[0] = v", 1)


@pytest.mark.parametrize(
    "body",
    [
        "for j in range(4):\n    last = j\no[0] = last\no[1] = j",
        "a, b = o[0], o[1]\nfor j in range(5):\n    a, b = b, a + b\no[0], o[1] = a, b",
        "a, b, c = 1, 2, 3\nfor j in range(4):\n    a, b, c = c, a, b\no[0] = a * 100 + b * 10 + c",
        "x = o[0]\nwhile x > 0:\n    x -= 1\n    if x == 3:\n        y = x\n        o[1] = y\no[0] = x",
        "x = o[0]\nif x > 0:\n    x = x + 1\n    if x > 5:\n        x = x * 2\nelse:\n    x = -x\no[0] = x",
        "total = o[0]\ntotal += 1\nfor j in range(2):\n    total += j\ntotal = total * 2\no[0] = total",
        "for i in range(3):\n    for i in range(2):\n        o[i] += 1\n    o[2] += i",
        "n = 0\nwhile True:\n    n += 1\n    if n == 4:\n        continue\n    if n > 6:\n        break\n    o[0] += n",
    ],
)
def test_variables_mean_what_they_mean_in_python(body: str) -> None:
    run(body, 7, 1, 0)


def test_a_kernel_of_a_thousand_branches_compiles() -> None:
    run("x = o[0]\n" + "".join(f"if x > {i}:\n    x -= {i % 7}\n" for i in range(1000)) + "o[0] = x", 500)


def test_names_that_python_s_reader_numbers_itself_are_not_given_again() -> None:
    source = (
        "@kaio.kernel\ndef k(o: kaio.InOut[kaio.i32]):\n    t = kaio.i32(0)\n"
        "    for j in range(3):\n        t += o[j]\n"
        "    t = max(t, 5)\n    for j in range(3):\n        o[j] = t + j\n"
    )
    device = kaio.Device("cpu")
    buffer = device.alloc_zeros(3, i32)
    build(source, "numbered").grid(1).block(1).launch(buffer).wait(60)
    assert buffer.to_host().tolist() == [5, 6, 7]


DUMP = """
from tests.dsl.from_text import kernel
stages = kernel('''
    @kernel
    def k(o: InOut[i32], c: i32):
        a, b, n = o[0], o[1], 0
        for i in range(c):
            x = a if i > 3 else b
            if x > 3 and i < 9:
                a, b = b, a + (1 if c else 2)
            while n < i:
                n += 1
                if n == 4:
                    break
            o[-1 if c else 0] = x
        o[0] = a + b + n
''', "<dump>").stages("sm_90")
print(stages["types"], stages["ptx"])
"""


def test_every_process_compiles_to_the_same_text() -> None:
    def dump(seed: str) -> str:
        env = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, "-c", DUMP], env=env, check=True, capture_output=True, text=True, cwd=ROOT
        )
        return done.stdout

    assert dump("0") == dump("2") == dump("5")
