"""Work of other libraries in graphs, on both devices."""

from __future__ import annotations

import ctypes
import threading
from typing import Any

import numpy as np
import pytest

import kaio
from kaio import f32
from kaio.errors import KaioError, LibraryError
from tests.live import settled
from tests.runtime.test_graph import N, add, saxpy, told


def copy(stream: Any, target: Any, source: Any) -> None:
    """Copy between buffers as another library does."""
    if stream.device.kind == "cpu":
        ctypes.memmove(target.pointer, source.pointer, source.nbytes)
    else:
        from kaio.runtime.cuda.driver import done, driver

        done((*driver.cuMemcpyDtoDAsync(target.pointer, source.pointer, source.nbytes, stream.handle), None))


def count(device: kaio.Device) -> int:
    """How many buffers live, when what is kept for work that is done is given back."""
    device.wait(60)
    device.alloc_empty(1, f32).close()
    return int(settled(device).live_buffers)


@pytest.fixture
def x(device: kaio.Device) -> Any:
    """0, 1, 2, …"""
    return device.alloc_from(np.arange(N, dtype=np.float32))


@pytest.fixture
def y(device: kaio.Device) -> Any:
    """Zeros."""
    return device.alloc_zeros(N, f32)


def test_work_of_a_library_is_in_the_graph_where_it_was_recorded(device: kaio.Device, x: Any, y: Any) -> None:
    z = device.alloc_zeros(N, f32)
    with device.graph() as graph:
        add(x, y, stream=device.stream())
        done = kaio.run(lambda stream: copy(stream, z, y), keep_alive=y, output=z, library="copies")
        add(z, x, stream=device.stream())
    assert told(done.wait).startswith("the work of copies was recorded in a graph and did not run\n")
    assert graph.explain().splitlines()[1:] == [
        "1: work of copies on stream 1, after 0",
        "2: kernel `saxpy` on stream 2, after 1",
    ]
    for _ in range(2):
        graph.launch()
    # x: n, 2n, 5n; y: n, 3n
    np.testing.assert_array_equal(z.to_host(), 3 * np.arange(N))
    np.testing.assert_array_equal(x.to_host(), 5 * np.arange(N))


def test_what_the_work_needs_lives_as_long_as_the_graph_and_its_launches(
    device: kaio.Device, x: Any, y: Any, latch: Any
) -> None:
    before = count(device)
    stream, temporary = device.stream(), x.copy()
    pointer, nbytes = temporary.pointer, temporary.nbytes

    def enqueue(stream: Any, target: Any = y) -> None:
        class Raw:
            """What the library knows of the buffer."""

        source: Any = Raw()
        source.pointer, source.nbytes = pointer, nbytes
        copy(stream, target, source)

    with device.graph() as graph:
        kaio.run(enqueue, keep_alive=[temporary], output=y)
    del temporary
    assert count(device) == before + 1
    latch.hold(stream)
    done = graph.launch(stream)
    del graph
    others = [device.alloc_zeros(N, f32) for _ in range(4)]
    for other in others:
        other.fill(9)
    latch.release()
    done.wait(60)
    np.testing.assert_array_equal(y.to_host(), x.to_host())
    del done, others, other
    assert count(device) == before


def test_what_the_library_raises_is_told_as_its_own(device: kaio.Device, x: Any, y: Any) -> None:
    def fail(stream: Any) -> None:
        raise ZeroDivisionError("no")

    def record() -> Any:
        with device.graph() as graph:
            add(x, y)
            kaio.run(fail, output=y, library="failing")
        return graph

    if device.kind == "cpu":  # where it is called by the launches of the graph
        with pytest.raises(LibraryError) as caught:
            record().launch().wait(60)
        y.fill(0)
    else:
        with pytest.raises(LibraryError) as caught:
            record()
    assert caught.value.library == "failing"
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    add(x, y).wait(60)
    np.testing.assert_array_equal(y.to_host(), x.to_host())


def test_launches_of_a_graph_call_a_library_one_after_the_other() -> None:
    cpu, events = kaio.Device("cpu"), [threading.Event() for _ in range(3)]
    entered, again, go = events
    seen: list[str] = []

    def enqueue(stream: Any) -> None:
        (again if entered.is_set() else entered).set()
        seen.append("in")
        go.wait(60)
        seen.append("out")

    with cpu.graph() as graph:
        kaio.run(enqueue)
    works = [graph.launch(cpu.stream())]
    assert entered.wait(60)
    works.append(graph.launch(cpu.stream()))
    assert not again.wait(0.1)
    go.set()
    kaio.gather(*works).wait(60)
    assert seen == ["in", "out"] * 2


