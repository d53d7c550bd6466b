"""The type of every name, by the rules of `kaio.dsl.rules`; all type mistakes at once.

Types are computed from the operands' in rounds until nothing changes. Inside a round a phi takes the common type of
what is known so far (`acc = 0; acc = (acc + i) * x[i]` is i32 in the first round and f32 in the second); only when the
types have settled are variables that mean two types reported. A temporary's phi is a conditional expression and merges
as one; a named variable's phi is strict, and never narrower than i32 or f32. (This is why Numba's own fixpoint is not
used: it merges types without knowing the variable.)
"""

from __future__ import annotations

import ast
import difflib
import inspect
import types
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from kaio.dsl import operators, rules
from kaio.dsl.compiler import advice, ir
from kaio.dsl.compiler.captures import Capture
from kaio.dsl.function import Func
from kaio.dsl.intrinsic import STANDARD, Intrinsic, Namespace
from kaio.dsl.rules import RuleError
from kaio.dsl.values import (
    INDEX64,
    NONE,
    ArrayType,
    BufferType,
    IteratorType,
    ObjectType,
    RangeType,
    StepType,
    TupleType,
    Type,
    Weak,
    show,
)  # fmt: skip
from kaio.dtypes import DType, bool_, dtype_of, f32, f64, u64
from kaio.errors import KaioError, KernelTypeError, Mistake, Place, PrecisionWarning, is_message

__all__ = ["constant_type", "infer"]

__tracebackhide__ = is_message

TypeCallee = Callable[[types.FunctionType, Mapping[str, Type], Place], ir.Typed]
_MOST_ROUNDS = 50


def infer(
    function: ir.Function,
    arguments: Mapping[str, Type],
    index: DType,
    type_callee: TypeCallee,
    captures: dict[tuple[int, str], Capture],
) -> ir.Typed:
    """Type a function for these argument types and this index type.

    `type_callee` types a device function that it calls. What the function reads of modules and objects is added to
    `captures`.
    """
    __tracebackhide__ = is_message
    inference = _Inference(function, arguments, index, type_callee, captures)
    inference.settle()
    inference.check_variables()
    if inference.mistakes:
        found = sorted(inference.mistakes.values(), key=lambda m: (m.place.line, m.place.column) if m.place else (0, 0))
        raise KernelTypeError(dict.fromkeys(found))
    given = tuple(arguments.get(param) for param in function.params)
    typed = ir.Typed(function, inference.types, inference.calls, given, inference.result)
    _warn_of_lost_precision(typed)
    return typed


