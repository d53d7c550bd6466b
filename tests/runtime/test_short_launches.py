"""Launches that are run where they are launched: which ones, and that nobody can tell but by the clock."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

import numpy as np
import pytest

import kaio
from kaio import In, InOut, KernelFault, Out, f32, i32
from kaio.runtime.host_short import MOST_STATEMENTS


@kaio.kernel
def add(x: InOut[i32], by: i32):
    i = kaio.grid(1)
    if i < x.size:
        x[i] += by


@kaio.kernel
def unguarded(x: InOut[i32]):
    x[kaio.grid(1)] += 1


@kaio.kernel
def mirror(x: In[f32], y: Out[f32]):
    s = kaio.shared_mem(64, f32)
    i = kaio.thread_idx.x
    s[i] = x[i]
    kaio.bar_sync()
    y[i] = s[63 - i]


@kaio.kernel
def loops(x: InOut[i32], turns: i32):
    for _ in range(turns):
        x[kaio.thread_idx.x] += 1


@kaio.kernel
def says(x: In[i32]):
    print("x is", x[0])


@pytest.fixture
def x(cpu: kaio.Device) -> Any:
    return cpu.alloc_zeros(64, i32)


def is_run_here(launcher: Any, *args: Any) -> bool:
    """Whether the launch is run by the thread that launches: then no thread of the streams takes anything."""
    device, taken = kaio.Device("cpu"), []
    take = device.servers.take
    device.servers.take = lambda stream: taken.append(stream) or take(stream)  # type: ignore[method-assign, func-returns-value]
    try:
        launcher.launch(*args).wait(60)
    finally:
        del device.servers.take
    return not taken


@pytest.mark.parametrize("blocks", [1, 3])
def test_a_small_launch_without_loops_is_done_when_it_is_launched(x, blocks):
    assert is_run_here(add.grid(blocks).block(32), x, 5)
    assert x.to_host().tolist() == [5] * min(64, blocks * 32) + [0] * max(0, 64 - blocks * 32)


def test_one_whose_threads_wait_is_too(cpu):
    x, y = cpu.alloc_from(np.arange(64, dtype=np.float32)), cpu.alloc_zeros(64, f32)
    assert is_run_here(mirror.grid(1).block(64), x, y)
    assert y.to_host().tolist() == list(range(63, -1, -1))


def test_each_launch_of_one_geometry_takes_its_own_arguments(x):
    launcher = add.over(64).block(64)
    bound = launcher.bind(x, 1000)
    for by in (1, 10, 100):
        launcher.launch(x, by)
        bound.launch()
    assert x.to_host().tolist() == [3111] * 64


def test_a_large_one_one_with_loops_one_that_prints_and_one_with_options_get_a_thread(x, cpu, capsys):
    many = cpu.alloc_zeros(MOST_STATEMENTS, i32)
    assert not is_run_here(add.over(many.size), many, 1)
    assert not is_run_here(loops.grid(1).block(64), x, 3)
    assert not is_run_here(says.grid(1).block(1), x)
    assert not is_run_here(add.over(64).options(cluster=(1, 1, 1)), x, 1)
    assert capsys.readouterr().out == "x is 3\n"
    assert x.to_host().tolist() == [4] * 64


def test_it_comes_after_what_the_stream_has_to_do(cpu, x, latch_cpu):
    before = latch_cpu.hold(cpu.current_stream())
    done = add.over(64).launch(x, 1)
    assert not done.is_done
    latch_cpu.release()
    before.wait(60)
    assert x.to_host().tolist() == [1] * 64


def test_it_comes_after_what_other_streams_do_with_its_buffers(cpu, x, latch_cpu):
    other = cpu.stream()
    latch_cpu.hold(other, (x, "In"))
    done = add.over(64).launch(x, 1)
    assert not done.is_done
    latch_cpu.release()
    done.wait(60)


def test_a_fault_is_raised_by_the_wait_and_the_next_launch_is_as_new(cpu, x):
    done = unguarded.grid(1).block(65).launch(x)
    assert done.is_done
    with pytest.raises(KernelFault, match="index 64 is out of range"):
        done.wait(60)
    x.fill(0)
    unguarded.grid(1).block(64).launch(x).wait(60)
    y = cpu.alloc_zeros(65, i32)
    unguarded.grid(1).block(65).launch(y).wait(60)
    assert y.to_host().tolist() == [1] * 65


def test_a_fault_that_nobody_waits_for_is_raised_by_the_next_wait(cpu, x):
    with cpu.stream() as stream:
        unguarded.grid(1).block(65).launch(x)
        with pytest.raises(KernelFault):
            stream.wait(60)


def test_threads_that_launch_at_the_same_time_do_not_mix(cpu):
    buffers = [cpu.alloc_zeros(64, i32) for _ in range(8)]
    streams = [cpu.stream() for _ in buffers]

    def run(number: int) -> None:
        for _ in range(300):
            add.over(64).block(64).on(streams[number]).launch(buffers[number], number)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [set(buffer.to_host().tolist()) for buffer in buffers] == [{300 * number} for number in range(8)]


def test_threads_that_share_a_stream_lose_nothing(cpu, x):
    def run() -> None:
        for _ in range(300):
            add.over(64).block(64).launch(x, 1)
            loops.grid(1).block(64).launch(x, 1)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(x.to_host().tolist()) == {2400}


def test_a_ctrl_c_in_the_middle_reaches_who_launches_and_the_stream_goes_on(cpu, x, monkeypatch):
    loaded = cpu.load(add.compile(cpu))

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(type(loaded.short), "run", interrupted)
        with pytest.raises(KeyboardInterrupt):
            add.over(64).launch(x, 1)
    assert cpu.current_stream().is_done
    with pytest.raises(kaio.KaioError, match="the launch was interrupted"):
        x.to_host()
    x.fill(0)
    add.over(64).launch(x, 1).wait(60)
    cpu.wait(60)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs timers")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # it may come in a finaliser
def test_whenever_a_ctrl_c_comes_the_stream_goes_on(cpu, x):
    def interrupt(*_: Any) -> None:
        if armed:
            armed.clear()
            raise KeyboardInterrupt

    armed: list[bool] = []
    before, interrupted = signal.signal(signal.SIGALRM, interrupt), 0
    for number in range(400):
        x = cpu.alloc_zeros(64, i32)
        try:
            armed.append(True)
            signal.setitimer(signal.ITIMER_REAL, 20e-6 + number % 40 * 1e-6)
            while armed:
                add.over(64).block(64).launch(x, 1)
        except KeyboardInterrupt:
            interrupted += 1
    signal.signal(signal.SIGALRM, before)
    x = cpu.alloc_zeros(64, i32)
    assert interrupted
    add.over(64).block(64).launch(x, 1).wait(60)
    assert set(x.to_host().tolist()) == {1}


def test_its_time_is_known(x):
    done = add.over(64).options(timed=True).launch(x, 1)
    assert done.elapsed_ms > 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_it_runs_in_a_forked_child(x):
    add.over(64).launch(x, 1).wait(60)
    child = os.fork()
    if not child:
        try:
            add.over(64).launch(x, 1).wait(60)
            os._exit(0 if x.to_host().tolist() == [2] * 64 else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
