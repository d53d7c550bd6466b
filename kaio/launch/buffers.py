"""Buffer arguments of a launch: the usual path as one closure, and the words for what is not right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from kaio.dsl.types import BufferAnnotation, Param
from kaio.dtypes import DType, dtype_of
from kaio.errors import BufferClosedError, KaioError, LaunchError, is_message
from kaio.interop import adopt
from kaio.launch.call import Call
from kaio.program import Access
from kaio.runtime import GpuBuffer
from kaio.runtime.layout import overlaps_itself
from kaio.runtime.scalars import describe, is_masked
from kaio.structs import is_laid_out_as

__all__ = ["adopted", "as_numpy", "buffer_check", "check_array", "named"]

__tracebackhide__ = is_message

# The most elements that an i32 counts.
_I32_MAX = 2**31 - 1


def buffer_check(kernel: str, param: Param, dtype: DType, first: str) -> Callable[[Any, Call], None]:
    """A closure that checks one buffer argument and notes it in the call: pointer, sizes, strides, device, use.

    `first` is the kernel's first buffer, whose device all others must share.
    """
    annotation = param.annotation
    assert isinstance(annotation, BufferAnnotation)
    name, ndim, access, strided = param.name, annotation.ndim, annotation.access, annotation.strided

    def check_buffer(value: Any, call: Call) -> None:
        __tracebackhide__ = is_message
        if type(value) is not GpuBuffer:
            value = _foreign(kernel, name, dtype, access, value)
        if value.dtype is not dtype and is_laid_out_as(value.dtype, dtype):
            value = _seen_as(kernel, name, dtype, value)
        if value.dtype is not dtype or value.ndim != ndim or not (strided or value.is_contiguous):
            raise _wrong_buffer(kernel, param, dtype, ndim, value)
        try:
            value.check_usable()
        except BufferClosedError as problem:
            raise named(problem, kernel, name) from None
        if access != "In" and value.memory.read_only:
            raise LaunchError(
                f"argument `{name}` of kernel `{kernel}` is {access}, but its memory is read-only",
                help=f"pass a copy: `{name}.copy()`",
            )
        device = value.device
        if device is not call.device:
            if call.device is not None:
                raise _wrong_device(kernel, name, device, first, call.device)
            call.device = device
        call.uses.append((value, access))
        shape = value.shape
        call.packed.append(value.pointer)
        call.packed.extend(shape)
        if value.size > _I32_MAX or (not value.size and max(shape) > _I32_MAX):
            call.wide = True
        if strided:
            call.packed.extend(_strides(kernel, name, access, value, call))

    return check_buffer


def _strides(kernel: str, name: str, access: Access, value: GpuBuffer[Any], call: Call) -> list[int]:
    """The strides in elements, or LaunchError for a layout that a kernel cannot use; notes whether it takes i64."""
    shape, strides, itemsize = value.shape, value.strides, value.dtype.itemsize
    for axis, stride in enumerate(strides):
        if stride % itemsize:
            raise LaunchError(
                f"argument `{name}` of kernel `{kernel}` has a stride of {stride} bytes along axis {axis}, "
                f"which is no multiple of the {itemsize} of its {value.dtype!r}",
                help=f"pass a copy: `{name}.copy()`",
            )
    if access != "In" and overlaps_itself(shape, strides, itemsize):
        raise LaunchError(
            f"argument `{name}` of kernel `{kernel}` is {access}, but its elements lie over one another "
            f"(strides {strides} for shape {shape})",
            help=f"pass a copy: `{name}.copy()`",
        )
    steps = [stride // itemsize for stride in strides]
    reach = sum(abs(step) * (size - 1) for size, step in zip(shape, steps, strict=True) if size)
    if max(reach, *map(abs, steps), 0) > _I32_MAX:
        call.wide = True
    return steps


def named(problem: BufferClosedError, kernel: str, name: str) -> BufferClosedError:
    """The same error, saying which argument it is about."""
    mistake = problem.mistakes[0]
    return BufferClosedError(
        f"argument `{name}` of kernel `{kernel}` cannot be used: {mistake.what}", help=mistake.help, **problem.facts
    )


def _wrong_buffer(kernel: str, param: Param, dtype: DType, ndim: int, value: GpuBuffer[Any]) -> LaunchError:
    name, annotation = param.name, param.annotation
    assert isinstance(annotation, BufferAnnotation)
    if value.dtype is not dtype:
        dimensions = "" if ndim == 1 else f"{ndim}-D "
        what = f"must be a {dimensions}GpuBuffer of {dtype!r} (got {describe(value)})"
        way_out = f"convert it with `{name}.astype(kaio.{dtype!r})`"
        if dtype.kind == "s":
            way_out = f"make it of an array of that dtype: `{name} = device.alloc_from(…)`"
        elif value.dtype.parts and not dtype.parts:
            way_out = f"annotate it `{name}: {param.annotation.access}[{value.dtype!r}]`, or pass a part of it"  # type: ignore[union-attr]
    else:
        what, way_out = _wrong_layout(param, dtype, value, "GpuBuffer")
    return LaunchError(f"argument `{name}` of kernel `{kernel}` {what}", help=way_out)


def _wrong_layout(param: Param, dtype: DType, value: Any, noun: str) -> tuple[str, str]:
    """What is wrong with the axes of what has the right elements, and the way out."""
    name, annotation = param.name, param.annotation
    assert isinstance(annotation, BufferAnnotation)
    if value.ndim != annotation.ndim:
        annotated = replace(annotation, dtype=dtype, ndim=value.ndim)
        way_out = f"reshape it, or annotate `{name}: {annotated!r}`" if value.ndim <= 4 else "reshape it"
        return f"must be a {annotation.ndim}-D {noun} of {dtype!r} (got {describe(value)})", way_out
    annotated = replace(annotation, dtype=dtype, strided=True)
    way_out = f"copy it with `{name}.copy()`, or annotate `{name}: {annotated!r}`"
    return f"must be C-contiguous (got {describe(value)} with strides {value.strides})", way_out


def check_array(kernel: str, param: Param, dtype: DType, value: Any) -> None:
    """Refuse what is no NumPy array that a parameter takes, in the words of who passes arrays: a trace takes them."""
    __tracebackhide__ = is_message
    name, annotation = param.name, param.annotation
    assert isinstance(annotation, BufferAnnotation)
    if not isinstance(value, np.ndarray):
        way_out = f"make one: `{name} = np.array(…, {as_numpy(dtype)})`"
    elif is_masked(value):
        way_out = f"say what stands for what is masked: `{name}.filled(…)`"
    elif not _has_elements(value, dtype):
        way_out = f"convert it with `{name}.astype({as_numpy(dtype)})`"
        if dtype.kind in "vs":
            way_out = f"make it of that dtype, for example `{name} = np.zeros(…, {as_numpy(dtype)})`"
    elif value.ndim != annotation.ndim or not (annotation.strided or value.flags.c_contiguous):
        what, way_out = _wrong_layout(param, dtype, value, "array")
        raise LaunchError(f"argument `{name}` of kernel `{kernel}` {what}", help=way_out)
    else:
        return
    dimensions = "" if annotation.ndim == 1 else f"{annotation.ndim}-D "
    raise LaunchError(
        f"argument `{name}` of kernel `{kernel}` must be a{'n' if not dimensions else ''} {dimensions}array of "
        f"{dtype!r} (got {describe(value)})",
        help=way_out,
    )


def _has_elements(array: np.ndarray[Any, Any], dtype: DType) -> bool:
    try:
        return is_laid_out_as(dtype_of(array.dtype), dtype)
    except KaioError:  # which has none of kaio's
        return False


def as_numpy(dtype: DType) -> str:
    """NumPy's dtype of these elements, as a user writes it."""
    name = str(dtype.numpy)
    if dtype.kind == "s":
        return "dtype"  # whatever the user calls it
    return f"np.{name}" if name != "bool" and hasattr(np, name) else f"kaio.{dtype!r}.numpy"


