"""The regions of a kernel that is taken apart at its barriers, and the groups that they make.

A *region* is run by all threads one after the other: a loop over the threads goes round it. It begins where all of
them are (outside divergent flow) and holds what is divergent behind that. Which region follows is the same for all
threads, so it is decided once.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from llvmlite import ir as llvm

from kaio.dsl.compiler.host.flow import Flow, Uniformity, postorder

__all__ = ["Group", "MustPart", "Refused", "Region", "Regions"]


class Refused(Exception):
    """The kernel is not one that can be taken apart; it stays a coroutine."""


class MustPart(Exception):
    """Threads come to divergent flow in two ways: they must go alone from this block on."""

    def __init__(self, block: llvm.Block) -> None:
        super().__init__(block.name)
        self.block = block


@dataclass(eq=False)
class Region:
    """Blocks that one loop over the threads goes round, in an order in which values come before their uses.

    is_ordered: threads may do there what others see, or end with a fault, and must run in their order
    """

    head: llvm.Block
    blocks: list[llvm.Block] = field(default_factory=list)
    group: Group | None = None
    is_ordered: bool = False


@dataclass(eq=False)
class Group:
    """Regions between barriers, in order; the first is where it begins.

    is_serial: its threads run one after the other from its beginning to its end
    """

    number: int
    regions: list[Region] = field(default_factory=list)
    is_serial: bool = False
    may_fault: bool = False

    @property
    def head(self) -> llvm.Block:
        """The block at which it begins."""
        return self.regions[0].head


class Regions:
    """The regions of a function.

    barriers, pauses: blocks at whose end all threads wait, or those of a warp, which then is a strip
    wide, narrow: what is uniform over the block, and over threads that differ in x alone
    leave, order: the one block that ends the function; all blocks, those that lead to others before them
    """

    def __init__(self, flow: Flow, barriers: set[int], pauses: set[int], wide: Uniformity, narrow: Uniformity) -> None:
        self.flow, self.barriers, self.pauses, self.wide, self.narrow = flow, barriers, pauses, wide, narrow
        self._ends = barriers | pauses
        self.leave = self._find_leave()
        self._check_flow()
        self.order = postorder(flow.entry, flow.after)[::-1]  # blocks before those that they lead to
        self._owner: dict[int, Region] = {}
        self._find_regions()
        self._merge_regions()

    def region(self, block: llvm.Block) -> Region:
        """The region that a block is in."""
        return self._owner[id(block)]

    def is_inner(self, block: llvm.Block, to: llvm.Block) -> bool:
        """Whether a way stays in the loop over the threads."""
        return (
            to is not self.leave
            and id(block) not in self._ends
            and self._owner[id(to)] is self._owner[id(block)]
            and to is not self._owner[id(to)].head
        )

    def _find_leave(self) -> llvm.Block:
        leaving = [block for block in self.flow.blocks if not self.flow.after[id(block)]]
        if len(leaving) != 1:
            raise Refused("it ends in several places" if leaving else "it never ends")
        return leaving[0]

    def _check_flow(self) -> None:
        flow = self.flow
        if any(flow.join(block) is None for block in flow.blocks if block is not self.leave):
            raise Refused("a part of it never ends")
        for block in flow.blocks:
            if id(block) in self.barriers and self.wide.is_divergent(block):
                raise Refused("not all threads may come to a barrier")
            if id(block) in self._ends and self.narrow.is_divergent(block):
                raise Refused("not all lanes may come to an operation of their warp")

    def _find_regions(self) -> None:
        for block in self.order:
            if block is self.leave or self.narrow.is_divergent(block):
                continue
            region = self._owner[id(block)] = Region(block)
            todo = [] if id(block) in self._ends else list(self.flow.after[id(block)])
            while todo:
                at = todo.pop()
                if at is self.leave or not self.narrow.is_divergent(at):
                    continue
                owner = self._owner.setdefault(id(at), region)
                if owner is not region:
                    self._part(at)
                if at not in region.blocks:
                    region.blocks.append(at)
                    todo += self.flow.after[id(at)]
        for block in self.order:
            if block is not self.leave and id(block) not in self._owner:
                raise Refused("divergent flow has no beginning")

    def _part(self, block: llvm.Block) -> None:
        """A divergent block that two regions lead to: a branch that goes there must not be one for all."""
        for before in self.flow.before[id(block)]:
            if not self.narrow.is_divergent(before) and len(self.flow.after[id(before)]) > 1:
                raise MustPart(before)
        raise Refused("divergent flow is entered in two places")

    def _merge_regions(self) -> None:
        changed = True
        while changed:
            changed = False
            for block in self.order[1:]:
                if block is self.leave or self._owner[id(block)].head is not block:
                    continue
                before = self.flow.before[id(block)]
                owners = {id(self._owner[id(b)]): self._owner[id(b)] for b in before}
                if len(owners) != 1 or any(id(b) in self._ends for b in before):
                    continue
                (owner,) = owners.values()
                if owner.head is not block and self._exits(owner) == {id(block)}:
                    merged = self._owner[id(block)]
                    for other in [merged.head, *merged.blocks]:
                        self._owner[id(other)] = owner
                        owner.blocks.append(other)
                    changed = True
        position = {id(block): k for k, block in enumerate(self.order)}
        for region in {id(r): r for r in self._owner.values()}.values():
            region.blocks = sorted([region.head, *region.blocks], key=lambda b: position[id(b)])

    def _exits(self, region: Region) -> set[int]:
        return {
            id(to)
            for block in [region.head, *region.blocks]
            for to in self.flow.after[id(block)]
            if not self.is_inner(block, to)
        }
