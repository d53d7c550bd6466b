"""How waits and awaits learn of the end of work: the same for every strategy, on both devices."""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import threading
import warnings
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import numpy as np
import pytest

import kaio
from kaio import f32
from kaio.errors import CompletionTimeout
from kaio.runtime.watching import watcher

trio = pytest.importorskip("trio")
anyio = pytest.importorskip("anyio")

STRATEGIES = ("adaptive", "host_fn", "polled", "sync")
LIMIT_S = 60
ONE = b"\0\0\x80\x3f"  # 1.0 as f32


def _each(*kinds: str) -> list[Any]:
    return [
        pytest.param((kind, strategy), id=f"{kind}-{strategy}", marks=[pytest.mark.gpu] * (kind != "cpu"))
        for kind in kinds
        for strategy in STRATEGIES
    ]


@pytest.fixture(params=_each("cpu", "cuda:0"))
def device(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Each device with each strategy."""
    which, strategy = request.param
    device = kaio.Device(which, completion=strategy)
    yield device
    device.wait(timeout_s=LIMIT_S)


async def _result(done: Any) -> Any:
    return await done


def _in_asyncio(main: Callable[[], Awaitable[Any]]) -> Any:
    return asyncio.run(asyncio.wait_for(main(), LIMIT_S))  # type: ignore[arg-type]


def _in_trio(main: Callable[[], Awaitable[Any]]) -> Any:
    async def limited() -> Any:
        with trio.fail_after(LIMIT_S):
            return await main()

    return trio.run(limited)


def _in_anyio(backend: str) -> Callable[[Callable[[], Awaitable[Any]]], Any]:
    def run(main: Callable[[], Awaitable[Any]]) -> Any:
        async def limited() -> Any:
            with anyio.fail_after(LIMIT_S):
                return await main()

        return anyio.run(limited, backend=backend)

    return run


LOOPS = [
    pytest.param(_in_asyncio, id="asyncio"),
    pytest.param(_in_trio, id="trio"),
    pytest.param(_in_anyio("asyncio"), id="anyio-asyncio"),
    pytest.param(_in_anyio("trio"), id="anyio-trio"),
]


# Waiting.


def test_what_was_waited_for_is_there(device: Any) -> None:
    x = device.alloc_zeros(1000, f32)
    for value in range(20):
        x.fill(value).wait(LIMIT_S)
        np.testing.assert_array_equal(x.to_host(), np.full(1000, value, np.float32))


def test_waits_that_time_out_leave_the_work_alone_and_may_be_repeated(device: Any, latch: Any) -> None:
    done = latch.hold(device.stream())
    for timeout_s in (0, 0.002, 0.002, 0.01, 0):
        with pytest.raises(CompletionTimeout):
            done.wait(timeout_s)
    latch.release()
    done.wait(LIMIT_S)


def test_threads_wait_for_the_same_work(device: Any, latch: Any) -> None:
    done, barrier = latch.hold(device.stream()), threading.Barrier(9)

    def wait() -> bool:
        barrier.wait(LIMIT_S)
        done.wait(LIMIT_S)
        return done.is_done

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        found = [pool.submit(wait) for _ in range(8)]
        barrier.wait(LIMIT_S)
        latch.release()
        assert [each.result(LIMIT_S) for each in found] == [True] * 8


def test_earlier_work_is_told_before_later_work_that_was_awaited_first(device: Any, make_latch: Any) -> None:
    stream, first, second = device.stream(), make_latch(), make_latch()
    earlier, later = first.hold(stream), second.hold(stream)
    told: list[str] = []

    async def main() -> None:
        async def wait(name: str, work: Any) -> None:
            await work
            told.append(name)

        waits_later = asyncio.ensure_future(wait("later", later))
        await asyncio.sleep(0.01)  # time for a native wait to have begun; the order is right without it too
        waits_earlier = asyncio.ensure_future(wait("earlier", earlier))
        await asyncio.sleep(0)
        first.release()
        await waits_earlier
        assert told == ["earlier"]
        second.release()
        await waits_later

    _in_asyncio(main)


# Loops.


@pytest.mark.parametrize("run", LOOPS)
def test_await_gives_the_result_each_time(device: Any, latch: Any, run: Any) -> None:
    held, x = latch.hold(device.stream()), device.alloc_zeros(4, f32)

    async def main() -> list[Any]:
        quick = x.fill(3)
        found = [await quick, await quick]
        latch.release()
        return [*found, await held, await held, await kaio.gather(quick, held)]

    assert run(main) == [None, None, None, None, [None, None]]
    assert x.to_host().tolist() == [3.0] * 4


def test_cancelling_an_await_neither_cancels_the_work_nor_frees_what_it_uses(device: Any, latch: Any) -> None:
    stream = device.stream(completion="adaptive")  # on one that waits at each launch nothing would be pending
    host = np.arange(1000, dtype=np.float32)
    source, target = device.alloc_from(host), device.alloc_zeros(1000, f32)
    latch.hold(stream)
    kept = [stream.copy(target, source)]

    async def main() -> None:
        task = asyncio.ensure_future(_result(kept[0]))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    _in_asyncio(main)
    kept.clear()
    del source
    gc.collect()
    for _ in range(4):  # memory that was free would be given out again
        device.alloc_zeros(1000, f32).fill(9).wait(LIMIT_S)
    latch.release()
    np.testing.assert_array_equal(target.to_host(), host)


def test_cancelled_awaits_leave_nothing_with_the_work(device: Any, latch: Any) -> None:
    done = latch.hold(device.stream())

    async def main() -> None:
        for _ in range(10):
            task = asyncio.ensure_future(_result(done))
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def in_trio() -> None:
        for _ in range(10):
            with trio.CancelScope() as scope:
                scope.cancel()
                await done
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_result, done)
                await trio.lowlevel.checkpoint()
                nursery.cancel_scope.cancel()

    _in_asyncio(main)
    _in_trio(in_trio)
    assert len(done._listeners) == 0
    assert not done.is_done
    latch.release()
    done.wait(LIMIT_S)


@pytest.mark.parametrize("run", [_in_asyncio, _in_trio])
def test_a_loop_that_has_ended_is_told_nothing(
    device: Any, latch: Any, run: Any, caplog: pytest.LogCaptureFixture
) -> None:
    done, ran = latch.hold(device.stream()), threading.Event()
    kept: list[Any] = []

    async def main() -> None:
        waiting = done.__await__()  # begun, and never ended by its loop
        with warnings.catch_warnings():
            kept.append((waiting, waiting.send(None)))

    run(main)
    done._listen(lambda _: ran.set())
    latch.release()
    assert ran.wait(LIMIT_S)
    kept.clear()
    assert not caplog.records


def test_several_loops_in_several_threads_await_at_once(device: Any, latch: Any) -> None:
    held = latch.hold(device.stream())
    runs = [loop.values[0] for loop in LOOPS] * 2
    barrier = threading.Barrier(len(runs) + 1)

    def work(run: Any) -> Any:
        async def main() -> Any:
            barrier.wait(LIMIT_S)
            x = device.alloc_zeros(10, f32)
            for value in range(10):
                await x.fill(value)
            await held
            return x.to_host().tolist()

        return run(main)

    with concurrent.futures.ThreadPoolExecutor(len(runs)) as pool:
        found = [pool.submit(work, run) for run in runs]
        barrier.wait(LIMIT_S)
        latch.release()
        assert [each.result(LIMIT_S) for each in found] == [[9.0] * 10] * len(runs)


def test_await_outside_of_a_loop_says_what_to_write(device: Any, latch: Any) -> None:
    done = latch.hold(device.stream())
    with pytest.raises(kaio.KaioError) as caught:
        _result(done).send(None)
    assert str(caught.value) == (
        "`await` of a Completion needs asyncio or trio, and neither runs here\n"
        "  help: wait with `done.wait()`, or take `done.future()` to another library"
    )


def test_many_awaits_go_on_in_few_threads_and_let_other_tasks_run(device: Any, latch: Any) -> None:
    stream = device.stream(completion=None if device.policy.completion != "sync" else "adaptive")
    x = device.alloc_zeros(4, f32)
    latch.hold(stream)
    works = [stream.set(x, ONE) for _ in range(2000)]
    before, turns = threading.active_count(), 0

    async def main() -> int:
        nonlocal turns
        is_over = False

        async def count() -> None:
            nonlocal turns
            while not is_over:
                turns += 1
                await asyncio.sleep(0)

        counting = asyncio.ensure_future(count())
        waiting = [asyncio.ensure_future(_result(work)) for work in works]
        await asyncio.sleep(0)
        latch.release()
        turns = 0
        await asyncio.gather(*waiting)
        threads = threading.active_count()
        is_over = True
        await counting
        return threads

    assert _in_asyncio(main) <= before + 4
    assert turns >= len(works) // 100  # no more than a batch goes on in one turn
    assert not watcher.is_busy


def test_work_is_awaited_while_other_threads_allocate_and_launch(device: Any) -> None:
    stop = threading.Event()

    def keep_busy() -> None:
        while not stop.is_set():
            device.alloc_zeros(64, f32).fill(1).wait(LIMIT_S)

    async def main() -> int:
        streams = [device.stream() for _ in range(64)]
        works = [stream.set(device.alloc_zeros(64, f32), ONE) for stream in streams]
        return len(await asyncio.gather(*map(_result, works)))

    threads = [threading.Thread(target=keep_busy) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        assert _in_asyncio(main) == 64
    finally:
        stop.set()
        for thread in threads:
            thread.join()


# Futures, and several at once.


def test_a_future_works_with_concurrent_futures(device: Any, latch: Any) -> None:
    held, quick = latch.hold(device.stream()).future(), device.alloc_zeros(4, f32).fill(1).future()
    found = concurrent.futures.wait([held, quick], LIMIT_S, concurrent.futures.FIRST_COMPLETED)
    assert found.done == {quick}
    assert (held.cancel(), held.running(), held.done()) == (False, True, False)
    called = threading.Event()
    held.add_done_callback(lambda _: called.set())
    latch.release()
    assert set(concurrent.futures.as_completed([held, quick], LIMIT_S)) == {held, quick}
    assert (held.result(LIMIT_S), held.exception(LIMIT_S), called.wait(LIMIT_S)) == (None, None, True)

    async def main() -> Any:
        return await asyncio.wrap_future(kaio.gather(device.alloc_zeros(4, f32).fill(1)).future())

    assert _in_asyncio(main) == [None]


def test_gather_and_as_completed_go_across_devices(device: Any, latch: Any) -> None:
    other = kaio.Device("cpu", check="off")
    held, quick = latch.hold(device.stream()), other.alloc_zeros(4, f32).fill(1)
    both = kaio.gather(held, quick)
    found = []
    for done in kaio.as_completed([held, quick], timeout_s=LIMIT_S):
        found.append(done)
        latch.release()
    assert found == [quick, held]
    assert both.result() == [None, None]


@pytest.mark.parametrize("run", LOOPS)
def test_as_completed_serves_every_loop(device: Any, make_latch: Any, run: Any) -> None:
    latches = [make_latch() for _ in range(3)]
    works = [latch.hold(device.stream()) for latch in latches]

    async def main() -> list[Any]:
        found = []
        latches[2].release()
        async for done in kaio.as_completed(works, timeout_s=LIMIT_S):
            found.append(works.index(done))
            if len(found) < 3:
                latches[2 - len(found)].release()
        with pytest.raises(CompletionTimeout, match=r"1 of 1 completions are not done after 0.01 s"):
            async for _ in kaio.as_completed([late.hold(device.stream())], timeout_s=0.01):
                pass
        return found

    late = make_latch()
    assert run(main) == [2, 1, 0]


def test_gathering_many_asks_about_each_few_times(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x = device.alloc_zeros(4, f32)
    works = [x.fill(1) for _ in range(500)]
    asked = 0
    kind = type(works[0])
    is_done = kind.is_done.fget

    def count(self: Any) -> Any:
        nonlocal asked
        asked += 1
        return is_done(self)

    monkeypatch.setattr(kind, "is_done", property(count))
    told = threading.Event()
    kaio.gather(*works).add_done_callback(lambda _: told.set())
    assert told.wait(LIMIT_S)
    assert asked <= 6 * len(works)


# Callbacks.


def test_a_callback_may_wait_in_every_way_for_other_work(device: Any, latch: Any) -> None:
    stream, told, problems = device.stream(), threading.Event(), []

    def wait(_: Any) -> None:
        try:
            x = device.alloc_zeros(4, f32)
            x.fill(1).wait(LIMIT_S)
            list(kaio.as_completed([x.fill(2), stream.set(x, ONE)], timeout_s=LIMIT_S))
            kaio.gather(x.fill(3), x.fill(4)).wait(LIMIT_S)
            _in_asyncio(lambda: _result(x.fill(5)))
            stream.wait(LIMIT_S)
        except BaseException as problem:
            problems.append(problem)
        told.set()

    latch.hold(stream).add_done_callback(wait)
    latch.release()
    assert told.wait(LIMIT_S)
    assert not problems


def test_a_callback_may_drop_the_last_reference_to_a_buffer(device: Any, latch: Any) -> None:
    held, told = [device.alloc_zeros(4, f32)], threading.Event()

    def drop(_: Any) -> None:
        held.clear()
        gc.collect()
        told.set()

    done = latch.hold(device.stream(), (held[0], "Out"))
    done.add_done_callback(drop)
    del done
    latch.release()
    assert told.wait(LIMIT_S)
    device.alloc_zeros(4, f32).fill(1).wait(LIMIT_S)


def test_callbacks_that_wait_do_not_hold_up_awaits(device: Any, make_latch: Any) -> None:
    first, second = make_latch(), make_latch()
    hold = threading.Event()
    blocked, awaited = first.hold(device.stream()), second.hold(device.stream())
    entered = threading.Event()

    def wait(_: Any) -> None:
        entered.set()
        hold.wait(LIMIT_S)

    blocked.add_done_callback(wait)
    first.release()
    assert entered.wait(LIMIT_S)

    async def main() -> None:
        task = asyncio.ensure_future(_result(awaited))
        await asyncio.sleep(0)
        second.release()
        await task

    try:
        _in_asyncio(main)
    finally:
        hold.set()


# Faults on the CPU device; those of a GPU end its use in the process: tests/runtime/test_cuda_completion.py.


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_fault_is_raised_by_each_way_to_wait(strategy: Any, latch_cpu: Any) -> None:
    stream, latch = kaio.Device("cpu").stream(completion=strategy), latch_cpu

    def fail() -> None:
        raise kaio.KernelFault("it went wrong")

    latch.hold(stream)
    done = stream.submit(fail, ())
    future, told = done.future(), threading.Event()
    done.add_done_callback(lambda _: told.set())
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        found = [
            pool.submit(done.wait, LIMIT_S),
            pool.submit(_in_asyncio, lambda: _result(done)),
            pool.submit(_in_trio, lambda: _result(kaio.gather(done))),
        ]
        latch.release()
        for each in (*found, future):
            with pytest.raises(kaio.KernelFault, match="it went wrong"):
                each.result(LIMIT_S)
    assert told.wait(LIMIT_S)
    assert list(kaio.as_completed([done], timeout_s=LIMIT_S)) == [done]
    stream.wait(LIMIT_S)  # it was seen


def test_a_failure_that_only_a_future_was_asked_for_is_seen(latch_cpu: Any) -> None:
    stream, latch = kaio.Device("cpu").stream(), latch_cpu

    def fail() -> None:
        raise kaio.KernelFault("it went wrong")

    latch.hold(stream)
    future = stream.submit(fail, ()).future()
    latch.release()
    concurrent.futures.wait([future], LIMIT_S)
    assert isinstance(future.exception(LIMIT_S), kaio.KernelFault)
    stream.wait(LIMIT_S)
