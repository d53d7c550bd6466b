"""The guard that a fault suggests is written with the source's own indices."""

from __future__ import annotations

import pytest

from kaio.errors import Place
from kaio.program import Site
from kaio.runtime.guard import guard_help


def help_of(text: str, array: str, axis: int = 0, *, size: int = 8, index: int = 9, is_fixed: bool = False) -> str:
    line = f"    {text} = 1"
    place = Place("k.py", 3, 4, 4 + len(text), "k", line)
    return guard_help(Site("index", place, text=array, axis=axis, is_fixed=is_fixed), index, size)


@pytest.mark.parametrize(
    ("text", "array", "condition"),
    [
        ("y[i]", "y", "i < y.size"),
        ("y[2*i+1]", "y", "2 * i + 1 < y.size"),
        ("y[x[i]]", "y", "x[i] < y.size"),
        ("y[i if c else j]", "y", "(i if c else j) < y.size"),
        ("y[r, c]", "y", "r < y.shape[0] and c < y.shape[1]"),
        ("y[0, c]", "y", "c < y.shape[1]"),
        ("y[-1, k, c]", "y", "k < y.shape[1] and c < y.shape[2]"),
        ("atomic_add(y, i, 1)", "y", "i < y.size"),
        ("kaio.atomic_add(y, (r, c), 1)", "y", "r < y.shape[0] and c < y.shape[1]"),
    ],
)
def test_the_guard_of_a_buffer(text: str, array: str, condition: str) -> None:
    axis = condition.count(" and ")
    assert help_of(text, array, axis) == f"guard the access, for example with `if {condition}:`"


@pytest.mark.parametrize(("text", "axis", "condition"), [("s[t]", 0, "t < 8"), ("s[t, t + 1]", 1, "t + 1 < 8")])
def test_the_guard_of_an_array_of_the_kernel_names_its_size(text: str, axis: int, condition: str) -> None:
    assert help_of(text, "s", axis, is_fixed=True) == f"guard the access, for example with `if {condition}:`"


@pytest.mark.parametrize(
    "text", ["y[r,", "y[p]", "load(y)", "y[r, first_of_the_columns_of_this_tile + second_of_the_columns]"]
)
def test_where_the_text_does_not_tell_the_limit_is_named(text: str) -> None:
    assert help_of(text, "y", 1) == "guard the access: the index of axis 1 must be below `y.shape[1]`"
    assert help_of(text, "y", 1, is_fixed=True) == "guard the access: the index of axis 1 must be below 8"


def test_a_negative_index_is_told_what_counts_from_the_end() -> None:
    assert help_of("y[i - 1]", "y", index=-1) == (
        "only a negative literal counts from the end; a computed index must not be negative"
    )
