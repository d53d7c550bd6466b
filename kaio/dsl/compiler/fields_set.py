"""Stores into parts of elements: `particles[i].pos[0] = x` is one store, with the path from the element to the part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kaio.dsl.compiler import ir
from kaio.errors import KernelSyntaxError, Place

__all__ = ["into_element", "set_field"]

_HELP = "set a field of an element, `x[i].field = value`, or make a new value"


def set_field(target: str, field: str, value: str, before: Sequence[ir.Statement], place: Place) -> ir.SetItem:
    """The store of `target.field = value`; `before` are the statements of the block so far."""
    found = _element(target, _definitions(before))
    if found is None:
        raise KernelSyntaxError("a kernel sets fields of elements only", place=place, help=_HELP)
    element, path = found
    return ir.SetItem(element.value, element.index, value, place, (*path, field))


def into_element(store: ir.SetItem, before: Sequence[ir.Statement]) -> ir.SetItem:
    """`x[i].pos[0] = value`, which reads as a store into `x[i].pos`, as one into the element; others as they are."""
    made = _definitions(before)
    op = made.get(store.array)
    if not isinstance(op, ir.Attribute | ir.GetItem) or not ir.is_temporary(store.array):
        return store
    found = _element(store.array, made)
    at = _literal(store.index, made)
    if found is None:
        return store
    element, path = found
    if at is None:
        raise KernelSyntaxError(
            "a part of an element is set at an int literal",
            place=store.place,
            help="an array of numbers to choose from at run time is a buffer, with one more dimension",
        )
    return replace(store, array=element.value, index=element.index, path=(*path, at))


def _element(name: str, made: dict[str, ir.Op]) -> tuple[ir.GetItem, tuple[str | int, ...]] | None:
    """The element that a temporary is read out of, and the path to it; None where there is none."""
    op = made.get(name) if ir.is_temporary(name) else None
    if isinstance(op, ir.Copy):
        return _element(op.source, made)
    if isinstance(op, ir.Attribute):
        inner = _element(op.value, made)
        return None if inner is None else (inner[0], (*inner[1], op.name))
    if isinstance(op, ir.GetItem):
        inner, at = _element(op.value, made), _literal(op.index, made)
        if inner is not None and at is not None:
            return inner[0], (*inner[1], at)
        return op, ()
    return None


def _literal(name: str, made: dict[str, ir.Op]) -> int | None:
    op = made.get(name)
    if isinstance(op, ir.Copy):
        return _literal(op.source, made)
    if isinstance(op, ir.Constant) and isinstance(op.value, int) and not isinstance(op.value, bool):
        return op.value
    return None


def _definitions(statements: Sequence[ir.Statement]) -> dict[str, ir.Op]:
    return {s.target: s.op for s in statements if isinstance(s, ir.Assign)}
