"""Compile time of saxpy: PTX and host code, the first of a process and later ones, against numba-cuda and njit.

Nothing is cached: every sample compiles a function of its own. The first is measured in a new process with what it
imports counted and not counted; later ones after two others in the same process.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable
from itertools import count
from typing import Any

from harness import Report, compare, fresh_process, ratio, timed

KAIO = """
import kaio
from kaio import In, InOut, f32

@kaio.kernel
def saxpy(x: In[f32], y: InOut[f32], a: f32):
    i = kaio.grid(1)
    if i < y.size:
        y[i] = a * x[i] + y[i]
"""

# numba-cuda asks NVRTC which architectures there are; told, it needs no NVRTC and is the quicker for it.
NUMBA_CUDA = """
from numba import cuda, float32, void
from numba.cuda import cuda_paths
from numba.cuda.cudadrv import nvrtc

nvrtc.get_supported_ccs = lambda: [(9, 0)]
cuda_paths._get_nvrtc_path = lambda: None

def saxpy(x, y, a):
    i = cuda.grid(1)
    if i < y.size:
        y[i] = a * x[i] + y[i]
"""

NJIT = """
from numba import float32, njit, void

def saxpy(x, y, a):
    for i in range(y.size):
        y[i] = a * x[i] + y[i]
"""

TARGET = "sm_90"
ARRAYS = "void(float32[::1], float32[::1], float32)"
COMPILE_KAIO_PTX = f"saxpy.ptx({TARGET!r})"
COMPILE_KAIO_CUBIN = f"saxpy.compile({TARGET!r})"
COMPILE_KAIO_HOST = "saxpy.compile('cpu')"
COMPILE_NUMBA_CUDA = f"cuda.compile(saxpy, {ARRAYS}, cc=(9, 0), abi='numba', device=False, output='ptx')"
COMPILE_NJIT = f"njit({ARRAYS})(saxpy)"

COLD = """
import time
start = time.perf_counter()
{source}
imported = time.perf_counter()
{work}
print((time.perf_counter() - {since}) * 1e3)
"""

_numbers = count()


def fresh(source: str) -> dict[str, Any]:
    """The names of `source`, run as a file of its own, whose text tracebacks and kaio can read."""
    name = f"<benchmark {next(_numbers)}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    space: dict[str, Any] = {"__name__": name}
    exec(compile(source, name, "exec"), space)
    return space


def warm(source: str, work: str) -> Callable[[], float]:
    """Milliseconds to compile a function that this process has not seen."""
    code = compile(work, "<work>", "eval")

    def one() -> float:
        space = fresh(source)
        return timed(lambda: eval(code, space), unit="ms")

    return one


def cold(source: str, work: str, since: str) -> Callable[[], float]:
    """Milliseconds of the first compilation of a process, since its `start` or since all is `imported`."""
    code = "import linecache\nfrom pathlib import Path\n" + _as_file(source, work, since)
    return lambda: fresh_process(code)


def _as_file(source: str, work: str, since: str) -> str:
    whole = COLD.format(source=source, work=work, since=since)
    return (
        f"whole = {whole!r}\n"
        "linecache.cache['cold.py'] = (len(whole), None, whole.splitlines(keepends=True), 'cold.py')\n"
        "exec(compile(whole, 'cold.py', 'exec'), {'__name__': 'cold'})\n"
    )


def main() -> None:
    report = Report("compile")
    contenders = {
        "kaio PTX": (KAIO, COMPILE_KAIO_PTX),
        "kaio PTX and cubin": (KAIO, COMPILE_KAIO_CUBIN),
        "kaio host": (KAIO, COMPILE_KAIO_HOST),
        "numba-cuda PTX": (NUMBA_CUDA, COMPILE_NUMBA_CUDA),
        "njit host": (NJIT, COMPILE_NJIT),
    }
    usable = {}
    for name, (source, work) in contenders.items():
        try:
            warm(source, work)()
            usable[name] = source, work
        except Exception as problem:
            report.omit(name, f"{type(problem).__name__}: {problem}"[:300])
    later = compare(
        {f"{name}, later": warm(*pair) for name, pair in usable.items()}, unit="ms", rounds=25, pause_s=0.02
    )
    first = compare(
        {f"{name}, first of a process": cold(*pair, since="imported") for name, pair in usable.items()}
        | {f"{name}, whole process": cold(*pair, since="start") for name, pair in usable.items()},
        unit="ms",
        rounds=5,
        warm_up=1,
    )
    report.add(later.values())
    report.add(first.values())
    for ours, theirs in (("kaio PTX", "numba-cuda PTX"), ("kaio host", "njit host")):
        if ours in usable and theirs in usable:
            key = f"{theirs.split()[0].replace('-', '_')}_over_{ours.split()[1].lower()}"
            report.ratios[f"{key}_later"] = ratio(later[f"{theirs}, later"], later[f"{ours}, later"])
            report.ratios[f"{key}_first"] = ratio(
                first[f"{theirs}, first of a process"], first[f"{ours}, first of a process"]
            )
            report.ratios[f"{key}_process"] = ratio(first[f"{theirs}, whole process"], first[f"{ours}, whole process"])
    report.finish()


if __name__ == "__main__":
    main()
