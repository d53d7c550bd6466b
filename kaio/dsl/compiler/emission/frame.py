"""A function while it is walked: what its names are, where its blocks begin and end, and the joining of its ways."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from llvmlite import ir as llvm

from kaio.dsl.compiler import ir
from kaio.dsl.compiler.emission.fusing import Products
from kaio.dsl.compiler.emission.leaves import leaf_types, leaves, rebuild, undefined
from kaio.dsl.compiler.emission.loops import Turn
from kaio.dsl.compiler.emission.parts_read import PartsRead
from kaio.dsl.compiler.infer.origins import Origins
from kaio.dsl.compiler.loop_nest import Loop, back_edges, loops_of, place_of, turn_starts
from kaio.dsl.compiler.own import is_own
from kaio.dsl.values import Type
from kaio.errors import Place

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter

__all__ = ["Frame", "join"]


@dataclass
class Frame:
    """One function that is being walked: the kernel, or a device function in place.

    starts, ends: the LLVM block in which a block of the IR begins, and the one in which it ends
    edges: the ways from block to block that were emitted
    unroll: the turns at a time of loops for which the source says it, by the label of their head
    heads: the blocks that a loop goes back to
    at: the label of the block that is being walked
    """

    typed: ir.Typed
    arguments: dict[str, Any]
    on_return: Callable[[Any], None]
    values: dict[str, Any] = field(default_factory=dict)
    products: Products = field(default_factory=Products)
    starts: dict[int, llvm.Block] = field(default_factory=dict)
    ends: dict[int, llvm.Block] = field(default_factory=dict)
    edges: set[tuple[int, int]] = field(default_factory=set)
    loops: list[tuple[int, Turn]] = field(default_factory=list)
    unroll: dict[int, int] = field(default_factory=dict)
    phis: list[tuple[int, ir.Assign, list[llvm.PhiInstr]]] = field(default_factory=list)
    at: int = -1

    def __post_init__(self) -> None:
        self.blocks: Mapping[int, ir.Block] = {block.label: block for block in self.typed.function.blocks}
        self.definitions = ir.definitions(self.typed.function)
        self.order = {label: position for position, label in enumerate(self.blocks)}
        self.heads = {to for _, to in back_edges(self.typed.function)}
        self.is_own = is_own(self.typed.function.source.filename)

    @cached_property
    def nest(self) -> Mapping[int, Loop]:
        """The loops, by the label of their head."""
        return loops_of(self.typed) if self.heads else {}

    @property
    def is_in_loop(self) -> bool:
        """Whether the block that is being walked is one of a loop."""
        return any(self.at in loop.body for loop in self.nest.values())

    @cached_property
    def counted(self) -> Mapping[str, Place]:
        """The iterators of the loops whose turns are counted before they begin, and where those loops stand."""
        return {loop.iterator: self.place_of(head, None) for head, loop in self.nest.items() if loop.iterator}

    @cached_property
    def turn_starts(self) -> Mapping[int, list[Place]]:
        """The blocks in which turns of loops begin, and where those loops stand."""
        return turn_starts(self.typed)

    def place_of(self, head: int, at: int | None) -> Place:
        """Where the loop with this head stands, to which block `at` goes back."""
        first = self.blocks[head].body[0] if self.blocks[head].body else self.blocks[head].terminator
        last = first.place if at is None else self.blocks[at].terminator.place
        return place_of(self.typed.function.source, first.place, last)

    @cached_property
    def reads(self) -> frozenset[str]:
        """The names that something reads."""
        return ir.names_read(self.typed.function)

    @cached_property
    def parts_read(self) -> PartsRead:
        """Which parts of elements are read."""
        return PartsRead(self.typed)

    @cached_property
    def origins(self) -> Origins:
        """Where values were made."""
        return Origins(self.typed.function)

    def origin(self, name: str) -> str:
        """The variable behind a temporary."""
        while ir.is_temporary(name) and name in self.definitions:
            op = self.definitions[name].op
            if not isinstance(op, ir.Copy):
                break
            name = op.source
        return name

    def text(self, name: str) -> str:
        """What a value is called: by its variable, else as the source has it."""
        origin = self.origin(name)
        return self.origins.text(origin) if ir.is_temporary(origin) else ir.user_name(origin)

    def add_phi(self, e: Emitter, label: int, assign: ir.Assign) -> Any:
        """The value that comes in where ways join; `finish_phis` says from where."""
        type_ = self.typed.types[assign.target]
        phis = [e.b.phi(leaf) for leaf in leaf_types(e, type_)]
        self.phis.append((label, assign, phis))
        return rebuild(iter(phis), type_)

    def finish_phis(self, e: Emitter) -> None:
        """Say what comes in from each block, when all are there."""
        before: dict[int, list[int]] = defaultdict(list)
        for at, to in sorted(self.edges):
            before[to].append(at)
        for label, assign, phis in self.phis:
            for at in before[label]:
                for phi, leaf in zip(phis, self._incoming(e, assign, at), strict=True):
                    phi.add_incoming(leaf, self.ends[at])
        for label, turn in self.loops:
            for at in before[label]:
                entering = self.order[at] < self.order[label]
                for phi, first, later in turn.phis:
                    phi.add_incoming(first if entering else later, self.ends[at])

    def _incoming(self, e: Emitter, assign: ir.Assign, at: int) -> list[llvm.Value]:
        assert isinstance(assign.op, ir.Phi)
        type_, name = self.typed.types[assign.target], dict(assign.op.incoming).get(at)
        e.b.position_before(self.ends[at].terminator)
        if name is None:  # not assigned on this way; the checks have shown that it is not read there
            return undefined(e, type_)
        return leaves(e.convert(self.values.get(name), self.typed.types[name], type_), type_)


def join(e: Emitter, type_: Type, returned: list[tuple[Any, llvm.Block]]) -> Any:
    """The one value of a function that returns in several blocks; the builder stands where they join."""
    phis = [e.b.phi(leaf) for leaf in leaf_types(e, type_)]
    for value, block in returned:
        for phi, leaf in zip(phis, leaves(value, type_), strict=True):
            phi.add_incoming(leaf, block)
    return rebuild(iter(phis), type_)
