"""Fences: the order in which others see what a thread writes and reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from kaio.dsl.intrinsic import Resolved, intrinsic
from kaio.dsl.rule_error import RuleError, known_word
from kaio.dsl.values import NONE, ObjectType, Type, show

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter
    from kaio.dsl.compiler.ir import TypedCall

__all__ = ["fence"]

_SCOPES = {"block": "cta", "cluster": "cluster", "device": "gpu", "system": "sys"}


def _typing(*given: Type) -> Resolved:
    scope = given[0] if given else ObjectType("device")
    wanted = scope.value if isinstance(scope, ObjectType) else None
    if wanted not in _SCOPES:
        raise RuleError(
            f"the scope of `fence` is a text, and {show(scope)} is none of its scopes", known_word(wanted, _SCOPES)
        )
    return Resolved(given, NONE, (wanted,))


def _cuda(e: Emitter, call: TypedCall, *scope: Any) -> Any:
    from kaio.dsl.compiler.cuda.assembly import assemble

    (wanted,) = call.static
    if wanted == "cluster":
        e.require("sm_90", '`fence("cluster")`')
    assemble(e, f"fence.sc.{_SCOPES[wanted]};", [], [], memory=True)


def _host(e: Emitter, call: TypedCall, *scope: Any) -> Any:
    e.b.fence("seq_cst")
    e.target.orders.fence(e, call.static[0])


@intrinsic(_typing, cuda=_cuda, host=_host, example='out[i] = x[i]\nkaio.fence("device")', ptx="fence.sc.gpu")
def fence(scope: Literal["block", "cluster", "device", "system"] = "device") -> None:
    """What this thread wrote before is seen by the threads of `scope` before what it writes after; reads likewise.

    `"block"`, `"device"` (the default) and `"system"` (other GPUs and the host, too) are `__threadfence_block()`,
    `__threadfence()` and `__threadfence_system()` of CUDA; `"cluster"` is for the blocks of one, from sm_90 on. A
    fence waits for nobody: `bar_sync` does, and is a fence for the block as well.
    """
