"""Threads that come first at once, forks, processes that end with work in flight, and Ctrl-C; on both devices."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

WHICH = [pytest.param("cpu", id="cpu"), pytest.param("cuda:0", id="cuda", marks=pytest.mark.gpu)]
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

SAXPY = """
import asyncio, atexit, os, signal, sys, threading, time
signal.alarm(50)  # neither it nor a child of it goes on for longer
os.register_at_fork(after_in_child=lambda: signal.alarm(40))
import numpy as np
import kaio
from kaio import In, InOut, f32

@kaio.kernel
def saxpy(x: In[f32], y: InOut[f32], a: f32):
    i = kaio.grid(1)
    if i < y.size:
        y[i] = a * x[i] + y[i]

WHICH = {which!r}

def compute(which=WHICH):
    device = kaio.Device(which)
    x = device.alloc_from(np.arange(100, dtype=np.float32))
    y = device.alloc_zeros(100, f32)
    saxpy.over(100).launch(x, y, 2.0).wait(50)
    return y.to_host().tolist() == [2.0 * k for k in range(100)]

def hold(device):
    '''Work that goes on until the function that comes with it is called.'''
    stream = device.current_stream()
    if device.kind == "cpu":
        gate = threading.Event()
        return stream.submit(gate.wait, ()), gate.set
    import ctypes
    from kaio.runtime.cuda.driver import done, driver
    with device.current():
        address = int(done(driver.cuMemHostAlloc(64, 0)))
    word = ctypes.c_uint32.from_address(address)
    word.value = 0
    with device._lock:
        work = stream.submit(driver.cuStreamWaitValue32, (stream.raw, address, driver.cuuint32_t(1), 0), ())
    return work, lambda: setattr(word, "value", 1)
