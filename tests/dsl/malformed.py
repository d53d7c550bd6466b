"""Malformed kernels: those of the examples and the demo with mistakes made at random, as a hand makes them.

A mutation works on the tree (another expression, a missing argument, a wrong index) or on the text (a token lost or
doubled, two lines swapped, a wrong indentation). What Python itself refuses is no matter of kaio's.
"""

from __future__ import annotations

import ast
import contextlib
import io
import linecache
import random
import tokenize
import traceback
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import kaio
from kaio.dsl.types import ConstAnnotation
from tests.dsl.programs import Program, programs_of_records

TARGETS = ("cpu", "sm_90")

Random = random.Random


# --- mistakes in the text ---------------------------------------------------------------------------------------------


def _tokens(text: str) -> list[tokenize.TokenInfo]:
    kinds = (tokenize.NAME, tokenize.OP, tokenize.NUMBER)
    return [t for t in tokenize.generate_tokens(io.StringIO(text).readline) if t.type in kinds]


def _replace(text: str, token: tokenize.TokenInfo, new: str) -> str:
    lines = text.splitlines()
    row = token.start[0] - 1
    lines[row] = lines[row][: token.start[1]] + new + lines[row][token.end[1] :]
    return "\n".join(lines)


def _words(text: str) -> list[str]:
    return text.split()


OPERATORS = _words("+ - * / // % ** @ & | ^ << >> < <= > >= == != and or is in = += -= *= //= <<= . , :")
NUMBERS = _words("0 1 -1 2 3 7 31 32 255 256 1000000 2147483647 2147483648 1e10 0.5 1e400 1j 99999999999999999999999")
NAMES = _words("x y i n None True f32 u8 i64 u64 f64 bool_ kaio math int float range min abs len np self T print sum")


def lose_a_token(rng: Random, text: str) -> str:
    return _replace(text, rng.choice(_tokens(text)), " ")


def double_a_token(rng: Random, text: str) -> str:
    token = rng.choice(_tokens(text))
    return _replace(text, token, f"{token.string} {token.string}")


def swap_two_tokens(rng: Random, text: str) -> str:
    tokens = _tokens(text)
    k = rng.randrange(len(tokens) - 1)
    first, second = tokens[k], tokens[k + 1]
    return _replace(_replace(text, second, f" {first.string} "), first, f" {second.string} ")


def another_operator(rng: Random, text: str) -> str:
    tokens = [t for t in _tokens(text) if t.string in OPERATORS]
    return _replace(text, rng.choice(tokens), f" {rng.choice(OPERATORS)} ") if tokens else text


def another_number(rng: Random, text: str) -> str:
    tokens = [t for t in _tokens(text) if t.type == tokenize.NUMBER]
    return _replace(text, rng.choice(tokens), rng.choice(NUMBERS)) if tokens else text


def another_name(rng: Random, text: str) -> str:
    tokens = [t for t in _tokens(text) if t.type == tokenize.NAME]
    token = rng.choice(tokens)
    others = [t.string for t in tokens]
    return _replace(text, token, rng.choice([*others, *NAMES]))


def a_slip_in_a_name(rng: Random, text: str) -> str:
    token = rng.choice([t for t in _tokens(text) if t.type == tokenize.NAME and len(t.string) > 1])
    k = rng.randrange(len(token.string))
    return _replace(text, token, token.string[:k] + token.string[k + 1 :])


def lose_a_line(rng: Random, text: str) -> str:
    lines = text.splitlines()
    del lines[rng.randrange(len(lines))]
    return "\n".join(lines)


def double_a_line(rng: Random, text: str) -> str:
    lines = text.splitlines()
    k = rng.randrange(len(lines))
    return "\n".join([*lines[:k], lines[k], *lines[k:]])


def swap_two_lines(rng: Random, text: str) -> str:
    lines = text.splitlines()
    k = rng.randrange(len(lines) - 1)
    lines[k], lines[k + 1] = lines[k + 1], lines[k]
    return "\n".join(lines)


def indent_otherwise(rng: Random, text: str) -> str:
    lines = text.splitlines()
    k = rng.randrange(len(lines))
    lines[k] = "    " + lines[k] if rng.random() < 0.5 else lines[k].removeprefix("    ")
    return "\n".join(lines)


# --- mistakes in the tree ---------------------------------------------------------------------------------------------

