"""Packed vectors on both devices, lane by lane against the rules of numbers."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

import kaio
from kaio import In, InOut, Out, bf16, bf16x2, f16, f16x2, f16x8, f32, f32x2, f32x4, f64x2, i8x16, i32, i32x4, u8, u8x4
from kaio import vectors as table
from tests.dsl.from_text import kernel, mistakes, run_lines, types_of

VECTORS = table.VECTORS
COUNT = 24


def lanes(vector, seed=0, count=COUNT):
    """An array of the lanes of `count` vectors."""
    rng, size = np.random.default_rng(seed), count * len(vector.parts)
    if vector.lane.is_float:
        return rng.normal(0, 4, size).astype(vector.lane.numpy)
    low, high = vector.lane.range
    return rng.integers(low, high, size, vector.lane.numpy, endpoint=True)


def launched(lines, inputs, results, device=None, options=""):
    """Run lines over vectors `a`, `b` …; arrays of lanes in, arrays of lanes out."""
    vectors = [array.view(vector.numpy) for vector, array in inputs]
    found = run_lines(lines, vectors, results, device=device, options=options)
    return [out.view(vector.lane.numpy) for out, vector in zip(found, results, strict=True)]


@pytest.mark.parametrize("vector", VECTORS, ids=repr)
def test_elementwise_operators_are_those_of_the_lanes(vector):
    lane, x, y = vector.lane, lanes(vector, 1), lanes(vector, 2)
    y[y == 0] = 1
    ops = ["+", "-", "*"] + ([] if lane.is_float else ["&", "|", "^", "//", "%"])
    lines = [f"out{k}[i] = a {op} b" for k, op in enumerate(ops)]
    lines += [f"out{len(ops)}[i] = -a", f"out{len(ops) + 1}[i] = a * 3", f"out{len(ops) + 2}[i] = 2 + b"]
    options = "(contract=False)"
    got = launched(lines, [(vector, x), (vector, y)], [vector] * len(lines), options=options)
    wanted = run_lines(lines, [x, y], [lane] * len(lines), options=options)
    for found, scalar in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(found, scalar)


@pytest.mark.parametrize("vector", VECTORS, ids=repr)
def test_one_access_loads_and_stores_a_vector(vector):
    made = kernel(f"""
    @kernel
    def k(x: In[{vector!r}], out: Out[{vector!r}]):
        tile = kaio.shared_mem(64, {vector!r})
        own = kaio.local_mem(2, {vector!r})
        t = kaio.thread_idx.x
        tile[t] = x[t] + 1
        kaio.bar_sync()
        own[0] = tile[63 - t]
        out[t] = own[0]
    """)
    ptx = made.ptx("sm_90")
    for access in ("ld.global", "st.global", "ld.shared", "st.shared"):
        lines = [line for line in ptx.splitlines() if access in line]
        assert len(lines) == 1
        word = 64 if vector.lane.bits == 64 else 32
        assert vector.bits == word or f".v{vector.bits // word}." in lines[0]
    assert "local" not in ptx
    cpu = kaio.Device("cpu")
    x = lanes(vector, count=64)
    out = cpu.alloc_zeros(64, vector)
    made.over(64).block(64).launch(cpu.alloc_from(x).view(vector), out).wait()
    want = kaio.Device("cpu").alloc_from(x)
    one = kernel(f"@kernel\ndef k(x: InOut[{vector.lane!r}]):\n    x[kaio.grid(1)] = x[kaio.grid(1)] + 1")
    one.over(x.size).block(x.size // 4).launch(want).wait()
    np.testing.assert_array_equal(out.view(vector.lane).to_host().reshape(64, -1), want.to_host().reshape(64, -1)[::-1])


@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_90"])
@pytest.mark.parametrize("vector", [f16x2, f16x8, bf16x2, kaio.bf16x4, u8x4, i8x16, f64x2], ids=repr)
def test_every_form_is_taken_by_the_assembler(vector, target):
    text = f"@kernel\ndef k(x: InOut[{vector!r}]):\n    v = x[0]\n    x[1] = v * v + v - 1\n    x[2] = max(v, -v)\n"
    assert kernel(text).compile(target).cubin


def test_halves_are_computed_in_pairs():
    text = "@kernel\ndef k(x: InOut[{0}]):\n    v = x[0]\n    x[1] = v * v + v\n    x[2] = v + v\n"
    text += "    x[3] = kaio.fma(v, 2, v)"
    for vector, target in ((f16x2, "sm_75"), (f16x2, "sm_90"), (bf16x2, "sm_90")):
        ptx = kernel(text.format(vector)).ptx(target)
        assert f"fma.rn.{vector.lane.ptx}x2" in ptx
        assert f"add.rn.{vector.lane.ptx}x2" in ptx
        assert f".{vector.lane.ptx} " not in ptx
    ptx = kernel(text.format(bf16x2)).ptx("sm_80")
    assert "fma.rn.bf16x2" in ptx


@pytest.mark.parametrize("vector", [f16x2, f16x8, bf16x2], ids=repr)
def test_lanes_of_f32_are_rounded_to_halves_two_at_once(vector, device):
    count, lane = len(vector.parts), vector.lane
    made = kernel(
        f"""
        @kernel
        def k(x: In[f32, D2], whole: Out[{vector!r}], single: Out[{lane!r}, D2]):
            i = grid(1)
            if i < x.shape[0]:
                whole[i] = {vector!r}({", ".join(f"x[i, {n}]" for n in range(count))})
                for n in range({count}):
                    single[i, n] = x[i, n]
        """
    )
    rng = np.random.default_rng(3)
    x = np.ldexp(rng.normal(size=(512, count)), rng.integers(-30, 20, (512, count))).astype(np.float32)
    x[0], x[1], x[2, :2] = 0.0, -np.inf, (65519.99, -65520.0)
    whole, single = device.alloc_zeros(512, vector), device.alloc_zeros((512, count), lane)
    made.over(512).launch(device.alloc_from(x), whole, single).wait()
    assert whole.to_host().tobytes() == single.to_host().tobytes()
    assert made.ptx("sm_80").count(f"cvt.rn.{lane.ptx}x2.f32") == count // 2
    assert "x2.f32" not in made.ptx("sm_75")
    assert made.compile("sm_80").cubin


@pytest.mark.parametrize(("vector", "lane"), [(f16x8, f16), (bf16x2, bf16), (f32x4, f32)], ids=repr)
def test_fused_and_other_functions_are_those_of_the_lanes(vector, lane, device):
    x, y = lanes(vector, 3), lanes(vector, 4)
    lines = ["out0[i] = a * b + a", "out1[i] = kaio.fma(a, b, 0.5)", "out2[i] = max(a, b, 0)", "out3[i] = abs(a)"]
    got = launched(lines, [(vector, x), (vector, y)], [vector] * 4, device)
    one, two = x.astype(np.float64), y.astype(np.float64)
    for found, want in zip(
        got, (one * two + one, one * two + 0.5, np.maximum(np.maximum(one, two), 0), abs(one)), strict=True
    ):
        if lane is f32:
            np.testing.assert_array_equal(found, want.astype(np.float32))
        else:
            np.testing.assert_array_equal(found, want.astype(lane.numpy))


@kaio.kernel
def takes_apart(x: In[f32x4], out: Out[f32x4], sums: Out[f32], scale: f32x4, n: i32):
    i = kaio.grid(1)
    if i < out.size:
        v = x[i]
        a, b, c, d = v
        total = f32x4(0.0)
        for _ in range(n):
            total = total + v * scale
        out[i] = f32x4(d, c, b, a) + total if a > 0 else total / 2
        sums[i] = v.x + v[1] + v[-1] + len(v)


def test_lanes_are_read_by_name_and_place_unpacked_and_made(device):
    x = lanes(f32x4, 5)
    out, sums = device.alloc_zeros(COUNT, f32x4), device.alloc_zeros(COUNT, f32)
    takes_apart.over(COUNT).launch(device.alloc_from(x).view(f32x4), out, sums, (1, 2, 3, 4), 2).wait()
    v, scale = x.reshape(-1, 4), np.array([1, 2, 3, 4], np.float32)
    total = (v * scale) * 2
    want = np.where(v[:, :1] > 0, v[:, ::-1] + total, total / 2)
    np.testing.assert_allclose(out.view(f32).to_host().reshape(-1, 4), want, rtol=1e-6)
    np.testing.assert_allclose(sums.to_host(), v[:, 0] + v[:, 1] + v[:, 3] + 4, rtol=1e-6)
    assert ".param .f32 scale_x" in takes_apart.ptx("sm_90")


def test_casts_between_vectors_and_types_that_meet():
    text = """
    @kernel
    def k(x: In[f32x4], n: In[i32x4], b: In[u8x4], d: In[f64x2], h: In[f16x2], f: In[f32x2], out: Out[f32x4]):
        p = n[0] / 2
        q = n[0] * 0.5
        r = x[0] + n[0]
        s = i32x4(x[0])
        t = f32x4(b[0])
        u = h[0] + f[0]
        v = d[0] * f[0]
        w = b[0] << 2
        y = u8x4(1, 2, 3, 4)
        z = n[0] ** 2
        out[0] = x[0]
    """
    found = types_of(kernel(text))
    want = {"p": "f32x4", "q": "f32x4", "r": "f32x4", "s": "i32x4", "t": "f32x4", "u": "f32x2", "v": "f64x2"}
    want |= {"w": "u8x4", "y": "u8x4", "z": "i32x4"}
    assert {name: found[name] for name in want} == want


def test_a_cast_converts_each_lane(device):
    x = np.array([1.9, -1.9, 300, math.nan] * 2, np.float32)
    whole, narrow = launched(["out0[i] = i32x4(a)", "out1[i] = u8x4(a)"], [(f32x4, x)], [i32x4, u8x4], device)
    assert whole.tolist() == [1, -1, 300, 0] * 2
    assert narrow.tolist() == [1, 0, 255, 0] * 2


def test_functions_take_and_give_vectors_and_tuples_are_stored(device):
    @kaio.func
    def rotated(v: f32x2, by):
        return f32x2(v.y, v.x) * by

    @kaio.kernel
    def k(x: InOut[f32x2]):
        i = kaio.grid(1)
        if i < x.size:
            v = rotated(x[i], 2)
            x[i] = (v.x, v.y + 1)

    x = device.alloc_from(np.arange(6, dtype=np.float32)).view(f32x2)
    k.over(3).launch(x).wait()
    assert x.view(f32).to_host().tolist() == [2, 1, 6, 5, 10, 9]


def test_a_captured_vector_is_constant(device):
    offset = f32x4(1, 2, 3, 4)

    @kaio.kernel
    def k(x: InOut[f32x4]):
        x[kaio.grid(1)] = offset * 2

    x = device.alloc_zeros(1, f32x4)
    k.over(1).block(1).launch(x).wait()
    assert x.view(f32).to_host().tolist() == [2, 4, 6, 8]


@pytest.mark.parametrize(
    ("body", "what", "way_out"),
    [
        (
            "d[0] = 1.0 if x[0] == x[1] else 0.0",
            "`f32x4 == f32x4`: vectors are not compared as a whole",
            "compare lanes: `v.x == w.x`",
        ),
        ("x[0] = 0.0", "float literal 0.0 cannot be stored in f32x4", "make it every lane: `kaio.f32x4(...)`"),
        (
            "x[0] = x[0] * d[0]",
            "`f32x4 * f64` would be f64x4, which there is not",
            "cast the number to the type of the lanes",
        ),
        ("x[0] = f32x4(1, 2)", "`f32x4` takes 4 numbers, or one for all lanes (got 2)", "for example `kaio.f32x4(0)`"),
        (
            "x[0] = x[0] + f32x2(1, 2)",
            "`f32x4 + f32x2`: vectors have the same number of lanes",
            "take them apart: `v.x`, `v[0]`",
        ),
        (
            "d[0] = x[0][i]",
            "f32x4 is indexed with an int literal",
            "numbers to choose from at run time are a buffer, for example `In[f32]`, or a `local_mem` array",
        ),
        ("d[0] = x[0][4]", "index 4 is out of range for f32x4 of 4", None),
        ("d[0] = x[0].a", "f32x4 has no attribute `a` in a kernel", "it has x, y, z, w"),
        ("a, b = x[0]", "f32x4 of 4 cannot be unpacked into 2 names", None),
        (
            "x[0] = (1, 2, 3)",
            "(int literal 1, int literal 2, int literal 3) cannot be stored in f32x4, which has 4 lanes",
            None,
        ),
        ("x[0] = x[0] & 1", "`f32 & int literal 1`: floats have no bitwise operators", "cast to an integer first"),
        ("d[0] = math.sin(x[0])", "an argument of `sin` is a number, not f32x4", None),
        (
            "kaio.atomic_add(x, 0, x[1])",
            "`atomic_add` on f32x4: its parts are several numbers, and one step updates one",
            "keep each part in a buffer of its own",
        ),
    ],
)
def test_what_vectors_cannot_do_is_told(body, what, way_out):
    (mistake,) = mistakes(f"@kernel\ndef k(x: InOut[f32x4], d: InOut[f64], i: i32):\n    {body}\n")
    assert (mistake.what, mistake.help) == (what, way_out)


# ---------------------------------------------------------------------- buffers and arguments
def test_a_buffer_of_numbers_is_seen_as_vectors_and_back(device):
    x = device.alloc_from(np.arange(24, dtype=np.float32).reshape(2, 12))
    seen = x.view(f32x4)
    assert (seen.shape, seen.dtype, seen.nbytes) == ((2, 3), f32x4, 96)
    assert seen.to_host()["z"].tolist() == [[2, 6, 10], [14, 18, 22]]
    assert x[:, 4:8].view(f32x2).to_host()["y"].tolist() == [[5, 7], [17, 19]]
    assert seen.view("f32").to_host().tolist() == x.to_host().tolist()
    assert device.alloc_from(seen.to_host()).dtype is f32x4


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (
            lambda x: x[:10].view(f32x4),
            "f32[10] cannot be seen as f32x4: the 40 bytes of its last axis are no multiple of 16",
        ),
        (lambda x: x[1:5].view(f32x4), "f32[4] cannot be seen as f32x4: it starts at no multiple of 16 bytes"),
        (lambda x: x[::2].view(f32x2), "f32[6] cannot be seen as f32x2: its last axis is not contiguous"),
        (lambda x: x[0].view(f32x2), "f32[] of no dimensions cannot be seen as f32x2, which has another size"),
        (
            lambda x: x.reshape(2, 6)[:, :4].view(f32x4),
            "f32[2, 4] cannot be seen as f32x4: its rows start at no multiple of 16 bytes",
        ),
    ],
)
def test_a_view_that_is_no_vectors_is_refused(make, text):
    with pytest.raises(kaio.KaioError) as caught:
        make(kaio.Device("cpu").alloc_zeros(12, f32))
    assert str(caught.value).splitlines()[0] == text


def test_vectors_fill_and_are_not_converted(device):
    x = device.alloc_zeros(2, f32x2)
    x.fill((1, 2.5)).wait()
    assert x.view(f32).to_host().tolist() == [1, 2.5, 1, 2.5]
    with pytest.raises(kaio.KaioError) as caught:
        x.fill((1, 2, 3))
    assert str(caught.value).startswith("the value to fill with must be a scalar of f32x2 (got (1, 2, 3))")
    with pytest.raises(kaio.KaioError) as caught:
        x.astype(f32)
    assert str(caught.value).startswith("elements of several parts are not converted to f32")


def test_a_vector_argument_is_checked_lane_by_lane():
    cpu = kaio.Device("cpu")
    buffers = [cpu.alloc_zeros(2, f32x4), cpu.alloc_zeros(2, f32x4), cpu.alloc_zeros(2, f32)]
    with pytest.raises(kaio.LaunchError) as caught:
        takes_apart.over(2).launch(*buffers, (1, 2, 3), 1)
    assert str(caught.value) == "argument `scale` of kernel `takes_apart` must be a scalar of f32x4 (got (1, 2, 3))"
    with pytest.raises(kaio.LaunchError) as caught:
        takes_apart.over(2).launch(*buffers, (1, 2, 3, 1e40), 1)
    assert "does not fit f32 (got 1e+40), in its part `w`" in str(caught.value)


def test_outside_a_kernel_a_vector_type_gives_the_numpy_scalar():
    made = f32x4(1, 2, 3, 4)
    assert made.dtype.names == ("x", "y", "z", "w")
    assert made["w"] == 4
    assert u8(i8x16.parts[0][1](3)) == 3
    assert f16x8(1.5)["e7"] == 1.5
    assert bf16x2(1).dtype["x"] == ml_dtypes.bfloat16
    with pytest.raises(TypeError, match="f32x4 takes 1 or 4 numbers"):
        f32x4(1, 2)
