"""Graphs, on both devices: what is recorded, what it does when it is launched, what is refused.

The kernel is one that the fake driver knows by its name, and whose graphs run in any order that their edges allow.
"""

from __future__ import annotations

import asyncio
import copy
import pickle
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kaio
from kaio import In, InOut, f32
from kaio.errors import BufferClosedError, KaioError, LaunchError, StaleBufferError
from tests.live import settled

N = 300


@kaio.kernel
def saxpy(x: In[f32], y: InOut[f32], a: f32):
    i = kaio.grid(1)
    if i < y.size:
        y[i] = a * x[i] + y[i]


def add(x: Any, y: Any, a: float = 1.0, **where: Any) -> Any:
    """Launch `y += a * x`."""
    launcher = saxpy.over(y.size)
    return (launcher.on(where["stream"]) if where else launcher).launch(x, y, a)


@pytest.fixture
def x(device: kaio.Device) -> Any:
    """0, 1, 2, …"""
    return device.alloc_from(np.arange(N, dtype=np.float32))


@pytest.fixture
def y(device: kaio.Device) -> Any:
    """Zeros."""
    return device.alloc_zeros(N, f32)


def told(call: Callable[[], object], error: type[KaioError] = KaioError) -> str:
    """What a call is refused with, and the way out."""
    with pytest.raises(error) as caught:
        call()
    assert type(caught.value) is error
    return str(caught.value)


# ---------------------------------------------------------------------- recording and launching
def test_nothing_runs_while_a_graph_is_recorded_and_all_of_it_at_each_launch(
    device: kaio.Device, x: Any, y: Any
) -> None:
    with device.graph() as graph:
        add(x, y)
        add(x, y, 2.0)
    assert not y.to_host().any()
    for k in range(1, 4):
        done = graph.launch()
        done.wait(60)
        assert done.is_done
        np.testing.assert_array_equal(y.to_host(), 3 * k * x.to_host())


def test_copies_and_fills_are_recorded(device: kaio.Device, x: Any, y: Any) -> None:
    with device.graph() as graph:
        y.copy_from(x)
        x[:10].fill(7)
        z = y.copy()
    before = x.to_host()
    graph.launch()
    graph.launch()
    assert z.to_host()[:10].tolist() == [7] * 10
    np.testing.assert_array_equal(z.to_host()[10:], before[10:])


def test_copies_from_and_to_pinned_arrays_are_made_at_each_launch(device: kaio.Device, x: Any, y: Any) -> None:
    source, target = device.alloc_pinned(N, f32), device.alloc_pinned(N, f32)
    with device.graph() as graph:
        x.copy_from(source)
        add(x, y)
        y.copy_to(target)
    found = []
    for k in range(1, 4):
        np.asarray(source)[:] = k
        graph.launch().wait(60)
        found.append(float(np.asarray(target)[-1]))
    assert found == [1, 3, 6]


def test_parts_that_do_not_lie_in_one_piece_are_copied_and_filled(device: kaio.Device) -> None:
    x = device.alloc_zeros((4, 6), f32)
    with device.graph() as graph:
        x[:, ::2].fill(3)
        x[1:, 1::2].copy_from(x[:3, ::2])
    graph.launch()
    assert x.to_host().tolist() == [[3, 0] * 3] + [[3] * 6] * 3


def test_memory_made_inside_lives_in_the_graph_and_begins_with_zeros_at_each_launch(
    device: kaio.Device, x: Any, y: Any
) -> None:
    with device.graph() as graph:
        total = device.alloc_zeros(N, f32)
        add(x, total)
        add(total, y)
        del total
    for k in range(1, 4):
        graph.launch()
        np.testing.assert_array_equal(y.to_host(), k * x.to_host())


