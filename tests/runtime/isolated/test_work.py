"""Copies and order as of every device; ways to wait, streams that are chosen, and pinned arrays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import kaio
from tests.runtime.isolated.conftest import Lab
from tests.runtime.test_copies import *  # noqa: F403
from tests.runtime.test_order import *  # noqa: F403

pytestmark = pytest.mark.gpu


@pytest.fixture
def device() -> Iterator[Any]:
    """The first GPU, isolated."""
    device = kaio.Device(0, isolated=True)
    yield device
    device.wait(timeout_s=60)


@pytest.mark.parametrize("strategy", ["host_fn", "polled", "sync"])
def test_a_fault_is_told_by_each_way_to_wait_and_its_device_goes_on(strategy: Any) -> None:
    lab = Lab(kaio.Device(0, isolated=True, completion=strategy))
    done = lab.launch("fault", (lab.word, "Out"))
    with pytest.raises(kaio.KernelFault, match="kernel `fault` failed"):
        done.wait(60)
    with pytest.raises(kaio.KernelFault):
        lab.word.to_host()
    lab.word.fill(3)  # which holds the device's lock while a stream with `completion="sync"` waits
    assert lab.word.to_host() == 3
    lab.check_data()


@pytest.mark.parametrize("streams", ["per_thread", "pool"])
def test_streams_that_are_chosen_go_on_after_a_fault(streams: Any) -> None:
    lab = Lab(kaio.Device(0, isolated=True, streams=streams))
    y = lab.gpu.alloc_zeros(1000, kaio.f32)
    for turn in range(3):
        lab.saxpy(y, stream=lab.gpu.stream_for(((y, "InOut"),))).wait(60)
        with pytest.raises(kaio.KernelFault):
            lab.launch("fault").wait(60)
        assert (y.to_host() == (turn + 1) * lab.x.to_host()).all()
    lab.gpu.wait(60)


def test_pinned_arrays_are_copied_from_and_to_and_outlive_a_worker(lab: Lab) -> None:
    stage, y = lab.gpu.alloc_pinned(1000, kaio.f32), lab.gpu.alloc_zeros(1000, kaio.f32)
    stage[:] = np.arange(1000)
    for _ in range(2):
        y.copy_from(stage).wait(60)
        lab.saxpy(y)
        assert (y.copy_to().result() == 2 * np.arange(1000)).all()
        with pytest.raises(kaio.KernelFault):
            lab.launch("fault").wait(60)
