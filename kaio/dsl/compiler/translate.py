"""Python bytecode to IR, by the front end of Numba's CUDA target. The only file that imports Numba.

Numba reads the bytecode and builds the control-flow graph; what comes out is kaio's own IR, with places in the user's
source, which `simplify` brings to SSA. `Const` parameters become constants, and branches that they decide are dropped
before anything is typed.

Used of numba-cuda (pinned by tests/dsl/compiler/test_translate.py): `FunctionIdentity`, `ByteCode`,
`CUDABytecodeInterpreter` (with `_dispatch` and `loc`), the classes of `numba.cuda.core.ir`, and the offset by which it
shifts bytecode.
"""

from __future__ import annotations

import ast
import builtins
import dis
import itertools
import operator
import types
import warnings
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeVar

from numba.cuda.compiler import CUDABytecodeInterpreter  # type: ignore[attr-defined]
from numba.cuda.core import bytecode, errors
from numba.cuda.core import ir as nir
from numba.cuda.errors import UnsupportedBytecodeError  # type: ignore[attr-defined]

from kaio.dsl import symbols
from kaio.dsl.compiler import ir
from kaio.dsl.compiler.as_written import as_written
from kaio.dsl.compiler.captures import Capture
from kaio.dsl.compiler.fields_set import into_element, set_field
from kaio.dsl.compiler.simplify import simplify
from kaio.dsl.compiler.unroll import unroll
from kaio.errors import KernelSyntaxError, Place
from kaio.source import Source

__all__ = ["Translated", "translate"]

_BINARY = {function: symbol for symbol, function in symbols.BINARY.items()}
_UNARY = {function: symbol for symbol, function in symbols.UNARY.items()}


@dataclass(frozen=True)
class Translated:
    """A function in SSA form, and what it captured from outside."""

    function: ir.Function
    captures: tuple[Capture, ...]

    def __str__(self) -> str:
        return str(self.function)


def translate(
    function: types.FunctionType,
    source: Source,
    consts: Mapping[str, Any],
    dtypes: Mapping[str, Any] = MappingProxyType({}),
) -> Translated:
    """Turn a Python function into SSA.

    `consts` are the values of its `Const` parameters, `dtypes` what the TypeVars of a generic kernel stand for.
    """
    function = as_written(function, source)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", errors.NumbaWarning)
        func_ir = _interpret(function, source)
    reader = _Reader(function, source, consts, dtypes)
    blocks = {label: reader.block(label, block) for label, block in func_ir.blocks.items()}
    translated = ir.Function(source.name, tuple(func_ir.arg_names), simplify(unroll(blocks)), source)
    return Translated(translated, tuple(reader.captures.values()))


def _in_fixed_order(body: list[ir.Statement]) -> tuple[ir.Statement, ...]:
    """Numba hands the values on a stack over at the end of a block in an order that differs from run to run."""
    copies: list[ir.Assign] = []
    while body and isinstance(last := body[-1], ir.Assign) and isinstance(last.op, ir.Copy) and last.target[0] == "$":
        copies.append(last)
        body = body[:-1]
    depend = {s.target for s in copies} & {name for s in copies for name in ir.operands(s.op)}
    return (*body, *(copies[::-1] if depend else sorted(copies, key=lambda s: s.target)))


class _Loc(nir.Loc):
    place: Place


