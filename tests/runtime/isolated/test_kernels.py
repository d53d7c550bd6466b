"""Compiled kernels in a worker: what needs a GPU that runs them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kaio
from kaio import In, InOut, Out, f32, i32
from tests.runtime.isolated.conftest import Lab

pytestmark = pytest.mark.gpu


@kaio.kernel
def scale(x: In[f32], y: Out[f32], a: f32):
    i = kaio.grid(1)
    if i < x.size:
        y[i] = a * x[i]


@kaio.kernel
def talk(x: InOut[i32], n: i32):
    i = kaio.grid(1)
    if i < n:
        print("element", i, "is", x[i])
        x[i] += 1


@kaio.kernel
def wild(x: InOut[f32], at: i32):
    print("before", at)
    x[at] = 1.0


@kaio.kernel
def all_meet(x: InOut[i32]):
    kaio.atomic_add(x, 0, 1)
    kaio.grid_sync()
    if kaio.grid(1) == 0:
        x[1] = x[0]


@kaio.kernel
def reversed_in(x: InOut[f32]):
    own = kaio.dynamic_shared("own", f32)
    t = kaio.thread_idx.x
    own[t] = x[t]
    kaio.bar_sync()
    x[t] = own[kaio.block_dim.x - 1 - t]


@kaio.kernel
def transposed(x: In[f32, kaio.D2, kaio.Strided], y: Out[f32, kaio.D2]):
    column, row = kaio.grid(2)
    if row < y.shape[0] and column < y.shape[1]:
        y[row, column] = x[row, column]


def test_a_kernel_is_the_same_as_on_a_plain_device(lab: Lab) -> None:
    found = []
    for device in (lab.gpu, kaio.Device(0)):
        x = device.alloc_from(np.linspace(0, 1, 1000, dtype=np.float32))
        y = device.alloc_zeros(1000, f32)
        done = scale.over(1000).options(timed=True).launch(x, y, 3.0)
        done.wait(60)
        assert 0 <= done.elapsed_ms < 1000
        bound = scale.over(1000).bind(y, x, 0.5)
        bound.launch()
        bound.update(a=0.25)
        bound.launch()
        found.append(x.to_host().tobytes())
    assert found[0] == found[1]


def test_what_a_kernel_prints_is_shown_by_who_waits(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    x = lab.gpu.alloc_zeros(4, i32)
    for turn in range(3):
        talk.over(2).launch(x, 2).wait(60)
        assert sorted(capsys.readouterr().out.splitlines()) == [f"element {k} is {turn}" for k in range(2)]
    assert x.to_host().tolist() == [3, 3, 0, 0]


def test_what_was_printed_before_a_fault_is_shown_and_printing_goes_on(
    lab: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    x, y = lab.gpu.alloc_zeros(4, f32), lab.gpu.alloc_zeros(4, i32)
    for _ in range(2):
        with pytest.raises(kaio.KernelFault, match="kernel `wild` failed"):
            wild.grid(1).block(1).launch(x, 2_000_000_000).wait(60)
        talk.over(1).launch(y, 1).wait(60)
        assert "before 2000000000" in capsys.readouterr().out
    assert y.to_host()[0] == 2
    lab.gpu.wait(60)


def test_blocks_of_a_cooperative_launch_meet(lab: Lab) -> None:
    x = lab.gpu.alloc_zeros(2, i32)
    all_meet.grid(32).block(64).launch(x).wait(60)
    assert x.to_host().tolist() == [32 * 64] * 2
    with pytest.raises(kaio.LaunchError, match="runs at most"):
        all_meet.grid(1_000_000).block(1024).launch(x)


def test_shared_memory_above_the_usual_is_had(lab: Lab) -> None:
    x = lab.gpu.alloc_from(np.arange(256, dtype=np.float32))
    for count in (256, 16_000, 25_000, 256):
        reversed_in.grid(1).block(256).shared(own=count).launch(x)
    assert (x.to_host() == np.arange(256)).all()
    with pytest.raises(kaio.KernelFault):
        lab.launch("fault").wait(60)
    reversed_in.grid(1).block(256).shared(own=25_000).launch(x).wait(60)
    assert (x.to_host() == np.arange(256)[::-1]).all()


def test_views_and_strides_mean_the_same_in_the_worker(lab: Lab) -> None:
    host = np.arange(12, dtype=np.float32).reshape(3, 4)
    x, y = lab.gpu.alloc_from(host), lab.gpu.alloc_zeros((3, 2), f32)
    transposed.over((3, 2)).launch(x[:, 1::2], y)
    assert (y.to_host() == host[:, 1::2]).all()


def test_torch_shares_the_memory(lab: Lab) -> None:
    torch: Any = pytest.importorskip("torch")
    x = lab.gpu.alloc_from(np.ones(1000, np.float32))
    y = lab.gpu.alloc_zeros(1000, f32)
    scale.over(1000).launch(x, y, 3.0)
    seen = torch.from_dlpack(y)
    assert float(seen.sum()) == 3000
    mine = torch.full((1000,), 2.0, device="cuda")
    taken = lab.gpu.import_array(mine)
    scale.over(1000).launch(taken, y, 5.0).wait(60)
    assert float(seen.sum()) == 10_000
    with pytest.raises(kaio.KernelFault):
        lab.launch("fault").wait(60)
    scale.over(1000).launch(taken, y, 1.0).wait(60)
    assert float(seen.sum()) == 2000
