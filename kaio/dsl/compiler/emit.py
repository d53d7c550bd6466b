"""Typed IR to LLVM, for every target: one walk, and a `Target` that spells what differs.

Names are direct SSA values and phis are LLVM phis; tuples are Python tuples of values. Device functions are lowered
in place, into the caller's function, so that a barrier anywhere is a suspension of the one coroutine and a fault
anywhere a branch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from llvmlite import ir as llvmlite_ir

from kaio.dsl.compiler import arithmetic, comparisons, conversions, ir, loops, scalars
from kaio.dsl.compiler.loops import Turn
from kaio.dsl.intrinsic import Intrinsic, Namespace
from kaio.dsl.values import (
    INDEX64,
    ArrayType,
    BufferType,
    IteratorType,
    ObjectType,
    TupleType,
    Type,
    Weak,
)
from kaio.dtypes import DType, bool_, i32
from kaio.errors import CompileError, InternalError, Place
from kaio.source import Source

__all__ = ["ArrayValue", "BufferValue", "Emitter", "Target"]

Axis = Literal["x", "y", "z"]
_MOST_STATEMENTS = 100_000


class Target(Protocol):
    """What a machine must know to receive a typed function."""

    contract: bool

    @property
    def name(self) -> Literal["cuda", "host"]:
        """Which of an intrinsic's rules are this machine's."""

    def locate(self, e: Emitter) -> None:
        """The following instructions come from `e.place` (of `e.source`, called from `e.callers`)."""

    def special_register(self, e: Emitter, register: str, axis: Axis) -> llvmlite_ir.Value:
        """`tid`, `ntid`, `ctaid` or `nctaid` of one axis, as i32."""

    def check_index(
        self, e: Emitter, index: llvmlite_ir.Value, size: llvmlite_ir.Value, axis: int, array: str, written: str
    ) -> None:
        """Leave with a fault unless 0 <= index < size (both i32 or both i64); nothing where unchecked.

        `written` says how the source has the index: see `Site.written`.
        """

    def check(self, e: Emitter, holds: llvmlite_ir.Value, text: str) -> None:
        """Leave with a fault unless `holds`; nothing where unchecked."""

    def fail(self, e: Emitter, text: str) -> None:
        """End the current block: an assertion did not hold. Only reached where `checks_asserts`."""

    @property
    def checks_asserts(self) -> bool:
        """Whether assertions are compiled at all."""

    def shared(self, e: Emitter, element: llvmlite_ir.Type, count: int, name: str) -> llvmlite_ir.Value:
        """A pointer to `count` elements that the threads of a block share."""

    def local(self, e: Emitter, element: llvmlite_ir.Type, count: int, name: str) -> llvmlite_ir.Value:
        """A pointer to `count` elements of this thread's own."""

    def load(self, e: Emitter, pointer: llvmlite_ir.Value, read_only: bool) -> llvmlite_ir.Value:
        """Load one element from memory."""

    def atomic(self, e: Emitter, operation: str, pointer: Any, value: Any) -> Any:
        """Update an element in one step and give what was there (host rules only)."""

    def decide(self, e: Emitter, condition: llvmlite_ir.Value) -> bool | None:
        """A branch that is known to go one way in this version of the code; None where it is not."""

    def note_range(
        self,
        e: Emitter,
        value: llvmlite_ir.Value,
        start: llvmlite_ir.Value,
        stop: llvmlite_ir.Value,
        step: llvmlite_ir.Value,
    ) -> None:
        """`value` is what a `for` loop over range(start, stop, step) is at."""

    def suspend(self, e: Emitter, kind: str, **values: llvmlite_ir.Value) -> llvmlite_ir.Value | None:
        """Let the other threads run until they are all here (host rules only)."""

    def leave(self, e: Emitter) -> None:
        """End the current block: the kernel returns here."""


@dataclass(frozen=True)
class BufferValue:
    """A buffer argument: the address of its first element, and its sizes as values of the index type."""

    pointer: llvmlite_ir.Value
    sizes: tuple[llvmlite_ir.Value, ...]


@dataclass(frozen=True)
class ArrayValue:
    """A shared or local array."""

    pointer: llvmlite_ir.Value


