"""What is called with complex numbers: casts, `complex`, `abs`, `z.conjugate()`, and the functions of `cmath`."""

from __future__ import annotations

import builtins
import cmath
import inspect
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from kaio.dsl import complexes, literals, places, rules, stores
from kaio.dsl.complexes import ComplexType, complex_of, complex_type
from kaio.dsl.intrinsic import STANDARD, Intrinsic, Resolved, standard
from kaio.dsl.overloads import METHODS, OVERLOADS
from kaio.dsl.rule_error import RuleError
from kaio.dsl.values import BOOL, TupleType, Type, Weak, show
from kaio.dtypes import DType

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter
    from kaio.dsl.compiler.ir import TypedCall

__all__ = ["cast_to"]


def _number(value: Type, what: str) -> Type:
    if not complexes.is_number(value):
        raise RuleError(f"{what} is a number, not {show(value)}")
    return value


# ---------------------------------------------------------------------- made of numbers
def _pair(e: Emitter, call: TypedCall, real: Any, imag: Any = None) -> Any:
    if isinstance(real, tuple):
        return real
    return real, imag if len(call.operands) == 2 else e.convert(None, Weak("f", (0.0,)), call.result.items[1])  # type: ignore[union-attr]


def _casted(value: Any, imag: Any = 0, /) -> None: ...


@cache
def cast_to(dtype: DType) -> Intrinsic:
    """The record of `c64` or `c128` called in a kernel, with a number or with two parts."""
    made = complex_type(dtype)

    def typing(value: Type, *imag: Type) -> Resolved:
        parts = [_number(part, f"what `{dtype!r}` casts") for part in (value, *imag)]
        if len(parts) == 1 and isinstance(value, ComplexType):
            if value.value is not None:
                places.check_value(made, value)
            return Resolved((made,), made)
        for part in parts:
            if isinstance(part, ComplexType):
                raise RuleError(f"a part of `{dtype!r}` is a real number, not {show(part)}", "take its `.real`")
            stores.cast(part, made.items[0])  # type: ignore[arg-type]
        return Resolved((made.items[0],) * len(parts), made)

    doc = f"Convert a number to {dtype.name}, or make one of its real and imaginary parts."
    return Intrinsic(repr(dtype), typing, _pair, doc=doc, signature=inspect.signature(_casted))


def _complex_typing(real: Type, *imag: Type) -> Resolved:
    if isinstance(real, ComplexType) and not imag:
        return Resolved((real,), real)
    for part in (real, *imag):
        if isinstance(_number(part, "what `complex` takes"), ComplexType):
            raise RuleError(f"a part of `complex` is a real number, not {show(part)}", "add `1j * part`")
    merged = real
    for part in imag:
        merged = rules.common(merged, part, "in complex with")  # type: ignore[arg-type]
    made = complex_of(literals.default(merged))  # type: ignore[arg-type]
    return Resolved((made.items[0],) * (1 + len(imag)), made)


standard(
    builtins.complex,
    _complex_typing,
    _pair,
    _casted,
    "Python's `complex`: of two parts, c128 where one is f64, else c64.",
    example="z = complex(x[i], y[i]) * 2j\nout[i] = z.imag",
    ptx="fma.rn.f32",
)


# ---------------------------------------------------------------------- functions
def _typing(name: str, result: str) -> Callable[..., Resolved]:
    """One complex argument (a real one becomes complex); `result` is ``complex``, ``real``, ``bool`` or ``pair``."""

    def typing(value: Type) -> Resolved:
        given = _number(value, f"an argument of `{name}`")
        if not isinstance(given, ComplexType):
            rules.check_computes(name, given)  # type: ignore[arg-type]
        made = complexes.common(given, complexes.literal(0j))
        results = {"complex": made, "real": made.items[0], "bool": BOOL, "pair": TupleType(made.items)}
        return Resolved((made,), results[result])

    return typing


def _function(name: str) -> Any:
    def emit(e: Emitter, call: TypedCall, z: Any) -> Any:
        from kaio.dsl.compiler.emission import complex_functions
        from kaio.dsl.compiler.emission.complexes import part_of

        return getattr(complex_functions, name)(e, z, part_of(call.operands[0]))

    return emit


def _absolute(e: Emitter, call: TypedCall, z: Any) -> Any:
    from kaio.dsl.compiler.emission.complexes import absolute, part_of

    return absolute(e, z, part_of(call.operands[0]))


def _value(z: Any, /) -> None: ...
def _polar_of(radius: Any, angle: Any, /) -> None: ...


