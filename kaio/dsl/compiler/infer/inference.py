"""Types in rounds, until they stay the same: every op's from those of its operands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

from kaio.dsl import complexes, joins, operators, rules
from kaio.dsl.compiler import ir
from kaio.dsl.compiler.captures import Capture
from kaio.dsl.compiler.infer import attributes, calls, elements, membership, remedies
from kaio.dsl.compiler.infer.constants import constant_type
from kaio.dsl.compiler.infer.origins import Origins
from kaio.dsl.complexes import ComplexType
from kaio.dsl.rule_error import RuleError
from kaio.dsl.values import (
    BOOL,
    NONE,
    ArrayType,
    BufferType,
    Compound,
    EnumType,
    IteratorType,
    Member,
    ObjectType,
    RangeType,
    StepType,
    TupleType,
    Type,
    Weak,
    show,
)
from kaio.dtypes import DType, dtype_of
from kaio.errors import KernelTypeError, Mistake, Place, is_message

__all__ = ["Inference", "TypeCallee"]

__tracebackhide__ = is_message

TypeCallee = Callable[[FunctionType, Mapping[str, Type], Place], ir.Typed]
_CONDITIONAL = "conditional expression"
_MOST_ROUNDS = 50


class Inference:
    """The types of one function's names while they are found.

    types, calls, result: what is known so far, as in `ir.Typed`
    mistakes: of this round, by the statement (or the variable) that they are in
    """

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
        self.origins = Origins(function)

    # ------------------------------------------------------------------ rounds
    def settle(self) -> None:
        """Compute types until they stay the same."""
        for _ in range(_MOST_ROUNDS):
            before = dict(self.types), self.result
            self.mistakes = {}
            for block in self.function.blocks:
                self._round(block)
            self._merge_returns()
            if (self.types, self.result) == before:
                return
        place = self.function.blocks[0].terminator.place
        raise KernelTypeError(
            f"the types of `{self.function.name}` do not settle",
            place=place,
            help="cast the variables that change type",
        )

    def _round(self, block: ir.Block) -> None:
        for statement in block.body:
            try:
                if isinstance(statement, ir.SetItem):
                    elements.set_item(self, statement)
                else:
                    self._assign(block, statement)
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
                way_out = "compare it: `z != 0`" if isinstance(condition, ComplexType) else None
                wrong = RuleError(f"{show(condition)} is neither true nor false", way_out)
                self.mistake(block, block.terminator.place, wrong)

    def mistake(self, key: object, place: Place, problem: RuleError) -> None:
        """Note a mistake of this round; `key` is what it is in, which has one mistake at the most."""
        self.mistakes[id(key)] = Mistake(problem.what, place, problem.help)

    def _assign(self, block: ir.Block, assign: ir.Assign) -> None:
        found = self._phi(block, assign) if isinstance(assign.op, ir.Phi) else self._op(assign)
        if found is None:
            self.types.pop(assign.target, None)
            return
        if isinstance(found, Weak) and not ir.is_temporary(assign.target) and not _is_parameter(assign.op):
            found = Weak(found.kind, found.values, named=True)
        self.types[assign.target] = found

    def _merge_returns(self) -> None:
        returned = [
            self.types.get(b.terminator.value) for b in self.function.blocks if isinstance(b.terminator, ir.Return)
        ]
        known = [t for t in returned if t is not None]
        if not known:
            return
        try:
            self.result = _merge(known, "return value", joins.merge_branches)
        except RuleError as problem:
            last = next(b.terminator for b in reversed(self.function.blocks) if isinstance(b.terminator, ir.Return))
            self.mistake(self, last.place, problem)

    # ------------------------------------------------------------------ joins
    def _phi(self, block: ir.Block, assign: ir.Assign) -> Type | None:
        assert isinstance(assign.op, ir.Phi)
        known = [self.types[name] for _, name in assign.op.incoming if name in self.types]
        if not known:
            return None
        if ir.is_temporary(assign.target):
            return _merge(known, _CONDITIONAL, joins.merge_branches)
        in_loop = any(self.order.get(at, -1) >= self.order[block.label] for at, _ in assign.op.incoming)
        return _merge(known, ir.user_name(assign.target), lambda t: joins.merge_variable(t, in_loop)[0])

    # ------------------------------------------------------------------ ops
    def _op(self, assign: ir.Assign) -> Type | None:
        op = assign.op
        if isinstance(op, ir.Argument):
            return self.arguments[op.name]
        if isinstance(op, ir.Constant):
            passed = self.arguments.get(op.parameter)
            # A number that a record hands to its body comes as an object; in the body it is a number.
            return passed if passed is not None and not isinstance(passed, ObjectType) else constant_type(op.value)
        inputs = [self.types.get(name) for name in ir.operands(op)]
        if any(t is None for t in inputs):  # a mistake that is already reported
            return None
        known: list[Any] = inputs
        match op:
            case ir.Copy():
                return known[0]  # type: ignore[no-any-return]
            case ir.Unary():
                return self._unary(assign.target, op, known[0])
            case ir.Binary():
                return self._binary(assign.target, op, *known)
            case ir.Call():
                return calls.call(self, assign, op)
            case ir.Attribute(name=name):
                return attributes.attribute(self, known[0], name)
            case ir.GetItem():
                return elements.get_item(self, op, *known)
            case ir.Tuple():
                return TupleType(tuple(known))
            case ir.Unpack(count=count):
                return elements.unpack(known[0], count)
            case ir.Item(position=position):
                return elements.unpack(known[0], None).items[position]
            case ir.Iterate():
                return _iterator(known[0], self.origins.text(op.value))
            case ir.Step():
                return StepType(known[0].range, known[0].item)
            case ir.StepValue():
                return known[0].item or known[0].range.dtype  # type: ignore[no-any-return]
            case ir.StepFlag():
                return BOOL
        raise RuleError(f"`{op}` cannot be used in a kernel")

    def _unary(self, target: str, op: ir.Unary, operand: Type) -> Type:
        found = operators.unary(op.op, operand)
        if found is not None:
            return self._operator(target, found, op.operand)
        if not isinstance(operand, DType | Weak):
            raise RuleError(f"`{op.op}` of {show(operand)} is not defined")
        return rules.unary(op.op, operand)[1]

    def _operator(self, target: str, found: operators.Found, *names: str) -> Type:
        record, resolved = found
        result = resolved.result
        assert result is not None
        self.calls[target] = ir.TypedCall(record, names, resolved.operands, result, resolved.static)
        return result

    def _binary(self, target: str, op: ir.Binary, left: Type, right: Type) -> Type:
        if op.op == "in":
            self.calls[target] = membership.member(left, right, op)
            return BOOL
        if operators.is_compound(left) or operators.is_compound(right):
            found = operators.binary(op.op, left, right)
            if found is not None:
                return self._operator(target, found, op.left, op.right)
        if op.op in ("is", "is not") and NONE in (left, right):
            name, value = (op.left, left) if right == NONE else (op.right, right)
            raise RuleError(f"`{self.origins.text(name)}` is {show(value)}, and never None", "leave the test out")
        if not isinstance(left, DType | Weak) or not isinstance(right, DType | Weak):
            raise RuleError(
                f"`{show(left)} {op.op} {show(right)}` is not defined",
                remedies.of_operand(self, left, op.left) or remedies.of_operand(self, right, op.right),
            )
        symbol = op.op
        if symbol in ("is", "is not"):
            if not isinstance(left, Member) and not isinstance(right, Member):
                raise RuleError(f"`{symbol}` compares objects; numbers are compared with `==`", "use `==` or `!=`")
            symbol = "==" if symbol == "is" else "!="
        try:
            rule = rules.binary(symbol, left, right)
        except RuleError as problem:
            raise remedies.with_cast(self.origins, problem, op, left, right) from None
        self.calls[target] = ir.TypedCall(None, (op.left, op.right), (rule.left, rule.right), rule.result)
        return rule.result


def _is_parameter(op: ir.Op) -> bool:
    """Whether this is what was passed: a literal that was passed is as weak as where it was written."""
    return isinstance(op, ir.Argument) or (isinstance(op, ir.Constant) and bool(op.parameter))


def _called_from(mistake: Mistake, place: Place) -> tuple[Place, ...]:
    """The calls that led to a mistake in a device function; of recursion the last call is the mistake itself."""
    return mistake.trace if mistake.place == place and not mistake.trace else (*mistake.trace, place)


def _merge(known: list[Type], what: str, scalars: Callable[[list[Any]], Type]) -> Type:
    """The one type of what comes together; tuples item by item."""
    first = known[0]
    if all(isinstance(t, DType | Weak) for t in known):
        return scalars(known)
    if all(t == first for t in known):
        return first
    if any(isinstance(t, ComplexType) for t in known):
        return complexes.merge(known, what, scalars)
    if isinstance(first, Compound) and all(first.is_like(t) for t in known):
        columns = zip(*(t.items for t in known if isinstance(t, Compound)), strict=True)
        return first.with_items(tuple(_merge(list(column), what, scalars) for column in columns))
    if isinstance(first, EnumType) and all(isinstance(t, EnumType) and t.of is first.of for t in known):
        return EnumType(first.of)
    other = next(t for t in known if t != first)
    way_out = "give both branches one type" if what == _CONDITIONAL else "give the two different names"
    raise RuleError(f"`{what}` is {show(first)} and also {show(other)}", way_out)


def _iterator(value: Type, text: str) -> IteratorType:
    """What a `for` loop goes over."""
    if isinstance(value, RangeType):
        return IteratorType(value)
    if not isinstance(value, Compound) or not value.is_sequence or not value.items:
        of = f"{text}.size" if isinstance(value, BufferType | ArrayType) else text
        way_out = f"write `for i in range({of}):`" if isinstance(value, DType | Weak) or of != text else None
        raise RuleError(f"a kernel loops over `range(...)` or a tuple, not over {show(value)}", way_out)
    try:
        item = _merge(list(value.items), "item", joins.merge_branches)
    except RuleError:
        raise RuleError(
            f"a loop goes over items of one type, not over {show(value)}",
            "repeat the body, or call a function for each",
        ) from None
    return IteratorType(RangeType(dtype_of("int32"), 1), item)
