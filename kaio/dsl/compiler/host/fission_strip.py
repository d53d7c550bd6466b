"""The function of one group: a strip of threads that runs through its regions, one loop over the threads each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir as llvm
from llvmlite.ir import instructions as kinds

from kaio import host_abi as abi
from kaio.dsl.compiler.host.fission_lanes import FAULT, Lanes, clone
from kaio.dsl.compiler.host.fission_memory import kept, kept_type, loaded
from kaio.dsl.compiler.host.fission_regions import Group, Refused, Region
from kaio.dsl.compiler.host.host_context import I32, REGISTERS

if TYPE_CHECKING:
    from kaio.dsl.compiler.host.fission import Runner

__all__ = ["DONE", "Strip"]

DONE = 0xFFFFFFFF
"""What a strip gives whose threads have returned."""


_EFFECTS = (
    kinds.StoreInstr, kinds.StoreAtomicInstr, kinds.LoadAtomicInstr, kinds.AtomicRMW, kinds.CmpXchg, kinds.Fence,
    kinds.CallInstr,
)  # fmt: skip


class Strip:
    """The function of one group being built: threads x to x + lanes run through it together; gives what comes next."""

    def __init__(self, runner: Runner, group: Group) -> None:
        self.runner, self.group, self.plan, self.memory = runner, group, runner.plan, runner.memory
        body = runner.body
        given = [body.context, *(body.registers[name] for name in REGISTERS), body.shared_start, *body.arguments]
        own = [I32] * 5
        cells = [
            *(llvm.ArrayType(kept_type(v), abi.MAX_THREADS).as_pointer() for v in self.memory.threads.values()),
            *(kept_type(v).as_pointer() for v in self.memory.variables.values()),
            *(kept_type(v).as_pointer() for v in runner.fresh),
        ]
        kind = llvm.FunctionType(I32, [*(v.type for v in given), *own, *cells])
        self.function: llvm.Function = llvm.Function(runner.module, kind, f"{body.function_name}.group.{group.number}")
        self.function.linkage = "internal"
        self.function.attributes.add("alwaysinline")
        args: list[Any] = list(self.function.args)
        self.scalars = dict(zip((id(v) for v in given), args, strict=False))
        self.b: llvm.IRBuilder
        self.first: Any
        self.x: Any
        self.lanes: Any
        self.first, self.x, y, z, self.lanes = args[len(given) : len(given) + 5]
        self.scalars[id(body.registers["tid.y"])], self.scalars[id(body.registers["tid.z"])] = y, z
        # Only for what is the same of all threads of the strip: the first stands for them.
        self.scalars[id(body.thread)], self.scalars[id(body.registers["tid.x"])] = self.first, self.x
        rest = args[len(given) + 5 :]
        keys = [*self.memory.threads, *self.memory.variables]
        self.cells = dict(zip(keys, rest, strict=False))
        self.coming = dict(zip((id(phi) for phi in runner.fresh), rest[len(keys) :], strict=True))
        self.rooms: dict[int, Any] = {}
        self.phis: list[tuple[Any, Any]] = []
        self.ends: dict[int, llvm.Block] = {}

    def emit(self) -> llvm.Function:
        """Build it."""
        self.entry = llvm.IRBuilder(self.function.append_basic_block("entry"))
        for argument, first in zip(self.runner.body.first_places.values(), (self.x, self.first), strict=True):
            self.scalars[id(argument)] = first
        self.starts = {id(r.head): self.function.append_basic_block("region") for r in self.group.regions}
        for region in self.group.regions:
            self.b = llvm.IRBuilder(self.starts[id(region.head)])
            self._do_scalars(region)
            if self._has_work(region):
                Lanes(self, region).emit()
            self._leave(region)
        for phi, made in self.phis:
            self._finish_phi(phi, made)
        self.entry.branch(self.starts[id(self.group.head)])
        return self.function

    def _finish_phi(self, phi: Any, made: Any) -> None:
        head = self.plan.block_of[id(phi)]
        seen: set[int] = set()
        for value, before in phi.incomings:
            if id(before) in self.plan.flow.after and self.plan.stays(before, head):
                end = self.ends[id(self.plan.region(before).head)]
                if id(end) not in seen:
                    seen.add(id(end))
                    made.add_incoming(self.scalar(value), end)
        if head is self.group.head:
            made.add_incoming(self._read(self.entry, phi), self.entry.block)

    # -------------------------------------------------------------- values of the strip
    def scalar(self, value: Any) -> Any:
        """A value that the strip has once."""
        found = self.scalars.get(id(value))
        if found is None and isinstance(value, kinds.AllocaInstr):
            found = self.scalars[id(value)] = self.entry.alloca(value.allocated_type, name="row")
            found.align = value.align
        if found is not None or not self.plan.is_instruction(value):
            return value if found is None else found
        if self.plan.is_cheap(value):
            found = clone(self.entry, value, [self.scalar(o) for o in value.operands])
        else:
            found = self._read(self.entry, value)
        self.scalars[id(value)] = found
        return found

    def _read(self, b: llvm.IRBuilder, value: Any) -> Any:
        cell = self.cells[id(value)]
        if id(value) in self.memory.threads:
            cell = b.gep(cell, [I32(0), self.first], inbounds=True)
        return loaded(b, b.load(cell), value.type)

    def room(self, value: Any) -> Any:
        """An array over the lanes of a strip for a value that stays in the group."""
        if id(value) not in self.rooms:
            # before the entry's other instructions, where LLVM takes it for part of the frame
            array = self.entry.alloca(llvm.ArrayType(kept_type(value), self.runner.body.strip), name="lanes")
            array.align = 128  # of the largest vector
            self.rooms[id(value)] = array
        return self.rooms[id(value)]

    def _do_scalars(self, region: Region) -> None:
        plan = self.plan
        for phi in (i for i in region.head.instructions if isinstance(i, kinds.PhiInstr) and plan.is_scalar(i)):
            made = self.scalars[id(phi)] = self.b.phi(phi.type)
            self.phis.append((phi, made))
        for instruction in (i for block in region.blocks for i in block.instructions if plan.is_scalar(i)):
            if id(instruction) not in self.scalars:
                self.scalars[id(instruction)] = self._do_scalar(instruction)
            if id(instruction) in self.memory.variables and id(instruction) not in self.coming:
                self.b.store(kept(self.b, self.scalars[id(instruction)]), self.cells[id(instruction)])

    def _do_scalar(self, instruction: Any) -> Any:
        if isinstance(instruction, kinds.PhiInstr):  # within a region what comes in is the same from everywhere
            return self.scalar(instruction.incomings[0][0])
        return clone(self.b, instruction, [self.scalar(o) for o in instruction.operands])

    # -------------------------------------------------------------- from region to region
    def _has_work(self, region: Region) -> bool:
        plan, memory = self.plan, self.memory
        for block in region.blocks:
            for i in block.instructions:
                if isinstance(i, _EFFECTS) and not plan.is_scalar(i):
                    return True
                is_kept = id(i) in memory.lanes or id(i) in memory.threads
                comes_kept = isinstance(i, kinds.PhiInstr) and block is region.head
                if is_kept and not comes_kept and not isinstance(i, kinds.AllocaInstr):
                    return True
            if any(id(o) in plan.flow.faults for o in block.terminator.operands):
                return True
            if any(not plan.is_inner(block, to) and self.kept_phis(block, to) for to in plan.flow.after[id(block)]):
                return True
        return False

    def kept_phis(self, block: llvm.Block, to: llvm.Block) -> list[tuple[Any, Any]]:
        """The phis that a thread leaves something for on its way out of a region, and what."""
        if to is self.plan.leave:
            return []
        return [
            (phi, next(value for value, before in phi.incomings if before is block))
            for phi in to.instructions
            if isinstance(phi, kinds.PhiInstr) and (id(phi) in self.memory.lanes or id(phi) in self.memory.threads)
        ]

    def _leave(self, region: Region) -> None:
        plan, b = self.plan, self.b
        ways = [
            (block, to) for block in region.blocks for to in plan.flow.after[id(block)] if not plan.is_inner(block, to)
        ]
        for block in {id(block): block for block, to in ways if plan.stays(block, to)}.values():
            self.look_up(b, block, self.first)
        self.ends[id(region.head)] = b.block
        targets = {id(to): to for _, to in ways}
        if len(targets) == 1:
            b.branch(self._target(*ways[0]))
            return
        block = ways[0][0]
        if len(targets) != 2 or any(at is not block for at, _ in ways):
            raise Refused("a way out of a region is not the same for all")
        condition, *places = block.terminator.operands
        if plan.is_instruction(condition) and not plan.is_scalar(condition):
            raise Refused("a way out of a region is not the same for all")
        b.cbranch(self.scalar(condition), *(self._target(block, to) for to in places))

    def look_up(self, b: llvm.IRBuilder, block: llvm.Block, number: Any) -> None:
        """Leave where threads, of which this is the first, go round for too long; not at the end of other blocks."""
        body = self.runner.body
        site = body.long.get(id(block))
        if site is None:
            return
        go_on, leave = (self.function.append_basic_block(name) for name in ("round", "endless"))
        b.cbranch(body.turns.strip_goes_round(b, self.scalars[id(body.context)], number, site), go_on, leave)
        b.position_at_end(leave)
        b.ret(I32(FAULT))
        b.position_at_end(go_on)

    def _target(self, block: llvm.Block, to: llvm.Block) -> llvm.Block:
        """Where the strip goes on: at another region of the group, or it says which group comes next."""
        plan = self.plan
        if plan.stays(block, to):
            return self.starts[id(to)]
        b = llvm.IRBuilder(self.function.append_basic_block("way"))
        if to is plan.leave:
            b.ret(I32(DONE))
            return b.block
        for phi in (i for i in to.instructions if isinstance(i, kinds.PhiInstr) and id(i) in self.coming):
            value = next(value for value, before in phi.incomings if before is block)
            b.store(kept(b, self.scalar(value)), self.coming[id(phi)])
        following = plan.region(to).group
        assert following is not None
        b.ret(I32(following.number))
        return b.block
