"""What only the CPU device does: its options, kernels that fail without ending it, work that failed."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kaio
from kaio import f32, i32
from kaio.errors import DeviceNotFoundError, InternalError, KaioError, KernelFault, UnsupportedFeatureError
from kaio.runtime.cpu_stream import Servers
from kaio.runtime.limits import DESCRIPTIONS
from kaio.runtime.memory import Memory
from kaio.runtime.opening import open_device
from kaio.runtime.stream import Launch, RunOptions

Run = Callable[..., Any]


# Opening.


def test_the_same_arguments_give_the_same_device() -> None:
    assert kaio.Device("cpu") is kaio.Device("cpu", check="bounds") is kaio.Device("cpu", like="sm_90", check=True)
    assert kaio.Device("cpu", check=False) is not kaio.Device("cpu")
    assert repr(kaio.Device("cpu", like="sm_86", check="off")) == "Device('cpu', like='sm_86', check='off')"
    assert str(kaio.Device("cpu", like="sm_86", check="off")) == "cpu (like sm_86, check off)"


@pytest.mark.parametrize("target", DESCRIPTIONS)
def test_the_limits_are_those_of_the_gpu_it_is_like(target: str) -> None:
    device = kaio.Device("cpu", like=target)
    assert "sm_{}{}".format(*device.capability) == target == device.target
    assert device.limits is DESCRIPTIONS[target].limits
    assert (device.limits.max_threads_per_block, device.limits.shared_nbytes_per_block) == (1024, 49152)
    assert device.limits.max_grid == (2**31 - 1, 65535, 65535)


def test_shared_memory_to_opt_in_to_is_as_in_cudas_table() -> None:
    found = {target: description.limits.shared_nbytes_optin for target, description in DESCRIPTIONS.items()}
    assert found["sm_80"] == 166912
    assert found["sm_86"] == found["sm_89"] == 101376
    assert found["sm_90"] == found["sm_100"] == 232448


NO_SUCH_DEVICE = 'write `Device(0)`, `Device("cuda:0")` or `Device("cpu")`'


@pytest.mark.parametrize(
    ("options", "error", "what", "way_out"),
    [
        ({"which": "tpu"}, DeviceNotFoundError, "there is no device 'tpu'", NO_SUCH_DEVICE),
        ({"which": "cpu:1"}, DeviceNotFoundError, "there is no device 'cpu:1'", NO_SUCH_DEVICE),
        ({"which": True}, DeviceNotFoundError, "there is no device True", NO_SUCH_DEVICE),
        ({"which": -1}, DeviceNotFoundError, "there is no device -1", NO_SUCH_DEVICE),
        (
            {"which": "cpu", "like": "sm_9"},
            DeviceNotFoundError,
            "there is no description of a device like 'sm_9'",
            'did you mean like="sm_90"?',
        ),
        (
            {"which": "cpu", "like": "NVIDIA A100-SXM4-80GB"},
            DeviceNotFoundError,
            "there is no description of a device like 'NVIDIA A100-SXM4-80GB'",
            'that board is like="sm_80"',
        ),
        (
            {"which": "cpu", "like": "MI300"},
            DeviceNotFoundError,
            "there is no description of a device like 'MI300'",
            "use one of sm_75, sm_80, sm_86, sm_87, sm_89, sm_90, sm_100, sm_103, sm_120",
        ),
        ({"which": "cpu", "check": "all"}, KaioError, '`check` is "off", "bounds" or "full" (got \'all\')', None),
        (
            {"which": "cpu", "route": "ptx", "check": "full"},
            UnsupportedFeatureError,
            '`check="full"` is not supported with `route="ptx"`: PTX has no arrays',
            'leave `route="ptx"` out: the kernel\'s own operations are checked',
        ),
        (
            {"which": 0, "route": "ptx"},
            UnsupportedFeatureError,
            "a GPU runs PTX anyway",
            'leave `route="ptx"` out, or write `Device("cpu", route="ptx")`',
        ),
        ({"which": "cpu", "route": "x"}, KaioError, '`route` is "ir" or "ptx" (got \'x\')', None),
        (
            {"which": "cpu", "completion": "host"},
            KaioError,
            '`completion` is "adaptive", "host_fn", "polled" or "sync" (got \'host\')',
            'did you mean completion="host_fn"?',
        ),
        (
            {"which": "cpu", "streams": "per-thread"},
            KaioError,
            '`streams` is "one", "per_thread" or "pool" (got \'per-thread\')',
            'did you mean streams="per_thread"?',
        ),
        (
            {"which": 0, "ordering": False},
            KaioError,
            '`ordering` is "managed" or "manual" (got False)',
            None,
        ),
        (
            {"which": "cpu", "isolated": True},
            UnsupportedFeatureError,
            "`isolated=True` is for a GPU",
            "leave it out: the CPU device finds faults before they do harm",
        ),
    ],
)
def test_what_cannot_be_opened_is_refused_with_the_way_out(
    options: Any, error: type[KaioError], what: str, way_out: str | None
) -> None:
    with pytest.raises(error) as caught:
        kaio.Device(**options)
    (mistake,) = caught.value.mistakes
    assert (type(caught.value), mistake.what, mistake.help) == (error, what, way_out)


@pytest.mark.parametrize(
    ("board", "target"),
    [("A100", "sm_80"), ("A10", "sm_86"), ("rtx 3090", "sm_86"), ("RTX A6000", "sm_86"), ("GeForce RTX 4090", "sm_89"),
     ("L40S", "sm_89"), ("h200", "sm_90"), ("B200", "sm_100"), ("RTX 5090", "sm_120")],
)  # fmt: skip
def test_the_name_of_a_board_is_answered_with_its_target(board: str, target: str) -> None:
    with pytest.raises(DeviceNotFoundError) as caught:
        kaio.Device("cpu", like=board)
    assert caught.value.mistakes[0].help == f'that board is like="{target}"'


def test_a_wrong_option_of_a_device_is_named() -> None:
    with pytest.raises(TypeError) as caught:
        kaio.Device("cpu", chek="off")  # type: ignore[arg-type]
    assert str(caught.value) == "Device has no argument `chek`: write `check=…`"
    with pytest.raises(TypeError) as caught:
        kaio.Device("cpu", stream="pool")  # type: ignore[arg-type]
    assert str(caught.value) == "Device has no argument `stream`: write `streams=…`"
    with pytest.raises(TypeError) as caught:
        kaio.Device("cpu", backend=1)  # type: ignore[arg-type]
    assert str(caught.value) == "Device has no argument `backend`: write `like=…` or `check=…`"


@pytest.mark.parametrize("which", ["CPU", "cpu:0", " cpu"])
def test_the_cpu_device_has_several_spellings(which: str) -> None:
    assert kaio.Device(which) is kaio.Device("cpu")


def test_the_cpu_device_says_whose_limits_it_has() -> None:
    name = kaio.Device("cpu", like="sm_80").name
    assert name.startswith("CPU (")
    assert name.endswith("), limits of sm_80 (A100)")


def test_without_a_driver_the_default_device_is_the_cpu_and_that_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("kaio.runtime.opening._has_driver", lambda: False)
    monkeypatch.setattr("kaio.runtime.opening._opened", {})
    with caplog.at_level(logging.INFO, "kaio"):
        device = open_device(None, like=None, check=None, route="ir", isolated=False)
    assert device.kind == "cpu"
    assert caplog.messages == ["there is no NVIDIA driver: Device() is the CPU device"]
    with pytest.raises(DeviceNotFoundError) as caught:
        open_device(0, like=None, check=None, route="ir", isolated=False)
    assert str(caught.value) == (
        'there is no device cuda:0: this machine has no NVIDIA driver\n  help: `Device("cpu")` runs the same kernels'
    )


def test_a_driver_that_does_not_start_is_no_reason_to_run_on_the_cpu(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cuda = pytest.importorskip("kaio.runtime.cuda.driver")
    code = cuda.driver.CUresult.CUDA_ERROR_SYSTEM_DRIVER_MISMATCH
    monkeypatch.setattr("kaio.runtime.opening._has_driver", lambda: True)
    monkeypatch.setattr("kaio.runtime.opening._opened", {})
    for name, answer in (("cuInit", (code,)), ("cuGetErrorName", (0, b"MISMATCH")), ("cuGetErrorString", (0, b"old"))):
        monkeypatch.setattr(cuda.driver, name, lambda *_, answer=answer: answer)
    with pytest.raises(DeviceNotFoundError) as caught:
        open_device(None, like=None, check=None, route="ir", isolated=False)
    assert str(caught.value) == (
        "the NVIDIA driver does not start: MISMATCH (803): old\n"
        '  help: see what `nvidia-smi` says; `Device("cpu")` runs the same kernels'
    )
    assert [device.kind for device in kaio.devices()] == ["cpu"]
    assert caplog.messages[0].startswith("the GPUs of this machine cannot be used: the NVIDIA driver does not start")


def test_factories_are_named_by_what_only_they_make() -> None:
    with pytest.raises(TypeError, match=r"made by a device: `device.alloc_from\(array\)`"):
        kaio.GpuBuffer()
    with pytest.raises(TypeError, match=r"made by a device: `device.stream\(\)`"):
        kaio.Stream()


# Buffers that are no arrays.


def test_a_buffer_is_no_array_and_has_no_truth(cpu: Any) -> None:
    x = cpu.alloc_from([1, 2])
    for use in (lambda: np.asarray(x), lambda: np.ones(2) + x):
        with pytest.raises(TypeError):
            use()
    with pytest.raises(TypeError, match="ask `is_empty`"):
        bool(x)
    with pytest.raises(TypeError, match="not iterated over"):
        list(x)
    with pytest.raises(TypeError, match="has no length"):
        len(cpu.alloc_from(1))
    with pytest.raises(AttributeError, match=r"`shape` cannot be set; write `x.reshape"):
        x.shape = (1, 2)
    assert (len(x), repr(x)) == (2, "GpuBuffer(i64[2] on cpu)")


def test_memory_is_aligned_for_vectors(cpu: Any) -> None:
    assert all(cpu.alloc_empty(size, f32).pointer % 64 == 0 for size in range(1, 40))


# Failures.


def test_a_failure_is_raised_by_each_way_to_ask(cpu: Any, fail: Run) -> None:
    x = cpu.alloc_zeros(4, i32)
    done = fail((x, "Out"))

    async def awaited() -> None:
        await done

    twin = cpu.alloc_zeros(4, i32)
    asks = (done.wait, done.result, lambda: asyncio.run(awaited()), x.to_host, x.check_usable, lambda: x[1:].to_host(),
            lambda: x.copy_from(np.ones(4, np.int32)), x.copy, lambda: twin.copy_from(x), x.__dlpack__,
            lambda: kaio.gather(done).wait())  # fmt: skip
    for ask in asks:
        with pytest.raises(KernelFault, match="it went wrong"):
            ask()
    assert done.is_done
    cpu.wait()  # it was seen


def test_the_device_works_on_after_a_failure(cpu: Any, fail: Run, run: Run) -> None:
    x = cpu.alloc_zeros(4, i32)
    with pytest.raises(KernelFault):
        fail((x, "Out")).wait()
    x.fill(3)
    assert x.to_host().tolist() == [3, 3, 3, 3]
    run(lambda: None, (x, "InOut")).wait()


@pytest.mark.parametrize("on_another_stream", [False, True])
def test_filling_a_buffer_whose_writer_is_still_to_fail_makes_it_usable(
    cpu: Any, fail: Run, latch: Any, on_another_stream: bool
) -> None:
    x, stream = cpu.alloc_zeros(4, i32), cpu.stream()
    latch.hold(stream)
    failed = fail((x, "Out"), stream=stream)
    with cpu.stream() if on_another_stream else nullcontext():
        filled = x.fill(3)
        latch.release()
        filled.wait(60)
    assert x.to_host().tolist() == [3, 3, 3, 3]
    assert x[::-1].copy().to_host().tolist() == [3, 3, 3, 3]
    with pytest.raises(KernelFault):
        failed.wait(60)


def test_filling_a_failed_buffer_through_a_reversed_view_makes_it_usable(cpu: Any, fail: Run) -> None:
    x = cpu.alloc_zeros(4, i32)
    with pytest.raises(KernelFault):
        fail((x, "Out")).wait()
    x[::-1].fill(3)
    assert x.to_host().tolist() == [3, 3, 3, 3]


def test_a_failed_buffer_says_once_how_to_go_on(cpu: Any, fail: Run) -> None:
    x = cpu.alloc_zeros(4, i32)
    fail((x, "Out"))
    for _ in range(2):
        with pytest.raises(KernelFault) as caught:
            x.to_host()
    assert caught.value.__notes__ == [
        "what it left in the buffer is undefined: fill the whole of it with `x.fill(value)`, or make a new one"
    ]


def test_filling_a_part_does_not_make_a_failed_buffer_usable(cpu: Any, fail: Run) -> None:
    x = cpu.alloc_zeros(4, i32)
    with pytest.raises(KernelFault):
        fail((x, "Out")).wait()
    with pytest.raises(KernelFault):
        x[:2].fill(0)


def test_a_reader_that_failed_leaves_the_buffer_usable(cpu: Any, fail: Run) -> None:
    x = cpu.alloc_from([1, 2])
    with pytest.raises(KernelFault):
        fail((x, "In")).wait()
    assert x.to_host().tolist() == [1, 2]


def test_work_on_what_a_failed_kernel_should_have_written_fails_with_it(cpu: Any, fail: Run, latch: Any) -> None:
    x, y = cpu.alloc_zeros(4, i32), cpu.alloc_zeros(4, i32)
    one, two = cpu.stream(), cpu.stream()
    latch.hold(one)
    failed = fail((x, "Out"), stream=one)
    behind, elsewhere = one.copy(y, x), two.copy(cpu.alloc_zeros(4, i32), x)
    unrelated = one.set(cpu.alloc_zeros(4, i32), b"\1\0\0\0")
    latch.release()
    for done in (failed, behind, elsewhere):
        with pytest.raises(KernelFault, match="it went wrong"):
            done.wait(60)
    unrelated.wait(60)
    with pytest.raises(KernelFault):
        y.to_host()


@pytest.fixture
def device(cpu: Any) -> Any:
    """For `latch`."""
    return cpu


def test_a_failure_that_nobody_saw_is_raised_once_by_the_next_wait(cpu: Any, fail: Run) -> None:
    stream = cpu.stream()
    for wait in (cpu.wait, stream.wait):
        fail(stream=stream)
        with pytest.raises(KernelFault, match="it went wrong"):
            wait()
        wait()


def test_a_stream_raises_only_its_own_failures(cpu: Any, fail: Run) -> None:
    one, two = cpu.stream(), cpu.stream()
    fail(stream=one)
    two.wait()
    with pytest.raises(KernelFault):
        one.wait()


def test_several_failures_are_told_together(cpu: Any, fail: Run) -> None:
    stream = cpu.stream()
    fail(stream=stream, what="first")
    fail(stream=stream, what="second")
    with pytest.raises(KernelFault, match="first") as caught:
        stream.wait()
    assert caught.value.__notes__ == [
        "This is from kernel `fake`, started earlier, which nobody had waited for.",
        "Another failure that nobody had seen: second",
    ]
    cpu.wait()


def test_leaving_a_block_raises_what_failed_inside(cpu: Any, fail: Run) -> None:
    def block() -> None:
        with cpu.stream() as stream:
            fail(stream=stream)

    with pytest.raises(KernelFault, match="it went wrong"):
        block()


def test_an_error_of_the_block_itself_comes_first(cpu: Any, fail: Run) -> None:
    def block() -> None:
        with cpu.stream() as stream:
            fail(stream=stream)
            1 / 0

    with pytest.raises(ZeroDivisionError) as caught:
        block()
    assert caught.value.__notes__ == ["Work on the stream failed too: it went wrong"]
    cpu.wait()


def test_a_failure_seen_inside_the_block_is_not_told_twice(cpu: Any, fail: Run) -> None:
    with cpu.stream() as stream, pytest.raises(KernelFault):
        fail(stream=stream).wait()


def test_gather_raises_the_first_failure_in_the_order_given(cpu: Any, fail: Run, run: Run) -> None:
    works = [run(lambda: None), fail(what="first"), fail(what="second")]
    with pytest.raises(KernelFault, match="first"):
        kaio.gather(*works).wait(60)
    assert all(done.is_done for done in kaio.as_completed(works))
    with pytest.raises(KernelFault, match="second"):
        cpu.wait()


def test_what_is_no_fault_is_an_internal_error(cpu: Any, run: Run) -> None:
    with pytest.raises(InternalError, match=r"work on the CPU device failed: ZeroDivisionError") as caught:
        run(lambda: 1 / 0).wait()
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, GeneratorExit])
def test_a_callback_may_raise_anything_and_work_goes_on(
    cpu: Any, run: Run, latch: Any, kind: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    def leave(_: Any) -> None:
        raise kind

    ran = threading.Event()
    done = latch.hold(cpu.current_stream())
    done.add_done_callback(leave)
    done.add_done_callback(lambda _: ran.set())
    latch.release()
    assert ran.wait(60)
    run(lambda: None).wait(60)
    assert caplog.messages == ["a callback of <Completion of work on cpu, done> failed"]


def test_a_callback_may_wait_for_work_on_its_own_stream(cpu: Any, run: Run, latch: Any) -> None:
    stream, waited = cpu.stream(), threading.Event()

    def more(_: Any) -> None:
        run(lambda: None, stream=stream).wait()
        stream.wait()
        waited.set()

    latch.hold(stream).add_done_callback(more)
    latch.release()
    assert waited.wait(60)


def test_a_callback_that_fails_is_logged(cpu: Any, run: Run, caplog: pytest.LogCaptureFixture) -> None:
    done = run(lambda: None)
    done.wait()
    done.add_done_callback(lambda _: 1 / 0)
    assert caplog.messages == ["a callback of <Completion of kernel `fake` on cpu, done> failed"]


def test_a_failure_that_nobody_ever_saw_is_logged_at_exit() -> None:
    code = """
