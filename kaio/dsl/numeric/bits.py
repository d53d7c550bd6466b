"""The bits of integers: counts, reversals, permutations of bytes, shifts across two words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kaio.dsl.intrinsic import intrinsic
from kaio.dsl.numeric.operands import integers, operand_type
from kaio.dtypes import i32

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter
    from kaio.dsl.compiler.ir import TypedCall

__all__ = [
    "brev", "byte_perm", "clz", "ffs", "funnelshift_l", "funnelshift_lc", "funnelshift_r", "funnelshift_rc", "popc",
]  # fmt: skip


def _width(call: TypedCall) -> int:
    return operand_type(call).bits


def _as_i32(e: Emitter, count: Any) -> Any:
    bits = count.type.width
    return count if bits == 32 else e.b.trunc(count, e.integer(32)) if bits > 32 else e.b.zext(count, e.integer(32))


def _counted(name: str, *flags: int) -> Any:
    def emit(e: Emitter, call: TypedCall, x: Any) -> Any:
        return _as_i32(e, e.call(f"llvm.{name}.i{_width(call)}", x.type, [x, *(e.integer(1)(flag) for flag in flags)]))

    return emit


@intrinsic(integers("popc", result=i32), emit=_counted("ctpop"), example="counts[i] = kaio.popc(n[i])", ptx="popc.b32")
def popc(x: int) -> int:
    """How many bits are set, as an i32."""
    raise NotImplementedError


@intrinsic(integers("clz", result=i32), emit=_counted("ctlz", 0), example="counts[i] = kaio.clz(n[i])", ptx="clz.b32")
def clz(x: int) -> int:
    """How many bits above the highest one that is set, as an i32; the width of the type for 0."""
    raise NotImplementedError


def _ffs(e: Emitter, call: TypedCall, x: Any) -> Any:
    zeros = _as_i32(e, e.call(f"llvm.cttz.i{_width(call)}", x.type, [x, e.integer(1)(0)]))
    return e.b.select(e.b.icmp_unsigned("==", x, x.type(0)), e.const(i32, 0), e.b.add(zeros, e.const(i32, 1)))


@intrinsic(integers("ffs", result=i32), emit=_ffs, example="counts[i] = kaio.ffs(n[i])", ptx="popc.b32")
def ffs(x: int) -> int:
    """The position of the lowest bit that is set, counted from 1, as an i32; 0 for 0."""
    raise NotImplementedError


def _brev_cuda(e: Emitter, call: TypedCall, x: Any) -> Any:
    bits = _width(call)
    if bits == 64:
        return e.call("__nv_brevll", x.type, [x])
    wide = x if bits == 32 else e.b.zext(x, e.integer(32))
    turned = e.call("__nv_brev", wide.type, [wide])
    return turned if bits == 32 else e.b.trunc(e.b.lshr(turned, turned.type(32 - bits)), x.type)


@intrinsic(
    integers("brev"),
    cuda=_brev_cuda,
    host=lambda e, call, x: e.call(f"llvm.bitreverse.i{_width(call)}", x.type, [x]),
    example="counts[i] = kaio.brev(n[i])",
    ptx="brev.b32",
)
def brev(x: int) -> int:
    """The bits in reverse order, in the type of x."""
    raise NotImplementedError


# ---------------------------------------------------------------------- bytes
def _byte_perm_host(e: Emitter, call: TypedCall, x: Any, y: Any, selector: Any) -> Any:
    """PTX `prmt`: each nibble of the selector names a byte of y:x; its top bit asks for copies of that byte's sign."""
    b, i32_, i64 = e.b, e.integer(32), e.integer(64)
    both = b.or_(b.zext(x, i64), b.shl(b.zext(y, i64), i64(32)))
    result = i32_(0)
    for k in range(4):
        nibble = b.lshr(selector, i32_(4 * k))
        place = b.zext(b.shl(b.and_(nibble, i32_(7)), i32_(3)), i64)
        byte = b.trunc(b.lshr(both, place), e.integer(8))
        signs = b.ashr(byte, e.integer(8)(7))
        wants_sign = b.icmp_unsigned("!=", b.and_(nibble, i32_(8)), i32_(0))
        chosen = b.zext(b.select(wants_sign, signs, byte), i32_)
        result = b.or_(result, b.shl(chosen, i32_(8 * k)))
    return result


