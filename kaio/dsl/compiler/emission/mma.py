"""`mma`: the instruction, and what it means on the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from llvmlite import ir as llvm

from kaio.dsl.compiler.cuda.assembly import assemble
from kaio.dsl.compiler.emission.declared import own_function
from kaio.dsl.compiler.emission.narrow_floats import narrow, widen
from kaio.dsl.compiler.emission.packing import pack, unpack, vector
from kaio.dsl.compiler.host.host_context import POINTER
from kaio.dsl.compiler.host.host_exchange import Peers
from kaio.dsl.fragments import FragmentType
from kaio.dtypes import DType, f16, f32

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter
    from kaio.dsl.compiler.ir import TypedCall

__all__ = ["mma_cuda", "mma_host", "multiplied"]

_I16, _I32 = llvm.IntType(16), llvm.IntType(32)
_F16: Any = f16
_F32: Any = f32


def _operands(call: TypedCall) -> tuple[FragmentType, FragmentType, FragmentType]:
    a, b, c = call.operands
    assert isinstance(a, FragmentType)
    assert isinstance(b, FragmentType)
    assert isinstance(c, FragmentType)
    return a, b, c


# ---------------------------------------------------------------------- CUDA
def mma_cuda(e: Emitter, call: TypedCall, a: Any, b: Any, c: Any) -> tuple[Any, ...]:
    """The instruction."""
    left, right, total = _operands(call)
    if left.dtype.is_float and left.dtype.bits == 8:
        e.require("sm_89", f"`mma` of {left.dtype.name} and {right.dtype.name}")
    packed = [pack(e.b, c[:2]), pack(e.b, c[2:])] if total.dtype is _F16 else list(c)
    operands = [*a, *b, *packed]
    registers = iter(range(len(packed) + len(operands)))
    groups = [
        f"{{{', '.join(f'${next(registers)}' for _ in range(count))}}}" for count in (len(packed), 4, 2, len(packed))
    ]
    kinds = [total.dtype.ptx, _factor(left.dtype), _factor(right.dtype), total.dtype.ptx]
    text = f"mma.sync.aligned.m16n8k{32 // left.dtype.itemsize}.row.col.{'.'.join(kinds)} {', '.join(groups)};"
    made = assemble(e, text, [value.type for value in packed], operands, volatile=True)
    if total.dtype is not _F16:
        return tuple(made)
    return tuple(e.b.trunc(part, _I16) for word in made for part in (word, e.b.lshr(word, _I32(16))))


def _factor(dtype: DType) -> str:
    return "tf32" if dtype is _F32 else dtype.ptx


# ---------------------------------------------------------------------- the host
def mma_host(e: Emitter, call: TypedCall, a: Any, b: Any, c: Any) -> tuple[Any, ...]:
    """Give this lane's words of a and b, and compute its four sums from those of the others."""
    left, right, total = _operands(call)
    return multiplied(e, (left.dtype, right.dtype, total.dtype), a, b, c)


def multiplied(
    e: Emitter, dtypes: tuple[DType, DType, DType], a: Sequence[Any], b: Sequence[Any], c: Sequence[Any]
) -> tuple[Any, ...]:
    """The four sums of this lane, from its words of a and b, its elements of c, and what the others give.

    dtypes: those of a, of b, and of c and the sums; f32 in a and b are tf32
    """
    peers = e.target.exchange(e, [*a, *b], None, "mma")
    e.target.check(e, e.b.icmp_signed("==", peers.members, _I32(-1)), "`mma` needs all 32 lanes of a warp")
    function = _multiplier(e, *dtypes)
    made = e.b.call(function, [peers.context, peers.lane, *c])
    return tuple(e.b.extract_value(made, k) for k in range(4))


def _multiplier(e: Emitter, left: DType, right: DType, total: DType) -> llvm.Function:
    """`kaio_mma_…(context, lane, c0, c1, c2, c3)`: the four sums of a lane. Out of line: it is long."""
    from kaio.dsl.compiler.emission.emit import Emitter

    name = f"kaio_mma_{left.name}_{right.name}_{total.name}"
    element = e.llvm(total)
    result = llvm.LiteralStructType([element] * 4)

    def fill(b: llvm.IRBuilder, context: llvm.Value, lane: llvm.Value, *c: llvm.Value) -> None:
        made: Any = llvm.Constant(result, llvm.Undefined)
        for k, value in enumerate(
            _sums(Emitter(b, e.target), Peers(b, context, _I32(-1), lane), (left, right, total), c)
        ):
            made = b.insert_value(made, value, k)
        b.ret(made)

    return own_function(e.b.module, name, result, [POINTER, _I32, *[element] * 4], fill, "noinline")


def _sums(e: Emitter, peers: Peers, dtypes: tuple[DType, DType, DType], c: Sequence[Any]) -> list[Any]:
    """Rows g and g + 8 of a with columns 2 * t and 2 * t + 1 of b, added up from k = 0 on."""
    b, (left, right, total) = e.b, dtypes
    row = b.and_(peers.lane, _I32(~3))  # the first of the lanes that have this lane's rows
    columns = [b.shl(b.add(b.shl(b.and_(peers.lane, _I32(3)), _I32(1)), _I32(n)), _I32(2)) for n in range(2)]
    sums = vector(b, [widen(e, value, total) if total is _F16 else value for value in c])
    for part in range(8):  # the words along k
        half, within = part >> 2, _I32(part & 3)
        rows_of_a = [peers.word(m + 2 * half, b.or_(row, within)) for m in range(2)]
        columns_of_b = [peers.word(4 + half, b.or_(column, within)) for column in columns]
        a = [_unpacked(e, word, left) for word in rows_of_a]
        right_words = [_unpacked(e, word, right) for word in columns_of_b]
        for k in range(4 // left.itemsize):
            x = vector(b, [a[place >> 1][k] for place in range(4)])
            y = vector(b, [right_words[place & 1][k] for place in range(4)])
            sums = _added(e, x, y, sums, total)
    found = [b.extract_element(sums, _I32(place)) for place in range(4)]
    return [narrow(e, value, _F32, total) for value in found] if total is _F16 else found


def _unpacked(e: Emitter, word: Any, dtype: DType) -> list[Any]:
    """The elements in a word, as f32 or i32."""
    if dtype is _F32:
        return [e.b.bitcast(word, llvm.FloatType())]
    parts = unpack(e.b, word, dtype.bits)
    if dtype.is_float:
        return [widen(e, part, dtype) for part in parts]
    return [(e.b.sext if dtype.kind == "i" else e.b.zext)(part, _I32) for part in parts]


def _added(e: Emitter, x: Any, y: Any, sums: Any, dtype: DType) -> Any:
    if dtype.is_int:
        return e.b.add(e.b.mul(x, y), sums)
    return e.call("llvm.fma.v4f32", x.type, [x, y, sums])