"""


def run(folder: Path, which: str, body: str, error: str = "") -> list[str]:
    """What a program prints, line by line; it must end well, and say nothing else than `error` (a pattern)."""
    script = folder / "program.py"
    script.write_text(SAXPY.format(which=which) + textwrap.dedent(body), encoding="utf-8")
    # Python warns of fork beside threads, which is what some of these are about.
    command = [sys.executable, "-W", "ignore::DeprecationWarning", str(script)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(["", str(Path(__file__).parents[2])])}
    found = subprocess.run(command, capture_output=True, text=True, timeout=80, check=False, env=environment)
    assert found.returncode == 0, found.stdout + found.stderr
    assert re.fullmatch(error, found.stderr.strip()), found.stderr
    return found.stdout.splitlines()


# Threads.


@pytest.mark.parametrize("which", WHICH)
def test_threads_that_come_first_at_once_all_compute_and_compile_once(which: str, tmp_path: Path) -> None:
    out = run(
        tmp_path,
        which,
        """
        from kaio.dsl.compiler import pipeline
        compiled, barrier, found = [], threading.Barrier(16), []
        for name in ("compile_host", "compile_cuda"):
            def count(*args, made=getattr(pipeline, name), **options):
                compiled.append(args[1])
                return made(*args, **options)
            setattr(pipeline, name, count)

        def work():
            barrier.wait(50)
            found.append(compute())

        threads = [threading.Thread(target=work) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(50)
        print(found == [True] * 16, len(compiled))
        """,
    )
    assert out == ["True 1"]


def test_threads_that_compile_what_cannot_be_share_one_error(tmp_path: Path) -> None:
    out = run(
        tmp_path,
        "cpu",
        """
        from kaio.dsl.compiler import pipeline
        tried, barrier, found = [], threading.Barrier(16), []
        made = pipeline.compile_host

        def count(*args):
            tried.append(1)
            while len(arrived) < 16:  # until all threads have asked for it
                time.sleep(0.001)
            time.sleep(0.05)
            return made(*args)

        pipeline.compile_host = count
        arrived = []

        @kaio.kernel
        def wrong(x: InOut[f32]):
            x[0] = x[0] & 1.5

        device = kaio.Device("cpu")
        x = device.alloc_zeros(4, f32)

        def work():
            barrier.wait(50)
            arrived.append(1)
            try:
                wrong.over(4).launch(x)
            except kaio.KaioError as problem:
                found.append((type(problem).__name__, str(problem)))

        threads = [threading.Thread(target=work) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(50)
        print(len(found), len(set(found)), found[0][0], len(tried))
        try:
            wrong.over(4).launch(x)
        except kaio.KaioError:
            print(len(tried))
        """,
    )
    assert out == ["16 1 KernelTypeError 1", "2"]


# Processes.


@needs_fork
@pytest.mark.parametrize("which", WHICH)
def test_a_fork_before_the_first_use_works_on_both_sides(which: str, tmp_path: Path) -> None:
    out = run(
        tmp_path,
        which,
        """
        child = os.fork()
        if not child:
            os._exit(0 if compute() else 1)
        print(compute(), os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """,
    )
    assert out == ["True 0"]


@needs_fork
def test_the_cpu_device_goes_on_in_a_forked_child(tmp_path: Path) -> None:
    out = run(
        tmp_path,
        "cpu",
        """
        import multiprocessing
        assert compute()
        device = kaio.Device("cpu")
        device.alloc_zeros(4, f32).fill(1).add_done_callback(print)

        @kaio.kernel
        def new(y: InOut[f32]):
            y[kaio.grid(1)] = 7.0

        async def awaited(done):
            await done

        def work(k):
            y = device.alloc_zeros(1 << 20, f32)
            with device.stream():
                asyncio.run(awaited(new.over(y.size).launch(y)))
            called = threading.Event()
            y.fill(k).add_done_callback(lambda _: called.set())
            return compute() and called.wait(50) and float(y.to_host().max()) == k

        with multiprocessing.get_context("fork").Pool(2) as pool:
            print(pool.map(work, range(4)), compute())
        """,
    )
    assert out[-1] == "[True, True, True, True] True"


@needs_fork
def test_a_fork_while_other_threads_compile_and_launch_leaves_a_child_that_works(tmp_path: Path) -> None:
    out = run(
        tmp_path,
        "cpu",
        """
        device, stop = kaio.Device("cpu"), threading.Event()
        compute()

        def kernel():
            @kaio.kernel
            def fresh(y: InOut[f32]):
                if kaio.grid(1) < y.size:
                    y[kaio.grid(1)] += 1.0
            return fresh

        def busy():
            y = device.alloc_zeros(64, f32)
            while not stop.is_set():
                kernel().over(64).launch(y)
                saxpy.over(64).launch(y, device.alloc_zeros(64, f32), 1.0)

        threads = [threading.Thread(target=busy) for _ in range(2)]
        for thread in threads:
            thread.start()
        found = []
        for _ in range(6):
            child = os.fork()
            if not child:
                y = device.alloc_zeros(64, f32)
                kernel().over(64).launch(y).wait(30)
                os._exit(0 if compute() and y.to_host().tolist() == [1.0] * 64 else 1)
            found.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        stop.set()
        for thread in threads:
            thread.join(30)
        print(found, compute())
        """,
    )
    assert out == ["[0, 0, 0, 0, 0, 0] True"]


@needs_fork
def test_work_that_ran_while_the_process_was_forked_is_not_waited_for_in_the_child(tmp_path: Path) -> None:
    out = run(
        tmp_path,
        "cpu",
        """
        device = kaio.Device("cpu")
        y = device.alloc_zeros(4, f32)
        stream, gate, begun = device.current_stream(), threading.Event(), threading.Event()
        done = stream.submit(lambda: (begun.set(), gate.wait()), ((y, "Out"),))
        begun.wait()
        told = []
        done.add_done_callback(lambda _: told.append(os.getpid()))
        child = os.fork()
        if not child:
            try:
                y.to_host()
            except kaio.KaioError as problem:
                os._exit(0 if "the process was forked while this work was pending" in str(problem) and not told else 1)
            os._exit(2)
        gate.set()
        done.wait()
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """,
    )
    assert out == ["0"]


@needs_fork
@pytest.mark.gpu
def test_a_forked_child_of_a_process_that_uses_cuda_is_told_at_once(tmp_path: Path) -> None:
    out = run(
        tmp_path,
        "cuda:0",
        """
        compute()
        device = kaio.Device(0)
        held, release = hold(device)
        held.add_done_callback(lambda _: None)  # so that a thread watches
        child = os.fork()
        if not child:
            found = []
            for use in (compute, held.wait, device.wait, lambda: asyncio.run(gathered()), device.stream):
                async def gathered():
                    await kaio.gather(held)
                try:
                    use()
                except kaio.KaioError as problem:
                    found.append("CUDA does not survive a fork" in str(problem))
            os._exit(0 if found == [True] * 5 and compute("cpu") else 1)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        release()
        held.wait()
        print(compute())
        """,
    )
    assert out == ["0", "True"]


@pytest.mark.parametrize("which", WHICH)
def test_spawned_processes_use_kernels_of_the_main_module(which: str, tmp_path: Path) -> None:
    out = run(
        tmp_path,
        which,
        """
        import multiprocessing

        def work(kernel):
            device = kaio.Device(WHICH)
            x, y = device.alloc_from(np.ones(8, np.float32)), device.alloc_zeros(8, f32)
            kernel.over(8).launch(x, y, 3.0)
            return y.to_host().tolist() == [3.0] * 8 and compute()

        if __name__ == "__main__":
            assert compute()
            with multiprocessing.get_context("spawn").Pool(2) as pool:
                print(pool.map(work, [saxpy] * 2))
        """,
    )
    assert out == ["[True, True]"]


# The end of a process. Each of these leaves work in flight in another way.

LEAVING = {
    "a launch that nobody waits for": """
        print("begun")
    """,
    "a thread that still waits": """
        threading.Thread(target=held.wait, daemon=True).start()
        threading.Timer(0.05, release).start()
    """,
    "a thread that awaits": """
        async def main():
            await held
        threading.Thread(target=lambda: asyncio.run(main()), daemon=True).start()
        threading.Timer(0.05, release).start()
    """,
    "an await that was given up": """
        async def main():
            task = asyncio.ensure_future(awaited(held))
            await asyncio.sleep(0)
        async def awaited(done):
            await done
        asyncio.run(main())
        threading.Timer(0.05, release).start()
    """,
    "a callback that launches": """
        held.add_done_callback(lambda _: compute())
        threading.Timer(0.05, release).start()
    """,
    "a callback that drops buffers": """
        kept = [device.alloc_zeros(1000, f32) for _ in range(3)]
        held.add_done_callback(lambda _: kept.clear())
        threading.Timer(0.05, release).start()
    """,
    "futures and as_completed": """
        futures = [held.future(), device.alloc_zeros(4, f32).fill(1).future()]
        waiting = iter(kaio.as_completed([held]))
        threading.Timer(0.05, release).start()
    """,
    "work that is started at exit": """
        release()
        atexit.register(lambda: (device.alloc_zeros(4, f32).fill(1), compute()))
    """,
    "an await at exit": """
        release()
        async def main():
            await device.alloc_zeros(4, f32).fill(1)
        atexit.register(lambda: asyncio.run(main()))
    """,
    "as_completed at exit": """
        release()
        atexit.register(lambda: list(kaio.as_completed([device.alloc_zeros(4, f32).fill(1)])))
    """,
    "everything in cycles": """
        class Cycle:
            def __init__(self, *things):
                self.things, self.me = things, self
        cycles = [Cycle(device, device.stream(), device.alloc_zeros(4, f32), held) for _ in range(3)]
        release()
    """,
    "sys.exit in a thread that waits": """
        threading.Timer(0.05, release).start()
        held.wait()
        sys.exit()
    """,
}


@pytest.mark.parametrize("which", WHICH)
@pytest.mark.parametrize("how", LEAVING)
def test_a_process_ends_cleanly_with(how: str, which: str, tmp_path: Path) -> None:
    body = "compute()\ndevice = kaio.Device(WHICH)\nheld, release = hold(device)\nprint('started')\n" + textwrap.dedent(
        LEAVING[how]
    )
    if "release" not in LEAVING[how]:
        body += "release()\n"
    assert run(tmp_path, which, body)[0] == "started"


@pytest.mark.parametrize("which", WHICH)
def test_ctrl_c_ends_each_way_to_wait_and_nothing_else(which: str, tmp_path: Path) -> None:
    out = run(
        tmp_path,
        which,
        """
        compute()
        device = kaio.Device(WHICH)
        ways = (
            lambda: held.wait(),
            lambda: held.wait(50),
            lambda: held.result(),
            lambda: held.future().result(),
            lambda: held.stream.wait(),
            lambda: device.wait(),
            lambda: kaio.gather(held).wait(),
            lambda: list(kaio.as_completed([held])),
        )
        for wait in ways:
            held, release = hold(device)
            y = device.alloc_zeros(4, f32)
            y.fill(3)
            threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
            try:
                wait()
            except KeyboardInterrupt:
                print("interrupted", held.is_done, end=" ")
            release()
            wait()
            print(held.is_done, y.to_host().tolist(), compute())
        """,
    )
    assert out == ["interrupted False True [3.0, 3.0, 3.0, 3.0] True"] * 8


@pytest.mark.parametrize("which", WHICH)
def test_ctrl_c_ends_a_loop_that_awaits(which: str, tmp_path: Path) -> None:
    out = run(
        tmp_path,
        which,
        """
        compute()
        held, release = hold(kaio.Device(WHICH))
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()

        async def main():
            try:
                await held
            except asyncio.CancelledError:
                print("cancelled")
                raise

        try:
            asyncio.run(main())
        except KeyboardInterrupt:
            print("interrupted", held.is_done)
        release()
        held.wait(50)
        print(compute())
        """,
    )
    assert out == ["cancelled", "interrupted False", "True"]


def test_a_hook_of_a_fork_never_waits_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    from kaio import forking

    class Held:
        def acquire(self, timeout: float) -> Any:
            return False

    monkeypatch.setattr(forking, "_whole", [(0, Held())])
    forking._before()
    assert forking._taken == []
    forking._after_in_parent()
