"""A kernel's function on the host: a coroutine where its threads may wait, else plain. It is the emitter's target."""

from __future__ import annotations

import math

from llvmlite import ir as llvm

from kaio import host_abi as abi
from kaio.dsl.breakpoints import BREAKPOINT
from kaio.dsl.compiler import ir
from kaio.dsl.compiler.emission.access import Access
from kaio.dsl.compiler.emission.arguments import argument_types
from kaio.dsl.compiler.emission.checks import Sites
from kaio.dsl.compiler.emission.constant_arrays import ConstantArrays
from kaio.dsl.compiler.emission.dynamic import Inputs
from kaio.dsl.compiler.emission.emit import Emitter
from kaio.dsl.compiler.emission.notes import Notes
from kaio.dsl.compiler.emission.orders import Orders
from kaio.dsl.compiler.emission.scalars import alignment, extent, memory_type, nbytes
from kaio.dsl.compiler.emission.target import BufferValue
from kaio.dsl.compiler.host.coverage import note_write
from kaio.dsl.compiler.host.host_context import I32, I64
from kaio.dsl.compiler.host.host_notes import HostNotes
from kaio.dsl.compiler.host.host_threads import Thread
from kaio.dsl.compiler.host.ordering import Ordering, meets_in_part, orders_threads
from kaio.dsl.compiler.host.prove import Prover
from kaio.dsl.compiler.host.shadow import Shadow
from kaio.dsl.compiler.loop_nest import may_spin
from kaio.dsl.intrinsic import Intrinsic
from kaio.dsl.values import ArrayType
from kaio.dtypes import DType, i32
from kaio.errors import Place
from kaio.print_abi import Line
from kaio.program import Build, PlacedArray, aligned

__all__ = ["Body"]


