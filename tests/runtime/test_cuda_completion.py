"""How the driver wakes who waits, and that a fault does too; on a GPU."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from typing import Any

import pytest

import kaio
from kaio import f32
from kaio.errors import CompletionTimeout
from kaio.runtime.watching import watcher
from tests.runtime.test_cuda import FAULT

pytestmark = pytest.mark.gpu

LIMIT_S = 60
STRATEGIES = ("adaptive", "host_fn", "polled", "sync")


@pytest.fixture
def device() -> Any:
    """The first GPU."""
    return kaio.Device("cuda:0")


@pytest.fixture
def armed(device: Any, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether the driver took each bell that it was given."""
    found: list[bool] = []
    ring_after = device.waiters.ring_after

    def count(event: Any, bell: Any) -> bool:
        found.append(ring_after(event, bell))
        return found[-1]

    monkeypatch.setattr(device.waiters, "ring_after", count)
    return found


def _wait_in_thread(done: Any) -> threading.Thread:
    thread = threading.Thread(target=done.wait, args=(LIMIT_S,))
    thread.start()
    return thread


def _until(condition: Any) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(1e-3)


def test_a_long_wait_is_ended_by_the_driver(
    device: Any, latch: Any, armed: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kaio.runtime.cuda.completion._SAFETY_S", LIMIT_S)  # so that nothing else can end it in time
    waiting = _wait_in_thread(latch.hold(device.stream()))
    _until(lambda: armed)
    latch.release()
    waiting.join(LIMIT_S / 2)
    assert armed == [True]
    assert not waiting.is_alive()


def test_the_thread_that_watches_is_woken_by_the_driver(
    device: Any, latch: Any, armed: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kaio.runtime.watching._SAFETY_S", LIMIT_S)
    told = threading.Event()
    latch.hold(device.stream()).add_done_callback(lambda _: told.set())
    _until(lambda: armed)
    latch.release()
    assert told.wait(LIMIT_S / 2)
    assert armed == [True]


def test_a_wait_that_timed_out_is_not_armed_again(device: Any, latch: Any, armed: list[bool]) -> None:
    done = latch.hold(device.stream())
    for _ in range(20):
        with pytest.raises(CompletionTimeout):
            done.wait(0.005)
    latch.release()
    done.wait(LIMIT_S)
    assert armed == [True]


def test_waits_for_more_streams_than_may_wait_natively_end_too(device: Any, latch: Any, armed: list[bool]) -> None:
    threads = [_wait_in_thread(latch.hold(device.stream())) for _ in range(12)]
    _until(lambda: not all(armed))
    latch.release()
    for thread in threads:
        thread.join(LIMIT_S)
        assert not thread.is_alive()
    assert any(armed)
    assert device.waiters._made <= 4


def test_polled_waits_leave_the_driver_alone(device: Any, latch: Any, armed: list[bool]) -> None:
    done, told = latch.hold(device.stream(completion="polled")), threading.Event()
    done.add_done_callback(lambda _: told.set())
    waiting = _wait_in_thread(done)
    with pytest.raises(CompletionTimeout):
        done.wait(0.05)
    latch.release()
    waiting.join(LIMIT_S)
    assert told.wait(LIMIT_S)
    assert armed == []


def test_without_native_bells_waits_go_on_asking(
    device: Any, latch: Any, armed: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kaio.runtime.bell._LIBC", None)
    waiting = _wait_in_thread(latch.hold(device.stream(completion="host_fn")))
    _until(lambda: armed)
    latch.release()
    waiting.join(LIMIT_S)
    assert not waiting.is_alive()
    assert not any(armed)


def test_a_launch_of_a_sync_stream_is_done_when_it_returns(device: Any) -> None:
    stream = device.stream(completion="sync")
    x, y = device.alloc_zeros(4, f32), device.alloc_zeros(4, f32)
    for done in (stream.set(x, b"\0\0\x80\x3f"), stream.copy(y, x)):
        assert done._finished
    assert y.to_host().tolist() == [1.0] * 4


_FAULTS = f"""
import asyncio, ctypes, threading, sys, trio, kaio
from kaio.program import CudaProgram
from kaio.runtime.stream import Launch
from kaio.runtime.cuda.driver import done as answered, driver
strategy = sys.argv[1]
gpu = kaio.Device(0, completion=strategy)
program = CudaProgram("fault", "sm_80", (), 32, 0, ptx="", cubin={FAULT.encode() + bytes(1)!r})
loaded = gpu.load(program)
address = int(answered(driver.cuMemHostAlloc(64, 0)))
word = ctypes.c_uint32.from_address(address)
word.value = strategy == "sync"  # where a launch waits, nothing can be pending behind it
stream = gpu.current_stream()
with gpu._lock:
    stream.submit(driver.cuStreamWaitValue32, (stream.raw, address, driver.cuuint32_t(1), 0), ())
done = stream.launch(Launch(loaded, (1, 1, 1), (1, 1, 1), b"", ()))

async def awaited(of):
    await of

async def first():
    async for it in kaio.as_completed([done], timeout_s=30):
        await it

ways = dict(
    wait=lambda: done.wait(30),
    asyncio=lambda: asyncio.run(asyncio.wait_for(awaited(done), 30)),
    trio=lambda: trio.run(awaited, kaio.gather(done)),
    future=lambda: done.future().result(30),
    as_completed=lambda: next(iter(kaio.as_completed([done], timeout_s=30))).wait(),
    each=lambda: asyncio.run(first()),
)
found, told = {{}}, threading.Event()
done.add_done_callback(lambda _: told.set())

def tell(name, way):
    try:
        way()
    except BaseException as problem:
        found[name] = type(problem).__name__

threads = [threading.Thread(target=tell, args=way) for way in ways.items()]
for thread in threads:
    thread.start()
threading.Event().wait(0.1)  # so that some wait natively; whether they do changes nothing here
word.value = 1
tell("within a second", lambda: done.wait(1))
for thread in threads:
    thread.join(40)
tell("device", lambda: gpu.wait(1))
tell("stream", lambda: stream.wait(1))
print(told.wait(30), sorted(set(found.values())), sorted(found))
"""


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_fault_is_raised_by_each_way_to_wait(strategy: str) -> None:
    pytest.importorskip("trio")
    found = subprocess.run(
        [sys.executable, "-c", _FAULTS, strategy], capture_output=True, text=True, timeout=120, check=False
    )
    ways = ["as_completed", "asyncio", "device", "each", "future", "stream", "trio", "wait", "within a second"]
    assert found.stdout == f"True ['ContextPoisonedError', 'KernelFault'] {ways}\n", found.stderr
    assert found.returncode == 0


def test_the_thread_that_watches_does_not_disturb_captures_of_other_libraries(device: Any) -> None:
    from kaio.runtime.cuda.completion import _ignore_captures
    from kaio.runtime.cuda.driver import driver

    modes: list[Any] = []

    def ask() -> None:
        _ignore_captures()
        modes.append(driver.cuThreadExchangeStreamCaptureMode(driver.CUstreamCaptureMode(0))[1])

    thread = threading.Thread(target=ask)  # the mode is that of a thread
    thread.start()
    thread.join(LIMIT_S)
    assert modes == [driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED]
    assert _ignore_captures in watcher._preparations
