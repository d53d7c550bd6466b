"""PTX as values: what `parse` makes of a text. Names are resolved: each register, label and variable has one name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

__all__ = [
    "Address", "Call", "Function", "Immediate", "Instruction", "Item", "Label", "Line", "Module", "Operand", "Pair",
    "Register", "Special", "Symbol", "Table", "Variable", "Vector",
]  # fmt: skip


# ---------------------------------------------------------------------- operands
@dataclass(frozen=True)
class Register:
    """A virtual register; `negated` is a predicate taken as its opposite (``!%p1``)."""

    name: str
    negated: bool = False


@dataclass(frozen=True)
class Special:
    """A register of the machine: ``%tid.x``."""

    name: str


@dataclass(frozen=True)
class Immediate:
    """A number as written: an int, or the bits of a float with their width (``0f3F800000``)."""

    value: int
    float_bits: int = 0


@dataclass(frozen=True)
class Symbol:
    """A variable, parameter, label or function by its name, and bytes beyond its start."""

    name: str
    offset: int = 0


@dataclass(frozen=True)
class Address:
    """``[%rd1+8]``."""

    base: Register | Symbol | Immediate
    offset: int = 0


@dataclass(frozen=True)
class Vector:
    """``{%f1, %f2}``."""

    items: tuple[Operand, ...]


@dataclass(frozen=True)
class Pair:
    """``%r1|%p1``: two results."""

    first: Operand
    second: Operand


Operand: TypeAlias = Register | Special | Immediate | Symbol | Address | Vector | Pair


# ---------------------------------------------------------------------- statements
@dataclass(frozen=True)
class Line:
    """A ``.loc``: file, line and column of the source, and of the calls that led there, innermost first."""

    file: str
    line: int
    column: int
    callers: tuple[tuple[str, int, int], ...] = ()


@dataclass(frozen=True)
class Instruction:
    """One instruction: its dotted opcode, its operands, and the predicate under which it is executed.

    text: as written
    """

    opcode: str
    operands: tuple[Operand, ...]
    guard: Register | None = None
    line: Line | None = field(default=None, repr=False)
    text: str = field(default="", repr=False, compare=False)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Call:
    """A call of a function of the module: variables of ``.param`` for what it gives and takes."""

    function: str
    results: tuple[str, ...]
    arguments: tuple[str, ...]
    guard: Register | None = None
    line: Line | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Label:
    """Where branches go."""

    name: str


@dataclass(frozen=True)
class Table:
    """The labels that an indexed branch chooses of (``.branchtargets``)."""

    name: str
    labels: tuple[str, ...]


Item: TypeAlias = Instruction | Call | Label | Table


@dataclass(frozen=True)
class Variable:
    """Memory with a name: its state space, bytes, alignment and first bytes (None: nobody says)."""

    name: str
    space: str
    type: str
    nbytes: int
    alignment: int
    initial: bytes | None = None
    is_extern: bool = False


@dataclass(frozen=True)
class Function:
    """An entry or function: parameters, what it gives, registers with their types, memory of its own, and its body."""

    name: str
    is_entry: bool
    parameters: tuple[Variable, ...]
    results: tuple[Variable, ...]
    registers: Mapping[str, str] = field(repr=False)
    variables: tuple[Variable, ...]
    body: tuple[Item, ...] = field(repr=False)


@dataclass(frozen=True)
class Module:
    """A PTX text."""

    version: str
    target: str
    functions: Mapping[str, Function]
    variables: tuple[Variable, ...]

    @property
    def entry(self) -> Function:
        """The one kernel."""
        (found,) = (function for function in self.functions.values() if function.is_entry)
        return found
