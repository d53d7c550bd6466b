"""Where the values of a kernel that was taken apart are kept from region to region, and from group to group."""

from __future__ import annotations

from typing import Any

from llvmlite import ir as llvm
from llvmlite.ir import instructions as kinds

from kaio import host_abi as abi
from kaio.dsl.compiler.emission.scalars import nbytes
from kaio.dsl.compiler.host.fission_plan import Plan
from kaio.dsl.compiler.host.fission_regions import Group, Refused, Region
from kaio.dsl.compiler.host.host_context import I1, I8
from kaio.program import aligned

__all__ = ["Memory", "exits", "kept", "kept_type", "loaded"]

_MOST_NBYTES = 256 << 10


class Memory:
    """Where values are kept that are made in one region and used in another.

    lanes: of threads, within a group; threads: of threads, from group to group; variables: of the block
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.lanes: dict[int, Any] = {}
        self.threads: dict[int, Any] = {}
        self.variables: dict[int, Any] = {}
        self._locals: dict[int, tuple[Any, set[int]]] = {}
        regions = [region for group in plan.groups for region in group.regions]
        for region in regions:
            for phi in (i for i in region.head.instructions if isinstance(i, kinds.PhiInstr)):
                self._keep_phi(phi, region.head)
        for region in regions:
            for block in region.blocks:
                for instruction in block.instructions:
                    self._look_at(instruction, region)
                for to in block.terminator.operands:
                    if isinstance(to, llvm.Block) and id(to) in plan.flow.faults:
                        for instruction in to.instructions:
                            self._use_all(instruction.operands, region)
        self._place_locals()
        kept_nbytes = sum(abi.MAX_THREADS * _nbytes_of(value) for value in self.threads.values())
        if kept_nbytes > _MOST_NBYTES:
            raise Refused("too much is kept from barrier to barrier")

    def _look_at(self, instruction: Any, region: Region) -> None:
        if not isinstance(instruction, kinds.PhiInstr):
            self._use_all(instruction.operands, region)
            return
        for value, source in instruction.incomings:  # read at the end of where it comes from
            if id(source) in self.plan.flow.after:
                self._use(value, self.plan.region(source))

    def _keep_phi(self, phi: Any, block: llvm.Block) -> None:
        """Where ways join at the head of a region, what comes in is left in memory."""
        plan = self.plan
        ways = [plan.stays(before, block) for before in plan.flow.before.get(id(block), ())]
        if plan.is_scalar(phi):
            if all(ways):
                return
            if plan.wide.is_uniform(phi):
                if any(ways):
                    raise Refused("a loop in a group begins where the group does")
                self.variables[id(phi)] = phi
            else:
                self.threads[id(phi)] = phi
        else:
            (self.lanes if all(ways) else self.threads)[id(phi)] = phi

    def _use_all(self, operands: Any, region: Region) -> None:
        for operand in operands:
            if not isinstance(operand, llvm.Block):
                self._use(operand, region)

    def _use(self, value: Any, region: Region) -> None:
        plan = self.plan
        if not plan.is_instruction(value):
            return
        if isinstance(value, kinds.AllocaInstr):
            assert region.group is not None
            self._locals.setdefault(id(value), (value, set()))[1].add(region.group.number)
            return
        made = plan.region(plan.block_of[id(value)])
        if made is region or (plan.is_scalar(value) and made.group is region.group):
            return
        if plan.is_cheap(value):
            self._use_all(value.operands, region)
        elif plan.is_scalar(value) and plan.wide.is_uniform(value):
            self.variables[id(value)] = value
        elif made.group is not region.group:
            self.threads[id(value)] = value
        elif not (isinstance(value, kinds.PhiInstr) and id(value) in self.threads):  # that one is there already
            self.lanes[id(value)] = value

    def _place_locals(self) -> None:
        for value, groups in self._locals.values():
            stays = len(groups) == 1 and not _comes_again(self.plan, self.plan.groups[next(iter(groups))])
            (self.lanes if stays else self.threads)[id(value)] = value


def _comes_again(plan: Plan, group: Group) -> bool:
    """Whether a block may run a group more than once."""
    seen: set[int] = set()
    todo = exits(plan, group)
    while todo:
        at = todo.pop()
        if at.number not in seen:
            seen.add(at.number)
            todo += exits(plan, at)
    return group.number in seen


def exits(plan: Plan, group: Group) -> list[Group]:
    """The groups that may follow."""
    found: dict[int, Group] = {}
    for block in (b for r in group.regions for b in r.blocks):
        for to in plan.flow.after[id(block)]:
            if to is not plan.leave and not plan.stays(block, to):
                following = plan.region(to).group
                assert following is not None
                found[following.number] = following
    return list(found.values())


def kept_type(value: Any) -> llvm.Type:
    """How a value lies in memory while it is kept."""
    if isinstance(value, kinds.AllocaInstr):  # padded, so that each thread's is as well aligned as one alone
        return llvm.ArrayType(I8, aligned(nbytes(value.allocated_type)))
    return I8 if value.type == I1 else value.type


def _nbytes_of(value: Any) -> int:
    type_ = kept_type(value)
    if isinstance(type_, llvm.PointerType):
        return 8
    if not isinstance(type_, llvm.IntType | llvm.FloatType | llvm.DoubleType | llvm.ArrayType | llvm.VectorType):
        raise Refused(f"a value of type {type_} crosses a barrier")
    return int(nbytes(type_))


def kept(b: llvm.IRBuilder, value: Any) -> Any:
    """A value as it is kept."""
    return b.zext(value, I8) if value.type == I1 else value


def loaded(b: llvm.IRBuilder, value: Any, type_: llvm.Type) -> Any:
    """A value that was kept, as it was."""
    return b.trunc(value, I1) if type_ == I1 else value
