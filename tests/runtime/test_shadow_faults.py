"""What `check="full"` finds in memory: races and reads of what nobody has written, and how it says so."""

from __future__ import annotations

import numpy as np
import pytest

import kaio
from kaio import D2, In, InOut, KernelFault, Out, Strided, f32, i32, u8
from kaio.program import Build
from tests.corpus.case import workers

FULL = kaio.Device("cpu", check="full")


def fault_of(
    kernel: kaio.Kernel, *arguments: object, grid: object = 1, block: object = 64, **shared: int
) -> KernelFault:
    """What a launch is stopped by."""
    buffers = [FULL.alloc_from(value) if isinstance(value, np.ndarray) else value for value in arguments]
    with pytest.raises(KernelFault) as caught:
        kernel.grid(grid).block(block).shared(**shared).launch(*buffers).wait()
    return caught.value


def numbers(count: int = 64) -> np.ndarray:
    return np.arange(count, dtype=np.float32)


@kaio.kernel
def turned(x: In[f32], out: Out[f32]):
    s = kaio.shared_mem(64, f32)
    t = kaio.thread_idx.x
    s[t] = x[t]
    out[t] = s[63 - t]


def test_a_race_is_told_with_both_places_threads_and_accesses():
    fault = fault_of(turned, numbers(), numbers())
    first = turned.__wrapped__.__code__.co_firstlineno
    assert fault.facts == {
        "kind": "race", "kernel": "turned", "array": "s", "index": 32,
        "line": first + 4, "thread": (32, 0, 0), "block": (0, 0, 0), "access": "write",
        "other_line": first + 5, "other_thread": (31, 0, 0), "other_block": (0, 0, 0), "other_access": "read",
    }  # fmt: skip
    text = str(fault)
    assert text.startswith(
        "data race on `s[32]` in kernel `turned`\n  thread (32, 0, 0) of block (0, 0, 0) writes it here"
    )
    assert "thread (31, 0, 0) of block (0, 0, 0) reads it here; nothing orders the two\n" in text
    assert "    s[t] = x[t]\n" in text
    assert text.endswith(
        "help: put a `kaio.bar_sync()` between them, which every thread of the block reaches; in a loop also between "
        "its turns"
    )


@kaio.kernel
def sums(h: InOut[f32], x: In[i32]):
    h[x[kaio.grid(1)]] += 1


def test_an_update_by_two_threads_is_a_race_that_asks_for_an_atomic_one():
    fault = fault_of(sums, np.zeros(2, np.float32), np.zeros(128, np.int32), grid=2)
    assert (fault.kind, fault.facts["array"], fault.facts["index"]) == ("race", "h", 0)
    assert fault.mistakes[-1].help == "where several threads update one element, use `kaio.atomic_add` and the like"


@kaio.kernel
def tree(x: In[f32], out: InOut[f32]):
    s = kaio.shared_mem(64, f32)
    t = kaio.thread_idx.x
    s[t] = x[t]
    kaio.bar_sync()
    step = 32
    while step > 0:
        if t < step:
            s[t] += s[t + step]
        step //= 2
    out[t] = s[0]


@kaio.kernel
def in_place(u: InOut[f32]):
    i = kaio.thread_idx.x
    if 0 < i < u.size - 1:
        u[i] = 0.5 * (u[i - 1] + u[i + 1])


@kaio.kernel
def cleared_late(x: In[i32], counts: InOut[i32]):
    s = kaio.shared_mem(64, i32)
    t = kaio.thread_idx.x
    s[t] = 0
    kaio.atomic_add(s, x[t], 1)
    kaio.bar_sync()
    counts[t] += s[t]


IN_ONE_STATEMENT = (
    "read into a variable, put a `kaio.bar_sync()`, and write behind it; in a loop put another one between its turns"
)
IN_PLACE = "write into another buffer: the threads of a launch do not wait until all others have read this one"
CLEARED_LATE = (
    "put a `kaio.bar_sync()` between them, or update it with an `atomic_…` operation in both places, of a scope that "
    "both are in"
)


@pytest.mark.parametrize(
    ("kernel", "arguments", "way_out"),
    [
        (tree, (np.ones(64, np.float32), np.zeros(64, np.float32)), IN_ONE_STATEMENT),
        (in_place, (np.ones(64, np.float32),), IN_PLACE),
        (cleared_late, (np.arange(64, dtype=np.int32)[::-1].copy(), np.zeros(64, np.int32)), CLEARED_LATE),
    ],
    ids=["tree", "in_place", "cleared_late"],
)
def test_the_way_out_of_a_race_is_that_of_its_two_places(kernel, arguments, way_out):
    fault = fault_of(kernel, *arguments)
    assert (fault.kind, fault.mistakes[-1].help) == ("race", way_out)


