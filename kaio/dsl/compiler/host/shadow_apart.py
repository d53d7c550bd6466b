"""A proof that threads keep apart in a buffer: each comes to the one element whose index is its place in the grid.

Where it holds, nothing needs to be kept of who was where. It is asked of every address that a kernel makes: the index
along each axis has to be `grid(n)` along an axis of the grid, the same at each access. That the indices are in range,
so that no two of them are one element, other checks see to.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llvmlite import ir as llvm

__all__ = ["Apart", "Axes", "grid_axes"]

Axes = tuple[str, ...]


class Apart:
    """What is known of each buffer of a kernel, by its number."""

    def __init__(self) -> None:
        self._found: dict[int, Axes | None] = {}

    def note(self, number: int, axes: Axes | None) -> None:
        """An access whose index along each axis is that of the grid along these; None of another one."""
        self._found[number] = axes if self._found.get(number, axes) == axes else None

    def axes(self, count: int) -> tuple[Axes | None, ...]:
        """The axes of the grid that tell the elements of each buffer apart; None where nobody knows."""
        return tuple(self._found.get(number) for number in range(count))


def grid_axes(pointer: Any, buffer: Any, sizes: list[Any], registers: Mapping[str, Any]) -> Axes | None:
    """The axes of the grid whose index an address of a C-contiguous buffer has, first axis first.

    buffer, sizes: its address and its sizes, as they are arguments of the function
    registers: the values of ``ctaid.x`` and so on
    """
    while isinstance(pointer, llvm.instructions.CastInstr):
        pointer = pointer.operands[0]
    if not isinstance(pointer, llvm.instructions.GEPInstr) or pointer.operands[0] is not buffer:
        return None
    rest, found = pointer.operands[1], []
    for size in reversed(sizes[1:]):
        # Elements in order: the index along the last axis, and the others times its size.
        if _name(rest) != "add":
            return None
        product, index = rest.operands
        if _name(product) != "mul" or _plain(product.operands[1]) is not size:
            return None
        found.append(_axis(index, registers))
        rest = product.operands[0]
    found.append(_axis(rest, registers))
    axes = tuple(axis for axis in reversed(found) if axis is not None)
    return axes if len(axes) == len(sizes) == len(set(axes)) else None


def _axis(index: Any, registers: Mapping[str, Any]) -> str | None:
    """The axis of which an index is the thread's place in the grid."""
    index = _plain(index)
    if _name(index) != "add" or _name(index.operands[0]) != "mul":
        return None
    block, size = map(_plain, index.operands[0].operands)
    thread = _plain(index.operands[1])
    for axis in "xyz":
        if (block, size, thread) == tuple(registers[f"{name}.{axis}"] for name in ("ctaid", "ntid", "tid")):
            return axis
    return None


def _plain(value: Any) -> Any:
    """A number, not widened."""
    while isinstance(value, llvm.instructions.CastInstr) and value.opname == "sext":
        value = value.operands[0]
    return value


def _name(value: Any) -> str:
    return value.opname if isinstance(value, llvm.instructions.Instruction) else ""
