"""torch and CuPy: their arrays without the round trip through a capsule, and the stream they work on.

DLPack lets kaio come after the other library once, but not the other library after kaio. With the library's current
stream known, each launch comes after what is on it, and its next work after the launch.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

from kaio.errors import KaioError
from kaio.interop.array_interface import read_cuda_array_interface
from kaio.interop.dlpack import read_dlpack
from kaio.runtime.device import Device
from kaio.runtime.foreign import Foreign, handle_of

__all__ = ["read_cupy", "read_torch"]


def read_torch(array: Any, device: Device | None = None) -> Foreign | None:
    """Describe a tensor of torch on a GPU; None for anything else."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(array, torch.Tensor) or array.device.type != "cuda":
        return None
    if array.requires_grad:
        raise KaioError("a tensor that requires a gradient cannot be shared", help="pass `x.detach()`")
    place = array.device
    # -1: torch lets no stream wait. Each launch joins the stream that is torch's current one then.
    foreign = read_dlpack(array, device, on=-1)
    return foreign and replace(foreign, stream=lambda: int(torch.cuda.current_stream(place).cuda_stream))


def read_cupy(array: Any, device: Device | None = None) -> Foreign | None:
    """Describe an array of CuPy; None for anything else."""
    cupy = sys.modules.get("cupy")
    if cupy is None or not isinstance(array, cupy.ndarray):
        return None

    def current() -> int:
        return int(cupy.cuda.get_current_stream().ptr)

    foreign = read_dlpack(array, device, on=handle_of(current)) or read_cuda_array_interface(array, device)
    return foreign and replace(foreign, stream=current)
