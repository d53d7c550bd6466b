"""`kernel.types()` shows each variable's type beside its line, also of the functions that are called."""

from __future__ import annotations

from typing import TypeVar

import kaio
from tests.dsl.from_text import kernel


def view(source: str, **options: object) -> str:
    return kernel(source, "<text>").types("cpu", **options)


SOURCE = """
@func
def scaled(v, factor, by=0.5):
    w = v * factor
    return w + by

@kernel
def k(x: In[f32, D2], y: Out[u8], n: i32, RADIUS: Const[int]):
    col, row = kaio.grid(2)
    total, count = 0, 0
    for j in range(n):  # a comment
        total += scaled(x[row, j], 2)
        count += RADIUS
    tile = kaio.shared_mem((4, RADIUS), f32)
    ok = total > 3 if n > 2 else False
    y[col] = u8(total) if ok else 0
"""

SHOWN = """\
k, <text>:7
 7 | @kernel
 8 | def k(x: In[f32, D2], y: Out[u8], n: i32, RADIUS: Const[int]):  # RADIUS: 2
 9 |     col, row = kaio.grid(2)                                     # col: i32, row: i32
10 |     total, count = 0, 0                                         # total: f32, count: i32
11 |     for j in range(n):  # a comment                             # j: i32
12 |         total += scaled(x[row, j], 2)                           # total: f32
13 |         count += RADIUS                                         # count: i32
14 |     tile = kaio.shared_mem((4, RADIUS), f32)                    # tile: shared_mem((4, 2), f32)
15 |     ok = total > 3 if n > 2 else False                          # ok: bool
16 |     y[col] = u8(total) if ok else 0

scaled, <text>:2, called from <text>:12
2 | @func
3 | def scaled(v, factor, by=0.5):  # v: f32, factor: int literal 2, by: float literal 0.5, -> f32
4 |     w = v * factor              # w: f32
5 |     return w + by"""


def test_the_types_stand_beside_the_lines_that_set_them() -> None:
    assert view(SOURCE, RADIUS=2) == SHOWN


def test_a_store_that_converts_says_from_what() -> None:
    assert "# y[]: f64, from i32" in view("""
        @kernel
        def k(x: In[i32], y: Out[f64]):
            y[0] = x[0]
    """)


def test_a_generic_kernel_shows_the_types_that_it_is_compiled_for() -> None:
    made = kernel(
        """
        @kernel
        def k(x: In[T], y: Out[T]):
            v = x[0]
            y[0] = v
        """,
        T=TypeVar("T", kaio.f32, kaio.f64),
    )
    assert "# v: f64" in made.types("cpu", T=kaio.f64)
    assert "# x: In[f32], y: Out[f32]" in made.types("cpu", T=kaio.f32)


def test_the_typed_ir_is_a_stage() -> None:
    made = kernel("@kernel\ndef k(y: Out[i32]):\n    y[0] = 1")
    assert str(made.stages("cpu")["types"]).startswith("k(y)\n0:\n")
