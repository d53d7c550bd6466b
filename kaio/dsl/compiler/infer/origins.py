"""Where a value was made, and how the user wrote it."""

from __future__ import annotations

import ast

from kaio.dsl.compiler import ir

__all__ = ["Origins"]


class Origins:
    """The assignments of a function by name, looked through."""

    def __init__(self, function: ir.Function) -> None:
        self.definitions = ir.definitions(function)

    def of(self, name: str) -> ir.Assign:
        """The assignment whose value a phi passes on."""
        assign = self.definitions[name]
        seen = {name}
        while isinstance(assign.op, ir.Copy | ir.Phi):
            following = [n for n in ir.operands(assign.op) if n in self.definitions and n not in seen]
            if not following or not (isinstance(assign.op, ir.Phi) or ir.is_temporary(following[0])):
                break
            seen.add(following[0])
            assign = self.definitions[following[0]]
        return assign

    def text(self, name: str) -> str:
        """A name or a temporary as the user wrote it."""
        if not ir.is_temporary(name):
            return ir.user_name(name)
        place, op = self.definitions[name].place, self.definitions[name].op
        text = place.text[place.column : place.end_column]
        if isinstance(op, ir.Binary) and not (_is_expression(text) and op.op in text):
            return f"{self.text(op.left)} {op.op} {self.text(op.right)}"  # an update, or written over several lines
        return text if _is_expression(text) else "..."


def _is_expression(text: str) -> bool:
    try:
        ast.parse(text, mode="eval")
    except SyntaxError:
        return False
    return True
