"""The element types: one table, each with its NumPy and PTX spelling.

A dtype is a class, so that it can annotate (`x: In[f32]`), cast inside a kernel (`f32(i)`) and, called outside
a kernel, give the NumPy scalar. To a type checker integers are `int`, floats `float` and `bool_` is `bool`.

>>> import kaio
>>> kaio.f32, kaio.f32.itemsize, kaio.f32(1)
(f32, 4, np.float32(1.0))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING, Any, Self

import ml_dtypes  # gives NumPy the types that it lacks: bfloat16 and the floats of 8 bits
import numpy as np

from kaio.errors import KaioError
from kaio.record_classes import is_record
from kaio.rounding import nearest

__all__ = [
    "COMPLEX", "DTYPES", "DType", "add_dtypes", "bf16", "bool_", "c64", "c128", "dtype_of", "f8e4m3", "f8e5m2", "f16",
    "f32", "f64", "i8", "i16", "i32", "i64", "is_float", "u8", "u16", "u32", "u64",
]  # fmt: skip


_finfo: Callable[[np.dtype[Any]], Any] = ml_dtypes.finfo


@cache
def _limits(dtype: DType) -> tuple[int, float]:
    """Bits of the significand and the largest finite value of a float."""
    info = _finfo(dtype.numpy)
    return int(info.nmant) + 1, float(info.max)


class DType(type):
    """An element type. `kind` is one of ``b i u f``, or of several parts: ``c`` complex, ``v`` vectors, ``s`` structs.

    `bits` is its width in memory; `parts` are what a value is made of, each with its name; a number has none.
    """

    kind: str
    bits: int
    numpy: np.dtype[Any]
    ptx: str
    parts: tuple[tuple[str, DType], ...]

    def __new__(
        mcs,
        name: str,
        bases: tuple[type, ...],
        space: dict[str, Any],
        *,
        kind: str,
        bits: int,
        numpy: Any,
        ptx: str = "",
        parts: tuple[tuple[str, Any], ...] = (),
    ) -> DType:
        cls = super().__new__(mcs, name, bases, space)
        cls.kind, cls.bits, cls.numpy, cls.ptx, cls.parts = kind, bits, np.dtype(numpy), ptx, parts
        return cls

    def __init__(cls, name: str, bases: tuple[type, ...], space: dict[str, Any], **table: Any) -> None:
        super().__init__(name, bases, space)

    def __call__(cls, *args: Any) -> Any:
        """The NumPy scalar of this type."""
        if len(args) == 1 and cls.is_float:  # as a cast in a kernel: NumPy's may round twice
            value = args[0].item() if isinstance(args[0], np.generic) else args[0]
            if isinstance(value, int) or (isinstance(value, float) and cls.bits < 32):
                return cls.numpy.type(nearest(cls, value))
        return cls.numpy.type(*args)

    def __dir__(cls) -> list[str]:
        # Not the methods of the Python number that a type checker takes it for: no value has this class.
        names = "alignment bits digits is_float is_int is_storage itemsize kind largest name numpy parts ptx range"
        return names.split()

    @property
    def name(cls) -> str:
        """The name as it is written in kaio: ``f32``, ``bool`` for `bool_`."""
        return cls.__name__.rstrip("_")

    @property
    def itemsize(cls) -> int:
        """Bytes of one element."""
        return cls.numpy.itemsize

    @property
    def alignment(cls) -> int:
        """What the address of an element is a multiple of, in bytes: one access loads the whole of it."""
        return cls.numpy.itemsize

    @property
    def is_int(cls) -> bool:
        """True for the signed and unsigned integers, not for bool."""
        return cls.kind in "iu"

    @property
    def is_float(cls) -> bool:
        """True for the floating-point types."""
        return cls.kind == "f"

    @property
    def is_storage(cls) -> bool:
        """True for the floats of 8 bits, which are loaded, stored and cast, and have no arithmetic."""
        return cls.kind == "f" and cls.bits == 8

    @property
    def digits(cls) -> int:
        """Bits of the significand of a floating-point type, the leading one included."""
        return _limits(cls)[0]

    @property
    def largest(cls) -> float:
        """The largest finite value of a floating-point type."""
        return _limits(cls)[1]

    @property
    def range(cls) -> tuple[int, int]:
        """Smallest and largest value of an integer type or bool."""
        if cls.kind == "i":
            return -(1 << cls.bits - 1), (1 << cls.bits - 1) - 1
        return 0, 1 if cls.kind == "b" else (1 << cls.bits) - 1

    def __repr__(cls) -> str:
        return cls.__name__

    def __reduce__(cls) -> str:
        return cls.__name__


if TYPE_CHECKING:
    # To a type checker arithmetic stays in the type, so that results can be returned and stored as what they are.
    class _Integer(int):
        def __add__(self, value: int, /) -> Self: ...
        def __sub__(self, value: int, /) -> Self: ...
        def __mul__(self, value: int, /) -> Self: ...
        def __floordiv__(self, value: int, /) -> Self: ...
        def __mod__(self, value: int, /) -> Self: ...
        def __and__(self, value: int, /) -> Self: ...
        def __or__(self, value: int, /) -> Self: ...
        def __xor__(self, value: int, /) -> Self: ...
        def __lshift__(self, value: int, /) -> Self: ...
        def __rshift__(self, value: int, /) -> Self: ...
        def __radd__(self, value: int, /) -> Self: ...
        def __rsub__(self, value: int, /) -> Self: ...
        def __rmul__(self, value: int, /) -> Self: ...
        def __rfloordiv__(self, value: int, /) -> Self: ...
        def __rmod__(self, value: int, /) -> Self: ...
        def __truediv__(self, value: int, /) -> f32: ...
        def __neg__(self) -> Self: ...
        def __pos__(self) -> Self: ...
        def __invert__(self) -> Self: ...
        def __abs__(self) -> Self: ...
        def __eq__(self, value: object, /) -> bool: ...
        def __hash__(self) -> int: ...

    class _Floating(float):
        def __add__(self, value: float, /) -> Self: ...
        def __sub__(self, value: float, /) -> Self: ...
        def __mul__(self, value: float, /) -> Self: ...
        def __truediv__(self, value: float, /) -> Self: ...
        def __floordiv__(self, value: float, /) -> Self: ...
        def __mod__(self, value: float, /) -> Self: ...
        def __pow__(self, value: float, mod: None = None, /) -> Self: ...
        def __radd__(self, value: float, /) -> Self: ...
        def __rsub__(self, value: float, /) -> Self: ...
        def __rmul__(self, value: float, /) -> Self: ...
        def __rtruediv__(self, value: float, /) -> Self: ...
        def __rfloordiv__(self, value: float, /) -> Self: ...
        def __rmod__(self, value: float, /) -> Self: ...
        def __neg__(self) -> Self: ...
        def __pos__(self) -> Self: ...
        def __abs__(self) -> Self: ...
        def __eq__(self, value: object, /) -> bool: ...
        def __hash__(self) -> int: ...

    class _Complex(complex):
        def __add__(self, value: complex, /) -> Self: ...
        def __sub__(self, value: complex, /) -> Self: ...
        def __mul__(self, value: complex, /) -> Self: ...
        def __truediv__(self, value: complex, /) -> Self: ...
        def __pow__(self, value: complex, mod: None = None, /) -> Self: ...
        def __radd__(self, value: complex, /) -> Self: ...
        def __rsub__(self, value: complex, /) -> Self: ...
        def __rmul__(self, value: complex, /) -> Self: ...
        def __rtruediv__(self, value: complex, /) -> Self: ...
        def __rpow__(self, value: complex, mod: None = None, /) -> Self: ...
        def __neg__(self) -> Self: ...
        def __pos__(self) -> Self: ...
        def __eq__(self, value: object, /) -> bool: ...
        def __hash__(self) -> int: ...
        def conjugate(self) -> Self: ...

else:
    _Integer, _Floating, _Complex = int, float, complex


class i8(_Integer, metaclass=DType, kind="i", bits=8, numpy="int8", ptx="s8"):
    """8-bit signed integer, -128 to 127."""


class i16(_Integer, metaclass=DType, kind="i", bits=16, numpy="int16", ptx="s16"):
    """16-bit signed integer, -32768 to 32767."""


class i32(_Integer, metaclass=DType, kind="i", bits=32, numpy="int32", ptx="s32"):
    """32-bit signed integer, -2147483648 to 2147483647; an int literal that stands alone."""


class i64(_Integer, metaclass=DType, kind="i", bits=64, numpy="int64", ptx="s64"):
    """64-bit signed integer."""


class u8(_Integer, metaclass=DType, kind="u", bits=8, numpy="uint8", ptx="u8"):
    """8-bit unsigned integer, 0 to 255."""


class u16(_Integer, metaclass=DType, kind="u", bits=16, numpy="uint16", ptx="u16"):
    """16-bit unsigned integer, 0 to 65535."""


class u32(_Integer, metaclass=DType, kind="u", bits=32, numpy="uint32", ptx="u32"):
    """32-bit unsigned integer, 0 to 4294967295."""


class u64(_Integer, metaclass=DType, kind="u", bits=64, numpy="uint64", ptx="u64"):
    """64-bit unsigned integer."""


class f8e4m3(_Floating, metaclass=DType, kind="f", bits=8, numpy="float8_e4m3fn", ptx="e4m3"):
    """8-bit float for storage: 4 bits of significand, up to 448, no infinities; casts to it saturate."""


class f8e5m2(_Floating, metaclass=DType, kind="f", bits=8, numpy="float8_e5m2", ptx="e5m2"):
    """8-bit float for storage: 3 bits of significand, up to 57344; casts to it saturate."""


class f16(_Floating, metaclass=DType, kind="f", bits=16, numpy="float16", ptx="f16"):
    """Half precision, 11 bits of significand (about 3 digits), up to 65504."""


class bf16(_Floating, metaclass=DType, kind="f", bits=16, numpy="bfloat16", ptx="bf16"):
    """Brain float: the range of f32 with 8 bits of significand (about 2 digits)."""


class f32(_Floating, metaclass=DType, kind="f", bits=32, numpy="float32", ptx="f32"):
    """Single precision, 24 bits of significand (about 7 digits); a float literal that stands alone."""


class f64(_Floating, metaclass=DType, kind="f", bits=64, numpy="float64", ptx="f64"):
    """Double precision, 53 bits of significand (about 16 digits)."""


class c64(_Complex, metaclass=DType, kind="c", bits=64, numpy="complex64", parts=(("real", f32), ("imag", f32))):
    """Complex number of two f32; a complex literal that stands alone."""


class c128(_Complex, metaclass=DType, kind="c", bits=128, numpy="complex128", parts=(("real", f64), ("imag", f64))):
    """Complex number of two f64."""


if TYPE_CHECKING:
    bool_ = bool
else:

    class bool_(int, metaclass=DType, kind="b", bits=8, numpy="bool", ptx="pred"):
        """True or False, one byte in memory."""


DTYPES: tuple[DType, ...] = (  # type: ignore[assignment]
    bool_, i8, i16, i32, i64, u8, u16, u32, u64, f8e4m3, f8e5m2, f16, bf16, f32, f64,
)  # fmt: skip
"""The types of numbers that have an order."""

COMPLEX: tuple[DType, ...] = (c64, c128)
_ALL = (*DTYPES, *COMPLEX)
_BY_NUMPY = {dtype.numpy: dtype for dtype in _ALL}
_BY_NAME = {dtype.__name__: dtype for dtype in _ALL}


def add_dtypes(dtypes: Iterable[DType]) -> None:
    """Let `dtype_of` know more element types."""
    _BY_NUMPY.update({dtype.numpy: dtype for dtype in dtypes})
    _BY_NAME.update({dtype.__name__: dtype for dtype in dtypes})


def is_float(numpy: np.dtype[Any]) -> bool:
    """Whether a NumPy dtype is one of floats; of `ml_dtypes` NumPy itself does not say so."""
    known = _BY_NUMPY.get(numpy)
    return numpy.kind == "f" or (known is not None and known.is_float)


def dtype_of(what: Any) -> DType:
    """The kaio dtype of a dtype, its name, a NumPy dtype, a record of dtypes, or anything `numpy.dtype` takes.

    >>> import numpy as np
    >>> dtype_of(np.float32), dtype_of("int64"), dtype_of("f32")
    (f32, i64, f32)
    """
    if isinstance(what, DType):
        return what
    if is_record(what):
        from kaio.structs import record_dtype  # which is written with the dtypes

        return record_dtype(what)
    named = _BY_NAME.get(what) if isinstance(what, str) else None
    try:
        numpy = np.dtype(what)
    except TypeError:
        if named is not None:
            return named
        raise KaioError(f"`{what!r}` is not a dtype", help="use one of kaio's, for example `kaio.f32`") from None
    if named is not None and named.numpy != numpy:
        raise KaioError(
            f"`{what!r}` is {named.bits} bits in kaio and {numpy.itemsize} bytes in NumPy",
            help=f"write `kaio.{named!r}`, or NumPy's name: `{numpy.name!r}`",
        )
    found = _BY_NUMPY.get(numpy.newbyteorder("=")) if numpy.isnative else None
    if found is None and numpy.names and numpy.isnative:
        from kaio.structs import struct_dtype  # which is written with the dtypes

        return struct_dtype(numpy)
    if found is None:
        names = ", ".join(map(repr, _ALL))
        raise KaioError(f"kaio has no element type for NumPy's `{numpy}`", help=f"convert it to one of {names}")
    return found
