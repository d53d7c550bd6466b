"""Matrices of a warp loaded and stored: element by element, or by `ldmatrix` and `stmatrix`.

The layout is in `kaio/dsl/fragments.py`: lane 4 * g + t has of a row or column of 32 bytes the words at 4 * t and at
4 * t + 16, of rows g and g + 8 of a, of column g of b; and of rows g and g + 8 of c the elements 2 * t and 2 * t + 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

from llvmlite import ir as llvm

from kaio.dsl.compiler.cuda.assembly import assemble
from kaio.dsl.compiler.emission import elements
from kaio.dsl.compiler.emission.access import Access, access_to
from kaio.dsl.compiler.emission.packing import pack, unpack
from kaio.dsl.compiler.emission.words import to_words
from kaio.dsl.fragments import FragmentType
from kaio.dsl.values import ArrayType, BufferType, TupleType, Type
from kaio.dsl.warp import lane_id
from kaio.dtypes import f32

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter
    from kaio.dsl.compiler.ir import TypedCall

__all__ = [
    "Rows",
    "as_tf32",
    "load_elements",
    "load_rows",
    "load_words",
    "rows_of_all",
    "store_elements",
    "store_rows",
    "store_words",
]

_I16, _I32, _I64 = llvm.IntType(16), llvm.IntType(32), llvm.IntType(64)
_ROW_NBYTES = 16  # what one lane gives the address of
_UNALIGNED = "`ldmatrix` and `stmatrix` take rows at multiples of 16 bytes"


class _Tile:
    """A part of an array of two dimensions: where it begins, and how its elements are addressed."""

    def __init__(self, e: Emitter, call: TypedCall, array: Any, row: Any, column: Any) -> None:
        type_ = call.operands[0]
        assert isinstance(type_, BufferType | ArrayType)
        self.e, self.array, self.type, self.row, self.column = e, array, type_, row, column
        self.position: Type = call.operands[1]
        self.name = e.assigning
        lane = lane_id.rule(e.target.name)(e, call)  # type: ignore[attr-defined]
        self.lane = lane
        self.group, self.within = e.b.lshr(lane, _I32(2)), e.b.and_(lane, _I32(3))

    def address(self, row: Any, column: Any, *, transposed: bool = False) -> Any:
        """The address of an element, counted (as i32) from the corner; transposed, it is found at (column, row)."""
        rows, columns = (column, row) if transposed else (row, column)
        at = self._moved(self.row, rows), self._moved(self.column, columns)
        index = TupleType((self.position, self.position))
        return self.e.address(self.array, self.type, at, index, self.name)

    def access(self, kind: Literal["read", "write"]) -> Access:
        """What is done to the array."""
        return access_to(kind, self.type, self.name)

    def _moved(self, start: Any, by: Any) -> Any:
        return self.e.b.add(start, by if start.type == _I32 else self.e.b.sext(by, start.type), flags=("nsw",))

    def plus(self, value: Any, number: int) -> Any:
        """A place some further on."""
        return self.e.b.add(value, _I32(number), flags=("nsw",)) if number else value


# ---------------------------------------------------------------------- element by element
def load_elements(e: Emitter, call: TypedCall, array: Any, row: Any, column: Any) -> tuple[Any, ...]:
    """A fragment from any array."""
    fragment, transposed = call.result, call.static[0] == "col"
    assert isinstance(fragment, FragmentType)
    tile = _Tile(e, call, array, row, column)
    found = [
        elements.load(e, tile.address(m, n, transposed=transposed), tile.type.dtype, tile.access("read"))
        for m, n in _places(tile, fragment)
    ]
    if fragment.role == "c":
        return tuple(found)
    each = 4 // fragment.dtype.itemsize
    if fragment.dtype is f32:
        return tuple(as_tf32(e, value) for value in found)
    return tuple(pack(e.b, found[k : k + each]) for k in range(0, len(found), each))


def store_elements(e: Emitter, call: TypedCall, array: Any, row: Any, column: Any, c: Sequence[Any]) -> None:
    """A sum into any array."""
    fragment, transposed = call.operands[3], call.static[0] == "col"
    assert isinstance(fragment, FragmentType)
    tile = _Tile(e, call, array, row, column)
    for (m, n), value in zip(_places(tile, fragment), c, strict=True):
        place = tile.address(m, n, transposed=transposed)
        elements.store(e, place, tile.type.dtype, value, fragment.dtype, tile.access("write"))


def _places(tile: _Tile, fragment: FragmentType) -> Iterator[tuple[Any, Any]]:
    """Row and column in the matrix of each element that this lane has, in the order of its words."""
    b, group, within = tile.e.b, tile.group, tile.within
    if fragment.role == "c":
        for k in range(4):
            yield tile.plus(group, 8 * (k >> 1)), tile.plus(b.shl(within, _I32(1)), k & 1)
        return
    each = 4 // fragment.dtype.itemsize
    along = b.mul(within, _I32(each))
    for word in range(len(fragment.items)):
        across, half = (word & 1, word >> 1) if fragment.role == "a" else (0, word)
        for k in range(each):
            place = tile.plus(along, half * 4 * each + k)
            yield (tile.plus(group, 8 * across), place) if fragment.role == "a" else (place, group)


def as_tf32(e: Emitter, value: Any) -> Any:
    """The bits of an f32 rounded to tf32: to nearest, ties away from zero (`cvt.rna.tf32.f32`)."""
    if e.target.name == "cuda":
        return assemble(e, "cvt.rna.tf32.f32 $0, $1;", [_I32], [value])[0]
    bits = e.b.bitcast(value, _I32)
    rounded = e.b.and_(e.b.add(bits, _I32(1 << 12)), _I32(~0 << 13))
    special = e.b.icmp_unsigned("==", e.b.and_(bits, _I32(0x7F800000)), _I32(0x7F800000))
    return e.b.select(special, bits, rounded)


# ---------------------------------------------------------------------- row by row
def load_rows(e: Emitter, call: TypedCall, array: Any, row: Any, column: Any) -> tuple[Any, ...]:
    """A fragment of a or b by `ldmatrix`: four or two matrices of 8 rows of 16 bytes."""
    fragment = call.result
    assert isinstance(fragment, FragmentType)
    is_a = fragment.role == "a"
    transposed = (call.static[0] == "col") == is_a  # as the instruction sees it: elements of a row belong to k
    tile = _Tile(e, call, array, row, column)
    b, count = e.b, len(fragment.items)
    within, low = b.and_(tile.lane, _I32(7)), b.and_(b.lshr(tile.lane, _I32(3)), _I32(1))
    high = b.lshr(tile.lane, _I32(4))
    across, along = (low, high) if is_a else (None, low)
    far = 16 // fragment.dtype.itemsize  # elements of a row
    first = within if across is None else b.add(within, b.shl(across, _I32(3)))
    second = b.mul(along, _I32(far))
    if transposed:  # rows are k, and what is next to each other is m or n
        first, second = b.add(within, b.shl(along, _I32(3))), _I32(0) if across is None else b.shl(across, _I32(3))
    words = _load_rows(tile, _row_address(tile, first, second), count, transposed)
    if fragment.dtype is f32:
        words = [as_tf32(e, b.bitcast(word, llvm.FloatType())) for word in words]
    return tuple(words)


def store_rows(e: Emitter, call: TypedCall, array: Any, row: Any, column: Any, c: Sequence[Any]) -> None:
    """A sum of 16-bit elements by `stmatrix`."""
    transposed = call.static[0] == "col"
    tile = _Tile(e, call, array, row, column)
    b = e.b
    within, low = b.and_(tile.lane, _I32(7)), b.and_(b.lshr(tile.lane, _I32(3)), _I32(1))
    eighth = b.shl(low, _I32(3))
    first, second = (within, eighth) if transposed else (b.add(within, eighth), _I32(0))
    _store_rows(tile, _row_address(tile, first, second), [pack(e.b, c[:2]), pack(e.b, c[2:])], transposed)


def load_words(e: Emitter, call: TypedCall, array: Any, row: Any, column: Any) -> tuple[Any, ...]:
    """As many words as the result has, from the rows whose places the lanes give."""
    assert isinstance(call.result, TupleType)
    tile = _Tile(e, call, array, row, column)
    return tuple(
        _load_rows(tile, _row_address(tile, _I32(0), _I32(0)), len(call.result.items), call.static[0] == "col")
    )


def store_words(e: Emitter, call: TypedCall, array: Any, row: Any, column: Any, words: Sequence[Any]) -> None:
    """These words into the rows whose places the lanes give."""
    tile = _Tile(e, call, array, row, column)
    _store_rows(tile, _row_address(tile, _I32(0), _I32(0)), words, call.static[0] == "col")


def _row_address(tile: _Tile, row: Any, column: Any) -> Any:
    """The address of the row that this lane gives; its last element is checked too, and where it begins."""
    last = _ROW_NBYTES // tile.type.dtype.itemsize - 1
    e = tile.e
    pointer = tile.address(row, column)
    if e.target.name == "host":
        tile.address(row, tile.plus(column, last))
        place = e.b.ptrtoint(pointer, _I64)
        e.target.check(e, e.b.icmp_unsigned("==", e.b.and_(place, _I64(15)), _I64(0)), _UNALIGNED)
        return place
    return e.b.ptrtoint(pointer, _I32)


def _load_rows(tile: _Tile, address: Any, count: int, transposed: bool) -> list[Any]:
    e = tile.e
    if e.target.name == "cuda":
        words = ", ".join(f"${k}" for k in range(count))
        name = f"ldmatrix.sync.aligned.m8n8.x{count}{'.trans' * transposed}.shared.b16"
        return assemble(e, f"{name} {{{words}}}, [${count}];", [_I32] * count, [address], volatile=True, memory=True)
    at = rows_of_all(e, address, "ldmatrix", tile.access)
    return [at.load(matrix, transposed) for matrix in range(count)]


def _store_rows(tile: _Tile, address: Any, words: Sequence[Any], transposed: bool) -> None:
    e = tile.e
    if e.target.name == "cuda":
        given = ", ".join(f"${k}" for k in range(1, 1 + len(words)))
        name = f"stmatrix.sync.aligned.m8n8.x{len(words)}{'.trans' * transposed}.shared.b16"
        assemble(e, f"{name} [$0], {{{given}}};", [], [address, *words], volatile=True, memory=True)
        return
    at = rows_of_all(e, address, "stmatrix", tile.access)
    for matrix, word in enumerate(words):
        at.store(matrix, word, transposed)


class Rows:
    """The rows whose addresses the lanes of a warp gave, on the host; `access(kind)` says what is done to them."""

    def __init__(self, e: Emitter, peers: Any, access: Callable[[Any], Access]) -> None:
        self.e, self.peers, self.access = e, peers, access
        self.group, self.within = e.b.lshr(peers.lane, _I32(2)), e.b.and_(peers.lane, _I32(3))

    def _at(self, matrix: int, row: Any, nbytes: Any, kind: llvm.Type) -> Any:
        """A place in a row of a matrix, some bytes from its start."""
        b = self.e.b
        lane = b.add(row, _I32(8 * matrix))
        low, high = (b.zext(self.peers.word(k, lane), _I64) for k in range(2))
        address = b.add(b.or_(low, b.shl(high, _I64(32))), b.zext(nbytes, _I64))
        return b.inttoptr(address, kind.as_pointer())

    def _parts(self, matrix: int, transposed: bool) -> list[Any]:
        """The places of this lane's word: one, or transposed those of its two halves."""
        b = self.e.b
        if not transposed:
            return [self._at(matrix, self.group, b.shl(self.within, _I32(2)), _I32)]
        rows = (b.add(b.shl(self.within, _I32(1)), _I32(k)) for k in range(2))
        return [self._at(matrix, row, b.shl(self.group, _I32(1)), _I16) for row in rows]

    def load(self, matrix: int, transposed: bool) -> Any:
        """This lane's word of a matrix."""
        parts = [self.e.target.load(self.e, place, self.access("read")) for place in self._parts(matrix, transposed)]
        return parts[0] if len(parts) == 1 else pack(self.e.b, parts)

    def store(self, matrix: int, word: Any, transposed: bool) -> None:
        """Store this lane's word of a matrix."""
        b = self.e.b
        halves = unpack(b, word, 16) if transposed else [word]
        for place, part in zip(self._parts(matrix, transposed), halves, strict=True):
            self.e.target.store(self.e, part, place, self.access("write"))


def rows_of_all(e: Emitter, address: Any, what: str, access: Callable[[Any], Access]) -> Rows:
    """The rows of all lanes, each of which gives the address of one (an i64)."""
    b = e.b
    peers = e.target.exchange(e, to_words(b, address), None, what)
    e.target.check(e, b.icmp_signed("==", peers.members, _I32(-1)), f"`{what}` needs all 32 lanes of a warp")
    return Rows(e, peers, access)
