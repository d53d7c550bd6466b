"""Packed vectors: element types of 2 to 16 lanes that are loaded and stored as one access of 4, 8 or 16 bytes.

The lanes are `x`, `y`, `z`, `w`, or `e0`, `e1` … where there are more than four; to NumPy a vector is a structured
dtype with these fields.

>>> import kaio
>>> kaio.f32x4, kaio.f32x4.itemsize, kaio.f32x4.numpy.names
(f32x4, 16, ('x', 'y', 'z', 'w'))
>>> kaio.f32x2(1, 2)["y"]
np.float32(2.0)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

import numpy as np

from kaio.dtypes import DType, add_dtypes, bf16, f16, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64

__all__ = [
    "VECTORS",
    "bf16x2",
    "bf16x4",
    "bf16x8",
    "f16x2",
    "f16x4",
    "f16x8",
    "f32x2",
    "f32x4",
    "f64x2",
    "i8x4",
    "i8x8",
    "i8x16",
    "i16x2",
    "i16x4",
    "i16x8",
    "i32x2",
    "i32x4",
    "i64x2",
    "u8x4",
    "u8x8",
    "u8x16",
    "u16x2",
    "u16x4",
    "u16x8",
    "u32x2",
    "u32x4",
    "u64x2",
    "vector_of",
]  # fmt: skip

_LANES: dict[Any, tuple[int, ...]] = {
    f16: (2, 4, 8),
    bf16: (2, 4, 8),
    f32: (2, 4),
    f64: (2,),
    i8: (4, 8, 16),
    i16: (2, 4, 8),
    i32: (2, 4),
    i64: (2,),
    u8: (4, 8, 16),
    u16: (2, 4, 8),
    u32: (2, 4),
    u64: (2,),
}


class VectorDType(DType):
    """The class of vector types; `lane` is the type of their lanes."""

    @property
    def lane(cls) -> DType:
        """The type of the lanes."""
        return cls.parts[0][1]

    def __call__(cls, *lanes: Any) -> Any:
        """The NumPy scalar of these lanes; one number is taken for all of them."""
        values = lanes * len(cls.parts) if len(lanes) == 1 else lanes
        if len(values) != len(cls.parts):
            raise TypeError(f"{cls!r} takes 1 or {len(cls.parts)} numbers (got {len(lanes)})")
        return np.array(tuple(cls.lane(value) for value in values), cls.numpy)[()]


def _made(lane: DType, count: int) -> VectorDType:
    names = "xyzw"[:count] if count <= 4 else [f"e{k}" for k in range(count)]
    name, numpy = f"{lane!r}x{count}", np.dtype([(name, lane.numpy) for name in names])
    doc = f"{count} lanes of {lane!r}, in memory one access of {numpy.itemsize} bytes."
    return VectorDType(
        name,
        (),
        {"__module__": __name__, "__doc__": doc},
        kind="v",
        bits=8 * numpy.itemsize,
        numpy=numpy,
        parts=tuple((name, lane) for name in names),
    )


if TYPE_CHECKING:
    _L = TypeVar("_L")

    class _Vector(Generic[_L]):
        itemsize: int

        def __init__(self, *lanes: float) -> None: ...
        def __getitem__(self, lane: int, /) -> _L: ...
        def __iter__(self) -> Iterator[_L]: ...
        def __len__(self) -> int: ...
        def __add__(self, value: Self | float, /) -> Self: ...
        def __sub__(self, value: Self | float, /) -> Self: ...
        def __mul__(self, value: Self | float, /) -> Self: ...
        def __truediv__(self, value: Self | float, /) -> Self: ...
        def __floordiv__(self, value: Self | float, /) -> Self: ...
        def __mod__(self, value: Self | float, /) -> Self: ...
        def __and__(self, value: Self | int, /) -> Self: ...
        def __or__(self, value: Self | int, /) -> Self: ...
        def __xor__(self, value: Self | int, /) -> Self: ...
        def __lshift__(self, value: Self | int, /) -> Self: ...
        def __rshift__(self, value: Self | int, /) -> Self: ...
        def __radd__(self, value: float, /) -> Self: ...
        def __rsub__(self, value: float, /) -> Self: ...
        def __rmul__(self, value: float, /) -> Self: ...
        def __rtruediv__(self, value: float, /) -> Self: ...
        def __neg__(self) -> Self: ...
        def __pos__(self) -> Self: ...

    class _Two(_Vector[_L]):
        x: _L
        y: _L

    class _Four(_Two[_L]):
        z: _L
        w: _L

    class _Eight(_Vector[_L]):
        e0: _L
        e1: _L
        e2: _L
        e3: _L
        e4: _L
        e5: _L
        e6: _L
        e7: _L

    class _Sixteen(_Eight[_L]):
        e8: _L
        e9: _L
        e10: _L
        e11: _L
        e12: _L
        e13: _L
        e14: _L
        e15: _L

    class f16x2(_Two[f16]): ...  # noqa: D101

    class f16x4(_Four[f16]): ...  # noqa: D101

    class f16x8(_Eight[f16]): ...  # noqa: D101

    class bf16x2(_Two[bf16]): ...  # noqa: D101

    class bf16x4(_Four[bf16]): ...  # noqa: D101

    class bf16x8(_Eight[bf16]): ...  # noqa: D101

    class f32x2(_Two[f32]): ...  # noqa: D101

    class f32x4(_Four[f32]): ...  # noqa: D101

    class f64x2(_Two[f64]): ...  # noqa: D101

    class i8x4(_Four[i8]): ...  # noqa: D101

    class i8x8(_Eight[i8]): ...  # noqa: D101

    class i8x16(_Sixteen[i8]): ...  # noqa: D101

    class i16x2(_Two[i16]): ...  # noqa: D101

    class i16x4(_Four[i16]): ...  # noqa: D101

    class i16x8(_Eight[i16]): ...  # noqa: D101

    class i32x2(_Two[i32]): ...  # noqa: D101

    class i32x4(_Four[i32]): ...  # noqa: D101

    class i64x2(_Two[i64]): ...  # noqa: D101

    class u8x4(_Four[u8]): ...  # noqa: D101

    class u8x8(_Eight[u8]): ...  # noqa: D101

    class u8x16(_Sixteen[u8]): ...  # noqa: D101

    class u16x2(_Two[u16]): ...  # noqa: D101

    class u16x4(_Four[u16]): ...  # noqa: D101

    class u16x8(_Eight[u16]): ...  # noqa: D101

    class u32x2(_Two[u32]): ...  # noqa: D101

    class u32x4(_Four[u32]): ...  # noqa: D101

    class u64x2(_Two[u64]): ...  # noqa: D101


VECTORS: tuple[VectorDType, ...] = tuple(_made(lane, count) for lane, counts in _LANES.items() for count in counts)
"""All of them."""

_BY_LANES = {(vector.lane, len(vector.parts)): vector for vector in VECTORS}
if not TYPE_CHECKING:
    globals().update({vector.__name__: vector for vector in VECTORS})
add_dtypes(VECTORS)


def vector_of(lane: DType, count: int) -> VectorDType | None:
    """The vector type of so many lanes of a type, None if there is none."""
    return _BY_LANES.get((lane, count))
