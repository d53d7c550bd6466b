"""Folds, scans and broadcasts of a warp and of a block, against NumPy and against the order that is promised."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import kaio
from kaio.dtypes import DType
from tests.dsl.from_text import kernel
from tests.dsl.rule_types import FLOATS, INTEGERS, NUMBERS

WITH_BITS = (*INTEGERS, kaio.bool_)
NAMED: dict[str, tuple[Sequence[DType], Callable[[Any, Any], Any]]] = {
    "sum": (NUMBERS, lambda a, b: a + b),
    "prod": (NUMBERS, lambda a, b: a * b),
    "min": (NUMBERS, lambda a, b: np.where(a == b, np.where(np.signbit(a.astype(float)), a, b), np.fmin(a, b))),
    "max": (NUMBERS, lambda a, b: np.where(a == b, np.where(np.signbit(a.astype(float)), b, a), np.fmax(a, b))),
    "and": (WITH_BITS, lambda a, b: a & b),
    "or": (WITH_BITS, lambda a, b: a | b),
    "xor": (WITH_BITS, lambda a, b: a ^ b),
}
CASES = [
    pytest.param(name, dtype, id=f"{name}-{dtype.name}") for name, (dtypes, _) in NAMED.items() for dtype in dtypes
]
# Each operation with two types, each type with some operation: what runs on the CPU device in every test run.
SAMPLE = [
    pytest.param(name, dtypes[(2 * at + more) % len(dtypes)], id=f"{name}-{dtypes[(2 * at + more) % len(dtypes)].name}")
    for at, (name, (dtypes, _)) in enumerate(NAMED.items())
    for more in range(2)
]
BLOCKS = [1, 2, 31, 32, 33, 63, 64, 100, 256, 993, 1000, 1023, 1024]
UFUNCS = {"sum": np.add, "prod": np.multiply, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
IDENTITIES: dict[str, Callable[[DType], Any]] = {
    "sum": lambda dtype: 0,
    "prod": lambda dtype: 1,
    "min": lambda dtype: np.inf if dtype.is_float else dtype.range[1],
    "max": lambda dtype: -np.inf if dtype.is_float else dtype.range[0],
    "and": lambda dtype: True if dtype.kind == "b" else ~np.zeros((), dtype.numpy),
    "or": lambda dtype: 0,
    "xor": lambda dtype: 0,
}


# ---------------------------------------------------------------------- the promised order, in NumPy
def neighbours_first(values: np.ndarray, combine: Callable[[Any, Any], Any]) -> np.ndarray:
    """Fold stretches of 1, 2, 4, 8, 16 neighbours with the next stretch, in each warp and then over the warps."""
    with np.errstate(all="ignore"):
        while len(values) > 1:
            warps = [values[at : at + 32] for at in range(0, len(values), 32)]
            values = np.concatenate([_fold_warp(warp, combine) for warp in warps])
    return values[:1]


def _fold_warp(warp: np.ndarray, combine: Callable[[Any, Any], Any]) -> np.ndarray:
    while len(warp) > 1:
        pairs = len(warp) // 2
        folded = combine(warp[0 : 2 * pairs : 2], warp[1 : 2 * pairs : 2]).astype(warp.dtype)
        warp = np.concatenate([folded, warp[2 * pairs :]])
    return warp


def one_after_another(values: np.ndarray, combine: Callable[[Any, Any], Any]) -> np.ndarray:
    """The fold up to each value: what any order gives where the order does not matter."""
    folds = [values[:1]]
    with np.errstate(all="ignore"):
        for at in range(1, len(values)):
            folds.append(combine(folds[-1], values[at : at + 1]).astype(values.dtype))
    return np.concatenate(folds)


def data(name: str, dtype: DType, count: int, seed: int = 0) -> np.ndarray:
    """Values of the type; floats with NaN, infinities and both zeros where these have a meaning."""
    rng = np.random.default_rng([seed, count])
    if dtype.kind == "b":
        return rng.random(count) < (0.99 if name == "and" else 0.01 if name == "or" else 0.5)
    if dtype.is_int:
        return rng.integers(*dtype.range, count, dtype.numpy, endpoint=True)
    if name in ("min", "max"):
        special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.5, -2.5])
        return np.where(rng.random(count) < 0.5, rng.choice(special, count), rng.normal(0, 9, count)).astype(
            dtype.numpy
        )
    return (1 + rng.normal(0, 0.1, count) / (1 if name == "sum" else 9)).astype(dtype.numpy)


def exact(name: str, dtype: DType, count: int) -> np.ndarray:
    """Values whose folds are exact in any order."""
    values = data(name, dtype, count)
    if dtype.kind == "f" and name in ("sum", "prod"):
        rng = np.random.default_rng(count)
        # a bf16 counts to 256
        values = (rng.random(count) < 0.2 if name == "sum" else rng.choice([1.0, -1.0], count)).astype(dtype.numpy)
    return values


def assert_same(got: np.ndarray, wanted: np.ndarray) -> None:
    """Bit for bit; one NaN is as good as another."""
    assert got.dtype == wanted.dtype
    is_nan = np.isnan(wanted.astype(float))
    np.testing.assert_array_equal(np.isnan(got.astype(float)), is_nan)
    unsigned = f"u{got.dtype.itemsize}"
    np.testing.assert_array_equal(got[~is_nan].view(unsigned), wanted[~is_nan].view(unsigned))


# ---------------------------------------------------------------------- every block
@functools.cache
def everything(name: str, dtype: DType) -> kaio.Kernel:
    """Each operation of that name, one right after the other; a launch fills row `row` of each result."""
    results = ", ".join(f"{result}: Out[{dtype!r}, D2]" for result in "abcdefg")
    return kernel(f"""
        @kernel
        def k(x: In[{dtype!r}], row: i32, {results}):
            i = thread_idx.x + block_dim.x * (thread_idx.y + block_dim.y * thread_idx.z)
            v = x[i]
            a[row, i] = block_reduce_{name}(v)
            b[row, i] = block_reduce_{name}(x[block_dim.x * block_dim.y * block_dim.z - 1 - i])
            c[row, i] = block_scan_{name}(v)
            d[row, i] = block_scan_{name}(v, exclusive=True)
            e[row, i] = warp_reduce_{name}(v)
            f[row, i] = warp_scan_{name}(v)
            g[row, i] = warp_scan_{name}(v, True)
    """)


def sweep(device: kaio.Device, name: str, dtype: DType, blocks: list[Any]) -> None:
    """Launch with every block; compare with the folds of what came before, which are exact in any order."""
    x = exact(name, dtype, 1024)
    given = device.alloc_from(x)
    results = [device.alloc_zeros((len(blocks), 1024), dtype) for _ in range(7)]
    launches = [
        everything(name, dtype).grid(1).block(block).launch(given, row, *results) for row, block in enumerate(blocks)
    ]
    kaio.gather(*launches).wait()
    first = np.array([IDENTITIES[name](dtype)]).astype(dtype.numpy)
    folds = one_after_another(x, NAMED[name][1])
    before = np.concatenate([first, folds])
    of_warps = [one_after_another(x[at : at + 32], NAMED[name][1]) for at in range(0, 1024, 32)]
    of_lanes, before_lanes = np.concatenate(of_warps), np.concatenate([[*first, *warp[:-1]] for warp in of_warps])
    wanted = np.zeros((7, len(blocks), 1024), dtype.numpy)
    for row, block in enumerate(blocks):
        count = int(np.prod(block))
        last = np.minimum(np.arange(count) | 31, count - 1)  # of each thread's warp
        parts = folds[count - 1], folds[count - 1], folds[:count], before[:count], of_lanes[last]
        for result, part in enumerate((*parts, of_lanes[:count], before_lanes[:count])):
            wanted[result, row, :count] = part
    for result, each in zip(results, wanted, strict=True):
        assert_same(result.to_host(), each)


@pytest.mark.parametrize(("name", "dtype"), SAMPLE)
def test_folds_and_scans_are_those_of_numpy(name, dtype):
    sweep(kaio.Device("cpu"), name, dtype, BLOCKS)


@pytest.mark.gpu
@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_folds_and_scans_of_every_block_are_those_of_numpy(name, dtype):
    sweep(kaio.Device("cuda:0"), name, dtype, list(range(1, 1025)))


def test_threads_of_several_dimensions_are_numbered_x_first(device):
    sweep(
        device,
        "sum",
        kaio.i32,
        [(3, 5), (5, 3), (33, 1), (1, 33), (7, 3, 5), (1, 1, 64), (8, 8, 16), (31, 33), (1, 1, 1)],
    )


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.name)
@pytest.mark.parametrize("name", ["sum", "prod"])
def test_floats_are_folded_in_the_promised_order(device, name, dtype):
    x = data(name, dtype, 1024)
    given, results = device.alloc_from(x), [device.alloc_zeros((len(BLOCKS), 1024), dtype) for _ in range(7)]
    for row, threads in enumerate(BLOCKS):
        everything(name, dtype).grid(1).block(threads).launch(given, row, *results).wait()
    a, b = (result.to_host() for result in results[:2])
    for row, threads in enumerate(BLOCKS):
        assert_same(a[row, :threads], neighbours_first(x[:threads], NAMED[name][1]).repeat(threads))
        assert_same(b[row, :threads], neighbours_first(x[:threads][::-1], NAMED[name][1]).repeat(threads))


@pytest.mark.parametrize("dtype", [kaio.c64, kaio.c128], ids=lambda d: d.name)
def test_complex_numbers_are_added_and_multiplied(device, dtype):
    made = kernel(f"""
        @kernel
        def k(x: In[{dtype!r}], a: Out[{dtype!r}], b: Out[{dtype!r}]):
            i = thread_idx.x
            a[i] = block_reduce_sum(x[i])
            b[i] = block_scan_prod(x[i], exclusive=True)
    """)
    x = np.random.default_rng(0).choice([1, -1, 1j, -1j], 300).astype(dtype.numpy)
    a, b = device.alloc_zeros(300, dtype), device.alloc_zeros(300, dtype)
    made.over(300).block(300).launch(device.alloc_from(x), a, b).wait()
    assert (a.to_host() == x.sum()).all()
    np.testing.assert_array_equal(b.to_host(), np.cumprod(np.concatenate([[1], x[:-1]])))


def test_vectors_are_folded_lane_by_lane(device):
    made = kernel("""
        @kernel
        def k(x: In[f32x4], a: Out[f32x4], b: Out[f32x4]):
            i = thread_idx.x
            a[i] = block_reduce_sum(x[i])
            b[i] = block_scan_max(x[i], exclusive=True)
    """)
    x = np.random.default_rng(0).integers(-99, 99, (300, 4)).astype(np.float32)
    given = device.alloc_from(x.view(kaio.f32x4.numpy).reshape(300))
    a, b = device.alloc_zeros(300, kaio.f32x4), device.alloc_zeros(300, kaio.f32x4)
    made.over(300).block(300).launch(given, a, b).wait()
    lanes = [result.to_host().view(np.float32).reshape(300, 4) for result in (a, b)]
    np.testing.assert_array_equal(lanes[0], np.broadcast_to(x.sum(0), (300, 4)))
    before = np.concatenate([np.full((1, 4), -np.inf), np.maximum.accumulate(x)[:-1]])
    np.testing.assert_array_equal(lanes[1], before)


# ---------------------------------------------------------------------- where the smallest is
@functools.cache
def places(dtype: DType) -> kaio.Kernel:
    return kernel(f"""
        @kernel
        def k(x: In[{dtype!r}], at: In[u16], row: i32, low: Out[{dtype!r}, D2], where: Out[i32, D2],
              high: Out[{dtype!r}, D2], label: Out[u16, D2], lane: Out[i32, D2]):
            i = thread_idx.x
            low[row, i], where[row, i] = block_reduce_argmin(x[i])
            high[row, i], label[row, i] = block_reduce_argmax(x[i], at[i])
            lane[row, i] = warp_reduce_argmax(x[i])[1]
    """)


def first_place(values: np.ndarray, labels: np.ndarray, largest: bool) -> int:
    """The place of the extreme with the lowest label; NaN only where all are, and -0.0 below 0.0."""
    order = np.lexsort((labels, ~np.signbit(values.astype(float)), values.astype(np.longdouble)))
    if largest:
        order = np.lexsort((labels, np.signbit(values.astype(float)), -values.astype(np.longdouble)))
    return int(order[0])  # NaN is sorted to the end


def check_places(device: kaio.Device, dtype: DType, blocks: list[int]) -> None:
    x = data("min", dtype, 1024)
    x[::7] = x[3]
    at = np.random.default_rng(0).permutation(1024).astype(np.uint16)
    dtypes = dtype, kaio.i32, dtype, kaio.u16, kaio.i32
    results = [device.alloc_zeros((len(blocks), 1024), kind) for kind in dtypes]
    given = device.alloc_from(x), device.alloc_from(at)
    for row, threads in enumerate(blocks):
        places(dtype).grid(1).block(threads).launch(*given, row, *results)
    low, where, high, label, lane = (result.to_host() for result in results)
    numbers = np.arange(1024)
    for row, threads in enumerate(blocks):
        mine = x[:threads]
        lowest, highest = first_place(mine, numbers[:threads], False), first_place(mine, at[:threads], True)
        assert_same(low[row, :threads], mine[lowest].repeat(threads))
        assert (where[row, :threads] == lowest).all()
        assert_same(high[row, :threads], mine[highest].repeat(threads))
        assert (label[row, :threads] == at[highest]).all()
        warps = [mine[start : start + 32] for start in range(0, threads, 32)]
        lanes = [np.repeat(first_place(warp, numbers[: len(warp)], True), len(warp)) for warp in warps]
        np.testing.assert_array_equal(lane[row, :threads], np.concatenate(lanes))


@pytest.mark.parametrize("dtype", [kaio.u8, kaio.i64, *FLOATS], ids=lambda d: d.name)
def test_the_place_of_an_extreme_is_the_first_one(dtype):
    check_places(kaio.Device("cpu"), dtype, BLOCKS)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", NUMBERS, ids=lambda d: d.name)
def test_the_place_of_an_extreme_of_every_block_is_the_first_one(dtype):
    check_places(kaio.Device("cuda:0"), dtype, list(range(1, 1025)))


def test_where_all_are_nan_the_first_is_the_smallest(device):
    made = kernel("""
        @kernel
        def k(x: In[f32], best: Out[f32], where: Out[i32]):
            i = thread_idx.x
            best[i], where[i] = block_reduce_argmin(x[i])
    """)
    best, where = device.alloc_zeros(40, kaio.f32), device.alloc_zeros(40, kaio.i32)
    made.over(40).block(40).launch(device.alloc_from(np.full(40, np.nan, np.float32)), best, where).wait()
    assert np.isnan(best.to_host()).all()
    assert not where.to_host().any()


# ---------------------------------------------------------------------- functions of the user's
AFFINE = """
    def after(f, g):
        return f[0] * g[0], f[0] * g[1] + f[1]

    widest = lambda a, b: max(a, b)

    @func
    def left(a, b):
        return a

    @kernel
    def k(m: In[i32], c: In[i32], row: i32, a: Out[i32, D2], b: Out[i32, D2], s: Out[i32, D2], t: Out[i32, D2],
          first: Out[i32, D2], most: Out[f32, D2], w: Out[i32, D2]):
        i = thread_idx.x
        a[row, i], b[row, i] = block_reduce((m[i], c[i]), after)
        s[row, i], t[row, i] = block_scan((m[i], c[i]), after, exclusive=True, initial=(3, 5))
        first[row, i] = block_reduce(i + 7, left)
        most[row, i] = block_scan(m[i] * 0.5, widest)
        w[row, i] = warp_scan((m[i], c[i]), after)[1]
