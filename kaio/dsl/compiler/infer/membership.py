"""`x in (a, b)`: a comparison with each item, exact as every comparison."""

from __future__ import annotations

from kaio.dsl import operators, rules
from kaio.dsl.compiler import ir
from kaio.dsl.rule_error import RuleError
from kaio.dsl.values import BOOL, ArrayType, BufferType, Compound, Type, Weak, show
from kaio.dtypes import DType

__all__ = ["member"]


def member(item: Type, items: Type, op: ir.Binary) -> ir.TypedCall:
    """What `item in items` compares; `static` has each comparison."""
    if not (isinstance(items, Compound) and items.is_sequence):
        way_out = "loop over its elements and compare" if isinstance(items, BufferType | ArrayType) else None
        raise RuleError(f"`in` looks into a tuple, not into {show(items)}", way_out or "write the values as a tuple")
    comparisons = []
    for other in items.items:
        compared = _compare(item, other)
        if compared is None:
            raise RuleError(f"`{show(item)} in {show(items)}` is not defined", "compare numbers with numbers")
        comparisons.append(compared)
    return ir.TypedCall(None, (op.left, op.right), (item, items), BOOL, tuple(comparisons))


def _compare(item: Type, other: Type) -> ir.TypedCall | None:
    """What `item == other` comes out as."""
    if operators.is_compound(item) or operators.is_compound(other):
        found = operators.binary("==", item, other)
        if found is not None:
            return ir.TypedCall(found[0], (), found[1].operands, BOOL, found[1].static)
    if not isinstance(item, DType | Weak) or not isinstance(other, DType | Weak):
        return None
    rule = rules.binary("==", item, other)
    return ir.TypedCall(None, (), (rule.left, rule.right), BOOL)
