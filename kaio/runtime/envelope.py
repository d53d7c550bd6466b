"""`run`: how work that is no kernel of kaio's joins its streams: a call of cuBLAS, an operation of torch.

What is enqueued comes after the earlier work on its operands and before the later, keeps them alive until it is done,
has a Completion, and fails as `LibraryError`. A launch, a copy and a fill go the same way, through the `submit` of
their stream; here the call between is somebody else's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from kaio.errors import LaunchError
from kaio.program import Access
from kaio.runtime.buffer import GpuBuffer
from kaio.runtime.completion import Completion
from kaio.runtime.device import Device
from kaio.runtime.foreign import read_foreign
from kaio.runtime.foreign_stream import is_foreign_stream
from kaio.runtime.recorded import Recorded
from kaio.runtime.stream import Stream
from kaio.runtime.wrapped import Wrapped

__all__ = ["run"]


def run(
    enqueue: Callable[[Stream], object],
    *,
    stream: Any = None,
    keep_alive: Any = (),
    output: Any = None,
    library: str = "enqueue",
) -> Completion:
    """Let another library put work on a stream, in order with all that kaio does; gives its Completion at once.

    `enqueue(stream)` is called, and starts the work on the stream that it is given: its `handle` is the `CUstream`, and
    libraries take it by `__cuda_stream__`. Launches in it that name no stream go there too. On the CPU device it is
    called by the stream's thread, when it is its turn, and does the work.

    Args:
        enqueue: a function of the stream. What it returns is not looked at.
        stream: a stream, also one of another library (torch, CuPy, whatever has `__cuda_stream__`). Default: as for a
            launch on these buffers.
        keep_alive: what the work reads. Buffers, alone or in tuples, lists and dicts, are read by it: it comes after
            the work that writes them. So are arrays of other libraries on the GPU, after what their library does on its
            current stream, and before what it does there later. Anything lives until the work is done.
        output: what the work writes, in the same way, and what `result()` gives. Work that uses it comes after.
        library: whose work it is, for messages.

    Raises:
        LibraryError: `enqueue` raised something, which is the cause. On the CPU device the Completion raises it. The
            buffers of `output` then hold anything, and whoever uses them is told of it.
        LaunchError: buffers of two devices, or a stream of another one; nothing was called.

    >>> device = Device("cpu")
    >>> x, y = device.alloc_from(np.arange(3.0)), device.alloc_zeros(3, float)
    >>> def add(stream):
    ...     np.add(np.from_dlpack(x), 1, out=np.from_dlpack(y))
    >>> run(add, keep_alive=x, output=y, library="NumPy").result().to_host()
    array([1., 2., 3.])
    """
    if not callable(enqueue):
        raise LaunchError(
            f"`kaio.run` takes a function of a stream (got {enqueue!r})",
            help="for example `kaio.run(lambda stream: …, keep_alive=(x,), output=y)`",
        )
    operands = [("keep_alive", value) for value in _leaves(keep_alive)] + [
        ("output", value) for value in _leaves(output)
    ]
    device = _device_of(stream, [value for _, value in operands])
    uses = _uses(device, operands, str(library))
    if stream is None:
        found = device.stream_for(uses)
    else:
        found = stream if isinstance(stream, Stream) else device.stream(foreign=stream)
    done = found.run(enqueue, uses, (keep_alive, output), str(library))
    return done if output is None or isinstance(done, Recorded) else Wrapped(done, output)


def _leaves(value: Any) -> Iterator[Any]:
    """What is in tuples, lists and dicts, at any depth; a value that is none of these is alone."""
    match value:
        case tuple() | list():
            for part in value:
                yield from _leaves(part)
        case Mapping():
            for part in value.values():
                yield from _leaves(part)
        case None:
            return
        case _:
            yield value


def _device_of(stream: Any, values: list[Any]) -> Device:
    """Where the work runs."""
    if isinstance(stream, Stream):
        return stream.device
    if stream is not None and not is_foreign_stream(stream):
        raise LaunchError(
            f"`stream` of `kaio.run` is a stream (got {stream!r})", help="for example `stream=device.stream()`"
        )
    for value in values:
        if isinstance(value, GpuBuffer):
            return value.device
    for value in values:
        device = _device_of_foreign(value)
        if device is not None:
            return device
    return Device() if stream is None else Device("cuda")


def _device_of_foreign(value: Any) -> Device | None:
    """The GPU that the array of another library is on."""
    if not hasattr(type(value), "__dlpack_device__"):
        return Device("cuda") if hasattr(value, "__cuda_array_interface__") else None
    kind, ordinal = value.__dlpack_device__()
    return Device(f"cuda:{int(ordinal)}") if int(kind) == 2 else None


def _uses(device: Device, operands: list[tuple[str, Any]], library: str) -> tuple[tuple[GpuBuffer[Any], Access], ...]:
    """The buffers among the operands, and those over arrays of other libraries, each once."""
    found: dict[int, tuple[GpuBuffer[Any], Access]] = {}
    for name, value in operands:
        buffer = _buffer(device, value)
        if buffer is None:
            continue
        if buffer.device is not device:
            raise LaunchError(
                f"`{name}` of work of {library} has {buffer!r}, and the work runs on {device}",
                help="copy it over: `device.alloc_from(…)`",
            )
        buffer.check_usable()
        if name == "output" and buffer.is_read_only:
            raise LaunchError(
                f"`output` of work of {library} has {buffer!r}, whose memory is read-only", help="write to a copy"
            )
        found[id(value)] = buffer, "InOut" if name == "output" else "In"
    return tuple(found.values())


def _buffer(device: Device, value: Any) -> GpuBuffer[Any] | None:
    if isinstance(value, GpuBuffer):
        return value
    if device.kind != "cuda" or isinstance(value, np.ndarray | np.generic):
        return None
    if not hasattr(type(value), "__dlpack_device__") and not hasattr(value, "__cuda_array_interface__"):
        return None
    foreign = read_foreign(value, device)
    if foreign is None or foreign.kind == "cpu":
        return None
    return (device if foreign.ordinal == device.ordinal else Device(foreign.place)).adopt(foreign)