class _Interpreter(CUDABytecodeInterpreter):
    """Gives every statement the stretch of source that its bytecode came from."""

    loc: Any
    source: Source
    positions: list[tuple[int | None, int | None, int | None, int | None]]
    headers: dict[tuple[int | None, int | None], ast.expr]
    truths: frozenset[int]
    copies: bool
    spreads: bool

    def op_TO_BOOL(self, inst: Any, val: str, res: str) -> Any:
        """Numba takes it for a copy, which it is where a jump or `not` follows; of `not not x` it is all there is."""
        if inst.offset - bytecode._FIXED_OFFSET not in self.truths:
            return self.store(self.get(val), res)
        once = f"$not{inst.offset}"
        self.store(nir.Expr.unary("not", value=self.get(val), loc=self.loc), once)
        return self.store(nir.Expr.unary("not", value=self.get(once), loc=self.loc), res)

    def interpret(self, bytecode: Any) -> Any:
        operations = {instruction.opname for instruction in bytecode}
        self.copies = not operations.isdisjoint(("COPY", "DUP_TOP"))
        self.spreads = "CALL_FUNCTION_EX" in operations
        return super().interpret(bytecode)

    def post_process(self, peepholes: Any, func_ir: Any) -> Any:
        """Numba's rewrites serve `try`, `with` and calls of many arguments; kernels have only these."""
        return super().post_process(peepholes, func_ir) if self.spreads else func_ir

    def _dispatch(self, inst: Any, kws: Any) -> Any:
        position = (inst.offset - bytecode._FIXED_OFFSET) // 2
        if 0 <= position < len(self.positions):
            line, end_line, column, end_column = self.positions[position]
            self.loc = _Loc(self.loc.filename, line or self.loc.line, column)
            # In some versions of Python the test of an `if` stands where the `if` does.
            header = self.headers.get((line, column))
            place = self.source.place_at(line, column, end_line, end_column)
            self.loc.place = place if header is None else self.source.place(header)
        return super()._dispatch(inst, kws)

    def _remove_unused_temporaries(self) -> None:
        """Give a value the name of the variable that it is stored in, where that is all that is done with it.

        Numba's own takes for granted that a value which is stored is not read again, and `(n := x[i]) > 2` reads it.
        """
        block: Any = self.current_block
        reads = Counter[str]()
        if self.copies:  # else what is on the stack is read once
            reads.update(v.name for s in block.body for v in s.list_vars())
            reads.subtract(s.target.name for s in block.body if isinstance(s, nir.Assign))
        body: list[Any] = []
        for statement in block.body:
            if isinstance(statement, nir.Assign):
                target, value = statement.target, statement.value
                if target.is_temp and target.name in self.assigner.unused_dests:
                    continue
                if body and self._is_only_stored(body[-1], target, value) and reads[value.name] <= 1:
                    body[-1].target = target
                    continue
            body.append(statement)
        block.body = body

    def _is_only_stored(self, before: Any, target: Any, value: Any) -> bool:
        """Whether the statement before makes the temporary that is stored now; `i += 1` stays two statements."""
        is_made_before = isinstance(before, nir.Assign) and isinstance(value, nir.Var) and before.target is value
        return is_made_before and value.is_temp and not self._var_used_in_binop(target.name, before.value)


def _interpret(function: types.FunctionType, source: Source) -> Any:
    identity = bytecode.FunctionIdentity.from_function(function)
    interpreter = _Interpreter(identity)
    interpreter.source, interpreter.positions = source, list(function.__code__.co_positions())
    interpreter.headers = {
        (node.lineno, node.col_offset): node.iter if isinstance(node, ast.For) else node.test
        for node in ast.walk(source.node)
        if isinstance(node, ast.If | ast.While | ast.For)
    }
    interpreter.truths = _truths(function.__code__)
    try:
        return interpreter.interpret(bytecode.ByteCode(identity))
    except (errors.NumbaError, UnsupportedBytecodeError, NotImplementedError) as problem:
        place = getattr(interpreter.loc, "place", None) or source.place(source.node)
        raise KernelSyntaxError(
            "this part of Python cannot be used in a kernel",
            place=place,
            help="write it another way",
        ) from problem


def _truths(code: types.CodeType) -> frozenset[int]:
    """Where a value is made a bool that is kept (Python 3.13): neither a jump nor `not` comes next."""
    if "TO_BOOL" not in dis.opmap:
        return frozenset()
    found = [i for i in dis.get_instructions(code) if i.opname not in ("CACHE", "EXTENDED_ARG", "NOP")]
    takers = ("POP_JUMP_IF_FALSE", "POP_JUMP_IF_TRUE", "UNARY_NOT")
    pairs = itertools.pairwise(found)
    return frozenset(i.offset for i, after in pairs if i.opname == "TO_BOOL" and after.opname not in takers)


