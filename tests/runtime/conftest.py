"""A latch that holds a stream, and kernels that need no compiler."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import kaio
from kaio.errors import KernelFault
from kaio.program import Argument, CudaProgram
from kaio.runtime.stream import Launch

# The tests hold one stream while others go on. A GPU has few queues by default, and streams that share one wait for
# each other; the driver reads this when it starts.
os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")


class CpuLatch:
    """Work of the CPU device that goes on once the latch is released."""

    def __init__(self) -> None:
        self._open = threading.Event()

    def hold(self, stream: Any, *uses: Any) -> Any:
        """Put work on the stream that uses these buffers and does not end before `release`."""
        return stream.submit(self._open.wait, uses)

    def release(self) -> None:
        """Let the work end."""
        self._open.set()


class CudaLatch:
    """Work of a GPU that waits until a word of host memory is 1."""

    def __init__(self, device: Any) -> None:
        from kaio.runtime.cuda.driver import done, driver

        with device.current():
            self._address = int(done(driver.cuMemHostAlloc(64, 0)))
        self._word = ctypes.c_uint32.from_address(self._address)
        self._word.value = 0

    def hold(self, stream: Any, *uses: Any) -> Any:
        """Put work on the stream that uses these buffers and does not end before `release`."""
        from kaio.runtime.cuda.driver import driver

        arguments = (stream.raw, self._address, driver.cuuint32_t(1), 0)
        with stream.device._lock:
            return stream.submit(driver.cuStreamWaitValue32, arguments, uses)

    def release(self) -> None:
        """Let the work end."""
        self._word.value = 1


HOLD = """
.version 7.0
.target sm_80
.address_size 64
.visible .entry hold(.param .u64 word)
{
    .reg .pred %p1;
    .reg .b32 %r1;
    .reg .b64 %d1;
    ld.param.u64 %d1, [word];
again:
    ld.volatile.global.u32 %r1, [%d1];
    setp.eq.u32 %p1, %r1, 0;
    @%p1 bra again;
    ret;
}
"""
_HOLD = CudaProgram("hold", "sm_80", (Argument("word", kaio.i32, 0),), 32, 0, ptx="", cubin=HOLD.encode() + b"\0")  # type: ignore[arg-type]


class IsolatedLatch:
    """Work of a worker that waits until a word of the device's memory is 1."""

    def __init__(self, device: Any) -> None:
        self._device, self._word = device, device.alloc_zeros((), kaio.i32)

    def hold(self, stream: Any, *uses: Any) -> Any:
        """Put work on the stream that uses these buffers and does not end before `release`."""
        block = _HOLD.block.pack(self._word.pointer)
        work = stream.launch(Launch(self._device.load(_HOLD), (1, 1, 1), (1, 1, 1), block, uses))
        work._loaded = None
        return work

    def release(self) -> None:
        """Let the work end."""
        self._device._upload(self._word.pointer, np.ones((), np.int32))


def latch_of(device: Any) -> Any:
    """What holds a stream of a device."""
    if device.kind == "cpu":
        return CpuLatch()
    return IsolatedLatch(device) if device.is_isolated else CudaLatch(device)


@pytest.fixture
def make_latch(device: kaio.Device) -> Iterator[Callable[[], Any]]:
    """Make what holds a stream until it is released, which it is at the latest when the test ends."""
    made: list[Any] = []

    def make() -> Any:
        made.append(latch_of(device))
        return made[-1]

    yield make
    for latch in made:
        latch.release()
    device.wait(timeout_s=60)


@pytest.fixture
def latch(make_latch: Callable[[], Any]) -> Any:
    """What holds a stream until it is released, which it is at the latest when the test ends."""
    return make_latch()


@pytest.fixture
def latch_cpu() -> Iterator[CpuLatch]:
    """The same of the CPU device alone."""
    latch = CpuLatch()
    yield latch
    latch.release()
    kaio.Device("cpu").wait(timeout_s=60)


class FakeKernel:
    """What the CPU device takes for a loaded program: a Python function of grid, block and argument bytes."""

    name = "fake"
    max_threads = short = None
    breaks = is_full = rests = False

    def __init__(self, function: Callable[..., object]) -> None:
        self._function = function

    @property
    def kernel(self) -> FakeKernel:
        """The host kernel: this itself."""
        return self

    def run(self, grid: Any, block: Any, arguments: bytes, *rest: Any) -> None:
        """Call the function."""
        self._function(grid, block, arguments)


@pytest.fixture
def cpu() -> kaio.Device:
    """The CPU device."""
    return kaio.Device("cpu")


@pytest.fixture
def run(cpu: kaio.Device) -> Callable[..., Any]:
    """Launch a Python function as a kernel of the CPU device: `run(function, (buffer, "Out"), stream=…)`."""

    def run(function: Callable[..., object], *uses: Any, stream: Any = None, timed: bool = False) -> Any:
        stream = stream or cpu.current_stream()
        return stream.launch(Launch(FakeKernel(lambda *_: function()), (1, 1, 1), (1, 1, 1), b"", uses, timed=timed))

    return run


@pytest.fixture
def fail(run: Callable[..., Any]) -> Callable[..., Any]:
    """Launch a kernel that fails: `fail((buffer, "Out"))`."""

    def fail(*uses: Any, stream: Any = None, what: str = "it went wrong") -> Any:
        def raise_fault() -> None:
            raise KernelFault(what)

        return run(raise_fault, *uses, stream=stream)

    return fail


@pytest.fixture
def numbers(device: kaio.Device) -> Any:
    """A buffer of 0, 1, … 11 as 3 rows of f32."""
    return device.alloc_from(np.arange(12, dtype=np.float32).reshape(3, 4))