_EXAMPLE = "z = cmath.{}(complex(x[i], y[i]))\nout[i] = z.real\nwide[i] = z.imag"
_PREDICATE_EXAMPLE = "z = complex(x[i], (y[i] - {}[i]) / n[i])\nout[i] = 1 if cmath.{}(z) else 0"
_REAL_EXAMPLE = "out[i] = cmath.{}(complex(x[i], y[i]))"
_DOCS = {
    "exp": "e to the power z.",
    "log": "The natural logarithm, cut along the negative real axis.",
    "log10": "The logarithm to the base 10.",
    "sqrt": "The square root, with a real part of 0 or more.",
    "sin": "The sine.",
    "cos": "The cosine.",
    "tan": "The tangent.",
    "sinh": "The hyperbolic sine.",
    "cosh": "The hyperbolic cosine.",
    "tanh": "The hyperbolic tangent.",
}
for _name, _doc in _DOCS.items():
    standard(
        getattr(cmath, _name),
        _typing(_name, "complex"),
        _function(_name),
        _value,
        _doc,
        name=f"cmath.{_name}",
        example=_EXAMPLE.format(_name),
        ptx="sqrt.rn.f32" if _name == "sqrt" else "fma.rn.f32",
        same_bits=_name in ("log", "log10", "sqrt"),
    )
standard(
    cmath.phase,
    _typing("phase", "real"),
    _function("phase"),
    _value,
    "The angle from the positive real axis, -pi to pi.",
    name="cmath.phase",
    example=_REAL_EXAMPLE.format("phase"),
    ptx="fma.rn.f32",
)


def _polar(e: Emitter, call: TypedCall, z: Any) -> Any:
    return _absolute(e, call, z), _function("phase")(e, call, z)


standard(
    cmath.polar,
    _typing("polar", "pair"),
    _polar,
    _value,
    "Magnitude and angle: `r, phi = cmath.polar(z)`.",
    name="cmath.polar",
    example="r, phi = cmath.polar(complex(x[i], y[i]))\nout[i] = r\nwide[i] = phi",
    ptx="sqrt.rn.f32",
)


def _rect_typing(radius: Type, angle: Type) -> Resolved:
    for part in (radius, angle):
        if not isinstance(part, DType | Weak):
            raise RuleError(f"an argument of `rect` is a real number, not {show(part)}")
    merged = literals.default(rules.common(radius, angle, "in rect with"))  # type: ignore[arg-type]
    made = complex_of(merged)
    return Resolved(made.items, made)


def _rect(e: Emitter, call: TypedCall, radius: Any, angle: Any) -> Any:
    from kaio.dsl.compiler.emission import complex_functions
    from kaio.dsl.compiler.emission.complexes import part_of

    return complex_functions.rect(e, radius, angle, part_of(call.result))


standard(
    cmath.rect,
    _rect_typing,
    _rect,
    _polar_of,
    "The complex number of that magnitude and angle.",
    name="cmath.rect",
    example="z = cmath.rect(x[i], y[i])\nout[i] = z.real\nwide[i] = z.imag",
    ptx="mul.rn.f32",
    same_bits=False,
)


def _parts_are(name: str, combine: str) -> Any:
    def emit(e: Emitter, call: TypedCall, z: Any) -> Any:
        import math

        from kaio.dsl.compiler.emission.complexes import part_of

        part = part_of(call.operands[0])
        asked = Resolved((part,), BOOL)
        one, two = (STANDARD[getattr(math, name)].rule(e.target.name)(e, asked, value) for value in z)
        return getattr(e.b, combine)(one, two)

    return emit


for _name, _combine, _doc in (
    ("isnan", "or_", "Whether a part is NaN."),
    ("isinf", "or_", "Whether a part is an infinity."),
    ("isfinite", "and_", "Whether both parts are finite."),
):
    standard(
        getattr(cmath, _name),
        _typing(_name, "bool"),
        _parts_are(_name, _combine),
        _value,
        _doc,
        name=f"cmath.{_name}",
        example=_PREDICATE_EXAMPLE.format("y" if _name == "isnan" else "x", _name),
        ptx="setp",
    )
OVERLOADS[builtins.abs, ComplexType] = Intrinsic(
    "abs", _typing("abs", "real"), _absolute, doc="The magnitude.", signature=inspect.signature(_value)
)


def _conjugate_typing(z: Type) -> Resolved:
    assert isinstance(z, ComplexType)
    if z.value is not None:
        return Resolved((z,), complexes.literal(z.value.conjugate()))
    return Resolved((z,), z)


def _conjugate(e: Emitter, call: TypedCall, z: Any) -> Any:
    from kaio.dsl.compiler.emission.arithmetic import negate

    part = call.result.items[1]  # type: ignore[union-attr]
    return (z[0], negate(e, z[1], part)) if isinstance(part, DType) else (None, None)


METHODS[ComplexType, "conjugate"] = Intrinsic(
    "conjugate",
    _conjugate_typing,
    _conjugate,
    doc="The number with the other sign of the imaginary part.",
    signature=inspect.signature(_value),
)
