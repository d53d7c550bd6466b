"""Matrices of a warp: ``mma``, ``ldmatrix``, ``stmatrix``, as the typed IR has them on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir as llvm

from kaio.dsl.compiler.emission.access import Access
from kaio.dsl.compiler.emission.matrix_memory import Rows, rows_of_all
from kaio.dsl.compiler.emission.mma import multiplied
from kaio.dsl.compiler.emission.packing import pack, unpack
from kaio.dsl.compiler.ptx.kinds import bits_of, dtype_of
from kaio.dsl.compiler.ptx.opcodes import Step, opcode
from kaio.dsl.compiler.ptx.syntax import Operand, Vector
from kaio.dtypes import u16

if TYPE_CHECKING:
    from kaio.dsl.compiler.ptx.emitter import PtxEmitter

_I64 = llvm.IntType(64)
_FACTORS = "f16 bf16 tf32 e4m3 e5m2 s8 u8"


@opcode("mma.sync.aligned.shape.row.col.sum.left.right.before", shape="m16n8k8 m16n8k16 m16n8k32",
        sum="f32 f16 s32", left=_FACTORS, right=_FACTORS, before="f32 f16 s32", suspends=True)  # fmt: skip
def _multiply(e: PtxEmitter, i: Step) -> None:
    to, a, b, c = i.operands
    total, left, right = i["sum"], i["left"], i["right"]
    if i["shape"] != f"m16n8k{256 // bits_of(left)}" or total != i["before"]:
        e.target.refuse(e, i, "that shape")
    of: Any = [dtype_of(kind.replace("tf32", "f32")) for kind in (left, right, total)]
    kind = "b32" if total == "f16" else total
    given = [_words(e, operand, "b32") for operand in (a, b)]
    sums = _words(e, c, kind)
    if total == "f16":
        sums = [half for word in sums for half in unpack(e.b, word, 16)]
    made = multiplied(e, (of[0], of[1], of[2]), given[0], given[1], sums)
    if total == "f16":
        made = (pack(e.b, made[:2]), pack(e.b, made[2:]))
    for register, value in zip(_items(to), made, strict=True):
        e.target.write(e, register, value, kind)


def _items(operand: Operand) -> tuple[Operand, ...]:
    return operand.items if isinstance(operand, Vector) else (operand,)


def _words(e: PtxEmitter, operand: Operand, kind: str) -> list[Any]:
    return [e.target.read(e, item, kind) for item in _items(operand)]


# ---------------------------------------------------------------------- rows
@opcode("ldmatrix.sync.aligned.m8n8.count{.trans}{.space}.b16", count="x1 x2 x4", space="shared shared::cta",
        suspends=True)  # fmt: skip
def _load(e: PtxEmitter, i: Step) -> None:
    to, address = i.operands
    rows = _rows(e, address, "ldmatrix", "read", int(i["count"][1:]))
    for matrix, register in enumerate(_items(to)):
        e.target.write(e, register, rows.load(matrix, bool(i["trans"])), "b32")


@opcode("stmatrix.sync.aligned.m8n8.count{.trans}{.space}.b16", count="x1 x2 x4", space="shared shared::cta",
        suspends=True)  # fmt: skip
def _store(e: PtxEmitter, i: Step) -> None:
    address, source = i.operands
    words = _words(e, source, "b32")
    rows = _rows(e, address, "stmatrix", "write", int(i["count"][1:]))
    for matrix, word in enumerate(words):
        rows.store(matrix, word, bool(i["trans"]))


def _rows(e: PtxEmitter, address: Operand, name: str, access: str, count: int) -> Rows:
    """The rows of all lanes; of a few matrices the addresses of the first lanes count."""
    b, target = e.b, e.target
    counts = b.icmp_unsigned("<", b.and_(target.linear_thread(e), llvm.IntType(32)(31)), llvm.IntType(32)(8 * count))
    pointer = target.address(e, address, "shared", 16, access, counts=counts)
    place = b.ptrtoint(pointer, _I64)
    is_aligned = b.icmp_unsigned("==", b.and_(place, _I64(15)), _I64(0))
    what = "`ldmatrix` and `stmatrix` take rows at multiples of 16 bytes"
    target.check(e, b.or_(is_aligned, b.not_(counts)), what)
    return rows_of_all(e, place, name, lambda kind: Access(kind, "shared", "", u16))
