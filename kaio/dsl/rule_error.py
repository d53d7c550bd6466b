"""The one exception of the rules, and a way out that several of them name."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping

__all__ = ["RuleError", "known_word"]


class RuleError(Exception):
    """Types that do not fit; inference adds the place."""

    def __init__(self, what: str, help: str | None = None) -> None:
        super().__init__(what)
        self.what, self.help = what, help

    def named(self, texts: Mapping[str, str]) -> RuleError:
        """The same with the parameters of a record (`buffer`, `value`) in the words of the source."""

        def fill(text: str | None) -> str | None:
            for name, written in texts.items():
                for before, after in (("`", "`"), ("`", "["), ("(", ")")):
                    text = text and text.replace(f"{before}{name}{after}", f"{before}{written}{after}")
            return text

        return RuleError(fill(self.what) or self.what, fill(self.help))


def known_word(given: object, known: Collection[str]) -> str:
    """The way out where a text is none of those that a parameter takes: the one that was probably meant, or all."""
    near = difflib.get_close_matches(str(given), known, 1)
    return f'did you mean "{near[0]}"?' if near else f"it is one of {', '.join(map(repr, known))}"
