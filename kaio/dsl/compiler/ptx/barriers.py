"""Barriers of a block, fences, pauses and clocks; each waits as the record of kaio's that it is does on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir as llvm

from kaio.dsl.clocks import nanosleep
from kaio.dsl.compiler.ptx.emitter import host_rule
from kaio.dsl.compiler.ptx.opcodes import Step, opcode
from kaio.dsl.compiler.ptx.syntax import Immediate
from kaio.dsl.sync import bar_sync, bar_sync_and, bar_sync_count, bar_sync_or, named_bar_arrive, named_bar_sync

if TYPE_CHECKING:
    from kaio.dsl.compiler.ptx.emitter import PtxEmitter

_I32 = llvm.IntType(32)
_WITH_PREDICATE = {"popc": bar_sync_count, "and": bar_sync_and, "or": bar_sync_or}


@opcode("bar{.cta}.sync", "barrier{.cta}.sync{.aligned}", suspends=True)
def _wait(e: PtxEmitter, i: Step) -> None:
    """``bar.sync 0``, or a numbered barrier, for all threads or as many as it says."""
    number, *threads = i.operands
    if number == Immediate(0) and not threads:
        host_rule(bar_sync)(e, None)
        return
    count = e.target.read(e, threads[0], "u32") if threads else _whole_warps(e)
    host_rule(named_bar_sync)(e, None, e.target.read(e, number, "u32"), count)


@opcode("bar{.cta}.arrive", "barrier{.cta}.arrive{.aligned}", suspends=True)
def _arrive(e: PtxEmitter, i: Step) -> None:
    number, threads = (e.target.read(e, operand, "u32") for operand in i.operands)
    host_rule(named_bar_arrive)(e, None, number, threads)


def _whole_warps(e: PtxEmitter) -> Any:
    """The threads of a block, up to whole warps."""
    x, y, z = (e.target.special_register(e, "ntid", axis) for axis in "xyz")
    return e.b.and_(e.b.add(e.b.mul(e.b.mul(x, y), z), _I32(31)), _I32(-32))


@opcode("bar{.cta}.red.operation.type", "barrier{.cta}.red.operation{.aligned}.type", operation="popc and or",
        type="u32 pred", suspends=True)  # fmt: skip
def _reduce(e: PtxEmitter, i: Step) -> None:
    to, number, *rest = i.operands
    if number != Immediate(0) or len(rest) != 1:
        e.target.refuse(e, i, "a numbered barrier with a predicate")
    found = host_rule(_WITH_PREDICATE[i["operation"]])(e, None, e.target.read(e, rest[0], "pred"))
    e.target.write(e, to, found, i["type"])


# ---------------------------------------------------------------------- fences
@opcode("fence{.order}.scope", order="sc acq_rel acquire release", scope="cta cluster gpu sys")
@opcode("membar.scope", scope="cta gl sys")
@opcode("fence.mbarrier_init.release.cluster", "fence.proxy.kind", kind="alias async async.global async.shared::cta")
def _fence(e: PtxEmitter, i: Step) -> None:
    e.b.fence("seq_cst")


@opcode("nanosleep.u32", suspends=True)
def _sleep(e: PtxEmitter, i: Step) -> None:
    host_rule(nanosleep)(e, None, e.target.read(e, i.operands[0], "u32"))


@opcode("griddepcontrol.what", what="launch_dependents wait")
def _order_of_grids(e: PtxEmitter, i: Step) -> None:
    """Launches of a stream follow each other here."""
