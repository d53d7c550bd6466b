"""How a kernel's parameters are annotated, and the signature that follows from it.

`In[f32]` is a C-contiguous 1-D buffer of f32 that the kernel only reads; `Out[i32, D2]` a 2-D one that it writes;
`f32` is a scalar; `Const[int]` a compile-time constant.

>>> from kaio import f32, Out, D2
>>> Out[f32, D2]
Out[f32, D2]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from kaio.dtypes import DType
from kaio.errors import KaioError, Place
from kaio.program import Access, Argument

__all__ = [
    "D0", "D1", "D2", "D3", "D4",
    "Annotation", "BufferAnnotation", "Const", "ConstAnnotation", "In", "InOut", "Out", "Param", "ScalarAnnotation",
    "Signature", "Specialisation",
]  # fmt: skip


class D0:
    """No dimension: one element."""


class D1:
    """One dimension (the default)."""


class D2:
    """Two dimensions."""


class D3:
    """Three dimensions."""


class D4:
    """Four dimensions."""


_DIMENSIONS = {D0: 0, D1: 1, D2: 2, D3: 3, D4: 4}


@dataclass(frozen=True)
class BufferAnnotation:
    """`In[dtype, Dn]` and its kin; `dtype` is a `TypeVar` in a generic kernel."""

    access: Access
    dtype: Any
    ndim: int

    def __repr__(self) -> str:
        dimensions = "" if self.ndim == 1 else f", D{self.ndim}"
        return f"{self.access}[{getattr(self.dtype, '__name__', self.dtype)}{dimensions}]"


@dataclass(frozen=True)
class ScalarAnnotation:
    """A dtype by itself: the value is passed at launch."""

    dtype: Any

    def __repr__(self) -> str:
        return str(getattr(self.dtype, "__name__", self.dtype))


@dataclass(frozen=True)
class ConstAnnotation:
    """`Const[of]`: the value is part of the specialisation. `of` is int, bool, float or `DType`."""

    of: type

    def __repr__(self) -> str:
        return f"Const[{self.of.__name__}]"


Annotation = BufferAnnotation | ScalarAnnotation | ConstAnnotation


def _buffer_annotation(access: Access, item: Any) -> BufferAnnotation:
    dtype, dimensions = item if isinstance(item, tuple) and len(item) == 2 else (item, D1)
    spelled = f"{access}[{getattr(dtype, '__name__', repr(dtype))}, {getattr(dimensions, '__name__', repr(dimensions))}]"
    if not isinstance(dtype, DType | TypeVar):
        raise KaioError(f"`{spelled}`: the element type must be a kaio dtype", help=f"for example `{access}[kaio.f32]`")
    if dimensions not in _DIMENSIONS:
        raise KaioError(f"`{spelled}`: the dimensions must be one of D0, D1, D2, D3, D4", help=f"for example `{access}[kaio.f32, kaio.D2]`")
    return BufferAnnotation(access, dtype, _DIMENSIONS[dimensions])


if TYPE_CHECKING:
    from typing_extensions import TypeVar as _DefaultedTypeVar

    _T = TypeVar("_T")
    _D = _DefaultedTypeVar("_D", default=D1)

    class _Buffer(Generic[_T, _D]):
        size: int
        shape: tuple[int, ...]
        ndim: int

    class In(_Buffer[_T, _D]):
        """A buffer that the kernel only reads."""

        def __getitem__(self, index: Any) -> _T: ...

    class Out(_Buffer[_T, _D]):
        """A buffer that the kernel writes before it reads."""

        def __getitem__(self, index: Any) -> _T: ...
        def __setitem__(self, index: Any, value: Any) -> None: ...

    class InOut(_Buffer[_T, _D]):
        """A buffer that the kernel reads and writes."""

        def __getitem__(self, index: Any) -> _T: ...
        def __setitem__(self, index: Any, value: Any) -> None: ...

else:

    class In:
        """A buffer that the kernel only reads."""

        def __class_getitem__(cls, item):
            return _buffer_annotation("In", item)

    class Out:
        """A buffer that the kernel writes before it reads."""

        def __class_getitem__(cls, item):
            return _buffer_annotation("Out", item)

    class InOut:
        """A buffer that the kernel reads and writes."""

        def __class_getitem__(cls, item):
            return _buffer_annotation("InOut", item)


if TYPE_CHECKING:
    from typing import Annotated as Const
else:

    class Const:
        """A compile-time constant: `Const[int]`, `Const[bool]`, `Const[float]` or `Const[DType]`."""

        def __class_getitem__(cls, of):
            if of not in (int, bool, float, DType):
                raise KaioError(f"`Const[{of!r}]`: a constant is an int, a bool, a float or a dtype", help="for example `Const[int]`")
            return ConstAnnotation(of)


class _Missing:
    def __repr__(self) -> str:
        return "MISSING"


MISSING = _Missing()


@dataclass(frozen=True)
class Param:
    """One parameter as written: its annotation, its default (or MISSING), where it stands."""

    name: str
    annotation: Annotation
    default: Any = MISSING
    place: Place | None = None

    def __str__(self) -> str:
        return f"{self.name}: {self.annotation!r}" + ("" if self.default is MISSING else f" = {self.default!r}")


@dataclass(frozen=True)
class Signature:
    """The parameters of a kernel, in order."""

    name: str
    params: tuple[Param, ...]

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.params))})"

    def specialise(
        self, consts: dict[str, Any] | None = None, dtypes: dict[str, DType] | None = None, index_bits: Literal[32, 64] = 32
    ) -> Specialisation:
        """Fix the constants, the generic dtypes and the index width."""
        return Specialisation(self, tuple((consts or {}).items()), tuple((dtypes or {}).items()), index_bits)


@dataclass(frozen=True)
class Specialisation:
    """A signature with its `Const` values, its generic dtypes (by TypeVar name) and its index width fixed."""

    signature: Signature
    consts: tuple[tuple[str, Any], ...] = ()
    dtypes: tuple[tuple[str, DType], ...] = ()
    index_bits: Literal[32, 64] = 32

    def dtype(self, annotation: BufferAnnotation | ScalarAnnotation) -> DType:
        """The dtype of an annotation, with a TypeVar replaced."""
        found = annotation.dtype
        return found if isinstance(found, DType) else dict(self.dtypes)[found.__name__]

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """The run-time arguments, in order: everything but the constants."""
        found = []
        for param in self.signature.params:
            match param.annotation:
                case BufferAnnotation(access, _, ndim) as annotation:
                    found.append(Argument(param.name, self.dtype(annotation), ndim, access))
                case ScalarAnnotation() as annotation:
                    found.append(Argument(param.name, self.dtype(annotation)))
        return tuple(found)
