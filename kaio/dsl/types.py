"""How a kernel's parameters are annotated, and the signature that follows from it.

`In[f32]` is a C-contiguous 1-D buffer of f32 that the kernel only reads; `Out[i32, D2]` a 2-D one that it writes;
`f32` is a scalar; `Const[int]` a compile-time constant.

>>> from kaio import f32, Out, D2
>>> Out[f32, D2]
Out[f32, D2]
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, get_origin

import numpy as np

from kaio.dsl.element_types import element_type
from kaio.dsl.records import enum_type, parameter_type, scalars_of
from kaio.dsl.values import Type, layout
from kaio.dtypes import DType, dtype_of
from kaio.errors import KaioError, Place
from kaio.program import Access, Argument
from kaio.record_classes import is_record

__all__ = [
    "D0", "D1", "D2", "D3", "D4",
    "MISSING", "Annotation", "BufferAnnotation", "Const", "ConstAnnotation", "EnumAnnotation", "In", "InOut", "Out",
    "Param", "ParamKind", "RecordAnnotation", "ScalarAnnotation", "Signature", "Specialisation", "Strided",
    "WrongAnnotation", "value_type",
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


class Strided:
    """Any strides: slices with steps, transposed and Fortran-order arrays, broadcast ones where they are only read."""


_DIMENSIONS = {D0: 0, D1: 1, D2: 2, D3: 3, D4: 4}


@dataclass(frozen=True)
class BufferAnnotation:
    """`In[dtype, Dn]` and its kin; `dtype` is a `TypeVar` in a generic kernel. Not `strided`: C-contiguous."""

    access: Access
    dtype: Any
    ndim: int
    strided: bool = False

    def __repr__(self) -> str:
        return f"{self.access}[{getattr(self.dtype, '__name__', self.dtype)}{layout(self.ndim, self.strided)}]"


@dataclass(frozen=True)
class ScalarAnnotation:
    """A dtype by itself: the value is passed at launch."""

    dtype: Any

    def __repr__(self) -> str:
        return str(getattr(self.dtype, "__name__", self.dtype))


@dataclass(frozen=True)
class ConstAnnotation:
    """`Const[of]`: the value is part of the specialisation. `of` is int, bool, float, `DType` or an enum."""

    of: type

    def __repr__(self) -> str:
        return f"Const[{self.of.__name__}]"


@dataclass(frozen=True)
class EnumAnnotation:
    """An enum with int values by itself: a member is passed at launch."""

    of: type[enum.Enum]

    def __repr__(self) -> str:
        return self.of.__name__


@dataclass(frozen=True)
class RecordAnnotation:
    """A NamedTuple or a frozen dataclass of scalars: passed at launch, scalar by scalar."""

    of: type

    def __repr__(self) -> str:
        return self.of.__name__


Annotation = BufferAnnotation | ScalarAnnotation | ConstAnnotation | EnumAnnotation | RecordAnnotation


@dataclass(frozen=True)
class WrongAnnotation:
    """What `In[...]` and its kin give for nonsense: the mistake is reported, with its place, when a kernel uses it."""

    what: str
    help: str


def _buffer_annotation(access: Access, item: Any) -> BufferAnnotation | WrongAnnotation:
    dtype, *rest = item if isinstance(item, tuple) and item else (item,)
    if (isinstance(dtype, np.dtype) and dtype.names) or is_record(dtype):
        try:
            dtype = dtype_of(dtype)
        except KaioError as problem:
            mistake = problem.mistakes[0]
            return WrongAnnotation(mistake.what, mistake.help or "use fields of numbers")
    dimensions, strided = rest[0] if rest else D1, rest[1:2] == [Strided]
    text = f"{access}[{', '.join(map(spelled, (dtype, *rest)))}]"
    if not isinstance(dtype, DType | TypeVar):
        close = close_dtype(dtype)
        way_out = f"write `{access}[{close}]`" if close else f"for example `{access}[f32]`"
        if isinstance(dimensions, DType | TypeVar):
            way_out = f"the element type comes first: `{access}[{spelled(dimensions)}, {spelled(dtype)}]`"
        return WrongAnnotation(f"`{text}`: the element type must be a kaio dtype", way_out)
    if len(rest) > 1 + strided:
        way_out = f"for example `{access}[{dtype.__name__}, D2]`, or `{access}[{dtype.__name__}, D2, Strided]`"
        what = "a buffer has an element type, a number of dimensions and perhaps `Strided`, no more"
        return WrongAnnotation(f"`{text}`: {what}", way_out)
    if dimensions is Strided:
        way_out = f"write `{access}[{dtype.__name__}, D1, Strided]`"
        return WrongAnnotation(f"`{text}`: the dimensions come before `Strided`", way_out)
    if not isinstance(dimensions, type) or dimensions not in _DIMENSIONS:
        is_count = isinstance(dimensions, int) and dimensions in _DIMENSIONS.values()
        way_out = f"write `{access}[{dtype.__name__}, D{dimensions if is_count else 2:d}]`"
        return WrongAnnotation(f"`{text}`: the dimensions must be one of D0, D1, D2, D3, D4", way_out)
    return BufferAnnotation(access, dtype, _DIMENSIONS[dimensions], strided)


def _const_annotation(of: Any) -> ConstAnnotation | WrongAnnotation:
    if any(of is allowed for allowed in (int, bool, float, DType)):
        return ConstAnnotation(of)
    if isinstance(of, type) and issubclass(of, enum.Enum):
        return ConstAnnotation(of)
    plain = {"f": "float", "b": "bool"}.get(of.kind, "int") if isinstance(of, DType) else "int"
    return WrongAnnotation(
        f"`Const[{spelled(of)}]`: a constant is an int, a bool, a float, a DType or an enum",
        f"for example `Const[{plain}]`",
    )


def spelled(what: Any) -> str:
    """A type or value as users write it: ``f32``, ``numpy.float32``, ``list[int]``."""
    if isinstance(what, TypeVar):
        return what.__name__
    if isinstance(what, type) and get_origin(what) is None:
        module = what.__module__.split(".")[0]
        return what.__name__ if module in ("builtins", "kaio", "__main__") else f"{module}.{what.__name__}"
    return repr(what)


def close_dtype(what: Any) -> str | None:
    """The name of the kaio dtype that a Python, NumPy or torch type was probably meant to be, or None."""
    if what in (int, float, bool) if isinstance(what, type) else False:
        return {int: "i32", float: "f32", bool: "bool_"}[what]
    module, _, name = str(what).rpartition(".")
    try:
        is_dtype = isinstance(what, str | type) or type(what).__module__.startswith("numpy")
        found = dtype_of(name if module == "torch" else what) if is_dtype or module == "torch" else None
    except Exception:  # NumPy has many ways to say that something is no dtype
        return None
    return None if found is None or what is object else repr(found)


if TYPE_CHECKING:
    from typing import Annotated

    from typing_extensions import TypeVar as _DefaultedTypeVar

    _T = TypeVar("_T")
    _D = _DefaultedTypeVar("_D", default=D1)
    _L = _DefaultedTypeVar("_L", default=Any)

    class _Buffer(Generic[_T, _D, _L]):
        """What a kernel sees of a buffer. Elements are `Any`: their types follow kaio's rules, which kaio checks."""

        size: int
        shape: tuple[int, ...]
        strides: tuple[int, ...]
        ndim: int
        dtype: type[_T]

        def __getitem__(self, index: int | tuple[int, ...]) -> Any: ...
        def __len__(self) -> int: ...

    class In(_Buffer[_T, _D, _L]):
        """A buffer that the kernel only reads."""

    class Out(_Buffer[_T, _D, _L]):
        """A buffer that the kernel writes before it reads."""

        def __setitem__(self, index: int | tuple[int, ...], value: Any) -> None: ...

    class InOut(_Buffer[_T, _D, _L]):
        """A buffer that the kernel reads and writes."""

        def __setitem__(self, index: int | tuple[int, ...], value: Any) -> None: ...

    Const = Annotated[_T, "a compile-time constant"]

