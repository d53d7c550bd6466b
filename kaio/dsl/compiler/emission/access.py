"""`Access`: what a thread does to memory that the kernel's author knows, said to the target with each access."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from kaio.dsl.values import ArrayType, BufferType
from kaio.dtypes import DType

__all__ = ["Access", "Order", "Scope", "Space", "access_to"]

Space = Literal["global", "shared", "local", "constant", "cluster"]
Scope = Literal["block", "device", "system"]
Order = Literal["relaxed", "acquire", "release", "acq_rel"]


@dataclass(frozen=True)
class Access:
    """One access of one thread; where it is and how many bytes, the address says that goes with it.

    array: what the source calls the memory
    dtype: of its elements, of which this may be a part or several
    how: the qualifier of PTX with which it is made (``cg``, ``volatile``; ``async`` of a copy that `cp_async` begins),
        empty for a plain one
    read_only: of memory that nobody writes while the kernel runs
    scope, order: for whom an atomic update is one, and what it orders
    overwrites: of an atomic update that does not look at what was there
    spans: offset and bytes of the parts that are looked at of what is loaded at once; None of all of it
    """

    kind: Literal["read", "write", "atomic"]
    space: Space
    array: str
    dtype: DType
    how: str = ""
    read_only: bool = False
    scope: Scope = "device"
    order: Order = "relaxed"
    overwrites: bool = False
    spans: tuple[tuple[int, int], ...] | None = None

    def to_lanes(self, dtype: DType, lanes: Iterable[int]) -> Access:
        """The same to these lanes of a vector of that type."""
        size = dtype.parts[0][1].itemsize
        return replace(self, spans=tuple((lane * size, size) for lane in lanes))

    @property
    def reads(self) -> bool:
        """Whether what was there has to be something."""
        return self.kind != "write" and not self.overwrites

    @property
    def is_strong(self) -> bool:
        """Whether other threads may make strong accesses to the same place at the same time (PTX memory model)."""
        return self.kind == "atomic" or self.how == "volatile"


def access_to(
    kind: Literal["read", "write", "atomic"], type_: BufferType | ArrayType, array: str, how: str = ""
) -> Access:
    """An access to an element of a buffer or array of that type."""
    read_only = isinstance(type_, BufferType) and type_.access == "In"
    return Access(kind, type_.space, array, type_.dtype, how, read_only)
