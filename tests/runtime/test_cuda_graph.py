"""What only a graph of a GPU does: what the driver is asked, checks on the GPU, faults."""

from __future__ import annotations

import gc
import subprocess
import sys
import textwrap
from typing import Any

import numpy as np
import pytest

import kaio
from kaio import KernelFault, f32, i32
from tests.runtime.conftest import CudaLatch
from tests.runtime.test_cuda import _Log
from tests.runtime.test_cuda_faults import checked
from tests.runtime.test_graph import N, add

pytestmark = pytest.mark.gpu


@pytest.fixture
def gpu() -> Any:
    """The first GPU."""
    return kaio.Device("cuda:0")


@pytest.fixture
def calls() -> _Log:
    """What asks the fake driver for the calls it was given."""
    try:
        return _Log()
    except ValueError:
        pytest.skip("the driver is not the fake one, which keeps a log")


@pytest.fixture
def x(gpu: Any) -> Any:
    """0, 1, 2, …"""
    return gpu.alloc_from(np.arange(N, dtype=np.float32))


@pytest.fixture
def y(gpu: Any) -> Any:
    """Zeros."""
    return gpu.alloc_zeros(N, f32)


def test_a_graph_is_one_call_of_the_driver(gpu: Any, x: Any, y: Any, calls: _Log) -> None:
    with gpu.graph() as graph:
        for _ in range(10):
            add(x, y)
    graph.launch()
    assert calls.of(graph.launch) == ["graph"]
    kept: list[Any] = []
    assert calls.of(lambda: kept.extend(graph.launch() for _ in range(3))) == [
        "graph",
        "record",
        "graph",
        "record",
        "graph",
    ]


def test_nothing_of_the_driver_is_called_while_a_graph_is_recorded_but_to_capture(
    gpu: Any,
    x: Any,
    y: Any,
    calls: _Log,
) -> None:
    def record() -> None:
        with gpu.graph():
            add(x, y)
            y.fill(0)
            x.copy_from(y)

    assert calls.of(record) == ["capture", "launch", "capture", "set", "capture", "copy", "instantiate:1"]


def test_changed_arguments_cost_one_call(gpu: Any, x: Any, y: Any, calls: _Log) -> None:
    with gpu.graph() as graph:
        recorded = add(x, y)
    assert calls.of(lambda: graph.update(recorded, a=3.0)) == ["parameters"]


def test_an_order_that_changed_arguments_ask_for_is_made_anew(
    gpu: Any,
    x: Any,
    y: Any,
    calls: _Log,
) -> None:
    z = gpu.alloc_zeros(N, f32)
    with gpu.graph() as graph:
        add(x, y, stream=gpu.stream())
        later = add(x, z, stream=gpu.stream())
        add(z, x, stream=gpu.stream())
    assert [work.after for work in graph._works] == [(), (), (0, 1)]
    assert calls.of(lambda: graph.update(later, x=y)) == ["instantiate:1"]
    assert [work.after for work in graph._works] == [(), (0,), (1,)]


def test_kernels_keep_the_priority_of_their_stream(gpu: Any, x: Any, y: Any, calls: _Log) -> None:
    def record() -> None:
        with gpu.graph():
            add(x, y, stream=gpu.stream(priority=-1))

    assert calls.of(record)[-1] == "instantiate:9"


def test_what_the_driver_has_of_a_graph_is_destroyed_when_it_is_dropped(
    gpu: Any,
    x: Any,
    y: Any,
    calls: _Log,
) -> None:
    def leave() -> None:
        with gpu.graph() as graph:
            add(x, y)
        graph.launch()
        del graph
        gc.collect()
        gpu.tidy()
        gpu.tidy()

    ends = calls.of(leave)
    assert ends.count("destroy") == 3  # a lane, what is launched, and the graph
    assert {"exec", "graph"} <= set(ends)


# ---------------------------------------------------------------------- checks
def test_each_launch_of_a_graph_tells_the_faults_of_its_own(gpu: Any) -> None:
    sizes, buffers = gpu.alloc_zeros(300, i32), gpu.alloc_zeros(300, i32)
    with gpu.graph() as graph:
        buffers.fill(0)
        recorded = checked.over(300).block(256).options(check="bounds").launch(buffers, 300)
        checked.over(300).block(256).options(check="bounds").launch(sizes, 300)
    graph.launch().wait(60)
    graph.update(recorded, threads=301)  # which the grid does not cover: nothing of it is out of range
    graph.update(recorded, x=buffers[:299], threads=300)
    failed = graph.launch()
    with pytest.raises(KernelFault) as caught:
        failed.wait(60)
    assert str(caught.value).startswith("index 299 is out of range for axis 0 of `x` (size 299) in kernel `checked`")
    with pytest.raises(KernelFault, match="index 299 "):
        sizes.to_host()
    sizes.fill(0)
    buffers.fill(0)
    graph.update(recorded, x=buffers)
    graph.launch().wait(60)
    assert buffers.to_host().tolist() == [1] * 300
    assert sizes.to_host().tolist() == [1] * 300


def test_launches_in_flight_do_not_mix_their_faults(gpu: Any) -> None:
    one, two = gpu.alloc_zeros(300, i32), gpu.alloc_zeros(299, i32)
    with gpu.graph() as graph:
        recorded = checked.over(300).options(check="bounds").launch(one, 300)
    latch = CudaLatch(gpu)
    latch.hold(gpu.current_stream())
    fine = graph.launch()
    graph.update(recorded, x=two)
    failed = graph.launch()
    latch.release()
    with pytest.raises(KernelFault, match="index 299 "):
        failed.wait(60)
    fine.wait(60)
    assert one.to_host().tolist() == [1] * 300


# ---------------------------------------------------------------------- faults
def _outcome(body: str) -> str:
    """What a process of its own prints: a fault ends the use of the GPU in the process."""
    code = f"""
import kaio
from kaio.program import CudaProgram
from kaio.runtime.stream import Launch
from tests.runtime.test_cuda import FAULT, SAXPY, program
gpu = kaio.Device(0)
fault, saxpy = program("fault", FAULT), program("saxpy", SAXPY)
y = gpu.alloc_zeros(4, kaio.f32)
gpu.wait()

def launch(program, arguments=b""):
    return gpu.current_stream().launch(Launch(gpu.load(program), (1, 1, 1), (1, 1, 1), arguments, ((y, "Out"),)))

def tell(call):
    try:
        print("no error", call())
    except kaio.KaioError as problem:
        print(type(problem).__name__, "|", problem.mistakes[0].what)

{textwrap.dedent(body)}
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert found.returncode == 0, found.stderr
    return found.stdout


def test_a_fault_of_a_graph_names_its_kernels() -> None:
    out = _outcome("""
        with gpu.graph() as graph:
            launch(saxpy, bytes(32))
            launch(fault)
        done = graph.launch()
        tell(done.wait)
        tell(graph.launch)
        tell(lambda: gpu.graph().__enter__())
    """)
    what = "one of the kernels `saxpy`, `fault` failed on cuda:0: CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal memory"
    lines = out.splitlines()
    assert lines[0].startswith(f"KernelFault | {what}")
    for line in lines[1:]:
        assert line.startswith(f"ContextPoisonedError | cuda:0 cannot be used any more in this process: {what}")
    assert len(lines) == 3
