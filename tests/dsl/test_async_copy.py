"""Copies into shared memory that go on while a thread computes."""

from __future__ import annotations

import re

import numpy as np
import pytest

import kaio
from kaio import D2, Const, In, KernelFault, Out, UnsupportedFeatureError, f32, f64, u8
from tests.dsl.from_text import kernel, mistakes

TILE = 64


@kaio.kernel
def sum_of_tiles(x: In[f32], out: Out[f32], stages: Const[int] = 2):
    """Each thread adds every 64th element; a tile is copied while those before it are added."""
    t = kaio.thread_idx.x
    tiles = kaio.shared_mem((stages, TILE), f32)
    count = x.size // TILE
    for k in kaio.unrolled(range(stages - 1)):
        if k < count and t < TILE // 4:
            kaio.cp_async(tiles, (k, 4 * t), x, k * TILE + 4 * t, 4)
        kaio.cp_async_commit()
    total = f32(0)
    for k in range(count):
        ahead = k + stages - 1
        if ahead < count and t < TILE // 4:
            kaio.cp_async(tiles, (ahead % stages, 4 * t), x, ahead * TILE + 4 * t, 4)
        kaio.cp_async_commit()
        kaio.cp_async_wait(stages - 1)
        kaio.bar_sync()
        total += tiles[k % stages, t]
        kaio.bar_sync()
    out[t] = total


@pytest.mark.parametrize("stages", [1, 2, 3])
@pytest.mark.parametrize("count", [1, 2, 7])
def test_a_pipeline_of_tiles_adds_what_numpy_adds(device, stages, count):
    x = np.random.default_rng(0).integers(0, 100, (count, TILE)).astype(np.float32)
    out = device.alloc_zeros(TILE, f32)
    sum_of_tiles.grid(1).block(TILE).launch(device.alloc_from(x.ravel()), out, stages).wait()
    np.testing.assert_array_equal(out.to_host(), x.sum(0))


@kaio.kernel
def of_every_size(a: In[f64, D2], b: In[f32], c: In[u8], out: Out[f64]):
    t = kaio.thread_idx.x
    wide = kaio.dynamic_shared("wide", f64)
    narrow = kaio.shared_mem(32, f32)
    bytes_ = kaio.shared_mem((2, 256), u8)
    kaio.cp_async(wide, t, a, (1, t), 1)
    kaio.cp_async(narrow, t, b, t, 1)
    kaio.cp_async(bytes_, (1, 8 * t), c, 8 * t, 8)
    kaio.cp_async_commit()
    kaio.cp_async_wait(0)
    kaio.bar_sync()
    out[t] = wide[31 - t] + narrow[31 - t] + bytes_[1, 8 * t + 7]


def test_four_eight_and_sixteen_bytes_of_any_type(device):
    rng = np.random.default_rng(1)
    a, b = rng.integers(0, 9, (2, 32)).astype(np.float64), rng.integers(0, 9, 32).astype(np.float32)
    c, out = rng.integers(0, 256, 256, np.uint8), device.alloc_zeros(32, f64)
    buffers = [device.alloc_from(array) for array in (a, b, c)]
    of_every_size.grid(1).block(32).shared(wide=32).launch(*buffers, out).wait()
    np.testing.assert_array_equal(out.to_host(), a[1, ::-1] + b[::-1] + c[7::8])


@kaio.kernel
def of_vectors(x: In[kaio.f32x4], out: Out[f32]):
    t = kaio.thread_idx.x
    tile = kaio.shared_mem(8, kaio.f32x4)
    kaio.cp_async(tile, t, x, 7 - t, 1)
    kaio.cp_async_commit()
    kaio.cp_async_wait(0)
    kaio.bar_sync()
    out[t] = tile[7 - t].w


def test_one_vector_is_sixteen_bytes(device):
    x = device.alloc_from(np.arange(32, dtype=np.float32).view(kaio.f32x4.numpy))
    out = device.alloc_zeros(8, f32)
    of_vectors.grid(1).block(8).launch(x, out).wait()
    assert out.to_host().tolist() == [4 * t + 3 for t in range(8)]
    assert "cp.async.cg.shared.global" in of_vectors.compile("sm_80").ptx


def test_the_instructions_are_those_of_ampere():
    program = of_every_size.compile("sm_80")
    assert program.cubin
    assert re.findall(r"cp\.async\.(\w+)\.shared\.global \[.*\], \[.*\], (\d+);", program.ptx) == [
        ("ca", "8"),
        ("ca", "4"),
        ("ca", "8"),
    ]
    assert "cp.async.cg.shared.global" in sum_of_tiles.compile("sm_80").ptx
    assert "cp.async.wait_group 1;" in sum_of_tiles.ptx("sm_80", stages=2)


