"""Devices, buffers, streams and completions."""

from kaio.runtime.buffer import GpuBuffer
from kaio.runtime.completion import Completion
from kaio.runtime.device import Device, DeviceStats, MemoryInfo
from kaio.runtime.envelope import run
from kaio.runtime.graph import Graph
from kaio.runtime.limits import Limits
from kaio.runtime.opening import devices
from kaio.runtime.several import as_completed, gather
from kaio.runtime.stream import PreparedLaunch, Stream

__all__ = [
    "Completion", "Device", "DeviceStats", "GpuBuffer", "Graph", "Limits", "MemoryInfo", "PreparedLaunch", "Stream",
    "as_completed", "devices", "gather", "run",
]  # fmt: skip
