"""Inline PTX in LLVM, and the assembler's words about it brought back to who wrote it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from llvmlite import ir as llvm

from kaio.errors import CompileError, Mistake, Place

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter

__all__ = ["Written", "assemble", "in_words", "instruction", "mark"]

_MARK = re.compile(r"^\s*// kaio\.ptx (\d+)\b", re.MULTILINE)
_ERROR = re.compile(r"line (\d+); (?:error|fatal)\s*: (.*)")


def assemble(
    e: Emitter,
    text: str,
    results: Sequence[llvm.Type],
    operands: Sequence[llvm.Value],
    *,
    volatile: bool = False,
    memory: bool = False,
) -> list[llvm.Value]:
    """Put PTX where the builder stands; gives one value for each of `results`.

    In the text `$0`, `$1` … are the registers of the results, then those of the operands. `volatile` code is neither
    dropped, repeated nor moved into a branch; `memory` says that it reads or writes what other code does.
    """
    constraints = ["=" + _letter(kind) for kind in results] + [_letter(value.type) for value in operands]
    constraints += ["~{memory}"] * memory
    kind: llvm.Type = llvm.VoidType()
    if results:
        kind = results[0] if len(results) == 1 else llvm.LiteralStructType(results)
    function_type = llvm.FunctionType(kind, [value.type for value in operands])
    is_effect = volatile or memory or not results
    code = llvm.InlineAsm(function_type, _escaped(text), ",".join(constraints), side_effect=is_effect)
    made = e.b.call(code, operands, attrs=("convergent",) if is_effect else ("readnone", "nounwind"))
    if len(results) < 2:
        return [made] * len(results)
    return [e.b.extract_value(made, k) for k in range(len(results))]


def instruction(e: Emitter, mnemonic: str, result: llvm.Type, operands: Sequence[llvm.Value]) -> llvm.Value:
    """One instruction whose result depends on its operands alone."""
    text = ", ".join(f"${k}" for k in range(len(operands) + 1))
    return assemble(e, f"{mnemonic} {text};", [result], operands)[0]


def _letter(kind: llvm.Type) -> str:
    """The constraint for a register of that type."""
    if isinstance(kind, llvm.IntType):
        return {1: "b", 16: "h", 32: "r", 64: "l"}[kind.width]
    if isinstance(kind, llvm.PointerType):
        return "r" if kind.addrspace == 3 else "l"
    return "f" if isinstance(kind, llvm.FloatType) else "d"


def _escaped(text: str) -> str:
    """A text as LLVM reads it between quotation marks."""
    return "".join(c if c.isascii() and c.isprintable() and c not in '"\\' else f"\\{ord(c):02X}" for c in text)


# ---------------------------------------------------------------------- whose code the assembler refuses
@dataclass(frozen=True)
class Written:
    """Inline PTX of a user's: what it is called, where it was written, and the first call of it."""

    name: str
    text: str
    place: Place
    call: Place
    trace: tuple[Place, ...] = ()


def mark(number: int, name: str) -> str:
    """The comment in front of inline PTX by which `in_words` finds it again."""
    return f"// kaio.ptx {number}: {name}"


def in_words(problem: CompileError, ptx: str, written: Mapping[int, Written], target: str) -> CompileError:
    """The assembler's error, told at the call of the inline PTX that it is in; as it is where it is in none."""
    lines = ptx.splitlines()
    found: dict[int, list[str]] = {}
    for number, text in _ERROR.findall(str(problem.facts.get("log", ""))):
        at = _mark_above(lines, int(number))
        if not at and len(written) == 1:  # code of kaio's is right: what is wrong is open since the inline code
            at = next(iter(written))
        if at in written:
            found.setdefault(at, []).append(text)
    if not found:
        return problem
    return CompileError([_told(written[at], texts, target) for at, texts in found.items()])


def _told(code: Written, texts: list[str], target: str) -> Mistake:
    said = "; ".join(dict.fromkeys(texts))
    what = f"the assembler refuses `{code.name}` for {target}: {said}"
    return Mistake(what, code.call, f"it is written in {code.place}: {code.text!r}", code.trace)


def _mark_above(lines: list[str], number: int) -> int:
    """The number of the mark of the inline code that a line (1-based) is in, or ends; 0 where it is in none."""
    is_next = True  # there is nothing between: the inline code did not end, for want of a `;`
    for line in reversed(lines[: number - 1]):
        found: Any = _MARK.match(line)
        if found:
            return int(found[1])
        if line.strip() == "// begin inline asm" or (line.strip() == "// end inline asm" and not is_next):
            break
        is_next = is_next and (not line.strip() or line.strip().startswith("//"))
    return 0
