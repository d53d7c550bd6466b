"""The one exception of the rules."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["RuleError"]


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
