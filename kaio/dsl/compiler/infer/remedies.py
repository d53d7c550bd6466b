"""The way out of a type mistake, written in the words of the source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaio.dsl.compiler import advice, ir
from kaio.dsl.compiler.infer.origins import Origins
from kaio.dsl.intrinsic import Intrinsic
from kaio.dsl.rule_error import RuleError
from kaio.dsl.values import Type, Weak
from kaio.dtypes import DType, u64

if TYPE_CHECKING:
    from kaio.dsl.compiler.infer.inference import Inference

__all__ = ["of_index", "of_operand", "with_cast"]


def with_cast(origins: Origins, problem: RuleError, op: ir.Binary, left: Type, right: Type) -> RuleError:
    """The same mistake, with the cast written out where one is the way out."""
    one, two = origins.text(op.left), origins.text(op.right)
    if any(isinstance(type_, DType) and type_.is_storage for type_ in (left, right)):
        one, two = (
            f"kaio.f32({text})" if isinstance(type_, DType) and type_.is_storage else text
            for text, type_ in ((one, left), (two, right))
        )
        return RuleError(problem.what, f"cast it, for example `{one} {op.op} {two}`")
    if not isinstance(left, DType) or not isinstance(right, DType) or u64 not in (left, right):
        return problem
    cast = f"{one} {op.op} kaio.u64({two})" if left is u64 else f"kaio.u64({one}) {op.op} {two}"
    return RuleError(problem.what, f"cast one side, for example `{cast}`")


def of_operand(inference: Inference, operand: Type, name: str) -> str | None:
    """The way out for an operand that is no number."""
    made = inference.calls.get(inference.origins.of(name).target)
    grid = made.static[0] if made and isinstance(made.callee, Intrinsic) and made.callee.name == "grid" else None
    return advice.instead_of_operand(operand, inference.origins.text(name), grid)


def of_index(inference: Inference, name: str, axis: int) -> str:
    """How the float that indexes an axis becomes an integer, and where a variable became a float."""
    origins = inference.origins
    whole = origins.definitions[name].op
    name = whole.items[axis] if isinstance(whole, ir.Tuple) else name
    text, made = origins.text(name), origins.of(name)
    op = made.op
    if isinstance(op, ir.Binary) and op.op == "/" and all(_is_whole(inference.types[n]) for n in (op.left, op.right)):
        instead = f"write `{origins.text(op.left)} // {origins.text(op.right)}`"
    else:
        instead = f"cast it: `kaio.i32({text})`"
    if ir.is_temporary(name) or isinstance(op, ir.Argument):
        return instead
    return f"`{text}` is a float since line {made.place.line}, `{made.place.text.strip()}`; {instead}"


def _is_whole(type_: Type) -> bool:
    return isinstance(type_, DType | Weak) and type_.kind in ("i", "u")
