"""What the CPU device and the tools of compute-sanitizer find of the bugs planted in `tests/corpus`, and their cost.

- each planted bug that ends on a GPU runs there once under each tool; what would write anywhere, under memcheck alone,
  which keeps it from doing so; what would never end does not run there at all;
- racecheck gets a process for each bug, and counts: one launch may give thousands of hazards, of which it shows some;
- the cost is the time of all correct twins: plain on the GPU, under each tool, and on the CPU device at each level.

The other tools run all bugs in one process, as their start takes seconds; where one ends that process, a new one goes
on with the next. The tools run side by side. Without compute-sanitizer only the CPU device is measured.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from harness import RESULTS, ROOT, machine, versions

import kaio
from tests.corpus.case import Case, Launch, Manner, buffers_of, run
from tests.corpus.cases import BY_SUBJECT, CASES, PLANTED

_GO_ON = ("--destroy-on-device-error", "kernel", "--print-limit", "20000")  # with the next bug in the same process
OPTIONS = {
    "memcheck": _GO_ON,
    "racecheck": ("--racecheck-report", "all"),
    "initcheck": _GO_ON,
    "synccheck": _GO_ON,
}
TOOLS = tuple(OPTIONS)
WILD = ("index",)  # kinds of bugs that may write anywhere
TIMEOUT_S = 100.0
PROCESSES = 8  # of racecheck at a time
PLACES = ("cuda*/bin/compute-sanitizer", "cuda*/compute-sanitizer/compute-sanitizer")  # of /usr/local
NOT_RUN, SILENT, FOUND = "not run", "silent", "found"


# ---------------------------------------------------------------------- in a process of its own
def bound(kernel: kaio.Kernel, launch: Launch, device: kaio.Device, **options: Any) -> Any:
    """The launch, compiled and ready."""
    made = kernel.grid(launch.grid).block(launch.block).options(**launch.options, **options)
    made = made.shared(**launch.shared) if launch.shared else made
    return made.bind(*buffers_of(launch, device))


def run_planted(names: Sequence[str]) -> None:
    """Run the planted bugs of these names on the GPU, each between two lines that say which it is."""
    by_name = {str(case): case for case in PLANTED}
    device = kaio.Device("cuda:0")
    for name in names:
        case = by_name[name]
        assert case.planted is not None
        print(f"== {name}", flush=True)
        bound(case.planted, case.make(case.size).unchecked(), device, check="off").launch().wait(timeout_s=20)
        print(f"-- {name}", flush=True)


def time_twins(device: kaio.Device, check: str) -> float:
    """Milliseconds that one launch of each correct twin takes, all together; compiled before."""
    total = 0.0
    for case in CASES:
        if not case.mended_on_gpu:
            continue
        launch = case.twin_launch(case.sizes()[-1])
        ready = bound(case.mended, launch.unchecked() if device.kind == "cuda" else launch, device, check=check)
        ready.launch().wait(timeout_s=60)
        ready = bound(case.mended, launch.unchecked() if device.kind == "cuda" else launch, device, check=check)
        start = time.perf_counter()
        ready.launch().wait(timeout_s=60)
        total += 1e3 * (time.perf_counter() - start)
    return total


# ---------------------------------------------------------------------- the tools
def sanitizer() -> str | None:
    """Where compute-sanitizer is."""
    found = [path for pattern in PLACES for path in sorted(Path("/usr/local").glob(pattern))]
    return shutil.which("compute-sanitizer") or (str(found[0]) if found else None)


def under(tool: str | None, *arguments: str) -> str:
    """Run this script under a tool of compute-sanitizer (None: as it is), and give what was printed."""
    command = [sys.executable, __file__, *arguments]
    if tool is not None:
        command = [str(sanitizer()), "--tool", tool, "--show-backtrace", "no", *OPTIONS[tool], *command]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_S)
        return done.stdout + done.stderr
    except subprocess.TimeoutExpired as late:
        return late.stdout.decode() if isinstance(late.stdout, bytes) else (late.stdout or "")


def told_by(tool: str, cases: Sequence[Case]) -> dict[str, str]:
    """What a tool says of each of these bugs."""
    if tool == "racecheck":
        with ThreadPoolExecutor(PROCESSES) as pool:
            texts = pool.map(lambda case: under(tool, "--planted", str(case)), cases)
            return {str(case): _hazards(case, text) for case, text in zip(cases, texts, strict=True)}
    left, printed = [str(case) for case in cases], ""
    ended: set[str] = set()
    while left:
        text = under(tool, "--planted", *left)
        printed += text
        ended |= set(re.findall(r"^-- (.+)$", text, re.MULTILINE))
        begun = re.findall(r"^== (.+)$", text, re.MULTILINE)
        if not begun:
            print(f"{tool} did not start:\n{text[-2000:]}", file=sys.stderr)
            break
        left = left[left.index(begun[-1]) + 1 :]
    lines = [line for line in printed.splitlines() if line.startswith("=========")]
    named = set(re.findall(r"\w+", "\n".join(lines)))
    return {str(case): _verdict(case, named, ended) for case in cases}


def _hazards(case: Case, text: str) -> str:
    """What racecheck says of one bug that ran by itself."""
    summaries = re.findall(r"RACECHECK SUMMARY: \d+ hazards? displayed \((\d+) errors?, (\d+) warnings?\)", text)
    if not summaries or f"-- {case}" not in text.splitlines():
        return "failed"
    return FOUND if any(int(count) for summary in summaries for count in summary) else SILENT


def _verdict(case: Case, named: set[str], ended: set[str]) -> str:
    assert case.planted is not None
    if case.planted.name in named:
        return FOUND
    return SILENT if str(case) in ended else "failed"


def runs_under(tool: str, case: Case) -> bool:
    """Whether a bug may run under a tool: see the head of this file."""
    assert case.report is not None
    return case.on_gpu and (tool == "memcheck" or case.report.kind not in WILD)


# ---------------------------------------------------------------------- the CPU device
def told_by_the_cpu_device(case: Case) -> str:
    """What the CPU device says with all its checks."""
    assert case.planted is not None
    assert case.report is not None
    check = "full" if "full" in case.levels else "bounds"
    try:
        run(case.planted, case.make(case.size), kaio.Device("cpu"), Manner(check))
    except kaio.KernelFault as fault:
        try:
            case.report.check(fault, case.lines("HERE"), case.lines("OTHER"))
        except AssertionError:
            return "another report"
        return FOUND
    except kaio.KaioError as problem:
        return f"failed: {problem.mistakes[0].what}"
    return SILENT


def costs(has_gpu: bool) -> dict[str, float]:
    """Milliseconds of all twins, by where and how they ran."""
    found: dict[str, float] = {}
    ways: dict[str, Callable[[], str]] = {}
    if has_gpu:
        ways["gpu"] = partial(under, None, "--twins", "cuda:0", "off")
        ways |= {tool: partial(under, tool, "--twins", "cuda:0", "off") for tool in TOOLS}
    ways |= {f"cpu_{level}": partial(under, None, "--twins", "cpu", level) for level in ("bounds", "full")}
    for name, measure in ways.items():
        total = re.search(r"^all twins: ([\d.]+) ms$", measure(), re.MULTILINE)
        if total is not None:
            found[name] = float(f"{float(total[1]):.4g}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--planted", nargs="+")
    parser.add_argument("--twins", nargs=2, metavar=("DEVICE", "CHECK"))
    parser.add_argument("--out", default=RESULTS / "sanitizer.json")
    given = parser.parse_args()
    if given.planted:
        run_planted(given.planted)
        return
    if given.twins:
        print(f"all twins: {time_twins(kaio.Device(given.twins[0]), given.twins[1])} ms")
        return
    tools = TOOLS if sanitizer() is not None else ()
    with ThreadPoolExecutor(max(1, len(tools))) as pool:
        mine = {tool: [case for case in PLANTED if runs_under(tool, case)] for tool in tools}
        told = dict(zip(tools, pool.map(told_by, tools, [mine[tool] for tool in tools]), strict=True))
    rows = []
    for subject, cases in BY_SUBJECT.items():
        for case in cases:
            if case.planted is not None and case.report is not None:
                row = {"name": str(case), "subject": subject, "kind": case.report.kind}
                row |= {"cpu": told_by_the_cpu_device(case)}
                row |= {tool: told[tool].get(str(case), NOT_RUN) for tool in tools}
                rows.append(row)
                print(row)
    result = {"machine": machine(), "versions": versions(), "costs_ms": costs(bool(tools)), "rows": rows}
    Path(given.out).write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(result["costs_ms"])


if __name__ == "__main__":
    main()
