"""The usual launch, written out: one function for a kernel's signature that checks and packs without a loop.

Most launches pass by position just what the last one took: open buffers of the right type on the same stream, numbers
in range. For those a function is generated, as `collections.namedtuple` does, whose body names each parameter; it
gives None wherever anything is not plainly right, and the launch then goes the general way, which is the one that
waits, compiles, and has the words. For `saxpy(x, y, a)` it reads:

    def usual(args):
        try:
            v0, v1, v2 = args
        except ValueError:
            return None
        if type(v0) is not GpuBuffer or v0.form is not c0: return None
        if type(v1) is not GpuBuffer or v1.form is not c1: return None
        if type(v2) is not float or not -3.4e38 <= v2 <= 3.4e38: …
        if v0.pointer < v1.pointer + v1.nbytes and v1.pointer < v0.pointer + v0.nbytes: return None
        if not is_fresh(): return None
        entered = get_entered()
        stream = entered[-1] if entered else default
        try:
            arguments = pack(v0.pointer, v0.size, v1.pointer, v1.size, v2)
        except pack_errors:
            return None
        return stream.send(plan, arguments, (v0.memory,), (v1.memory,))
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from kaio.dsl.types import BufferAnnotation, ConstAnnotation, Param, ScalarAnnotation
from kaio.dtypes import DType
from kaio.errors import KaioError
from kaio.launch.call import Call
from kaio.launch.scalars import convert, packable
from kaio.program import packs_by_bits
from kaio.runtime import Completion, GpuBuffer
from kaio.runtime.buffer import usual_form

__all__ = ["Usual", "UsualCheck", "write_usual"]

Usual = Callable[[tuple[Any, ...]], Completion | None]

_FEW_PAIRS = 4  # of buffers, one of them written, that are compared one by one
_PLAN = ("plan", "is_fresh", "is_fixed", "get_entered", "default", "pack", "places")
_PACK_ERRORS = (struct.error, OverflowError, TypeError)


class UsualCheck:
    """The lines of one signature with its dtypes, and the constants that they name."""

    def __init__(self) -> None:
        self.names: list[str] = []  # of the parameters
        self.lines: list[str] = []
        self.packed: list[str] = []  # expressions
        self.constants: dict[str, Any] = {"GpuBuffer": GpuBuffer, "pack_errors": _PACK_ERRORS}
        self.buffers: list[tuple[str, bool]] = []  # name, and whether the kernel writes it
        self.consts: list[str] = []

    def constant(self, value: Any) -> str:
        """The name under which the lines find a value."""
        name = f"c{len(self.constants)}"
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
    for k, (param, general) in enumerate(zip(params, checks, strict=True)):
        name = f"v{k}"
        check.names.append(name)
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
        check.packed.append("*places")
    return _made(kernel, check)


def _write_buffer(check: UsualCheck, name: str, form: object, ndim: int, is_written: bool) -> None:
    check.lines.append(f"if type({name}) is not GpuBuffer or {name}.form is not {check.constant(form)}: return None")
    check.packed.append(f"{name}.pointer")
    if ndim:
        check.packed.append(f"{name}.size" if ndim == 1 else f"*{name}.shape")
    check.buffers.append((name, is_written))


def _write_const(check: UsualCheck, name: str, value: Any) -> None:
    known = check.constant(value)
    if type(value) in (int, bool):
        check.lines.append(f"if type({name}) is not {check.constant(type(value))} or {name} != {known}: return None")
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
        is_plain = f"type({name}) is bool"
    elif packs_by_bits(dtype):
        is_plain = "False"
    else:
        largest = check.constant(dtype.largest)
        is_plain = f"type({name}) is float and -{largest} <= {name} <= {largest}"
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
    return [f"if len({{{memories}}}) != {len(names)} or not ({owned}): return None"]


def _made(kernel: str, check: UsualCheck) -> Callable[..., Usual]:
    read, written = (
        "".join(f"{name}.memory, " for name, writes in check.buffers if writes is wanted) for wanted in (False, True)
    )
    body = [
        "try:",
        f"    {', '.join(check.names)}, = args",
        "except ValueError:",
        "    return None",
        *check.lines,
        *_write_apart(check),
        "if not is_fresh(): return None",
        "if is_fixed:",
        "    stream = default",
        "else:",
        "    entered = get_entered()",
        "    stream = entered[-1] if entered else default",
        "try:",
        f"    arguments = pack({', '.join(check.packed)})",
        "except pack_errors:",
        "    return None",
        f"return stream.send(plan, arguments, ({read}), ({written}))",
    ]
    names = [*check.constants, *_PLAN]
    text = "\n".join([f"def make({', '.join(names)}):", "  def usual(args):", *(f"    {line}" for line in body)])
    namespace: dict[str, Any] = {}
    exec(compile(f"{text}\n  return usual\n", f"<launch of kernel {kernel}>", "exec"), namespace)
    make, constants = namespace["make"], check.constants

    def make_usual(**of_plan: Any) -> Usual:
        return make(**constants, **of_plan)  # type: ignore[no-any-return]

    return make_usual
