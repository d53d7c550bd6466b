"""Python bytecode to SSA, by the front end of Numba's CUDA target. The only file that imports Numba.

Numba reads the bytecode, builds the control-flow graph and the SSA form; what comes out is kaio's own IR, with places
in the user's source. `Const` parameters become constants, and branches that they decide are dropped before anything is
typed.

Used of numba-cuda (pinned by tests/dsl/compiler/test_translate.py): `FunctionIdentity`, `ByteCode`,
`CUDABytecodeInterpreter` (with `_dispatch` and `loc`), `reconstruct_ssa`, the classes of `numba.cuda.core.ir`, and the
offset by which it shifts bytecode.
"""

from __future__ import annotations

import ast
import builtins
import copy
import operator
import sys
import types
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, TypeVar

from numba.cuda.compiler import CUDABytecodeInterpreter  # type: ignore[attr-defined]
from numba.cuda.core import bytecode, errors
from numba.cuda.core import ir as nir
from numba.cuda.core.ssa import reconstruct_ssa

from kaio.dsl.compiler import ir
from kaio.dsl.compiler.captures import Capture
from kaio.errors import KernelSyntaxError, Place
from kaio.source import Source

__all__ = ["Translated", "translate"]

_BINARY: dict[Any, str] = {
    operator.add: "+", operator.sub: "-", operator.mul: "*", operator.truediv: "/", operator.floordiv: "//",
    operator.mod: "%", operator.pow: "**", operator.lshift: "<<", operator.rshift: ">>", operator.and_: "&",
    operator.or_: "|", operator.xor: "^", operator.eq: "==", operator.ne: "!=", operator.lt: "<", operator.le: "<=",
    operator.gt: ">", operator.ge: ">=", operator.is_: "is", operator.is_not: "is not",
}  # fmt: skip
_UNARY: dict[Any, str] = {operator.neg: "-", operator.pos: "+", operator.invert: "~", operator.not_: "not"}
_UNKNOWN = object()
_GIVEN = object()  # an argument that is there at run time: its value is unknown, but it is not None


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
    function = _as_written(function, source)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", errors.NumbaWarning)
        func_ir = _interpret(function, source)
    reader = _Reader(function, source, consts, dtypes)
    blocks = {label: reader.block(label, block) for label, block in func_ir.blocks.items()}
    blocks = _drop_dead(_decide_branches(blocks, _entry(blocks)))
    params = tuple(name for name in func_ir.arg_names)
    return Translated(
        ir.Function(source.name, params, tuple(_in_order(blocks)), source), tuple(reader.captures.values())
    )


def _as_written(function: types.FunctionType, source: Source) -> types.FunctionType:
    """The function compiled from its source: what runs may have been rewritten (pytest rewrites `assert`)."""
    code = function.__code__
    node = copy.deepcopy(source.node)
    nothing = ast.Constant(None)
    node.args.defaults = [nothing] * len(node.args.defaults)
    node.args.kw_defaults = [default and nothing for default in node.args.kw_defaults]
    for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
        argument.annotation = None
    statement: ast.stmt = ast.Return(node) if isinstance(node, ast.Lambda) else _bare(node)
    closure = ast.arguments([], [ast.arg(name) for name in code.co_freevars], None, [], [], None, [])
    factory = ast.FunctionDef("factory", closure, [statement], [], None)
    if sys.version_info >= (3, 12):
        factory.type_params = []
    module = compile(ast.fix_missing_locations(ast.Module([factory], [])), code.co_filename, "exec", dont_inherit=True)
    inner = _code_inside(_code_inside(module)).replace(co_name=code.co_name)
    cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
    made = types.FunctionType(
        inner,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        tuple(cells[n] for n in inner.co_freevars),
    )
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def _bare(node: ast.FunctionDef) -> ast.FunctionDef:
    # Under another name, since inside the factory its own would be a closure variable that it calls itself by.
    node.name, node.decorator_list, node.returns = "inner", [], None
    if sys.version_info >= (3, 12):
        node.type_params = []
    return node


def _code_inside(code: types.CodeType) -> types.CodeType:
    return next(constant for constant in code.co_consts if isinstance(constant, types.CodeType))


class _Loc(nir.Loc):
    place: Place


