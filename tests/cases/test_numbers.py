"""Patterns of arithmetic and memory that failed for users of kernel languages, numbered as in the case list."""

from __future__ import annotations

import math

import numpy as np
import pytest

import kaio
from kaio import (
    D2,
    In,
    InOut,
    KernelFault,
    KernelTypeError,
    Out,
    bool_,
    f32,
    f64,
    i8,
    i16,
    i32,
    i64,
    u8,
    u32,
    u64,
)
from tests.dsl.from_text import kernel
from tests.dsl.test_operator_table import build


@kaio.kernel
def square(a: In[i32], wide: Out[i64], narrow: Out[i32]):
    i = kaio.grid(1)
    if i < a.size:
        p = a[i] * a[i]
        wide[i] = p
        narrow[i] = p


def test_b01_integers_keep_their_width_whatever_they_are_stored_in(device):
    a = device.alloc_from(np.array([3, 1000, 50000], np.int32))
    wide, narrow = device.alloc_zeros(3, i64), device.alloc_zeros(3, i32)
    square.over(3).launch(a, wide, narrow).wait()
    assert wide.to_host().tolist() == narrow.to_host().tolist() == [9, 1000000, -1794967296]
    assert ": i32" in next(line for line in square.types().splitlines() if "p = " in line)


@kaio.kernel
def reached(a: In[u64], b: In[i64], flag: Out[bool_], total: Out[u64]):
    flag[0] = a[0] >= b[0] + 2
    z = a[0] + a[0]
    if z >= a[0]:
        z = z - 1
    total[0] = z


@pytest.mark.parametrize("b", [2**53 + 1, 2**60, 2**62])
def test_b02_u64_with_signed_is_exact(device, b):
    flag, total = device.alloc_zeros(1, bool_), device.alloc_zeros(1, u64)
    a = b + 1
    buffers = device.alloc_from(np.array([a], np.uint64)), device.alloc_from(np.array([b], np.int64))
    reached.over(1).launch(*buffers, flag, total).wait()
    assert flag.to_host().tolist() == [False]
    assert total.to_host().tolist() == [2 * a - 1]


@kaio.kernel
def compare(a: In[u64], b: In[i64], less: Out[bool_], equal: Out[bool_]):
    i = kaio.grid(1)
    if i < a.size:
        less[i] = b[i] < a[i]
        equal[i] = b[i] == a[i]


def test_b02_comparisons_across_signedness_are_exact(device):
    a = np.array([0, 2**53 + 1, 2**60, 2**63 - 1, 2**63, 2**64 - 1, 2**64 - 1], np.uint64)
    b = np.array([-1, 2**53, 2**60, 2**63 - 1, -(2**63), -1, 0], np.int64)
    less, equal = device.alloc_zeros(7, bool_), device.alloc_zeros(7, bool_)
    compare.over(7).launch(device.alloc_from(a), device.alloc_from(b), less, equal).wait()
    assert less.to_host().tolist() == [int(y) < int(x) for x, y in zip(a, b, strict=True)]
    assert equal.to_host().tolist() == [int(y) == int(x) for x, y in zip(a, b, strict=True)]


