"""The rules of the shadow, compiled once for this machine. `shadow_rules.py` is what they are."""

from __future__ import annotations

import functools
import threading

from kaio.dsl.compiler.host.scheduler import kept_object
from kaio.dsl.compiler.host.shadow_rules import decide

__all__ = ["shadow_object"]

_LOCK = threading.Lock()


def shadow_object() -> bytes:
    """Object code that exports ``kaio_decide``; made once per machine and version of the compiler."""
    with _LOCK:
        return _shadow_object()


@functools.cache
def _shadow_object() -> bytes:
    return kept_object(decide, "kaio_decide")
