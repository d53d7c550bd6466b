"""docs/math.md is true: its tables are those of the committed measurements. KAIO_WRITE_DOCS=1 writes them anew."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from kaio.dsl import approximate
from kaio.dsl.intrinsic import STANDARD
from tests.measurements import measurements
from tests.tables import check_table

PAGE = Path(__file__).parent.parent / "docs" / "math.md"
SPECIAL = ("0.0", "-0.0", "1.0", "-1.0", "inf", "-inf", "nan")


def results(device: str) -> dict[str, Any]:
    """The measurements of a device, by function."""
    functions: dict[str, Any] = measurements(device)["functions"]
    return functions


def shown(error: float) -> str:
    """An error as the page has it: rounded up, ½ for what is correctly rounded."""
    if error <= 0.5:
        return "½" if error else "0"
    digits = 2 if error < 10 else 1 if error < 100 else 0
    scale = 10**digits
    return f"{math.ceil(error * scale) / scale:g}" if error < 1e6 else f"{error:.0e}"


def accuracy() -> str:
    """The largest errors, and whether the devices agree."""
    cpu, gpu = results("cpu"), results("cuda")
    lines = ["| function | f32, CPU | f32, GPU | same bits | f64, CPU | f64, GPU | same bits |", "| --- " * 7 + "|"]
    for name, found in cpu.items():
        cells = []
        for dtype in ("f32", "f64"):
            here, there = found.get(dtype), gpu.get(name, {}).get(dtype)
            cells.append(shown(here["ulp"]) if here else "")
            cells.append(shown(there["ulp"]) if there else "")
            cells.append("" if not there else "yes" if not there["differ"] else "no")
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def value(text: str) -> str:
    """A special value for reading."""
    number = float(text)
    return text.removesuffix(".0") if math.isinf(number) or math.isnan(number) else f"{number:.6g}"


def special_of_one() -> str:
    """What functions of one number give for zeros, ones, infinities and NaN, in f64."""
    lines = [f"| function | {' | '.join(value(text) for text in SPECIAL)} |", "| --- " * (len(SPECIAL) + 1) + "|"]
    for name, found in results("cpu").items():
        of = found.get("f64", {}).get("special", [])
        if len(of) == len(SPECIAL):
            lines.append(f"| `{name}` | {' | '.join(map(value, of))} |")
    return "\n".join(lines)


def special_of_two() -> str:
    """What functions of two numbers give: the first is on the left, the second above."""
    tables = []
    for name in ("math.pow", "math.atan2", "math.hypot", "math.fmod", "math.remainder"):
        of = results("cpu")[name]["f64"]["special"]
        lines = [f"| `{name}` | {' | '.join(map(value, SPECIAL))} |", "| --- " * (len(SPECIAL) + 1) + "|"]
        for row, first in enumerate(SPECIAL):
            cells = of[row * len(SPECIAL) : (row + 1) * len(SPECIAL)]
            lines.append(f"| **{value(first)}** | {' | '.join(map(value, cells))} |")
        tables.append("\n".join(lines))
    return "\n\n".join(tables)


def under_fastmath() -> str:
    """The functions of f32 that fastmath makes approximate."""
    named = {record.name for record in STANDARD.values()}
    return ", ".join(f"`{'math.' * (name in named)}{name}`" for name in approximate.UNDER_FASTMATH) + ", `sincos`"


TABLES = {
    "accuracy": accuracy,
    "special": special_of_one,
    "special of two": special_of_two,
    "fastmath": under_fastmath,
}


@pytest.mark.parametrize("name", list(TABLES))
def test_a_table_is_that_of_the_measurements(name: str) -> None:
    check_table(PAGE, name, TABLES[name]())
