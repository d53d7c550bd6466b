"""Element types out of NumPy's structured dtypes: fields of numbers, of nested structs, and sub-arrays of them.

A class of records may have fields of packed vectors too, which lie where one access reaches them, as in CUDA C++.

>>> import numpy as np
>>> particle = np.dtype([("mass", "f4"), ("pos", "f8", (3,))], align=True)
>>> struct_dtype(particle)
struct(mass: f32, pos: f64[3])
"""

from __future__ import annotations

import copyreg
import math
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from kaio.dtypes import DType, dtype_of
from kaio.errors import KaioError
from kaio.record_classes import hints_of, is_record, names_of, tuple_items

__all__ = ["StructDType", "StructField", "granule_of", "is_laid_out_as", "record_dtype", "struct_dtype"]

_MOST_ITEMS = 64


@dataclass(frozen=True)
class StructField:
    """One field: its dtype, its shape (empty for one value), and its place from the start of the element in bytes."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    offset: int

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype!r}" + (f"[{', '.join(map(str, self.shape))}]" if self.shape else "")


class StructDType(DType):
    """The class of element types out of structured dtypes; `fields` are theirs, `of` the class of records if any."""

    fields: tuple[StructField, ...]
    of: type | None

    @property
    def alignment(cls) -> int:
        """What the address of an element is a multiple of, in bytes: of the largest field's."""
        return max(map(_alignment, (field.dtype for field in cls.fields)))

    def __call__(cls, *args: Any) -> Any:
        """The NumPy scalar of these fields."""
        return np.array(args[0] if len(args) == 1 else args, cls.numpy)[()]


@cache
def granule_of(dtype: DType) -> int:
    """The most bytes, a power of two, of which every part of an element that can be accessed by itself is a multiple.

    >>> from kaio import c64, f16, u8x4
    >>> granule_of(f16), granule_of(c64), granule_of(u8x4), granule_of(struct_dtype(np.dtype("f4,u2", align=True)))
    (2, 4, 1, 2)
    """
    sizes = [dtype.itemsize, *(granule_of(part) for _, part in dtype.parts)]
    if isinstance(dtype, StructDType):
        for field in dtype.fields:
            sizes += field.offset, granule_of(field.dtype)
    found = math.gcd(*sizes)
    return found & -found


def _reduced(dtype: StructDType) -> tuple[Any, ...]:
    return (struct_dtype, (dtype.numpy,)) if dtype.of is None else (record_dtype, (dtype.of,))


copyreg.pickle(StructDType, _reduced)


@cache
def struct_dtype(numpy: np.dtype[Any]) -> StructDType:
    """The element type of a structured dtype, or KaioError naming the field that kaio cannot have."""
    return _made(numpy, tuple(_field(numpy, name) for name in numpy.names or ()))


@cache
def record_dtype(of: type) -> StructDType:
    """The element type of a NamedTuple or a dataclass: its fields, aligned; KaioError for one without a dtype."""
    hints = hints_of(of)
    fields = [(name, *_annotated(of, name, hints.get(name))) for name in names_of(of)]
    if not any(_has_vectors(dtype) for _, dtype, _ in fields):
        return struct_dtype(np.dtype([(name, dtype.numpy, shape) for name, dtype, shape in fields], align=True))
    return _with_vectors(of, fields)


def is_laid_out_as(dtype: DType, other: DType) -> bool:
    """Whether elements of two structured types are the same to NumPy; one may be a record that has vectors."""
    return dtype is other or (dtype.kind == other.kind == "s" and dtype.numpy == other.numpy)


def _with_vectors(of: type, fields: list[tuple[str, DType, tuple[int, ...]]]) -> StructDType:
    """The element type of fields of which some are vectors, whose places are multiples of their size."""
    offsets, end = [], 0
    for _, dtype, shape in fields:
        offsets.append(_rounded_up(end, _alignment(dtype)))
        end = offsets[-1] + dtype.itemsize * math.prod(shape)
    whole = _rounded_up(end, max(_alignment(dtype) for _, dtype, _ in fields))
    formats = [(dtype.numpy, shape) for _, dtype, shape in fields]
    names = [name for name, _, _ in fields]
    numpy = np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": whole})
    return _made(numpy, tuple(replace(_field(numpy, name), dtype=dtype) for name, dtype, _ in fields), of)


def _has_vectors(dtype: DType) -> bool:
    return dtype.kind == "v" or (isinstance(dtype, StructDType) and any(_has_vectors(f.dtype) for f in dtype.fields))


def _alignment(dtype: DType) -> int:
    """Of a field: vectors are loaded whole, anything else number by number."""
    return dtype.alignment if dtype.kind in "vs" else dtype.numpy.alignment


def _rounded_up(offset: int, alignment: int) -> int:
    return -(-offset // alignment) * alignment


def _annotated(of: type, name: str, hint: Any) -> tuple[DType, tuple[int, ...]]:
    """The dtype and shape of a field: of a dtype, a record, or a tuple of the same ones, which is a sub-array."""
    items = tuple_items(hint)
    if items is not None and all(item is items[0] for item in items):
        dtype, inner = _annotated(of, name, items[0])
        return dtype, (len(items), *inner)
    if isinstance(hint, DType):
        return hint, ()
    if is_record(hint):
        return record_dtype(hint), ()
    raise KaioError(
        f"field `{name}` of `{of.__name__}` is no dtype, and an element of a buffer has fields of dtypes",
        help=f"for example `{name}: f32`, or `{name}: tuple[f32, f32]`",
    )


def _made(numpy: np.dtype[Any], fields: tuple[StructField, ...], of: type | None = None) -> StructDType:
    alignment = max((field.dtype.numpy.alignment for field in fields), default=1)
    if not fields:
        raise KaioError(f"a structured dtype without fields (`{numpy}`) has no elements")
    if numpy.itemsize % alignment:
        raise KaioError(
            f"elements of {numpy.itemsize} bytes do not keep field `{fields[-1].name}` aligned to {alignment}",
            help="make the dtype with `align=True`",
        )
    name = f"struct({', '.join(map(str, fields))})"
    parts = tuple((field.name, field.dtype) for field in fields)
    whole = np.dtype(numpy, align=True) if numpy.alignment < alignment else numpy
    made = StructDType(name, (), {"__module__": __name__}, kind="s", bits=8 * numpy.itemsize, numpy=whole, parts=parts)
    made.fields, made.of = fields, of
    return made


def _field(numpy: np.dtype[Any], name: str) -> StructField:
    assert numpy.fields is not None
    given, offset = numpy.fields[name][:2]
    base, shape = given.subdtype or (given, ())
    if math.prod(shape) > _MOST_ITEMS:
        raise KaioError(
            f"field `{name}` has {math.prod(shape)} items, and a struct in a kernel holds at most {_MOST_ITEMS}",
            help="pass it as a buffer of its own",
        )
    try:
        dtype = struct_dtype(base) if base.names else dtype_of(base)
    except KaioError as problem:
        mistake = problem.mistakes[0]
        if base.names:
            raise KaioError(f"{mistake.what}, in field `{name}`", help=mistake.help) from None
        raise KaioError(f"field `{name}` is `{base}`, which kaio has no element type for", help=mistake.help) from None
    if offset % base.alignment:
        raise KaioError(
            f"field `{name}` starts at byte {offset}, which is no multiple of the {base.alignment} that `{base}` takes",
            help="make the dtype with `align=True`: `np.dtype([...], align=True)`",
        )
    return StructField(name, dtype, tuple(shape), offset)