def test_work_on_several_streams_keeps_its_order(device: kaio.Device, x: Any, y: Any) -> None:
    one, two = device.stream(), device.stream()
    z = device.alloc_zeros(N, f32)
    with device.graph() as graph:
        add(x, y, stream=one)
        add(y, z, stream=two)
        add(x, y, stream=one)
        add(y, z, stream=two)
    assert graph.explain() == (
        "0: kernel `saxpy` on stream 0\n"
        "1: kernel `saxpy` on stream 1, after 0\n"
        "2: kernel `saxpy` on stream 0, after 1\n"
        "3: kernel `saxpy` on stream 1, after 2"
    )
    graph.launch()
    np.testing.assert_array_equal(z.to_host(), 3 * x.to_host())


def test_independent_work_is_not_ordered(device: kaio.Device, x: Any, y: Any) -> None:
    z = device.alloc_zeros(N, f32)
    with device.graph() as graph:
        add(x, y, stream=device.stream())
        add(x, z, stream=device.stream())
        add(z, y)
    assert [work.after for work in graph._works] == [(), (), (0, 1)]  # type: ignore[attr-defined]


def test_leaving_the_block_of_a_stream_joins_it(device: kaio.Device, x: Any, y: Any) -> None:
    z = device.alloc_zeros(N, f32)
    with device.graph() as graph:
        with device.stream() as stream:
            assert device.current_stream() is stream
            add(x, y)
        add(x, z)
        add(x, z, stream=device.stream())
    assert [work.after for work in graph._works] == [(), (0,), (1,)]  # type: ignore[attr-defined]


def test_streams_ordered_by_hand_are_so_in_a_graph(device: kaio.Device, x: Any, y: Any) -> None:
    one, two, three = (device.stream(ordering="manual") for _ in range(3))
    with device.graph() as graph:
        first = add(x, y, stream=one)
        add(x, y, stream=two)
        two.wait_for(first)
        add(x, y, stream=two)
        three.wait_for(two)
        three.wait_for(kaio.gather(first))
        add(x, y, stream=three)
        add(x, y)
        add(x, y, stream=one)
    assert [work.after for work in graph._works] == [(), (), (0, 1), (2,), (3,), (0,)]  # type: ignore[attr-defined]
    for _ in range(2):
        graph.launch()
    assert y.to_host().any()


def test_a_stream_waits_in_a_graph_for_no_work_that_is_none_of_it(
    device: kaio.Device, x: Any, y: Any, latch: Any
) -> None:
    stream, other = device.stream(), device.stream()
    with device.graph() as earlier:
        recorded = add(x, y)
    pending = latch.hold(other)
    with device.graph() as graph:
        for work in (recorded, pending, other):
            assert told(lambda work=work: stream.wait_for(work)).endswith(  # type: ignore[misc]
                ", which is no part of the graph that is recorded\n"
                "  help: let the stream on which the graph is launched wait for it: `stream.wait_for(done)`"
            )
        assert told(lambda: stream.wait_for("it")).startswith("`wait_for` takes a Completion or a stream")  # type: ignore[arg-type]
        latch.release()
        pending_again = add(x, y, stream=stream)
    assert (len(earlier), len(graph), pending_again.stream) == (1, 1, stream)
    pending.wait(60)


@pytest.mark.parametrize("streams", ["per_thread", "pool"])
def test_a_device_that_chooses_streams_does_so_for_a_graph(device: kaio.Device, streams: Any) -> None:
    chooses = kaio.Device("cuda:0" if device.kind == "cuda" else "cpu", streams=streams)
    x, y, z = (chooses.alloc_from(np.arange(N, dtype=np.float32)) for _ in range(3))
    with chooses.graph() as graph:
        add(x, y)
        add(x, z)
        add(y, z)
        z.copy_from(y)
    graph.launch()
    np.testing.assert_array_equal(z.to_host(), 2 * np.arange(N))


def test_an_async_block_of_a_stream_joins_it_too(device: kaio.Device, x: Any, y: Any) -> None:
    async def record() -> Any:
        with device.graph() as graph:
            async with device.stream():
                add(x, y)
            add(x, device.alloc_empty(N, f32))
        return graph

    assert [work.after for work in asyncio.run(record())._works] == [(), (0,)]


