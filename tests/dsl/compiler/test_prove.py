"""The proof of bounds and guards: what it covers, and that nobody can tell whether it was used."""

from __future__ import annotations

import linecache
import random
from typing import Any

import numpy as np
import pytest

import kaio
from kaio import D2, In, InOut, Out, f32, i32, u8, u32
from tests.dsl.compiler.host import Compiled, compiled, ramp, unproved


def saxpy(x: In[f32], y: InOut[f32], a: f32):
    i = kaio.grid(1)
    if i < y.size:
        y[i] = a * x[i] + y[i]


def early_return(x: In[f32], y: InOut[f32], a: f32):
    i = kaio.grid(1)
    if i >= y.size:
        return
    y[i] = a * x[i] + y[i]


def negated(x: In[f32], y: InOut[f32], a: f32):
    i = kaio.grid(1)
    if not (y.size <= i):
        y[i] = a * x[i] + y[i]


def four_each(x: In[f32], y: InOut[f32], a: f32):
    first = kaio.block_idx.x * (kaio.block_dim.x * 4) + kaio.thread_idx.x
    for k in range(4):
        i = first + k * kaio.block_dim.x
        if i < y.size:
            y[i] = a * x[i] + y[i]


def grid_stride(x: In[f32], y: InOut[f32], a: f32):
    for i in range(kaio.grid(1), y.size, kaio.grid_dim.x * kaio.block_dim.x):
        y[i] = a * x[i] + y[i]


def stencil(x: In[f32], y: InOut[f32], a: f32):
    i = kaio.grid(1)
    if i >= 1 and i < x.size - 1:
        y[i] = a * x[i - 1] + x[i + 1]


def clamped(x: In[f32], y: InOut[f32], a: f32):
    i = kaio.grid(1)
    if i < y.size:
        y[i] = a * x[min(max(i - 3, 0), x.size - 1)]


FORMS = [(saxpy, 3, 1), (early_return, 3, 1), (negated, 3, 1), (four_each, 3, 1), (stencil, 3, 2), (clamped, 2, 1)]


@pytest.mark.parametrize(("function", "checks", "guards"), FORMS, ids=[f.__name__ for f, _, _ in FORMS])
def test_the_usual_forms_of_a_guarded_kernel_are_proved_whole(function: Any, checks: int, guards: int) -> None:
    kernel = compiled(function)
    assert kernel.module.proved == (checks, guards)
    functions = [part for part in kernel.module.text.split("\n}\n") if ".fast" in part.partition("(")[0]]
    assert functions
    assert not any("record_fault" in function.partition("{")[2] for function in functions)


def test_a_grid_stride_loop_is_proved() -> None:
    assert compiled(grid_stride).module.proved[0] == 3


def from_here_on(x: In[f32], y: InOut[f32], a: f32):
    first = kaio.grid(1)
    for i in range(first, min(first + 3, y.size)):
        if i < x.size:
            y[i] += a
    for i in range(first, first - 2, -1):
        if i >= 0 and i < y.size:
            y[i] += x[i]


def test_a_loop_that_starts_at_the_grid_s_index_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    # The comparison at a loop's head involves the grid's index, and is no guard.
    x, one, two = ramp(64), np.zeros(64, np.float32), np.zeros(64, np.float32)
    compiled(from_here_on)(3, 32, x, one, 1.0)
    unproved(from_here_on, monkeypatch)(3, 32, x, two, 1.0)
    np.testing.assert_array_equal(one, two)
    assert one.any()


@pytest.mark.parametrize("function", [saxpy, stencil, grid_stride])
def test_the_wide_index_is_proved_too(function: Any) -> None:
    kernel = compiled(function, index_bits=64)
    assert kernel.module.proved[0] == 3
    x, y = ramp(1000), np.zeros(1000, np.float32)
    kernel(4, 256, x, y, 2.0)
    assert y[1:-1].all()


def image(a: In[f32, D2], out: Out[f32, D2]):
    col, row = kaio.grid(2)
    if row < out.shape[0] and col < out.shape[1]:
        out[row, col] = a[row, col] + a[row, 0]


def naive_matmul(a: In[f32, D2], out: Out[f32, D2]):
    col, row = kaio.grid(2)
    if row < out.shape[0] and col < out.shape[1]:
        total = f32(0)
        for k in range(a.shape[1]):
            total += a[row, k] * a[k, col]
        out[row, col] = total


@pytest.mark.parametrize(("function", "checks"), [(image, 6), (naive_matmul, 6)])
def test_two_dimensions_and_inner_loops_are_proved(function: Any, checks: int) -> None:
    assert compiled(function).module.proved == (checks, 2)


def lookup(table: In[i32], x: In[u8], out: Out[i32]):
    i = kaio.grid(1)
    if i < out.size:
        out[i] = table[x[i]]


def test_a_byte_is_an_index_with_known_bounds_and_a_loaded_int_is_not() -> None:
    assert compiled(lookup).module.proved == (3, 1)
    assert compiled(gather).module.proved == (2, 1)


