"""Random expressions on the CPU device against a reference in exact Python arithmetic and NumPy.

The reference knows the documented rules alone: what types meet in, what each operator gives, which product fuses. It
shares nothing with `kaio.dsl.rules` or the emitters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

import kaio
from kaio import bf16, bool_, f16, f32, f64, i32
from tests.dsl.from_text import kernel, run
from tests.dsl.rule_types import FLOATS, NUMBERS
from tests.dsl.test_intrinsics import exact_fma
from tests.dsl.test_operator_table import (
    ARITHMETIC,
    BITWISE,
    COMPARISONS,
    SHIFTS,
    common,
    compared,
    converted,
    floating,
    integer,
    result_type,
    values,
    wrap,
)

COUNT = 24
Env = Mapping[str, Any]


@dataclass(frozen=True)
class Expr:
    """An expression: its text, its type (None of a literal), its value in an environment, its factors if a product.

    pick: of a conditional, the branch that is taken
    """

    text: str
    dtype: Any
    value: Callable[[Env], Any]
    factors: tuple[Expr, Expr] | None = None
    pick: Callable[[Env], Expr] | None = None

    def as_(self, dtype: Any, env: Env) -> Any:
        """The value, converted to another type."""
        value = self.value(env)
        if self.dtype is dtype:
            return value
        if self.dtype is None:
            return floating("+", value, 0, dtype).item() if dtype.is_float else value
        return converted(value, self.dtype, dtype)


def variable(name: str, dtype: Any) -> Expr:
    return Expr(name, dtype, lambda env: env[name])


def literal(value: float) -> Expr:
    return Expr(repr(value), None, lambda env: value)


def met(op: str, a: Expr, b: Expr) -> tuple[Any, Any] | None:
    """The operands' type and the result's, None where there is no meaning; a literal takes its partner's type."""
    if a.dtype is not None and b.dtype is not None:
        result = result_type(op, a.dtype, b.dtype)
        if result is None:
            return None
        return (result if op == "/" else common(a.dtype, b.dtype)), result
    dtype, number = (a.dtype, b.value({})) if b.dtype is None else (b.dtype, a.value({}))
    if isinstance(number, float):
        dtype = dtype if dtype.is_float else f32
    elif dtype.is_int and not dtype.range[0] <= number <= dtype.range[1]:
        return None
    if dtype.is_float and abs(number) > dtype.largest:
        return None
    if op in BITWISE + SHIFTS and dtype.is_float:
        return None
    return (dtype if op != "/" or dtype.is_float else f32), result_type(op, dtype, dtype)


def binary(op: str, a: Expr, b: Expr) -> Expr | None:
    """`a op b`, or None where the rules have no meaning for it."""
    if a.dtype is None and b.dtype is None:
        return None
    text = f"({a.text} {op} {b.text})"
    if op in COMPARISONS:
        if None in (a.dtype, b.dtype):
            return compared_with_literal(op, text, a, b)
        return Expr(text, bool_, lambda env: compared(op, a.value(env), b.value(env)))
    if op in SHIFTS:
        left = a.dtype or b.dtype
        if None not in (a.dtype, b.dtype) and result_type(op, a.dtype, b.dtype) is None:
            return None
        if not left.is_int or any(x.dtype is None and not isinstance(x.value({}), int) for x in (a, b)):
            return None
        return Expr(text, left, lambda env: integer(op, a.value(env), b.value(env), left))
    found = met(op, a, b)
    if found is None or found[1] is None or bool_ in (a.dtype, b.dtype) or (op == "**" and found[1].is_float):
        return None
    operand, result = found
    if not result.is_float:
        if op == "**" and b.dtype is not None:
            return Expr(text, result, lambda env: integer(op, a.as_(result, env), b.as_(result, env), result))
        return Expr(text, result, lambda env: integer(op, a.as_(result, env), b.as_(result, env), result))
    factors = (a, b) if op == "*" else None
    if op in "+-":
        return Expr(text, result, lambda env: added(op, a, b, result, env))
    return Expr(
        text, result, lambda env: floating(op, a.as_(operand, env), b.as_(operand, env), result).item(), factors
    )


def compared_with_literal(op: str, text: str, a: Expr, b: Expr) -> Expr | None:
    """Exact with an integer, whatever the literal is; a float gives the literal its type."""
    dtype, number = (a.dtype, b.value({})) if b.dtype is None else (b.dtype, a.value({}))
    if dtype is bool_ or (dtype.is_int and not dtype.range[0] <= number <= dtype.range[1]):
        return None
    if dtype.is_int and op in ("==", "!=") and number != int(number):
        return None
    if dtype.is_float and abs(number) > dtype.largest:
        return None
    if dtype.is_float:
        return Expr(text, bool_, lambda env: compared(op, a.as_(dtype, env), b.as_(dtype, env)))
    return Expr(text, bool_, lambda env: compared(op, a.value(env), b.value(env)))


