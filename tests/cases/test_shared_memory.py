"""Shared memory that is sized at launch, and the line of 48 KiB; the numbers are those of the case list."""

from __future__ import annotations

import numpy as np
import pytest

import kaio
from kaio import Const, InOut, LaunchError, Out, f32, f64, i32, u8
from tests.refusals import refusal


@kaio.kernel
def split(out: Out[f32]):
    f = kaio.dynamic_shared("f", f32)
    n = kaio.dynamic_shared("n", i32)
    fixed = kaio.shared_mem(4, i32)
    t = kaio.thread_idx.x
    f[t] = t * 0.5
    n[t] = t
    fixed[t] = 100 + t
    kaio.bar_sync()
    out[t] = f[t] + n[t] + fixed[t]


@kaio.kernel
def split_the_other_way_round(out: Out[f32]):
    fixed = kaio.shared_mem(4, i32)
    n = kaio.dynamic_shared("n", i32)
    f = kaio.dynamic_shared("f", f32)
    t = kaio.thread_idx.x
    n[t] = t
    f[t] = t * 0.5
    fixed[t] = 100 + t
    kaio.bar_sync()
    out[t] = f[t] + n[t] + fixed[t]


@kaio.kernel
def would_alias(out: Out[f32]):
    f = kaio.dynamic_shared("f", f32)
    n = kaio.dynamic_shared("n", i32)
    f[0] = 3.0
    n[0] = 1
    out[0] = f[0]


@pytest.mark.parametrize("made", [split, split_the_other_way_round])
def test_b24_arrays_of_several_names_are_disjoint(made, device):
    out = device.alloc_zeros(4, f32)
    made.grid(1).block(4).shared(f=4, n=4).launch(out).wait()
    assert out.to_host().tolist() == [100.0, 102.5, 105.0, 107.5]


def test_b24_a_store_to_one_leaves_the_other(device):
    out = device.alloc_zeros(1, f32)
    would_alias.grid(1).block(1).shared(f=1, n=1).launch(out).wait()
    assert out.to_host().tolist() == [3.0]


@pytest.mark.parametrize("made", [split, split_the_other_way_round, would_alias], ids=lambda made: made.name)
def test_b24_arrays_of_several_names_do_not_race(made):
    out = kaio.Device("cpu", check="full").alloc_zeros(4, f32)
    block = 1 if made is would_alias else 4
    made.grid(1).block(block).shared(f=4, n=4).launch(out).wait()
    assert out.to_host().any()


@kaio.kernel
def mixed(out: InOut[f64]):
    byte = kaio.dynamic_shared("byte", u8)
    wide = kaio.dynamic_shared("wide", f64)
    t = kaio.thread_idx.x
    wide[t] = out[t]
    if t < byte.size:
        byte[t] = u8(200 + t)
    kaio.bar_sync()
    out[t] = wide[wide.size - 1 - t] + byte[t % byte.size]


@pytest.mark.parametrize("count", [1, 3, 15, 16, 17])
def test_b24_an_array_of_bytes_does_not_misalign_the_next(device, count):
    out = device.alloc_from(np.arange(32.0))
    mixed.grid(1).block(32).shared(byte=count, wide=32).launch(out).wait()
    assert out.to_host().tolist() == [31 - t + 200 + t % count for t in range(32)]


@kaio.kernel
def dyn(out: Out[f32]):
    s = kaio.dynamic_shared("s", f32)
    t = kaio.thread_idx.x
    if s.size:
        s[s.size - 1 - t] = t
    kaio.bar_sync()
    if t == 0:
        out[0] = s.size
        out[1] = len(s) + s.shape[0]


@kaio.kernel
def dyn_beside_static(out: Out[f32]):
    s = kaio.dynamic_shared("s", f32)
    fixed = kaio.shared_mem(1, i32)
    fixed[0] = 7
    s[s.size - 1] = 1.0
    out[0] = s.size
    out[1] = fixed[0] + s[s.size - 1]


def most(device: kaio.Device) -> int:
    return device.limits.shared_nbytes_optin


