"""Elements between a buffer and the host, whatever the layouts. A device copies contiguous bytes and knows no more.

All work on the buffer is done before. Elements that do not lie side by side travel with the bytes between them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kaio.errors import KaioError
from kaio.runtime.layout import overlay

if TYPE_CHECKING:
    from kaio.runtime.buffer import GpuBuffer

__all__ = ["check_out", "read", "write"]

Array = np.ndarray[Any, Any]


def check_out(out: Any, buffer: GpuBuffer[Any]) -> None:
    """Raise KaioError unless `out` is an array that the elements of the buffer can be put into."""
    if not isinstance(out, np.ndarray) or out.shape != buffer.shape or out.dtype != buffer.dtype.numpy:
        got = f"{out.dtype}{list(out.shape)}" if isinstance(out, np.ndarray) else repr(out)
        raise KaioError(f"`out` must be a NumPy array of {buffer.dtype!r}{list(buffer.shape)} (got {got})")
    if not out.flags.writeable:
        raise KaioError("`out` is read-only")


def read(buffer: GpuBuffer[Any], out: Array | None) -> Array:
    """The elements in a new array, or in `out`."""
    if buffer.is_contiguous:
        host = out if out is not None and out.flags.c_contiguous else np.empty(buffer.shape, buffer.dtype.numpy)
        if buffer.size:
            buffer.device._download(host, buffer.pointer)
    else:
        host = _laid_over(_read_range(buffer), buffer)
        if out is None:
            return host.copy()
    if out is None or host is out:
        return host
    out[...] = host
    return out


def write(buffer: GpuBuffer[Any], host: Array) -> None:
    """Overwrite the elements with those of an array of the same shape and dtype."""
    if not buffer.size:
        return
    buffer.memory.unwritten = None
    if buffer.is_contiguous:
        buffer.device._upload(buffer.pointer, np.ascontiguousarray(host))
        return
    # The bytes in between must stay as they are: read all, change ours, write all.
    around = _read_range(buffer)
    _laid_over(around, buffer)[...] = host
    buffer.device._upload(buffer.byte_range[0], around)


def _read_range(buffer: GpuBuffer[Any]) -> Array:
    start, stop = buffer.byte_range
    found = np.empty(stop - start, np.uint8)
    if found.size:
        buffer.device._download(found, start)
    return found


def _laid_over(around: Array, buffer: GpuBuffer[Any]) -> Array:
    """The elements within a host copy of their byte range."""
    start = around.ctypes.data + buffer.pointer - buffer.byte_range[0]
    return overlay(start, buffer.shape, buffer.strides, buffer.dtype, keep=around)
