"""Statements beyond `if` and `for … in range(…)`, run on every device and compared with Python itself."""

from __future__ import annotations

import enum
import itertools
import textwrap

import numpy as np
import pytest

import kaio
from kaio.dtypes import dtype_of
from tests.dsl.from_text import kernel, message, namespace, run

COUNT = 12
X = np.arange(COUNT, dtype=np.int32) - 3

BODIES = {
    "walrus": "if (v := x) > 2 and (w := v * 2) > 9:\n    y = v + w",
    "walrus_read_again": "y = (v := x) * v + (v := 3) * v",
    "walrus_in_while": "n = x\nwhile (half := n // 2) > 1:\n    n = half\ny = n * 100 + half",
    "for_else": "for k in range(4):\n    if k == x:\n        break\nelse:\n    y = 7",
    "while_else": "k = 0\nwhile k < x:\n    k += 3\n    if k == 6:\n        break\nelse:\n    y = 10 + k",
    "body_that_always_leaves": "for k in range(x, 2):\n    y = k + 50\n    break",
    "match": "match x + 1:\n    case 1:\n        y = 1\n    case 2 | 3:\n        y = 23\n"
    "    case m if m > 5:\n        y = m\n    case _:\n        y = -1",
    "match_in_a_loop": "for k in range(4):\n    match k - x:\n        case 0:\n            break\n        case 1:\n"
    "            continue\n    y += k",
    "not_not": "y = i32(not not x) + (5 if x and not not y == 0 else 0)",
    "in": "if x in (1, -2, 8):\n    y = 1\nelif x not in (2, 3):\n    y = 2",
    "in_a_tuple_of_computed_values": "y = 5 if x in (x * 2, x - 4 + 6 // 2, 3) else 6",
    "in_of_other_types": "y = 1 if x in (3.0, -1, x * 0.5) else 0",
    "for_over_literals": "for k in (3, 5, 8):\n    y = y * 10 + k",
    "for_over_computed_values": "for k in (x, x + 1, 7):\n    if k == 4:\n        continue\n    y += k",
    "for_over_pairs": "for a, (b, c) in ((1, (2, 3)), (4, (x, 6))):\n    y = y * 10 + a * b + c",
    "for_over_a_captured_tuple": "for k in OFFSETS:\n    y += k * x",
    "for_over_one": "for k in (x,):\n    y = k",
    "annotated": "total: i32 = 0\nfactor: int = 3\nok: bool = x > 2\nfor k in range(3):\n    total += k * factor\n"
    "y = total + x if ok else -total",
    "del": "v = x * 2\ny = v\ndel v",
    "operators": "y = (x & 3 | 8 ^ 1) + (x << 2) + (x >> 1) - +x + ~x + x % 5 * 7 // 2\n"
    "if not x <= 3 or x >= 5 != x:\n    y **= 2",
    "constants": "match LIMIT:\n    case None:\n        y = 1\n    case _:\n        y = 2\n"
    "if LIMIT is not None:\n    y += x",
    "assertion": "assert x < 100, 'never'\nwhile True:\n    y += 3\n    if y > x:\n        break\n    pass",
    "chained": "a = b = c = x\nb += 1\nc += b\ny = a * 10000 + b * 100 + c",
    "captured_text": 'if MODE == "fast":\n    y = 1\nelif MODE in ("slow", "exact"):\n    y = 2\nelse:\n    y = 3',
    "joined_tuples": "t = ()\nt += (x, x + 1)\nt = t + (7,)\nu = (t[2], x) * 2 + 2 * (t[1],) + (x,) * 0\n"
    "y = len(t) + 10 * len(u) + t[0] * 100 + t[2] * 3 + u[3] * 5 + u[5]",
    "captured_text_matched": 'match MODE:\n    case "fast":\n        y = 1\n    case "slow" | "exact":\n        y = 2',
}
NAMES = {"OFFSETS": (-1, 2, 40), "MODE": "exact", "LIMIT": None}


def by_python(body: str) -> list[int]:
    """What the body gives in Python for each number."""
    text = "def f(x):\n    y = 0\n" + textwrap.indent(body, "    ") + "\n    return y\n"
    function = namespace(text, i32=int, **NAMES)["f"]
    return [int(function(int(x))) for x in X]


@pytest.mark.parametrize("name", BODIES)
def test_a_statement_means_what_it_does_in_python(name: str, device: kaio.Device) -> None:
    made = kernel(
        "@kernel\ndef k(given: In[i32], out: Out[i32]):\n    i = kaio.grid(1)\n    if i < out.size:\n"
        "        x, y = given[i], 0\n" + textwrap.indent(BODIES[name], "        ") + "\n        out[i] = y\n",
        **NAMES,
    )
    (found,) = run(made, [X], [np.int32], device=device)
    assert found.tolist() == by_python(BODIES[name])


def test_a_tuple_is_built_in_a_loop_that_is_written_out(device: kaio.Device) -> None:
    made = kernel(
        "@kernel\ndef k(x: In[i32], y: Out[i32]):\n    parts = ()\n    for k in unrolled(range(4)):\n"
        "        parts += (x[k],)\n    for k in unrolled(range(4)):\n        y[k] = parts[3 - k]"
    )
    (found,) = run(made, [np.array([3, 1, 4, 1], np.int32)], [np.int32], device=device, check="off")
    assert found.tolist() == [1, 4, 1, 3]


def test_a_tuple_does_not_grow_without_end() -> None:
    text = "@kernel\ndef k(x: In[i32], y: Out[i32]):\n    t = (x[0], 1)\n    y[0] = (t * 600)[0]"
    assert "a tuple of 1200 items; one has at most 1024" in message(text)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint32, np.uint64], ids=lambda dtype: dtype.__name__)
