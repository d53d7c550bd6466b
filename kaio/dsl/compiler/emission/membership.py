"""`item in (a, b)`: exact comparisons with each item, joined."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaio.dsl.compiler.emission.comparisons import compare, compare_literals
from kaio.dsl.compiler.emission.scalars import Value, constant
from kaio.dsl.values import BOOL, Compound, Weak

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter
    from kaio.dsl.compiler.ir import TypedCall

__all__ = ["member"]


def member(e: Emitter, call: TypedCall, item: Value, items: tuple[Value, ...]) -> Value:
    """Whether one of the items equals it; `call.static` has what each comparison came out as."""
    found: Value = constant(BOOL, False)
    item_type, tuple_type = call.operands
    assert isinstance(tuple_type, Compound)
    for compared, other, other_type in zip(call.static, items, tuple_type.items, strict=True):
        left, right = compared.operands
        x, y = e.convert(item, item_type, left), e.convert(other, other_type, right)
        if compared.callee is not None:
            same = compared.callee.rule(e.target.name)(e, compared, x, y)
        elif isinstance(left, Weak) and isinstance(right, Weak):
            same = compare_literals(e, "==", (x, left), (y, right))
        else:
            same = compare(e, "==", (x, left), (y, right))
        found = e.b.or_(found, same)
    return found