EXPRESSIONS = """
None; True; False; 0; -1; 0.5; 100000000000000000000; 1e400; 'text'; (); (1, 2); [1]; {}; ...; 1j; b'b'; math.pi; f32
kaio.grid(1); kaio.grid(2); kaio.grid(4); kaio.thread_idx; kaio.thread_idx.x; kaio.block_dim.y; range(3); lambda v: v
kaio.shared_mem(4, f32); kaio.local_mem((2, 2), kaio.i32); kaio.bar_sync(); kaio.nothing; math.floor(0.5); 1 / 0; 1 // 0
f32(1); kaio.u64(1); kaio.i64(-1); kaio.bool_(1); kaio.u8(300); min(1); max(1, 2.5); abs(True); round(2.5, 1); len(())
2 ** -1; 1 << 99; -1 >> 1; 3 if 1 else 2.5; (1, 2)[0]; (1, 2)[2]; (1, (2, 3)); not 0; ~1.5; -True; 1 < 2 < 3; 5 % 0
1 is None; 1 in (1, 2); 'a' == 'b'; f'{1}'; print(1); int('3'); float('inf'); sum((1, 2)); [k for k in (1, 2)]
""".replace("\n", "; ").split("; ")

STATEMENTS = """
pass; return; return 1; break; continue; raise ValueError; assert False; assert 1, 'no'; del i; import math; global g
x = 1; i = 0.5; i += 1; i = None; i = (1, 2); i, j = 1, 2; i, j = 1; x[0] = 1; i[0] = 1; i.x = 1; kaio.bar_sync()
i: f32 = 1; for i in range(3): pass; for i in 3: pass; while True: pass; while i: i -= 1; if i: j = 1
""".replace("\n", "; ").split("; ")


CALLS = [
    ast.unparse(node)
    for program in programs_of_records()
    for node in ast.walk(ast.parse(program.kernel))
    if isinstance(node, ast.Call)
]
"""Calls of every record that has an example."""


class _Change(ast.NodeTransformer):
    """Changes one node, the `at`-th of those that `change` takes; `change` gives None for those that it leaves."""

    def __init__(self, at: int, change: Callable[[ast.AST], ast.AST | None]) -> None:
        self.at, self.change, self.seen = at, change, 0

    def generic_visit(self, node: ast.AST) -> ast.AST:
        node = super().generic_visit(node)
        if (changed := self.change(node)) is not None:
            self.seen += 1
            if self.seen - 1 == self.at:
                return changed
        return node


def _in_tree(rng: Random, text: str, change: Callable[[ast.AST], ast.AST | None]) -> str:
    try:
        count = _Change(-1, change)
        count.visit(ast.parse(text))
        if count.seen == 0:
            return text
        return ast.unparse(ast.fix_missing_locations(_Change(rng.randrange(count.seen), change).visit(ast.parse(text))))
    except (SyntaxError, ValueError, IndexError):
        return text


def _is_read(node: ast.AST) -> bool:
    return isinstance(node, ast.expr) and isinstance(getattr(node, "ctx", ast.Load()), ast.Load)


def another_expression(rng: Random, text: str) -> str:
    try:
        pool = [ast.unparse(n) for n in ast.walk(ast.parse(text)) if _is_read(n)]
    except SyntaxError:
        pool = []
    others = rng.choice([EXPRESSIONS, CALLS, [*pool, *EXPRESSIONS]])
    new = ast.parse(rng.choice(others), mode="eval").body
    return _in_tree(rng, text, lambda node: new if _is_read(node) else None)


def another_statement(rng: Random, text: str) -> str:
    new = ast.parse(f"while 1:\n    {rng.choice(STATEMENTS)}").body[0].body[0]  # type: ignore[attr-defined]
    is_one = lambda node: isinstance(node, ast.stmt) and not isinstance(node, ast.FunctionDef)  # noqa: E731
    return _in_tree(rng, text, lambda node: new if is_one(node) else None)


def other_arguments(rng: Random, text: str) -> str:
    def change(node: ast.AST) -> ast.AST | None:
        if not isinstance(node, ast.Call):
            return None
        args = list(node.args)
        match rng.randrange(4):
            case 0 if args:
                args.pop()
            case 1:
                args.append(ast.Constant(1))
            case 2 if len(args) > 1:
                args.reverse()
            case _:
                return ast.Call(node.func, args, [ast.keyword("axis", ast.Constant(0))])
        return ast.Call(node.func, args, node.keywords)

    return _in_tree(rng, text, change)


