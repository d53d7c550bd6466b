"""Measure how accurate every function of numbers is on a device: `python benchmarks/ulp.py cuda:0`.

The largest error in units in the last place against mpmath, over edges, all binades and random numbers, and what the
function gives for zeros, infinities and NaN; on a GPU also whether the CPU device gives the same bits. The results go
to `results/math_<device>.json`, of which docs/math.md is made.

Of f32 a million numbers are tried: the function of f64, exact enough to tell, says where the errors are largest, and
mpmath judges those.
"""

from __future__ import annotations

import argparse
import json
import linecache
import math
import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from harness import RESULTS, machine, versions
from mathematics import FUNCTIONS, Function, error_in_ulp, exact, inputs, special_inputs

import kaio
from kaio import In, Out, f32, f64

COUNTS = {f32: 1_000_000, f64: 2_000}
JUDGED = 60  # of f32, the worst by f64
SLOW = ("erfc", "norm", "gamma", "j", "y", "cyl", "rhypot", "math.hypot of 5")  # of f64 fewer: mpmath takes long


def kernel_of(function: Function, dtype: kaio.DType) -> kaio.Kernel:
    """A kernel that calls the function for every row."""
    names = "abcd"[: function.arity]
    params = ", ".join(f"{name}: In[{dtype!r}]" for name in names)
    source = (
        f"@kaio.kernel\ndef k({params}, out: Out[{dtype!r}]):\n    i = kaio.grid(1)\n"
        f"    if i < out.size:\n        out[i] = {function.call}\n"
    )
    file = f"<{function.call} of {dtype!r}>"
    linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file
    space: dict[str, Any] = {"__name__": "ulp", "kaio": kaio, "math": math, "In": In, "Out": Out}
    space |= {"f32": f32, "f64": f64}
    exec(compile(source, file, "exec"), space)
    made: kaio.Kernel = space["k"]
    return made


def run(function: Function, dtype: kaio.DType, xs: list[np.ndarray], device: kaio.Device) -> np.ndarray:
    """The function of every row, on a device."""
    out = device.alloc_zeros(xs[0].size, dtype)
    kernel_of(function, dtype).over(out.size).launch(*(device.alloc_from(x) for x in xs), out).wait()
    return np.asarray(out.to_host())


def judge(function: Function, dtype: kaio.DType, rows: list[tuple[float, ...]], got: list[float]) -> dict[str, Any]:
    """The largest error of some results in ulp, where it is, and what is given there."""
    errors = [
        error_in_ulp(g, exact(function, row), dtype.numpy.type, function.smallest)
        for row, g in zip(rows, got, strict=True)
    ]
    worst = max(range(len(errors)), key=errors.__getitem__)
    return {
        "ulp": float(f"{errors[worst]:.4g}"),
        "at": [x.hex() for x in rows[worst]],
        "gives": got[worst].hex(),
    }


def candidates(function: Function, xs: list[np.ndarray], got: np.ndarray, cpu: kaio.Device) -> np.ndarray:
    """The rows of f32 whose errors are largest by the function of f64, and a few others."""
    near = run(function, f64, [x.astype(np.float64) for x in xs], cpu)
    with np.errstate(all="ignore"):
        rounded = np.abs(near.astype(np.float32))
        size = np.clip(rounded, function.smallest, np.finfo(np.float32).max).astype(np.float32)
        unit = np.spacing(size).astype(np.float64)
        error = np.abs(got.astype(np.float64) - near) / unit
        both = np.isinf(got) & (got == near.astype(np.float32))
        error = np.where(both, 0.0, np.where(np.isnan(error), 1e30, error))
    error[np.isnan(got) & np.isnan(near)] = 0.0
    return np.argsort(error)[-JUDGED:]


def bits(values: np.ndarray) -> np.ndarray:
    """The bits of floats, all NaN alike."""
    return np.where(np.isnan(values), np.array(np.nan, values.dtype), values).view(f"u{values.itemsize}")


def measure(name: str, dtype: kaio.DType, device_name: str) -> dict[str, Any]:
    """What is found of a function for a dtype."""
    function, device, cpu = FUNCTIONS[name], kaio.Device(device_name), kaio.Device("cpu")
    count = COUNTS[dtype] if dtype is f32 and not function.single else COUNTS[f64]
    xs = inputs(function, dtype.numpy.type, count)
    if dtype is f64 and name.removeprefix("math.").startswith(SLOW):
        chosen = np.random.default_rng(1).permutation(xs[0].size)[:1500]
        xs = [x[chosen] for x in xs]
    got = run(function, dtype, xs, device)
    by_f64 = dtype is f32 and not function.single
    chosen = candidates(function, xs, got, cpu) if by_f64 else np.arange(got.size)
    found = judge(function, dtype, [tuple(float(x[k]) for x in xs) for k in chosen], [float(got[k]) for k in chosen])
    found["tried"] = int(got.size)
    if special := special_inputs(function.arity):
        columns = [np.array(column, dtype.numpy) for column in zip(*special, strict=True)]
        found["special"] = [str(float(value)) for value in run(function, dtype, columns, device)]
    if device_name != "cpu":
        on_cpu = run(function, dtype, xs, cpu)
        found["differ"] = int((bits(got) != bits(on_cpu)).sum())
        if special:
            on_cpu = run(function, dtype, columns, cpu)
            found["same_special"] = [str(float(value)) for value in on_cpu] == found["special"]
    return found


def measure_all(device_name: str, names: list[str]) -> dict[str, Any]:
    """All functions, each for both dtypes, in processes of their own."""
    tasks = [(name, dtype) for name in names for dtype in ((f32,) if FUNCTIONS[name].single else (f64, f32))]
    tasks.sort(key=lambda task: not task[0].removeprefix("math.").startswith(SLOW))  # the long ones first
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
        pending = {task: pool.submit(measure, *task, device_name) for task in tasks}
        found: dict[str, Any] = {name: {} for name in names}
        for (name, dtype), future in pending.items():
            found[name][repr(dtype)] = future.result()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("device", nargs="?", default="cpu")
    parser.add_argument("--only", nargs="*", default=list(FUNCTIONS), help="names of functions")
    parser.add_argument("--out", type=Path, default=RESULTS, help="directory of the JSON (default: benchmarks/results)")
    options = parser.parse_args()
    functions = measure_all(options.device, options.only)
    for name, dtypes in functions.items():
        shown = [f"{dtype} {of['ulp']:<9} {of.get('differ', '')!s:7}" for dtype, of in sorted(dtypes.items())]
        print(f"{name:20}", *shown)
    kind = options.device.partition(":")[0]
    path = options.out / f"math_{kind}.json"
    if options.only != list(FUNCTIONS) and path.exists():  # the others as they were
        functions = json.loads(path.read_text(encoding="utf-8"))["functions"] | functions
    about = {"benchmark": f"math_{kind}", "machine": machine(), "versions": versions()}
    path.write_text(written(about, functions), encoding="utf-8")


def written(about: dict[str, Any], functions: dict[str, Any]) -> str:
    """The results as JSON, a line for each function."""
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(found)}" for name, found in functions.items())
    return json.dumps(about, indent=1).removesuffix("\n}") + ',\n "functions": {\n' + lines + "\n }\n}\n"


if __name__ == "__main__":
    main()
