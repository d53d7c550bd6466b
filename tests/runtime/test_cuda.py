"""What only a GPU does: loading, the driver's errors, contexts, faults.

Kernels are PTX by hand, which the driver compiles.
"""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kaio
from kaio import f32
from kaio.errors import DeviceNotFoundError, InternalError, KaioError, LaunchError, UnsupportedFeatureError
from kaio.program import Argument, CudaProgram
from kaio.runtime.stream import Launch, Together
from tests.live import settled

pytestmark = pytest.mark.gpu

SAXPY = """
.version 7.0
.target sm_80
.address_size 64
.visible .entry saxpy(.param .u64 x_ptr, .param .u32 x_size, .param .u64 y_ptr, .param .u32 y_size, .param .f32 a)
{
    .reg .pred %p1;
    .reg .b32 %r<6>;
    .reg .b64 %d<6>;
    .reg .f32 %f<5>;
    ld.param.u64 %d1, [x_ptr];
    ld.param.u64 %d2, [y_ptr];
    ld.param.u32 %r1, [y_size];
    ld.param.f32 %f1, [a];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.s32 %r5, %r2, %r3, %r4;
    setp.ge.s32 %p1, %r5, %r1;
    @%p1 bra done;
    mul.wide.s32 %d3, %r5, 4;
    add.s64 %d4, %d1, %d3;
    add.s64 %d5, %d2, %d3;
    ld.global.f32 %f2, [%d4];
    ld.global.f32 %f3, [%d5];
    fma.rn.f32 %f4, %f1, %f2, %f3;
    st.global.f32 [%d5], %f4;
done:
    ret;
}
"""
FAULT = """
.version 7.0
.target sm_80
.address_size 64
.visible .entry fault()
{
    .reg .b64 %d1;
    mov.u64 %d1, 64;
    st.global.u32 [%d1], 1;
    ret;
}
"""


def program(name: str, ptx: str) -> CudaProgram:
    """PTX as a program: the driver takes it where it takes a cubin."""
    arguments = (Argument("x", f32, 1), Argument("y", f32, 1, "InOut"), Argument("a", f32)) if name == "saxpy" else ()  # type: ignore[arg-type]
    return CudaProgram(name, "sm_80", arguments, 32, 0, ptx=ptx, cubin=ptx.encode() + b"\0")


@pytest.fixture
def gpu() -> Any:
    """The first GPU."""
    return kaio.Device("cuda:0")


@pytest.fixture
def x(gpu: Any) -> Any:
    """What saxpy reads."""
    return gpu.alloc_from(np.arange(1000, dtype=np.float32))


@pytest.fixture
def y(gpu: Any) -> Any:
    """What saxpy adds to."""
    return gpu.alloc_zeros(1000, f32)


_SAXPY = program("saxpy", SAXPY)


def launch(gpu: Any, x: Any, y: Any, a: float = 2.0, **options: Any) -> Any:
    """Launch saxpy on the current stream."""
    block = _SAXPY.block.pack(x.pointer, x.size, y.pointer, y.size, a)
    uses = ((x, "In"), (y, "InOut"))
    return gpu.current_stream().launch(Launch(gpu.load(_SAXPY), (4, 1, 1), (256, 1, 1), block, uses, **options))


def test_a_launch_computes(gpu: Any, x: Any, y: Any) -> None:
    launch(gpu, x, y).wait(60)
    launch(gpu, x, y, 0.5).wait(60)
    np.testing.assert_array_equal(y.to_host(), 2.5 * x.to_host())


def test_an_empty_grid_launches_nothing(gpu: Any, x: Any, y: Any) -> None:
    done = gpu.current_stream().launch(Launch(gpu.load(_SAXPY), (0, 1, 1), (256, 1, 1), b"", ((y, "Out"),)))
    assert done.is_done


def test_a_prepared_launch_repeats(gpu: Any, x: Any, y: Any) -> None:
    block = _SAXPY.block.pack(x.pointer, 1000, y.pointer, 1000, 1.0)
    prepared = gpu.current_stream().prepare(
        Launch(gpu.load(_SAXPY), (4, 1, 1), (256, 1, 1), block, ((x, "In"), (y, "InOut")))
    )
    for _ in range(100):
        prepared.launch()
    np.testing.assert_array_equal(y.to_host(), 100 * x.to_host())
    y.close()
    with pytest.raises(kaio.BufferClosedError):
        prepared.launch()


