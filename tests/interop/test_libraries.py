"""torch and CuPy on a GPU: their arrays in place, ordered with their streams both ways."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest

import kaio
from kaio import InOut, f32

pytestmark = pytest.mark.gpu

N = 1 << 20


@kaio.kernel
def increment(x: InOut[f32]) -> None:
    i = kaio.grid(1)
    if i < x.size:
        x[i] = x[i] + 1


@pytest.mark.parametrize("side", [False, True])
def test_b38_a_launch_is_ordered_with_the_stream_of_torch(side: bool) -> None:
    torch = pytest.importorskip("torch")
    stream = torch.cuda.Stream() if side else torch.cuda.current_stream()
    with torch.cuda.stream(stream):
        x = torch.zeros(N, device="cuda")
        torch.cuda._sleep(200_000_000)  # what is queued first takes long
        x += 1
        increment.over(N).launch(x)
        y = x.clone()
    stream.synchronize()
    assert (int(y.min()), int(y.max())) == (2, 2)


@pytest.mark.parametrize("side", [False, True])
def test_b38_a_launch_is_ordered_with_the_stream_of_cupy(side: bool) -> None:
    cupy = pytest.importorskip("cupy")
    stream = cupy.cuda.Stream(non_blocking=True) if side else cupy.cuda.get_current_stream()
    with stream if side else nullcontext():
        x = cupy.zeros(N, cupy.float32)
        x += 1
        increment.over(N).launch(x)
        y = x.copy()
    stream.synchronize()
    assert (int(y.min()), int(y.max())) == (2, 2)


@contextmanager
def _current_device_is_kept(torch: Any) -> Iterator[None]:
    before = torch.cuda.current_device()
    yield
    assert torch.cuda.current_device() == before


def test_torch_and_kaio_share_memory_both_ways() -> None:
    torch = pytest.importorskip("torch")
    device = kaio.Device(0)
    with _current_device_is_kept(torch):
        tensor = torch.arange(12, dtype=torch.float32, device="cuda").reshape(3, 4)
        buffer = device.import_array(tensor.T)
        assert (buffer.shape, buffer.strides, buffer.is_contiguous) == ((4, 3), (4, 16), False)
        assert buffer.to_host().tolist() == tensor.T.tolist()
        own = device.alloc_zeros(5, f32)
        own.fill(3)
        shared = torch.from_dlpack(own)
        assert shared.tolist() == [3] * 5
        shared += 1
        torch.cuda.synchronize()
        assert own.to_host().tolist() == [4] * 5
        own.close()
        assert shared.tolist() == [4] * 5


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_torch_and_kaio_share_narrow_floats(name: str) -> None:
    torch = pytest.importorskip("torch")
    device, dtype = kaio.Device(0), getattr(torch, name)
    tensor = torch.arange(6, device="cuda").to(dtype)
    try:
        buffer = device.import_array(tensor)
    except (BufferError, RuntimeError) as problem:
        pytest.skip(f"this torch does not export {name}: {problem}")
    assert buffer.dtype.numpy.name == name
    assert buffer.to_host().astype(float).tolist() == [0, 1, 2, 3, 4, 5]
    buffer.fill(1.5).wait()
    torch.cuda.synchronize()
    assert tensor.float().tolist() == [1.5] * 6
    if "float8" not in name:
        own = device.alloc_zeros(3, buffer.dtype)
        assert torch.from_dlpack(own).dtype == dtype


def test_a_tensor_dropped_after_the_launch_lives_until_it_is_done() -> None:
    torch = pytest.importorskip("torch")
    for _ in range(20):
        done = increment.over(N).launch(torch.zeros(N, device="cuda"))
        other = torch.full((N,), 9.0, device="cuda")
    done.wait(60)
    assert (other == 9).all()
