"""Strided, broadcast, reversed, Fortran-order, read-only and huge buffers; the numbers are those of the case list."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kaio
from kaio import D0, D1, D2, D3, In, InOut, KernelFault, Out, Strided, f32, f64, i8, i32, i64
from tests.refusals import refusal


@kaio.kernel
def plus(x: In[f64, D2, Strided], y: Out[f64, D2, Strided]):
    j, i = kaio.grid(2)
    if i < x.shape[0] and j < x.shape[1]:
        y[i, j] = x[i, j] + 1


@kaio.kernel
def plus_contiguous(x: In[f64, D2], y: Out[f64, D2]):
    j, i = kaio.grid(2)
    if i < x.shape[0] and j < x.shape[1]:
        y[i, j] = x[i, j] + 1


@kaio.kernel
def scalar(x: InOut[i32, D0, Strided], y: InOut[i32, D0]):
    x[()] += y[()]


def base() -> np.ndarray:
    return np.arange(24.0).reshape(4, 6)


VIEWS = {
    "whole": lambda x: x,
    "transposed": lambda x: x.T,
    "stepped": lambda x: x[::2, 1::2],
    "reversed": lambda x: x[:, ::-1],
    "turned": lambda x: x[::-1, ::-2],
    "one_row": lambda x: x[1:2],
    "empty": lambda x: x[2:2],
}
FORTRAN = {**VIEWS, "fortran": np.asfortranarray, "broadcast": lambda x: np.broadcast_to(x[0], (3, 6))}


@pytest.mark.parametrize("view", FORTRAN.values(), ids=FORTRAN)
def test_b32_arrays_of_any_layout_are_used_in_place(view):
    cpu, parent = kaio.Device("cpu"), base()
    x = view(parent)
    y = cpu.alloc_zeros(x.shape, f64)
    plus.over(x.shape).launch(cpu.import_array(x), y).wait()
    np.testing.assert_array_equal(y.to_host(), x + 1)
    np.testing.assert_array_equal(parent, base())


@pytest.mark.parametrize("name", [name for name in VIEWS if name != "transposed"])  # a buffer has no `T`
def test_b32_views_of_a_buffer_are_used_in_place_and_leave_the_gaps(device, name):
    view = VIEWS[name]
    parent, target = device.alloc_from(base()), device.alloc_from(base())
    x, y = view(parent), view(target)
    plus.over(x.shape).launch(x, y).wait()
    wanted = base()
    view(wanted)[...] += 1
    np.testing.assert_array_equal(target.to_host(), wanted)
    np.testing.assert_array_equal(y.to_host(), view(base()) + 1)
    np.testing.assert_array_equal(parent.to_host(), base())


def test_b32_c_data_into_a_fortran_buffer_and_back(device):
    whole = device.alloc_zeros((6, 4), f64)
    columns = device.import_array(kaio_transposed(whole))
    columns.copy_from(base())
    np.testing.assert_array_equal(columns.to_host(), base())
    np.testing.assert_array_equal(whole.to_host(), base().T)


def kaio_transposed(buffer):
    """What another library's `x.T` of the memory of a buffer is."""
    if buffer.device.kind == "cpu":
        return np.from_dlpack(buffer).T
    return pytest.importorskip("torch").from_dlpack(buffer).T


def test_b32_arrays_of_other_libraries_sliced_there(device):
    x, y = device.alloc_from(base()), device.alloc_zeros((6, 4), f64)
    plus.over((6, 4)).launch(device.import_array(kaio_transposed(x)), y).wait()
    np.testing.assert_array_equal(y.to_host(), base().T + 1)


def test_b32_a_contiguous_parameter_tells_both_ways_out(device):
    x, y = device.alloc_from(base()), device.alloc_zeros((4, 3), f64)
    assert refusal(plus_contiguous.over(y.shape).launch, x[:, ::2], y) == (
        "argument `x` of kernel `plus_contiguous` must be C-contiguous (got f64[4, 3] with strides (48, 16))\n"
        "  help: copy it with `x.copy()`, or annotate `x: In[f64, D2, Strided]`"
    )
    plus_contiguous.over(y.shape).launch(x[:, ::2].copy(), y).wait()
    np.testing.assert_array_equal(y.to_host(), base()[:, ::2] + 1)


