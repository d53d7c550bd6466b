"""One record per opcode: which instructions it is, what they take and give, and what they mean on the host.

A form is written as in the PTX ISA: ``mad.mode.type`` with the words that `mode` and `type` stand for, ``{.ftz}`` for
what may be left out. `takes` and `gives` name the types of the operands: a word of the form (``type``), a type
(``u32``), or ``wide``, twice the bits of `type`. The rule then gets values and gives one value (a tuple where `gives`
has several); a record without `takes` and `gives` does with the operands what it likes.

>>> from kaio.dsl.compiler.ptx.opcodes import find
>>> find("mad.lo.s32")[1]
{'mode': 'lo', 'type': 's32'}
"""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kaio.dsl.compiler.ptx.kinds import double
from kaio.dsl.compiler.ptx.syntax import Instruction, Operand

__all__ = ["FLOATS", "INTEGERS", "WORDS", "Opcode", "Step", "find", "opcode"]

INTEGERS = "s16 u16 s32 u32 s64 u64"
WORDS = "b16 b32 b64"
FLOATS = "f32 f64"

_FILES = (
    "asynchronous", "atomics", "barriers", "bits", "clusters", "comparisons", "conversions", "floats", "integers",
    "matrices", "mbarriers", "memory", "moves", "warps",
)  # fmt: skip
_PART = re.compile(r"\{\.([\w:.]+)\}|\.?([\w:]+)")
_records: dict[str, list[Opcode]] = {}


@dataclass(frozen=True)
class Opcode:
    """The record of one form.

    suspends: whether a thread may wait in it
    """

    form: str
    pattern: re.Pattern[str]
    takes: tuple[str, ...]
    gives: tuple[str, ...]
    rule: Callable[..., Any]
    suspends: bool

    @property
    def is_typed(self) -> bool:
        """Whether operands are read and results written by what the record says of them."""
        return bool(self.takes or self.gives)


@dataclass(frozen=True)
class Step:
    """One instruction with the words of its form: ``i["type"]`` is empty where the word was left out."""

    instruction: Instruction
    words: Mapping[str, str]

    def __getitem__(self, word: str) -> str:
        return self.words.get(word, "")

    @property
    def operands(self) -> tuple[Operand, ...]:
        """As written, results first."""
        return self.instruction.operands

    def kind(self, name: str) -> str:
        """The type that `takes` or `gives` names."""
        return double(self["type"]) if name == "wide" else self.words.get(name, name)


Rule = Callable[..., Any]


def opcode(
    *forms: str, takes: str = "", gives: str = "", suspends: bool = False, **choices: str
) -> Callable[[Rule], Rule]:
    """Make the rule that follows the record of these forms."""

    def note(rule: Rule) -> Rule:
        for form in forms:
            made = Opcode(form, _pattern(form, choices), tuple(takes.split()), tuple(gives.split()), rule, suspends)
            _records.setdefault(form.partition(".")[0].partition("{")[0], []).append(made)
        return rule

    return note


def _pattern(form: str, choices: Mapping[str, str]) -> re.Pattern[str]:
    text = ""
    for optional, plain in _PART.findall(form):
        word = optional or plain
        part = rf"\.(?P<{word}>{'|'.join(map(re.escape, choices[word].split()))})" if word in choices else None
        if part is None:
            name = re.sub(r"\W", "_", word)
            part = rf"\.(?P<{name}>{re.escape(word)})" if optional else rf"\.{re.escape(word)}"
        text += f"(?:{part})?" if optional else part
    return re.compile(text.removeprefix(r"\."))


@functools.cache
def find(mnemonic: str) -> tuple[Opcode, dict[str, str]] | None:
    """The record of a dotted opcode, with the words of its form; None where there is none."""
    for name in _FILES:
        importlib.import_module(f"kaio.dsl.compiler.ptx.{name}")
    for record in _records.get(mnemonic.partition(".")[0], ()):
        match = record.pattern.fullmatch(mnemonic)
        if match is not None:
            return record, {word: found for word, found in match.groupdict().items() if found is not None}
    return None
