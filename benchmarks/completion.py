"""Learning that work is done: wake-ups after a tiny kernel, the cost of a long wait, and ten thousand awaits at once.

A wake-up is the time of one launch of saxpy (1024 elements) and the wait for it, so that a case differs from the
driver's blocking synchronise of the same launch by what it adds. The long wait is of 1 s, for a stream that waits for
a word of memory; its cost is the CPU time of the whole process beside that of the same second slept. The awaits are of
launches on one stream and on eight, started fifty at a time; the lag is by how much a task that sleeps 1 ms is late.
Needs an NVIDIA GPU.
"""

from __future__ import annotations

import asyncio
import ctypes
import random
import statistics
import threading
import time
from collections.abc import Callable
from typing import Any, get_args

import numpy as np
from harness import Report, Samples, ratio

import kaio
from examples.saxpy import saxpy
from kaio.runtime.policy import Strategy

N, ROUNDS, A_ROUND = 1024, 20, 100
AWAITS, AT_A_TIME = 10_000, 50
LONG_S = 1.0

Case = Callable[[], list[float]]  # gives the samples of one round, in us


def each(step: Callable[[], object]) -> Case:
    def round_() -> list[float]:
        found = []
        for _ in range(A_ROUND):
            start = time.perf_counter_ns()
            step()
            found.append((time.perf_counter_ns() - start) / 1e3)
        return found

    return round_


def awaited(launch: Callable[[], Any]) -> Case:
    async def main() -> list[float]:
        found = []
        for _ in range(A_ROUND):
            start = time.perf_counter_ns()
            await launch()
            found.append((time.perf_counter_ns() - start) / 1e3)
        return found

    return lambda: asyncio.run(main())


def bound(strategy: Any) -> Any:
    device = kaio.Device("cuda:0", completion=strategy)
    x, y = device.alloc_from(np.ones(N, np.float32)), device.alloc_zeros(N, kaio.f32)
    return saxpy.over(N).bind(x, y, 2.0)


def kaio_cases() -> dict[str, Case]:
    cases: dict[str, Case] = {}
    for strategy in get_args(Strategy):
        launch = bound(strategy).launch
        cases[f"kaio {strategy}, wait"] = each(lambda launch=launch: launch().wait())
        cases[f"kaio {strategy}, await"] = awaited(launch)
    from kaio.runtime.cuda.driver import driver

    launch = bound("adaptive").launch
    raw = kaio.Device("cuda:0").current_stream().raw  # type: ignore[attr-defined]

    def synchronise() -> None:
        launch()
        driver.cuStreamSynchronize(raw)

    cases["blocking synchronise"] = each(synchronise)
    return cases


def torch_cases() -> dict[str, Case]:
    import torch

    x, y = torch.ones(N, device="cuda"), torch.zeros(N, device="cuda")

    def after(wait: Callable[[Any], object], **flags: bool) -> Case:
        event = torch.cuda.Event(**flags)

        def step() -> None:
            y.add_(x, alpha=2.0)
            event.record()
            wait(event)

        return each(step)

    return {
        "torch event.synchronize": after(lambda event: event.synchronize()),
        "torch event.synchronize, blocking": after(lambda event: event.synchronize(), blocking=True),
    }


def cupy_cases() -> dict[str, Case]:
    import cupy

    x, y, event = cupy.ones(N, cupy.float32), cupy.zeros(N, cupy.float32), cupy.cuda.Event()
    add = cupy.ElementwiseKernel("float32 x", "float32 y", "y = 2 * x + y", "saxpy")

    def step() -> None:
        add(x, y)
        event.record()
        event.synchronize()

    return {"CuPy event.synchronize": each(step)}


def wake_ups(report: Report) -> None:
    cases = kaio_cases()
    for others in (torch_cases, cupy_cases):
        try:
            cases |= others()
        except Exception as problem:  # whatever a competitor raises, the others are still measured
            report.omit(others.__name__, f"{type(problem).__name__}: {problem}"[:300])
    order, found = random.Random(0), {name: list[float]() for name in cases}
    for case in cases.values():
        case()
    for _ in range(ROUNDS):
        time.sleep(0.02)
        for name in order.sample(list(cases), len(cases)):
            found[name] += cases[name]()
    measured = {name: Samples(name, "us", tuple(values)) for name, values in found.items()}
    worst = {name: Samples(f"{name}, p99", "us", (percentile(values, 99),)) for name, values in found.items()}
    report.add(one for name in cases for one in (measured[name], worst[name]))
    for name in ("adaptive, wait", "adaptive, await", "host_fn, wait", "polled, wait", "sync, wait"):
        key = name.replace(", ", "_")
        report.ratios[f"{key}_over_blocking"] = ratio(measured[f"kaio {name}"], measured["blocking synchronise"])