def added(op: str, a: Expr, b: Expr, dtype: Any, env: Env) -> float:
    """A sum or difference of floats: a product of its type fuses, of two the left one."""
    sign = 1.0 if op == "+" else -1.0
    if a.factors and a.dtype is dtype:
        x, y = (f.as_(dtype, env) for f in a.factors)
        return exact_fma(x, y, sign * b.as_(dtype, env), dtype)
    if b.factors and b.dtype is dtype:
        x, y = (f.as_(dtype, env) for f in b.factors)
        return exact_fma(sign * x, y, a.as_(dtype, env), dtype)
    return floating(op, a.as_(dtype, env), b.as_(dtype, env), dtype).item()


def unary(op: str, a: Expr) -> Expr | None:
    if op == "not":
        return Expr(f"(not {a.text})", bool_, lambda env: not a.value(env))
    if a.dtype is bool_ or (op == "~" and a.dtype.is_float):
        return None
    if a.dtype.is_float:
        return Expr(f"(-{a.text})", a.dtype, lambda env: -a.value(env))
    return Expr(f"({op}{a.text})", a.dtype, lambda env: wrap(-a.value(env) if op == "-" else ~a.value(env), a.dtype))


def cast(dtype: Any, a: Expr) -> Expr:
    return Expr(f"{dtype!r}({a.text})", dtype, lambda env: converted(a.value(env), a.dtype, dtype))


def conditional(test: Expr, a: Expr, b: Expr) -> Expr | None:
    if (a.dtype is bool_) != (b.dtype is bool_):
        return None
    dtype = common(a.dtype, b.dtype)
    if dtype is None:
        return None

    def branch(env: Env) -> Expr:
        """A conditional in a conditional is one of three branches, and is converted once."""
        taken = a if test.value(env) else b
        return taken.pick(env) if taken.pick else taken

    text = f"({a.text} if {test.text} else {b.text})"
    return Expr(text, dtype, lambda env: branch(env).as_(dtype, env), pick=branch)


def chosen(op: str, a: Expr, b: Expr) -> Expr:
    """`and` and `or` of conditions."""
    return Expr(
        f"({a.text} {op} {b.text})",
        bool_,
        lambda env: bool(a.value(env) and b.value(env)) if op == "and" else bool(a.value(env) or b.value(env)),
    )


# ---------------------------------------------------------------------- strategies
LITERALS = st.one_of(st.integers(0, 7), st.sampled_from([100, 0.5, 0.1, 3.0, 1e-3, 100.5, 1024.0, 2147483000.0])).map(
    literal
)


@st.composite
def expressions(draw: st.DrawFn, variables: tuple[Expr, ...], depth: int = 4) -> Expr:
    """An expression of numbers or bools, of these variables."""
    if depth == 0 or draw(st.integers(0, 9)) == 0:
        return draw(st.sampled_from(variables))
    smaller = expressions(variables, depth - 1)
    kind = draw(st.sampled_from(["binary"] * 6 + ["literal"] * 3 + ["unary", "cast", "conditional", "compare", "and"]))
    a = draw(smaller)
    made: Expr | None
    if kind == "binary":
        made = binary(draw(st.sampled_from((*ARITHMETIC, "+", "-", "*", "*", *BITWISE, *SHIFTS))), a, draw(smaller))
    elif kind == "literal":
        pair = [a, draw(LITERALS)]
        made = binary(
            draw(st.sampled_from((*ARITHMETIC, "+", "*", *SHIFTS, *COMPARISONS))),
            *(pair if draw(st.booleans()) else pair[::-1]),
        )
    elif kind == "unary":
        made = unary(draw(st.sampled_from(["-", "~", "not"])), a)
    elif kind == "cast":
        made = cast(draw(st.sampled_from(NUMBERS)), a)
    elif kind == "conditional":
        made = conditional(draw(smaller), a, draw(smaller))
    elif kind == "compare":
        made = binary(draw(st.sampled_from(list(COMPARISONS))), a, draw(smaller))
    else:
        left, right = (x if x.dtype is bool_ else unary("not", x) for x in (a, draw(smaller)))
        made = chosen(draw(st.sampled_from(["and", "or"])), left, right)  # type: ignore[arg-type]
    return made or a