import logging, kaio
from kaio.errors import KernelFault
logging.basicConfig(format="%(message)s")
def boom():
    raise KernelFault("it went wrong")
cpu = kaio.Device("cpu")
cpu.current_stream().submit(boom, ())
"""
    found = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=120)
    assert (found.returncode, found.stderr) == (0, "work on cpu failed and nobody asked: it went wrong\n")


ENDLESS = """
import signal
import kaio
from kaio import InOut, i32
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts background jobs with it ignored
@kaio.kernel
def spins(stop: InOut[i32]):
    while kaio.load(stop, 0, volatile=True) == 0:
        pass
cpu = kaio.Device("cpu")
done = spins.over(1).launch(cpu.alloc_zeros(1, i32))
"""


@pytest.fixture
def endless(tmp_path: Path) -> Iterator[Callable[[str], subprocess.Popen[str]]]:
    """Start a program with an endless kernel, and these lines after it."""
    started: list[subprocess.Popen[str]] = []

    def start(lines: str) -> subprocess.Popen[str]:
        file = tmp_path / "endless.py"
        file.write_text(ENDLESS + lines)
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        started.append(
            subprocess.Popen(
                [sys.executable, str(file)],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
            )
        )  # fmt: skip
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT for one process")
def test_an_endless_kernel_is_named_at_exit_and_left_with_ctrl_c(endless: Any) -> None:
    program = endless("")
    assert program.stderr.readline() == "waiting for kernel `spins` on cpu; press Ctrl-C to leave\n"
    program.send_signal(signal.SIGINT)
    _, rest = program.communicate(timeout=60)
    assert (program.returncode, rest) == (0, "")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT for one process")
def test_a_program_that_ctrl_c_ended_does_not_wait_for_an_endless_kernel(endless: Any) -> None:
    program = endless("print('started', flush=True)\ndone.wait()\n")
    assert program.stdout.readline() == "started\n"
    program.send_signal(signal.SIGINT)
    _, errors = program.communicate(timeout=60)
    assert errors.splitlines()[-1] == "KeyboardInterrupt"
    assert "waiting for" not in errors


# Launches.


def test_a_timed_launch_knows_its_time(run: Run) -> None:
    done = run(lambda: None, timed=True)
    done.wait()
    assert 0 <= done.elapsed_ms < 60_000


def test_a_failure_that_nobody_waited_for_is_told_from_what_is_waited_for(cpu: Any, fail: Run, run: Run) -> None:
    fail()
    with pytest.raises(KernelFault, match="it went wrong") as caught:
        cpu.wait()
    assert caught.value.__notes__ == ["This is from kernel `fake`, started earlier, which nobody had waited for."]
    done = run(lambda: None)
    done.wait()
    assert repr(done) == "<Completion of kernel `fake` on cpu, done>"
    cpu.wait()


def test_the_time_is_not_known_before_the_work_is_done(cpu: Any, latch: Any) -> None:
    stream = cpu.stream()
    latch.hold(stream)
    done = stream.submit(lambda: None, (), timed=True)
    with pytest.raises(KaioError, match="the time is known once the work is done"):
        done.elapsed_ms


def test_a_prepared_launch_repeats_and_notices_a_closed_buffer(cpu: Any) -> None:
    x, seen = cpu.alloc_zeros(1, i32), []

    class Kernel:
        name, max_threads, short, is_full, rests = "count", None, None, False, False

        class kernel:
            breaks = False

            @staticmethod
            def run(grid: Any, block: Any, arguments: bytes, workers: Any, *rest: Any) -> None:
                seen.append((grid, block, arguments, *rest))

    given = (Kernel, (2, 1, 1), (32, 1, 1), b"abc", ((x, "InOut"),))
    prepared = cpu.current_stream().prepare(Launch(*given, shared_nbytes=16, options=RunOptions(fuel=7)))
    for _ in range(3):
        prepared.launch()
    cpu.wait()
    assert seen == [((2, 1, 1), (32, 1, 1), b"abc", 16, (1, 1, 1), RunOptions(fuel=7), [])] * 3
    x.close()
    with pytest.raises(kaio.BufferClosedError):
        prepared.launch()


def test_an_empty_grid_launches_nothing(cpu: Any) -> None:
    assert cpu.current_stream().launch(Launch(None, (1, 0, 1), (32, 1, 1), b"", ())).is_done


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_has_streams_of_its_own() -> None:
    code = """
