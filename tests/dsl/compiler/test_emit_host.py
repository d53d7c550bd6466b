"""What kernels do on the host: results, barriers, faults and the words for them."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import kaio
from kaio import D2, D3, Const, In, InOut, Out, f32, f64, i32, i64, u8
from tests.dsl.compiler.host import asserts, compiled, ramp

SIZE = 64


def saxpy(x: In[f32], y: InOut[f32], a: f32):
    i = kaio.grid(1)
    if i < y.size:
        y[i] = a * x[i] + y[i]


@pytest.mark.parametrize("n", [1, 31, 256, 257, 1000, 4099])
@pytest.mark.parametrize("workers", [1, 2, 4])
def test_a_guarded_kernel_computes_every_element_and_no_other(n: int, workers: int) -> None:
    x, y = ramp(n), np.ones(n + 64, np.float32)
    compiled(saxpy)(-(-n // 256), 256, x, y[:n], 2.0, workers=workers)
    np.testing.assert_array_equal(y[:n], 2 * x + 1)
    np.testing.assert_array_equal(y[n:], 1)


def test_a_product_and_sum_round_once_unless_contraction_is_off() -> None:
    x, a = np.full(4, 1 + 2**-12, np.float32), 1 + 2**-12
    once, twice = np.full(4, -(1 + 2**-11), np.float32), np.full(4, -(1 + 2**-11), np.float32)
    compiled(saxpy)(1, 4, x, once, a)
    compiled(saxpy, contract=False)(1, 4, x, twice, a)
    assert (once[0], twice[0]) == (2**-24, 0.0)


def positions(out: Out[i32, D3]):
    x, y, z = kaio.grid(3)
    if x < out.shape[2] and y < out.shape[1] and z < out.shape[0]:
        out[z, y, x] = (
            (kaio.block_idx.z * 100 + kaio.block_idx.y * 10 + kaio.block_idx.x) * 1000
            + (kaio.thread_idx.z * kaio.block_dim.y + kaio.thread_idx.y) * kaio.block_dim.x
            + kaio.thread_idx.x
        )


@pytest.mark.parametrize(("grid", "block"), [((3, 2, 2), (5, 3, 2)), ((1, 4, 1), (7, 1, 9)), ((2, 1, 5), (1, 11, 1))])
def test_threads_and_blocks_are_numbered_x_first_in_three_dimensions(grid: tuple, block: tuple) -> None:
    shape = tuple(g * b for g, b in zip(reversed(grid), reversed(block), strict=True))
    out = np.zeros(shape, np.int32)
    compiled(positions)(grid, block, out, workers=2)
    z, y, x = np.indices(shape)
    bx, by, bz = x // block[0], y // block[1], z // block[2]
    thread = ((z % block[2]) * block[1] + y % block[1]) * block[0] + x % block[0]
    np.testing.assert_array_equal(out, (bz * 100 + by * 10 + bx) * 1000 + thread)


def test_an_empty_grid_runs_nothing() -> None:
    y = np.ones(4, np.float32)
    compiled(saxpy)(0, 32, ramp(4), y, 2.0)
    np.testing.assert_array_equal(y, 1)


def test_the_wide_index_gives_the_same() -> None:
    x, y = ramp(1000), np.ones(1000, np.float32)
    compiled(saxpy, index_bits=64)(4, 256, x, y, 2.0)
    np.testing.assert_array_equal(y, 2 * x + 1)


def scalars(out: Out[f64], a: u8, b: i64, c: kaio.bool_, d: f64, n: Const[int]):
    if kaio.thread_idx.x == 0:
        out[0] = a
        out[1] = f64(b)
        out[2] = 1.0 if c else 0.0
        out[3] = d
        out[4] = n


def test_scalars_of_every_width_arrive() -> None:
    out = np.zeros(5)
    compiled(scalars, n=7)(1, 1, out, 200, -(2**40), True, 0.1)
    np.testing.assert_array_equal(out, [200, -(2**40), 1, 0.1, 7])


def mathematics(x: In[f64], out: Out[f64]):
    i = kaio.grid(1)
    if i < x.size:
        out[i] = math.sin(x[i]) + math.exp(x[i])


def test_functions_of_mathematics_come_from_libdevice() -> None:
    x, out = np.linspace(-3, 3, 100), np.zeros(100)
    compiled(mathematics)(1, 128, x, out)
    np.testing.assert_allclose(out, np.sin(x) + np.exp(x), rtol=1e-14)


# ------------------------------------------------------------------ barriers


def total(x: In[f32], out: Out[f32]):
    parts = kaio.shared_mem(SIZE, f32)
    t = kaio.thread_idx.x
    parts[t] = x[kaio.grid(1)]
    kaio.bar_sync()
    step = SIZE // 2
    while step > 0:
        if t < step:
            parts[t] += parts[t + step]
        kaio.bar_sync()
        step = step // 2
    if t == 0:
        out[kaio.block_idx.x] = parts[0]


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_a_reduction_through_shared_memory_is_exact(workers: int) -> None:
    x, out = ramp(SIZE * 50), np.zeros(50, np.float32)
    compiled(total)(50, SIZE, x, out, workers=workers)
    np.testing.assert_array_equal(out, x.reshape(50, SIZE).sum(axis=1))


@kaio.func
def neighbour(values, t: i32, n: i32):
    kaio.bar_sync()
    found = values[(t + 1) % n]
    kaio.bar_sync()
    return found


def rotate(x: InOut[i32], rounds: i32):
    values = kaio.shared_mem(1024, i32)
    t = (kaio.thread_idx.z * kaio.block_dim.y + kaio.thread_idx.y) * kaio.block_dim.x + kaio.thread_idx.x
    n = kaio.block_dim.x * kaio.block_dim.y * kaio.block_dim.z
    mine = x[t]
    for _ in range(rounds):
        values[t] = mine
        mine = neighbour(values, t, n)
    x[t] = mine


@pytest.mark.parametrize("block", [1, 33, (7, 5), (3, 4, 5), 1024])
def test_a_barrier_in_a_device_function_in_a_loop_meets_all_threads(block: int | tuple) -> None:
    n = int(np.prod(block))
    x = ramp(n, np.int32)
    compiled(rotate)(1, block, x, 5)
    np.testing.assert_array_equal(x, np.roll(np.arange(n), -5))


def local_across(out: Out[i32], n: i32):
    mine = kaio.local_mem(4, i32)
    t = kaio.thread_idx.x
    for k in range(4):
        mine[k] = t * 10 + k
    for _ in range(n):
        kaio.bar_sync()
    out[t] = mine[n % 4] + mine[3]


def test_local_memory_outlives_a_barrier() -> None:
    out = np.zeros(40, np.int32)
    compiled(local_across)(1, 40, out, 6)
    np.testing.assert_array_equal(out, np.arange(40) * 20 + 5)


def early_return(x: InOut[i32], n: i32):
    t = kaio.thread_idx.x
    if t >= n:
        return
    shared = kaio.shared_mem(64, i32)
    shared[t] = x[t]
    kaio.bar_sync()
    x[t] = shared[n - 1 - t]


@pytest.mark.parametrize("n", [0, 1, 31, 64])
def test_a_thread_that_returned_counts_as_arrived(n: int) -> None:
    x = ramp(64, np.int32)
    compiled(early_return)(1, 64, x, n)
    np.testing.assert_array_equal(x, np.concatenate([np.arange(n)[::-1], np.arange(n, 64)]))


def return_in_a_loop(x: InOut[i32]):
    t = kaio.thread_idx.x
    for k in range(32):
        kaio.bar_sync()
        if k == t:
            return
        x[t] += 1


def test_threads_may_return_one_after_the_other() -> None:
    x = np.zeros(32, np.int32)
    compiled(return_in_a_loop)(1, 32, x)
    np.testing.assert_array_equal(x, np.arange(32))


def two_barriers(n: i32):
    if kaio.thread_idx.x < n:
        kaio.bar_sync()
    else:
        kaio.bar_sync()


def test_threads_at_different_barriers_are_reported_with_both_places() -> None:
    assert compiled(two_barriers).fault(3, (8, 4), 5, workers=2) == (
        "threads of one block wait at different barriers in kernel `two_barriers`\n"
        "  thread (0, 0, 0) of block (0, 0, 0) waits here\n"
        f"{_place(two_barriers, 2, 'kaio.bar_sync()')}\n"
        "\n"
        "thread (5, 0, 0) waits here\n"
        f"{_place(two_barriers, 4, 'kaio.bar_sync()')}\n"
        "  help: every thread of a block has to reach the same `bar_sync()`: take it out of the branch"
    )
    assert compiled(two_barriers).fault(3, 8, 8) is None


def goes_round(n: i32):
    if kaio.thread_idx.x < n:
        kaio.bar_sync()


def test_a_thread_that_goes_round_a_barrier_is_reported() -> None:
    assert compiled(goes_round).fault(2, 32, 7) == (
        "not all threads of a block reach a barrier in kernel `goes_round`\n"
        "  thread (0, 0, 0) of block (0, 0, 0) waits here; thread (7, 0, 0) went round it and finished\n"
        f"{_place(goes_round, 2, 'kaio.bar_sync()')}\n"
        "  help: every thread of a block has to reach the `bar_sync()`: take it out of the branch or loop, "
        "or let threads that have finished count as arrived: `.options(partial_barriers=True)`"
    )
    assert compiled(goes_round).fault(2, 32, 32) is None
    assert compiled(goes_round).fault(2, 32, 0) is None


def leaves_the_loop_early(n: i32):
    for _ in range(n + kaio.thread_idx.x // 16):
        kaio.bar_sync()


def test_a_thread_with_fewer_turns_of_a_loop_with_a_barrier_is_reported() -> None:
    message = compiled(leaves_the_loop_early).fault(1, 32, 3)
    assert message is not None
    assert "thread (16, 0, 0) of block (0, 0, 0) waits here; thread (0, 0, 0) went round it and finished" in message
    assert compiled(leaves_the_loop_early).fault(1, 16, 3) is None


def many_returns(x: InOut[i32], n: i32):
    t = kaio.thread_idx.x
    if t == 0:
        return
    if t == 1:
        return
    kaio.bar_sync()
    if t == 2:
        return
    kaio.bar_sync()
    x[t] = n


def test_returns_before_and_between_barriers_are_told_apart() -> None:
    x = np.zeros(8, np.int32)
    compiled(many_returns)(1, 8, x, 5)
    np.testing.assert_array_equal(x, [0, 0, 0, 5, 5, 5, 5, 5])


# ------------------------------------------------------------------ faults


def copy(x: In[f32], y: Out[f32]):
    i = kaio.grid(1)
    if i < y.size:
        y[i] = x[i]


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_an_index_out_of_range_names_array_index_thread_block_and_line(workers: int) -> None:
    kernel = compiled(copy)
    message = kernel.fault(40, 256, ramp(1000), np.zeros(40 * 256, np.float32), workers=workers)
    assert message == (
        "index 1000 is out of range for axis 0 of `x` (size 1000) in kernel `copy`\n"
        "  thread (232, 0, 0) of block (3, 0, 0)\n"
        f"{_place(copy, 3, 'x[i]')}\n"
        "  help: guard the access, for example with `if i < x.size:`"
    )


def test_the_facts_of_a_fault_are_kept_for_programs() -> None:
    with pytest.raises(kaio.KernelFault) as raised:
        compiled(copy)(1, (4, 4), ramp(2), np.zeros(16, np.float32))
    facts = raised.value.facts
    assert (facts["kernel"], facts["array"], facts["axis"], facts["index"], facts["size"]) == ("copy", "x", 0, 2, 2)
    assert (facts["thread"], facts["block"]) == ((2, 0, 0), (0, 0, 0))


def test_unchecked_code_holds_no_check() -> None:
    assert "record_fault" not in compiled(copy, check=False).module.text


@kaio.func
def pick(table, i: i32):
    return table[i]


def through_a_function(table: In[i32], y: Out[i32], shift: i32):
    i = kaio.thread_idx.x
    y[i] = pick(table, i + shift)


def test_a_fault_in_a_device_function_names_its_line_and_its_caller() -> None:
    message = compiled(through_a_function).fault(1, 8, ramp(16, np.int32), np.zeros(8, np.int32), -2)
    assert message == (
        "index -2 is out of range for axis 0 of `table` (size 16) in kernel `through_a_function`\n"
        "  thread (0, 0, 0) of block (0, 0, 0)\n"
        f"{_place(pick, 1, 'table[i]')}\n"
        f"  called from {_where(through_a_function, 2, 'pick(')}, in through_a_function\n"
        "  help: only a negative literal counts from the end; a computed index must not be negative"
    )


def second_axis(x: InOut[f32, D2]):
    x[0, kaio.thread_idx.x] = 1.0


def test_a_fault_names_the_axis() -> None:
    message = compiled(second_axis).fault(1, 4, np.zeros((2, 3), np.float32))
    assert message is not None
    assert message.startswith("index 3 is out of range for axis 1 of `x` (size 3)")
    assert message.endswith("help: guard the access, for example with `if kaio.thread_idx.x < x.shape[1]:`")


def over_its_tile(x: InOut[f32]):
    tile = kaio.shared_mem(4, f32)
    tile[kaio.thread_idx.x] = 1.0
    x[0] = tile[0]


def test_a_fault_in_shared_memory_names_its_size() -> None:
    message = compiled(over_its_tile).fault(1, 8, ramp(8))
    assert message is not None
    assert message.startswith("index 4 is out of range for axis 0 of `tile` (size 4)")
    assert message.endswith("help: guard the access, for example with `if kaio.thread_idx.x < 4:`")


def test_an_assertion_that_does_not_hold_is_a_fault_with_its_text() -> None:
    x = ramp(8, np.int32)
    assert compiled(asserts).fault(1, 8, x) is None
    x[5] = -1
    message = compiled(asserts).fault(1, 8, x)
    assert message is not None
    assert message.startswith(
        "assertion failed in kernel `asserts`: negative input\n  thread (5, 0, 0) of block (0, 0, 0)\n"
    )
    assert compiled(asserts, check=False).fault(1, 8, x) is None


def divides(x: InOut[i32]):
    t = kaio.thread_idx.x
    x[t] = 10 // x[t]


def test_a_division_by_zero_is_a_fault_where_checked_and_zero_elsewhere() -> None:
    message = compiled(divides).fault(1, 4, ramp(4, np.int32))
    assert message is not None
    assert message.startswith("integer division by zero in kernel `divides`\n  thread (0, 0, 0) of block (0, 0, 0)\n")
    x = ramp(4, np.int32)
    compiled(divides, check=False)(1, 4, x)
    np.testing.assert_array_equal(x, [0, 10, 5, 3])


def faults_after_a_barrier(x: InOut[i32], limit: i32):
    t = kaio.thread_idx.x
    if t == 5:
        x[t + limit] = 1
    kaio.bar_sync()
    x[t + limit] = 2


def test_in_a_kernel_with_barriers_the_first_fault_of_the_first_phase_is_reported() -> None:
    message = compiled(faults_after_a_barrier).fault(2, 8, np.zeros(8, np.int32), 4)
    assert message is not None
    assert "index 9 is out of range" in message
    assert "thread (5, 0, 0) of block (0, 0, 0)" in message


def late_fault(x: InOut[i32], bad: i32):
    i = kaio.grid(1)
    if i >= bad:
        x[i] = x[x.size + i - bad]


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_the_lowest_block_that_faults_is_reported_whoever_runs_it(workers: int) -> None:
    kernel = compiled(late_fault)
    for bad in (0, 999, 5000, 63999):
        message = kernel.fault(1000, 64, np.zeros(64000, np.int32), bad, workers=workers)
        assert message is not None
        assert f"thread ({bad % 64}, 0, 0) of block ({bad // 64}, 0, 0)" in message


def count(x: In[u8], bins: InOut[i32]):
    i = kaio.grid(1)
    if i < x.size:
        kaio.atomic_add(bins, i32(x[i]), 1)


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_atomic_additions_of_all_workers_arrive(workers: int) -> None:
    x = np.random.default_rng(0).integers(0, 256, 50_000).astype(np.uint8)
    bins = np.zeros(256, np.int32)
    compiled(count)(-(-x.size // 256), 256, x, bins, workers=workers)
    np.testing.assert_array_equal(bins, np.bincount(x, minlength=256))


def _where(function, line: int, text: str) -> str:  # type: ignore[no-untyped-def]
    code = getattr(function, "function", function).__code__
    number = code.co_firstlineno + line + (1 if hasattr(function, "function") else 0)
    return f"tests/dsl/compiler/test_emit_host.py:{number}:{_line(number).index(text) + 1}"


def _line(number: int) -> str:
    return Path(__file__).read_text().splitlines()[number - 1]


def _place(function, line: int, text: str) -> str:  # type: ignore[no-untyped-def]
    """The excerpt of a message: the stretch `text` in a line of a function."""
    where = _where(function, line, text)
    shown = _line(int(where.split(":")[1]))
    name = function.__name__
    return f"  {where}, in {name}\n      {shown}\n      {' ' * shown.index(text)}{'^' * len(text)}"
