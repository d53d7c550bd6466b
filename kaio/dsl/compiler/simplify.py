"""What constants decide, before anything is typed: branches become jumps, and what nobody reads is dropped.

A branch on a `Const` parameter, a captured flag or a literal argument leaves one way only, so the other need not type.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Set
from dataclasses import replace
from typing import Any

import numpy as np

from kaio.dsl import symbols
from kaio.dsl.compiler import ir
from kaio.dsl.compiler.ssa import ssa

__all__ = ["join_straight", "labels_from", "reachable", "simplify"]

_UNKNOWN = object()
_GIVEN = object()  # an argument that is there at run time: its value is unknown, but it is not None


def simplify(blocks: dict[int, ir.Block]) -> tuple[ir.Block, ...]:
    """SSA with branches on constants decided, the dead dropped, and blocks in an order that defines before it uses."""
    entry = _entry(blocks)
    single = {block.label: block for block in ssa(tuple(_in_order(join_straight(reachable(blocks, entry), entry))))}
    named = {name for name, op in _definitions(single).items() if isinstance(op, ir.Copy) and not ir.is_temporary(name)}
    decided = _decide_branches(single, entry)
    if decided is not single:
        decided = join_straight(decided, entry)
    return tuple(_in_order(_drop_dead(decided, named)))


def _entry(blocks: Mapping[int, ir.Block]) -> int:
    return min(blocks)


def _decide_branches(blocks: dict[int, ir.Block], entry: int) -> dict[int, ir.Block]:
    """Turn branches on constants into jumps, until no more is decided."""
    while True:
        known = _constants(blocks)
        decided = {label: _decided(block, known) for label, block in blocks.items()}
        if decided == blocks:
            return blocks
        blocks = reachable(decided, entry)


def join_straight(blocks: dict[int, ir.Block], entry: int) -> dict[int, ir.Block]:
    """One block out of those that run straight on.

    The head of a loop is one block then: in long loops Python puts an EXTENDED_ARG of its own in front of it. But the
    head of a `for` that nothing goes back to, as its body always leaves, stays a block: what is in front of it may be
    the head of another loop, whose turns are not those of the `for`.
    """
    preds = ir.predecessors(blocks.values())
    joined = dict(blocks)
    renamed: dict[int, int] = {}
    for label in list(blocks):
        while label in joined and isinstance(jump := joined[label].terminator, ir.Jump):
            following = jump.target
            if following in (label, entry) or len(preds[following]) != 1:
                break
            if _has(joined[label], ir.Iterate) and _has(joined[following], ir.Step):
                break
            body = (*joined[label].body, *joined[following].body)
            joined[label] = ir.Block(label, body, joined.pop(following).terminator)
            renamed[following] = label
    return {label: _with_labels(block, renamed) for label, block in joined.items()}


def _has(block: ir.Block, kind: type[ir.Iterate | ir.Step]) -> bool:
    return any(isinstance(s, ir.Assign) and isinstance(s.op, kind) for s in block.body)


def _with_labels(block: ir.Block, renamed: Mapping[int, int]) -> ir.Block:
    """A block whose phis name the blocks that others were joined into."""

    def final(label: int) -> int:
        while label in renamed:
            label = renamed[label]
        return label

    body = tuple(
        replace(s, op=ir.Phi(tuple((final(at), name) for at, name in s.op.incoming)))
        if isinstance(s, ir.Assign) and isinstance(s.op, ir.Phi)
        else s
        for s in block.body
    )
    return replace(block, body=body)


def _decided(block: ir.Block, known: Mapping[str, Any]) -> ir.Block:
    t = block.terminator
    if isinstance(t, ir.Branch) and known.get(t.condition, _GIVEN) is not _GIVEN:
        return replace(block, terminator=ir.Jump(t.true if known[t.condition] else t.false, t.place))
    return block


def _constants(blocks: Mapping[int, ir.Block]) -> dict[str, Any]:
    """Names whose value is known: literals, captured numbers, Const parameters, and what follows from them."""
    known: dict[str, Any] = {}
    for block in blocks.values():
        for statement in block.body:
            if isinstance(statement, ir.Assign):
                value = _evaluate(statement.op, known)
                if value is not _UNKNOWN:
                    known[statement.target] = value
    return known


def _evaluate(op: ir.Op, known: Mapping[str, Any]) -> Any:
    try:
        match op:
            case ir.Constant(value=value):
                return _UNKNOWN if isinstance(value, np.ndarray) else value  # whose operators are not a kernel's
            case ir.Argument():
                return _GIVEN
            case ir.Attribute(value=name, name=member) if isinstance(known.get(name), enum.EnumType | enum.Enum):
                return getattr(known[name], member)
            case ir.Copy(source=name):
                return known.get(name, _UNKNOWN)
            case ir.Binary(op="is" | "is not" as symbol, left=left, right=right) if _GIVEN in (
                known.get(left),
                known.get(right),
            ):
                other = known.get(left) if known.get(right) is _GIVEN else known.get(right)
                return symbol == "is not" if other is None and {left, right} <= known.keys() else _UNKNOWN
            case ir.Unary(op=symbol, operand=name) if known.get(name, _GIVEN) is not _GIVEN:
                return symbols.UNARY[symbol](known[name])
            case ir.Tuple(items=items) if all(known.get(item, _GIVEN) is not _GIVEN for item in items):
                return tuple(known[item] for item in items)
            case ir.Binary(op="in", left=left, right=right):
                item, items = known.get(left, _GIVEN), known.get(right, _GIVEN)
                return item in items if item is not _GIVEN and isinstance(items, tuple) else _UNKNOWN
            case ir.Binary(op=symbol, left=left, right=right) if _GIVEN not in (
                known.get(left, _GIVEN),
                known.get(right, _GIVEN),
            ):
                return symbols.apply(symbol, known[left], known[right])
            case ir.Call(function=function, args=(arg,)) if (
                known.get(function) is bool and known.get(arg, _GIVEN) is not _GIVEN
            ):
                return bool(known[arg])
    except Exception:  # left to inference, which has the place
        return _UNKNOWN
    return _UNKNOWN


def reachable(blocks: Mapping[int, ir.Block], entry: int) -> dict[int, ir.Block]:
    """The blocks that the entry leads to, with what comes in from others taken out of their phis."""
    found = [blocks[label] for label in sorted(labels_from(blocks, entry))]
    preds = ir.predecessors(found)
    return {block.label: _entered_from(block, set(preds.get(block.label, ()))) for block in found}


def labels_from(blocks: Mapping[int, ir.Block], entry: int, without: int | None = None) -> set[int]:
    """The labels that the entry leads to, on ways that do not go through `without`."""
    found: set[int] = set()
    todo = [entry]
    while todo:
        label = todo.pop()
        if label not in found and label != without:
            found.add(label)
            todo += blocks[label].targets()
    return found


def _entered_from(block: ir.Block, preds: set[int]) -> ir.Block:
    body: list[ir.Statement] = []
    for statement in block.body:
        if isinstance(statement, ir.Assign) and isinstance(statement.op, ir.Phi):
            incoming = tuple((at, name) for at, name in statement.op.incoming if at in preds)
            names = {name for _, name in incoming} - {statement.target}
            op: ir.Op = ir.Copy(names.pop()) if len(names) == 1 and len(incoming) == len(preds) else ir.Phi(incoming)
            statement = replace(statement, op=op)
        body.append(statement)
    body.sort(key=lambda s: not (isinstance(s, ir.Assign) and isinstance(s.op, ir.Phi)))  # stable: phis first
    return replace(block, body=tuple(body))


def _drop_dead(blocks: Mapping[int, ir.Block], named: Set[str]) -> dict[int, ir.Block]:
    """Drop what nobody reads: SSA leaves phis of variables that are dead there, and their types need not agree.

    named: the copies that were written as such, `both = a and b` is one: they read what they name
    """
    definitions = _definitions(blocks)
    known = {name: value for name, value in _constants(blocks).items() if value is not _GIVEN}
    todo = [name for b in blocks.values() for name in _roots(b, known, named)]
    live: set[str] = set()
    while todo:
        name = todo.pop()
        if name not in live and name in definitions:
            live.add(name)
            todo += ir.operands(definitions[name])
    return {
        label: replace(b, body=tuple(s for s in b.body if not isinstance(s, ir.Assign) or s.target in live))
        for label, b in reachable(blocks, _entry(blocks)).items()
    }


def _roots(block: ir.Block, known: Mapping[str, Any], named: Set[str]) -> Iterable[str]:
    for statement in block.body:
        if isinstance(statement, ir.SetItem):
            yield from statement.reads
        elif isinstance(statement.op, ir.Tuple) or (
            statement.target not in known and not isinstance(statement.op, ir.Phi | ir.Copy)
        ):
            yield statement.target  # typed even where unused: its mistakes are the user's
        elif not ir.is_temporary(statement.target) and (
            statement.target in named or isinstance(known.get(statement.target), int | float | complex | enum.Enum)
        ):
            yield statement.target  # seen by who watches a thread
    yield from ir.reads(block.terminator)


def _definitions(blocks: Mapping[int, ir.Block]) -> dict[str, ir.Op]:
    return {s.target: s.op for b in blocks.values() for s in b.body if isinstance(s, ir.Assign)}


def _in_order(blocks: Mapping[int, ir.Block]) -> list[ir.Block]:
    """Reverse postorder: every name is defined before it is used, and an edge backwards is a loop's."""
    entry, seen, order = _entry(blocks), set[int](), list[ir.Block]()
    stack = [(entry, iter(blocks[entry].targets()))]
    seen.add(entry)
    while stack:
        label, targets = stack[-1]
        for target in targets:
            if target not in seen:
                seen.add(target)
                stack.append((target, iter(blocks[target].targets())))
                break
        else:
            order.append(blocks[label])
            stack.pop()
    return order[::-1]
