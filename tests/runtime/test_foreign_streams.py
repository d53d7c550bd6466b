"""Streams and arrays of other libraries: in order with kaio's work, both ways. No other library is needed here."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import kaio
from kaio import f32
from kaio.errors import KaioError, LaunchError, UnsupportedFeatureError
from tests.runtime.conftest import CudaLatch
from tests.runtime.test_cuda import launch
from tests.runtime.test_exact_waits import Story


class Torch:
    """A stream as torch has it."""

    def __init__(self, handle: int) -> None:
        self.cuda_stream = handle


class CuPy:
    """A stream as CuPy has it."""

    def __init__(self, handle: int) -> None:
        self.ptr = handle


class Protocol:
    """A stream with the protocol of cuda.core."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._handle


@pytest.fixture
def gpu() -> Any:
    """The first GPU."""
    return kaio.Device("cuda:0")


@pytest.fixture
def theirs(gpu: Any) -> Any:
    """A stream that the driver made for somebody else, by its handle."""
    from kaio.runtime.cuda.driver import done, driver

    with gpu.current():
        return done(driver.cuStreamCreateWithPriority(1, -2))


@pytest.fixture
def x(gpu: Any) -> Any:
    """What saxpy reads."""
    return gpu.alloc_from(np.arange(1000, dtype=np.float32))


@pytest.fixture
def y(gpu: Any) -> Any:
    """What saxpy adds to."""
    found = gpu.alloc_zeros(1000, f32)
    found.to_host()
    return found


class Array:
    """An array of another library, on its stream."""

    def __init__(self, buffer: Any, stream: int) -> None:
        self.__cuda_array_interface__ = {**buffer.__cuda_array_interface__, "stream": stream}
        self._memory = buffer


@pytest.mark.gpu
@pytest.mark.parametrize("library", [Torch, CuPy, Protocol])
def test_a_stream_of_another_library_is_one_of_kaio(gpu: Any, theirs: Any, x: Any, y: Any, library: Any) -> None:
    stream = gpu.stream(foreign=library(int(theirs)))
    assert stream is gpu.stream(foreign=library(int(theirs)))
    assert (stream.handle, stream.priority) == (int(theirs), -2)
    with stream:
        assert launch(gpu, x, y).stream is stream
    np.testing.assert_array_equal(y.to_host(), 2 * x.to_host())


@pytest.mark.gpu
def test_a_stream_of_kaio_that_comes_back_is_itself(gpu: Any) -> None:
    stream = gpu.stream()
    assert gpu.stream(foreign=Torch(stream.handle)) is stream
    assert gpu.stream(foreign=stream) is stream
    by_hand = gpu.stream(foreign=Torch(stream.handle), ordering="manual")
    assert (by_hand.handle, by_hand.is_managed) == (stream.handle, False)


@pytest.mark.gpu
def test_other_streams_wait_for_what_kaio_put_on_it(gpu: Any, theirs: Any, x: Any, y: Any) -> None:
    latch = CudaLatch(gpu)
    foreign = gpu.stream(foreign=Protocol(int(theirs)))
    latch.hold(foreign, (y, "Out"))
    done = launch(gpu, x, y)  # on the default stream
    assert not done.is_done
    latch.release()
    done.wait(60)


@pytest.mark.gpu
def test_the_default_stream_is_taken_by_either_of_its_handles(gpu: Any, x: Any, y: Any) -> None:
    stream = gpu.stream(foreign=Torch(0))
    assert stream is gpu.stream(foreign=CuPy(1))
    with stream:
        launch(gpu, x, y, 1.0).wait(60)
    launch(gpu, x, y, 1.0).wait(60)
    np.testing.assert_array_equal(y.to_host(), 2 * x.to_host())


@pytest.mark.gpu
def test_the_stream_is_not_destroyed_with_kaios(gpu: Any, theirs: Any, x: Any, y: Any) -> None:
    with gpu.stream(foreign=Torch(int(theirs))):
        launch(gpu, x, y)
    for _ in range(3):
        gpu.tidy()
    with gpu.stream(foreign=Torch(int(theirs))):
        launch(gpu, x, y)
    np.testing.assert_array_equal(y.to_host(), 4 * x.to_host())


@pytest.mark.gpu
def test_run_takes_it(gpu: Any, theirs: Any, y: Any) -> None:
    done = kaio.run(lambda stream: None, stream=CuPy(int(theirs)), output=y)
    assert done.stream is gpu.stream(foreign=Torch(int(theirs)))
    done.wait(60)


@pytest.mark.gpu
def test_what_is_no_stream_of_it_is_refused(gpu: Any, theirs: Any) -> None:
    with pytest.raises(KaioError) as caught:
        gpu.stream(foreign=3)
    assert str(caught.value) == (
        "`foreign` is a stream of another library (got 3)\n"
        "  help: one that has `__cuda_stream__`, or a stream of torch or CuPy"
    )
    with pytest.raises(UnsupportedFeatureError, match="is the per-thread default stream, another one in each thread"):
        gpu.stream(foreign=CuPy(2))
    with pytest.raises(KaioError, match="a stream of another library has its own priority"):
        gpu.stream(priority=-1, foreign=Torch(int(theirs)))


