"""A small FileCheck: patterns written beside the code they are about, matched in order against a text.

    CHECK: text          found somewhere after the last match
    CHECK-NEXT: text     found on the very next line
    CHECK-COUNT-3: text  found three times, one after another
    CHECK-NOT: text      not found between the matches around it (the end of the text counts as one)

`{{...}}` holds a regular expression, all else is taken as it is, runs of blanks match each other. `never` names
texts that may occur nowhere (LLVM's --implicit-check-not).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_DIRECTIVE = re.compile(
    r"\bCHECK(?:-(?P<kind>NEXT|NOT|COUNT-(?P<count>\d+)))?:[ \t]*(?P<text>.*?)[ \t]*$", re.MULTILINE
)


class CheckError(AssertionError):
    """A text does not match its patterns."""


@dataclass(frozen=True)
class Directive:
    """One line of the patterns."""

    kind: str
    text: str

    @property
    def pattern(self) -> re.Pattern[str]:
        parts = re.split(r"\{\{(.*?)\}\}", self.text)
        spelled = (part if i % 2 else r"[ \t]+".join(map(re.escape, part.split(" "))) for i, part in enumerate(parts))
        return re.compile("".join(spelled))


def directives(patterns: str) -> list[Directive]:
    """All directives of a docstring or a comment, in order; a count is written out."""
    found: list[Directive] = []
    for match in _DIRECTIVE.finditer(patterns):
        kind, count = match["kind"] or "", match["count"]
        found += [Directive("" if count else kind, match["text"])] * int(count or 1)
    return found


def check(text: str, patterns: str, never: Iterable[str] = ()) -> None:
    """Match `text` against the directives in `patterns`; raise `CheckError` with the text where they differ."""
    wanted = directives(patterns)
    if not wanted:
        raise CheckError("there is no CHECK line to compare with")
    at, forbidden = 0, list[Directive]()
    for directive in wanted:
        if directive.kind == "NOT":
            forbidden.append(directive)
            continue
        start, end = _find(text, directive, at)
        _refuse(text, at, start, forbidden)
        at, forbidden = end, []
    _refuse(text, at, len(text), forbidden)
    _refuse(text, 0, len(text), [Directive("NOT", word) for word in never])


def _find(text: str, directive: Directive, at: int) -> tuple[int, int]:
    start, stop = at, len(text)
    if directive.kind == "NEXT":
        start = _end_of_line(text, at) + 1
        stop = _end_of_line(text, start)
    found = directive.pattern.search(text, min(start, len(text)), stop)
    if found is None:
        where = "on the next line" if directive.kind == "NEXT" else "after this point"
        raise CheckError(f"`{directive.text}` is not {where}:\n{text[:at]}\n-------- here --------{text[at:]}")
    return found.span()


def _refuse(text: str, start: int, stop: int, forbidden: Iterable[Directive]) -> None:
    for directive in forbidden:
        if found := directive.pattern.search(text, start, stop):
            raise CheckError(f"`{directive.text}` must not be here:\n{text[: found.start()]}\n-------- here --------"
                             f"{text[found.start() :]}")  # fmt: skip


def _end_of_line(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end