def another_index(rng: Random, text: str) -> str:
    indices = _words("0 -1 1.5 () (0,) (0,0) (0,0,0) None True 'a' 10**9 i ...")

    def change(node: ast.AST) -> ast.AST | None:
        if not isinstance(node, ast.Subscript):
            return None
        return ast.Subscript(node.value, ast.parse(rng.choice(indices), mode="eval").body, node.ctx)

    return _in_tree(rng, text, change)


def another_annotation(rng: Random, text: str) -> str:
    kinds = (
        "kaio.In[kaio.f32]", "kaio.Out[kaio.u8]", "kaio.InOut[kaio.i64, kaio.D2]", "kaio.Const[int]", "kaio.i32",
        "kaio.f64", "int", "float", "'In[f32]'", "kaio.bool_", "kaio.In", "kaio.Const[float]",
    )  # fmt: skip

    def change(node: ast.AST) -> ast.AST | None:
        return ast.arg(node.arg, ast.parse(rng.choice(kinds), mode="eval").body) if isinstance(node, ast.arg) else None

    return _in_tree(rng, text, change)


MUTATIONS = (
    lose_a_token, double_a_token, swap_two_tokens, another_operator, another_number, another_name, a_slip_in_a_name,
    lose_a_line, double_a_line, swap_two_lines, indent_otherwise, another_expression, another_expression,
    another_expression, another_statement, other_arguments, another_index, another_annotation,
)  # fmt: skip


def malformed(rng: Random, program: Program) -> str:
    """The program with one to three mistakes."""
    text = program.kernel
    for _ in range(rng.choice((1, 1, 2, 3))):
        with contextlib.suppress(tokenize.TokenError, SyntaxError, IndexError, ValueError):  # beyond reading by now
            text = rng.choice(MUTATIONS)(rng, text)
    return program.text(text)


# --- what becomes of them ---------------------------------------------------------------------------------------------


def outcome(text: str, file: str) -> str:
    """What becomes of a program: ``compiled``, ``refused``, ``python`` where Python refuses it, else what is wrong."""
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    space: dict[str, Any] = {"__name__": "malformed"}
    if _takes_python_forever(text):
        return "python"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            exec(compile(text, file, "exec", dont_inherit=True), space)
            made = [value for value in space.values() if isinstance(value, kaio.Kernel)]
            for kernel in made:
                _compile(kernel)
            return "compiled" if made else "python"
        except Exception as problem:
            return "python" if _is_python_s(problem, file) else _verdict(problem)
        finally:
            del linecache.cache[file]


def _takes_python_forever(text: str) -> bool:
    """Whether a power or shift stands where Python itself computes it: in an annotation, a default, a decorator."""
    try:
        functions = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    except (SyntaxError, ValueError):
        return False
    outside = [part for f in functions for part in (f.args, f.returns, *f.decorator_list) if part is not None]
    return any(isinstance(node, ast.Pow | ast.LShift) for part in outside for node in ast.walk(part))


def _is_python_s(problem: BaseException, file: str) -> bool:
    """Whether Python refused the text, or running what stands around the kernel (an annotation, a decorator)."""
    if isinstance(problem, SyntaxError):
        return problem.filename == file
    frames = traceback.extract_tb(problem.__traceback__)
    return any(frame.filename == file for frame in frames) and all(frame.name != "read_kernel" for frame in frames)


def _verdict(problem: Exception) -> str:
    if not isinstance(problem, kaio.KaioError) or isinstance(problem, kaio.InternalError):
        return f"{type(problem).__name__}: {problem}"
    if not all(mistake.place and mistake.place.line for mistake in problem.mistakes):
        return f"no line: {problem}"
    if any("numba" in mistake.what.lower() for mistake in problem.mistakes):
        return f"Numba's: {problem}"
    return "refused"


def _compile(kernel: kaio.Kernel) -> None:
    """For both machines, with some value for each constant and type variable."""
    given: dict[str, Any] = {}
    for param in kernel.signature.params:
        annotation = param.annotation
        if isinstance(annotation, ConstAnnotation):
            given[param.name] = {int: 3, float: 0.5, bool: True}.get(annotation.of, kaio.f32)
        elif isinstance(annotation.dtype, TypeVar):
            given[annotation.dtype.__name__] = annotation.dtype.__constraints__[0]
    for target in TARGETS:
        kernel.compile(target, **given)
