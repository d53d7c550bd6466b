"""Host programs run: worker pools, launches at the same time, memory that is kept."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import numpy as np
import pytest

import kaio
from kaio import In, InOut, Out, f32, i32
from kaio.dsl.compiler.host import native
from kaio.runtime.host_kernel import HostKernel
from kaio.runtime.host_library import Library
from kaio.runtime.host_workers import WorkerPool, _Job
from tests.dsl.compiler.host import Compiled, compiled, ramp


def scale(x: In[f32], y: Out[f32], a: f32):
    i = kaio.grid(1)
    if i < x.size:
        y[i] = a * x[i]


def sum_of_block(x: In[i32], out: Out[i32]):
    shared = kaio.shared_mem(64, i32)
    t = kaio.thread_idx.x
    shared[t] = x[kaio.grid(1)]
    kaio.bar_sync()
    if t == 0:
        total = 0
        for k in range(64):
            total += shared[k]
        out[kaio.block_idx.x] = total


def _launch(
    kernel: Compiled, workers: WorkerPool, grid: int, block: int, *arrays: np.ndarray, **scalars: float
) -> None:
    values: list[object] = []
    for array in arrays:
        values += [array.ctypes.data, array.size]
    packed = kernel.program.block.pack(*values, *scalars.values())
    kernel.kernel.run((grid, 1, 1), (block, 1, 1), packed, workers)


def test_launches_from_many_threads_share_a_kernel_and_a_pool() -> None:
    kernel, workers = compiled(sum_of_block), WorkerPool(3)
    xs = [ramp(64 * 200, np.int32) + k for k in range(6)]
    outs = [np.zeros(200, np.int32) for _ in xs]

    def many(k: int) -> None:
        for _ in range(10):
            outs[k][:] = 0
            _launch(kernel, workers, 200, 64, xs[k], outs[k])

    threads = [threading.Thread(target=many, args=(k,)) for k in range(len(xs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    workers.close()
    for x, out in zip(xs, outs, strict=True):
        np.testing.assert_array_equal(out, x.reshape(200, 64).sum(axis=1))


def test_a_closed_pool_still_runs_in_the_thread_that_launches() -> None:
    kernel, workers = compiled(scale), WorkerPool(4)
    workers.close()
    x, y = ramp(1000), np.zeros(1000, np.float32)
    _launch(kernel, workers, 4, 256, x, y, a=3.0)
    np.testing.assert_array_equal(y, 3 * x)
    workers.close()


def test_a_pool_ends_its_threads() -> None:
    workers = WorkerPool(3)
    _launch(compiled(scale), workers, 8, 128, ramp(1000), np.zeros(1000, np.float32), a=3.0)
    threads = list(workers._threads)
    assert len(threads) == 2
    workers.close()
    assert not any(thread.is_alive() for thread in threads)


def test_a_pool_of_one_starts_no_thread() -> None:
    workers = WorkerPool(1)
    _launch(compiled(scale), workers, 8, 128, ramp(1000), np.zeros(1000, np.float32), a=3.0)
    assert workers._threads == []


def test_a_launch_waits_for_a_helper_that_came_before_it_began_itself() -> None:
    came, may_end, ended = threading.Event(), threading.Event(), []

    class Record:
        def __init__(self, address: int) -> None:
            self.worker = self
            self.address = address

    def function(address: int) -> None:
        if address == 1:
            came.set()
            may_end.wait()
            ended.append(address)
        else:
            may_end.set()

    job = _Job(function, [Record(1)])  # type: ignore[list-item]
    helper = threading.Thread(target=job.help)
    helper.start()
    came.wait()
    job.run(Record(0))  # type: ignore[arg-type]
    assert ended == [1]
    helper.join()


def test_records_are_used_again_by_later_launches() -> None:
    kernel, workers = compiled(sum_of_block), WorkerPool(1)
    x, out = ramp(64 * 3, np.int32), np.zeros(3, np.int32)
    _launch(kernel, workers, 3, 64, x, out)
    (record,) = workers._free
    _launch(kernel, workers, 3, 64, x, out)
    assert list(workers._free) == [record]


def test_a_fault_leaves_the_kernel_and_the_pool_as_good_as_new() -> None:
    def exact(x: In[i32], out: Out[i32]):
        out[kaio.grid(1)] = x[kaio.grid(1)]

    kernel, workers = compiled(exact), WorkerPool(2)
    x, out = ramp(100, np.int32), np.zeros(64, np.int32)
    with pytest.raises(kaio.KernelFault):
        _launch(kernel, workers, 2, 64, x, out)
    _launch(kernel, workers, 1, 64, x, out)
    np.testing.assert_array_equal(out, np.arange(64))
    workers.close()


def test_a_kernel_can_be_dropped_and_its_code_is_unloaded() -> None:
    kernel = compiled(scale).kernel
    reference = weakref.ref(kernel._library)
    del kernel
    gc.collect()
    assert reference() is None


def test_a_stopped_pool_leaves_loops_and_starts_no_more_blocks() -> None:
    def turns(words: InOut[i32]):
        kaio.atomic_add(words, 0, 1)
        n = 0
        while n >= 0:
            n = (n + 1) & 1023

    kernel, workers, words = compiled(turns), WorkerPool(2), np.zeros(1, np.int32)
    failed: list[str] = []

    def launch() -> None:
        try:
            _launch(kernel, workers, 100, 1, words)
        except kaio.KaioError as problem:
            failed.append(str(problem))

    thread = threading.Thread(target=launch)
    thread.start()
    while not words[0]:
        pass
    assert workers.running == ["kernel `turns`"]
    workers.stop()
    thread.join()
    launch()
    assert failed == ["the launch was stopped, because the process ends\n  help: wait for it before"] * 2
    assert words[0] <= 2
    assert workers.running == []


def test_the_same_program_can_be_loaded_twice() -> None:
    program = compiled(scale).program
    one, two = HostKernel(program), HostKernel(program)
    x, y = ramp(10), np.zeros(10, np.float32)
    for kernel, factor in ((one, 2.0), (two, 3.0)):
        packed = program.block.pack(x.ctypes.data, 10, y.ctypes.data, 10, factor)
        kernel.run((1, 1, 1), (32, 1, 1), packed, WorkerPool(1))
        np.testing.assert_array_equal(y, factor * x)


def test_a_launch_does_without_threads_that_cannot_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    kernel, workers = compiled(scale), WorkerPool(3)
    x, y = ramp(10_000), np.zeros(10_000, np.float32)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        _launch(kernel, workers, 40, 256, x, y, a=2.0)
    np.testing.assert_array_equal(y, 2 * x)
    assert not workers._threads
    _launch(kernel, workers, 40, 256, x, y, a=5.0)
    np.testing.assert_array_equal(y, 5 * x)
    assert len(workers._threads) == 2
    workers.close()


def test_the_first_launch_may_be_the_last_line_of_a_program(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("""
import atexit
import kaio
from kaio import InOut, f32

