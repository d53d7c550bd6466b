"""The type of a value that comes in from several ways: of a conditional expression, and of a variable."""

from __future__ import annotations

from collections.abc import Sequence

from kaio.dsl import literals
from kaio.dsl.literals import default
from kaio.dsl.rule_error import RuleError
from kaio.dsl.rules import common
from kaio.dsl.values import BOOL, Scalar, Weak, show
from kaio.dtypes import DType

__all__ = ["merge_branches", "merge_variable"]

# A literal that is one of several stays weak. With more of them it is a number of its own type: a variable that many
# conditions change would have as many values as there are ways, and LLVM looks at them all.
_MOST_OF_A_VARIABLE, _MOST_OF_A_CONDITIONAL = 4, 16


def merge_branches(types: Sequence[Scalar]) -> Scalar:
    """The type of a conditional expression: the branches' common one; literals stay weak, with several values."""
    weak = [t for t in types if isinstance(t, Weak)]
    if len(weak) == len(types):
        joined = literals.join(weak)
        return default(joined) if len(joined.values) > _MOST_OF_A_CONDITIONAL else joined
    # Floats first: an integer beside one takes its type, whatever other integers there are.
    ordered = sorted(types, key=lambda type_: not (isinstance(type_, DType) and type_.is_float))
    merged: Scalar = next(t for t in ordered if isinstance(t, DType))
    for type_ in ordered:
        if isinstance(type_, Weak) and merged is BOOL:
            raise RuleError(f"one branch is bool and the other {show(type_)}", "cast one of them")
        merged = common(merged, type_, "or")
    return merged


def merge_variable(types: Sequence[Scalar], in_loop: bool) -> tuple[Scalar, bool]:
    """The type of a named variable where several assignments meet, and whether they agree.

    One that was set from literals is never narrower than i32 or f32; other types must be the same.
    """
    weak = [t for t in types if isinstance(t, Weak)]
    strong = [t for t in types if isinstance(t, DType)]
    if not strong:
        joined = literals.join(weak)
        is_number = len(joined.values) > (1 if in_loop else _MOST_OF_A_VARIABLE)
        return (default(joined), True) if is_number else (joined, True)
    merged: Scalar = strong[0]
    agreed = all(t is merged for t in strong)
    for type_ in strong[1:]:
        merged = common(merged, type_, "or")
    if weak and merged is BOOL:
        return merged, False
    for w in weak:
        if w.kind == "f" and not merged.is_float:  # type: ignore[union-attr]
            return merged, False
        merged = common(merged, Weak(w.kind, w.values, named=True), "or")
    return merged, agreed
