"""A proof that all blocks of a launch do alike, so that what the full checks find of one they would find of each.

This is test amplification (Leung, Gupta, Agarwal, Gupta, Jhala & Lerner, "Verifying GPU Kernels by Test Amplification",
PLDI 2012), from block to block of one launch. Where nothing that a block's threads do in memory of their own or of
their block depends on which block it is, nor on anything that memory holds, the threads of that number do the same in
each: they come to the same elements in the same order between the same barriers. So whether they race, or read what
nobody wrote, one block shows for all. What depends on the block is found as what differs between threads is
(`flow.Uniformity`), with the numbers of the block in place of those of the thread.

Of a buffer, which blocks share, that must be so of each index but for a part that is the block's alone, and each block
must have elements of its own. That needs the numbers of a launch: here are the formulas, `runtime/alike.py` has the
answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from llvmlite import ir as llvm
from llvmlite.ir import instructions as kinds

from kaio.dsl.compiler import ir
from kaio.dsl.compiler.emission.access import Access
from kaio.dsl.compiler.emission.arguments import argument_types
from kaio.dsl.compiler.emission.scalars import nbytes
from kaio.dsl.compiler.host.flow import Flow, Uniformity
from kaio.dsl.compiler.host.outline import Outline, Unseen
from kaio.dsl.compiler.host.shadow_apart import Axes, root_of
from kaio.dsl.values import BufferType
from kaio.program import Alike, Formula

__all__ = ["find_alike"]

_MOST = 3000  # instructions; the proof looks at each several times
_MOST_PARTS = 40  # of a formula
_Access = tuple[llvm.Block, llvm.Value, Access]
_SIGNS = {"add": "+", "sub": "-", "mul": "*", "shl": "<<", "ashr": ">>", "and": "&"}


def find_alike(typed: ir.Typed, apart: Sequence[Axes | None], *, contract: bool) -> Alike | None:
    """What a launch of a kernel has to bear out; None where its blocks may not do alike.

    apart: what tells the elements of each buffer apart by thread, see `shadow_apart`
    """
    outline = Outline(typed, contract=contract)
    try:
        outline.emit()
    except Unseen:
        return None
    if sum(len(block.instructions) for block in outline.function.blocks) > _MOST:
        return None
    flow = Flow(outline.function, outline.fault_blocks)
    formulas = _Formulas(outline)
    masks, compares = (list(_of_block(flow, formulas, name)) for name in ("and", "icmp"))

    def alike(same: list[tuple[Any, Formula]]) -> Alike | None:
        places = _Blocks(outline, flow, formulas, [value for value, _ in same]).places(apart)
        return None if places is None else Alike(tuple(formula for _, formula in same), places)

    found = alike([])
    if found is not None or not (masks or compares):
        return found
    found = alike(masks + compares)
    # What asks less of a launch, where it is enough.
    return found if found is None or not (masks and compares) else alike(masks) or found


def _of_block(flow: Flow, formulas: _Formulas, name: str) -> Iterator[tuple[Any, Formula]]:
    """What seems to depend on the block, and mostly does not: the low bits of an index, whether it is below a size."""
    for value in (i for block in flow.blocks for i in block.instructions if i.opname == name):
        formula = formulas.of(value)
        if formula is not None and formulas.names_block(formula):
            yield value, formula


class _Blocks:
    """What is the same for the threads of one number in all blocks."""

    def __init__(self, outline: Outline, flow: Flow, formulas: _Formulas, same: list[Any]) -> None:
        self._outline, self._formulas = outline, formulas
        numbers = [outline.registers[f"ctaid.{axis}"] for axis in "xyz"]
        self._known = Uniformity(flow, numbers, [*outline.locals, *same])

    def places(self, apart: Sequence[Axes | None]) -> tuple[tuple[Formula, ...] | None, ...] | None:
        """Of each buffer the formulas of where threads come, as `Alike` has them; None where blocks are not alike."""
        found = self._accesses()
        if found is None:
            return None
        places: list[tuple[Formula, ...] | None] = []
        for axes, (type_, accesses) in zip(apart, found, strict=True):
            reads_output = type_.access == "Out" and any(access.reads for _, _, access in accesses)
            if not accesses or (not reads_output and all(_is_atomic(*rest) for _, *rest in accesses)):
                places.append(())
                continue
            formulas = self._of_block(accesses)
            is_told = formulas is not None or axes is not None
            if not is_told or (reads_output and any(self._known.is_divergent(block) for block, _, _ in accesses)):
                return None
            places.append(formulas)
        return tuple(places)

    def _accesses(self) -> list[tuple[BufferType, list[_Access]]] | None:
        """Those to each buffer that is not only read; None where others are not the same in each block."""
        known, buffers = self._known, self._buffers()
        if any(known.is_divergent(block) for block in self._outline.meetings):
            return None
        types = (type_ for type_ in self._outline.inputs.types if isinstance(type_, BufferType))
        found: list[tuple[BufferType, list[_Access]]] = [(type_, []) for type_ in types]
        for block, pointer, access in self._outline.accesses:
            number = buffers.get(id(root_of(pointer)))
            if access.space in ("shared", "local"):
                if known.is_divergent(block) or not known.is_uniform(pointer):
                    return None
            elif access.space == "global" and number is not None:
                if not access.read_only:
                    found[number][1].append((block, pointer, access))
            elif access.space != "constant":
                return None
        return found

    def _buffers(self) -> dict[int, int]:
        """The number of each buffer, by its address."""
        found: dict[int, int] = {}
        flat = iter(self._outline.arguments)
        for type_ in self._outline.inputs.types:
            values = [next(flat) for _ in range(len(argument_types((type_,))))]
            if isinstance(type_, BufferType):
                found[id(values[0])] = len(found)
        return found

    def _of_block(self, accesses: list[_Access]) -> tuple[Formula, ...] | None:
        """The formulas of all places; None where one has none, or not all blocks come there."""
        places: dict[Formula, None] = {}
        for block, pointer, access in accesses:
            formula = self._formulas.of_place(pointer, access)
            if formula is None or self._known.is_divergent(block) or access.how == "async":
                return None
            places[formula] = None
        return tuple(places)


class _Formulas:
    """Values as sums and products of what a launch knows."""

    def __init__(self, outline: Outline) -> None:
        self._leaves: dict[int, Formula] = {id(value): name for name, value in outline.registers.items()}
        self._leaves[id(outline.thread)] = "thread"
        for position, value in enumerate(outline.arguments):
            if isinstance(value.type, llvm.IntType) and value.type.width in (32, 64):
                self._leaves[id(value)] = ("argument", position)
        for value, *ends in outline.ranges:
            parts = [self.of(end) for end in ends]
            if None not in parts:
                self._leaves[id(value)] = ("range", *parts)

    def of_place(self, pointer: Any, access: Access) -> Formula | None:
        """The number of the element of a buffer that is at an address; None of a part of one, or of several."""
        size = nbytes(pointer.type.pointee)
        pointer = _plain(pointer)
        if not isinstance(pointer, kinds.GEPInstr) or len(pointer.operands) != 2 or size != access.dtype.itemsize:
            return None
        if isinstance(pointer.operands[0], kinds.Instruction) or nbytes(pointer.type.pointee) != size:
            return None
        return self.of(pointer.operands[1])

    def of(self, value: Any) -> Formula | None:
        """A value's formula, None where it has none."""
        self._rest = _MOST_PARTS
        return self._of(value)

    def names_block(self, formula: Formula | None) -> bool:
        """Whether a formula depends on which block it is."""
        if isinstance(formula, tuple):
            return any(self.names_block(part) for part in formula[1:])
        return isinstance(formula, str) and formula.startswith("ctaid")

    def _of(self, value: Any) -> Formula | None:
        self._rest -= 1
        if self._rest < 0:
            return None
        if isinstance(value, llvm.Constant):
            number, width = value.constant, getattr(value.type, "width", 0)
            if not isinstance(number, int) or width not in (32, 64):
                return None
            return number - (1 << width) if number >= 1 << width - 1 else number
        if id(value) in self._leaves:
            return self._leaves[id(value)]
        if isinstance(value, kinds.CastInstr) and value.opname == "sext":
            return self._of(value.operands[0]) if value.operands[0].type.width >= 32 else None
        if isinstance(value, kinds.ICMPInstr):
            return self._compare(value)
        if not isinstance(value, kinds.Instruction) or value.opname not in _SIGNS or len(value.operands) != 2:
            return None
        left, right = (self._of(operand) for operand in value.operands)
        if left is None or right is None or not _is_exact(value.opname, right):
            return None
        return _SIGNS[value.opname], left, right

    def _compare(self, value: Any) -> Formula | None:
        left, right = (self._of(operand) for operand in value.operands)
        if left is None or right is None or value.op not in ("slt", "sle", "sgt", "sge"):
            return None
        if value.op in ("sgt", "sge"):
            left, right = right, left
        return "<", left, right if value.op in ("slt", "sgt") else ("+", right, 1)


def _is_exact(name: str, right: Formula) -> bool:
    """Whether an operation with that on its right is one that formulas have."""
    if name in ("shl", "ashr"):
        return isinstance(right, int) and 0 <= right < 31
    if name == "and":
        return isinstance(right, int) and right > 0 and right & (right + 1) == 0
    return True


def _is_atomic(pointer: Any, access: Access) -> bool:
    """Whether any two such accesses of a buffer may be made at the same time."""
    is_whole = nbytes(pointer.type.pointee) == access.dtype.itemsize
    return access.kind == "atomic" and access.scope in ("device", "system") and is_whole


def _plain(pointer: Any) -> Any:
    while isinstance(pointer, kinds.CastInstr):
        pointer = pointer.operands[0]
    return pointer
