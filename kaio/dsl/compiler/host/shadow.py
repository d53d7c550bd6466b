"""The checks that a kernel makes of each access under ``check="full"``: races, and memory that nobody has written.

Each access is looked at before it is made. `shadow_code.py` has the code for the usual cases; what it cannot decide
goes to `shadow_rules.py`. `kaio/shadow_abi.py` says what is kept of memory.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from llvmlite import ir as llvm

from kaio import order_abi as order
from kaio import shadow_abi as abi
from kaio.dsl.compiler.emission.access import Access
from kaio.dsl.compiler.emission.arguments import argument_types
from kaio.dsl.compiler.emission.scalars import nbytes
from kaio.dsl.compiler.host.host_context import I1, I8, I32, I64, POINTER
from kaio.dsl.compiler.host.shadow_apart import Apart, Axes, root_of
from kaio.dsl.compiler.host.shadow_code import Code
from kaio.dsl.values import ArrayType, BufferType, Type
from kaio.program import PlacedArray, Site
from kaio.structs import granule_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaio.dsl.compiler.emission.emit import Emitter
    from kaio.dsl.compiler.host.host_threads import Thread

__all__ = ["Shadow"]

_STRENGTHS = {"block": abi.ATOMIC_IN_BLOCK, "device": abi.ATOMIC_IN_GRID, "system": abi.ATOMIC_IN_GRID}


class Shadow:
    """What the body of a kernel asks of each access."""

    def __init__(self, thread: Thread, types: Iterable[Type | None], *, in_clusters: bool, in_part: bool) -> None:
        self._thread, self._in_clusters, self.in_part = thread, in_clusters, in_part
        self._code = Code(thread.module)
        self._buffers: dict[int, int] = {}  # the number of a buffer among the arguments, by its LLVM value
        self._types = tuple(types)
        self._sizes: list[list[llvm.Value] | None] = []  # of each buffer; None of a strided one
        self.apart = Apart()
        self._local: list[PlacedArray] = []
        self._local_nbytes = 0

    def begin(self) -> None:
        """The function's entry: the memory of all local arrays, and a byte for each of theirs that is -1 if written."""
        b = self._thread.b
        self._area, self._written = (b.alloca(I8, size=I32(0), name=name) for name in ("local", "written"))
        self._area.align = 16
        self._code.begin(b, self._who)
        flat = iter(self._thread.arguments)
        for type_ in self._types:
            values = [next(flat) for _ in range(len(argument_types((type_,))))]
            if isinstance(type_, BufferType):
                self._buffers[id(values[0])] = len(self._sizes)
                self._sizes.append(None if type_.strided else values[1:])

    def resumed(self, e: Emitter) -> None:
        """The thread goes on that has waited."""
        self._code.look_again(e.b, self._who)

    def finish(self) -> None:
        """All accesses are there."""
        for array in (self._area, self._written):
            array.operands[0] = I32(max(1, self._local_nbytes))

    # -------------------------------------------------------------- local arrays
    def local(self, e: Emitter, array: ArrayType, name: str) -> llvm.Value:
        """Memory of a thread's own array, of which nothing was written."""
        size = math.prod(array.shape) * array.dtype.itemsize
        offset = -(-self._local_nbytes // 16) * 16
        self._local_nbytes = offset + size
        self._local.append(PlacedArray(name, offset, array.dtype, array.shape))
        start = e.b.gep(self._written, [I32(offset)])
        e.call("llvm.memset.p0.i64", llvm.VoidType(), [start, I8(0), I64(size), I1(0)])
        return e.b.gep(self._area, [I32(offset)], inbounds=True)

    def _touch_local(self, e: Emitter, pointer: llvm.Value, access: Access) -> None:
        b, size = e.b, nbytes(pointer.type.pointee)
        offset = b.sub(b.ptrtoint(pointer, I64), b.ptrtoint(self._area, I64))
        word = llvm.IntType(8 * size)
        place = b.bitcast(b.gep(self._written, [offset]), word.as_pointer())
        if access.kind == "write":
            b.store(word(-1), place, align=1)
            return
        with self._thread.unless(e, b.icmp_unsigned("==", b.load(place, align=1), word(-1))):
            self._code.decide(b, self._who, I64(0), offset, I32(self._what(e, access, pointer) | abi.OF_THREAD))
            self._thread.abandon(e)

    # -------------------------------------------------------------- accesses
    def touch(self, e: Emitter, pointer: llvm.Value, access: Access) -> None:
        """Look at an access that is about to be made."""
        if access.space == "constant":
            return
        if access.spans is not None:
            for offset, size in access.spans:
                part = e.b.gep(e.b.bitcast(pointer, POINTER), [I32(offset)], inbounds=True)
                self.touch(e, e.b.bitcast(part, llvm.IntType(8 * size).as_pointer()), replace(access, spans=None))
            return
        if access.space == "local":
            self._touch_local(e, pointer, access)
        elif access.space == "global":
            self._touch_buffer(e, pointer, access)
        else:
            self._touch_shared(e, pointer, access)

    def _touch_shared(self, e: Emitter, pointer: llvm.Value, access: Access) -> None:
        what = self._what(e, access, pointer) | abi.IN_SHARED | abi.IN_CLUSTER * (access.space == "cluster")
        # The code of the usual cases takes all accesses to shared memory for those of one block, and for done.
        is_usual = access.space == "shared" and not self._in_clusters and self._is_usual(access)
        kind = ("write" if access.kind == "write" else "read") if is_usual else "other"
        found = I1(0)
        for address in self._granules(e, pointer, access):
            found = e.b.or_(found, self._code.ask(e.b, f"shared.{kind}", self._who, [address, I32(what)]))
        self._leave_if(e, found)

    def _touch_buffer(self, e: Emitter, pointer: llvm.Value, access: Access) -> None:
        b, size = e.b, nbytes(pointer.type.pointee)
        what = self._what(e, access, pointer)
        address = b.ptrtoint(pointer, I64)
        root = root_of(pointer)
        number = self._buffers.get(id(root))
        self._note_place(pointer, root, number, access)
        row = self._code.row(b, self._thread.context, number, address)
        if access.reads:
            self._code.check_written(b, self._who, address, I32(what), row, size)
        if access.kind != "read":
            self._code.mark_written(b, row, address, size)
        if access.read_only:  # nobody writes it while the kernel runs, unless another launch does
            with b.if_then(self._code.has_cells(b, row), likely=False):
                self._ask_buffer(e, "other", pointer, access, what, row)
            return
        self._ask_buffer(e, access.kind if self._is_usual(access) else "other", pointer, access, what, row)

    def _ask_buffer(
        self, e: Emitter, kind: str, pointer: llvm.Value, access: Access, what: int, row: llvm.Value
    ) -> None:
        b = e.b
        shift = I64(granule_of(access.dtype).bit_length() - 1)
        found = I1(0)
        for place in self._granules(e, pointer, access):
            found = b.or_(found, self._code.ask(b, f"buffer.{kind}", self._who, [place, I32(what), row, shift]))
        self._leave_if(e, found)

    def _is_usual(self, access: Access) -> bool:
        """Whether the code of the usual cases may decide: two readers of a cell are enough, and it is done at once.

        Where more are kept, a write to shared memory still may: what its block knows of the two it knows of the others.
        """
        is_plain = not access.is_strong and access.how != "async"
        return is_plain and (not self.in_part or (access.kind == "write" and access.space == "shared"))

    def _note_place(self, pointer: llvm.Value, root: llvm.Value, number: int | None, access: Access) -> None:
        """Note where in a buffer a thread comes to; in any, where it is not known in which.

        A copy that goes on by itself may race with its own thread.
        """
        if number is None:
            for other in range(len(self._sizes)):
                self.apart.note(other, None)
            return
        sizes = self._sizes[number]
        if sizes is None or access.how == "async":
            self.apart.note(number, None)
        else:
            self.apart.note(number, self.apart.grid_axes(pointer, root, sizes, self._thread.registers))

    def wait_for_copies(self, e: Emitter, groups: int) -> None:
        """The thread waits until at most so many of its groups are under way."""
        self._code.decide(e.b, self._who, I64(0), I64(groups), I32(order.WAIT))

    @property
    def _who(self) -> list[llvm.Value]:
        return [self._thread.context, self._thread.thread]

    def _granules(self, e: Emitter, pointer: llvm.Value, access: Access) -> list[llvm.Value]:
        """The addresses of all granules of an access."""
        step, address = granule_of(access.dtype), e.b.ptrtoint(pointer, I64)
        if access.space != "global":
            self._code.note_granule(step)
        return [e.b.add(address, I64(at)) for at in range(0, nbytes(pointer.type.pointee), step)]

    def _what(self, e: Emitter, access: Access, pointer: llvm.Value) -> int:
        site = self._thread.sites.number(Site("access", e.place, e.trace, access.array, written=access.space))
        strength = abi.VOLATILE if access.how == "volatile" else abi.PLAIN
        if access.kind == "atomic":
            strength = _STRENGTHS[access.scope]
        return (
            (site if site < abi.MOST_SITES else 0)
            | strength << abi.STRENGTH_SHIFT
            | abi.READS * access.reads
            | abi.WRITES * (access.kind != "read")
            | abi.ASYNC * (access.how == "async")
            | nbytes(pointer.type.pointee) << abi.NBYTES_SHIFT
        )

    # -------------------------------------------------------------- what is found
    def _leave_if(self, e: Emitter, found: llvm.Value) -> None:
        with self._thread.unless(e, e.b.not_(found)):
            self._thread.abandon(e)

    @property
    def axes_apart(self) -> tuple[Axes | None, ...]:
        """Of each buffer the axes of the grid that tell the elements apart to which threads come, if they do."""
        return self.apart.axes(len(self._sizes))

    @property
    def local_arrays(self) -> tuple[PlacedArray, ...]:
        """The arrays of each thread's own."""
        return tuple(self._local)

    def finish_code(self) -> int:
        """Say to the code of the accesses what is known now; gives the granule of shared memory."""
        return self._code.finish()
