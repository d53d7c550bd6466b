"""Kernels from text, as a notebook has them: every name of kaio is there, every text is a file of its own."""

from __future__ import annotations

import cmath
import itertools
import linecache
import math
import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import kaio
from kaio.dtypes import dtype_of

_NUMBER = itertools.count()


def namespace(source: str, file: str | None = None, **names: Any) -> dict[str, Any]:
    """Run a text, with all of kaio's names and `math` in sight, and give the names it has made."""
    source = textwrap.dedent(source)
    file = file or f"<text {next(_NUMBER)}>"
    linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file
    space = {name: getattr(kaio, name) for name in kaio.__all__}
    space |= {"__name__": "text", "kaio": kaio, "cmath": cmath, "math": math, "np": np, **names}
    exec(compile(source, file, "exec", dont_inherit=True), space)
    return space


def kernel(source: str, file: str | None = None, **names: Any) -> Any:
    """The one kernel of a text; without a `def` the text is the body of a kernel of usual buffers."""
    made = namespace(source, file, **names)
    return next(value for value in reversed(made.values()) if isinstance(value, kaio.Kernel))


def run(
    made: kaio.Kernel,
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    *scalars: Any,
    device: kaio.Device | None = None,
    size: int | None = None,
    check: str | None = None,
) -> list[np.ndarray]:
    """Launch over the first input's size, with one output of that size for each dtype; give the outputs."""
    device = device or kaio.Device("cpu")
    count = size or np.asarray(inputs[0]).size
    given = [device.alloc_from(np.ascontiguousarray(x)) for x in inputs]
    made_of = [device.alloc_zeros(count, dtype) for dtype in outputs]
    launcher = made.over(count) if check is None else made.over(count).options(check=check)
    launcher.launch(*given, *made_of, *scalars).wait()
    return [out.to_host() for out in made_of]


def elementwise(text: str, dtype: Any, count: int = 1, result: Any = None, options: str = "") -> Any:
    """The kernel that sets each element of `out` to an expression of `a[i]`, `b[i]` …, so many inputs of that type."""
    params = ", ".join(f"{name}: In[{dtype!r}]" for name in "abcd"[:count])
    head = f"@kernel{options}\ndef k({params}, out: Out[{result or dtype!r}]):\n"
    return kernel(f"{head}    i = grid(1)\n    if i < out.size:\n        out[i] = {text}\n")


def kernel_of(name: str, dtype: Any, count: int = 1) -> Any:
    """The kernel that calls a function for each element."""
    return elementwise(f"{name}({', '.join(f'{a}[i]' for a in 'abcd'[:count])})", dtype, count)


def run_lines(
    lines: Sequence[str],
    inputs: Sequence[np.ndarray],
    outputs: Sequence[Any],
    *,
    device: kaio.Device | None = None,
    options: str = "",
) -> list[np.ndarray]:
    """Run lines for each element: `a`, `b` … are those of the inputs, and the lines set `out0[i]`, `out1[i]` …"""
    params = [f"x{k}: In[{dtype_of(x.dtype)!r}]" for k, x in enumerate(inputs)]
    params += [f"out{k}: Out[{dtype!r}]" for k, dtype in enumerate(outputs)]
    loads = [f"{name} = x{k}[i]" for k, name in zip(range(len(inputs)), "abcd", strict=False)]
    body = "\n        ".join([*loads, *lines])
    head = f"@kernel{options}\ndef k({', '.join(params)}):\n    i = grid(1)\n    if i < x0.size:\n"
    return run(kernel(f"{head}        {body}\n"), inputs, outputs, device=device)


def types_of(made: kaio.Kernel, **options: Any) -> dict[str, str]:
    """The type of every value of a kernel by its name; those of variables under the names of the source."""
    found: dict[str, str] = {}
    for line in str(made.stages(**options)["types"]).splitlines():
        left, _, type_ = line.rpartition("    : ")
        if left:
            found[left.split(" = ")[0].strip()] = type_
    return found


def mistakes(source: str, **names: Any) -> list[kaio.errors.Mistake]:
    """What is wrong with a kernel, found at decoration or when its types are."""
    with pytest.raises(kaio.KaioError) as caught:
        kernel(source, **names).types()
    return list(caught.value.mistakes)


def message(source: str, **names: Any) -> str:
    """The whole text of what is wrong with a kernel, without the name of its file."""
    with pytest.raises(kaio.KaioError) as caught:
        kernel(source, "<text>", **names).types()
    return str(caught.value)
