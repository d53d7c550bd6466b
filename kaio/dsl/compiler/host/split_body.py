"""A kernel's function that is to be split at its barriers; what `fission` must know of it is noted meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llvmlite import ir as llvm

from kaio.dsl.compiler import ir
from kaio.dsl.compiler.emission.access import Access
from kaio.dsl.compiler.emission.checks import Sites
from kaio.dsl.compiler.emission.constant_arrays import ConstantArrays
from kaio.dsl.compiler.host.fission import fission
from kaio.dsl.compiler.host.fission_plan import Refused
from kaio.dsl.compiler.host.host_body import Body
from kaio.dsl.compiler.host.prove import Prover
from kaio.program import Build, Site

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter

__all__ = ["SplitBody"]


class SplitBody(Body):
    """The function of one thread, in which a barrier is the end of a block.

    `run` is the function of a whole block that is made of it.
    """

    run: llvm.Function

    def __init__(
        self,
        module: llvm.Module,
        typed: ir.Typed,
        name: str,
        sites: Sites,
        *,
        build: Build,
        contract: bool,
        prover: Prover | None,
        constants: ConstantArrays,
    ) -> None:
        super().__init__(module, typed, name, sites, build=build, contract=contract, prover=prover, constants=constants)
        self.waits = False
        self.barriers: list[llvm.Block] = []
        self.fault_blocks: list[llvm.Block] = []
        self.serial_blocks: list[llvm.Block] = []

    def split(self, *, in_strips: bool) -> bool:
        """Emit it, and put `run` in its place; False, and nothing left of it, where it cannot be split."""
        self.emit()
        made = self.module.globals
        del made[self.function_name]
        before = set(made)
        try:
            self.run = fission(self, in_strips=in_strips)
        except Refused:
            for name in set(made) - before:
                del made[name]
            return False
        return True

    def touch(self, e: Emitter, pointer: llvm.Value, access: Access) -> None:
        """Note what other threads see in order, and what is done later: it keeps its order."""
        super().touch(e, pointer, access)
        if access.is_strong or access.how == "async":
            self.serial_blocks.append(e.b.block)

    def fault(self, e: Emitter, site: Site, index: llvm.Value | None = None, size: llvm.Value | None = None) -> None:
        """Note where a thread ends."""
        self.fault_blocks.append(e.b.block)
        super().fault(e, site, index, size)

    def suspend(self, e: Emitter, kind: str, text: str = "", words: int = 0) -> None:
        """Note where all threads wait."""
        self.barriers.append(e.b.block)
        resumed = e.block("resumed")
        e.b.branch(resumed)
        e.b.position_at_end(resumed)
