"""Matrices of a warp loaded and stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kaio.dsl.casts import integer
from kaio.dsl.elements import check_index, check_store
from kaio.dsl.fragments import ACCUMULATORS, OPERANDS, FragmentType, Role, listed
from kaio.dsl.intrinsic import Resolved, intrinsic
from kaio.dsl.matrix import TILE
from kaio.dsl.rule_error import RuleError
from kaio.dsl.values import NONE, ArrayType, BufferType, ObjectType, TupleType, Type, Weak, show
from kaio.dtypes import DType, bf16, f16, i32, i64, u32

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter
    from kaio.dsl.compiler.ir import TypedCall

__all__ = [
    "ldmatrix", "ldmatrix_a", "ldmatrix_b", "load_matrix_a", "load_matrix_b", "load_matrix_c", "stmatrix", "stmatrix_c",
    "store_matrix",
]  # fmt: skip

_I32: Any = i32
_I64: Any = i64
_U32: Any = u32
_PRODUCT = "c = kaio.mma(a, b, kaio.matrix_zeros(f32))\nout[i] = c[0] + c[3]"


_FOUR = Weak("i", (4,))


# ---------------------------------------------------------------------- checks
def _position(name: str, row: Type, column: Type) -> Type:
    """The type in which rows and columns are counted."""
    for what, given in (("row", row), ("column", column)):
        integer(given, f"the {what} of `{name}`", None)
    wide = any(isinstance(t, DType) and (t.bits == 64 or (t.kind == "u" and t.bits == 32)) for t in (row, column))
    return _I64 if wide else _I32  # type: ignore[no-any-return]


def _array(name: str, array: Type, dtypes: tuple[Any, ...]) -> BufferType | ArrayType:
    found = check_index(array, TupleType((_I32, _I32)), "array")
    if found.dtype not in dtypes:
        raise RuleError(f"the elements of `{name}` are {listed(dtypes)}, not {show(found.dtype)}", "cast them before")
    return found


def _in_shared(name: str, array: Type, dtypes: tuple[Any, ...]) -> BufferType | ArrayType:
    found = _array(name, array, dtypes)
    if found.space != "shared":
        way_out = (
            "`store_matrix` takes any array" if name.startswith("st") else "`load_matrix_a` and its kin take any array"
        )
        raise RuleError(f"`{name}` takes shared memory, not {show(array)}", way_out)
    return found


def _layout(name: str, given: tuple[Type, ...]) -> str:
    """``row``, or ``col`` where the array has the matrix transposed."""
    if not given:
        return "row"
    value = given[0].value if isinstance(given[0], ObjectType) else None
    if value not in ("row", "col"):
        raise RuleError(
            f'`layout=` of `{name}` is "row" or "col", not {show(given[0])}',
            'with "col" the array has the matrix transposed',
        )
    return str(value)


# ---------------------------------------------------------------------- loads
def _load_typing(role: Role) -> Any:
    def typing(array: Type, row: Type, column: Type, *layout: Type) -> Resolved:
        name = f"load_matrix_{role}"
        found = _array(name, array, ACCUMULATORS if role == "c" else OPERANDS)
        position = _position(name, row, column)
        fragment = FragmentType(role, found.dtype)
        return Resolved((array, position, position, *layout), fragment, (_layout(name, layout),))

    return typing


def _load(e: Emitter, call: TypedCall, array: Any, row: Any, column: Any, layout: Any = None) -> Any:
    from kaio.dsl.compiler.emission.matrix_memory import load_elements

    return load_elements(e, call, array, row, column)


def _ldmatrix_typing(role: Role) -> Any:
    straight = "row" if role == "a" else "col"

    def typing(array: Type, row: Type, column: Type, *layout: Type) -> Resolved:
        name = f"ldmatrix_{role}"
        found, position, order = _in_shared(name, array, OPERANDS), _position(name, row, column), _layout(name, layout)
        if order != straight and found.dtype.bits != 16:
            raise RuleError(
                f'`{name}` takes {show(found.dtype)} only as `layout="{straight}"`: it transposes elements of 16 bits',
                f"store the matrix the other way; `load_matrix_{role}` takes both",
            )
        return Resolved((array, position, position, *layout), FragmentType(role, found.dtype), (order,))

    return typing


def _ldmatrix(e: Emitter, call: TypedCall, array: Any, row: Any, column: Any, layout: Any = None) -> Any:
    from kaio.dsl.compiler.emission.matrix_memory import load_rows

    return load_rows(e, call, array, row, column)


@intrinsic(
    _load_typing("a"),
    emit=_load,
    example=f'{TILE}a, b = kaio.load_matrix_a(s, 0, 0, layout="col"), kaio.load_matrix_b(s, 0, 0)\n{_PRODUCT}',
    ptx="ld.shared.",
    same_bits=False,
)
def load_matrix_a(array: Any, row: int, column: int, layout: str = "row") -> Any:
    """The left matrix of a product, 16 by k, from any array of two dimensions, from `array[row, column]` on.

    k is 16 for f16 and bf16, 8 for f32, which is rounded to tf32 (to nearest, ties away from zero), and 32 for i8, u8,
    f8e4m3 and f8e5m2. With `layout="col"` the array has it transposed, k by 16; `row` and `column` are still those of
    the array. What is outside the array is not 0: the CPU device reports it.
    """
    raise AssertionError


@intrinsic(
    _load_typing("b"),
    emit=_load,
    example=f'{TILE}a, b = kaio.load_matrix_a(s, 0, 0), kaio.load_matrix_b(s, 0, 0, layout="col")\n{_PRODUCT}',
    ptx="ld.shared.",
    same_bits=False,
)
def load_matrix_b(array: Any, row: int, column: int, layout: str = "row") -> Any:
    """The right matrix of a product, k by 8, from any array of two dimensions, from `array[row, column]` on.

    With `layout="col"` the array has it transposed, 8 by k. Else as `load_matrix_a`.
    """
    raise AssertionError


@intrinsic(
    _load_typing("c"),
    emit=_load,
    example=f"{TILE}c = kaio.load_matrix_c(s, 0, 8)\nout[i] = f32(c[3])",
    ptx="ld.shared.",
)
def load_matrix_c(array: Any, row: int, column: int, layout: str = "row") -> Any:
    """A sum of 16 by 8 elements of f32, f16 or i32 from any array of two dimensions, for `mma` to add to.

    With `layout="col"` the array has it transposed, 8 by 16.
    """
    raise AssertionError


@intrinsic(
    _ldmatrix_typing("a"),
    emit=_ldmatrix,
    suspends=True,
    example=f"{TILE}a, b = kaio.ldmatrix_a(s, 0, 0), kaio.ldmatrix_b(s, 0, 0)\n{_PRODUCT}",
    ptx="ldmatrix.sync.aligned.m8n8.x4.shared.b16",
    since="sm_75",
    same_bits=False,
)
def ldmatrix_a(array: Any, row: int, column: int, layout: str = "row") -> Any:
    """As `load_matrix_a`, from shared memory, by one instruction for the warp, whose lanes all come to the same line.

    Rows of 16 bytes are read, which begin at multiples of 16 bytes: the array's rows are a multiple of that long, and
    `column` is there. Elements of other than 16 bits are not transposed.
    """
    raise AssertionError


@intrinsic(
    _ldmatrix_typing("b"),
    emit=_ldmatrix,
    suspends=True,
    example=f'{TILE}a, b = kaio.ldmatrix_a(s, 0, 0), kaio.ldmatrix_b(s, 0, 0, layout="col")\n{_PRODUCT}',
    ptx="ldmatrix.sync.aligned.m8n8.x2.shared.b16",
    since="sm_75",
    same_bits=False,
)
def ldmatrix_b(array: Any, row: int, column: int, layout: str = "row") -> Any:
    """As `load_matrix_b`, from shared memory, by one instruction for the warp, aligned as `ldmatrix_a` says.

    It reads columns: what lies as `layout="col"` may have any element type, what lies as "row" those of 16 bits.
    """
    raise AssertionError


# ---------------------------------------------------------------------- stores
def _sum(name: str, c: Type) -> FragmentType:
    if not isinstance(c, FragmentType) or c.role != "c":
        raise RuleError(f"`{name}` stores a matrix_c, not {show(c)}", "for example what `mma` gives")
    return c


def _store_typing(array: Type, row: Type, column: Type, c: Type, *layout: Type) -> Resolved:
    found, position = check_index(array, TupleType((_I32, _I32)), "array"), _position("store_matrix", row, column)
    fragment = _sum("store_matrix", c)
    if isinstance(found, BufferType) and found.access == "In":
        raise RuleError("`array` is an `In` buffer, which a kernel only reads", "annotate it `InOut`")
    check_store(found, fragment.dtype, "array", "c")
    return Resolved((array, position, position, c, *layout), NONE, (_layout("store_matrix", layout),))


def _store(e: Emitter, call: TypedCall, array: Any, row: Any, column: Any, c: Any, layout: Any = None) -> None:
    from kaio.dsl.compiler.emission.matrix_memory import store_elements

    store_elements(e, call, array, row, column, c)


def _stmatrix_c_typing(array: Type, row: Type, column: Type, c: Type, *layout: Type) -> Resolved:
    found, position = _in_shared("stmatrix_c", array, (f16, bf16)), _position("stmatrix_c", row, column)
    if _sum("stmatrix_c", c).dtype is not found.dtype:
        raise RuleError(
            f"`stmatrix_c` stores a matrix_c of {show(found.dtype)} here, not {show(c)}",
            f"cast its elements, `kaio.matrix_c(kaio.{found.dtype!r}(c[0]), …)`; `store_matrix` converts",
        )
    return Resolved((array, position, position, c, *layout), NONE, (_layout("stmatrix_c", layout),))


def _stmatrix_c(e: Emitter, call: TypedCall, array: Any, row: Any, column: Any, c: Any, layout: Any = None) -> None:
    from kaio.dsl.compiler.emission.matrix_memory import store_rows

    store_rows(e, call, array, row, column, c)


@intrinsic(
    _store_typing,
    emit=_store,
    example=f"{TILE}r = kaio.shared_mem((32, 8), f32)\n"
    "kaio.store_matrix(r, 16 * kaio.warp_id(), 0, kaio.load_matrix_c(s, 0, 0))\n"
    "kaio.bar_sync()\nout[i] = r[i // 8, i % 8]",
    ptx="st.shared",
)
def store_matrix(array: Any, row: int, column: int, c: Any, layout: str = "row") -> None:
    """Store a sum of 16 by 8 into any array of two dimensions, from `array[row, column]` on; floats convert.

    With `layout="col"` the array gets it transposed, 8 by 16.
    """


@intrinsic(
    _stmatrix_c_typing,
    emit=_stmatrix_c,
    suspends=True,
    example=f"{TILE}r = kaio.shared_mem((32, 8), f16)\n"
    "kaio.stmatrix_c(r, 16 * kaio.warp_id(), 0, kaio.load_matrix_c(s, 0, 0))\n"
    "kaio.bar_sync()\nout[i] = f32(r[i // 8, i % 8])",
    ptx="stmatrix.sync.aligned.m8n8.x2.shared.b16",
    since="sm_90",
)
def stmatrix_c(array: Any, row: int, column: int, c: Any, layout: str = "row") -> None:
    """As `store_matrix`, of f16 or bf16 into shared memory by one instruction for the warp; aligned as `ldmatrix_a`."""


# ---------------------------------------------------------------------- row by row
def _words_layout(name: str, array: BufferType | ArrayType, layout: tuple[Type, ...]) -> str:
    order = _layout(name, layout)
    if order == "col" and array.dtype.bits != 16:
        raise RuleError(f"`{name}` transposes elements of 16 bits, not {show(array.dtype)}")
    return order


def _ldmatrix_words_typing(array: Type, row: Type, column: Type, count: Type = _FOUR, *layout: Type) -> Resolved:
    found, position = _in_shared("ldmatrix", array, OPERANDS), _position("ldmatrix", row, column)
    number = count.value if isinstance(count, Weak) else None
    if number not in (1, 2, 4):
        raise RuleError(f"`ldmatrix` loads 1, 2 or 4 matrices, not {show(count)}", "write the literal")
    order = _words_layout("ldmatrix", found, layout)
    return Resolved((array, position, position, count, *layout), TupleType((_U32,) * int(number)), (order,))


def _ldmatrix_words(e: Emitter, call: TypedCall, array: Any, row: Any, column: Any, *given: Any) -> Any:
    from kaio.dsl.compiler.emission.matrix_memory import load_words

    return load_words(e, call, array, row, column)


@intrinsic(
    _ldmatrix_words_typing,
    emit=_ldmatrix_words,
    suspends=True,
    example=f"{TILE}w = kaio.ldmatrix(s, kaio.lane_id() % 8, 0, 1)\ncounts[i] = kaio.i32(w[0] & 0xFFFF)",
    ptx="ldmatrix.sync.aligned.m8n8.x1.shared.b16",
    since="sm_75",
)
def ldmatrix(array: Any, row: int, column: int, count: int = 4, layout: str = "row") -> Any:
    """Load 1, 2 or 4 matrices of 8 rows of 16 bytes from shared memory, each lane giving the place of one row.

    Lanes 0 to 7 give the rows of the first, 8 to 15 those of the second, and so on; what other lanes give is not read.
    A lane gets a tuple with a u32 of each: lane 4 * g + t the word `t` of row g, or with `layout="col"`, for elements
    of 16 bits, the elements `g` of rows 2 * t and 2 * t + 1. `matrix_a` and `matrix_b` are made of such words.
    """
    raise AssertionError


def _stmatrix_words_typing(array: Type, row: Type, column: Type, words: Type, *layout: Type) -> Resolved:
    found, position = _in_shared("stmatrix", array, OPERANDS), _position("stmatrix", row, column)
    if not isinstance(words, TupleType) or len(words.items) not in (1, 2, 4) or any(t is not _U32 for t in words.items):
        raise RuleError(f"`stmatrix` stores a tuple of 1, 2 or 4 u32, not {show(words)}", "`stmatrix_c` stores a sum")
    order = _words_layout("stmatrix", found, layout)
    return Resolved((array, position, position, words, *layout), NONE, (order,))


def _stmatrix_words(e: Emitter, call: TypedCall, array: Any, row: Any, column: Any, words: Any, *given: Any) -> None:
    from kaio.dsl.compiler.emission.matrix_memory import store_words

    store_words(e, call, array, row, column, words)


@intrinsic(
    _stmatrix_words_typing,
    emit=_stmatrix_words,
    suspends=True,
    example="r = kaio.shared_mem((16, 8), f16)\n"
    "kaio.stmatrix(r, i // 32 * 8 + i % 8, 0, (kaio.u32(0x3C003C00),))\n"
    "kaio.bar_sync()\nout[i] = f32(r[i // 8, i % 8])",
    ptx="stmatrix.sync.aligned.m8n8.x1.shared.b16",
    since="sm_90",
)
def stmatrix(array: Any, row: int, column: int, words: tuple[int, ...], layout: str = "row") -> None:
    """Store 1, 2 or 4 matrices of 8 rows of 16 bytes into shared memory: `ldmatrix` the other way."""