"""


def check_functions(device: kaio.Device, blocks: list[int]) -> None:
    """Of m x + c the composition is associative and not commutative."""
    rng = np.random.default_rng(5)
    m, c = rng.integers(-5, 6, (2, 1024)).astype(np.int32)
    made = kernel(AFFINE)
    results = [device.alloc_zeros((len(blocks), 1024), kaio.f32 if at == 5 else kaio.i32) for at in range(7)]
    given = device.alloc_from(m), device.alloc_from(c)
    for row, threads in enumerate(blocks):
        made.grid(1).block(threads).launch(*given, row, *results)
    a, b, s, t, first, most, w = (result.to_host() for result in results)

    def scanned(start: tuple[np.int32, np.int32], count: int) -> np.ndarray:
        folds = [start]
        with np.errstate(over="ignore"):
            for at in range(count):
                slope, offset = folds[-1]
                folds.append((slope * m[at], slope * c[at] + offset))
        return np.array(folds, np.int32)

    folds, folds_after = scanned((np.int32(1), np.int32(0)), 1024), scanned((np.int32(3), np.int32(5)), 1024)
    for row, threads in enumerate(blocks):
        assert (a[row, :threads] == folds[threads, 0]).all()
        assert (b[row, :threads] == folds[threads, 1]).all()
        np.testing.assert_array_equal(s[row, :threads], folds_after[:threads, 0])
        np.testing.assert_array_equal(t[row, :threads], folds_after[:threads, 1])
        assert (first[row, :threads] == 7).all()
        np.testing.assert_array_equal(most[row, :threads], np.maximum.accumulate(m[:threads] * np.float32(0.5)))
        np.testing.assert_array_equal(w[row, : min(threads, 32)], folds[1:33, 1][:threads])


def test_a_function_of_the_user_s_combines_in_the_order_of_the_threads():
    check_functions(kaio.Device("cpu"), BLOCKS)


@pytest.mark.gpu
def test_a_function_of_the_user_s_combines_in_the_order_of_the_threads_of_every_block():
    check_functions(kaio.Device("cuda:0"), list(range(1, 1025)))


def test_functions_of_python_and_of_kaio_combine(device):
    made = kernel("""
        @kernel
        def k(n: In[i32], out: Out[i32, D2]):
            i = thread_idx.x
            out[0, i] = block_reduce(n[i], operator.xor)
            out[1, i] = block_reduce(n[i], max)
            out[2, i] = block_scan(n[i], minimum)
            out[3, i] = block_scan(n[i], operator.add, exclusive=True, initial=-7)
            out[4, i] = block_scan(n[i], operator.mul, exclusive=False, initial=2)
    """, operator=operator)  # fmt: skip
    n = np.random.default_rng(0).integers(-1000, 1000, 77).astype(np.int32)
    out = device.alloc_zeros((5, 77), kaio.i32)
    made.over(77).block(77).launch(device.alloc_from(n), out).wait()
    xor, most, least, sums, products = out.to_host()
    assert (xor == np.bitwise_xor.reduce(n)).all()
    assert (most == n.max()).all()
    np.testing.assert_array_equal(least, np.minimum.accumulate(n))
    np.testing.assert_array_equal(sums, np.cumsum(np.concatenate([[-7], n[:-1]])))
    np.testing.assert_array_equal(products, np.cumprod(n, dtype=np.int32) * np.int32(2))


# ---------------------------------------------------------------------- again and again
@functools.cache
def repeats(dtype: DType) -> kaio.Kernel:
    """Count the rounds in which a result is not what it always is: each round sees the values in other threads."""
    return kernel(f"""
        @kernel
        def k(x: In[{dtype!r}], rounds: i32, total: {dtype!r}, top: {dtype!r}, wrong: InOut[i32]):
            i = thread_idx.x
            bad = 0
            for r in range(rounds):
                v = x[(i + r) % block_dim.x]
                if block_reduce_sum(v) != total:
                    bad += 1
                if block_reduce_max(v) != top:
                    bad += 1
                if block_scan_sum(v, exclusive=True) + v != block_scan_sum(v):
                    bad += 1
                if block_broadcast(v, r % block_dim.x) != x[(r + r % block_dim.x) % block_dim.x]:
                    bad += 1
            wrong[i] = bad
    """)


def check_repeats(device: kaio.Device, dtype: DType, threads: int, rounds: int) -> None:
    x = np.random.default_rng(threads).integers(0, 2, threads).astype(dtype.numpy)
    wrong = device.alloc_from(np.full(threads, -1, np.int32))
    given = device.alloc_from(x), rounds, float(x.sum()) if dtype.is_float else int(x.sum()), x.max().item()
    repeats(dtype).over(threads).block(threads).launch(*given, wrong).wait()
    assert not wrong.to_host().any()


REPEATED = [dtype for dtype in NUMBERS if dtype.name in ("f32", "i32", "f16")]
REPEATED_BLOCKS = [1, 31, 32, 33, 63, 1000, 1024]


@pytest.mark.parametrize("threads", REPEATED_BLOCKS)
@pytest.mark.parametrize("dtype", REPEATED, ids=lambda d: d.name)
def test_results_stay_right_when_repeated(dtype, threads):
    check_repeats(kaio.Device("cpu"), dtype, threads, 50)


@pytest.mark.gpu
@pytest.mark.parametrize("threads", REPEATED_BLOCKS)
@pytest.mark.parametrize("dtype", REPEATED, ids=lambda d: d.name)
def test_results_stay_right_when_repeated_ten_thousand_times(dtype, threads):
    check_repeats(kaio.Device("cuda:0"), dtype, threads, 10_000)


def test_a_value_of_one_lane_or_thread_is_given_to_all(device):
    made = kernel("""
        @kernel
        def k(x: In[f64], who: i32, a: Out[f64], b: Out[f64], c: Out[i32]):
            i = thread_idx.x
            a[i] = warp_broadcast(x[i], 3)
            b[i], c[i] = block_broadcast((x[i], i), who)
    """)
    x = np.random.default_rng(0).random(100)
    for who in (0, 31, 64, 99):
        a, b, c = (
            device.alloc_zeros(100, kaio.f64),
            device.alloc_zeros(100, kaio.f64),
            device.alloc_zeros(100, kaio.i32),
        )
        made.over(100).block(100).launch(device.alloc_from(x), who, a, b, c).wait()
        np.testing.assert_array_equal(a.to_host(), x[[t // 32 * 32 + 3 for t in range(100)]])
        assert (b.to_host() == x[who]).all()
        assert (c.to_host() == who).all()


def test_a_scan_is_exclusive_or_not_as_a_value_at_run_time_says(device):
    made = kernel("""
        @kernel
        def k(out: Out[i32], exclusive: bool_):
            out[thread_idx.x] = block_scan_sum(1, exclusive)
    """)
    for exclusive in (False, True):
        out = device.alloc_zeros(70, kaio.i32)
        made.over(70).block(70).launch(out, exclusive).wait()
        np.testing.assert_array_equal(out.to_host(), np.arange(70) + (not exclusive))


# ---------------------------------------------------------------------- what it costs
def test_all_operations_of_a_kernel_share_one_scratch_of_two_words_for_each_warp():
    one = everything("sum", kaio.f32).compile("sm_90")
    assert one.shared_nbytes == 64 * 4
    assert everything("sum", kaio.f64).compile("sm_90").shared_nbytes == 2 * 64 * 4


def test_a_fold_of_floats_is_one_shuffle_and_one_addition_a_step():
    made = kernel("@kernel\ndef k(x: InOut[f32]):\n    i = grid(1)\n    x[i] = warp_reduce_sum(x[i])\n")
    ptx = made.ptx("sm_90")
    assert ptx.count("shfl.sync.down.b32") == ptx.count("add.rn.f32") == 5
    assert ptx.count("shfl.sync.idx.b32") == 1
    assert "bar.sync" not in ptx


@pytest.mark.parametrize(("dtype", "instruction"), [("i32", "redux.sync.add.s32"), ("u8", "redux.sync.add.u32")])
def test_a_fold_of_integers_is_one_instruction_from_sm_80_on(dtype, instruction):
    made = kernel(f"@kernel\ndef k(x: InOut[{dtype}]):\n    i = grid(1)\n    x[i] = warp_reduce_sum(x[i])\n")
    ptx = made.ptx("sm_80")
    assert instruction in ptx
    assert "shfl" not in ptx
    assert "redux" not in made.ptx("sm_75")


@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_90", "sm_100"])
@pytest.mark.parametrize("dtype", [kaio.u8, kaio.f32, kaio.i64, kaio.f64], ids=lambda d: d.name)
def test_every_operation_assembles(target, dtype):
    assert everything("sum", dtype).compile(target).cubin[:4] == b"\x7fELF"
