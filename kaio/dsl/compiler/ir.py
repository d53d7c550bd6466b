"""The IR between the stages: SSA over kaio's own values. Pure data; it knows neither Numba nor LLVM.

    function ::= block+
    block    ::= label: phi* statement* terminator
    statement::= name = op | store
    op       ::= Constant | Argument | Copy | Phi | Unary | Binary | Call | Attribute | GetItem | Tuple | Unpack
               | Item | Iterate | Step | StepValue | StepFlag
    store    ::= SetItem
    terminator ::= Jump | Branch | Return | Fail

A name that starts with `$` is a temporary of one expression; every other one is a variable of the user's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kaio.dsl.values import Type, show
from kaio.errors import Place
from kaio.source import Source

__all__ = [
    "Argument", "Assign", "Attribute", "Binary", "Block", "Branch", "Call", "Constant", "Copy", "Fail", "Function",
    "GetItem", "Item", "Iterate", "Jump", "Op", "PathStep", "Phi", "Return", "SetItem", "Statement", "Step", "StepFlag",
    "StepValue", "Terminator", "Tuple", "Typed", "TypedCall", "Unary", "Unpack", "calls_of", "definitions",
    "is_temporary", "names_read", "operands", "predecessors", "reads", "user_name", "with_operands",
]  # fmt: skip


@dataclass(frozen=True)
class Constant:
    """A literal, or a Python object that was captured: a function, a module, a dtype.

    `parameter` names the parameter whose value it is, where that is known when compiling.
    """

    value: Any
    parameter: str = ""

    def __str__(self) -> str:
        return getattr(self.value, "__name__", None) or repr(self.value).replace("\n", "")


@dataclass(frozen=True)
class Argument:
    """The parameter of that name."""

    name: str

    def __str__(self) -> str:
        return f"argument {self.name}"


@dataclass(frozen=True)
class Copy:
    """The same value under another name."""

    source: str

    def __str__(self) -> str:
        return self.source


@dataclass(frozen=True)
class Phi:
    """The value that came in from the block before: (label, name) pairs."""

    incoming: tuple[tuple[int, str], ...]

    def __str__(self) -> str:
        return "phi " + ", ".join(f"{label}: {name}" for label, name in self.incoming)


@dataclass(frozen=True)
class Unary:
    """``- + ~ not``."""

    op: str
    operand: str

    def __str__(self) -> str:
        return f"{self.op} {self.operand}"


@dataclass(frozen=True)
class Binary:
    """An arithmetic, bitwise, shift or comparison operator, or `in`."""

    op: str
    left: str
    right: str

    def __str__(self) -> str:
        return f"{self.left} {self.op} {self.right}"


@dataclass(frozen=True)
class Call:
    """A call of an intrinsic, a dtype or a device function."""

    function: str
    args: tuple[str, ...]
    kwargs: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        return f"{self.function}({', '.join([*self.args, *(f'{k}={v}' for k, v in self.kwargs)])})"


@dataclass(frozen=True)
class Attribute:
    """`value.name`."""

    value: str
    name: str

    def __str__(self) -> str:
        return f"{self.value}.{self.name}"


@dataclass(frozen=True)
class GetItem:
    """`value[index]`."""

    value: str
    index: str

    def __str__(self) -> str:
        return f"{self.value}[{self.index}]"


@dataclass(frozen=True)
class Tuple:
    """`(items)`."""

    items: tuple[str, ...]

    def __str__(self) -> str:
        return f"({', '.join(self.items)})"


@dataclass(frozen=True)
class Unpack:
    """A tuple that must have `count` items."""

    value: str
    count: int

    def __str__(self) -> str:
        return f"unpack {self.count} of {self.value}"


@dataclass(frozen=True)
class Item:
    """Item `position` of a tuple that was unpacked."""

    value: str
    position: int

    def __str__(self) -> str:
        return f"item {self.position} of {self.value}"


@dataclass(frozen=True)
class Iterate:
    """Start a loop over a range or a tuple."""

    value: str

    def __str__(self) -> str:
        return f"iterate {self.value}"


@dataclass(frozen=True)
class Step:
    """Advance a loop."""

    iterator: str

    def __str__(self) -> str:
        return f"step {self.iterator}"


@dataclass(frozen=True)
class StepValue:
    """The number or item that a loop is at."""

    step: str

    def __str__(self) -> str:
        return f"value of {self.step}"


@dataclass(frozen=True)
class StepFlag:
    """Whether the loop has a number left."""

    step: str

    def __str__(self) -> str:
        return f"more in {self.step}"


Op = (
    Constant
    | Argument
    | Copy
    | Phi
    | Unary
    | Binary
    | Call
    | Attribute
    | GetItem
    | Tuple
    | Unpack
    | Item
    | Iterate
    | Step
    | StepValue
    | StepFlag
)


@dataclass(frozen=True)
class Assign:
    """`target = op`; each target is assigned once."""

    target: str
    op: Op
    place: Place

    def __str__(self) -> str:
        return f"{self.target} = {self.op}"


@dataclass(frozen=True)
class PathStep:
    """A part of an element: a field by its name, or an item by the name of its index, which is a literal."""

    name: str
    is_index: bool = False

    def __str__(self) -> str:
        return f"[{self.name}]" if self.is_index else f".{self.name}"


@dataclass(frozen=True)
class SetItem:
    """`array[index] = value`, or of a part of the element: `array[index].field[k]` has the path (.field, [k])."""

    array: str
    index: str
    value: str
    place: Place
    path: tuple[PathStep, ...] = ()

    @property
    def reads(self) -> tuple[str, ...]:
        """The names that it reads."""
        return self.array, self.index, self.value, *(step.name for step in self.path if step.is_index)

    def with_names(self, names: Mapping[str, str]) -> SetItem:
        """The same with other names in place of those."""
        path = tuple(PathStep(names.get(s.name, s.name), True) if s.is_index else s for s in self.path)
        array, index, value = (names.get(name, name) for name in (self.array, self.index, self.value))
        return SetItem(array, index, value, self.place, path)

    def __str__(self) -> str:
        return f"{self.array}[{self.index}]{''.join(map(str, self.path))} = {self.value}"


Statement = Assign | SetItem


@dataclass(frozen=True)
class Jump:
    """Go on at `target`."""

    target: int
    place: Place

    def __str__(self) -> str:
        return f"jump {self.target}"


@dataclass(frozen=True)
class Branch:
    """Go on at one of two blocks."""

    condition: str
    true: int
    false: int
    place: Place

    def __str__(self) -> str:
        return f"branch {self.condition}: {self.true} else {self.false}"


@dataclass(frozen=True)
class Return:
    """Leave the function with a value (None in a kernel)."""

    value: str
    place: Place

    def __str__(self) -> str:
        return f"return {self.value}"


@dataclass(frozen=True)
class Fail:
    """An assertion that did not hold."""

    text: str
    place: Place

    def __str__(self) -> str:
        return f"fail {self.text!r}"


Terminator = Jump | Branch | Return | Fail


@dataclass(frozen=True)
class Block:
    """Statements that run one after the other, phis first."""

    label: int
    body: tuple[Statement, ...]
    terminator: Terminator

    def targets(self) -> tuple[int, ...]:
        """The labels of the blocks that may follow."""
        match self.terminator:
            case Jump(target=target):
                return (target,)
            case Branch(true=true, false=false):
                return true, false
        return ()


@dataclass(frozen=True)
class Function:
    """A function in SSA form; `blocks` are in an order in which every name is defined before it is used."""

    name: str
    params: tuple[str, ...]
    blocks: tuple[Block, ...]
    source: Source

    def __str__(self) -> str:
        return _print(self, {})


@dataclass(frozen=True)
class TypedCall:
    """What a call or an operator came out as.

    callee: an `Intrinsic`, a typed device function, or None for an operator
    arguments: in the order of the callee's parameters: a name, or the constant of a default
    operands: the types that the arguments are converted to
    static: what the record's rules need to know beyond that
    body: a function that the record's rules lower in place
    rounded: the type that the result is converted to in the end, where it is another
    """

    callee: Any
    arguments: tuple[str | Constant, ...]
    operands: tuple[Type, ...]
    result: Type
    static: tuple[Any, ...] = ()
    body: Typed | None = None
    rounded: Type | None = None


@dataclass(frozen=True)
class Typed:
    """A function with the type of every name; calls and operators carry what they resolved to.

    `arguments` has one type a parameter, None for a `Const` one.
    """

    function: Function
    types: dict[str, Type]
    calls: dict[str, TypedCall]
    arguments: tuple[Type | None, ...]
    result: Type

    def __str__(self) -> str:
        return _print(self.function, self.types)


def definitions(function: Function) -> dict[str, Assign]:
    """The assignment of each name."""
    return {s.target: s for block in function.blocks for s in block.body if isinstance(s, Assign)}


def predecessors(blocks: Iterable[Block]) -> dict[int, list[int]]:
    """The labels of the blocks that lead to each, in order, each once; none is kept where nothing leads to it."""
    found: dict[int, list[int]] = defaultdict(list)
    for block in blocks:
        for target in dict.fromkeys(block.targets()):
            found[target].append(block.label)
    return {label: sorted(labels) for label, labels in found.items()}


def calls_of(typed: Typed) -> Iterator[tuple[Assign, TypedCall]]:
    """The calls of a function and of those that it calls, in the order of the code; each function is walked once."""
    return _calls_of(typed, set())


def _calls_of(typed: Typed, seen: set[int]) -> Iterator[tuple[Assign, TypedCall]]:
    if id(typed) in seen:
        return
    seen.add(id(typed))
    for name, assign in definitions(typed.function).items():
        if (call := typed.calls.get(name)) is not None:
            yield assign, call
            for callee in (call.callee, call.body):
                if isinstance(callee, Typed):
                    yield from _calls_of(callee, seen)


def is_temporary(name: str) -> bool:
    """Whether a name is a temporary of one expression."""
    return name.startswith("$")


def user_name(name: str) -> str:
    """A variable's name as the user wrote it (SSA adds `.1`, `.2`)."""
    return name.split(".")[0]


