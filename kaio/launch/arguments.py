"""The arguments of a launch: bound as in a Python call, checked against the parameters, ready to pack.

A launch on the usual path (positional arguments, buffers of the right type) runs one small closure per buffer and
nothing else; whatever is not plainly right goes the slow way, which finds the words.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np

from kaio.dsl.records import parameter_type, scalars_of
from kaio.dsl.types import (
    MISSING,
    BufferAnnotation,
    ConstAnnotation,
    EnumAnnotation,
    Param,
    RecordAnnotation,
    ScalarAnnotation,
    Signature,
)
from kaio.dtypes import DType, dtype_of
from kaio.errors import KaioError, LaunchError, did_you_mean, is_message
from kaio.launch.buffers import as_numpy, buffer_check
from kaio.launch.call import Call
from kaio.launch.scalars import Bits, constant, convert, packable
from kaio.launch.usual import Usual, write_usual
from kaio.launch.values import parts_check, value_check
from kaio.program import packs_by_bits
from kaio.runtime import GpuBuffer
from kaio.runtime.layout import share_elements
from kaio.runtime.scalars import describe

__all__ = ["Parameters"]

__tracebackhide__ = is_message

_FEW = 4  # buffers that are compared each with each

Check = Callable[[Any, Call], None]


class Parameters:
    """The parameters of one kernel, made ready to check arguments fast; one per kernel."""

    def __init__(self, signature: Signature) -> None:
        self.kernel = signature.name
        self.signature = signature
        self.params = signature.params
        self.generics = _generics(signature)
        self.buffer_names = [param.name for param in self.params if isinstance(param.annotation, BufferAnnotation)]
        self._count = len(self.params) if all(param.kind != "keyword" for param in self.params) else -1
        self._checks: dict[tuple[DType, ...], tuple[Check | None, ...]] = {}
        self._usual: dict[Any, Callable[..., Usual] | None] = {}
        self._writes = any(_is_written(param) for param in self.params)
        self._constants = any(isinstance(param.annotation, ConstAnnotation) for param in self.params)

    def check(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        """Bind and check; raises LaunchError (or the buffer's own class) naming the argument and showing the value.

        Scalars are left as given: `struct` checks their range while it packs, and `scalars` says what was wrong.
        """
        __tracebackhide__ = is_message
        values: Any = args
        if kwargs or len(args) != self._count:
            values = self.bind(args, kwargs)
        call = Call()
        if self.generics:
            call.dtypes = call.key = self._solve(values)
        checks = self._checks.get(call.dtypes)
        if checks is None:
            checks = self._checks[call.dtypes] = self._make_checks(call.dtypes)
        packed = call.packed
        for check, value in zip(checks, values):  # noqa: B905 - as many as each other, and each launch comes by
            if check is None:
                packed.append(value)
            else:
                check(value, call)
        if self._constants:
            call.key = (*call.dtypes, *(value.hex() if type(value) is float else value for value in call.consts))
        if self._writes and len(call.uses) > 1:
            self._check_overlap(call)
        return call

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """The values in the order of the parameters, as a Python call binds them: by position, by name, by default."""
        by_position = [param for param in self.params if param.kind != "keyword"]
        if len(args) > len(by_position):
            positional = "" if len(by_position) == len(self.params) else "positional "
            wanted = f"{len(by_position)} {positional}argument{'' if len(by_position) == 1 else 's'}"
            raise self._miscall(f"takes {wanted} (got {len(args)})")
        given = dict(zip((param.name for param in by_position), args, strict=False))
        for name, value in kwargs.items():
            self._check_keyword(name, given)
            given[name] = value
        missing = [p.name for p in self.params if p.name not in given and p.default is MISSING]
        if missing:
            listed = " and ".join(f"`{name}`" for name in missing)
            raise self._miscall(f"misses argument{'s' if len(missing) > 1 else ''} {listed}")
        return [given.get(param.name, param.default) for param in self.params]

    def as_call(self, values: list[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """What `bind` gave as the arguments of a call: by position, and by name what is given in no other way."""
        if self._count >= 0:
            return tuple(values), {}
        pairs = list(zip(self.params, values, strict=True))
        by_name = {param.name: value for param, value in pairs if param.kind == "keyword"}
        return tuple(value for param, value in pairs if param.kind != "keyword"), by_name

    def _check_keyword(self, name: str, given: dict[str, Any]) -> None:
        kinds = {param.name: param.kind for param in self.params}
        if name in given:
            raise LaunchError(f"argument `{name}` of kernel `{self.kernel}` is given twice")
        if name not in kinds:
            raise self._miscall(f"has no parameter `{name}`", did_you_mean(name, kinds))
        if kinds[name] == "positional":
            raise self._miscall(f"takes `{name}` by position, not by name")

    @property
    def extent(self) -> str:
        """What a launch usually runs over, as a user writes it: of the first buffer that the kernel writes."""
        buffers = [param for param in self.params if isinstance(param.annotation, BufferAnnotation)]
        buffers.sort(key=lambda param: not _is_written(param))
        if not buffers:
            return "shape"
        annotation = buffers[0].annotation
        is_flat = isinstance(annotation, BufferAnnotation) and annotation.ndim == 1
        return f"{buffers[0].name}.{'size' if is_flat else 'shape'}"

    def shape_of(self, values: list[Any]) -> tuple[int, ...]:
        """The same of these arguments; LaunchError where there is no buffer."""
        name = self.extent.partition(".")[0]
        found = [value for param, value in zip(self.params, values, strict=True) if param.name == name]
        shape = getattr(found[0], "shape", None) if found else None
        if shape is None:
            raise LaunchError(
                f"kernel `{self.kernel}` has no buffer whose shape says over what it runs",
                help=f"say it: `{self.kernel}.over(n)`",
            )
        return tuple(shape)

    def _miscall(self, what: str, help: str | None = None) -> LaunchError:
        return LaunchError(f"kernel `{self.kernel}` {what}", help=help or f"its parameters are `{self.signature}`")

    def pack(self, pack: Callable[..., bytes], call: Call, places: tuple[int, ...] = ()) -> bytes:
        """The argument block, with `places` (of dynamic shared arrays); LaunchError for a scalar that does not fit."""
        try:
            return pack(*call.packed, *places) if places else pack(*call.packed)
        except (struct.error, OverflowError, TypeError):
            return pack(*self.convert(call), *places)

    def convert(self, call: Call) -> list[Any]:
        """The values to pack with each scalar converted, or LaunchError for the first that does not fit."""
        packed = iter(call.packed)
        found: list[Any] = []
        for param in self.params:
            match param.annotation:
                case BufferAnnotation(ndim=ndim, strided=strided):
                    found += [next(packed) for _ in range(1 + ndim * (1 + strided))]
                case ScalarAnnotation(dtype=dtype):
                    found += self._scalar(param.name, self._dtype(dtype, call.dtypes), packed)
                case EnumAnnotation():  # checked before
                    found.append(next(packed))
                case RecordAnnotation(of=of):
                    found += [next(packed) for _ in scalars_of(parameter_type(of), "")]
        return found

    def _scalar(self, name: str, dtype: DType, packed: Iterator[Any]) -> list[Any]:
        """A scalar as it is packed; one of several parts, and one that goes by its bits, was converted when checked."""
        if dtype.parts:
            return [next(packed) for _ in dtype.parts]
        value = next(packed)
        return [value if isinstance(value, Bits) else convert(self.kernel, name, dtype, value)]

    def buffers(self, values: list[Any]) -> list[tuple[Param, DType, Any]]:
        """The parameters that are buffers, each with the dtype that it takes among these arguments, and its own."""
        dtypes = self._solve(values) if self.generics else ()
        return [
            (param, self._dtype(param.annotation.dtype, dtypes), value)
            for param, value in zip(self.params, values, strict=True)
            if isinstance(param.annotation, BufferAnnotation)
        ]

    def consts(self, call: Call) -> dict[str, Any]:
        """The constants of a call by name."""
        names = (param.name for param in self.params if isinstance(param.annotation, ConstAnnotation))
        return dict(zip(names, call.consts, strict=True))

    def generic_dtypes(self, call: Call) -> dict[str, DType]:
        """The dtypes of a call by the name of their TypeVar."""
        return dict(zip((generic.__name__ for generic in self.generics), call.dtypes, strict=True))

    def _dtype(self, dtype: Any, dtypes: tuple[DType, ...]) -> DType:
        return dtype if isinstance(dtype, DType) else dtypes[self.generics.index(dtype)]

    def usual(self, call: Call, has_places: bool) -> Callable[..., Usual] | None:
        """What makes the quick function for launches with the dtypes and constants of this one; see `write_usual`."""
        key = call.key, has_places
        if key not in self._usual:
            self._usual[key] = None if self._has_loose_generics() else write_usual(
                self.kernel, self.params, lambda dtype: self._dtype(dtype, call.dtypes), call.consts,
                self._checks[call.dtypes], has_places,
            )  # fmt: skip
        return self._usual[key]

    def _has_loose_generics(self) -> bool:
        """Whether the dtype of a TypeVar is told by scalars alone."""
        told = {param.annotation.dtype for param in self.params if isinstance(param.annotation, BufferAnnotation)}
        return not told.issuperset(self.generics)

    def _make_checks(self, dtypes: tuple[DType, ...]) -> tuple[Check | None, ...]:
        return tuple(self._make_check(param, dtypes) for param in self.params)

    def _make_check(self, param: Param, dtypes: tuple[DType, ...]) -> Check | None:
        match param.annotation:
            case BufferAnnotation(dtype=dtype):
                return buffer_check(self.kernel, param, self._dtype(dtype, dtypes), self.buffer_names[0])
            case ConstAnnotation(of):
                return _constant_check(self.kernel, param.name, of)
            case ScalarAnnotation(dtype):
                return _scalar_check(self.kernel, param.name, self._dtype(dtype, dtypes))
            case EnumAnnotation() | RecordAnnotation() as annotation:
                return value_check(self.kernel, param.name, annotation)

    def _solve(self, values: Any) -> tuple[DType, ...]:
        """The dtype of each TypeVar: of the first buffer that has it, else of the first NumPy scalar."""
        return tuple(self._solve_one(generic, values) for generic in self.generics)

    def _solve_one(self, generic: TypeVar, values: Any) -> DType:
        having = [
            (param, value)
            for param, value in zip(self.params, values, strict=True)
            if getattr(param.annotation, "dtype", None) is generic
        ]
        having.sort(key=lambda pair: isinstance(pair[0].annotation, ScalarAnnotation))
        for param, value in having:
            found = _dtype_of_value(value)
            if found is None:
                continue
            if generic.__constraints__ and found not in generic.__constraints__:
                allowed, first = ", ".join(map(repr, generic.__constraints__)), generic.__constraints__[0]
                wanted = as_numpy(first) if isinstance(value, np.ndarray | np.generic) else f"kaio.{first!r}"
                raise LaunchError(
                    f"argument `{param.name}` of kernel `{self.kernel}` must be of one of {allowed} "
                    f"(got {describe(value)})",
                    help=f"convert it, for example with `{param.name}.astype({wanted})`",
                )
            return found
        name = having[0][0].name
        raise LaunchError(
            f"argument `{name}` of kernel `{self.kernel}` does not tell which dtype {generic.__name__} is "
            f"(got {describe(having[0][1])})",
            help=f"pass a scalar of a dtype, for example `kaio.f32({name})`",
        )

    def _check_overlap(self, call: Call) -> None:
        """Refuse memory that is written through one argument and used through another."""
        uses = call.uses
        if len(uses) > _FEW and _are_apart([buffer.byte_range for buffer, _ in uses]):
            return
        for later in range(1, len(uses)):
            buffer, access = uses[later]
            start = buffer.pointer
            stop = start + buffer.nbytes
            if not buffer.is_contiguous:
                start, stop = buffer.byte_range
            for earlier in range(later):
                other, other_access = uses[earlier]
                if access == "In" == other_access:
                    continue
                other_start = other.pointer
                other_stop = other_start + other.nbytes
                if not other.is_contiguous:
                    other_start, other_stop = other.byte_range
                # An empty buffer has no byte, wherever it points.
                meet = start < other_stop and other_start < stop and start < stop and other_start < other_stop
                if meet and ((buffer.is_contiguous and other.is_contiguous) or _share_elements(buffer, other)):
                    raise self._overlap(call, earlier, later)

    def _overlap(self, call: Call, one: int, two: int) -> LaunchError:
        names = self.buffer_names
        same = call.uses[one][0].byte_range == call.uses[two][0].byte_range
        written = one if call.uses[one][1] != "In" else two
        return LaunchError(
            f"arguments `{names[one]}` and `{names[two]}` of kernel `{self.kernel}` "
            f"{'are' if same else 'overlap in'} the same memory, and `{names[written]}` is "
            f"{call.uses[written][1]}",
            help=f"pass a copy, for example `{names[two if written == one else one]}.copy()`, "
            "or use one InOut parameter for both",
        )


def _are_apart(ranges: list[tuple[int, int]]) -> bool:
    """Whether no two of these ranges of addresses meet: a sort tells, where each with each is many."""
    ranges.sort()
    return all(stop <= start for (_, stop), (start, _) in itertools.pairwise(ranges))


def _share_elements(one: GpuBuffer[Any], two: GpuBuffer[Any]) -> bool:
    """Whether they do, where bytes of one lie between those of the other: `x[::2]` and `x[1::2]` do not."""
    first, second = ((b.pointer, b.shape, b.strides) for b in (one, two))
    return share_elements(first, second, (one.dtype, two.dtype))


def _generics(signature: Signature) -> tuple[TypeVar, ...]:
    found: dict[TypeVar, None] = {}
    for param in signature.params:
        dtype = getattr(param.annotation, "dtype", None)
        if isinstance(dtype, TypeVar):
            found[dtype] = None
    return tuple(found)


def _is_written(param: Param) -> bool:
    return isinstance(param.annotation, BufferAnnotation) and param.annotation.access != "In"


def _dtype_of_value(value: Any) -> DType | None:
    """The dtype that a value carries; None for a Python number."""
    dtype = getattr(value, "dtype", None)
    try:
        return None if dtype is None else dtype_of(dtype)
    except KaioError:
        return None


def _constant_check(kernel: str, name: str, of: type) -> Check:
    def check_constant(value: Any, call: Call) -> None:
        call.consts = (*call.consts, constant(kernel, name, of, value))

    return check_constant


def _scalar_check(kernel: str, name: str, dtype: DType) -> Check | None:
    if dtype.parts:
        return parts_check(kernel, name, dtype)
    if dtype.is_int:
        return None  # `struct` takes what is a whole number and in range, and nothing else

    # `struct` would take the truth of anything as a bool, as a float whatever has a `__float__`, and too large a
    # number as infinity.
    if dtype.kind == "b":

        def check_scalar(value: Any, call: Call) -> None:
            call.packed.append(value if type(value) is bool else convert(kernel, name, dtype, value))

    else:
        largest = dtype.largest
        by_bits = packs_by_bits(dtype)

        def check_scalar(value: Any, call: Call) -> None:
            plain = type(value) is float and -largest <= value <= largest
            number = value if plain else convert(kernel, name, dtype, value)
            call.packed.append(packable(dtype, number) if by_bits else number)

    return check_scalar