def percentile(values: list[float], which: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[which - 1]


class Latch:
    """Holds the current stream of a device until it is released."""

    def __init__(self, device: Any) -> None:
        from kaio.runtime.cuda.driver import done, driver

        with device.current():
            address = int(done(driver.cuMemHostAlloc(64, 0)))
        self._word = ctypes.c_uint32.from_address(address)
        self._word.value = 0
        stream = device.current_stream()
        with device._lock:
            self.work = stream.submit(driver.cuStreamWaitValue32, (stream.raw, address, driver.cuuint32_t(1), 0), ())

    def release(self) -> None:
        self._word.value = 1


def burn(wait: Callable[[Any], object] | None, strategy: Any) -> tuple[float, float]:
    """CPU time of the process while it waits for 1 s, in percent of a core, and how late it went on, in us."""
    latch = Latch(kaio.Device("cuda:0", completion=strategy))
    released = 0.0

    def release() -> None:
        nonlocal released
        time.sleep(LONG_S)
        released = time.perf_counter()
        latch.release()

    thread = threading.Thread(target=release)
    cpu, start = time.process_time(), time.perf_counter()
    thread.start()
    if wait is None:
        thread.join()
    else:
        wait(latch.work)
    late, elapsed = time.perf_counter() - released, time.perf_counter() - start
    cpu = time.process_time() - cpu
    thread.join()
    latch.work.wait()
    return cpu / elapsed * 100, late * 1e6


def long_waits(report: Report) -> None:
    async def main(work: Any) -> None:
        await work

    ways: dict[str, tuple[Callable[[Any], object] | None, str]] = {"a sleep": (None, "adaptive")}
    for strategy in ("adaptive", "host_fn", "polled"):
        ways[f"kaio {strategy}, wait"] = (lambda work: work.wait(), strategy)
        ways[f"kaio {strategy}, await"] = (lambda work: asyncio.run(main(work)), strategy)
    for name, (wait, strategy) in ways.items():
        found = [burn(wait, strategy) for _ in range(3)]
        report.add([Samples(f"burn in 1 s, {name}", "%", tuple(percent for percent, _ in found))])
        if wait is not None:
            report.add([Samples(f"late after 1 s, {name}", "us", tuple(late for _, late in found))])


async def many(streams: int, strategy: Any) -> tuple[float, float, float, int]:
    """Seconds for all, the longest lag and its 99th percentile in ms, and the most threads beside those before."""
    device = kaio.Device("cuda:0", completion=strategy)
    before, most, lags, is_over = threading.active_count(), 0, list[float](), False
    bounds = []
    for _ in range(streams):
        x, y = device.alloc_from(np.ones(N, np.float32)), device.alloc_zeros(N, kaio.f32)
        bounds.append(saxpy.over(N).on(device.stream()).bind(x, y, 2.0))

    async def watch() -> None:
        nonlocal most
        while not is_over:
            start = time.perf_counter()
            await asyncio.sleep(1e-3)
            lags.append((time.perf_counter() - start - 1e-3) * 1e3)
            most = max(most, threading.active_count())

    async def one(work: Any) -> None:
        await work

    watching, waiting = asyncio.ensure_future(watch()), list[Any]()
    start = time.perf_counter()
    for k in range(AWAITS):
        waiting.append(asyncio.ensure_future(one(bounds[k % streams].launch())))
        if k % AT_A_TIME == 0:
            await asyncio.sleep(0)
    await asyncio.gather(*waiting)
    elapsed = time.perf_counter() - start
    is_over = True
    await watching
    return elapsed, max(lags), percentile(lags, 99), most - before


def many_awaits(report: Report) -> None:
    for streams in (1, 8):
        for strategy in ("adaptive", "host_fn", "polled"):
            found = [asyncio.run(many(streams, strategy)) for _ in range(3)]
            name = f"{AWAITS} awaits, {streams} stream{'s' * (streams > 1)}, {strategy}"
            report.add(
                Samples(f"{name}: {what}", unit, tuple(float(each[k]) for each in found))
                for k, (what, unit) in enumerate(
                    (("all", "s"), ("longest lag", "ms"), ("lag, p99", "ms"), ("threads more", ""))
                )
            )


def main() -> None:
    report = Report("completion")
    try:
        kaio.Device("cuda:0")
    except kaio.DeviceNotFoundError as problem:
        raise SystemExit(f"this benchmark needs a GPU: {problem}") from None
    wake_ups(report)
    long_waits(report)
    many_awaits(report)
    report.finish()


if __name__ == "__main__":
    main()
