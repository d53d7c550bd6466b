"""Large copies between a device and ordinary memory of the host, which several threads make together."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import kaio
from kaio.errors import InternalError, KaioError
from kaio.runtime import crew
from tests.live import settled

SIZES = [(1 << 20) - 1, 1 << 20, (2 << 20) + 5, (4 << 20) - 1, 4 << 20, (7 << 20) + 3, 16 << 20]


@pytest.mark.parametrize("nbytes", SIZES)
def test_every_byte_arrives(device: Any, nbytes: int) -> None:
    host = np.random.default_rng(nbytes).integers(0, 256, nbytes, np.uint8)
    x = device.alloc_from(host)
    np.testing.assert_array_equal(x.to_host(), host)
    out = np.zeros_like(host)
    x.copy_from(host[::-1])
    assert x.to_host(out) is out
    np.testing.assert_array_equal(out, host[::-1])
    np.testing.assert_array_equal(x[5:-3].to_host(), host[::-1][5:-3])


def test_an_array_may_be_overwritten_once_its_copy_has_returned(device: Any) -> None:
    host, buffers = np.empty(3 << 20, np.uint8), []
    for value in range(4):
        host[:] = value
        buffers.append(device.alloc_from(host))
    assert [int(buffer.to_host().max()) for buffer in buffers] == [0, 1, 2, 3]
    assert [int(buffer.to_host().min()) for buffer in buffers] == [0, 1, 2, 3]


def test_threads_copy_at_the_same_time(device: Any) -> None:
    wrong: list[int] = []

    def go(seed: int) -> None:
        host = np.random.default_rng(seed).integers(0, 256, 5 << 20, np.uint8)
        for _ in range(3):
            x = device.alloc_from(host)
            if not (x.to_host() == host).all():
                wrong.append(seed)

    threads = [threading.Thread(target=go, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_what_goes_wrong_in_one_thread_is_raised_to_who_copies() -> None:
    taken: list[int] = []

    def work(job: crew.Job) -> None:
        while (number := job.take()) is not None:
            taken.append(number)
            if number == 3:
                raise KaioError("it went wrong")

    with pytest.raises(KaioError, match="it went wrong"):
        crew.run_together(work, 1000)
    assert len(taken) < 1000
    taken.clear()
    crew.run_together(lambda job: taken.extend(iter(job.take, None)), 1000)
    assert sorted(taken) == list(range(1000))


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync", "cuEventRecord", "cuEventSynchronize"])
def test_a_call_that_the_driver_refuses_is_raised_and_copies_go_on_later(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kaio.runtime.cuda.driver import driver

    gpu = kaio.Device("cuda:0")
    host = np.random.default_rng(1).integers(0, 256, 6 << 20, np.uint8)
    x = gpu.alloc_from(host)
    answer = (driver.CUresult.CUDA_ERROR_INVALID_VALUE,)
    with monkeypatch.context() as patch:
        patch.setattr(driver, name, lambda *_: answer)
        with pytest.raises(InternalError, match="CUDA_ERROR_INVALID_VALUE"):
            x.copy_from(host) if name != "cuMemcpyDtoHAsync" else x.to_host()
    x.copy_from(host)
    np.testing.assert_array_equal(x.to_host(), host)


@pytest.mark.gpu
def test_chunks_are_counted_and_trimmed() -> None:
    gpu = kaio.Device("cuda:0")
    gpu.alloc_from(np.zeros(8 << 20, np.uint8)).to_host()
    assert gpu.stats().pinned_nbytes >= 4 << 20
    settled(gpu)
    gpu.trim()
    assert gpu.stats().pinned_nbytes == 0
