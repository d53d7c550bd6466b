"""The calls of the driver that copy between two buffers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kaio.runtime.cuda.calls import copy_rows
from kaio.runtime.cuda.driver import driver
from kaio.runtime.layout import rectangles

if TYPE_CHECKING:
    from kaio.runtime.buffer import GpuBuffer

__all__ = ["copies"]


def copies(target: GpuBuffer[Any], source: GpuBuffer[Any]) -> list[tuple[Any, tuple[Any, ...]]]:
    """The functions of the driver, and what each is given before the stream."""
    if target.is_contiguous and source.is_contiguous:
        line = (target.pointer, source.pointer, target.nbytes)
        if source.memory.is_host:
            return [(driver.cuMemcpyHtoDAsync, line)]
        return [(driver.cuMemcpyDtoHAsync if target.memory.is_host else driver.cuMemcpyDtoDAsync, line)]
    strides = target.strides, source.strides
    found = rectangles(target.pointer, source.pointer, target.shape, strides, target.dtype.itemsize)
    return [copy_rows(*rectangle) for rectangle in found]