def test_a_bound_launch_is_recorded_where_it_was_bound(device: kaio.Device, x: Any, y: Any) -> None:
    bound = saxpy.over(N).bind(x, y, 1.0)
    with device.graph() as graph:
        recorded = bound.launch()
        inside = saxpy.over(N).bind(x, y, 2.0)
        inside.launch()
    assert not y.to_host().any()
    graph.launch()
    graph.update(recorded, a=5.0)
    graph.launch()
    np.testing.assert_array_equal(y.to_host(), 10 * x.to_host())
    bound.launch()
    inside.launch().wait(60)
    np.testing.assert_array_equal(y.to_host(), 13 * x.to_host())


def test_a_graph_of_nothing_is_launched_to_no_effect(device: kaio.Device, x: Any) -> None:
    with device.graph() as graph:
        saxpy.over(0).launch(x[:0], x[:0].copy(), 1.0).wait()
    assert (len(graph), bool(graph), graph.launch().is_done) == (0, True, True)


def test_a_stream_that_waits_itself_does_so_for_a_graph(device: kaio.Device, x: Any, y: Any) -> None:
    stream = device.stream(completion="sync")
    with device.graph() as graph:
        add(x, y, stream=stream)
    done = graph.launch(stream)
    assert done._finished
    np.testing.assert_array_equal(y.to_host(), x.to_host())


def test_a_launch_of_a_graph_can_be_timed(device: kaio.Device, x: Any, y: Any) -> None:
    with device.graph() as graph:
        add(x, y)
    done = graph.launch(timed=True)
    done.wait(60)
    assert done.elapsed_ms > 0


# ---------------------------------------------------------------------- replay equals eager
BUFFERS, STREAMS = 4, 3
_STEPS = st.tuples(
    st.sampled_from(["launch", "launch", "launch", "copy", "half", "fill", "fresh", "block"]),
    st.integers(0, STREAMS - 1),
    st.permutations(range(BUFFERS)).map(lambda order: order[:2]),
    st.sampled_from([0.5, -1.0, 0.75]),
)


class Program:
    """A random program over some buffers and streams, played eagerly or into a graph."""

    def __init__(self, device: kaio.Device, steps: list[Any]) -> None:
        self.device, self.steps = device, steps
        self.buffers = [device.alloc_from(np.float32(np.arange(N) % 7 - k)) for k in range(BUFFERS)]
        self.streams = [device.stream() for _ in range(STREAMS)]
        self.recorded: dict[int, Any] = {}

    def play(self, changes: dict[int, dict[str, Any]]) -> None:
        for number, (what, on, (one, two), value) in enumerate(self.steps):
            source, target = self.buffers[one], self.buffers[two]
            stream = self.streams[on]
            if what == "launch":
                change = changes.get(number, {})
                source = self.buffers[change["x"]] if "x" in change else source
                target = self.buffers[change["y"]] if "y" in change else target
                self.recorded[number] = add(source, target, change.get("a", value), stream=stream)
            elif what == "block":
                with stream:
                    add(source, target, value)
            else:
                self.device.enter_stream(stream)
                if what == "copy":
                    target.copy_from(source)
                elif what == "half":
                    target[: N // 2].copy_from(source[N // 2 :])
                elif what == "fill":
                    target[::1].fill(value)
                else:
                    fresh = self.device.alloc_zeros(N, f32)
                    add(source, fresh, value)
                    target.copy_from(fresh)
                self.device.leave_stream(stream)

    def results(self) -> list[bytes]:
        return [buffer.to_host().tobytes() for buffer in self.buffers]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(_STEPS, min_size=1, max_size=14))
