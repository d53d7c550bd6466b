"""Exchange of arrays with other libraries: DLPack and the array interfaces.

Importing this package tells the runtime how to read them, for `Device.import_array` and for launches.
"""

from __future__ import annotations

from typing import Any

from kaio.interop.array_interface import read_cuda_array_interface, read_numpy
from kaio.interop.dlpack import read_dlpack
from kaio.interop.libraries import read_cupy, read_torch
from kaio.runtime.buffer import GpuBuffer
from kaio.runtime.device import Device
from kaio.runtime.foreign import READERS, read_foreign

__all__ = ["adopt", "read_cuda_array_interface", "read_cupy", "read_dlpack", "read_numpy", "read_torch"]

READERS[:] = [read_numpy, read_torch, read_cupy, read_dlpack, read_cuda_array_interface]


def adopt(array: Any) -> GpuBuffer[Any] | None:
    """A buffer over the memory of another library's array, on the device where it lies; None for what is no array.

    Nothing is copied; both sides see each other's writes.
    """
    foreign = read_foreign(array)
    return None if foreign is None else Device(foreign.place).adopt(foreign)