def test_a_range_with_any_bounds_and_step_has_the_turns_of_python(dtype: type[np.integer], device: kaio.Device) -> None:
    """Neither the number nor what is left of the range wraps at the ends of the type."""
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    ends = sorted({low, low + 1, low + 5, 0, 2, 7, high // 2, high - 5, high - 1, high, *([-1, -3] if low else [])})
    cases = [(a, b, s) for a in ends for b in ends for s in [*ends, 3, 100] if s]
    turns = [list(itertools.islice(range(*case), 20)) for case in cases]
    name = dtype_of(np.dtype(dtype))
    made = kernel(
        f"""
        @kernel
        def k(start: In[{name!r}], stop: In[{name!r}], step: In[{name!r}], turns: Out[i32], last: Out[{name!r}]):
            i = grid(1)
            if i < start.size:
                n = 0
                for v in range(start[i], stop[i], step[i]):
                    n += 1
                    last[i] = v
                    if n == 20:
                        break
                turns[i] = n
        """
    )
    counts, last = run(made, [np.array(c, dtype) for c in zip(*cases, strict=True)], [np.int32, dtype], device=device)
    assert counts.tolist() == [len(found) for found in turns]
    assert last.tolist() == [found[-1] if found else 0 for found in turns]


def test_a_loop_over_the_grid_asks_once_which_way_it_goes() -> None:
    """The step is not known to be positive; each turn takes one subtraction and one comparison all the same."""
    made = one("for k in range(grid(1), x.size, grid_dim.x * block_dim.x):\n    y[k] = x[k]")
    loop = made.ptx("sm_90").partition("$L__BB0_2:")[2].partition("bra")[0]
    assert loop.count("setp") == 1
    assert "and.pred" not in loop


def one(body: str, x_type: str = "f32", y_type: str = "f32", **names: object) -> kaio.Kernel:
    text = f"@kernel\ndef k(x: In[{x_type}], y: Out[{y_type}]):\n" + textwrap.indent(body, "    ")
    return kernel(text, **names)


def test_a_loop_over_literals_keeps_them_exact_for_a_wider_type(device: kaio.Device) -> None:
    made = one("total = f64(0)\nfor w in (0.1, 0.2):\n    total += w * x[0]\ny[0] = total", "f64", "f64")
    (found,) = run(made, [np.array([1.0])], [np.float64], device=device)
    assert found[0] == 0.1 + 0.2


def test_an_annotated_variable_takes_a_value_as_an_element_does() -> None:
    assert "`v` is annotated i32 and given f32" in message(
        "@kernel\ndef k(x: In[f32], y: Out[i32]):\n    v: i32 = x[0]\n    y[0] = v"
    )
    assert "`300` does not fit u8" in message("@kernel\ndef k(y: Out[i32]):\n    v: u8 = 300\n    y[0] = v")
    assert "v: f32" in one("v: f32 = 0\ny[0] = v").types("cpu")


def test_a_variable_is_annotated_with_a_constant_or_generic_dtype(device: kaio.Device) -> None:
    made = kernel(
        "@kernel\ndef k(x: In[i32], y: Out[f64], of: Const[DType] = f64):\n    v: of = x[0]\n    y[0] = v / 3",
        DType=kaio.DType,
    )
    (found,) = run(made, [np.array([1], np.int32)], [np.float64], device=device)
    assert found[0] == 1 / 3


def test_a_choice_among_dtypes_is_made_while_compiling(device: kaio.Device) -> None:
    made = kernel(
        "@kernel\ndef k(x: In[i32], y: Out[i32], of: Const[DType]):\n    if of in (f32, f64):\n        y[0] = 1\n"
        "    else:\n        y[0] = of(300)",
        DType=kaio.DType,
    )
    assert run(made, [np.array([1], np.int32)], [np.int32], kaio.i16, device=device)[0][0] == 300
    assert run(made, [np.array([1], np.int32)], [np.int32], kaio.f64, device=device)[0][0] == 1


class Edge(enum.Enum):
    CLAMP = 0
    ZERO = 1
    WRAP = 2


@pytest.mark.parametrize("edge", Edge)
def test_enums_are_matched_looked_up_and_looped_over(edge: Edge, device: kaio.Device) -> None:
    made = kernel(
        """
        @kernel
        def k(x: In[f32], y: Out[f32], edge: Edge):
            match edge:
                case Edge.CLAMP:
                    found = 1
                case Edge.ZERO | Edge.WRAP:
                    found = 2
                case _:
                    found = 3
            for other in (Edge.ZERO, Edge.WRAP):
                if other is edge:
                    found += 10
            y[0] = found + (100 if edge in (Edge.CLAMP, Edge.WRAP) else 0)
        """,
        Edge=Edge,
    )
    (found,) = run(made, [np.ones(1, np.float32)], [np.float32], edge, device=device)
    assert found[0] == {Edge.CLAMP: 101, Edge.ZERO: 12, Edge.WRAP: 112}[edge]


def test_complex_numbers_are_looked_up_looped_over_and_annotated(device: kaio.Device) -> None:
    made = one(
        "z: c64 = x[0]\ntotal = 0j\nfor w in (1j, 2, 3 + 1j):\n    total += w * z\n"
        "y[0] = total.imag + (10 if z in (3 + 0j, 5j) else 20)"
    )
    (found,) = run(made, [np.array([3], np.float32)], [np.float32], device=device)
    assert found[0] == 16
