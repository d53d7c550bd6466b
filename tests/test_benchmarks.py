"""The harness of the benchmarks measures all cases alike and writes what it measured."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("harness")


@pytest.mark.parametrize("name", sorted(path.stem for path in BENCHMARKS.glob("*.py")))
def test_a_script_runs_nothing_when_it_is_imported(name: str, harness: ModuleType) -> None:
    assert vars(importlib.import_module(name))


def test_every_case_is_measured_once_a_round(harness: ModuleType) -> None:
    calls: list[str] = []

    def case(name: str) -> float:
        calls.append(name)
        return float(len(calls))

    measured = harness.compare(
        {"a": lambda: case("a"), "b": lambda: case("b")}, unit="us", rounds=8, pause_s=0, warm_up=1
    )
    assert [len(samples.values) for samples in measured.values()] == [8, 8]
    rounds = [tuple(calls[i : i + 2]) for i in range(2, len(calls), 2)]
    assert set(rounds) == {("a", "b"), ("b", "a")}


def test_a_report_says_machine_versions_medians_and_spread(harness: ModuleType, tmp_path: Path) -> None:
    report = harness.Report("test")
    one, two = harness.Samples("one", "ms", (1.0, 2.0, 3.0)), harness.Samples("two", "ms", (4.0,))
    report.add([one, two])
    report.omit("three", "not installed")
    report.ratios["two_over_one"] = harness.ratio(two, one)
    report.finish(tmp_path)

    written = json.loads((tmp_path / "test.json").read_text())
    assert written["ratios"] == {"two_over_one": 2.0}
    assert written["rows"] == [
        {"name": "one", "unit": "ms", "median": 2.0, "quartiles": [1.0, 3.0], "range": [1.0, 3.0], "samples": 3},
        {"name": "two", "unit": "ms", "median": 4.0, "quartiles": [4.0, 4.0], "range": [4.0, 4.0], "samples": 1},
        {"name": "three", "note": "not measured: not installed"},
    ]
    assert {"cpu", "cpus", "system", "gpus"} <= set(written["machine"])
    assert {"python", "numpy"} <= set(written["versions"])