@dataclass(frozen=True)
class Program:
    """Lines of a kernel's body and what they leave in the outputs, each an expression of the inputs."""

    inputs: tuple[Expr, ...]
    lines: tuple[str, ...]
    outputs: tuple[Expr, ...]

    @property
    def source(self) -> str:
        params = [f"{v.text[:-3]}: In[{v.dtype!r}]" for v in self.inputs]
        params += [f"o{k}: Out[{e.dtype!r}]" for k, e in enumerate(self.outputs)]
        head = f"@kernel\ndef k({', '.join(params)}):\n    i = grid(1)\n    if i < {self.inputs[0].text[:-3]}.size:\n"
        return head + "".join(f"        {line}\n" for line in self.lines)


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Two to four inputs, named sub-expressions, a loop, and outputs."""
    dtypes = draw(st.lists(st.sampled_from(NUMBERS), min_size=2, max_size=4))
    inputs = tuple(variable(f"x{k}[i]", dtype) for k, dtype in enumerate(dtypes))
    known, lines = inputs, []
    for k in range(draw(st.integers(0, 2))):  # a name hides the product in it
        made = draw(expressions(known, 2))
        lines.append(f"v{k} = {made.text}")
        known = (*known, Expr(f"v{k}", made.dtype, made.value))
    if draw(st.booleans()):
        dtype, turns = draw(st.sampled_from(NUMBERS)), draw(st.integers(0, 4))
        inner = (*known, variable("acc", dtype), variable("j", i32))
        step = cast(dtype, draw(expressions(inner, 2)))
        lines += [f"acc = {dtype!r}(1)", f"for j in range({turns}):", f"    acc = {step.text}"]

        def loop(env: Env) -> Any:
            acc: Any = 1.0 if dtype.is_float else 1
            for j in range(turns):
                acc = step.value({**env, "acc": acc, "j": j})
            return acc

        known = (*known, Expr("acc", dtype, loop))
    outputs = tuple(draw(expressions(known)) for _ in range(draw(st.integers(1, 3))))
    lines += [f"o{k}[i] = {made.text}" for k, made in enumerate(outputs)]
    return Program(inputs, tuple(lines), outputs)


@st.composite
def sums(draw: st.DrawFn, variables: tuple[Expr, ...], depth: int = 3) -> Expr:
    """Sums and differences of products of floats, where it shows what fuses."""
    if depth == 0:
        return draw(st.sampled_from(variables))
    smaller = sums(variables, depth - 1)
    a, b = draw(smaller), draw(smaller)
    kind = draw(st.sampled_from(["+", "-", "+", "-", "*", "*", "*", "neg", "if", "cast"]))
    made: Expr | None
    if kind == "neg":
        made = unary("-", a)
    elif kind == "if":
        made = conditional(binary("<", a, b), a, b)  # type: ignore[arg-type]
    elif kind == "cast":
        made = cast(draw(st.sampled_from(FLOATS)), a)
    else:
        made = binary(kind, a, draw(LITERALS) if draw(st.integers(0, 4)) == 0 else b)
    return made or a


@st.composite
def float_programs(draw: st.DrawFn) -> Program:
    """Three floats, a named sub-expression, and outputs."""
    inputs = tuple(variable(f"x{k}[i]", draw(st.sampled_from((f16, bf16, f32, f32, f64)))) for k in range(3))
    named = draw(sums(inputs, 2))
    known = (*inputs, Expr("v", named.dtype, named.value))
    outputs = tuple(draw(sums(known)) for _ in range(3))
    lines = [f"v = {named.text}", *(f"o{k}[i] = {made.text}" for k, made in enumerate(outputs))]
    return Program(inputs, tuple(lines), outputs)


def corners(program: Program, seed: int) -> list[np.ndarray]:
    """Inputs: corner values of each type in random company."""
    rng = np.random.default_rng(seed)
    return [rng.choice(values(v.dtype), COUNT) for v in program.inputs]


def ordinary(program: Program, seed: int) -> list[np.ndarray]:
    """Inputs: numbers with all their bits."""
    rng = np.random.default_rng(seed)
    return [rng.normal(0, 3, COUNT).astype(v.dtype.numpy) for v in program.inputs]


def check(program: Program, xs: list[np.ndarray], device: kaio.Device | None = None) -> None:
    note(program.source)
    results = run(
        kernel(program.source), xs, [e.dtype for e in program.outputs], device=device, check=None if device else "off"
    )
    for k in range(COUNT):
        env = {v.text: x[k].item() for v, x in zip(program.inputs, xs, strict=True)}
        for made, got in zip(program.outputs, results, strict=True):
            want = made.value(env)
            assert same(got[k].item(), want), f"{made.text} with {env} = {want!r}, not {got[k].item()!r}"


def same(got: Any, want: Any) -> bool:
    """Equal to the bit, but for the sign and payload of NaN."""
    if isinstance(want, float):
        return (math.isnan(got) and math.isnan(want)) or (
            got == want and math.copysign(1, got) == math.copysign(1, want)
        )
    return bool(got == want)


@given(programs(), st.integers(0, 2**16))
@pytest.mark.filterwarnings("ignore::kaio.PrecisionWarning", "ignore::RuntimeWarning")
def test_random_programs_give_what_the_rules_say(program, seed):
    check(program, corners(program, seed))


@given(float_programs(), st.integers(0, 2**16))
@pytest.mark.filterwarnings("ignore::kaio.PrecisionWarning", "ignore::RuntimeWarning")
def test_products_fuse_where_they_are_added_and_nowhere_else(program, seed):
    check(program, ordinary(program, seed))


@pytest.mark.gpu
@settings(max_examples=40)
@given(programs(), st.integers(0, 2**16))
@pytest.mark.filterwarnings("ignore::kaio.PrecisionWarning", "ignore::RuntimeWarning")
def test_random_programs_give_the_same_on_a_gpu(program, seed):
    check(program, corners(program, seed), kaio.Device("cuda:0"))
