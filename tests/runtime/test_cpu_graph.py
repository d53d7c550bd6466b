"""Graphs of the CPU device: its checks look into them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kaio
from kaio import In, InOut, KernelFault, Out, f32


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
def at(x: InOut[f32], k: kaio.i32):
    x[k] += 1


@pytest.fixture
def cpu() -> Any:
    return kaio.Device("cpu")


@pytest.fixture
def full() -> Any:
    return kaio.Device("cpu", check="full")


def told(done: Any) -> KernelFault:
    with pytest.raises(KernelFault) as caught:
        done.wait(60)
    return caught.value


def test_a_fault_in_a_graph_fails_it_and_what_takes_its_buffers(cpu: Any) -> None:
    x, y = cpu.alloc_zeros(4, f32), cpu.alloc_zeros(4, f32)
    with cpu.graph() as graph:
        at.grid(1).block(1).launch(x, 1)
        recorded = at.grid(1).block(1).launch(x, 4)
        y.fill(3)
    fault = told(graph.launch())
    assert str(fault).startswith("index 4 is out of range for axis 0 of `x` (size 4) in kernel `at`\n")
    for buffer in (x, y):
        with pytest.raises(KernelFault):
            buffer.to_host()
    with pytest.raises(KernelFault):
        graph.launch()
    x.fill(0)
    graph.update(recorded, k=3)
    graph.launch().wait(60)  # which fills the whole of y
    assert (x.to_host().tolist(), y.to_host().tolist()) == ([0, 1, 0, 1], [3] * 4)


def test_a_failure_of_a_graph_that_nobody_saw_is_raised_by_the_next_wait(cpu: Any) -> None:
    x = cpu.alloc_zeros(4, f32)
    with cpu.graph() as graph:
        at.grid(1).block(1).launch(x, 4)
    graph.launch()
    with pytest.raises(KernelFault) as caught:
        cpu.wait(60)
    assert caught.value.__notes__ == [
        "This is from the graph of kernel `at`, started earlier, which nobody had waited for."
    ]


def test_memory_that_nobody_has_written_is_known_in_a_graph(full: Any) -> None:
    x, y = full.alloc_empty(8, f32), full.alloc_zeros(8, f32)
    with full.graph() as graph:
        recorded = fill_all.over(4).launch(x[:4], 1.0)
        copy.over(8).launch(x, y)
    fault = told(graph.launch())
    assert str(fault).startswith("`x[4]` is read before it is written in kernel `copy`\n")
    y.fill(0)
    x.fill(0)
    graph.launch().wait(60)
    assert y.to_host().tolist() == [1] * 4 + [0] * 4
    assert recorded in graph.launches


def test_what_a_graph_writes_first_is_written_for_what_follows(full: Any) -> None:
    x, y, z = (full.alloc_empty(8, f32) for _ in range(3))
    with full.graph() as graph:
        fill_all.over(8).launch(x, 1.0)
        copy.over(8).launch(x, y)
        z.copy_from(y)
    graph.launch()
    copy.over(8).launch(z, x).wait(60)
    assert x.to_host().tolist() == [1] * 8


@pytest.mark.parametrize("ordered", [True, False])
def test_launches_that_nothing_orders_race_in_a_graph(full: Any, ordered: bool) -> None:
    host = np.zeros(100, np.float32)
    one, two, out = full.import_array(host), full.import_array(host), full.alloc_zeros(60, f32)
    streams = [full.stream(), full.stream()]
    with full.graph() as graph:
        fill_all.over(60).on(streams[0]).launch(one[:60], 1.0)
        copy.over(60).on(streams[not ordered]).launch(two[40:], out)
    if ordered:
        for _ in range(3):
            graph.launch()
        assert out.to_host().tolist() == [1] * 20 + [0] * 40
    else:
        fault = told(graph.launch())
        assert (fault.kind, {fault.facts["kernel"], fault.facts["other_kernel"]}) == ("race", {"fill_all", "copy"})


def test_launches_of_a_graph_and_work_around_them_are_ordered(full: Any) -> None:
    host = np.zeros(100, np.float32)
    one, two, three = (full.import_array(host) for _ in range(3))
    stream, out = full.stream(), full.alloc_zeros(100, f32)
    copy.over(100).on(stream).launch(three, out)
    with full.graph() as graph:
        fill_all.over(100).on(full.stream()).launch(one, 1.0)
    graph.launch(stream)
    graph.launch(stream)
    copy.over(100).on(stream).launch(two, out).wait(60)
    assert out.to_host().tolist() == [1] * 100


def test_a_graph_and_work_that_nothing_orders_with_it_race(full: Any) -> None:
    host = np.zeros(100, np.float32)
    one, two = full.import_array(host), full.import_array(host)
    with full.graph() as graph:
        fill_all.over(100).launch(one, 1.0)
    works = [graph.launch(full.stream()), copy.over(100).on(full.stream()).launch(two, full.alloc_zeros(100, f32))]
    faults = []
    for done in works:
        try:
            done.wait(60)
        except KernelFault as fault:
            faults.append(fault.kind)
    assert faults == ["race"]


def test_options_of_a_launch_hold_in_a_graph(cpu: Any) -> None:
    x = cpu.alloc_zeros(4, f32)
    with cpu.graph() as graph:
        fill_all.grid(1).block(2).options(coverage=True).launch(x, 1.0)
    assert told(graph.launch()).kind == "coverage"


def test_arguments_that_are_given_by_name_are_changed(cpu: Any) -> None:
    @kaio.kernel
    def shift(y: InOut[f32], *, a: f32, b: f32 = 1.0):
        i = kaio.grid(1)
        if i < y.size:
            y[i] += a + b

    y = cpu.alloc_zeros(4, f32)
    with cpu.graph() as graph:
        recorded = shift.over(4).launch(y, a=2.0)
    graph.launch()
    graph.update(recorded, b=4.0)
    graph.launch()
    assert y.to_host().tolist() == [9] * 4
