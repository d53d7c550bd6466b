"""Questions about a float, answered on its bits so that `fastmath` changes nothing: is it NaN, its sign, is it near."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from kaio.dsl import primitives
from kaio.dsl.intrinsic import intrinsic, standard
from kaio.dsl.numeric.operands import floats, one, operand_type, result_type, two
from kaio.dsl.values import BOOL

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter
    from kaio.dsl.compiler.ir import TypedCall

__all__ = ["signbit"]


def _is(compare: str) -> Any:
    """Compare the bits without the sign with those of infinity."""

    def emit(e: Emitter, call: TypedCall, value: Any) -> Any:
        from kaio.dsl.compiler.emission.float_bits import magnitude_bits

        dtype = operand_type(call)
        bits, infinity = magnitude_bits(e, value, dtype)
        return e.b.icmp_unsigned(compare, bits, infinity)

    return emit


_PREDICATES = (
    (math.isnan, ">", "Whether it is NaN; also under fastmath.", "and.b32"),
    (math.isinf, "==", "Whether it is an infinity; also under fastmath.", "and.b32"),
    (math.isfinite, "<", "Whether it is neither NaN nor an infinity.", "and.b32"),
)
for _python, _compare, _doc, _ptx in _PREDICATES:
    _name = _python.__name__
    _example = f"counts[i] = 1 if math.{_name}(1 / (x[i] - x[0])) else 2"
    standard(_python, floats(_name, result=BOOL), _is(_compare), one, _doc, example=_example, ptx=_ptx)


def _signbit(e: Emitter, call: TypedCall, value: Any) -> Any:
    from kaio.dsl.compiler.emission.float_bits import sign_bit

    dtype = operand_type(call)
    return sign_bit(e, value, dtype)


@intrinsic(
    floats("signbit", result=BOOL),
    emit=_signbit,
    example="counts[i] = 1 if kaio.signbit(x[i] - 0.5) else 2",
    ptx="mov.b32",
)
def signbit(x: Any) -> bool:
    """Whether the sign is negative; true for -0.0."""
    raise NotImplementedError


def _copysign(e: Emitter, call: TypedCall, x: Any, y: Any) -> Any:
    from kaio.dsl.compiler.emission.float_bits import copysign

    return copysign(e, x, y, result_type(call))


standard(
    math.copysign,
    floats("copysign", narrow=True),
    _copysign,
    two,
    "The magnitude of x with the sign of y.",
    example="out[i] = math.copysign(x[i], 0.5 - y[i])",
    ptx="and.b32",
)


# ---------------------------------------------------------------------- near
def _isclose(e: Emitter, call: TypedCall, a: Any, b: Any, rel_tol: Any = None, abs_tol: Any = None) -> Any:
    """Python's: equal, or `|a - b| <= max(rel_tol * max(|a|, |b|), abs_tol)`; an infinity is near itself only."""
    dtype = operand_type(call)
    rel_tol = e.const(dtype, 1e-9) if rel_tol is None else rel_tol
    abs_tol = e.const(dtype, 0.0) if abs_tol is None else abs_tol
    size_a, size_b = (e.use(primitives.fabs, v, dtype) for v in (a, b))
    distance = e.use(primitives.fabs, e.b.fsub(a, b), dtype)
    infinity = e.const(dtype, math.inf)
    largest = e.use(primitives.maxnum, size_a, size_b, dtype)
    bound = e.use(primitives.maxnum, e.b.fmul(rel_tol, largest), abs_tol, dtype)
    near = e.b.and_(e.b.fcmp_ordered("<=", distance, bound), e.b.fcmp_ordered("<", largest, infinity))
    return e.b.or_(e.b.fcmp_ordered("==", a, b), near)


def _near(a: Any, b: Any, /, *, rel_tol: Any = 1e-9, abs_tol: Any = 0.0) -> None: ...


standard(
    math.isclose,
    floats("isclose", result=BOOL),
    _isclose,
    _near,
    "Whether two numbers are near, as Python says it: `|a - b| <= max(rel_tol * max(|a|, |b|), abs_tol)`; "
    "in f32 the default `rel_tol` of 1e-9 asks for equality.",
    example="counts[i] = 1 if math.isclose(x[i], y[i], rel_tol=0.5) else 2",
    ptx="setp.le.f32",
)
