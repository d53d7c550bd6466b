"""What a compiler hands to a device: a compiled kernel and the arguments it takes.

The compiler and the runtime meet in this one value and know nothing else of each other.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from kaio.dtypes import DType
from kaio.errors import Place

__all__ = ["Access", "Argument", "CudaProgram", "HostProgram", "Program", "Site"]

Access = Literal["In", "Out", "InOut"]


@dataclass(frozen=True)
class Argument:
    """One run-time argument of a kernel: a buffer (`ndim` 0 to 4) or a scalar (`ndim` is None)."""

    name: str
    dtype: DType
    ndim: int | None = None
    access: Access = "In"

    @property
    def is_buffer(self) -> bool:
        """True for a buffer, False for a scalar."""
        return self.ndim is not None

    def __str__(self) -> str:
        if self.ndim is None:
            return f"{self.name}: {self.dtype!r}"
        return f"{self.name}: {self.access}[{self.dtype!r}{'' if self.ndim == 1 else f', D{self.ndim}'}]"


@dataclass(frozen=True)
class Program:
    """A kernel compiled for one target, one specialisation and one index width.

    The argument block has the layout of a C struct: for a buffer a pointer and `ndim` sizes of
    `index_bits` each, for a scalar its value (a bool is one byte).
    """

    name: str
    target: str
    arguments: tuple[Argument, ...]
    index_bits: Literal[32, 64]
    shared_nbytes: int

    @cached_property
    def block(self) -> struct.Struct:
        """Packs the argument block: pointers as int, sizes, scalars, in the order of `arguments`."""
        size = "i" if self.index_bits == 32 else "q"
        codes = "".join(_code(a.dtype) if a.ndim is None else "P" + size * a.ndim for a in self.arguments)
        return struct.Struct("@" + codes)


def _code(dtype: DType) -> str:
    return (
        "?"
        if dtype.kind == "b"
        else dtype.numpy.char
        if dtype.bits < 64 or dtype.is_float
        else {"i": "q", "u": "Q"}[dtype.kind]
    )


@dataclass(frozen=True)
class CudaProgram(Program):
    """PTX text, and the cubin linked from it for `target` (for example ``sm_90``)."""

    ptx: str = field(repr=False)
    cubin: bytes = field(repr=False)


@dataclass(frozen=True)
class Site:
    """A numbered place in a host program: where a thread waits, or what it reports when a check fails.

    Of an index, `text` is the array's name, `is_fixed` says that its size is known when compiling, and `written` how
    the source has the index: ``from_end`` a negative literal, ``u32`` or ``u64`` unsigned, otherwise signed.
    """

    kind: str
    place: Place
    trace: tuple[Place, ...] = ()
    text: str = ""
    axis: int = 0
    reach: int = 0
    is_fixed: bool = False
    written: str = ""


@dataclass(frozen=True)
class HostProgram(Program):
    """Native code of one kernel for the CPU device, as relocatable object bytes, with its sites.

    `scheduler` is the object code of the block scheduler; `frame_nbytes` is the coroutine frame of one
    thread, 0 where no thread of the kernel ever waits.
    """

    code: bytes = field(repr=False)
    scheduler: bytes = field(repr=False)
    sites: tuple[Site, ...] = field(repr=False)
    frame_nbytes: int