else:

    class In:
        """A buffer that the kernel only reads: `In[f32]` has one dimension, `In[f32, D2]` two."""

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

    class Const:
        """A compile-time constant: `Const[int]`, `Const[bool]`, `Const[float]` or `Const[DType]`."""

        def __class_getitem__(cls, of):
            return _const_annotation(of)


class _Missing:
    def __repr__(self) -> str:
        return "MISSING"


MISSING = _Missing()


ParamKind = Literal["any", "positional", "keyword"]


@dataclass(frozen=True)
class Param:
    """One parameter as written: its annotation, its default (or MISSING), where it stands, how it may be passed."""

    name: str
    annotation: Annotation
    default: Any = MISSING
    place: Place | None = None
    kind: ParamKind = "any"

    def __str__(self) -> str:
        return f"{self.name}: {self.annotation!r}" + ("" if self.default is MISSING else f" = {self.default!r}")


@dataclass(frozen=True)
class Signature:
    """The parameters of a kernel, in order."""

    name: str
    params: tuple[Param, ...]

    def __str__(self) -> str:
        shown: list[str] = []
        for before, param in zip((None, *self.params), self.params, strict=False):
            if before and before.kind == "positional" != param.kind:
                shown.append("/")
            if param.kind == "keyword" and (before is None or before.kind != "keyword"):
                shown.append("*")
            shown.append(str(param))
        if self.params and self.params[-1].kind == "positional":
            shown.append("/")
        return f"{self.name}({', '.join(shown)})"

    def specialise(
        self,
        consts: dict[str, Any] | None = None,
        dtypes: dict[str, DType] | None = None,
        index_bits: Literal[32, 64] = 32,
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
                case BufferAnnotation(access, _, ndim, strided) as annotation:
                    found.append(Argument(param.name, self.dtype(annotation), ndim, access, strided))
                case ConstAnnotation():
                    pass
                case annotation:
                    scalars = scalars_of(value_type(annotation, self), param.name)
                    found += [Argument(name, dtype) for name, dtype in scalars]
        return tuple(found)


def value_type(annotation: ScalarAnnotation | EnumAnnotation | RecordAnnotation, by: Specialisation) -> Type:
    """The type that a parameter which is no buffer and no constant has in the kernel."""
    match annotation:
        case EnumAnnotation(of):
            return enum_type(of)
        case RecordAnnotation(of):
            return parameter_type(of)
    return element_type(by.dtype(annotation))
