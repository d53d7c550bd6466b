"""Loops that threads side by side begin at numbers side by side: as often round for all, some of them doing nothing.

Of ``for i in range(first + x, stop, step)``, upwards, the threads of a strip have as many turns, or nearly, and the
first of them the most. So the loop gets a condition that is the same for all: whether the first has a turn left. What
was the condition guards the body, so that a thread that is done keeps its values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir as llvm
from llvmlite.ir import instructions as kinds

from kaio.dsl.compiler.host.fission_lanes import clone
from kaio.dsl.compiler.host.fission_regions import Refused
from kaio.dsl.compiler.host.flow import Flow, Uniformity, is_pure

if TYPE_CHECKING:
    from kaio.dsl.compiler.host.split_body import SplitBody

__all__ = ["Counted", "go_together"]

Counted = tuple[Any, Any, Any, Any]
"""A loop as it was emitted: the number that it is at, in its head, and the first one, the end and the step."""


def go_together(body: SplitBody) -> None:
    """Change the loops of a function that was emitted, where that can be done."""
    done: list[Any] = []
    while True:
        flow = Flow(body.function, body.fault_blocks)
        known = Uniformity(flow, [body.registers["tid.x"], body.thread, body.lane])
        loops = (_Loop.find(flow, known, body, *counted) for counted in body.counted if counted[0] not in done)
        loop = next((loop for loop in loops if loop is not None), None)
        if loop is None:
            return
        done.append(loop.here)
        loop.change()


class _Loop:
    """One loop: its head, the other blocks, those of them that lead back, and the number that it is at."""

    def __init__(
        self,
        body: SplitBody,
        known: Uniformity,
        head: llvm.Block,
        inside: list[llvm.Block],
        latches: list[llvm.Block],
        here: Any,
    ) -> None:
        self.body, self.known, self.head, self.inside, self.latches, self.here = (
            body, known, head, inside, latches, here,
        )  # fmt: skip
        self.inner = next(o for o in head.terminator.operands[1:] if o in inside)
        self.made: dict[int, Any] = {}
        self.shadows: list[tuple[Any, Any]] = []

    @classmethod
    def find(
        cls, flow: Flow, known: Uniformity, body: SplitBody, here: Any, start: Any, stop: Any, step: Any
    ) -> _Loop | None:
        """The loop with this head, if it is one whose turns differ by where a thread begins alone."""
        head = here.parent
        if id(head) not in flow.after or len(flow.after[id(head)]) != 2 or known.is_uniform(start):
            return None
        if not (known.is_uniform(stop) and known.is_uniform(step) and _is_beside(start, body, known)):
            return None
        latches = [b for b in flow.before[id(head)] if id(b) in {id(x) for x in _reach(flow, head)}]
        inside = _inside(flow, head, latches)
        ways = [to for to in flow.after[id(head)] if id(to) in inside]
        leaves = [b for b in flow.blocks if id(b) in inside and b is not head]
        if len(ways) != 1 or ways[0] is head or any(id(to) not in inside for b in leaves for to in flow.after[id(b)]):
            return None
        if any(b in body.barriers or b in body.pauses for b in leaves):
            return None
        condition = head.terminator.operands[0]
        made = {id(i) for i in head.instructions}
        entries = [b for b in flow.before[id(head)] if b not in latches]
        if id(condition) not in made or any(known.is_divergent(b) for b in entries):
            return None
        return cls(body, known, head, leaves, latches, here)

    def change(self) -> None:
        """Give it its two conditions."""
        head, terminator = self.head, self.head.terminator
        condition = terminator.operands[0]
        own = [i for i in head.instructions if isinstance(i, kinds.PhiInstr)]
        first_turns = self._shadow(condition)
        first = self._shadow(self.here)
        function = self.body.function
        guard, join = function.append_basic_block("turn"), function.append_basic_block("turned")
        ways = [guard if o is self.inner else o for o in terminator.operands[1:]]
        terminator.operands = [first_turns, *ways]
        b = llvm.IRBuilder(guard)
        lane = self.body.lane
        beside = b.add(first, lane if first.type == lane.type else b.zext(lane, first.type), flags=("nsw",))
        for block in self.inside:
            for instruction in block.instructions:
                _replace(instruction, self.here, beside)
        is_first = ways[0] is guard
        b.cbranch(condition, *((self.inner, join) if is_first else (join, self.inner)))
        for phi in (i for i in self.inner.instructions if isinstance(i, kinds.PhiInstr)):
            phi.incomings = [(value, guard if block is head else block) for value, block in phi.incomings]
        for latch in self.latches:
            latch.terminator.operands = [join if o is head else o for o in latch.terminator.operands]
        self._join(own, join, guard)
        for latch in self.latches:
            if id(latch) in self.body.long:
                self.body.long[id(join)] = self.body.long.pop(id(latch))

    def _join(self, own: list[Any], join: llvm.Block, guard: llvm.Block) -> None:
        b = llvm.IRBuilder(join)
        latches = {id(latch) for latch in self.latches}
        for phi in own:
            kept = b.phi(phi.type)
            for value, block in phi.incomings:
                if id(block) in latches:
                    kept.add_incoming(value, block)
            kept.add_incoming(phi, guard)
            phi.incomings = [pair for pair in phi.incomings if id(pair[1]) not in latches] + [(kept, join)]
        for _, shadow in self.shadows:
            later = next(value for value, block in shadow.incomings if id(block) in latches)
            shadow.incomings = [pair for pair in shadow.incomings if id(pair[1]) not in latches] + [(later, join)]
        b.branch(self.head)

    def _shadow(self, value: Any) -> Any:
        """What a value is for the first thread of a strip."""
        places, made = self.body.first_places, self.made
        if id(value) in places:
            return places[id(value)]
        if id(value) in made or not isinstance(value, kinds.Instruction):
            return made.get(id(value), value)
        if isinstance(value, kinds.PhiInstr):
            b = llvm.IRBuilder(value.parent)
            b.position_at_start(value.parent)
            shadow = made[id(value)] = b.phi(value.type)
            self.shadows.append((value, shadow))
            for source, block in value.incomings:
                shadow.add_incoming(self._shadow(source), block)
            return shadow
        if self.known.is_uniform(value):
            return value
        if not is_pure(value):
            raise Refused("the range of a loop is not computed")
        operands = [self._shadow(o) for o in value.operands]
        b = llvm.IRBuilder(value.parent)
        b.position_after(value)
        made[id(value)] = clone(b, value, operands)
        return made[id(value)]


def _is_beside(start: Any, body: SplitBody, known: Uniformity) -> bool:
    """Whether a number is one more for each thread of a strip, without a wrap."""
    if start is body.registers["tid.x"] or start is body.thread:
        return True
    if not isinstance(start, kinds.Instruction) or not is_pure(start):
        return False
    if start.opname in ("sext", "zext"):
        return _is_beside(start.operands[0], body, known)
    if start.opname != "add" or "nsw" not in start.flags:
        return False
    one, other = start.operands
    return (known.is_uniform(one) and _is_beside(other, body, known)) or (
        known.is_uniform(other) and _is_beside(one, body, known)
    )


def _reach(flow: Flow, start: llvm.Block) -> list[llvm.Block]:
    """What can be reached from a block."""
    found: dict[int, llvm.Block] = {}
    todo = list(flow.after[id(start)])
    while todo:
        block = todo.pop()
        if id(block) not in found:
            found[id(block)] = block
            todo += flow.after[id(block)]
    return list(found.values())


def _inside(flow: Flow, head: llvm.Block, latches: list[llvm.Block]) -> set[int]:
    """The blocks of a loop."""
    found, todo = {id(head)}, list(latches)
    while todo:
        block = todo.pop()
        if id(block) not in found:
            found.add(id(block))
            todo += flow.before.get(id(block), [])
    return found


def _replace(instruction: Any, old: Any, new: Any) -> None:
    """Let an instruction read another value."""
    if isinstance(instruction, kinds.PhiInstr):
        instruction.incomings = [(new if value is old else value, block) for value, block in instruction.incomings]
    elif any(operand is old for operand in instruction.operands):
        instruction.operands = [new if operand is old else operand for operand in instruction.operands]
        if isinstance(instruction, kinds.GEPInstr):
            instruction.indices = instruction.operands[1:]
