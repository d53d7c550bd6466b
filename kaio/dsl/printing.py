"""Python's `print` in a kernel: a record of what is known at run time, shown by the runtime as Python shows it."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from kaio.dsl import literals
from kaio.dsl.complexes import ComplexType, complex_type
from kaio.dsl.intrinsic import Resolved, standard
from kaio.dsl.records import RecordType
from kaio.dsl.rule_error import RuleError
from kaio.dsl.values import (
    INDEX64,
    NONE,
    ArrayType,
    BufferType,
    Compound,
    EnumType,
    ObjectType,
    TupleType,
    Type,
    Weak,
    show,
)
from kaio.dtypes import DType, c64, i64
from kaio.print_abi import Line, Printed

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter
    from kaio.dsl.compiler.ir import TypedCall

__all__ = ["F_STRING", "SPEC"]

F_STRING = "\0f"
"""The first item of the tuple that an f-string becomes; its texts and values follow."""
SPEC = "\0:"
"""What a text begins with that says how the value in front of it is converted, a letter or `-`, and formatted."""


# ---------------------------------------------------------------------- types
def _typing(*types: Type) -> Resolved:
    *values, sep, end = types
    between, last = _text(sep, "sep", " "), _text(end, "end", "\n")
    parts: list[str | Printed] = []
    for k, value in enumerate(values):
        parts += ([between] if k else []) + list(_shown(value))
    line = Line(_joined([*parts, last]))
    return Resolved((*map(_operand, values), sep, end), NONE, (line,))


def _text(type_: Type, name: str, default: str) -> str:
    value = type_.value if isinstance(type_, ObjectType) else type_
    if value is None:
        return default
    if not isinstance(value, str):
        raise RuleError(f"`{name}=` of `print` is a text, not {show(type_)}", f'for example `{name}=", "`')
    return value


def _shown(type_: Type, spec: str = "", conversion: str = "-") -> Iterator[str | Printed]:
    """What is printed for a value of this type: texts, and places for numbers."""
    match type_:
        case TupleType(items=items) if items and _of_text(items[0]) == F_STRING:
            yield from _f_string(items[1:])
        case TupleType() | RecordType() if spec:
            raise RuleError(f"`{spec}` does not format {show(type_)}", "format its numbers one by one")
        case TupleType(items=items):
            yield from ("(", *_listed(items), ",)" if len(items) == 1 else ")")
        case RecordType(of=type() as of, names=names, items=items):
            yield from (f"{of.__qualname__}(", *_listed(items, names), ")")
        case RecordType(items=items):
            yield from ("(", *_listed(items), ")")
        case ComplexType(value=value) if value is not None:
            yield _formatted(value, spec, conversion)
        case ComplexType():
            yield _number(_complex_dtype(type_), spec, conversion)
        case EnumType(member=member) if member is not None:
            yield _formatted(member, spec, conversion)
        case EnumType(of=enum, dtype=dtype):
            members = enum.__members__.values()
            yield Printed(dtype, names=tuple((int(m.value), _formatted(m, spec, conversion)) for m in members))
        case ObjectType() if type_ == NONE or _of_text(type_) is not None:
            yield _formatted(type_.value, spec, conversion)
        case Weak(values=[value]):
            yield _formatted(value, spec, conversion)
        case Weak() | DType():
            yield _number(_dtype(type_), spec, conversion)
        case BufferType() | ArrayType():
            raise RuleError(
                f"`print` shows numbers and texts, not {show(type_)}",
                "print its elements one by one, or the buffer after the launch: `print(x.to_host())`",
            )
        case _:
            raise RuleError(f"`print` shows numbers and texts, not {show(type_)}", "print the numbers it is made of")


def _listed(items: Sequence[Type], names: Sequence[str] = ()) -> Iterator[str | Printed]:
    """Items as `repr` has them, with commas between them; fields with their names."""
    for k, item in enumerate(items):
        yield (", " if k else "") + (f"{names[k]}=" if names else "")
        yield from _shown(item, conversion="r")


def _of_text(type_: Type) -> str | None:
    """The text that a type is of, or None."""
    return type_.value if isinstance(type_, ObjectType) and isinstance(type_.value, str) else None


def _f_string(items: Sequence[Type]) -> Iterator[str | Printed]:
    """The texts and values of an f-string; behind a value may stand its format."""
    texts = [_of_text(item) or "" for item in items]
    for k, item in enumerate(items):
        following = texts[k + 1] if k + 1 < len(items) else ""
        if following.startswith(SPEC):
            conversion, spec = following[len(SPEC)], following[len(SPEC) + 1 :]
            yield from _shown(item, spec, conversion)
        elif not texts[k].startswith(SPEC):
            yield from _shown(item)


_CONVERSIONS: dict[str, Callable[[Any], Any]] = {"-": lambda value: value, "s": str, "r": repr, "a": ascii}


def _number(dtype: DType, spec: str, conversion: str) -> Printed:
    """A place for a number; to format what a conversion gives is to format a text."""
    _formatted(dtype.numpy.type(1).item(), spec, conversion, dtype)
    return Printed(dtype, spec, is_text=conversion != "-")


def _formatted(value: Any, spec: str, conversion: str, dtype: DType | None = None) -> str:
    """A value converted and formatted; what Python refuses is refused."""
    value = _CONVERSIONS[conversion](value)
    try:
        return format(value, spec) if spec else str(value)
    except (ValueError, TypeError) as problem:
        what = show(dtype) if dtype is not None else repr(value)
        raise RuleError(f"`{spec}` does not format {what}: {problem}", "for example `{x:8.3f}` or `{i:04d}`") from None


def _dtype(type_: DType | Weak) -> DType:
    if isinstance(type_, Weak):
        return literals.default(type_)
    return i64 if type_ is INDEX64 else type_


def _complex_dtype(type_: ComplexType) -> DType:
    return type_.dtype if type_.dtype is not None else c64


def _operand(type_: Type) -> Type:
    """What a value is converted to: one of several literals becomes a number."""
    if isinstance(type_, ComplexType) and type_.value is None:
        return complex_type(_complex_dtype(type_))
    if isinstance(type_, Compound):
        return type_.with_items(tuple(map(_operand, type_.items)))
    return literals.default(type_) if isinstance(type_, Weak) and len(type_.values) > 1 else type_


def _joined(parts: list[str | Printed]) -> tuple[str | Printed, ...]:
    """The same with texts that follow one another as one."""
    found: list[str | Printed] = []
    for is_text, group in groupby(parts, lambda part: isinstance(part, str)):
        run = list(group)
        found += ["".join(map(str, run))] if is_text else run
    return tuple(part for part in found if part != "")


# ---------------------------------------------------------------------- code
def _emit(e: Emitter, call: TypedCall, *values: Any) -> None:
    from kaio.dsl.compiler.emission.print_ring import emit_line
    from kaio.dsl.compiler.emission.words import to_words

    number = e.target.number_line(e, call.static[0])
    if number is None:
        return
    numbers = [n for value, type_ in zip(values, call.operands, strict=True) for n in _numbers(value, type_)]
    emit_line(e, number, [word for n in numbers for word in to_words(e.b, n)])


def _numbers(value: Any, type_: Type) -> Iterator[Any]:
    """The numbers of a value that are known at run time, in the order in which they are shown."""
    if isinstance(type_, Compound):
        for item, of in zip(value, type_.items, strict=True):
            yield from _numbers(item, of)
    elif isinstance(type_, DType) or (isinstance(type_, EnumType) and type_.member is None):
        yield value


def _print(*values: Any, sep: Any = None, end: Any = None) -> None: ...


standard(
    builtins.print, _typing, _emit, _print,
    "Python's `print`: numbers, tuples, texts and f-strings, with `sep` and `end`.\n\n"
    "Lines appear in `sys.stdout` when the launch is waited for.",
    example='out[i] = x[i]\nif i == 3:\n    print("at", i, x[i], f"{d[i]:.3f}")', ptx="kaio_print",
)  # fmt: skip