def test_launches_on_several_streams_are_ordered_by_what_they_use(gpu: Any, x: Any, y: Any) -> None:
    streams = [gpu.stream() for _ in range(4)]
    for round_ in range(100):
        with_stream = streams[round_ % 4]
        gpu.enter_stream(with_stream)
        launch(gpu, x, y, 1.0)
        gpu.leave_stream(with_stream)
    np.testing.assert_array_equal(y.to_host(), 100 * x.to_host())


def test_a_timed_launch_knows_its_time(gpu: Any, x: Any, y: Any) -> None:
    done = launch(gpu, x, y, timed=True)
    done.wait(60)
    assert 0 <= done.elapsed_ms < 10_000


def test_a_thread_without_a_context_launches(gpu: Any, x: Any, y: Any) -> None:
    launched: list[Any] = []
    block = _SAXPY.block.pack(x.pointer, 1000, y.pointer, 1000, 1.0)
    loaded = gpu.load(_SAXPY)
    prepared = gpu.current_stream().prepare(Launch(loaded, (4, 1, 1), (256, 1, 1), block, ((x, "In"), (y, "InOut"))))
    for work in (prepared.launch, lambda: launch(gpu, x, y), lambda: y.fill(3), lambda: gpu.alloc_zeros(3, f32)):
        thread = threading.Thread(target=lambda work=work: launched.append(work()))  # type: ignore[misc]
        thread.start()
        thread.join()
    assert len(launched) == 4
    assert (y.to_host() == 3).all()


def test_a_dropped_argument_lives_until_the_kernel_is_done(gpu: Any, y: Any, latch: Any) -> None:
    stream = gpu.stream()
    latch.hold(stream)
    gpu.enter_stream(stream)
    launch(gpu, gpu.alloc_from(np.ones(1000, np.float32)), y, 1.0)
    gpu.leave_stream(stream)
    for _ in range(4):
        gpu.alloc_from(np.full(1000, 9, np.float32))
    latch.release()
    assert (y.to_host() == 1).all()


@pytest.fixture
def device(gpu: Any) -> Any:
    """For `latch`."""
    return gpu


def test_what_the_driver_refuses_is_a_launch_error_that_names_the_kernel(gpu: Any, x: Any, y: Any) -> None:
    with pytest.raises(LaunchError, match="the CUDA driver refuses kernel `saxpy`: CUDA_ERROR_INVALID_VALUE"):
        gpu.current_stream().launch(Launch(gpu.load(_SAXPY), (1, 1, 1), (2048, 1, 1), bytes(32), ((y, "Out"),)))
    launch(gpu, x, y).wait(60)


def test_too_much_shared_memory_is_refused(gpu: Any) -> None:
    with pytest.raises(LaunchError, match="the CUDA driver refuses kernel `saxpy`"):
        gpu.current_stream().launch(
            Launch(gpu.load(_SAXPY), (1, 1, 1), (1, 1, 1), bytes(32), (), shared_nbytes=1 << 30)
        )


def test_a_program_without_its_kernel_is_refused(gpu: Any) -> None:
    with pytest.raises(KaioError, match="the CUDA driver refuses kernel `other` for sm_80: CUDA_ERROR_NOT_FOUND"):
        gpu.load(program("other", SAXPY))


def test_a_program_is_loaded_once(gpu: Any) -> None:
    loaded = gpu.load(_SAXPY)
    assert gpu.load(_SAXPY) is loaded
    assert loaded.max_threads == 1024


def test_limits_are_the_devices(gpu: Any) -> None:
    limits = gpu.limits
    assert (limits.max_threads_per_block, limits.warp_size, limits.max_grid[1:]) == (1024, 32, (65535, 65535))
    assert limits.shared_nbytes_optin >= limits.shared_nbytes_per_block == 49152
    assert gpu.target == "sm_{}{}".format(*gpu.capability)
    assert 0 < gpu.memory.free <= gpu.memory.total


def test_the_same_arguments_give_the_same_device(gpu: Any) -> None:
    assert kaio.Device(0) is kaio.Device("cuda") is gpu is kaio.Device() is kaio.devices()[0]
    assert kaio.Device("gpu") is kaio.Device("CUDA:0") is gpu
    assert (repr(gpu), str(gpu), gpu.check) == ("Device('cuda:0')", "cuda:0", "off")


