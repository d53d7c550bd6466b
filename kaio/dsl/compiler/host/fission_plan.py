"""How a kernel with barriers is taken apart: into groups of regions, and where each value lives.

A *group* is what lies between two barriers: regions that 16 threads side by side (a strip) run through together, before
the next 16 do. So the loops over a strip are the innermost ones, and short enough for vectors; barriers are where every
strip has ended its group.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir as llvm
from llvmlite.ir import instructions as kinds

from kaio.dsl.compiler.host.fission_regions import Group, Refused, Region, Regions
from kaio.dsl.compiler.host.flow import Flow, Uniformity, is_pure

__all__ = ["Plan"]

_CHEAP = {
    "add", "sub", "mul", "shl", "lshr", "ashr", "and", "or", "xor", "zext", "sext", "trunc", "icmp", "select",
    "getelementptr", "bitcast", "ptrtoint", "inttoptr",
}  # fmt: skip
_DIVISIONS = {"udiv", "sdiv", "urem", "srem"}


class Plan(Regions):
    """The regions and groups of a function, and which values cross from one to another.

    serial: blocks that do what other threads may see in order
    shared: allocas that are not of a thread but of its strip
    """

    def __init__(
        self,
        flow: Flow,
        barriers: set[int],
        pauses: set[int],
        serial: set[int],
        shared: set[int],
        wide: Uniformity,
        narrow: Uniformity,
    ) -> None:
        super().__init__(flow, barriers, pauses, wide, narrow)
        self.groups = self._find_groups()
        for group in self.groups:
            self._judge(group, serial)
        self.block_of = {id(i): block for block in flow.blocks for i in block.instructions if id(i) not in shared}
        self._scalars = self._find_scalars()
        self._cheap: dict[int, bool] = {}

    @property
    def has_inner_loops(self) -> bool:
        """Whether threads go round together within a group, so that a loop over them is inside of that one."""
        position = {id(block): k for k, block in enumerate(self.order)}
        return any(
            not group.is_serial and self.stays(block, to) and position[id(to)] <= position[id(block)]
            for group in self.groups
            for region in group.regions
            for block in region.blocks
            for to in self.flow.after[id(block)]
        )

    def group_of(self, value: Any) -> Group:
        """The group in which a value is made."""
        found = self.region(self.block_of[id(value)]).group
        assert found is not None
        return found

    def stays(self, block: llvm.Block, to: llvm.Block) -> bool:
        """Whether a way stays in the group."""
        return (
            to is not self.leave
            and id(block) not in self.barriers
            and self._owner[id(to)].group is self._owner[id(block)].group
        )

    def is_scalar(self, value: Any) -> bool:
        """Whether an instruction is done once for all threads of a strip."""
        return id(value) in self._scalars

    def is_instruction(self, value: Any) -> bool:
        """Whether a value is made in the function."""
        return id(value) in self.block_of

    def is_cheap(self, value: Any) -> bool:
        """Whether to make a value again where it is used is better than to keep it: indices and addresses."""
        found = self._cheap.get(id(value))
        if found is None:
            found = self._cheap[id(value)] = self._is_cheap(value)
        return found

    def _is_cheap(self, value: Any) -> bool:
        if not self.is_instruction(value) or isinstance(value, kinds.AllocaInstr):
            return True
        if isinstance(value, kinds.PhiInstr) or not is_pure(value):
            return False
        if value.opname in _DIVISIONS:
            by = value.operands[1]
            if not (isinstance(by, llvm.Constant) and isinstance(by.constant, int) and by.constant > 0):
                return False
        elif value.opname not in _CHEAP:
            return False
        return all(self.is_cheap(o) or (not self.is_scalar(value) and self.is_scalar(o)) for o in value.operands)

    # -------------------------------------------------------------- groups
    def _find_groups(self) -> list[Group]:
        entry = self.region(self.order[0])
        heads = [entry]
        for block in self.order:
            if id(block) in self.barriers:
                (to,) = self.flow.after[id(block)]
                if to is not self.leave and self.region(to) not in heads:
                    heads.append(self.region(to))
        while True:
            twice = self._flood(heads)
            if twice is None:
                break
            heads.append(twice)
        ordered: dict[int, Group] = {}
        for block in self.order:
            if block is self.leave:
                continue
            region = self.region(block)
            if region.head is block:
                group = region.group
                assert group is not None
                group.regions.append(region)
                ordered.setdefault(id(group), group)
        groups = list(ordered.values())
        for number, group in enumerate(groups):
            group.number = number
            if self.wide.is_divergent(group.head) or group.head not in [r.head for r in heads]:
                raise Refused("a barrier ends divergent flow")
        return groups

    def _flood(self, heads: list[Region]) -> Region | None:
        """Give each region to the group that it is reached from; one that is reached from two begins another."""
        for region in self._owner.values():
            region.group = None
        for head in heads:
            group, todo = Group(0), [head]
            while todo:
                region = todo.pop()
                if region.group is group:
                    continue
                if region.group is not None:
                    return region
                region.group = group
                for block in region.blocks:
                    if id(block) not in self.barriers:
                        following = (self.region(to) for to in self.flow.after[id(block)] if to is not self.leave)
                        todo += [region for region in following if region not in heads]
        return None

    def _judge(self, group: Group, serial: set[int]) -> None:
        for region in group.regions:
            faults = any(id(o) in self.flow.faults for block in region.blocks for o in block.terminator.operands)
            region.is_ordered = faults or any(id(b) in serial or _is_serial(b) for b in region.blocks)
            group.may_fault |= faults
        ordered = [region for region in group.regions if region.is_ordered]
        if not any(id(block) in self.pauses for region in group.regions for block in region.blocks):
            group.is_serial = bool(ordered) or self._turns(group)
        elif any(self._leads_to_ordered(region) for region in ordered):
            raise Refused("what lanes do in order is not all done between two meetings of their warp")

    def _leads_to_ordered(self, region: Region) -> bool:
        """Whether a thread may come from one region in which threads keep their order to another, and meet nobody."""
        seen: set[int] = set()
        todo = [region]
        while todo:
            at = todo.pop()
            for block in at.blocks:
                if id(block) in self._ends:
                    continue
                for to in self.flow.after[id(block)]:
                    if self.stays(block, to) and not self.is_inner(block, to):
                        following = self.region(to)
                        if following.is_ordered:
                            return True
                        if id(following) not in seen:
                            seen.add(id(following))
                            todo.append(following)
        return False

    def _turns(self, group: Group) -> bool:
        """Whether a thread goes round in a loop of its own, which no vector can."""
        for region in group.regions:
            for block in region.blocks:
                if self.narrow.is_divergent(block) and any(b is block for b in self._reach(region, block)):
                    return True
        return False

    def _reach(self, region: Region, block: llvm.Block) -> list[llvm.Block]:
        found: dict[int, llvm.Block] = {}
        todo = [to for to in self.flow.after[id(block)] if self.is_inner(block, to)]
        while todo:
            at = todo.pop()
            if id(at) not in found:
                found[id(at)] = at
                todo += [to for to in self.flow.after[id(at)] if self.is_inner(at, to)]
        return list(found.values())

    # -------------------------------------------------------------- values
    def _find_scalars(self) -> set[int]:
        """What is uniform, also in divergent flow where computing it for nothing does no harm.

        There it must not stay: of a division behind a condition that differs, LLVM 22 makes one for the first of the
        threads in a vector, and none if that one does not come by.
        """
        found = {
            id(i): i
            for block in self.flow.blocks
            for i in block.instructions
            if not isinstance(i, kinds.Terminator | kinds.AllocaInstr)
            and self.narrow.is_uniform(i)
            and (not self.narrow.is_divergent(block) or is_pure(i))
        }
        changed = True
        while changed:
            changed = False
            for key, instruction in list(found.items()):
                phi = isinstance(instruction, kinds.PhiInstr)
                sources = [v for v, _ in instruction.incomings] if phi else instruction.operands
                if any(self.is_instruction(o) and id(o) not in found for o in sources) or (
                    phi and any(not self.is_instruction(o) and not self.narrow.is_uniform(o) for o in sources)
                ):
                    del found[key]
                    changed = True
        return set(found)


def _is_serial(block: llvm.Block) -> bool:
    memory = kinds.LoadAtomicInstr, kinds.StoreAtomicInstr, kinds.AtomicRMW, kinds.CmpXchg, kinds.Fence
    return any(isinstance(i, memory) or (isinstance(i, kinds.CallInstr) and not is_pure(i)) for i in block.instructions)
