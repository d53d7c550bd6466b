"""One loop over the threads of a strip, and the copies of instructions in it and before it."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from llvmlite import ir as llvm
from llvmlite.ir import instructions as kinds

from kaio.dsl.compiler.host.fission_memory import kept, loaded
from kaio.dsl.compiler.host.fission_regions import Region
from kaio.dsl.compiler.host.host_context import I32

if TYPE_CHECKING:
    from kaio.dsl.compiler.host.fission_strip import Strip

__all__ = ["FAULT", "Lanes", "ParallelLoops", "clone"]

FAULT = 0xFFFFFFFE
"""What a strip gives whose thread failed."""


class _Distinct(llvm.values.MDValue):
    """Metadata that is only equal to itself."""

    def descr(self, buf: list[str]) -> None:
        super().descr(buf)
        buf[-2] = f"distinct {buf[-2]}"


class ParallelLoops:
    """Says of loops that their turns may be done in any order, and of what is in them that it belongs to them.

    Threads are not ordered between two barriers: what one of them sees there of another it sees by a race.
    """

    def __init__(self, module: llvm.Module) -> None:
        self._module = module
        self._group = self._node(_Distinct)

    def _node(self, kind: type[llvm.values.MDValue], *parts: Any) -> Any:
        values = [llvm.MetaDataString(self._module, part) if isinstance(part, str) else part for part in parts]
        return kind(self._module, values, str(len(self._module.metadata)))

    def mark_access(self, instruction: Any) -> None:
        """It may be reordered with those of other turns."""
        instruction.set_metadata("llvm.access.group", self._group)

    def mark_loop(self, branch: Any) -> None:
        """The branch back. Unrolled early it would be no loop any more when LLVM looks for those to do in vectors."""
        self._describe(branch, ["llvm.loop.unroll.disable"], ["llvm.loop.parallel_accesses", self._group])

    def keep_rolled(self, branch: Any) -> None:
        """The branch back of a loop whose body is large."""
        self._describe(branch, ["llvm.loop.unroll.disable"])

    def _describe(self, branch: Any, *said: list[Any]) -> None:
        nodes = [self._node(llvm.values.MDValue, *parts) for parts in said]
        loop = self._node(_Distinct)
        loop.operands = (loop, *nodes)
        branch.set_metadata("llvm.loop", loop)


def clone(b: llvm.IRBuilder, instruction: Any, operands: list[Any]) -> Any:
    """A copy of an instruction at the end of the builder's block, reading other values. No phi, no terminator."""
    made = copy.copy(instruction)
    for cached in ("_StrCaching__cached_str", "_StringReferenceCaching__cached_refstr"):
        made.__dict__.pop(cached, None)
    made.parent, made.operands = b.block, operands
    made.flags, made.metadata = list(instruction.flags), dict(instruction.metadata)
    if isinstance(made, kinds.GEPInstr):
        made.pointer, made.indices = operands[0], operands[1:]
    elif isinstance(made, kinds.ExtractValue):
        made.aggregate = operands[0]
    elif isinstance(made, kinds.InsertValue):
        made.aggregate, made.value = operands
    made.name = ""
    b._insert(made)
    return made


