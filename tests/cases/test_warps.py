"""Kernels of users that go wrong where threads meet: a warp that is taken for one thread, barriers that some miss."""

from __future__ import annotations

import numpy as np
import pytest

import kaio
from kaio import In, InOut, KernelFault, Out, i32


@kaio.kernel
def warp_sum(x: In[i32], out: Out[i32]):
    """A sum by the last 32 lanes, with what has to be between its steps."""
    s = kaio.shared_mem(64, i32)
    t = kaio.thread_idx.x
    s[t] = x[t]
    kaio.bar_sync()
    if t < 32:
        step = 32
        while step > 0:
            other = s[t + step]
            kaio.syncwarp()
            s[t] += other
            kaio.syncwarp()
            step //= 2
    if t == 0:
        out[0] = s[0]


def test_a_warp_that_meets_between_its_steps_adds_right(device: kaio.Device) -> None:
    out = device.alloc_zeros(1, i32)
    warp_sum.grid(1).block(64).launch(device.alloc_from(np.arange(64, dtype=np.int32)), out).wait()
    assert out.to_host()[0] == 2016


@pytest.mark.gpu
def test_it_adds_right_in_many_blocks_at_once() -> None:
    device = kaio.Device("cuda:0")
    out = device.alloc_zeros(1, i32)
    launch = warp_sum.grid(5000).block(64).bind(device.alloc_from(np.arange(64, dtype=np.int32)), out)
    for _ in range(50):
        launch.launch()
    assert out.to_host()[0] == 2016


@kaio.kernel
def warp_sum_in_lockstep(x: In[i32], out: Out[i32]):
    """The same as it was once written, for lanes that go in step by themselves; they do not."""
    s = kaio.shared_mem(64, i32)
    t = kaio.thread_idx.x
    s[t] = x[t]
    kaio.bar_sync()
    if t < 32:
        s[t] += s[t + 32]
        s[t] += s[t + 16]
        s[t] += s[t + 8]
        s[t] += s[t + 4]
        s[t] += s[t + 2]
        s[t] += s[t + 1]
    if t == 0:
        out[0] = s[0]


def test_lanes_that_do_not_meet_do_not_run_in_step_on_the_cpu_device() -> None:
    device = kaio.Device("cpu")
    out = device.alloc_zeros(1, i32)
    warp_sum_in_lockstep.grid(1).block(64).launch(device.alloc_from(np.arange(64, dtype=np.int32)), out).wait()
    assert out.to_host()[0] != 2016


@kaio.kernel
def partial_barrier(x: In[i32], out: InOut[i32]):
    """Threads that have nothing to do return before the barrier: they count as arrived."""
    s = kaio.shared_mem(64, i32)
    t, i = kaio.thread_idx.x, kaio.grid(1)
    s[t] = 0
    if i >= x.size:
        return
    s[t] = x[i]
    kaio.bar_sync()
    out[i] = s[63 - t]


def test_threads_that_return_before_a_barrier_hold_nobody_up(device: kaio.Device) -> None:
    x = np.arange(1, 101, dtype=np.int32)
    out = device.alloc_zeros(100, i32)
    partial_barrier.over(128).block(64).launch(device.alloc_from(x), out).wait()
    padded = np.concatenate([x, np.zeros(28, np.int32)]).reshape(2, 64)
    np.testing.assert_array_equal(out.to_host(), padded[:, ::-1].reshape(-1)[:100])


@kaio.kernel
def loop_barrier(x: In[i32], out: InOut[i32]):
    t = kaio.thread_idx.x
    for k in range(4):
        if x[t] < k:
            continue
        kaio.bar_sync()
        out[t] += 1


def test_threads_that_skip_a_barrier_in_some_turns_are_reported() -> None:
    device = kaio.Device("cpu")
    given = device.alloc_from(np.arange(4, dtype=np.int32)), device.alloc_zeros(4, i32)
    with pytest.raises(KernelFault) as caught:
        loop_barrier.grid(1).block(4).launch(*given).wait()
    assert str(caught.value).startswith(
        "not all threads of a block reach a barrier in kernel `loop_barrier`\n"
        "  thread (1, 0, 0) of block (0, 0, 0) waits here; thread (0, 0, 0) went round it and finished\n"
    )
    assert "kaio.bar_sync()" in str(caught.value)


def test_b20_lanes_that_do_not_meet_are_reported():
    device = kaio.Device("cpu", check="full")
    x, out = device.alloc_from(np.arange(64, dtype=np.int32)), device.alloc_empty(1, i32)
    done = warp_sum_in_lockstep.grid(1).block(64).launch(x, out)
    with pytest.raises(KernelFault, match=r"data race on `s\[\d+\]` in kernel `warp_sum_in_lockstep`"):
        done.wait()
