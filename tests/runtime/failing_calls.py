"""Every driver call of every workload is made to fail, on the fake driver; prints what did not go as it should.

Each workload is run once to see which calls it makes, and then once for each call, code and occurrence, in a process of
its own, forked from one that has compiled the kernels and never used a GPU. Run by `test_failing_calls.py`, which fails
each call in two workloads; `python -m tests.runtime.failing_calls all` does so in all, and takes names of some, too.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import json
import os
import select
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import kaio
from kaio import In, InOut, f32, i32
from kaio.errors import (
    ContextPoisonedError,
    DeviceNotFoundError,
    InternalError,
    KaioError,
    KernelFault,
    LaunchError,
    LibraryError,
    OutOfMemoryError,
)
from kaio.runtime.cuda.driver import driver, start

N = 300
CODES = {"OUT_OF_MEMORY": 2, "INVALID_VALUE": 1, "ILLEGAL_ADDRESS": 700, "UNKNOWN": 999}
STICKY = ("ILLEGAL_ADDRESS", "UNKNOWN")
KINDS = ("memory", "chunks", "pinned", "streams", "events", "graphs", "executables")
LIMIT_S = 15.0


@kaio.kernel
def saxpy(x: In[f32], y: InOut[f32], a: f32):
    i = kaio.grid(1)
    if i < y.size:
        y[i] = a * x[i] + y[i]


@kaio.kernel
def checked(x: InOut[i32], threads: i32):
    i = kaio.grid(1)
    if i < threads:
        x[i] += 1


def printing() -> Any:
    """A kernel that the fake driver knows, and which kaio believes to print."""

    @kaio.kernel
    def saxpy(x: In[f32], y: InOut[f32], a: f32):
        i = kaio.grid(1)
        if i < y.size:
            y[i] = a * x[i] + y[i]
        if i < 0:
            print(i)

    return saxpy


PRINTING = printing()


class Case(NamedTuple):
    """One call made to fail: in which workload, the how manieth of it, with what."""

    work: str
    call: str
    nth: int
    code: str


class Foreign:
    """A stream of another library."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._handle


# Workloads. Each gets the device with two buffers, x of 0, 1, … and y of zeros, and checks its results.

Work = Callable[[Any, Any, Any], None]
WORKS: dict[str, Work] = {}


def work(function: Work) -> Work:
    """Take a function up as a workload."""
    WORKS[function.__name__] = function
    return function


def check(y: Any, times: float) -> None:
    """Y is this many times x."""
    np.testing.assert_array_equal(y.to_host(), times * np.arange(N, dtype=np.float32))


@work
def memory(gpu: Any, x: Any, y: Any) -> None:
    for n in (10, 1000, 10):
        made = gpu.alloc_from(np.arange(n, dtype=np.float32))
        np.testing.assert_array_equal(made.to_host(), np.arange(n))
        made.fill(2.0)
        assert (made.to_host() == 2).all()
        made.close()
    gpu.alloc_empty(1 << 22, kaio.u8)
    grid = gpu.alloc_zeros((6, 8), kaio.f64)
    grid[:, ::2].fill(1.5)
    grid.copy_from(grid.copy())
    assert grid.to_host().sum() == 36
    gpu.set_memory_limit(1 << 30)
    gpu.set_memory_limit(None)
    assert gpu.memory[1] > 0
    gpu.stats()
    gpu.trim()


@work
def copies(gpu: Any, x: Any, y: Any) -> None:
    y.copy_from(x)
    check(y, 1)
    host = gpu.alloc_pinned(N, f32)
    x.copy_to(host).wait(10)
    np.testing.assert_array_equal(np.asarray(host), np.arange(N))
    y.copy_from(host).wait(10)
    check(y, 1)
    np.testing.assert_array_equal(y.copy_to().result(), np.arange(N))
    y[::2].copy_from(x[1::2])
    np.testing.assert_array_equal(y[::2].to_host(), np.arange(1, N, 2))


@work
def large(gpu: Any, x: Any, y: Any) -> None:
    numbers = np.arange(3 << 20, dtype=np.uint8)
    made = gpu.alloc_from(numbers)
    np.testing.assert_array_equal(made.to_host(), numbers)


