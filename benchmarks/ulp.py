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
import os
import random
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from harness import RESULTS, machine, versions
from mathematics import FUNCTIONS, Function, error_in_ulp, exact, inputs, special_inputs

import kaio
from kaio import f32, f64

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
    space: dict[str, Any] = {
        "__name__": "ulp",
        "kaio": kaio,
        "math": __import__("math"),
        "In": kaio.In,
        "Out": kaio.Out,
    }
    space |= {"f32": f32, "f64": f64}
    exec(compile(source, file, "exec"), space)
    made: kaio.Kernel = space["k"]
    return made


def run(function: Function, dtype: kaio.DType, xs: list[np.ndarray], device: kaio.Device) -> np.ndarray:
    """The function of every row, on a device."""
    out = device.alloc_zeros(xs[0].size, dtype)
    kernel_of(function, dtype).over(out.size).launch(*(device.alloc_from(x) for x in xs), out).wait()
    return np.asarray(out.to_host())


def judge(name: str, double: bool, rows: list[tuple[float, ...]], got: list[float]) -> tuple[float, int]:
    """The largest error of some results in ulp, and where it is."""
    function, dtype = FUNCTIONS[name], np.float64 if double else np.float32
    errors = [error_in_ulp(g, exact(function, row), dtype, function.smallest) for row, g in zip(rows, got, strict=True)]
    worst = max(range(len(errors)), key=errors.__getitem__)
    return errors[worst], worst


def candidates(function: Function, xs: list[np.ndarray], got: np.ndarray, cpu: kaio.Device) -> np.ndarray:
    """The rows of f32 whose errors are largest by the function of f64, and a few others."""
    near = run(function, f64, [x.astype(np.float64) for x in xs], cpu)
    with np.errstate(all="ignore"):
        rounded = np.abs(near.astype(np.float32))
        size = np.clip(rounded, function.smallest, np.finfo(np.float32).max).astype(np.float32)
        unit = np.spacing(size).astype(np.float64)
        error = np.abs(got.astype(np.float64) - near) / unit
        error = np.where(got == near.astype(np.float32), 0.0, np.where(np.isnan(error), 1e30, error))
    error[np.isnan(got) & np.isnan(near)] = 0.0
    return np.argsort(error)[-JUDGED:]


def bits(values: np.ndarray) -> np.ndarray:
    """The bits of floats, all NaN alike."""
    return np.where(np.isnan(values), np.array(np.nan, values.dtype), values).view(f"u{values.itemsize}")


def measure(name: str, dtype: kaio.DType, device: kaio.Device, cpu: kaio.Device, pool: Any) -> tuple[dict, Future]:
    """What is known of a function of a dtype at once, and what mpmath will say of it."""
    function, is_slow = FUNCTIONS[name], name.removeprefix("math.").startswith(SLOW)
    count = COUNTS[dtype] if dtype is f32 and not function.single else COUNTS[f64]
    xs = inputs(function, dtype.numpy.type, count)
    if dtype is f64 and is_slow:
        rng = np.random.default_rng(1)
        chosen = rng.permutation(xs[0].size)[:1500]
        xs = [x[chosen] for x in xs]
    got = run(function, dtype, xs, device)
    special = special_inputs(function.arity)
    found: dict[str, Any] = {"tried": int(got.size)}
    columns = [np.array(column, dtype.numpy) for column in zip(*special, strict=True)]
    if columns:
        found["special"] = [str(float(value)) for value in run(function, dtype, columns, device)]
    if device is not cpu:
        on_cpu = run(function, dtype, xs, cpu)
        differ = bits(got) != bits(on_cpu)
        found["same_bits"] = not differ.any()
        found["differ"] = int(differ.sum())
        if columns:
            other = run(function, dtype, columns, cpu)
            found["same_special"] = [str(float(value)) for value in other] == found["special"]
    chosen = candidates(function, xs, got, cpu) if dtype is f32 and not function.single else np.arange(got.size)
    rows = [tuple(float(x[k]) for x in xs) for k in chosen]
    results = [float(got[k]) for k in chosen]
    future = pool.submit(judge, name, dtype is f64, rows, results)
    found["rows"], found["results"] = rows, results
    return found, future


def measure_all(device: kaio.Device, names: list[str]) -> dict[str, Any]:
    """All functions of both dtypes."""
    cpu = device if device.name == kaio.Device("cpu").name else kaio.Device("cpu")
    with ProcessPoolExecutor(os.cpu_count(), get_context("fork")) as pool:
        pool.submit(int).result()  # the workers start before any thread does
        pending = {}
        for name in random.Random(0).sample(names, len(names)):
            for dtype in (f32,) if FUNCTIONS[name].single else (f32, f64):
                pending[name, dtype] = measure(name, dtype, device, cpu, pool)
        found: dict[str, Any] = {name: {} for name in names}
        for (name, dtype), (known, future) in pending.items():
            error, at = future.result()
            rows, results = known.pop("rows"), known.pop("results")
            worst = {"at": [x.hex() for x in rows[at]], "gives": results[at].hex()}
            found[name][repr(dtype)] = {"ulp": float(f"{error:.4g}"), **worst, **known}
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("device", nargs="?", default="cpu")
    parser.add_argument("--only", nargs="*", default=list(FUNCTIONS), help="names of functions")
    parser.add_argument("--out", type=Path, default=RESULTS, help="directory of the JSON (default: benchmarks/results)")
    options = parser.parse_args()
    device = kaio.Device(options.device)
    functions = measure_all(device, options.only)
    for name, dtypes in functions.items():
        print(
            f"{name:20}",
            *(f"{dtype} {found['ulp']:<10} {found.get('same_bits', '')!s:6}" for dtype, found in dtypes.items()),
        )
    kind = options.device.partition(":")[0]
    result = {"benchmark": f"math_{kind}", "machine": machine(), "versions": versions(), "functions": functions}
    if options.only == list(FUNCTIONS):
        (options.out / f"math_{kind}.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
