"""The calls of the driver that copy between two buffers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kaio.runtime.cuda.driver import driver
from kaio.runtime.layout import Rectangle, rectangles

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
    return [_call(rectangle) for rectangle in found]


def _call(rectangle: Rectangle) -> tuple[Any, tuple[Any, ...]]:
    if rectangle.height == 1:
        return driver.cuMemcpyDtoDAsync, (rectangle.target, rectangle.source, rectangle.width)
    copy = driver.CUDA_MEMCPY2D()
    copy.srcMemoryType = copy.dstMemoryType = driver.CUmemorytype.CU_MEMORYTYPE_DEVICE
    copy.srcDevice, copy.srcPitch = driver.CUdeviceptr(rectangle.source), rectangle.source_pitch
    copy.dstDevice, copy.dstPitch = driver.CUdeviceptr(rectangle.target), rectangle.target_pitch
    copy.WidthInBytes, copy.Height = rectangle.width, rectangle.height
    return driver.cuMemcpy2DAsync, (copy,)
