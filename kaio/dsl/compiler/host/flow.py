"""The control flow of a function that was emitted, and what in it is the same for all of some threads.

`Flow` knows the ways from block to block, without those into faults: whoever takes one of these runs nothing more. On
it `Uniformity` is the usual divergence analysis (Karrenberg & Hack, "Improving Performance of OpenCL on CPUs", CC
2012): a value is uniform if it is computed without side effects of uniform values alone; where threads part at a branch
whose condition is not, whatever lies between it and the place where all its ways meet again is divergent, and so are
the values that join there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from llvmlite import ir as llvm
from llvmlite.ir import instructions as kinds

__all__ = ["Flow", "Uniformity", "is_pure", "postorder"]

_IMPURE = ("llvm.mem", "llvm.coro", "llvm.lifetime", "llvm.assume", "llvm.sideeffect", "llvm.prefetch", "llvm.read")
_MEMORY = (
    kinds.LoadInstr, kinds.StoreInstr, kinds.LoadAtomicInstr, kinds.StoreAtomicInstr, kinds.AtomicRMW, kinds.CmpXchg,
    kinds.Fence, kinds.AllocaInstr, kinds.PhiInstr, kinds.Terminator,
)  # fmt: skip


def is_pure(instruction: Any) -> bool:
    """Whether an instruction gives the same for the same operands, and does nothing else. (A phi is not asked.)"""
    if isinstance(instruction, kinds.CallInstr):
        name = getattr(instruction.callee, "name", "")
        takes_addresses = any(isinstance(a.type, llvm.PointerType) for a in instruction.args)
        return name.startswith(("llvm.", "__nv_")) and not name.startswith(_IMPURE) and not takes_addresses
    return not isinstance(instruction, _MEMORY)


def postorder(start: llvm.Block, ways: dict[int, list[llvm.Block]]) -> list[llvm.Block]:
    """The blocks that can be reached from `start` by these ways, each behind those that it leads to, loops apart."""
    done: list[llvm.Block] = []
    seen = {id(start)}
    stack = [(start, iter(ways.get(id(start), [])))]
    while stack:
        block, rest = stack[-1]
        following = next((b for b in rest if id(b) not in seen), None)
        if following is None:
            done.append(block)
            stack.pop()
        else:
            seen.add(id(following))
            stack.append((following, iter(ways.get(id(following), []))))
    return done


class Flow:
    """The blocks of a function that can be reached from its entry, in order, and the ways between them.

    faults: blocks that end the thread with a fault
    """

    def __init__(self, function: llvm.Function, faults: Iterable[llvm.Block]) -> None:
        self.faults = {id(block) for block in faults}
        self.entry = function.blocks[0]
        self.after: dict[int, list[llvm.Block]] = {}
        self.before: dict[int, list[llvm.Block]] = {}
        seen, todo = {id(self.entry)}, [self.entry]
        while todo:
            block = todo.pop()
            ways = {id(o): o for o in block.terminator.operands if isinstance(o, llvm.Block)}
            self.after[id(block)] = [to for to in ways.values() if id(to) not in self.faults]
            for to in self.after[id(block)]:
                self.before.setdefault(id(to), []).append(block)
                if id(to) not in seen:
                    seen.add(id(to))
                    todo.append(to)
        self.blocks = [block for block in function.blocks if id(block) in seen]
        self.has_faults = any(id(o) in self.faults for block in self.blocks for o in block.terminator.operands)
        self._joins = self._find_joins()

    def join(self, block: llvm.Block) -> llvm.Block | None:
        """The first block that every way out of this one comes to; None where there is none."""
        return self._joins[id(block)]

    def between(self, block: llvm.Block) -> list[llvm.Block]:
        """What can be reached from a block before the place where its ways join; the block itself in a loop."""
        stop = self.join(block)
        found: dict[int, llvm.Block] = {}
        todo = list(self.after[id(block)])
        while todo:
            at = todo.pop()
            if at is not stop and id(at) not in found:
                found[id(at)] = at
                todo += self.after[id(at)]
        return list(found.values())

    def _find_joins(self) -> dict[int, llvm.Block | None]:
        """Immediate post-dominators (Cooper, Harvey & Kennedy, "A Simple, Fast Dominance Algorithm", 2001)."""
        leaves = [block for block in self.blocks if not self.after[id(block)]]
        order = postorder(leaves[0], self.before) if leaves else []
        found: dict[int, llvm.Block | None] = {id(block): None for block in self.blocks}
        if len(leaves) != 1:
            return found
        position = {id(block): k for k, block in enumerate(order)}
        joins: dict[int, llvm.Block] = {id(leaves[0]): leaves[0]}
        changed = True
        while changed:
            changed = False
            for block in reversed(order[:-1]):
                ways = [to for to in self.after[id(block)] if id(to) in joins]
                join = ways[0]
                for other in ways[1:]:
                    while join is not other:
                        while position[id(join)] < position[id(other)]:
                            join = joins[id(join)]
                        while position[id(other)] < position[id(join)]:
                            other = joins[id(other)]
                if joins.get(id(block)) is not join:
                    joins[id(block)] = join
                    changed = True
        del joins[id(leaves[0])]
        return found | joins


class Uniformity:
    """Which blocks and values of a function are the same for all threads that differ only in `varying` parameters.

    same: what is the same for them for a reason of its own; reads: loads that are where their address is
    parting: blocks behind which threads are to go their ways alone, though they all go the same one
    """

    def __init__(
        self,
        flow: Flow,
        varying: Iterable[Any],
        same: Iterable[Any] = (),
        reads: Iterable[Any] = (),
        parting: Iterable[llvm.Block] = (),
    ) -> None:
        self._flow = flow
        self._varying = {id(value) for value in varying}
        self._parting = {id(block) for block in parting}
        self._same, self._reads = ({id(value) for value in values} for values in (same, reads))
        self._divergent: set[int] = set()
        self._joined: dict[int, list[tuple[llvm.Block, set[int]]]] = {}
        parted: set[int] = set()
        while True:
            self._spread()
            found = [b for b in flow.blocks if id(b) not in parted and self._parts(b)]
            if not found:
                break
            for block in found:
                parted.add(id(block))
                inside = flow.between(block)
                self._divergent |= {id(b) for b in inside}
                join = flow.join(block)
                if join is not None:
                    self._joined.setdefault(id(join), []).append((block, {id(b) for b in inside} | {id(block)}))

    def is_uniform(self, value: Any) -> bool:
        """Whether it is the same for all of the threads, wherever they all compute it."""
        return id(value) not in self._varying

    def is_divergent(self, block: llvm.Block) -> bool:
        """Whether only some of the threads may run it, or not all as often."""
        return id(block) in self._divergent

    def _parts(self, block: llvm.Block) -> bool:
        terminator = block.terminator
        if not isinstance(terminator, kinds.ConditionalBranch) or len(self._flow.after[id(block)]) < 2:
            return False
        return id(block) in self._parting or not self.is_uniform(terminator.operands[0])

    def _spread(self) -> None:
        changed = True
        while changed:
            changed = False
            for block in self._flow.blocks:
                for instruction in block.instructions:
                    if id(instruction) not in self._varying and self._varies(block, instruction):
                        self._varying.add(id(instruction))
                        changed = True

    def _varies(self, block: llvm.Block, instruction: Any) -> bool:
        if isinstance(instruction, kinds.PhiInstr):
            if self.is_divergent(block) or any(id(value) in self._varying for value, _ in instruction.incomings):
                return True
            return any(_differ(instruction, inside) for _, inside in self._joined.get(id(block), ()))
        if isinstance(instruction, kinds.Terminator):
            return False
        if id(instruction) in self._same:
            return False
        if id(instruction) in self._reads:
            return any(id(o) in self._varying for o in instruction.operands)
        return not is_pure(instruction) or any(id(o) in self._varying for o in instruction.operands)


def _differ(phi: Any, inside: set[int]) -> bool:
    """Whether more than one value comes in from these blocks."""
    values = [value for value, block in phi.incomings if id(block) in inside]
    return any(not _is_same(value, values[0]) for value in values[1:])


def _is_same(one: Any, other: Any) -> bool:
    if one is other:
        return True
    both = isinstance(one, llvm.Constant) and isinstance(other, llvm.Constant)
    return both and one.type == other.type and str(one) == str(other)
