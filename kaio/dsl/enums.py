"""Members of enums in a kernel: compared with members of their own enum, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kaio.dsl import operators
from kaio.dsl.intrinsic import Intrinsic, Resolved
from kaio.dsl.rule_error import RuleError
from kaio.dsl.values import BOOL, EnumType, Type, Weak, show

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter
    from kaio.dsl.compiler.ir import TypedCall

__all__ = ["value_of"]

_SIGNS = {"==": "==", "!=": "!=", "is": "==", "is not": "!="}


def _compare(e: Emitter, call: TypedCall, left: Any, right: Any) -> Any:
    return e.b.icmp_unsigned(call.static[0], left, right)


_COMPARE = Intrinsic("comparison of enums", emit=_compare)


def _binary(op: str, left: Type, right: Type) -> operators.Found | None:
    if not isinstance(left, EnumType) and not isinstance(right, EnumType):
        return None
    of = left.of if isinstance(left, EnumType) else right.of  # type: ignore[union-attr]
    if op not in _SIGNS:
        raise RuleError(
            f"`{show(left)} {op} {show(right)}`: members of `{of.__name__}` are no numbers",
            f"take what they hold, `.value`, or derive `{of.__name__}` from `IntEnum`",
        )
    if not isinstance(left, EnumType) or not isinstance(right, EnumType) or left.of is not right.of:
        raise RuleError(
            f"`{show(left)} {op} {show(right)}` is always the same: a member equals members of its own enum only",
            f"compare with a member of `{of.__name__}`, or take what it holds: `.value`",
        )
    whole = EnumType(of)
    return _COMPARE, Resolved((whole, whole), BOOL, (_SIGNS[op],))


operators.BINARY.append(_binary)


def value_of(type_: EnumType, name: str) -> Type:
    """The type of `.value`: a literal where the member is known."""
    if name == "value":
        return type_.dtype if type_.member is None else Weak("i", (type_.member.value,))
    if name == "name":
        raise RuleError(f"`{show(type_)}.name` is a text, and a kernel has none", "compare it with the members")
    raise RuleError(f"{show(type_)} has no attribute `{name}` in a kernel", "it has value")
