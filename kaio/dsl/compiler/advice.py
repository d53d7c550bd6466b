"""Ways out: what to write instead of what a kernel does not take."""

from __future__ import annotations

import builtins
import inspect
import math
import sys
import types
from collections.abc import Iterable
from typing import Any

import numpy as np

from kaio.dsl.intrinsic import STANDARD, Intrinsic, Namespace
from kaio.dsl.values import ArrayType, BufferType, ObjectType, TupleType, Type, Weak
from kaio.dtypes import DType
from kaio.errors import did_you_mean

__all__ = [
    "NOT_NUMPY",
    "instead_of_call",
    "instead_of_function",
    "instead_of_indexing",
    "instead_of_operand",
    "misbound",
    "not_callable",
]

NOT_NUMPY = "NumPy does not run on a device"

_AXES = ("col", "row", "plane")

# Names that NumPy or CUDA has for functions that a kernel writes otherwise.
_OTHER_NAMES = {
    "absolute": "abs", "arccos": "acos", "arccosh": "acosh", "arcsin": "asin", "arcsinh": "asinh", "arctan": "atan",
    "arctan2": "atan2", "arctanh": "atanh", "bitwise_count": "popc", "clip": "clamp", "deg2rad": "radians",
    "fmax": "max", "fmin": "min", "nearbyint": "rint", "power": "pow", "rad2deg": "degrees", "reciprocal": "rcp",
    "scalbn": "ldexp", "tgamma": "gamma",
}  # fmt: skip


_RANDOM = "use `kaio.random_uniform(seed, i)` or `kaio.random_normal(seed, i)`, or pass numbers in a buffer"

_NUMPY = {
    **dict.fromkeys(
        ("rand", "randn", "random", "uniform", "normal", "randint", "integers", "standard_normal"), _RANDOM
    ),
    **dict.fromkeys(
        ("zeros", "ones", "empty", "full", "array", "zeros_like", "empty_like", "arange", "linspace"),
        "an array of the thread is `kaio.local_mem(shape, dtype)`, one of the block `kaio.shared_mem(shape, dtype)`",
    ),
    **dict.fromkeys(("sum", "prod", "mean", "dot", "matmul", "einsum", "cumsum"), "write a `for` loop"),
    "where": "write `a if condition else b`",
    "square": "write `x * x`",
    "mod": "write `a % b`",
    "divide": "write `a / b`",
    "floor_divide": "write `a // b`",
    "logical_and": "write `a and b`",
    "logical_or": "write `a or b`",
    "logical_not": "write `not a`",
}

# What of `math` no kernel has: it takes sequences, or gives integers that grow beyond any type.
_MATH = {
    "comb": "it outgrows 64 bits soon; multiply and divide in a loop, or write `math.exp(math.lgamma(n + 1) - ...)`",
    "dist": "write `math.hypot(x1 - x0, y1 - y0)`",
    "factorial": "it outgrows 64 bits at 21; write `math.gamma(n + 1)`, or multiply in a loop",
    "fsum": "add in a loop, to an f64 where digits matter",
    "perm": "it outgrows 64 bits soon; multiply in a loop",
    "prod": "multiply in a loop",
    "sumprod": "add products in a loop: `total += x[i] * y[i]`",
}

_LIBRARIES = {
    "time": "a kernel is timed from outside: `kernel.over(...).options(timed=True)`, then `done.elapsed_ms`",
    "datetime": "pass the time as a parameter of the kernel",
    **dict.fromkeys(("random", "_random"), _RANDOM),
    "os": "read it before the launch, and pass it as a parameter of the kernel",
    "posix": "read it before the launch, and pass it as a parameter of the kernel",
    "torch": "PyTorch does not run in a kernel; use Python's `math` or kaio's own functions",
    "scipy": "SciPy does not run in a kernel; use Python's `math` or kaio's own functions",
    "logging": "store numbers in a buffer and log them after the launch",
    "re": "a kernel has no strings: do it before the launch",
    "itertools": "write `for` loops over `range(...)`, one inside the other",
    "functools": "write a `for` loop, or a function of your own",
    "operator": "write the operator itself, for example `a + b`",
    "threading": "threads of a block wait for each other in `kaio.bar_sync()`",
    "asyncio": "await the launch; threads of a block wait for each other in `kaio.bar_sync()`",
    "collections": "a few values are a tuple `(a, b)`; an array of the thread is `kaio.local_mem(shape, dtype)`",
}


