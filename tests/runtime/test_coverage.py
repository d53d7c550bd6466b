"""`options(coverage=True)`: elements of `Out` buffers that are not written once are told."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import kaio
from kaio import D0, D2, D3, In, InOut, Out, Strided, c64, f16, f32, f32x4, i32, u8
from kaio.program import Build
from kaio.runtime.host_workers import WorkerPool

DEVICE = kaio.Device("cpu")


class Padded(NamedTuple):
    small: u8
    large: f32


def told(launcher: Any, *args: Any, check: str = "bounds") -> kaio.KernelFault | None:
    """What the coverage of a launch says; None where nothing is wrong."""
    given = [DEVICE.alloc_from(a) if isinstance(a, np.ndarray) else a for a in args]
    try:
        launcher.options(coverage=True, check=check).launch(*given).wait()
    except kaio.KernelFault as fault:
        found = fault
    else:
        return None
    assert found.facts["kind"] == "coverage"
    return found


def facts(fault: kaio.KernelFault | None, *names: str) -> tuple[Any, ...]:
    assert fault is not None
    return tuple(fault.facts[name] for name in names)


# ---------------------------------------------------------------------- never
@kaio.kernel
def by_fours(x: In[i32], out: Out[i32]):
    i = kaio.grid(1)
    if 4 * i + 3 < x.size:
        for k in range(4):
            out[4 * i + k] = x[4 * i + k]


def test_the_first_element_that_is_never_written_is_told_with_how_many_there_are() -> None:
    fault = told(by_fours.over(100), np.arange(403, dtype=np.int32), np.zeros(403, np.int32))
    assert fault is not None
    assert str(fault).splitlines()[:2] == [
        "`out[400]` is never written by kernel `by_fours`",
        "  3 of 403 elements are not written",
    ]
    assert "out[4 * i + k] = x[4 * i + k]" in str(fault)
    assert str(fault).endswith(
        "  help: the launch has (1, 1, 1) blocks of (256, 1, 1) threads: look at the index and the guard of the "
        "store, and at the grid"
    )
    assert facts(fault, "kernel", "array", "index", "count") == ("by_fours", "out", 400, 3)


@pytest.mark.parametrize("check", ["off", "bounds"])
def test_a_launch_that_writes_every_element_once_says_nothing(check: str) -> None:
    assert told(by_fours.over(100), np.arange(400, dtype=np.int32), np.zeros(400, np.int32), check=check) is None


@kaio.kernel
def tiles(a: In[i32, D2], out: Out[i32, D2]):
    tile = kaio.shared_mem((8, 9), i32)
    x, y = kaio.thread_idx.x, kaio.thread_idx.y
    row, column = 8 * kaio.block_idx.y + y, 8 * kaio.block_idx.x + x
    if row < a.shape[0] and column < a.shape[1]:
        tile[y, x] = a[row, column]
    kaio.bar_sync()
    row, column = 8 * kaio.block_idx.x + y, 8 * kaio.block_idx.y + x
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = tile[x, y]


@pytest.mark.parametrize("shape", [(8, 8), (1, 1), (13, 30), (17, 7), (5, 64)])
def test_partial_tiles_of_odd_shapes_are_covered(shape: tuple[int, int]) -> None:
    grid = (-(-shape[1] // 8), -(-shape[0] // 8))
    a = np.arange(shape[0] * shape[1], dtype=np.int32).reshape(shape)
    assert told(tiles.grid(*grid).block(8, 8), a, np.zeros(shape[::-1], np.int32)) is None


def test_an_element_of_several_axes_has_an_index_of_several_numbers() -> None:
    a = np.zeros((16, 16), np.int32)
    fault = told(tiles.grid(2, 1).block(8, 8), a, np.zeros((16, 16), np.int32))
    assert facts(fault, "index", "count") == ((0, 8), 128)
    assert str(fault).startswith("`out[0, 8]` is never written by kernel `tiles`")


@kaio.kernel
def every_other(out: Out[f32, D3, Strided]):
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            for k in range(kaio.thread_idx.x, out.shape[2], 2):
                out[i, j, k] = 1.0


def test_a_buffer_with_strides_is_looked_at_where_its_elements_are() -> None:
    base = DEVICE.alloc_zeros((4, 6, 8), f32)
    assert told(every_other.grid(1).block(2), base[::-1, 1::2, ::3]) is None
    base = DEVICE.alloc_zeros((4, 6, 8), f32)
    fault = told(every_other.grid(1).block(1), base[::-1, 1::2, ::3])
    assert facts(fault, "index", "count") == ((0, 0, 1), 12)


@kaio.kernel
def some_lanes(out: Out[f32x4], last: i32):
    i = kaio.grid(1)
    out[i].x = 1.0
    out[i].y = 2.0
    out[i].w = 4.0
    if i < last:
        out[i].z = 3.0


def test_a_vector_that_is_set_lane_by_lane_is_written_when_all_are() -> None:
    assert told(some_lanes.grid(1).block(8), np.zeros(8, f32x4.numpy), 8) is None
    fault = told(some_lanes.grid(1).block(8), np.zeros(8, f32x4.numpy), 5)
    assert facts(fault, "index", "count") == (5, 3)
    assert str(fault).startswith("`out[5].z` is never written by kernel `some_lanes`")


def test_what_lies_between_the_fields_of_a_struct_need_not_be_written() -> None:
    @kaio.kernel
    def fields(out: Out[Padded], both: i32):
        i = kaio.grid(1)
        out[i].large = 1.0
        if i < both:
            out[i].small = 2

    @kaio.kernel
    def whole(out: Out[Padded]):
        out[kaio.grid(1)] = Padded(1, 2.0)

    dtype = kaio.dtypes.dtype_of(Padded).numpy if not hasattr(Padded, "numpy") else Padded.numpy
    assert told(whole.grid(1).block(4), np.zeros(4, dtype)) is None
    assert told(fields.grid(1).block(4), np.zeros(4, dtype), 4) is None
    fault = told(fields.grid(1).block(4), np.zeros(4, dtype), 3)
    assert str(fault).startswith("`out[3].small` is never written by kernel `fields`")


@pytest.mark.parametrize("shape", [(0,), (0, 4), (3, 0)])
def test_an_output_without_elements_is_covered(shape: tuple[int, ...]) -> None:
    @kaio.kernel
    def nothing(out: Out[f32]):
        i = kaio.grid(1)
        if i < out.size:
            out[i] = 1.0

    @kaio.kernel
    def nothing_2d(out: Out[f32, D2]):
        column, row = kaio.grid(2)
        if row < out.shape[0] and column < out.shape[1]:
            out[row, column] = 1.0

    launcher = nothing.grid(1) if len(shape) == 1 else nothing_2d.grid(1, 1)
    assert told(launcher, np.zeros(shape, np.float32)) is None


def test_an_output_without_axes_has_one_element() -> None:
    @kaio.kernel
    def single(out: Out[f32, D0], thread: i32):
        if kaio.thread_idx.x == thread:
            out[()] = 1.0

    assert told(single.grid(1).block(4), np.zeros((), np.float32), 2) is None
    assert facts(told(single.grid(1).block(4), np.zeros((), np.float32), 9), "index") == ((),)


# ---------------------------------------------------------------------- more than once
@kaio.kernel
def zeroed_and_set(x: In[i32], out: Out[i32]):
    i = kaio.grid(1)
    out[i] = 0
    if x[i] > 2:
        out[i] = x[i]


def test_an_element_that_one_thread_writes_twice_is_told_with_both_lines() -> None:
    fault = told(zeroed_and_set.grid(2).block(4), np.arange(8, dtype=np.int32), np.zeros(8, np.int32))
    assert fault is not None
    assert str(fault).splitlines()[:2] == [
        "`out[3]` is written more than once by kernel `zeroed_and_set`",
        "  5 of 8 elements are written more than once; thread (3, 0, 0) of block (0, 0, 0) writes it here, again",
    ]
    assert "thread (3, 0, 0) of block (0, 0, 0) has written it here" in str(fault)
    assert fault.mistakes[0].place is not None
    assert fault.mistakes[1].place is not None
    assert [mistake.place.text.strip() for mistake in fault.mistakes] == ["out[i] = x[i]", "out[i] = 0"]
    assert fault.facts["line"] == fault.facts["other_line"] + 2


@kaio.kernel
def overlapping(out: Out[f32], step: i32):
    i = kaio.grid(1)
    for k in range(4):
        if step * i + k < out.size:
            out[step * i + k] = f32(k)


def test_an_element_that_two_threads_write_is_told_with_both() -> None:
    assert told(overlapping.grid(2).block(4), np.zeros(32, np.float32), 4) is None
    fault = told(overlapping.grid(2).block(4), np.zeros(24, np.float32), 3)
    assert facts(fault, "index", "thread", "other_thread") == (3, (1, 0, 0), (0, 0, 0))
    assert facts(fault, "count", "block", "other_block") == (7, (0, 0, 0), (0, 0, 0))


@pytest.mark.parametrize("threads", [8, 64, 100])
def test_writers_are_told_right_in_kernels_that_are_run_in_strips(threads: int) -> None:
    @kaio.kernel
    def again(x: In[i32], out: Out[i32]):
        s = kaio.shared_mem(128, i32)
        t, i = kaio.thread_idx.x, kaio.grid(1)
        s[t] = x[i]
        kaio.bar_sync()
        out[i] = s[kaio.block_dim.x - 1 - t]
        kaio.bar_sync()
        if t == 5 and kaio.block_idx.x == 1:
            out[i - 3] = 0

    arrays = np.arange(2 * threads, dtype=np.int32), np.zeros(2 * threads, np.int32)
    fault = told(again.grid(2).block(threads), *arrays)
    assert facts(fault, "index", "count", "thread", "block") == (threads + 2, 1, (5, 0, 0), (1, 0, 0))
    assert facts(fault, "other_thread", "other_block") == ((2, 0, 0), (1, 0, 0))


def test_a_missing_element_goes_before_one_that_is_written_twice() -> None:
    fault = told(overlapping.grid(1).block(4), np.zeros(24, np.float32), 3)
    assert str(fault).startswith("`out[13]` is never written")


# ---------------------------------------------------------------------- ways of writing
def test_atomic_updates_write_and_may_come_again() -> None:
    @kaio.kernel
    def histogram(x: In[i32], counts: Out[i32], cleared: i32):
        i = kaio.grid(1)
        if i < cleared:
            counts[i] = 0
        kaio.bar_sync()
        kaio.atomic_add(counts, x[i], 1)

    x = np.repeat(np.arange(4, dtype=np.int32), 8)
    assert told(histogram.grid(1).block(32), x, np.zeros(4, np.int32), 0) is None
    fault = told(histogram.grid(1).block(32), x, np.zeros(4, np.int32), 1)
    assert str(fault).startswith("`counts[0]` is written more than once by kernel `histogram`")
    fault = told(histogram.grid(1).block(32), x, np.zeros(5, np.int32), 0)
    assert str(fault).startswith("`counts[4]` is never written")


def test_stores_with_a_hint_and_of_vectors_are_seen() -> None:
    @kaio.kernel
    def hinted(x: In[f32], out: Out[f32], z: Out[c64], h: Out[f16]):
        i = kaio.grid(1)
        kaio.store(out, 4 * i, kaio.load(x, 4 * i, f32x4))
        kaio.store(h, i, f16(1), cache="cs")
        z[i] = 1 + 2j

    outputs = [np.zeros(n, dtype) for n, dtype in ((32, np.float32), (8, np.complex64), (8, np.float16))]
    assert told(hinted.grid(1).block(8), np.zeros(32, np.float32), *outputs) is None
    outputs[1] = np.zeros(9, np.complex64)
    assert facts(told(hinted.grid(1).block(8), np.zeros(32, np.float32), *outputs), "array", "index") == ("z", 8)


def test_copies_into_shared_memory_are_no_writes_of_an_output() -> None:
    @kaio.kernel
    def staged(x: In[f32], out: Out[f32]):
        tile = kaio.shared_mem(32, f32)
        t = kaio.thread_idx.x
        kaio.cp_async(tile, t, x, t, 1)
        kaio.cp_async_commit()
        kaio.cp_async_wait(0)
        kaio.bar_sync()
        out[t] = tile[31 - t]

    assert told(staged.grid(1).block(32), np.zeros(32, np.float32), np.zeros(32, np.float32)) is None


def test_a_matrix_that_a_warp_stores_is_covered() -> None:
    @kaio.kernel
    def product(a: In[f16, D2], b: In[f16, D2], out: Out[f32, D2]):
        c = kaio.mma(kaio.load_matrix_a(a, 0, 0), kaio.load_matrix_b(b, 0, 0), kaio.matrix_zeros(f32))
        kaio.store_matrix(out, 0, 0, c)

    a, b = np.ones((16, 16), np.float16), np.ones((16, 8), np.float16)
    assert told(product.grid(1).block(32), a, b, np.zeros((16, 8), np.float32)) is None
    fault = told(product.grid(1).block(32), a, b, np.zeros((16, 9), np.float32))
    assert facts(fault, "index", "count") == ((0, 8), 16)


def test_a_device_function_writes_for_the_kernel() -> None:
    def put(target, i, value):
        target[i] = value

    @kaio.kernel
    def through(out: Out[i32]):
        i = kaio.grid(1)
        put(out, i, 2 * i)

    assert told(through.grid(1).block(8), np.zeros(8, np.int32)) is None
    assert facts(told(through.grid(1).block(8), np.zeros(9, np.int32)), "array", "index") == ("out", 8)


def test_only_outputs_are_looked_at_each_by_itself() -> None:
    @kaio.kernel
    def several(x: In[i32], a: Out[i32], b: InOut[i32], c: Out[i32]):
        i = kaio.grid(1)
        a[i] = x[i]
        b[0] = 1
        if i > 0:
            c[i] = 1

    fault = told(several.grid(1).block(4), *(np.zeros(4, np.int32) for _ in range(4)))
    assert facts(fault, "array", "index") == ("c", 0)


def test_of_vectors_that_lie_over_one_another_each_element_knows_its_writers() -> None:
    @kaio.kernel
    def vectors(out: Out[f32]):
        i = kaio.grid(1)
        kaio.store(out, 4 * i, f32x4(1))
        if i == 1:
            out[6] = 2.0

    fault = told(vectors.grid(1).block(2), np.zeros(8, np.float32))
    assert facts(fault, "index", "thread", "other_thread", "count") == (6, (1, 0, 0), (1, 0, 0), 1)


# ---------------------------------------------------------------------- with other things
def test_a_fault_of_the_kernel_goes_before_what_it_did_not_write() -> None:
    with pytest.raises(kaio.KernelFault) as problem:
        overlapping.grid(1).block(4).options(coverage=True).launch(DEVICE.alloc_zeros(4, f32), -1).wait()
    assert problem.value.facts["index"] == -1


def test_the_count_is_right_with_several_workers() -> None:
    from kaio.runtime.stream import USUAL

    @kaio.kernel
    def meet(out: Out[u8], z: Out[f32x4]):
        i = kaio.grid(1)
        out[i % out.size] = 1
        if i < z.size:
            z[i] = f32x4(1)

    program = meet.variants.build("cpu", Build(covered=True), {}, {}, 32).compiled.program
    kernel = DEVICE.load(program).kernel
    workers = WorkerPool(4)
    for size, wrong in ((64 * 256, None), (64 * 256 - 3, 3)):
        out, z = np.zeros(size, np.uint8), np.zeros(1000, f32x4.numpy)
        packed = program.block.pack(out.ctypes.data, size, z.ctypes.data, 1000)
        for _ in range(3):
            found = None
            try:
                kernel.run((64, 1, 1), (256, 1, 1), packed, workers, options=USUAL._replace(coverage=True))
            except kaio.KernelFault as fault:
                found = fault.facts["count"]
            assert found == wrong
    workers.close()


def test_a_trace_may_look_at_coverage_too() -> None:
    trace = by_fours.over(2).options(coverage=True).trace(np.zeros(9, np.int32), np.zeros(9, np.int32))
    assert trace.fault is not None
    assert trace.fault.facts["kind"] == "coverage"
    assert trace.values("k") == [0, 1, 2, 3]


def test_the_result_is_the_same_and_a_bound_launch_is_looked_at_each_time() -> None:
    x, out = DEVICE.alloc_from(np.arange(8, dtype=np.int32)), DEVICE.alloc_zeros(8, i32)
    bound = by_fours.over(2).options(coverage=True).bind(x, out)
    for _ in range(3):
        bound.launch().wait()
    assert out.to_host().tolist() == list(range(8))