@work
def launches(gpu: Any, x: Any, y: Any) -> None:
    for _ in range(3):
        saxpy.over(N).launch(x, y, 1.0)
    timed = saxpy.over(N).options(timed=True).launch(x, y, 1.0)
    timed.wait(10)
    assert timed.elapsed_ms >= 0
    saxpy.over(N).block("occupancy").launch(x, y, 1.0).wait(10)
    check(y, 5)


@work
def bound(gpu: Any, x: Any, y: Any) -> None:
    launch = saxpy.over(N).bind(x, y, 1.0).launch
    for _ in range(4):
        launch()
    launch().wait(10)
    check(y, 5)


@work
def checks(gpu: Any, x: Any, y: Any) -> None:
    z = gpu.alloc_zeros(N, i32)
    for _ in range(3):
        checked.over(N).options(check="bounds").launch(z, N)
    assert z.to_host().tolist() == [3] * N
    gpu.wait(10)


@work
def prints(gpu: Any, x: Any, y: Any) -> None:
    PRINTING.over(N).launch(x, y, 1.0).wait(10)
    PRINTING.over(N).launch(x, y, 1.0)
    check(y, 2)


@work
def streams(gpu: Any, x: Any, y: Any) -> None:
    some = [gpu.stream(), gpu.stream(priority=-1)]
    for k in range(6):
        with some[k % 2]:
            saxpy.over(N).launch(x, y, 1.0)
    for stream in some:
        stream.wait(10)
    gpu.wait(10)
    check(y, 6)


@work
def foreign(gpu: Any, x: Any, y: Any) -> None:
    other = gpu.stream()
    theirs = gpu.stream(foreign=Foreign(int(gpu.ask(driver.cuStreamCreateWithPriority(1, 0)))))
    z = gpu.alloc_zeros(N, f32)
    saxpy.over(N).launch(x, y, 1.0)
    saxpy.over(N).on(theirs).launch(x, y, 1.0)
    saxpy.over(N).on(other).launch(x, y, 1.0)

    def enqueue(stream: Any) -> None:
        gpu.ask(driver.cuMemsetD8Async(z.pointer, 0, z.nbytes, stream.handle))

    kaio.run(enqueue, stream=theirs, keep_alive=(x,), output=z, library="theirs").result()
    check(y, 3)


def waits(gpu: Any, x: Any, y: Any, completion: str) -> None:
    stream = gpu.stream(completion=completion)
    with stream:
        done = saxpy.over(N).launch(x, y, 1.0)
        assert done.wait(10) is not False
        asyncio.run(awaited(saxpy.over(N).launch(x, y, 1.0)))
    check(y, 2)


async def awaited(done: Any) -> None:
    """Wait as a task does."""
    await asyncio.wait_for(done, 10)


for name in ("adaptive", "host_fn", "polled", "sync"):
    WORKS[f"waits_{name}"] = lambda gpu, x, y, name=name: waits(gpu, x, y, name)


@work
def graphs(gpu: Any, x: Any, y: Any) -> None:
    other, z = gpu.stream(), gpu.alloc_zeros(N, f32)
    with gpu.graph() as graph:
        first = saxpy.over(N).launch(x, y, 1.0)
        with other:
            z.copy_from(x)
        y.copy_from(z)
    graph.launch()
    graph.launch(other).wait(10)
    check(y, 1)
    graph.update(first, a=3.0, x=z)
    graph.launch().wait(10)
    check(y, 1)
    del graph


@work
def peers(gpu: Any, x: Any, y: Any) -> None:
    second = kaio.Device("cuda:1")
    there = second.alloc_from(np.arange(N, dtype=np.float32))
    y.copy_from(there)
    check(y, 1)
    second.wait(10)


# What is asked of the fake driver.