def test_launching_a_graph_does_what_the_program_does(device: kaio.Device, steps: list[Any]) -> None:
    eager, graphed = Program(device, steps), Program(device, steps)
    with device.graph() as graph:
        graphed.play({})
    for k in range(3):
        eager.play({})
        graph.launch(graphed.streams[k % STREAMS])
        assert graphed.results() == eager.results()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(_STEPS, min_size=2, max_size=10), data=st.data())
def test_so_does_a_graph_with_changed_arguments(device: kaio.Device, steps: list[Any], data: st.DataObject) -> None:
    eager, graphed = Program(device, steps), Program(device, steps)
    with device.graph() as graph:
        graphed.play({})
    changes: dict[int, dict[str, Any]] = {}
    for _ in range(3):
        if graphed.recorded:
            number = data.draw(st.sampled_from(sorted(graphed.recorded)))
            one, two = data.draw(st.permutations(range(BUFFERS)))[:2]
            changes[number] = {"x": one, "y": two, "a": data.draw(st.sampled_from([0.25, -0.5]))}
            graph.update(
                graphed.recorded[number], x=graphed.buffers[one], y=graphed.buffers[two], a=changes[number]["a"]
            )
        graph.launch()
        eager.play(changes)
        assert graphed.results() == eager.results()


# ---------------------------------------------------------------------- order with other work
def test_a_graph_waits_for_earlier_work_on_its_buffers_and_later_work_for_it(
    device: kaio.Device, x: Any, y: Any, make_latch: Any
) -> None:
    one, two, three = (device.stream() for _ in range(3))
    with device.graph() as graph:
        add(x, y)
    writing = make_latch()
    writing.hold(one, (x, "Out"))
    done = graph.launch(two)
    later = add(y, device.alloc_empty(N, f32), stream=three)
    assert not done.is_done
    assert not later.is_done
    writing.release()
    later.wait(60)
    assert done.is_done


def test_work_that_writes_what_a_graph_reads_waits_for_it(device: kaio.Device, x: Any, y: Any, make_latch: Any) -> None:
    one, two = device.stream(), device.stream()
    with device.graph() as graph:
        add(x, y)
    before = make_latch()
    before.hold(one)
    graph.launch(one)
    device.enter_stream(two)
    filled = x.fill(0)
    device.leave_stream(two)
    assert not filled.is_done
    before.release()
    np.testing.assert_array_equal(y.to_host(), np.arange(N))


def test_launches_on_several_streams_run_one_after_the_other(device: kaio.Device, x: Any, y: Any) -> None:
    streams = [device.stream() for _ in range(3)]
    with device.graph() as graph:
        add(x, y)
    for k in range(30):
        graph.launch(streams[k % 3])
    np.testing.assert_array_equal(y.to_host(), 30 * x.to_host())


def test_a_launch_is_awaited(device: kaio.Device, x: Any, y: Any) -> None:
    with device.graph() as graph:
        add(x, y)

    async def launch() -> None:
        await graph.launch()

    asyncio.run(launch())
    np.testing.assert_array_equal(y.to_host(), x.to_host())


def test_another_thread_goes_on_with_the_device_while_a_graph_is_recorded(device: kaio.Device, x: Any, y: Any) -> None:
    z = device.alloc_zeros(N, f32)
    found: list[Any] = []

    def work() -> None:
        add(x, z).wait(60)
        found.append(z.to_host())
        device.alloc_from(np.zeros(3))
        with device.graph() as other:
            add(x, z)
        other.launch().wait(60)

    with device.graph() as graph:
        add(x, y)
        thread = threading.Thread(target=work)
        thread.start()
        thread.join(60)
        add(x, y)
    np.testing.assert_array_equal(found[0], x.to_host())
    np.testing.assert_array_equal(z.to_host(), 2 * x.to_host())
    assert len(graph) == 2


def test_a_thread_that_works_for_the_recording_task_is_recorded(device: kaio.Device, x: Any, y: Any) -> None:
    async def record() -> Any:
        with device.graph() as graph:
            await asyncio.to_thread(add, x, y)
        return graph

    graph = asyncio.run(record())
    assert len(graph) == 1
    assert not y.to_host().any()