def test_a_device_that_is_not_there_is_named() -> None:
    with pytest.raises(DeviceNotFoundError, match=r"there is no device cuda:99: this machine has \d+ GPU"):
        kaio.Device(99)


def test_what_a_gpu_does_not_have_is_refused_with_the_way_out() -> None:
    with pytest.raises(UnsupportedFeatureError) as caught:
        kaio.Device(0, check="full")
    assert str(caught.value) == (
        '`check="full"` is for the CPU device\n  help: `Device("cpu", check="full")` runs the same kernels'
    )
    with pytest.raises(UnsupportedFeatureError, match="a GPU cannot be like another"):
        kaio.Device(0, like="sm_80")


def test_the_cuda_array_interface_shares_memory(gpu: Any, x: Any, latch: Any) -> None:
    class Other:
        def __init__(self, buffer: Any) -> None:
            self.__cuda_array_interface__ = buffer.__cuda_array_interface__

    x.to_host()
    assert x.__cuda_array_interface__ == {
        "version": 3, "shape": (1000,), "strides": None, "typestr": "<f4", "data": (x.pointer, False), "stream": None,
    }  # fmt: skip
    twin = gpu.import_array(Other(x[::2]))
    assert (twin.pointer, twin.strides, twin.shape) == (x.pointer, (8,), (500,))
    stream = gpu.stream()
    latch.hold(stream, (x, "Out"))
    assert x.__cuda_array_interface__["stream"] == stream.handle


def test_dlpack_goes_round(gpu: Any, x: Any) -> None:
    class Other:
        def __dlpack_device__(self) -> tuple[int, int]:
            return x.__dlpack_device__()  # type: ignore[no-any-return]

        def __dlpack__(self, **options: Any) -> Any:
            assert options["stream"] == gpu.current_stream().handle
            return x.__dlpack__(**options)

    twin = gpu.import_array(Other())
    assert twin.byte_range == x.byte_range
    twin.fill(4).wait()
    assert (x.to_host() == 4).all()


def test_work_on_the_stream_of_another_library_is_ordered_both_ways(gpu: Any, x: Any, y: Any, latch: Any) -> None:
    other = gpu.stream()  # stands for a stream of another library

    class Array:
        def __init__(self, buffer: Any) -> None:
            self.__cuda_array_interface__ = {**buffer.__cuda_array_interface__, "stream": other.handle}

    latch.hold(other)
    shared = gpu.import_array(Array(y))
    done = launch(gpu, x, shared, 1.0)
    assert not done.is_done
    behind = other._tail()
    latch.release()
    behind.wait(60)
    assert done.is_done
    np.testing.assert_array_equal(shared.to_host(), x.to_host())


def _outcome(body: str, **environment: str) -> str:
    """What a process of its own prints: a fault ends the use of the GPU in the process."""
    code = f"""
import asyncio, logging, numpy as np, kaio
from kaio.program import CudaProgram
from kaio.runtime.stream import Launch
logging.basicConfig(level=logging.WARNING, format="%(message)s")
gpu = kaio.Device(0)
program = CudaProgram("fault", "sm_80", (), 32, 0, ptx="", cubin={FAULT.encode() + bytes(1)!r})
y, untouched = gpu.alloc_zeros(4, kaio.f32), gpu.alloc_zeros(4, kaio.f32)
gpu.wait()

def fault():
    return gpu.current_stream().launch(Launch(gpu.load(program), (1, 1, 1), (1, 1, 1), b"", ((y, "Out"),)))

def tell(call):
    try:
        print("no error", call())
    except kaio.KaioError as problem:
        print(type(problem).__name__, "|", problem.mistakes[0].what, "|", type(problem.__cause__).__name__)

async def awaited(done):
    await done

{textwrap.dedent(body)}
"""
    found = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, **environment},
    )
    assert found.returncode == 0, found.stderr
    return found.stdout + found.stderr


WHAT = "kernel `fault` failed on cuda:0: CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal memory access was encountered"
POISONED = f"ContextPoisonedError | cuda:0 cannot be used any more in this process: {WHAT} | KernelFault\n"
FAILED = f"KernelFault | {WHAT} | DriverError\n"