class Lanes:
    """The loop of one region being built, where the strip's builder stands."""

    def __init__(self, strip: Strip, region: Region) -> None:
        self.strip, self.region, self.plan, self.memory = strip, region, strip.plan, strip.memory
        self.function = strip.function
        self.is_parallel = not strip.group.is_serial and not region.is_ordered
        self.made: dict[int, Any] = {}
        self.blocks: dict[int, llvm.Block] = {}
        self._ends: dict[int, llvm.Block] = {}
        self._phis: list[tuple[Any, Any]] = []

    def emit(self) -> None:
        """Build it; the strip's builder stands behind it."""
        strip, function = self.strip, self.function
        before = strip.b.block
        head, self.latch, after = (function.append_basic_block(name) for name in ("lane", "next", "lanes.done"))
        strip.b.branch(head)
        self.top = top = llvm.IRBuilder(head)
        self.lane = lane = top.phi(I32)
        lane.add_incoming(I32(0), before)
        self.made[id(strip.runner.body.registers["tid.x"])] = top.add(strip.x, lane, flags=("nuw", "nsw"))
        self.made[id(strip.runner.body.thread)] = self.thread = top.add(strip.first, lane, flags=("nuw", "nsw"))
        self.made[id(strip.runner.body.lane)] = lane
        self.blocks = {id(block): function.append_basic_block("threads") for block in self.region.blocks}
        for block in self.region.blocks:
            self._block(block)
        for phi, made in self._phis:
            for value, source in phi.incomings:
                if id(source) in self.plan.flow.after:
                    made.add_incoming(self.value(value), self._ends[id(source)])
        top.branch(self.blocks[id(self.region.head)])
        b = llvm.IRBuilder(self.latch)
        following = b.add(lane, I32(1), flags=("nuw", "nsw"))
        lane.add_incoming(following, self.latch)
        branch = b.cbranch(b.icmp_unsigned("<", following, strip.lanes), head, after)
        if self.is_parallel:
            strip.runner.loops.mark_loop(branch)
        strip.b.position_at_end(after)

    # -------------------------------------------------------------- values of a thread
    def value(self, value: Any) -> Any:
        """What a value is for this thread."""
        found = self.made.get(id(value))
        if found is not None:
            return found
        plan = self.plan
        if not plan.is_instruction(value) or plan.is_scalar(value):
            return self.strip.scalar(value)
        found = self.made[id(value)] = self._fetch(value)
        return found

    def _fetch(self, value: Any) -> Any:
        if isinstance(value, kinds.AllocaInstr):
            return self.top.bitcast(self._place(self.top, value), value.type)
        if self.plan.is_cheap(value):
            return clone(self.top, value, [self.value(o) for o in value.operands])
        load = self.top.load(self._place(self.top, value))
        self._mark(load)
        return loaded(self.top, load, value.type)

    def _place(self, b: llvm.IRBuilder, value: Any) -> Any:
        """Where this thread's value is kept, within the group where it can be."""
        if id(value) in self.memory.lanes and self.plan.group_of(value) is self.strip.group:
            return b.gep(self.strip.room(value), [I32(0), self.lane], inbounds=True)
        return self._outer_place(b, value)

    def _outer_place(self, b: llvm.IRBuilder, value: Any) -> Any:
        return b.gep(self.strip.cells[id(value)], [I32(0), self.thread], inbounds=True)

    def _keep(self, b: llvm.IRBuilder, key: Any, value: Any) -> None:
        if id(key) in self.memory.lanes:
            room = b.gep(self.strip.room(key), [I32(0), self.lane], inbounds=True)
            self._mark(b.store(kept(b, value), room))
        if id(key) in self.memory.threads:
            self._mark(b.store(kept(b, value), self._outer_place(b, key)))

    def _mark(self, access: Any) -> None:
        if self.is_parallel:
            self.strip.runner.loops.mark_access(access)

    # -------------------------------------------------------------- blocks
    def _block(self, block: llvm.Block) -> None:
        b = llvm.IRBuilder(self.blocks[id(block)])
        phis = [i for i in block.instructions if isinstance(i, kinds.PhiInstr)]
        for phi in (i for i in phis if not self.plan.is_scalar(i)):
            if block is self.region.head:
                self.value(phi)
            else:
                made = self.made[id(phi)] = b.phi(phi.type)
                self._phis.append((phi, made))
        for phi in phis:
            if block is not self.region.head:
                self._keep(b, phi, self.value(phi))
        for instruction in block.instructions:
            if isinstance(instruction, kinds.Terminator):
                if any(self.plan.is_inner(block, to) for to in self.plan.flow.after[id(block)]):
                    self.strip.look_up(b, block, self.thread)
                self._ends[id(block)] = b.block
                self._terminator(b, block, instruction)
            elif not isinstance(instruction, kinds.PhiInstr | kinds.AllocaInstr):
                self._instruction(b, instruction)

    def _instruction(self, b: llvm.IRBuilder, instruction: Any) -> None:
        if not self.plan.is_scalar(instruction):
            made = self.made[id(instruction)] = clone(b, instruction, [self.value(o) for o in instruction.operands])
            if isinstance(made, kinds.LoadInstr | kinds.StoreInstr):
                self._mark(made)
        if id(instruction) in self.memory.lanes or id(instruction) in self.memory.threads:
            self._keep(b, instruction, self.value(instruction))

    def _terminator(self, b: llvm.IRBuilder, block: llvm.Block, terminator: Any) -> None:
        if isinstance(terminator, kinds.ConditionalBranch):
            condition, *ways = terminator.operands
            targets = [self._target(b, block, to) for to in ways]
            if targets[0] is targets[1]:
                b.branch(targets[0])
                return
            branch = b.cbranch(self.value(condition), *targets)
            branch.metadata = dict(terminator.metadata)
        else:
            b.branch(self._target(b, block, terminator.operands[0]))

    def _target(self, b: llvm.IRBuilder, block: llvm.Block, to: llvm.Block) -> llvm.Block:
        """The copy of a block, or what a thread does on its way out of the region."""
        if id(to) in self.plan.flow.faults:
            return self._fault(to)
        if self.plan.is_inner(block, to):
            return self.blocks[id(to)]
        phis = self.strip.kept_phis(block, to)
        if not phis:
            return self.latch
        way = llvm.IRBuilder(self.function.append_basic_block("out"))
        values = [(phi, self.value(value)) for phi, value in phis]
        for phi, value in values:
            self._keep(way, phi, value)
        way.branch(self.latch)
        return way.block

    def _fault(self, block: llvm.Block) -> llvm.Block:
        b = llvm.IRBuilder(self.function.append_basic_block("fault"))
        for instruction in block.instructions[:-1]:
            self.made[id(instruction)] = clone(b, instruction, [self.value(o) for o in instruction.operands])
        b.ret(I32(FAULT))
        return b.block
