"""What blocks do together: those of the grid, and those of a cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from kaio import fault_abi
from kaio import host_abi as abi
from kaio.dsl.casts import integer
from kaio.dsl.intrinsic import Resolved, intrinsic
from kaio.dsl.rule_error import RuleError
from kaio.dsl.types import InOut
from kaio.dsl.values import NONE, ArrayType, Type, show
from kaio.dtypes import i32, i64

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter
    from kaio.dsl.compiler.ir import TypedCall

__all__ = ["cluster_rank", "cluster_shared", "cluster_size", "cluster_sync", "grid_sync"]

T = TypeVar("T")
_CLUSTERS = "sm_90"


def _asm(e: Emitter, result: Any, text: str, constraints: str, operands: list[Any]) -> Any:
    """Code that does nothing but give its result."""
    from llvmlite import ir as llvm

    kind = llvm.FunctionType(result, [operand.type for operand in operands])
    return e.b.call(llvm.InlineAsm(kind, text, constraints), operands)


# ---------------------------------------------------------------------- the grid
# A cooperative launch gives the kernel a workspace, whose address is in two registers of the environment and whose
# second word is a barrier: blocks add to it, so that its top bit flips when the last one has come. This is what
# `grid.sync()` of CUDA's cooperative groups does (cooperative_groups/details/sync.h and driver_abi.h of CUDA 13.0).
_GRID_BARRIER = """{
.reg .b32 %high, %low, %before, %now;
.reg .b64 %space;
.reg .pred %waits;
mov.u32 %high, %envreg1;
mov.u32 %low, %envreg2;
mov.b64 %space, {%low, %high};
atom.add.release.gpu.u32 %before, [%space+4], $0;
again:
ld.acquire.gpu.u32 %now, [%space+4];
xor.b32 %now, %now, %before;
setp.ge.s32 %waits, %now, 0;
@%waits bra again;
}"""
# The same under checks, where a thread may end on its way here, for which nobody else comes: the others go on once the
# state says so. The barrier is one of that state's, since what is left of an incomplete one must not stay.
_CHECKED_GRID_BARRIER = f"""{{
.reg .b32 %before, %now;
.reg .b64 %key;
.reg .pred %waits;
atom.add.release.gpu.u32 %before, [$1+{fault_abi.BARRIER}], $0;
again:
ld.acquire.gpu.u32 %now, [$1+{fault_abi.BARRIER}];
xor.b32 %now, %now, %before;
ld.volatile.global.u64 %key, [$1+{fault_abi.KEY}];
setp.ge.s32 %waits, %now, 0;
setp.eq.and.u64 %waits, %key, -1, %waits;
@%waits bra again;
}}"""


def _grid_cuda(e: Emitter, call: TypedCall) -> None:
    from llvmlite import ir as llvm

    from kaio.dsl.compiler.cuda.assembly import assemble

    b, zero = e.b, e.const(i32, 0)

    def register(name: str, axis: Any) -> Any:
        return e.target.special_register(e, name, axis)

    def is_first(name: str) -> Any:
        x, y, z = (register(name, axis) for axis in "xyz")
        return b.icmp_unsigned("==", b.or_(b.or_(x, y), z), zero)

    e.call("llvm.nvvm.barrier0", e.void, [])
    with b.if_then(is_first("tid")):
        x, y, z = (register("nctaid", axis) for axis in "xyz")
        others = b.sub(b.mul(b.mul(x, y), z), e.const(i32, 1))
        top = llvm.Constant(llvm.IntType(32), 0x80000000)
        share = b.select(is_first("ctaid"), b.sub(top, others), e.const(i32, 1))
        state = e.target.fault_state(e)
        if state is None:
            assemble(e, _GRID_BARRIER, [], [share], memory=True)
        else:
            assemble(e, _CHECKED_GRID_BARRIER, [], [share, state], memory=True)
    e.call("llvm.nvvm.barrier0", e.void, [])
    e.target.passed(e)


@intrinsic(
    lambda: Resolved((), NONE),
    cuda=_grid_cuda,
    host=lambda e, call: e.target.suspend(e, "grid", "grid_sync"),
    suspends=True,
    example="out[i] = x[i]\nkaio.grid_sync()\nwide[i] = out[63 - i]",
    ptx="atom.add.release.gpu.u32",
)
def grid_sync() -> None:
    """Wait until every thread of the grid is here; what they wrote to memory before is then seen by all of them.

    A kernel that uses it is launched cooperatively: all blocks are on the GPU at once, and a launch with more than fit
    raises LaunchError. No thread may have returned before: that is an error that the CPU device reports.
    """


# ---------------------------------------------------------------------- clusters
def _cluster_cuda(e: Emitter, call: TypedCall) -> None:
    from kaio.dsl.compiler.cuda.assembly import assemble

    text = "barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;"
    assemble(e, text, [], [], memory=True)
    e.target.passed(e)


@intrinsic(
    lambda: Resolved((), NONE),
    cuda=_cluster_cuda,
    host=lambda e, call: e.target.suspend(e, "cluster", "cluster_sync"),
    suspends=True,
    example="kaio.cluster_sync()\nout[i] = x[i]",
    ptx="barrier.cluster.wait",
    since=_CLUSTERS,
)
def cluster_sync() -> None:
    """Wait until every thread of the cluster is here; what they wrote to memory before is then seen by all of them.

    A cluster is some blocks that run at the same time and see each other's shared memory. A launch says how many:
    `.options(cluster=(2, 1, 1))`; without it a cluster is one block. No thread may have returned before.
    """


def _special(e: Emitter, name: str) -> Any:
    return _asm(e, e.llvm(i32), f"mov.u32 $0, %{name};", "=r", [])


@intrinsic(
    lambda: Resolved((), i32),
    cuda=lambda e, call: _special(e, "cluster_ctarank"),
    host=lambda e, call: e.target.field(e, abi.CLUSTER_RANK),
    example="counts[i] = kaio.cluster_rank() + 1",
    ptx="%cluster_ctarank",
    since=_CLUSTERS,
)
def cluster_rank() -> int:
    """The number of this block in its cluster, x first; i32."""
    raise AssertionError


def _size_host(e: Emitter, call: TypedCall) -> Any:
    x, y, z = (e.target.field(e, abi.CLUSTER_DIM + 4 * axis) for axis in range(3))
    return e.b.mul(e.b.mul(x, y), z)


@intrinsic(
    lambda: Resolved((), i32),
    cuda=lambda e, call: _special(e, "cluster_nctarank"),
    host=_size_host,
    example="counts[i] = kaio.cluster_size()",
    ptx="%cluster_nctarank",
    since=_CLUSTERS,
)
def cluster_size() -> int:
    """How many blocks a cluster has; i32."""
    raise AssertionError


def _shared_typing(array: Type, rank: Type) -> Resolved:
    if not isinstance(array, ArrayType) or array.space != "shared":
        raise RuleError(
            f"`cluster_shared` takes an array in shared memory, not {show(array)}", "one made by `kaio.shared_mem`"
        )
    integer(rank, "the rank of `cluster_shared`")
    return Resolved((array, i32), replace(array, space="cluster"))


def _check_rank(e: Emitter, rank: Any, size: Any) -> None:
    what = "the rank of `cluster_shared` is not that of a block of the cluster"
    e.target.check(e, e.b.icmp_unsigned("<", rank, size), what)


def _shared_cuda(e: Emitter, call: TypedCall, array: Any, rank: Any) -> Any:
    if e.target.checks_asserts:
        _check_rank(e, rank, _special(e, "cluster_nctarank"))
    own = array.pointer
    generic = e.b.addrspacecast(own, own.type.pointee.as_pointer())
    number = e.b.ptrtoint(generic, e.llvm(i64))
    there = _asm(e, number.type, "mapa.u64 $0, $1, $2;", "=l,l,r", [number, rank])
    return replace(array, pointer=e.b.inttoptr(there, generic.type))


def _shared_host(e: Emitter, call: TypedCall, array: Any, rank: Any) -> Any:
    from llvmlite import ir as llvm

    b, wide, byte = e.b, llvm.IntType(64), llvm.IntType(8).as_pointer()
    size, own = _size_host(e, call), e.target.field(e, abi.CLUSTER_RANK)
    _check_rank(e, rank, size)
    stride = e.target.field(e, abi.SHARED_STRIDE)  # its low half is enough: memory of a block
    away = b.mul(b.sext(b.sub(rank, own), wide), b.zext(stride, wide))
    start = b.gep(b.bitcast(array.pointer, byte), [away])
    return replace(array, pointer=b.bitcast(start, array.pointer.type))


@intrinsic(
    _shared_typing,
    cuda=_shared_cuda,
    host=_shared_host,
    example="""\
s = kaio.shared_mem(64, f32)
s[i] = x[i]
kaio.cluster_sync()
out[i] = kaio.cluster_shared(s, 0)[63 - i]
kaio.cluster_sync()""",
    ptx="mapa.u64",
    since=_CLUSTERS,
)
def cluster_shared(array: InOut[T, Any], rank: int) -> InOut[T, Any]:
    """The shared array of another block of the cluster, to read and write: that of the block with this rank.

    The other block must have begun, and must not have returned: `cluster_sync()` before the first use and behind the
    last one.
    """
    raise AssertionError