class Body(Thread):
    """A kernel's function being built, and the target that the emitter asks."""

    def __init__(
        self,
        module: llvm.Module,
        typed: ir.Typed,
        name: str,
        sites: Sites,
        *,
        build: Build,
        contract: bool,
        prover: Prover | None = None,
        constants: ConstantArrays | None = None,
    ) -> None:
        spins = may_spin(typed)
        waits = build.stepped or spins or _waits(typed)
        super().__init__(module, name, sites, Inputs(typed), waits=waits, build=build, spins=spins)
        self.typed, self.contract, self.prover = typed, contract, prover
        self.constants = constants or ConstantArrays(module)
        self.shared_arrays: list[PlacedArray] = []
        self.shadow: Shadow | None = None
        self.orders = Orders()
        if build.check == "full":
            self.shadow = Shadow(
                self, self.inputs.types, in_clusters=_sees_clusters(typed), in_part=meets_in_part(typed)
            )
            self.orders = Ordering(self, self.shadow, tells=orders_threads(typed))
        self._scratches: dict[int, int] = {}
        self._exits: dict[Place, int] = {}
        self._returns = typed.function.source.returns
        self.watching = HostNotes(self) if build.traced or _breaks(typed) else None
        self.notes = self.watching or Notes()

    def emit(self) -> None:
        """Fill the function."""
        self.begin()
        self._name_parameters()
        if not self.waits:
            self._add_noalias()
        if self.watching is not None:
            self.watching.begin(self.b)
        if self.prover is not None:
            self.prover.begin(self.registers, self.arguments)
        if self.shadow is not None:
            self.shadow.begin()
        e = Emitter(self.b, self)
        e.function(self.typed, self.inputs.arguments(e, self.arguments), lambda _: self.leave(e))
        if self.shadow is not None:
            self.shadow.finish()
        self.finish()

    def _name_parameters(self) -> None:
        rest = iter(self.arguments)
        for name, type_ in zip(self.typed.function.params, self.typed.arguments, strict=True):
            for k in range(len(argument_types((type_,)))):
                next(rest).name = f"{name}.{k}" if k else name
        for value, name in zip(rest, self.inputs.names(), strict=True):
            value.name = name

    def _add_noalias(self) -> None:
        """No two buffers of a launch overlap unless both are only read. (A coroutine's change while it waits.)"""
        for argument in self.arguments:
            if isinstance(argument.type, llvm.PointerType):
                argument.add_attribute("noalias")

    # -------------------------------------------------------------- Target: registers and memory

    def has(self, architecture: str) -> bool:
        """Everything is there."""
        return True

    def locate(self, e: Emitter) -> None:
        """Places travel in the sites; there is no debug information."""

    def shared(self, e: Emitter, array: ArrayType, name: str) -> llvm.Value:
        """Static shared memory is laid out here, from the start of the block's memory."""
        return self._place(e, self._reserve(name, array.dtype, array.shape), memory_type(array.dtype))

    def scratch(self, e: Emitter, part: int, count: int) -> llvm.Value:
        """An offset that is the same wherever it is asked for."""
        if part not in self._scratches:
            self._scratches[part] = self._reserve(f"shared memory of {e.operation}", i32, (count,))
        return self._place(e, self._scratches[part], I32)

    def _reserve(self, name: str, dtype: DType, shape: tuple[int, ...]) -> int:
        offset = aligned(self.shared_nbytes)
        self.shared_nbytes = offset + math.prod(shape) * dtype.itemsize
        self.shared_arrays.append(PlacedArray(name, offset, dtype, shape))
        return offset

    def _place(self, e: Emitter, offset: int, element: llvm.Type) -> llvm.Value:
        return e.b.bitcast(e.b.gep(self.shared_start, [I64(offset)], inbounds=True), element.as_pointer())

    def constant(self, e: Emitter, array: ArrayType, name: str) -> llvm.Value:
        """In the module's own memory."""
        return self.constants.pointer(e, array, name)

    def dynamic_shared(self, e: Emitter, name: str, element: llvm.Type) -> BufferValue:
        """The launch has laid it out, behind the static arrays."""
        offset, size = self.inputs.places[name]
        place = e.b.gep(self.shared_start, [offset], inbounds=True)
        return BufferValue(e.b.bitcast(place, element.as_pointer()), (size,))

    def local(self, e: Emitter, array: ArrayType, name: str) -> llvm.Value:
        """A stack slot, which a coroutine keeps in its frame where it must."""
        element, count = extent(array)
        if self.shadow is not None:
            return e.b.bitcast(self.shadow.local(e, array, name), element.as_pointer())
        with e.b.goto_entry_block():
            slot = e.b.alloca(llvm.ArrayType(element, count), name=name)
            slot.align = 16
        return e.b.bitcast(slot, element.as_pointer())

    def load(self, e: Emitter, pointer: llvm.Value, access: Access) -> llvm.Value:
        """Hints to the caches mean nothing here; a volatile load is made each time, and whole, and so is ``cv``."""
        self.touch(e, pointer, access)
        if access.how in ("volatile", "cv") and not isinstance(pointer.type.pointee, llvm.Aggregate | llvm.VectorType):
            loaded = e.b.load_atomic(pointer, "monotonic", _natural(pointer))
            if access.is_strong:
                self.orders.accessed(e, pointer, access)
            return loaded
        return e.b.load(pointer, align=alignment(e, pointer.type.pointee))

    def store(self, e: Emitter, value: llvm.Value, pointer: llvm.Value, access: Access) -> None:
        """Like `load`."""
        self.touch(e, pointer, access)
        if access.how == "volatile":
            self.orders.accessed(e, pointer, access)
            e.b.store_atomic(value, pointer, "monotonic", _natural(pointer))
        else:
            e.b.store(value, pointer, align=alignment(e, value.type))

    def resumed(self, e: Emitter) -> None:
        """See `Thread`."""
        if self.shadow is not None:
            self.shadow.resumed(e)

    def touch(self, e: Emitter, pointer: llvm.Value, access: Access) -> None:
        """The full checks look at every access, and who watches where a kernel writes."""
        if self.shadow is not None:
            self.shadow.touch(e, pointer, access)
        if self.build.covered:
            note_write(self, e, pointer, access)

    # -------------------------------------------------------------- Target: checks

    def check_index(self, e: Emitter, index: llvm.Value, size: llvm.Value, axis: int, array: str, written: str) -> None:
        """One unsigned comparison, unless the proof takes it over."""
        if self.prover is None or not self.checks or not self.prover.takes_index(index, size):
            super().check_index(e, index, size, axis, array, written)

    def check(self, e: Emitter, holds: llvm.Value, text: str) -> None:
        """A condition that the language demands, unless the proof takes it over."""
        if self.prover is None or not self.checks or not self.prover.takes_nonzero(holds):
            super().check(e, holds, text)

    # -------------------------------------------------------------- Target: what is proved instead

    def decide(self, e: Emitter, condition: llvm.Value) -> bool | None:
        """A test on the index of the grid that the proof takes over."""
        return self.prover.takes_guard(condition) if self.prover is not None else None

    def note_range(
        self,
        e: Emitter,
        value: llvm.Value,
        start: llvm.Value,
        stop: llvm.Value,
        step: llvm.Value,
        is_signed: bool,
    ) -> None:
        """What a loop variable ranges over."""
        if self.shadow is not None:
            self.shadow.apart.note_range(value, start, step, self.registers)
        if self.prover is not None:
            conditions = [i for i in e.b.block.instructions if isinstance(i, llvm.instructions.ICMPInstr)]
            self.prover.note_range(value, start, stop, step, is_signed, conditions)

    def unroll(self, e: Emitter, branch: llvm.Instruction, count: int) -> None:
        """Left to LLVM, which knows this machine."""

    # -------------------------------------------------------------- leaving, waiting and printing

    def suspend(self, e: Emitter, kind: str, text: str = "", words: int = 0) -> None:
        """See `Thread`."""
        self.notes.waits(e)
        super().suspend(e, kind, text, words)

    def number_line(self, e: Emitter, line: Line) -> int:
        """The number of a line that the program prints."""
        return self.sites.prints.number(line)

    def exit_of(self, place: Place) -> int:
        """The end of the kernel is exit 0 (Python returns from several places there), each `return` one more."""
        if (place.line, place.column) not in self._returns:
            return 0
        return min(self._exits.setdefault(place, len(self._exits) + 1), abi.MAX_EXITS)


def _sees_clusters(typed: ir.Typed) -> bool:
    """Whether threads come to the shared memory of other blocks."""
    return any(getattr(call.callee, "name", "") == "cluster_shared" for _, call in ir.calls_of(typed))


def _waits(typed: ir.Typed) -> bool:
    """Whether a thread may wait for others in this function or one that it calls."""
    return any(isinstance(call.callee, Intrinsic) and call.callee.suspends for _, call in ir.calls_of(typed))


def _breaks(typed: ir.Typed) -> bool:
    """Whether a thread may come to a `breakpoint()`."""
    return any(call.callee is BREAKPOINT for _, call in ir.calls_of(typed))


def _natural(pointer: llvm.Value) -> int:
    """The alignment of an element at its address."""
    return nbytes(pointer.type.pointee)
