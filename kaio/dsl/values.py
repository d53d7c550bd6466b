"""The types that values have inside a kernel. A scalar's type is its `DType`; the rest is here.

Nothing of these exists at run time outside the compiler, and none of it knows Numba or LLVM.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from kaio.dtypes import DType, bool_, i32, i64
from kaio.program import Access

__all__ = [
    "BOOL", "INDEX64", "MOST_CONSTANT_NBYTES", "NONE", "ArrayType", "BufferType", "Compound", "EnumType",
    "IteratorType", "Member", "MethodType", "ObjectType", "RangeType", "Scalar", "StepType", "TupleType", "Type",
    "Weak", "enum_dtype", "index_type", "layout", "show",
]  # fmt: skip


@dataclass(frozen=True)
class Weak:
    """A Python number in a kernel: it has no width yet, and its value is known.

    A conditional whose branches are literals has several `values`; which of them it is, is known at run time only.
    `named` says that it went through a named variable, which is never narrower than i32 or f32.
    """

    kind: Literal["i", "f"]
    values: tuple[int | float, ...]
    named: bool = False

    @property
    def value(self) -> int | float | None:
        """The one value, or None where it depends on a condition."""
        return self.values[0] if len(self.values) == 1 else None

    def _key(self) -> tuple[Any, ...]:
        return self.kind, tuple(map(repr, self.values)), self.named  # 0.0 == -0.0, nan != nan: compare as written

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Weak) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"{'int' if self.kind == 'i' else 'float'} literal {' or '.join(map(repr, self.values))}"


class Member(Weak):
    """A member of an `IntEnum` or `IntFlag`: an int literal that may also be compared with `is`."""


class index(int, metaclass=DType, kind="i", bits=64, numpy="int64", ptx="s64"):
    """The index type of the wide variant: an i64 that may be stored in an i32 element when it fits."""


BOOL: DType = bool_  # type: ignore[assignment]
"""`bool_` as what it is here; to type checkers it is `bool`."""

INDEX64: DType = index


def index_type(bits: Literal[32, 64]) -> DType:
    """The type of `grid(n)`, `.size` and `.shape` in the variant of that index width."""
    return i32 if bits == 32 else INDEX64


Scalar = DType | Weak

MOST_CONSTANT_NBYTES = 64 * 1024
"""Constant memory (CUDA C++ Programming Guide, table of technical specifications)."""


def layout(ndim: int, strided: bool) -> str:
    """What stands behind the element type of a buffer: ``, D2, Strided``."""
    return f"{'' if ndim == 1 and not strided else f', D{ndim}'}{', Strided' * strided}"


@dataclass(frozen=True)
class BufferType:
    """A buffer argument, or an array in shared memory that is sized at launch."""

    dtype: DType
    ndim: int
    access: Access
    index: DType
    space: Literal["global", "shared"] = "global"
    strided: bool = False

    def __repr__(self) -> str:
        if self.space == "shared":
            return f"dynamic_shared of {self.dtype!r}"
        return f"{self.access}[{self.dtype!r}{layout(self.ndim, self.strided)}]"


@dataclass(frozen=True)
class ArrayType:
    """An array whose shape is known when compiling: shared, local, or constant.

    contents: the elements of a constant array as they lie in memory; they are a part of the type, as a literal's value
        is, so that nothing of the array exists at run time but its elements
    """

    space: Literal["shared", "local", "constant", "cluster"]
    dtype: DType
    shape: tuple[int, ...]
    index: DType = i32
    contents: bytes = b""

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    def __repr__(self) -> str:
        if self.space == "constant":
            return f"constant array of {self.dtype!r}[{', '.join(map(str, self.shape))}]"
        if self.space == "cluster":
            return f"another block's shared_mem({self.shape!r}, {self.dtype!r})"
        return f"{self.space}_mem({self.shape!r}, {self.dtype!r})"


class Compound:
    """A value of several parts; at run time they are scalars side by side, never an aggregate in memory.

    items: the types of the parts
    fields: the position of each part that is read as an attribute
    is_sequence: whether it is indexed, unpacked and measured with `len` like a tuple
    """

    items: tuple[Type, ...]
    is_sequence = False

    @property
    def fields(self) -> Mapping[str, int]:
        """The position of each part that is read as an attribute."""
        return {}

    def with_items(self, items: tuple[Type, ...]) -> Compound:
        """The same kind of value with parts of other types."""
        raise NotImplementedError

    def is_like(self, other: Type) -> bool:
        """Whether a variable may be this and the other, part by part."""
        raise NotImplementedError

    def split(self, value: Any) -> tuple[Any, ...]:
        """The parts of a Python object of this type."""
        raise NotImplementedError

    def spread(self, value: Any, source: Type) -> list[tuple[Any, Type]]:
        """The parts that a scalar `value` of type `source` has as this type, each with its type."""
        raise NotImplementedError


@dataclass(frozen=True)
class TupleType(Compound):
    """A tuple of fixed length."""

    items: tuple[Type, ...]
    is_sequence = True

    def __repr__(self) -> str:
        return f"({', '.join(map(show, self.items))})"

    def with_items(self, items: tuple[Type, ...]) -> TupleType:
        """The same with parts of these types."""
        return TupleType(items)

    def is_like(self, other: Type) -> bool:
        """See `Compound`."""
        return isinstance(other, TupleType) and len(other.items) == len(self.items)

    def split(self, value: Any) -> tuple[Any, ...]:
        """See `Compound`."""
        return tuple(value)


@dataclass(frozen=True)
class MethodType(Compound):
    """A method of a value, before it is called; its one part is the value."""

    name: str
    receiver: Type

    @property
    def items(self) -> tuple[Type, ...]:  # type: ignore[override]
        """The receiver."""
        return (self.receiver,)

    def with_items(self, items: tuple[Type, ...]) -> MethodType:
        """The same with parts of these types."""
        return MethodType(self.name, *items)

    def is_like(self, other: Type) -> bool:
        """See `Compound`."""
        return False

    def __repr__(self) -> str:
        return f"method `{self.name}` of {show(self.receiver)}"


@dataclass(frozen=True)
class EnumType:
    """A member of an `Enum` whose values are ints: at run time its value. `member` is which, where that is known.

    Members of an `IntEnum` or `IntFlag` are ints, and are typed as such.
    """

    of: type[enum.Enum]
    member: enum.Enum | None = None

    @property
    def dtype(self) -> DType:
        """The integer type that holds every value."""
        return enum_dtype(self.of)

    def __repr__(self) -> str:
        return self.of.__name__ if self.member is None else str(self.member)


def enum_dtype(of: type[enum.Enum]) -> DType:
    """The integer type in which members travel: i32, or i64 where one does not fit."""
    low, high = i32.range
    return i32 if all(low <= member.value <= high for member in of.__members__.values()) else i64


@dataclass(frozen=True)
class RangeType:
    """`range(...)`; `step` is its value where that is a literal, else None. `unroll`: turns at a time, 0 unsaid."""

    dtype: DType
    step: int | None
    unroll: int = 0

    def __repr__(self) -> str:
        return f"range of {self.dtype!r}"


@dataclass(frozen=True)
class IteratorType:
    """A running `for` loop over a range, or over the positions of a tuple, whose items then have the type `item`."""

    range: RangeType
    item: Type | None = None


@dataclass(frozen=True)
class StepType:
    """What advancing an iterator gives: the next number or item, and whether there was one."""

    range: RangeType
    item: Type | None = None


class ObjectType:
    """A Python object that only the compiler sees: a function, a module, a dtype, None, a text."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ObjectType):
            return NotImplemented
        both_text = isinstance(self.value, str) and isinstance(other.value, str)
        return self.value is other.value or (both_text and bool(self.value == other.value))

    def __hash__(self) -> int:
        return hash(self.value) if isinstance(self.value, str) else id(self.value)

    def __repr__(self) -> str:
        name = getattr(self.value, "__name__", None)
        text = repr(self.value)
        return f"`{name}`" if name else text if len(text) <= 60 else f"{text[:57]}..."


NONE = ObjectType(None)

Type = DType | Weak | BufferType | ArrayType | Compound | EnumType | RangeType | IteratorType | StepType | ObjectType


def show(type_: Type) -> str:
    """A type as it is named in messages.

    >>> show(i32), show(Weak("f", (0.5,)))
    ('i32', 'float literal 0.5')
    """
    return type_.name if isinstance(type_, DType) else repr(type_)