@pytest.mark.parametrize("nbytes", [0, 4, 49148, 49152, 49156, 65536, -4, -1024])
def test_b25_dynamic_memory_up_to_the_limit_of_the_device(device, nbytes):
    if nbytes < 0:
        nbytes += most(device)
    out = device.alloc_zeros(2, f32)
    dyn.grid(1).block(1).shared(s=nbytes // 4).launch(out).wait()
    assert out.to_host().tolist() == [nbytes // 4, nbytes // 2]


def test_b25_the_very_limit_works_and_one_element_more_is_refused(device):
    out, limit = device.alloc_zeros(2, f32), most(device)
    dyn.grid(1).block(1).shared(s=limit // 4).launch(out).wait()
    assert out.to_host()[0] == limit // 4
    assert refusal(dyn.grid(1).block(1).shared(s=limit // 4 + 1).launch, out) == (
        f"kernel `dyn` needs {limit + 4} bytes of shared memory for a block ({limit + 4} for `s`), "
        f"but {device} has at most {limit}\n  help: ask for fewer elements"
    )


def test_b25_static_arrays_count_too(device):
    out, limit = device.alloc_zeros(2, f32), most(device)
    dyn_beside_static.grid(1).block(1).shared(s=limit // 4 - 4).launch(out).wait()
    assert out.to_host().tolist() == [limit // 4 - 4, 8.0]
    assert refusal(dyn_beside_static.grid(1).block(1).shared(s=limit // 4 - 3).launch, out) == (
        f"kernel `dyn_beside_static` needs {limit + 4} bytes of shared memory for a block "
        f"(4 static, {limit - 12} for `s`), but {device} has at most {limit}\n"
        f"  help: beside the static arrays there are {limit - 16} bytes"
    )


def test_b25_the_limit_is_that_of_the_gpu_imitated():
    device = kaio.Device("cpu", like="sm_86")
    out = device.alloc_zeros(2, f32)
    dyn.grid(1).block(1).shared(s=99 * 256).launch(out).wait()
    with pytest.raises(LaunchError, match="has at most 101376"):
        dyn.grid(1).block(1).shared(s=99 * 256 + 1).launch(out)


@kaio.kernel
def ends_of_two_rows(out: InOut[f32], columns: Const[int]):
    s = kaio.shared_mem((2, columns), f32)
    t = kaio.thread_idx.x
    last = columns - 4
    s[0, t] = out[t]
    s[1, t + last] = out[t]
    kaio.bar_sync()
    out[t] = s[0, t] + s[1, t + last]


@kaio.kernel
def two_large_ones(out: InOut[f32]):
    d = kaio.dynamic_shared("d", f32)
    s = kaio.shared_mem(12000, f32)
    r = kaio.shared_mem((100, 100), i32)
    t = kaio.thread_idx.x
    s[11999 - t] = out[t]
    r[99, 99 - t] = t
    d[t] = 0.5
    kaio.bar_sync()
    out[t] = s[11999 - t] + r[99, 99 - t] + d[t]


@pytest.mark.parametrize("columns", [6144, 6145], ids=["48_kib", "eight_bytes_more"])
def test_b25_static_arrays_of_48_kib_and_more_work(device, columns):
    x = device.alloc_from(np.arange(4, dtype=np.float32))
    ends_of_two_rows.grid(1).block(4).launch(x, columns).wait()
    assert x.to_host().tolist() == [0, 2, 4, 6]


def test_b25_large_static_arrays_lie_before_the_dynamic_ones(device):
    x = device.alloc_from(np.arange(4, dtype=np.float32))
    bound = two_large_ones.grid(1).block(4).shared(d=4).bind(x)
    bound.launch().wait()
    assert x.to_host().tolist() == [0.5, 2.5, 4.5, 6.5]
    bound.launch().wait()
    assert x.to_host().tolist() == [1.0, 4.0, 7.0, 10.0]


@kaio.kernel
def too_large(out: InOut[f32]):
    s = kaio.shared_mem(60000, f32)
    s[0] = out[0]
    out[0] = s[0]


def test_b25_static_arrays_over_the_limit_of_the_device_are_refused_before_the_launch():
    device = kaio.Device("cpu")
    assert refusal(too_large.grid(1).block(1).launch, device.alloc_zeros(4, f32)) == (
        "kernel `too_large` needs 240000 bytes of shared memory for a block (240000 static), "
        "but cpu has at most 232448\n  help: make its `shared_mem` arrays smaller"
    )


def test_a_launch_without_sizes_says_what_to_write():
    out = kaio.Device("cpu").alloc_zeros(4, f32)
    assert refusal(split.grid(1).block(4).launch, out) == (
        "kernel `split` is launched without the size of its dynamic shared arrays `f` and `n`\n"
        "  help: give the elements before the launch: `.shared(f=…, n=…)`"
    )
    assert refusal(split.grid(1).shared(n=4).bind, out) == (
        "kernel `split` is launched without the size of its dynamic shared array `f`\n"
        "  help: give the elements before the launch: `.shared(f=…, n=4)`"
    )


def test_a_size_of_no_array_is_refused():
    device = kaio.Device("cpu")
    out = device.alloc_zeros(4, f32)
    assert refusal(dyn.grid(1).shared(s=4, tile=3).launch, out) == (
        "kernel `dyn` has no dynamic shared array `tile`\n  help: it has `s`"
    )
    assert refusal(ends_of_two_rows.grid(1).shared(tile=3).launch, out, 4) == (
        "kernel `ends_of_two_rows` has no dynamic shared array `tile`\n"
        '  help: declare it in the kernel: `kaio.dynamic_shared("tile", kaio.f32)`'
    )


@pytest.mark.parametrize(
    ("count", "wanted"),
    [
        (-1, "must be at least 0 (got -1)"),
        (2.0, "counts elements, a whole number (got 2.0)\n  help: divide with `//`"),
        (True, "counts elements, a whole number (got True)\n  help: for example `.shared(f=256)`"),
        ("4", "counts elements, a whole number (got '4')\n  help: for example `.shared(f=256)`"),
    ],
)
def test_a_size_that_is_no_whole_number_is_refused(count, wanted):
    assert refusal(split.grid(1).shared, f=count) == f"`shared(f=…)` of kernel `split` {wanted}"


def test_sizes_larger_than_any_number_of_the_launch_are_refused():
    out = kaio.Device("cpu").alloc_zeros(4, f32)
    assert "needs 4611686018427387904 bytes" in refusal(dyn.grid(1).shared(s=2**60).launch, out)


def test_sizes_are_part_of_the_builder():
    made = split.grid(1).block(4).shared(f=np.int64(2)).shared(n=3, f=4)
    assert repr(made) == "split.grid(1).block(4).shared(f=4, n=3)"
    assert split.shared(f=1).__class__ is made.__class__


def test_an_index_past_the_size_of_the_launch_is_found():
    out = kaio.Device("cpu").alloc_zeros(4, f32)
    with pytest.raises(kaio.KernelFault, match=r"index 3 is out of range for axis 0 of `f` \(size 3\)"):
        split.grid(1).block(4).shared(f=3, n=4).launch(out).wait()


@kaio.func
def tile():
    return kaio.dynamic_shared("tile", f32)


@kaio.kernel
def one_name_twice(out: InOut[f32]):
    t = kaio.thread_idx.x
    a = tile()
    b = kaio.dynamic_shared("tile", f32)
    a[t] = out[t]
    kaio.bar_sync()
    out[t] = b[b.size - 1 - t]


def test_one_name_is_one_array_also_in_device_functions(device):
    x = device.alloc_from(np.arange(4, dtype=np.float32))
    one_name_twice.grid(1).block(4).shared(tile=4).launch(x).wait()
    assert x.to_host().tolist() == [3, 2, 1, 0]


@kaio.func
def larger_by_weight(a, b):
    weights = kaio.dynamic_shared("weights", f32)
    return a if a * weights[0] > b * weights[0] else b


@kaio.kernel
def in_a_function_of_a_reduction(out: InOut[f32]):
    t = kaio.thread_idx.x
    if t == 0:
        kaio.dynamic_shared("weights", f32)[0] = -1.0
    kaio.bar_sync()
    out[t] = kaio.warp_reduce(out[t], larger_by_weight)


def test_a_function_given_to_a_reduction_may_name_one(device):
    x = device.alloc_from(np.arange(5, 37, dtype=np.float32))
    in_a_function_of_a_reduction.grid(1).block(32).shared(weights=1).launch(x).wait()
    assert x.to_host().tolist() == [5.0] * 32


@kaio.kernel
def one_name_two_dtypes(out: InOut[f32]):
    a = kaio.dynamic_shared("tile", f32)
    b = kaio.dynamic_shared("tile", i32)
    a[0] = out[0]
    b[0] = 1


def test_one_name_of_two_dtypes_is_refused():
    with pytest.raises(kaio.KernelTypeError) as caught:
        one_name_two_dtypes.compile("cpu")
    assert str(caught.value).startswith("the dynamic shared array `tile` is of i32 here, and of f32 elsewhere\n")
    assert str(caught.value).endswith("help: give the two different names")
