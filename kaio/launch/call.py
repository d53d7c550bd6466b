"""`Call`: what one set of arguments comes to."""

from __future__ import annotations

from typing import Any

from kaio.dtypes import DType
from kaio.program import Access
from kaio.runtime import Device, GpuBuffer

__all__ = ["Call"]


class Call:
    """What one set of arguments comes to: the values to pack, the buffers in use, what specialises the kernel.

    Most launches set little of it, so that what has a default stays with the class: a launch makes one of these.
    """

    packed: list[Any]  # pointers and sizes of the buffers, scalars as given, in the order of the parameters
    uses: list[tuple[GpuBuffer[Any], Access]]
    device: Device | None = None  # of the buffers; None without any
    consts: tuple[Any, ...] = ()
    dtypes: tuple[DType, ...] = ()  # of the TypeVars of a generic kernel
    key: tuple[Any, ...] = ()  # tells specialisations apart: dtypes, and constants with floats by their bits
    wide: bool = False  # a size needs i64

    def __init__(self) -> None:
        self.packed = []
        self.uses = []
