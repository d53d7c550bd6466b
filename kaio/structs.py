"""Element types out of NumPy's structured dtypes: fields of numbers, of nested structs, and sub-arrays of them.

>>> import numpy as np
>>> particle = np.dtype([("mass", "f4"), ("pos", "f8", (3,))], align=True)
>>> struct_dtype(particle)
struct(mass: f32, pos: f64[3])
"""

from __future__ import annotations

import copyreg
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from kaio.dtypes import DType, dtype_of
from kaio.errors import KaioError
from kaio.record_classes import hints_of, is_record, names_of, tuple_items

__all__ = ["StructDType", "StructField", "record_dtype", "struct_dtype"]

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
    """The class of element types out of structured dtypes; `fields` are theirs."""

    fields: tuple[StructField, ...]

    @property
    def alignment(cls) -> int:
        """What the address of an element is a multiple of, in bytes: of the largest field's."""
        return cls.numpy.alignment

    def __call__(cls, *args: Any) -> Any:
        """The NumPy scalar of these fields."""
        return np.array(args[0] if len(args) == 1 else tuple(args), cls.numpy)[()]


def _reduced(dtype: StructDType) -> tuple[Any, ...]:
    return struct_dtype, (dtype.numpy,)


copyreg.pickle(StructDType, _reduced)
_KNOWN: dict[np.dtype[Any], StructDType] = {}


def struct_dtype(numpy: np.dtype[Any]) -> StructDType:
    """The element type of a structured dtype, or KaioError naming the field that kaio cannot have."""
    found = _KNOWN.get(numpy)
    if found is None:
        fields = tuple(_field(numpy, name) for name in numpy.names or ())
        found = _KNOWN[numpy] = _made(numpy, fields)
    return found


@cache
def record_dtype(of: type) -> StructDType:
    """The element type of a NamedTuple or a dataclass: its fields, aligned; KaioError for one without a dtype."""
    hints = hints_of(of)
    return struct_dtype(np.dtype([_format(of, name, hints.get(name)) for name in names_of(of)], align=True))


def _format(of: type, name: str, hint: Any) -> Any:
    """A field as `numpy.dtype` takes it: a dtype, a record, or a tuple of the same ones, which is a sub-array."""
    items = tuple_items(hint)
    if items is not None and all(item is items[0] for item in items):
        _, base, *inner = _format(of, name, items[0])
        return name, base, (len(items), *(inner[0] if inner else ()))
    if isinstance(hint, DType):
        return name, hint.numpy
    if is_record(hint):
        return name, record_dtype(hint).numpy
    raise KaioError(
        f"field `{name}` of `{of.__name__}` is no dtype, and an element of a buffer has fields of dtypes",
        help=f"for example `{name}: f32`, or `{name}: tuple[f32, f32]`",
    )


def _made(numpy: np.dtype[Any], fields: tuple[StructField, ...]) -> StructDType:
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
    made.fields = fields
    return made


def _field(numpy: np.dtype[Any], name: str) -> StructField:
    assert numpy.fields is not None
    given, offset = numpy.fields[name][:2]
    base, shape = given.subdtype or (given, ())
    if int(np.prod(shape, dtype=np.int64)) > _MOST_ITEMS:
        raise KaioError(
            f"field `{name}` has {int(np.prod(shape))} items, and a struct in a kernel holds at most {_MOST_ITEMS}",
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
