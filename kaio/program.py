"""What a compiler hands to a device: a compiled kernel and the arguments it takes.

The compiler and the runtime meet in this one value and know nothing else of each other.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple

from kaio.dtypes import DType
from kaio.errors import Place
from kaio.print_abi import Line
from kaio.trace_abi import Watched

__all__ = [
    "SHARED_ALIGNMENT",
    "UNCHECKED",
    "Access",
    "Alike",
    "Argument",
    "Build",
    "CudaProgram",
    "DynamicArray",
    "Formula",
    "HostProgram",
    "Level",
    "PlacedArray",
    "Program",
    "Shadow",
    "Site",
    "aligned",
    "packs_by_bits",
]  # fmt: skip

SHARED_ALIGNMENT = 16
"""Every array in shared memory begins at a multiple of so many bytes: the widest access of a thread."""

Access = Literal["In", "Out", "InOut"]
Level = Literal["off", "bounds", "full"]


class Build(NamedTuple):
    """How a kernel is compiled, beside the types of its arguments: what is found while it runs, at the cost of time.

    A part of the key of its variants, which every launch looks up: a tuple, as those are hashed without a Python frame.

    check: the level (docs/host.md has a table of them)
    stepped: every thread can be started by itself and in any order, which a schedule needs (CPU device only)
    traced: the values of a thread are told line by line (CPU device only)
    covered: each write to an `Out` buffer is noted (CPU device only)
    counted: each turn of a loop is counted where it begins, as fuel has it (CPU device only)
    """

    check: Level = "bounds"
    stepped: bool = False
    traced: bool = False
    covered: bool = False
    counted: bool = False


UNCHECKED = Build("off")


@dataclass(frozen=True)
class Argument:
    """One run-time argument of a kernel: a buffer (`ndim` 0 to 4) or a scalar (`ndim` is None).

    A buffer that is not `strided` is C-contiguous.
    """

    name: str
    dtype: DType
    ndim: int | None = None
    access: Access = "In"
    strided: bool = False

    @property
    def is_buffer(self) -> bool:
        """True for a buffer, False for a scalar."""
        return self.ndim is not None

    def __str__(self) -> str:
        if self.ndim is None:
            return f"{self.name}: {self.dtype!r}"
        dimensions = "" if self.ndim == 1 and not self.strided else f", D{self.ndim}"
        return f"{self.name}: {self.access}[{self.dtype!r}{dimensions}{', Strided' * self.strided}]"


@dataclass(frozen=True)
class DynamicArray:
    """An array in shared memory whose size a launch says."""

    name: str
    dtype: DType

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype!r}"


def aligned(nbytes: int) -> int:
    """The next place in shared memory at which an array may begin.

    >>> aligned(0), aligned(20)
    (0, 32)
    """
    return -(-nbytes // SHARED_ALIGNMENT) * SHARED_ALIGNMENT


@dataclass(frozen=True)
class Site:
    """A numbered place in a program: where a thread waits, or what it reports when a check fails.

    Of an index, `text` is the array's name, `is_fixed` says that its size is known when compiling, and `written` how
    the source has the index: ``from_end`` a negative literal, ``u32`` or ``u64`` unsigned, ``+3`` three before the one
    that was checked, otherwise signed.
    Of a warp operation, `text` is its name and `words` how many it exchanges.
    """

    kind: str
    place: Place
    trace: tuple[Place, ...] = ()
    text: str = ""
    axis: int = 0
    reach: int = 0
    is_fixed: bool = False
    written: str = ""
    words: int = 0


@dataclass(frozen=True)
class Program:
    """A kernel compiled for one target, one specialisation and one index width.

    The argument block has the layout of a C struct: for a buffer a pointer and `ndim` sizes of
    `index_bits` each (of a strided one then as many strides, in elements), for a scalar its value (a bool is one byte,
    and what C has no type for its bits); then, for each array of `dynamic`, its offset in bytes and its size in
    elements, as 32-bit numbers.

    shared_nbytes: of the arrays in shared memory whose sizes are known when compiling
    dynamic: those whose sizes a launch says, in the order in which they lie behind each other
    prints: the lines it prints
    waits_for_grid: whether a thread may wait for all of the grid
    sites: places where it can fail or wait, by their numbers; of a GPU's program only if it is checked
    """

    name: str
    target: str
    arguments: tuple[Argument, ...]
    index_bits: Literal[32, 64]
    shared_nbytes: int
    dynamic: tuple[DynamicArray, ...] = field(default=(), kw_only=True)
    prints: tuple[Line, ...] = field(default=(), kw_only=True, repr=False)
    waits_for_grid: bool = field(default=False, kw_only=True)
    sites: tuple[Site, ...] = field(default=(), kw_only=True, repr=False)

    @property
    def dynamic_start(self) -> int:
        """The offset at which the arrays of `dynamic` begin: the static arrays lie before them, in one memory."""
        return aligned(self.shared_nbytes)

    @cached_property
    def block(self) -> struct.Struct:
        """Packs the argument block: pointers as int, sizes, scalars, in the order of `arguments`."""
        size = "i" if self.index_bits == 32 else "q"
        codes = "".join(
            _code(a.dtype) if a.ndim is None else "P" + size * a.ndim * (1 + a.strided) for a in self.arguments
        )
        return struct.Struct("@" + codes + "ii" * len(self.dynamic))


def packs_by_bits(dtype: DType) -> bool:
    """Whether a scalar goes into the argument block as its bits, because `struct` does not know the type."""
    return dtype.is_float and dtype.numpy.char not in "efd"


def _code(dtype: DType) -> str:
    if packs_by_bits(dtype):
        return {8: "B", 16: "H"}[dtype.bits]
    return (
        "?"
        if dtype.kind == "b"
        else dtype.numpy.char
        if dtype.bits < 64 or dtype.is_float
        else {"i": "q", "u": "Q"}[dtype.kind]
    )


@dataclass(frozen=True)
class CudaProgram(Program):
    """PTX text, and the cubin linked from it for `target` (for example ``sm_90``).

    has_static: the static arrays have their own memory; above 48 KiB they lie at the front of the dynamic one, for of
    static memory no block has more
    """

    ptx: str = field(repr=False)
    cubin: bytes = field(repr=False)
    has_static: bool = field(default=True, kw_only=True)

    @property
    def dynamic_start(self) -> int:
        """The offset in dynamic memory at which the arrays of `dynamic` begin."""
        return 0 if self.has_static else aligned(self.shared_nbytes)


@dataclass(frozen=True)
class PlacedArray:
    """An array whose shape is known when compiling, and where it lies, in bytes: in shared memory, or a thread's own.

    What kaio keeps for operations of its own has a name that no variable can have.
    """

    name: str
    offset: int
    dtype: DType
    shape: tuple[int, ...]


Formula = int | str | tuple[Any, ...]
"""A number that a launch knows for each thread: itself; ``tid.x``, ``ctaid.x``, ``ntid.x``, ``nctaid.x`` and so on, or
``thread``, its number in the block; ``("argument", k)``, the number at that position of the argument block;
``("range", start, stop, step)``, what a loop is at; an operator and its operands, ``("+", a, b)``, of ``+ - * << >> &``
and ``<``, of which those of bits have numbers on the right."""


@dataclass(frozen=True)
class Alike:
    """What a launch has to bear out so that all of its blocks do alike in memory that threads share.

    same: what must not depend on the block
    places: of each buffer the numbers of all elements that threads come to, which must be others in each block; empty
        where they do not matter, None where only `Shadow.apart` may tell
    """

    same: tuple[Formula, ...]
    places: tuple[tuple[Formula, ...] | None, ...]


@dataclass(frozen=True)
class Shadow:
    """What the runtime must know of a program that was built with ``check="full"``.

    code: the rules, as object code
    granule: the smallest part of shared memory that is accessed by itself, in bytes
    local: the arrays of each thread's own
    apart: of each buffer, the axes of the grid whose index is the index of the elements that a thread comes to alone
        (``x256``: if blocks have 256 threads along it); None where that is not so
    orders: threads may order themselves by more than barriers of all, of which the runtime is told
    in_part: some may know of an access and others of their warp or block not
    alike: what lets one block of a launch stand for all; None where nothing does
    """

    code: bytes = field(repr=False)
    granule: int
    local: tuple[PlacedArray, ...]
    apart: tuple[tuple[str, ...] | None, ...] = ()
    orders: bool = False
    in_part: bool = False
    alike: Alike | None = None


@dataclass(frozen=True)
class HostProgram(Program):
    """Native code of one kernel for the CPU device, as relocatable object bytes, with its sites.

    `scheduler` is the object code of the block scheduler; `frame_nbytes` is the coroutine frame of one
    thread, 0 where no thread of the kernel ever waits; `watched` is of a kernel that was compiled to be watched.
    `straight` is how many statements a thread does at most, 0 where it has loops or nobody knows. `shared` are the
    static arrays in shared memory.
    """

    code: bytes = field(repr=False)
    scheduler: bytes = field(repr=False)
    frame_nbytes: int
    watched: Watched | None = field(default=None, kw_only=True, repr=False)
    straight: int = field(default=0, kw_only=True)
    shared: tuple[PlacedArray, ...] = field(default=(), kw_only=True)
    shadow: Shadow | None = field(default=None, kw_only=True, repr=False)
