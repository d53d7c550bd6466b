"""Dot products of bytes and halves packed in 32-bit words, added to a sum: CUDA's `__dp4a` and `__dp2a`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kaio.dsl import literals
from kaio.dsl.casts import number
from kaio.dsl.intrinsic import Resolved, intrinsic
from kaio.dsl.rule_error import RuleError
from kaio.dsl.values import Type, show
from kaio.dtypes import DType, i32, u32

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter
    from kaio.dsl.compiler.ir import TypedCall

__all__ = ["dp2a_hi", "dp2a_lo", "dp4a"]


def _typing(name: str) -> Any:
    def typing(a: Type, b: Type, c: Type) -> Resolved:
        words = [literals.default(number(v, f"an argument of `{name}`")) for v in (a, b, c)]
        for word in words:
            if word not in (i32, u32):
                raise RuleError(
                    f"`{name}` of {show(word)}; it takes i32 and u32", "cast it, for example `kaio.i32(...)`"
                )
        result: DType = u32 if words[0] is words[1] is u32 else i32
        return Resolved((words[0], words[1], result), result)

    return typing


def _letters(call: TypedCall) -> list[str]:
    return ["s32" if t is i32 else "u32" for t in call.operands[:2]]


def _cuda(mnemonic: str) -> Any:
    def emit(e: Emitter, call: TypedCall, a: Any, b: Any, c: Any) -> Any:
        from kaio.dsl.compiler.cuda.assembly import instruction

        return instruction(e, f"{mnemonic}.{'.'.join(_letters(call))}", a.type, [a, b, c])

    return emit


def _host(parts: tuple[tuple[int, int, int, int], ...]) -> Any:
    """`parts`: for each product the first bit and the width in a, and in b."""

    def emit(e: Emitter, call: TypedCall, a: Any, b: Any, c: Any) -> Any:
        total = c
        for start_a, width_a, start_b, width_b in parts:
            factors = (
                _part(e, word, of is i32, start, width)
                for word, of, start, width in (
                    (a, call.operands[0], start_a, width_a),
                    (b, call.operands[1], start_b, width_b),
                )
            )
            total = e.b.add(total, e.b.mul(*factors))
        return total

    return emit


def _part(e: Emitter, word: Any, signed: bool, start: int, width: int) -> Any:
    up = e.b.shl(word, e.const(i32, 32 - start - width))
    return (e.b.ashr if signed else e.b.lshr)(up, e.const(i32, 32 - width))


@intrinsic(
    _typing("dp4a"),
    cuda=_cuda("dp4a"),
    host=_host(tuple((8 * k, 8, 8 * k, 8) for k in range(4))),
    example="counts[i] = kaio.dp4a(n[i] * 0x01FF0203, 0x01020304, n[i])",
    ptx="dp4a.s32.s32",
    since="sm_61",
)
def dp4a(a: int, b: int, c: int) -> int:
    """c plus the products of the four bytes of a with those of b; bytes of an i32 are signed, of a u32 not.

    The result is a u32 where a and b are, else an i32; it wraps.
    """
    raise NotImplementedError


@intrinsic(
    _typing("dp2a_lo"),
    cuda=_cuda("dp2a.lo"),
    host=_host(((0, 16, 0, 8), (16, 16, 8, 8))),
    example="counts[i] = kaio.dp2a_lo(n[i] * 0x0001FFFF, 0x01020304, n[i])",
    ptx="dp2a.lo.s32.s32",
    since="sm_61",
)
def dp2a_lo(a: int, b: int, c: int) -> int:
    """c plus the products of the two halves of a with the two lower bytes of b; types are those of `dp4a`."""
    raise NotImplementedError


@intrinsic(
    _typing("dp2a_hi"),
    cuda=_cuda("dp2a.hi"),
    host=_host(((0, 16, 16, 8), (16, 16, 24, 8))),
    example="counts[i] = kaio.dp2a_hi(n[i] * 0x0001FFFF, 0x01020304, n[i])",
    ptx="dp2a.hi.s32.s32",
    since="sm_61",
)
def dp2a_hi(a: int, b: int, c: int) -> int:
    """c plus the products of the two halves of a with the two upper bytes of b; types are those of `dp4a`."""
    raise NotImplementedError
