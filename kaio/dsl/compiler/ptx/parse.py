"""PTX text to `syntax`: directives, functions, scopes and ``.loc`` lines. What a module cannot say is an error."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from kaio.dsl.compiler.ptx.kinds import bits_of
from kaio.dsl.compiler.ptx.scopes import Scopes
from kaio.dsl.compiler.ptx.syntax import (
    Address,
    Call,
    Function,
    Immediate,
    Instruction,
    Item,
    Label,
    Line,
    Module,
    Operand,
    Pair,
    Register,
    Special,
    Symbol,
    Table,
    Variable,
    Vector,
)
from kaio.dsl.compiler.ptx.tokens import Tokens
from kaio.errors import InternalError

__all__ = ["parse"]

_SPACES = (".global", ".const", ".shared", ".local", ".param")
_LINKAGE = (".visible", ".extern", ".weak", ".common")
_LOC = re.compile(r"\.loc\s+(\d+)\s+(\d+)\s+(\d+)(?:.*inlined_at\s+(\d+)\s+(\d+)\s+(\d+))?")
_OCTAL = re.compile(r"^0(?=[0-7])")
_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]*)"', re.MULTILINE)

Place = tuple[str, int, int]


def parse(text: str) -> Module:
    """The module that a PTX text says."""
    return _Parser(text).module()


class _Parser:
    def __init__(self, text: str) -> None:
        self.t = Tokens(text)
        self.files: dict[str, str] = dict(_FILE.findall(text))
        self.callers: dict[Place, tuple[Place, ...]] = {}  # of every place so far, for chains of inlined functions

    # ------------------------------------------------------------------ the module
    def module(self) -> Module:
        facts = {"version": "", "target": ""}
        functions: dict[str, Function] = {}
        variables: list[Variable] = []
        while self.t.next:
            if self.t.kind == "line":
                name, *rest = self.t.take().split()
                facts[name[1:]] = rest[0]
            elif self.t.takes(".section"):
                self._skip_braces()
            elif self._is_function():
                function = self._function()
                if function is not None:
                    functions[function.name] = function
            else:
                variables.append(self._variable())
                self.t.expect(";")
        return Module(facts["version"], facts["target"], functions, tuple(variables))

    def _is_function(self) -> bool:
        """Whether what follows the words of linkage, which are taken here, is a function."""
        self.is_extern = False
        while self.t.next in _LINKAGE:
            self.is_extern |= self.t.take() == ".extern"
        return self.t.next in (".entry", ".func")

    def _skip_braces(self) -> None:
        depth = 0
        while True:
            token = self.t.take()
            depth += (token == "{") - (token == "}")
            if (depth == 0 and token == "}") or not token:
                return

    # ------------------------------------------------------------------ functions
    def _function(self) -> Function | None:
        """A function; None where it is only declared."""
        is_entry = self.t.take() == ".entry"
        results = self._parameters() if self.t.next == "(" else ()
        name = self.t.take()
        parameters = self._parameters() if self.t.next == "(" else ()
        while self.t.next not in ("{", ";"):  # what a launch may be
            self.t.take()
        if self.t.takes(";"):
            return None
        self.scopes = Scopes()
        self.line: Line | None = None
        self.variables: list[Variable] = []
        body = self._block()
        return Function(name, is_entry, parameters, results, self.scopes.registers, tuple(self.variables), tuple(body))

    def _parameters(self) -> tuple[Variable, ...]:
        self.t.expect("(")
        found = []
        while not self.t.takes(")"):
            found.append(self._variable())
            self.t.takes(",")
        return tuple(found)

    def _variable(self) -> Variable:
        """A declaration of memory, from its state space on."""
        space = self.t.take()
        if space not in _SPACES:
            raise InternalError(f"PTX has a declaration of `{space}`, which is not known")
        kind, alignment = "", 0
        while self.t.next.startswith("."):
            word = self.t.take()
            if word == ".align":
                alignment = int(self.t.take())
            elif word not in (".ptr", *_SPACES):  # what a pointer points to
                kind = word[1:]
        name = self.t.take()
        size = max(1, bits_of(kind) // 8)
        count = 1
        if self.t.takes("["):
            count = int(self.t.take()) if self.t.next != "]" else 0
            self.t.expect("]")
        initial = self._initial(size) if self.t.takes("=") else None
        return Variable(name, space[1:], kind, count * size, alignment or size, initial, self.is_extern)

    def _initial(self, size: int) -> bytes:
        """The bytes of ``{1, 2}`` or ``1``."""
        if not self.t.takes("{"):
            return self._number().value.to_bytes(size, "little")
        found = b""
        while not self.t.takes("}"):
            found += (self._number().value & (1 << 8 * size) - 1).to_bytes(size, "little")
            self.t.takes(",")
        return found

    # ------------------------------------------------------------------ statements
    def _block(self) -> list[Item]:
        self.t.expect("{")
        self.scopes.open(self.t.labels())
        found: list[Item] = []
        while not self.t.takes("}"):
            found += self._statement()
        self.scopes.close()
        return found

    def _statement(self) -> list[Item]:
        if self.t.next == "{":
            return self._block()
        if self.t.kind == "line":
            self._locate(self.t.take())
            return []
        if self.t.takes(";"):
            return []
        if self.t.next.startswith("."):
            self._declaration()
            return []
        if self.t.follows(":"):
            return [self._label()]
        start = self.t.start
        guard = self._register() if self.t.takes("@") else None
        opcode = self.t.take()
        item: Item
        if opcode.partition(".")[0] == "call":
            item = self._call(guard)
        else:
            operands = self._listed(self._operand, ";")
            text = " ".join(self.t.text[start : self.t.start].split())
            item = Instruction(opcode, operands, guard, self.line, text)
        self.t.expect(";")
        return [item]

    def _declaration(self) -> None:
        if self.t.takes(".pragma"):
            while not self.t.takes(";"):
                self.t.take()
        elif self.t.takes(".reg"):
            self._registers()
        else:
            self.is_extern = False
            made = self._variable()
            self.variables.append(
                Variable(self.scopes.declare(made.name), made.space, made.type, made.nbytes, made.alignment)
            )
            self.t.expect(";")

    def _registers(self) -> None:
        kind = self.t.take()[1:]
        while True:
            name, count = self.t.take(), None
            if self.t.takes("<"):
                count = int(self.t.take())
                self.t.expect(">")
            self.scopes.declare(name, kind, count)
            if not self.t.takes(","):
                break
        self.t.expect(";")

    def _label(self) -> Item:
        name = self._known(self.t.take())
        self.t.expect(":")
        if not self.t.takes(".branchtargets"):
            return Label(name)
        labels = self._listed(lambda: self._known(self.t.take()), ";")
        self.t.expect(";")
        return Table(name, labels)

    def _call(self, guard: Register | None) -> Call:
        def names() -> tuple[str, ...]:
            self.t.expect("(")
            found = self._listed(lambda: self._known(self.t.take()), ")")
            self.t.expect(")")
            return found

        results = names() if self.t.next == "(" else ()
        self.t.takes(",")
        function = self.t.take()
        arguments = names() if self.t.takes(",") else ()
        return Call(function, results, arguments, guard, self.line)

    def _locate(self, text: str) -> None:
        match = _LOC.match(text)
        if match is None:
            return
        file, line, column, *inlined = match.groups()
        if int(line) == 0:  # made by the compiler; nearest is what came before
            return
        at = self._file(file), int(line), int(column)
        callers: tuple[Place, ...] = ()
        if inlined[0] is not None:
            caller = self._file(inlined[0]), int(inlined[1]), int(inlined[2])
            callers = (caller, *self.callers.get(caller, ()))
        self.callers.setdefault(at, callers)
        self.line = Line(*at, callers)

    def _file(self, number: str) -> str:
        return self.files.get(number, "").removeprefix("./")

    # ------------------------------------------------------------------ operands
    def _listed(self, one: Callable[[], object], stop: str) -> tuple[Any, ...]:
        """What stands between commas, up to `stop`."""
        found = []
        while self.t.next != stop:
            found.append(one())
            if not self.t.takes(","):
                break
        return tuple(found)

    def _operand(self) -> Operand:
        first = self._one()
        return Pair(first, self._one()) if self.t.takes("|") else first

    def _one(self) -> Operand:
        if self.t.takes("{"):
            items = self._listed(self._operand, "}")
            self.t.expect("}")
            return Vector(items)
        if self.t.takes("["):
            return self._address()
        if self.t.kind in ("int", "float") or self.t.next == "-":
            return self._number()
        if self.t.next == "!":
            return self._register()
        return self._named(self.t.take())

    def _named(self, name: str) -> Operand:
        if name == "WARP_SZ":
            return Immediate(32)
        known = self.scopes.find(name)
        if known in self.scopes.registers or name == "_":
            return Register(known or name)
        if name.startswith("%") and known is None:
            return Special(name)
        return Symbol(known or name, self._offset())

    def _address(self) -> Address:
        base = self._one()
        if isinstance(base, Symbol):
            base, offset = Symbol(base.name), base.offset
        else:
            offset = self._offset()
        if not isinstance(base, Register | Symbol | Immediate) or self.t.next != "]":
            raise InternalError(f"PTX has an address that is not known: {self.t.around()!r}")
        self.t.expect("]")
        return Address(base, offset)

    def _offset(self) -> int:
        return self._number().value if self.t.takes("+") else 0

    def _number(self) -> Immediate:
        sign = -1 if self.t.takes("-") else 1
        kind, text = self.t.kind, self.t.take()
        if kind == "float":
            return Immediate(int(f"0x{text[2:]}", 0), 32 if text[1] in "fF" else 64)
        return Immediate(sign * int(_OCTAL.sub("0o", text.rstrip("U")), 0))

    def _register(self) -> Register:
        negated = self.t.takes("!")
        return Register(self._known(self.t.take()), negated)

    def _known(self, name: str) -> str:
        return self.scopes.find(name) or name
