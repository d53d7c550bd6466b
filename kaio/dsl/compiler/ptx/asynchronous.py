"""Copies into shared memory that a thread waits for later: made at once here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llvmlite import ir as llvm

from kaio.dsl.compiler.ptx.opcodes import Step, opcode
from kaio.dsl.compiler.ptx.syntax import Immediate
from kaio.dsl.spans import check_alignment

if TYPE_CHECKING:
    from kaio.dsl.compiler.ptx.emitter import PtxEmitter


@opcode("cp.async.cache.to.global{.hint}", cache="ca cg", to="shared shared::cta shared::cluster",
        hint="L2::64B L2::128B L2::256B")  # fmt: skip
def _copy(e: PtxEmitter, i: Step) -> None:
    to, source, size, *rest = i.operands
    assert isinstance(size, Immediate)
    if rest:
        e.target.refuse(e, i, "a copy of fewer bytes than it fills")
    nbytes = size.value
    whole = llvm.IntType(8 * nbytes).as_pointer()
    there = e.target.address(e, source, "global", nbytes, "read")
    here = e.target.address(e, to, "shared", nbytes, "write")
    for pointer, name in ((here, "goes to"), (there, "comes from")):
        check_alignment(e, pointer, nbytes, f"`cp_async` of {nbytes} bytes {name}")
    e.b.store(e.b.load(e.b.bitcast(there, whole), align=1), e.b.bitcast(here, whole), align=1)


@opcode("cp.async.commit_group", "cp.async.wait_group", "cp.async.wait_all")
def _nothing(e: PtxEmitter, i: Step) -> None:
    """The copies were made where they began."""
