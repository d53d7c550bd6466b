"""The blocks of a cluster: their barrier, and addresses in each other's shared memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir as llvm

from kaio import host_abi as abi
from kaio.dsl.blocks import cluster_sync
from kaio.dsl.compiler.ptx.emitter import host_rule
from kaio.dsl.compiler.ptx.opcodes import Step, opcode

if TYPE_CHECKING:
    from kaio.dsl.compiler.ptx.emitter import PtxEmitter

_I64 = llvm.IntType(64)


@opcode("barrier.cluster.arrive{.order}{.aligned}", order="release relaxed")
def _arrive(e: PtxEmitter, i: Step) -> None:
    """Who arrives is counted when it waits."""


@opcode("barrier.cluster.wait{.order}{.aligned}", order="acquire", suspends=True)
def _wait(e: PtxEmitter, i: Step) -> None:
    host_rule(cluster_sync)(e, None)


@opcode("mapa{.space}.type", takes="type u32", gives="type", space="shared::cluster", type="u32 u64")
def _map(e: PtxEmitter, i: Step, address: Any, rank: Any) -> Any:
    """The same place in the shared memory of the block with that number in the cluster."""
    b, target = e.b, e.target
    size = target.cluster_size(e)
    target.check(e, b.icmp_unsigned("<", rank, size), "the rank of `mapa` is not that of a block of the cluster")
    stride = b.zext(target.field(e, abi.SHARED_STRIDE), _I64)  # its low half is enough: memory of a block
    away = b.mul(b.sext(b.sub(rank, target.field(e, abi.CLUSTER_RANK)), _I64), stride)
    return b.add(address, away if address.type == _I64 else b.trunc(away, address.type))
