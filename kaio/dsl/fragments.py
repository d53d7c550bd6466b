"""The parts of a matrix that the lanes of a warp hold: their types, and which lane has which element.

The layouts are those of the instructions `mma.m16n8k*` (PTX ISA 9.0, Matrix Fragments for mma.m16n8k16 with
floating point type and its neighbours). They are one for all element types, counted in bytes: a row of the left matrix
and a column of the right one are 32 bytes long, and a lane has words of 4 bytes of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from kaio.dsl.values import Compound, Type
from kaio.dtypes import DType, bf16, f8e4m3, f8e5m2, f16, f32, i8, i32, u8, u32

__all__ = ["ACCUMULATORS", "OPERANDS", "FragmentType", "Role", "listed", "products", "shape_of"]

Role = Literal["a", "b", "c"]

OPERANDS: tuple[Any, ...] = (f16, bf16, f32, i8, u8, f8e4m3, f8e5m2)
"""The element types of matrices that are multiplied; f32 is rounded to tf32."""
ACCUMULATORS: tuple[Any, ...] = (f32, f16, i32)
"""The element types of sums."""

_HALF, _BRAIN, _WHOLE, _BYTES, _EIGHTHS = (f16,), (bf16,), (f32,), (i8, u8), (f8e4m3, f8e5m2)
_SUMS: dict[tuple[Any, ...], tuple[Any, ...]] = {
    _HALF: (f32, f16), _BRAIN: (f32,), _WHOLE: (f32,), _BYTES: (i32,), _EIGHTHS: (f32,),
}  # fmt: skip


def shape_of(role: Role, dtype: DType) -> tuple[int, int]:
    """Rows and columns: a is 16 by k, b k by 8, c 16 by 8; k is 16 for 16-bit elements, 8 for f32, 32 for 8-bit."""
    k = 32 // dtype.itemsize
    return {"a": (16, k), "b": (k, 8), "c": (16, 8)}[role]


def listed(dtypes: tuple[Any, ...]) -> str:
    """Dtypes as messages name them.

    >>> listed((f32, f16, i32))
    'f32, f16 or i32'
    """
    *first, last = (dtype.name for dtype in dtypes)
    return f"{', '.join(first)} or {last}" if first else str(last)


def products(a: DType, b: DType) -> tuple[Any, ...]:
    """The element types that sums of products of these may have; none where there is no instruction."""
    return next((sums for family, sums in _SUMS.items() if a in family and b in family), ())


@dataclass(frozen=True)
class FragmentType(Compound):
    """What one lane holds of a matrix that a warp holds together.

    Of a and b that is four and two u32 words with elements side by side, the first lowest; of c four elements.
    """

    role: Role
    dtype: DType
    is_sequence = True

    @property
    def items(self) -> tuple[Type, ...]:  # type: ignore[override]
        """The types of the parts."""
        if self.role == "c":
            return (self.dtype,) * 4
        word: Any = u32
        return (word,) * (4 if self.role == "a" else 2)

    def with_items(self, items: tuple[Type, ...]) -> FragmentType:
        """The same: its parts have one type."""
        return self

    def is_like(self, other: Type) -> bool:
        """Only what is the same."""
        return self == other

    def __repr__(self) -> str:
        rows, columns = shape_of(self.role, self.dtype)
        name = "f32 (tf32)" if self.role != "c" and self.dtype is f32 else self.dtype.name
        return f"matrix_{self.role}({rows} x {columns}, {name})"
