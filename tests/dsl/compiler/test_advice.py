"""The way out that a message gives is one that works, in the words of the source."""

from __future__ import annotations

import functools

import numba
import pytest

from tests.dsl.compiler.test_infer import function, type_of
from tests.dsl.from_text import mistakes


@pytest.mark.parametrize(
    ("body", "what", "help"),
    [
        (
            "x[0] = 1e300",
            "`1e+300` does not fit f32",
            "the largest f32 is 3.4028235e+38 (infinity is `math.inf`); for this value make `x` a buffer of f64",
        ),
        (
            "t = local_mem(4, i32)\nt[0] = 2**40",
            "`1099511627776` does not fit i32",
            "i32 holds -2147483648 to 2147483647; for this value make `t` an array of i64",
        ),
        (
            "t = local_mem(4, i64)\nt[0] = 2**80",
            f"`{2**80}` does not fit i64",
            "i64 holds -9223372036854775808 to 9223372036854775807",
        ),
        (
            "v = m[n, f * 2]",
            "index of axis 1 of `m` is f32; an index is an integer",
            "cast it: `kaio.i32(f * 2)`",
        ),
        (
            "j = n * 0.5\nx[j] = 1",
            "index of axis 0 of `x` is f32; an index is an integer",
            "`j` is a float since line 5, `j = n * 0.5`; cast it: `kaio.i32(j)`",
        ),
        (
            "j = n / 2\nx[j] = 1",
            "index of axis 0 of `x` is f32; an index is an integer",
            "`j` is a float since line 5, `j = n / 2`; write `n // 2`",
        ),
        (
            "x[thread_idx] = 1",
            "index of axis 0 of `x` is kaio.thread_idx; an index is an integer",
            "read one of its axes: `kaio.thread_idx.x`",
        ),
        (
            "p = grid(2)\nx[p] = 1",
            "`x` has 1 dimension, and 2 indices were given",
            "index it with one number, for example `x[i]`",
        ),
        (
            "p = n\nv = m[p]",
            "`m` has 2 dimensions, and 1 index was given",
            "index every axis, for example `m[i, j]`",
        ),
        (
            "p = grid(2)\nif p < n:\n    x[0] = 1",
            "`(i32, i32) < i32` is not defined",
            "it is a position of 2 numbers: write `col, row = kaio.grid(2)`",
        ),
        (
            "t = (1, n)\nv = 1 + t",
            "`int literal 1 + (int literal 1, i32)` is not defined",
            "it is a tuple of 2; take one of its items, for example `t[0]`",
        ),
        (
            "v = thread_idx + 1",
            "`kaio.thread_idx + int literal 1` is not defined",
            "read one of its axes: `thread_idx.x`",
        ),
        (
            "v = kaio.block_idx()",
            "`kaio.block_idx` cannot be called in a kernel",
            "read one of its axes: `kaio.block_idx.x`",
        ),
        (
            "v = np.arctan2(f, f)",
            "`np.arctan2` cannot be called in a kernel",
            "NumPy does not run on a device; write `math.atan2`",
        ),
        (
            "v = np.maximum(f, f)",
            "`np.maximum` cannot be called in a kernel",
            "NumPy does not run on a device; write `kaio.maximum`",
        ),
        (
            "v = np.sort(f)",
            "`np.sort` cannot be called in a kernel",
            "NumPy does not run on a device; use Python's `math` or kaio's own functions",
        ),
        (
            "v = math.factorial(3)",
            "`math.factorial` cannot be called in a kernel",
            "it outgrows 64 bits at 21; write `math.gamma(n + 1)`, or multiply in a loop",
        ),
        ("v = grid()", "`grid(ndim)`: missing a required argument: 'ndim'", "for example `col, row = kaio.grid(2)`"),
        (
            "v = shared_mem(16)",
            "`shared_mem(shape, dtype)`: missing a required argument: 'dtype'",
            "for example `tile = kaio.shared_mem(64, kaio.f32)`",
        ),
        (
            "for i in range(0, 1, 0.1):\n    pass",
            "`range(0, 1, 0.1)` takes integers",
            "count in whole numbers and scale in the loop: `x = start + k * step`",
        ),
    ],
)
def test_a_mistake_has_its_way_out(body: str, what: str, help: str) -> None:
    (mistake,) = mistakes(function(body))
    assert (mistake.what, mistake.help) == (what, help)


def doubled(v):  # type: ignore[no-untyped-def]
    return v * 2


@pytest.mark.parametrize(
    ("body", "outside", "what", "help"),
    [
        (
            "v = TABLE[n]",
            [1, 2],
            "`TABLE` is a list, and cannot be indexed",
            "pass the numbers as a buffer, for example `table: In[f32]`",
        ),
        (
            "TABLE[0] = n",
            {0: 1},
            "`TABLE` is a dict, and cannot be indexed",
            "pass the numbers as a buffer, for example `table: In[f32]`",
        ),
        ("v = TABLE[n]", None, "`TABLE` is a NoneType, and cannot be indexed", None),
        ("v = TABLE + 1", [0] * 1000, f"`{str([0] * 1000)[:57]}... + int literal 1` is not defined", None),
        (
            "v = TABLE(f)",
            functools.cache(doubled),
            "`TABLE` cannot be called in a kernel",
            "it is wrapped by `functools.cache`; call the function inside: `TABLE.__wrapped__(...)`",
        ),
        (
            "v = TABLE(f)",
            numba.njit(doubled),
            "`TABLE` cannot be called in a kernel",
            "it is wrapped by `numba`; call the function inside: `TABLE.__wrapped__(...)`",
        ),
    ],
    ids=["list", "dict", "None", "long list", "cache", "njit"],
)
def test_a_python_object_of_outside_is_told_what_it_is(body: str, outside: object, what: str, help: str | None) -> None:
    (mistake,) = mistakes(function(body), TABLE=outside)
    assert (mistake.what, mistake.help) == (what, help)


@pytest.mark.parametrize("wrap", [functools.cache, numba.njit])
def test_the_function_inside_a_wrapped_one_can_be_called(wrap) -> None:  # type: ignore[no-untyped-def]
    assert type_of("TABLE.__wrapped__(f)", TABLE=wrap(doubled)) == "f32"