class _Inference:
    def __init__(
        self,
        function: ir.Function,
        arguments: Mapping[str, Type],
        index: DType,
        type_callee: TypeCallee,
        captures: dict[tuple[int, str], Capture],
    ) -> None:
        self.function, self.arguments, self.index = function, arguments, index
        self.type_callee, self.captures = type_callee, captures
        self.types: dict[str, Type] = {}
        self.attributes: dict[tuple[int, str], Any] = {}
        self.calls: dict[str, ir.TypedCall] = {}
        self.mistakes: dict[Any, Mistake] = {}
        self.result: Type = NONE
        self.order = {block.label: k for k, block in enumerate(function.blocks)}
        self.definitions = {s.target: s for b in function.blocks for s in b.body if isinstance(s, ir.Assign)}

    # ------------------------------------------------------------------ rounds
    def settle(self) -> None:
        """Compute types until they stay the same."""
        for _ in range(_MOST_ROUNDS):
            before = dict(self.types), self.result
            self.mistakes = {}
            for block in self.function.blocks:
                self.round(block)
            self.merge_returns()
            if (self.types, self.result) == before:
                return
        place = self.function.blocks[0].terminator.place
        raise KernelTypeError(
            f"the types of `{self.function.name}` do not settle",
            place=place,
            help="cast the variables that change type",
        )

    def round(self, block: ir.Block) -> None:
        for statement in block.body:
            try:
                if isinstance(statement, ir.SetItem):
                    self.set_item(statement)
                else:
                    self.assign(block, statement)
            except RuleError as problem:
                self.mistake(statement, statement.place, problem)
            except KernelTypeError as problem:  # in a device function
                for k, found in enumerate(problem.mistakes):
                    self.mistakes[id(statement), k] = Mistake(
                        found.what, found.place, found.help, _called_from(found, statement.place)
                    )
        if isinstance(block.terminator, ir.Branch):
            condition = self.types.get(block.terminator.condition)
            if condition is not None and not isinstance(condition, DType | Weak):
                self.mistake(block, block.terminator.place, RuleError(f"{show(condition)} is neither true nor false"))

    def mistake(self, key: object, place: Place, problem: RuleError) -> None:
        self.mistakes[id(key)] = Mistake(problem.what, place, problem.help)

    def assign(self, block: ir.Block, assign: ir.Assign) -> None:
        found = self.phi(block, assign) if isinstance(assign.op, ir.Phi) else self.op(assign)
        if found is None:
            self.types.pop(assign.target, None)
            return
        if isinstance(found, Weak) and not ir.is_temporary(assign.target) and not isinstance(assign.op, ir.Argument):
            found = Weak(found.kind, found.values, named=True)
        self.types[assign.target] = found

    def merge_returns(self) -> None:
        returned = [
            self.types.get(b.terminator.value) for b in self.function.blocks if isinstance(b.terminator, ir.Return)
        ]
        known = [t for t in returned if t is not None]
        if not known:
            return
        try:
            self.result = self.merge(known, "return value", rules.merge_branches)
        except RuleError as problem:
            last = next(b.terminator for b in reversed(self.function.blocks) if isinstance(b.terminator, ir.Return))
            self.mistake(self, last.place, problem)

    # ------------------------------------------------------------------ phis
    def phi(self, block: ir.Block, assign: ir.Assign) -> Type | None:
        assert isinstance(assign.op, ir.Phi)
        known = [self.types[name] for _, name in assign.op.incoming if name in self.types]
        if not known:
            return None
        if ir.is_temporary(assign.target):
            return self.merge(known, "conditional expression", rules.merge_branches)
        in_loop = any(self.order.get(at, -1) >= self.order[block.label] for at, _ in assign.op.incoming)
        return self.merge(known, ir.user_name(assign.target), lambda t: rules.merge_variable(t, in_loop)[0])

    def merge(self, known: list[Type], what: str, scalars: Callable[[list[Any]], Type]) -> Type:
        first = known[0]
        if all(isinstance(t, DType | Weak) for t in known):
            return scalars(known)
        if isinstance(first, TupleType) and all(
            isinstance(t, TupleType) and len(t.items) == len(first.items) for t in known
        ):
            columns = zip(*(t.items for t in known if isinstance(t, TupleType)), strict=True)
            return TupleType(tuple(self.merge(list(column), what, scalars) for column in columns))
        if all(t == first for t in known):
            return first
        other = next(t for t in known if t != first)
        raise RuleError(f"`{what}` is {show(first)} and also {show(other)}", "give the two different names")

    def check_variables(self) -> None:
        """A named variable has one type; only widening from literals is implicit."""
        for block in self.function.blocks:
            for statement in block.body:
                if (
                    isinstance(statement, ir.Assign)
                    and isinstance(statement.op, ir.Phi)
                    and not ir.is_temporary(statement.target)
                ):
                    self.check_variable(block, statement, statement.op)

    def check_variable(self, block: ir.Block, assign: ir.Assign, phi: ir.Phi) -> None:
        known = [(name, self.types[name]) for _, name in phi.incoming if name in self.types]
        scalars = [(name, t) for name, t in known if isinstance(t, DType | Weak)]
        if not scalars or rules.merge_variable([t for _, t in scalars], in_loop=False)[1]:
            return
        strong = [(n, t) for n, t in scalars if isinstance(t, DType)] + [
            (n, t) for n, t in scalars if isinstance(t, Weak)
        ]
        name, first = strong[0]
        other_name, other = next((n, t) for n, t in strong if t is not first)
        place = max(self.origin(name).place, self.origin(other_name).place, key=lambda p: (p.line, p.column))
        here, there = (first, other) if place == self.origin(name).place else (other, first)
        variable = ir.user_name(assign.target)
        wider = rules.common(first, other, "or")
        self.mistakes[variable] = Mistake(
            f"`{variable}` is {show(there)} elsewhere but {show(here)} here: a variable has one type", place,
            f"cast where it is set, for example `{variable} = kaio.{rules.default(wider)!r}(...)`",
        )  # fmt: skip

    def origin(self, name: str) -> ir.Assign:
        """The assignment whose value a phi passes on."""
        assign = self.definitions[name]
        seen = {name}
        while isinstance(assign.op, ir.Copy | ir.Phi):
            following = [n for n in ir.operands(assign.op) if n in self.definitions and n not in seen]
            if not following or not (isinstance(assign.op, ir.Phi) or ir.is_temporary(following[0])):
                break
            seen.add(following[0])
            assign = self.definitions[following[0]]
        return assign

    # ------------------------------------------------------------------ ops
    def op(self, assign: ir.Assign) -> Type | None:
        op = assign.op
        if isinstance(op, ir.Argument):
            return self.arguments[op.name]
        if isinstance(op, ir.Constant):
            return constant_type(op.value)
        inputs = [self.types.get(name) for name in ir.operands(op)]
        if any(t is None for t in inputs):  # a mistake that is already reported
            return None
        known: list[Any] = inputs
        match op:
            case ir.Copy():
                return known[0]  # type: ignore[no-any-return]
            case ir.Unary(op=symbol):
                return self.unary(symbol, known[0])
            case ir.Binary():
                return self.binary(assign.target, op, *known)
            case ir.Call():
                return self.call(assign, op)
            case ir.Attribute(name=name):
                return self.attribute(known[0], name, op.value)
            case ir.GetItem():
                return self.get_item(op, *known)
            case ir.Tuple():
                return TupleType(tuple(known))
            case ir.Unpack(count=count):
                return self.unpack(known[0], count)
            case ir.Item(position=position):
                return self.unpack(known[0], None).items[position]
            case ir.Iterate():
                if isinstance(known[0], RangeType):
                    return IteratorType(known[0])
                raise RuleError(
                    f"a kernel loops over `range(...)` only, not over {show(known[0])}", "loop over its indices"
                )
            case ir.Step():
                return StepType(known[0].range)
            case ir.StepValue():
                return known[0].range.dtype  # type: ignore[no-any-return]
            case ir.StepFlag():
                return _bool()
        raise RuleError(f"`{op}` cannot be used in a kernel")

    def unary(self, symbol: str, operand: Type) -> Type:
        if not isinstance(operand, DType | Weak):
            raise RuleError(f"`{symbol}` of {show(operand)} is not defined")
        return rules.unary(symbol, operand)[1]

    def binary(self, target: str, op: ir.Binary, left: Type, right: Type) -> Type:
        if not isinstance(left, DType | Weak) or not isinstance(right, DType | Weak):
            raise RuleError(
                f"`{show(left)} {op.op} {show(right)}` is not defined",
                self.operand_help(left, op.left) or self.operand_help(right, op.right),
            )
        if op.op in ("is", "is not"):
            raise RuleError(f"`{op.op}` compares objects; numbers are compared with `==`", "use `==` or `!=`")
        try:
            rule = rules.binary(op.op, left, right)
        except RuleError as problem:
            raise self.with_cast(problem, op, left, right) from None
        self.calls[target] = ir.TypedCall(None, (op.left, op.right), (rule.left, rule.right), rule.result)
        return rule.result

    def with_cast(self, problem: RuleError, op: ir.Binary, left: Type, right: Type) -> RuleError:
        """The same mistake, with the cast written out where one is the way out."""
        if not isinstance(left, DType) or not isinstance(right, DType) or u64 not in (left, right):
            return problem
        one, two = self.text(op.left), self.text(op.right)
        cast = f"{one} {op.op} kaio.u64({two})" if left is u64 else f"kaio.u64({one}) {op.op} {two}"
        return RuleError(problem.what, f"cast one side, for example `{cast}`")

    def text(self, name: str) -> str:
        """A name or a temporary as the user wrote it."""
        if not ir.is_temporary(name):
            return ir.user_name(name)
        place, op = self.definitions[name].place, self.definitions[name].op
        text = place.text[place.column : place.end_column]
        if isinstance(op, ir.Binary) and not (_is_expression(text) and op.op in text):
            return f"{self.text(op.left)} {op.op} {self.text(op.right)}"  # an update, or written over several lines
        return text if _is_expression(text) else "..."

    def operand_help(self, operand: Type, name: str) -> str | None:
        """The way out for an operand that is no number."""
        made = self.calls.get(self.origin(name).target)
        grid = made.static[0] if made and isinstance(made.callee, Intrinsic) and made.callee.name == "grid" else None
        return advice.instead_of_operand(operand, self.text(name), grid)

    def index_cast(self, name: str, axis: int) -> str:
        """How the float that indexes an axis becomes an integer, and where a variable became a float."""
        whole = self.definitions[name].op
        name = whole.items[axis] if isinstance(whole, ir.Tuple) else name
        text, made = self.text(name), self.origin(name)
        op = made.op
        if isinstance(op, ir.Binary) and op.op == "/" and all(_is_whole(self.types[n]) for n in (op.left, op.right)):
            instead = f"write `{self.text(op.left)} // {self.text(op.right)}`"
        else:
            instead = f"cast it: `kaio.i32({text})`"
        if ir.is_temporary(name) or isinstance(op, ir.Argument):
            return instead
        return f"`{text}` is a float since line {made.place.line}, `{made.place.text.strip()}`; {instead}"

    def unpack(self, value: Type, count: int | None) -> TupleType:
        if not isinstance(value, TupleType):
            raise RuleError(f"{show(value)} cannot be unpacked")
        if count is not None and len(value.items) != count:
            raise RuleError(f"a tuple of {len(value.items)} cannot be unpacked into {count} names")
        return value

    # ------------------------------------------------------------------ attributes
    def attribute(self, value: Type, name: str, variable: str) -> Type:
        if isinstance(value, ObjectType):
            return self.object_attribute(value.value, name)
        if isinstance(value, BufferType | ArrayType):
            known: dict[str, Type] = {"ndim": Weak("i", (value.ndim,)), "dtype": ObjectType(value.dtype)}
            if isinstance(value, ArrayType):
                known["size"] = Weak("i", (int(np.prod(value.shape, dtype=object)),))
                known["shape"] = TupleType(tuple(Weak("i", (n,)) for n in value.shape))
            else:
                known |= {"size": value.index, "shape": TupleType((value.index,) * value.ndim)}
            if name in known:
                return known[name]
            close = difflib.get_close_matches(name, known, 1)
            way_out = f"did you mean `{close[0]}`?" if close else f"it has {', '.join(sorted(known))}"
            raise RuleError(f"{show(value)} has no attribute `{name}`", way_out)
        raise RuleError(f"{show(value)} has no attribute `{name}`")

    def object_attribute(self, value: Any, name: str) -> Type:
        if isinstance(value, Namespace):
            if name in ("x", "y", "z"):
                return dtype_of("int32")
            raise RuleError(f"`{value.name}` has no attribute `{name}`", "it has x, y and z")
        try:
            found = self.attributes.setdefault((id(value), name), getattr(value, name))  # a method is new each time
        except Exception:
            close = difflib.get_close_matches(name, dir(value), 1)
            raise RuleError(
                f"{ObjectType(value)!r} has no attribute `{name}`", f"did you mean `{close[0]}`?" if close else None
            ) from None
        space = getattr(value, "__dict__", None)
        if isinstance(space, dict) and name in space:
            self.captures[id(space), name] = Capture(space, name, found)
        return constant_type(found)

    # ------------------------------------------------------------------ memory
    def get_item(self, op: ir.GetItem, value: Type, index: Type) -> Type:
        if isinstance(value, TupleType):
            if not isinstance(index, Weak) or not isinstance(index.value, int):
                raise RuleError(
                    "a tuple is indexed with an int literal",
                    "numbers to choose from at run time are a buffer, for example `In[f32]`, or a `local_mem` array",
                )
            if not -len(value.items) <= index.value < len(value.items):
                raise RuleError(f"index {index.value} is out of range for a tuple of {len(value.items)}")
            return value.items[index.value]
        return self.element(op.value, op.index, value, index).dtype

    def element(self, array: str, at: str, type_: Type, index: Type) -> BufferType | ArrayType:
        """The array's type, if it is one and the index fits it."""
        if isinstance(type_, ObjectType):
            text, kind = self.text(array), type(type_.value).__name__
            way_out = advice.instead_of_indexing(type_.value, text)
            raise RuleError(f"`{text}` is a {kind}, and cannot be indexed", way_out)
        return operators.check_index(type_, index, ir.user_name(array), partial(self.index_cast, at))

    def set_item(self, statement: ir.SetItem) -> None:
        array, index, value = (self.types.get(n) for n in (statement.array, statement.index, statement.value))
        if array is None or index is None or value is None:
            return
        name = ir.user_name(statement.array)
        target = self.element(statement.array, statement.index, array, index)
        try:
            operators.check_store(target, value, name, self.text(statement.value))
        except RuleError as problem:
            self.mistake(statement, self.value_place(statement), problem)

    def value_place(self, statement: ir.SetItem) -> Place:
        """Where the value of a store is written: bytecode knows the place of its target only."""
        assign = self.definitions.get(statement.value)
        if assign is None or not ir.is_temporary(statement.value) or assign.place.line != statement.place.line:
            return statement.place
        return assign.place

    # ------------------------------------------------------------------ calls
    def call(self, assign: ir.Assign, op: ir.Call) -> Type | None:
        function = self.types[op.function]
        if not isinstance(function, ObjectType):
            raise RuleError(f"{show(function)} cannot be called")
        callee = function.value
        if isinstance(callee, type) and issubclass(callee, np.generic):  # np.float64(0.1) has a width of its own
            callee = operators.cast_to(numpy_dtype(callee))
        elif isinstance(callee, DType):
            callee = operators.cast_to(callee)
        elif not isinstance(callee, Intrinsic):
            callee = STANDARD.get(callee, callee) if _is_hashable(callee) else callee
        if isinstance(callee, Intrinsic):
            return self.call_intrinsic(assign.target, op, callee)
        if isinstance(callee, Func):
            callee = callee.function
        if isinstance(callee, types.FunctionType):
            return self.call_function(assign, op, callee)
        way_out = advice.instead_of_call(callee, self.text(op.function))
        raise RuleError(f"{show(function)} cannot be called in a kernel", way_out)

    def call_intrinsic(self, target: str, op: ir.Call, callee: Intrinsic) -> Type:
        assert callee.signature is not None
        assert callee.typing is not None
        try:
            bound = callee.signature.bind(*op.args, **dict(op.kwargs))
        except TypeError as problem:
            example = f"for example `{callee.example}`" if callee.example else None
            raise RuleError(f"`{callee.name}{_bare(callee.signature)}`: {problem}", example) from None
        names = [*bound.args, *bound.kwargs.values()]
        try:
            resolved = callee.typing(*(self.types[name] for name in names))
        except RuleError as problem:
            raise problem.named(
                {key: self.text(name) for key, name in bound.arguments.items() if name in names}
            ) from None
        result = self.with_index(resolved.result)
        self.calls[target] = ir.TypedCall(callee, tuple(names), resolved.operands, result, resolved.static)
        return result

    def with_index(self, type_: Type) -> Type:
        """Records speak of the wide index; in the narrow variant it is i32."""
        if isinstance(type_, TupleType):
            return TupleType(tuple(map(self.with_index, type_.items)))
        return self.index if type_ is INDEX64 else type_

    def call_function(self, assign: ir.Assign, op: ir.Call, callee: types.FunctionType) -> Type:
        signature = inspect.signature(callee)
        try:
            bound = signature.bind(*op.args, **dict(op.kwargs))
        except TypeError as problem:
            raise RuleError(f"`{callee.__name__}{signature}`: {problem}") from None
        fixed = _annotated(callee)
        arguments: list[str | ir.Constant] = []
        parameters: dict[str, Type] = {}
        for name, parameter in signature.parameters.items():
            given = bound.arguments.get(name)
            if not (given is None or isinstance(given, str)):
                raise RuleError(
                    f"`{callee.__name__}` takes a variable number of arguments",
                    "a kernel calls functions with fixed parameters",
                )
            argument = ir.Constant(parameter.default) if given is None else given
            type_ = constant_type(parameter.default) if given is None else self.types[given]
            if name in fixed:
                if not isinstance(type_, DType | Weak):
                    raise RuleError(
                        f"argument `{name}` of `{callee.__name__}` is {show(fixed[name])}, not {show(type_)}"
                    )
                rules.store(type_, fixed[name])
                type_ = fixed[name]
            arguments.append(argument)
            parameters[name] = type_
        typed = self.type_callee(callee, parameters, assign.place)
        self.calls[assign.target] = ir.TypedCall(typed, tuple(arguments), tuple(parameters.values()), typed.result)
        return typed.result