@pytest.mark.parametrize("dtype", [i8, i16, i32, i64], ids=lambda d: d.name)
def test_b03_floor_division_and_modulo_have_python_s_signs(device, dtype):
    source = (
        f"@kaio.kernel\ndef k(a: In[{dtype!r}], b: In[{dtype!r}], q: Out[{dtype!r}], r: Out[{dtype!r}]):\n"
        "    i = kaio.grid(1)\n    if i < a.size:\n        q[i] = a[i] // b[i]\n        r[i] = a[i] % b[i]\n"
    )
    low, high = dtype.range
    a = np.array([-7, 7, -6, 6, -8, 0, low, low, high, -1], dtype.numpy)
    b = np.array([3, -3, 5, -5, 4, -9, -1, 3, -2, low], dtype.numpy)
    q, r = device.alloc_zeros(len(a), dtype), device.alloc_zeros(len(a), dtype)
    build(source, "divmod").over(len(a)).launch(device.alloc_from(a), device.alloc_from(b), q, r).wait()
    pairs = list(zip(a.tolist(), b.tolist(), strict=True))
    assert q.to_host().tolist() == [low if (x, y) == (low, -1) else x // y for x, y in pairs]
    assert r.to_host().tolist() == [0 if (x, y) == (low, -1) else x % y for x, y in pairs]


@kaio.kernel
def float_modulo(a: In[f64], b: In[f64], q: Out[f64], r: Out[f64]):
    i = kaio.grid(1)
    if i < a.size:
        q[i] = a[i] // b[i]
        r[i] = a[i] % b[i]


def test_b03_floats_follow_numpy(device):
    a = np.array([-1.5, 1.5, -0.0, 7.25, -7.25, np.inf, 3.0, 5.0])
    b = np.array([1.0, -1.0, 2.0, -2.0, 2.0, 2.0, np.inf, 0.0])
    q, r = device.alloc_zeros(8, f64), device.alloc_zeros(8, f64)
    float_modulo.over(8).launch(device.alloc_from(a), device.alloc_from(b), q, r).wait()
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(q.to_host(), a // b)
        np.testing.assert_array_equal(r.to_host(), a % b)


@kaio.kernel
def powers(base: In[i64], exponent: In[i64], exact: Out[i64], real: Out[i64]):
    i = kaio.grid(1)
    if i < base.size:
        exact[i] = base[i] ** exponent[i]
        real[i] = i64(math.pow(f64(base[i]), f64(exponent[i])))


def test_b04_integer_powers_are_exact_and_wrap(device):
    base, exponent = np.array([3, 2, -2, 3, 7, 10]), np.array([1, 10, 3, 41, 0, 15])
    exact, real = device.alloc_zeros(6, i64), device.alloc_zeros(6, i64)
    powers.over(6).launch(device.alloc_from(base), device.alloc_from(exponent), exact, real).wait()
    assert exact.to_host().tolist() == [3, 1024, -8, -420491770248316829, 1, 10**15]
    assert real.to_host().tolist() == [3, 1024, -8, 2**63 - 1, 1, 10**15]


@kaio.kernel
def real_powers(base: In[i32], exponent: In[i32], out: Out[i32]):
    i = kaio.grid(1)
    if i < base.size:
        out[i] = int(math.pow(base[i], exponent[i]))


def test_b04_math_pow_of_small_integers_truncates_to_the_integer(device):
    pairs = [(b, e) for b in range(-12, 13) for e in range(12) if abs(b) ** e < 2**24]
    base, exponent = (np.array(column, np.int32) for column in zip(*pairs, strict=True))
    out = device.alloc_zeros(len(pairs), i32)
    real_powers.over(len(pairs)).launch(device.alloc_from(base), device.alloc_from(exponent), out).wait()
    assert out.to_host().tolist() == [b**e for b, e in pairs]


def test_b04_a_negative_exponent_is_never_silent():
    negative = "@kernel\ndef k(x: InOut[i32], n: i32):\n    x[0] = x[0] ** {}\n"
    with pytest.raises(KernelTypeError, match="negative"):
        kernel(negative.format("-2")).ptx()
    device = kaio.Device("cpu")
    with pytest.raises(KernelFault, match="negative exponent of an integer power"):
        kernel(negative.format("n")).grid(1).block(1).launch(device.alloc_from(np.int32([2])), -2).wait()


@kaio.kernel
def frame_difference(a: In[u8], b: In[u8], same: Out[u8], wide: Out[i32], real: Out[f32], negative: Out[bool_]):
    i = kaio.grid(1)
    if i < a.size:
        d = a[i] - b[i]
        same[i] = d
        wide[i] = d
        real[i] = d
        negative[i] = i32(a[i]) - i32(b[i]) < 0


def test_b05_small_unsigned_differences_keep_their_width_everywhere(device):
    a, b = device.alloc_from(np.array([100], np.uint8)), device.alloc_from(np.array([200], np.uint8))
    outputs = [device.alloc_zeros(1, dtype) for dtype in (u8, i32, f32, bool_)]
    frame_difference.over(1).launch(a, b, *outputs).wait()
    assert [out.to_host()[0] for out in outputs] == [156, 156, 156.0, True]


@kaio.kernel
def unsigned_to_float(a: In[u8], b: In[u32], c: In[f64], x: Out[f64], y: Out[f64], z: Out[u32]):
    x[0] = f64(a[0])
    y[0] = f64(b[0])
    z[0] = u32(c[0])


def test_b05_unsigned_to_float_and_back(device):
    inputs = [device.alloc_from(np.array([v], t)) for v, t in ((200, "u1"), (3_000_000_000, "u4"), (3e9, "f8"))]
    outputs = [device.alloc_zeros(1, dtype) for dtype in (f64, f64, u32)]
    unsigned_to_float.over(1).launch(*inputs, *outputs).wait()
    assert [out.to_host()[0] for out in outputs] == [200.0, 3e9, 3_000_000_000]


@kaio.kernel
def last_column(m: In[f64, D2], out: Out[f64]):
    i = kaio.grid(1)
    if i < m.shape[0]:
        out[i] = m[i, -1]


@kaio.kernel
def column_from_the_end(m: In[f64, D2], k: i32, out: Out[f64]):
    i = kaio.grid(1)
    if i < m.shape[0]:
        out[i] = m[i, -k]


def test_b07_a_negative_literal_counts_from_the_end(device):
    out = device.alloc_zeros(4, f64)
    last_column.over(4).launch(device.alloc_from(np.arange(12.0).reshape(4, 3)), out).wait()
    assert out.to_host().tolist() == [2.0, 5.0, 8.0, 11.0]


def test_b07_a_negative_value_at_run_time_is_out_of_bounds_and_never_reads_the_row_before():
    device = kaio.Device("cpu")
    m, out = device.alloc_from(np.arange(12.0).reshape(4, 3)), device.alloc_zeros(4, f64)
    with pytest.raises(KernelFault, match=r"index -1 is out of range for axis 1 of `m` \(size 3\)"):
        column_from_the_end.over(4).launch(m, 1, out).wait()


@kaio.kernel
def scale(x: In[f32], y: Out[f32]):
    i = kaio.grid(1)
    if i < x.size:
        y[i] = x[i] * 0.1 + 2


def test_b11_literals_take_the_type_of_their_partner(device):
    x = np.random.default_rng(0).random(1000, np.float32)
    x[0] = np.float32(0.60663575)
    y = device.alloc_zeros(1000, f32)
    scale.over(1000).launch(device.alloc_from(x), y).wait()
    # one rounding of the fused product and sum, which f64 holds exactly before it
    want = (x.astype(np.float64) * np.float64(np.float32(0.1)) + 2).astype(np.float32)
    np.testing.assert_array_equal(y.to_host(), want)
    assert ".f64" not in scale.ptx()


GAIN = 0.1


def by_default(v, gain=0.1):
    return v * gain


@kaio.kernel
def scaled_every_way(x: In[f32], y: Out[f32], z: In[f64], w: Out[f64]):
    y[0] = x[0] * GAIN
    y[1] = by_default(x[0])
    y[2] = x[0] * np.float32(0.1)
    w[0] = z[0] * GAIN
    w[1] = by_default(z[0])
    w[2] = x[0] * np.float64(0.1)


def test_b11_captured_numbers_and_defaults_are_weak_and_numpy_scalars_are_not(device):
    y, w = device.alloc_zeros(3, f32), device.alloc_zeros(3, f64)
    x = np.float32(0.60663575)
    scaled_every_way.over(1).launch(device.alloc_from([x]), y, device.alloc_from([0.3]), w).wait()
    assert y.to_host().tolist() == [x * np.float32(0.1)] * 3
    assert w.to_host().tolist() == [0.3 * 0.1, 0.3 * 0.1, np.float64(x) * 0.1]


@kaio.kernel(fastmath=True)
def clean(x: In[f32], out: Out[f32], bad: Out[i32], differs: Out[bool_]):
    i = kaio.grid(1)
    if i < x.size:
        if math.isnan(x[i]) or math.isinf(x[i]):
            out[i] = 0.0
            bad[i] = 1
        else:
            out[i] = x[i]
            bad[i] = 0
        differs[i] = x[i] != x[i]


def test_b12_questions_about_nan_work_under_fastmath(device):
    x = np.array([1.0, np.nan, np.inf, -np.inf, -0.0, 3e38], np.float32)
    out, bad, differs = (device.alloc_zeros(6, dtype) for dtype in (f32, i32, bool_))
    clean.over(6).launch(device.alloc_from(x), out, bad, differs).wait()
    np.testing.assert_array_equal(out.to_host(), np.array([1, 0, 0, 0, 0, 3e38], np.float32))
    assert bad.to_host().tolist() == [0, 1, 1, 1, 0, 0]
    assert differs.to_host().tolist() == [False, True, False, False, False, False]


@kaio.kernel
def extremes(a: In[f32], b: In[f32], high: Out[f32], low: Out[f32], greatest: Out[f32], least: Out[f32]):
    i = kaio.grid(1)
    if i < a.size:
        high[i], low[i] = max(a[i], b[i]), min(a[i], b[i])
        greatest[i], least[i] = kaio.maximum(a[i], b[i]), kaio.minimum(a[i], b[i])


def test_b13_extremes_do_not_depend_on_the_order_of_their_operands(device):
    values = [0.0, -0.0, 1.0, -5.0, 1e-40, np.inf, -np.inf, np.nan]
    a, b = (np.ascontiguousarray(x.ravel()) for x in np.meshgrid(np.float32(values), np.float32(values)))
    results = []
    for first, second in ((a, b), (b, a)):
        outputs = [device.alloc_zeros(a.size, f32) for _ in range(4)]
        extremes.over(a.size).launch(device.alloc_from(first), device.alloc_from(second), *outputs).wait()
        results.append([out.to_host() for out in outputs])
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)
        np.testing.assert_array_equal(np.signbit(one)[~np.isnan(one)], np.signbit(other)[~np.isnan(one)])
    high, low, greatest, least = results[0]
    np.testing.assert_array_equal(high, np.fmax(a, b))
    np.testing.assert_array_equal(low, np.fmin(a, b))
    np.testing.assert_array_equal(greatest, np.maximum(a, b))
    np.testing.assert_array_equal(least, np.minimum(a, b))


def residual(a, b, c):
    return a * b + c


@kaio.kernel
def fused(a: In[f32], b: In[f32], c: In[f32], out: Out[f32], bins: Out[i32]):
    i = kaio.grid(1)
    if i < a.size:
        out[i] = residual(a[i], b[i], c[i])
        bins[i] = i32(math.floor(a[i] * b[i] + c[i]))


@kaio.kernel(contract=False)
def separate(a: In[f32], b: In[f32], c: In[f32], out: Out[f32], bins: Out[i32]):
    i = kaio.grid(1)
    if i < a.size:
        out[i] = residual(a[i], b[i], c[i])
        bins[i] = i32(math.floor(a[i] * b[i] + c[i]))


def test_b15_fusing_is_kaio_s_choice_and_the_same_on_both_devices(device):
    a = np.float32([1 + 2**-12, 0.1, 1 - 2**-24])
    b = np.float32([1 + 2**-12, 10.0, 1 + 2**-23])
    c = np.float32([-(1 + 2**-11), -1.0, -1.0])
    wide = [x.astype(np.float64) for x in (a, b, c)]
    exact = wide[0] * wide[1] + wide[2]  # each is exact in f64
    for made, wanted in ((fused, exact.astype(np.float32)), (separate, a * b + c)):
        out, bins = device.alloc_zeros(3, f32), device.alloc_zeros(3, i32)
        made.over(3).launch(*(device.alloc_from(x) for x in (a, b, c)), out, bins).wait()
        np.testing.assert_array_equal(out.to_host(), wanted)
        assert bins.to_host().tolist() == np.floor(wanted).tolist()
    assert not np.array_equal(exact.astype(np.float32), a * b + c)


def test_b15_a_float_index_asks_for_the_cast():
    source = "@kernel\ndef k(x: InOut[f32], v: f32):\n    x[math.floor(v)] = 1\n"
    with pytest.raises(KernelTypeError, match=r"index of axis 0 of `x` is f32") as caught:
        kernel(source).ptx()
    assert "kaio.i32(math.floor(v))" in str(caught.value)


T = 4


@kaio.kernel
def matmul(a: In[f32, D2], b: In[f32, D2], c: Out[f32, D2]):
    ta = kaio.shared_mem((T, T), f32)
    tb = kaio.shared_mem((T, T), f32)
    col, row = kaio.grid(2)
    x, y = kaio.thread_idx.x, kaio.thread_idx.y
    acc = 0.0
    for t in range((a.shape[1] + T - 1) // T):
        ta[y, x] = a[row, t * T + x] if row < a.shape[0] and t * T + x < a.shape[1] else 0.0
        tb[y, x] = b[t * T + y, col] if t * T + y < b.shape[0] and col < b.shape[1] else 0.0
        kaio.bar_sync()
        for k in range(T):
            acc += ta[y, k] * tb[k, x]
        kaio.bar_sync()
    if row < c.shape[0] and col < c.shape[1]:
        c[row, col] = acc


@pytest.mark.parametrize(("m", "k", "n"), [(1, 1, 1), (T, T, T), (T + 1, T + 1, T + 1), (7, 5, 9), (2, 17, 3)])
def test_b19_a_tiled_product_is_right_for_ragged_shapes(device, m, k, n):
    rng = np.random.default_rng(m * n)
    a, b = rng.random((m, k), np.float32), rng.random((k, n), np.float32)
    c = device.alloc_zeros((m, n), f32)
    matmul.over(c.shape).block(T, T).launch(device.alloc_from(a), device.alloc_from(b), c).wait()
    np.testing.assert_allclose(c.to_host(), a @ b, rtol=1e-5)


@kaio.kernel
def matmul_without_store_guard(a: In[f32, D2], c: Out[f32, D2]):
    ta = kaio.shared_mem((T, T), f32)
    col, row = kaio.grid(2)
    ta[kaio.thread_idx.y, kaio.thread_idx.x] = 0.0
    kaio.bar_sync()
    c[row, col] = ta[0, 0]


def test_b19_an_unguarded_store_is_reported():
    device = kaio.Device("cpu")
    launcher = matmul_without_store_guard.over((7, 9)).block(T, T)
    with pytest.raises(KernelFault, match="index 9 is out of range for axis 1 of `c`"):
        launcher.launch(device.alloc_zeros((7, 5), f32), device.alloc_zeros((7, 9), f32)).wait()


@kaio.kernel
def product_of_unfilled_tile(a: In[f32, D2], c: Out[f32, D2]):
    tile = kaio.shared_mem((T, T), f32)
    col, row = kaio.grid(2)
    x, y = kaio.thread_idx.x, kaio.thread_idx.y
    if row < a.shape[0] and col < a.shape[1]:
        tile[y, x] = a[row, col]
    kaio.bar_sync()
    if row < c.shape[0] and col < c.shape[1]:
        c[row, col] = tile[x, y]


@kaio.kernel
def product_without_second_barrier(a: In[f32, D2], c: Out[f32, D2]):
    tile = kaio.shared_mem((T, T), f32)
    x, y = kaio.thread_idx.x, kaio.thread_idx.y
    acc = 0.0
    for t in range(2):
        tile[y, x] = a[y, t * T + x]
        kaio.bar_sync()
        acc += tile[x, y]
    c[y, x] = acc


def test_b19_an_unfilled_tile_is_reported():
    device = kaio.Device("cpu", check="full")
    a, c = device.alloc_zeros((T - 1, T), f32), device.alloc_zeros((T, T), f32)
    done = product_of_unfilled_tile.over((T, T)).block(T, T).launch(a, c)
    with pytest.raises(KernelFault, match="before"):
        done.wait()


def test_b19_a_missing_barrier_is_reported():
    device = kaio.Device("cpu", check="full")
    a, c = device.alloc_zeros((T, 2 * T), f32), device.alloc_zeros((T, T), f32)
    done = product_without_second_barrier.grid(1).block(T, T).launch(a, c)
    with pytest.raises(KernelFault, match="race"):
        done.wait()


@kaio.kernel
def histogram_by_update(x: In[i32], h: InOut[i32]):
    i = kaio.grid(1)
    if i < x.size:
        h[x[i]] += 1


def test_b18_an_update_that_is_not_atomic_is_reported():
    device = kaio.Device("cpu", check="full")
    x, h = device.alloc_zeros(512, i32), device.alloc_zeros(2, i32)
    done = histogram_by_update.grid(8).block(64).launch(x, h)
    with pytest.raises(KernelFault, match=r"data race on `h\[0\]` in kernel `histogram_by_update`"):
        done.wait()


@kaio.kernel
def no_guard(x: Out[i32]):
    i = kaio.grid(1)
    x[i] = i


def test_b47_a_store_past_the_end_names_kernel_array_index_and_thread():
    device = kaio.Device("cpu")
    x = device.alloc_zeros(100, i32)
    with pytest.raises(KernelFault) as caught:
        no_guard.grid(1).block(128).launch(x).wait()
    text = str(caught.value)
    assert "index 100 is out of range for axis 0 of `x` (size 100) in kernel `no_guard`" in text
    assert "thread (100, 0, 0) of block (0, 0, 0)" in text
    assert "x[i] = i" in text
    assert device.alloc_from([1.0]).to_host().tolist() == [1.0]  # the device goes on


@kaio.kernel
def far_away(x: InOut[i32]):
    x[kaio.grid(1) + 1_000_000_000] = 1


def test_b47_a_far_store_is_reported_and_not_made():
    device = kaio.Device("cpu")
    x = device.alloc_zeros(100, i32)
    with pytest.raises(KernelFault, match="index 1000000000 is out of range"):
        far_away.grid(1).block(1).launch(x).wait()


def test_a_literal_that_does_not_fit_is_refused_with_value_and_type():
    source = "@kaio.kernel\ndef k(x: In[u8], y: Out[u8]):\n    y[0] = x[0] + 300\n"
    with pytest.raises(KernelTypeError, match="`300` does not fit u8"):
        build(source, "literal").ptx()
