"""Loads and stores with hints to the caches, and volatile ones."""

from __future__ import annotations

import numpy as np
import pytest

import kaio
from kaio import D2, In, InOut, Out, c64, c128, f32, i32
from kaio.dtypes import DTYPES, DType
from kaio.vectors import VECTORS
from tests.dsl.from_text import kernel, message

LOADS = ("ca", "cg", "cs", "lu", "cv", "nc", "evict_first", "evict_last", "evict_unchanged", "no_allocate")
STORES = ("wb", "cg", "cs", "wt", "evict_first", "evict_last", "evict_unchanged", "no_allocate")
PLAIN = [dtype for dtype in DTYPES if dtype.kind in "biuf"]


def qualifier(hint: str) -> str:
    return f"L1::{hint}" if "_" in hint else hint


def copy(load: str, store: str, dtype: DType = f32) -> kaio.Kernel:
    text = f"@kernel\ndef k(x: In[{dtype!r}], y: Out[{dtype!r}]):\n    i = grid(1)\n    if i < x.size:\n"
    return kernel(text + f"        store(y, i, load(x, i{load}){store})\n")


@pytest.mark.parametrize("hint", LOADS)
def test_a_hint_to_a_load_is_its_qualifier(hint):
    made = copy(f", cache={hint!r}", "")
    assert f"ld.global.{qualifier(hint)}.f32" in made.ptx("sm_75")
    assert made.compile("sm_75").cubin


@pytest.mark.parametrize("hint", STORES)
def test_a_hint_to_a_store_is_its_qualifier(hint):
    made = copy("", f", cache={hint!r}")
    assert f"st.global.{qualifier(hint)}.f32" in made.ptx("sm_75")
    assert made.compile("sm_75").cubin


@pytest.mark.parametrize("dtype", PLAIN, ids=repr)
def test_every_type_of_element_goes_through_unchanged(dtype, device):
    given = np.random.default_rng(0).integers(0, 2 if dtype.kind == "b" else 256, 64 * dtype.itemsize, np.uint8)
    for made in (copy(', cache="cg"', ', cache="wt"', dtype), copy("", ", volatile=True", dtype), copy("", "", dtype)):
        x, y = device.alloc_from(given.view(dtype.numpy)), device.alloc_zeros(64, dtype)
        made.over(64).launch(x, y).wait()
        assert y.to_host().tobytes() == given.tobytes()
        assert made.compile("sm_75").cubin


def test_without_hints_they_are_those_of_an_index():
    plain = kernel(
        "@kernel\ndef k(x: In[f32], y: Out[f32]):\n    i = grid(1)\n    if i < x.size:\n        y[i] = x[i]\n"
    )
    body, same = (made.ptx("sm_90").partition("\n.visible")[2].split("\t.file")[0] for made in (plain, copy("", "")))
    assert [line for line in body.splitlines() if ".loc" not in line] == [
        line for line in same.splitlines() if ".loc" not in line
    ]


@kaio.kernel
def in_two_axes(x: In[f32, D2], y: InOut[i32, D2]):
    col, row = kaio.grid(2)
    if row < x.shape[0] and col < x.shape[1]:
        kaio.store(y, (row, col), 3, cache="cs")
        kaio.store(y, (row, -1), i32(kaio.load(x, (row, col), cache="cs")) + kaio.load(y, (row, col), volatile=True))


def test_indices_of_several_axes_are_tuples_and_literals_fit(device):
    x, y = device.alloc_from(np.ones((2, 1), np.float32)), device.alloc_zeros((2, 1), i32)
    in_two_axes.over((2, 1)).launch(x, y).wait()
    assert y.to_host().tolist() == [[4], [4]]


@kaio.kernel
def handed_on(y: Out[i32]):
    s = kaio.shared_mem(32, i32)
    t = kaio.thread_idx.x
    kaio.store(s, t, 31 - t, volatile=True)
    kaio.bar_sync()
    y[t] = kaio.load(s, kaio.load(s, t, volatile=True), volatile=True)


def test_volatile_reaches_shared_memory(device):
    y = device.alloc_zeros(32, i32)
    handed_on.grid(1).block(32).launch(y).wait()
    assert y.to_host().tolist() == list(range(32))
    ptx = handed_on.ptx("sm_75")
    assert (ptx.count("ld.volatile.shared.b32"), ptx.count("st.volatile.shared.b32")) == (2, 1)


