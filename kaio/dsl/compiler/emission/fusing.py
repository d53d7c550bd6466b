"""Fused multiply-add, decided here so that both machines fuse the same.

A product fuses inside the expression that adds or subtracts it, never through a named variable, a call or a store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kaio.dsl.compiler import ir
from kaio.dsl.compiler.emission import complexes, vectors
from kaio.dsl.compiler.emission.arithmetic import fma, negate
from kaio.dsl.complexes import ComplexType
from kaio.dsl.values import Type
from kaio.dsl.vectors import VectorType
from kaio.dtypes import DType

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter

__all__ = ["Products"]


class Products:
    """The float products of one function that a sum may still take, by the names of their temporaries."""

    def __init__(self) -> None:
        self._factors: dict[str, tuple[Any, Any, Type]] = {}

    def note(self, target: str, left: Any, right: Any, dtype: Type) -> None:
        """`target` is `left * right`."""
        if ir.is_temporary(target) and _fuses(dtype):
            self._factors[target] = left, right, dtype

    def copy(self, target: str, source: str) -> None:
        """`target` is the same value as `source`."""
        if ir.is_temporary(target) and source in self._factors:
            self._factors[target] = self._factors[source]

    def fuse(self, e: Emitter, op: ir.Binary, left: Any, right: Any, dtype: Type) -> Any:
        """The sum or difference in one rounding, or None where neither side is a product; of two the left one is."""
        if (product := self._of(op.left, dtype)) is not None:
            return _fma(e, *product, right if op.op == "+" else _negate(e, right, dtype), dtype)
        if (product := self._of(op.right, dtype)) is not None:
            x, y = product
            return _fma(e, x if op.op == "+" else _negate(e, x, dtype), y, left, dtype)
        return None

    def _of(self, name: str, dtype: Type) -> tuple[Any, Any] | None:
        x, y, of = self._factors.get(name, (None, None, None))
        return (x, y) if of is not None and of == dtype else None


def _fuses(type_: Type) -> bool:
    part = type_.items[0] if isinstance(type_, ComplexType | VectorType) else type_
    return isinstance(part, DType) and part.is_float


def _fma(e: Emitter, x: Any, y: Any, z: Any, type_: Type) -> Any:
    """x * y + z of numbers or complex numbers; of the factors of a complex product one may be real."""
    if isinstance(type_, ComplexType):
        part = complexes.part_of(type_)
        return complexes.fma(e, x, y, z if isinstance(z, tuple) else (z, e.const(part, 0.0)), part)
    if isinstance(type_, VectorType):
        return vectors.fma(e, x, y, z, type_.lane)
    assert isinstance(type_, DType)
    return fma(e, x, y, z, type_)


def _negate(e: Emitter, value: Any, type_: Type) -> Any:
    if isinstance(type_, VectorType):
        return vectors.negate(e, value, type_.lane)
    if isinstance(type_, ComplexType) and isinstance(value, tuple):
        return complexes.negate(e, value, complexes.part_of(type_))
    part = complexes.part_of(type_) if isinstance(type_, ComplexType) else type_
    assert isinstance(part, DType)
    return negate(e, value, part)
