"""Kernels whose barriers all threads reach together, as loops over the threads instead of coroutines.

The function is split at its barriers (Jaaskelainen et al., "pocl: A Performance-Portable OpenCL Implementation", IJPP
2015); `fission_plan` says where. Each group becomes a function over one strip of a block, 16 threads side by side or a
single one, that says which group comes next; `run` has the loops over the strips of a block. What a thread needs
behind a barrier is kept in an array over the threads, what is the same for all in one variable; indices are computed
again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from llvmlite import ir as llvm
from llvmlite.ir import instructions as kinds

from kaio import host_abi as abi
from kaio.dsl.compiler.host.fission_lanes import ParallelLoops
from kaio.dsl.compiler.host.fission_memory import Memory, exits, kept_type
from kaio.dsl.compiler.host.fission_plan import Plan
from kaio.dsl.compiler.host.fission_regions import Group, MustPart, Refused
from kaio.dsl.compiler.host.fission_strip import Strip
from kaio.dsl.compiler.host.flow import Flow, Uniformity
from kaio.dsl.compiler.host.host_context import I32, REGISTERS, VOID, field_of
from kaio.dsl.compiler.host.host_turns import note_progress
from kaio.dsl.compiler.host.strip_loops import go_together

if TYPE_CHECKING:
    from kaio.dsl.compiler.host.split_body import SplitBody

__all__ = ["Runner", "fission"]

# Of instructions. LLVM takes long to make vectors of large loops, and of many the more.
_MOST, _MOST_OF_WARPS = 2000, 200


def fission(body: SplitBody, in_strips: bool) -> llvm.Function:
    """`run(context, registers, shared, arguments)`, which runs a whole block of the kernel that `body` has emitted.

    in_strips: threads are done `body.strip` at a time, of blocks that are a multiple of it wide; else it is one by one,
        and as small as can be

    Raises `Refused` where it cannot be shown that all threads reach each barrier, or it would take too much memory.
    """
    many = sum(len(block.instructions) for block in body.function.blocks)
    if many > (_MOST_OF_WARPS if body.pauses else _MOST):
        raise Refused("it is too large")
    if in_strips:
        go_together(body)
    plan = _plan(body, Flow(body.function, body.fault_blocks))
    if body.pauses and not in_strips:
        raise Refused("lanes that meet in their warp do not run one by one")
    if not body.barriers and not body.pauses and not plan.has_inner_loops:
        raise Refused("its one loop over the threads is as good")
    return Runner(body, plan, Memory(plan), in_strips).emit()


def _plan(body: SplitBody, flow: Flow) -> Plan:
    registers = body.registers
    parting: list[llvm.Block] = []
    x = [registers["tid.x"], body.thread, body.lane]
    wide = Uniformity(flow, [*x, *body.first_places.values(), registers["tid.y"], registers["tid.z"]])
    same = [*body.rows, *(_warp_numbers(body, flow) if body.strip == 32 else ())]
    barriers, pauses, serial, rows = (
        {id(part) for part in parts} for parts in (body.barriers, body.pauses, body.serial_blocks, body.rows)
    )
    while True:
        narrow = Uniformity(flow, x, same, body.row_reads, parting)
        try:
            return Plan(flow, barriers, pauses, serial, rows, wide, narrow)
        except MustPart as found:
            if found.block in parting:
                raise Refused("divergent flow is entered in two places") from None
            parting.append(found.block)


def _warp_numbers(body: SplitBody, flow: Flow) -> Iterator[Any]:
    """A thread's number, or its place in its row, by 32 or more: a strip that is a warp has one of these."""
    for instruction in (i for block in flow.blocks for i in block.instructions if i.opname in ("lshr", "ashr")):
        number, by = instruction.operands
        of_warp = isinstance(by, llvm.Constant) and isinstance(by.constant, int) and by.constant >= 5
        if of_warp and (number is body.thread or number is body.registers["tid.x"]):
            yield instruction


