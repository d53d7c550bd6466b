"""Where the memory of a module lies on the host.

As on a GPU, an address of shared, local or constant memory counts from the start of that memory, and a generic or
global one is where the bytes are.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir as llvm

from kaio.dsl.compiler.ptx.syntax import Function, Module, Variable
from kaio.errors import InternalError

__all__ = ["MemoryMap"]

_I8 = llvm.IntType(8)


class MemoryMap:
    """The variables of a module.

    spaces: the state space of each variable by its name
    offsets: where those of shared, constant and local memory begin
    shared_nbytes, local_nbytes: how much there is; of constant memory `constants` is what is there
    globals: the LLVM variables of global memory
    """

    def __init__(self, module: Module, into: llvm.Module, shared_nbytes: int) -> None:
        self.spaces: dict[str, str] = {}
        self.offsets: dict[str, int] = {}
        self.globals: dict[str, Any] = {}
        sizes = {"shared": 0, "const": 0, "local": 0}
        bank = b""
        for variable in _variables(module):
            self.spaces[variable.name] = variable.space
            if variable.space == "global":
                self.globals[variable.name] = _made(into, variable)
            elif variable.is_extern:  # shared memory whose size a launch says: arguments count from the block's start
                self.offsets[variable.name] = 0
            elif variable.space in sizes:
                start = -(-sizes[variable.space] // variable.alignment) * variable.alignment
                self.offsets[variable.name], sizes[variable.space] = start, start + variable.nbytes
                if variable.space == "const":
                    bank = bank.ljust(start, b"\0") + _filled(variable)
        self.shared_nbytes = max(sizes["shared"], shared_nbytes)
        self.local_nbytes = sizes["local"]
        self.constant_nbytes = len(bank)
        self.bank = _constant(into, "kaio_constants", bank, 16) if bank else None


def _variables(module: Module) -> list[Variable]:
    found = list(module.variables)
    for function in module.functions.values():
        found += _own(function)
    return found


def _own(function: Function) -> list[Variable]:
    return [variable for variable in function.variables if variable.space != "param"]


def _filled(variable: Variable) -> bytes:
    return (variable.initial or b"").ljust(variable.nbytes, b"\0")


def _made(into: llvm.Module, variable: Variable) -> Any:
    if variable.is_extern:
        raise InternalError(f"`{variable.name}` is defined in no PTX of this kernel")
    made = _constant(into, variable.name, _filled(variable), variable.alignment)
    made.global_constant = False
    return made


def _constant(into: llvm.Module, name: str, content: bytes, alignment: int) -> Any:
    kind = llvm.ArrayType(_I8, len(content))
    made = llvm.GlobalVariable(into, kind, name)
    made.initializer = llvm.Constant(kind, bytearray(content))
    made.align, made.global_constant = alignment, True
    return made
