"""A named variable has one type; only widening from literals is implicit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaio.dsl import joins, literals, rules
from kaio.dsl.compiler import ir
from kaio.dsl.values import INDEX64, Weak, show
from kaio.dtypes import DType, i64
from kaio.errors import Mistake

if TYPE_CHECKING:
    from kaio.dsl.compiler.infer.inference import Inference

__all__ = ["check_variables"]


def check_variables(inference: Inference) -> None:
    """Note a mistake for each variable that means two types, when the types have settled."""
    for block in inference.function.blocks:
        for statement in block.body:
            if (
                isinstance(statement, ir.Assign)
                and isinstance(statement.op, ir.Phi)
                and not ir.is_temporary(statement.target)
            ):
                _check_variable(inference, statement, statement.op)


def _check_variable(inference: Inference, assign: ir.Assign, phi: ir.Phi) -> None:
    known = [(name, inference.types[name]) for _, name in phi.incoming if name in inference.types]
    scalars = [(name, t) for name, t in known if isinstance(t, DType | Weak)]
    if not scalars or joins.merge_variable([t for _, t in scalars], in_loop=False)[1]:
        return
    strong = [(n, t) for n, t in scalars if isinstance(t, DType)] + [(n, t) for n, t in scalars if isinstance(t, Weak)]
    name, first = strong[0]
    other_name, other = next((n, t) for n, t in strong if t is not first)
    place = max(
        inference.origins.of(name).place, inference.origins.of(other_name).place, key=lambda p: (p.line, p.column)
    )
    here, there = (first, other) if place == inference.origins.of(name).place else (other, first)
    variable = ir.user_name(assign.target)
    wider = literals.default(rules.common(first, other, "or"))
    inference.mistakes[variable] = Mistake(
        f"`{variable}` is {show(there)} elsewhere but {show(here)} here: a variable has one type", place,
        f"cast where it is set, for example `{variable} = kaio.{i64 if wider is INDEX64 else wider!r}(...)`",
    )  # fmt: skip
