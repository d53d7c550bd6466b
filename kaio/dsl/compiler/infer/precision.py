"""Digits that are lost before a value reaches f64."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping

from kaio.dsl.compiler import ir
from kaio.dsl.values import ArrayType, BufferType, Type, Weak
from kaio.dtypes import DType, f32, f64
from kaio.errors import Mistake, Place, PrecisionWarning

__all__ = ["warn_of_lost_precision"]


def warn_of_lost_precision(typed: ir.Typed) -> None:
    """An f32 made from int `/` or from literals alone, converted to f64: its digits are already lost."""
    definitions = ir.definitions(typed.function)
    for name, target, place in _conversions(typed):
        if (
            target is f64
            and typed.types.get(name) is f32
            and _is_made_of_ints_or_literals(name, typed, definitions, set())
        ):
            value = "this" if ir.is_temporary(name) else f"`{ir.user_name(name)}`"
            text = Mistake(
                f"{value} is an f32 made from integers or literals, and is converted to f64",
                definitions[name].place if ir.is_temporary(name) else place,
                "compute it in f64 from the start, for example `kaio.f64(...)` of one operand",
            )  # fmt: skip
            warnings.warn(str(text), PrecisionWarning, stacklevel=2)


def _conversions(typed: ir.Typed) -> Iterator[tuple[str, Type, Place]]:
    for block in typed.function.blocks:
        for statement in block.body:
            if isinstance(statement, ir.SetItem):
                array = typed.types[statement.array]
                if isinstance(array, BufferType | ArrayType) and not statement.path:
                    yield statement.value, array.dtype, statement.place
            elif statement.target in typed.calls:
                call = typed.calls[statement.target]
                for name, target in zip(call.arguments, call.operands, strict=False):
                    if isinstance(name, str):
                        yield name, target, statement.place


def _is_made_of_ints_or_literals(
    name: str, typed: ir.Typed, definitions: Mapping[str, ir.Assign], seen: set[str]
) -> bool:
    if name in seen or name not in definitions:
        return False
    seen.add(name)
    op = definitions[name].op
    if isinstance(op, ir.Copy | ir.Phi):
        return any(
            isinstance(typed.types.get(n), Weak) or _is_made_of_ints_or_literals(n, typed, definitions, seen)
            for n in ir.operands(op)
        ) and all(not isinstance(definitions[n].op, ir.GetItem) for n in ir.operands(op) if n in definitions)
    return (
        isinstance(op, ir.Binary)
        and op.op == "/"
        and all(
            isinstance(t := typed.types[n], Weak) or (isinstance(t, DType) and not t.is_float)
            for n in (op.left, op.right)
        )
    )
