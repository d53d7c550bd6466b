"""What a kernel's code does about an access under ``check="full"``: small functions that LLVM puts in place.

They decide the usual cases by a few comparisons. All times that a cell has are earlier than the last barrier: nothing
of now. It is the thread's own. Two threads have read it since: whoever writes it now is told of one of them. What is
left goes to the function at `DECIDE` (`shadow_rules.py`), which also makes the reports.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

from llvmlite import ir as llvm

from kaio import host_abi
from kaio import shadow_abi as abi
from kaio.dsl.compiler.emission.declared import own_function
from kaio.dsl.compiler.host.host_context import I1, I32, I64, POINTER, VOID, field_of

__all__ = ["Code"]

_GRANULE = "shadow.granule"
_WHO = [POINTER, I32]  # context, thread
_VIEW = [I64, I32, I32, I32, I32.as_pointer()]  # cells, start, base, the thread's number, where its time is
_SHARED = [I64, I32]  # address, what
_BUFFER = [*_SHARED, POINTER, I64]  # and the row of the table of buffers, the shift of an address to its granule


class Code:
    """The functions of one module."""

    def __init__(self, module: llvm.Module) -> None:
        self._module = module
        self._granules: set[int] = set()
        self._slots: list[llvm.Value] = []

    def begin(self, b: llvm.IRBuilder, who: list[llvm.Value]) -> None:
        """The entry of a thread's function."""
        self._slots = [b.alloca(kind) for kind in _VIEW]
        self.look_again(b, who)

    def look_again(self, b: llvm.IRBuilder, who: list[llvm.Value]) -> None:
        """Read what does not change before the thread waits, so that LLVM keeps it in registers."""
        context, thread = who
        fields = [b.load(field_of(b, context, at, I32)) for at in (abi.START, abi.BASE, abi.FIRST)]
        words = b.bitcast(b.load(field_of(b, context, host_abi.WORDS, POINTER)), I32.as_pointer())
        clock = b.gep(words, [b.zext(b.add(thread, I32(abi.CLOCK * host_abi.WORD_STRIDE)), I64)])
        seen = [b.load(field_of(b, context, abi.CELLS, I64)), *fields[:2], b.add(fields[2], thread), clock]
        for value, slot in zip(seen, self._slots, strict=True):
            b.store(value, slot)

    def note_granule(self, nbytes: int) -> None:
        """Elements of shared memory have parts of so many bytes."""
        self._granules.add(nbytes)

    def finish(self) -> int:
        """Say what the granule of shared memory is, now that all accesses are known; gives it, in bytes."""
        shift = self._granule
        self._granules.add(1 << shift.initializer.constant)
        shift.initializer = I32(min(self._granules).bit_length() - 1)
        return min(self._granules)

    @property
    def _granule(self) -> llvm.GlobalVariable:
        found = self._module.globals.get(_GRANULE)
        if found is None:
            found = llvm.GlobalVariable(self._module, I32, _GRANULE)
            found.linkage, found.global_constant, found.initializer = "internal", True, I32(4)
        return found

    # -------------------------------------------------------------- calls
    def ask(self, b: llvm.IRBuilder, name: str, who: list[llvm.Value], rest: list[llvm.Value]) -> llvm.Value:
        """i1: whether an access is wrong; `name` is ``shared`` or ``buffer`` and ``read``, ``write`` or ``other``."""
        space, kind = name.split(".")
        kinds = [*_WHO, *_VIEW, *(_SHARED if space == "shared" else _BUFFER)]
        function = self._function(f"shadow.{name}", kinds, I1, getattr(self, f"_{space}_{kind}"))
        return b.call(function, [*who, *map(b.load, self._slots), *rest])

    def decide(
        self,
        b: llvm.IRBuilder,
        who: list[llvm.Value],
        cell: llvm.Value,
        address: llvm.Value,
        what: llvm.Value,
    ) -> llvm.Value:
        """The same, by the rules; `cell` is an address as number, 0 of memory that nobody has written."""
        kinds = [POINTER, I32, I64, I64, I32]
        function = self._function("shadow.decide", kinds, I1, _decide, "noinline")
        return b.call(function, [*who, cell, address, what])

    def row(self, b: llvm.IRBuilder, context: llvm.Value, number: int | None, address: llvm.Value) -> llvm.Value:
        """The row of the table of buffers, of the one of that number or the one that the address is in."""
        if number is None:
            return b.call(self._function("shadow.find", [POINTER, I64], POINTER, _find, "noinline"), [context, address])
        table = b.load(field_of(b, context, abi.BUFFERS, POINTER))
        return b.gep(table, [I64(number * abi.BUFFER.size)])

    def has_cells(self, b: llvm.IRBuilder, row: llvm.Value) -> llvm.Value:
        """i1: whether anybody keeps who comes to a buffer."""
        return b.icmp_unsigned("!=", b.load(field_of(b, row, abi.BUFFER_CELLS, I64)), I64(0))

    def check_written(
        self,
        b: llvm.IRBuilder,
        who: list[llvm.Value],
        address: llvm.Value,
        what: llvm.Value,
        row: llvm.Value,
        size: int,
    ) -> None:
        """Tell the rules of bytes that have not been written, as far as anybody keeps that."""
        function = self._function(
            f"shadow.check_written.{size}", [*_WHO, *_SHARED, POINTER], VOID, partial(self._check_written, size)
        )
        b.call(function, [*who, address, what, row])

    def mark_written(self, b: llvm.IRBuilder, row: llvm.Value, address: llvm.Value, size: int) -> None:
        """Note, where anybody keeps that, that these bytes are written."""
        name = f"shadow.mark_written.{size}"
        function = self._function(name, [POINTER, I64], VOID, partial(_mark_written, size))
        b.call(function, [row, address])

    def _function(
        self, name: str, kinds: list[llvm.Type], result: llvm.Type, fill: Callable[..., None], how: str = "alwaysinline"
    ) -> llvm.Function:
        return own_function(self._module, name, result, kinds, fill, how)

    def _check_written(self, size: int, b: llvm.IRBuilder, *args: llvm.Value) -> None:
        context, thread, address, what, row = args
        start, place = _written_place(b, row, address, size)
        with b.if_then(b.icmp_unsigned("!=", start, I64(0))):
            is_written = b.icmp_unsigned("==", b.load(place, align=1), llvm.IntType(8 * size)(-1))
            with b.if_then(b.not_(is_written)):
                self.decide(b, [context, thread], I64(0), address, what)
        b.ret_void()

    # -------------------------------------------------------------- shared memory
    def _shared(self, b: llvm.IRBuilder, args: tuple[llvm.Value, ...]) -> _Cell:
        cells, address, what = args[2], *args[7:]
        shift = b.zext(b.load(self._granule), I64)
        return _Cell(b, args, b.add(_cell_offset(b, address, shift), cells), address, what)

    def _shared_read(self, b: llvm.IRBuilder, *args: llvm.Value) -> None:
        cell = self._shared(b, args)
        begun = b.sub(cell.time(abi.W_WHEN), cell.start)
        is_earlier = b.icmp_unsigned("<", begun, b.sub(cell.base, cell.start))
        is_own = b.and_(b.icmp_signed(">=", begun, I32(0)), cell.is_own_and_plain())
        with b.if_then(b.or_(is_earlier, is_own), likely=True):
            one, two = cell.time(abi.R1_WHEN), cell.time(abi.R2_WHEN)
            is_kept = b.or_(b.icmp_signed("==", two, cell.now), cell.is_mine(abi.R1_WHO))
            strong = b.and_(cell.time(abi.R_WHAT), I32(3 << abi.STRENGTH_SHIFT | 3 << abi.STRENGTH_SHIFT + 16))
            is_kept = b.and_(is_kept, b.icmp_signed("==", strong, I32(0)))  # which conflict with less
            with b.if_then(b.and_(b.icmp_signed("==", one, cell.now), is_kept), likely=True):
                b.ret(I1(0))
            with b.if_then(b.icmp_signed("<", one, cell.base)):
                cell.keep_read(cell.what)
                b.ret(I1(0))
        b.ret(self.decide(b, cell.who, cell.number, cell.address, cell.what))

    def _shared_write(self, b: llvm.IRBuilder, *args: llvm.Value) -> None:
        cell = self._shared(b, args)
        is_free = I1(1)
        for when in (abi.W_WHEN, abi.R1_WHEN, abi.R2_WHEN):
            is_earlier = b.icmp_signed("<", cell.time(when), cell.base)
            is_free = b.and_(is_free, b.or_(is_earlier, cell.is_mine(when + 1)))
        with b.if_then(is_free, likely=True):
            cell.keep_write(cell.what)
            b.ret(I1(0))
        b.ret(self.decide(b, cell.who, cell.number, cell.address, cell.what))

    def _shared_other(self, b: llvm.IRBuilder, *args: llvm.Value) -> None:
        cell = self._shared(b, args)
        b.ret(self.decide(b, cell.who, cell.number, cell.address, cell.what))

    # -------------------------------------------------------------- buffers
    def _buffer(self, b: llvm.IRBuilder, args: tuple[llvm.Value, ...], is_usual: bool) -> _Cell:
        """The cell of a buffer's granule. The builder then stands where the code may decide on its own."""
        address, what, row, shift = args[7:]
        start = b.load(field_of(b, row, abi.BUFFER_CELLS, I64))
        with b.if_then(b.icmp_unsigned("==", start, I64(0))):
            b.ret(I1(0))
        cell = _Cell(b, args, b.add(_cell_offset(b, address, shift), start), address, what)
        if is_usual:  # several workers see the cell: the rules take turns
            alone = b.load(field_of(b, args[0], host_abi.ALONE, I32))
            with b.if_then(b.icmp_unsigned("==", alone, I32(0))):
                b.ret(self.decide(b, cell.who, cell.number, cell.address, cell.what))
        return cell

    def _buffer_read(self, b: llvm.IRBuilder, *args: llvm.Value) -> None:
        cell = self._buffer(b, args, is_usual=True)
        with b.if_then(b.or_(cell.is_before(abi.W_WHEN), cell.is_own_and_plain()), likely=True):
            is_kept = b.and_(b.icmp_signed("==", cell.time(abi.R1_WHEN), cell.now), cell.is_mine(abi.R1_WHO))
            strong = b.and_(cell.time(abi.R_WHAT), I32(3 << abi.STRENGTH_SHIFT))  # which conflicts with less
            with b.if_then(b.and_(is_kept, b.icmp_signed("==", strong, I32(0)))):
                b.ret(I1(0))
            with b.if_then(cell.is_before(abi.R1_WHEN), likely=True):
                cell.keep_read(cell.what)
                b.ret(I1(0))
        b.ret(self.decide(b, cell.who, cell.number, cell.address, cell.what))

    def _buffer_write(self, b: llvm.IRBuilder, *args: llvm.Value) -> None:
        cell = self._buffer(b, args, is_usual=True)
        is_free = I1(1)
        for when in (abi.W_WHEN, abi.R1_WHEN, abi.R2_WHEN):
            is_free = b.and_(is_free, b.or_(cell.is_before(when), cell.is_mine(when + 1)))
        with b.if_then(is_free, likely=True):
            cell.keep_write(cell.what)
            b.ret(I1(0))
        b.ret(self.decide(b, cell.who, cell.number, cell.address, cell.what))

    def _buffer_other(self, b: llvm.IRBuilder, *args: llvm.Value) -> None:
        cell = self._buffer(b, args, is_usual=False)
        b.ret(self.decide(b, cell.who, cell.number, cell.address, cell.what))