def _is_whole(type_: Type) -> bool:
    return isinstance(type_, DType | Weak) and type_.kind in ("i", "u")


def _is_expression(text: str) -> bool:
    try:
        ast.parse(text, mode="eval")
    except SyntaxError:
        return False
    return True


def _called_from(mistake: Mistake, place: Place) -> tuple[Place, ...]:
    """The calls that led to a mistake in a device function; of recursion the last call is the mistake itself."""
    return mistake.trace if mistake.place == place and not mistake.trace else (*mistake.trace, place)


def _bare(signature: inspect.Signature) -> inspect.Signature:
    """A signature without annotations, as it is shown in messages."""
    empty = inspect.Parameter.empty
    return signature.replace(
        parameters=[p.replace(annotation=empty) for p in signature.parameters.values()], return_annotation=empty
    )


def constant_type(value: Any) -> Type:
    """The type of a literal or of a captured object."""
    if isinstance(value, np.generic):
        return dtype_of(value.dtype)  # np.float64(0.1) has a width of its own
    if isinstance(value, bool | int | float):
        return rules.literal(value)
    if isinstance(value, tuple):
        return TupleType(tuple(map(constant_type, value)))
    if isinstance(value, np.ndarray):
        raise RuleError("an array cannot be captured", "pass it to the kernel as a buffer")
    return ObjectType(value)


