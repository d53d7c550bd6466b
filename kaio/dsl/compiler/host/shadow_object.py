"""The rules of the shadow, compiled once for this machine. `shadow_rules.py` is what they are."""

from __future__ import annotations

from kaio.dsl.compiler.host.scheduler import kept_object
from kaio.dsl.compiler.host.shadow_rules import decide

__all__ = ["shadow_object"]


def shadow_object() -> bytes:
    """Object code that exports ``kaio_decide``; made once per machine and version of the compiler."""
    return kept_object(decide, "kaio_decide")
