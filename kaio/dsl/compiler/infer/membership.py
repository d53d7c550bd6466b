"""`x in (a, b)`: a comparison with each item, exact as every comparison."""

from __future__ import annotations

from kaio.dsl import rules
from kaio.dsl.compiler import ir
from kaio.dsl.rule_error import RuleError
from kaio.dsl.values import BOOL, ArrayType, BufferType, Compound, Type, Weak, show
from kaio.dtypes import DType

__all__ = ["member"]


def member(item: Type, items: Type, op: ir.Binary) -> ir.TypedCall:
    """What `item in items` compares: `static` has the types that the two sides of each comparison come in."""
    if not (isinstance(items, Compound) and items.is_sequence):
        way_out = "loop over its elements and compare" if isinstance(items, BufferType | ArrayType) else None
        raise RuleError(f"`in` looks into a tuple, not into {show(items)}", way_out or "write the values as a tuple")
    pairs = []
    for other in items.items:
        if not isinstance(item, DType | Weak) or not isinstance(other, DType | Weak):
            raise RuleError(f"`{show(item)} in {show(items)}` is not defined", "compare numbers with numbers")
        rule = rules.binary("==", item, other)
        pairs.append((rule.left, rule.right))
    return ir.TypedCall(None, (op.left, op.right), (item, items), BOOL, tuple(pairs))