@kaio.kernel
def wait_for_a_flag(flag: InOut[i32], seen: Out[i32]):
    if kaio.block_idx.x == 0:
        while kaio.load(flag, 0, volatile=True) == 0:
            pass
        seen[0] = kaio.load(flag, 1, volatile=True)
    else:
        kaio.store(flag, 1, 42, volatile=True)
        kaio.fence()
        kaio.store(flag, 0, 1, volatile=True)


def test_a_volatile_load_in_a_loop_is_made_each_time():
    assert wait_for_a_flag.compile("sm_90").cubin
    ptx = wait_for_a_flag.ptx("sm_90")
    head = ptx.index("ld.volatile.global.b32")
    assert "bra" in ptx[head : head + 200]
    assert "load atomic i32" in str(wait_for_a_flag.llvm("cpu"))


@pytest.mark.gpu
def test_one_block_sees_the_flag_that_another_sets():
    device = kaio.Device("cuda:0")
    flag, seen = device.alloc_zeros(2, i32), device.alloc_zeros(1, i32)
    wait_for_a_flag.grid(2).block(1).launch(flag, seen).wait(timeout_s=20)
    assert seen.to_host().tolist() == [42]


def refused(call: str) -> str:
    """What is said of a call beside buffers, a shared and a local array."""
    text = "@kernel\ndef k(x: In[f32], y: InOut[f32], z: In[f32, D1, Strided], n: InOut[i32]):\n    i = grid(1)\n"
    text += f"    s, p = shared_mem(4, f32), local_mem(4, f32)\n    p[i] = s[i]\n    {call}\n"
    return message(text)


# ---------------------------------------------------------------------- several elements at once
WIDE = [c64, c128, *VECTORS]


def through(dtype: DType) -> kaio.Kernel:
    part, count = dtype.parts[0][1], len(dtype.parts)
    text = f"@kernel\ndef k(x: In[{part!r}], y: Out[{part!r}]):\n    i = {count} * grid(1)\n"
    text += f"    s = shared_mem({64 * count}, {part!r})\n    store(s, i, load(x, i, {dtype!r}))\n"
    return kernel(text + f"    store(y, i, load(s, i, {dtype!r}))\n")


@pytest.mark.parametrize("dtype", WIDE, ids=repr)
def test_several_elements_are_one_access(dtype, device):
    given = np.random.default_rng(0).integers(0, 256, 64 * dtype.itemsize, np.uint8)
    part = dtype.parts[0][1]
    made = through(dtype)
    x, y = device.alloc_from(given.view(part.numpy)), device.alloc_zeros(64 * len(dtype.parts), part)
    made.grid(1).block(64).launch(x, y).wait()
    assert y.to_host().tobytes() == given.tobytes()
    assert made.compile("sm_75").cubin


def test_the_accesses_are_those_of_vectors():
    ptx = through(c64).ptx("sm_90")
    assert "ld.global.nc.v2.f32" in ptx
    assert "st.shared.v2.f32" in ptx
    assert "st.global.v2.f32" in ptx


@kaio.kernel
def hinted(x: In[f32], y: Out[f32]):
    i = 2 * kaio.grid(1)
    kaio.store(y, i, kaio.load(x, i, c64, cache="cs"), cache="wt")


def test_hints_go_with_several_elements(device):
    x, y = device.alloc_from(np.arange(8, dtype=np.float32)), device.alloc_zeros(8, f32)
    hinted.grid(1).block(4).launch(x, y).wait()
    assert y.to_host().tolist() == list(range(8))
    program = hinted.compile("sm_75")
    assert program.cubin
    assert "ld.global.cs.v2.f32 {" in program.ptx
    assert "st.global.wt.v2.f32 [" in program.ptx