def test_a_fault_is_raised_where_the_work_is_waited_for_and_poisons_the_device() -> None:
    out = _outcome("""
        done = fault()
        tell(done.wait)
        tell(lambda: asyncio.run(awaited(done)))
        tell(y.to_host)
        for call in (fault, untouched.to_host, lambda: gpu.alloc_zeros(3, kaio.f32), gpu.wait, lambda: gpu.stream(),
                     lambda: untouched.fill(1), lambda: gpu.memory):
            tell(call)
        y.close()
        print(kaio.Device("cpu").alloc_from([1]).to_host())
    """)
    assert out == FAILED * 3 + POISONED * 7 + "[1]\n"


@pytest.mark.parametrize("wait", ["gpu.wait", "gpu.current_stream().wait"])
def test_a_fault_that_nobody_saw_is_raised_by_the_next_wait(wait: str) -> None:
    assert _outcome(f"fault()\ntell({wait})\ntell({wait})") == FAILED + POISONED
    note = "This is from kernel `fault`, started earlier, which nobody had waited for."
    assert _outcome(
        f"fault()\ntry:\n    {wait}()\nexcept kaio.KernelFault as problem:\n    print(*problem.__notes__)"
    ) == (note + "\n")


def test_a_fault_names_the_kernels_that_may_have_caused_it() -> None:
    out = _outcome(f"""
        other = CudaProgram("saxpy", "sm_80", (), 32, 0, ptx="", cubin={SAXPY.encode() + bytes(1)!r})
        gpu.current_stream().launch(Launch(gpu.load(other), (1, 1, 1), (1, 1, 1), bytes(32), ()))
        tell(fault().wait)
    """)
    assert out == FAILED.replace("kernel `fault` failed", "one of the kernels `saxpy`, `fault` failed")


def test_a_fault_names_a_kernel_that_was_followed_by_many_launches_of_another() -> None:
    out = _outcome(f"""
        from tests.runtime.conftest import CudaLatch

        other = CudaProgram("saxpy", "sm_80", (), 32, 0, ptx="", cubin={SAXPY.encode() + bytes(1)!r})
        stream, latch = gpu.current_stream(), CudaLatch(gpu)
        latch.hold(stream)
        fault()
        for _ in range(40):
            last = stream.launch(Launch(gpu.load(other), (1, 1, 1), (1, 1, 1), bytes(32), ()))
        latch.release()
        try:
            last.wait()
        except kaio.KernelFault as problem:
            print(problem.facts["kernels"], problem.facts["kernel"])
            print(problem.mistakes[0].help.partition(";")[0])
    """)
    assert out == "('fault', 'saxpy') None\nwith KAIO_SYNC=1 in the environment the one is named\n"


def test_a_kernel_on_a_stream_that_is_gone_may_have_failed_too() -> None:
    out = _outcome(f"""
        from tests.runtime.conftest import CudaLatch

        other = CudaProgram("saxpy", "sm_80", (), 32, 0, ptx="", cubin={SAXPY.encode() + bytes(1)!r})
        gpu.load(program), gpu.load(other)
        latch = CudaLatch(gpu)
        gone = gpu.stream()
        latch.hold(gone)
        gone.launch(Launch(gpu.load(program), (1, 1, 1), (1, 1, 1), b"", ()))
        del gone
        last = gpu.current_stream().launch(Launch(gpu.load(other), (1, 1, 1), (1, 1, 1), bytes(32), ()))
        latch.release()
        try:
            for _ in range(100_000):
                last.wait()
                gpu.alloc_zeros(3, kaio.f32)
            print("no fault")
        except kaio.KernelFault as problem:
            print(sorted(problem.facts["kernels"]))
        except kaio.ContextPoisonedError as problem:
            print(sorted(problem.fault.facts["kernels"]))
    """)
    assert out.splitlines()[0] in ("['fault', 'saxpy']", "['fault']")  # whether the other one is known to be done


def test_work_of_a_library_is_among_those_that_may_have_failed() -> None:
    out = _outcome("""
        from kaio.runtime.cuda.driver import driver

        def enqueue(stream):
            driver.cuLaunchKernel(gpu.load(program).function, 1, 1, 1, 1, 1, 1, 0, stream.handle, 0, 0)

        tell(kaio.run(enqueue, output=y, library="other").wait)
    """)
    assert out == FAILED.replace("kernel `fault` failed", "work of other failed")