@dataclass
class _Frame:
    """One function that is being walked: the kernel, or a device function in place."""

    typed: ir.Typed
    arguments: dict[str, Any]
    on_return: Callable[[Any], None]
    values: dict[str, Any] = field(default_factory=dict)
    products: dict[str, tuple[llvmlite_ir.Value, llvmlite_ir.Value]] = field(default_factory=dict)
    starts: dict[int, llvmlite_ir.Block] = field(default_factory=dict)
    ends: dict[int, llvmlite_ir.Block] = field(default_factory=dict)
    edges: set[tuple[int, int]] = field(default_factory=set)
    loops: list[tuple[int, Turn]] = field(default_factory=list)
    phis: list[tuple[ir.Assign, list[llvmlite_ir.PhiInstr]]] = field(default_factory=list)


class Emitter:
    """Fills the function that `b` (an llvmlite IRBuilder) stands in.

    Rules of intrinsics get it as their first argument: `e.b` builds, `e.llvm` and `e.const` spell types and numbers,
    `e.convert` converts, `e.use` calls a primitive, `e.target` is the machine, `e.place` where in the source we are.
    """

    def __init__(self, b: llvmlite_ir.IRBuilder, target: Target) -> None:
        self.b, self.target = b, target
        self.place = Place("", 0)
        self.callers: tuple[tuple[Place, Source], ...] = ()
        self.frames: list[_Frame] = []
        self.emitted = 0
        self.assigning = ""  # the user's name for what the current statement makes or reads

    # ------------------------------------------------------------------ what rules are built of
    void = llvmlite_ir.VoidType()

    def llvm(self, type_: Type) -> llvmlite_ir.Type:
        """The LLVM type of a scalar in a register."""
        return scalars.llvm_type(type_)

    def const(self, dtype: DType, value: int | float | bool) -> llvmlite_ir.Constant:
        """A number of that type."""
        return scalars.constant(dtype, value)

    def convert(self, value: Any, source: Type, target: Type) -> Any:
        """A value of one type as another; the meaning is the same whether a cast asks for it or a rule."""
        if source == target:
            return value
        if isinstance(source, TupleType) and isinstance(target, TupleType):
            return tuple(self.convert(v, s, t) for v, s, t in zip(value, source.items, target.items, strict=True))
        if isinstance(target, Weak):
            return conversions.literal_index(self, value, source, target)
        return conversions.convert(self, value, source, target)

    def use(self, primitive: Intrinsic, *args: Any) -> Any:
        """Call a primitive's rule for this target."""
        return primitive.rule(self.target.name)(self, *args)

    def call(self, name: str, result: llvmlite_ir.Type, args: list[llvmlite_ir.Value]) -> llvmlite_ir.Value:
        """Call an LLVM intrinsic or an external function by name."""
        module = self.b.module
        function = module.globals.get(name)
        if function is None:
            function = llvmlite_ir.Function(module, llvmlite_ir.FunctionType(result, [a.type for a in args]), name)
        return self.b.call(function, args)

    def block(self, name: str) -> llvmlite_ir.Block:
        """A new basic block at the end of the function."""
        return self.b.function.append_basic_block(name)

    # ------------------------------------------------------------------ functions
    def function(self, typed: ir.Typed, arguments: tuple[Any, ...], on_return: Callable[[Any], None]) -> None:
        """Walk a typed function from where the builder stands; `on_return(value)` ends a block that returns."""
        frame = _Frame(typed, dict(zip(typed.function.params, arguments, strict=True)), on_return)
        self.frames.append(frame)
        blocks = typed.function.blocks
        for block in blocks:
            frame.starts[block.label] = self.block(f"{typed.function.name}.{block.label}")
        self.b.branch(frame.starts[blocks[0].label])
        reached = {blocks[0].label}
        for block in blocks:
            if block.label in reached:
                self._count(block)
                self._block(frame, block)
                reached |= {to for at, to in frame.edges if at == block.label}
        for block in blocks:
            if block.label not in reached:
                self.b.function.blocks.remove(frame.starts[block.label])
        self._finish_phis(frame)
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
        """A device function, lowered in place; gives what it returns."""
        join = self.block(f"{typed.function.name}.joined")
        returned: list[tuple[Any, llvmlite_ir.Block]] = []

        def on_return(value: Any) -> None:
            returned.append((value, self.b.block))
            self.b.branch(join)

        with self._called():
            self.function(typed, arguments, on_return)
        self.b.position_at_end(join)
        if not returned:
            self.b.unreachable()
            self.b.position_at_end(self.block("never"))
            return _rebuild(iter(self._undefined(typed.result)), typed.result)
        return self._join(typed.result, returned)

    @contextmanager
    def _called(self) -> Iterator[None]:
        place, callers, name = self.place, self.callers, self.assigning
        self.callers = ((place, self.source), *callers)
        yield
        self.callers, self.assigning = callers, name
        self._at(place)

    @property
    def source(self) -> Source:
        """The source of the function that is being walked."""
        return self.frames[-1].typed.function.source

    @property
    def trace(self) -> tuple[Place, ...]:
        """Where the function that is being walked was called from, innermost first."""
        return tuple(place for place, _ in self.callers)

    def _at(self, place: Place) -> None:
        self.place = place
        self.target.locate(self)

    def _join(self, type_: Type, returned: list[tuple[Any, llvmlite_ir.Block]]) -> Any:
        phis = [self.b.phi(leaf) for leaf in _leaf_types(self, type_)]
        for value, block in returned:
            for phi, leaf in zip(phis, _leaves(value, type_), strict=True):
                phi.add_incoming(leaf, block)
        return _rebuild(iter(phis), type_)

    def _undefined(self, type_: Type) -> list[llvmlite_ir.Value]:
        return [llvmlite_ir.Constant(leaf, llvmlite_ir.Undefined) for leaf in _leaf_types(self, type_)]

    # ------------------------------------------------------------------ blocks
    def _block(self, frame: _Frame, block: ir.Block) -> None:
        self.b.position_at_end(frame.starts[block.label])
        for statement in block.body:
            self._at(statement.place)
            if isinstance(statement, ir.SetItem):
                self._set_item(frame, statement)
            else:
                self._assign(frame, block, statement)
        self._at(block.terminator.place)
        self._terminator(frame, block)

    def _terminator(self, frame: _Frame, block: ir.Block) -> None:
        terminator = block.terminator
        frame.ends[block.label] = self.b.block
        match terminator:
            case ir.Jump(target=label):
                self._go(frame, block.label, label)
            case ir.Branch(condition=name, true=true, false=false):
                self._branch(frame, block.label, name, true, false)
            case ir.Return(value=name):
                source = frame.typed.types[name]
                value = self.convert(frame.values.get(name), source, frame.typed.result)
                frame.ends[block.label] = self.b.block
                frame.on_return(value)
            case ir.Fail(text=text):
                self.target.fail(self, text)

    def _go(self, frame: _Frame, at: int, label: int) -> None:
        frame.edges.add((at, label))
        self.b.branch(frame.starts[label])

    def _branch(self, frame: _Frame, at: int, name: str, true: int, false: int) -> None:
        if not self.target.checks_asserts:
            for label, other in ((true, false), (false, true)):
                if isinstance(frame.typed.function.blocks[self._position(frame, label)].terminator, ir.Fail):
                    return self._go(frame, at, other)
        condition = self.truth(frame.values.get(name), frame.typed.types[name])
        frame.ends[at] = self.b.block
        if true == false:
            return self._go(frame, at, true)
        decided = self.target.decide(self, condition)
        if decided is not None:
            return self._go(frame, at, true if decided else false)
        frame.edges |= {(at, true), (at, false)}
        self.b.cbranch(condition, frame.starts[true], frame.starts[false])
        return None

    @staticmethod
    def _position(frame: _Frame, label: int) -> int:
        return next(k for k, block in enumerate(frame.typed.function.blocks) if block.label == label)

    def truth(self, value: Any, type_: Type) -> llvmlite_ir.Value:
        """A value as an i1."""
        return self.convert(value, type_, bool_)  # type: ignore[arg-type]

    def _finish_phis(self, frame: _Frame) -> None:
        for assign, phis in frame.phis:
            assert isinstance(assign.op, ir.Phi)
            label = next(b.label for b in frame.typed.function.blocks if assign in b.body)
            target = frame.typed.types[assign.target]
            incoming = dict(assign.op.incoming)
            for at in sorted(at for at, to in frame.edges if to == label):
                end = frame.ends[at]
                self.b.position_before(end.terminator)
                if at in incoming:
                    name = incoming[at]
                    value = self.convert(frame.values.get(name), frame.typed.types[name], target)
                    leaves = _leaves(value, target)
                else:  # not assigned on this way; the checks have shown that it is not read there
                    leaves = self._undefined(target)
                for phi, leaf in zip(phis, leaves, strict=True):
                    phi.add_incoming(leaf, end)
        order = [b.label for b in frame.typed.function.blocks]
        for label, turn in frame.loops:
            for at in sorted(at for at, to in frame.edges if to == label):
                entering = order.index(at) < order.index(label)
                for phi, first, later in turn.phis:
                    phi.add_incoming(first if entering else later, frame.ends[at])

    # ------------------------------------------------------------------ statements
    def _assign(self, frame: _Frame, block: ir.Block, assign: ir.Assign) -> None:
        type_ = frame.typed.types[assign.target]
        self.assigning = ir.user_name(assign.target)
        if isinstance(assign.op, ir.Phi):
            phis = [self.b.phi(leaf) for leaf in _leaf_types(self, type_)]
            frame.phis.append((assign, phis))
            frame.values[assign.target] = _rebuild(iter(phis), type_)
        elif isinstance(assign.op, ir.Step):
            frame.values[assign.target] = self._step(frame, block.label, assign.op.iterator)
        else:
            frame.values[assign.target] = self._op(frame, assign, type_)

    def _op(self, frame: _Frame, assign: ir.Assign, type_: Type) -> Any:
        values, types = frame.values, frame.typed.types
        match assign.op:
            case ir.Argument(name=name):
                return frame.arguments[name]
            case ir.Constant(value=value):
                return self._constant(value, type_)
            case ir.Copy(source=name):
                if ir.is_temporary(assign.target) and name in frame.products:
                    frame.products[assign.target] = frame.products[name]
                return values.get(name)
            case ir.Unary(op=op, operand=name):
                return self._unary(op, values.get(name), types[name], type_)
            case ir.Binary():
                return self._binary(frame, assign.target, assign.op, type_)
            case ir.Call():
                return self._call(frame, assign.target, assign.op)
            case ir.Attribute(value=name, name=attribute):
                return self._attribute(values.get(name), types[name], attribute, type_)
            case ir.GetItem(value=name, index=index):
                return self._get_item(frame, name, index)
            case ir.Tuple(items=items):
                return tuple(values.get(item) for item in items)
            case ir.Unpack(value=name):
                return values.get(name)
            case ir.Item(value=name, position=position):
                return values[name][position]
            case ir.Iterate(value=name):
                return values[name]
            case ir.StepValue(step=name):
                return values[name].value
            case ir.StepFlag(step=name):
                return values[name].more
        raise InternalError(f"the emitter does not know `{assign.op}`")

    def _unary(self, op: str, value: Any, source: Type, result: Type) -> Any:
        if isinstance(result, Weak):
            return value
        if op == "not":
            return self.b.not_(self.truth(value, source))
        return arithmetic.unary(self, op, self.convert(value, source, result), result)

    def _binary(self, frame: _Frame, target: str, op: ir.Binary, result: Type) -> Any:
        call = frame.typed.calls[target]
        types, values = frame.typed.types, frame.values
        if isinstance(result, Weak):  # one of the two has several values; its position is the result's
            left = types[op.left]
            return values.get(op.left) if isinstance(left, Weak) and len(left.values) > 1 else values.get(op.right)
        left, right = (
            self.convert(values.get(name), types[name], to)
            for name, to in zip((op.left, op.right), call.operands, strict=True)
        )
        left_type, right_type = call.operands
        if isinstance(left_type, Weak) and isinstance(right_type, Weak):
            return comparisons.compare_literals(self, op.op, (left, left_type), (right, right_type))
        if self.target.contract and op.op in "+-" and isinstance(result, DType) and result.is_float:
            fused = self._fused(frame, op, left, right, result)
            if fused is not None:
                return fused
        if op.op == "*" and isinstance(result, DType) and result.is_float and ir.is_temporary(target):
            frame.products[target] = left, right
        return arithmetic.binary(self, op.op, (left, left_type), (right, right_type), result)

    def _fused(self, frame: _Frame, op: ir.Binary, left: Any, right: Any, result: DType) -> Any:
        """A product fuses inside the expression that adds or subtracts it; of two products the left one."""
        types = frame.typed.types
        if op.left in frame.products and types[op.left] is result:
            x, y = frame.products[op.left]
            return arithmetic.fma(self, x, y, right if op.op == "+" else arithmetic.negate(self, right))
        if op.right in frame.products and types[op.right] is result:
            x, y = frame.products[op.right]
            return arithmetic.fma(self, x if op.op == "+" else arithmetic.negate(self, x), y, left)
        return None

    def _call(self, frame: _Frame, target: str, op: ir.Call) -> Any:
        call = frame.typed.calls[target]
        values = tuple(
            self._argument(frame, argument, to) for argument, to in zip(call.arguments, call.operands, strict=True)
        )
        if isinstance(call.callee, ir.Typed):
            return self.inline(call.callee, values)
        if values and isinstance(call.operands[0], BufferType | ArrayType):
            self.assigning = ir.user_name(self._origin(frame, str(call.arguments[0])))
        return call.callee.rule(self.target.name)(self, call, *values)

    def _argument(self, frame: _Frame, argument: str | ir.Constant, type_: Type) -> Any:
        if isinstance(argument, ir.Constant):
            return self._constant(argument.value, type_)
        return self.convert(frame.values.get(argument), frame.typed.types[argument], type_)

    def _constant(self, value: Any, type_: Type) -> Any:
        if isinstance(type_, TupleType):
            return tuple(self._constant(v, t) for v, t in zip(value, type_.items, strict=True))
        return self.const(type_, value) if isinstance(type_, DType) else None

    def _attribute(self, value: Any, source: Type, attribute: str, result: Type) -> Any:
        if isinstance(result, ObjectType | Weak):
            return None
        if isinstance(source, ObjectType) and isinstance(source.value, Namespace):
            return self.target.special_register(self, source.value.register, attribute)  # type: ignore[arg-type]
        if isinstance(source, BufferType) and attribute == "shape":
            return value.sizes
        if isinstance(source, BufferType) and attribute == "size":
            return arithmetic.product(self, list(value.sizes), source.index)
        if isinstance(source, ArrayType) and isinstance(result, TupleType):
            return tuple(None for _ in result.items)
        raise InternalError(f"the emitter does not know the attribute `{attribute}` of {source!r}")

    # ------------------------------------------------------------------ memory
    def address(
        self, array: Any, type_: BufferType | ArrayType, index: Any, index_type: Type, name: str
    ) -> llvmlite_ir.Value:
        """The address of one element; each axis is checked where the target checks."""
        indices = index_type.items if isinstance(index_type, TupleType) else (index_type,)
        values = index if isinstance(index_type, TupleType) else (index,)
        wide = type_.index.bits == 64 or any(isinstance(t, DType) and t.bits == 64 for t in indices)
        position = INDEX64 if wide else i32
        if isinstance(type_, BufferType):
            sizes = [self.convert(size, type_.index, position) for size in array.sizes]
        else:
            sizes = [self.const(position, n) for n in type_.shape]
        offset = None
        for axis, (value, source, size) in enumerate(zip(values, indices, sizes, strict=True)):
            at = conversions.index(self, value, source, size, position)
            self.target.check_index(self, at, size, axis, name, _written(source))
            offset = at if offset is None else self.b.add(self.b.mul(offset, size, flags=("nsw",)), at, flags=("nsw",))
        if offset is None:
            return array.pointer
        return self.b.gep(array.pointer, [offset], inbounds=True)

    def _get_item(self, frame: _Frame, name: str, index: str) -> Any:
        type_: Type = frame.typed.types[name]
        value: Any = frame.values.get(name)
        if isinstance(type_, TupleType):
            at = frame.typed.types[index]
            position = at.value if isinstance(at, Weak) else None
            assert isinstance(position, int)
            return value[position]
        assert isinstance(type_, BufferType | ArrayType)
        self.assigning = ir.user_name(self._origin(frame, name))
        pointer = self.address(value, type_, frame.values.get(index), frame.typed.types[index], self.assigning)
        loaded = self.target.load(self, pointer, isinstance(type_, BufferType) and type_.access == "In")
        return scalars.from_memory(self, loaded, type_.dtype)

    def _set_item(self, frame: _Frame, statement: ir.SetItem) -> None:
        type_ = frame.typed.types[statement.array]
        assert isinstance(type_, BufferType | ArrayType)
        self.assigning = ir.user_name(self._origin(frame, statement.array))
        array, index = frame.values[statement.array], frame.values.get(statement.index)
        pointer = self.address(array, type_, index, frame.typed.types[statement.index], self.assigning)
        source = frame.typed.types[statement.value]
        value = self.convert(frame.values.get(statement.value), source, type_.dtype)
        if source is INDEX64 and type_.dtype is i32:
            whole = self.convert(value, i32, INDEX64)
            fits = self.b.icmp_signed("==", whole, frame.values[statement.value])
            self.target.check(self, fits, "a position does not fit an i32 element")
        self.b.store(scalars.to_memory(self, value, type_.dtype), pointer)

    @staticmethod
    def _origin(frame: _Frame, name: str) -> str:
        """The variable behind a temporary."""
        while ir.is_temporary(name):
            found = next(
                (
                    s
                    for b in frame.typed.function.blocks
                    for s in b.body
                    if isinstance(s, ir.Assign) and s.target == name
                ),
                None,
            )
            if found is None or not isinstance(found.op, ir.Copy):
                break
            name = found.op.source
        return name

    def _step(self, frame: _Frame, label: int, iterator: str) -> Turn:
        type_, span = frame.typed.types[iterator], frame.values[iterator]
        assert isinstance(type_, IteratorType)
        turn = loops.turn(self, type_.range, span)
        self.target.note_range(self, turn.value, span.start, span.stop, span.step)
        frame.loops.append((label, turn))
        return turn


