"""Arrays of other libraries through NumPy's array interface and its CUDA counterpart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from kaio.dtypes import dtype_of
from kaio.errors import KaioError
from kaio.runtime.device import Device
from kaio.runtime.foreign import Foreign
from kaio.runtime.layout import contiguous_strides

__all__ = ["read_cuda_array_interface", "read_numpy"]


def read_numpy(array: Any, device: Device | None = None) -> Foreign | None:
    """Describe a NumPy array; None for anything else."""
    if not isinstance(array, np.ndarray):
        return None
    return _describe(array, array.__array_interface__, "cpu", 0, None)


def read_cuda_array_interface(array: Any, device: Device | None = None) -> Foreign | None:
    """Describe what has `__cuda_array_interface__`; None for what has not.

    The interface does not say which GPU it is: the one asked for, or the first.
    """
    interface = getattr(array, "__cuda_array_interface__", None)
    if interface is None:
        return None
    if interface.get("mask") is not None:
        raise KaioError(f"a {type(array).__name__} with a mask cannot be used", help="fill in what is masked first")
    ordinal = device.ordinal if device is not None and device.kind == "cuda" else 0
    stream = interface.get("stream")
    if stream is not None and (not isinstance(stream, int) or stream == 0):
        raise KaioError(f"a {type(array).__name__} names a stream that the interface forbids ({stream!r})")
    return _describe(array, interface, "cuda", ordinal, stream)


def _describe(
    array: Any, interface: Mapping[str, Any], kind: Literal["cpu", "cuda"], ordinal: int, stream: int | None
) -> Foreign:
    dtype = dtype_of(np.dtype(interface["typestr"]) if kind == "cuda" else array.dtype)
    shape = tuple(int(size) for size in interface["shape"])
    strides = interface.get("strides")
    pointer, read_only = interface["data"]
    return Foreign(
        kind,
        ordinal,
        int(pointer or 0),
        shape,
        contiguous_strides(shape, dtype.itemsize) if strides is None else tuple(int(stride) for stride in strides),
        dtype,
        read_only=bool(read_only),
        owner=array,
        stream=stream,
    )
