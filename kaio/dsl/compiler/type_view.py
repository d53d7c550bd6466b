"""`kernel.types()`: the source with the type that each variable was found to have beside the line that sets it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from kaio.dsl.compiler import ir
from kaio.dsl.values import ArrayType, BufferType, ObjectType, Type, Weak, show
from kaio.dtypes import DType
from kaio.errors import Place

__all__ = ["settled", "type_view"]

_WIDEST = 72
"""Where the margin begins at the latest; behind a longer line it follows the line."""


def type_view(typed: ir.Typed, consts: Mapping[str, Any]) -> str:
    """The kernel, compiled for these constants, then each function that it calls for each types of its arguments."""
    return "\n\n".join(_function(one, line, consts if one is typed else {}) for one, line in _functions(typed))


def _functions(typed: ir.Typed) -> Iterator[tuple[ir.Typed, str]]:
    """The function and those that it calls, each once, with the line that it is called from first."""
    seen = {id(typed)}
    todo = [(typed, "")]
    while todo:
        one, called = todo.pop(0)
        yield one, called
        for name, assign in ir.definitions(one.function).items():
            callee = one.calls[name].callee if name in one.calls else None
            if isinstance(callee, ir.Typed) and id(callee) not in seen:
                seen.add(id(callee))
                todo.append((callee, f", called from {assign.place.file}:{assign.place.line}"))


def _function(typed: ir.Typed, called: str, consts: Mapping[str, Any]) -> str:
    source = typed.function.source
    notes = _notes(typed, consts)
    lines = source.text.rstrip("\n").split("\n")
    number_width = len(str(source.first_line + len(lines) - 1))
    margin = min(max(map(len, lines)), _WIDEST) + 2
    shown = [f"{source.qualified_name}, {source.file}:{source.first_line}{called}"]
    for number, line in enumerate(lines, source.first_line):
        beside = ", ".join(notes.get(number, ()))
        text = f"{line:<{margin - 2}}  # {beside}" if beside else line
        shown.append(f"{number:>{number_width}} | {text}".rstrip())
    return "\n".join(shown)


def _notes(typed: ir.Typed, consts: Mapping[str, Any]) -> dict[int, list[str]]:
    """What stands beside each line, by its number."""
    shown_as = settled(typed)
    found = []
    for block in typed.function.blocks:
        for statement in block.body:
            note = _stored(typed, statement) if isinstance(statement, ir.SetItem) else _set(typed, shown_as, statement)
            if note:
                found.append((statement.place.line, _column(statement.place, note), note))
    notes: dict[int, dict[str, None]] = defaultdict(dict)
    notes[typed.function.source.node.lineno] = dict.fromkeys(_head(typed, consts))
    for line, _, note in sorted(found):
        notes[line][note] = None
    return {line: list(texts) for line, texts in notes.items()}


def _column(place: Place, note: str) -> int:
    """Where the name of a note stands in its line: bytecode may have one place for two variables."""
    name = re.match(r"\w*", note)
    found = re.search(rf"\b{name[0]}\b", place.text) if name and name[0] else None
    return found.start() if found else place.column


def _head(typed: ir.Typed, consts: Mapping[str, Any]) -> Iterator[str]:
    """The parameters whose types the annotations do not say, and what the function gives."""
    written = typed.function.source.text.replace("kaio.", "")
    for name, type_ in zip(typed.function.params, typed.arguments, strict=True):
        value = f"{consts[name]!r}" if name in consts else "a constant"
        note = f"{name}: {value if type_ is None else _named(type_)}"
        if note not in written:
            yield note
    if not isinstance(typed.result, ObjectType):
        yield f"-> {_named(typed.result)}"


def _set(typed: ir.Typed, types: dict[str, Type], assign: ir.Assign) -> str | None:
    """`name: type` where a statement sets a variable."""
    name = ir.user_name(assign.target)
    is_given = isinstance(assign.op, ir.Phi | ir.Argument) or (
        isinstance(assign.op, ir.Constant) and assign.target in typed.function.params
    )
    if ir.is_temporary(assign.target) or is_given or assign.target not in types:
        return None
    return f"{name}: {_named(types[assign.target])}"


def _stored(typed: ir.Typed, statement: ir.SetItem) -> str | None:
    """A store that converts: `y[]: u8, from i32`."""
    array, value = typed.types[statement.array], typed.types[statement.value]
    if statement.path:
        return None
    if not isinstance(array, BufferType | ArrayType) or not isinstance(value, DType) or value is array.dtype:
        return None
    name = "" if ir.is_temporary(statement.array) else ir.user_name(statement.array)
    return f"{name}[]: {array.dtype.name}, from {value.name}"


def settled(typed: ir.Typed) -> dict[str, Type]:
    """The types, with variables that a literal sets shown as what they are where ways join: `acc = 0` of an f32."""
    types = dict(typed.types)
    phis = [
        (assign.target, assign.op.incoming)
        for assign in ir.definitions(typed.function).values()
        if isinstance(assign.op, ir.Phi) and not ir.is_temporary(assign.target)
    ]
    changed = True
    while changed:
        changed = False
        for target, incoming in phis:
            for _, name in incoming:
                if isinstance(types.get(name), Weak) and isinstance(types.get(target), DType):
                    types[name], changed = types[target], True
    return types


def _named(type_: Type) -> str:
    return show(type_).replace("`", "")
