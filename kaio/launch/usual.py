"""The usual launch, written out: one function for a kernel's signature that checks and packs without a loop.

Most launches pass just what the last one took: open buffers of the right type on the same stream, numbers in range. For
those a function is generated, as `dataclasses` does, with the kernel's own parameters; it gives None wherever
anything is not plainly right, and the launch then goes the general way, which is the one that waits, compiles, and has
the words. For `saxpy(x, y, a)` it is, with `_k_` before all names that are not the kernel's:

    def usual(x, y, a):
        if type(x) is not GpuBuffer or x.form is not c1: return None
        if type(y) is not GpuBuffer or y.form is not c2: return None
        if not (type(a) is float and -c3 <= a <= c3 or …): …
        if x.pointer < y.pointer + y.nbytes and y.pointer < x.pointer + x.nbytes: return None
        if not is_fresh(): return None
        …
        try:
            arguments = pack(x.pointer, x.size, y.pointer, y.size, a)
        except pack_errors:
            return None
        return stream.send(plan, arguments, (x.memory,), (y.memory,))
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from kaio.dsl.types import MISSING, BufferAnnotation, ConstAnnotation, Param, ScalarAnnotation
from kaio.dtypes import DType
from kaio.errors import KaioError
from kaio.launch.call import Call
from kaio.launch.scalars import convert, packable
from kaio.program import packs_by_bits
from kaio.runtime import Completion, GpuBuffer
from kaio.runtime.buffer import usual_form

__all__ = ["Usual", "UsualCheck", "write_usual"]

Usual = Callable[..., Completion | None]

_FEW_PAIRS = 4  # of buffers, one of them written, that are compared one by one
_NAMES = {
    "GpuBuffer": GpuBuffer, "pack_errors": (struct.error, OverflowError, TypeError), "type": type, "float": float,
    "int": int, "bool": bool, "len": len,
}  # fmt: skip
_PLAN = ("plan", "is_fresh", "is_fixed", "get_entered", "default", "pack", "places")


class UsualCheck:
    """The lines of one signature with its dtypes, and the constants that they name."""

    def __init__(self) -> None:
        self.signature: list[str] = []
        self.lines: list[str] = []
        self.packed: list[str] = []  # expressions
        self.constants: dict[str, Any] = {f"_k_{name}": value for name, value in _NAMES.items()}
        self.buffers: list[tuple[str, bool]] = []  # name, and whether the kernel writes it
        self.by_position = False  # the last one goes by position alone

    def constant(self, value: Any) -> str:
        """The name under which the lines find a value."""
        name = f"_k_c{len(self.constants)}"
        self.constants[name] = value
        return name


def write_usual(
    kernel: str, params: tuple[Param, ...], resolve: Callable[[Any], DType], consts: tuple[Any, ...],
    checks: tuple[Callable[[Any, Call], None] | None, ...], has_places: bool,
) -> Callable[..., Usual] | None:  # fmt: skip
    """What makes the function of one plan, called with `_PLAN` by name; None for signatures that have none.

    `resolve` gives the dtype of an annotation, `consts` are the values of the constants, `checks` those of the general
    way; `has_places`: the kernel has dynamic shared arrays.
    """
    check, values = UsualCheck(), iter(consts)
    for param, general in zip(params, checks, strict=True):
        name = param.name
        if name.startswith("_k_"):
            return None
        _write_parameter(check, param)
        match param.annotation:
            case BufferAnnotation(strided=True):
                return None
            case BufferAnnotation(dtype=dtype, ndim=ndim, access=access):
                _write_buffer(check, name, usual_form(resolve(dtype), ndim), ndim, access != "In")
            case ConstAnnotation():
                _write_const(check, name, next(values))
            case ScalarAnnotation(dtype=dtype) if not resolve(dtype).parts:
                _write_scalar(check, kernel, param.name, name, resolve(dtype))
            case _:
                _write_fields(check, name, general)
    if not check.buffers:
        return None
    if has_places:
        check.packed.append("*_k_places")
    return _made(kernel, check)


def _write_parameter(check: UsualCheck, param: Param) -> None:
    """The parameter as the kernel has it: by position, by name, with its default."""
    if param.kind != "positional" and check.by_position:
        check.signature.append("/")
    if param.kind == "keyword" and "*" not in check.signature:
        check.signature.append("*")
    check.by_position = param.kind == "positional"
    default = "" if param.default is MISSING else f"={check.constant(param.default)}"
    check.signature.append(param.name + default)


def _write_buffer(check: UsualCheck, name: str, form: object, ndim: int, is_written: bool) -> None:
    check.lines.append(
        f"if _k_type({name}) is not _k_GpuBuffer or {name}.form is not {check.constant(form)}: return None"
    )
    check.packed.append(f"{name}.pointer")
    if ndim:
        check.packed.append(f"{name}.size" if ndim == 1 else f"*{name}.shape")
    check.buffers.append((name, is_written))


def _write_const(check: UsualCheck, name: str, value: Any) -> None:
    known = check.constant(value)
    if type(value) in (int, bool):
        check.lines.append(f"if _k_type({name}) is not {check.constant(type(value))} or {name} != {known}: return None")
    else:  # a float has to be the same to the bit
        check.lines.append(f"if {name} is not {known}: return None")


def _write_scalar(check: UsualCheck, kernel: str, label: str, name: str, dtype: DType) -> None:
    check.packed.append(name)
    if dtype.is_int:
        return  # `struct` takes what is a whole number and in range, and nothing else

    def read(value: Any) -> Any:
        try:
            return packable(dtype, convert(kernel, label, dtype, value))
        except KaioError:
            return None

    other = check.constant(read)
    if dtype.kind == "b":
        is_plain = f"_k_type({name}) is _k_bool"
    elif packs_by_bits(dtype):
        is_plain = "False"
    else:
        # `struct` takes NumPy's scalars as it takes floats, and whole numbers as the nearest one; up to 2**53 that is
        # rounded once.
        largest = check.constant(dtype.largest)
        own = check.constant(dtype.numpy.type)
        is_plain = (
            f"(_k_type({name}) is _k_float or _k_type({name}) is {own}) and -{largest} <= {name} <= {largest} "
            f"or _k_type({name}) is _k_int and -{2**53} <= {name} <= {2**53}"
        )
    check.lines += [f"if not ({is_plain}):", f"    {name} = {other}({name})", f"    if {name} is None: return None"]


def _write_fields(check: UsualCheck, name: str, general: Any) -> None:
    """Of a value that is packed as several: the general check reads it."""

    def read(value: Any) -> Any:
        call = Call()
        try:
            general(value, call)
        except KaioError:
            return None
        return call.packed

    check.lines += [f"{name} = {check.constant(read)}({name})", f"if {name} is None: return None"]
    check.packed.append(f"*{name}")


def _write_apart(check: UsualCheck) -> list[str]:
    """Lines that leave where memory that is written may be used through another parameter too."""
    names = [name for name, _ in check.buffers]
    pairs = [
        (one, other)
        for k, (one, writes) in enumerate(check.buffers)
        for other, also in check.buffers[:k]
        if writes or also
    ]
    if len(pairs) <= _FEW_PAIRS:
        return [
            f"if {a}.pointer < {b}.pointer + {b}.nbytes and {b}.pointer < {a}.pointer + {a}.nbytes: return None"
            for a, b in pairs
        ]
    # Allocations of kaio's own are apart from each other; what other libraries own may be anywhere.
    memories = ", ".join(f"{name}.memory" for name in names)
    owned = " and ".join(f"{name}.memory.owner is None" for name in names)
    return [f"if _k_len({{{memories}}}) != {len(names)} or not ({owned}): return None"]


def _made(kernel: str, check: UsualCheck) -> Callable[..., Usual]:
    read, written = (
        "".join(f"{name}.memory, " for name, writes in check.buffers if writes is wanted) for wanted in (False, True)
    )
    body = [
        *check.lines,
        *_write_apart(check),
        "if not _k_is_fresh(): return None",
        "if _k_is_fixed:",
        "    _k_stream = _k_default",
        "else:",
        "    _k_entered = _k_get_entered()",
        "    _k_stream = _k_entered[-1] if _k_entered else _k_default",
        "try:",
        f"    _k_arguments = _k_pack({', '.join(check.packed)})",
        "except _k_pack_errors:",
        "    return None",
        f"return _k_stream.send(_k_plan, _k_arguments, ({read}), ({written}))",
    ]
    names = [*check.constants, *(f"_k_{name}" for name in _PLAN)]
    signature = ", ".join([*check.signature, "/"] if check.by_position else check.signature)
    text = "\n".join(
        [f"def make({', '.join(names)}):", f"  def usual({signature}):", *(f"    {line}" for line in body)]
    )
    namespace: dict[str, Any] = {}
    exec(compile(f"{text}\n  return usual\n", f"<launch of kernel {kernel}>", "exec"), namespace)
    make, constants = namespace["make"], check.constants

    def make_usual(**of_plan: Any) -> Usual:
        return make(**constants, **{f"_k_{name}": value for name, value in of_plan.items()})  # type: ignore[no-any-return]

    return make_usual
