"""Which addresses a kernel may touch: those of the launch's buffers, of its block's shared memory, of its own memory.

It is what compute-sanitizer's memcheck finds on a GPU: not that an index is out of range for its axis, but that an
address is outside of everything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir as llvm

from kaio import print_abi
from kaio.dsl.compiler.emission.dynamic import Inputs
from kaio.dsl.records import scalars_of
from kaio.dsl.values import BufferType

if TYPE_CHECKING:
    from kaio.dsl.compiler.ptx.emitter import PtxEmitter

__all__ = ["Extents", "Stretch", "dynamic_end", "stretches_of"]

_I64 = llvm.IntType(64)
Stretch = tuple[Any, Any]
"""Where some memory starts and how many bytes it has, as i64."""


def stretches_of(b: Any, inputs: Inputs, arguments: list[Any]) -> list[Stretch]:
    """The buffers of the launch, from the flat arguments."""
    found, rest = [], iter(arguments)
    for type_ in inputs.types:
        if isinstance(type_, BufferType):
            pointer = next(rest)
            sizes = [_wide(b, next(rest)) for _ in range(type_.ndim)]
            strides = [_wide(b, next(rest)) for _ in range(type_.ndim)] if type_.strided else []
            found.append(_stretch(b, b.ptrtoint(pointer, _I64), sizes, strides, type_.dtype.itemsize))
        elif type_ is not None:
            for _ in scalars_of(type_, ""):
                next(rest)
    return found


def _wide(b: Any, value: Any) -> Any:
    return value if value.type == _I64 else b.sext(value, _I64)


def _stretch(b: Any, start: Any, sizes: list[Any], strides: list[Any], itemsize: int) -> Stretch:
    count = _I64(1)
    for size in sizes:
        count = b.mul(count, size)
    if not strides:
        return start, b.mul(count, _I64(itemsize))
    low = high = _I64(0)
    for size, stride in zip(sizes, strides, strict=True):
        reach = b.mul(b.sub(size, _I64(1)), stride)
        is_back = b.icmp_signed("<", reach, _I64(0))
        low = b.select(is_back, b.add(low, reach), low)
        high = b.select(is_back, high, b.add(high, reach))
    elements = b.add(b.sub(high, low), _I64(1))
    nothing = b.icmp_unsigned("==", count, _I64(0))
    nbytes = b.select(nothing, _I64(0), b.mul(elements, _I64(itemsize)))
    return b.add(start, b.mul(low, _I64(itemsize))), nbytes


def dynamic_end(b: Any, inputs: Inputs, arguments: list[Any]) -> Any | None:
    """The byte behind the last array whose size the launch said; None where there is none."""
    if not inputs.dynamic:
        return None
    offset, size = (b.zext(value, _I64) for value in arguments[-2:])
    return b.add(offset, b.mul(size, _I64(inputs.dynamic[-1].dtype.itemsize)))


class Extents:
    """What one thread may touch. Made where its function begins, so that loops over threads compute it once."""

    def __init__(self, e: PtxEmitter, inputs: Inputs, arguments: list[Any], shared_nbytes: int, ring: Any) -> None:
        b = e.b
        self.buffers = stretches_of(b, inputs, arguments)
        self.shared = dynamic_end(b, inputs, arguments) or _I64(shared_nbytes)
        if ring is not None:  # the words that a program prints, and its counters
            for at, nbytes in ((0, 4 * (print_abi.DATA + print_abi.CAPACITY)), (8, 4 * print_abi.COUNTERS)):
                place = b.bitcast(b.gep(b.bitcast(ring, llvm.IntType(8).as_pointer()), [_I64(at)]), _I64.as_pointer())
                self.buffers.append((b.load(place), _I64(nbytes)))

    def words(self, e: PtxEmitter) -> list[Stretch]:
        """The buffers with what else is in their first and last word of 4 bytes.

        An atomic update of a byte is one of its word, which is there as a whole.
        """
        found = []
        for start, nbytes in self.buffers:
            first = e.b.and_(start, _I64(-4))
            last = e.b.and_(e.b.add(e.b.add(start, nbytes), _I64(3)), _I64(-4))
            nothing = e.b.icmp_unsigned("==", nbytes, _I64(0))
            found.append((first, e.b.select(nothing, _I64(0), e.b.sub(last, first))))
        return found

    @staticmethod
    def within(e: PtxEmitter, offset: Any, extent: Any, nbytes: int) -> Any:
        """i1: an access of so many bytes at an offset ends within the extent."""
        room = extent
        if nbytes > 1:
            room = e.call("llvm.usub.sat.i64", _I64, [extent, _I64(nbytes - 1)])
        return e.b.icmp_unsigned("<", offset, room)

    def within_any(self, e: PtxEmitter, address: Any, stretches: list[Stretch], nbytes: int) -> Any:
        """i1: an access lies in one of these."""
        found = llvm.IntType(1)(0)
        for start, extent in stretches:
            found = e.b.or_(found, self.within(e, e.b.sub(address, start), extent, nbytes))
        return found