def test_the_last_of_several_is_checked_and_where_they_begin():
    cpu = kaio.Device("cpu")
    y = cpu.alloc_zeros(8, f32)
    with pytest.raises(kaio.KernelFault) as caught:
        hinted.grid(1).block(4).launch(cpu.alloc_zeros(7, f32), y).wait()
    assert "index 7 is out of range for axis 0 of `x` (size 7)" in str(caught.value)
    with pytest.raises(kaio.KernelFault, match="`load` of c64 at an address that is no multiple of 8"):
        hinted.grid(1).block(3).launch(cpu.alloc_zeros(7, f32)[1:], cpu.alloc_zeros(8, f32)).wait()


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (
            "load(x, i, c128)",
            "`load` gives an element of `x`, or a type that is made of several; c128 is not made of f32",
        ),
        ("load(x, i, 4)", "`load` gives an element of `x`, or a type that is made of several; 4 is not made of f32"),
        ("load(y, i, c64, volatile=True)", "c64 is not read or written in one step that others see whole"),
        ("load(z, i, c64)", "elements that lie side by side are taken, and those of `z` may not"),
        ("load(s, 3, c64)", "2 elements from index 3 on do not fit axis 0 of `s` (size 4)"),
        ("load(s, 1, c64)", "8 bytes at a time begin at a multiple of them, and this is byte 4 of `s`"),
    ],
)
def test_what_cannot_be_read_at_once_is_refused(call, told):
    assert refused(call).startswith(told)


def test_who_asks_for_another_type_is_shown_the_widest_of_the_elements():
    source = "@kernel\ndef k(x: In[{}], y: Out[f32]):\n    v = load(x, 0, {})\n    y[0] = 1.0\n"
    assert message(source.format("f32", "f64")).endswith("help: for example `load(x, 4 * i, kaio.f32x4)`")
    assert message(source.format("u8", "u32")).endswith("help: for example `load(x, 16 * i, kaio.u8x16)`")
    assert message(source.format("bool_", "u32")).endswith("help: leave the dtype out")


@kaio.kernel
def doubled(x: In[f32], y: Out[f32]):
    i = 4 * kaio.grid(1)
    if i + 3 < x.size:
        kaio.store(y, i, 2.0 * kaio.load(x, i, kaio.f32x4))
    else:
        for k in range(i, x.size):
            y[k] = 2.0 * x[k]


@pytest.mark.parametrize("size", [1, 4, 7, 64])
def test_four_at_a_time_with_a_ragged_end(device, size):
    x, y = device.alloc_from(np.arange(size, dtype=np.float32)), device.alloc_zeros(size, f32)
    doubled.over(-(-size // 4)).block(32).launch(x, y).wait()
    assert y.to_host().tolist() == [2 * k for k in range(size)]
    ptx = doubled.ptx("sm_90")
    assert "ld.global.nc.v4.f32" in ptx
    assert "st.global.v4.f32" in ptx


def test_an_index_is_checked():
    made = kernel("@kernel\ndef k(x: In[f32], y: Out[f32]):\n    i = grid(1)\n    y[0] = load(x, i, cache='cg')\n")
    cpu = kaio.Device("cpu")
    with pytest.raises(kaio.KernelFault, match=r"index 2 is out of range for axis 0 of `x` \(size 2\)"):
        made.grid(1).block(3).launch(cpu.alloc_zeros(2, f32), cpu.alloc_zeros(1, f32)).wait()


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ('load(x, i, cache="cq")', "'cq' is no hint to the caches that `load` knows"),
        ('store(y, i, 1.0, cache="lu")', "'lu' is no hint to the caches that `store` knows"),
        ('load(y, i, cache="nc")', '"nc" reads memory that nobody writes, and `y` is no `In`'),
        ('load(y, i, cache="cg", volatile=True)', "a volatile access goes past all caches"),
        ("load(x, i, volatile=True)", "`x` is an `In` buffer, which nobody writes while the kernel runs"),
        ('load(s, i, cache="cg")', "there is no cache between a thread and shared memory, as `s` is"),
        ("load(p, i, volatile=True)", "`p` is local memory, which no other thread writes"),
        ("load(y, i, volatile=i > 0)", "`volatile=` of `load` is known when compiling, and `i > 0` is not"),
        ("load(y, i, volatile=1)", "whether `load` is volatile is True or False, not 1"),
        ("store(x, i, 1.0)", "`x` is an `In` buffer, which a kernel only reads"),
        ("store(n, i, x[0])", "f32 is stored in i32 only with a cast"),
    ],
)
def test_what_means_nothing_is_refused(call, told):
    assert refused(call).startswith(told)