@pytest.mark.parametrize("call", ["cp_async(s, 0, x, 0, 1)", "cp_async_commit()", "cp_async_wait(0)"])
def test_before_ampere_there_are_none(call):
    made = kernel(
        f"@kernel\ndef k(x: In[f32], y: Out[f32]):\n    s = shared_mem(4, f32)\n    {call}\n    y[0] = s[0]\n"
    )
    name = call.split("(")[0]
    with pytest.raises(UnsupportedFeatureError, match=f"`{name}` needs sm_80 or later"):
        made.ptx("sm_75")


def copied(call: str) -> str:
    text = "@kernel\ndef k(x: In[f32], y: Out[f32], n: i32, b: In[f64], z: In[f32, D1, Strided]):\n"
    return text + f"    s = shared_mem((4, 6), f32)\n    p = local_mem(4, f32)\n    {call}\n    y[0] = s[0, 0] + p[0]\n"


@pytest.mark.parametrize(
    ("call", "what", "way_out"),
    [
        ("cp_async(y, 0, x, 0, 1)", "`cp_async` copies into shared memory, and `y` is Out[f32]", "copy with `=`"),
        (
            "cp_async(p, 0, x, 0, 1)",
            "`cp_async` copies into shared memory, and `p` is local_mem((4,), f32)",
            "copy with `=`",
        ),
        (
            "cp_async(s, (0, 0), p, 0, 1)",
            "`cp_async` copies from a buffer, and `p` is local_mem((4,), f32)",
            "copy with `=`",
        ),
        ("cp_async(s, (0, 0), b, 0, 1)", "`cp_async` copies bytes, and `s` is of f32, `b` of f64", None),
        (
            "cp_async(s, (0, 0), z, 0, 1)",
            "elements that lie side by side are taken, and those of `z` may not: it is In[f32, D1, Strided]",
            "annotate it without `Strided`",
        ),
        (
            "cp_async(s, (0, 0), x, 0, 3)",
            "`cp_async` copies 4, 8 or 16 bytes, and 3 elements of f32 are 12",
            "copy 1 or 2 or 4 of them",
        ),
        (
            "cp_async(s, (0, 0), x, 0, n)",
            "`cp_async` copies a number of elements that is an int literal, not i32",
            None,
        ),
        ("cp_async(s, (0, 4), x, 0, 4)", "4 elements from index 4 on do not fit axis 1 of `s` (size 6)", None),
        (
            "cp_async(s, (1, 0), x, 0, 4)",
            "16 bytes at a time begin at a multiple of them, and this is byte 24 of `s`",
            None,
        ),
        (
            "cp_async(s, 0, x, 0, 1)",
            "`s` has 2 dimensions, and 1 index was given",
            "index every axis, for example `s[i, j]`",
        ),
        (
            "cp_async_wait(n)",
            "`cp_async_wait` takes an int literal from 0 on, not i32",
            "`cp_async_wait(0)` waits for all",
        ),
    ],
)
def test_what_the_hardware_does_not_copy_is_refused(call, what, way_out):
    (mistake,) = mistakes(copied(call))
    assert (mistake.what, mistake.help) == (what, way_out)


def launch(text: str, size: int, start: int = 0) -> None:
    cpu = kaio.Device("cpu")
    x = cpu.alloc_zeros(64, f32)[start : start + size]
    kernel(text).grid(1).block(4).launch(x, cpu.alloc_zeros(4, f32)).wait()


SOURCE = "@kernel\ndef k(x: In[f32], y: Out[f32]):\n    t = thread_idx.x\n    s = shared_mem({}, f32)\n"
SOURCE += "    cp_async(s, {}, x, {}, 4)\n    y[t] = s[t]\n"


def test_the_last_element_of_a_copy_is_checked_too():
    with pytest.raises(KernelFault) as caught:
        launch(SOURCE.format(16, "4 * t", "4 * t"), 13)
    assert "index 15 is out of range for axis 0 of `x` (size 13)" in str(caught.value)
    assert str(caught.value).endswith("help: guard the access, for example with `if 4 * t + 3 < x.size:`")
    with pytest.raises(KernelFault) as caught:
        launch(SOURCE.format(14, "4 * t", "4 * t"), 16)
    assert "index 15 is out of range for axis 0 of `s` (size 14)" in str(caught.value)
    assert str(caught.value).endswith("help: guard the access, for example with `if 4 * t + 3 < 14:`")


def test_a_place_that_is_not_aligned_is_a_fault():
    with pytest.raises(KernelFault, match="`cp_async` of 16 bytes comes from an address that is no multiple of 16"):
        launch(SOURCE.format(16, "4 * t", "4 * t"), 16, start=1)
    with pytest.raises(KernelFault, match="`cp_async` of 16 bytes goes to an address that is no multiple of 16"):
        launch(SOURCE.format(16, "2 * t", "4 * t"), 16)