def gather(x: In[i32], index: In[i32], out: Out[i32]):
    i = kaio.grid(1)
    if i < out.size:
        out[i] = x[index[i]]


def unsigned_range(x: In[i32], out: InOut[i32], first: u32, last: u32):
    for k in range(first, last):
        out[kaio.thread_idx.x] += x[k]


def test_an_unsigned_range_beyond_the_sign_bit_is_not_taken_for_an_empty_one() -> None:
    message = compiled(unsigned_range).fault(1, 1, ramp(4, np.int32), np.zeros(1, np.int32), 2, 2**32 - 1)
    assert message is not None
    assert message.startswith("index 4 is out of range for axis 0 of `x` (size 4)")


def wraps(x: In[i32], out: Out[i32], factor: i32):
    i = kaio.grid(1)
    if i < out.size:
        out[i] = x[i * 4 * factor + 1]


def test_an_index_that_wraps_around_into_the_buffer_is_no_fault() -> None:
    out = np.zeros(40, np.int32)
    kernel = compiled(wraps)
    assert kernel.module.proved == (2, 1)
    kernel(2, 32, ramp(4, np.int32), out, 2**30)
    np.testing.assert_array_equal(out, 1)


def _program(rng: random.Random, number: int) -> Any:
    """A random kernel of one axis: guard, loop and affine indices, right or wrong."""
    scale, step, shift, target = (
        rng.choice([1, 1, 2, -1, 3, 0]),
        rng.choice([0, 1, -1, 5]),
        rng.randint(-3, 3),
        rng.randint(-2, 2),
    )
    guard = rng.choice(
        [
            "i < p",
            "i >= p",
            "p > i",
            f"i + {rng.randint(0, 3)} < out.size",
            f"i >= {rng.randint(0, 2)} and i < p",
            "not i < p",
            "i == p",
        ]
    )
    body = f"x[i * {scale} + j * {step} + {shift}]"
    if rng.random() < 0.3:
        body = f"x[(i * {scale} + {shift}) // 4 + j]"
    if rng.random() < 0.2:
        body = f"x[min(max(i + j * {step}, 0), x.size - {rng.randint(0, 1)})]"
    start = rng.choice(["0", "1", "-1", "p - q", "i - p", "q - i"])
    advance = rng.choice(["", "", ", 2", ", p", ", -1"])
    loop = f"for j in range({start}, q{advance}):\n{{0}}    out[i + {target}] += {body}\n"
    lines = ["def f(x: In[i32], out: InOut[i32], p: i32, q: i32):", f"    i = kaio.grid(1){rng.choice(['', ' - 4'])}"]
    if rng.random() < 0.3:
        lines += [f"    if {guard}:", "        return", "    if i < out.size:", "        " + loop.format(" " * 8)]
    else:
        lines += [f"    if {guard}:", "        " + loop.format(" " * 8)]
    text, name = "\n".join(lines), f"<random kernel {number}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    space: dict[str, Any] = {"kaio": kaio, "In": In, "InOut": InOut, "i32": i32}
    exec(compile(text, name, "exec"), space)
    return space["f"]


def _outcome(kernel: Compiled, grid: int, block: int, x: np.ndarray, size: int, p: int, q: int, workers: int) -> Any:
    out = np.zeros(size, np.int32)
    message = kernel.fault(grid, block, x, out, p, q, workers=workers)
    # With several workers, what other blocks did before they heard of the fault is not fixed.
    return message, None if message and workers > 1 else out.tolist()


@pytest.mark.parametrize("seed", range(30))
def test_random_kernels_give_the_same_memory_and_messages_with_and_without_the_proof(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    function = _program(rng, seed)
    proved, plain = compiled(function), unproved(function, monkeypatch)
    assert plain.module.proved == (0, 0)
    for _ in range(12):
        block, grid = rng.choice([1, 7, 32, 64]), rng.randint(1, 6)
        p, q = rng.randint(-2, block * grid + 3), rng.randint(-1, 4)
        x = ramp(rng.randint(1, 3 * block * grid), np.int32) + 1
        size = rng.randint(1, block * grid + 8)
        # One worker: a block must see the faults of the others in one order, as out[i + d] is written across blocks.
        outcomes = [_outcome(kernel, grid, block, x, size, p, q, 1) for kernel in (proved, plain)]
        assert outcomes[0] == outcomes[1], (function, block, grid, p, q)


def test_random_kernels_report_the_same_fault_for_any_number_of_workers() -> None:
    rng = random.Random(99)
    kernel = compiled(stencil_of(3))
    for _ in range(20):
        size, x = rng.randint(1, 900), ramp(rng.randint(1, 900))
        messages = {kernel.fault(15, 64, x, np.zeros(size, np.float32), workers=workers) for workers in (1, 2, 4)}
        assert len(messages) == 1


def stencil_of(radius: int) -> Any:
    def kernel(x: In[f32], out: Out[f32]):
        i = kaio.grid(1)
        if i < out.size:
            total = f32(0)
            for d in range(-radius, radius + 1):
                total += x[i + d] if i + d >= 0 else 0.0
            out[i] = total

    return kernel
