"""kaio: typed GPU kernels in Python, compiled to PTX and run natively on the CPU."""

from kaio.dsl.atomic import atomic_add
from kaio.dsl.function import Func, func
from kaio.dsl.index import block_dim, block_idx, grid, grid_dim, thread_idx
from kaio.dsl.memory import local_mem, shared_mem
from kaio.dsl.numeric import fma, maximum, minimum, rsqrt
from kaio.dsl.sync import bar_sync
from kaio.dsl.types import D0, D1, D2, D3, D4, Const, In, InOut, Out
from kaio.dtypes import DType, bool_, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64
from kaio.errors import (
    BufferClosedError,
    CompileError,
    CompletionTimeout,
    ContextPoisonedError,
    DeviceNotFoundError,
    InternalError,
    KaioError,
    KernelFault,
    KernelSyntaxError,
    KernelTypeError,
    LaunchError,
    LibraryError,
    OutOfMemoryError,
    PrecisionWarning,
    StaleBufferError,
    UnsupportedFeatureError,
)
from kaio.kernel import Kernel, kernel
from kaio.runtime import Completion, Device, GpuBuffer, Stream, as_completed, devices, gather

__all__ = [  # noqa: RUF022 - grouped by meaning
    "D0", "D1", "D2", "D3", "D4", "Const", "DType", "In", "InOut", "Out",
    "bool_", "f32", "f64", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64",
    "Func", "Kernel", "func", "kernel",
    "block_dim", "block_idx", "grid", "grid_dim", "thread_idx",
    "atomic_add", "bar_sync", "local_mem", "shared_mem",
    "fma", "maximum", "minimum", "rsqrt",
    "Completion", "Device", "GpuBuffer", "Stream", "as_completed", "devices", "gather",
    "BufferClosedError", "CompileError", "CompletionTimeout", "ContextPoisonedError", "DeviceNotFoundError",
    "InternalError", "KaioError", "KernelFault", "KernelSyntaxError", "KernelTypeError", "LaunchError", "LibraryError",
    "OutOfMemoryError", "PrecisionWarning", "StaleBufferError", "UnsupportedFeatureError",
]  # fmt: skip
