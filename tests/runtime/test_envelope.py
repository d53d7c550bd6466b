"""`kaio.run`: work of other libraries in order with everything else; both devices."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import kaio
from kaio import i32
from kaio.errors import BufferClosedError, LaunchError, LibraryError


@pytest.fixture
def x(device: Any) -> Any:
    """A buffer of 1, 2, 3."""
    return device.alloc_from(np.arange(1, 4, dtype=np.int32))


@pytest.fixture
def y(device: Any) -> Any:
    """A buffer of zeros."""
    found = device.alloc_zeros(3, i32)
    found.to_host()
    return found


def copying(to: Any, source: Any) -> Any:
    """Enqueues a copy, as a library would: it knows no buffers and no order, but pointers and the stream."""
    pointers, nbytes = (to.pointer, source.pointer), source.nbytes

    def enqueue(stream: Any) -> None:
        if stream.device.kind == "cpu":
            import ctypes

            ctypes.memmove(*pointers, nbytes)
        else:
            from kaio.runtime.cuda.driver import done, driver

            assert not driver.cuMemcpyDtoDAsync(*pointers, nbytes, stream.handle)[0]
            done(driver.cuStreamGetCtx(stream.handle))

    return enqueue


def test_the_result_is_the_output_once_the_work_is_done(device: Any, x: Any, y: Any) -> None:
    done = kaio.run(copying(y, x), keep_alive=(x,), output={"y": y}, library="copies")
    assert done.result()["y"] is y
    assert done.is_done
    assert y.to_host().tolist() == [1, 2, 3]
    assert kaio.run(lambda stream: None, stream=done.stream).result() is None
    assert repr(done) == f"<Completion of work of copies on {device}, done>"


def test_it_comes_after_the_work_on_its_operands_and_before_the_later(device: Any, x: Any, y: Any, latch: Any) -> None:
    z = device.alloc_zeros(3, i32)
    latch.hold(device.stream(), (x, "Out"))
    done = kaio.run(copying(y, x), stream=device.stream(), keep_alive=x, output=y)
    later = [device.stream().copy(z, y), device.stream().set(x, bytes(4))]
    assert not any(work.is_done for work in (done, *later))
    latch.release()
    kaio.gather(*later).wait(60)
    assert (z.to_host().tolist(), x.to_host().tolist()) == ([1, 2, 3], [0, 0, 0])


def test_what_it_only_reads_is_read_by_others_meanwhile(device: Any, x: Any, y: Any, latch: Any) -> None:
    stream = device.stream()
    latch.hold(stream)
    done = kaio.run(lambda stream: None, stream=stream, keep_alive=x)
    device.stream().copy(y, x).wait(60)
    assert not done.is_done
    latch.release()
    done.wait(60)


def test_what_is_kept_alive_lives_until_the_work_is_done(device: Any, latch: Any) -> None:
    class Thing:
        """Anything."""

    thing, stream = Thing(), device.stream()
    gone = weakref.ref(thing)
    latch.hold(stream)
    done = kaio.run(lambda stream: None, stream=stream, keep_alive=[thing])
    del thing
    gc.collect()
    assert gone() is not None
    latch.release()
    done.wait(60)
    device.alloc_zeros(3, i32).fill(1).wait(60)  # gives back what is done with
    gc.collect()
    assert gone() is None


def test_a_result_does_not_keep_itself_alive(device: Any) -> None:
    y = device.alloc_zeros(3, i32)
    memory = weakref.ref(y.memory)
    done = kaio.run(lambda stream: None, output=y)
    done.wait(60)
    device.alloc_zeros(3, i32).fill(1).wait(60)
    gc.collect()
    gc.disable()
    try:
        del y, done
        device.alloc_zeros(3, i32).fill(1).wait(60)
        assert memory() is None
    finally:
        gc.enable()


def test_launches_inside_go_to_its_stream_and_are_a_part_of_it(device: Any, x: Any, y: Any) -> None:
    stream, inside = device.stream(), []

    def enqueue(given: Any) -> None:
        assert given is stream is device.current_stream()
        inside.append(x.fill(5))
        inside.append(y.copy_from(x))

    done = kaio.run(enqueue, stream=stream, output=(x, y))
    done.wait(60)
    assert all(work.is_done and work.stream is stream for work in inside)
    assert device.current_stream() is not stream
    assert y.to_host().tolist() == [5, 5, 5]


def test_the_host_may_look_at_an_operand_inside(device: Any, x: Any, y: Any) -> None:
    seen = []

    def enqueue(stream: Any) -> None:
        y.fill(7)
        seen.append(y.to_host().tolist())

    kaio.run(enqueue, keep_alive=x, output=y).wait(60)
    assert seen == [[7, 7, 7]]


def test_the_host_may_wait_for_the_whole_device_inside(device: Any, x: Any, y: Any) -> None:
    kaio.run(lambda stream: device.wait(timeout_s=30), keep_alive=x, output=y).wait(60)


def test_other_threads_go_on_while_a_library_takes_long(device: Any, x: Any, y: Any) -> None:
    inside, go_on, z = threading.Event(), threading.Event(), device.alloc_zeros(3, i32)

    def enqueue(stream: Any) -> None:
        y.fill(3)
        inside.set()
        assert go_on.wait(60)
        y.copy_from(x)

    thread = threading.Thread(target=lambda: kaio.run(enqueue, keep_alive=x, output=y).wait(60))
    thread.start()
    assert inside.wait(60)
    z.fill(4).wait(60) if device.kind == "cuda" else device.stream().set(z, b"\x04\0\0\0").wait(60)
    copied = device.stream().copy(z, y)  # which the library still works on: in between, or after
    go_on.set()
    thread.join(60)
    copied.wait(60)
    assert z.to_host().tolist() == ([3] * 3 if device.kind == "cuda" else [1, 2, 3])
    assert y.to_host().tolist() == [1, 2, 3]


def test_what_it_raises_is_an_error_of_the_library_and_stays_with_the_output(device: Any, x: Any, y: Any) -> None:
    def fail(stream: Any) -> None:
        raise ValueError("no such plan")

    def fail_and_wait() -> None:
        kaio.run(fail, keep_alive=x, output=y, library="cuFFT").wait(60)

    with pytest.raises(LibraryError) as caught:
        fail_and_wait()
    assert str(caught.value) == "work of cuFFT failed: ValueError: no such plan"
    assert caught.value.library == "cuFFT"
    assert isinstance(caught.value.__cause__, ValueError)
    with pytest.raises(LibraryError, match="no such plan"):
        y.to_host()
    assert x.to_host().tolist() == [1, 2, 3]
    y.fill(2)
    assert y.to_host().tolist() == [2, 2, 2]
    device.wait(60)


def test_an_operand_that_is_closed_inside_stays_closed(device: Any, x: Any, y: Any) -> None:
    with device.graph() as graph:
        y.fill(1)
    kaio.run(lambda stream: y.close(), output=y).wait(60)
    with pytest.raises(BufferClosedError):
        graph.launch()


def test_operands_are_checked_before_anything_is_called(device: Any, x: Any) -> None:
    def never(stream: Any) -> None:
        pytest.fail("it was called")

    closed = device.alloc_zeros(3, i32)
    closed.close()
    with pytest.raises(BufferClosedError):
        kaio.run(never, keep_alive=closed)
    elsewhere = kaio.Device("cpu", like="sm_80").alloc_zeros(3, i32)
    with pytest.raises(LaunchError) as caught:
        kaio.run(never, keep_alive=x, output=[elsewhere], library="cuBLAS")
    assert str(caught.value) == (
        f"`output` of work of cuBLAS has {elsewhere!r}, and the work runs on {device}\n"
        "  help: copy it over: `device.alloc_from(…)`"
    )
    with pytest.raises(LaunchError, match=r"`stream` of `kaio\.run` is a stream"):
        kaio.run(never, stream=3, keep_alive=x)  # type: ignore[arg-type]
    with pytest.raises(LaunchError, match=r"`kaio\.run` takes a function of a stream"):
        kaio.run(3)  # type: ignore[arg-type]


def test_read_only_memory_is_no_output() -> None:
    host = np.arange(3)
    host.flags.writeable = False
    shared = kaio.Device("cpu").import_array(host)
    with pytest.raises(LaunchError, match="whose memory is read-only"):
        kaio.run(lambda stream: None, output=shared)


def test_wait_for_takes_it(device: Any, x: Any, y: Any, latch: Any) -> None:
    stream, by_hand = device.stream(), device.stream(ordering="manual")
    latch.hold(stream)
    by_hand.wait_for(kaio.run(copying(y, x), stream=stream, keep_alive=x, output=y))
    copied = by_hand.copy(x, y)
    assert not copied.is_done
    latch.release()
    copied.wait(60)
