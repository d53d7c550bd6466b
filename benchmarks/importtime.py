"""Time of `import kaio` beyond NumPy, in a new process, beside what others take."""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec

from harness import Report, compare, fresh_process, ratio

OTHERS = {"numba.cuda": "numba", "cupy": "cupy", "triton": "triton", "torch": "torch"}

BEYOND_NUMPY = """
import time
import numpy
start = time.perf_counter()
import {module}
print((time.perf_counter() - start) * 1e3)
"""

NUMPY = """
import time
start = time.perf_counter()
import numpy
print((time.perf_counter() - start) * 1e3)
"""


def main() -> None:
    report = Report("importtime")
    present = ["kaio", *(module for module, package in OTHERS.items() if find_spec(package))]
    cases = {"numpy": partial(fresh_process, NUMPY)}
    for module in present:
        cases[module] = partial(fresh_process, BEYOND_NUMPY.format(module=module))
    for module in OTHERS:
        if module not in present:
            report.omit(module, "not installed")
    measured = compare(cases, unit="ms", rounds=9, warm_up=1)
    report.add(measured.values())
    report.ratios = {f"{module}_over_kaio": ratio(measured[module], measured["kaio"]) for module in present[1:]}
    report.finish()


if __name__ == "__main__":
    main()