def test_b32_an_output_whose_elements_lie_over_one_another_is_refused():
    cpu = kaio.Device("cpu")
    x = cpu.alloc_from(base())
    row = np.zeros(6)
    over = np.lib.stride_tricks.as_strided(row, (4, 6), (0, 8))
    assert refusal(plus.over(x.shape).launch, x, cpu.import_array(over)) == (
        "argument `y` of kernel `plus` is Out, but its elements lie over one another "
        "(strides (0, 8) for shape (4, 6))\n  help: pass a copy: `y.copy()`"
    )
    windows = np.lib.stride_tricks.as_strided(np.zeros(9), (4, 6), (8, 8))
    assert "lie over one another (strides (8, 8)" in refusal(plus.over(x.shape).launch, x, cpu.import_array(windows))
    assert not row.any()


def test_b32_a_stride_that_is_no_multiple_of_the_element_is_refused():
    records = np.zeros((2, 3), [("a", "f8"), ("b", "f4")])
    cpu = kaio.Device("cpu")
    y = cpu.alloc_zeros((2, 3), f64)
    assert refusal(plus.over(y.shape).launch, cpu.import_array(records["a"]), y) == (
        "argument `x` of kernel `plus` has a stride of 36 bytes along axis 0, "
        "which is no multiple of the 8 of its f64\n  help: pass a copy: `x.copy()`"
    )


def test_an_array_that_is_not_aligned_is_copied_and_not_used_in_place():
    cpu, shifted = kaio.Device("cpu"), np.zeros(40, np.uint8)[4:36].view(np.float64)
    shifted[:] = range(4)
    assert refusal(cpu.import_array, shifted, error=kaio.KaioError) == (
        "an array of f64 that begins at no multiple of 8 bytes cannot be used in place\n"
        "  help: copy it: `device.alloc_from(…)`"
    )
    assert cpu.alloc_from(shifted).to_host().tolist() == [0, 1, 2, 3]


def test_b32_interleaved_views_do_not_overlap_and_shifted_ones_do(device):
    whole = device.alloc_from(base())
    plus.over((4, 3)).launch(whole[:, ::2], whole[:, 1::2]).wait()
    wanted = base()
    wanted[:, 1::2] = wanted[:, ::2] + 1
    np.testing.assert_array_equal(whole.to_host(), wanted)
    told = refusal(plus.over((4, 2)).launch, whole[:, 0:4:2], whole[:, 2:6:2])
    assert told.startswith("arguments `x` and `y` of kernel `plus` overlap in the same memory, and `y` is Out\n")


@st.composite
def layouts(draw):
    """An array of one to seven rows and columns in either order, sliced with steps of both signs."""
    shape = draw(st.tuples(*[st.integers(1, 7)] * 2))
    array = np.arange(float(shape[0] * shape[1])).reshape(shape, order=draw(st.sampled_from("CF")))
    array = array[tuple(draw(st.slices(size)) for size in shape)]
    return array.T if draw(st.booleans()) else array


@given(layouts(), layouts())
def test_b32_any_layout_reads_and_writes_as_numpy(x, y):
    shape = tuple(map(min, x.shape, y.shape))
    x, y = x[: shape[0], : shape[1]], y.copy(order="K")[: shape[0], : shape[1]]
    cpu, wanted = kaio.Device("cpu"), x + 1
    plus.over(shape).launch(cpu.import_array(x), cpu.import_array(y)).wait()
    np.testing.assert_array_equal(y, wanted)


@kaio.kernel
def strides_of(x: In[f64, D2, Strided], y: In[i8, D3], out: Out[i64]):
    s = kaio.shared_mem((2, 5), f32)
    out[0] = x.strides[0]
    out[1] = x.strides[1]
    out[2] = y.strides[0]
    out[3] = y.strides[2]
    out[4] = s.strides[0]