import os, sys, kaio
cpu = kaio.Device("cpu")
x = cpu.alloc_zeros(4, kaio.i32)
x.fill(1).wait()
child = os.fork()
if not child:
    x.fill(2)
    os._exit(0 if x.to_host().tolist() == [2, 2, 2, 2] else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), x.to_host().tolist())
"""
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )  # warnings are not errors here: Python warns of fork beside threads
    assert (found.returncode, found.stdout) == (0, "0 [1, 1, 1, 1]\n"), found.stderr


def test_many_streams_share_few_threads_and_are_dropped(cpu: Any, run: Run) -> None:
    shared = cpu.alloc_zeros(4, f32)
    streams, threads = [], set()
    for _ in range(100):
        stream = cpu.stream()
        streams.append(weakref.ref(stream))
        run(lambda: threads.add(threading.current_thread()), (shared, "In"), stream=stream).wait()
        del stream
    gc.collect()
    assert len(threads) < 50
    assert sum(stream() is not None for stream in streams) <= 2


def test_each_stream_has_a_thread_while_it_has_work(cpu: Any, run: Run) -> None:
    meet = threading.Barrier(40)
    work = [run(lambda: meet.wait(60), stream=cpu.stream()) for _ in range(40)]
    kaio.gather(*work).wait()


def _program(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_all_work_that_was_pending_at_a_fork_fails_in_the_child() -> None:
    found = _program("""