@kaio.kernel
def from_the_next_block(y: InOut[f32]):
    i = kaio.grid(1)
    if kaio.thread_idx.x == 0 and i + 64 < y.size:
        y[i] = y[i + 64]


@pytest.mark.parametrize("count", [1, 4])
def test_blocks_race_in_a_buffer_whichever_ran_first(count):
    with workers(FULL, count):
        fault = fault_of(from_the_next_block, numbers(640), grid=10)
    assert fault.kind == "race"
    assert fault.facts["block"] != fault.facts["other_block"]
    assert {fault.facts["access"], fault.facts["other_access"]} == {"read", "write"}
    assert fault.mistakes[-1].help == (
        "blocks are not ordered: let each write elements of its own, use atomic operations, or do what comes after in "
        "another launch; a flag orders them with a `kaio.fence()` before it is set and after it is read"
    )


@kaio.kernel
def over_lanes(out: Out[i32], mask: kaio.u32):
    s = kaio.shared_mem(32, i32)
    t = kaio.thread_idx.x
    s[t] = t
    if t < 16:
        kaio.syncwarp(mask)
        out[t] = s[t ^ 1]
    else:
        out[t] = s[t]


def test_lanes_of_the_mask_of_syncwarp_know_of_each_other():
    out = FULL.alloc_empty(32, i32)
    over_lanes.grid(1).block(32).launch(out, 0xFFFF).wait()
    assert out.to_host().tolist() == [t ^ 1 for t in range(16)] + list(range(16, 32))


@kaio.kernel
def beyond_the_mask(out: Out[i32]):
    s = kaio.shared_mem(32, i32)
    t = kaio.thread_idx.x
    s[t] = t
    if t < 16:
        kaio.syncwarp(0xFFFF)
        out[t] = s[t + 16]


def test_lanes_that_the_mask_leaves_out_do_not():
    fault = fault_of(beyond_the_mask, FULL.alloc_empty(32, i32), block=32)
    assert (fault.kind, fault.facts["array"]) == ("race", "s")
    assert "`kaio.syncwarp()` where all are lanes of one warp" in str(fault)


@kaio.kernel
def shuffled(out: Out[i32]):
    s = kaio.shared_mem(32, i32)
    t = kaio.thread_idx.x
    s[t] = t
    out[t] = kaio.shfl_sync_idx(t, 0) + s[t ^ 1]


def test_a_shuffle_orders_no_memory():
    assert fault_of(shuffled, FULL.alloc_empty(32, i32), block=32).kind == "race"


@kaio.kernel
def counted(out: Out[i32], n: InOut[i32]):
    out[kaio.grid(1)] = kaio.atomic_add(n, 0, 1)


@kaio.kernel
def counted_and_read(out: Out[i32], n: InOut[i32]):
    kaio.atomic_add(n, 0, 1)
    out[kaio.grid(1)] = n[0]


def test_atomic_updates_do_not_race_with_each_other_but_with_a_plain_read():
    counted.grid(4).block(64).launch(FULL.alloc_empty(256, i32), FULL.alloc_zeros(1, i32)).wait()
    fault = fault_of(counted_and_read, FULL.alloc_empty(256, i32), np.zeros(1, np.int32), grid=4)
    assert {fault.facts["access"], fault.facts["other_access"]} == {"atomic", "read"}


@kaio.kernel
def counted_for_a_block(n: InOut[i32]):
    kaio.atomic_add(n, 0, 1, scope="block")


def test_atomic_updates_for_a_block_race_with_those_of_another():
    counted_for_a_block.grid(1).block(64).launch(FULL.alloc_zeros(1, i32)).wait()
    fault = fault_of(counted_for_a_block, np.zeros(1, np.int32), grid=2)
    assert (fault.kind, fault.facts["access"], fault.facts["other_access"]) == ("race", "atomic", "atomic")


@kaio.kernel
def bytes_side_by_side(out: Out[u8]):
    s = kaio.shared_mem(64, u8)
    t = kaio.thread_idx.x
    s[t] = u8(t)
    out[t] = s[t]


def test_bytes_side_by_side_do_not_race():
    out = FULL.alloc_empty(64, u8)
    bytes_side_by_side.grid(1).block(64).launch(out).wait()
    assert out.to_host().tolist() == list(range(64))