class _Interpreter(CUDABytecodeInterpreter):
    """Gives every statement the stretch of source that its bytecode came from."""

    loc: Any
    source: Source
    positions: list[tuple[int | None, int | None, int | None, int | None]]

    def _dispatch(self, inst: Any, kws: Any) -> Any:
        position = (inst.offset - bytecode._FIXED_OFFSET) // 2
        if 0 <= position < len(self.positions):
            line, end_line, column, end_column = self.positions[position]
            self.loc = _Loc(self.loc.filename, line or self.loc.line, column)
            self.loc.place = self.source.place_at(line, column, end_line, end_column)
        return super()._dispatch(inst, kws)


def _interpret(function: types.FunctionType, source: Source) -> Any:
    identity = bytecode.FunctionIdentity.from_function(function)
    interpreter = _Interpreter(identity)
    interpreter.source, interpreter.positions = source, list(function.__code__.co_positions())
    try:
        return reconstruct_ssa(interpreter.interpret(bytecode.ByteCode(identity)))
    except (errors.NumbaError, NotImplementedError) as problem:
        place = getattr(interpreter.loc, "place", None) or source.place(source.node)
        raise KernelSyntaxError(
            f"this part of Python cannot be used in a kernel ({_first_line(problem)})",
            place=place,
            help="write it another way",
        ) from problem


def _first_line(problem: BaseException) -> str:
    lines = [line for line in str(problem).splitlines() if line.strip()]
    return lines[0] if lines else type(problem).__name__


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
                    body.append(ir.SetItem(*names, self.place(statement)))
                case nir.Del():
                    pass
                case _:
                    raise KernelSyntaxError(f"`{statement}` cannot be used in a kernel", place=self.place(statement))
        terminator = self.terminator(block.body[-1], body)
        return ir.Block(label, () if isinstance(terminator, ir.Fail) else tuple(body), terminator)

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
                return ir.Constant(self.consts[value.name]) if value.name in self.consts else ir.Argument(value.name)
            case nir.Const():
                return ir.Constant(value.value)
            case nir.Global():
                return ir.Constant(self.captured("global", value.name, value.value))
            case nir.FreeVar():
                return ir.Constant(self.captured("closure", value.name, value.value))
            case nir.Var():
                return ir.Copy(value.name)
            case nir.Expr():
                return self.expression(value, assign)
        raise KernelSyntaxError(f"`{value}` cannot be used in a kernel", place=self.place(assign))

    def captured(self, kind: str, name: str, value: Any) -> Any:
        if isinstance(value, TypeVar) and value.__name__ in self.dtypes:
            return self.dtypes[value.__name__]
        if kind == "global" and name not in self.function.__globals__ and hasattr(builtins, name):
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
            case "phi":
                incoming = zip(e.incoming_blocks, e.incoming_values, strict=True)
                found = ((label, var.name) for label, var in incoming if var is not nir.UNDEFINED)
                return ir.Phi(tuple(sorted(found)))  # Numba's own order differs from run to run
        raise KernelSyntaxError(
            "this part of Python cannot be used in a kernel", place=self.place(assign), help="write it another way"
        )


# ---------------------------------------------------------------------- branches that constants decide
def _entry(blocks: Mapping[int, ir.Block]) -> int:
    return min(blocks)


def _decide_branches(blocks: dict[int, ir.Block], entry: int) -> dict[int, ir.Block]:
    """Turn branches on constants into jumps, until no more is decided."""
    while True:
        known = _constants(blocks)
        decided = {label: _decided(block, known) for label, block in blocks.items()}
        if decided == blocks:
            return blocks
        blocks = _reachable(decided, entry)


def _decided(block: ir.Block, known: Mapping[str, Any]) -> ir.Block:
    t = block.terminator
    if isinstance(t, ir.Branch) and known.get(t.condition, _GIVEN) is not _GIVEN:
        return replace(block, terminator=ir.Jump(t.true if known[t.condition] else t.false, t.place))
    return block


def _constants(blocks: Mapping[int, ir.Block]) -> dict[str, Any]:
    """Names whose value is known: literals, captured numbers, Const parameters, and what follows from them."""
    known: dict[str, Any] = {}
    for block in blocks.values():
        for statement in block.body:
            if isinstance(statement, ir.Assign):
                value = _evaluate(statement.op, known)
                if value is not _UNKNOWN:
                    known[statement.target] = value
    return known


