"""Compile time of saxpy, the first of a process and later ones, and of each kernel of the examples, later.

Nothing is cached: every sample compiles a function of its own. The first is measured in a new process with what it
imports counted and not counted; later ones after two others in the same process. numba-cuda and njit compile the same
sources in the same rounds; the examples are rewritten into numba-cuda's words by `same_source`, decorators included in
the time of both. The rows `example ...` are the table of the examples, and the ratios have the medians over it:
`examples_ptx_ms` is to be at most 40, `numba_cuda_over_ptx_examples` at least 2.
"""

from __future__ import annotations

import linecache
import statistics
from collections.abc import Callable
from itertools import count
from types import CodeType
from typing import Any

from harness import Report, Samples, compare, fresh_process, ratio, timed
from same_source import Untranslated, numba_source, numba_types

import kaio
from tests.dsl.programs import EXAMPLES, programs

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
COMPILE_NUMBA_CUDA_AS = "cuda.compile({{name}}, {types}, cc=(9, 0), abi='numba', device=False, output='ptx')"
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


def parsed(source: str) -> tuple[CodeType, dict[str, Any]]:
    """The code of `source` as a file of its own, whose text tracebacks and kaio can read, and its first names."""
    name = f"<benchmark {next(_numbers)}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    return compile(source, name, "exec", dont_inherit=True), {"__name__": name}


def fresh(source: str) -> dict[str, Any]:
    """The names of `source`, run as a file of its own."""
    code, space = parsed(source)
    exec(code, space)
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


def defined_and_compiled(source: str, name: str, work: str) -> Callable[[], float]:
    """Milliseconds to define and compile the kernel of a text, with its decorators and checks."""

    def one() -> float:
        code, space = parsed(source)
        call = compile(work.format(name=name), "<work>", "eval")
        return timed(lambda: (exec(code, space), eval(call, space)), unit="ms")

    return one


def of_examples(report: Report) -> None:
    """A row for each kernel of the examples and each compiler, and the medians over the kernels that both compile."""
    cases: dict[str, Callable[[], float]] = {}
    fresh(NUMBA_CUDA)
    for program in programs(EXAMPLES):
        text, name = program.text(program.kernel), program.name.partition(".")[2]
        ours, theirs = (f"example {program.name}, {compiler}" for compiler in ("kaio PTX", "numba-cuda PTX"))
        cases[ours] = defined_and_compiled(text, name, f"{{name}}.ptx({TARGET!r})")
        try:
            types = numba_types(next(v for v in fresh(text).values() if isinstance(v, kaio.Kernel) and v.name == name))
            cases[theirs] = defined_and_compiled(numba_source(text), name, COMPILE_NUMBA_CUDA_AS.format(types=types))
            cases[theirs]()
        except Untranslated as problem:
            report.omit(theirs, f"it has no `{problem}`")
        except Exception as problem:
            report.omit(theirs, f"{type(problem).__name__}: {problem}"[:300])
            cases.pop(theirs, None)
    measured = compare(cases, unit="ms", rounds=11, pause_s=0.02)
    report.add(measured.values())
    kaio_ms = {name.split(",")[0]: s for name, s in measured.items() if name.endswith("kaio PTX")}
    numba_ms = {name.split(",")[0]: s for name, s in measured.items() if name.endswith("numba-cuda PTX")}
    report.ratios["examples_ptx_ms"] = round(statistics.median(s.median for s in kaio_ms.values()), 3)
    if numba_ms:
        report.ratios["numba_cuda_over_ptx_examples"] = round(
            _middle(numba_ms, numba_ms) / _middle(kaio_ms, numba_ms), 3
        )


def _middle(measured: dict[str, Samples], names: dict[str, Samples]) -> float:
    """The median over the kernels of those names."""
    return statistics.median(measured[name].median for name in names)


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
    if "numba-cuda PTX" in usable:
        of_examples(report)
    report.finish()


if __name__ == "__main__":
    main()
