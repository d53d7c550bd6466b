"""Constant arrays in a module: each once, in constant memory on CUDA, with the limit of that memory on both."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llvmlite import ir as llvm

from kaio.dsl.compiler.cuda.ptx_names import variable_name
from kaio.dsl.compiler.emission.scalars import memory_type
from kaio.dsl.values import MOST_CONSTANT_NBYTES, ArrayType
from kaio.errors import CompileError

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter

__all__ = ["ConstantArrays"]

_ALIGNMENT = 16


class ConstantArrays:
    """The constant arrays that a module holds, by dtype and contents; `space` is their address space."""

    def __init__(self, module: llvm.Module, space: int = 0) -> None:
        self._module, self._space = module, space
        self._found: dict[tuple[type, bytes], llvm.GlobalVariable] = {}
        self._sizes: dict[str, int] = {}

    def pointer(self, e: Emitter, array: ArrayType, name: str) -> llvm.Value:
        """The address of the first element; CompileError when the arrays become more than constant memory holds."""
        key = array.dtype, array.contents
        if key not in self._found:
            self._found[key] = self._made(e, array, name)
        return self._found[key].bitcast(memory_type(array.dtype).as_pointer(self._space))

    def _made(self, e: Emitter, array: ArrayType, name: str) -> llvm.GlobalVariable:
        self._sizes[name] = self._sizes.get(name, 0) + len(array.contents)
        if sum(self._sizes.values()) > MOST_CONSTANT_NBYTES:
            raise self._too_much(e, array, name)
        contents = array.contents or bytes(1)  # what has no elements is never read
        kind = llvm.ArrayType(llvm.IntType(8), len(contents))
        unique = variable_name(f"{self._module.name}_{name}", self._module.globals)
        made = llvm.GlobalVariable(self._module, kind, unique, addrspace=self._space)
        made.linkage, made.global_constant, made.align = "internal", True, _ALIGNMENT
        made.initializer = llvm.Constant(kind, bytearray(contents))
        return made

    def _too_much(self, e: Emitter, array: ArrayType, name: str) -> CompileError:
        each = ", ".join(f"{size} of `{of}`" for of, size in self._sizes.items())
        return CompileError(
            f"the constant arrays of this kernel take {sum(self._sizes.values())} bytes ({each}), "
            f"and constant memory holds {MOST_CONSTANT_NBYTES}",
            place=e.place,
            help=f"pass one as a buffer, for example `{name}: In[{array.dtype!r}]`",
        )
