"""Which elements of the `Out` buffers of a launch were written, and how often: see `kaio/coverage_abi.py`."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kaio import coverage_abi as abi
from kaio.dtypes import DType
from kaio.errors import KernelFault, Mistake, Place
from kaio.program import HostProgram, Site
from kaio.runtime.host_memory import Written
from kaio.structs import StructDType

__all__ = ["Coverage"]

Dim3 = tuple[int, int, int]


@dataclass
class _Output:
    """An `Out` buffer: its map, byte by byte from its lowest address on, and who wrote its elements."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    start: int
    written: np.ndarray[Any, Any]
    who: np.ndarray[Any, Any]
    offset: int
    strides: tuple[int, ...]

    @property
    def row(self) -> bytes:
        """The row of the table."""
        at = self.start, self.start + self.written.size, self.written.ctypes.data, self.who.ctypes.data
        return abi.ROW.pack(*at, self.dtype.itemsize)

    @property
    def bytes(self) -> np.ndarray[Any, Any]:
        """The map by elements, and along the last axis their bytes."""
        strides = (*self.strides, 1)
        shape = (*self.shape, self.dtype.itemsize)
        return np.ndarray(shape, np.uint8, self.written.data, self.offset, strides)

    @property
    def is_complete(self) -> bool:
        """Whether every byte was written once, as most often is; a buffer with gaps is looked at element by element."""
        return bool((self.written == abi.WRITTEN).all())

    def writers(self, index: tuple[int, ...]) -> tuple[int, int]:
        """Who wrote an element first and who wrote it again, as in the table."""
        place = self.offset + sum(at * step for at, step in zip(index, self.strides, strict=True))
        first, second = self.who[place // self.dtype.itemsize]
        return int(first), int(second)


class Coverage:
    """The maps of one launch. `address` is that of the table; `fault` says, after the launch, what is wrong."""

    def __init__(self, program: HostProgram, arguments: Any, grid: Dim3, block: Dim3) -> None:
        self._program, self._grid, self._block = program, grid, block
        self._outputs = list(_outputs(program, program.block.unpack_from(arguments)))
        rows = b"".join(output.row for output in self._outputs)
        self._table = ctypes.create_string_buffer(abi.COUNT.pack(len(self._outputs)) + rows)
        self.address = ctypes.addressof(self._table)

    def write_down(self, unwritten: Sequence[Written | None]) -> None:
        """Say where the launch wrote of memory that held anything before."""
        for output in self._outputs:
            for written in unwritten:
                if written is not None and output.start in written:
                    written.note(output.start, output.written != 0)

    def fault(self) -> KernelFault | None:
        """The first element that was not written, else the first that was written more than once; None of none."""
        for output in self._outputs:
            if output.is_complete:
                continue
            for find in (self._never, self._again):
                if (found := find(output)) is not None:
                    return found
        return None

    def _never(self, output: _Output) -> KernelFault | None:
        places = _places(output.dtype)
        written = output.bytes & (abi.WRITTEN | abi.ATOMIC) != 0
        missing = ~written[..., places].all(-1)
        if not missing.any():
            return None
        index, count = _first(missing)
        part = _part(output.dtype, written[index]) if written[index][places].any() else ""
        site = self._site_of(output.name)
        shown = f"{_element(output.name, index)}{part}"
        what = f"`{shown}` is never written by kernel `{self._program.name}`\n  {_number(count, missing)} not written"
        way_out = f"{self._launched()}: look at the index and the guard of the store, and at the grid"
        place = site.place if site is not None else None
        trace = site.trace if site is not None else ()
        return self._fault([Mistake(what, place, way_out, trace)], output.name, index, count)

    def _again(self, output: _Output) -> KernelFault | None:
        again = (output.bytes & abi.AGAIN != 0).any(-1)
        if not again.any():
            return None
        index, count = _first(again)
        first, second = (self._writer(who) for who in output.writers(index))
        name = _element(output.name, index)
        what = (
            f"`{name}` is written more than once by kernel `{self._program.name}`\n"
            f"  {_number(count, again)} written more than once; {second.shown} writes it here, again"
        )
        other = f"{first.shown} has written it here"
        way_out = f"let one thread write `{name}`, once; where it adds up, annotate `{output.name}` as InOut"
        mistakes = [
            Mistake(what, second.site.place, trace=second.site.trace),
            Mistake(other, first.site.place, way_out, first.site.trace),
        ]
        facts = {
            "thread": second.thread, "block": second.block, "other_thread": first.thread, "other_block": first.block,
            "other_line": first.site.place.line,
        }  # fmt: skip
        return self._fault(mistakes, output.name, index, count, **facts)

    def _fault(
        self, mistakes: list[Mistake], array: str, index: tuple[int, ...], count: int, **facts: Any
    ) -> KernelFault:
        at = index[0] if len(index) == 1 else index
        place: Place | None = mistakes[0].place
        line = None if place is None else place.line
        facts = {"kernel": self._program.name, "array": array, "index": at, "count": count, "line": line, **facts}
        return KernelFault(mistakes, kind="coverage", **facts)

    def _site_of(self, array: str) -> Site | None:
        """The first place where an array of that name is written."""
        return next((site for site in self._program.sites if site.kind == "write" and site.text == array), None)

    def _writer(self, who: int) -> _Writer:
        number, site = (who >> abi.SITE_BITS) - 1, self._program.sites[who & (1 << abi.SITE_BITS) - 1]
        threads = self._block[0] * self._block[1] * self._block[2]
        return _Writer(_position(number % threads, self._block), _position(number // threads, self._grid), site)

    def _launched(self) -> str:
        return f"the launch has {self._grid} blocks of {self._block} threads"


@dataclass(frozen=True)
class _Writer:
    thread: Dim3
    block: Dim3
    site: Site

    @property
    def shown(self) -> str:
        return f"thread {self.thread} of block {self.block}"


def _outputs(program: HostProgram, values: tuple[Any, ...]) -> Iterator[_Output]:
    """The `Out` buffers of a launch that have elements, out of its argument block."""
    rest = iter(values)
    for argument in program.arguments:
        address = next(rest)
        if argument.ndim is None:
            continue
        shape = tuple(next(rest) for _ in range(argument.ndim))
        steps = tuple(next(rest) for _ in shape) if argument.strided else _in_order(shape)
        if argument.access != "Out" or 0 in shape:
            continue
        itemsize = argument.dtype.itemsize
        reach = [step * (size - 1) * itemsize for step, size in zip(steps, shape, strict=True)]
        low, high = sum(min(0, r) for r in reach), sum(max(0, r) for r in reach) + itemsize
        written, who = np.zeros(high - low, np.uint8), np.zeros(((high - low) // itemsize, 2), np.int64)
        strides = tuple(step * itemsize for step in steps)
        yield _Output(argument.name, argument.dtype, shape, address + low, written, who, -low, strides)


def _in_order(shape: tuple[int, ...]) -> tuple[int, ...]:
    steps: list[int] = []
    step = 1
    for size in reversed(shape):
        steps.insert(0, step)
        step *= size
    return tuple(steps)


def _fields(dtype: DType, start: int = 0, name: str = "") -> Iterator[tuple[str, int, int]]:
    """The parts of an element that lie side by side: how each is named, its first byte and how many it has."""
    if isinstance(dtype, StructDType):
        for field in dtype.fields:
            for k, position in enumerate(np.ndindex(field.shape)):
                at = "".join(f"[{i}]" for i in position)
                yield from _fields(
                    field.dtype, start + field.offset + k * field.dtype.itemsize, f"{name}.{field.name}{at}"
                )
    elif dtype.parts:
        for part, of in dtype.parts:
            yield from _fields(of, start, f"{name}.{part}")
            start += of.itemsize
    else:
        yield name, start, dtype.itemsize


def _places(dtype: DType) -> list[int]:
    """The bytes of an element that hold something: not those between the fields."""
    return [start + k for _, start, count in _fields(dtype) for k in range(count)]


def _part(dtype: DType, written: np.ndarray[Any, Any]) -> str:
    """The first part of an element that was not written."""
    return next(name for name, start, count in _fields(dtype) if not written[start : start + count].all())


def _first(marked: np.ndarray[Any, Any]) -> tuple[tuple[int, ...], int]:
    """The first index that is marked, and how many are."""
    index = np.unravel_index(int(np.argmax(marked)), marked.shape) if marked.ndim else ()
    return tuple(map(int, index)), int(np.count_nonzero(marked))


def _element(name: str, index: tuple[int, ...]) -> str:
    return f"{name}[{', '.join(map(str, index)) or '()'}]"


def _number(count: int, of: np.ndarray[Any, Any]) -> str:
    return f"{count:,} of {of.size:,} element{'s' * (of.size != 1)} {'is' if count == 1 else 'are'}"


def _position(number: int, shape: Dim3) -> Dim3:
    x, y, _ = shape
    return number % x, number // x % y, number // x // y
