"""A proof that threads keep apart in a buffer: each comes to the one element whose index is its place in the grid.

Where it holds, nothing needs to be kept of who was where. It is asked of every address that a kernel makes: the index
along each axis has to be `grid(n)` along an axis of the grid, the same at each access, or what a loop makes of that
which goes on by as many as the grid has threads along that axis. That the indices are in range, so that no two of them
are one element, other checks see to.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llvmlite import ir as llvm

__all__ = ["Apart", "Axes", "root_of"]

Axes = tuple[str, ...]
"""An axis of the grid for each of the buffer's: ``x``, or ``x256`` where that is so if blocks have 256 threads."""


class Apart:
    """What is known of each buffer of a kernel, by its number."""

    def __init__(self) -> None:
        self._found: dict[int, Axes | None] = {}
        self._loops: dict[int, tuple[Any, str]] = {}  # the axis of the index of a loop, by the value, which is kept

    def note_range(self, value: Any, start: Any, step: Any, registers: Mapping[str, Any]) -> None:
        """A loop over the places that a thread has if the grid is laid over a buffer again and again."""
        axis = self._axis(start, registers)
        if axis is not None and _is_product(_plain(step), registers[f"ntid.{axis[0]}"], registers[f"nctaid.{axis[0]}"]):
            self._loops[id(value)] = value, axis

    def note(self, number: int, axes: Axes | None) -> None:
        """An access whose index along each axis is that of the grid along these; None of another one."""
        self._found[number] = axes if self._found.get(number, axes) == axes else None

    def axes(self, count: int) -> tuple[Axes | None, ...]:
        """The axes of the grid that tell the elements of each buffer apart; None where nobody knows."""
        return tuple(self._found.get(number) for number in range(count))

    def grid_axes(self, pointer: Any, buffer: Any, sizes: list[Any], registers: Mapping[str, Any]) -> Axes | None:
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
            found.append(self._axis(index, registers))
            rest = product.operands[0]
        found.append(self._axis(rest, registers))
        axes = tuple(axis for axis in reversed(found) if axis is not None)
        return axes if len(axes) == len(sizes) == len({axis[0] for axis in axes}) else None

    def _axis(self, index: Any, registers: Mapping[str, Any]) -> str | None:
        """The axis of which an index is the thread's place in the grid, or a place that only it has."""
        index = _plain(index)
        if id(index) in self._loops:
            return self._loops[id(index)][1]
        if _name(index) != "add":
            return None
        for product, thread in (index.operands, reversed(index.operands)):
            for axis in "xyz":
                block, size = registers[f"ctaid.{axis}"], registers[f"ntid.{axis}"]
                if _plain(thread) is not registers[f"tid.{axis}"]:
                    continue
                if _is_product(_plain(product), block, size):
                    return axis
                wanted = _times(_plain(product), block)
                if isinstance(wanted, llvm.Constant) and isinstance(wanted.constant, int):
                    return f"{axis}{wanted.constant}"
        return None


def root_of(pointer: Any) -> Any:
    """What an address was computed from."""
    while isinstance(pointer, llvm.instructions.CastInstr | llvm.instructions.GEPInstr):
        pointer = pointer.operands[0]
    return pointer


def _is_product(value: Any, left: Any, right: Any) -> bool:
    return _times(value, left) is right


def _times(value: Any, factor: Any) -> Any:
    """What a product has beside a factor; None of anything else."""
    if _name(value) != "mul":
        return None
    one, two = map(_plain, value.operands)
    return two if one is factor else one if two is factor else None


def _plain(value: Any) -> Any:
    """A number, not widened."""
    while isinstance(value, llvm.instructions.CastInstr) and value.opname == "sext":
        value = value.operands[0]
    return value


def _name(value: Any) -> str:
    return value.opname if isinstance(value, llvm.instructions.Instruction) else ""
