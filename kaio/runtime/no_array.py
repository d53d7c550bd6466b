"""What a buffer is not: an array of the host. Each thing that is done with one says how to do it here."""

from __future__ import annotations

from typing import Any

import numpy as np

from kaio.runtime.elsewhere import Shown, answer, refuse

__all__ = ["NoArray"]

_COPY = "copy it to the host with `to_host()`"


class NoArray(metaclass=Shown):
    """Refuses arithmetic, comparison, assignment and NumPy's functions, and names the way out."""

    __slots__ = ()

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"a GpuBuffer is not turned into a NumPy array silently: {_COPY}")

    def __array_ufunc__(self, ufunc: Any, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"`np.{ufunc.__name__}` takes no GpuBuffer: {_COPY}, or write a kernel")

    def __array_function__(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"`np.{function.__name__}` takes no GpuBuffer: {_COPY}, or write a kernel")

    def __eq__(self, other: object) -> bool:
        if other is self:
            return True
        if isinstance(other, NoArray | np.ndarray | np.generic | int | float | list | tuple):
            raise TypeError("a GpuBuffer is not compared: compare copies, for example `x.to_host() == y.to_host()`")
        return NotImplemented

    __hash__ = object.__hash__


_OPERATORS = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "divmod": "divmod", "pow": "**",
    "matmul": "@", "and": "&", "or": "|", "xor": "^", "lshift": "<<", "rshift": ">>",
}  # fmt: skip
_ONE_SIDED = {
    "neg": "-", "pos": "+", "invert": "~", "abs": "abs", "round": "round", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
}  # fmt: skip

for _name, _sign in _OPERATORS.items() | _ONE_SIDED.items():
    for _prefix in ("", "r", "i") if _name in _OPERATORS else ("",):
        refuse(NoArray, f"__{_prefix}{_name}__", f"a GpuBuffer has no `{_sign}`: write a kernel, or {_COPY}")
for _name, _what in {
    "float": "is no float: copy it to the host with `to_host().item()`",
    "int": "is no int: copy it to the host with `to_host().item()`",
    "complex": "is no number: copy it to the host with `to_host().item()`",
    "setitem": "is not assigned to by index: write `x[…].fill(value)` or `x[…].copy_from(array)`",
    "delitem": "keeps its elements: none can be deleted",
    "contains": f"is not searched: {_COPY}",
}.items():
    refuse(NoArray, f"__{_name}__", f"a GpuBuffer {_what}")

_OF_ARRAYS = (
    "T all any argmax argmin argsort clip cumsum dot item max mean min prod round sort std sum tolist transpose"
)
answer(
    NoArray,
    {name: f"x.to_host().{name}{'' if name == 'T' else '()'}" for name in _OF_ARRAYS.split()}
    | dict.fromkeys(("numpy", "cpu", "get", "copy_to_host", "asnumpy", "tobytes"), "x.to_host()")
    | dict.fromkeys(("flatten", "ravel", "flat"), "x.reshape(-1)")
    | dict.fromkeys(("data_ptr", "ptr", "data", "ctypes"), "x.pointer")
    | dict.fromkeys(("clone", "detach"), "x.copy()")
    | dict.fromkeys(("copy_to_device", "copy_", "set"), "x.copy_from(array)")
    | dict.fromkeys(("free", "delete"), "x.close()")
    | {"fill_": "x.fill(value)", "zero_": "x.fill(0)", "numel": "x.size", "itemsize": "x.dtype.itemsize"}
    | {"view": "x.reshape(…)", "to": "device.alloc_from(x)", "cuda": "device.alloc_from(x)"},
    noun="GpuBuffer",
)
