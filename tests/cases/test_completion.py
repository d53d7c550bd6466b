"""B39: asyncio and completions: cancelled awaits, closed loops, threads that hold the GIL in a driver call."""

from __future__ import annotations

import asyncio
import gc
import threading
from typing import Any

import numpy as np
import pytest

import kaio
from kaio import In, Out, f32, i32

STREAMS = 64
LIMIT_S = 60


@kaio.kernel
def slow_copy(source: In[f32], target: Out[f32], spin: i32):
    i = kaio.grid(1)
    odd = 0
    for k in range(spin):
        odd += k & 1
    if i < source.size and odd >= 0:
        target[i] = source[i]


@kaio.kernel
def wrong(target: Out[f32], at: i32):
    target[at + kaio.grid(1)] = 1.0


async def _result(done: Any) -> Any:
    return await done


def _run(main: Any) -> Any:
    return asyncio.run(asyncio.wait_for(main, LIMIT_S))


def test_many_streams_are_awaited_while_other_threads_allocate_and_launch(device: Any) -> None:
    stop, failed = threading.Event(), []

    def keep_busy() -> None:
        try:
            while not stop.is_set():
                x, y = device.alloc_zeros(256, f32), device.alloc_zeros(256, f32)
                slow_copy.over(256).launch(x, y, 10).wait(LIMIT_S)
        except BaseException as problem:
            failed.append(problem)

    async def main() -> int:
        x = device.alloc_from(np.ones(256, np.float32))
        targets = [device.alloc_zeros(256, f32) for _ in range(STREAMS)]
        works = [slow_copy.over(256).on(device.stream()).launch(x, target, 100) for target in targets]
        await asyncio.gather(*map(_result, works))
        return sum(int(target.to_host().sum()) == 256 for target in targets)

    threads = [threading.Thread(target=keep_busy) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        assert _run(main()) == STREAMS
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not failed


def test_a_cancelled_await_is_quiet_and_its_work_is_right(device: Any, caplog: pytest.LogCaptureFixture) -> None:
    targets = [device.alloc_zeros(4096, f32) for _ in range(16)]
    problems: list[Any] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
        for k, target in enumerate(targets):
            source = device.alloc_from(np.full(4096, k, np.float32))  # whose only reference goes with the turn
            task = asyncio.ensure_future(_result(slow_copy.over(4096).launch(source, target, 2000)))
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            del source, task
            gc.collect()
            device.alloc_from(np.full(4096, -1, np.float32))  # memory that was free would be given out again
        await asyncio.sleep(0)

    _run(main())
    device.wait(LIMIT_S)
    assert [target.to_host().tolist() for target in targets] == [[float(k)] * 4096 for k in range(16)]
    assert not problems
    assert not caplog.records


def test_a_loop_may_be_closed_before_the_work_is_done(device: Any, caplog: pytest.LogCaptureFixture) -> None:
    x, y = device.alloc_from(np.ones(4096, np.float32)), device.alloc_zeros(4096, f32)
    works: list[Any] = []

    async def main() -> None:
        works.append(slow_copy.over(4096).launch(x, y, 20_000))
        asyncio.ensure_future(_result(works[0]))  # noqa: RUF006 - the loop ends with it under way
        await asyncio.sleep(0)

    _run(main())
    works[0].wait(LIMIT_S)
    assert y.to_host().sum() == 4096
    assert not caplog.records


def test_awaiting_a_launch_that_failed_raises_its_fault_each_time() -> None:
    done = wrong.over(1).block(1).launch(kaio.Device("cpu").alloc_zeros(4, f32), 9)

    async def main() -> list[str]:
        found = []
        for _ in range(2):
            try:
                await done
            except kaio.KernelFault as fault:
                found.append(fault.mistakes[0].what)
        return found

    what = (
        "index 9 is out of range for axis 0 of `target` (size 4) in kernel `wrong`\n"
        "  thread (0, 0, 0) of block (0, 0, 0)"
    )
    assert _run(main()) == [what, what]


def test_loops_in_two_threads_both_go_on_and_await_twice(device: Any) -> None:
    x, y = device.alloc_from(np.ones(4096, np.float32)), device.alloc_zeros(4096, f32)
    done = slow_copy.over(4096).launch(x, y, 20_000)
    found: list[Any] = []

    async def main() -> None:
        found.extend([await done, await done])

    threads = [threading.Thread(target=lambda: _run(main())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)
    assert found == [None] * 4
    assert y.to_host().sum() == 4096
