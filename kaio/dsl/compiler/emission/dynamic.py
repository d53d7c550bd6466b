"""The arrays in shared memory that a kernel is given the sizes of at launch, also those of its device functions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from kaio.dsl.compiler import ir
from kaio.dsl.compiler.emission.arguments import argument_values
from kaio.dsl.memory import dynamic_shared
from kaio.dsl.values import BufferType, Type, show
from kaio.dtypes import DType, i32
from kaio.errors import KernelTypeError, Mistake
from kaio.program import DynamicArray

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter

__all__ = ["Inputs", "dynamic_arrays"]


def dynamic_arrays(typed: ir.Typed) -> tuple[DynamicArray, ...]:
    """The arrays in the order in which the code names them; KernelTypeError if one name has two dtypes."""
    found: dict[str, DType] = {}
    for assign, call in ir.calls_of(typed):
        if call.callee is dynamic_shared:
            assert isinstance(call.result, BufferType)
            name, dtype = call.static[0], call.result.dtype
            first = found.setdefault(name, dtype)
            if first is not dtype:
                what = f"the dynamic shared array `{name}` is of {show(dtype)} here, and of {show(first)} elsewhere"
                raise KernelTypeError([Mistake(what, assign.place, "give the two different names")])
    return tuple(DynamicArray(name, dtype) for name, dtype in found.items())


class Inputs:
    """What the function of a kernel takes: its arguments, and behind them offset and size of each dynamic array.

    types: of all, in order
    places: offset in bytes and size in elements of each array by its name, once `arguments` has seen the values
    """

    def __init__(self, typed: ir.Typed) -> None:
        self.dynamic = dynamic_arrays(typed)
        self.types: tuple[Type | None, ...] = (*typed.arguments, *(i32, i32) * len(self.dynamic))
        self.places: dict[str, tuple[Any, Any]] = {}
        self._count = len(typed.arguments)

    def names(self) -> list[str]:
        """The names of the values behind the kernel's own arguments."""
        return [f"{array.name}_{what}" for array in self.dynamic for what in ("offset", "size")]

    def arguments(self, e: Emitter, flat: Iterable[Any]) -> tuple[Any, ...]:
        """The emitter's values of the kernel's own arguments, from the LLVM values of all."""
        values = argument_values(e, self.types, flat)
        numbers = iter(values[self._count :])
        self.places = {array.name: (next(numbers), next(numbers)) for array in self.dynamic}
        return values[: self._count]
