"""Matrix units: who holds which element, products of every type against NumPy, and what is refused."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import pytest

import kaio
from kaio import D2, Const, In, InOut, Out, UnsupportedFeatureError, bf16, f8e4m3, f8e5m2, f16, f32, i8, i32, u8, u32
from tests.dsl import warps
from tests.dsl.from_text import kernel
from tests.refusals import first_mistake

A = TypeVar("A", f16, bf16, f32, i8, u8, f8e4m3, f8e5m2)
B = TypeVar("B", f16, bf16, f32, i8, u8, f8e4m3, f8e5m2)
C = TypeVar("C", f32, f16, i32)
D = TypeVar("D", f16, bf16)

FACTORS = [f16, bf16, f32, i8, u8, f8e4m3, f8e5m2]
PRODUCTS = [
    (f16, f16, f32), (f16, f16, f16), (bf16, bf16, f32), (f32, f32, f32), (i8, i8, i32), (u8, u8, i32), (i8, u8, i32),
    (u8, i8, i32), (f8e4m3, f8e4m3, f32), (f8e5m2, f8e5m2, f32), (f8e4m3, f8e5m2, f32), (f8e5m2, f8e4m3, f32),
]  # fmt: skip


def since(dtype) -> str:
    return "sm_89" if dtype in (f8e4m3, f8e5m2) else "sm_80"


def needs(device: kaio.Device, dtype) -> None:
    """Skip where the device has no such instruction."""
    if device.kind == "cuda" and int(device.target[3:]) < int(since(dtype)[3:]):
        pytest.skip(f"{device} has no mma of {dtype.name}")


def to_tf32(values: np.ndarray) -> np.ndarray:
    """Rounded to 10 bits behind the point, ties away from zero."""
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + np.uint32(1 << 12)) & np.uint32(0xFFFFE000)).view(np.float32)


# ---------------------------------------------------------------------- layouts
def place_a(bits: int, lane: int, i: int) -> tuple[int, int]:
    """Row and column of element `i` of a, as the PTX ISA has it for mma.m16n8k16, .m16n8k8 and .m16n8k32."""
    group, within = lane >> 2, lane % 4
    if bits == 16:
        return (group if i < 2 or 4 <= i < 6 else group + 8), within * 2 + (i & 1) + (0 if i < 4 else 8)
    if bits == 32:
        return (group if i in (0, 2) else group + 8), (within if i in (0, 1) else within + 4)
    return (group if i < 4 or 8 <= i < 12 else group + 8), within * 4 + (i & 3) + (0 if i < 8 else 16)


def place_b(bits: int, lane: int, i: int) -> tuple[int, int]:
    """Row and column of element `i` of b, by the same tables."""
    group, within = lane >> 2, lane % 4
    if bits == 16:
        return within * 2 + (i & 1) + (0 if i < 2 else 8), group
    if bits == 32:
        return (within if i == 0 else within + 4), group
    return within * 4 + (i & 3) + (0 if i < 4 else 16), group


def place_c(lane: int, i: int) -> tuple[int, int]:
    """Row and column of element `i` of c, by the same tables."""
    group, within = lane >> 2, lane % 4
    return (group if i < 2 else group + 8), within * 2 + (i & 1)


@kaio.func
def in_shared_memory(x):
    s = kaio.shared_mem((32, 32), x.dtype)
    for k in range(x.size // 32):
        at = k * 32 + kaio.thread_idx.x
        s[at // x.shape[1], at % x.shape[1]] = x[at // x.shape[1], at % x.shape[1]]
    kaio.bar_sync()
    return s


@kaio.kernel
def words_of_a(x: In[A, D2], out: Out[u32, D2], layout: Const[int], whole: Const[int]):
    t = kaio.thread_idx.x
    s = in_shared_memory(x)
    if layout == 0:
        a = kaio.ldmatrix_a(s, 0, 0) if whole == 1 else kaio.load_matrix_a(s, 0, 0)
    else:
        a = kaio.ldmatrix_a(s, 0, 0, layout="col") if whole == 1 else kaio.load_matrix_a(s, 0, 0, layout="col")
    a0, a1, a2, a3 = a
    out[t, 0] = a0
    out[t, 1] = a1
    out[t, 2] = a2
    out[t, 3] = a3


@kaio.kernel
def words_of_b(x: In[B, D2], out: Out[u32, D2], layout: Const[int], whole: Const[int]):
    t = kaio.thread_idx.x
    s = in_shared_memory(x)
    if layout == 0:
        b = kaio.ldmatrix_b(s, 0, 0) if whole == 1 else kaio.load_matrix_b(s, 0, 0)
    else:
        b = kaio.ldmatrix_b(s, 0, 0, layout="col") if whole == 1 else kaio.load_matrix_b(s, 0, 0, layout="col")
    out[t, 0] = b[0]
    out[t, 1] = b[1]


def patterns(dtype, shape: tuple[int, int]) -> np.ndarray:
    """Elements of that type with different bits, all of which are numbers."""
    count = shape[0] * shape[1]
    if dtype is f32:
        return to_tf32(np.arange(1, count + 1).reshape(shape))
    width = np.uint16 if dtype.bits == 16 else np.uint8
    bits = np.arange(count).reshape(shape) % (count if dtype.bits == 16 else 120)
    return bits.astype(width).view(dtype.numpy)


def check_words(
    made: kaio.Kernel, words: int, place, x: np.ndarray, device: kaio.Device, dtype, layout: str, whole: int
) -> None:
    """Whether each lane holds in so many words the elements of x that `place` tells."""
    needs(device, dtype)
    out = device.alloc_zeros((32, words), u32)
    given = device.alloc_from(np.ascontiguousarray(x if layout == "row" else x.T))
    made.over(32).block(32).launch(given, out, layout=int(layout == "col"), whole=whole).wait()
    found = out.to_host().view(dtype.numpy)
    for lane in range(32):
        expected = [x[place(dtype.bits, lane, i)] for i in range(words * 32 // dtype.bits)]
        assert found[lane].tobytes() == np.array(expected).tobytes(), lane


CASES = [(d, layout, whole) for d in FACTORS for layout in ("row", "col") for whole in (0, 1)]


@pytest.mark.parametrize(("dtype", "layout", "whole"), [c for c in CASES if c[1:] != ("col", 1) or c[0].bits == 16])
def test_a_lane_holds_of_a_what_the_table_says(device: kaio.Device, dtype, layout: str, whole: int) -> None:
    x = patterns(dtype, (16, 256 // dtype.bits))
    check_words(words_of_a, 4, place_a, x, device, dtype, layout, whole)


@pytest.mark.parametrize(("dtype", "layout", "whole"), [c for c in CASES if c[1:] != ("row", 1) or c[0].bits == 16])
def test_a_lane_holds_of_b_what_the_table_says(device: kaio.Device, dtype, layout: str, whole: int) -> None:
    x = patterns(dtype, (256 // dtype.bits, 8))
    check_words(words_of_b, 2, place_b, x, device, dtype, layout, whole)


@kaio.kernel
def elements_of_c(x: In[C, D2], out: Out[C, D2], back: Out[C, D2], turned: Out[C, D2]):
    t = kaio.thread_idx.x
    c = kaio.load_matrix_c(x, 1, 2)
    out[t, 0] = c[0]
    out[t, 1] = c[1]
    out[t, 2] = c[2]
    out[t, 3] = c[3]
    kaio.store_matrix(back, 1, 2, c)
    kaio.store_matrix(turned, 0, 0, c, layout="col")


@pytest.mark.parametrize("dtype", [f32, f16, i32])
def test_a_lane_holds_of_c_what_the_table_says_and_it_is_stored_so(device: kaio.Device, dtype) -> None:
    x = np.arange(17 * 10).reshape(17, 10).astype(dtype.numpy)
    buffers = [device.alloc_zeros(shape, dtype) for shape in ((32, 4), (17, 10), (8, 16))]
    elements_of_c.over(32).block(32).launch(device.alloc_from(x), *buffers).wait()
    out, back, turned = (buffer.to_host() for buffer in buffers)
    part = x[1:, 2:]
    for lane in range(32):
        assert out[lane].tolist() == [part[place_c(lane, i)] for i in range(4)]
    np.testing.assert_array_equal(back[1:, 2:], part)
    assert not back[0].any()
    assert not back[:, :2].any()
    np.testing.assert_array_equal(turned, part.T)


@kaio.kernel
def store_whole(x: In[f16, D2], out: Out[D, D2], turned: Out[D, D2]):
    t = kaio.thread_idx.x
    s = kaio.shared_mem((16, 8), out.dtype)
    r = kaio.shared_mem((8, 16), out.dtype)
    c = kaio.load_matrix_c(x, 0, 0)
    c = kaio.matrix_c(out.dtype(c[0]), out.dtype(c[1]), out.dtype(c[2]), out.dtype(c[3]))
    kaio.stmatrix_c(s, 0, 0, c)
    kaio.stmatrix_c(r, 0, 0, c, layout="col")
    kaio.bar_sync()
    for k in range(4):
        out[t // 2, t % 2 * 4 + k] = s[t // 2, t % 2 * 4 + k]
        turned[t // 4, t % 4 * 4 + k] = r[t // 4, t % 4 * 4 + k]


@pytest.mark.parametrize("dtype", [f16, bf16])
def test_stmatrix_stores_a_sum_as_it_lies_and_transposed(device: kaio.Device, dtype) -> None:
    if device.kind == "cuda" and int(device.target[3:]) < 90:
        pytest.skip(f"{device} has no stmatrix")
    x = np.arange(16 * 8).reshape(16, 8).astype(np.float16)
    out, turned = device.alloc_zeros((16, 8), dtype), device.alloc_zeros((8, 16), dtype)
    store_whole.over(32).block(32).launch(device.alloc_from(x), out, turned).wait()
    np.testing.assert_array_equal(out.to_host().astype(np.float16), x)
    np.testing.assert_array_equal(turned.to_host().astype(np.float16), x.T)


@kaio.kernel
def rows_of_lanes(x: In[f16, D2], words: Out[u32, D2], back: Out[f16, D2], count: Const[int], turned: Const[int]):
    t = kaio.thread_idx.x
    s, r = kaio.shared_mem((32, 8), f16), kaio.shared_mem((32, 8), f16)
    for k in range(8):
        s[t, k] = x[t, k]
        r[t, k] = 0
    kaio.bar_sync()
    row = 31 - t  # the rows in another order
    w = kaio.ldmatrix(s, row, 0, count, layout="col") if turned == 1 else kaio.ldmatrix(s, row, 0, count)
    for k in kaio.unrolled(range(count)):
        words[t, k] = w[k]
    if turned == 1:
        kaio.stmatrix(r, row, 0, w, layout="col")
    else:
        kaio.stmatrix(r, row, 0, w)
    kaio.bar_sync()
    for k in range(8):
        back[t, k] = r[t, k]


@pytest.mark.parametrize("turned", [0, 1])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_lanes_give_the_rows_that_ldmatrix_and_stmatrix_take(device: kaio.Device, count: int, turned: int) -> None:
    if device.kind == "cuda" and int(device.target[3:]) < 90:
        pytest.skip(f"{device} has no stmatrix")
    x = np.arange(256).reshape(32, 8).astype(np.float16)
    words, back = device.alloc_zeros((32, count), u32), device.alloc_zeros((32, 8), f16)
    rows_of_lanes.over(32).block(32).launch(device.alloc_from(x), words, back, count=count, turned=turned).wait()
    found = words.to_host().view(np.float16).reshape(32, count, 2)
    for matrix in range(count):
        part = x[31 - 8 * matrix - np.arange(8)]
        part = part.T if turned else part
        for lane in range(32):
            assert found[lane, matrix].tolist() == part[lane // 4, lane % 4 * 2 : lane % 4 * 2 + 2].tolist()
    expected = x.copy()
    expected[: 32 - 8 * count] = 0
    np.testing.assert_array_equal(back.to_host(), expected)
    program = rows_of_lanes.compile("sm_90", count=count, turned=turned)
    assert program.cubin
    assert f"ldmatrix.sync.aligned.m8n8.x{count}{'.trans' * turned}.shared.b16" in program.ptx


# ---------------------------------------------------------------------- products
@kaio.kernel
def product(x: In[A, D2], y: In[B, D2], out: InOut[C, D2], step: Const[int], fast: Const[int]):
    """A warp for each 16 by 8 of the result, along k by `step`."""
    t = kaio.thread_idx.x
    row, column = 16 * kaio.block_idx.y, 8 * kaio.block_idx.x
    s = kaio.shared_mem((16, step), x.dtype)
    r = kaio.shared_mem((step, 8), y.dtype)
    turned = kaio.shared_mem((8, step), y.dtype)
    c = kaio.load_matrix_c(out, row, column)
    for k in range(0, x.shape[1], step):
        if fast:
            kaio.bar_sync()
            for n in range(step // 2):
                at = n * 32 + t
                s[at // step, at % step] = x[row + at // step, k + at % step]
            for n in range(step // 4):
                at = n * 32 + t
                r[at // 8, at % 8] = y[k + at // 8, column + at % 8]
                turned[at % 8, at // 8] = y[k + at // 8, column + at % 8]
            kaio.bar_sync()
            a = kaio.ldmatrix_a(s, 0, 0)
            if fast == 2:
                b = kaio.ldmatrix_b(r, 0, 0)
            else:
                b = kaio.ldmatrix_b(turned, 0, 0, layout="col")
        else:
            a = kaio.load_matrix_a(x, row, k)
            b = kaio.load_matrix_b(y, k, column)
        c = kaio.mma(a, b, c)
    kaio.store_matrix(out, row, column, c)


def operand(dtype, rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    if dtype.is_int:
        return rng.integers(*dtype.range, shape, dtype.numpy, endpoint=True)
    return rng.uniform(-2, 2, shape).astype(dtype.numpy)


def exactly(values: np.ndarray, dtype) -> np.ndarray:
    """What the unit multiplies, as f64 or i64."""
    return (to_tf32(values) if dtype is f32 else values).astype(np.int64 if dtype.is_int else np.float64)


@pytest.mark.parametrize("fast", [0, 1, 2])
@pytest.mark.parametrize(("a", "b", "c"), PRODUCTS)
def test_a_tiled_product_is_numpys(device: kaio.Device, a, b, c, fast: int) -> None:
    needs(device, a)
    if fast == 2 and a.bits != 16:
        fast = 1
    step = 32 // a.itemsize
    rng = np.random.default_rng(7)
    x, y = operand(a, rng, (48, 3 * step)), operand(b, rng, (3 * step, 24))
    start = rng.integers(-5, 5, (48, 24)).astype(c.numpy)
    out = device.alloc_from(start)
    launch = product.grid(3, 3).block(32)
    launch.launch(device.alloc_from(x), device.alloc_from(y), out, step=step, fast=fast).wait()
    expected = exactly(x, a) @ exactly(y, b) + start
    if c is i32:
        np.testing.assert_array_equal(out.to_host(), expected.astype(np.int32))
    else:
        rtol, atol = (2e-2, 0.1) if c is f16 else (1e-5, 1e-4)
        np.testing.assert_allclose(out.to_host().astype(float), expected, rtol=rtol, atol=atol)


def test_integers_wrap(device: kaio.Device) -> None:
    x, y = np.full((16, 32), 255, np.uint8), np.full((32, 8), 255, np.uint8)
    out = device.alloc_from(np.full((16, 8), 2**31 - 1, np.int32))
    product.grid(1, 1).block(32).launch(device.alloc_from(x), device.alloc_from(y), out, step=32, fast=0).wait()
    assert (out.to_host() == 2**31 - 1 + 32 * 255 * 255 - 2**32).all()


def test_f32_is_rounded_to_tf32_with_ties_away_from_zero(device: kaio.Device) -> None:
    special = np.array([1 + 2**-11, -1 - 2**-11, 1 + 2**-12, 3.4e38, np.inf, 2**-140, 1 + 2**-10, 0.0], np.float32)
    x, y = np.zeros((16, 8), np.float32), np.eye(8, dtype=np.float32)
    x[0, 0], x[1, 1], x[2, 2], x[3, 3] = special[0], special[1], special[2], special[6]
    out = device.alloc_zeros((16, 8), f32)
    product.grid(1, 1).block(32).launch(device.alloc_from(x), device.alloc_from(y), out, step=8, fast=0).wait()
    assert out.to_host()[range(4), range(4)].tolist() == [1 + 2**-10, -1 - 2**-10, 1, 1 + 2**-10]


@kaio.kernel
def dequantised(x: In[f16, D2], packed: In[u8, D2], out: Out[f32, D2]):
    """x @ w for weights of 4 bits, which become f16 in registers: 1024 + w by its bits, less 1032."""
    t = kaio.thread_idx.x
    group, within = t // 4, t % 4
    a = kaio.load_matrix_a(x, 0, 0)
    low, high = u32(packed[within, group]), u32(packed[within + 4, group])
    offset = kaio.matrix_b(f16, low & 15 | (low >> 4) << 16 | 0x64006400, high & 15 | (high >> 4) << 16 | 0x64006400)
    zero = kaio.matrix_b(f16, 0x64086408, 0x64086408)
    c = kaio.mma(a, offset, kaio.matrix_zeros(f32))
    d = kaio.mma(a, zero, kaio.matrix_zeros(f32))
    kaio.store_matrix(out, 0, 0, kaio.matrix_c(c[0] - d[0], c[1] - d[1], c[2] - d[2], c[3] - d[3]))


def test_a_matrix_is_made_of_words(device: kaio.Device) -> None:
    rng = np.random.default_rng(3)
    x = rng.integers(-4, 5, (16, 16)).astype(np.float16)
    weights = rng.integers(-8, 8, (16, 8))
    packed = ((weights[0::2] + 8) | (weights[1::2] + 8) << 4).astype(np.uint8)
    out = device.alloc_zeros((16, 8), f32)
    dequantised.over(32).block(32).launch(device.alloc_from(x), device.alloc_from(packed), out).wait()
    np.testing.assert_array_equal(out.to_host(), x.astype(float) @ weights)


# ---------------------------------------------------------------------- PTX
def mnemonic(a, b, c) -> str:
    names = ["tf32" if d is f32 else d.ptx for d in (a, b)]
    return f"mma.sync.aligned.m16n8k{32 // a.itemsize}.row.col.{c.ptx}.{names[0]}.{names[1]}.{c.ptx}"


@pytest.mark.parametrize(("a", "b", "c"), PRODUCTS)
def test_the_assembler_takes_every_product(a, b, c) -> None:
    step = 32 // a.itemsize
    fast = 2 if a.bits == 16 else 1
    program = product.compile(since(a), A=a, B=b, C=c, step=step, fast=fast)
    assert mnemonic(a, b, c) in program.ptx
    assert "ldmatrix.sync.aligned.m8n8.x4.shared.b16" in program.ptx
    assert f"ldmatrix.sync.aligned.m8n8.x2{'.trans' * (fast == 2)}.shared.b16" in program.ptx
    assert "cvt.rna.tf32.f32" in program.ptx or a is not f32
    assert program.cubin
    assert product.compile("sm_90", A=a, B=b, C=c, step=step, fast=0).cubin


def test_the_assembler_takes_stmatrix() -> None:
    program = store_whole.compile("sm_90", D=bf16)
    assert "stmatrix.sync.aligned.m8n8.x2.shared.b16" in program.ptx
    assert "stmatrix.sync.aligned.m8n8.x2.trans.shared.b16" in program.ptx


# ---------------------------------------------------------------------- mistakes
def test_an_older_target_is_refused_with_the_first_that_has_it() -> None:
    def told(made: kaio.Kernel, target: str, **given: object) -> str:
        return first_mistake(made, target, error=UnsupportedFeatureError, **given)

    given = {"A": f16, "B": f16, "C": f32, "step": 16, "fast": 0}
    assert told(product, "sm_75", **given).startswith("`mma` needs sm_80 or later")
    given |= {"A": f8e4m3, "B": f8e5m2, "step": 32}
    assert told(product, "sm_80", **given).startswith("`mma` of f8e4m3 and f8e5m2 needs sm_89 or later")
    assert told(store_whole, "sm_80", D=f16).startswith("`stmatrix_c` needs sm_90 or later")


HEAD = (
    "@kernel\ndef k(x: In[f16, D2], y: In[bf16, D2], z: In[f32, D2], d: In[f64, D2], n: In[i32], out: Out[f32, D2]):\n"
)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            "c = mma(load_matrix_a(x, 0, 0), load_matrix_b(y, 0, 0), matrix_zeros(f32))",
            "`mma` does not multiply matrix_a(16 x 16, f16) by matrix_b(16 x 8, bf16)\ngive both one element type",
        ),
        (
            "c = mma(load_matrix_a(y, 0, 0), load_matrix_b(y, 0, 0), matrix_zeros(f16))",
            ("`mma` of matrix_a(16 x 16, bf16) and matrix_b(16 x 8, bf16) adds to a matrix_c of f32, "
            "not to matrix_c(16 x 8, f16)\nbegin with `kaio.matrix_zeros(kaio.f32)`"),
        ),
        (
            "c = mma(load_matrix_b(x, 0, 0), load_matrix_b(x, 0, 0), matrix_zeros(f32))",
            "the first operand of `mma` is a matrix_a, not matrix_b(16 x 8, f16)\nmake it with `load_matrix_a`",
        ),
        (
            "c = mma(load_matrix_a(z, 0, 0), load_matrix_b(z, 0, 0), 0.0)",
            "the third operand of `mma` is a matrix_c, not float literal 0.0\nmake it with `matrix_zeros`",
        ),
        (
            "a = load_matrix_a(d, 0, 0)",
            "the elements of `load_matrix_a` are f16, bf16, f32, i8, u8, f8e4m3 or f8e5m2, not f64\ncast them before",
        ),
        (
            "a = load_matrix_a(n, 0, 0)",
            "`n` has 1 dimension, and 2 indices were given\nindex it with one number, for example `n[i]`",
        ),
        ("a = load_matrix_a(x, 0.5, 0)", "the row of `load_matrix_a` is an integer, not float literal 0.5\nNone"),
        (
            "a = ldmatrix_a(x, 0, 0)",
            "`ldmatrix_a` takes shared memory, not In[f16, D2]\n`load_matrix_a` and its kin take any array",
        ),
        (
            "b = ldmatrix_b(shared_mem((8, 8), f32), 0, 0)",
            ('`ldmatrix_b` takes f32 only as `layout="col"`: it transposes elements of 16 bits\n'
            "store the matrix the other way; `load_matrix_b` takes both"),
        ),
        (
            'a = load_matrix_a(x, 0, 0, layout="column")',
            ("`layout=` of `load_matrix_a` is \"row\" or \"col\", not 'column'\n"
            'with "col" the array has the matrix transposed'),
        ),
        (
            "store_matrix(out, 0, 0, load_matrix_a(x, 0, 0))",
            "`store_matrix` stores a matrix_c, not matrix_a(16 x 16, f16)\nfor example what `mma` gives",
        ),
        (
            "store_matrix(x, 0, 0, matrix_zeros(f32))",
            "`x` is an `In` buffer, which a kernel only reads\nannotate it `InOut`",
        ),
        (
            "stmatrix_c(shared_mem((16, 8), f16), 0, 0, matrix_zeros(f32))",
            ("`stmatrix_c` stores a matrix_c of f16 here, not matrix_c(16 x 8, f32)\n"
            "cast its elements, `kaio.matrix_c(kaio.f16(c[0]), …)`; `store_matrix` converts"),
        ),
        ("c = matrix_zeros(f64)", "the elements of `matrix_zeros` are f32, f16 or i32, not `f64`\nNone"),
        (
            "c = matrix_c(f32(0), f16(1), 0, 0)",
            "an element of `matrix_c` is f32, and another f16\ncast one of them",
        ),
        (
            "a = load_matrix_a(x, 0, 0)\n    if n[0] > 0:\n        a = load_matrix_a(y, 0, 0)\n    out[0, 0] = a[0]",
            "`a` is matrix_a(16 x 16, f16) and also matrix_a(16 x 16, bf16)\ngive the two different names",
        ),
        ("a = load_matrix_a(x, 0, 0) + 1", "`matrix_a(16 x 16, f16) + int literal 1` is not defined\nNone"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_told_with_both_types(body: str, expected: str) -> None:
    assert first_mistake(kernel(f"{HEAD}    {body}\n")) == expected


# ---------------------------------------------------------------------- faults
def fault(made: kaio.Kernel, *arrays: np.ndarray, threads: int = 32) -> str:
    return warps.fault(made, threads, *arrays).splitlines()[0]


def test_less_than_a_warp_is_a_fault() -> None:
    made = kernel(
        "@kernel\ndef k(x: In[f16, D2], out: Out[f32, D2]):\n"
        "    c = mma(load_matrix_a(x, 0, 0), load_matrix_b(x, 0, 0), matrix_zeros(f32))\n    out[0, 0] = c[0]\n"
    )
    arrays = np.zeros((16, 16), np.float16), np.zeros((1, 1), np.float32)
    assert fault(made, *arrays, threads=16) == "`mma` needs all 32 lanes of a warp in kernel `k`"


def test_an_element_outside_the_array_is_a_fault() -> None:
    made = kernel("@kernel\ndef k(x: In[f16, D2], out: Out[u32]):\n    out[0] = load_matrix_a(x, 0, 0)[0]\n")
    arrays = np.zeros((16, 15), np.float16), np.zeros(1, np.uint32)
    assert fault(made, *arrays) == "index 15 is out of range for axis 1 of `x` (size 15) in kernel `k`"


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("ldmatrix_a(s, 0, 4)", "`ldmatrix` and `stmatrix` take rows at multiples of 16 bytes in kernel `k`"),
        ("ldmatrix_a(s, 0, 16)", "index 24 is out of range for axis 1 of `s` (size 24) in kernel `k`"),
        ("ldmatrix_a(s, 8, 0)", "index 16 is out of range for axis 0 of `s` (size 16) in kernel `k`"),
    ],
)
def test_a_row_that_is_not_aligned_or_outside_is_a_fault(call: str, expected: str) -> None:
    made = kernel(f"@kernel\ndef k(out: Out[u32]):\n    s = shared_mem((16, 24), f16)\n    out[0] = {call}[0]\n")
    assert fault(made, np.zeros(1, np.uint32)) == expected


def test_lanes_at_different_places_are_a_fault() -> None:
    made = kernel(
        "@kernel\ndef k(x: In[f16, D2], out: Out[f32, D2]):\n    t = thread_idx.x\n"
        "    a, b, c = load_matrix_a(x, 0, 0), load_matrix_b(x, 0, 0), matrix_zeros(f32)\n"
        "    if t < 16:\n        c = mma(a, b, c)\n    else:\n        c = mma(a, b, c)\n    out[0, 0] = c[0]\n"
    )
    arrays = np.zeros((16, 16), np.float16), np.zeros((1, 1), np.float32)
    assert fault(made, *arrays) == "`mma` can never be completed in kernel `k`"