def test_strides_are_in_bytes_as_those_of_numpy(device):
    x, y, out = device.alloc_from(base())[::-2, 1::3], device.alloc_zeros((2, 3, 4), i8), device.alloc_zeros(5, i64)
    strides_of.grid(1).block(1).launch(x, y, out).wait()
    assert out.to_host().tolist() == [*x.strides, y.strides[0], y.strides[2], 20] == [-96, 24, 12, 1, 20]


def test_an_index_is_checked_against_the_shape_of_a_strided_buffer():
    @kaio.kernel
    def past_the_end(x: InOut[f64, D2, Strided]):
        x[0, kaio.grid(1)] = 1.0

    whole, cpu = base(), kaio.Device("cpu")
    with pytest.raises(KernelFault, match=r"index 3 is out of range for axis 1 of `x` \(size 3\)"):
        past_the_end.grid(1).block(6).launch(cpu.import_array(whole[:, ::2])).wait()
    assert whole[0].tolist() == [1, 1, 1, 3, 1, 5]


@kaio.kernel
def count_into(x: In[i32, D1, Strided], counts: InOut[i32, D1, Strided]):
    i = kaio.grid(1)
    own = kaio.dynamic_shared("own", i32)
    if i < own.size:
        own[i] = 0
    kaio.bar_sync()
    if i < x.size:
        kaio.atomic_add(own, x[i], 1)
    kaio.bar_sync()
    if i < own.size:
        kaio.atomic_add(counts, i, own[i])


def test_atomic_updates_of_strided_buffers_and_of_memory_sized_at_launch(device):
    x, counts = np.array([0, 9, 2, 9, 2, 9, 2, 9], np.int32), device.alloc_zeros(7, i32)
    launched = count_into.grid(1).block(32).shared(own=3)
    launched.launch(device.alloc_from(x)[::2], counts[6::-3]).wait()
    assert counts.to_host().tolist() == [3, 0, 0, 0, 0, 0, 1]
    ptx = count_into.ptx("sm_90")
    assert (ptx.count("red.shared.add.u32"), ptx.count("red.global.add.u32")) == (1, 1)


def test_b28_buffers_of_no_dimensions_may_be_strided(device):
    numbers = device.alloc_from(np.arange(5, dtype=np.int32))
    scalar.grid(1).block(1).launch(numbers[3], numbers[1]).wait()
    assert numbers.to_host().tolist() == [0, 1, 2, 4, 4]
    assert numbers[3].to_host().shape == ()


def test_a_contiguous_kernel_passes_no_strides():
    assert "stride" not in plus_contiguous.ptx("sm_90")
    assert "x_stride1" in plus.ptx("sm_90")
    assert str(plus.compile("sm_90").arguments[0]) == "x: In[f64, D2, Strided]"


# ---------------------------------------------------------------------- B31: more than 2**31 elements
HUGE = 2**31 + 256


@kaio.kernel
def look_at_the_top(x: In[i8, D1, Strided], seen: Out[i64]):
    i = kaio.grid(1)
    step = kaio.grid_dim.x * kaio.block_dim.x
    count = i64(0)
    for k in range(x.size - 1000 + i, x.size, step):
        count += x[k]
    seen[i] = count


@kaio.kernel
def stride_the_grid(x: In[i8, D1, Strided], seen: Out[i64], first: i64):
    i = kaio.grid(1) + first
    step = kaio.grid_dim.x * kaio.block_dim.x
    last = i64(0)
    while i < x.size:
        last = i + x[i]
        i += step
    seen[kaio.grid(1)] = last


@kaio.kernel
def flat_index(x: In[i8, D1, Strided], ncols: i32, seen: Out[i64]):
    rows = x.size // ncols
    row, col = rows - 1, ncols - 1
    flat = row * ncols + col
    seen[0] = flat + x[flat]
    for k in range(x.size - 3, x.size):
        seen[1] = k


def huge() -> kaio.GpuBuffer:
    """Elements that all lie in one byte."""
    return kaio.Device("cpu").import_array(np.broadcast_to(np.ones(1, np.int8), (HUGE,)))


