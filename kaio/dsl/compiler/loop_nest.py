"""The loops of a function, and what of them a machine has to know that stops loops which never end.

A loop is found by its head, the block that something goes back to; its body are the blocks from which the head can be
reached again without passing it (a natural loop: Aho, Sethi, Ullman, "Compilers", 10.4).
"""

from __future__ import annotations

import ast
import math
from collections.abc import Container, Mapping
from dataclasses import dataclass

from kaio.dsl.compiler import ir
from kaio.dsl.intrinsic import Intrinsic
from kaio.dsl.values import INDEX64, IteratorType, Type, Weak
from kaio.errors import Place
from kaio.source import Source

__all__ = ["Loop", "back_edges", "loops_of", "may_spin", "place_of", "turn_starts"]


_FEW = 256  # turns, of a loop and of those in it together, that are soon over


@dataclass(frozen=True)
class Loop:
    """One loop of a function.

    body: the labels of its blocks, the head among them
    iterator: what the loop steps, if it ends in a while by itself: it is a `for` over no more numbers than an index
        has, is left in no other way, and no loop is in it, or every turn waits for other threads, or it has with those
        in it a few turns that the source says; else None
    spins: whether it may wait for what another thread writes: it looks at memory anew, and does not only count
    waits: whether every turn waits for other threads
    is_bounded: whether it is a `for` over no more numbers than an index has, by a step that is known
    is_short: the same by any step (by 0 there is no turn)
    turns: how many it has with the loops in it between two waits, where the source says it; else infinitely many. Of a
        loop of a few turns those of an innermost loop of any number are one
    """

    body: frozenset[int]
    iterator: str | None
    spins: bool
    waits: bool
    is_bounded: bool
    is_short: bool
    turns: float


def back_edges(function: ir.Function) -> frozenset[tuple[int, int]]:
    """The ways that go back: to a block that comes no later in the order of the code."""
    order = {block.label: position for position, block in enumerate(function.blocks)}
    return frozenset(
        (block.label, to) for block in function.blocks for to in block.targets() if order[to] <= order[block.label]
    )


def loops_of(typed: ir.Typed) -> dict[int, Loop]:
    """The loops of a function by the label of their head."""
    function = typed.function
    edges = back_edges(function)
    if not edges:
        return {}
    before = ir.predecessors(function.blocks)
    ends = {head: frozenset(at for at, to in edges if to == head) for head in sorted({to for _, to in edges})}
    bodies = {head: _body(head, set(ends[head]), before) for head in ends}
    code = _Code(typed)
    loops: dict[int, Loop] = {}
    for head in sorted(bodies, key=lambda head: len(bodies[head])):  # those in others first
        loops[head] = _loop(code, head, bodies[head], loops, ends[head])
    return {head: loops[head] for head in bodies}


def may_spin(typed: ir.Typed) -> bool:
    """Whether a loop of the function, or of one that it calls, may wait for what another thread writes."""
    seen: set[int] = set()

    def search(typed: ir.Typed) -> bool:
        if id(typed) in seen:
            return False
        seen.add(id(typed))
        if any(loop.spins for loop in loops_of(typed).values()):
            return True
        return any(search(inner) for call in typed.calls.values() for inner in _inner(call))

    return search(typed)


def place_of(source: Source, inside: Place, last: Place) -> Place:
    """Where the statement of a loop stands: the innermost that has both places, up to its colon; `last` if none has."""
    around = [
        node
        for node in ast.walk(source.node)
        if isinstance(node, ast.For | ast.While)
        and all(node.lineno <= place.line <= (node.end_lineno or 0) for place in (inside, last))
    ]
    found = max(around, key=lambda node: (node.lineno, node.col_offset), default=None)
    if found is None:
        return last
    end = found.test if isinstance(found, ast.While) else found.iter
    return source.place_at(found.lineno, found.col_offset, end.end_lineno, end.end_col_offset)


