"""An address outside of all memory of a launch, in words: whose neighbour it is, and how far away.

Kernels that run as PTX know no arrays; what their addresses may be is what compute-sanitizer's memcheck knows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kaio.dtypes import DType
from kaio.program import Program, Site

__all__ = ["outside"]

_VERBS = {"read": "reads", "write": "writes", "atomic": "updates"}


@dataclass(frozen=True)
class _Stretch:
    """A buffer of the launch: where it starts, and how many bytes its elements span."""

    name: str
    dtype: DType
    start: int
    nbytes: int

    def distance(self, address: int, nbytes: int) -> int:
        """How many bytes lie between an access and the buffer; less than 0 for one that is partly in it."""
        return max(self.start - address - nbytes, address - self.start - self.nbytes)

    def position(self, address: int, nbytes: int) -> str:
        """Where an access is that is not in the buffer."""
        side = "before the start of" if address < self.start else "behind the end of"
        away = self.distance(address, nbytes)
        if away < 0:
            return f"across {side.partition(' ')[2]} `{self.name}`"
        return f"{f'{away} bytes' if away else 'right'} {side} `{self.name}`"


def outside(program: Program, site: Site, address: int, limit: int, arguments: bytes) -> tuple[str, dict[str, Any]]:
    """What a thread did at an address that it may not touch, and the facts of the fault.

    site: its `text` is the state space, `words` the bytes of the access and `written` what it was
    limit: how many bytes a space has in which addresses count from 0
    """
    what = f"{_VERBS[site.written]} {site.words} byte{'s' * (site.words > 1)}"
    facts: dict[str, Any] = {"access": "atomic" if site.written == "atomic" else site.written}
    if site.text in ("shared", "shared::cta", "local", "const"):
        owner = {"local": "the thread's local", "const": "constant"}.get(site.text, "the block's shared")
        signed = address - (1 << 64) if address >> 63 else address
        where = f"before the start of {owner} memory" if signed < 0 else f"at byte {signed} of {owner} memory"
        return f"{what} {where}, which has {limit} bytes", {**facts, "index": signed, "size": limit}
    address &= (1 << 64) - 1
    near = min(_stretches(program, arguments), key=lambda s: s.distance(address, site.words), default=None)
    if near is None:
        return f"{what} at address {address:#x}, which is in no buffer", facts
    itemsize = near.dtype.itemsize
    index, size = (address - near.start) // itemsize, near.nbytes // itemsize
    facts |= {"array": near.name, "index": index, "size": size}
    where = near.position(address, site.words)
    return f"{what} outside of all buffers, {where} (element {index} of {size})", facts


def _stretches(program: Program, arguments: bytes) -> Iterator[_Stretch]:
    """The buffers, read out of the packed arguments."""
    values = iter(program.block.unpack(arguments[: program.block.size]))
    for argument in program.arguments:
        start = next(values)
        if argument.ndim is None:
            continue
        sizes = [next(values) for _ in range(argument.ndim)]
        strides = [next(values) for _ in range(argument.ndim)] if argument.strided else _contiguous(sizes)
        reach = [(size - 1) * stride for size, stride in zip(sizes, strides, strict=True)]
        low, high = sum(min(0, r) for r in reach), sum(max(0, r) for r in reach)
        itemsize = argument.dtype.itemsize
        nbytes = (high - low + 1) * itemsize if all(sizes) else 0
        yield _Stretch(argument.name, argument.dtype, start + low * itemsize, nbytes)


def _contiguous(sizes: list[int]) -> list[int]:
    """The strides, in elements, of a C-contiguous array.

    >>> _contiguous([2, 3, 4])
    [12, 4, 1]
    """
    strides = [1]
    for size in reversed(sizes[1:]):
        strides.insert(0, strides[0] * size)
    return strides[: len(sizes)]
