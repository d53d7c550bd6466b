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
    found = _element(target, before)
    if found is None:
        raise KernelSyntaxError("a kernel sets fields of elements only", place=place, help=_HELP)
    element, path = found
    return ir.SetItem(element.value, element.index, value, place, (*path, ir.PathStep(field)))


def into_element(store: ir.SetItem, before: Sequence[ir.Statement]) -> ir.SetItem:
    """`x[i].pos[0] = value`, which reads as a store into `x[i].pos`, as one into the element; others as they are."""
    found = _element(store.array, before)
    if found is None:
        return store
    element, path = found
    return replace(store, array=element.value, index=element.index, path=(*path, ir.PathStep(store.index, True)))


def _element(name: str, before: Sequence[ir.Statement]) -> tuple[ir.GetItem, tuple[ir.PathStep, ...]] | None:
    """The element that a temporary is read out of, and the path to it; None where there is none."""
    op = _made_by(name, before) if ir.is_temporary(name) else None
    if isinstance(op, ir.Copy):
        return _element(op.source, before)
    if isinstance(op, ir.Attribute):
        inner = _element(op.value, before)
        return None if inner is None else (inner[0], (*inner[1], ir.PathStep(op.name)))
    if isinstance(op, ir.GetItem):
        inner = _element(op.value, before)
        return (op, ()) if inner is None else (inner[0], (*inner[1], ir.PathStep(op.index, True)))
    return None


def _made_by(name: str, before: Sequence[ir.Statement]) -> ir.Op | None:
    """What made a temporary; it stands close to where it is used, so that long blocks are not read from the start."""
    return next((s.op for s in reversed(before) if isinstance(s, ir.Assign) and s.target == name), None)