import os, threading, kaio
cpu = kaio.Device("cpu")
x = cpu.alloc_zeros(4, kaio.i32)
gate = threading.Event()
work = [cpu.current_stream().submit(gate.wait, ((x, "Out"),)) for _ in range(3)]
child = os.fork()
if not child:
    failed = 0
    for done in work:
        try:
            done.wait()
        except kaio.KaioError as error:
            failed += "the process was forked while this work was pending" in str(error)
    os._exit(failed)
gate.set()
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
kaio.gather(*work).wait()
""")
    assert (found.returncode, found.stdout) == (0, "3\n"), found.stderr


def test_work_is_done_at_exit_when_no_thread_can_be_started() -> None:
    found = _program("""
import atexit, kaio
cpu = kaio.Device("cpu")
x = cpu.alloc_zeros(4, kaio.i32)

@atexit.register
def late():
    for value in (1, 2):
        x.fill(value)
    with cpu.stream():
        x.fill(3)
    print(x.to_host().tolist())
""")
    assert (found.returncode, found.stdout, found.stderr) == (0, "[3, 3, 3, 3]\n", "")


def test_a_callback_runs_before_the_program_ends() -> None:
    found = _program("""
import threading, kaio
cpu = kaio.Device("cpu")
hold = threading.Event()
cpu.current_stream().submit(hold.wait, ()).add_done_callback(lambda done: print("called"))
threading.Timer(0, hold.set).start()
""")
    assert (found.returncode, found.stdout, found.stderr) == (0, "called\n", "")


def test_the_caller_does_the_work_if_there_are_no_threads(cpu: Any, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    monkeypatch.setattr(cpu, "servers", Servers())
    threads: list[threading.Thread] = []
    stream = cpu.stream()
    for _ in range(2):
        assert run(lambda: threads.append(threading.current_thread()), stream=stream).is_done
    assert threads == [threading.current_thread()] * 2


def test_memory_that_is_closed_just_as_work_is_queued_lives_until_it_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    device, going_on = kaio.Device("cpu"), threading.Event()
    x = device.alloc_zeros(4, kaio.f32)
    owner = weakref.ref(x.memory.owner)
    held = kaio.run(lambda stream: going_on.wait(60), stream=device.current_stream())
    record = Memory.record

    def record_and_close(memory: Memory, *use: Any) -> None:  # as another thread may, which asks for no lock
        record(memory, *use)
        memory.close()

    monkeypatch.setattr(Memory, "record", record_and_close)
    done = x.fill(1)
    assert x.is_closed
    assert owner() is not None
    going_on.set()
    kaio.gather(held, done).wait(60)
    assert x.memory.owner is None
