"""Memory shared with other libraries: NumPy, anything with DLPack, torch and CuPy by their streams."""

from __future__ import annotations

import ctypes
import gc
import sys
import weakref
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import kaio
from kaio import f32
from kaio.dtypes import DTYPES
from kaio.errors import BufferClosedError, KaioError
from kaio.interop import adopt, read_cuda_array_interface, read_cupy, read_torch
from kaio.interop.dlpack import read_dlpack
from kaio.runtime.dlpack import ManagedTensor, ManagedTensorVersioned, export_buffer, python
from kaio.runtime.foreign import handle_of
from tests.live import settled


@pytest.fixture
def cpu() -> kaio.Device:
    """The CPU device."""
    return kaio.Device("cpu")


class Exporter:
    """An array of another library: only what DLPack asks for."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)


class FourBits(Exporter):
    """One of elements of 4 bits, which NumPy does not have."""

    def __dlpack__(self, **options: Any) -> Any:
        capsule = self.array.__dlpack__()
        address = python.pointer(capsule, python.name(capsule))
        ctypes.cast(address, ctypes.POINTER(ManagedTensor)).contents.tensor.bits = 4
        return capsule


class OldExporter(Exporter):
    """One from before versions."""

    def __dlpack__(self) -> Any:
        return self.array.__dlpack__()


# Out.


@pytest.mark.parametrize("dtype", [dtype for dtype in DTYPES if dtype.numpy.isbuiltin == 1])
@pytest.mark.parametrize("shape", [(), (5,), (2, 3), (0, 3)])
def test_numpy_sees_a_buffer_of_the_cpu_device_in_place(cpu: Any, dtype: Any, shape: Any) -> None:
    host = (np.arange(np.prod(shape, dtype=int)) % 2).astype(dtype.numpy).reshape(shape)
    buffer = cpu.alloc_from(host)
    array = np.from_dlpack(buffer)
    assert (array.dtype, array.shape) == (dtype.numpy, shape)
    np.testing.assert_array_equal(array, host)
    if host.size:
        buffer.fill(True).wait()
        assert (array == 1).all()


def test_numpy_sees_a_view_with_its_strides(cpu: Any) -> None:
    buffer = cpu.alloc_from(np.arange(12.0).reshape(3, 4))
    np.testing.assert_array_equal(np.from_dlpack(buffer[::2, ::-1]), np.arange(12.0).reshape(3, 4)[::2, ::-1])


def test_memory_outlives_its_buffer_while_it_is_exported(cpu: Any) -> None:
    before = settled(cpu)
    buffer = cpu.alloc_from(np.arange(1000.0))
    array = np.from_dlpack(buffer)
    buffer.close()
    with pytest.raises(BufferClosedError):
        buffer.to_host()
    assert cpu.stats().live_buffers == before.live_buffers + 1
    assert array.sum() == 499500
    del array
    assert cpu.stats().live_buffers == before.live_buffers


@pytest.mark.parametrize("options", [{}, {"max_version": (1, 0)}])
def test_a_capsule_that_nobody_takes_gives_the_memory_back(cpu: Any, options: Any) -> None:
    before = settled(cpu)
    capsule = cpu.alloc_zeros(10, f32).__dlpack__(**options)
    assert cpu.stats().live_buffers == before.live_buffers + 1
    del capsule
    assert cpu.stats()[:2] == before[:2]


class Elsewhere:
    """A buffer that says it is on a GPU."""

    def __init__(self, buffer: Any, versioned: bool) -> None:
        self._buffer, self._versioned = buffer, versioned

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0

    def __dlpack__(self, **options: Any) -> Any:
        return export_buffer(self._buffer, self.__dlpack_device__(), self._versioned)


@pytest.mark.parametrize("versioned", [False, True])
def test_a_taker_that_refuses_the_capsule_raises_its_own_error(cpu: Any, versioned: bool) -> None:
    before = settled(cpu)
    buffer = cpu.alloc_zeros(10, f32)
    for _ in range(20):
        with pytest.raises((BufferError, RuntimeError), match=r"[Uu]nsupported device"):
            np.from_dlpack(Elsewhere(buffer, versioned))
    buffer.close()
    assert cpu.stats()[:2] == before[:2]


def test_read_only_memory_stays_read_only(cpu: Any) -> None:
    host = np.arange(4.0)
    host.flags.writeable = False
    buffer = cpu.import_array(host)
    assert buffer.is_read_only
    assert not np.from_dlpack(buffer).flags.writeable
    with pytest.raises(BufferError, match=r"DLPack 1\.0 and later only"):
        buffer.__dlpack__()
    for write in (lambda: buffer.fill(0), lambda: buffer.copy_from(np.ones(4)), lambda: buffer[1:].fill(0)):
        with pytest.raises(KaioError, match="is over read-only memory"):
            write()
    assert host.tolist() == [0, 1, 2, 3]
    buffer.copy().fill(7)


def test_another_device_is_refused_and_a_copy_is_one(cpu: Any) -> None:
    buffer = cpu.alloc_from([1, 2])
    with pytest.raises(BufferError, match="not handed to another device"):
        buffer.__dlpack__(dl_device=(2, 0))
    array = np.from_dlpack(buffer, copy=True)
    buffer.fill(9).wait()
    assert array.tolist() == [1, 2]


def test_a_buffer_of_the_cpu_device_has_no_cuda_array_interface(cpu: Any) -> None:
    assert not hasattr(cpu.alloc_from([1]), "__cuda_array_interface__")


# In.


@pytest.mark.parametrize("wrap", [np.asarray, Exporter, OldExporter])
def test_import_shares_memory_both_ways(cpu: Any, wrap: Any) -> None:
    host = np.arange(12.0).reshape(3, 4)
    buffer = cpu.import_array(wrap(host))
    assert (buffer.shape, buffer.strides, buffer.dtype) == ((3, 4), (32, 8), kaio.f64)
    host[0, 0] = 5
    assert buffer.to_host()[0, 0] == 5
    buffer.fill(3).wait()
    assert (host == 3).all()


@pytest.mark.parametrize("wrap", [np.asarray, Exporter])
def test_import_keeps_strides_and_writes_only_its_elements(cpu: Any, wrap: Any) -> None:
    host = np.arange(24.0).reshape(4, 6)
    buffer = cpu.import_array(wrap(host[::2, ::-2]))
    assert not buffer.is_contiguous
    np.testing.assert_array_equal(buffer.to_host(), host[::2, ::-2])
    buffer.fill(-1).wait()
    assert (host == -1).sum() == 6


def test_import_keeps_the_owner_alive_as_long_as_it_is_used(cpu: Any) -> None:
    class Array(np.ndarray[Any, Any]):
        pass

    host = np.arange(3.0).view(Array)
    gone = weakref.ref(host)
    buffer = cpu.import_array(Exporter(host))
    del host
    gc.collect()
    assert gone() is not None
    view = buffer[1:]
    del buffer
    assert view.to_host().tolist() == [1, 2]
    del view
    gc.collect()
    assert gone() is None


def test_import_of_empty_arrays_and_of_no_dimensions(cpu: Any) -> None:
    for host in (np.zeros((0, 4)), np.zeros(()), np.zeros(0)[::2]):
        for wrapped in (host, Exporter(host)):
            buffer = cpu.import_array(wrapped)
            assert buffer.shape == host.shape
            np.testing.assert_array_equal(buffer.to_host(), host)


def test_import_of_a_buffer_is_a_view(cpu: Any) -> None:
    x = cpu.alloc_from([1, 2])
    assert cpu.import_array(x).byte_range == x.byte_range
    other = kaio.Device("cpu", like="sm_80")
    assert other.import_array(x).byte_range == x.byte_range


def test_alloc_from_copies_what_others_export(cpu: Any) -> None:
    host = np.arange(3.0)
    buffer = cpu.alloc_from(Exporter(host))
    assert buffer.byte_range[0] != host.ctypes.data
    assert buffer.to_host().tolist() == [0, 1, 2]


@pytest.mark.parametrize("dtype", [kaio.bf16, kaio.f8e4m3, kaio.f8e5m2], ids=repr)
def test_types_that_numpy_has_from_elsewhere_are_imported_in_place(cpu: Any, dtype: Any) -> None:
    host = np.arange(6).astype(dtype.numpy).reshape(2, 3)
    buffer = cpu.import_array(host[:, ::2])
    assert (buffer.dtype, buffer.shape) == (dtype, (2, 2))
    assert buffer.to_host().astype(float).tolist() == [[0, 2], [3, 5]]
    buffer.fill(7).wait()
    assert host.astype(float).tolist() == [[7, 1, 7], [7, 4, 7]]


@pytest.mark.parametrize(
    ("dtype", "code"), [(kaio.f16, 2), (kaio.bf16, 4), (kaio.f8e4m3, 10), (kaio.f8e5m2, 12)], ids=repr
)
@pytest.mark.parametrize("versioned", [False, True])
def test_narrow_floats_go_by_dlpack_under_their_own_code(cpu: Any, dtype: Any, code: int, versioned: bool) -> None:
    host = np.arange(6).astype(dtype.numpy).reshape(2, 3)
    buffer = cpu.alloc_from(host)
    capsule = buffer.__dlpack__(max_version=(1, 0) if versioned else None)
    kind = ManagedTensorVersioned if versioned else ManagedTensor
    tensor = ctypes.cast(python.pointer(capsule, python.name(capsule)), ctypes.POINTER(kind)).contents.tensor
    assert (tensor.code, tensor.bits, tensor.lanes) == (code, dtype.bits, 1)

    class Tensor(Exporter):
        def __dlpack__(self, **options: Any) -> Any:
            return capsule

    shared = cpu.import_array(Tensor(buffer))
    assert (shared.dtype, shared.byte_range) == (dtype, buffer.byte_range)
    assert shared.to_host().tobytes() == host.tobytes()


LIST = """a value of type `list` cannot be imported without a copy
  help: copy it: `device.alloc_from(…)` takes any array"""


@pytest.mark.parametrize(
    ("array", "text"),
    [
        ([1, 2], LIST),
        (FourBits(np.ones(2, np.uint8)), "kaio has no element type for the FourBits's (4)\n  help: convert it first"),
        (SimpleNamespace(__cuda_array_interface__={"shape": (2,), "typestr": "<f4", "data": (64, False), "version": 3}),
         "a SimpleNamespace on cuda:0 cannot be used in place on cpu\n  help: copy it: `device.alloc_from(…)`"),
    ],
)  # fmt: skip
def test_what_cannot_be_imported_is_refused_with_the_way_out(cpu: Any, array: Any, text: str) -> None:
    with pytest.raises(KaioError) as caught:
        cpu.import_array(array)
    assert str(caught.value) == text


def test_a_device_that_dlpack_numbers_and_kaio_does_not_know_is_named() -> None:
    class Elsewhere(Exporter):
        def __dlpack_device__(self) -> Any:
            return 8, 0

    with pytest.raises(KaioError, match=r"a Elsewhere is on a device that kaio does not know \(DLPack's number 8\)"):
        read_dlpack(Elsewhere(None))


def test_what_the_producer_refuses_is_told() -> None:
    class Refuses(Exporter):
        def __dlpack__(self, **options: Any) -> Any:
            raise BufferError("needs a gradient")

    with pytest.raises(KaioError, match="does not let itself be shared: needs a gradient"):
        read_dlpack(Refuses(np.ones(1)))


def test_adopt_finds_the_device_and_gives_none_for_no_array() -> None:
    buffer = adopt(Exporter(np.arange(2.0)))
    assert buffer is not None
    assert buffer.device is kaio.Device("cpu")
    assert adopt(3) is None
    assert adopt("x") is None


# The CUDA array interface, described without a GPU.


def _cuda(**interface: Any) -> Any:
    return SimpleNamespace(
        __cuda_array_interface__={"shape": (2, 3), "typestr": "<f4", "data": (256, False), "version": 3, **interface}
    )


def test_the_cuda_array_interface_is_described() -> None:
    found = read_cuda_array_interface(_cuda(strides=None, stream=7))
    assert found is not None
    assert (found.place, found.pointer, found.shape, found.strides) == ("cuda:0", 256, (2, 3), (12, 4))
    assert (found.dtype, found.read_only, found.stream) == (f32, False, 7)
    strided = read_cuda_array_interface(_cuda(strides=(24, 8), data=(256, True)))
    assert strided is not None
    assert (strided.strides, strided.read_only, strided.stream) == ((24, 8), True, None)
    empty = read_cuda_array_interface(_cuda(shape=(0,), data=(None, False)))
    assert empty is not None
    assert empty.pointer == 0


def test_a_mask_and_a_forbidden_stream_are_refused() -> None:
    with pytest.raises(KaioError, match="with a mask cannot be used"):
        read_cuda_array_interface(_cuda(mask=object()))
    with pytest.raises(KaioError, match="names a stream that the interface forbids"):
        read_cuda_array_interface(_cuda(stream=0))


# torch and CuPy, as far as their interfaces go.


def test_the_stream_of_cupy_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    class Array:
        __cuda_array_interface__ = _cuda().__cuda_array_interface__

    cuda = SimpleNamespace(get_current_stream=lambda: SimpleNamespace(ptr=42))
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(ndarray=Array, cuda=cuda))  # type: ignore[arg-type]
    found = read_cupy(Array())
    assert found is not None
    assert found.stream is not None
    assert (handle_of(found.stream), found.place) == (42, "cuda:0")
    assert read_cupy(np.ones(1)) is None


def test_a_tensor_that_requires_a_gradient_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Tensor:
        device = SimpleNamespace(type="cuda")
        requires_grad = True

    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(Tensor=Tensor))  # type: ignore[arg-type]
    with pytest.raises(KaioError, match=r"pass `x.detach\(\)`"):
        read_torch(Tensor())
    assert read_torch(np.ones(1)) is None
