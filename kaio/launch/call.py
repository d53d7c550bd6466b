"""`Call`: what one set of arguments comes to."""

from __future__ import annotations

from typing import Any

from kaio.dtypes import DType
from kaio.program import Access
from kaio.runtime import Device, GpuBuffer

__all__ = ["Call"]


class Call:
    """What one set of arguments comes to: the values to pack, the buffers in use, what specialises the kernel."""

    __slots__ = ("consts", "device", "dtypes", "key", "names", "packed", "uses", "wide")

    packed: list[Any]  # pointers and sizes of the buffers, scalars as given, in the order of the parameters
    uses: list[tuple[GpuBuffer, Access]]
    names: list[str]  # of the buffers
    device: Device | None  # of the buffers; None without any
    consts: list[Any]
    key: tuple[Any, ...]  # tells specialisations apart: constants (floats by their bits) and generic dtypes
    dtypes: tuple[DType, ...]
    wide: bool  # a size needs i64

    def __init__(self, dtypes: tuple[DType, ...]) -> None:
        self.packed, self.uses, self.names, self.consts = [], [], [], []
        self.device, self.key, self.dtypes, self.wide = None, dtypes, dtypes, False
