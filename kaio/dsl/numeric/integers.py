"""Arithmetic of integers that operators do not have: high products, averages, distances, divisors, roots."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from kaio.dsl import primitives
from kaio.dsl.intrinsic import Resolved, intrinsic, standard
from kaio.dsl.numeric.operands import Typing, absolute, at_least, integers, one, result_type
from kaio.dsl.rule_error import RuleError
from kaio.dsl.values import Type, Weak
from kaio.dtypes import DType, f64, u32, u64

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter
    from kaio.dsl.compiler.ir import TypedCall

__all__ = ["hadd", "mul24", "mulhi", "rhadd", "sad"]


# ---------------------------------------------------------------------- products, averages, distances
def _mulhi_wide(e: Emitter, call: TypedCall, x: Any, y: Any) -> Any:
    dtype = result_type(call)
    wide = e.integer(2 * dtype.bits)
    extend = e.b.sext if dtype.kind == "i" else e.b.zext
    product = e.b.mul(extend(x, wide), extend(y, wide))
    return e.b.trunc(e.b.lshr(product, wide(dtype.bits)), e.llvm(dtype))


def _mulhi_cuda(e: Emitter, call: TypedCall, x: Any, y: Any) -> Any:
    dtype = result_type(call)
    if dtype.bits < 32:
        return _mulhi_wide(e, call, x, y)
    return e.call(f"llvm.nvvm.mulhi.{primitives.PTX_INTEGER[dtype.kind, dtype.bits]}", e.llvm(dtype), [x, y])


@intrinsic(
    integers("mulhi"),
    cuda=_mulhi_cuda,
    host=_mulhi_wide,
    example="counts[i] = kaio.mulhi(n[i], 0x7FFFFFFF)",
    ptx="mul.hi.s32",
)
def mulhi(x: int, y: int) -> int:
    """The upper half of the product, which `x * y` drops."""
    raise NotImplementedError


def _mul24(e: Emitter, call: TypedCall, x: Any, y: Any) -> Any:
    """Of the lowest 24 bits: sign-extended, or with zeros above."""
    dtype = result_type(call)
    eight = e.const(dtype, 8)
    back = e.b.ashr if dtype.kind == "i" else e.b.lshr
    return e.b.mul(*(back(e.b.shl(v, eight), eight) for v in (x, y)))


@intrinsic(
    integers("mul24", bits=(32,)),
    emit=_mul24,
    example="counts[i] = kaio.mul24(n[i], n[i] + 0x7FFFFF)",
    ptx="mul.lo.s32",
)
def mul24(x: int, y: int) -> int:
    """The lower half of the product of the lowest 24 bits of two i32 or u32; no faster than `*` on a GPU of today."""
    raise NotImplementedError


def _average(up: bool) -> Any:
    def emit(e: Emitter, call: TypedCall, x: Any, y: Any) -> Any:
        dtype, b = result_type(call), e.b
        half = (b.ashr if dtype.kind == "i" else b.lshr)(b.xor(x, y), e.const(dtype, 1))
        return b.sub(b.or_(x, y), half) if up else b.add(b.and_(x, y), half)

    return emit


@intrinsic(integers("hadd"), emit=_average(False), example="counts[i] = kaio.hadd(n[i], 7)", ptx="shr.s32")
def hadd(x: int, y: int) -> int:
    """The average of two integers, rounded down, without overflow."""
    raise NotImplementedError


@intrinsic(integers("rhadd"), emit=_average(True), example="counts[i] = kaio.rhadd(n[i], 7)", ptx="shr.s32")
def rhadd(x: int, y: int) -> int:
    """The average of two integers, rounded up, without overflow."""
    raise NotImplementedError


def _sad(e: Emitter, call: TypedCall, x: Any, y: Any, z: Any) -> Any:
    from kaio.dsl.compiler.emission.comparisons import compare_same

    b, above = e.b, compare_same(e, ">", x, y, result_type(call))
    return b.add(b.select(above, b.sub(x, y), b.sub(y, x)), z)


def _sad_cuda(e: Emitter, call: TypedCall, x: Any, y: Any, z: Any) -> Any:
    dtype = result_type(call)
    if dtype.bits != 32:
        return _sad(e, call, x, y, z)
    return e.call(f"llvm.nvvm.sad.{primitives.PTX_INTEGER[dtype.kind, dtype.bits]}", e.llvm(dtype), [x, y, z])


@intrinsic(integers("sad"), cuda=_sad_cuda, host=_sad, example="counts[i] = kaio.sad(n[i], 20, n[i])", ptx="sad.s32")
def sad(x: int, y: int, z: int) -> int:
    """`abs(x - y) + z`, whose difference does not overflow; the sum wraps."""
    raise NotImplementedError


# ---------------------------------------------------------------------- divisors
def _several(name: str) -> Typing:
    return at_least(1, integers(name), f"`{name}` takes an integer or more", f"for example `math.{name}(a, b)`")


def _divisor(e: Emitter, x: Any, y: Any) -> Any:
    """Euclid's algorithm, of unsigned integers."""
    b, kind = e.b, x.type
    before, head, body, done = b.block, e.block("gcd"), e.block("gcd.step"), e.block("gcd.done")
    b.branch(head)
    b.position_at_end(head)
    a, rest = b.phi(kind), b.phi(kind)
    b.cbranch(b.icmp_unsigned("!=", rest, kind(0)), body, done)
    b.position_at_end(body)
    left = b.urem(a, rest)
    b.branch(head)
    for phi, start, update in ((a, x, rest), (rest, y, left)):
        phi.add_incoming(start, before)
        phi.add_incoming(update, body)
    b.position_at_end(done)
    return a


