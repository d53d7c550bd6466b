"""The CUDA driver: the one file of the runtime that imports it, and its errors in words."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

from kaio.errors import DeviceNotFoundError

try:
    from cuda.bindings import driver
except ImportError as problem:
    raise DeviceNotFoundError(
        f"there is an NVIDIA driver, but the package `cuda-bindings` does not import ({problem})",
        help="install it for the driver's series: `pip install kaio-gpu[cu13]` or `kaio-gpu[cu12]`",
    ) from problem

__all__ = [
    "NOT_READY", "DriverError", "add_edges", "count_devices", "done", "driver", "is_sticky",
    "launch_host_function", "start",
]  # fmt: skip

_FIRST_WITH_HOST_FUNCTIONS = 10000  # CUDA 10.0: `cuLaunchHostFunc`

NOT_READY = driver.CUresult.CUDA_ERROR_NOT_READY

# After one of these nothing in the process can use the context again (measured: not even a reset recovers it).
_STICKY = frozenset(
    code
    for code in (
        getattr(driver.CUresult, f"CUDA_ERROR_{name}", None)
        for name in (
            "ASSERT", "CONTAINED", "CONTEXT_IS_DESTROYED", "DEINITIALIZED", "ECC_UNCORRECTABLE", "EXTERNAL_DEVICE",
            "HARDWARE_STACK_ERROR", "ILLEGAL_ADDRESS", "ILLEGAL_INSTRUCTION", "INVALID_ADDRESS_SPACE", "INVALID_PC",
            "LAUNCH_FAILED", "LAUNCH_TIMEOUT", "MISALIGNED_ADDRESS", "NVLINK_UNCORRECTABLE", "TENSOR_MEMORY_LEAK",
            "UNKNOWN",
        )
    )
    if code is not None
)  # fmt: skip


class DriverError(Exception):
    """A call that the driver refused: its code, its name, its words. Chained to what kaio raises."""

    def __init__(self, code: Any) -> None:
        self.code = int(code)
        self.name = _text(driver.cuGetErrorName, code) or f"error {self.code}"
        self.text = _text(driver.cuGetErrorString, code)
        super().__init__(f"{self.name} ({self.code}): {self.text}")

    def __reduce__(self) -> tuple[Any, ...]:
        return DriverError, (driver.CUresult(self.code),)


def _text(function: Any, code: Any) -> str:
    found = function(code)[1]
    return found.decode(errors="replace") if isinstance(found, bytes) else ""


def done(answer: tuple[Any, ...]) -> Any:
    """The value that a driver call answered, or DriverError."""
    if answer[0]:
        raise DriverError(answer[0])
    return answer[1] if len(answer) == 2 else answer[1:]


def add_edges(graph: Any, edges: list[tuple[Any, Any]]) -> tuple[Any, ...]:
    """Let nodes of a graph come after others: pairs of an earlier and a later one, of which there is no edge yet."""
    earlier, later = [one for one, _ in edges], [two for _, two in edges]
    # Bindings of CUDA 12 have the first version of the call, which takes no kinds of edges.
    kinds = () if driver.CUDA_VERSION < 13000 else (None,)
    answer: tuple[Any, ...] = driver.cuGraphAddDependencies(graph, earlier, later, *kinds, len(edges))
    return answer


def is_sticky(code: Any) -> bool:
    """Whether an error leaves the context unusable."""
    return code in _STICKY


def start() -> None:
    """Start the driver, or DeviceNotFoundError with its own reason."""
    try:
        done(driver.cuInit(0))
    except Exception as problem:  # the bindings raise classes of their own where the library does not load
        raise DeviceNotFoundError(
            f"the NVIDIA driver does not start: {problem}",
            help='see what `nvidia-smi` says; `Device("cpu")` runs the same kernels',
        ) from problem


def count_devices() -> int:
    """How many GPUs the driver has."""
    start()
    try:
        return int(done(driver.cuDeviceGetCount()))
    except DriverError as problem:
        raise DeviceNotFoundError(
            f"the NVIDIA driver does not say how many GPUs there are: {problem}",
            help='see what `nvidia-smi` says; `Device("cpu")` runs the same kernels',
        ) from problem


@functools.cache
def _host_function_launcher() -> Any:
    # The bindings would run Python around the function, in the driver's thread.
    address = int(done(driver.cuGetProcAddress(b"cuLaunchHostFunc", _FIRST_WITH_HOST_FUNCTIONS, 0))[0])
    return ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 3)(address)


def launch_host_function(stream: int, function: int, data: int) -> int:
    """Call a native function with `data` behind all work on a stream; what the driver says to it, 0 if it will."""
    return int(_host_function_launcher()(stream, function, data))