def numpy_dtype(scalar: type[np.generic]) -> DType:
    """The dtype of a NumPy scalar type called in a kernel."""
    try:
        return dtype_of(scalar)
    except KaioError as problem:
        raise RuleError(problem.mistakes[0].what, problem.mistakes[0].help) from None


def _bool() -> DType:
    return bool_  # type: ignore[return-value]


def _is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _annotated(function: types.FunctionType) -> dict[str, DType]:
    """The parameters of a device function that an annotation fixes; other annotations are for people."""
    hints = {name: _evaluated(hint, function) for name, hint in function.__annotations__.items() if name != "return"}
    return {name: hint for name, hint in hints.items() if isinstance(hint, DType)}


def _evaluated(hint: Any, function: types.FunctionType) -> Any:
    """An annotation, read if it is a text; None where it has names that only a type checker knows."""
    if not isinstance(hint, str):
        return hint
    closure = inspect.getclosurevars(function).nonlocals
    try:
        return eval(hint, function.__globals__, dict(closure))
    except Exception:
        return None


# ---------------------------------------------------------------------- precision
def _warn_of_lost_precision(typed: ir.Typed) -> None:
    """An f32 made from int `/` or from literals alone, converted to f64: its digits are already lost."""
    definitions = {s.target: s for b in typed.function.blocks for s in b.body if isinstance(s, ir.Assign)}
    for name, target, place in _conversions(typed):
        if (
            target is f64
            and typed.types.get(name) is f32
            and _is_made_of_ints_or_literals(name, typed, definitions, set())
        ):
            value = "this" if ir.is_temporary(name) else f"`{ir.user_name(name)}`"
            text = Mistake(
                f"{value} is an f32 made from integers or literals, and is converted to f64",
                definitions[name].place if ir.is_temporary(name) else place,
                "compute it in f64 from the start, for example `kaio.f64(...)` of one operand",
            )  # fmt: skip
            warnings.warn(str(text), PrecisionWarning, stacklevel=2)


