"""PTX text as tokens."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kaio.errors import InternalError

__all__ = ["Token", "Tokens", "tokens"]

_PATTERN = re.compile(
    r"""
    (?P<space>  \s+ | //[^\n]* | /\*.*?\*/ )
  | (?P<line>   \.(?:loc|file|version|target|address_size)\b[^\n;]* )   # these end with their line
  | (?P<float>  0[fF][0-9a-fA-F]{8} | 0[dD][0-9a-fA-F]{16} )
  | (?P<int>    0[xX][0-9a-fA-F]+U? | 0[bB][01]+U? | [0-9]+U? )
  | (?P<text>   "[^"]*" )
  | (?P<name>   [%$_.A-Za-z][\w$.]*(?:::[\w$.]+)* )
  | (?P<sign>   [{}()\[\],;:@!|<>+=*-] )
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True)
class Token:
    """A token: its kind (``line float int text name sign``), its text, and where it begins in the PTX."""

    kind: str
    text: str
    start: int


def tokens(text: str) -> list[Token]:
    """The tokens of a text, without spaces and comments.

    >>> [token.text for token in tokens("@%p1 bra $L__1; // comment")]
    ['@', '%p1', 'bra', '$L__1', ';']
    """
    found, at = [], 0
    while at < len(text):
        match = _PATTERN.match(text, at)
        if match is None:
            raise InternalError(f"PTX cannot be read at {text[at : at + 40]!r}")
        if match.lastgroup != "space":
            found.append(Token(str(match.lastgroup), match[0], at))
        at = match.end()
    return found


class Tokens:
    """Tokens being read, one after another."""

    def __init__(self, text: str) -> None:
        self.text, self._found, self._at = text, tokens(text), 0

    @property
    def next(self) -> str:
        """The text of the next token, empty at the end."""
        return self._found[self._at].text if self._at < len(self._found) else ""

    @property
    def kind(self) -> str:
        """The kind of the next token, empty at the end."""
        return self._found[self._at].kind if self._at < len(self._found) else ""

    @property
    def start(self) -> int:
        """Where the next token begins in the text."""
        return self._found[self._at].start if self._at < len(self._found) else len(self.text)

    def follows(self, text: str) -> bool:
        """Whether the token behind the next one is this."""
        return self._at + 1 < len(self._found) and self._found[self._at + 1].text == text

    def take(self) -> str:
        """The next token."""
        text = self.next
        self._at += 1
        return text

    def takes(self, text: str) -> bool:
        """Take the next token if it is this."""
        if self.next != text:
            return False
        self._at += 1
        return True

    def expect(self, text: str) -> None:
        """Take the next token, which is this."""
        if not self.takes(text):
            raise InternalError(f"PTX has `{self.next}` where `{text}` was expected: {self.around()!r}")

    def labels(self) -> set[str]:
        """The labels of the block whose opening brace was taken last, not those of blocks within."""
        found, depth = set(), 0
        for at in range(self._at, len(self._found) - 1):
            text = self._found[at].text
            depth += (text == "{") - (text == "}")
            if depth < 0:
                break
            if depth == 0 and self._found[at].kind == "name" and self._found[at + 1].text == ":":
                found.add(text)
        return found

    def around(self) -> str:
        """The text about here, for a message."""
        return self.text[max(0, self.start - 60) : self.start + 20]