@kaio.kernel
def in_a_picture(y: InOut[f32, D2, Strided]):
    x = kaio.thread_idx.x
    y[1, x // 2] = 1.0


def test_the_index_of_a_strided_buffer_has_all_axes():
    buffer = FULL.alloc_zeros((4, 8), f32)[::2, ::2]
    fault = fault_of(in_a_picture, buffer, block=8)
    assert (fault.facts["array"], fault.facts["index"]) == ("y", (1, 0))


@kaio.kernel
def of_two_names(out: Out[f32]):
    a = kaio.dynamic_shared("a", f32)
    b = kaio.dynamic_shared("b", f32)
    t = kaio.thread_idx.x
    a[t] = 1.0
    b[t // 2] = 2.0
    out[t] = a[t]


def test_a_dynamic_array_is_called_by_its_name():
    fault = fault_of(of_two_names, FULL.alloc_empty(8, f32), block=8, a=8, b=8)
    assert (fault.facts["array"], fault.facts["index"]) == ("b", 0)


# ---------------------------------------------------------------------- what nobody has written
@kaio.kernel
def last_forgotten(x: In[f32], out: Out[f32]):
    s = kaio.shared_mem(65, f32)
    t = kaio.thread_idx.x
    s[t] = x[t]
    kaio.bar_sync()
    out[t] = s[t + 1]


def test_shared_memory_that_nobody_wrote_is_told_where_it_is_read():
    fault = fault_of(last_forgotten, numbers(), numbers())
    first = last_forgotten.__wrapped__.__code__.co_firstlineno
    assert fault.facts == {
        "kind": "uninitialised", "kernel": "last_forgotten", "array": "s", "index": 64, "access": "read",
        "line": first + 6, "thread": (63, 0, 0), "block": (0, 0, 0),
    }  # fmt: skip
    assert str(fault).startswith("`s[64]` is read before it is written in kernel `last_forgotten`\n")


def test_what_a_block_left_in_shared_memory_is_nothing_to_the_next():
    x = FULL.alloc_from(numbers(65))
    whole = FULL.alloc_empty(65, f32)
    turned_of_65.grid(1).block(65).launch(x, whole).wait()
    assert fault_of(last_forgotten, numbers(), numbers()).facts["index"] == 64


@kaio.kernel
def turned_of_65(x: In[f32], out: Out[f32]):
    s = kaio.shared_mem(65, f32)
    t = kaio.thread_idx.x
    s[t] = x[t]
    kaio.bar_sync()
    out[t] = s[64 - t]


@kaio.kernel
def own_array(out: Out[i32], n: i32):
    a = kaio.local_mem(4, i32)
    for k in range(n):
        a[k] = k
    out[kaio.grid(1)] = a[3]


def test_an_array_of_a_thread_is_read_only_where_it_was_written():
    own_array.grid(1).block(64).launch(FULL.alloc_empty(64, i32), 4).wait()
    fault = fault_of(own_array, FULL.alloc_empty(64, i32), 3)
    assert (fault.kind, fault.facts["array"], fault.facts["index"]) == ("uninitialised", "a", 3)


@kaio.kernel
def doubled(out: Out[f32], n: i32):
    i = kaio.grid(1)
    if i < n:
        out[i] = 1.0
    out[i] = out[i] * 2.0


def test_an_output_is_read_only_where_this_launch_wrote_it():
    out = FULL.alloc_zeros(64, f32)
    doubled.grid(1).block(64).launch(out, 64).wait()
    fault = fault_of(doubled, out, 63)
    assert (fault.kind, fault.facts["array"], fault.facts["index"]) == ("uninitialised", "out", 63)
    assert "annotate it `InOut`" in str(fault)


@kaio.kernel
def set_some(out: Out[f32], n: i32):
    i = kaio.grid(1)
    if i < n:
        out[i] = 1.0


@kaio.kernel
def added(x: In[f32], y: InOut[f32]):
    i = kaio.grid(1)
    y[i] += x[i]


def test_memory_of_alloc_empty_is_followed_from_launch_to_launch():
    x = FULL.alloc_empty(64, f32)
    set_some.grid(1).block(64).launch(x, 60).wait()
    fault = fault_of(added, x, np.zeros(64, np.float32))
    assert (fault.facts["array"], fault.facts["index"]) == ("x", 60)
    assert "`alloc_zeros`" in str(fault)
    set_some.grid(1).block(64).launch(x, 64).wait()
    added.grid(1).block(64).launch(x, FULL.alloc_zeros(64, f32)).wait()


@pytest.mark.parametrize("write", [lambda x: x.fill(1), lambda x: x.copy_from(np.ones(64, np.float32))])
def test_a_copy_or_a_fill_writes_memory_of_alloc_empty(write):
    x, y = FULL.alloc_empty(64, f32), FULL.alloc_zeros(64, f32)
    write(x)
    added.grid(1).block(64).launch(x, y).wait()
    np.testing.assert_array_equal(y.to_host(), np.ones(64))


# ---------------------------------------------------------------------- what is not looked at
def test_a_buffer_in_which_threads_keep_apart_has_no_cells():
    assert apart(added) == (("x",), ("x",))
    assert apart(sums) == (None, ("x",))


def test_threads_that_keep_apart_along_x_race_where_there_are_several_along_y():
    assert fault_of(added, numbers(8), numbers(8), block=(8, 2)).kind == "race"


@kaio.kernel
def two_at_once(out: Out[i32]):
    s, flag = kaio.shared_mem(32, i32), kaio.shared_mem(1, i32)
    t = kaio.thread_idx.x
    s[t] = t
    flag[0] = t
    out[t] = s[t]


def test_an_array_that_is_made_in_a_tuple_has_the_name_of_its_variable():
    assert fault_of(two_at_once, FULL.alloc_empty(32, i32), block=32).facts["array"] == "flag"


@kaio.kernel
def over_and_over(x: In[f32], y: InOut[f32]):
    for i in range(kaio.grid(1), y.size, kaio.grid_dim.x * kaio.block_dim.x):
        y[i] += x[i]


@kaio.kernel
def in_blocks_of_64(x: In[f32], y: InOut[f32]):
    y[kaio.thread_idx.x + 64 * kaio.block_idx.x] += x[kaio.thread_idx.x]


@kaio.kernel
def stride_too_short(x: In[f32], y: InOut[f32]):
    for i in range(kaio.grid(1), y.size, kaio.block_dim.x):
        y[i] += x[i]


def apart(kernel: kaio.Kernel) -> tuple[tuple[str, ...] | None, ...]:
    return kernel.variants.build("cpu", Build("full"), {}, {}, 32).compiled.program.shadow.apart


def test_a_loop_that_lays_the_grid_over_a_buffer_keeps_threads_apart():
    assert apart(over_and_over) == (("x",), ("x",))
    y = FULL.alloc_zeros(1000, f32)
    over_and_over.grid(2).block(64).launch(FULL.alloc_from(numbers(1000)), y).wait()
    np.testing.assert_array_equal(y.to_host(), numbers(1000))


def test_a_loop_of_another_stride_does_not():
    assert apart(stride_too_short)[1] is None
    assert fault_of(stride_too_short, numbers(1000), numbers(1000), grid=2).kind == "race"


def test_places_that_a_number_in_the_source_tells_apart_are_so_in_blocks_of_that_size():
    assert apart(in_blocks_of_64)[1] == ("x64",)
    in_blocks_of_64.grid(2).block(64).launch(FULL.alloc_zeros(64, f32), FULL.alloc_zeros(128, f32)).wait()
    assert fault_of(in_blocks_of_64, numbers(65), numbers(130), grid=2, block=65).kind == "race"


@kaio.kernel
def plainly_then_strongly(out: InOut[i32]):
    if kaio.thread_idx.x == 0:
        out[0] = 1
        kaio.store(out, 0, 2, volatile=True)
    else:
        kaio.store(out, 0, 3, volatile=True)


def test_a_plain_write_is_not_forgotten_for_a_strong_one_behind_it():
    fault = fault_of(plainly_then_strongly, np.zeros(1, np.int32), block=2)
    first = plainly_then_strongly.__wrapped__.__code__.co_firstlineno
    assert {fault.facts["line"], fault.facts["other_line"]} == {first + 3, first + 6}


@kaio.kernel
def looked_at_plainly(out: InOut[i32], seen: Out[i32]):
    t = kaio.thread_idx.x
    if t == 3:
        kaio.atomic_add(out, 0, 1)
    elif t == 2:
        seen[t] = out[0] + kaio.load(out, 0, volatile=True)
    else:
        seen[t] = kaio.load(out, 0, volatile=True)


def test_a_plain_read_is_not_forgotten_for_strong_ones():
    fault = fault_of(looked_at_plainly, np.zeros(1, np.int32), FULL.alloc_zeros(4, i32), block=4)
    assert {fault.facts["thread"][0], fault.facts["other_thread"][0]} == {2, 3}


@kaio.kernel
def copied(x: In[i32], out: Out[i32]):
    s = kaio.shared_mem(256, i32)
    t = kaio.thread_idx.x
    kaio.cp_async(s, t, x, t, 1)
    kaio.cp_async_commit()
    kaio.cp_async_wait(0)
    kaio.bar_sync()
    out[t] = s[kaio.block_dim.x - 1 - t]


@kaio.kernel
def set_and_turned(out: Out[i32]):
    s = kaio.shared_mem(256, i32)
    t = kaio.thread_idx.x
    s[t] = t
    kaio.bar_sync()
    out[t] = s[kaio.block_dim.x - 1 - t]


def test_what_a_launch_copied_into_shared_memory_is_nothing_to_the_next():
    x, out = FULL.alloc_zeros(256, i32), FULL.alloc_zeros(256, i32)
    with workers(FULL, 1):
        for threads in (256, 32, 256, 1):
            copied.grid(1).block(threads).launch(x, out).wait()
            set_and_turned.grid(1).block(min(64, threads)).launch(out).wait()
