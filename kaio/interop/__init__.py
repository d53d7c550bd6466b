"""Exchange of arrays with other libraries: DLPack and the array interfaces."""

from __future__ import annotations

from typing import Any

from kaio.runtime.buffer import GpuBuffer
from kaio.runtime.device import Device
from kaio.runtime.foreign import read_foreign

__all__ = ["adopt"]


def adopt(array: Any) -> GpuBuffer[Any] | None:
    """A buffer over the memory of another library's array, on the device where it lies; None for what is no array.

    Nothing is copied; both sides see each other's writes.
    """
    foreign = read_foreign(array)
    if foreign is None:
        return None
    return Device(foreign.place).adopt(foreign)