def _seen_as(kernel: str, name: str, dtype: DType, value: GpuBuffer[Any]) -> GpuBuffer[Any]:
    """The buffer of a structured dtype as one of a record that is laid out the same, and has vectors."""
    __tracebackhide__ = is_message
    try:
        return value.view(dtype)
    except BufferClosedError as problem:
        raise named(problem, kernel, name) from None
    except KaioError as problem:
        mistake = problem.mistakes[0]
        raise LaunchError(f"argument `{name}` of kernel `{kernel}`: {mistake.what}", help=mistake.help) from None


def _wrong_device(kernel: str, name: str, device: Any, first: str, first_device: Any) -> LaunchError:
    return LaunchError(
        f"argument `{name}` of kernel `{kernel}` is on {device}, but argument `{first}` is on {first_device}",
        help=f"copy one over, for example `{first}.device.alloc_from({name}.to_host())`",
    )


def _foreign(kernel: str, name: str, dtype: DType, access: Access, value: Any) -> GpuBuffer[Any]:
    """The buffer over a foreign array's memory; a host array and what is no array are refused with the way out."""
    if isinstance(value, np.ndarray | np.generic):
        converted = f"{name}.filled(…)" if is_masked(value) else name
        if value.dtype != dtype.numpy and dtype.kind not in "vs":
            converted += f".astype({as_numpy(dtype)})"
        raise LaunchError(
            f"argument `{name}` of kernel `{kernel}` must be a GpuBuffer of {dtype!r} (got {describe(value)})",
            help=f"copy it to a device: `{name} = device.alloc_from({converted})`",
        )
    buffer = adopted(kernel, name, value)
    if buffer is None:
        raise LaunchError(
            f"argument `{name}` of kernel `{kernel}` must be a GpuBuffer of {dtype!r} (got {describe(value)})",
            help=f"make one: `{name} = device.alloc_from(…)`",
        )
    return buffer


def adopted(kernel: str, name: str, value: Any) -> GpuBuffer[Any] | None:
    """The buffer over the memory of another library's array; None for what is no array."""
    __tracebackhide__ = is_message
    try:
        return adopt(value)
    except KaioError as problem:
        if type(problem) is not KaioError:
            raise  # not about this array but about its device
        mistake = problem.mistakes[0]
        raise LaunchError(
            f"argument `{name}` of kernel `{kernel}` cannot be used in place: {mistake.what}", help=mistake.help
        ) from problem
