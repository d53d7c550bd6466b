"""Arguments of driver calls that need some thought. A worker process uses them too: nothing here imports NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kaio.runtime.cuda.driver import driver

if TYPE_CHECKING:
    from kaio.runtime.stream import Dims, Together

__all__ = ["call_together", "copy_rows", "memsets"]


def call_together(
    function: Any, grid: Dims, block: Dims, shared_nbytes: int, stream: Any, extra: int, together: Together
) -> tuple[Any, ...]:
    """The arguments of `launch_together` for a launch whose blocks run at the same time."""
    config, wanted = driver.CUlaunchConfig(), []
    config.gridDimX, config.gridDimY, config.gridDimZ = grid
    config.blockDimX, config.blockDimY, config.blockDimZ = block
    config.sharedMemBytes, config.hStream = shared_nbytes, stream
    if together.cooperative:
        attribute = driver.CUlaunchAttribute()
        attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_COOPERATIVE
        attribute.value.cooperative = 1
        wanted.append(attribute)
    if together.cluster != (1, 1, 1):
        attribute = driver.CUlaunchAttribute()
        attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        size = attribute.value.clusterDim
        size.x, size.y, size.z = together.cluster
        wanted.append(attribute)
    config.attrs, config.numAttrs = wanted, len(wanted)
    return config, function, 0, extra


def copy_rows(
    target: int, source: int, width: int, height: int, target_pitch: int, source_pitch: int
) -> tuple[Any, tuple[Any, ...]]:
    """The call that copies rows of bytes at equal distances, without the stream."""
    if height == 1:
        return driver.cuMemcpyDtoDAsync, (target, source, width)
    copy = driver.CUDA_MEMCPY2D()
    copy.srcMemoryType = copy.dstMemoryType = driver.CUmemorytype.CU_MEMORYTYPE_DEVICE
    copy.srcDevice, copy.srcPitch = driver.CUdeviceptr(source), source_pitch
    copy.dstDevice, copy.dstPitch = driver.CUdeviceptr(target), target_pitch
    copy.WidthInBytes, copy.Height = width, height
    return driver.cuMemcpy2DAsync, (copy,)


def memsets(pointer: int, pattern: bytes, size: int) -> list[tuple[Any, tuple[int, ...]]]:
    """The driver calls that repeat the bytes of an element `size` times."""
    nbytes = len(pattern)
    width = next(width for width in (4, 2, 1) if nbytes % width == 0)
    words = [int.from_bytes(pattern[at : at + width], "little") for at in range(0, nbytes, width)]
    if len(set(words)) == 1:
        return [(_LINES[width], (pointer, words[0], len(words) * size))]
    # No set is wider than 4 bytes: each word as a column of a matrix whose rows are the elements.
    return [(_COLUMNS[width], (pointer + width * k, nbytes, word, 1, size)) for k, word in enumerate(words)]


_LINES = {1: driver.cuMemsetD8Async, 2: driver.cuMemsetD16Async, 4: driver.cuMemsetD32Async}
_COLUMNS = {1: driver.cuMemsetD2D8Async, 2: driver.cuMemsetD2D16Async, 4: driver.cuMemsetD2D32Async}
