"""Loads, stores and hints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir as llvm

from kaio.dsl.compiler.ptx.kinds import bits_of, llvm_of
from kaio.dsl.compiler.ptx.opcodes import Step, opcode
from kaio.dsl.compiler.ptx.syntax import Operand, Vector
from kaio.dsl.spans import check_alignment

if TYPE_CHECKING:
    from kaio.dsl.compiler.ptx.emitter import PtxEmitter

__all__ = ["SPACES"]

SPACES = "global shared shared::cta shared::cluster local const param param::entry param::func"
_TYPES = "b8 b16 b32 b64 u8 u16 u32 u64 s8 s16 s32 s64 f32 f64"
_SCOPES = "cta cluster gpu sys"
_CACHES = "ca cg cs lu cv wb wt"
_HINTS = "L1::evict_normal L1::evict_unchanged L1::evict_first L1::evict_last L1::no_allocate L2::64B L2::128B L2::256B"


@opcode("ld{.volatile}{.weak}{.order}{.scope}{.space}{.cache}{.nc}{.hint}{.count}.type", order="relaxed",
        scope=_SCOPES, space=SPACES, cache=_CACHES, hint=_HINTS, count="v2 v4 v8", type=_TYPES)  # fmt: skip
@opcode("ld.acquire.scope{.space}{.hint}{.count}.type", scope=_SCOPES, space=SPACES, hint=_HINTS, count="v2 v4",
        type=_TYPES)  # fmt: skip
def _load(e: PtxEmitter, i: Step) -> None:
    to, address = i.operands
    items = to.items if isinstance(to, Vector) else (to,)
    kind = i["type"]
    for item, pointer in zip(items, _places(e, i, address, len(items), _looks(i)), strict=True):
        e.target.write(e, item, _loaded(e, i, pointer), kind)


@opcode("st{.volatile}{.weak}{.order}{.scope}{.space}{.cache}{.hint}{.count}.type", order="relaxed release",
        scope=_SCOPES, space=SPACES, cache=_CACHES, hint=_HINTS, count="v2 v4 v8", type=_TYPES)  # fmt: skip
def _store(e: PtxEmitter, i: Step) -> None:
    address, source = i.operands
    items = source.items if isinstance(source, Vector) else (source,)
    kind = i["type"]
    values = [e.target.read(e, item, kind) for item in items]
    for value, pointer in zip(values, _places(e, i, address, len(items), "write"), strict=True):
        if _is_whole(i):
            order = "release" if i["order"] == "release" else "monotonic"
            e.b.store_atomic(value, pointer, order, bits_of(kind) // 8)
        else:
            e.b.store(value, pointer, align=bits_of(kind) // 8)


def _places(e: PtxEmitter, i: Step, address: Operand, count: int, access: str) -> list[Any]:
    """Pointers to so many elements that lie behind each other."""
    nbytes = bits_of(i["type"]) // 8
    start = e.target.address(e, address, i["space"], nbytes * count, access)
    if count > 1 and "param" not in i["space"]:
        check_alignment(e, start, nbytes * count, f"`{i.instruction.opcode}` is at")
    kind = llvm_of(i["type"]).as_pointer()
    places = [e.b.gep(start, [llvm.IntType(64)(nbytes * k)]) if k else start for k in range(count)]
    return [e.b.bitcast(place, kind) for place in places]


def _looks(i: Step) -> str:
    """What a load does: one that is volatile may look at the word in which something is updated."""
    return "atomic" if _is_whole(i) else "read"


def _is_whole(i: Step) -> bool:
    """Whether the access is one for other threads, too."""
    return bool(i["volatile"] or i["order"] or "acquire" in i.instruction.opcode) and "param" not in i["space"]


def _loaded(e: PtxEmitter, i: Step, pointer: Any) -> Any:
    nbytes = bits_of(i["type"]) // 8
    if _is_whole(i):
        return e.b.load_atomic(pointer, "acquire" if "acquire" in i.instruction.opcode else "monotonic", nbytes)
    return e.b.load(pointer, align=nbytes)


@opcode(
    "prefetch{.space}.level", "prefetchu.level", space="global local", level="L1 L2 L2::evict_last L2::evict_normal"
)
@opcode("applypriority{.space}.level", "discard{.space}.level", space="global", level="L2::evict_normal L2")
def _hint(e: PtxEmitter, i: Step) -> None:
    """Nothing that a program can see."""
