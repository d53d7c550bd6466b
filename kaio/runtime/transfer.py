"""Elements between buffers, pinned arrays and the host, whatever their layouts and devices.

What a stream can do is work on a stream. Between a buffer and ordinary memory of the host, all work on the buffer is
done before; elements that do not lie side by side are put so by the device first, or travel with the bytes between.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from kaio.dtypes import dtype_of
from kaio.errors import KaioError
from kaio.runtime.completion import Completion
from kaio.runtime.conversion import check_unmasked
from kaio.runtime.layout import overlay

if TYPE_CHECKING:
    from kaio.runtime.buffer import GpuBuffer
    from kaio.runtime.device import Device

__all__ = ["check_out", "copy_in", "copy_out", "read"]

Array = np.ndarray[Any, Any]


def copy_in(target: GpuBuffer[Any], source: Any) -> Completion:
    """Copy a buffer, a pinned array, or whatever NumPy takes into a buffer; see `GpuBuffer.copy_from`."""
    from kaio.runtime.buffer import GpuBuffer
    from kaio.runtime.pinned import PinnedArray

    device, other = target.device, source.buffer if isinstance(source, PinnedArray) else source
    if not isinstance(other, GpuBuffer):
        return _copy_host(target, source)
    other.check_usable()
    target._check_like(other, other.shape, other.dtype)
    target.check_usable()
    target._check_writable()
    if isinstance(source, PinnedArray):
        if not device.copies(target, other):
            return _copy_host(target, source.array)
        done = device.stream_for(((target, "Out"), (other, "In"))).copy(target, other)
        if source.has_views and not target._is_recorded():
            done._block(None)  # whoever has one may write at any time
        return done
    if other.device is not device:
        return _copy_across(target, other)
    if other.memory is target.memory and _meet(target, other):
        other = other.copy()  # elements would be overwritten before they are copied
    if not device.copies(target, other):
        return _copy_host(target, other.to_host())
    return device.stream_for(((target, "Out"), (other, "In"))).copy(target, other)


def _copy_across(target: GpuBuffer[Any], source: GpuBuffer[Any]) -> Completion:
    """Copy from another device: by the GPUs, if both are such, else through this process."""
    device = target.device
    if not device.takes_from(source.device):
        return _copy_host(target, source.to_host())
    device.refuse_recorded("a buffer of another device cannot be copied", "copy before each launch of the graph")
    if not source.is_contiguous:
        source = source.copy()
    if target.is_contiguous:
        return device.copy_across(target, source)
    packed: Any = device.alloc_empty(source.shape, cast("Any", source.dtype))
    device.copy_across(packed, source)
    return copy_in(target, packed)


def _meet(one: GpuBuffer[Any], two: GpuBuffer[Any]) -> bool:
    (first, first_end), (second, second_end) = one.byte_range, two.byte_range
    return first < second_end and second < first_end


def _copy_host(target: GpuBuffer[Any], source: Any) -> Completion:
    """Copy an array of the host, before this returns."""
    device = target.device
    device.refuse_recorded(
        "an array of the host cannot be copied",
        "copy before each launch of the graph, or from a buffer of the same device, or a pinned array",
    )
    check_unmasked(source)
    host = np.asarray(source)
    target._check_like(source, host.shape, dtype_of(host.dtype))
    target._check_writable()
    if device.kind != "cpu" and not target.is_contiguous and target.size and device.copies(target, None):
        return copy_in(target, device.alloc_from(host))  # which the device lays out
    target._wait(writes=True)
    write(target, host)
    return Completion.completed(device.current_stream())


def copy_out(source: GpuBuffer[Any], out: Any) -> Completion:
    """Copy a buffer to the host; see `GpuBuffer.copy_to`."""
    from kaio.runtime.pinned import PinnedArray

    device, is_pinned = source.device, isinstance(out, PinnedArray)
    if out is not None and not is_pinned:
        return _done(device, source.to_host(out))
    source.check_usable()
    if out is None:
        device.refuse_recorded("an array cannot be made for each launch", "copy into one of `device.alloc_pinned(…)`")
        into = device.alloc_pinned(source.shape, cast("Any", source.dtype))
    else:
        into = out
        into.buffer._check_like(source, source.shape, source.dtype)
    if not source.is_contiguous and not device.copies(into.buffer, source) and device.copies(into.buffer, None):
        source = source.copy()
    if not device.copies(into.buffer, source):
        into.array[...] = source.to_host()
        return _done(device, into.array if out is None else into)
    result = into.bare() if out is None else into
    done = device.stream_for(((into.buffer, "Out"), (source, "In"))).copy(into.buffer, source)
    done._output = result
    if out is not None and into.has_views and not source._is_recorded():
        done._block(None)  # whoever has one may look at any time
    return done


def _done(device: Device, result: Any) -> Completion:
    done = Completion.completed(device.current_stream())
    done._output = result
    return done


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
    elif buffer.device.kind != "cpu" and buffer.size and buffer.device.copies(buffer, None):
        packed = buffer.copy()  # by the device, where it can
        packed._wait(writes=False)
        return read(packed, out)
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
