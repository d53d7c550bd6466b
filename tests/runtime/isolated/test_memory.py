"""The memory of an isolated device: chunks that the worker opens, and arrays of other libraries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kaio
from kaio import f32, u8
from kaio.errors import KaioError, OutOfMemoryError
from kaio.runtime.isolated.arena import chunk_nbytes
from kaio.runtime.isolated.link import Link
from tests.runtime.isolated.conftest import Lab, until

pytestmark = pytest.mark.gpu
MIB = 1 << 20


def new_chunk(lab: Lab) -> Any:
    """A buffer of bytes that is larger than any place there is, and has a chunk to itself."""
    arena = lab.gpu.lending.arena
    largest = max((size for chunk in arena for _, size in chunk.free), default=0)
    return lab.gpu.alloc_empty(chunk_nbytes(largest + 1), u8)


def test_small_buffers_need_no_new_chunk(lab: Lab) -> None:
    arena, kept = lab.gpu.lending.arena, lab.gpu.alloc_zeros(1000, f32)
    chunks = len(arena.chunks)
    small = [lab.gpu.alloc_zeros(1000, f32) for _ in range(50)]
    assert len(arena.chunks) == chunks
    assert len({buffer.pointer for buffer in (kept, *small)}) == 51
    large = new_chunk(lab)
    assert len(arena.chunks) == chunks + 1
    free = arena.free_nbytes
    del small
    large.close()
    lab.gpu.tidy()
    assert arena.free_nbytes >= free + large.nbytes


def test_memory_is_used_again_once_its_work_is_done(lab: Lab, latch: Any) -> None:
    x, y = lab.gpu.alloc_from(np.ones(1000, np.float32)), lab.gpu.alloc_zeros(1000, f32)
    pointer, stream = x.pointer, lab.gpu.stream()
    held = latch.hold(stream)
    lab.saxpy(y, 3.0, stream, x)
    del x
    others = [lab.gpu.alloc_from(np.full(1000, 9, np.float32)) for _ in range(20)]
    assert pointer not in [other.pointer for other in others]
    latch.release()
    held.wait(60)
    assert (y.to_host() == 3).all()
    lab.gpu.wait(60)
    lab.gpu.tidy()
    found = [lab.gpu.alloc_empty(1000, f32) for _ in range(40)]
    assert pointer in [other.pointer for other in found]


def test_what_is_not_used_is_given_back(lab: Lab) -> None:
    large = new_chunk(lab)
    chunk, before = large.memory.owner.chunk, lab.gpu.stats().reserved_nbytes
    large.close()
    lab.gpu.trim()
    assert chunk not in lab.gpu.lending.arena.chunks
    assert lab.gpu.stats().reserved_nbytes <= before - chunk.nbytes
    with pytest.raises(OutOfMemoryError):
        lab.gpu.alloc_empty(1 << 44, u8)
    lab.check_data()


def test_new_memory_is_known_to_the_next_worker(lab: Lab) -> None:
    big = lab.gpu.alloc_from(np.ones(16 * MIB, np.float32))
    for name in ("fault", "trap"):
        with pytest.raises(kaio.KernelFault):
            lab.launch(name).wait(60)
        twin = big.copy()
        assert twin.to_host().sum() == 16 * MIB


class Foreign:
    """Memory of another library that another process can open."""

    def __init__(self, gpu: Any, count: int) -> None:
        from kaio.runtime.cuda.driver import done, driver

        self._stream = gpu.owner.stream()  # of the library
        with gpu.owner.current():
            self.pointer = int(done(driver.cuMemAlloc(4 * count)))
        gpu.owner._upload(self.pointer, np.arange(count, dtype=np.float32))
        self.__cuda_array_interface__ = {
            "version": 3, "shape": (count,), "strides": None, "typestr": "<f4", "data": (self.pointer, False),
            "stream": self._stream.handle,
        }  # fmt: skip


def test_an_array_of_another_library_is_used_in_place(lab: Lab) -> None:
    array = Foreign(lab.gpu, 1000)
    shared = lab.gpu.import_array(array)
    twice = lab.gpu.import_array(array)
    lab.saxpy(shared, 1.0)
    assert (twice.to_host() == 2 * np.arange(1000)).all()
    with pytest.raises(kaio.KernelFault):
        lab.launch("fault").wait(60)
    lab.saxpy(shared, 1.0)
    assert (shared.to_host() == 3 * np.arange(1000)).all()
    lent = lab.gpu.lending._borrowed
    assert array.pointer in lent
    del shared
    lab.gpu.tidy()
    assert array.pointer in lent
    twice.close()
    assert array.pointer not in lent


def test_an_array_that_no_other_process_can_open_is_refused_with_the_way_out(lab: Lab) -> None:
    plain = kaio.Device(0).alloc_from(np.ones(10, np.float32))
    with pytest.raises(KaioError) as caught:
        lab.gpu.import_array(plain)
    assert caught.value.mistakes[0].what.startswith(
        "the memory of another library cannot be used in place on cuda:0 (isolated): no other process can open it ("
    )
    assert lab.gpu.alloc_from(plain).to_host().sum() == 10
    with pytest.raises(kaio.LaunchError, match=r"argument `y` .* is on cuda:0, but"):
        _double.over(10).launch(lab.x, plain)


@kaio.kernel
def _double(x: kaio.In[f32], y: kaio.InOut[f32]):
    i = kaio.grid(1)
    if i < y.size:
        y[i] = x[i]


def test_other_libraries_share_the_memory_and_come_after_the_work(lab: Lab, latch: Any) -> None:
    y = lab.gpu.alloc_zeros(1000, f32)
    lab.saxpy(y, 2.0)

    class Other:
        __cuda_array_interface__ = y.__cuda_array_interface__

    assert Other.__cuda_array_interface__["stream"] is None
    assert (kaio.Device(0).import_array(Other()).to_host() == 2 * np.arange(1000)).all()
    again = lab.gpu.import_array(Other())
    assert again.pointer == y.pointer


def test_a_stream_has_no_handle_here(lab: Lab) -> None:
    with pytest.raises(KaioError) as caught:
        _ = lab.gpu.current_stream().handle
    assert str(caught.value) == (
        "the streams of cuda:0 (isolated) are those of another process: no library of this one can use them\n"
        "  help: use `Device(0)` for what works with other libraries, or wait and share buffers"
    )


def test_streams_that_are_gone_make_room_for_others(lab: Lab) -> None:
    y = lab.gpu.alloc_zeros(1000, f32)
    slots = set()
    for _ in range(20):
        stream = lab.gpu.stream()
        slots.add(stream.slot)
        stream.set(y, bytes(4)).wait(60)
        del stream
        y.fill(0).wait(60)
        lab.gpu.tidy()
    link: Link = lab.gpu.link
    assert until(lambda: len(link.lines) < 10)
    assert len(link.streams) <= 2