def test_with_kaio_sync_the_launch_that_faulted_raises_it_and_is_the_only_one_named() -> None:
    out = _outcome(
        f"""
        other = CudaProgram("saxpy", "sm_80", (), 32, 0, ptx="", cubin={SAXPY.encode() + bytes(1)!r})
        done = gpu.current_stream().launch(Launch(gpu.load(other), (1, 1, 1), (1, 1, 1), bytes(32), ()))
        gpu.stream().copy(untouched, y)
        tell(fault)
        print(done.is_done)
        """,
        KAIO_SYNC="1",
    )
    assert out == FAILED + "True\n"


def test_work_that_is_known_to_be_done_is_not_blamed() -> None:
    out = _outcome(f"""
        other = CudaProgram("saxpy", "sm_80", (), 32, 0, ptx="", cubin={SAXPY.encode() + bytes(1)!r})
        gpu.current_stream().launch(Launch(gpu.load(other), (1, 1, 1), (1, 1, 1), bytes(32), ())).wait()
        tell(fault().wait)
    """)
    assert out == FAILED


def test_leaving_the_block_of_a_stream_raises_the_fault() -> None:
    assert _outcome("""
        def block():
            with gpu.stream():
                fault()
        tell(block)
    """) == FAILED  # fmt: skip


def test_pending_work_fails_with_the_fault_and_nothing_hangs() -> None:
    out = _outcome("""
        import ctypes
        from kaio.runtime.cuda.driver import done, driver

        address = int(done(driver.cuMemHostAlloc(64, 0)))
        word = ctypes.c_uint32.from_address(address)
        word.value = 0
        stream = gpu.current_stream()
        gpu.load(program)
        with gpu._lock:
            works = [stream.submit(driver.cuStreamWaitValue32, (stream.raw, address, driver.cuuint32_t(1), 0), ())]
        works += [fault(), stream.copy(untouched, y), gpu.stream().copy(untouched, y)]

        async def main():
            waiting = asyncio.gather(*map(awaited, works[1:]), return_exceptions=True)
            await asyncio.sleep(0)
            word.value = 1
            for problem in await waiting:
                print(type(problem).__name__)

        asyncio.run(main())
    """)
    assert out == "KernelFault\n" * 3


def test_a_fault_that_nobody_ever_saw_is_logged_at_exit() -> None:
    out = _outcome("fault()")
    assert out == f"work on cuda:0 failed and nobody asked: {WHAT}\n" + HELP


HELP = '  help: `Device("cpu")` runs the same kernels and says where; this process cannot use the GPU any more\n'


def test_internal_errors_keep_the_drivers_code(gpu: Any) -> None:
    from kaio.runtime.cuda.driver import driver

    with pytest.raises(InternalError, match=r"the CUDA driver refuses: CUDA_ERROR_INVALID_VALUE \(1\)") as caught:
        gpu.ask((driver.CUresult.CUDA_ERROR_INVALID_VALUE,))
    assert caught.value.__cause__.code == 1  # type: ignore[union-attr]


class _Log:
    """The calls that the fake driver was given."""

    def __init__(self) -> None:
        library = ctypes.CDLL("libcuda.so.1")
        self._text = (ctypes.c_char * (1 << 22)).in_dll(library, "kaio_log")
        self.clear = library.kaio_clear_log

    def of(self, work: Callable[[], object]) -> list[str]:
        """The calls that `work` made, without those of finalisers."""
        gc.collect()
        kaio.Device(0).tidy()  # type: ignore[attr-defined]
        self.clear()
        gc.disable()
        try:
            work()
            return self._text.value.decode().split()
        finally:
            gc.enable()


def test_numpy_says_itself_that_it_takes_no_memory_of_a_gpu(gpu: Any) -> None:
    before = settled(gpu)
    for _ in range(20):
        buffer = gpu.alloc_zeros(10, f32)
        with pytest.raises((BufferError, RuntimeError), match=r"[Uu]nsupported device"):
            np.from_dlpack(buffer)
        buffer.close()
    assert gpu.stats()[:2] == before[:2]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_is_told_that_cuda_does_not_survive(gpu: Any, x: Any, y: Any) -> None:
    done = launch(gpu, x, y)
    gpu.wait()
    child = os.fork()
    if not child:
        told = 0
        for use in (lambda: launch(gpu, x, y), lambda: gpu.alloc_zeros(4, f32), x.to_host, gpu.wait, gpu.stream):
            try:
                use()
            except KaioError as error:
                told += "CUDA does not survive a fork, and the parent had started it" in str(error)
        os._exit(told)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
    done.wait()
    launch(gpu, x, y).wait()


