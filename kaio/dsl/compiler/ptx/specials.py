"""The registers of the machine: what ``%tid.x`` and its kin are on the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir as llvm

from kaio import host_abi as abi
from kaio.dsl import clocks, vote
from kaio.dsl.compiler.ptx.emitter import PtxEmitter, host_rule

__all__ = ["special"]

_I32, _I64 = llvm.IntType(32), llvm.IntType(64)
Special = Callable[[PtxEmitter], Any]


def special(name: str) -> Special | None:
    """The rule of a register; None of one that is not known."""
    register, _, axis = name.removeprefix("%").partition(".")
    if axis and axis in "xyz":
        return _on_axis(register, axis)
    return _SPECIALS.get(register)


def _on_axis(register: str, axis: str) -> Special | None:
    if register in ("tid", "ntid", "ctaid", "nctaid"):
        return lambda e: e.target.special_register(e, register, axis)
    at = abi.CLUSTER_DIM + 4 * "xyz".index(axis)
    rules: dict[str, Special] = {
        "cluster_nctaid": lambda e: e.target.field(e, at),
        "cluster_ctaid": lambda e: e.b.urem(e.target.special_register(e, "ctaid", axis), e.target.field(e, at)),
        "clusterid": lambda e: e.b.udiv(e.target.special_register(e, "ctaid", axis), e.target.field(e, at)),
        "nclusterid": lambda e: e.b.udiv(e.target.special_register(e, "nctaid", axis), e.target.field(e, at)),
    }
    return rules.get(register)


def _threads(e: PtxEmitter) -> Any:
    x, y, z = (e.target.special_register(e, "ntid", axis) for axis in "xyz")
    return e.b.mul(e.b.mul(x, y), z)


def _half(rule: Special, shift: int) -> Special:
    return lambda e: e.b.trunc(e.b.lshr(rule(e), _I64(shift)), _I32)


def _host(record: Any) -> Special:
    return lambda e: host_rule(record)(e, None)


def _workspace(e: PtxEmitter) -> Any:
    """The memory of a cooperative launch, for a barrier of its grid."""
    return e.b.ptrtoint(e.target.workspace(e), _I64)


_SPECIALS: dict[str, Special] = {
    "laneid": lambda e: e.b.and_(e.target.linear_thread(e), _I32(31)),
    "warpid": lambda e: e.b.lshr(e.target.linear_thread(e), _I32(5)),
    "nwarpid": lambda e: e.b.lshr(e.b.add(_threads(e), _I32(31)), _I32(5)),
    "clock64": _host(clocks.clock),
    "clock": _half(_host(clocks.clock), 0),
    "clock_hi": _half(_host(clocks.clock), 32),
    "globaltimer": _host(clocks.globaltimer),
    "globaltimer_lo": _half(_host(clocks.globaltimer), 0),
    "globaltimer_hi": _half(_host(clocks.globaltimer), 32),
    "envreg1": _half(_workspace, 32),
    "envreg2": _half(_workspace, 0),
    "cluster_ctarank": lambda e: e.target.field(e, abi.CLUSTER_RANK),
    "cluster_nctarank": lambda e: e.target.cluster_size(e),
    "is_explicit_cluster": lambda e: e.b.icmp_unsigned("!=", e.target.cluster_size(e), _I32(1)),
    "smid": lambda e: _I32(0),
    "nsmid": lambda e: _I32(1),
    "gridid": lambda e: _I64(0),
    **{f"lanemask_{name}": _host(getattr(vote, f"lanemask_{name}")) for name in ("eq", "lt", "le", "gt", "ge")},
}
