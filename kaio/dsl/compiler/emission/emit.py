"""Typed IR to LLVM, for every target: one walk, and a `Target` that spells what differs.

Names are direct SSA values and phis are LLVM phis; tuples are Python tuples of values. Device functions are lowered
in place, into the caller's function, so that a barrier anywhere is a suspension of the one coroutine and a fault
anywhere a branch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from llvmlite import ir as llvmlite_ir

from kaio.dsl.compiler import ir
from kaio.dsl.compiler.emission import arithmetic, comparisons, conversions, elements, loops, membership, scalars
from kaio.dsl.compiler.emission.access import access_to
from kaio.dsl.compiler.emission.declared import call
from kaio.dsl.compiler.emission.frame import Frame, join
from kaio.dsl.compiler.emission.leaves import rebuild, undefined
from kaio.dsl.compiler.emission.loops import RangeValue, Turn
from kaio.dsl.compiler.emission.target import Target
from kaio.dsl.compiler.own import is_own
from kaio.dsl.intrinsic import Intrinsic, Namespace
from kaio.dsl.values import (
    BOOL,
    ArrayType,
    BufferType,
    Compound,
    EnumType,
    IteratorType,
    MethodType,
    ObjectType,
    TupleType,
    Type,
    Weak,
)
from kaio.dtypes import DType
from kaio.errors import CompileError, InternalError, Place, UnsupportedFeatureError
from kaio.source import Source

__all__ = ["Emitter"]

_MOST_STATEMENTS = 100_000


class Emitter:
    """Fills the function that `b` (an llvmlite IRBuilder) stands in.

    Rules of intrinsics get it as their first argument: `e.b` builds, `e.llvm` and `e.const` spell types and numbers,
    `e.convert` converts, `e.use` calls a primitive, `e.target` is the machine, `e.place` where in the source we are.
    """

    def __init__(self, b: llvmlite_ir.IRBuilder, target: Target) -> None:
        self.b, self.target, self.notes = b, target, target.notes
        self.place = Place("", 0)
        self.callers: tuple[tuple[Place, Source], ...] = ()
        self.frames: list[Frame] = []
        self.emitted = 0
        self.operation = ""  # the record that the user called, as faults name it
        self.is_result_read = True  # whether anything uses what the current call gives
        self.assigning = ""  # the user's name for what the current statement makes or reads

    # ------------------------------------------------------------------ what rules are built of
    void = llvmlite_ir.VoidType()

    def llvm(self, type_: Type) -> llvmlite_ir.Type:
        """The LLVM type of a scalar in a register."""
        return scalars.llvm_type(type_)

    def const(self, dtype: DType, value: int | float | bool) -> llvmlite_ir.Constant:
        """A number of that type."""
        return scalars.constant(dtype, value)

    def integer(self, bits: int) -> llvmlite_ir.IntType:
        """The LLVM type of an integer of any width."""
        return llvmlite_ir.IntType(bits)

    def convert(self, value: Any, source: Type, target: Type) -> Any:
        """A value of one type as another; the meaning is the same whether a cast asks for it or a rule."""
        if source == target:
            return value
        if isinstance(target, Compound):
            return conversions.compound(self, value, source, target)
        if isinstance(target, Weak):
            return conversions.literal_index(self, value, source, target)
        return conversions.convert(self, value, source, target)

    def use(self, primitive: Intrinsic, *args: Any) -> Any:
        """Call a primitive's rule for this target."""
        return primitive.rule(self.target.name)(self, *args)

    def call(self, name: str, result: llvmlite_ir.Type, args: list[llvmlite_ir.Value]) -> llvmlite_ir.Value:
        """Call an LLVM intrinsic or an external function by name."""
        return call(self.b, name, result, args)

    def require(self, since: str, what: str) -> None:
        """Raise UnsupportedFeatureError where the target's architecture comes before the one that first has `what`."""
        if since and not self.target.has(since):
            raise UnsupportedFeatureError(
                f"{what} needs {since} or later" if since[-1].isdigit() else f"{what} needs {since}",
                place=self.place,
                help=f'compile for it: `target="{since}"`; the CPU device runs it too',
            )

    def block(self, name: str) -> llvmlite_ir.Block:
        """A new basic block at the end of the function."""
        return self.b.function.append_basic_block(name)

    # ------------------------------------------------------------------ functions
    def function(self, typed: ir.Typed, arguments: tuple[Any, ...], on_return: Callable[[Any], None]) -> None:
        """Walk a typed function from where the builder stands; `on_return(value)` ends a block that returns."""
        frame = Frame(typed, dict(zip(typed.function.params, arguments, strict=True)), on_return)
        self.frames.append(frame)
        blocks = typed.function.blocks
        for block in blocks:
            frame.starts[block.label] = self.block(f"{typed.function.name}.{block.label}")
        self.notes.enter(self)
        self.b.branch(frame.starts[blocks[0].label])
        reached = {blocks[0].label}
        for block in blocks:
            if block.label in reached:
                self._count(block)
                self._block(frame, block)
                reached |= {to for to in block.targets() if (block.label, to) in frame.edges}
        for block in blocks:
            if block.label not in reached:
                self.b.function.blocks.remove(frame.starts[block.label])
        frame.finish_phis(self)
        self.frames.pop()

    def _count(self, block: ir.Block) -> None:
        """Device functions are lowered in place, so calls of calls multiply: stop before memory or patience ends."""
        self.emitted += len(block.body)
        if self.emitted > _MOST_STATEMENTS:
            raise CompileError(
                f"the kernel grows beyond {_MOST_STATEMENTS} statements with its device functions in place",
                place=self.place,
                help="call fewer of them from one another, or move repeated calls into a loop",
            )

    def inline(self, typed: ir.Typed, arguments: tuple[Any, ...]) -> Any:
        """A device function, lowered in place; gives what it returns, in the type `typed.result`."""
        after = self.block(f"{typed.function.name}.joined")
        returned: list[tuple[Any, llvmlite_ir.Block]] = []

        def on_return(value: Any) -> None:
            returned.append((value, self.b.block))
            self.b.branch(after)

        with self._called(typed):
            self.function(typed, arguments, on_return)
        self.b.position_at_end(after)
        if not returned:
            self.b.unreachable()
            self.b.position_at_end(self.block("never"))
            return rebuild(iter(undefined(self, typed.result)), typed.result)
        return join(self, typed.result, returned)

    @contextmanager
    def _called(self, typed: ir.Typed) -> Iterator[None]:
        place, callers, name = self.place, self.callers, self.assigning
        if not is_own(typed.function.source.filename):
            self.callers = ((place, self.source), *callers)
        yield
        self.callers, self.assigning = callers, name
        self._at(place)

    @property
    def source(self) -> Source:
        """The source of the function that is being walked, or of the one that called into kaio's own functions."""
        shown = (frame for frame in reversed(self.frames[1:]) if not frame.is_own)
        return next(shown, self.frames[0]).typed.function.source

    @property
    def is_inside_own(self) -> bool:
        """Whether the function that is being walked is one of kaio's own, of which users see the call alone."""
        return len(self.frames) > 1 and self.frames[-1].is_own

    @property
    def trace(self) -> tuple[Place, ...]:
        """Where the function that is being walked was called from, innermost first."""
        return tuple(place for place, _ in self.callers)

    def _at(self, place: Place) -> None:
        if self.is_inside_own:
            return
        self.place = place
        self.target.locate(self)

    # ------------------------------------------------------------------ blocks
    def _block(self, frame: Frame, block: ir.Block) -> None:
        self.b.position_at_end(frame.starts[block.label])
        frame.at = block.label
        self.notes.block()
        starts = [] if self.is_inside_own else frame.turn_starts.get(block.label, [])
        phis = sum(isinstance(s, ir.Assign) and isinstance(s.op, ir.Phi) for s in block.body) if starts else 0
        for position, statement in enumerate(block.body):
            if position == phis:
                self._begin_turns(starts)
            self._at(statement.place)
            self.notes.line(self, statement)
            if isinstance(statement, ir.SetItem):
                self._set_item(frame, statement)
            else:
                self._assign(frame, block, statement)
        if phis == len(block.body):
            self._begin_turns(starts)
        self._at(block.terminator.place)
        self.notes.line(self, block.terminator)
        self._terminator(frame, block)

    def _begin_turns(self, places: list[Place]) -> None:
        for place in places:
            self.target.begin_turn(self, place)

    def _terminator(self, frame: Frame, block: ir.Block) -> None:
        terminator = block.terminator
        self._go_round(frame, block)
        frame.ends[block.label] = self.b.block
        match terminator:
            case ir.Jump(target=label):
                self._go(frame, block.label, label)
            case ir.Branch(condition=name, true=true, false=false):
                self._branch(frame, block.label, name, true, false)
            case ir.Return(value=name):
                source = frame.typed.types[name]
                value = self.convert(frame.values.get(name), source, frame.typed.result)
                self.notes.leaves(self, value, frame.typed.result)
                frame.ends[block.label] = self.b.block
                frame.on_return(value)
            case ir.Fail(text=text):
                self.target.fail(self, text)

    def _go_round(self, frame: Frame, block: ir.Block) -> None:
        """Tell the target where a loop goes back to its head, of which it is not known how often it does.

        The loops of kaio's own functions end.
        """
        if self.is_inside_own:
            return
        for label in block.targets():
            if frame.order[label] <= frame.order[block.label]:
                loop = frame.nest[label]
                if loop.iterator is None:
                    self.target.go_round(self, frame.place_of(label, block.label), loop)

    def _go(self, frame: Frame, at: int, label: int) -> None:
        frame.edges.add((at, label))
        branch = self.b.branch(frame.starts[label])
        if label in frame.unroll:
            self.target.unroll(self, branch, frame.unroll[label])

    def _branch(self, frame: Frame, at: int, name: str, true: int, false: int) -> None:
        if not self.target.checks_asserts:
            for label, other in ((true, false), (false, true)):
                if isinstance(frame.blocks[label].terminator, ir.Fail):
                    return self._go(frame, at, other)
        condition = self._truth(frame.values.get(name), frame.typed.types[name])
        frame.ends[at] = self.b.block
        if true == false:
            return self._go(frame, at, true)
        decided = _constant_truth(condition)
        if decided is None:
            decided = self.target.decide(self, condition)
        if decided is not None:
            return self._go(frame, at, true if decided else false)
        self.notes.branches(self, name, condition)
        frame.edges |= {(at, true), (at, false)}
        self.b.cbranch(condition, frame.starts[true], frame.starts[false])
        return None

    def _truth(self, value: Any, type_: Type) -> llvmlite_ir.Value:
        """A value as an i1."""
        return self.convert(value, type_, BOOL)

    # ------------------------------------------------------------------ statements
    def _assign(self, frame: Frame, block: ir.Block, assign: ir.Assign) -> None:
        type_ = frame.typed.types[assign.target]
        self.assigning = ir.user_name(assign.target)
        if isinstance(assign.op, ir.Phi):
            frame.values[assign.target] = frame.add_phi(self, block.label, assign)
        elif isinstance(assign.op, ir.Step):
            frame.values[assign.target] = self._step(frame, block.label, assign.op.iterator)
        else:
            frame.values[assign.target] = self._op(frame, assign, type_)
        self.notes.assigned(self, assign)

    def _op(self, frame: Frame, assign: ir.Assign, type_: Type) -> Any:
        values, types = frame.values, frame.typed.types
        match assign.op:
            case ir.Argument(name=name):
                return frame.arguments[name]
            case ir.Constant(value=value):
                return self._constant(value, type_)
            case ir.Copy(source=name):
                frame.products.copy(assign.target, name)
                return values.get(name)
            case ir.Unary(op=op, operand=name):
                return self._unary(frame, assign.target, op, name, type_)
            case ir.Binary():
                return self._binary(frame, assign.target, assign.op, type_)
            case ir.Call():
                return self._call(frame, assign.target, assign.op)
            case ir.Attribute(value=name, name=attribute):
                return self._attribute(values.get(name), types[name], attribute, type_)
            case ir.GetItem(value=name, index=index):
                return self._get_item(frame, assign.target, name, index)
            case ir.Tuple(items=items):
                return tuple(values.get(item) for item in items)
            case ir.Unpack(value=name):
                return values.get(name)
            case ir.Item(value=name, position=position):
                return values[name][position]
            case ir.Iterate(value=name):
                return self._iterate(frame, assign.target, loops.positions(self, type_, types[name], values[name]))
            case ir.StepValue(step=name):
                return loops.value(self, types[name], values[name])
            case ir.StepFlag(step=name):
                return values[name].more
        raise InternalError(f"the emitter does not know `{assign.op}`")

    def _unary(self, frame: Frame, target: str, op: str, name: str, result: Type) -> Any:
        value, source = frame.values.get(name), frame.typed.types[name]
        call = frame.typed.calls.get(target)
        if call is not None:
            return call.callee.rule(self.target.name)(self, call, self.convert(value, source, call.operands[0]))
        if isinstance(result, Weak):
            return value
        if op == "not":
            return self.b.not_(self._truth(value, source))
        return arithmetic.unary(self, op, self.convert(value, source, result), result)

    def _binary(self, frame: Frame, target: str, op: ir.Binary, result: Type) -> Any:
        call = frame.typed.calls[target]
        types, values = frame.typed.types, frame.values
        if op.op == "in":
            return membership.member(self, call, values.get(op.left), values[op.right])
        if isinstance(result, Weak):  # one of the two has several values; its position is the result's
            left = types[op.left]
            return values.get(op.left) if isinstance(left, Weak) and len(left.values) > 1 else values.get(op.right)
        left, right = (
            self.convert(values.get(name), types[name], to)
            for name, to in zip((op.left, op.right), call.operands, strict=True)
        )
        left_type, right_type = call.operands
        symbol = {"is": "==", "is not": "!="}.get(op.op, op.op)  # of ints that are members of an enum
        if isinstance(left_type, Weak) and isinstance(right_type, Weak):
            return comparisons.compare_literals(self, symbol, (left, left_type), (right, right_type))
        if op.op in "+-" and self.target.contract:
            fused = frame.products.fuse(self, op, left, right, result)
            if fused is not None:
                return fused
        if op.op == "*":
            frame.products.note(target, left, right, result)
        if call.callee is not None:
            return call.callee.rule(self.target.name)(self, call, left, right)
        return arithmetic.binary(self, symbol, (left, left_type), (right, right_type), result)

    def _call(self, frame: Frame, target: str, op: ir.Call) -> Any:
        call = frame.typed.calls[target]
        values = tuple(
            self._argument(frame, argument, to) for argument, to in zip(call.arguments, call.operands, strict=True)
        )
        if isinstance(call.callee, ir.Typed):
            return self.inline(call.callee, values)
        if values and isinstance(call.operands[0], BufferType | ArrayType):
            self.assigning = frame.text(str(call.arguments[0]))
        self.is_result_read = target in frame.reads
        if not self.is_inside_own:
            self.operation = call.callee.name
        self.require(call.callee.since, f"`{call.callee.name}`")
        result = call.callee.rule(self.target.name)(self, call, *values)
        self.notes.called(self, call, values, result)
        return result if call.rounded is None else self.convert(result, call.result, call.rounded)

    def _argument(self, frame: Frame, argument: str | ir.Constant, type_: Type) -> Any:
        if isinstance(argument, ir.Constant):
            return self._constant(argument.value, type_)
        return self.convert(frame.values.get(argument), frame.typed.types[argument], type_)

    def _constant(self, value: Any, type_: Type) -> Any:
        if isinstance(type_, Compound):
            return tuple(self._constant(v, t) for v, t in zip(type_.split(value), type_.items, strict=True))
        return self.const(type_, value) if isinstance(type_, DType) else None

    def _attribute(self, value: Any, source: Type, attribute: str, result: Type) -> Any:
        if isinstance(result, ObjectType | Weak):
            return None
        if isinstance(result, MethodType):
            return (value,)
        if isinstance(source, Compound):
            return value[source.fields[attribute]]
        if isinstance(source, EnumType):
            return value
        if isinstance(source, ObjectType) and isinstance(source.value, Namespace):
            return self.target.special_register(self, source.value.register, attribute)  # type: ignore[arg-type]
        if isinstance(source, ObjectType):
            return self._constant(getattr(source.value, attribute), result)
        if isinstance(source, BufferType) and attribute == "shape":
            return value.sizes
        if isinstance(source, BufferType) and attribute == "size":
            return arithmetic.product(self, list(value.sizes), source.index)
        if isinstance(source, BufferType) and attribute == "strides":
            return elements.strides(self, value, source)
        if isinstance(source, ArrayType) and isinstance(result, TupleType):
            return tuple(None for _ in result.items)
        raise InternalError(f"the emitter does not know the attribute `{attribute}` of {source!r}")

    # ------------------------------------------------------------------ memory
    def address(
        self, array: Any, type_: BufferType | ArrayType, index: Any, index_type: Type, name: str, count: int = 1
    ) -> llvmlite_ir.Value:
        """The address of one element, or the first of `count`; each axis is checked where the target checks."""
        return elements.address(self, array, type_, index, index_type, name, count)

    def called(self, argument: str | ir.Constant, otherwise: str) -> str:
        """What the source calls an argument of the current call."""
        return self.frames[-1].text(argument) if isinstance(argument, str) else otherwise

    def _get_item(self, frame: Frame, target: str, name: str, index: str) -> Any:
        type_: Type = frame.typed.types[name]
        value: Any = frame.values.get(name)
        if isinstance(type_, Compound):
            at = frame.typed.types[index]
            position = at.value if isinstance(at, Weak) else None
            assert isinstance(position, int)
            return value[position]
        assert isinstance(type_, BufferType | ArrayType)
        self.assigning = frame.text(name)
        pointer = self.address(value, type_, frame.values.get(index), frame.typed.types[index], self.assigning)
        access = access_to("read", type_, self.assigning)
        return elements.load(self, pointer, type_.dtype, access, frame.parts_read.of(target))

    def _set_item(self, frame: Frame, statement: ir.SetItem) -> None:
        type_ = frame.typed.types[statement.array]
        assert isinstance(type_, BufferType | ArrayType)
        self.assigning = frame.text(statement.array)
        array, index = frame.values[statement.array], frame.values.get(statement.index)
        pointer = self.address(array, type_, index, frame.typed.types[statement.index], self.assigning)
        value, source = frame.values.get(statement.value), frame.typed.types[statement.value]
        access = access_to("write", type_, self.assigning)
        if statement.path:
            path = tuple(self._step_of(frame, step) for step in statement.path)
            elements.store_part(self, pointer, type_.dtype, path, value, source, access)
        else:
            elements.store(self, pointer, type_.dtype, value, source, access)
        self.notes.stored(self, statement)

    def _step_of(self, frame: Frame, step: ir.PathStep) -> str | int:
        """A part by its field, or by the value of its index."""
        index = frame.typed.types[step.name] if step.is_index else None
        return int(index.value) if isinstance(index, Weak) and index.value is not None else step.name

    def _step(self, frame: Frame, label: int, iterator: str) -> Turn:
        type_, span = frame.typed.types[iterator], frame.values[iterator]
        assert isinstance(type_, IteratorType)
        if label not in frame.heads:
            return loops.only_turn(self, type_.range, span)
        turn = loops.turn(self, type_.range, span)
        is_signed = type_.range.dtype.kind == "i"
        self.target.note_range(self, turn.value, span.start, span.stop, span.step, is_signed)
        frame.loops.append((label, turn))
        if type_.range.unroll:
            frame.unroll[label] = type_.range.unroll
        return turn

    def _iterate(self, frame: Frame, iterator: str, span: RangeValue) -> RangeValue:
        """Tell the target how many turns a loop has that begins here, where that is known."""
        place = None if self.is_inside_own else frame.counted.get(iterator)
        if place is not None:
            type_ = frame.typed.types[iterator]
            assert isinstance(type_, IteratorType)
            is_inner = any(around.is_in_loop for around in self.frames)
            self.target.begin_loop(self, place, is_inner, lambda: loops.turns(self, type_.range, span))
        return span


def _constant_truth(condition: llvmlite_ir.Value) -> bool | None:
    """What a condition is that is known while emitting; None of another."""
    known = getattr(condition, "constant", None)
    return bool(known) if isinstance(known, int) else None