def turn_starts(typed: ir.Typed) -> dict[int, list[Place]]:
    """The blocks in which a turn of a loop begins, and where those loops stand, the outer one first.

    Python has the test of a `while` twice, before the first turn and behind each, so that its body is found by where
    it stands; of one whose body does nothing a turn begins at its head.
    """
    function = typed.function
    found: dict[int, list[Place]] = {}
    for node in ast.walk(function.source.node):
        if not isinstance(node, ast.For | ast.While):
            continue
        at = _for_start(function, node) if isinstance(node, ast.For) else _while_start(function, node, found)
        if at is not None:
            end = node.iter if isinstance(node, ast.For) else node.test
            place = function.source.place_at(node.lineno, node.col_offset, end.end_lineno, end.end_col_offset)
            found.setdefault(at, []).append(place)
    return found


def _for_start(function: ir.Function, node: ast.For) -> int | None:
    for block in function.blocks:
        steps = [s for s in block.body if isinstance(s, ir.Assign) and isinstance(s.op, ir.Step)]
        if steps and isinstance(block.terminator, ir.Branch) and _is_in(steps[0].place, node.iter):
            return block.terminator.true
    return None


def _while_start(function: ir.Function, node: ast.While, taken: Container[int]) -> int | None:
    heads = {to for _, to in back_edges(function)}
    for statement in node.body:
        for block in function.blocks:
            done = [s for s in block.body if not (isinstance(s, ir.Assign) and isinstance(s.op, ir.Phi))]
            # One that does nothing but go on may be the head of a loop whose first statement is another loop.
            if (
                isinstance(block.terminator, ir.Jump)
                and not done
                and (block.label not in heads or block.label in taken)
            ):
                continue
            at_end = [] if isinstance(block.terminator, ir.Jump) and block.label not in heads else [block.terminator]
            if any(_is_in(s.place, statement) for s in (*done, *at_end)):
                return block.label
    inside = (b for b in function.blocks if any(_is_in(s.place, node) for s in (*b.body, b.terminator)))
    return next((block.label for block in inside if block.label in heads), None)


def _is_in(place: Place, node: ast.stmt | ast.expr) -> bool:
    at = (place.line, place.column)
    return (node.lineno, node.col_offset) <= at < (node.end_lineno or 0, node.end_col_offset or 0)


# ------------------------------------------------------------------ one loop
def _body(head: int, ends: set[int], before: Mapping[int, list[int]]) -> frozenset[int]:
    found, todo = {head}, list(ends)
    while todo:
        label = todo.pop()
        if label not in found:
            found.add(label)
            todo += before.get(label, ())
    return frozenset(found)


def _loop(code: _Code, head: int, body: frozenset[int], smaller: Mapping[int, Loop], ends: frozenset[int]) -> Loop:
    inside = {other: loop for other, loop in smaller.items() if other in body}
    step = next((s.op for s in code.blocks[head].body if isinstance(s, ir.Assign) and isinstance(s.op, ir.Step)), None)
    is_counted = step is not None and not _leaves_elsewhere(code, head, body)
    iterator = code.origin(step.iterator) if step is not None and is_counted else None
    waits = _always_waits(code, head, body, ends)
    calls = [found for label in body for found in code.calls(label)]
    is_short = step is not None and _is_short(code.typed.types[step.iterator])
    is_bounded = step is not None and is_short and _has_known_step(code.typed.types[step.iterator])
    turns = math.inf
    if iterator is not None:
        is_flat = not any(_has_loops(call) for _, call in calls)
        if is_flat:
            turns = max(1, code.literal_turns(iterator)) * max(1, _turns_within(inside))
            if turns > _FEW and any(loop.turns == math.inf and not loop.waits for loop in inside.values()):
                turns = math.inf
        ends_soon = (is_flat and not inside) or waits or turns <= _FEW
        iterator = iterator if ends_soon and is_bounded else None
    spins = not is_counted and any(_observes(code, *found) for found in calls)
    return Loop(body, iterator, spins, waits, is_bounded, is_short, turns)


