"""Launches on several streams over memory that kaio does not order: which of them race, and how that is told."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kaio
from kaio import In, InOut, Out, f32, i32
from kaio.errors import KernelFault


@kaio.kernel
def fill_all(y: Out[f32], a: f32):
    i = kaio.grid(1)
    if i < y.size:
        y[i] = a


@kaio.kernel
def copy(x: In[f32], y: Out[f32]):
    i = kaio.grid(1)
    if i < y.size:
        y[i] = x[i]


@kaio.kernel
def count(bins: InOut[i32]):
    kaio.atomic_add(bins, kaio.grid(1) % bins.size, 1)


@pytest.fixture
def cpu() -> kaio.Device:
    return kaio.Device("cpu", check="full")


def _told(launches: list[Any]) -> KernelFault:
    """The fault of the one that ends last."""
    faults = []
    for done in launches:
        try:
            done.wait()
        except KernelFault as fault:
            faults.append(fault)
    assert len(faults) == 1
    return faults[0]


def test_two_launches_over_two_imports_race_element_by_element(cpu):
    host = np.zeros(100, np.float32)
    one, two = cpu.import_array(host), cpu.import_array(host)
    streams = cpu.stream(), cpu.stream()
    first = fill_all.over(60).on(streams[0]).launch(one[:60], 1.0)
    second = copy.over(60).on(streams[1]).launch(two[40:], cpu.alloc_zeros(60, f32))
    fault = _told([first, second])
    facts = fault.facts
    assert facts["kind"] == "race"
    assert {facts["kernel"], facts["other_kernel"]} == {"fill_all", "copy"}
    assert {facts["access"], facts["other_access"]} == {"read", "write"}
    reads = facts["kernel"] == "copy"
    assert (facts["array"], facts["index"]) == (("x", 0) if reads else ("y", 40))
    assert facts["thread" if reads else "other_thread"] == (0, 0, 0)
    assert facts["other_thread" if reads else "thread"] == (40, 0, 0)
    text = str(fault)
    assert text.startswith(f"data race on `{facts['array']}[{facts['index']}]` in kernel `{facts['kernel']}`\n")
    assert "nothing orders the two launches" in text
    assert "y[i] = x[i]" in text
    assert "y[i] = a" in text
    assert text.endswith("launches that use one buffer are ordered")


def test_launches_that_touch_other_elements_do_not_race(cpu):
    host = np.zeros(100, np.float32)
    one, two = cpu.import_array(host), cpu.import_array(host)
    launches = [
        fill_all.over(50).on(cpu.stream()).launch(part, value) for part, value in ((one[:50], 1), (two[50:], 2))
    ]
    for done in launches:
        done.wait()
    assert host.sum() == 150


@pytest.mark.parametrize("how", ["stream", "wait", "to_host", "buffer"])
def test_ordered_launches_are_silent(cpu, how):
    host = np.zeros(100, np.float32)
    one, two = cpu.import_array(host), cpu.import_array(host)
    if how == "buffer":
        two = one[10:]
    first = cpu.stream()
    fill_all.over(100).on(first).launch(one, 1.0)
    if how == "wait":
        first.wait()
    elif how == "to_host":
        one.to_host()
    second = first if how == "stream" else cpu.stream()
    fill_all.over(90).on(second).launch(two[:90], 2.0).wait()


def test_readers_do_not_race(cpu):
    host = np.ones(100, np.float32)
    one, two = cpu.import_array(host), cpu.import_array(host)
    outs = [cpu.alloc_zeros(100, f32) for _ in range(2)]
    launches = [copy.over(100).on(cpu.stream()).launch(x, y) for x, y in zip((one, two), outs, strict=True)]
    for done in launches:
        done.wait()


def test_atomic_updates_of_two_launches_do_not_race(cpu):
    host = np.zeros(10, np.int32)
    one, two = cpu.import_array(host), cpu.import_array(host)
    launches = [count.grid(1).block(100).on(cpu.stream()).launch(bins) for bins in (one, two)]
    for done in launches:
        done.wait()
    assert host.tolist() == [20] * 10


def test_views_of_another_dtype_race_by_their_bytes(cpu):
    host = np.zeros(100, np.int32)
    one, two = cpu.import_array(host), cpu.import_array(host.view(np.float32))
    launches = [
        count.grid(1).block(100).on(cpu.stream()).launch(one[50:60]),
        fill_all.over(3).on(cpu.stream()).launch(two[55:58], 1.0),
    ]
    fault = _told(launches)
    assert (fault.facts["array"], fault.facts["index"]) in (("bins", 5), ("y", 0))


def test_an_exported_buffer_and_its_import_are_two(cpu):
    buffer = cpu.alloc_zeros(100, f32)
    other = cpu.import_array(np.from_dlpack(buffer))
    launches = [fill_all.over(100).on(cpu.stream()).launch(x, 1.0) for x in (buffer, other)]
    assert _told(launches).facts["index"] == 0


def test_what_nobody_can_race_with_any_more_is_not_kept(cpu):
    host = np.zeros(100, np.float32)
    one = cpu.import_array(host)
    for _ in range(5):
        fill_all.over(100).on(cpu.stream()).launch(one, 1.0).wait()
    fill_all.over(100).launch(one, 1.0).wait()
    assert len(cpu.overlaps._done) <= 1


def test_kaio_buffers_are_not_watched(cpu):
    buffer = cpu.alloc_zeros(100, f32)
    fill_all.over(100).launch(buffer, 1.0).wait()
    assert not any(flight.kept and flight.kept[0].buffer.start == buffer.pointer for flight in cpu.overlaps._done)