def instead_of_function(name: str) -> str | None:
    """How a kernel writes the function that NumPy, CUDA or `math` has under this name; None if it has none."""
    name = _OTHER_NAMES.get(name, name)
    if isinstance(getattr(sys.modules["kaio"], name, None), Intrinsic):
        return f"kaio.{name}"
    if getattr(builtins, name, None) in STANDARD:
        return name
    of_math = getattr(math, name, None)
    return f"math.{name}" if isinstance(of_math, float) or of_math in STANDARD else None


def instead_of_call(callee: Any, text: str) -> str:
    """The way out for a call of something that is no function of a kernel; `text` is how it is written."""
    if hasattr(callee, "over"):
        return "a kernel cannot launch a kernel; share the code in a function that both call"
    if isinstance(callee, Namespace):
        return f"read one of its axes: `{text}.x`"
    if isinstance(callee, types.MethodType):
        return f"it is a method; call a function, and give it what it needs of `{text.rpartition('.')[0]}`"
    module, name = _module(callee), getattr(callee, "__name__", "")
    if module.startswith("numpy") or isinstance(callee, np.ufunc):
        found = instead_of_function(name)
        way_out = f"write `{found}`" if found else _NUMPY.get(name, "use Python's `math` or kaio's own functions")
        return f"{NOT_NUMPY}; {way_out}"
    for library, way_out in _LIBRARIES.items():
        if module.partition(".")[0] == library:
            return way_out
    if module == "math":
        return _MATH.get(name, "a kernel does not have it; write it as a function of your own")
    if isinstance(getattr(callee, "__wrapped__", None), types.FunctionType):  # functools, Numba
        return f"it is wrapped by `{_decorator(callee)}`; call the function inside: `{text}.__wrapped__(...)`"
    return "call a plain Python function, a `@kaio.func`, a dtype or one of kaio's functions"


def _module(callee: Any) -> str:
    """The module of a function, or of the object whose method it is (`random.random`)."""
    owner = getattr(callee, "__self__", None)
    found = getattr(callee, "__module__", None) or getattr(type(owner), "__module__", None)
    return str(found or "")


def _decorator(callee: Any) -> str:
    module = type(callee).__module__.partition(".")[0]
    return f"{module}.cache" if module == "functools" else module


def instead_of_operand(operand: Type, text: str, grid: int | None) -> str | None:
    """The way out for an operand that is no number; `grid` is n where it comes from `grid(n)`."""
    if isinstance(operand, BufferType):
        return "index the buffer to get a number"
    if isinstance(operand, TupleType) and grid:
        return f"it is a position of {grid} numbers: write `{', '.join(_AXES[:grid])} = kaio.grid({grid})`"
    if isinstance(operand, TupleType) and operand.items:
        return f"it is a tuple of {len(operand.items)}; take one of its items, for example `{text}[0]`"
    if isinstance(operand, ObjectType) and isinstance(operand.value, Namespace):
        return f"read one of its axes: `{text}.x`"
    return None


def instead_of_indexing(indexed: Any, text: str) -> str | None:
    """The way out for `TABLE[i]` of a Python object, a captured list or dict."""
    if isinstance(indexed, list | dict | set | range | str | bytes):
        return f"pass the numbers as a buffer, for example `{text.lower()}: In[f32]`"
    return None


def not_callable(called: Type, text: str) -> str | None:
    """The way out for `x(i)` of a value that is no function."""
    if isinstance(called, BufferType | ArrayType):
        return f"an element is read with brackets: `{text}[i]`"
    if isinstance(called, DType | Weak):
        return f"`{text}` is a number here: give the function another name, or write `{text} * ...`"
    return None


def misbound(signature: inspect.Signature, arguments: int, keywords: Iterable[str]) -> tuple[str, str | None]:
    """What is wrong with the arguments of a call, and the way out; `arguments` is how many have no keyword."""
    parameters = [p for p in signature.parameters.values() if p.kind is not p.POSITIONAL_ONLY]
    known = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    for keyword in keywords:
        if keyword not in known and not any(p.kind is p.VAR_KEYWORD for p in parameters):
            listed = f"it has {', '.join(f'`{name}`' for name in known)}" if known else "give the values in order"
            return f"there is no parameter `{keyword}`", did_you_mean(keyword, known) or listed
    try:
        signature.bind(*[None] * arguments, **dict.fromkeys(keywords))
    except TypeError as problem:
        return str(problem), None
    return "", None
