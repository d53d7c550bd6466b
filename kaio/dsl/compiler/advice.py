"""Ways out: what to write instead of what a kernel does not take."""

from __future__ import annotations

import builtins
import math
import sys
import types
from typing import Any

import numpy as np

from kaio.dsl.intrinsic import STANDARD, Intrinsic, Namespace
from kaio.dsl.values import BufferType, ObjectType, TupleType, Type

__all__ = ["NOT_NUMPY", "instead_of_call", "instead_of_function", "instead_of_indexing", "instead_of_operand"]

NOT_NUMPY = "NumPy does not run on a device"

_AXES = ("col", "row", "plane")

# Names that NumPy or CUDA has for functions that a kernel writes otherwise.
_OTHER_NAMES = {
    "absolute": "abs", "arccos": "acos", "arccosh": "acosh", "arcsin": "asin", "arcsinh": "asinh", "arctan": "atan",
    "arctan2": "atan2", "arctanh": "atanh", "deg2rad": "radians", "fmax": "max", "fmin": "min", "power": "pow",
    "rad2deg": "degrees", "rint": "round",
}  # fmt: skip


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
    module, name = getattr(callee, "__module__", "") or "", getattr(callee, "__name__", "")
    if module.startswith("numpy") or isinstance(callee, np.ufunc):
        found = instead_of_function(name)
        return f"{NOT_NUMPY}; write `{found}`" if found else f"{NOT_NUMPY}; use Python's `math` or kaio's own functions"
    if module == "math":
        return "of `math` a kernel has sqrt, exp, log, sin and the like; write others as a function of your own"
    if isinstance(getattr(callee, "__wrapped__", None), types.FunctionType):  # functools, Numba
        return f"it is wrapped by `{_decorator(callee)}`; call the function inside: `{text}.__wrapped__(...)`"
    return "call a plain Python function, a `@kaio.func`, a dtype or one of kaio's functions"


def _decorator(callee: Any) -> str:
    module = type(callee).__module__.partition(".")[0]
    return f"{module}.cache" if module == "functools" else module


def instead_of_operand(operand: Type, text: str, grid: int | None) -> str | None:
    """The way out for an operand that is no number; `grid` is n where it comes from `grid(n)`."""
    if isinstance(operand, BufferType):
        return "index the buffer to get a number"
    if isinstance(operand, TupleType) and grid:
        return f"it is a position of {grid} numbers: write `{', '.join(_AXES[:grid])} = kaio.grid({grid})`"
    if isinstance(operand, TupleType):
        return f"it is a tuple of {len(operand.items)}; take one of its items, for example `{text}[0]`"
    if isinstance(operand, ObjectType) and isinstance(operand.value, Namespace):
        return f"read one of its axes: `{text}.x`"
    return None


def instead_of_indexing(indexed: Any, text: str) -> str | None:
    """The way out for `TABLE[i]` of a Python object, a captured list or dict."""
    if isinstance(indexed, list | dict | set | range | str | bytes):
        return f"pass the numbers as a buffer, for example `{text.lower()}: In[f32]`"
    return None