@dataclass
class _Cell:
    """A cell as a thread sees it that makes an access; `number` is where it is, `args` begin with `_WHO`, `_VIEW`."""

    b: llvm.IRBuilder
    args: tuple[llvm.Value, ...]
    number: llvm.Value
    address: llvm.Value
    what: llvm.Value

    def __post_init__(self) -> None:
        b = self.b
        self.cell = b.inttoptr(self.number, I32.as_pointer())
        self.context, self.thread, _, self.start, self.base, self.me, clock = self.args[:7]
        self.who, self.now = [self.context, self.thread], b.load(clock)
        self.first = b.sub(self.me, self.thread)

    @cached_property
    def threads(self) -> llvm.Value:
        """The threads of the block."""
        return self.b.load(field_of(self.b, self.context, host_abi.THREADS, I32))

    def _place(self, word: int) -> llvm.Value:
        return self.b.gep(self.cell, [I64(word)], inbounds=True)

    def time(self, word: int) -> llvm.Value:
        """A word of the cell."""
        return self.b.load(self._place(word))

    def is_mine(self, word: int) -> llvm.Value:
        """Whether a thread that the cell names is this one."""
        return self.b.icmp_signed("==", self.time(word), self.me)

    def is_own_and_plain(self) -> llvm.Value:
        """Whether the last write is this thread's, and no atomic update, beside which there may be others."""
        b = self.b
        strength = b.and_(self.time(abi.W_WHAT), I32(3 << abi.STRENGTH_SHIFT))
        return b.and_(self.is_mine(abi.W_WHO), b.icmp_signed("==", strength, I32(0)))

    def is_before(self, when: int) -> llvm.Value:
        """Whether an access to a buffer was before the last barrier of this block, or there was none."""
        b, time = self.b, self.time(when)
        is_of_block = b.icmp_unsigned("<", b.sub(self.time(when + 1), self.first), self.threads)
        is_earlier = b.and_(is_of_block, b.icmp_signed("<", time, self.base))
        return b.or_(b.icmp_signed("==", time, I32(0)), is_earlier)

    def keep_read(self, what: llvm.Value) -> None:
        """This is the first read."""
        b = self.b
        b.store(self.now, self._place(abi.R1_WHEN))
        b.store(self.me, self._place(abi.R1_WHO))
        low = b.bitcast(self._place(abi.R_WHAT), llvm.IntType(16).as_pointer())
        b.store(b.trunc(what, llvm.IntType(16)), low)

    def keep_write(self, what: llvm.Value) -> None:
        """This is the last write."""
        b = self.b
        b.store(self.now, self._place(abi.W_WHEN))
        b.store(self.me, self._place(abi.W_WHO))
        nbytes = b.shl(b.lshr(what, I32(abi.NBYTES_SHIFT)), I32(16))
        b.store(b.or_(b.and_(what, I32(0xFFFF)), nbytes), self._place(abi.W_WHAT))


