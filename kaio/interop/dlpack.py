"""Arrays of other libraries through DLPack: torch, CuPy, JAX and whoever else has `__dlpack__`."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from typing import Any

from kaio.errors import KaioError
from kaio.runtime.device import Device
from kaio.runtime.dlpack import (
    DEVICE_CPU,
    DEVICE_CUDA,
    DEVICE_CUDA_HOST,
    DEVICE_CUDA_MANAGED,
    READ_ONLY,
    ManagedTensor,
    ManagedTensorVersioned,
    dtype_of_code,
    python,
)
from kaio.runtime.foreign import Foreign
from kaio.runtime.layout import contiguous_strides

__all__ = ["read_dlpack"]

_KINDS = {DEVICE_CPU: "cpu", DEVICE_CUDA: "cuda", DEVICE_CUDA_HOST: "cpu", DEVICE_CUDA_MANAGED: "cuda"}


class _Owner:
    """A tensor that was taken: its producer's memory lives until this is dropped."""

    def __init__(self, address: int, deleter: int | None) -> None:
        self._address, self._deleter = address, deleter

    def __del__(self) -> None:
        if self._deleter:
            ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(self._deleter)(self._address)


def read_dlpack(array: Any, device: Device | None = None, on: int | None = None) -> Foreign | None:
    """Describe what has `__dlpack__`; None for what has not.

    The producer is asked to let the current stream of the device, or the stream `on`, wait for its pending work, as the
    protocol says.
    """
    kind_of = getattr(type(array), "__dlpack_device__", None)
    if kind_of is None or not hasattr(type(array), "__dlpack__"):
        return None
    number, ordinal = array.__dlpack_device__()
    kind = _KINDS.get(int(number))
    if kind is None:
        raise KaioError(
            f"a {type(array).__name__} is on a device that kaio does not know (DLPack's number {int(number)})",
            help="copy it to the host first",
        )
    stream = on
    if kind == "cuda" and on is None:
        current = (device if device is not None and device.kind == "cuda" else Device(int(ordinal))).current_stream()
        stream = getattr(current, "handle", None)
    found = _take(array, _ask(array, stream), kind, int(ordinal))
    return replace(found, is_joined=on is None and kind == "cuda")


def _ask(array: Any, stream: int | None) -> Any:
    options = {} if stream is None else {"stream": stream}
    try:
        try:
            return array.__dlpack__(max_version=(1, 0), **options)
        except TypeError:  # from before versions
            return array.__dlpack__(**options)
    except (BufferError, RuntimeError, ValueError) as problem:
        raise KaioError(f"a {type(array).__name__} does not let itself be shared: {problem}") from problem


def _take(array: Any, capsule: Any, kind: Any, ordinal: int) -> Foreign:
    name = python.name(capsule)
    struct = {b"dltensor": ManagedTensor, b"dltensor_versioned": ManagedTensorVersioned}.get(name)
    if struct is None:
        raise KaioError(f"a {type(array).__name__} gave no DLPack tensor")
    address = python.pointer(capsule, name)
    managed: Any = ctypes.cast(address, ctypes.POINTER(struct)).contents
    if isinstance(managed, ManagedTensorVersioned) and managed.major != 1:
        raise KaioError(f"a {type(array).__name__} speaks version {managed.major} of DLPack, kaio version 1")
    tensor = managed.tensor
    dtype = dtype_of_code(tensor.code, tensor.bits, tensor.lanes)
    if dtype is None:
        raise KaioError(
            f"kaio has no element type for the {type(array).__name__}'s ({getattr(array, 'dtype', tensor.bits)})",
            help="convert it first",
        )
    shape = tuple(tensor.shape[: tensor.ndim])
    if tensor.strides:
        strides = tuple(stride * dtype.itemsize for stride in tensor.strides[: tensor.ndim])
    else:
        strides = contiguous_strides(shape, dtype.itemsize)
    python.rename(capsule, _USED[name])
    return Foreign(
        kind,
        ordinal,
        (tensor.data or 0) + tensor.byte_offset,
        shape,
        strides,
        dtype,
        read_only=isinstance(managed, ManagedTensorVersioned) and bool(managed.flags & READ_ONLY),
        owner=_Owner(address, managed.deleter),
    )


# A capsule does not copy its name: these live as long as the process.
_USED = {b"dltensor": b"used_dltensor", b"dltensor_versioned": b"used_dltensor_versioned"}