class _Reader:
    """Reads Numba's statements, one block at a time."""

    def __init__(
        self, function: types.FunctionType, source: Source, consts: Mapping[str, Any], dtypes: Mapping[str, Any]
    ) -> None:
        self.function, self.source, self.consts, self.dtypes = function, source, consts, dtypes
        self.captures: dict[tuple[str, str], Capture] = {}

    def place(self, statement: Any) -> Place:
        found = getattr(statement.loc, "place", None)
        return found if found is not None else self.source.place_at(statement.loc.line, None)

    def block(self, label: int, block: Any) -> ir.Block:
        body: list[ir.Statement] = []
        for statement in block.body[:-1]:
            match statement:
                case nir.Assign():
                    body.append(ir.Assign(statement.target.name, self.op(statement), self.place(statement)))
                case nir.SetItem():
                    names = statement.target.name, statement.index.name, statement.value.name
                    made = ir.SetItem(*names, self.place(statement))
                    body.append(into_element(made, body))
                case nir.SetAttr():
                    body.append(
                        set_field(
                            statement.target.name, statement.attr, statement.value.name, body, self.place(statement)
                        )
                    )
                case nir.Del():
                    pass
                case _:
                    raise KernelSyntaxError(f"`{statement}` cannot be used in a kernel", place=self.place(statement))
        terminator = self.terminator(block.body[-1], body)
        return ir.Block(label, () if isinstance(terminator, ir.Fail) else _in_fixed_order(body), terminator)

    def terminator(self, statement: Any, body: list[ir.Statement]) -> ir.Terminator:
        place = self.place(statement)
        match statement:
            case nir.Jump():
                return ir.Jump(statement.target, place)
            case nir.Branch():
                return ir.Branch(statement.cond.name, statement.truebr, statement.falsebr, place)
            case nir.Return():
                return ir.Return(statement.value.name, place)
            case nir.Raise() | nir.StaticRaise() | nir.DynamicRaise():
                constants = [s.op.value for s in body if isinstance(s, ir.Assign) and isinstance(s.op, ir.Constant)]
                texts = [value for value in constants if isinstance(value, str)]
                return ir.Fail(texts[-1] if texts else "", place)
        raise KernelSyntaxError(f"`{statement}` cannot be used in a kernel", place=place)

    def op(self, assign: Any) -> ir.Op:
        value = assign.value
        match value:
            case nir.Arg():
                name = value.name
                return ir.Constant(self.consts[name], name) if name in self.consts else ir.Argument(name)
            case nir.Const():
                return ir.Constant(value.value)
            case nir.Global():
                return ir.Constant(self.captured("global", value.name, value.value, self.place(assign)))
            case nir.FreeVar():
                return ir.Constant(self.captured("closure", value.name, value.value, self.place(assign)))
            case nir.Var():
                return ir.Copy(value.name)
            case nir.Expr():
                return self.expression(value, assign)
        raise KernelSyntaxError(f"`{value}` cannot be used in a kernel", place=self.place(assign))

    def captured(self, kind: str, name: str, value: Any, place: Place) -> Any:
        if isinstance(value, TypeVar) and value.__name__ in self.dtypes:
            return self.dtypes[value.__name__]
        if value is nir.UNDEFINED:
            raise KernelSyntaxError(f"`{name}` is not defined any more", place=place)
        if kind == "global" and name not in self.function.__globals__ and hasattr(builtins, name):
            self.captures[kind, name] = Capture(self.function.__globals__, name, None)
            return value
        if kind == "global":
            self.captures[kind, name] = Capture(self.function.__globals__, name, value)
        else:
            cell = dict(zip(self.function.__code__.co_freevars, self.function.__closure__ or (), strict=False)).get(
                name
            )
            if cell is not None:
                self.captures[kind, name] = Capture(cell, name, value)
        return value

    def expression(self, e: Any, assign: Any) -> ir.Op:
        match e.op:
            case "binop" | "inplace_binop":
                fn = e.fn if e.op == "binop" else e.immutable_fn
                if fn is operator.contains:
                    return ir.Binary("in", e.rhs.name, e.lhs.name)
                if fn in _BINARY:
                    return ir.Binary(_BINARY[fn], e.lhs.name, e.rhs.name)
            case "unary":
                fn = getattr(operator, e.fn) if isinstance(e.fn, str) else e.fn
                return ir.Unary(_UNARY[fn], e.value.name)
            case "call" if e.vararg is None and getattr(e, "varkwarg", None) is None:
                return ir.Call(e.func.name, tuple(a.name for a in e.args), tuple((k, v.name) for k, v in e.kws))
            case "getattr":
                return ir.Attribute(e.value.name, e.attr)
            case "getitem":
                return ir.GetItem(e.value.name, e.index.name)
            case "build_tuple":
                return ir.Tuple(tuple(item.name for item in e.items))
            case "exhaust_iter":
                return ir.Unpack(e.value.name, e.count)
            case "static_getitem":  # of an unpacked tuple
                return (
                    ir.GetItem(e.value.name, e.index_var.name)
                    if e.index_var is not None
                    else ir.Item(e.value.name, e.index)
                )
            case "getiter":
                return ir.Iterate(e.value.name)
            case "iternext":
                return ir.Step(e.value.name)
            case "pair_first":
                return ir.StepValue(e.value.name)
            case "pair_second":
                return ir.StepFlag(e.value.name)
            case "cast":
                return ir.Copy(e.value.name)
        raise KernelSyntaxError(
            "this part of Python cannot be used in a kernel", place=self.place(assign), help="write it another way"
        )
