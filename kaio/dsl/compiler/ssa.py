"""Static single assignment: each assignment has a name of its own, and where ways join a phi says which comes in.

Pruned by liveness, then trivial phis are dropped (Braun et al., "Simple and Efficient Construction of SSA Form", 2013,
section 3.2). Linear in the code and in the variables alive at its joins, so that generated kernels of thousands of
lines compile.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Set
from dataclasses import replace
from typing import Any

from kaio.dsl.compiler import ir

__all__ = ["ssa"]

Blocks = Mapping[int, ir.Block]


def ssa(blocks: tuple[ir.Block, ...]) -> tuple[ir.Block, ...]:
    """Blocks, in an order in which a block comes after one that leads to it, with names assigned once."""
    assigned = Counter(s.target for block in blocks for s in block.body if isinstance(s, ir.Assign))
    preds = ir.predecessors(blocks)
    alive = _alive({block.label: block for block in blocks}, preds, assigned.keys())
    # One that is read where it was not set on every way (a loop's variable after the loop) meets itself unset.
    renamed = {name for name, count in assigned.items() if count > 1} | alive[blocks[0].label]
    if not renamed:
        return blocks
    return _drop_trivial(_Renamer(blocks, preds, alive, renamed).blocks())


def _alive(blocks: Blocks, preds: Mapping[int, list[int]], variables: Set[str]) -> dict[int, set[str]]:
    """The variables that each block may read from before it."""
    reads = {label: _read_first(block) & variables for label, block in blocks.items()}
    kills = {
        label: {s.target for s in block.body if isinstance(s, ir.Assign)} & variables for label, block in blocks.items()
    }
    alive = {label: set(found) for label, found in reads.items()}
    todo = list(blocks)
    while todo:
        label = todo.pop()
        for pred in preds.get(label, ()):
            new = alive[label] - kills[pred] - alive[pred]
            if new:
                alive[pred] |= new
                todo.append(pred)
    return alive


def _read_first(block: ir.Block) -> set[str]:
    """What a block reads before it assigns it."""
    found: set[str] = set()
    set_here: set[str] = set()
    for statement in block.body:
        found.update(name for name in ir.reads(statement) if name not in set_here)
        if isinstance(statement, ir.Assign):
            set_here.add(statement.target)
    found.update(name for name in ir.reads(block.terminator) if name not in set_here)
    return found


class _Renamer:
    """Gives each assignment its own name: the first keeps the variable's, later ones get `.1`, `.2`."""

    def __init__(
        self,
        blocks: tuple[ir.Block, ...],
        preds: Mapping[int, list[int]],
        alive: Mapping[int, set[str]],
        renamed: set[str],
    ) -> None:
        self.given, self.preds, self.alive, self.renamed = blocks, preds, alive, renamed
        self.counts: Counter[str] = Counter()
        self.taken = {s.target for block in blocks for s in block.body if isinstance(s, ir.Assign)}
        self.at_end: dict[int, dict[str, str]] = {}
        self.phis: dict[int, dict[str, str]] = {}

    def blocks(self) -> tuple[ir.Block, ...]:
        renamed = [self.block(block) for block in self.given]
        return tuple(self.with_phis(block) for block in renamed)

    def fresh(self, variable: str) -> str:
        """A name that is not taken; the bytecode's reader numbers some variables itself."""
        if self.counts[variable] == 0:
            self.counts[variable] = 1
            return variable
        base = ir.user_name(variable)
        while (name := f"{base}.{self.counts[base]}") in self.taken:
            self.counts[base] += 1
        self.taken.add(name)
        return name

    def block(self, block: ir.Block) -> ir.Block:
        preds = self.preds.get(block.label, [])
        # A block comes after the only one that leads to it; where ways join, each variable alive there gets a phi.
        now = dict(self.at_end[preds[0]]) if len(preds) == 1 else {}
        if len(preds) > 1:
            self.phis[block.label] = {name: self.fresh(name) for name in sorted(self.alive[block.label] & self.renamed)}
            now.update(self.phis[block.label])
        body: list[ir.Statement] = []
        for statement in block.body:
            new = _with_names(statement, now)
            if isinstance(new, ir.Assign) and new.target in self.renamed:
                now[new.target] = self.fresh(new.target)
                new = replace(new, target=now[new.target])
            body.append(new)
        self.at_end[block.label] = now
        return replace(block, body=tuple(body), terminator=_with_names(block.terminator, now))

    def with_phis(self, block: ir.Block) -> ir.Block:
        place = block.body[0].place if block.body else block.terminator.place
        phis = tuple(
            ir.Assign(name, ir.Phi(tuple(self.incoming(block.label, variable))), place)
            for variable, name in self.phis.get(block.label, {}).items()
        )
        return replace(block, body=(*phis, *block.body))

    def incoming(self, label: int, variable: str) -> Iterable[tuple[int, str]]:
        for pred in self.preds[label]:
            name = self.at_end[pred].get(variable)
            if name is not None:  # else not set on this way; the checks have shown that it is not read then
                yield pred, name


def _with_names(node: Any, names: Mapping[str, str]) -> Any:
    """A statement or terminator with the variables it reads renamed."""
    match node:
        case ir.Assign(op=op):
            return replace(node, op=_op_with_names(op, names))
        case ir.SetItem():
            return node.with_names(names)
        case ir.Branch(condition=name):
            return replace(node, condition=names.get(name, name))
        case ir.Return(value=name):
            return replace(node, value=names.get(name, name))
    return node


def _op_with_names(op: ir.Op, names: Mapping[str, str]) -> ir.Op:
    reads = ir.operands(op)
    if not any(name in names for name in reads):
        return op
    return ir.with_operands(op, tuple(names.get(name, name) for name in reads))


def _drop_trivial(blocks: tuple[ir.Block, ...]) -> tuple[ir.Block, ...]:
    """Drop phis that only ever pass on one other name."""
    phis = {s.target: s.op for b in blocks for s in b.body if isinstance(s, ir.Assign) and isinstance(s.op, ir.Phi)}
    entering = ir.predecessors(blocks)
    complete = {
        s.target: len(s.op.incoming) == len(entering.get(b.label, ()))
        for b in blocks
        for s in b.body
        if isinstance(s, ir.Assign) and isinstance(s.op, ir.Phi)
    }
    users: dict[str, set[str]] = defaultdict(set)
    for target, phi in phis.items():
        for name in ir.operands(phi):
            users[name].add(target)
    instead: dict[str, str] = {}

    def final(name: str) -> str:
        while name in instead:
            name = instead[name]
        return name

    todo = list(phis)
    while todo:
        target = todo.pop()
        if target in instead or not complete[target]:
            continue
        names = {final(name) for name in ir.operands(phis[target])} - {target}
        if len(names) == 1:
            instead[target] = names.pop()
            todo += sorted(users[target] - instead.keys())
            users[instead[target]] |= users[target]
    if not instead:
        return blocks
    mapping = {name: final(name) for name in instead}
    return tuple(
        replace(
            block,
            body=tuple(
                _with_names(s, mapping) for s in block.body if not (isinstance(s, ir.Assign) and s.target in instead)
            ),
            terminator=_with_names(block.terminator, mapping),
        )
        for block in blocks
    )
