"""Which parts of an element a kernel reads: `v[i].x` is a read of one lane, and `v[i].x = 1` of none."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from functools import cached_property

from kaio.dsl.compiler import ir
from kaio.dsl.values import Compound, Weak

__all__ = ["Parts", "PartsRead"]

Parts = Mapping[int, "Parts | None"]
"""The parts that are read, by position, each with the parts of it; None of what is read as a whole."""


class PartsRead:
    """The parts that are read of each temporary of a function."""

    def __init__(self, typed: ir.Typed) -> None:
        self._typed = typed

    def of(self, name: str) -> Parts | None:
        """The parts of a value; a variable that the user has named is read as a whole."""
        type_ = self._typed.types[name]
        if not ir.is_temporary(name) or not isinstance(type_, Compound):
            return None
        found: dict[int, Parts | None] = {}
        for reader in self._readers[name]:
            position = self._position(reader, type_)
            if position is None:
                return None
            assert isinstance(reader, ir.Assign)
            parts = self.of(reader.target) if self._readers[reader.target] else {}
            before = found.get(position, {})
            found[position] = None if parts is None or before is None else {**before, **parts}
        return found

    def _position(self, reader: ir.Statement | None, type_: Compound) -> int | None:
        """Which part a statement takes, and does nothing else."""
        if not isinstance(reader, ir.Assign) or not ir.is_temporary(reader.target):
            return None
        if isinstance(reader.op, ir.Attribute):
            return type_.fields.get(reader.op.name)
        if isinstance(reader.op, ir.GetItem):
            index = self._typed.types[reader.op.index]
            value = index.value if isinstance(index, Weak) else None
            return value % len(type_.items) if isinstance(value, int) else None
        return None

    @cached_property
    def _readers(self) -> Mapping[str, list[ir.Statement | None]]:
        """The statements that read a name; None is the end of a block."""
        found: dict[str, list[ir.Statement | None]] = defaultdict(list)
        for block in self._typed.function.blocks:
            for statement in block.body:
                for name in ir.reads(statement):
                    found[name].append(statement)
            for name in ir.reads(block.terminator):
                found[name].append(None)
        return found
