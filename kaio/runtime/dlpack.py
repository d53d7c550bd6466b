"""DLPack: the structs of its ABI, and a buffer handed to another library.

Source: ``dlpack.h`` of DLPack 1.0 and the Python specification of the data API. A capsule holds a managed tensor;
whoever takes it renames the capsule and calls the tensor's deleter in the end.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np

from kaio.dtypes import COMPLEX, DTYPES, DType, bf16, f8e4m3, f8e5m2

if TYPE_CHECKING:
    from kaio.runtime.buffer import GpuBuffer

__all__ = [
    "DEVICE_CPU", "DEVICE_CUDA", "DEVICE_CUDA_HOST", "DEVICE_CUDA_MANAGED", "READ_ONLY", "ManagedTensor",
    "ManagedTensorVersioned", "Tensor", "dtype_of_code", "export_buffer", "python",
]  # fmt: skip

DEVICE_CPU, DEVICE_CUDA, DEVICE_CUDA_HOST, DEVICE_CUDA_MANAGED = 1, 2, 3, 13
READ_ONLY = 1  # a flag of a versioned tensor
_CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
_CODES_BY_DTYPE: dict[DType, int] = {
    bf16: 4,
    f8e4m3: 10,
    f8e5m2: 12,
}  # kDLBfloat, kDLFloat8_e4m3fn, kDLFloat8_e5m2 (DLPack 1.1)

_NEUTRAL: dict[DType, np.dtype[Any]] = {
    dtype: np.dtype(f"u{dtype.itemsize}") for dtype in _CODES_BY_DTYPE
}  # NumPy exports only its own types


class Tensor(ctypes.Structure):
    """``DLTensor``; strides count elements, null means C-contiguous."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class ManagedTensor(ctypes.Structure):
    """``DLManagedTensor``, which came before versions."""

    _fields_ = (("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class ManagedTensorVersioned(ctypes.Structure):
    """``DLManagedTensorVersioned``."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", Tensor),
    )


class _Python:
    """Functions of Python's C API on capsules."""

    def __init__(self) -> None:
        def function(name: str, result: Any, *arguments: Any) -> Any:
            # Prototypes of our own: those of `ctypes.pythonapi` belong to everybody in the process.
            return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))

        obj, text, pointer = ctypes.py_object, ctypes.c_char_p, ctypes.c_void_p
        self.name = function("PyCapsule_GetName", text, obj)
        self.pointer = function("PyCapsule_GetPointer", pointer, obj, text)
        self.rename = function("PyCapsule_SetName", ctypes.c_int, obj, text)


python = _Python()


def _code(dtype: DType) -> int:
    return _CODES_BY_DTYPE.get(dtype, _CODES[dtype.kind])


def dtype_of_code(code: int, bits: int, lanes: int) -> DType | None:
    """kaio's dtype for DLPack's, None if there is none."""
    for dtype in (*DTYPES, *COMPLEX):
        if (_code(dtype), dtype.bits, 1) == (code, bits, lanes):
            return dtype
    return None


class _Export:
    """Memory that another library uses, until this is dropped. NumPy's array over it holds this."""

    __slots__ = ("__array_interface__", "_memory")

    def __init__(self, buffer: GpuBuffer[Any]) -> None:
        self.__array_interface__ = {
            "version": 3,
            "shape": buffer.shape,
            "strides": buffer.strides,
            "typestr": _NEUTRAL.get(buffer.dtype, buffer.dtype.numpy).str,
            "data": (buffer.pointer, False),
        }
        self._memory = buffer.memory
        self._memory.exports += 1
        self._memory.unwritten = None

    def __del__(self) -> None:
        self._memory.end_export()


def export_buffer(buffer: GpuBuffer[Any], device: tuple[int, int], versioned: bool) -> Any:
    """A capsule over the memory of a buffer, which lives until the capsule's taker is done.

    NumPy makes it, over memory that it does not look at, for its destructor and its deleter are native: they are called
    while the taker's own error is under way, too, when a callback in Python would crash or lose that error.
    """
    itemsize = buffer.dtype.itemsize
    if any(stride % itemsize for stride in buffer.strides):
        raise BufferError(f"strides of {buffer.strides} bytes are no multiples of {itemsize}, which DLPack needs")
    capsule = np.asarray(_Export(buffer)).__dlpack__(max_version=(1, 0) if versioned else None)
    if python.name(capsule) == b"dltensor_versioned":
        address = python.pointer(capsule, b"dltensor_versioned")
        managed = ManagedTensorVersioned.from_address(address)
        if buffer.is_read_only:
            managed.flags |= READ_ONLY
        tensor = managed.tensor
    else:
        tensor = ManagedTensor.from_address(python.pointer(capsule, b"dltensor")).tensor
    tensor.data, tensor.device_type, tensor.device_id = buffer.pointer, *device
    tensor.code = _code(buffer.dtype)
    return capsule
