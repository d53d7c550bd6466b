"""Whatever is written in a kernel, reading it gives a signature or a `KaioError`, and nothing else."""

from __future__ import annotations

import ast
import itertools
import linecache
import textwrap
import types
import typing
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kaio
from kaio.dsl.compiler.check import check, check_specialisation, read_kernel
from kaio.dsl.compiler.parse import parse
from kaio.errors import KaioError

KERNELS = """
def saxpy(x: In[f32], y: InOut[f32], a: f32 = 2.0) -> None:
    i = kaio.grid(1)
    if i < y.size:
        y[i] = a * x[i] + y[i]

def reduce(x: In[T, D2], out: Out[T], n: i32, FLAG: Const[bool] = True, *, by: Const[DType] = f32):
    total = 0.0
    for k in range(0, n, 2):
        if FLAG and k > 3:
            total += x[k, 0] if k % 2 == 0 else -x[k, -1]
        elif k is None:
            continue
        else:
            break
    while True:
        n //= 2
        if not n > 1 <= 7:
            break
    out[0] = T(total)
    assert n > 0, "text"
    kaio.bar_sync()

def swap(x: "InOut[i32]", y: "In[i32]", /, n: kaio.u8 = 3):
    a, (b, c) = x[0], (1, 2)
    a, b = b, helper(a, n=c)
    x[a] = x[b] = min(a, abs(b)) << 2 | ~c
    return
"""

ODDITIES = r"""
[1, 2]; {1: 2}; {3}; (v := 4); f"{n}"; "text"; b"bytes"; 1j; ...; None; True; -0.0; 10**400; lambda q: q; f(*x)
x[1:2]; x[None]; x[...]; x[()]; [q for q in x]; {q for q in x}; {q: q for q in x}; (q for q in x); kaio.gird; kaio.grid
thread_idx.w; x.szie; x @ y; x is y; x in (1, 2); x not in range(1, 2); print(x); sum(x, *y, **n); nothing; In[float]
np.float32; In[f32, 2]; Const[str]; "In[f23]"; "1 +"; T; U; list[int]; (yield); (yield from x); 1 if x else 2; x == 1
raise x; try: x\nexcept E as e: y; with x as z: z; del x; import math; from math import *; global g; nonlocal kaio
def inner(a, *b, **c): return a; class C: q = 1; match x:\n case [1, *r]: y = r\n case {"k": v, **s}: y\n case _: pass
for q in range(3): pass\nelse: q; while q: q\nelse: q; for p, q in x: pass; for x[0] in range(3): pass; x: f32 = 3
async def g(): await x; return x; break; continue; x.y = 3; x[0], *r = y; r = s = t = 0; q += 1; assert f"{x}", f"{y}"
"""


def pieces() -> tuple[list[ast.expr], list[ast.stmt]]:
    """Parts to build programs of: those of the kernels, and oddities."""
    expressions: list[ast.expr] = []
    statements: list[ast.stmt] = []
    for text in ODDITIES.replace("\n", "; ").split("; "):
        source = text.replace("\\n", "\n")
        if source.strip():
            statements += ast.parse(f"async def f():\n{textwrap.indent(source, ' ')}").body[0].body  # type: ignore[attr-defined]
    for node in [*statements, *ast.parse(KERNELS).body]:
        statements += [n for n in ast.walk(node) if isinstance(n, ast.stmt) and n is not node]
        expressions += [
            n for n in ast.walk(node) if isinstance(n, ast.expr) and isinstance(getattr(n, "ctx", ast.Load()), ast.Load)
        ]
    return expressions, statements


EXPRESSIONS, STATEMENTS = pieces()
NUMBERS = itertools.count()


class Mutate(ast.NodeTransformer):
    """Replaces some expressions and statements by others."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.left = draw(st.integers(1, 4))

    def visit(self, node: ast.AST) -> Any:
        is_part = isinstance(node, ast.expr | ast.stmt) and not isinstance(node, ast.FunctionDef)
        if is_part and self.left and self.draw(st.integers(0, 12)) == 0:
            self.left -= 1
            if isinstance(node, ast.stmt):
                return self.draw(st.sampled_from(STATEMENTS))
            if isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
                return self.draw(st.sampled_from(EXPRESSIONS))
        return self.generic_visit(node)


@st.composite
def programs(draw: st.DrawFn) -> str:
    """The text of a function `k` that Python accepts or not."""
    tree = draw(st.sampled_from(ast.parse(KERNELS).body))
    tree = Mutate(draw).visit(ast.parse(ast.unparse(tree)).body[0])
    assert isinstance(tree, ast.FunctionDef)
    tree.name = "k"
    text = ast.unparse(ast.fix_missing_locations(tree))
    future = draw(st.sampled_from(["", "from __future__ import annotations\n"]))
    return future + text + "\n"


def define(text: str) -> Any:
    """The function of a text, or None where Python itself refuses it."""
    file = f"<fuzz {next(NUMBERS)}>"
    space: dict[str, Any] = {
        **{name: getattr(kaio, name) for name in kaio.__all__},
        "T": typing.TypeVar("T", kaio.f32, kaio.f64),
        "U": typing.TypeVar("U"),
        "kaio": kaio,
        "np": np,
        "helper": lambda a, n: a,
    }
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(compile(text, file, "exec", dont_inherit=True), space)
    except Exception:  # a SyntaxError, or an annotation or default that Python evaluates
        return None
    return space["k"]


def refusal(call: Callable[..., Any], *arguments: Any) -> KaioError | None:
    """The error that kaio gives, or None; every other exception comes through."""
    try:
        call(*arguments)
    except KaioError as error:
        return error
    return None


SLOW = [HealthCheck.too_slow, HealthCheck.filter_too_much]


@given(programs())
@settings(suppress_health_check=SLOW, deadline=None)
def test_any_program_is_read_or_refused_with_a_kaio_error(text: str) -> None:
    function = define(text)
    if function is None:
        return
    error = refusal(read_kernel, function)
    if error is not None:
        lines = [mistake.place.line for mistake in error.mistakes if mistake.place]
        assert lines == sorted(lines)
        assert str(error).count("\n\n") == len(error.mistakes) - 1
        return
    source, signature = read_kernel(function)
    assert str(source).startswith("k, <fuzz")
    assert str(signature).startswith("k(")
    for flag in (True, False):
        known = {"FLAG": flag, "T": kaio.f32, "by": kaio.f64}
        later = refusal(check_specialisation, function, source, signature, known)
        assert later is None or "set" in str(later)


@given(programs())
@settings(suppress_health_check=SLOW, deadline=None)
def test_any_device_function_is_read_or_refused_with_a_kaio_error(text: str) -> None:
    function = define(text)
    if isinstance(function, types.FunctionType):
        error = refusal(lambda: check(function, parse(function), None))
        assert error is None or error.mistakes
