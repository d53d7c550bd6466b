"""Matrix units: what a warp multiplies with one instruction, made of numbers and multiplied."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kaio.dsl import stores
from kaio.dsl.fragments import ACCUMULATORS, OPERANDS, FragmentType, Role, listed, products
from kaio.dsl.intrinsic import Resolved, intrinsic
from kaio.dsl.rule_error import RuleError
from kaio.dsl.values import ObjectType, Type, Weak, show
from kaio.dtypes import DType, bf16, u32

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter
    from kaio.dsl.compiler.ir import TypedCall

__all__ = ["TILE", "matrix_a", "matrix_b", "matrix_c", "matrix_zeros", "mma"]

_U32: Any = u32

TILE = """\
s = kaio.shared_mem((16, 16), kaio.f16)
for k in range(4):
    s[i // 4, i % 4 * 4 + k] = f16(x[i] + k)
kaio.bar_sync()
"""
"""What examples of matrices begin with."""


# ---------------------------------------------------------------------- made of numbers
def _dtype(name: str, dtype: Type, known: tuple[Any, ...]) -> Any:
    value = dtype.value if isinstance(dtype, ObjectType) else None
    if value not in known:
        raise RuleError(f"the elements of `{name}` are {listed(known)}, not {show(dtype)}")
    return value


def _zeros_typing(dtype: Type) -> Resolved:
    return Resolved((dtype,), FragmentType("c", _dtype("matrix_zeros", dtype, ACCUMULATORS)))


def _zeros(e: Emitter, call: TypedCall, dtype: Any) -> tuple[Any, ...]:
    assert isinstance(call.result, FragmentType)
    return (e.const(call.result.dtype, 0),) * 4


def _words_typing(role: Role) -> Any:
    def typing(dtype: Type, *words: Type) -> Resolved:
        name = f"matrix_{role}"
        fragment = FragmentType(role, _dtype(name, dtype, OPERANDS))
        for word in words:
            if not isinstance(word, DType | Weak):
                raise RuleError(f"a word of `{name}` is a u32, not {show(word)}")
            stores.store(word, _U32)
        return Resolved((dtype, *[_U32] * len(words)), fragment)

    return typing


def _words(e: Emitter, call: TypedCall, dtype: Any, *words: Any) -> tuple[Any, ...]:
    return words


def _c_typing(c0: Type, c1: Type, c2: Type, c3: Type) -> Resolved:
    given = (c0, c1, c2, c3)
    known = (*ACCUMULATORS, bf16)
    dtype: Any = next((t for t in given if isinstance(t, DType)), None)
    if dtype not in known:
        raise RuleError(
            f"`matrix_c` is made of four {listed(known)}, not of {', '.join(map(show, given))}", "cast them"
        )
    for value in given:
        if not isinstance(value, DType | Weak) or (isinstance(value, DType) and value is not dtype):
            raise RuleError(f"an element of `matrix_c` is {show(dtype)}, and another {show(value)}", "cast one of them")
        stores.store(value, dtype)
    return Resolved((dtype,) * 4, FragmentType("c", dtype))


def _c(e: Emitter, call: TypedCall, *elements: Any) -> tuple[Any, ...]:
    return elements


@intrinsic(
    _zeros_typing,
    emit=_zeros,
    example=f"{TILE}a, b = kaio.load_matrix_a(s, 0, 0), kaio.load_matrix_b(s, 0, 0)\n"
    "out[i] = kaio.mma(a, b, kaio.matrix_zeros(f32))[1]",
    ptx="mma.sync",
    same_bits=False,
)
def matrix_zeros(dtype: Any) -> Any:
    """A sum of 16 by 8 elements of f32, f16 or i32 that are all 0, for `mma` to add to."""
    raise AssertionError


@intrinsic(
    _c_typing,
    emit=_c,
    example=f"{TILE}c = kaio.load_matrix_c(s, 0, 0)\n"
    "d = kaio.matrix_c(c[0] * 3, c[1], c[2] * 3, c[3])\nout[i] = f32(d[2])",
    ptx="mul.rn.f16",
)
def matrix_c(c0: Any, c1: Any, c2: Any, c3: Any) -> Any:
    """A sum of 16 by 8 made of each lane's four elements, which `c[0]` to `c[3]` of another are.

    Lane 4 * g + t has those at (g, 2 * t), (g, 2 * t + 1), (g + 8, 2 * t) and (g + 8, 2 * t + 1).
    """
    raise AssertionError


@intrinsic(
    _words_typing("a"),
    emit=_words,
    example="one = kaio.u32(0x3C003C00)\na, b = kaio.matrix_a(f16, one, one, one, one), kaio.matrix_b(f16, one, one)\n"
    "out[i] = kaio.mma(a, b, kaio.matrix_zeros(f32))[0]",
    ptx="mma.sync",
)
def matrix_a(dtype: Any, a0: int, a1: int, a2: int, a3: int) -> Any:
    """The left matrix of a product made of each lane's four words, which `a[0]` to `a[3]` of another are.

    A word holds 4 bytes of a row, the first element lowest. A row is 32 bytes long; lane 4 * g + t has those at 4 * t
    of rows g and g + 8, then those at 4 * t + 16 of the two.
    """
    raise AssertionError


@intrinsic(
    _words_typing("b"),
    emit=_words,
    example="one = kaio.u32(0x3C003C00)\na, b = kaio.matrix_a(f16, one, one, one, one), kaio.matrix_b(f16, one, one)\n"
    "out[i] = kaio.mma(a, b, kaio.matrix_zeros(f32))[0]",
    ptx="mma.sync",
)
def matrix_b(dtype: Any, b0: int, b1: int) -> Any:
    """The right matrix of a product made of each lane's two words, which `b[0]` and `b[1]` of another are.

    A word holds 4 bytes of a column, the first element lowest. A column is 32 bytes long; lane 4 * g + t has those at
    4 * t and at 4 * t + 16 of column g.
    """
    raise AssertionError


# ---------------------------------------------------------------------- multiplied
_NTH = {"a": "first", "b": "second", "c": "third"}


def _operand(role: Role, given: Type) -> FragmentType:
    if isinstance(given, FragmentType) and given.role == role:
        return given
    made = "matrix_zeros" if role == "c" else f"load_matrix_{role}"
    raise RuleError(
        f"the {_NTH[role]} operand of `mma` is a matrix_{role}, not {show(given)}", f"make it with `{made}`"
    )


def _mma_typing(a: Type, b: Type, c: Type) -> Resolved:
    left, right, total = _operand("a", a), _operand("b", b), _operand("c", c)
    sums = products(left.dtype, right.dtype)
    if not sums:
        raise RuleError(f"`mma` does not multiply {show(left)} by {show(right)}", "give both one element type")
    if total.dtype not in sums:
        raise RuleError(
            f"`mma` of {show(left)} and {show(right)} adds to a matrix_c of {listed(sums)}, not to {show(total)}",
            f"begin with `kaio.matrix_zeros(kaio.{sums[0]!r})`",
        )
    return Resolved((left, right, total), total)


def _mma_cuda(e: Emitter, call: TypedCall, a: Any, b: Any, c: Any) -> Any:
    from kaio.dsl.compiler.emission.mma import mma_cuda

    return mma_cuda(e, call, a, b, c)


def _mma_host(e: Emitter, call: TypedCall, a: Any, b: Any, c: Any) -> Any:
    from kaio.dsl.compiler.emission.mma import mma_host

    return mma_host(e, call, a, b, c)


@intrinsic(
    _mma_typing,
    cuda=_mma_cuda,
    host=_mma_host,
    suspends=True,
    example=f"{TILE}a, b = kaio.load_matrix_a(s, 0, 0), kaio.load_matrix_b(s, 0, 8)\n"
    "c = kaio.mma(a, b, kaio.matrix_zeros(f32))\nout[i] = c[0] + c[3]",
    ptx="mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
    since="sm_80",
    same_bits=False,
)
def mma(a: Any, b: Any, c: Any) -> Any:
    """a * b + c of matrices that the warp holds, by its matrix unit: a is 16 by k, b k by 8, c 16 by 8.

    f16 is added up in f32 or f16; bf16, f32 (as tf32), f8e4m3 and f8e5m2 (also one with the other; from sm_89) in f32;
    i8 and u8 (also one with the other) in i32, which wraps. All 32 lanes of the warp come to the same line.

    Integers are exact. Products of floats are exact too, but the order and the rounding of their sum are those of the
    hardware: the CPU device adds from k = 0 on and rounds each sum to f32, those of f16 to f16 at the end.
    """
    raise AssertionError