def _gcd(e: Emitter, call: TypedCall, *values: Any) -> Any:
    sizes = [absolute(e, value, result_type(call)) for value in values]
    result = sizes[0]
    for size in sizes[1:]:
        result = _divisor(e, result, size)
    return result


def _lcm(e: Emitter, call: TypedCall, *values: Any) -> Any:
    sizes = [absolute(e, value, result_type(call)) for value in values]
    result = sizes[0]
    for size in sizes[1:]:
        divisor = _divisor(e, result, size)
        safe = e.b.select(e.b.icmp_unsigned("==", divisor, divisor.type(0)), divisor.type(1), divisor)
        result = e.b.mul(e.b.udiv(result, safe), size)
    return result


def _integers(*values: Any) -> None: ...


standard(
    math.gcd,
    _several("gcd"),
    _gcd,
    _integers,
    "The greatest common divisor of integers, in their type; 0 where all are 0.",
    example="counts[i] = math.gcd(n[i] * 6, 54)",
    ptx="rem.u32",
)
standard(
    math.lcm,
    _several("lcm"),
    _lcm,
    _integers,
    "The least common multiple of integers, in their type, wrapping; 0 where one is 0.",
    example="counts[i] = math.lcm(n[i], 6)",
    ptx="div.u32",
)


# ---------------------------------------------------------------------- roots
def _isqrt_typing(n: Type) -> Resolved:
    if isinstance(n, Weak) and min(n.values) < 0:
        raise RuleError(f"`isqrt({min(n.values)})`: a negative number has no square root")
    return integers("isqrt")(n)


def _isqrt(e: Emitter, call: TypedCall, n: Any) -> Any:
    """By the root in f64, which is off by one at most for 64 bits and exact below."""
    dtype, b = result_type(call), e.b
    zero = e.const(dtype, 0)
    if dtype.kind == "i":
        negative = b.icmp_signed("<", n, zero)
        e.target.check(e, b.not_(negative), "isqrt of a negative number")
        n = b.select(negative, zero, n)
    unsigned: DType = u64 if dtype.bits == 64 else u32
    number = b.zext(n, e.llvm(unsigned)) if dtype.bits < 32 else n
    root = e.use(primitives.sqrt, b.uitofp(number, e.llvm(f64)), f64)
    root = e.use(primitives.float_to_int, root, f64, unsigned, "trunc")
    if dtype.bits == 64:
        root = _exact_root(e, n, root)
    return b.trunc(root, e.llvm(dtype)) if dtype.bits < 32 else root


def _exact_root(e: Emitter, n: Any, root: Any) -> Any:
    b, most, one = e.b, e.const(u64, 2**32 - 1), e.const(u64, 1)
    root = b.select(b.icmp_unsigned(">", root, most), most, root)
    root = b.select(b.icmp_unsigned(">", b.mul(root, root), n), b.sub(root, one), root)
    above = b.add(root, one)
    is_more = b.and_(b.icmp_unsigned("<=", above, most), b.icmp_unsigned("<=", b.mul(above, above), n))
    return b.select(is_more, above, root)


standard(
    math.isqrt,
    _isqrt_typing,
    _isqrt,
    one,
    "The whole part of the square root of an integer, in its type; 0 of a negative one (a fault where checked).",
    example="counts[i] = math.isqrt(n[i] * 1000)",
    ptx="sqrt.rn.f64",
)
