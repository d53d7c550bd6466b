"""`trace`: a kernel run on the CPU device with one thread looked at, on copies of its arguments."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from kaio.errors import KernelFault, LaunchError, is_message
from kaio.launch.buffers import adopted, check_array
from kaio.launch.geometry import is_whole_number
from kaio.runtime import Device, GpuBuffer
from kaio.runtime.recording import Recorder, linear
from kaio.runtime.trace import Arrays, Trace
from kaio.structs import is_laid_out_as

if TYPE_CHECKING:
    from kaio.launch.launcher import Launchable, Launcher

__all__ = ["run_traced", "trace"]

__tracebackhide__ = is_message

Dim3 = tuple[int, int, int]


def trace(kernel: Any, args: Any, *, thread: Any = (0, 0, 0), block: Any = (0, 0, 0), limit: int = 10_000) -> Trace:
    """Run a kernel on the CPU device, and give what one thread does there, line by line.

    `kernel` is a launch without its arguments, `saxpy.over(n)`, or a kernel alone, which then runs over its first
    output. `args` are the arguments as a tuple, or by name as a dict: NumPy arrays, buffers of any device, scalars.
    The run is on copies: nothing that is passed changes. `thread` and `block` are numbers or tuples, x first.
    See `Launcher.trace`.

    >>> import numpy as np, kaio
    >>> @kaio.kernel
    ... def sums(x: kaio.In[kaio.f32], out: kaio.Out[kaio.f32]):
    ...     i = kaio.grid(1)
    ...     total = 0
    ...     for k in range(i + 1):
    ...         total += x[k]
    ...     out[i] = total
    >>> x = np.array([1, 2, 4, 8], np.float32)
    >>> kaio.trace(sums.grid(1).block(4), (x, np.zeros(4, np.float32)), thread=2).values("total")
    [np.float32(0.0), np.float32(1.0), np.float32(3.0), np.float32(7.0)]
    """
    __tracebackhide__ = is_message
    if not isinstance(args, tuple | list | dict):
        raise LaunchError(
            f"`kaio.trace` takes the arguments as one tuple or dict (got {type(args).__name__})",
            help="for example `kaio.trace(saxpy.over(n), (x, y, 2.0), thread=3)`",
        )
    if not callable(getattr(kernel, "trace", None)):
        raise LaunchError(
            f"`kaio.trace` takes a kernel or a launch of one (got {kernel!r})",
            help="decorate it with `@kaio.kernel`, and say over what: `kaio.trace(saxpy.over(n), (x, y, 2.0))`",
        )
    if isinstance(args, dict):
        return kernel.trace(thread=thread, block=block, limit=limit, **args)  # type: ignore[no-any-return]
    return kernel.trace(*args, thread=thread, block=block, limit=limit)  # type: ignore[no-any-return]


def run_traced(
    launcher: Launcher, args: tuple[Any, ...], kwargs: dict[str, Any], thread: Any, block: Any, limit: Any
) -> Trace:
    """Carry out a launch so, and give the trace."""
    __tracebackhide__ = is_message
    kernel = launcher.kernel
    if not is_whole_number(limit) or limit < 1:
        raise LaunchError(f"`limit` of a trace is a number of steps, an int above 0 (got {limit!r})")
    values = kernel.parameters.bind(args, kwargs)
    device = _device_for(launcher, values)
    arrays = _copies(kernel, values, device)
    positional, named = _call(kernel, values, arrays)
    geometry = launcher.geometry(device, positional, named)
    where = _position(kernel.name, "thread", thread, geometry.block, "a block")
    of = _position(kernel.name, "block", block, geometry.grid, "a grid")
    recorder = Recorder(linear(where, geometry.block), linear(of, geometry.grid), limit)
    fault = None
    try:
        launcher.watched(recorder.watch, device).launch(*positional, **named).wait()
    except KernelFault as problem:
        fault = problem
    is_own = fault is not None and (fault.facts.get("thread"), fault.facts.get("block")) == (where, of)
    return Trace(
        kernel.name, where, of, geometry.block, geometry.grid, recorder.steps(fault, is_own), fault, recorder.is_cut,
        Arrays(kernel.name, {name: host for name, (host, _) in arrays.items()}), recorder.variables,
    )  # fmt: skip


def _device_for(launcher: Launcher, values: list[Any]) -> Device:
    """The CPU device that the launch would be on, or one like the GPU; one that runs what the emitter makes for it."""
    buffers = [value for value in values if isinstance(value, GpuBuffer)]
    device = launcher.device or (buffers[0].device if buffers else None)
    if device is None:
        return Device("cpu")
    return Device("cpu", like=device.target, check=device.check if device.kind == "cpu" else None)


def _copies(kernel: Launchable, values: list[Any], device: Device) -> dict[str, tuple[Any, Any]]:
    """A copy of each buffer argument in NumPy, and the buffer over it, or LaunchError for what is no array."""
    __tracebackhide__ = is_message
    found = {}
    for param, dtype, value in kernel.parameters.buffers(values):
        buffer = value
        if not isinstance(value, GpuBuffer | np.ndarray | np.generic):
            buffer = adopted(kernel.name, param.name, value)
        if not isinstance(buffer, GpuBuffer):
            check_array(kernel.name, param, dtype, value)
            buffer = value
        found[param.name] = _copy(buffer, device)
    return found


def _copy(value: Any, device: Device) -> tuple[Any, Any]:
    """A copy with the same strides, where it has gaps too."""
    source = value.to_host() if isinstance(value, GpuBuffer) else value
    reach = [step * (size - 1) for step, size in zip(value.strides, value.shape, strict=True)]
    low, high = sum(min(0, r) for r in reach), sum(max(0, r) for r in reach)
    nbytes = high - low + source.dtype.itemsize if source.size else 0
    memory = np.zeros(nbytes, np.uint8)
    host: Any = np.ndarray(source.shape, source.dtype, memory, -low if nbytes else 0, value.strides)
    host[...] = source
    buffer = device.import_array(host)
    if isinstance(value, GpuBuffer) and buffer.dtype is not value.dtype and is_laid_out_as(buffer.dtype, value.dtype):
        buffer = buffer.view(value.dtype)
    return host, buffer


def _call(
    kernel: Launchable, values: list[Any], arrays: dict[str, tuple[Any, Any]]
) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of the launch: by position as far as that goes."""
    positional, named = [], {}
    for param, value in zip(kernel.parameters.params, values, strict=True):
        given = arrays[param.name][1] if param.name in arrays else value
        if param.kind == "keyword":
            named[param.name] = given
        else:
            positional.append(given)
    return positional, named


def _position(kernel: str, name: str, value: Any, shape: Dim3, whole: str) -> Dim3:
    """A place in a block or a grid, or LaunchError."""
    given = value if isinstance(value, tuple | list) else (value,)
    if not 1 <= len(given) <= 3 or not all(map(is_whole_number, given)):
        raise LaunchError(
            f"`{name}` of a trace is a number, or up to three with x first (got {value!r})",
            help=f"for example `{name}=({', '.join('0' * 3)})`",
        )
    at: Any = (*map(int, given), 0, 0)[:3]
    if not all(0 <= place < size for place, size in zip(at, shape, strict=True)):
        raise LaunchError(
            f"kernel `{kernel}` has no {name} {at}: {whole} of this launch has {shape}",
            help=f"the last one is {tuple(size - 1 for size in shape)}" if math.prod(shape) else None,
        )
    return at  # type: ignore[no-any-return]