def operands(op: Op) -> tuple[str, ...]:
    """The names an op reads."""
    match op:
        case Copy(source=name) | Unary(operand=name) | Attribute(value=name) | Unpack(value=name) | Item(value=name):
            return (name,)
        case Iterate(value=name):
            return (name,)
        case Step(iterator=name) | StepValue(step=name) | StepFlag(step=name):
            return (name,)
        case Binary(left=left, right=right):
            return left, right
        case GetItem(value=value, index=index):
            return value, index
        case Tuple(items=items):
            return items
        case Call(function=function, args=args, kwargs=kwargs):
            return (function, *args, *(name for _, name in kwargs))
        case Phi(incoming=incoming):
            return tuple(name for _, name in incoming)
    return ()


def reads(what: Statement | Terminator) -> tuple[str, ...]:
    """The names that a statement or a terminator reads."""
    match what:
        case Assign(op=op):
            return operands(op)
        case SetItem():
            return what.reads
        case Branch(condition=name) | Return(value=name):
            return (name,)
    return ()


def names_read(function: Function) -> frozenset[str]:
    """The names that something in a function reads."""
    statements = (what for block in function.blocks for what in (*block.body, block.terminator))
    return frozenset(name for what in statements for name in reads(what))


def with_operands(op: Op, names: tuple[str, ...]) -> Op:
    """The same op reading other names, in the order of `operands`."""
    match op:
        case Copy():
            return Copy(*names)
        case Unary(op=symbol):
            return Unary(symbol, names[0])
        case Binary(op=symbol):
            return Binary(symbol, names[0], names[1])
        case Call(args=args, kwargs=kwargs):
            given = tuple((keyword, name) for (keyword, _), name in zip(kwargs, names[1 + len(args) :], strict=True))
            return Call(names[0], names[1 : 1 + len(args)], given)
        case Attribute(name=attribute):
            return Attribute(names[0], attribute)
        case GetItem():
            return GetItem(*names)
        case Tuple():
            return Tuple(names)
        case Unpack(count=count):
            return Unpack(names[0], count)
        case Item(position=position):
            return Item(names[0], position)
        case Iterate() | Step() | StepValue() | StepFlag():
            return type(op)(*names)
        case Phi(incoming=incoming):
            return Phi(tuple((label, name) for (label, _), name in zip(incoming, names, strict=True)))
    return op


def _print(function: Function, types: dict[str, Type]) -> str:
    lines = [f"{function.name}({', '.join(function.params)})"]
    for block in function.blocks:
        lines.append(f"{block.label}:")
        for statement in block.body:
            type_ = types.get(statement.target) if isinstance(statement, Assign) else None
            lines.append(f"    {statement}" + (f"    : {show(type_)}" if type_ is not None else ""))
        lines.append(f"    {block.terminator}")
    return "\n".join(lines)