def _evaluate(op: ir.Op, known: Mapping[str, Any]) -> Any:
    try:
        match op:
            case ir.Constant(value=value):
                return value
            case ir.Argument():
                return _GIVEN
            case ir.Copy(source=name):
                return known.get(name, _UNKNOWN)
            case ir.Binary(op="is" | "is not" as symbol, left=left, right=right) if _GIVEN in (
                known.get(left),
                known.get(right),
            ):
                other = known.get(left) if known.get(right) is _GIVEN else known.get(right)
                return symbol == "is not" if other is None and {left, right} <= known.keys() else _UNKNOWN
            case ir.Unary(op=symbol, operand=name) if known.get(name, _GIVEN) is not _GIVEN:
                return next(fn for fn, s in _UNARY.items() if s == symbol)(known[name])
            case ir.Binary(op=symbol, left=left, right=right) if _GIVEN not in (
                known.get(left, _GIVEN),
                known.get(right, _GIVEN),
            ):
                return next(fn for fn, s in _BINARY.items() if s == symbol)(known[left], known[right])
            case ir.Call(function=function, args=(arg,)) if (
                known.get(function) is bool and known.get(arg, _GIVEN) is not _GIVEN
            ):
                return bool(known[arg])
    except Exception:  # left to inference, which has the place
        return _UNKNOWN
    return _UNKNOWN


def _reachable(blocks: Mapping[int, ir.Block], entry: int) -> dict[int, ir.Block]:
    found: set[int] = set()
    todo = [entry]
    while todo:
        label = todo.pop()
        if label not in found:
            found.add(label)
            todo += blocks[label].targets()
    edges = {(at, to) for at in found for to in blocks[at].targets()}
    return {label: _without_edges(blocks[label], edges) for label in sorted(found)}


def _without_edges(block: ir.Block, edges: set[tuple[int, int]]) -> ir.Block:
    body: list[ir.Statement] = []
    for statement in block.body:
        if isinstance(statement, ir.Assign) and isinstance(statement.op, ir.Phi):
            incoming = tuple((at, name) for at, name in statement.op.incoming if (at, block.label) in edges)
            names = {name for _, name in incoming} - {statement.target}
            entering = sum(1 for at, to in edges if to == block.label)
            op: ir.Op = ir.Copy(names.pop()) if len(names) == 1 and len(incoming) == entering else ir.Phi(incoming)
            statement = replace(statement, op=op)
        body.append(statement)
    body.sort(key=lambda s: not (isinstance(s, ir.Assign) and isinstance(s.op, ir.Phi)))  # stable: phis first
    return replace(block, body=tuple(body))


def _drop_dead(blocks: Mapping[int, ir.Block]) -> dict[int, ir.Block]:
    """Drop what nobody reads: SSA leaves phis of variables that are dead there, and their types need not agree."""
    definitions = {s.target: s for b in blocks.values() for s in b.body if isinstance(s, ir.Assign)}
    known = {name for name, value in _constants(blocks).items() if value is not _GIVEN}
    todo = [name for b in blocks.values() for name in _roots(b, known)]
    live: set[str] = set()
    while todo:
        name = todo.pop()
        if name not in live and name in definitions:
            live.add(name)
            todo += ir.operands(definitions[name].op)
    return {
        label: replace(b, body=tuple(s for s in b.body if not isinstance(s, ir.Assign) or s.target in live))
        for label, b in _reachable(blocks, _entry(blocks)).items()
    }


def _roots(block: ir.Block, known: set[str]) -> Iterable[str]:
    for statement in block.body:
        if isinstance(statement, ir.SetItem):
            yield from (statement.array, statement.index, statement.value)
        elif statement.target not in known and not isinstance(statement.op, ir.Phi | ir.Copy | ir.Argument):
            yield statement.target  # typed even where unused: its mistakes are the user's
    match block.terminator:
        case ir.Branch(condition=name) | ir.Return(value=name):
            yield name


def _in_order(blocks: Mapping[int, ir.Block]) -> list[ir.Block]:
    """Reverse postorder: every name is defined before it is used, and an edge backwards is a loop's."""
    entry, seen, order = _entry(blocks), set[int](), list[ir.Block]()
    stack = [(entry, iter(blocks[entry].targets()))]
    seen.add(entry)
    while stack:
        label, targets = stack[-1]
        for target in targets:
            if target not in seen:
                seen.add(target)
                stack.append((target, iter(blocks[target].targets())))
                break
        else:
            order.append(blocks[label])
            stack.pop()
    return order[::-1]