@intrinsic(
    integers("byte_perm", bits=(32,)),
    cuda=lambda e, call, x, y, selector: e.call("llvm.nvvm.prmt", x.type, [x, y, selector]),
    host=_byte_perm_host,
    example="counts[i] = kaio.byte_perm(n[i], n[i] + 7, 0x3705)",
    ptx="prmt.b32",
)
def byte_perm(x: int, y: int, selector: int) -> int:
    """Four of the eight bytes of x (0 to 3) and y (4 to 7), one for each of the selector's lowest four hex digits.

    A digit of 8 or more gives eight copies of the top bit of byte `digit - 8`, as PTX's `prmt`. For i32 and u32.
    """
    raise NotImplementedError


# ---------------------------------------------------------------------- two words
def _funnel(left: bool, clamp: bool) -> Any:
    def emit(e: Emitter, call: TypedCall, low: Any, high: Any, shift: Any) -> Any:
        b, bits = e.b, _width(call)
        kind = low.type
        if clamp:
            over = b.icmp_unsigned(">=", shift, kind(bits))
        by = b.and_(shift, kind(bits - 1))
        rest = b.sub(kind(bits - 1), by)  # the other word moves by `bits - by`, in two steps that are each in range
        if left:
            moved = b.or_(b.shl(high, by), b.lshr(b.lshr(low, kind(1)), rest))
        else:
            moved = b.or_(b.lshr(low, by), b.shl(b.shl(high, kind(1)), rest))
        return b.select(over, low if left else high, moved) if clamp else moved

    return emit


def _funnel_cuda(left: bool, clamp: bool) -> Any:
    plain = _funnel(left, clamp)
    mnemonic = f"shf.{'l' if left else 'r'}.{'clamp' if clamp else 'wrap'}.b32"

    def emit(e: Emitter, call: TypedCall, low: Any, high: Any, shift: Any) -> Any:
        from kaio.dsl.compiler.cuda.assembly import instruction

        if _width(call) != 32:
            return plain(e, call, low, high, shift)
        return instruction(e, mnemonic, low.type, [low, high, shift])

    return emit


@intrinsic(
    integers("funnelshift_l"),
    cuda=_funnel_cuda(True, False),
    host=_funnel(True, False),
    example="counts[i] = kaio.funnelshift_l(n[i], n[i] + 1, 9)",
    ptx="shf.l.wrap.b32",
)
def funnelshift_l(low: int, high: int, shift: int) -> int:
    """The high word of the pair high:low shifted left by `shift` modulo the width; low twice gives a rotation."""
    raise NotImplementedError


@intrinsic(
    integers("funnelshift_lc"),
    cuda=_funnel_cuda(True, True),
    host=_funnel(True, True),
    example="counts[i] = kaio.funnelshift_lc(n[i], n[i] + 1, n[i])",
    ptx="shf.l.clamp.b32",
)
def funnelshift_lc(low: int, high: int, shift: int) -> int:
    """The high word of the pair high:low shifted left by `shift`, at most by the width, which gives low."""
    raise NotImplementedError


@intrinsic(
    integers("funnelshift_r"),
    cuda=_funnel_cuda(False, False),
    host=_funnel(False, False),
    example="counts[i] = kaio.funnelshift_r(n[i], n[i] + 1, 9)",
    ptx="shf.r.wrap.b32",
)
def funnelshift_r(low: int, high: int, shift: int) -> int:
    """The low word of the pair high:low shifted right by `shift` modulo the width."""
    raise NotImplementedError


@intrinsic(
    integers("funnelshift_rc"),
    cuda=_funnel_cuda(False, True),
    host=_funnel(False, True),
    example="counts[i] = kaio.funnelshift_rc(n[i], n[i] + 1, n[i])",
    ptx="shf.r.clamp.b32",
)
def funnelshift_rc(low: int, high: int, shift: int) -> int:
    """The low word of the pair high:low shifted right by `shift`, at most by the width, which gives high."""
    raise NotImplementedError
