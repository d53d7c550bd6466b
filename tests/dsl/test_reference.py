"""What `help` and the reference say of a record is what the record says."""

from __future__ import annotations

import inspect
import pydoc

import kaio
from kaio.dsl.reference import dtypes, records, reference
from kaio.dtypes import DTYPES


def test_help_shows_types_instruction_targets_and_an_example() -> None:
    shown = pydoc.plain(pydoc.render_doc(kaio.atomic_and))
    for text in (
        "buffer[index] & value",
        "types: integers, bool",
        "PTX: ",
        "targets: the CPU and every GPU",
        "Example",
    ):
        assert text in shown
    assert list(inspect.signature(kaio.atomic_and).parameters)[:3] == ["buffer", "index", "value"]


def test_the_types_of_a_record_are_those_that_it_takes() -> None:
    computed = [d for d in DTYPES if d.kind in ("i", "u") or (d.is_float and d.bits >= 16)]
    assert set(dtypes(kaio.fma)) == set(computed)  # type: ignore[arg-type]
    assert {*computed} <= {*dtypes(records()["min"])}  # type: ignore[arg-type]
    assert all(d.is_int for d in dtypes(kaio.atomic_inc))  # type: ignore[arg-type]
    assert dtypes(kaio.bar_sync) == []  # type: ignore[arg-type]


def test_every_name_of_a_kernel_has_a_section() -> None:
    page = reference()
    for name in records():
        assert f"### `{name}" in page
    assert "### `math.sin(value)`" in page
    assert "## Updates of one element that no other thread can come between\n" in page
