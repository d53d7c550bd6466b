"""Complex numbers in a kernel: what their operators mean, as types, and what is made of them.

A real operand stays real (C99, Annex G): `z * 2.0` scales both parts, so that an infinite part makes no NaN of the
other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kaio.dsl import literals, operators, rules, stores, symbols
from kaio.dsl.intrinsic import Intrinsic, Resolved
from kaio.dsl.rule_error import RuleError
from kaio.dsl.values import BOOL, Compound, Scalar, Type, Weak, show
from kaio.dtypes import COMPLEX, DType, bool_, f32, f64

__all__ = ["ARITHMETIC", "COMPARE", "NEGATE", "ComplexType", "common", "complex_of", "complex_type", "literal", "merge"]

_REAL = Weak("f", (0.0,))  # the imaginary part of a real number
_CONDITIONAL = "conditional expression"


@dataclass(frozen=True)
class ComplexType(Compound):
    """A complex number of two f32 or two f64; of two literals it is a literal, which has no width yet."""

    items: tuple[Type, Type]

    @property
    def fields(self) -> Mapping[str, int]:
        """See `Compound`."""
        return {"real": 0, "imag": 1}

    @property
    def dtype(self) -> DType | None:
        """c64 or c128; None of a literal."""
        return next((dtype for dtype in COMPLEX if dtype.parts[0][1] is self.items[0]), None)

    @property
    def value(self) -> complex | None:
        """The value of a literal; None where it is known at run time only."""
        parts = [item.value if isinstance(item, Weak) else None for item in self.items]
        return None if None in parts else complex(*parts)  # type: ignore[arg-type]

    def with_items(self, items: tuple[Type, ...]) -> ComplexType:
        """See `Compound`."""
        return ComplexType((items[0], items[1]))

    def is_like(self, other: Type) -> bool:
        """See `Compound`."""
        return isinstance(other, ComplexType)

    def split(self, value: Any) -> tuple[Any, ...]:
        """See `Compound`."""
        return value.real, value.imag

    def spread(self, value: Any, source: Type) -> list[tuple[Any, Type]]:
        """A real number has an imaginary part of 0."""
        return [(value, source), (None, Weak("i", (0,)))]

    def __repr__(self) -> str:
        return self.dtype.name if self.dtype is not None else f"complex literal {self.value}"


def complex_type(dtype: DType) -> ComplexType:
    """The type of values of c64 or c128."""
    return ComplexType((dtype.parts[0][1], dtype.parts[1][1]))


def complex_of(part: DType) -> ComplexType:
    """The complex type whose parts hold a real number of that type: of f64, c128; of all others, c64."""
    part = f64 if part is f64 else f32
    return ComplexType((part, part))


def literal(value: complex) -> ComplexType:
    """The type of a complex literal."""
    return ComplexType((Weak("f", (value.real,)), Weak("f", (value.imag,))))


def common(a: Type, b: Type) -> ComplexType:
    """The one complex type of two numbers, of which one at least is complex."""
    parts = [part for type_ in (a, b) for part in (type_.items if isinstance(type_, ComplexType) else (type_,))]
    weak = [part for part in parts if isinstance(part, Weak)]
    held: DType = f64 if f64 in parts else f32
    for part in weak:
        if len(weak) == len(parts):
            literals.default(part)
        else:
            literals.check_fits(held, part)
    return complex_of(held)


def is_number(type_: Type) -> bool:
    """Whether a type is of numbers, complex ones included."""
    return isinstance(type_, DType | Weak | ComplexType)


# ---------------------------------------------------------------------- operators
def _rule(name: str) -> Any:
    def emit(e: Any, call: Any, *values: Any) -> Any:
        from kaio.dsl.compiler.emission import complexes

        return getattr(complexes, name)(e, call, *values)

    return emit


ARITHMETIC = Intrinsic("arithmetic of complex numbers", emit=_rule("arithmetic"))
COMPARE = Intrinsic("comparison of complex numbers", emit=_rule("compare"))
NEGATE = Intrinsic("negation of a complex number", emit=_rule("negated"))


def _binary(op: str, left: Type, right: Type) -> operators.Found | None:
    if not (isinstance(left, ComplexType) or isinstance(right, ComplexType)):
        return None
    if not is_number(left) or not is_number(right):
        return None
    shown = f"`{show(left)} {op} {show(right)}`"
    if op in ("==", "!="):
        return _compare(op, left, right)
    if op in ("<", "<=", ">", ">="):
        raise RuleError(f"{shown}: complex numbers have no order", "compare `abs(z)`, or a part: `z.real`, `z.imag`")
    if op not in ("+", "-", "*", "/", "**"):
        raise RuleError(f"{shown}: complex numbers have no `{op}`", "compute with the parts: `z.real`, `z.imag`")
    folded = _fold(op, left, right)
    if folded is not None:
        return ARITHMETIC, Resolved((left, right), folded, ("literal",))
    for side in (left, right):
        rules.check_computes(op, side)  # type: ignore[arg-type]
    made = common(left, right)
    if op == "**":
        return _power(left, right, made)
    sides = tuple(made if isinstance(side, ComplexType) else made.items[0] for side in (left, right))
    if op == "/" and not isinstance(left, ComplexType):
        sides = made, made
    return ARITHMETIC, Resolved(sides, made, (op,))


def _value(type_: Type) -> complex | float | None:
    return type_.value if isinstance(type_, ComplexType | Weak) else None


def _fold(op: str, left: Type, right: Type) -> ComplexType | None:
    """What two literals give."""
    x, y = _value(left), _value(right)
    if x is None or y is None:
        return None
    try:
        return literal(complex(symbols.BINARY[op](x, y)))
    except ZeroDivisionError:
        raise RuleError("division of literals by zero", "for infinity or NaN write `math.inf` or `math.nan`") from None
    except OverflowError as problem:
        raise RuleError(f"`{show(left)} {op} {show(right)}`: {problem}") from None


def _power(left: Type, right: Type, made: ComplexType) -> operators.Found:
    if isinstance(right, Weak) and right.kind == "i" and right.value is not None:
        return ARITHMETIC, Resolved((made, right), made, ("**", int(right.value)))
    return ARITHMETIC, Resolved((made, made), made, ("**", None))


def _compare(op: str, left: Type, right: Type) -> operators.Found:
    """Part by part and exact, as comparisons of numbers are."""
    parts = [side.items if isinstance(side, ComplexType) else (side, _REAL) for side in (left, right)]
    found = [rules.binary(op, x, y) for x, y in zip(*parts, strict=True)]
    return COMPARE, Resolved((left, right), BOOL, (op, tuple(found)))


operators.BINARY.append(_binary)


def _unary(op: str, operand: Type) -> operators.Found | None:
    if not isinstance(operand, ComplexType):
        return None
    if op == "not":
        raise RuleError(f"{show(operand)} is neither true nor false", "compare it: `z == 0`")
    if op == "~":
        raise RuleError(f"`~` of {show(operand)}: complex numbers have no bits to invert")
    value = operand.value
    if value is not None:
        return NEGATE, Resolved((operand,), literal(symbols.UNARY[op](value)), ("literal",))
    return NEGATE, Resolved((operand,), operand, (op,))


operators.UNARY.append(_unary)


# ---------------------------------------------------------------------- places and casts
def check_part(value: Scalar, part: DType) -> None:
    """Whether a real number may be a part without a cast."""
    if value is bool_:
        raise RuleError("bool is stored in a complex number only with a cast", stores.CAST_IT)
    stores.store(value, part)


def merge(known: Sequence[Type], what: str, scalars: Callable[[list[Any]], Type]) -> Type:
    """The one type where complex numbers come together, with literals that become complex beside them."""
    other = next((t for t in known if not is_number(t)), None)
    if other is None and what != _CONDITIONAL:
        other = next((t for t in known if isinstance(t, DType)), None)
    if other is not None:
        first = next(t for t in known if isinstance(t, ComplexType))
        raise RuleError(f"`{what}` is {show(first)} and also {show(other)}", "give the two different names")
    parts = [t.items if isinstance(t, ComplexType) else (t, _REAL) for t in known]
    if any(isinstance(p, DType) and not p.is_float for p, _ in parts):
        parts = [(f32 if isinstance(p, DType) and not p.is_float else p, q) for p, q in parts]
    merged = ComplexType((scalars([p for p, _ in parts]), scalars([q for _, q in parts])))
    strong = [item for item in merged.items if isinstance(item, DType)]
    return complex_of(max(strong, key=lambda dtype: dtype.bits)) if strong else merged
