"""Kernels that end badly on an isolated device: what is told, what stays, and what goes on."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import kaio
from kaio import f32
from kaio.errors import CompletionTimeout, KernelFault, OutOfMemoryError, StaleBufferError
from kaio.runtime.stream import Launch
from tests.runtime.isolated.conftest import ONE, PROGRAMS, Lab, until

pytestmark = pytest.mark.gpu

ILLEGAL = "CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal memory access was encountered"


def descriptors() -> int:
    """How many this process has, once garbage is gone."""
    gc.collect()
    return len(list(Path("/proc/self/fd").iterdir()))


HELP = (
    "the device goes on with a new worker, and its buffers hold what they held, but for those that unfinished work was "
    'to write; `Device("cpu")` runs the same kernels and says where'
)


def test_an_illegal_address_is_told_with_its_kernel_and_the_data_stays(lab: Lab) -> None:
    before = lab.gpu.generation
    done = lab.launch("fault")
    with pytest.raises(KernelFault) as caught:
        done.wait(60)
    assert str(caught.value) == f"kernel `fault` failed on cuda:0 (isolated): {ILLEGAL}\n  help: {HELP}"
    assert (caught.value.facts["kernel"], caught.value.facts["code"]) == ("fault", 700)
    assert type(caught.value.__cause__).__name__ == "DriverError"
    assert (lab.gpu.generation, lab.x.generation, lab.x[1:].generation) == (before + 1,) * 3
    lab.check_data()
    lab.gpu.wait(60)


def test_a_trap_is_survived(lab: Lab) -> None:
    with pytest.raises(KernelFault, match="kernel `trap` failed on "):
        lab.launch("trap").wait(60)
    lab.check_data()


def test_an_endless_kernel_is_stopped_after_its_time(lab: Lab) -> None:
    done = lab.launch("endless", timeout_s=0.2)
    with pytest.raises(KernelFault) as caught:
        done.wait(60)
    what = "kernel `endless` was not done after 0.2 s on cuda:0 (isolated), and was stopped"
    assert caught.value.mistakes[0].what == what
    assert (caught.value.kind, caught.value.facts["timeout_s"]) == ("endless", 0.2)
    lab.word.fill(5)
    lab.check_data()
    assert lab.word.to_host() == 5  # nothing that was stopped still writes


def test_a_time_limit_counts_from_when_the_launch_can_begin(lab: Lab, latch: Any) -> None:
    y, other = lab.gpu.alloc_zeros(1000, f32), lab.gpu.stream()
    latch.hold(other, (y, "Out"))
    done = lab.launch("endless", (y, "InOut"), timeout_s=0.05)
    with pytest.raises(CompletionTimeout):
        done.wait(0.5)
    latch.release()
    with pytest.raises(KernelFault, match=r"kernel `endless` was not done after 0.05 s"):
        done.wait(60)


def test_a_kernel_that_is_done_in_time_is_not_stopped(lab: Lab) -> None:
    before = lab.gpu.generation
    y = lab.gpu.alloc_zeros(1000, f32)
    block = PROGRAMS["saxpy"].block.pack(lab.x.pointer, 1000, y.pointer, 1000, 1.0)
    loaded = lab.gpu.load(PROGRAMS["saxpy"])
    options = kaio.runtime.stream.RunOptions(timeout_s=30.0)
    for _ in range(50):
        lab.gpu.current_stream().launch(
            Launch(loaded, (4, 1, 1), (256, 1, 1), block, ((lab.x, "In"), (y, "InOut")), options=options)
        )
    assert (y.to_host() == 50 * lab.x.to_host()).all()
    assert lab.gpu.generation == before


def test_a_kernel_without_memory_for_its_threads_is_told_and_the_worker_stays(lab: Lab) -> None:
    before, keep = lab.gpu.generation, lab.gpu.alloc_empty(lab.gpu.memory.free // 2, kaio.u8)
    with pytest.raises(OutOfMemoryError) as caught:
        lab.launch("hungry").wait(60)
    assert str(caught.value) == (
        "cuda:0 (isolated) has no memory for what the threads of kernel `hungry` have of their own: "
        "CUDA_ERROR_OUT_OF_MEMORY (2): out of memory\n"
        "  help: let a thread have fewer or smaller arrays of its own, or close buffers that are not needed any more"
    )
    keep.close()
    lab.check_data()
    assert lab.gpu.generation == before
    lab.gpu.wait(60)


def test_a_refused_launch_that_nobody_waits_for_is_raised_by_the_next_wait(lab: Lab) -> None:
    lab.gpu.current_stream().launch(Launch(lab.gpu.load(PROGRAMS["trap"]), ONE, (2048, 1, 1), b"", ()))
    with pytest.raises(kaio.LaunchError, match="the CUDA driver refuses kernel `trap`: CUDA_ERROR_INVALID_VALUE") as it:
        lab.gpu.wait(60)
    assert it.value.__notes__ == ["This is from kernel `trap`, started earlier, which nobody had waited for."]
    lab.gpu.wait(60)


def test_a_worker_that_is_killed_from_outside_is_replaced(lab: Lab, latch: Any) -> None:
    held = latch.hold(lab.gpu.current_stream())
    os.kill(lab.gpu.link.process.pid, signal.SIGKILL)
    with pytest.raises(KernelFault) as caught:
        held.wait(60)
    what = "the worker of cuda:0 (isolated) was ended by SIGKILL while kernel `hold` was under way"
    assert caught.value.mistakes[0].what == what
    lab.check_data()


def test_a_worker_that_dies_with_nothing_to_do_fails_nothing(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    lab.gpu.wait(60)
    link = lab.gpu.link
    os.kill(link.process.pid, signal.SIGKILL)
    assert link.replaced.wait(60)
    lab.gpu.wait(60)
    lab.check_data()
    assert caplog.record_tuples == [
        (
            "kaio",
            logging.WARNING,
            "the worker of cuda:0 (isolated) was replaced: the worker of cuda:0 (isolated) was ended by SIGKILL",
        )
    ]


def test_many_faults_in_a_row_leave_nothing_behind(lab: Lab) -> None:
    lab.check_data()
    before = descriptors(), threading.active_count(), lab.gpu.lending.arena.nbytes
    workers = []
    for turn in range(20):
        workers.append(lab.gpu.link.process.pid)
        with pytest.raises(KernelFault, match="kernel `fault` failed"):
            lab.launch("fault").wait(60)
        y = lab.gpu.alloc_zeros(1000, f32)
        lab.saxpy(y, float(turn)).wait(60)
        assert y.to_host()[1] == turn
    lab.check_data()
    lab.gpu.wait(60)
    assert len(set(workers)) == 20
    assert not any(Path(f"/proc/{worker}").exists() for worker in workers)
    # The thread of the last one that was replaced has told of it, and ends.
    assert until(lambda: threading.active_count() <= before[1])
    assert until(lambda: descriptors() <= before[0])
    assert lab.gpu.lending.arena.nbytes == before[2]


def test_a_buffer_that_failed_work_was_to_write_raises_that_until_it_is_filled(lab: Lab) -> None:
    y, z = lab.gpu.alloc_zeros(1000, f32), lab.gpu.alloc_zeros(1000, f32)
    done = lab.launch("fault", (y, "Out"), (z, "In"))
    for use in (y.to_host, y.copy, lambda: lab.saxpy(y), lambda: y[3:].to_host(), y.__dlpack__):
        with pytest.raises(KernelFault, match="kernel `fault` failed"):
            use()
    with pytest.raises(KernelFault):
        done.wait(60)
    assert not z.to_host().any()
    y.fill(1)
    lab.saxpy(y)
    assert (y.to_host() == 1 + lab.x.to_host()).all()


def test_work_that_was_done_before_the_fault_is_done(lab: Lab) -> None:
    buffers = [lab.gpu.alloc_zeros(1000, f32) for _ in range(8)]
    works = [lab.saxpy(y, k) for k, y in enumerate(buffers)]
    bad = lab.launch("fault")
    behind = [lab.saxpy(y, 100) for y in buffers[4:]]
    for work in works:
        work.wait(60)
    with pytest.raises(KernelFault, match="kernel `fault` failed"):
        bad.wait(60)
    for work in behind:
        with pytest.raises(KernelFault, match="kernel `fault` failed"):
            work.wait(60)
    for k, y in enumerate(buffers[:4]):
        assert (y.to_host() == k * lab.x.to_host()).all()


def test_kernels_of_other_streams_that_were_done_are_not_blamed(lab: Lab) -> None:
    y, other = lab.gpu.alloc_zeros(1000, f32), lab.gpu.stream()
    for _ in range(3):
        lab.saxpy(y, stream=other)
    with pytest.raises(KernelFault, match=r"^kernel `fault` failed"):
        lab.launch("fault", (y, "In")).wait(60)


def test_of_several_kernels_under_way_all_are_named(lab: Lab, latch: Any) -> None:
    latch.hold(lab.gpu.stream())
    with pytest.raises(KernelFault) as caught:
        lab.launch("fault").wait(60)
    assert caught.value.facts["kernel"] is None
    assert sorted(caught.value.facts["kernels"]) == ["fault", "hold"]


def test_what_lived_in_the_worker_is_stale_and_the_default_stream_is_not(lab: Lab) -> None:
    gpu, y = lab.gpu, lab.gpu.alloc_zeros(1000, f32)
    before, default, stream = gpu.generation, gpu.current_stream(), gpu.stream()
    block = PROGRAMS["saxpy"].block.pack(lab.x.pointer, 1000, y.pointer, 1000, 1.0)
    launch = Launch(gpu.load(PROGRAMS["saxpy"]), (4, 1, 1), (256, 1, 1), block, ((lab.x, "In"), (y, "InOut")))
    bound = default.prepare(launch)
    bound.launch().wait(60)
    with pytest.raises(KernelFault):
        lab.launch("fault").wait(60)
    with pytest.raises(StaleBufferError) as caught:
        bound.launch()
    assert str(caught.value) == (
        f"a bound launch of kernel `saxpy` is of generation {before}, and cuda:0 (isolated) of generation "
        f"{before + 1}: it ended with the worker that a fault has ended\n"
        "  help: bind it again; the buffers hold what they held"
    )
    for use in (lambda: stream.set(y, bytes(4)), lambda: lab.saxpy(y, stream=stream)):
        with pytest.raises(StaleBufferError) as caught:
            use()
        facts = caught.value.facts
        assert (facts["generation"], facts["device_generation"]) == (before, before + 1)
    default.launch(launch).wait(60)
    default.prepare(launch).launch().wait(60)
    assert (y.to_host() == 3 * lab.x.to_host()).all()
    stream.wait(60)


def test_a_fault_that_nobody_saw_is_raised_by_the_next_wait_once(lab: Lab) -> None:
    for wait in (lambda stream: lab.gpu.wait(60), lambda stream: stream.wait(60)):
        stream = lab.gpu.current_stream()
        lab.launch("fault")
        with pytest.raises(KernelFault) as caught:
            wait(stream)
        assert caught.value.__notes__ == ["This is from kernel `fault`, started earlier, which nobody had waited for."]
        wait(lab.gpu.current_stream())
    with pytest.raises(KernelFault), lab.gpu.stream():
        lab.launch("fault")
    lab.gpu.wait(60)


def test_all_who_wait_and_await_are_told(lab: Lab, latch: Any) -> None:
    held = latch.hold(lab.gpu.current_stream())
    works = [held, lab.launch("fault"), *(lab.saxpy(lab.gpu.alloc_zeros(1000, f32)) for _ in range(20))]
    found: list[Any] = []

    def wait(work: Any) -> None:
        try:
            work.wait(60)
        except KernelFault as fault:
            found.append(fault)

    async def awaited(work: Any) -> None:
        await work

    async def main() -> list[Any]:
        waiting = asyncio.gather(*map(awaited, works), return_exceptions=True)
        await asyncio.sleep(0)
        latch.release()
        return list(await waiting)

    threads = [threading.Thread(target=wait, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    told = asyncio.run(asyncio.wait_for(main(), 60))
    for thread in threads:
        thread.join(60)
    assert told[0] is None
    assert all(isinstance(one, KernelFault) for one in told[1:])
    assert len(found) == len(works) - 1
    lab.check_data()


def test_threads_that_launch_while_others_fault_go_on(lab: Lab) -> None:
    problems: list[BaseException] = []
    counts = [0] * 4

    def work(k: int) -> None:
        y = lab.gpu.alloc_zeros(1000, f32)
        for turn in range(30):
            try:
                if k == 0 and turn % 10 == 5:
                    lab.launch("fault").wait(60)
                y.fill(1)
                lab.saxpy(y, 2.0).wait(60)
                if not (y.to_host() == 1 + 2 * lab.x.to_host()).all():
                    raise AssertionError(y.to_host())
                counts[k] += 1
            except KernelFault:
                continue
            except BaseException as problem:
                problems.append(problem)
                return

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not problems
    assert min(counts) >= 20
    lab.check_data()
    with suppress(KernelFault):  # of work that nobody had waited for
        lab.gpu.wait(60)
    lab.gpu.wait(60)


def test_the_worker_says_why_it_cannot_go_on(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    link = lab.gpu.link
    link.tell("no such request")
    assert link.replaced.wait(60)
    text = "\n".join(caplog.messages)
    assert "worker of cuda:0 (isolated): KeyError: 'no such request'" in text
    assert "the worker of cuda:0 (isolated) ended with exit code 1" in text
    lab.check_data()