def _conversions(typed: ir.Typed) -> Iterator[tuple[str, Type, Place]]:
    for block in typed.function.blocks:
        for statement in block.body:
            if isinstance(statement, ir.SetItem):
                array = typed.types[statement.array]
                if isinstance(array, BufferType | ArrayType):
                    yield statement.value, array.dtype, statement.place
            elif statement.target in typed.calls and not _is_cast(typed.calls[statement.target]):
                call = typed.calls[statement.target]
                for name, target in zip(call.arguments, call.operands, strict=False):
                    if isinstance(name, str):
                        yield name, target, statement.place


def _is_cast(call: ir.TypedCall) -> bool:
    return isinstance(call.callee, Intrinsic) and call.callee.name in ("f64", "float")


def _is_made_of_ints_or_literals(
    name: str, typed: ir.Typed, definitions: Mapping[str, ir.Assign], seen: set[str]
) -> bool:
    if name in seen or name not in definitions:
        return False
    seen.add(name)
    op = definitions[name].op
    if isinstance(op, ir.Copy | ir.Phi):
        return any(
            isinstance(typed.types.get(n), Weak) or _is_made_of_ints_or_literals(n, typed, definitions, seen)
            for n in ir.operands(op)
        ) and all(not isinstance(definitions[n].op, ir.GetItem) for n in ir.operands(op) if n in definitions)
    return (
        isinstance(op, ir.Binary)
        and op.op == "/"
        and all(
            isinstance(t := typed.types[n], Weak) or (isinstance(t, DType) and not t.is_float)
            for n in (op.left, op.right)
        )
    )