class Fake:
    """The fake driver's counts."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libcuda.so.1")

    def calls(self) -> dict[str, int]:
        """How often each call was made."""
        self._library.kaio_count()
        text = (ctypes.c_char * (192 * 64)).in_dll(self._library, "kaio_counts").value.decode()
        return {name: int(count) for name, count in (line.split() for line in text.splitlines())}

    def fail(self, case: Case) -> None:
        """Let a call fail."""
        assert self._library.kaio_fail(case.call.encode(), CODES[case.code], case.nth)

    def relent(self, case: Case) -> None:
        """Let nothing fail any more."""
        self._library.kaio_fail(case.call.encode(), 0, 0)

    def alive(self) -> dict[str, int]:
        """What was made and not ended, events in their pools not counted."""
        return dict(zip(KINDS, (ctypes.c_int * 7).in_dll(self._library, "kaio_alive"), strict=True))


def close(devices: list[Any]) -> None:
    """Let all go that a program can let go."""
    gc.collect()
    for device in devices:
        for _ in range(3):  # what is dropped with streams and graphs goes a turn later
            device.wait(10)
            device.trim(0)


def events_in_use(devices: list[Any]) -> int:
    """How many events are in no pool."""
    return -sum(len(pool.free) for device in devices for pool in (device.events, device.timing_events))


def run(case: Case | None, name: str) -> dict[str, Any]:
    """Run a workload in this process; what was seen."""
    fake, wrong = Fake(), []
    printed: list[str] = []
    sys.unraisablehook = lambda seen: printed.append(f"unraisable in {seen.object!r}: {seen.exc_value!r}")
    if name == "opening":
        return run_opening(fake, case)
    error: BaseException | None = None
    gpu: Any = kaio.Device("cuda:0")
    devices = [gpu, kaio.Device("cuda:1")] if name == "peers" else [gpu]
    x, y = gpu.alloc_from(np.arange(N, dtype=np.float32)), gpu.alloc_zeros(N, f32)
    y.to_host()
    before = fake.calls()
    if case is not None:
        fake.fail(case)
    try:
        WORKS[name](gpu, x, y)
    except BaseException as problem:
        error = problem
    calls = {call: many - before.get(call, 0) for call, many in fake.calls().items()}
    has_failed = case is not None and calls[case.call] >= case.nth  # how often is asked whether work is done, varies
    if case is not None:
        fake.relent(case)
    wrong += judge(case, error)
    text = None if error is None else f"{type(error).__name__}: {error}"
    del error
    is_lost = case is not None and has_failed and case.code in STICKY
    if is_lost:
        try:
            gpu.wait(10)
            y.fill(0.0).wait(10)
        except (KernelFault, ContextPoisonedError):
            pass
        else:
            wrong.append("the fault is lost")
        x = y = None
        gc.collect()
    else:
        try:
            wait_out(devices)
            y.fill(0.0)
            saxpy.over(N).launch(x, y, 2.0)
            check(y, 2)
            x = y = None
            close(devices)
        except BaseException as problem:
            wrong.append(f"not usable afterwards: {''.join(traceback.format_exception(problem))[-1200:]}")
    alive = fake.alive()
    alive["events"] += events_in_use(devices)
    alive["streams"] -= sum(device.waiters._made for device in devices)  # made where a wait takes longer, and kept
    return {"calls": calls, "alive": alive, "wrong": wrong + printed, "is_lost": is_lost, "error": text}


def run_opening(fake: Fake, case: Case | None) -> dict[str, Any]:
    """Open a device; where that fails, it can be opened once the driver works again."""
    before, wrong, text = fake.calls(), [], None
    if case is not None:
        fake.fail(case)
    try:
        kaio.Device("cuda:0")
    except DeviceNotFoundError as problem:
        text = str(problem)
    except BaseException as problem:
        wrong.append(f"is a {type(problem).__name__}: {problem}")
    calls = {call: many - before.get(call, 0) for call, many in fake.calls().items()}
    if case is None or case.code not in STICKY:
        kaio.Device("cuda:0").alloc_zeros(N, f32).to_host()
    return {"calls": calls, "wrong": wrong, "error": text}


def wait_out(devices: list[Any]) -> None:
    """Wait for what is under way; failures that nobody saw are told here, one after another."""
    for device in devices:
        for _ in range(8):
            try:
                device.wait(10)
                break
            except KaioError:
                gc.collect()


def judge(case: Case | None, error: BaseException | None) -> Iterator[str]:
    """What is wrong with the error that came out."""
    if case is None:
        if error is not None:
            yield f"fails by itself: {''.join(traceback.format_exception(error))}"
        return
    if error is None:
        return
    if not isinstance(error, KaioError):
        yield f"is no error of kaio's: {''.join(traceback.format_exception(error))[-1500:]}"
        return
    if case.code in STICKY:
        right: tuple[type[KaioError], ...] = (KernelFault, ContextPoisonedError)
    elif case.call.startswith("cuLaunchKernel"):
        right = (LaunchError,)
    elif case.code == "OUT_OF_MEMORY":
        right = (InternalError, LaunchError, OutOfMemoryError)
    else:  # a launch says of all that it needs that it was refused
        right = (InternalError, LaunchError)
    if case.work == "foreign":  # the error of what the library does is chained to that
        right = (*right, LibraryError)
    if type(error) not in right:
        yield f"is a {type(error).__name__}: {error}"


# Cases, each in a process.


def forked(case: Case | None, name: str) -> tuple[int, int]:
    """Start a process for a case: its number and where it tells what it saw."""
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)
        return child, reading
    os.close(reading)
    os.dup2(writing, 2)
    try:
        seen = run(case, name)
    except BaseException:
        seen = {"wrong": [traceback.format_exc()]}
    os.write(writing, b"\0" + json.dumps(seen).encode())
    os._exit(0)


def finish(child: int, reading: int, deadline: float) -> dict[str, Any]:
    """What a process saw."""
    text = b""
    while True:
        if not select.select([reading], [], [], max(0.0, deadline - time.monotonic()))[0]:
            os.kill(child, signal.SIGKILL)
            break
        more = os.read(reading, 1 << 16)
        if not more:
            break
        text += more
    os.close(reading)
    os.waitpid(child, 0)
    printed, nul, seen = text.partition(b"\0")
    if not nul:
        return {"wrong": [f"hangs or crashes; {printed.decode()[-1500:]}"]}
    found: dict[str, Any] = json.loads(seen)
    if printed:
        found["wrong"].append(f"prints {printed.decode()[-800:]}")
    return found


def all_of(cases: list[tuple[Case | None, str]]) -> Iterator[tuple[Case | None, str, dict[str, Any]]]:
    """Run cases, as many at once as there are processors, up to four."""
    at_once, running = min(4, os.cpu_count() or 1), []
    for case, name in cases:
        running.append((case, name, *forked(case, name), time.monotonic() + LIMIT_S))
        if len(running) == at_once:
            first = running.pop(0)
            yield first[0], first[1], finish(*first[2:])
    for one in running:
        yield one[0], one[1], finish(*one[2:])


def main(wanted: list[str]) -> None:
    """Sweep over all cases; prints a line of JSON for each one that did not go well, and a summary."""
    start()
    driver.cuDriverGetVersion()
    for kernel in (saxpy, PRINTING):
        kernel.compile("sm_90")
    gc.freeze()  # what is here now is no garbage of a child
    most = len(WORKS) if wanted else 2  # workloads in which each call fails
    names = [name for name in ("opening", *WORKS) if wanted in ([], ["all"]) or name in wanted]
    usual = {name: seen for _, name, seen in all_of([(None, name) for name in names])}
    cases: list[tuple[Case | None, str]] = []
    met: Counter[str] = Counter()
    for name, seen in usual.items():
        if seen["wrong"]:
            print(json.dumps({"case": [name], "wrong": seen["wrong"]}))
            continue
        for call, many in sorted(seen["calls"].items()):
            if not many or met[call] >= most:
                continue
            met[call] += name != "opening"
            cases += [(Case(name, call, 1, code), name) for code in CODES]
            if many > 1:
                cases += [(Case(name, call, many, code), name) for code in ("INVALID_VALUE", "ILLEGAL_ADDRESS")]
    calls = sorted({case.call for case, _ in cases if case})
    raised = 0
    for case, name, seen in all_of(cases):
        assert case is not None
        wrong = seen["wrong"]
        raised += seen.get("error") is not None
        if not seen.get("is_lost") and "alive" in seen:
            for kind, many in seen["alive"].items():
                allowed = usual[name]["alive"][kind] + is_end(case.call)
                if many > allowed:
                    wrong.append(f"leaks {kind}: {many} instead of {allowed}")
        if wrong:
            print(json.dumps({"case": case, "wrong": wrong, "error": seen.get("error")}), flush=True)
    print(json.dumps({"cases": len(cases), "raised": raised, "calls": calls}))


def is_end(call: str) -> int:
    """What may be left over where the call fails that was to end it."""
    return int("Free" in call or "Destroy" in call)


if __name__ == "__main__":
    main(sys.argv[1:])