def _written(index: Type) -> str:
    """How the source has an index: see `Site.written`."""
    if isinstance(index, Weak):
        return "from_end" if len(index.values) == 1 and index.values[0] < 0 else ""
    return f"u{max(index.bits, 32)}" if isinstance(index, DType) and index.kind == "u" else ""


def _has_no_value(type_: Type) -> bool:
    return isinstance(type_, ObjectType) or (isinstance(type_, Weak) and len(type_.values) == 1)


def _leaf_types(e: Emitter, type_: Type) -> list[llvmlite_ir.Type]:
    """The LLVM types of what a value is made of at run time."""
    match type_:
        case TupleType(items=items):
            return [leaf for item in items for leaf in _leaf_types(e, item)]
        case BufferType(dtype=dtype, ndim=ndim, index=index):
            return [_pointer(e, dtype, 1), *[e.llvm(index)] * ndim]
        case ArrayType(space=space, dtype=dtype):
            return [_pointer(e, dtype, 3 if space == "shared" else 0)]
    if isinstance(type_, DType | Weak) and not _has_no_value(type_):
        return [e.llvm(type_)]
    return []


def _pointer(e: Emitter, dtype: DType, space: int) -> llvmlite_ir.Type:
    return scalars.memory_type(dtype).as_pointer(space if e.target.name == "cuda" else 0)


def _leaves(value: Any, type_: Type) -> list[llvmlite_ir.Value]:
    """What a value is made of at run time."""
    match type_:
        case TupleType(items=items):
            return [leaf for v, item in zip(value, items, strict=True) for leaf in _leaves(v, item)]
        case BufferType():
            return [value.pointer, *value.sizes]
        case ArrayType():
            return [value.pointer]
    if isinstance(type_, DType | Weak) and not _has_no_value(type_):
        return [value]
    return []


def _rebuild(leaves: Iterator[llvmlite_ir.Value], type_: Type) -> Any:
    """The value that is made of these."""
    match type_:
        case TupleType(items=items):
            return tuple(_rebuild(leaves, item) for item in items)
        case BufferType(ndim=ndim):
            return BufferValue(next(leaves), tuple(next(leaves) for _ in range(ndim)))
        case ArrayType():
            return ArrayValue(next(leaves))
    if isinstance(type_, DType | Weak) and not _has_no_value(type_):
        return next(leaves)
    return None
