"""Loops over `unrolled(range(…))` written out, before anything is typed: one copy of the body a turn.

It is done before SSA, where a variable may be set in many places, so that the copies differ in their labels alone.
A loop whose bounds are not known here is left; the record `unrolled` then says what it needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from kaio.dsl import symbols
from kaio.dsl.compiler import ir
from kaio.dsl.compiler.simplify import join_straight, labels_from, reachable
from kaio.dsl.unrolling import NOT_KNOWN, unrolled
from kaio.errors import KernelSyntaxError

__all__ = ["unroll"]

_MOST_STATEMENTS = 20_000
_MOST_STEPS = 50  # from a bound to the literals that it is made of
_UNKNOWN = object()
_FUNCTIONS = (abs, int, len, max, min, range)

Blocks = dict[int, ir.Block]


@dataclass(frozen=True)
class _Loop:
    """A loop to be written out: the label of its head, the labels of its body, the number of each turn."""

    head: int
    body: frozenset[int]
    turns: range


def unroll(blocks: Blocks) -> Blocks:
    """The blocks with every such loop written out, those inside of others last."""
    if not any(_names_it(block) for block in blocks.values()):
        return blocks
    entry = min(blocks)
    blocks = join_straight(reachable(blocks, entry), entry)  # the jump back of a long loop is to its head then
    size = sum(len(block.body) for block in blocks.values())
    while (loop := _find(blocks)) is not None:
        size += (_count(loop.turns) - 1) * sum(len(blocks[label].body) for label in loop.body)
        if size > _MOST_STATEMENTS:
            raise KernelSyntaxError(
                f"this loop of {_count(loop.turns)} turns makes the kernel {size} statements long when written out, "
                f"and {_MOST_STATEMENTS} is the most",
                place=blocks[loop.head].terminator.place,
                help="write several turns at a time: `unrolled(range(...), count=8)`",
            )
        blocks = _written_out(blocks, loop)
        there = labels_from(blocks, entry)  # a body that always leaves comes to no second turn
        blocks = {label: block for label, block in blocks.items() if label in there}
    return _without_calls(blocks)


def _without_calls(blocks: Blocks) -> Blocks:
    """The calls of `unrolled` whose loops are gone are gone, too."""
    values = _Values(blocks)
    made: Blocks = {}
    for label, block in blocks.items():
        body: list[ir.Statement] = []
        for position, statement in enumerate(block.body):
            if isinstance(statement, ir.Assign) and values.unrolled_at(label, position) is not None:
                statement = replace(statement, op=ir.Constant(None))
            body.append(statement)
        made[label] = replace(block, body=tuple(body))
    return made


def _names_it(block: ir.Block) -> bool:
    ops = [statement.op for statement in block.body if isinstance(statement, ir.Assign)]
    return any(
        op.value is unrolled if isinstance(op, ir.Constant) else isinstance(op, ir.Attribute) and op.name == "unrolled"
        for op in ops
    )


def _count(turns: range) -> int:
    """The length of a range, also where it is more than `len` can say."""
    return max(0, -((turns.start - turns.stop) // turns.step))


def _find(blocks: Blocks) -> _Loop | None:
    """The first loop with known bounds; an outer one comes before those in it."""
    values = _Values(blocks)
    for label, block in blocks.items():
        step = next((s for s in block.body if isinstance(s, ir.Assign) and isinstance(s.op, ir.Step)), None)
        if step is None or not isinstance(step.op, ir.Step) or not isinstance(block.terminator, ir.Branch):
            continue
        turns = values.turns(step.op.iterator, label, block.body.index(step))
        if turns is not None:
            return _Loop(label, _dominated(blocks, block.terminator.true), turns)
    return None


def _dominated(blocks: Blocks, label: int) -> frozenset[int]:
    """The blocks that are reached through this one only."""
    entry = min(blocks)
    return frozenset(labels_from(blocks, entry) - labels_from(blocks, entry, without=label))


# ---------------------------------------------------------------------- copies
def _written_out(blocks: Blocks, loop: _Loop) -> Blocks:
    """The first turn keeps the labels; the last head, which finds no turn left, leads out."""
    free = max(blocks) + 1
    inside = (loop.head, *sorted(loop.body))
    maps = [{label: label for label in inside}]
    for _ in loop.turns:
        maps.append({label: free + k for k, label in enumerate(inside)})
        free += len(inside)
    made = {label: block for label, block in blocks.items() if label not in maps[0]}
    for turn, number in enumerate(loop.turns):
        here, after = maps[turn], {**maps[turn], loop.head: maps[turn + 1][loop.head]}
        made[here[loop.head]] = _head(blocks[loop.head], here[loop.head], number, here)
        for label in loop.body:
            block = blocks[label]
            made[here[label]] = ir.Block(here[label], block.body, _to(block.terminator, after))
    last = maps[-1][loop.head]
    made[last] = _head(blocks[loop.head], last, None, {})
    return made


def _head(block: ir.Block, label: int, number: int | None, labels: Mapping[int, int]) -> ir.Block:
    """The head of one turn: the number is known, or that there is none."""
    body = tuple(
        replace(s, op=_turn(s.op, number)) if isinstance(s, ir.Assign) else s
        for s in block.body
        if not (isinstance(s, ir.Assign) and isinstance(s.op, ir.Step))
    )
    branch = block.terminator
    assert isinstance(branch, ir.Branch)
    target = branch.false if number is None else labels[branch.true]
    return ir.Block(label, body, ir.Jump(target, branch.place))


def _turn(op: Any, number: int | None) -> Any:
    match op:
        case ir.StepValue():
            return ir.Constant(number)
        case ir.StepFlag():
            return ir.Constant(number is not None)
    return op


def _to(terminator: ir.Terminator, labels: Mapping[int, int]) -> ir.Terminator:
    match terminator:
        case ir.Jump(target=target):
            return replace(terminator, target=labels.get(target, target))
        case ir.Branch(true=true, false=false):
            return replace(terminator, true=labels.get(true, true), false=labels.get(false, false))
    return terminator


# ---------------------------------------------------------------------- what is known
class _Values:
    """Values that are known before types are: those that come out the same on every way to a place."""

    def __init__(self, blocks: Blocks) -> None:
        self.blocks = blocks
        self.preds = ir.predecessors(blocks.values())
        self._depth = 0
        self._known: dict[tuple[int, int], Any] = {}

    def turns(self, name: str, label: int, before: int) -> range | None:
        """The range that a loop's iterator goes over, if the loop is to be written out and the range is known."""
        found = {self.unrolled_at(*place) for place in self._settings(name, label, before)}
        if len(found) > 1:  # which of them it goes over is not known
            raise KernelSyntaxError(NOT_KNOWN[0], place=self.blocks[label].body[before].place, help=NOT_KNOWN[1])
        return found.pop() if found else None

    def unrolled_at(self, label: int, position: int) -> range | None:
        """The range, if a statement calls `unrolled` or passes on what it gave."""
        statement = self.blocks[label].body[position]
        assert isinstance(statement, ir.Assign)
        match statement.op:
            case ir.Copy(source=name) if ir.is_temporary(name):
                return self.turns(name, label, position)
            case ir.Iterate(value=name):
                return self.turns(name, label, position)
            case ir.Call(function=function, args=(argument,), kwargs=()):
                if self.of(function, label, position) is unrolled:
                    found = self.of(argument, label, position)
                    return found if isinstance(found, range) else None
        return None

    def of(self, name: str, label: int, before: int) -> Any:
        """The value of a variable in front of a statement of a block, or `_UNKNOWN`."""
        if self._depth >= _MOST_STEPS:
            return _UNKNOWN
        self._depth += 1
        found = [self._set_once(*place) for place in self._settings(name, label, before)]
        self._depth -= 1
        return found[0] if found and all(_is_same(value, found[0]) for value in found[1:]) else _UNKNOWN

    def _settings(self, name: str, label: int, before: int) -> list[tuple[int, int]]:
        """The statements that a variable may have been set by, as label and position."""
        places: list[tuple[int, int]] = []
        seen: set[int] = set()
        todo = [(label, before)]
        while todo:
            label, before = todo.pop()
            body = self.blocks[label].body
            for position in range(before - 1, -1, -1):
                statement = body[position]
                if isinstance(statement, ir.Assign) and statement.target == name:
                    places.append((label, position))
                    break
            else:
                new = [pred for pred in self.preds.get(label, ()) if pred not in seen]
                seen.update(new)
                todo += [(pred, len(self.blocks[pred].body)) for pred in new]
        return places

    def _set_once(self, label: int, position: int) -> Any:
        place = label, position
        if place not in self._known:
            self._known[place] = _UNKNOWN  # for the value that it is itself made of, round a loop
            self._known[place] = self._set_by(label, position)
        return self._known[place]

    def _set_by(self, label: int, position: int) -> Any:
        statement = self.blocks[label].body[position]
        assert isinstance(statement, ir.Assign)
        op = statement.op
        if isinstance(op, ir.Constant):
            return op.value
        if not isinstance(op, ir.Copy | ir.Unary | ir.Binary | ir.Attribute | ir.GetItem | ir.Tuple | ir.Call):
            return _UNKNOWN
        given = []
        for name in ir.operands(op):
            given.append(self.of(name, label, position))
            if given[-1] is _UNKNOWN:
                return _UNKNOWN
        try:
            return _evaluated(op, given)
        except Exception:  # left to inference, which has the place
            return _UNKNOWN


def _is_same(one: Any, other: Any) -> bool:
    try:
        return one is other or (type(one) is type(other) and bool(one == other))
    except Exception:  # arrays are compared item by item
        return False


def _evaluated(op: ir.Op, given: list[Any]) -> Any:
    match op:
        case ir.Copy():
            return given[0]
        case ir.Unary(op=symbol):
            return symbols.UNARY[symbol](*given)
        case ir.Binary(op=symbol) if all(isinstance(value, int) for value in given):
            return symbols.BINARY[symbol](*given)
        case ir.Tuple():
            return tuple(given)
        case ir.Attribute(name=name):
            return getattr(given[0], name)
        case ir.GetItem() if isinstance(given[0], tuple):
            return given[0][given[1]]
        case ir.Call(kwargs=()) if any(given[0] is function for function in _FUNCTIONS):
            if given[0] is range and any(isinstance(value, bool) for value in given):
                return _UNKNOWN
            return given[0](*given[1:])
    return _UNKNOWN