def _cell_offset(b: llvm.IRBuilder, address: llvm.Value, shift: llvm.Value) -> llvm.Value:
    return b.mul(b.lshr(address, shift), I64(abi.CELL_NBYTES))


def _decide(
    b: llvm.IRBuilder,
    context: llvm.Value,
    thread: llvm.Value,
    cell: llvm.Value,
    address: llvm.Value,
    what: llvm.Value,
) -> None:
    words = b.select(b.icmp_unsigned("==", cell, I64(0)), I32(0), I32(abi.CELL_NBYTES // 4))
    said = (cell, words, address, thread, what)
    places = (
        abi.QUESTION_CELL, abi.QUESTION_CELL + 8, abi.QUESTION_ADDRESS, abi.QUESTION_THREAD, abi.QUESTION_WHAT,
    )  # fmt: skip
    for value, place in zip(said, places, strict=True):
        b.store(value, field_of(b, context, place, value.type))
    kind = llvm.FunctionType(VOID, [POINTER]).as_pointer()
    function = b.inttoptr(b.load(field_of(b, context, abi.DECIDE, I64)), kind)
    b.call(function, [field_of(b, context, abi.QUESTION, llvm.IntType(8))])
    b.ret(b.icmp_unsigned("!=", b.load(field_of(b, context, host_abi.FAULT, I32)), I32(0)))


def _find(b: llvm.IRBuilder, context: llvm.Value, address: llvm.Value) -> None:
    """The row of the buffer that an address is in; the last row is of everything."""
    table = b.load(field_of(b, context, abi.BUFFERS, POINTER))
    before, head, done = b.block, b.append_basic_block("head"), b.append_basic_block("done")
    b.branch(head)
    b.position_at_end(head)
    row = b.phi(POINTER)
    row.add_incoming(table, before)
    first = b.load(field_of(b, row, abi.BUFFER_START, I64))
    stop = b.load(field_of(b, row, abi.BUFFER_STOP, I64))
    is_in = b.icmp_unsigned("<", b.sub(address, first), b.sub(stop, first))
    later = b.gep(row, [I64(abi.BUFFER.size)])
    row.add_incoming(later, b.block)
    b.cbranch(is_in, done, head)
    b.position_at_end(done)
    b.ret(row)


def _written_place(b: llvm.IRBuilder, row: llvm.Value, address: llvm.Value, size: int) -> tuple[llvm.Value, llvm.Value]:
    start = b.load(field_of(b, row, abi.BUFFER_MAP, I64))
    return start, b.inttoptr(b.add(start, address), llvm.IntType(8 * size).as_pointer())


def _mark_written(size: int, b: llvm.IRBuilder, row: llvm.Value, address: llvm.Value) -> None:
    start, place = _written_place(b, row, address, size)
    with b.if_then(b.icmp_unsigned("!=", start, I64(0))):
        b.store(llvm.IntType(8 * size)(-1), place, align=1)
    b.ret_void()
