"""Shuffles and `syncwarp`: every lane gets what the PTX ISA says, and what can never complete is reported."""

from __future__ import annotations

import enum
import re
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kaio
from kaio import DType, In, Out, f32, i32, u32
from tests.dsl.from_text import kernel
from tests.dsl.warps import CPU, fault, masks_of, run, shuffle, warps
from tests.refusals import first_mistake

MODES = ("idx", "up", "down", "bfly")
DTYPES = [getattr(kaio, name) for name in ["bool_", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f32", "f64"]]


SHUFFLES = {
    mode: kernel(f"""
        @kernel
        def shuffled(x: In[T], lane: In[i32], out: Out[T], width: Const[int]):
            t = (thread_idx.z * block_dim.y + thread_idx.y) * block_dim.x + thread_idx.x
            out[t] = kaio.shfl_sync_{mode}(x[t], lane[t], width)
        """, T=TypeVar("T", *DTYPES))
    for mode in MODES
}  # fmt: skip


def shuffled(mode: str, x: np.ndarray, lanes: np.ndarray, width: int) -> np.ndarray:
    return np.concatenate([
        [shuffle(mode, values, lane, given, width) for lane, given in enumerate(lanes_of)]
        for values, lanes_of in zip(warps(x), warps(lanes), strict=True)
    ]).astype(x.dtype)  # fmt: skip


@pytest.mark.parametrize("width", [1, 2, 4, 8, 16, 32])
@pytest.mark.parametrize("mode", MODES)
def test_a_shuffle_reads_the_lane_that_the_ptx_isa_says(device: kaio.Device, mode: str, width: int) -> None:
    rng = np.random.default_rng(width)
    x = rng.integers(-(2**31), 2**31, 128).astype(np.int32)
    lanes = rng.integers(-40, 70, 128).astype(np.int32)
    result = run(SHUFFLES[mode], 128, x, lanes, np.zeros_like(x), device=device, width=width)[2]
    np.testing.assert_array_equal(result, shuffled(mode, x, lanes, width))


@pytest.mark.parametrize("dtype", DTYPES, ids=repr)
@pytest.mark.parametrize("mode", MODES)
def test_a_shuffle_moves_every_bit_of_every_dtype(device: kaio.Device, mode: str, dtype: DType) -> None:
    rng = np.random.default_rng(1)
    raw = rng.integers(0, 256, 64 * dtype.itemsize, np.uint8)
    x = (raw % 2).astype(bool) if dtype is kaio.bool_ else raw.view(dtype.numpy)
    x = np.where(np.isnan(x), 0, x).astype(x.dtype) if dtype.is_float else x
    lanes = rng.integers(0, 32, 64).astype(np.int32)
    result = run(SHUFFLES[mode], 64, x, lanes, np.zeros_like(x), device=device, width=32)[2]
    assert result.tobytes() == shuffled(mode, x, lanes, 32).tobytes()


@pytest.mark.parametrize("block", [(8, 4), (16, 2, 2), (4, 4, 8), (1, 64), (96, 1, 1)])
def test_lanes_are_numbered_x_first_in_blocks_of_several_dimensions(device: kaio.Device, block: Any) -> None:
    count = int(np.prod(block))
    x, lanes = np.arange(count, dtype=np.int32), np.full(count, 5, np.int32)
    result = run(SHUFFLES["bfly"], block, x, lanes, np.zeros_like(x), device=device, width=32)[2]
    np.testing.assert_array_equal(result, x ^ 5)


@kaio.kernel
def places(out: Out[i32]) -> None:
    t = (kaio.thread_idx.z * kaio.block_dim.y + kaio.thread_idx.y) * kaio.block_dim.x + kaio.thread_idx.x
    out[t] = kaio.lane_id() + 100 * kaio.warp_id()


@pytest.mark.parametrize("block", [1, 33, (5, 7), (3, 4, 9), 1024])
def test_lane_and_warp_are_those_of_the_linear_thread(device: kaio.Device, block: Any) -> None:
    count = int(np.prod(block))
    result = run(places, block, np.zeros(count, np.int32), device=device)[0]
    np.testing.assert_array_equal(result, np.arange(count) % 32 + 100 * (np.arange(count) // 32))


@given(
    threads=st.integers(1, 100),
    width=st.sampled_from([1, 2, 4, 8, 16, 32]),
    mode=st.sampled_from(MODES),
    data=st.data(),
)
@settings(max_examples=60, deadline=None)
def test_any_shuffle_within_the_lanes_of_a_block(threads: int, width: int, mode: str, data: st.DataObject) -> None:
    x = np.arange(threads, dtype=np.int32) * 7
    lanes = np.array(data.draw(st.lists(st.integers(-64, 64), min_size=threads, max_size=threads)), np.int32)
    expected, missing = [], False
    for values, given_lanes in zip(warps(x), warps(lanes), strict=True):
        padded = [*values, *[None] * (32 - values.size)]
        got = [shuffle(mode, padded, lane, int(given), width) for lane, given in enumerate(given_lanes)]
        missing |= None in got
        expected += got
    if missing:
        assert "which does not take part" in fault(SHUFFLES[mode], threads, x, lanes, np.zeros_like(x), width=width)
    else:
        result = run(SHUFFLES[mode], threads, x, lanes, np.zeros_like(x), width=width)[2]
        np.testing.assert_array_equal(result, expected)


# ---------------------------------------------------------------------- who takes part
@kaio.kernel
def by_groups(x: In[i32], masks: In[u32], out: Out[i32]) -> None:
    """Each lane exchanges with those of its own mask, all at one place."""
    t = kaio.thread_idx.x
    m, total = masks[t], 0
    for source in range(32):
        if (m >> source) & 1 != 0:
            total += kaio.shfl_sync_idx(x[t], source, mask=m)
    out[t] = total


@given(groups=st.lists(st.integers(0, 4), min_size=1, max_size=70))
@settings(max_examples=40, deadline=None)
def test_lanes_with_different_masks_exchange_apart_at_one_place(groups: list[int]) -> None:
    numbers, expected = np.array(groups), []
    x = np.arange(len(groups), dtype=np.int32) + 1
    for values, groups_of in zip(warps(x), warps(numbers), strict=True):
        expected += [values[groups_of == group].sum() for group in groups_of]
    result = run(by_groups, len(groups), x, masks_of(numbers), np.zeros_like(x))[2]
    np.testing.assert_array_equal(result, expected)


@kaio.func
def neighbour(value, rounds):
    for _ in range(rounds):
        value = kaio.shfl_sync_bfly(value, 1)
    return value


@kaio.kernel
def in_a_function(x: In[f32], out: Out[f32], rounds: i32) -> None:
    t = kaio.thread_idx.x
    first = neighbour(x[t], rounds)
    kaio.bar_sync()
    out[t] = first + neighbour(x[t], rounds + 1)


def test_shuffles_in_loops_of_device_functions_keep_apart(device: kaio.Device) -> None:
    x = np.arange(96, dtype=np.float32)
    swapped = x.reshape(-1, 2)[:, ::-1].reshape(-1)
    result = run(in_a_function, 96, x, np.zeros_like(x), 3, device=device)[1]
    np.testing.assert_array_equal(result, x + swapped)


@kaio.kernel
def branches(out: Out[i32]) -> None:
    t = kaio.thread_idx.x
    if kaio.lane_id() < 16:
        out[t] = kaio.shfl_sync_idx(t, 3, mask=0x0000FFFF)
    else:
        out[t] = kaio.shfl_sync_idx(-t, 20, mask=0xFFFF0000)


def test_the_two_sides_of_a_branch_exchange_by_themselves(device: kaio.Device) -> None:
    result = run(branches, 64, np.zeros(64, np.int32), device=device)[0]
    np.testing.assert_array_equal(result, [*[3] * 16, *[-20] * 16, *[35] * 16, *[-52] * 16])


@kaio.kernel
def early(x: In[i32], out: Out[i32], n: i32) -> None:
    t = kaio.thread_idx.x
    if t >= n:
        return
    out[t] = kaio.shfl_sync_idx(x[t], 0) + kaio.shfl_sync_up(x[t], 1)


@pytest.mark.parametrize("n", [0, 1, 31, 32, 40, 64])
def test_lanes_that_have_returned_are_not_waited_for(device: kaio.Device, n: int) -> None:
    x = np.arange(1, 65, dtype=np.int32)
    first, t = np.array([1, 33])[np.arange(64) // 32], np.arange(64)
    expected = np.where(t < n, first + np.where(t % 32, x - 1, x), 0)
    np.testing.assert_array_equal(run(early, 64, x, np.zeros_like(x), n, device=device)[1], expected)


@kaio.kernel
def many_values(x: In[f32], out: Out[f32]) -> None:
    t = kaio.thread_idx.x
    a, b, c = x[t], x[t] * 2, x[t] * 3
    for step in range(5):
        a, b, c = (
            kaio.shfl_sync_bfly(b, 1 << step),
            kaio.shfl_sync_bfly(c, 1 << step),
            kaio.shfl_sync_bfly(a, 1 << step),
        )
    out[t] = a + b + c


def test_values_that_are_not_exchanged_are_kept(device: kaio.Device) -> None:
    x = np.arange(64, dtype=np.float32)
    np.testing.assert_array_equal(run(many_values, 64, x, np.zeros_like(x), device=device)[1], 6 * (x.astype(int) ^ 31))


@kaio.kernel
def through_memory(x: In[i32], out: Out[i32]) -> None:
    s = kaio.shared_mem(64, i32)
    t = kaio.thread_idx.x
    s[t] = x[t]
    kaio.syncwarp()
    half = 16
    while half > 0:
        value = s[t ^ half]
        kaio.syncwarp()
        s[t] += value
        kaio.syncwarp()
        half //= 2
    out[t] = s[t]


def test_syncwarp_orders_what_a_warp_writes_and_reads(device: kaio.Device) -> None:
    x = np.arange(64, dtype=np.int32) ** 2
    result = run(through_memory, 64, x, np.zeros_like(x), device=device)[1]
    np.testing.assert_array_equal(result, np.repeat([x[:32].sum(), x[32:].sum()], 32))


# ---------------------------------------------------------------------- values of several parts
PARTS = ["f16", "bf16", "f8e4m3", "f8e5m2", "c64", "c128", "f32x2", "f32x4", "f16x2", "bf16x2", "i32x4", "u8x4"]


@pytest.mark.parametrize("name", PARTS)
def test_numbers_of_every_kind_and_width_are_exchanged_bit_by_bit(device: kaio.Device, name: str) -> None:
    dtype = getattr(kaio, name)
    made = kernel(f"""
        @kernel
        def parts(x: In[{name}], out: Out[{name}]):
            t = thread_idx.x
            out[t] = shfl_sync_bfly(shfl_sync_idx(x[t], 31 - lane_id()), 5)
        """)  # fmt: skip
    raw = np.random.default_rng(4).integers(0, 64, (64, dtype.itemsize), np.uint8)  # 64: no NaN of any type
    lane = dtype.parts[0][1] if dtype.kind == "v" else dtype
    given = device.alloc_from(raw.reshape(-1).view(lane.numpy)).view(dtype)
    out = device.alloc_zeros(64, dtype)
    made.grid(1).block(64).launch(given, out).wait()
    lanes = np.arange(64)
    expected = raw[(lanes & 32) + 31 - ((lanes & 31) ^ 5)]
    np.testing.assert_array_equal(out.to_host().view(np.uint8).reshape(64, -1), expected)


class Best(NamedTuple):
    value: f32
    index: i32


class Side(enum.Enum):
    LEFT, RIGHT = 1, 2


def best_of(a, b):
    return b if b.value > a.value else a


@kaio.kernel
def winners(x: In[f32], value: Out[f32], index: Out[i32], is_left: Out[kaio.bool_]) -> None:
    t = kaio.thread_idx.x
    best = Best(x[t], t)
    for step in range(5):
        best = best_of(best, kaio.shfl_sync_bfly(best, 1 << step))
    value[t], index[t] = best
    side = Side.LEFT if t % 32 < 16 else Side.RIGHT
    other, (_, flag) = kaio.shfl_sync_bfly(side, 16), kaio.shfl_sync_idx((t, t % 2 == 0), 3)
    is_left[t] = other == Side.LEFT and not flag


def test_records_tuples_and_members_of_enums_are_exchanged(device: kaio.Device) -> None:
    x = np.random.default_rng(5).random(64, np.float32)
    empty = np.zeros(64, np.float32), np.zeros(64, np.int32), np.zeros(64, bool)
    _, value, index, is_left = run(winners, 64, x, *empty, device=device)
    np.testing.assert_array_equal(value, np.repeat(x.reshape(2, 32).max(axis=1), 32))
    np.testing.assert_array_equal(index, np.repeat(x.reshape(2, 32).argmax(axis=1) + np.array([0, 32]), 32))
    np.testing.assert_array_equal(is_left, np.arange(64) % 32 >= 16)


# ---------------------------------------------------------------------- faults
@kaio.kernel
def partial(out: Out[i32]) -> None:
    out[kaio.thread_idx.x] = kaio.shfl_sync_down(kaio.thread_idx.x, 16)


def test_reading_a_lane_that_the_block_does_not_have_is_a_fault() -> None:
    message = fault(partial, 20, np.zeros(20, np.int32))
    assert message.startswith(
        "`shfl_sync_down` reads lane 20, which does not take part, in kernel `partial`\n"
        "  thread (4, 0, 0) of block (0, 0, 0) (lane 4); lanes 0-19 (mask 0x000fffff) take part\n"
    )
    assert message.endswith(
        "help: read a lane of the mask that has not returned; of a warp that is not full, those are its first lanes"
    )


def test_unchecked_a_lane_that_is_not_there_gives_anything_and_no_fault() -> None:
    out = CPU.alloc_zeros(20, i32)
    partial.grid(1).block(20).options(check=False).launch(out).wait()
    np.testing.assert_array_equal(out.to_host()[:4], np.arange(16, 20))


@kaio.kernel
def elsewhere(out: Out[i32]) -> None:
    t = kaio.thread_idx.x
    if t < 5:
        out[t] = kaio.shfl_sync_idx(t, 0)
    kaio.bar_sync()


def test_a_lane_that_waits_at_a_barrier_instead_is_reported_with_both_lines() -> None:
    message = fault(elsewhere, 64, np.zeros(64, np.int32))
    assert "`shfl_sync_idx` can never be completed in kernel `elsewhere`\n" in message
    assert "thread (0, 0, 0) of block (0, 0, 0) (lane 0) waits here for all lanes of its warp" in message
    assert "thread (5, 0, 0) (lane 5) waits here" in message
    assert "help: all lanes have to reach the same `shfl_sync_idx(…)`: take it out of the branch" in message
    assert len(re.findall(r"test_warp.py:\d+", message)) == 2


@kaio.kernel
def other_place(out: Out[i32]) -> None:
    t = kaio.thread_idx.x
    if t % 2 == 0:
        out[t] = kaio.shfl_sync_idx(t, 0, mask=0xFF)
    else:
        out[t] = kaio.shfl_sync_up(t, 1, mask=0xFF)


def test_members_of_a_mask_at_different_operations_are_reported() -> None:
    message = fault(other_place, 8, np.zeros(8, np.int32))
    assert "(lane 0) waits here for lanes 0-7 (mask 0x000000ff)" in message
    assert "thread (1, 0, 0) (lane 1) waits here" in message


@kaio.kernel
def other_mask(out: Out[i32]) -> None:
    t = kaio.thread_idx.x
    kaio.syncwarp(0b011 if t == 0 else 0b111)


def test_members_that_name_different_masks_are_reported_with_both() -> None:
    message = fault(other_mask, 3, np.zeros(3, np.int32))
    assert (
        "(lane 0) waits here for lanes 0-1 (mask 0x00000003); thread (1, 0, 0) (lane 1) waits here for lanes 0-2 "
        "(mask 0x00000007)"
    ) in message
    assert message.endswith("help: all lanes of a mask have to name the same mask")


@kaio.kernel
def two_places(x: In[i32], out: Out[i32]) -> None:
    s = kaio.shared_mem(32, i32)
    t = kaio.thread_idx.x
    if t < 10:
        s[t] = x[t]
        kaio.syncwarp()
        out[t] = s[t + 10]
    else:
        s[t] = 2 * x[t]
        kaio.syncwarp(0xFFFFFFFF)
        out[t] = s[t - 10]


def test_any_syncwarp_of_the_same_lanes_meets_another(device: kaio.Device) -> None:
    x = np.arange(32, dtype=np.int32)
    doubled = np.where(x < 10, x, 2 * x)
    result = run(two_places, 32, x, np.zeros_like(x), device=device)[1]
    np.testing.assert_array_equal(result, doubled[np.where(x < 10, x + 10, x - 10)])


@kaio.kernel
def not_itself(out: Out[i32]) -> None:
    kaio.syncwarp(0b1100)


def test_a_lane_that_its_own_mask_leaves_out_is_reported() -> None:
    message = fault(not_itself, 32, np.zeros(1, np.int32))
    assert "(lane 0) waits here for lanes 2-3 (mask 0x0000000c), of which it is none" in message
    assert message.endswith("help: a lane that takes part has its own bit set in the mask")


def test_a_fault_between_two_exchanges_is_reported_and_the_kernel_runs_again() -> None:
    made = kernel("""
        @kernel
        def late(x: In[i32], out: Out[i32]):
            t = thread_idx.x
            v = shfl_sync_idx(x[t], 0)
            out[v + t] = shfl_sync_idx(v, 0)
        """)  # fmt: skip
    x = np.arange(64, dtype=np.int32)
    assert "index 64 is out of range for axis 0 of `out` (size 64)" in fault(made, 64, x, np.zeros_like(x))
    x[32:] = 0
    np.testing.assert_array_equal(run(made, 64, x, np.ones_like(x))[1], 0)


def test_many_blocks_on_many_workers_keep_their_words_apart(device: kaio.Device) -> None:
    made = kernel("""
        @kernel
        def many(x: In[i32], out: Out[i32]):
            i = grid(1)
            v = x[i]
            for step in range(40):
                v = shfl_sync_bfly(v, step) + shfl_sync_idx(v, 7)
            out[i] = v
        """)  # fmt: skip
    x = np.arange(96 * 50, dtype=np.int32)
    given = [device.alloc_from(x), device.alloc_from(np.zeros_like(x))]
    made.over(x.size).block(96).launch(*given).wait()
    expected = x.reshape(-1, 32)
    for step in range(40):
        expected = expected[:, np.arange(32) ^ (step & 31)] + expected[:, 7:8]
    np.testing.assert_array_equal(given[1].to_host(), expected.reshape(-1))


# ---------------------------------------------------------------------- what is refused
@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("shfl_sync_idx(x[0], 1.5)", "the lane of `shfl_sync_idx` is an integer, not float literal 1.5"),
        ("shfl_sync_idx(x[0], 32)", "the lane of `shfl_sync_idx` is 0 to 31, not 32"),
        ("shfl_sync_up(x[0], -1)", "the delta of `shfl_sync_up` is 0 to 31, not -1"),
        ("shfl_sync_idx(x[0], 1, 3)", "the width of `shfl_sync_idx` is 1, 2, 4, 8, 16 or 32, not 3"),
        ("shfl_sync_idx(x[0], 1, n)", "the width of `shfl_sync_idx` is known when compiling, and i32 is not"),
        ("shfl_sync_idx(x[0], 1, mask=0)", "the mask of `shfl_sync_idx` is 0: no lane takes part"),
        ("shfl_sync_idx(x[0], 1, mask=i64(1))", "the mask of `shfl_sync_idx` is a u32, one bit a lane, not i64"),
        ("shfl_sync_idx(x[0], 1, mask=-1)", "the mask of `shfl_sync_idx` is a u32, one bit a lane, not int literal -1"),
        ("shfl_sync_idx(x, 1)", "`shfl_sync_idx` takes a number, or a value made of numbers, not In[f32]"),
        ("shfl_sync_idx(x[0])", "missing a required argument: 'lane'"),
    ],
)  # fmt: skip
def test_a_call_that_means_nothing_is_refused(call: str, message: str) -> None:
    made = kernel(f"@kernel\ndef k(x: In[f32], out: InOut[f32], n: i32):\n    out[0] = {call}")
    assert message in first_mistake(made, "sm_90")
