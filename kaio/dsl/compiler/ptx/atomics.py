"""Atomic updates: ``atom`` and ``red``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kaio.dsl.compiler.emission.access import Access
from kaio.dsl.compiler.emission.atomics import Update
from kaio.dsl.compiler.emission.scalars import memory_type
from kaio.dsl.compiler.host.host_atomics import update
from kaio.dsl.compiler.ptx.kinds import bits_of, dtype_of
from kaio.dsl.compiler.ptx.opcodes import Step, opcode
from kaio.dsl.compiler.ptx.syntax import Operand

if TYPE_CHECKING:
    from kaio.dsl.compiler.ptx.emitter import PtxEmitter

_ORDERS = "relaxed acquire release acq_rel"
_SCOPES: dict[str, Any] = {"": "device", "cta": "block", "cluster": "device", "gpu": "device", "sys": "system"}
_SPACES = "global shared shared::cta shared::cluster"
_TYPES = "b16 b32 b64 u32 u64 s32 s64 f16 bf16 f32 f64"


@opcode("atom{.order}{.scope}{.space}.operation{.noftz}.type", "atom.operation{.order}{.scope}{.space}{.noftz}.type",
        order=_ORDERS, scope="cta cluster gpu sys", space=_SPACES,
        operation="add min max and or xor exch cas inc dec", type=_TYPES)  # fmt: skip
def _atom(e: PtxEmitter, i: Step) -> None:
    to, address, *values = i.operands
    e.target.write(e, to, _updated(e, i, address, values, is_read=True), i["type"])


@opcode("red{.order}{.scope}{.space}.operation{.noftz}.type", "red.operation{.order}{.scope}{.space}{.noftz}.type",
        order=_ORDERS, scope="cta cluster gpu sys", space=_SPACES,
        operation="add min max and or xor inc dec", type=_TYPES)  # fmt: skip
def _red(e: PtxEmitter, i: Step) -> None:
    address, *values = i.operands
    _updated(e, i, address, values, is_read=False)


def _updated(e: PtxEmitter, i: Step, address: Operand, values: list[Operand], *, is_read: bool) -> Any:
    """The element from before, as the instruction's type."""
    kind, dtype = i["type"], dtype_of(i["type"])
    pointer = e.target.address(e, address, i["space"], bits_of(kind) // 8, "atomic")
    pointer = e.b.bitcast(pointer, memory_type(dtype).as_pointer())
    operands = tuple(e.target.read(e, value, kind) for value in values)
    space: Any = {"": "cluster", "global": "global"}.get(i["space"], "shared")
    order: Any = i["order"] or "relaxed"
    access = Access("atomic", space, "", dtype, scope=_SCOPES[i["scope"]], order=order)
    return update(e, Update(i["operation"], dtype, pointer, operands, access, is_read))