def test_b31_a_loop_over_the_last_of_more_than_2_to_the_31_elements():
    cpu = kaio.Device("cpu")
    seen = cpu.alloc_zeros(64, i64)
    look_at_the_top.grid(2).block(32).launch(huge(), seen).wait()
    assert seen.to_host().sum() == 1000


def test_b31_a_grid_stride_loop_near_the_top_ends():
    cpu = kaio.Device("cpu")
    seen = cpu.alloc_zeros(256, i64)
    stride_the_grid.grid(2).block(128).launch(huge(), seen, HUGE - 300).wait()
    assert sorted(seen.to_host().tolist()) == [*range(HUGE - 255, HUGE + 1)]


def test_b31_a_flat_index_above_2_to_the_31():
    cpu = kaio.Device("cpu")
    seen = cpu.alloc_zeros(2, i64)
    flat_index.grid(1).block(1).launch(huge(), 46341, seen).wait()
    assert seen.to_host().tolist() == [HUGE // 46341 * 46341, HUGE - 1]


@kaio.kernel
def corner(x: In[i8, D2, Strided], out: Out[i32]):
    out[0] = x[x.shape[0] - 1, x.shape[1] - 1]


def test_b31_few_elements_far_apart_take_the_wide_variant():
    memory = np.zeros(2**31 + 70_000, np.int8)  # pages that nobody touches take no memory
    memory[2**31 + 65_535] = 5
    far = np.lib.stride_tricks.as_strided(memory, (2, 2), (2**31, 65_535))
    cpu = kaio.Device("cpu")
    out = cpu.alloc_zeros(1, i32)
    corner.grid(1).block(1).launch(cpu.import_array(far), out).wait()
    assert out.to_host().tolist() == [5]
    backwards = cpu.import_array(far)[::-1, ::-1]
    corner.grid(1).block(1).launch(backwards, out).wait()
    assert out.to_host().tolist() == [0]


# ---------------------------------------------------------------------- B34: read-only memory
@kaio.kernel
def dot(x: In[f64], y: In[f64], out: InOut[f64]):
    i = kaio.grid(1)
    if i < x.size:
        kaio.atomic_add(out, 0, x[i] * y[i])


@kaio.kernel
def scribble(x: InOut[f64, D1, Strided]):
    x[kaio.grid(1)] = 0.0


class ReadOnlyTensor:
    """An object that is exchanged by DLPack with the read-only flag."""

    def __init__(self) -> None:
        self.array = np.arange(4.0)
        self.array.flags.writeable = False

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)


def frozen() -> np.ndarray:
    array = np.arange(4.0)
    array.flags.writeable = False
    return array


READ_ONLY = {
    "flag": frozen,
    "broadcast": lambda: np.broadcast_to(np.arange(4.0), (4,)),
    "bytes": lambda: np.frombuffer(np.arange(4.0).tobytes()),
    "dlpack": ReadOnlyTensor,
}


@pytest.mark.parametrize("make", READ_ONLY.values(), ids=READ_ONLY)
def test_b34_read_only_memory_is_read_and_never_written(make):
    cpu, array = kaio.Device("cpu"), make()
    out = cpu.alloc_zeros(1, f64)
    buffer = cpu.import_array(array)
    dot.over(4).launch(buffer, buffer, out).wait()
    assert out.to_host().tolist() == [14.0]
    assert refusal(scribble.over(4).launch, buffer) == (
        "argument `x` of kernel `scribble` is InOut, but its memory is read-only\n  help: pass a copy: `x.copy()`"
    )
    assert buffer.to_host().tolist() == [0, 1, 2, 3]


def test_b34_a_file_mapped_to_be_read_is_read_only(tmp_path):
    np.arange(4.0).tofile(tmp_path / "numbers")
    cpu = kaio.Device("cpu")
    buffer = cpu.import_array(np.memmap(tmp_path / "numbers", np.float64, "r"))
    assert "its memory is read-only" in refusal(scribble.over(4).launch, buffer)
