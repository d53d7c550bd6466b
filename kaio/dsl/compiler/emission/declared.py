"""A call by name, with the function declared in the module when it is new there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir as llvm

__all__ = ["call"]


def call(b: llvm.IRBuilder, name: str, result: llvm.Type, args: Sequence[llvm.Value]) -> Any:
    """Call an LLVM intrinsic or another function by name; gives its result."""
    function = b.module.globals.get(name)
    if function is None:
        function = llvm.Function(b.module, llvm.FunctionType(result, [a.type for a in args]), name)
    return b.call(function, args)
