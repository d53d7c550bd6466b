"""Functions of a module by name: declared, or defined, where they are new there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir as llvm

__all__ = ["call", "own_function"]


def call(b: llvm.IRBuilder, name: str, result: llvm.Type, args: Sequence[llvm.Value]) -> Any:
    """Call an LLVM intrinsic or another function by name; gives its result."""
    function = b.module.globals.get(name)
    if function is None:
        function = llvm.Function(b.module, llvm.FunctionType(result, [a.type for a in args]), name)
    return b.call(function, args)


def own_function(
    module: llvm.Module,
    name: str,
    result: llvm.Type,
    kinds: Sequence[llvm.Type],
    fill: Callable[..., None],
    *attributes: str,
) -> llvm.Function:
    """The function of a name that the module has for itself; `fill(builder, *arguments)` emits it where it is new."""
    found = module.globals.get(name)
    if found is None:
        found = llvm.Function(module, llvm.FunctionType(result, kinds), name)
        found.linkage = "internal"
        for attribute in attributes:
            found.attributes.add(attribute)
        fill(llvm.IRBuilder(found.append_basic_block("entry")), *found.args)
    return found