@kaio.kernel
def increment(x: InOut[f32]):
    i = kaio.grid(1)
    if i < x.size:
        x[i] = x[i] + 1.0

cpu = kaio.Device("cpu")
x = cpu.alloc_zeros(100_000, f32)

@atexit.register
def late():
    increment.over(x.size).launch(x)
    print(set(x.to_host().tolist()))

increment.over(x.size).launch(x)
""")
    found = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=120, check=False)
    assert (found.returncode, found.stdout, found.stderr) == (0, "{2.0}\n", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_has_worker_threads_of_its_own() -> None:
    kernel, workers = compiled(scale), WorkerPool(3)
    x, y = ramp(10_000), np.zeros(10_000, np.float32)
    _launch(kernel, workers, 40, 256, x, y, a=2.0)
    child = os.fork()
    if child == 0:
        y[:] = 0
        _launch(kernel, workers, 40, 256, x, y, a=5.0)
        os._exit(0 if (y == 5 * x).all() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    workers.close()


def test_object_code_that_cannot_be_resolved_is_an_internal_error_and_no_abort() -> None:
    import llvmlite.binding as llvm

    machine = native.new_machine()
    module = native.parse("define void @k() {\n  call void @nobody()\n  ret void\n}\ndeclare void @nobody()\n")
    native.add_triple(module, machine)
    with pytest.raises(kaio.InternalError, match="native code does not load"):
        Library(machine.emit_object(module), ["k"])
    assert llvm.address_of_symbol("nobody") is None
