"""What all benchmarks share: fair rounds, medians with their spread, and the JSON that they write.

A case is a name and a function that returns one sample. All cases of a comparison are measured in turn, in an
order that is shuffled every round, with a pause between the rounds: drift of the machine (clocks, heat, a neighbour)
then falls on all of them alike. Compare ratios of one run, not times of two.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
RESULTS = Path(__file__).parent / "results"
PACKAGES = (
    "kaio-gpu",
    "numpy",
    "numba",
    "numba-cuda",
    "llvmlite",
    "cuda-core",
    "cuda-bindings",
    "nvidia-nvvm",
    "nvidia-nvjitlink",
    "torch",
    "triton",
    "cupy-cuda12x",
    "cupy-cuda13x",
)

if str(ROOT) not in sys.path:  # so that `python benchmarks/launch.py` measures this checkout
    sys.path.insert(0, str(ROOT))


@dataclass(frozen=True)
class Samples:
    """The samples of one case, all in `unit`."""

    name: str
    unit: str
    values: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    def row(self) -> dict[str, Any]:
        """The case as it goes into the results: median, quartiles, range, count."""
        low, _, high = statistics.quantiles(self.values, n=4) if len(self.values) > 1 else self.values * 3
        return {
            "name": self.name,
            "unit": self.unit,
            "median": _short(self.median),
            "quartiles": [_short(low), _short(high)],
            "range": [_short(min(self.values)), _short(max(self.values))],
            "samples": len(self.values),
        }


@dataclass
class Report:
    """The results of one script; `finish` prints and writes them."""

    name: str
    rows: list[dict[str, Any]] = field(default_factory=list)
    ratios: dict[str, float] = field(default_factory=dict)

    def add(self, measured: Iterable[Samples]) -> None:
        self.rows += [samples.row() for samples in measured]

    def omit(self, name: str, why: object) -> None:
        """A competitor that is not here: a row with a note, so that its absence is seen."""
        self.rows.append({"name": name, "note": f"not measured: {why}"})

    def finish(self, directory: Path | None = None) -> None:
        directory = directory or _options().out
        directory.mkdir(parents=True, exist_ok=True)
        result = {"machine": machine(), "versions": versions(), "ratios": self.ratios, "rows": self.rows}
        (directory / f"{self.name}.json").write_text(json.dumps(result, indent=1) + "\n")
        for row in self.rows:
            print(
                f"{row['name']:<44}" + (row.get("note") or f"{row['median']:>10} {row['unit']:<4} {row['quartiles']}")
            )
        for name, ratio in self.ratios.items():
            print(f"{name:<44}{ratio:>10}")


def compare(
    cases: Mapping[str, Callable[[], float]], *, unit: str, rounds: int = 15, pause_s: float = 0.1, warm_up: int = 2
) -> dict[str, Samples]:
    """Measure every case once a round, in an order shuffled each round; the cases give their samples in `unit`."""
    order = random.Random(0)
    values: dict[str, list[float]] = {name: [] for name in cases}
    for name in list(cases) * warm_up:
        cases[name]()
    for _ in range(rounds):
        time.sleep(pause_s)
        for name in order.sample(list(cases), len(cases)):
            values[name].append(cases[name]())
    return {name: Samples(name, unit, tuple(samples)) for name, samples in values.items()}


def timed(
    work: Callable[[], object], *, repeat: int = 1, unit: str, after: Callable[[], object] = lambda: None
) -> float:
    """Time of one call of `work`, the mean of `repeat` in a row; `after` (a synchronise, say) is not in it."""
    calls = range(repeat)
    start = time.perf_counter_ns()
    for _ in calls:
        work()
    elapsed_ns = time.perf_counter_ns() - start
    after()
    return elapsed_ns / repeat / {"ns": 1, "us": 1e3, "ms": 1e6}[unit]


def ratio(top: Samples, bottom: Samples) -> float:
    """How many times `bottom` goes into `top`."""
    return _short(top.median / bottom.median)


def fresh_process(code: str, *, environment: Mapping[str, str] | None = None) -> float:
    """Run `code` in a new interpreter and give the number that it prints last."""
    return float(fresh_output(code, environment=environment).split()[-1])


def fresh_output(code: str, *, environment: Mapping[str, str] | None = None) -> str:
    """Run `code` in a new interpreter, which finds the benchmarks, too, and give what it prints."""
    path = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(ROOT), str(Path(__file__).parent))))
    env = {**os.environ, "PYTHONPATH": path, **(environment or {})}
    env.pop("PYTHONDONTWRITEBYTECODE", None)  # kaio keeps its bytecode as what pip installs has it
    return subprocess.run([sys.executable, "-c", code], env=env, check=True, capture_output=True, text=True).stdout


def machine() -> dict[str, Any]:
    """Where this runs."""
    found = {"cpu": _cpu_name(), "cpus": os.cpu_count(), "system": platform.platform(terse=True)}
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        found["gpus"] = subprocess.run(query, check=True, capture_output=True, text=True).stdout.strip().splitlines()
    except (OSError, subprocess.CalledProcessError):
        found["gpus"] = []
    return found


def versions() -> dict[str, str]:
    """The versions of all that takes part."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def _short(value: float) -> float:
    return float(f"{value:.4g}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=RESULTS, help="directory of the JSON (default: benchmarks/results)")
    return parser.parse_args()