@pytest.fixture
def calls() -> _Log:
    """What asks the fake driver for the calls it was given."""
    try:
        return _Log()
    except ValueError:
        pytest.skip("the driver is not the fake one, which keeps a log")


def test_launches_whose_completions_nobody_keeps_record_no_events(gpu: Any, x: Any, y: Any, calls: _Log) -> None:
    launch(gpu, x, y)

    def repeat() -> None:
        for _ in range(5):
            launch(gpu, x, y)

    assert calls.of(repeat) == ["launch"] * 5


def test_blocks_that_run_together_are_launched_so(gpu: Any, x: Any, y: Any, calls: _Log) -> None:
    block = _SAXPY.block.pack(x.pointer, 1000, y.pointer, 1000, 1.0)
    arguments = (gpu.load(_SAXPY), (4, 1, 1), (256, 1, 1), block, ((x, "In"), (y, "InOut")), 0, False)
    both = Together(cooperative=True, cluster=(2, 1, 1))
    stream = gpu.current_stream()
    assert calls.of(lambda: stream.launch(Launch(*arguments, both))) == ["cooperative:1", "cluster:2,1,1", "launch"]
    prepared = stream.prepare(Launch(*arguments, Together(cooperative=True, cluster=(1, 1, 1))))
    assert calls.of(prepared.launch) == calls.of(prepared.launch) == ["cooperative:1", "launch"]


def test_a_multiprocessor_runs_some_blocks_at_once(gpu: Any) -> None:
    loaded = gpu.load(_SAXPY)
    assert loaded.resident_blocks(gpu, 1024, 0) >= 1
    assert loaded.resident_blocks(gpu, 64, 0) > loaded.resident_blocks(gpu, 1024, 0)


def test_the_fullest_block_keeps_most_threads_of_a_multiprocessor_busy(gpu: Any) -> None:
    loaded = gpu.load(_SAXPY)
    for most in (1024, 96):
        threads = loaded.fullest_block(gpu, 0, most)
        assert threads in range(32, most + 1, 32)
        others = [size * loaded.resident_blocks(gpu, size, 0) for size in range(32, most + 1, 32)]
        assert threads * loaded.resident_blocks(gpu, threads, 0) == max(others)


def test_a_completion_that_is_kept_gets_its_event_right_behind_its_work(gpu: Any, x: Any, y: Any, calls: _Log) -> None:
    launch(gpu, x, y)
    kept: list[Any] = []

    def keep() -> None:
        kept.append(launch(gpu, x, y))
        launch(gpu, x, y)
        launch(gpu, x, y)

    assert calls.of(keep) == ["launch", "record", "launch", "launch"]


def test_another_stream_waits_once_for_what_it_needs(gpu: Any, x: Any, y: Any, calls: _Log) -> None:
    launch(gpu, x, y)
    with gpu.stream():
        assert calls.of(lambda: launch(gpu, x, y)) == ["record", "wait", "launch"]
        assert calls.of(lambda: launch(gpu, x, y)) == ["launch"]


def test_a_stream_outlives_the_memory_that_is_freed_on_it(gpu: Any, calls: _Log, latch: Any) -> None:
    class Node:
        """Ties things into a cycle, in which they are finalised in any order."""

    def leave() -> None:
        node: Any = Node()
        node.me, node.stream = node, gpu.stream()
        latch.hold(node.stream)
        gpu.enter_stream(node.stream)
        node.x, node.y = gpu.alloc_zeros(100, f32), gpu.alloc_zeros(100, f32)
        launch(gpu, node.x, node.y)
        gpu.leave_stream(node.stream)
        del node
        gc.collect()
        gpu.tidy()
        gpu.tidy()

    ends = [call for call in calls.of(leave) if call in ("free", "destroy")]
    assert ends[-3:] == ["free", "free", "destroy"]
