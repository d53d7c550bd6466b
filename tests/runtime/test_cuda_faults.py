"""What the checks of a kernel find on a GPU: told by the work that failed, and the device goes on.

The fake driver knows these kernels by their names, and does what they say.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import textwrap
from typing import Any

import pytest

import kaio
from kaio import InOut, KernelFault, i32
from kaio.program import Build
from kaio.runtime.stream import Launch
from tests.runtime.conftest import CudaLatch

pytestmark = pytest.mark.gpu


@kaio.kernel
def checked(x: InOut[i32], threads: i32):
    i = kaio.grid(1)
    if i < threads:
        x[i] += 1


LINE = checked.__wrapped__.__code__.co_firstlineno + 4


@pytest.fixture
def gpu() -> Any:
    """The first GPU."""
    return kaio.Device("cuda:0")


@pytest.fixture
def x(gpu: Any) -> Any:
    """Has 300 elements."""
    return gpu.alloc_zeros(300, i32)


def launch(x: Any, threads: int, **options: Any) -> Any:
    """Launch as many threads in blocks of 256."""
    return checked.over(threads).block(256).options(check="bounds", **options).launch(x, threads)


def test_the_first_thread_that_failed_is_told_with_its_line(gpu: Any, x: Any) -> None:
    with pytest.raises(KernelFault) as caught:
        launch(x, 1000).wait(60)
    mistake = caught.value.mistakes[0]
    assert mistake.what == (
        "index 300 is out of range for axis 0 of `x` (size 300) in kernel `checked`\n"
        "  thread (44, 0, 0) of block (1, 0, 0)"
    )
    assert mistake.help == "guard the access, for example with `if i < x.size:`"
    assert (mistake.place.line, mistake.place.text.strip()) == (LINE, "x[i] += 1")
    facts = caught.value.facts
    assert (facts["thread"], facts["block"], facts["array"], facts["index"]) == ((44, 0, 0), (1, 0, 0), "x", 300)


def test_the_words_are_those_of_the_cpu_device(gpu: Any, x: Any) -> None:
    y = kaio.Device("cpu").alloc_zeros(300, i32)
    texts = []
    for buffer in (x, y):
        with pytest.raises(KernelFault) as caught:
            launch(buffer, 301).wait(60)
        texts.append(str(caught.value))
    assert texts[0] == texts[1]


def test_the_other_threads_do_their_work_and_the_device_goes_on(gpu: Any, x: Any) -> None:
    failed, fine = launch(x, 301), gpu.alloc_zeros(8, i32)
    with pytest.raises(KernelFault):
        failed.wait(60)
    launch(fine, 8).wait(60)
    gpu.wait(60)
    assert fine.to_host().tolist() == [1] * 8
    x.fill(0)
    launch(x, 300).wait(60)
    assert x.to_host().tolist() == [1] * 300


def test_a_launch_without_checks_runs_beside_them(gpu: Any, x: Any) -> None:
    checked.over(300).options(check="off").launch(x, 300)
    launch(x, 300)
    checked.over(300).launch(x, 300)
    assert x.to_host().tolist() == [3] * 300


def test_a_device_checks_if_it_was_asked_for_so() -> None:
    device = kaio.Device("cuda:0", check="bounds")
    assert device is kaio.Device(0, check=True)
    assert device is not kaio.Device(0)
    assert (device.check, repr(device), str(device)) == (
        "bounds", "Device('cuda:0', check='bounds')", "cuda:0 (check bounds)",
    )  # fmt: skip
    x = device.alloc_zeros(3, i32)
    with pytest.raises(KernelFault, match="index 3 is out of range"):
        checked.over(4).launch(x, 4).wait(60)


def test_each_of_many_launches_has_its_own_fault(gpu: Any) -> None:
    streams = [gpu.stream() for _ in range(3)]
    buffers = [gpu.alloc_zeros(size, i32) for size in range(100, 130)]
    launchers = [checked.over(120).options(check="bounds").on(streams[k % 3]) for k in range(len(buffers))]
    work = [launcher.launch(x, 120) for launcher, x in zip(launchers, buffers, strict=True)]
    found = []
    for done in work:
        try:
            done.wait(60)
            found.append(None)
        except KernelFault as fault:
            found.append(fault.facts["size"])
    assert found == [*range(100, 120), *[None] * 10]


def test_a_bound_launch_is_checked_each_time(gpu: Any, x: Any) -> None:
    bound = checked.over(301).options(check="bounds").bind(x, 300)
    bound.launch()
    bound.launch().wait(60)
    assert x.to_host().tolist() == [2] * 300
    bound.update(threads=301)
    with pytest.raises(KernelFault, match="index 300 "):
        bound.launch().wait(60)
    bound.update(x=gpu.alloc_zeros(301, i32))
    bound.launch().wait(60)


def test_work_that_takes_the_results_of_a_failed_launch_fails_too(gpu: Any, x: Any) -> None:
    y = gpu.alloc_zeros(300, i32)
    failed = launch(x, 301)
    y.copy_from(x)
    with pytest.raises(KernelFault, match="index 300 "):
        y.to_host()
    with pytest.raises(KernelFault, match="index 300 "):
        failed.wait(60)
    y.fill(2)
    assert y.to_host().tolist() == [2] * 300


def test_a_failure_that_nobody_waits_for_is_raised_by_the_next_wait(gpu: Any, x: Any) -> None:
    with gpu.stream() as other:
        launch(gpu.alloc_zeros(300, i32), 301)
        with pytest.raises(KernelFault) as caught:
            other.wait(60)
    assert caught.value.__notes__ == ["This is from kernel `checked`, started earlier, which nobody had waited for."]
    launch(x, 302)
    with pytest.raises(KernelFault, match="index 300 "):
        gpu.wait(60)
    gpu.wait(60)


def test_an_await_raises_it(gpu: Any, x: Any) -> None:
    async def main() -> None:
        with pytest.raises(KernelFault, match="index 300 "):
            await kaio.gather(launch(x, 300), launch(x, 301))

    asyncio.run(main())


def test_its_time_is_known_if_it_does_not_fail(gpu: Any, x: Any) -> None:
    fine, failed = launch(x, 300, timed=True), launch(x, 301, timed=True)
    fine.wait(60)
    assert fine.elapsed_ms >= 0
    with pytest.raises(KernelFault):
        failed.wait(60)
    with pytest.raises(KernelFault):
        _ = failed.elapsed_ms


def test_records_are_used_again(gpu: Any, x: Any) -> None:
    for _ in range(500):
        launch(x, 300)
    gpu.wait(60)
    made = len(gpu.records.free)
    for _ in range(2 * made):
        with pytest.raises(KernelFault):
            launch(x, 301).wait(60)
        x.fill(0)
    assert len(gpu.records.free) == made
    assert not gpu.watched


def test_a_long_row_of_launches_that_take_each_others_results_is_waited_for_at_once(gpu: Any, x: Any) -> None:
    latch = CudaLatch(gpu)
    latch.hold(gpu.current_stream(), (x, "Out"))
    for _ in range(350):
        launch(x, 300)
    last = launch(x, 301)
    latch.release()
    with pytest.raises(KernelFault):
        last.wait(60)
    gpu.wait(60)
    assert not gpu.watched


def test_a_launch_that_the_driver_refuses_keeps_no_record(gpu: Any, x: Any) -> None:
    launch(x, 300).wait(60)
    before = len(gpu.records.free)
    loaded = gpu.load(checked.variants.build(gpu.target, Build(), {}, {}, 32).compiled.program)
    block = loaded.program.block.pack(x.pointer, x.size, 300)
    with pytest.raises(kaio.LaunchError):
        gpu.current_stream().launch(Launch(loaded, (1, 1, 1), (2048, 1, 1), block, ((x, "InOut"),)))
    assert len(gpu.records.free) == before


def test_where_the_launch_has_to_end_with_the_thread_the_fault_is_told_all_the_same() -> None:
    code = """
    import kaio
    from kaio import InOut, i32

    @kaio.kernel
    def trapping(x: InOut[i32], threads: i32):
        i = kaio.grid(1)
        if i < threads:
            x[i] += 1
        kaio.named_bar_sync(1, 64)

    gpu = kaio.Device("cuda:0")
    x = gpu.alloc_zeros(40, i32)
    try:
        trapping.grid(1).block(64).options(check="bounds").launch(x, 41).wait(60)
    except kaio.KernelFault as fault:
        print(fault.mistakes[0].what.splitlines()[0])
        print(fault.__notes__[0][:46])
    try:
        gpu.wait()
    except kaio.ContextPoisonedError:
        print("poisoned")
    """
    found = run(code)
    assert found.splitlines() == [
        "index 40 is out of range for axis 0 of `x` (size 40) in kernel `trapping`",
        "cuda:0 cannot be used any more in this process",
        "poisoned",
    ]


def run(code: str) -> str:
    """What a process of its own prints."""
    with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
        file.write(textwrap.dedent(code))
        file.flush()
        found = subprocess.run([sys.executable, file.name], capture_output=True, text=True, timeout=60)
    assert found.returncode == 0, found.stderr
    return found.stdout