def test_the_cpu_device_has_no_streams_of_a_gpu() -> None:
    device = kaio.Device("cpu")
    with pytest.raises(UnsupportedFeatureError, match="is a stream of a GPU, and cpu has none of those"):
        device.stream(foreign=Torch(64))

    @kaio.kernel
    def put(y: kaio.Out[f32]) -> None:
        i = kaio.grid(1)
        if i < y.size:
            y[i] = 1

    with pytest.raises(UnsupportedFeatureError, match="is a stream of a GPU, and cpu has none of those"):
        put.over(3).on(Torch(64)).launch(device.alloc_zeros(3, f32))
    with pytest.raises(LaunchError, match="`on` of kernel `put` takes a stream or a device"):
        put.over(3).on(object())


# Arrays that are in use on a stream of their library.


@pytest.mark.gpu
def test_a_launch_comes_after_the_library_and_before_what_it_does_later(gpu: Any, theirs: Any, x: Any, y: Any) -> None:
    other, latch = gpu.stream(foreign=Protocol(int(theirs))), CudaLatch(gpu)
    latch.hold(other)  # what the library has put there
    done = launch(gpu, x, gpu.import_array(Array(y, int(theirs))), 1.0)
    behind = other._tail()
    assert not done.is_done
    latch.release()
    behind.wait(60)
    assert done.is_done


@pytest.mark.gpu
def test_the_stream_is_the_one_that_is_current_at_the_launch(gpu: Any, x: Any, y: Any) -> None:
    from dataclasses import replace

    from kaio.runtime.foreign import read_foreign

    streams, number = [gpu.stream() for _ in range(2)], [0]
    foreign = read_foreign(Array(y, streams[0].handle))
    assert foreign is not None
    shared = gpu.adopt(replace(foreign, stream=lambda: streams[number[0]].handle))
    launch(gpu, x, shared, 1.0).wait(60)
    latch = CudaLatch(gpu)
    number[0] = 1
    latch.hold(streams[1])
    done = launch(gpu, x, shared, 1.0)
    assert not done.is_done
    latch.release()
    np.testing.assert_array_equal(shared.to_host(), 2 * x.to_host())
    assert done.is_done


@pytest.mark.gpu
def test_an_array_on_the_stream_of_the_launch_asks_for_no_wait(gpu: Any, theirs: Any, x: Any, y: Any) -> None:
    try:
        story = Story()
    except ValueError:
        pytest.skip("the driver is not the fake one, which keeps a log")
    x.to_host()
    shared = gpu.import_array(Array(y, int(theirs)))
    stream = gpu.stream(foreign=Torch(int(theirs)))
    with stream:
        story.clear()
        launch(gpu, x, shared, 1.0)
        assert [call.name for call in story.read()] == ["launch"]


@pytest.mark.gpu
def test_arrays_of_other_libraries_are_operands_of_run(gpu: Any, theirs: Any, y: Any) -> None:
    other, latch = gpu.stream(foreign=Protocol(int(theirs))), CudaLatch(gpu)
    latch.hold(other)
    done = kaio.run(lambda stream: None, stream=gpu.stream(), keep_alive=Array(y, int(theirs)))
    assert not done.is_done
    latch.release()
    done.wait(60)


@pytest.mark.gpu
def test_a_library_that_may_write_comes_after_those_who_read(gpu: Any, x: Any, y: Any) -> None:
    latch, reader = CudaLatch(gpu), gpu.stream()
    latch.hold(reader, (x, "In"))
    assert x.__cuda_array_interface__["stream"] == reader.handle
    taker = gpu.stream()
    x.__dlpack__(stream=taker.handle)
    behind = taker._tail()
    assert not behind.is_done
    second = gpu.stream()
    latch.hold(second, (x, "In"))
    joint = gpu.stream(foreign=Protocol(x.__cuda_array_interface__["stream"]))._tail()
    assert not joint.is_done
    latch.release()
    behind.wait(60)
    joint.wait(60)


# A launch that is waited for at once.

_BODY = """
import sys
import numpy as np, kaio
from kaio import InOut, i32

@kaio.kernel
def fault(x: InOut[i32], at: i32):
    x[at] = 1

device = kaio.Device("cpu")
x, y = device.alloc_zeros(3, i32), device.alloc_zeros(3, i32)
done = fault.grid(1).block(1).launch(x, 1)
print(done.is_done)
try:
    fault.grid(1).block(1).launch(y, 7)
    print("launched")
except kaio.KernelFault as problem:
    print(problem.facts["kernel"], problem.facts["index"])
def fail(stream):
    raise ValueError("no")
try:
    kaio.run(fail, output=x, library="other")
    print("started")
except kaio.LibraryError as problem:
    print(problem)
"""


def _told(body: str, **environment: str) -> list[str]:
    import os

    found = subprocess.run(
        [sys.executable, "-c", body], capture_output=True, text=True, timeout=120, env={**os.environ, **environment}
    )
    assert found.returncode == 0, found.stderr
    return found.stdout.splitlines()


def test_with_kaio_sync_the_launch_itself_raises_what_went_wrong(tmp_path: Any) -> None:
    path = tmp_path / "sync.py"
    path.write_text(_BODY)
    told = _told(f"import runpy; runpy.run_path({str(path)!r})", KAIO_SYNC="1")
    assert told == ["True", "fault 7", "work of other failed: ValueError: no"]
