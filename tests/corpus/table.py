"""The table of what each tool finds of the planted bugs, from `benchmarks/results/sanitizer.json`."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from tests.corpus.cases import BY_SUBJECT

RESULTS = Path(__file__).parent.parent.parent / "benchmarks" / "results" / "sanitizer.json"
TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")


def measured() -> dict[str, Any]:
    """What the benchmark wrote."""
    return json.loads(RESULTS.read_text(encoding="utf-8"))


def tools_table() -> str:
    """By subject how many bugs are planted, and how many each tool finds; then what it costs."""
    result = measured()
    rows = {row["name"]: row for row in result["rows"]}
    lines = [f"| planted bugs | all | CPU device | {' | '.join(TOOLS)} |", "| --- " * (len(TOOLS) + 3) + "|"]
    totals: Counter[str] = Counter()
    for subject, cases in BY_SUBJECT.items():
        told = [rows[str(case)] for case in cases if case.planted is not None]
        if told:
            found = Counter(tool for row in told for tool in ("cpu", *TOOLS) if row.get(tool) == "found")
            found["all"] = len(told)
            totals += found
            lines.append(_row(_subject(subject), found, result))
    lines.append(_row("**all**", totals, result))
    costs = result["costs_ms"]
    plain = costs.get("gpu")
    cells = [_times(costs.get(tool), plain) for tool in TOOLS]
    lines.append(f"| *time of the correct twins* | | {_ms(costs.get('cpu_full'))} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _row(name: str, found: Counter[str], result: dict[str, Any]) -> str:
    known = {"all", *result["rows"][0]}
    cells = [str(found[tool]) if tool in known else "not measured" for tool in ("all", "cpu", *TOOLS)]
    return f"| {name} | {' | '.join(cells)} |"


def _subject(module: str) -> str:
    """What a module is about, as its first line has it."""
    doc = sys.modules[f"tests.corpus.{module}"].__doc__ or module
    return doc.splitlines()[0].partition(":")[0].rstrip(".")


def _ms(milliseconds: float | None) -> str:
    return "not measured" if milliseconds is None else f"{milliseconds:.0f} ms"


def _times(milliseconds: float | None, plain: float | None) -> str:
    return _ms(milliseconds) + (f", {milliseconds / plain:.0f}x" if milliseconds and plain else "")
