"""Types that the tests of the rules speak of, and what is said where there is no rule."""

from __future__ import annotations

import pytest

from kaio import bf16, f16, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64
from kaio.dsl.joins import merge_branches
from kaio.dsl.literals import literal
from kaio.dsl.rule_error import RuleError
from kaio.dsl.values import Weak

SIGNED, UNSIGNED, FLOATS = (i8, i16, i32, i64), (u8, u16, u32, u64), (f16, bf16, f32, f64)
INTEGERS = (*SIGNED, *UNSIGNED)
NUMBERS = (*INTEGERS, *FLOATS)


def one_of(*values: float) -> Weak:
    """A conditional expression whose branches are these literals."""
    return merge_branches([literal(v) for v in values])


def named(value: float) -> Weak:
    """A variable that was set from a literal."""
    return Weak("f" if isinstance(value, float) else "i", (value,), named=True)


def refusal(call, *args) -> str:
    with pytest.raises(RuleError) as caught:
        call(*args)
    return caught.value.what


def help_of(call, *args) -> str:
    with pytest.raises(RuleError) as caught:
        call(*args)
    return caught.value.help