class Runner:
    """`run` being built: the memory of the block, and the loops over its strips, group after group."""

    def __init__(self, body: SplitBody, plan: Plan, memory: Memory, in_strips: bool) -> None:
        self.body, self.plan, self.memory, self.in_strips = body, plan, memory, in_strips
        for group in plan.groups:
            group.is_serial |= not in_strips
        self.module = body.module
        self.loops = ParallelLoops(body.module)
        self.fresh = [phi for phi in memory.variables.values() if _is_head_phi(plan, phi)]

    def emit(self) -> llvm.Function:
        """Build it, and a function for each group."""
        groups = [Strip(self, group).emit() for group in self.plan.groups]
        body = self.body
        registers = [body.registers[name] for name in REGISTERS]
        given = [body.context, *registers, body.shared_start, *body.arguments]
        function = llvm.Function(
            self.module, llvm.FunctionType(VOID, [v.type for v in given]), f"{body.function_name}.run"
        )
        function.linkage = "internal"
        function.attributes.add("noinline")
        if not self.in_strips:
            function.attributes.add("optsize")
        for value, argument in zip(given, function.args, strict=True):
            argument.name = value.name
            if isinstance(argument.type, llvm.PointerType):
                argument.add_attribute("noalias")
        self.b = b = llvm.IRBuilder(function.append_basic_block("entry"))
        self.given = dict(zip((id(v) for v in given), function.args, strict=True))
        cells, incoming = self._make_room(b)
        self.exit = b.alloca(I32, name="next")
        starts = [function.append_basic_block(f"group.{group.number}") for group in self.plan.groups]
        done = function.append_basic_block("done")
        b.branch(starts[0])
        for group, start, strip in zip(self.plan.groups, starts, groups, strict=True):
            b.position_at_end(start)
            for phi in (p for p in self.fresh if self.plan.group_of(p) is group):
                b.store(b.load(incoming[id(phi)]), cells[id(phi)])
            self._strips(group, strip, [*cells.values(), *incoming.values()])
            self._go_on(group, starts, done)
        b.position_at_end(done)
        b.ret_void()
        return function

    def _make_room(self, b: llvm.IRBuilder) -> tuple[dict[int, Any], dict[int, Any]]:
        cells = {}
        for key, value in self.memory.threads.items():
            array = b.alloca(llvm.ArrayType(kept_type(value), abi.MAX_THREADS), name="kept")
            array.align = 64
            cells[key] = array
        for key, value in self.memory.variables.items():
            cells[key] = b.alloca(kept_type(value), name="same")
        return cells, {id(phi): b.alloca(kept_type(phi), name="coming") for phi in self.fresh}

    def _strips(self, group: Group, strip: llvm.Function, cells: list[Any]) -> None:
        """The loops over the block."""
        b = self.b
        nx, ny, nz = (self.given[id(self.body.registers[f"ntid.{axis}"])] for axis in "xyz")
        with self._loop(I32(0), nz, 1, "z") as z, self._loop(I32(0), ny, 1, "y") as y:
            lanes = 1 if group.is_serial else self.body.strip
            width = b.and_(nx, I32(-lanes))  # which it is, but LLVM does not know
            row = b.mul(b.add(b.mul(z, ny), y), width)
            with self._loop(I32(0), nx, lanes, "x") as x:
                first = b.add(row, x, flags=("nuw", "nsw"))
                b.store(b.call(strip, [*self.given.values(), first, x, y, z, I32(lanes), *cells]), self.exit)

    @contextmanager
    def _loop(self, start: Any, stop: Any, step: int, name: str) -> Iterator[Any]:
        """`for i in range(start, stop, step)`."""
        b, before = self.b, self.b.block
        head, body, done = (b.append_basic_block(part) for part in (name, f"{name}.body", f"{name}.done"))
        b.branch(head)
        b.position_at_end(head)
        i = b.phi(I32, name)
        i.add_incoming(start, before)
        b.cbranch(b.icmp_signed("<", i, stop), body, done)
        b.position_at_end(body)
        yield i
        i.add_incoming(b.add(i, I32(step), flags=("nuw", "nsw")), b.block)
        self.loops.keep_rolled(b.branch(head))
        b.position_at_end(done)

    def _go_on(self, group: Group, starts: list[llvm.Block], done: llvm.Block) -> None:
        b = self.b
        if self.body.long:
            note_progress(b, self.given[id(self.body.context)])
        if group.may_fault or self.body.long:
            good = b.append_basic_block("good")
            fault = b.load(field_of(b, self.given[id(self.body.context)], abi.FAULT, I32))
            b.cbranch(b.icmp_unsigned("==", fault, I32(0)), good, done)
            b.position_at_end(good)
        following = exits(self.plan, group)
        if not following:
            b.branch(done)
            return
        switch = b.switch(b.load(self.exit), done)
        for other in following:
            switch.add_case(I32(other.number), starts[other.number])


def _is_head_phi(plan: Plan, value: Any) -> bool:
    if not isinstance(value, kinds.PhiInstr):
        return False
    block = plan.block_of[id(value)]
    group = plan.group_of(value)
    return block is group.head and any(not plan.stays(b, block) for b in plan.flow.before.get(id(block), ()))