@pytest.mark.gpu
class TestOnAGpu:
    """What a library may do while its work is captured."""

    @pytest.fixture
    def device(self) -> kaio.Device:
        """The first GPU."""
        return kaio.Device("cuda:0")

    def test_streams_of_the_library_are_part_of_it_if_they_join(self, device: kaio.Device, x: Any, y: Any) -> None:
        from kaio.runtime.cuda.driver import done, driver

        z = device.alloc_zeros(N, f32)
        with device.current():  # type: ignore[attr-defined]
            side = done(driver.cuStreamCreateWithPriority(1, 0))
            fork, join = (done(driver.cuEventCreate(2)) for _ in range(2))

        def enqueue(stream: Any) -> None:
            driver.cuEventRecord(fork, stream.handle)
            driver.cuStreamWaitEvent(side, fork, 0)
            driver.cuMemcpyDtoDAsync(y.pointer, x.pointer, x.nbytes, side)
            driver.cuMemcpyDtoDAsync(z.pointer, x.pointer, x.nbytes, stream.handle)
            driver.cuEventRecord(join, side)
            driver.cuStreamWaitEvent(stream.handle, join, 0)

        with device.graph() as graph:
            add(x, x.copy())
            kaio.run(enqueue, keep_alive=x, output=(y, z))
            add(y, z)
        graph.launch()
        np.testing.assert_array_equal(z.to_host(), 2 * np.arange(N))
        with device.current():  # type: ignore[attr-defined]
            driver.cuStreamDestroy(side)

    def test_a_graph_is_launched_on_a_stream_of_another_library(self, device: kaio.Device, x: Any, y: Any) -> None:
        from kaio.runtime.cuda.driver import done, driver

        with device.current():  # type: ignore[attr-defined]
            raw = done(driver.cuStreamCreateWithPriority(1, 0))

        class Foreign:
            def __cuda_stream__(self) -> tuple[int, int]:
                return 0, int(raw)

        with device.graph() as graph:
            saxpy.over(N).on(Foreign()).launch(x, y, 1.0)
            add(x, y)
        done_ = graph.launch(Foreign())
        assert done_.stream.handle == int(raw)  # type: ignore[attr-defined]
        np.testing.assert_array_equal(y.to_host(), 2 * x.to_host())

    def test_nothing_enqueued_is_nothing(self, device: kaio.Device, x: Any, y: Any) -> None:
        with device.graph() as graph:
            add(x, y)
            kaio.run(lambda stream: None, output=y)
            add(x, y)
        graph.launch()
        np.testing.assert_array_equal(y.to_host(), 2 * x.to_host())

    def test_what_is_forbidden_while_work_is_captured_is_told_and_leaves_nothing_behind(
        self, device: kaio.Device, x: Any, y: Any
    ) -> None:
        from kaio.runtime.cuda.driver import done, driver

        def synchronise(stream: Any) -> None:
            copy(stream, y, x)
            done((*driver.cuStreamSynchronize(stream.handle), None))

        graph = device.graph()
        with pytest.raises(LibraryError) as caught, graph:
            kaio.run(synchronise, keep_alive=x, output=y, library="waiting")
        assert "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED" in str(caught.value.__cause__)
        assert told(graph.launch).startswith("the recording of this graph failed")
        with device.graph() as another:
            add(x, y)
        another.launch()
        np.testing.assert_array_equal(y.to_host(), x.to_host())

    def test_a_failure_of_a_part_that_is_caught_fails_the_graph(self, device: kaio.Device, x: Any, y: Any) -> None:
        def half(stream: Any) -> None:
            copy(stream, y, x)
            raise ZeroDivisionError

        def record() -> None:
            with device.graph():
                with pytest.raises(LibraryError):
                    kaio.run(half, keep_alive=x, output=y, library="half")
                add(x, y)

        assert told(record).startswith("a part of this graph failed while it was recorded, and the block went on: ")

    @pytest.mark.parametrize("what", ["launch", "memory"])
    def test_kaio_itself_is_not_used_by_what_is_captured(self, device: kaio.Device, x: Any, y: Any, what: str) -> None:
        uses = {
            "launch": (lambda: add(x, y), "kernel `saxpy` is recorded while `kaio.run` records the work of a library"),
            "memory": (lambda: device.alloc_empty(3, f32), "memory cannot be made by what `kaio.run` enqueues"),
        }
        call, words = uses[what]
        with pytest.raises(LibraryError) as caught, device.graph():
            kaio.run(lambda stream: call(), output=y)
        assert isinstance(caught.value.__cause__, KaioError)
        assert str(caught.value.__cause__).startswith(words)