def _turns_within(inside: Mapping[int, Loop]) -> float:
    """The turns of the loops that a turn of another one takes, up to where threads wait, which is progress."""
    around = [loop.body for loop in inside.values()]
    outermost = [loop for head, loop in inside.items() if sum(head in body for body in around) == 1]
    # What ends in a while by itself is one: to look up around each costs more than a few turns of it.
    return sum(0 if loop.waits else 1 if loop.turns == math.inf and loop.iterator else loop.turns for loop in outermost)


class _Code:
    """A function, by what is asked of it."""

    def __init__(self, typed: ir.Typed) -> None:
        self.typed = typed
        self.blocks = {block.label: block for block in typed.function.blocks}
        self._made = ir.definitions(typed.function)
        self.read = ir.names_read(typed.function)

    def calls(self, label: int) -> list[tuple[str, ir.TypedCall]]:
        """The calls of a block, by the names of their results."""
        names = [statement.target for statement in self.blocks[label].body if isinstance(statement, ir.Assign)]
        return [(name, self.typed.calls[name]) for name in names if name in self.typed.calls]

    def literal_turns(self, iterator: str) -> float:
        """How many turns the source says that a loop has; infinitely many where it does not."""
        made = self._made.get(iterator)
        of = made.op.value if made is not None and isinstance(made.op, ir.Iterate) else ""
        call = self._made.get(self.origin(of))
        if call is None or not isinstance(call.op, ir.Call):
            return math.inf
        ends = [self.typed.types.get(name) for name in call.op.args]
        values = [end.value for end in ends if isinstance(end, Weak) and isinstance(end.value, int)]
        return len(range(*values)) if len(values) == len(ends) else math.inf

    def origin(self, name: str) -> str:
        """What a name is a copy of."""
        while isinstance(assign := self._made.get(name), ir.Assign) and isinstance(assign.op, ir.Copy):
            name = assign.op.source
        return name


def _leaves_elsewhere(code: _Code, head: int, body: frozenset[int]) -> bool:
    """Whether a loop is left from another block than its head, unless an assertion fails there."""
    blocks = [code.blocks[label] for label in body]
    exits = {
        block.label
        for block in blocks
        for to in block.targets()
        if to not in body and not isinstance(code.blocks[to].terminator, ir.Fail)
    }
    return not exits <= {head} or any(isinstance(block.terminator, ir.Return) for block in blocks)


def _is_short(type_: Type) -> bool:
    """Whether it has no more numbers than an index has, which is no larger than memory."""
    assert isinstance(type_, IteratorType)
    return type_.range.dtype is INDEX64 or type_.range.dtype.bits <= 32


def _has_known_step(type_: Type) -> bool:
    assert isinstance(type_, IteratorType)
    return type_.range.step is not None


def _always_waits(code: _Code, head: int, body: frozenset[int], ends: frozenset[int]) -> bool:
    """Whether no way round a loop avoids to wait for other threads."""
    seen, todo = {head}, [to for to in code.blocks[head].targets() if to in body]
    while todo:
        label = todo.pop()
        if label not in seen and not any(_waits(call) for _, call in code.calls(label)):
            seen.add(label)
            todo += [to for to in code.blocks[label].targets() if to in body]
    return not ends & seen


# ------------------------------------------------------------------ what is called
def _inner(call: ir.TypedCall) -> list[ir.Typed]:
    """The functions that are lowered in place of a call."""
    return [inner for inner in (call.callee, call.body) if isinstance(inner, ir.Typed)]


def _has_loops(call: ir.TypedCall) -> bool:
    return any(back_edges(inner.function) or any(map(_has_loops, inner.calls.values())) for inner in _inner(call))


def _waits(call: ir.TypedCall) -> bool:
    return isinstance(call.callee, Intrinsic) and call.callee.suspends


def _observes(code: _Code, name: str, call: ir.TypedCall) -> bool:
    """Whether a call sees what other threads write, or pauses until they have; of an update whose result is used."""
    if isinstance(call.callee, Intrinsic) and call.callee.observes is not None and call.callee.observes(call):
        return call.callee.suspends or name in code.read
    return any(_observes(inner, *found) for inner in map(_Code, _inner(call)) for found in inner.typed.calls.items())