# ---------------------------------------------------------------------- what is refused
RECORDED = (
    "kernel `saxpy` was recorded in a graph and did not run\n"
    "  help: launch the graph once it is recorded, and wait for that: `graph.launch().wait()`"
)


def test_recorded_work_is_not_waited_for(device: kaio.Device, x: Any, y: Any) -> None:
    async def awaited(done: Any) -> None:
        await done

    with device.graph() as graph:
        done = add(x, y)
        assert told(done.wait) == RECORDED
    graph.launch()
    for call in (
        done.wait, done.result, lambda: done.is_done, lambda: done.elapsed_ms, lambda: asyncio.run(awaited(done)),
        lambda: done.add_done_callback(print), done.future, lambda: kaio.gather(done, done).wait(),
        lambda: next(iter(kaio.as_completed([done]))),
    ):  # fmt: skip
        assert told(call) == RECORDED
    assert repr(done) == f"<Completion of kernel `saxpy` on {device}, recorded>"


REFUSED = {
    "to_host": (lambda device, x: x.to_host(), "a buffer cannot be read"),
    "astype": (lambda device, x: x.astype(kaio.f64), "a buffer cannot be read"),
    "alloc_from": (lambda device, x: device.alloc_from([1.0]), "an array of the host cannot be copied"),
    "copy_from": (lambda device, x: x.copy_from(np.zeros(N, np.float32)), "an array of the host cannot be copied"),
    "device.wait": (lambda device, x: device.wait(), "a device cannot be waited for"),
    "stream.wait": (lambda device, x: device.stream().wait(), "a stream cannot be waited for"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_goes_through_the_host_is_refused_while_a_graph_is_recorded(
    device: kaio.Device, x: Any, y: Any, what: str
) -> None:
    call, words = REFUSED[what]
    with device.graph() as graph:
        add(x, y)
        text = told(lambda: call(device, x))
    assert text.startswith(f"{words} while a graph is recorded on {device}, where nothing runs yet\n  help: ")
    graph.launch()
    np.testing.assert_array_equal(y.to_host(), x.to_host())


def test_a_graph_in_a_graph_is_refused(device: kaio.Device, x: Any, y: Any) -> None:
    with device.graph() as first:
        add(x, y)
    with device.graph() as graph:
        assert told(device.graph().__enter__) == (
            f"a graph is recorded on {device} already, and one inside another is not possible\n"
            "  help: record both one after the other"
        )
        assert told(first.launch) == (
            "a graph is launched while another one is recorded, and cannot be a part of it\n"
            "  help: record its work there again: call what recorded it"
        )
        assert told(graph.launch) == (
            "a graph is launched after its block: it is still recorded\n  help: leave the `with` first"
        )
    assert told(graph.__enter__) == ("a graph is recorded once\n  help: make another: `with device.graph() as graph:`")
    assert told(device.graph().launch) == (
        "a graph is recorded before it is launched\n  help: `with device.graph() as graph:`"
    )


def test_a_timed_launch_is_refused_inside(device: kaio.Device, x: Any, y: Any) -> None:
    with device.graph() as graph:
        text = told(lambda: saxpy.over(N).options(timed=True).launch(x, y, 1.0), LaunchError)
        add(x, y)
    assert text == (
        "kernel `saxpy` is launched with `timed=True` while a graph is recorded\n"
        "  help: time the graph: `graph.launch(timed=True)`"
    )
    assert len(graph) == 1


def test_an_exception_inside_ends_the_recording_and_the_device_goes_on(device: kaio.Device, x: Any, y: Any) -> None:
    graph = device.graph()

    def record() -> None:
        with graph:
            add(x, y, stream=device.stream())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        record()
    assert not y.to_host().any()
    add(x, y).wait(60)
    np.testing.assert_array_equal(y.to_host(), x.to_host())
    assert told(graph.launch) == (
        "the recording of this graph failed, and it cannot be launched\n  help: record another one"
    )
    with device.graph() as another:
        add(x, y)
    another.launch().wait(60)


def test_a_launch_that_is_refused_inside_is_no_part_of_the_graph(device: kaio.Device, x: Any, y: Any) -> None:
    with device.graph() as graph:
        add(x, y)
        with pytest.raises(LaunchError):
            saxpy.over(N).launch(x, y, "no number")
        add(x, y)
    graph.launch()
    np.testing.assert_array_equal(y.to_host(), 2 * x.to_host())


def test_a_buffer_that_was_closed_is_named(device: kaio.Device, x: Any, y: Any) -> None:
    z = device.alloc_empty(N, f32)
    with device.graph() as graph:
        z.copy_from(x)
        recorded = add(x, y)
    y.close()
    assert told(graph.launch, BufferClosedError) == (
        "argument `y` of kernel `saxpy` in this graph was closed\n"
        "  help: a graph uses the memory that it was recorded with: keep it open, or change the argument: "
        "`graph.update(recorded, …)`"
    )
    fresh = device.alloc_zeros(N, f32)
    graph.update(recorded, y=fresh)
    graph.launch()
    np.testing.assert_array_equal(fresh.to_host(), x.to_host())
    z.close()
    assert told(graph.launch, BufferClosedError).startswith("the target of the copy in this graph was closed\n")


def test_a_graph_of_an_earlier_generation_is_stale(
    device: kaio.Device, x: Any, y: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with device.graph() as graph:
        recorded = add(x, y)
    monkeypatch.setattr(device, "generation", device.generation + 2)
    text = f"this graph was recorded in generation 0 of {device}, which is in generation 2 now\n  help: record it again"
    assert told(graph.launch, StaleBufferError) == text
    assert told(lambda: graph.update(recorded, a=2.0), StaleBufferError) == text


def test_a_stream_of_another_device_is_refused(device: kaio.Device, x: Any, y: Any) -> None:
    with device.graph() as graph:
        add(x, y)
    other = kaio.Device("cpu", like="sm_80").stream()
    text = told(lambda: graph.launch(other), LaunchError)
    assert text == f"a graph of {device} is launched on a stream of it (got {other!r})"
    for wrong in ("fast", y):
        assert told(lambda wrong=wrong: graph.launch(wrong), LaunchError).endswith(f"(got {wrong!r})")  # type: ignore[misc]


def test_a_stream_does_not_wait_for_what_was_recorded(device: kaio.Device, x: Any, y: Any) -> None:
    with device.graph():
        recorded = add(x, y)
    stream = device.stream()
    assert told(lambda: stream.wait_for(recorded)) == RECORDED
    stream.wait(60)


# ---------------------------------------------------------------------- changing arguments
def test_arguments_of_a_launch_are_changed_for_the_launches_to_come(device: kaio.Device, x: Any, y: Any) -> None:
    with device.graph() as graph:
        first, second = add(x, y), add(x, y, 10.0)
    assert graph.launches == (first, second)
    graph.launch()
    graph.update(first, a=2.0)
    graph.launch()
    graph.update(second, x=y, y=x)
    graph.launch().wait(60)
    expected = np.float32([11 + 12 + 2]) * np.arange(N, dtype=np.float32)
    np.testing.assert_array_equal(y.to_host(), expected)
    np.testing.assert_array_equal(x.to_host(), np.arange(N, dtype=np.float32) + 10 * expected)


def test_a_changed_argument_is_checked_as_that_of_a_launch_and_changes_nothing_if_it_fails(
    device: kaio.Device, x: Any, y: Any
) -> None:
    with device.graph() as graph:
        recorded = add(x, y)
        copied = x[:10].copy_from(x[10:20])
    closed = device.alloc_zeros(N, f32)
    closed.close()
    elsewhere = kaio.Device("cpu", like="sm_80").alloc_zeros(N, f32)
    changes = [
        ({"b": 1.0}, LaunchError, "kernel `saxpy` has no parameter `b`"),
        ({"a": "1"}, LaunchError, "argument `a` of kernel `saxpy`"),
        ({"x": np.zeros(N, np.float32)}, LaunchError, "argument `x` of kernel `saxpy` must be a GpuBuffer of f32"),
        ({"x": y}, LaunchError, "arguments `x` and `y` of kernel `saxpy` are the same memory"),
        ({"x": closed}, BufferClosedError, "argument `x` of kernel `saxpy`"),
        ({"x": elsewhere, "y": elsewhere[:]}, LaunchError, ""),
        ({"x": elsewhere[:5], "y": elsewhere[5:]}, LaunchError, "the arguments of kernel `saxpy` are on cpu (l"),
    ]  # fmt: skip
    for change, error, words in changes:
        with pytest.raises(error) as caught:
            graph.update(recorded, a=100.0, **change) if "a" not in change else graph.update(recorded, **change)
        assert str(caught.value).startswith(words)
    assert told(lambda: graph.update(copied), LaunchError) == (
        "the copy has no arguments to change: those of a launch have\n  help: record another graph"
    )
    done = add(x, x.copy(), 1.0)
    assert told(lambda: graph.update(done, a=1.0), LaunchError).startswith(
        "what is updated is a launch of this graph, as it was given inside its block (got <Completion of "
    )
    graph.launch()
    np.testing.assert_array_equal(y.to_host(), np.arange(N))


# ---------------------------------------------------------------------- what lives, and what it is
def test_buffers_live_as_long_as_the_graph(device: kaio.Device) -> None:
    before = settled(device).live_buffers
    x, y = device.alloc_zeros(N, f32), device.alloc_zeros(N, f32)
    with device.graph() as graph:
        add(x, y)
    del x, y
    assert settled(device).live_buffers == before + 2
    graph.launch().wait(60)
    del graph
    assert settled(device).live_buffers == before


def test_memory_of_a_graph_that_is_dropped_lives_until_its_work_is_done(
    device: kaio.Device, x: Any, y: Any, latch: Any
) -> None:
    stream = device.stream()
    with device.graph() as graph:
        temporary = x.copy()
        add(temporary, y)
    latch.hold(stream)
    done = graph.launch(stream)
    del temporary, graph
    others = [device.alloc_zeros(N, f32) for _ in range(4)]
    for other in others:
        other.fill(9)
    latch.release()
    done.wait(60)
    np.testing.assert_array_equal(y.to_host(), x.to_host())


def test_a_graph_is_neither_copied_nor_pickled(device: kaio.Device) -> None:
    text = (
        "a Graph is neither copied nor pickled: it holds buffers and streams of this process\n"
        "  help: record it where it is launched"
    )
    for call in (copy.copy, copy.deepcopy, pickle.dumps):
        assert told(lambda call=call: call(device.graph())) == text  # type: ignore[misc]
    with pytest.raises(TypeError, match=r"a Graph is made by a device: `with device\.graph\(\) as graph:`"):
        kaio.Graph()


def test_a_graph_says_what_it_is(device: kaio.Device, x: Any, y: Any) -> None:
    graph = device.graph()
    assert repr(graph) == f"<Graph on {device}, not recorded>"
    with graph:
        assert repr(graph) == f"<Graph on {device}, being recorded>"
        add(x, y)
    assert (repr(graph), len(graph)) == (f"<Graph of 1 piece of work on {device}>", 1)
    assert repr(graph.launch()).startswith(f"<Completion of graph of kernel `saxpy` on {device}, ")
    with pytest.raises(AttributeError, match=r"a Graph has no `replay`: write `graph\.launch\(\)`"):
        graph.replay()  # type: ignore[attr-defined]
    assert [name for name in dir(graph) if not name.startswith("_")] == [
        "device", "explain", "launch", "launches", "update",
    ]  # fmt: skip
