"""The emitter that rules of opcodes get: the one of the typed IR, whose rules they use, with a thread as its target."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kaio.dsl.compiler.emission.emit import Emitter

if TYPE_CHECKING:
    from kaio.dsl.compiler.ptx.thread import PtxThread

__all__ = ["PtxEmitter", "host_rule"]


class PtxEmitter(Emitter):
    """Fills the function of a thread; `e.place` and `e.callers` are those of the current ``.loc``."""

    target: PtxThread  # type: ignore[assignment]  # of `Target` it has what rules on the host ask for


def host_rule(record: object) -> Callable[..., Any]:
    """What one of kaio's records does on the host: the meaning of the instruction that it is on a GPU."""
    found: Callable[..., Any] = record.rule("host")  # type: ignore[attr-defined]
    return found
