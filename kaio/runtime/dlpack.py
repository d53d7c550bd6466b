"""DLPack: the structs of its ABI, and a buffer handed to another library.

Source: ``dlpack.h`` of DLPack 1.0 and the Python specification of the data API. A capsule holds a managed tensor;
whoever takes it renames the capsule and calls the tensor's deleter in the end.
"""

from __future__ import annotations

import ctypes
import itertools
from typing import TYPE_CHECKING, Any

from kaio.dtypes import DTYPES, DType

if TYPE_CHECKING:
    from kaio.runtime.buffer import GpuBuffer
    from kaio.runtime.memory import Memory

__all__ = [
    "DEVICE_CPU", "DEVICE_CUDA", "DEVICE_CUDA_HOST", "DEVICE_CUDA_MANAGED", "READ_ONLY", "ManagedTensor",
    "ManagedTensorVersioned", "Tensor", "dtype_of_code", "export_buffer", "python",
]  # fmt: skip

DEVICE_CPU, DEVICE_CUDA, DEVICE_CUDA_HOST, DEVICE_CUDA_MANAGED = 1, 2, 3, 13
READ_ONLY = 1  # a flag of a versioned tensor
_CODES = {"i": 0, "u": 1, "f": 2, "b": 6}


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


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


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
        self.new = function("PyCapsule_New", obj, pointer, text, pointer)
        self.name = function("PyCapsule_GetName", text, obj)
        self.pointer = function("PyCapsule_GetPointer", pointer, obj, text)
        self.rename = function("PyCapsule_SetName", ctypes.c_int, obj, text)
        # In a destructor the capsule is no object any more that may be referred to, only an address.
        self.is_valid_at = function("PyCapsule_IsValid", ctypes.c_int, pointer, text)
        self.pointer_at = function("PyCapsule_GetPointer", pointer, pointer, text)


python = _Python()


def dtype_of_code(code: int, bits: int, lanes: int) -> DType | None:
    """kaio's dtype for DLPack's, None if there is none."""
    for dtype in DTYPES:
        if (_CODES[dtype.kind], dtype.bits, 1) == (code, bits, lanes):
            return dtype
    return None


# What is exported, by number, until its deleter is called: the memory, and all that the struct points to.
_exported: dict[int, tuple[Memory, Any]] = {}
_numbers = itertools.count(1)


def _delete_unversioned(address: int) -> None:
    context = ctypes.cast(address, ctypes.POINTER(ManagedTensor)).contents.context
    _forget(context)


def _delete_versioned(address: int) -> None:
    context = ctypes.cast(address, ctypes.POINTER(ManagedTensorVersioned)).contents.context
    _forget(context)


def _forget(number: int) -> None:
    found = _exported.pop(number, None)
    if found is not None:
        found[0].end_export()


def _drop(capsule: int) -> None:
    """The capsule is gone and nobody took the tensor."""
    for name, delete in ((b"dltensor", _delete_unversioned), (b"dltensor_versioned", _delete_versioned)):
        if python.is_valid_at(capsule, name):
            delete(python.pointer_at(capsule, name))


# As C functions; they live as long as the process.
_DELETE, _DELETE_VERSIONED, _DROP = _Deleter(_delete_unversioned), _Deleter(_delete_versioned), _Deleter(_drop)


def export_buffer(buffer: GpuBuffer[Any], device: tuple[int, int], versioned: bool) -> Any:
    """A capsule over the memory of a buffer, which lives until the capsule's taker is done."""
    number, shape = next(_numbers), (ctypes.c_int64 * max(buffer.ndim, 1))(*buffer.shape)
    itemsize = buffer.dtype.itemsize
    if any(stride % itemsize for stride in buffer.strides):
        raise BufferError(f"strides of {buffer.strides} bytes are no multiples of {itemsize}, which DLPack needs")
    strides = (ctypes.c_int64 * max(buffer.ndim, 1))(*(stride // itemsize for stride in buffer.strides))
    tensor = Tensor(
        buffer.pointer, *device, buffer.ndim, _CODES[buffer.dtype.kind], buffer.dtype.bits, 1, shape, strides, 0
    )
    managed: Any
    if versioned:
        deleter = ctypes.cast(_DELETE_VERSIONED, ctypes.c_void_p)
        managed = ManagedTensorVersioned(1, 0, number, deleter, READ_ONLY if buffer.is_read_only else 0, tensor)
    else:
        managed = ManagedTensor(tensor, number, ctypes.cast(_DELETE, ctypes.c_void_p))
    name = b"dltensor_versioned" if versioned else b"dltensor"
    buffer.memory.exports += 1
    _exported[number] = buffer.memory, (managed, shape, strides, name)
    return python.new(ctypes.addressof(managed), name, ctypes.cast(_DROP, ctypes.c_void_p))
